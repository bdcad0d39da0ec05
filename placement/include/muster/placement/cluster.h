// The model of the cluster. It is kept up to date change by change and never rebuilt. plan() reads it and
// notes its own decisions in it as assumed. set_assignment() confirms such a decision, and clear_assignment()
// withdraws it.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "muster/placement/job.h"
#include "muster/placement/node.h"
#include "muster/placement/plan.h"
#include "muster/placement/pool.h"
#include "muster/placement/queue.h"

namespace muster::placement {

class ClusterModel;  // src/model/cluster_model.h

// One GPU that several assignments name. That happens when two leaders admit jobs around a fail-over. plan()
// evicts all but the oldest (RULES.md 8.4).
struct Conflict {
  std::string node;
  std::int32_t gpu = 0;
  std::vector<std::string> jobs;  // the oldest admission first
  bool operator==(const Conflict&) const = default;
};

class Cluster {
 public:
  Cluster();
  ~Cluster();
  Cluster(Cluster&&) noexcept;
  Cluster& operator=(Cluster&&) noexcept;

  // --- inputs: the newest state of each thing

  // Each call costs what it changes, with two exceptions: a changed pool costs a look at all nodes and
  // waiting jobs, and a new parent in the tree a look at all jobs, once per batch. A Project or a node may be
  // named before it is known.
  void upsert_node(const NodeSpec& node);
  void remove_node(const std::string& name);
  void upsert_pool(const PoolSpec& pool);
  void remove_pool(const std::string& name);
  void upsert_queue(const QueueSpec& queue);
  void remove_queue(const std::string& name, bool is_project);
  // The job waits for a place unless it holds an assignment. If its spec has changed, an assumed start is
  // given back.
  void upsert_job(const JobSpec& job);
  void remove_job(const std::string& id);  // with all that it holds
  // What the job holds, as it was recorded elsewhere. An entry for a node that is not known is kept, and
  // charged to the tree. The pods in `displaced` (indexes into assignment.pods) hold nothing and need another
  // place. Does nothing for a job that is not known; neither does clear_assignment().
  void set_assignment(const std::string& id, const Assignment& assignment,
                      const std::vector<std::size_t>& displaced = {});
  void clear_assignment(const std::string& id);  // nothing of it is left, not even pods that are leaving
  // Pods of a job that are on their way out, because of an eviction, a move, a shrink or a new attempt. They
  // occupy their places and count as allocated until a later call leaves them out. plan() notes by itself
  // which pods leave by its own decisions, and the caller confirms that. A job that holds nothing but leaving
  // pods waits for a place only when all of them are gone.
  void set_leaving(const std::string& id, const std::vector<PodPlace>& pods);
  // Places that are nominated: the job starts there when others have left them (RULES.md 6.2). For a caller
  // that has restarted; plan() notes its own.
  void nominate(const std::string& id, const Assignment& assignment);
  void set_progress(const std::string& id, const Progress& progress);
  void upsert_other_pod(const OtherPod& pod);
  void remove_other_pod(const std::string& key);

  // For a caller that has restarted, before the first plan. What the Queue or Project holds at that plan
  // counts as if it had been held since `past.as_of`.
  void set_past_use(const PastUse& past);

  // How much work each plan may do: RULES.md 2.7. Without a call: kMaxPlanSteps.
  void bound_plans(std::int64_t steps);

  // --- answers
  bool knows(const std::string& job) const;
  const Assignment* assignment(const std::string& job) const;  // nullptr: it holds nothing
  bool nominated(const std::string& job) const;                // others have still to leave its places
  std::vector<PodPlace> leaving(const std::string& job) const;
  // nullptr: it does not wait, or was not judged yet.
  const PendingReason* pending_reason(const std::string& job) const;
  Usage usage(const std::string& queue, bool is_project, const std::string& pool) const;
  // The fair share in a pool (RULES.md 1), as things were at the last change; kPlenty of what its quota does
  // not account for. O(tree) after a change, else O(1).
  Resources fair_share(const std::string& queue, bool is_project, const std::string& pool) const;
  // Of these amounts, those of resources known by name that some Queue or Project states a bound of. Of fair
  // shares only what the quota accounts for.
  NamedAmounts accounted(const Resources& amounts) const;
  // Why no job that asks for the resource could be counted, if nodes have it: "no more than 6 resources …";
  // "": one could.
  std::string uncountable(const std::string& resource) const;
  Workloads workloads(const std::string& queue, bool is_project) const;
  std::string queue_problem(const std::string& queue, bool is_project) const;  // "": there is none
  std::vector<PastUse> past_use() const;  // as of the last plans, in the order in which Queues became known
  PoolUsage pool_usage(const std::string& pool) const;  // O(nodes of the pool)
  bool lends() const;                                   // some Queue lends to what is not preemptible
  std::string default_pool() const;                     // "": there is none
  std::vector<std::string> pool_names() const;
  std::vector<Conflict> conflicts() const;  // sorted by node name and GPU; normally there are none

  // The auditor. These two are in a library of their own, muster::placement_audit: who calls them links it.
  // Recounts everything, and holds it against I1 to I3 of README.md and the model's own indexes. Returns a
  // sentence for each violation. O(cluster).
  std::vector<std::string> audit() const;
  // Whether every plan is held against I1 to I9 of README.md. If one is broken, standard error says which and
  // the process ends. Default: on in builds without NDEBUG, off in others. In builds without NDEBUG
  // muster::placement brings that library along. O(cluster) for each plan.
  void audit_plans(bool on);

  ClusterModel& state() { return *state_; }

 private:
  std::unique_ptr<ClusterModel> state_;
};

}  // namespace muster::placement
