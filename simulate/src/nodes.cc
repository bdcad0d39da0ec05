// The ground under workloads: nodes that come, change, fail and go.
#include <algorithm>

#include "muster/reconcilers/placement/placement_specs.h"
#include "world.h"

namespace muster::simulate {
namespace {

// The GPUs of a node, dealt to its zones in order, as many as each says it has. Empty: they are
// not that many.
std::vector<std::int32_t> numa_of_gpus(const NodeZones& node, const std::set<std::string>& gpu_resources,
                                       std::int32_t gpus) {
  std::vector<std::int32_t> numa;
  for (std::size_t z = 0; z < node.devices.size(); ++z) {
    for (const auto& [resource, count] : node.devices[z]) {
      if (gpu_resources.contains(resource))
        numa.insert(numa.end(), static_cast<std::size_t>(count), static_cast<std::int32_t>(z));
    }
  }
  return numa.size() == static_cast<std::size_t>(gpus) ? numa : std::vector<std::int32_t>{};
}

}  // namespace

pl::NodeSpec World::node_spec(const std::string& name) const {
  const auto found = nodes.find(name);
  if (found == nodes.end() || found->second.object == nullptr) return {};
  pl::NodeSpec spec = reconcilers::node_spec(found->second.object->node, gpu_resources_);
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
  if (const auto zones = zones_.find(name); zones != zones_.end()) {
    spec.zones = zones->second->zones;
    if (spec.gpu_numa.empty()) spec.gpu_numa = numa_of_gpus(*zones->second, gpu_resources_, spec.gpus);
  }
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
  leave_lost_ground(name);
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
  for (const auto& [key, w] : workloads_) {
    for (const auto& g : w->gangs) {
      if (std::ranges::any_of(g->assignment.pods, [&](const auto& p) { return p.node == name; }))
        stall(*g, 1);
    }
  }
}

void World::node_counts(const std::string& name) {
  nodes.at(name).counted = true;
  leave_lost_ground(name);
}

void World::node_recovers(const std::string& name) {
  const auto found = nodes.find(name);
  if (found == nodes.end() || !found->second.failed) return;
  const bool was_counted = found->second.counted;
  found->second.failed = found->second.counted = false;
  ++found->second.version;
  changed_ = true;
  put_node(name);
  if (was_counted) return;
  for (const auto& [key, w] : workloads_) {
    for (const auto& g : w->gangs) {
      if (std::ranges::any_of(g->assignment.pods, [&](const auto& p) { return p.node == name; }))
        stall(*g, -1);
    }
  }
}

void World::node_gone(const std::string& name) {
  if (nodes.erase(name) == 0) return;
  cluster.remove_node(name);
  capacity_stale_ = true;
  not_all_count_[name] = {};
  // Where a gang stood on a node that had failed before it went, its stall ends with the place.
  leave_lost_ground(name);
}

// --- places that are lost

// Nothing runs there any more.
bool World::is_dead(const std::string& name) const {
  const auto node = nodes.find(name);
  return node == nodes.end() || node->second.counted ||
         reconcilers::is_out_of_service(node->second.object->node);
}

// The pod is to be placed anew.
bool World::is_lost(const pl::PodPlace& pod) const {
  if (is_dead(pod.node)) return true;
  const NodeState& node = nodes.at(pod.node);
  return reconcilers::is_in_maintenance(node.object->node) ||
         std::ranges::any_of(pod.gpus, [&](std::int32_t gpu) {
           return std::ranges::find(node.bad_gpus, gpu) != node.bad_gpus.end();
         });
}

void World::leave_lost_ground(const std::string& name) {
  const bool is_well = !is_dead(name) && nodes.at(name).bad_gpus.empty() &&
                       !reconcilers::is_in_maintenance(nodes.at(name).object->node);
  if (is_well) return;
  for (const auto& [key, w] : workloads_) {
    for (const auto& g : w->gangs) lose_pods(*g);
  }
}

// Pods on lost ground need other places; what becomes of the gang is placement's decision.
void World::lose_pods(Gang& g) {
  if (std::erase_if(g.leaving, [&](const pl::PodPlace& p) { return is_dead(p.node); }) != 0) {
    charge(g);
    if (g.leaving.empty()) {
      ++g.leaves_version;
      release(g);
    } else {
      cluster.set_leaving(g.id, g.leaving);
    }
    changed_ = true;
  }
  std::vector<std::size_t> displaced;
  bool all_there = true;
  for (std::size_t i = 0; i < g.assignment.pods.size(); ++i) {
    if (!is_lost(g.assignment.pods[i])) continue;
    displaced.push_back(i);
    all_there = all_there && !is_dead(g.assignment.pods[i].node);
  }
  if (displaced.empty()) return;
  g.can_save = all_there && (g.state == Gang::State::kBroken ? g.can_save : g.stalled == 0);
  if (g.work.runs()) g.work.resize(now, 0, 0);
  ++g.ends_version;
  g.state = Gang::State::kBroken;
  g.stalled = 0;
  cluster.set_assignment(g.id, g.assignment, displaced);
  changed_ = true;
}

}  // namespace muster::simulate
