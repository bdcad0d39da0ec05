// Rule 2, order: which leaf is served next, and which of its jobs.
#pragma once

#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "state.h"

namespace muster::placement {

// Smaller is served earlier.
struct LeafRank {
  int tier = 2;  // 0: below quota at every level; 1: with the candidate within fair share at every level; 2: neither
  std::vector<std::int64_t> priority;  // negated, from the top level down
  std::int64_t share_with = 0, share_without = 0;  // dominant share in millionths
  Time created;
  std::string name;

  auto operator<=>(const LeafRank&) const = default;
};

LeafRank rank_leaf(const State& state, LeafId leaf, const std::vector<LeafId>& path, PoolId pool, const std::vector<Resources>& fair,
                   const Resources& candidate);

// Inside a leaf: priority, then submission, then id.
bool before_in_leaf(const Job& a, const Job& b);

}  // namespace muster::placement
