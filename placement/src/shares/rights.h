// Rule 5, who may take from whom: the two rights to reclaim across leaves, and what a leaf that gives must
// be.
#pragma once

#include <optional>
#include <vector>

#include "model/state.h"

namespace muster::placement {

// Who asks, for how much, in what pool.
struct Claimant {
  JobId job = kNoId;
  PoolId pool = kNoId;
  std::vector<LeafId> path;  // from its leaf to the top
  Resources asked;
  const std::vector<Resources>* fair = nullptr;  // of fair_shares()
  bool placed = false;                           // what it asks is among what is allocated
};

enum class Right : std::uint8_t {
  kGuarantee,  // it stays within the smaller of quota and fair share; who gives is over its quota
  kFairness,   // it stays within fair share; who gives is over its fair share
};

// The claimant stays within what the right allows, at its leaf and every ancestor, with what it asks added to
// what is allocated now. An ancestor that was beyond it `before` (allocated by place on the path) any victim
// was taken may have as much as then: what is exchanged inside it needs no room there.
bool has_right(const State& state, const Claimant& claimant, Right right,
               const std::vector<Resources>& before);

// The same at its leaf only: what others give cannot mend it there.
bool may_have_right(const State& state, const Claimant& claimant, Right right);

// The leaf of `path`, and every tree node above it below the common ancestor with the claimant, is over in
// something that the claimant asks for; with fairness, taking `amounts` leaves none of them below the smaller
// of its quota and its fair share.
bool may_give(const State& state, const Claimant& claimant, Right right, const std::vector<LeafId>& path,
              const Resources& amounts);

// What the leaf has beyond its quota, negative where it has less; the most that there is where the quota does
// not account for it.
Resources beyond_quota(const State& state, LeafId leaf, PoolId pool);

// In something that is asked for.
bool exceeds(const Resources& amounts, const Resources& bound, const Resources& asked);

// How long a victim in this leaf is safe from the claimant after its start: as the nearest queue that sets it
// says.
Duration min_runtime(const State& state, const std::vector<LeafId>& path, bool reclaim);

}  // namespace muster::placement
