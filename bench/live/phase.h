// One of the ways to the same pods: what it runs with, and what is measured around it.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include "live/cluster.h"
#include "live/session.h"
#include "process.h"

namespace muster::bench {

// Everything that is measured around the work.
class Measurement {
 public:
  static Outcome<Measurement> begin(const BenchCluster& cluster, std::map<std::string, pid_t> processes);

  void start() { cpu_ = take_cpu(processes_); }
  CpuUse stop() const { return take_cpu(processes_) - cpu_; }

  // Waits until no writes that count come any more, and says how many there were.
  Outcome<WriteCounts> writes(const BenchCluster& cluster, Session& session) const;

 private:
  Measurement(WriteCounts writes, std::map<std::string, pid_t> processes)
      : writes_(std::move(writes)), processes_(std::move(processes)) {}

  WriteCounts writes_;
  std::map<std::string, pid_t> processes_;
  CpuSnapshot cpu_;
};

struct Phase {
  std::unique_ptr<MusterProcess> muster;  // null: a bare client
  std::unique_ptr<Session> session;
  Measurement measurement;
  std::int64_t memory_before = 0;  // Muster's, in bytes
};
Outcome<Phase> begin_bare(const BenchCluster& cluster);
// Muster is ready, and has nothing left to do.
Outcome<Phase> begin_muster(BenchCluster& cluster);

}  // namespace muster::bench
