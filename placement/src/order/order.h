// RULES.md 2.1: which Project (leaf queue) is served next.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "model/queue_tree.h"

namespace muster::placement {

// The keys of RULES.md 2.1. Smaller is served earlier.
struct LeafRank {
  bool not_below = true;      // false: it is below quota at every level
  bool not_within = true;     // false: it is within fair share at every level, with the candidate added
  std::int32_t priority = 0;  // its place when all leaf queues are sorted by priority
  std::int64_t share_with = 0, share_without = 0;  // dominant share (DRF), in millionths
  std::int32_t age = 0;  // its place when all leaf queues are sorted by age, then name

  auto operator<=>(const LeafRank&) const = default;
};

// The part of a leaf queue's rank that does not change while the pool is served.
struct Seniority {
  std::int32_t priority = 0, age = 0;
};
// Priorities are compared from the top level down. O(n log n).
std::map<QueueId, Seniority> seniority(const QueueTree& tree, PoolId pool,
                                       const std::vector<QueueId>& leaves);

// `path` goes from the leaf queue to the top; `fair` is what fair_shares() said. While jobs start and none
// ends, a rank only becomes worse. O(depth).
LeafRank rank_leaf(const QueueTree& tree, const std::vector<QueueId>& path, PoolId pool,
                   const std::vector<Resources>& fair, const Seniority& seniority,
                   const Resources& candidate);

}  // namespace muster::placement
