// NodeResourceTopology (topology.node.k8s.io/v1alpha2): what a node's NUMA nodes have, and what its kubelet
// does about them. Others publish it: the topology updater of Node Feature Discovery, or
// resource-topology-exporter. A cluster may do without the kind.
#pragma once

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "muster/client/api.h"
#include "muster/client/error.h"
#include "muster/client/object.h"
#include "muster/crds/common.h"
#include "muster/crds/error.h"
#include "muster/placement/node.h"

namespace muster::reconcilers {

extern const client::Resource kNodeTopologies;

struct NodeTopology {
  client::Meta meta;  // its name is the node's
  // Of type Node only, by the number in their names ("node-1") where all have one, else as they are listed.
  std::vector<placement::NumaZone> zones;
  std::vector<std::map<std::string, std::int32_t>> devices;  // of each zone, by extended resource
  std::string policy;  // topologyManagerPolicy, as the kubelet spells it: "single-numa-node", …; "": not said
};

client::Result<NodeTopology> decode_node_topology(std::string_view json);
// Without its Meta. The error names the field.
crds::Result<NodeTopology> read_node_topology(const crds::Json& object);

// Adds what is known of the node's NUMA nodes to what its Node object has told. nullptr: nobody says. GPUs
// whose NUMA nodes nothing else has told are dealt to the zones in order, as many as each says it has.
void add_topology(placement::NodeSpec& node, const NodeTopology* topology,
                  const std::set<std::string>& gpu_resources);

}  // namespace muster::reconcilers
