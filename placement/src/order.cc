#include "order.h"

#include <algorithm>
#include <limits>

#include "admission.h"

namespace muster::placement {
namespace {

constexpr std::int64_t kLargest = std::numeric_limits<std::int64_t>::max();

// used / max(quota, fair), in millionths; a base of 0 counts as the largest.
std::int64_t part(std::int64_t used, std::int64_t quota, std::int64_t fair) {
  const std::int64_t base = std::max(quota, fair);
  if (used <= 0) return 0;
  if (base <= 0) return kLargest;
  __extension__ using Wide = __int128;
  const Wide millionths = Wide{used} * 1'000'000 / base;
  return millionths > kLargest ? kLargest : static_cast<std::int64_t>(millionths);
}

// DRF (Ghodsi et al., NSDI 2011): the largest part over the resources.
std::int64_t dominant(const Resources& used, const Bounds& quota, const Resources& fair) {
  return std::max({part(used.gpu.value, quota.gpu.value_or(MilliGpu{}).value, fair.gpu.value),
                   part(used.cpu.value, quota.cpu.value_or(MilliCpu{}).value, fair.cpu.value),
                   part(used.memory.value, quota.memory.value_or(Bytes{}).value, fair.memory.value)});
}

bool within(const Resources& used, const Resources& fair, const Resources& asked) {
  return (asked.gpu.value == 0 || used.gpu <= fair.gpu) && (asked.cpu.value == 0 || used.cpu <= fair.cpu) &&
         (asked.memory.value == 0 || used.memory <= fair.memory);
}

const TreeSums& sums_of(const State& s, LeafId at, PoolId pool) {
  static const TreeSums kNothing{};
  const auto& all = s.tree[static_cast<std::size_t>(at)].sums;
  const auto found = all.find(pool);
  return found == all.end() ? kNothing : found->second;
}

// Strictly below quota in some resource that is asked for, and above it in none.
bool below_quota(const State& s, LeafId at, PoolId pool, const Resources& asked) {
  const Resources& used = sums_of(s, at, pool).allocated;
  const Bounds& quota = s.share(at, pool).quota;
  if (asked.gpu.value > 0) return used.gpu < quota.gpu.value_or(MilliGpu{});
  return (!quota.cpu || used.cpu < *quota.cpu) && (!quota.memory || used.memory < *quota.memory);
}

}  // namespace

LeafRank rank_leaf(const State& s, LeafId leaf, const std::vector<LeafId>& path, PoolId pool, const std::vector<Resources>& fair,
                   const Resources& candidate) {
  LeafRank rank;
  bool below = true, fits = true;
  for (const LeafId at : path) {
    below = below && below_quota(s, at, pool, candidate);
    fits = fits && within(sums_of(s, at, pool).allocated + candidate, fair[static_cast<std::size_t>(at)], candidate);
  }
  rank.tier = below ? 0 : fits ? 1 : 2;
  for (auto it = path.rbegin(); it != path.rend(); ++it) rank.priority.push_back(-s.share(*it, pool).priority);
  const Resources& used = sums_of(s, leaf, pool).allocated;
  const Bounds& quota = s.share(leaf, pool).quota;
  rank.share_with = dominant(used + candidate, quota, fair[static_cast<std::size_t>(leaf)]);
  rank.share_without = dominant(used, quota, fair[static_cast<std::size_t>(leaf)]);
  const QueueSpec& spec = s.tree[static_cast<std::size_t>(leaf)].spec;
  rank.created = spec.created;
  rank.name = spec.name;
  return rank;
}

bool before_in_leaf(const Job& a, const Job& b) {
  return std::tuple(-a.spec.priority, a.spec.submitted, a.spec.id) < std::tuple(-b.spec.priority, b.spec.submitted, b.spec.id);
}

}  // namespace muster::placement
