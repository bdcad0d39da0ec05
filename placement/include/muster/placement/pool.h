// Node pools: which nodes belong together, and how they are filled.
#pragma once

#include <string>
#include <vector>

#include "muster/placement/node.h"

namespace muster::placement {

enum class NodeOrder : std::uint8_t { kPack, kSpread };

struct PoolSpec {
  std::string name;
  std::vector<Requirement> selector;  // all hold; none: every node
  NodeOrder order = NodeOrder::kPack;
  bool is_default = false;
  std::vector<std::string> topology;  // label keys, coarse to fine; free amounts are counted per domain
  std::string gpu_resource = "nvidia.com/gpu";  // how messages call a GPU
  bool operator==(const PoolSpec&) const = default;
};

}  // namespace muster::placement
