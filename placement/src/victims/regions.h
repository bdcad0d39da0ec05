// RULES.md 5.8: where room is cheapest, node by node, or domain by domain where pods must stay together.
#pragma once

#include <functional>
#include <vector>

#include "model/cluster_model.h"
#include "victims/units.h"
#include "victims/victims.h"

namespace muster::placement {

// Units in the order in which they had best go, the claimant being placed inside the domain.
struct TakingOrder {
  std::vector<std::size_t> units;
  DomainId within = 0;
};

// Takes units for a trial; what was taken is given back by `undo`, all of it.
struct Trial {
  // Of a unit what it has on this node; kNoId: all of it. false: this one may not go.
  std::function<bool(std::size_t, NodeId)> take;
  std::function<void()> undo;
};

// One pod: the few nodes where it is cheapest. A gang: what makes room for whole groups and, where all must
// be in one domain, for all of it, the cheapest first, one order for each of the few best domains. Counts
// pods of the role with most GPUs. O(pods of the units + nodes), and a trial for each node that amounts say
// is among the cheapest; where pods must be together, or share GPUs, for each node.
std::vector<TakingOrder> orders_by_place(ClusterModel& state, const SolutionQuery& query,
                                         const std::vector<Unit>& units, const Trial& trial);

}  // namespace muster::placement
