#include "shares/eligibility.h"

#include <algorithm>
#include <array>

#include "shares/entitlement.h"

namespace muster::placement {
namespace {

bool within(const QueueTree& tree, const Claimant& c, QueueId at, Eligibility eligibility,
            const Resources& before) {
  const Resources& used = tree.sums(at, c.pool).allocated;
  for (const ResourceKind kind : tree.accounted()) {
    const std::int64_t asked = amount_of(c.asked, kind);
    if (asked <= 0) continue;
    const Entitlement own = entitlement(tree, at, c.pool, *c.fair, kind);
    const std::int64_t most = eligibility == Eligibility::kByQuota ? own.guarantee() : own.fair_share;
    const std::int64_t with = c.placed ? amount_of(used, kind) : wrapping_add(amount_of(used, kind), asked);
    if (with > std::max(most, amount_of(before, kind))) return false;
  }
  return true;
}

// GPUs of that model are what it lacks. Who has no more of them than is promised gives none of them, however
// many others it has borrowed.
bool asks_for_accounted_model(const QueueTree& tree, QueueId at, const Claimant& c) {
  const AccountedKinds& kinds = tree.accounted();
  return std::any_of(kinds.begin(), kinds.end(), [&](ResourceKind kind) {
    return kinds.is_model(kind) && amount_of(c.asked, kind) > 0 &&
           quota_of(tree.share(at, c.pool).quota, kind);
  });
}

// Some of what is used there is of a resource that the quota says nothing about.
bool uses_what_nobody_promised(const QueueTree& tree, QueueId at, PoolId pool) {
  const Resources& used = tree.sums(at, pool).allocated;
  const Bounds& quota = tree.share(at, pool).quota;
  return std::ranges::any_of(std::array{ResourceKind::kCpu, ResourceKind::kMemory}, [&](ResourceKind kind) {
    return amount_of(used, kind) > 0 && !quota_of(quota, kind);
  });
}

}  // namespace

bool is_eligible(const QueueTree& tree, const Claimant& c, Eligibility eligibility,
                 const std::vector<Resources>& before) {
  for (std::size_t i = 0; i < c.path.size(); ++i) {
    if (!within(tree, c, c.path[i], eligibility, i == 0 ? Resources{} : before[i])) return false;
  }
  return true;
}

bool may_be_eligible(const QueueTree& tree, const Claimant& c, Eligibility eligibility) {
  return within(tree, c, c.path.front(), eligibility, {});
}

bool is_minimum_guaranteed(const QueueTree& tree, const Claimant& c, const Resources& minimums) {
  const AccountedKinds& kinds = tree.accounted();
  return std::all_of(kinds.begin(), kinds.end(), [&](ResourceKind kind) {
    const std::int64_t asked = amount_of(c.asked, kind);
    return asked <= 0 || wrapping_add(amount_of(minimums, kind), asked) <=
                             entitlement(tree, c.path.front(), c.pool, *c.fair, kind).guarantee();
  });
}

bool may_give(const QueueTree& tree, const Claimant& c, Eligibility eligibility,
              const std::vector<QueueId>& path, const Resources& amounts) {
  const bool gpus_come_first =
      eligibility == Eligibility::kByQuota && c.asked.gpu.value > 0 && amounts.gpu.value == 0;
  for (const QueueId at : path) {
    if (std::find(c.path.begin(), c.path.end(), at) != c.path.end()) return true;  // the common ancestor
    const Resources& used = tree.sums(at, c.pool).allocated;
    bool over = gpus_come_first && uses_what_nobody_promised(tree, at, c.pool), below_guarantee = false;
    for (const ResourceKind kind : tree.accounted()) {
      if (amount_of(c.asked, kind) <= 0) continue;
      if (kind == ResourceKind::kGpu && asks_for_accounted_model(tree, at, c)) continue;
      const Entitlement own = entitlement(tree, at, c.pool, *c.fair, kind);
      const std::int64_t has = amount_of(used, kind);
      over = over || has > (eligibility == Eligibility::kByQuota ? own.quota : own.fair_share);
      below_guarantee = below_guarantee || (own.accounted() && has >= own.guarantee() &&
                                            has - amount_of(amounts, kind) < own.guarantee());
    }
    if (!over) return false;
    if (eligibility == Eligibility::kByFairShare && below_guarantee) return false;
  }
  return true;
}

Resources beyond_quota(const QueueTree& tree, QueueId leaf, PoolId pool) {
  const Resources& used = tree.sums(leaf, pool).allocated;
  const Bounds& quota = tree.share(leaf, pool).quota;
  Resources beyond;
  for (const ResourceKind kind : tree.accounted()) {
    const auto accounted = quota_of(quota, kind);
    amount_of(beyond, kind) = accounted ? wrapping_sub(amount_of(used, kind), *accounted) : kUnbounded;
  }
  return beyond;
}

bool within_guarantee(const QueueTree& tree, QueueId at, PoolId pool, const std::vector<Resources>& fair,
                      const Resources& used, const Resources& asked) {
  const AccountedKinds& kinds = tree.accounted();
  return std::none_of(kinds.begin(), kinds.end(), [&](ResourceKind kind) {
    return amount_of(asked, kind) > 0 &&
           amount_of(used, kind) > entitlement(tree, at, pool, fair, kind).guarantee();
  });
}

Duration min_runtime(const QueueTree& tree, const std::vector<QueueId>& path, bool reclaim) {
  for (const QueueId at : path) {
    const QueueSpec& spec = tree.queue(at).spec;
    if (const auto& own = reclaim ? spec.reclaim_min_runtime : spec.preempt_min_runtime) return *own;
  }
  return {};
}

}  // namespace muster::placement
