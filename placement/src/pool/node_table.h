// What roles ask of every node, kept side by side for all nodes: a request is judged against all of them, and
// a look at each node itself would cost more than the judgement.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "muster/placement/job.h"
#include "muster/placement/node.h"
#include "node/ids.h"

namespace muster::placement {

// Nodes that have the same GPUs, NUMA nodes and taints are of one kind. A role judges each kind once, and
// then only the amounts of each node.
class NodeTable {
 public:
  void put(NodeId id, const NodeSpec& spec);
  void drop(NodeId id);  // from now on it would do for nobody
  // By NodeId: GPUs, taints, CPU, memory and pod slots of the node would do for a pod of the role if the node
  // were empty.
  // O(kinds) and a step for each node.
  std::vector<bool> would_do(const RoleSpec& role, std::size_t nodes) const;

 private:
  static constexpr std::int32_t kNoKind = -1;
  struct Row {
    std::int64_t cpu = 0, memory = 0, pods = 0;
    std::int32_t kind = kNoKind;
  };
  struct Kind {
    NodeSpec spec;  // without name, labels and amounts
    std::int32_t users = 0;
    std::int32_t slot = kNoKind;
  };
  using Kinds = std::map<std::string, Kind>;
  void leave_kind(Row& row);

  std::vector<Row> rows_;               // by NodeId
  Kinds kinds_;                         // by all that is in the spec, as text
  std::vector<Kinds::iterator> slots_;  // by Kind::slot; kinds_.end() where the slot is free
  std::vector<std::int32_t> free_slots_;
};

}  // namespace muster::placement
