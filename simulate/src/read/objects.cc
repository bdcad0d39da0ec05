#include "read/objects.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <set>

#include "muster/crds/validate.h"
#include "muster/reconcilers/placement/placement_specs.h"
#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/services/service_objects.h"
#include "read/json.h"

namespace muster::simulate {
namespace {

using crds::Json;
using Errors = std::vector<crds::FieldError>;

class Reader {
 public:
  Reader(const crds::Document& document, Errors& errors)
      : document_(document), object_(*document.object), errors_(errors) {}

  const Json& object() const { return object_; }
  std::string name() const { return text(find(&object_, "metadata", "name")); }

  void fail(const std::string& field, std::string message) {
    errors_.push_back({crds::object_name(object_), field, std::move(message), document_.location(field)});
  }

  bool failed() const { return errors_.size() != before_; }

  std::int64_t quantity(const Json* value, std::int64_t scale, const std::string& field) {
    if (value == nullptr) return 0;
    const auto amount = crds::parse_quantity(quantity_of(*value), scale);
    if (!amount) fail(field, amount.error());
    return amount.value_or(0);
  }

  // As the API server takes the amount of a resource: of pods and devices there are whole ones only.
  void check_amount(const Json& value, const std::string& resource, const std::string& field) {
    const bool whole = resource == "pods" || resource.find('/') != std::string::npos;
    const auto amount = crds::parse_quantity(quantity_of(value), whole || resource == "cpu" ? 1000 : 1);
    if (!amount) return fail(field, amount.error());
    if (whole && *amount % 1000 != 0) fail(field, "must be a whole number, is " + value.dump());
  }

