// RULES.md 5: room is made for a claimant that finds none. The actions are tried in the order of RULES.md
// 5.8, and the first that succeeds wins.
#pragma once

#include <optional>
#include <vector>

#include "model/due.h"
#include "model/statement.h"
#include "muster/placement/plan.h"
#include "node/wide.h"
#include "place/place.h"
#include "shares/eligibility.h"

namespace muster::placement {

// What one job gives.
struct Victim {
  JobId job = kNoId;
  std::vector<std::size_t> pods{};  // of its assignment; sorted
  EvictReason reason = EvictReason::kNone;
  std::vector<PodPlace> moved_to{};  // not empty: the whole job moves there
  Wide cost = 0;                     // as of its units
  WorkTime downtime{};
  Resources amounts{};
  bool whole = false;   // it stops, here at least
  bool owed = true;     // to the claimant (RULES.md 5.11)
  bool surges = false;  // it moves, and its pods stay until those elsewhere are ready (RULES.md 5.12)
};

struct Solution {
  std::vector<PodPlace> places;  // where the claimant stands then
  std::vector<Victim> victims;   // in the order of RULES.md 5.8; empty where only nominated places gave way
};

struct SolutionQuery {
  Claimant claimant;
  std::vector<PodWish> pods{};  // as in PlaceQuery
  Time now;
  bool limits_only = false;  // there is free room, but the limits of its queues forbid it
  bool moves = true;         // false: it is known that no move helps
  bool anywhere = true;      // it may also use nodes that are reserved for another job
  // Since when a disturbance that is not owed to it would have made room for it: to earlier plans, or now.
  std::optional<Time> since{};
};

// Everything is tried on the model itself. On success `statement` has it all: the claimant's places are
// nominated, the victims' pods are released, and jobs that move have their new places. nullopt: nothing was
// changed. `safe` says until when minRuntime or the cost keeps others safe from the claimant; it is to be
// asked again then. No victim is superfluous. Source: reversible simulation, as in KAI-Scheduler. README.md
// tells how the search goes. O(victims) placements, most of which totals rule out.
std::optional<Solution> find_solution(ClusterModel& state, Statement& statement, const SolutionQuery& query,
                                      Safe& safe);

}  // namespace muster::placement
