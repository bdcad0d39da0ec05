// What is watched of the cluster, and by what it is looked up.
#pragma once

#include <cstdint>
#include <string_view>

#include "muster/client/api.h"
#include "muster/client/informer.h"
#include "muster/client/pod.h"
#include "muster/reconcilers/caches/kept_objects.h"
#include "muster/reconcilers/common/objects.h"
#include "muster/reconcilers/pods/runtime_class.h"
#include "muster/reconcilers/pods/volumes.h"

namespace muster::reconcilers {

// PriorityClass, as far as it matters here.
struct PriorityClass {
  client::Meta meta;
  std::int32_t value = 0;
  bool global_default = false;
};
client::Result<PriorityClass> decode_priority_class(std::string_view json);

struct Caches {
  explicit Caches(client::ApiClient& api);

  client::Informer<client::Node> nodes;
  client::Informer<client::Pod> pods;
  client::Informer<Object<crds::Queue>> queues;
  client::Informer<Object<crds::Project>> projects;
  client::Informer<Object<crds::NodePool>> node_pools;
  client::Informer<Object<crds::TrainingJob>> jobs;
  client::Informer<Object<crds::InferenceService>> services;
  client::Informer<PriorityClass> priority_classes;
  client::Informer<RuntimeClass> runtime_classes;
  client::Informer<PersistentVolumeClaim> claims;
  client::Informer<PersistentVolume> volumes;
  client::Informer<StorageClass> storage_classes;
  client::Informer<Namespace> namespaces;
  // Those with Muster's label.
  client::Informer<KeptObject> service_accounts, role_bindings, network_policies;

  bool synced() const;
};

// The job is a replica of an InferenceService: its program serves and is not meant to end.
bool is_replica(const Object<crds::TrainingJob>& job);

// Index of the pod store: the uid of the controlling owner. Of the job store: that of the InferenceService or
// of the array.
inline constexpr std::string_view kByOwner = "owner";
// Pods that Muster has made, and that somebody has taken from their job (kubectl delete --cascade=orphan); by
// the key of the job.
inline constexpr std::string_view kOrphaned = "orphaned";
// Of the pod store: "namespace/label" of the InferenceService.
inline constexpr std::string_view kByService = "service";
// Of the pod store: the node of a pod that Muster has made.
inline constexpr std::string_view kByNode = "node";
// Of the pod and job stores: GPUs that it has a share of, key_of(NodeGpu).
inline constexpr std::string_view kBySharedGpu = "gpu";
// Of the job store: "namespace/name" of each job that it waits for (awaited_by() in dependencies.h).
inline constexpr std::string_view kByDependency = "dependency";
// Of the queue and project stores: the Queue right above. Of the project store: the namespace it claims.
inline constexpr std::string_view kByParent = "parent";
inline constexpr std::string_view kByNamespace = "namespace";
// Of the stores of what Muster keeps in namespaces: the Project.
inline constexpr std::string_view kByProject = "project";

// By kByParent and kByNamespace; before the stores' first object.
void add_tree_indexes(ObjectStore<crds::Queue>& queues, ObjectStore<crds::Project>& projects);

}  // namespace muster::reconcilers