 private:
  const crds::Document& document_;
  const Json& object_;
  Errors& errors_;
  std::size_t before_ = errors_.size();
};

// As many as a kubelet takes that is not told otherwise.
constexpr std::string_view kUsualPods = "110";

// What a scenario leaves out: capacity stands in for allocatable, a kubelet's default for the number of pods,
// and a node that says nothing is Ready.
Json completed_node(const Json& object) {
  Json node = object;
  Json& status = node["status"];
  if (!status.is_object()) status = Json::object();
  if (find(status, "allocatable") == nullptr && find(status, "capacity") != nullptr)
    status["allocatable"] = status["capacity"];
  const Json* pods = find(find(status, "capacity"), "pods");
  Json& allocatable = status["allocatable"];
  if (!allocatable.is_object()) allocatable = Json::object();
  if (!allocatable.contains("pods")) allocatable["pods"] = pods != nullptr ? *pods : Json(kUsualPods);
  Json& conditions = status["conditions"];
  if (!conditions.is_array()) conditions = Json::array();
  const bool stated =
      std::ranges::any_of(conditions, [](const Json& c) { return text(find(c, "type")) == "Ready"; });
  if (!stated) conditions.push_back({{"type", "Ready"}, {"status", "True"}});
  return node;
}

Object read_node(Reader& reader, std::optional<Instant> fail_at, std::optional<Instant> recover_at) {
  const Json node = completed_node(reader.object());
  if (const Json* allocatable = find(&node, "status", "allocatable")) {
    const std::string list =
        find(&reader.object(), "status", "allocatable") != nullptr ? "allocatable" : "capacity";
    for (const auto& [resource, amount] : allocatable->items())
      reader.check_amount(amount, resource, "status." + list + "." + resource);
  }
  const Json* annotations = find(&node, "metadata", "annotations");
  const auto check = [&](std::string_view key, const auto& parse) {
    const Json* value = find(annotations, key);
    if (value == nullptr) return;
    if (const auto parsed = parse(text(value)); !parsed)
      reader.fail("metadata.annotations." + std::string(key), parsed.error());
  };
  check(reconcilers::kGpuLinksAnnotation, reconcilers::parse_gpu_links);
  check(reconcilers::kGpuNumaAnnotation, reconcilers::parse_gpu_numa);
  if (reader.failed()) return NodeObject{};
  auto decoded = client::decode_node(node.dump(), "muster.dev/");
  if (!decoded) {
    reader.fail("", decoded.error().message);
    return NodeObject{};
  }
  return NodeObject{std::move(*decoded), fail_at, recover_at};
}

std::optional<Object> read_topology(Reader& reader) {
  auto topology = reconcilers::read_node_topology(reader.object());
  if (!topology) {
    reader.fail(topology.error().field, topology.error().message);
    return std::nullopt;
  }
  topology->meta.name = reader.name();
  return *std::move(topology);
}

// The attribute of this name, whatever domain it is qualified with.
const Json* attribute(const Json& device, std::string_view name) {
  const Json* attributes = find(device, "attributes");
  if (attributes == nullptr) return nullptr;
  for (const auto& [key, value] : attributes->items()) {
    if (std::string_view(key).substr(key.find('/') + 1) == name) return &value;
  }
  return nullptr;
}

// Whether a driver of GPUs means a whole one. `type` tells MIG slices and the like apart; not every driver
// has it.
bool is_whole_gpu(const Json& device) {
  const Json* type = attribute(device, "type");
  return type == nullptr || text(find(type, "string")) == "gpu" || text(find(type, "string")) == "amdgpu";
}

bool has_taint(const Json& device, std::initializer_list<std::string_view> effects) {
  const Json* taints = find(device, "taints");
  if (taints == nullptr) return false;
  return std::ranges::any_of(*taints, [&](const Json& taint) {
    return std::ranges::find(effects, text(find(taint, "effect"))) != effects.end();
  });
}

// GPUs in the order of the slice. Those of other drivers (network cards) and devices of no one node are
// nothing that Muster places.
std::optional<Object> read_devices(Reader& reader) {
  NodeDevices result;
  result.slice = reader.name();
  const Json& spec = reader.object().at("spec");
  const Json* node = find(spec, "nodeName");
  const Json* devices = find(spec, "devices");
  if (!text(find(spec, "driver")).starts_with("gpu.") || node == nullptr || devices == nullptr)
    return std::nullopt;
  result.node = text(node);
  for (std::size_t i = 0; i < devices->size(); ++i) {
    const Json* basic = find((*devices)[i], "basic");  // resource.k8s.io/v1beta1
    const Json& device = basic != nullptr ? *basic : (*devices)[i];
    if (!is_whole_gpu(device)) continue;
    if (has_taint(device, {"NoSchedule", "NoExecute"})) result.not_to_be_given_out.push_back(result.gpus);
    if (has_taint(device, {"NoExecute"})) result.to_be_left.push_back(result.gpus);
    ++result.gpus;
    if (const Json* model = attribute(device, "productName")) result.model = text(find(model, "string"));
    if (const Json* numa = find(attribute(device, "numaNode"), "int");
        numa != nullptr && numa->is_number_integer())
      result.numa.push_back(numa->get<std::int32_t>());
    const Json* memory = find(find(device, "capacity"), "memory", "value");
    const std::string field =
        "spec.devices[" + std::to_string(i) + (basic != nullptr ? "].basic" : "]") + ".capacity.memory.value";
    if (memory != nullptr) result.memory.value = reader.quantity(memory, 1, field);
  }
  if (result.numa.size() != static_cast<std::size_t>(result.gpus)) result.numa.clear();
  return result;
}

// As the API server fills it in: a limit without a request is a request; of the pod as a whole, where no
// container asks for any.
Json completed_pod(const Json& object, Reader& reader) {
  Json pod = object;
  Json& spec = pod["spec"];
  std::set<std::string> asked;
  const auto complete = [&](Json& resources, const std::string& at, bool unless_asked) {
    for (const char* list : {"requests", "limits"}) {
      const Json* amounts = find(resources, list);
      if (amounts == nullptr || !amounts->is_object()) continue;
      for (const auto& [resource, amount] : amounts->items())
        reader.check_amount(amount, resource, at + "." + list + "." + resource);
    }
    if (const Json* limits = find(resources, "limits"); limits != nullptr && limits->is_object()) {
      const Json stated = *limits;
      for (const auto& [resource, amount] : stated.items()) {
        const bool is_asked = find(find(resources, "requests"), resource) != nullptr;
        if (!is_asked && !(unless_asked && asked.contains(resource)))
          resources["requests"][resource] = amount;
      }
    }
    const Json* requests = find(resources, "requests");
    if (requests == nullptr || !requests->is_object()) return;
    for (const auto& [resource, amount] : requests->items()) asked.insert(resource);
  };
  for (const char* list : {"initContainers", "containers"}) {
    if (find(spec, list) == nullptr) continue;
    for (std::size_t i = 0; i < spec[list].size(); ++i) {
      if (find(spec[list][i], "resources") != nullptr)
        complete(spec[list][i]["resources"],
                 "spec." + std::string(list) + "[" + std::to_string(i) + "].resources", false);
    }
  }
  if (find(spec, "resources") != nullptr) complete(spec["resources"], "spec.resources", true);
  return pod;
}

// One that is on no node occupies nothing.
std::optional<Object> read_pod(Reader& reader) {
  if (text(find(&reader.object(), "spec", "nodeName")).empty()) return std::nullopt;
  client::PodFields fields;
  fields.annotations = {std::string(reconcilers::kGpusAnnotation)};
  if (const Json* labels = find(&reader.object(), "metadata", "labels");
      labels != nullptr && labels->is_object()) {
    for (const auto& [key, value] : labels->items()) fields.labels.push_back(key);
  }
  const std::string completed = completed_pod(reader.object(), reader).dump();
  if (reader.failed()) return PodObject{};
  auto pod = client::decode_pod(completed, fields);
  if (!pod) {
    reader.fail("", pod.error().message);
    return PodObject{};
  }
  return PodObject{std::move(*pod)};
}

// Without what only a kubelet reads: a hundred thousand templates are much.
crds::RawJson as_placed(const crds::RawJson& pod_template) {
  const Json* spec = find(pod_template.value.get(), "spec");
  if (spec == nullptr || !spec->is_object()) return pod_template;
  Json placed = Json::object();
  if (const Json* labels = find(pod_template.value.get(), "metadata", "labels"))
    placed["metadata"]["labels"] = *labels;
  Json& rest = placed["spec"] = Json::object();
  for (const auto& [field, value] : spec->items()) {
    if (field == "volumes") continue;
    const bool are_containers = value.is_array() && (field == "containers" || field == "initContainers");
    if (!are_containers) {
      rest[field] = value;
      continue;
    }
    Json& list = rest[field] = Json::array();
    for (const Json& container : value) {
      Json& one = list.emplace_back(Json::object());
      for (const char* part : {"resources", "ports", "restartPolicy"}) {
        if (const Json* stated = find(container, part)) one[part] = *stated;
      }
    }
  }
  return {std::make_shared<const Json>(std::move(placed))};
}

Object read_job(crds::TrainingJob job, const Behaviour& behaviour) {
  JobObject result{std::move(job), behaviour, {}, {}};
  auto needs = reconcilers::pod_needs(result.job);
  if (needs) {
    result.needs = std::move(*needs);
  } else {
    result.invalid = needs.error().field + ": " + needs.error().message;
  }
  for (auto& role : result.job.spec.roles) role.pod_template = as_placed(role.pod_template);
  return result;
}

Object read_service(crds::InferenceService service, const Behaviour& behaviour) {
  ServiceObject result{std::move(service), {}, {}, behaviour, {}, {}};
  result.revision = reconcilers::revision_of(result.service);
  auto& spec = result.service.spec;
  const auto add_needs = [&](const crds::RawJson& pod_template, const std::optional<crds::Gpus>& gpus,
                             const std::string& field) {
    static const Json kNone;
    auto needs =
        reconcilers::server_needs(pod_template.value ? *pod_template.value : kNone, gpus, field,
                                  {{std::string(reconcilers::kServiceLabel), result.service.metadata.name},
                                   {std::string(reconcilers::kRevisionLabel), result.revision}});
    if (needs)
      result.needs.push_back(std::move(*needs));
    else if (result.invalid.empty())
      result.invalid = needs.error().field + ": " + needs.error().message;
  };
  if (spec.roles.empty()) add_needs(spec.pod_template, spec.gpus, "spec.template");
  for (std::size_t i = 0; i < spec.roles.size(); ++i)
    add_needs(spec.roles[i].pod_template, spec.roles[i].gpus, fmt::format("spec.roles[{}].template", i));
  // Its pods hold their places until they have served on.
  result.behaviour.saves_in += std::chrono::seconds{spec.drain_seconds.value_or(0)};
  spec.pod_template = as_placed(spec.pod_template);
  for (auto& role : spec.roles) role.pod_template = as_placed(role.pod_template);
  auto replica = crds::from_json<crds::TrainingJob>(
      reconcilers::replica_json(result.service, result.revision, 0, result.service.spec.priority_class_name,
                                /*is_guaranteed=*/!result.service.spec.preemptible));
  if (replica) result.replica = *std::move(replica);
  spec.pod_template = {};
  for (auto& role : spec.roles) role.pod_template = {};
  return result;
}

// A replica in a listing of a live cluster: its InferenceService is played, which makes its own.
bool is_replica(const Json& object) {
  const Json* owners = find(&object, "metadata", "ownerReferences");
  if (owners == nullptr) return false;
  return std::ranges::any_of(*owners, [](const Json& owner) {
    const Json* controls = find(&owner, "controller");
    return text(find(&owner, "apiVersion")) == crds::kApiVersion &&
           text(find(&owner, "kind")) == crds::InferenceService::kKind && controls != nullptr &&
           *controls == true;
  });
}

template <class Kind>
std::optional<Kind> decoded(Reader& reader) {
  auto result = crds::from_json<Kind>(reader.object());
  if (result) return std::move(*result);
  reader.fail(result.error().field, result.error().message);
  return std::nullopt;
}

std::optional<Object> read(Reader& reader, const Behaviour& behaviour, std::optional<Instant> fail_at,
                           std::optional<Instant> recover_at) {
  const Json& object = reader.object();
  const std::string kind = text(find(object, "kind"));
  if (kind == "Node") return read_node(reader, fail_at, recover_at);
  if (kind == "NodeResourceTopology") return read_topology(reader);
  if (kind == "ResourceSlice") return read_devices(reader);
  if (kind == "Pod") return read_pod(reader);
  if (kind == "Namespace") return NamespaceObject{reader.name()};
  if (kind == "PriorityClass") {
    const Json* by_default = find(object, "globalDefault");
    return PriorityClass{reader.name(), object.at("value").get<std::int32_t>(),
                         by_default != nullptr && by_default->get<bool>()};
  }
  const auto as = [&]<class Kind>(const auto& make) -> std::optional<Object> {
    auto value = decoded<Kind>(reader);
    if (!value) return std::nullopt;
    return make(std::move(*value));
  };
  const auto plain = [](auto value) { return Object(std::move(value)); };
  if (kind == "Queue") return as.operator()<crds::Queue>(plain);
  if (kind == "Project") return as.operator()<crds::Project>(plain);
  if (kind == "NodePool") return as.operator()<crds::NodePool>(plain);
  if (kind == "TrainingJob" && is_replica(object)) return std::nullopt;
  if (kind == "TrainingJob") {
    return as.operator()<crds::TrainingJob>(
        [&](auto value) { return read_job(std::move(value), behaviour); });
  }
  return as.operator()<crds::InferenceService>(
      [&](auto value) { return read_service(std::move(value), behaviour); });
}

}  // namespace

std::shared_ptr<const Object> read_object(const crds::Document& document, const Behaviour& behaviour,
                                          std::optional<Instant> fail_at, std::optional<Instant> recover_at,
                                          Errors& errors) {
  Reader reader(document, errors);
  auto object = read(reader, behaviour, fail_at, recover_at);
  if (!object || reader.failed()) return nullptr;
  return std::make_shared<const Object>(std::move(*object));
}

}  // namespace muster::simulate
