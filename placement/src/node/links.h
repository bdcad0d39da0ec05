// RULES.md 4.6: which GPUs of a node are connected best.
#pragma once

#include <cstdint>
#include <vector>

#include "muster/placement/node.h"

namespace muster::placement {

// The node tells how its GPUs are linked, and some are linked better than others.
bool links_differ(const NodeSpec& node);

struct LinkQuery {
  const NodeSpec& node;                   // links_differ()
  const std::vector<std::int32_t>& idle;  // what there is to choose from, ascending
  const std::vector<std::int32_t>& own;   // what the job has on the node already
  std::vector<bool> zone_fits;            // by NUMA node: it has the CPU and memory of the pod too
  std::int32_t count = 1;                 // <= idle.size()
};

// The best connected set: the largest sum of links inside it and to what the job has; of equal ones that on
// the fewest NUMA nodes (with CPU and memory there), then the one that leaves the best connected rest, then
// on the zones with the fewest idle GPUs, then the first by index. Exact for up to 16 idle GPUs, by
// enumeration with a bound (at most 12,870 sets); beyond that grown GPU by GPU from each of them: O(idle^2 x
// count).
std::vector<std::int32_t> best_connected(const LinkQuery& query);

}  // namespace muster::placement
