// What the operator consists of, and how its parts are wired: controller_watch.cc turns what the watches say
// into keys and into placement's inputs; controller.cc plans, leads, starts and ends.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "controller.h"
#include "muster/client/task_group.h"
#include "muster/client/waiter.h"
#include "muster/reconcilers/caches/reconciler_context.h"
#include "muster/reconcilers/gpu_metrics/gpu_monitor.h"
#include "muster/reconcilers/jobs/training_job.h"
#include "muster/reconcilers/placement/node_topology.h"
#include "muster/reconcilers/placement/placement_model.h"
#include "muster/reconcilers/projects/capacity.h"
#include "muster/reconcilers/projects/disruption_keeper.h"
#include "muster/reconcilers/projects/project.h"
#include "muster/reconcilers/services/inference_service.h"
#include "muster/reconcilers/sessions/activity_monitor.h"
#include "muster/reconcilers/sharing/gpu_holders.h"
#include "process/job_counts.h"
#include "process/runner.h"

namespace muster::controller {

struct Controller::Impl {
  using Key = client::Key;

  Impl(client::Environment e, client::Transport& transport, client::Transport& pods, const Options& o,
       Metrics& m);
  void observe(client::ApiClient& a);
  std::array<Runner*, 6> runners();
  // A reconciler of one kind as its runner calls it.
  Runner::Reconcile probed(std::string controller, Runner::Reconcile reconcile);
  // Says on the object what its reconcile threw, or that it throws no longer.
  template <class Kind>
  Runner::SayThrown say_on(client::Informer<reconcilers::Object<Kind>>& informer);
  template <class Kind>
  client::Task<void> say_thrown(reconcilers::ObjectStore<Kind>& store, Key key, std::string thrown);

  // --- watch -> cache -> keys: controller_watch.cc

  void listen();
  void listen_to_nodes_and_pods();
  void listen_to_shares();  // Queues, Projects, NodePools
  void listen_to_workloads();
  void listen_to_what_workloads_mention();  // volumes, PriorityClasses, and what Muster keeps in namespaces
  // fn(before, now) of each change of an object; nullptr: it was not, or is not, there. What fn throws costs
  // that object: `runner`, where there is one, has it told again (Runner::take_in_again).
  template <class T, class F>
  void hear(client::Informer<T>& informer, F fn, Runner* runner = nullptr);
  // Handlers act only while this process leads; start_acting() replays everything once.
  template <class T, class F>
  void on_change(client::Informer<T>& informer, F fn, Runner* runner = nullptr);
  // Calls fn(before, now) and takes what it throws.
  template <class T, class F>
  void guarded(client::Informer<T>& informer, F fn, Runner* runner, const client::Ptr<T>& before,
               const client::Ptr<T>& now);
  // While another process leads. A pod's last words may stand in its last event and nowhere else; they must
  // be known to whoever leads next.
  void listen_while_waiting();
  // A Project's namespace may pass to or from another Project that claims it too.
  void project_changed(const crds::Project* before, const crds::Project* now);
  // Heard of often (its status, finalizers), asked about seldom.
  void namespace_changed(const reconcilers::Namespace* before, const reconcilers::Namespace* now);
  void claims_changed(const std::string& ns);
  void pod_changed(const client::Ptr<client::Pod>& before, const client::Ptr<client::Pod>& now);
  // The job that the pod is one of; nullptr: none, or one that is gone, goes or cannot be read.
  reconcilers::JobPtr followed_job_of(const client::Pod& pod) const;
  void holder_pod_changed(const client::Pod& pod, bool is_gone);
  void add_gpus(const std::vector<std::string>& keys);
  void add_service_of(const std::string& ns, const crds::StringMap& labels);
  void add_service_of(const client::Pod& pod);
  void add_array_of(const reconcilers::Object<crds::TrainingJob>* before,
                    const reconcilers::Object<crds::TrainingJob>* now);
  void add_jobs_on(const std::string& node);
  void gpus_changed(const std::string& node);
  client::Task<reconcilers::Outcome> reconcile_pool(Key key);
  template <class F>
  void stir(F mark);
  void add_stirred_jobs();
  void add_dependents_of(const Key& job);
  void add_jobs_in(const std::string& ns);

