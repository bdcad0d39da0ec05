#include "shares/admission.h"

#include <algorithm>
#include <array>

#include "shares/shares.h"

namespace muster::placement {
namespace {

struct ResourceCheck {
  const char* resource;
  std::int64_t asked, used;
  std::optional<std::int64_t> bound;
};

template <class A>
std::optional<std::int64_t> value_of(const std::optional<A>& a) {
  return a ? std::optional(a->value) : std::nullopt;
}

std::array<ResourceCheck, 3> checks(const Resources& asked, const Resources& used, const Bounds& bounds,
                                    bool quota) {
  auto gpu = value_of(bounds.gpu);
  if (quota && !gpu) gpu = 0;
  return {ResourceCheck{"gpu", asked.gpu.value, used.gpu.value, gpu},
          ResourceCheck{"cpu", asked.cpu.value, used.cpu.value, value_of(bounds.cpu)},
          ResourceCheck{"memory", asked.memory.value, used.memory.value, value_of(bounds.memory)}};
}

std::optional<BrokenBound> first_broken(QueueId at, Bound kind, const std::array<ResourceCheck, 3>& all) {
  for (const ResourceCheck& l : all) {
    if (l.asked > 0 && l.bound && wrapping_add(l.used, l.asked) > *l.bound) {
      return BrokenBound{
          at, kind, l.resource, l.asked, std::max<std::int64_t>(0, wrapping_sub(*l.bound, l.used)), *l.bound};
    }
  }
  return std::nullopt;
}

struct Kind {
  const char* resource;
  std::int64_t (*of)(const Resources&);
};
constexpr std::array<Kind, 3> kKinds = {{
    {"gpu", [](const Resources& r) { return r.gpu.value; }},
    {"cpu", [](const Resources& r) { return r.cpu.value; }},
    {"memory", [](const Resources& r) { return r.memory.value; }},
}};

// What must stay free for others if the path takes so much more.
std::int64_t held_back(const ClusterModel& s, const std::vector<QueueId>& path, PoolId pool, const Kind& kind,
                       std::int64_t asked) {
  std::int64_t sum = 0;
  for (std::size_t i = 0; i < path.size(); ++i) {
    const TreeSums& sums = s.sums(path[i], pool);
    const std::int64_t own = kind.of(reserved_part(s.share(path[i], pool)));
    if (own > 0 && kind.of(sums.allocated) + asked <= own) break;
    const Resources& level =
        i + 1 < path.size() ? s.sums(path[i + 1], pool).held_below : s.pool(pool).held_back;
    sum += kind.of(level) - kind.of(sums.held_back);
  }
  return sum;
}

std::optional<BrokenBound> taken_from_reserved(const ClusterModel& s, const std::vector<QueueId>& path,
                                               PoolId pool, const Resources& amounts) {
  if (!s.reserves()) return std::nullopt;
  const Pool& p = s.pool(pool);
  Resources free = p.domains[0].free;
  if (amounts.gpu.value % kMilliPerGpu != 0) free.gpu = p.domains[0].capacity.gpu - p.used_gpu;
  for (const Kind& kind : kKinds) {
    const std::int64_t asked = kind.of(amounts);
    if (asked <= 0) continue;
    const std::int64_t held = held_back(s, path, pool, kind, asked);
    if (held <= 0) continue;
    const std::int64_t have = std::max<std::int64_t>(0, kind.of(free) - held);
    if (asked > have) {
      return BrokenBound{path.front(), Bound::kReserved,      kind.resource, asked, have,
                         held,         kind.of(free) >= asked};
    }
  }
  return std::nullopt;
}

Resources larger(const Resources& a, const Resources& b) {
  return {std::max(a.gpu, b.gpu), std::max(a.cpu, b.cpu), std::max(a.memory, b.memory),
          std::max(a.pods, b.pods)};
}

// What counts against a limit: charged until it is gone, and what is nominated is not to be given twice.
Resources used_in(const TreeSums& sums, View view) {
  switch (view) {
    case View::kTarget:
      return sums.allocated;
    case View::kForNominated:
      return sums.in_use();
    case View::kNow:
      return larger(sums.allocated, sums.in_use());
  }
  return sums.allocated;
}

}  // namespace

std::optional<BrokenBound> broken_bound(const ClusterModel& s, const std::vector<QueueId>& path, PoolId pool,
                                        const Resources& amounts, bool preemptible, View view) {
  for (const QueueId at : path) {
    const TreeSums& sums = s.sums(at, pool);
    const Share& share = s.share(at, pool);
    const Resources used = used_in(sums, view);
    if (auto b = first_broken(at, Bound::kLimit, checks(amounts, used, share.limit, false))) return b;
    if (preemptible) continue;
    if (auto b = first_broken(at, Bound::kQuota, checks(amounts, sums.non_preemptible, share.quota, true)))
      return b;
  }
  if (view == View::kForNominated) return std::nullopt;  // it was seen to when they were nominated
  return taken_from_reserved(s, path, pool, amounts);
}

std::vector<QueueId> held_back_for(const ClusterModel& s, const std::vector<QueueId>& path, PoolId pool,
                                   std::string_view resource) {
  const auto kind =
      std::find_if(kKinds.begin(), kKinds.end(), [&](const Kind& k) { return k.resource == resource; });
  std::vector<QueueId> list;
  for (std::size_t i = 0; i < s.tree.size(); ++i) {
    const auto id = static_cast<QueueId>(i);
    const TreeNode& t = s.tree[i];
    if (!t.reserves || std::find(path.begin(), path.end(), id) != path.end()) continue;
    const bool beside = t.parent == kNoId ? t.spec.parent.empty()
                                          : std::find(path.begin(), path.end(), t.parent) != path.end();
    if (beside && kind->of(s.sums(id, pool).held_back) > 0) list.push_back(id);
  }
  return list;
}

std::string breach(const ClusterModel& s, const std::vector<QueueId>& path, PoolId pool,
                   const Resources& asked, bool preemptible) {
  for (const QueueId at : path) {
    const TreeSums& sums = s.sums(at, pool);
    const auto over = [&](const Resources& used, const Bounds& b, bool quota) {
      const auto all = checks(asked, used, b, quota);
      return std::any_of(all.begin(), all.end(),
                         [](const ResourceCheck& l) { return l.asked > 0 && l.bound && l.used > *l.bound; });
    };
    if (over(sums.allocated, s.share(at, pool).limit, false)) return s.queue(at).spec.name;
    if (!preemptible && over(sums.non_preemptible, s.share(at, pool).quota, true))
      return s.queue(at).spec.name;
  }
  return "";
}

}  // namespace muster::placement
