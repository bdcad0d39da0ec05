// How much of a cluster's GPUs any scheduler could give to some pods at most, however it chose them and
// wherever it placed them.
#pragma once

#include <vector>

#include "packing/trace.h"

namespace muster::bench {

// Milli-GPU. The least of these counts, each of which holds whatever is placed where:
// * for each set of GPU models: what the nodes of these models can take, plus all that the pods ask for that
//   accept some other model. What nodes can take is at most their GPUs, and at most what their CPUs allow
//   when the pods that need the least CPU for a GPU come first (fractional knapsack).
// * the Lagrangian bound of packing parts of GPUs (Gilmore and Gomory's cutting stock): with any price >= 0
//   on each size of pod, demand x price, plus for each GPU the most that one GPU's contents can be worth
//   beyond their prices. The prices are improved by a fixed number of subgradient steps.
double packing_bound(const std::vector<TraceNode>& nodes, const std::vector<TracePod>& arrived);

}  // namespace muster::bench