  // --- planning, leading, starting and ending: controller.cc

  client::Task<void> schedule();
  void plan();
  // When to plan though nothing changes; looked at again in a minute at the latest, should the wall clock be
  // set meanwhile.
  client::TimePoint next_plan() const;
  bool plan_is_due() const;
  // Status numbers of Queues, Projects and NodePools: after the dust has settled, never in the way of pods.
  client::Task<void> refresh_capacity();
  // What disturbances took from jobs, beside the jobs: of a namespace once in an interval.
  client::Task<void> keep_disruptions();
  void start_acting();
  // Placement's averages of past use begin where the ledger stands.
  void restore_past_use();
  client::Task<void> elect();
  template <class T>
  void watch(client::Informer<T>& informer);
  void start_watches();
  // NodeResourceTopology is a kind of others: it is watched while the API server has it.
  client::Task<void> follow_topologies();
  client::Task<Ended> run();
  // No new work; what is under way ends, or is cancelled at the deadline; then the events are sent; the lease
  // goes last. Nothing that was started runs any more when it returns.
  client::Task<void> wind_down();
  // A pod whose request got no answer may still come to be, and the next leader knows nothing of it. So it
  // has to wait until the lease has ended, as after a crash.
  bool may_release_lease() const;
  // Joins the group; cancels what still runs at `when`.
  client::Task<void> end_by(client::TaskGroup& group, client::TimePoint when);
  // Who has what and who waits, while this process leads.
  std::vector<prometheus::MetricFamily> sample_sharing();

  client::Environment env;
  Options options;
  Metrics& metrics;
  JobCounts job_counts;
  client::ApiClient api;
  client::ApiClient lease_api;  // renewals do not queue behind pods
  client::EventRecorder recorder;
  reconcilers::Caches caches;
  client::Informer<reconcilers::NodeTopology> topologies;
  reconcilers::PlacementModel placement;
  reconcilers::Ledger ledger;
  reconcilers::ReconcilerContext context;
  reconcilers::GpuMonitor gpus;
  reconcilers::ActivityMonitor sessions;
  reconcilers::GpuHolders holder;
  reconcilers::TrainingJobReconciler jobs;
  reconcilers::CapacityReconciler capacity;
  reconcilers::ProjectReconciler projects;
  reconcilers::DisruptionKeeper disruptions;
  reconcilers::InferenceServiceReconciler services;
  client::Waiter dirty;  // placement's inputs changed
  client::Waiter wake;   // run() has something to look at
  Runner job_runner, queue_runner, project_runner, pool_runner, service_runner, gpu_runner;
  // What changed that any job may mention: it comes in swarms, a thousand claims bound at once, and who is
  // concerned is looked up once for all that came together.
  struct Stirred {
    std::set<std::string> claims_in;  // namespaces
    bool volumes = false;             // or storage classes
    bool classes = false;             // PriorityClasses and RuntimeClasses
    bool operator==(const Stirred&) const = default;
  };
  Stirred stirred;
  // What readiness and metrics ask of each informer, whatever its kind.
  struct Watched {
    const client::Watcher& watcher;
    std::function<bool()> synced;
    std::function<std::size_t()> size;
    std::function<std::uint64_t()> decode_errors;
  };
  std::vector<Watched> watched;
  std::vector<std::function<void()>> replays;
  // All that runs, by what it takes to end it.
  client::TaskGroup watching, recording, electing;  // end when cancelled
  client::TaskGroup watching_topologies;            // likewise
  client::TaskGroup planning;                       // likewise: plans, fresh numbers of capacity, disruptions
  client::TaskGroup reconciling;                    // the runners' workers: end when their queues are shut
  Controller::Probe probe;
  std::optional<client::TimePoint> unanswered;  // when the last request for a pod ended without an answer
  bool plan_was_long = false;
  bool is_acting = false, stopping = false, lost = false, capacity_stale = true;
};

}  // namespace muster::controller
