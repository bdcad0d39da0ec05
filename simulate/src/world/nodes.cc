// The ground under workloads: nodes that come, change, fail and go.
#include <algorithm>
#include <utility>

#include "muster/reconcilers/placement/placement_specs.h"
#include "world/world.h"

namespace muster::simulate {
pl::NodeSpec World::node_spec(const std::string& name) const {
  const auto found = nodes.find(name);
  if (found == nodes.end() || found->second.object == nullptr) return {};
  pl::NodeSpec spec = reconcilers::node_spec(found->second.object->node, other_pods_.gpu_resources());
  if (found->second.failed) spec.usable = false;
  const auto slices = devices_.find(name);
  if (slices != devices_.end()) {
    // Without a device plugin the slices say what there is.
    const bool counts = spec.gpus == 0;
    std::vector<std::int32_t> numa;
    std::int32_t first = 0;
    for (const auto& [slice, devices] : slices->second) {
      if (counts) spec.gpus += devices->gpus;
      if (spec.gpu_model.empty()) spec.gpu_model = devices->model;
      if (spec.gpu_memory.value == 0) spec.gpu_memory.value = devices->memory.value;
      numa.insert(numa.end(), devices->numa.begin(), devices->numa.end());
      for (const std::int32_t gpu : devices->not_to_be_given_out) spec.unhealthy.push_back(first + gpu);
      first += devices->gpus;
    }
    spec.allocatable.gpu.value = spec.gpus * pl::kMilliPerGpu;
    if (spec.gpu_numa.empty() && numa.size() == static_cast<std::size_t>(spec.gpus)) spec.gpu_numa = numa;
  }
  const auto topology = topologies_.find(name);
  reconcilers::add_topology(spec, topology == topologies_.end() ? nullptr : topology->second,
                            other_pods_.gpu_resources());
  return spec;
}

void World::put_node(const std::string& name) {
  const pl::NodeSpec spec = node_spec(name);
  NodeState& node = nodes.at(name);
  cluster.upsert_node(spec);
  count_capacity(spec);
  node.bad_gpus = reconcilers::unhealthy_gpus(node.object->node);
  if (const auto slices = devices_.find(name); slices != devices_.end()) {
    std::int32_t first = 0;
    for (const auto& [slice, devices] : slices->second) {
      for (const std::int32_t gpu : devices->to_be_left) node.bad_gpus.push_back(first + gpu);
      first += devices->gpus;
    }
  }
  const bool was_sound = std::exchange(node.is_sound, !is_dead(name) && node.bad_gpus.empty() &&
                                                          !reconcilers::is_in_maintenance(node.object->node));
  if (!was_sound || !node.is_sound) look_at_gangs_on(name);
}

void World::node_fails(const std::string& name) {
  const auto found = nodes.find(name);
  if (found == nodes.end() || found->second.failed) return;
  NodeState& node = found->second;
  node.failed = true;
  ++node.version;
  changed_ = true;
  put_node(name);
  agenda_add(now + reconcilers::to_duration(options_.fault_after), Due::kNodeCounts, nullptr, 0, node.version,
             name);
  look_at_gangs_on(name);
}

void World::node_counts(const std::string& name) {
  nodes.at(name).counted = true;
  nodes.at(name).is_sound = false;
  look_at_gangs_on(name);
}

void World::node_recovers(const std::string& name) {
  const auto found = nodes.find(name);
  if (found == nodes.end() || !found->second.failed) return;
  found->second.failed = found->second.counted = false;
  ++found->second.version;
  changed_ = true;
  put_node(name);
  look_at_gangs_on(name);
}

void World::node_gone(const std::string& name) {
  if (nodes.erase(name) == 0) return;
  cluster.remove_node(name);
  capacity_stale_ = true;
  not_all_count_[name] = {};
  look_at_gangs_on(name);
}

// --- places that are lost

// Nothing runs there any more.
bool World::is_dead(const std::string& name) const {
  const auto node = nodes.find(name);
  return node == nodes.end() || node->second.counted ||
         reconcilers::is_out_of_service(node->second.object->node);
}

// No program on it gets on.
bool World::is_failed(const std::string& name) const {
  const auto node = nodes.find(name);
  return node == nodes.end() || node->second.failed;
}

reconcilers::NodeHealth World::health_of(const std::string& name) const {
  reconcilers::NodeHealth health;
  if (is_dead(name)) {
    health.lost = "node " + name + " is lost";
    health.ready = false;
    return health;
  }
  const NodeState& node = nodes.at(name);
  health.ready = !node.failed;
  health.bad_gpus = node.bad_gpus;
  if (reconcilers::is_in_maintenance(node.object->node)) health.lost = "node " + name + " is in maintenance";
  return health;
}

// What has pods there, or is to have them.
void World::look_at_gangs_on(const std::string& name) {
  std::vector<Gang*> there;
  for (const auto& [key, w] : workloads_) {
    for (const auto& g : w->gangs) {
      const bool stands =
          std::ranges::any_of(g->assignment.pods, [&](const auto& p) { return p.node == name; }) ||
          std::ranges::any_of(g->pods, [&](const auto& p) { return p.place.node == name; });
      if (stands) there.push_back(g.get());
    }
  }
  for (Gang* g : there) {
    lose_pods_of_dead_nodes(*g);
    reconcile(*g);
    changed_ = true;
  }
}

// Where nothing runs any more a pod is gone without having been told to go.
void World::lose_pods_of_dead_nodes(Gang& g) {
  std::erase_if(g.pods, [&](const GangPod& p) { return is_dead(p.place.node); });
}

}  // namespace muster::simulate
