#include "muster/reconcilers/placement/gpu_labels.h"

#include <utility>

#include "muster/crds/gpu_labels.h"

namespace muster::reconcilers {

bool GpuLabelsOfPools::set(const crds::NodePool& pool) {
  if (!pool.spec.gpu_labels) return remove(pool.metadata.name);
  Stated stated{pool.spec.node_selector, *pool.spec.gpu_labels};
  Stated& known = pools_[pool.metadata.name];
  if (known == stated) return false;
  known = std::move(stated);
  return true;
}

bool GpuLabelsOfPools::remove(const std::string& pool) {
  return pools_.erase(pool) > 0;
}

void GpuLabelsOfPools::read(placement::NodeSpec& node) const {
  for (const auto& [name, pool] : pools_) {
    if (!crds::matches(pool.nodes, node.labels)) continue;
    const auto gpus = crds::gpus_of_node(pool.labels, [&](const std::string& label) {
      const auto found = node.labels.find(label);
      return found == node.labels.end() ? nullptr : &found->second;
    });
    node.gpu_model = gpus.model;
    node.gpu_memory.value = gpus.memory.value;
    return;
  }
}

}  // namespace muster::reconcilers
