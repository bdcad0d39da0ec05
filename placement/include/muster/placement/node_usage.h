// What is held of each node, for those who watch the cluster.
#pragma once

#include <string>
#include <vector>

#include "muster/placement/amounts.h"
#include "muster/placement/cluster.h"

namespace muster::placement {

struct NodeUsage {
  std::string node, pool;
  bool usable = false;  // new work may come
  MilliGpu capacity;    // its healthy GPUs
  // Held by what runs and by what is on its way out, whoever it belongs to. It may be more than `capacity`
  // while work is still on a GPU that has failed.
  MilliGpu allocated;
  bool operator==(const NodeUsage&) const = default;
};

// Nodes with GPUs that are in exactly one pool, by name. O(nodes log nodes).
std::vector<NodeUsage> node_usage(Cluster& cluster);

}  // namespace muster::placement
