#include "admission.h"

#include <algorithm>

namespace muster::placement {
namespace {

const TreeSums& sums_of(const State& s, LeafId at, PoolId pool) {
  static const TreeSums kNothing{};
  const auto& all = s.tree[static_cast<std::size_t>(at)].sums;
  const auto found = all.find(pool);
  return found == all.end() ? kNothing : found->second;
}

struct Line {
  const char* resource;
  std::int64_t asked, used;
  std::optional<std::int64_t> bound;
};

template <class A>
std::optional<std::int64_t> value_of(const std::optional<A>& a) {
  return a ? std::optional(a->value) : std::nullopt;
}

std::array<Line, 3> lines(const Resources& asked, const Resources& used, const Bounds& bounds, bool gpu_always) {
  auto gpu = value_of(bounds.gpu);
  if (gpu_always && !gpu) gpu = 0;
  return {Line{"gpu", asked.gpu.value, used.gpu.value, gpu}, Line{"cpu", asked.cpu.value, used.cpu.value, value_of(bounds.cpu)},
          Line{"memory", asked.memory.value, used.memory.value, value_of(bounds.memory)}};
}

std::optional<BrokenBound> first_broken(LeafId at, bool quota, const std::array<Line, 3>& all) {
  for (const Line& l : all) {
    if (l.asked > 0 && l.bound && l.used + l.asked > *l.bound) {
      return BrokenBound{at, quota, l.resource, l.asked, std::max<std::int64_t>(0, *l.bound - l.used), *l.bound};
    }
  }
  return std::nullopt;
}

}  // namespace

std::optional<BrokenBound> broken_bound(const State& s, const std::vector<LeafId>& path, PoolId pool, const Resources& amounts,
                                        bool preemptible) {
  for (const LeafId at : path) {
    const TreeSums& sums = sums_of(s, at, pool);
    const Share& share = s.share(at, pool);
    if (auto b = first_broken(at, false, lines(amounts, sums.allocated, share.limit, false))) return b;
    if (preemptible) continue;
    if (auto b = first_broken(at, true, lines(amounts, sums.fixed, share.quota, true))) return b;
  }
  return std::nullopt;
}

bool within_quota(const State& s, const std::vector<LeafId>& path, PoolId pool, const Resources& amounts) {
  return std::all_of(path.begin(), path.end(), [&](LeafId at) {
    return !first_broken(at, true, lines(amounts, sums_of(s, at, pool).allocated, s.share(at, pool).quota, true));
  });
}

}  // namespace muster::placement
