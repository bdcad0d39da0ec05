#include "muster/reconcilers/placement/node_topology.h"

#include <algorithm>
#include <charconv>
#include <nlohmann/json.hpp>
#include <optional>

#include "muster/common/quantity.h"
#include "muster/crds/quantity.h"
#include "muster/placement/amounts.h"
#include "muster/reconcilers/common/json_reader.h"

namespace muster::reconcilers {
namespace {

constexpr std::int64_t kMaxDevices = 1024;  // of one kind in one zone
// Attributes that the exporters have in common; the list of the older field says the same in other words.
constexpr std::string_view kPolicyAttribute = "topologyManagerPolicy";
constexpr std::string_view kSingle = "single-numa-node";
constexpr std::string_view kRestricted = "restricted";

constexpr const char* kNobodySays =
    "no NodeResourceTopology says what their NUMA nodes have (the topology updater of Node Feature Discovery "
    "publishes them)";
constexpr const char* kNoGpusInZones =
    "their NodeResourceTopology does not say on which NUMA nodes their GPUs are";

// N of "node-N", as exporters name the zone of NUMA node N; nullopt: another name.
std::optional<std::int32_t> numa_node_of(const std::string& name) {
  constexpr std::string_view kPrefix = "node-";
  if (!name.starts_with(kPrefix)) return std::nullopt;
  std::int32_t number = 0;
  const char* const end = name.data() + name.size();
  const auto [next, error] = std::from_chars(name.data() + kPrefix.size(), end, number);
  return error == std::errc() && next == end && number >= 0 ? std::optional(number) : std::nullopt;
}

struct Zone {
  std::int32_t number = 0;
  placement::NumaZone amounts;
  std::map<std::string, std::int32_t> devices;
};

std::optional<crds::FieldError> read_resource(const Json& resource, const std::string& at, Zone& zone) {
  const Json* stated = find(resource, "allocatable");
  const std::string field = at + (stated != nullptr ? ".allocatable" : ".capacity");
  if (stated == nullptr) stated = find(resource, "capacity");
  if (stated == nullptr) return std::nullopt;
  const std::string name = text(find(resource, "name"));
  const bool is_device = name.find('/') != std::string::npos;
  if (name != "cpu" && name != "memory" && !is_device) return std::nullopt;
  const std::string quantity = stated->is_string() ? stated->get<std::string>() : stated->dump();
  const auto amount = crds::parse_quantity(quantity, name == "memory" ? 1 : 1000);
  if (!amount) return crds::FieldError{{}, field, amount.error(), {}};
  if (name == "cpu") zone.amounts.cpu.value = *amount;
  if (name == "memory") zone.amounts.memory.value = *amount;
  if (!is_device) return std::nullopt;
  if (*amount % 1000 != 0) return crds::FieldError{{}, field, "must be a whole number, is " + quantity, {}};
  zone.devices[name] = static_cast<std::int32_t>(std::clamp<std::int64_t>(*amount / 1000, 0, kMaxDevices));
  return std::nullopt;
}

// "SingleNUMANodePodLevel" is the older field's word.
std::string policy_of(const Json& object) {
  for (const Json& attribute : items(find(object, "attributes"))) {
    if (text(find(attribute, "name")) == kPolicyAttribute) return text(find(attribute, "value"));
  }
  for (const Json& word : items(find(object, "topologyPolicies"))) {
    const std::string policy = text(&word);
    if (policy.starts_with("SingleNUMANode")) return std::string(kSingle);
    if (policy.starts_with("Restricted")) return std::string(kRestricted);
    if (policy.starts_with("BestEffort")) return "best-effort";
    if (policy == "None") return "none";
  }
  return {};
}

// The GPUs of a node, dealt to its zones in order, as many as each says it has. Empty: they are not that
// many.
std::vector<std::int32_t> numa_of_gpus(const NodeTopology& topology,
                                       const std::set<std::string>& gpu_resources, std::int32_t gpus) {
  std::vector<std::int32_t> numa;
  for (std::size_t z = 0; z < topology.devices.size(); ++z) {
    for (const auto& [resource, count] : topology.devices[z]) {
      if (gpu_resources.contains(resource))
        numa.insert(numa.end(), static_cast<std::size_t>(count), static_cast<std::int32_t>(z));
    }
  }
  return numa.size() == static_cast<std::size_t>(gpus) ? numa : std::vector<std::int32_t>{};
}

}  // namespace

const client::Resource kNodeTopologies{"topology.node.k8s.io", "v1alpha2", "noderesourcetopologies", false};

crds::Result<NodeTopology> read_node_topology(const Json& object) {
  std::vector<Zone> list;
  bool are_numbered = true;
  std::size_t z = 0;
  for (const Json& stated : items(find(object, "zones"))) {
    const std::string at = "zones[" + std::to_string(z++) + "].resources[";
    if (text(find(stated, "type")) != "Node") continue;
    const auto number = numa_node_of(text(find(stated, "name")));
    are_numbered = are_numbered && number.has_value();
    Zone& zone = list.emplace_back(Zone{number.value_or(0), {}, {}});
    std::size_t r = 0;
    for (const Json& resource : items(find(stated, "resources"))) {
      if (auto problem = read_resource(resource, at + std::to_string(r++) + "]", zone))
        return std::unexpected(*std::move(problem));
    }
  }
  if (are_numbered) std::ranges::stable_sort(list, {}, &Zone::number);
  NodeTopology topology;
  topology.policy = policy_of(object);
  for (Zone& zone : list) {
    topology.zones.push_back(zone.amounts);
    topology.devices.push_back(std::move(zone.devices));
  }
  return topology;
}

client::Result<NodeTopology> decode_node_topology(std::string_view json) {
  const auto object = read_object(json, "NodeResourceTopology");
  if (!object) return std::unexpected(object.error());
  auto topology = read_node_topology(*object);
  client::Meta meta = meta_of(*object);
  if (!topology) {
    return std::unexpected(client::Error{.code = client::ErrorCode::kDecode,
                                         .message = "NodeResourceTopology " + meta.name + ": " +
                                                    topology.error().field + ": " +
                                                    topology.error().message});
  }
  topology->meta = std::move(meta);
  return *std::move(topology);
}

void add_topology(placement::NodeSpec& node, const NodeTopology* topology,
                  const std::set<std::string>& gpu_resources) {
  node.unaligned.clear();
  if (topology == nullptr) {
    // Who states the annotation answers for the kubelet as well.
    if (node.gpu_numa.empty()) node.unaligned = kNobodySays;
    return;
  }
  node.zones = topology->zones;
  if (node.gpu_numa.empty()) node.gpu_numa = numa_of_gpus(*topology, gpu_resources, node.gpus);
  if (topology->policy == kSingle) {
    node.numa_policy = placement::NumaPolicy::kSingle;
  } else if (topology->policy == kRestricted) {
    node.numa_policy = placement::NumaPolicy::kRestricted;
  } else {
    node.unaligned = std::string(kPolicyAttribute) + " of their kubelets is " +
                     (topology->policy.empty() ? "not known" : topology->policy) + ", and must be " +
                     std::string(kSingle) + " or " + std::string(kRestricted);
    return;
  }
  if (node.gpu_numa.empty()) node.unaligned = kNoGpusInZones;
}

}  // namespace muster::reconcilers
