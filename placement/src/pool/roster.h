// The usable nodes of one pool side by side: counts over all nodes read this instead of the nodes, which lie
// far from each other in memory.
#pragma once

#include <cstdint>
#include <vector>

#include "node/ids.h"

namespace muster::placement {

struct Node;
struct Pool;

struct Roster {
  // What the empty node has.
  struct Row {
    NodeId node = kNoId;
    std::int64_t cpu = 0, memory = 0, pods = 0;
    std::int64_t gpus = 0;  // healthy ones
    bool has_as_much_as(const Row& o) const {
      return cpu == o.cpu && memory == o.memory && pods == o.pods && gpus == o.gpus;
    }
  };
  std::uint64_t members = 0;                   // Pool::members for which it holds
  std::vector<Row> rows;                       // by rising NodeId
  std::vector<std::vector<DomainId>> domains;  // by depth (0: the whole pool), then by row; kNoId: in none

  DomainId domain(std::size_t row, std::int32_t depth) const {
    const auto at = static_cast<std::size_t>(depth);
    return at < domains.size() ? domains[at][row] : DomainId{kNoId};
  }
};

// The roster of the pool as it is now. O(1), and O(nodes of the pool) after a usable node has come, gone or
// changed.
const Roster& roster_of(const Pool& pool, const std::vector<Node>& nodes);

}  // namespace muster::placement
