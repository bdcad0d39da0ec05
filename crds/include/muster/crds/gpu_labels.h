// What the labels of a node say of its GPUs. Every vendor has labels of its own (NodePool.spec.gpuLabels).
#pragma once

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/crds/node_pool.h"

namespace muster::crds {

struct GpusOfNode {
  std::string model;  // "": not said
  Bytes memory{};     // of one GPU; 0: not said, or it cannot be read
};

// The value of a label of the node; nullptr: it has none.
using LabelOfNode = std::function<const std::string*(const std::string& label)>;
GpusOfNode gpus_of_node(const GpuLabels& labels, const LabelOfNode& value);

// Those that the pool states, else those of NVIDIA's feature discovery.
const GpuLabels& gpu_labels_of(const NodePoolSpec& pool);
// Those of the first of these pools that selects the node.
const GpuLabels& gpu_labels_of(const std::vector<NodePool>& pools, const StringMap& node);

}  // namespace muster::crds
