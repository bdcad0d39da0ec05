// What a Queue or a Project is entitled to in one pool (RULES.md 1, 5.3): the one place that says so.
#pragma once

#include <algorithm>
#include <cstdint>
#include <vector>

#include "model/queue_tree.h"
#include "node/resource_vector.h"

namespace muster::placement {

// Of one resource. What its quota does not account for is unbounded: nobody's share of it binds.
struct Entitlement {
  std::int64_t quota = 0;
  std::int64_t fair_share = 0;

  bool accounted() const { return quota != kUnbounded; }
  // What others may not take from it, and up to which it may take from others who are beyond their quota.
  std::int64_t guarantee() const { return std::min(quota, fair_share); }
};

inline Entitlement entitlement(const Bounds& quota, const Resources& fair_share, ResourceKind kind) {
  const auto accounted = quota_of(quota, kind);
  return accounted ? Entitlement{*accounted, amount_of(fair_share, kind)}
                   : Entitlement{kUnbounded, kUnbounded};
}

// `fair`: of fair_shares().
inline Entitlement entitlement(const QueueTree& tree, QueueId at, PoolId pool,
                               const std::vector<Resources>& fair, ResourceKind kind) {
  return entitlement(tree.share(at, pool).quota, fair[static_cast<std::size_t>(at)], kind);
}

// Of what is asked for, `used` is within what quota and fair share both allow.
bool within_guarantee(const QueueTree& tree, QueueId at, PoolId pool, const std::vector<Resources>& fair,
                      const Resources& used, const Resources& asked);

}  // namespace muster::placement
