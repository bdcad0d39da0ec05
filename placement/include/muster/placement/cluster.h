// The model of the cluster: kept up to date change by change, never rebuilt. plan() reads it and notes its
// own decisions in it as assumed, until set_assignment() confirms or clear_assignment() withdraws them.
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

// One GPU that several assignments name (two admissions around a fail-over). plan() evicts all but the
// oldest.
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
  // --------------------------------------------------------------- Each costs what the change costs, but: a
  // pool's change costs all nodes and waiting jobs, a new parent in the tree all jobs once per batch. What is
  // not known yet (a Project, a node) may be named before it comes.
  void upsert_node(const NodeSpec& node);
  void remove_node(const std::string& name);
  void upsert_pool(const PoolSpec& pool);
  void remove_pool(const std::string& name);
  void upsert_queue(const QueueSpec& queue);
  void remove_queue(const std::string& name, bool is_project);
  // The job waits for a place unless it holds an assignment. A changed spec gives an assumed start back.
  void upsert_job(const JobSpec& job);
  void remove_job(const std::string& id);  // and all it holds
  // These two do nothing for a job that is not known.
  // What the job holds, as recorded elsewhere; an entry for a node that is not known is kept and charged to
  // the tree. Pods in `displaced` (indexes into assignment.pods) hold nothing and need another place.
  void set_assignment(const std::string& id, const Assignment& assignment,
                      const std::vector<std::size_t>& displaced = {});
  void clear_assignment(const std::string& id);  // nothing of it is left, not even leaving pods
  // Pods of a job that are on their way out: of an eviction, a move, a shrink, an earlier attempt. They
  // occupy their places and count as allocated until a later call leaves them out. plan() notes those of its
  // own decisions itself; the caller confirms. A job whose pods leave and that holds nothing else waits only
  // when all are gone.
  void set_leaving(const std::string& id, const std::vector<PodPlace>& pods);
  // Places that are kept for a job which is to start there when others have left them (after a restart of the
  // caller; plan() notes its own).
  void nominate(const std::string& id, const Assignment& assignment);
  void set_progress(const std::string& id, const Progress& progress);
  void upsert_other_pod(const OtherPod& pod);
  void remove_other_pod(const std::string& key);

  // After a restart, before the first plan. What the tree node holds at that plan counts as held ever since.
  void set_past_use(const PastUse& past);

  // --- answers
  bool knows(const std::string& job) const;
  const Assignment* assignment(const std::string& job) const;  // nullptr: it holds none
  bool nominated(const std::string& job) const;                // its assignment is not startable yet
  std::vector<PodPlace> leaving(const std::string& job) const;
  const PendingReason* pending_reason(const std::string& job) const;  // nullptr: it does not wait, or was not judged yet
  Usage usage(const std::string& queue, bool is_project, const std::string& pool) const;
  // Rule 1's share of a pool, as things are now. O(tree).
  Resources fair_share(const std::string& queue, bool is_project, const std::string& pool) const;
  Workloads workloads(const std::string& queue, bool is_project) const;
  std::string queue_problem(const std::string& queue, bool is_project) const;  // "": none
  std::vector<PastUse> past_use() const;  // as of the last plans; in the order in which queues became known
  PoolUsage pool_usage(const std::string& pool) const;
  std::string default_pool() const;  // "": none, or not one
  std::vector<std::string> pool_names() const;
  std::vector<Conflict> conflicts() const;  // by node name and GPU; empty in health

  // --- the auditor. These two are in a library of their own, muster::placement_audit; who calls them links it.
  // I1 to I3 and the model's own indexes, from scratch; each violation as a sentence. O(cluster).
  std::vector<std::string> audit() const;
  // Whether each plan is watched, and audit() made after it: I1 to I8 of README.md. What is broken is said on
  // standard error, and the process ends. Where NDEBUG is not set it is on from the beginning, and
  // muster::placement brings the auditor along. O(cluster) a plan.
  void audit_plans(bool on);

  ClusterModel& state() { return *state_; }

 private:
  std::unique_ptr<ClusterModel> state_;
};

}  // namespace muster::placement
