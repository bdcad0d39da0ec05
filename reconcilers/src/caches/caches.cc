#include "muster/reconcilers/caches/caches.h"

#include <nlohmann/json.hpp>

#include "muster/reconcilers/lifecycle/dependencies.h"
#include "muster/reconcilers/lifecycle/job_status.h"
#include "muster/reconcilers/pods/gpu_share.h"
#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/pods/pod_identity.h"

namespace muster::reconcilers {
namespace {

// Annotations of nodes that Muster reads.
constexpr std::string_view kNodeAnnotations = "muster.dev/";

client::WatcherOptions those_of_muster() {
  client::WatcherOptions options;
  options.label_selector = std::string(kManagedByLabel) + "=" + std::string(kManagedBy);
  return options;
}

}  // namespace

client::Result<PriorityClass> decode_priority_class(std::string_view json) {
  const auto object = nlohmann::json::parse(json, nullptr, false);
  PriorityClass c;
  try {
    const auto& meta = object.at("metadata");
    c.meta = {"", meta.at("name"), meta.value("uid", ""), meta.at("resourceVersion")};
    c.value = object.value("value", 0);
    c.global_default = object.value("globalDefault", false);
  } catch (const nlohmann::json::exception& e) {
    client::Error error;
    error.code = client::ErrorCode::kDecode;
    error.message = std::string("PriorityClass: ") + e.what();
    return std::unexpected(error);
  }
  return c;
}

void add_tree_indexes(ObjectStore<crds::Queue>& queues, ObjectStore<crds::Project>& projects) {
  queues.add_index(std::string(kByParent),
                   [](const Object<crds::Queue>& q) { return std::vector{q.value.spec.parent}; });
  projects.add_index(std::string(kByParent),
                     [](const Object<crds::Project>& p) { return std::vector{p.value.spec.queue}; });
  projects.add_index(std::string(kByNamespace),
                     [](const Object<crds::Project>& p) { return std::vector{crds::namespace_of(p.value)}; });
}

Caches::Caches(client::ApiClient& api)
    : nodes(api, client::resources::kNodes,
            [](std::string_view json) { return client::decode_node(json, kNodeAnnotations); }),
      pods(api, client::resources::kPods,
           [fields = pod_fields()](std::string_view json) { return client::decode_pod(json, fields); }),
      queues(api, resource_of<crds::Queue>(), decode_object<crds::Queue>),
      projects(api, resource_of<crds::Project>(), decode_object<crds::Project>),
      node_pools(api, resource_of<crds::NodePool>(), decode_object<crds::NodePool>),
      jobs(api, resource_of<crds::TrainingJob>(), decode_object<crds::TrainingJob>),
      services(api, resource_of<crds::InferenceService>(), decode_object<crds::InferenceService>),
      priority_classes(api, client::resources::kPriorityClasses, decode_priority_class),
      runtime_classes(api, kRuntimeClasses, decode_runtime_class),
      claims(api, client::resources::kPersistentVolumeClaims, decode_claim),
      volumes(api, client::resources::kPersistentVolumes, decode_volume),
      storage_classes(api, client::resources::kStorageClasses, decode_storage_class),
      namespaces(api, client::resources::kNamespaces, decode_namespace),
      service_accounts(api, client::resources::kServiceAccounts, decode_kept_object, those_of_muster()),
      role_bindings(api, client::resources::kRoleBindings, decode_kept_object, those_of_muster()),
      network_policies(api, client::resources::kNetworkPolicies, decode_kept_object, those_of_muster()) {
  pods.store().add_index(std::string(kByOwner), [](const client::Pod& pod) {
    return pod.owner_uid.empty() ? std::vector<std::string>{} : std::vector<std::string>{pod.owner_uid};
  });
  pods.store().add_index(std::string(kOrphaned), [](const client::Pod& pod) {
    const auto* job = client::find_value(pod.labels, kJobLabel);
    return job == nullptr || !pod.owner_uid.empty() || !identity_of(pod)
               ? std::vector<std::string>{}
               : std::vector<std::string>{client::make_key(pod.meta.ns, *job)};
  });
  pods.store().add_index(std::string(kByNode), [](const client::Pod& pod) {
    const bool ours = client::find_value(pod.labels, kJobLabel) != nullptr && !pod.node_name.empty();
    return ours ? std::vector<std::string>{pod.node_name} : std::vector<std::string>{};
  });
  pods.store().add_index(std::string(kBySharedGpu),
                         [](const client::Pod& pod) { return gpus_shared_by(pod); });
  jobs.store().add_index(std::string(kBySharedGpu), [](const Object<crds::TrainingJob>& job) {
    return job.status_unreadable ? std::vector<std::string>{} : gpus_shared_by(job.value);
  });
  pods.store().add_index(std::string(kByService), [](const client::Pod& pod) {
    const auto* label = client::find_value(pod.labels, kServiceLabel);
    return label == nullptr ? std::vector<std::string>{}
                            : std::vector<std::string>{client::make_key(pod.meta.ns, *label)};
  });
  jobs.store().add_index(std::string(kByOwner), [](const Object<crds::TrainingJob>& job) {
    return job.owner_uid.empty() ? std::vector<std::string>{} : std::vector<std::string>{job.owner_uid};
  });
  jobs.store().add_index(std::string(kByDependency), [](const Object<crds::TrainingJob>& job) {
    std::vector<std::string> keys;
    for (const auto& other : awaited_by(job.value)) keys.push_back(client::make_key(job.meta.ns, other.name));
    return keys;
  });
  add_tree_indexes(queues.store(), projects.store());
  for (auto* kept : {&service_accounts, &role_bindings, &network_policies}) {
    kept->store().add_index(std::string(kByProject),
                            [](const KeptObject& object) { return std::vector{object.project}; });
  }
}

bool is_replica(const Object<crds::TrainingJob>& job) {
  return job.owner_kind == crds::InferenceService::kKind;
}

bool Caches::synced() const {
  return nodes.store().synced() && pods.store().synced() && queues.store().synced() &&
         projects.store().synced() && node_pools.store().synced() && jobs.store().synced() &&
         services.store().synced() && priority_classes.store().synced() && runtime_classes.store().synced() &&
         claims.store().synced() && volumes.store().synced() && storage_classes.store().synced() &&
         namespaces.store().synced() && service_accounts.store().synced() && role_bindings.store().synced() &&
         network_policies.store().synced();
}

}  // namespace muster::reconcilers
