// RULES.md 5: the search for victims by one of the actions. Which units go, and where does the claimant stand
// then?
#pragma once

#include <optional>

#include "victims/units.h"
#include "victims/victims.h"

namespace muster::placement {

struct Found {
  Solution solution;
  std::size_t own = 0;  // units of the claimant's leaf that go
};

// As find_solution(), for one of the actions, by one kind of eligibility, among some of the candidates. Few
// units are tried in all combinations, the best first; many in sweeps, of which the best counts. O(units)
// placements, most refuted by totals; for few units O(2^units).
std::optional<Found> find_victims(ClusterModel& state, Statement& statement, const SolutionQuery& query,
                                  Action action, Eligibility eligibility, const VictimFilter& who,
                                  Safe& safe);

}  // namespace muster::placement
