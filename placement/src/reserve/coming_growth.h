// RULES.md 2.5: when a running job grows, and who is not started because room that it would take is owed to
// growth before it would work.
#pragma once

#include <optional>
#include <vector>

#include "model/cluster_model.h"
#include "order/growth.h"
#include "place/place.h"
#include "shares/eligibility.h"

namespace muster::placement {

// So many jobs of a pool note in one plan that it is too early for them to grow. The others take their turn
// when these have grown.
inline constexpr int kMaxTooEarly = 100;

// Until when the job may not grow because its size has changed; what this very plan has given it is not all
// yet.
Time stands_until(const ClusterModel& state, const Job& job);
// Since when there has been room for it to grow, free or held by others. Absent: none is known of.
std::optional<Time> room_to_grow_since(const Job& job);
// When it takes room by which it would grow so far, if that has been there since then. Absent: never.
std::optional<Time> grows_at(const ClusterModel& state, const GrowthClaim& claim, PoolId pool,
                             const Resources& grows_by, Time since);

// A running job that will grow. `lacks`: what would be in its way.
struct ComingGrowth {
  JobId job = kNoId;
  Time at;
  Resources lacks;
};

// What the query places, for the claimant, would be undone before it works: a running job that may take it
// from the claimant grows by then, and finds less room beside it. Absent: nobody does, as far as is known
// now. The query must succeed. Leaves the model as it was. O(growable jobs of the pool), and two placements
// for each step by which such jobs grow.
std::optional<ComingGrowth> in_the_way_of(ClusterModel& state, const PlaceQuery& query,
                                          const Claimant& claimant);

}  // namespace muster::placement
