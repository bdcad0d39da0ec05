#include "muster/reconcilers/pods/pod_builder.h"

#include <algorithm>
#include <array>
#include <cassert>
#include <cstddef>
#include <nlohmann/json.hpp>
#include <optional>
#include <utility>
#include <vector>

#include "muster/reconcilers/common/json_reader.h"
#include "muster/reconcilers/common/owner.h"
#include "muster/reconcilers/pods/elastic.h"
#include "muster/reconcilers/pods/gpu_share.h"
#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/pods/rendezvous.h"
#include "muster/reconcilers/pods/role_groups.h"

namespace muster::reconcilers {
namespace {

using crds::Json;
using crds::Role;
using crds::TrainingJob;

constexpr std::string_view kHostsVolume = "muster-hosts";
constexpr std::string_view kCheckpointVolume = "muster-checkpoint";

// What differs from pod to pod.
enum Hole : std::size_t {
  kName,
  kHost,
  kNode,
  kIndex,
  kRank,
  kAttempt,
  kTry,
  kGpus,
  kIsFirst,
  kDevices,
  kHolders,
  kGroup,
  kWorker,
  kLeader,
  kTraffic,
  kLimits,
  kHoles
};

// Words that stand for the holes in a role's JSON and occur nowhere else in it.
class Marks {
 public:
  explicit Marks(const std::string& text) {
    for (int i = 0; prefix_.empty() || text.find(prefix_) != std::string::npos; ++i) {
      prefix_ = "@{muster:" + std::to_string(i) + ":";
    }
  }
  std::string operator[](Hole hole) const { return prefix_ + static_cast<char>('a' + hole) + "}"; }
  const std::string& prefix() const { return prefix_; }

 private:
  std::string prefix_;
};

// Literal, hole, literal, hole, …, literal: all of them string contents that need no escaping in JSON.
struct Rendered {
  struct Piece {
    std::string literal;
    Hole hole;
  };
  std::vector<Piece> pieces;
  std::string tail;
  std::size_t size = 0;

