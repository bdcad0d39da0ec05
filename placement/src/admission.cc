#include "admission.h"

#include <algorithm>
#include <array>

namespace muster::placement {
namespace {

struct Line {
  const char* resource;
  std::int64_t asked, used;
  std::optional<std::int64_t> bound;
};

template <class A>
std::optional<std::int64_t> value_of(const std::optional<A>& a) {
  return a ? std::optional(a->value) : std::nullopt;
}

std::array<Line, 3> lines(const Resources& asked, const Resources& used, const Bounds& bounds, bool quota) {
  auto gpu = value_of(bounds.gpu);
  if (quota && !gpu) gpu = 0;
  return {Line{"gpu", asked.gpu.value, used.gpu.value, gpu},
          Line{"cpu", asked.cpu.value, used.cpu.value, value_of(bounds.cpu)},
          Line{"memory", asked.memory.value, used.memory.value, value_of(bounds.memory)}};
}

std::optional<BrokenBound> first_broken(LeafId at, bool quota, const std::array<Line, 3>& all) {
  for (const Line& l : all) {
    if (l.asked > 0 && l.bound && wrapping_add(l.used, l.asked) > *l.bound) {
      return BrokenBound{
          at,      quota, l.resource, l.asked, std::max<std::int64_t>(0, wrapping_sub(*l.bound, l.used)),
          *l.bound};
    }
  }
  return std::nullopt;
}

Resources larger(const Resources& a, const Resources& b) {
  return {std::max(a.gpu, b.gpu), std::max(a.cpu, b.cpu), std::max(a.memory, b.memory),
          std::max(a.pods, b.pods)};
}

// What counts against a limit: charged until it is gone, and what is promised is not to be given twice.
Resources used_in(const TreeSums& sums, View view) {
  switch (view) {
    case View::kTarget:
      return sums.allocated;
    case View::kPromise:
      return sums.in_use();
    case View::kNow:
      return larger(sums.allocated, sums.in_use());
  }
  return sums.allocated;
}

}  // namespace

std::optional<BrokenBound> broken_bound(const State& s, const std::vector<LeafId>& path, PoolId pool,
                                        const Resources& amounts, bool preemptible, View view) {
  for (const LeafId at : path) {
    const TreeSums& sums = s.sums(at, pool);
    const Share& share = s.share(at, pool);
    const Resources used = used_in(sums, view);
    if (auto b = first_broken(at, false, lines(amounts, used, share.limit, false))) return b;
    if (preemptible) continue;
    if (auto b = first_broken(at, true, lines(amounts, sums.fixed, share.quota, true))) return b;
  }
  return std::nullopt;
}

std::string breach(const State& s, const std::vector<LeafId>& path, PoolId pool, const Resources& asked,
                   bool preemptible) {
  for (const LeafId at : path) {
    const TreeSums& sums = s.sums(at, pool);
    const auto over = [&](const Resources& used, const Bounds& b, bool quota) {
      const auto all = lines(asked, used, b, quota);
      return std::any_of(all.begin(), all.end(),
                         [](const Line& l) { return l.asked > 0 && l.bound && l.used > *l.bound; });
    };
    if (over(sums.allocated, s.share(at, pool).limit, false)) return s.leaf(at).spec.name;
    if (!preemptible && over(sums.fixed, s.share(at, pool).quota, true)) return s.leaf(at).spec.name;
  }
  return "";
}

}  // namespace muster::placement
