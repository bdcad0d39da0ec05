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
  bool operator==(const PoolSpec&) const = default;
};

}  // namespace muster::placement
