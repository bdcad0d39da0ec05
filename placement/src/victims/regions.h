// RULES.md 5.8: where room is cheapest, node by node, or domain by domain where pods must stay together.
#pragma once

#include <functional>
#include <vector>

#include "model/cluster_model.h"
#include "victims/units.h"
#include "victims/victims.h"

namespace muster::placement {

// In which order units should go so that the claimant fits into this domain.
struct TakingOrder {
  std::vector<std::size_t> units;
  DomainId within = kWholePool;
};

// Takes units for a trial. `undo` gives back all that was taken.
struct Trial {
  // Takes what the unit has on this node; kNoId: all of the unit. False: this unit may not go.
  std::function<bool(std::size_t, NodeId)> take;
  std::function<void()> undo;
};

// For one pod: an order for each of the few nodes where room is cheapest. For a gang: an order for each of
// the few best domains, in which units go first that make room for whole groups most cheaply. Only pods of
// the role with the most GPUs are counted. O(pods of the units + nodes), and a trial for each node that the
// amounts say is among the cheapest. Where pods must be together, or share GPUs, a trial for each node.
std::vector<TakingOrder> orders_by_place(ClusterModel& state, const SolutionQuery& query,
                                         const std::vector<Unit>& units, const Trial& trial);

}  // namespace muster::placement
