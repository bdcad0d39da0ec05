#include "live/phase.h"

#include <unistd.h>

namespace muster::bench {

Outcome<Measurement> Measurement::begin(const BenchCluster& cluster, std::map<std::string, pid_t> processes) {
  auto writes = cluster.writes();
  if (!writes) return std::unexpected(writes.error());
  processes.merge(cluster.processes());
  processes["bench"] = getpid();
  return Measurement(std::move(*writes), std::move(processes));
}

Outcome<WriteCounts> Measurement::writes(const BenchCluster& cluster, Session& session) const {
  std::int64_t before = -1;
  for (int i = 0;; ++i) {
    auto now = cluster.writes();
    if (!now) return std::unexpected(now.error());
    auto since = difference(*now, writes_);
    const auto counted = total(since, Writer::kCounted);
    if (counted == before || i == 20) return since;
    before = counted;
    session.pause(milliseconds(2000));
  }
}

Outcome<Phase> begin_bare(const BenchCluster& cluster) {
  auto session = Session::open(cluster, BenchCluster::kBare);
  if (!session) return std::unexpected(session.error());
  auto measurement = Measurement::begin(cluster, {});
  if (!measurement) return std::unexpected(measurement.error());
  return Phase{nullptr, std::move(*session), std::move(*measurement)};
}

Outcome<Phase> begin_muster(BenchCluster& cluster) {
  auto muster = cluster.start_muster();
  if (!muster) return std::unexpected(muster.error());
  auto session = Session::open(cluster, BenchCluster::kTeam);
  if (!session) return std::unexpected(session.error());
  cluster.settle();
  const pid_t pid = (*muster)->pid();
  auto measurement = Measurement::begin(cluster, {{"muster", pid}});
  if (!measurement) return std::unexpected(measurement.error());
  return Phase{std::move(*muster), std::move(*session), std::move(*measurement), resident_memory(pid)};
}

}  // namespace muster::bench
