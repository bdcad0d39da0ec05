#include "muster/reconcilers/usage/past_use.h"

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <map>

#include "muster/crds/time.h"
#include "muster/reconcilers/placement/placement_specs.h"

namespace muster::reconcilers {
namespace {

using std::chrono::days;

constexpr double kGib = 1024.0 * 1024.0 * 1024.0;

// What an average has of something that was held evenly between the two instants, per unit that was held. In
// the average a moment's weight halves every half-life.
double weight(crds::Time begin, crds::Time end, crds::Time now, crds::Duration half_life) {
  const auto left = [&](crds::Time at) {
    return std::exp2(-static_cast<double>((now - at).count()) / static_cast<double>(half_life.count()));
  };
  return left(end) - left(begin);
}

}  // namespace

std::vector<placement::PastUse> past_use_of(const std::string& name, bool is_project,
                                            const crds::UsageStatus& usage, crds::Duration half_life,
                                            const std::string& default_pool) {
  if (!usage.until || half_life.count() <= 0) return {};
  struct Average {
    double milli_gpus = 0, milli_cpus = 0, bytes = 0;
  };
  std::map<std::string, Average> by_pool;
  for (const auto& day : usage.days) {
    const auto date = crds::parse_day(day.date);
    if (!date || *date >= *usage.until) continue;
    const crds::Time begin = *date, end = std::min<crds::Time>(begin + days{1}, *usage.until);
    const double part =
        weight(begin, end, *usage.until, half_life) / static_cast<double>((end - begin).count());
    for (const auto& pool : day.pools)
      by_pool[pool.name].milli_gpus += 1000.0 * static_cast<double>(pool.gpu_seconds) * part;
    if (default_pool.empty()) continue;
    by_pool[default_pool].milli_cpus += 1000.0 * static_cast<double>(day.sum.cpu_seconds) * part;
    by_pool[default_pool].bytes += kGib * static_cast<double>(day.sum.memory_gib_seconds) * part;
  }
  std::vector<placement::PastUse> past;
  for (const auto& [pool, average] : by_pool) {
    placement::Resources use;
    use.gpu = placement::MilliGpu{std::llround(average.milli_gpus)};
    use.cpu = placement::MilliCpu{std::llround(average.milli_cpus)};
    use.memory = placement::Bytes{std::llround(average.bytes)};
    if (use == placement::Resources{}) continue;
    past.push_back({name, is_project, pool, use, to_time(usage.until)});
  }
  return past;
}

}  // namespace muster::reconcilers