  Rendered(const std::string& text, const Marks& marks) : size(text.size()) {
    const std::string& prefix = marks.prefix();
    std::size_t at = 0;
    for (;;) {
      const std::size_t found = text.find(prefix, at);
      if (found == std::string::npos) break;
      const char letter = text[found + prefix.size()];
      pieces.push_back({text.substr(at, found - at), static_cast<Hole>(letter - 'a')});
      at = found + prefix.size() + 2;  // the letter and the closing brace
    }
    tail = text.substr(at);
  }
};

// The object or list under `key`, made where it is absent, null or of another type.
Json& child(Json& parent, std::string_view key, Json::value_t type) {
  Json& value = parent[std::string(key)];
  if (value.type() != type) value = Json(type);
  return value;
}
Json& object_in(Json& parent, std::string_view key) {
  return child(parent, key, Json::value_t::object);
}
Json& list_in(Json& parent, std::string_view key) {
  return child(parent, key, Json::value_t::array);
}

// Labels and annotations of the template, and ours; nothing else of its metadata, as Kubernetes' own
// controllers do.
Json metadata_of(const TrainingJob& job, const Role& role, const Json& pod_template, const Marks& marks) {
  Json meta = Json::object();
  if (const auto own = pod_template.find("metadata"); own != pod_template.end() && own->is_object()) {
    for (const char* key : {"labels", "annotations"}) {
      if (own->contains(key) && (*own)[key].is_object()) meta[key] = (*own)[key];
    }
  }
  meta["name"] = marks[kName];
  meta["namespace"] = job.metadata.ns;
  meta["ownerReferences"] = owner_references(job);
  Json& labels = object_in(meta, "labels");
  for (auto& [key, value] : labels_of_pods(job, role)) labels[key] = value;
  labels[std::string(kIndexLabel)] = marks[kIndex];
  labels[std::string(kAttemptLabel)] = marks[kAttempt];
  labels[std::string(kTryLabel)] = marks[kTry];
  if (group_size_of(job, role.name) > 0) {
    labels[std::string(kGroupLabel)] = marks[kGroup];
    labels[std::string(kWorkerLabel)] = marks[kWorker];
    if (takes_traffic(job, role.name)) labels[std::string(kTrafficLabel)] = marks[kTraffic];
  }
  if (!role.gpus) return meta;
  Json& annotations = object_in(meta, "annotations");
  annotations[std::string(kGpusAnnotation)] = marks[kGpus];
  if (auto share = share_text(*role.gpus); !share.empty())
    annotations[std::string(kShareAnnotation)] = std::move(share);
  if (is_shared(*role.gpus)) annotations[std::string(kHoldersAnnotation)] = marks[kHolders];
  return meta;
}

// Ours first, so that the template's may refer to them by $(NAME); a name that the template has stays
// the template's.
void inject_environment(Json& container, const std::vector<EnvVar>& env, const std::string& config_map) {
  const Json own = std::exchange(list_in(container, "env"), Json::array());
  Json& all = container["env"];
  for (const EnvVar& var : env) {
    const bool taken = std::ranges::any_of(
        own, [&](const Json& v) { return v.is_object() && v.contains("name") && v["name"] == var.name; });
    if (taken) continue;
    if (var.config_map_key.empty()) {
      all.push_back({{"name", var.name}, {"value", var.value}});
    } else {
      const Json ref = {{"name", config_map}, {"key", var.config_map_key}};
      all.push_back({{"name", var.name}, {"valueFrom", {{"configMapKeyRef", ref}}}});
    }
  }
  all.insert(all.end(), own.begin(), own.end());
}

void mount(Json& container, std::string_view volume, std::string_view path, bool read_only) {
  Json& mounts = list_in(container, "volumeMounts");
  const bool taken = std::ranges::any_of(mounts, [&](const Json& m) {
    return m.is_object() && m.contains("mountPath") && m["mountPath"] == path;
  });
  if (taken) return;
  Json entry = {{"name", volume}, {"mountPath", path}};
  if (read_only) entry["readOnly"] = true;
  mounts.push_back(std::move(entry));
}

template <class Fn>
void for_each_container(Json& spec, Fn fn) {
  for (const char* list : {"initContainers", "containers"}) {
    if (!spec.contains(list) || !spec[list].is_array()) continue;
    for (Json& container : spec[list]) {
      if (container.is_object()) fn(container);
    }
  }
}

bool mounts_claim(const TrainingJob& job) {
  return job.spec.checkpoint && !job.spec.checkpoint->claim_name.empty();
}

void add_volumes(Json& spec, const TrainingJob& job) {
  Json& volumes = list_in(spec, "volumes");
  volumes.push_back(
      {{"name", kHostsVolume}, {"configMap", {{"name", hosts_config_map_name(job.metadata.name)}}}});
  if (!mounts_claim(job)) return;
  const Json claim = {{"claimName", job.spec.checkpoint->claim_name}};
  volumes.push_back({{"name", kCheckpointVolume}, {"persistentVolumeClaim", claim}});
}

// These override the template's. Without them, an image made for GPUs would see all GPUs of its node.
void set_environment(Json& container, const std::vector<EnvVar>& env) {
  auto& all = list_in(container, "env").get_ref<Json::array_t&>();
  Json::array_t ours;
  for (const EnvVar& var : env) {
    std::erase_if(
        all, [&](const Json& v) { return v.is_object() && v.contains("name") && v["name"] == var.name; });
    ours.push_back({{"name", var.name}, {"value", var.value}});
  }
  all.insert(all.begin(), ours.begin(), ours.end());
}

void ask_for_gpus(Json& spec, std::int32_t count, std::string_view gpu_resource) {
  Json& containers = list_in(spec, "containers");
  if (containers.empty() || !containers.front().is_object()) return;  // the API server will say so
  Json& resources = object_in(containers.front(), "resources");
  for (const char* list : {"limits", "requests"}) {
    object_in(resources, list)[std::string(gpu_resource)] = std::to_string(count);
  }
}

// Under hostNetwork Kubernetes takes ClusterFirst for Default, and the names of the other pods do not
// resolve.
void resolve_names_of_pods(Json& spec) {
  const auto stated = spec.find("dnsPolicy");
  const bool is_default =
      stated == spec.end() || stated->is_null() || *stated == "" || *stated == "ClusterFirst";
  if (is_default && is_true(find(spec, "hostNetwork"))) spec["dnsPolicy"] = "ClusterFirstWithHostNet";
}

// `limited`: it is told how much memory of each of its shared GPUs is its part.
Json spec_of(const TrainingJob& job, const Role& role, const Json& pod_template, const GpuMeans& gpus,
             const Marks& marks, bool limited) {
  Json spec = pod_template.contains("spec") ? pod_template["spec"] : Json::object();
  if (!spec.is_object()) spec = Json::object();
  spec["nodeName"] = marks[kNode];
  spec["hostname"] = marks[kHost];
  spec["subdomain"] = service_name(job.metadata.name);
  spec["restartPolicy"] = "Never";
  resolve_names_of_pods(spec);
  if (!spec.contains("serviceAccountName")) spec["serviceAccountName"] = kJobAccount;
  if (!job.spec.priority_class_name.empty()) spec["priorityClassName"] = job.spec.priority_class_name;
  if (job.spec.checkpoint) spec["terminationGracePeriodSeconds"] = job.spec.checkpoint->grace_period.count();
  const bool shares = role.gpus && is_shared(*role.gpus);
  if (role.gpus && !shares)
    ask_for_gpus(spec, crds::devices_of(*role.gpus), resource_of(*role.gpus, gpus.resource));

  const PodNumbers numbers{marks[kIndex], marks[kRank],   marks[kAttempt], marks[kIsFirst],
                           marks[kGroup], marks[kWorker], marks[kLeader]};
  const std::vector<EnvVar> env = environment(job, role, numbers);
  const std::string config_map = hosts_config_map_name(job.metadata.name);
  for_each_container(spec, [&](Json& container) {
    inject_environment(container, env, config_map);
    if (shares)
      set_environment(container, share_environment(*role.gpus, marks[kDevices], gpus.mps,
                                                   limited ? marks[kLimits] : std::string()));
    mount(container, kHostsVolume, kHostsDirectory, true);
    if (mounts_claim(job)) mount(container, kCheckpointVolume, job.spec.checkpoint->mount_path, false);
  });
  add_volumes(spec, job);
  return spec;
}

std::string dump(const Json& json) {
  return json.dump(-1, ' ', false, Json::error_handler_t::replace);
}

Rendered prepare(const TrainingJob& job, const Role& role, const GpuMeans& gpus, bool limited) {
  static const Json kNone = Json::object();
  const Json& pod_template =
      role.pod_template.value && role.pod_template.value->is_object() ? *role.pod_template.value : kNone;
  const Marks marks(dump(pod_template));
  Json pod = {{"apiVersion", "v1"}, {"kind", "Pod"}};
  pod["metadata"] = metadata_of(job, role, pod_template, marks);
  pod["spec"] = spec_of(job, role, pod_template, gpus, marks, limited);
  return Rendered(dump(pod), marks);
}

}  // namespace

struct PodBuilder::Impl {
  struct PerRole {
    std::string name;
    std::int32_t first_rank;
    std::int32_t group_size;  // 0: its pods are no groups
    Rendered pod;
    std::optional<Rendered> limited;  // fractions under MPS, on a node whose GPUs' memory is known
  };
  std::string job;
  std::int32_t attempt;
  std::vector<PerRole> roles;
};

PodBuilder::PodBuilder(const TrainingJob& job, const GpuMeans& gpus) {
  auto impl = std::make_unique<Impl>();
  impl->job = job.metadata.name;
  impl->attempt = job.status.assignment.attempt;
  for (const Role& role : job.spec.roles) {
    impl->roles.push_back({role.name, first_rank(job, role.name), group_size_of(job, role.name),
                           prepare(job, role, gpus, false), std::nullopt});
    if (gpus.mps && role.gpus && role.gpus->fraction)
      impl->roles.back().limited = prepare(job, role, gpus, true);
  }
  impl_ = std::move(impl);
}
PodBuilder::~PodBuilder() = default;
PodBuilder::PodBuilder(PodBuilder&&) noexcept = default;
PodBuilder& PodBuilder::operator=(PodBuilder&&) noexcept = default;

std::string PodBuilder::pod(const crds::PodAssignment& place, const HeldDevices& held) const {
  return pod(place, impl_->attempt, held);
}

std::string PodBuilder::pod(const crds::PodAssignment& place, std::int32_t attempt,
                            const HeldDevices& held) const {
  const auto role = std::ranges::find(impl_->roles, place.role, &Impl::PerRole::name);
  assert(role != impl_->roles.end());
  if (role == impl_->roles.end()) return {};
  const std::int32_t rank = role->first_rank + place.index;
  std::array<std::string, kHoles> values;
  values[kName] = pod_name(impl_->job, place.role, place.index, attempt, place.tries);
  values[kHost] = host_name(place.role, place.index);
  values[kNode] = place.node;
  values[kIndex] = std::to_string(place.index);
  values[kRank] = std::to_string(rank);
  values[kAttempt] = std::to_string(attempt);
  values[kTry] = std::to_string(place.tries);
  values[kGpus] = gpu_list(place.gpus);
  values[kDevices] = held.ids;
  values[kHolders] = held.holders;
  values[kLimits] = held.memory_limits;
  values[kIsFirst] = rank == 0 ? "true" : "false";
  if (const std::int32_t size = role->group_size; size > 0) {
    const std::int32_t worker = place.index % size;
    values[kGroup] = std::to_string(place.index / size);
    values[kWorker] = std::to_string(worker);
    values[kLeader] = host_name(place.role, place.index - worker);
    values[kTraffic] = worker == 0 ? "true" : "false";
  }

  const Rendered& rendered = role->limited && !held.memory_limits.empty() ? *role->limited : role->pod;
  std::string text;
  text.reserve(rendered.size + place.node.size() + 2 * values[kName].size());
  for (const auto& [literal, hole] : rendered.pieces) text.append(literal).append(values[hole]);
  return text.append(rendered.tail);
}

std::string service_json(const TrainingJob& job) {
  const Json label = {{std::string(kJobLabel), job_label(job.metadata.name)}};
  Json meta = {{"name", service_name(job.metadata.name)}, {"namespace", job.metadata.ns}, {"labels", label}};
  meta["ownerReferences"] = owner_references(job);
  // Of the attempt in force: a pod of an earlier one may stay for long on a node that is lost, under
  // the same name.
  Json selector = label;
  selector[std::string(kAttemptLabel)] = std::to_string(job.status.assignment.attempt);
  const Json spec = {{"clusterIP", "None"}, {"publishNotReadyAddresses", true}, {"selector", selector}};
  return dump({{"apiVersion", "v1"}, {"kind", "Service"}, {"metadata", std::move(meta)}, {"spec", spec}});
}

std::string hosts_config_map_json(const TrainingJob& job) {
  const Json label = {{std::string(kJobLabel), job_label(job.metadata.name)}};
  Json meta = {
      {"name", hosts_config_map_name(job.metadata.name)}, {"namespace", job.metadata.ns}, {"labels", label}};
  meta["ownerReferences"] = owner_references(job);
  Json data = Json::object();
  for (auto& [key, text] : rendezvous_files(job)) data[key] = std::move(text);
  return dump({{"apiVersion", "v1"},
               {"kind", "ConfigMap"},
               {"metadata", std::move(meta)},
               {"data", std::move(data)}});
}

}  // namespace muster::reconcilers
