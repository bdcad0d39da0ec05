// RULES.md 4.4: which node is best for the next pods.
#pragma once

#include <array>
#include <cstdint>
#include <tuple>
#include <vector>

#include "model/cluster_model.h"
#include "node/devices.h"

namespace muster::placement {

// What goes to a node together: one pod of a role, or of each of several colocated roles.
struct Shape {
  std::vector<std::size_t> roles;  // the leading one first
  Resources sum;                   // of all of them; gpu: that of whole GPUs only
  std::int32_t gpus = 0;           // whole ones
  bool shares = false;             // takes parts of GPUs
  bool alone = false;              // repels others of its kind on the same node
  bool zones = false;              // some node may take it on one NUMA node, another may not
  std::vector<ModelId> models;     // whose nodes may take it; those without GPUs first

  bool takes_gpus() const { return gpus > 0 || shares; }
};
Shape shape_of(const ClusterModel& state, const Pool& pool, const Request& request,
               std::vector<std::size_t> roles);

// Of each of Resources::named: whether it is of GPUs of a model, and nodes with such are left alone.
using ModelPlaces = std::array<bool, kMaxNamed>;

// What one search may not use, whatever the nodes have free.
struct SearchLimits {
  ModelPlaces spared_models{};
  bool without_reserved = false;  // no nodes that are kept for the owner of a reservation
  Bytes min_gpu_memory;           // of GPUs that shares of memory go to

  bool spares_gpus_of(const Node& node) const {
    return node.model_place >= 0 && spared_models[static_cast<std::size_t>(node.model_place)];
  }
};

// How many pods of the role, or of the shape, the node has room for; of a shape of several roles at most.
std::int64_t room_for(const Node& node, const PoolSpec& pool, const RoleSpec& role, View view,
                      const SearchLimits& limits = {});
std::int64_t room_for(const Node& node, const PoolSpec& pool, const Request& request, const Shape& shape,
                      View view, const SearchLimits& limits);

// How many of the shape the domain could take at most, `together` of them always on one node. By its totals
// and buckets, for the views kNow and kTarget. O(distinct numbers of free GPUs x models).
std::int64_t most_in(const Domain& domain, const Shape& shape, std::int64_t together = 1);
// The same counted on its nodes: exact for a shape of one role with nothing else beside it. O(its nodes).
std::int64_t room_in(const ClusterModel& state, const Pool& pool, const Domain& domain,
                     const Request& request, const Shape& shape, View view, const SearchLimits& limits,
                     std::int64_t together = 1);

class InterPodAffinity;

// What to look for, and where. Request::eligible must be filled.
struct NodeSearch {
  const ClusterModel& state;
  const Pool& pool;
  const Request& request;
  const Shape& shape;
  View view = View::kNow;
  SearchLimits limits{};
  const Domain* domain = nullptr;               // only its nodes
  const std::vector<NodeId>* banned = nullptr;  // not these
  const InterPodAffinity* affinity = nullptr;   // where pods have a say
  const Node* near = nullptr;                   // among equal ones those that share most domains with it
};

// Smaller is better.
struct RankedNode {
  NodeId node = kNoId;
  std::int64_t room = 0;
  std::int64_t dislike = 0;      // minus the weight of preferred affinity
  std::int64_t scattered = 0;    // 1: a pod's GPUs, CPU and memory would be on several NUMA nodes
  std::int64_t gpus_beside = 0;  // of pods without GPUs: what they would make hard to use
  std::int64_t first = 0;
  std::int64_t waste = 0;  // by how much less of the node's GPUs is of use then: Fragmentation
  std::int64_t second = 0;
  std::int64_t apart = 0;  // minus the domains shared with `near`

  auto key() const { return std::tie(dislike, scattered, gpus_beside, first, waste, second, apart, node); }
  bool better_than(const RankedNode& o) const { return o.node == kNoId || key() < o.key(); }
};

// The best node for the next of `wanted` bundles, with room for `least`. Pack: the node that takes most of
// them; of those, for a single pod and for shares, the one of which the least is of no use then, else the one
// with least left. Spread: the emptiest. O(distinct numbers of free GPUs x models) when whole GPUs are asked,
// nobody in the pool shares any, CPU and memory are not short and nothing is preferred; else O(nodes with
// enough free GPUs).
RankedNode best_node(const NodeSearch& search, std::int64_t wanted, std::int64_t least = 1);

// All nodes that take some bundles of a shape without GPUs, in no order. Better ones take more of them, and
// of those that take as many, have less CPU free. `shun`: no nodes with a taint PreferNoSchedule. O(nodes).
std::vector<RankedNode> nodes_by_room(const NodeSearch& search, bool shun);

// On how few nodes of the domain so many bundles find room: those with most room first. By free GPUs alone
// where whole ones are asked, O(distinct numbers of free GPUs x models); without GPUs O(nodes). 0: not told.
std::int64_t fewest_nodes(const NodeSearch& search, std::int64_t bundles);

}  // namespace muster::placement
