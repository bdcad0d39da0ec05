// The nodes by id and by name, what is held of each, and what that leaves free in each domain of their pools.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "node/node.h"
#include "pool/pool.h"

namespace muster::placement {

// Ids are used again. Where a function takes the pool of a node, that is the one which Node::pool names;
// nullptr: it names none.
class NodeInventory {
 public:
  NodeId node_of(const std::string& name);     // made where there is none
  NodeId find(const std::string& name) const;  // kNoId: there is none
  void forget(NodeId id);                      // unless it is known, or something of it is held
  Node& node(NodeId id) { return all_[static_cast<std::size_t>(id)]; }
  const Node& node(NodeId id) const { return all_[static_cast<std::size_t>(id)]; }
  const std::vector<Node>& all() const { return all_; }  // by NodeId, also what is not known
  std::size_t size() const { return all_.size(); }
  // Nodes without GPUs are a model of their own, so that a search can pass them by or look at nothing else.
  ModelId model_of(const NodeSpec& node);
  const std::map<std::string, ModelId>& models() const { return models_; }  // ""; "gpu " and that of its GPUs

  // Every change of what is held of a node goes through these two.
  void take(Allocation& allocation, Pool* pool);
  void give_back(const Allocation& allocation, Pool* pool);
  const std::set<std::pair<NodeId, std::int32_t>>& crowded() const { return crowded_; }  // in_conflict()

  // The node leaves its pool's index before its spec, its pool or its domains change, and enters it again.
  void leave_index(NodeId id, Pool* pool);
  void enter_index(NodeId id, Pool* pool);
  // After labels or selectors changed: the node has left the index, and enters that of the pool which
  // selects it now.
  void sort_into_pool(NodeId id, std::vector<Pool>& pools);
  // Where the pool has far more domains than its nodes are in, makes them anew from their labels: values of
  // labels come and go with nodes. Once all nodes are in the index. O(1), and now and then O(nodes).
  void drop_empty_domains(Pool& pool);

 private:
  // Of a node, before something changes.
  struct InUse {
    std::int32_t free_gpus = 0;
    MilliGpu gpu;
  };
  // The same as leaving and entering the index, after what is free on the node has changed and nothing else.
  void refresh_index(NodeId id, const InUse& before, Pool* pool);

  std::vector<Node> all_;
  std::vector<NodeId> free_;
  std::map<std::string, NodeId> ids_;
  std::map<std::string, ModelId> models_;
  std::set<std::pair<NodeId, std::int32_t>> crowded_;
  std::uint64_t stamps_ = 0;
};

}  // namespace muster::placement
