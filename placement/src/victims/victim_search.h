// Rule 5, the search for victims by one of its means: which units go, and where the claimant then stands.
#pragma once

#include <optional>

#include "victims/units.h"
#include "victims/victims.h"

namespace muster::placement {

struct Found {
  Room room;
  std::size_t own = 0;  // units of the claimant's leaf that go
};

// As make_room(), for one of the means, by one of the rights, among some of the candidates. Few units are
// tried in all combinations, the best first; many in sweeps, of which the best counts. O(units) placements,
// most refuted by totals; for few units O(2^units).
std::optional<Found> find_victims(State& state, Statement& statement, const RoomQuery& query, Means means,
                                  Right right, const Candidates& who, Safe& safe);

}  // namespace muster::placement
