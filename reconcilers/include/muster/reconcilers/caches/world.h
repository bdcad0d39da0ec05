// What all reconcilers share: the caches, the placement model, and the way to the API server. One event loop
// owns it; there are no locks.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include "muster/client/api.h"
#include "muster/client/events.h"
#include "muster/client/informer.h"
#include "muster/client/pod.h"
#include "muster/reconcilers/common/objects.h"
#include "muster/reconcilers/gpu_metrics/gpu_monitor.h"
#include "muster/reconcilers/placement/placement_model.h"
#include "muster/reconcilers/pods/volumes.h"
#include "muster/reconcilers/projects/project_objects.h"

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

// Index of the pod store: the uid of the controlling owner. Of the job store: that of the InferenceService.
inline constexpr std::string_view kByOwner = "owner";
// Of the pod store: "namespace/label" of the InferenceService.
inline constexpr std::string_view kByService = "service";
// And the node, of pods that Muster has made.
inline constexpr std::string_view kByNode = "node";
// Of the pod and job stores: GPUs that it has a share of, key_of(NodeGpu).
inline constexpr std::string_view kBySharedGpu = "gpu";
// Of the queue and project stores: the Queue right above. Of the project store: the namespace it claims.
inline constexpr std::string_view kByParent = "parent";
inline constexpr std::string_view kByNamespace = "namespace";
// Of the stores of what Muster keeps in namespaces: the Project.
inline constexpr std::string_view kByProject = "project";

// Running totals, for metrics.
struct Totals {
  std::uint64_t pods_created = 0, pods_deleted = 0, status_writes = 0;
  std::uint64_t starts = 0, evictions = 0, replacements = 0, shrinks = 0, grows = 0;
  std::uint64_t reclaims = 0, preemptions = 0, moves = 0;  // parts of evictions
};

class GpuHolder;

struct World {
  client::Environment env;
  client::ApiClient& api;
  client::EventRecorder& events;
  Caches& caches;
  PlacementModel& placement;
  client::Duration status_interval;     // between two writes of mere counters to one object
  std::chrono::seconds node_grace{60};  // a node that is not Ready for so long is lost
  Totals totals{};
  // A copy for each write under way that starts or stops work. Shared, since an event loop that ends drops
  // coroutines, and the copies in them, when the World is gone.
  std::shared_ptr<const char> urgent = std::make_shared<const char>();
  GpuMonitor* gpus = nullptr;                   // nullptr: nothing is known of them
  GpuHolder* holder = nullptr;                  // nullptr: shares of GPUs are not given out
  std::string own_namespace = "muster-system";  // where Muster's processes run

  crds::Time now() const { return std::chrono::floor<std::chrono::seconds>(env.clock.wall()); }
};

// What a reconcile came to.
struct Outcome {
  bool failed = false;                      // again after the key's back-off
  std::optional<client::Duration> after{};  // look again then

  static Outcome done() { return {}; }
  static Outcome retry() { return {.failed = true}; }
  static Outcome again(client::Duration d) { return {.after = d}; }
  void no_later_than(client::Duration d) {
    if (!after || *after > d) after = d;
  }
};

}  // namespace muster::reconcilers
