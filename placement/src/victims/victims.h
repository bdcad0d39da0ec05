// Rule 5: room is made for a claimant that finds none. Shrink, consolidate, reclaim, preempt, both: the first
// that succeeds wins, the least disruption first.
#pragma once

#include <optional>
#include <vector>

#include "model/due.h"
#include "model/statement.h"
#include "muster/placement/plan.h"
#include "place/place.h"
#include "shares/rights.h"

namespace muster::placement {

// What one workload gives.
struct Victim {
  JobId job = kNoId;
  std::vector<std::size_t> pods;  // of its assignment; sorted
  EvictReason reason = EvictReason::kNone;
  std::vector<PodPlace> moved_to;  // not empty: all of it goes there
};

struct Room {
  std::vector<PodPlace> places;  // of the claimant
  std::vector<Victim> victims;   // in the order of rule 5; may be empty where only promises gave way
};

struct RoomQuery {
  Claimant claimant;
  std::vector<PodWish> pods{};  // as in PlaceQuery
  Time now;
  bool limits_only = false;  // free room is there, but not under the limits of its queues
  bool moves = true;         // false: that others move is known not to help
  bool anywhere = true;      // also on nodes that are reserved for somebody else
};

// Tries everything on the state; on success the claimant's places are taken as promised in `statement`, the
// victims' pods are released, and those that move have their new places. nullopt: nothing was changed.
// `safe`: until when minRuntime keeps others from it; to be asked again then. No victim is superfluous:
// putting any one back would break the placement. Source: reversible simulation as in KAI-Scheduler; sweeps
// in two orders (by cost; by what a node or domain costs), each pruned, and for few candidates all subsets.
// O(victims) placements, most refuted by totals; see README.
std::optional<Room> make_room(State& state, Statement& statement, const RoomQuery& query, Safe& safe);

}  // namespace muster::placement
