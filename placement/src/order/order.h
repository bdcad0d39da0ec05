// RULES.md 2.1: which Project (leaf queue) is served next.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <vector>

#include "model/cluster_model.h"

namespace muster::placement {

// Smaller is served earlier.
struct LeafRank {
  bool not_below = true;      // below quota at every level comes first
  bool not_within = true;     // then, within fair share at every level with the candidate
  std::int32_t priority = 0;  // place of the leaf when all are sorted by priority
  std::int64_t share_with = 0, share_without = 0;  // dominant share (DRF), in millionths
  std::int32_t age = 0;                            // place of the leaf when all are sorted by age, then name

  auto operator<=>(const LeafRank&) const = default;
};

// What of a leaf's rank does not change while it is served.
struct Seniority {
  std::int32_t priority = 0, age = 0;
};
// Priorities are compared from the top level down. O(n log n).
std::map<QueueId, Seniority> seniority(const ClusterModel& state, PoolId pool,
                                       const std::vector<QueueId>& leaves);

// `path`: from the leaf to the top; `fair`: of fair_shares(). Only grows worse while jobs start and none
// ends. O(depth).
LeafRank rank_leaf(const ClusterModel& state, const std::vector<QueueId>& path, PoolId pool,
                   const std::vector<Resources>& fair, const Seniority& seniority,
                   const Resources& candidate);

}  // namespace muster::placement
