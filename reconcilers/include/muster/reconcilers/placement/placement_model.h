// The only door between the reconcilers and the placement core: keeps placement::Cluster equal to what the
// caches say, runs plan(), and keeps what it decided until the API server knows it.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/client/informer.h"
#include "muster/client/pod.h"
#include "muster/crds/crds.h"
#include "muster/placement/queue.h"
#include "muster/reconcilers/lifecycle/lifecycle.h"
#include "muster/reconcilers/placement/translation.h"
#include "muster/reconcilers/pods/pod_builder.h"
#include "muster/reconcilers/usage/run_times.h"

namespace muster::reconcilers {

struct NodeTopology;  // node_topology.h

// Numbers of one tree node (Queue or Project) for its status.
struct TreeNumbers {
  crds::AmountsByModel allocated, borrowed, pending, fair_share;  // in the default pool
  std::int32_t running = 0, waiting = 0;                          // workloads, in all pools
  std::vector<crds::PoolUsage> pools;                             // all other pools
  std::string problem;  // "": none; else why work below it cannot start
};

struct PoolNumbers {
  std::int32_t nodes = 0;
  crds::Amounts capacity, free;
  std::vector<std::string> shared_nodes;  // in another pool as well: used by neither; sorted
  crds::MilliGpu largest_gang;
};

// Numbers of one node with GPUs.
struct NodeNumbers {
  std::string node, pool;
  bool usable = false;                 // new work may come
  crds::MilliGpu capacity, allocated;  // healthy GPUs; what is held of them, whoever holds it
};

class PlacementModel {
 public:
  // `changed` is called when plan() has something to look at.
  explicit PlacementModel(std::function<void()> changed);
  ~PlacementModel();

  // Asked of each running job that states no maxRuntime, whenever update() is told of it. Before: nobody
  // knows.
  void ask_usual_run_times(UsualRunTimes ask);

  // --- inputs, level-based: the newest state of each object
  void node(const client::Node& node);
  void node_gone(const client::Node& node);
  // What its NodeResourceTopology says of a node; nullptr: there is none (any more). In any order with
  // node().
  void topology(const std::string& node, client::Ptr<NodeTopology> topology);
  // GPUs that are not to be used, beside those that the node names itself.
  void failing_gpus(const std::string& node, std::set<std::int32_t> gpus);
  void pool(const crds::NodePool& pool);
  void pool_gone(const crds::NodePool& pool);
  // What its schedules say holds from plan() to plan(); wake_at() says when they say something else.
  void queue(const crds::Queue& queue, crds::Time now);
  void queue_gone(const crds::Queue& queue);
  void project(const crds::Project& project, crds::Time now);
  void project_gone(const std::string& name);
  // What a Queue or Project had used before this process began (past_use.h). Before the first plan.
  void past_use(const placement::PastUse& past);
  // Which Project a namespace's work is charged to; "": none.
  void charge_namespace(const std::string& ns, const std::string& project);
  // A pod that no job that update() was told of pays for. It is charged as what it says it holds until it has
  // ended or pod_gone().
  void foreign_pod(const client::Ptr<client::Pod>& pod);
  // A pod of a job as its newest event has it; `assignment` is that of the job's status. What the pod holds
  // stays charged as the last update() of its job left it, until it has ended. One that is new and stands for
  // no place of the assignment is charged for itself: update() did not know of it.
  void job_pod(const client::Key& job, const crds::Assignment& assignment,
               const client::Ptr<client::Pod>& pod, bool is_new);
  // A pod that holds a GPU for those who share it: what it holds is theirs.
  void holder_pod(const client::Pod& pod);
  // The pod object is gone, of whatever kind it was.
  void pod_gone(const client::Pod& pod);

  // A job as its last step left it: waiting, holding its assignment, or neither. `pods` are all that it has
  // now, not those that the step was made from. Each that has not ended is charged when this returns: by a
  // place of the assignment, as one that leaves, or for itself.
  void update(const client::Key& key, const crds::TrainingJob& job, const Translation& wish, const Step& step,
              const std::vector<client::Ptr<client::Pod>>& pods);
  // The job is gone; those of its pods that still exist hold what they hold.
  void forget(const client::Key& key, const std::vector<client::Ptr<client::Pod>>& pods);

  // Whether what the assignment of this attempt holds is charged.
  bool charges(const client::Key& key, std::int32_t attempt) const;

  // --- decisions
  // Plans; returns the jobs that there is news for, in order.
  std::vector<client::Key> plan(crds::Time now);
  // The last plan reached its bound on work or on rounds. The next one goes on, and wake_at() says when.
  bool plan_was_cut_off() const;
  // What was thrown while the last plan looked at single jobs. For these it decided nothing.
  struct Thrown {
    client::Key job;
    std::string what;
    bool waits = false;  // else it runs, and was to grow
  };
  const std::vector<Thrown>& thrown() const;
  // When time alone makes another plan worth its while (a victim is not safe by minRuntime any more, …);
  // nullopt: never.
  std::optional<crds::Time> wake_at() const;
  // Not yet known to the API server; nullopt: none.
  std::optional<JobDecision> decision(const client::Key& key) const;
  // Places that are kept for it until others have left them; nullopt: none.
  std::optional<crds::Nomination> nomination(const client::Key& key) const;
  // The decision could not be committed. What a start held is free again; any other stands and is to be tried
  // again.
  void withdraw(const client::Key& key);
  // A decision from elsewhere (the API server refuses the pods).
  void decide(const client::Key& key, JobDecision decision);
  // Why the job waits; nullopt: not judged yet, or it does not wait.
  std::optional<crds::Waiting> verdict(const client::Key& key) const;

  // --- numbers
  GpuMeans gpu_means(const std::string& pool) const;
  crds::Bytes gpu_memory_of(const std::string& node) const;  // of one GPU; 0: not known
  // What a pod of one role is charged at this place, in milli-GPU.
  crds::MilliGpu charge_of(const crds::PodAssignment& place, const PodNeeds& needs) const;
  // Of a resource that a quota or a limit names. The NodePool that counts it as GPUs; "": none does.
  std::string pool_of_gpus(const std::string& resource) const;
  // Why nobody can use it: no node has it, or it cannot be counted. "": somebody can.
  std::string why_unused(const std::string& resource) const;
  TreeNumbers numbers_of_queue(const std::string& name) const;
  TreeNumbers numbers_of_project(const std::string& name) const;
  PoolNumbers numbers_of_pool(const std::string& name) const;
  std::vector<NodeNumbers> numbers_of_nodes() const;  // of nodes with GPUs in one pool, by name
  // Which Project the namespace's work is charged to; "": none.
  std::string project_of(const std::string& ns) const;

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::reconcilers
