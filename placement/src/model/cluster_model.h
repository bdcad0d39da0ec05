// The inside of Cluster: nodes, pools, the tree of queues, jobs, and what a plan keeps for the next.
// Everything is kept up to date change by change; audit() recounts it from scratch.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "model/job_table.h"
#include "model/node_inventory.h"
#include "model/other_allocations.h"
#include "model/queue_tree.h"
#include "model/work.h"
#include "muster/placement/cluster.h"
#include "node/ids.h"
#include "node/node.h"
#include "pool/pool.h"
#include "pool/request.h"

namespace muster::placement {

class PlanObserver;

PendingKind kind_of(const Job& job, JobId id);  // jobs.cc
// Of these pods, what the job could give and keep its minimum. O(pods).
Resources held_beyond_minimum(const Request& request, const Assignment& assignment,
                              const std::vector<Allocation>& allocations);  // jobs.cc
// What the jobs of the leaf queue hold there, without the surplus of those that are preemptible. Absent:
// there is no such surplus. To be asked while no statement has taken any of it out.
std::optional<Resources> minimums_below_surplus(const ClusterModel& state, QueueId leaf,
                                                PoolId pool);  // jobs.cc

// Names of Queues, Projects and pools keep their ids as long as the process lives, for allocations and
// pending queues refer to them in many places: about 600 bytes a name and 300 more for each pool that it had
// something in, and one more step where all tree nodes are walked. A hundred Projects made and deleted a day
// are 10 to 40 MB in a year without a restart.
//
// What is held counts with its node, in its pool, with its job and in the tree; this class keeps the four
// together.
class ClusterModel {
 public:
  std::vector<Pool> pools;
  std::map<std::string, PoolId> pool_ids;  // also of pools that an assignment names and that do not exist
  PastByQueue past;                        // as of the last plan
  Requests requests;
  ResourceNames resource_names;
  // Pods outside jobs that ask for resources by name, by key: they are charged anew when one is first
  // counted.
  std::map<std::string, OtherPod> others_with_named;
  OtherAllocations others;
  bool sidelined_changed = false;
  std::uint64_t last_serial = 0;
  std::uint64_t plans = 0;  // made so far
  Time time;                // of the last one
  std::int64_t max_plan_steps = kMaxPlanSteps;
  WorkBudget work;  // of the plan that is being made
  Sweep sweep;
  // Makes plans and audits each: Cluster::audit_plans(). nullptr: they are not audited.
  Plan (*audited_plan)(Cluster& cluster, Time now) = nullptr;
  PlanObserver* observer = nullptr;  // of the plan that is being made

  const NodeInventory& nodes() const { return nodes_; }
  const QueueTree& tree() const { return tree_; }
  const JobTable& jobs() const { return jobs_; }
  Node& node(NodeId id) { return nodes_.node(id); }
  const Node& node(NodeId id) const { return nodes_.node(id); }
  Pool& pool(PoolId id) { return pools[static_cast<std::size_t>(id)]; }
  const Pool& pool(PoolId id) const { return pools[static_cast<std::size_t>(id)]; }
  Job& job(JobId id) { return jobs_.job(id); }
  const Job& job(JobId id) const { return jobs_.job(id); }
  const Request& request_of(const Job& j) const { return requests.at(j.request); }

  // --- names: four functions that make what is not there, and one that does not
  NodeId node_of(const std::string& name) { return nodes_.node_of(name); }
  PoolId pool_of(const std::string& name);
  QueueId queue_of(const std::string& name, bool is_project) { return tree_.queue_of(name, is_project); }
  JobId job_of(const std::string& name) { return jobs_.job_of(name); }
  PoolId find_pool(const std::string& name) const;  // kNoId: does not exist

  // --- nodes and what is held of them: every change goes through these
  Allocation take(Allocation wanted);
  void turn(Allocation& allocation, Hold to);  // it is held in another way from now on
  // `gain`: something becomes free that was not so when jobs were refused (not: a trial is undone).
  void give_back(const Allocation& allocation, bool gain = true);
  // Nobody has what the allocation names, in this view.
  bool available(const Allocation& allocation, View view) const;
  // After a node's GPUs or NUMA nodes changed: what is charged there is charged anew. O(pods of those jobs +
  // pods outside jobs); where GPUs without a number are charged there, O(all jobs' pods).
  void reallocate(NodeId id);
  // The allocation of a pod outside jobs, which has its GPUs, or its share of each, as the node is now.
  static Allocation gpus_outside_jobs(const NodeSpec& n, Allocation c);
  // The pods of jobs on one GPU, each by its job, the oldest admission first; those it is nominated to last.
  std::vector<JobId> by_admission(NodeId id, std::int32_t gpu) const;
  ModelId model_of(const NodeSpec& spec) { return nodes_.model_of(spec); }
  void leave_pool_index(NodeId id) { nodes_.leave_index(id, pool_around(id)); }
  void enter_pool_index(NodeId id) { nodes_.enter_index(id, pool_around(id)); }
  // NodeInventory::sort_into_pool(); pods outside jobs count where their node belongs.
  void sort_into_pool(NodeId id);
  void drop_empty_domains(PoolId id) { nodes_.drop_empty_domains(pool(id)); }
  void forget_node(NodeId id) { nodes_.forget(id); }
  void touch(PoolId id) {
    if (id != kNoId) ++pool(id).version;
  }
  void touch_all() {
    for (Pool& p : pools) ++p.version, p.judged_all.reset();
    sidelined_changed = true;
  }

  // --- tree: all that is held, waits or could grow counts there
  void upsert_queue(QueueSpec spec);
  void remove_queue(QueueId id);
  void set_default_pool(PoolId id) { tree_.set_default_pool(id); }   // once pools have changed
  void note_models() { tree_.set_models(resource_names.models()); }  // after share_out()
  void count(JobId id);  // brings what is counted of the job to what it is now
  // Brings the tree up to date after its shape has changed, and what asks for GPU memory after a pool has got
  // or lost its largest GPUs; then O(all jobs), once per batch.
  void settle();
  QueueTree tree_counted_anew() const;  // from all jobs and pods, for the auditor; O(all of these)

  // --- jobs (jobs.cc)
  void set_spec(JobId id, const JobSpec& spec, QueueId leaf);  // of a job that neither waits nor holds
  void forget_job(JobId id);                                   // the same
  void start_waiting(JobId id);
  void stop_waiting(JobId id, bool leave_pending_queues = true);
  void leave_pending_queues(JobId id);
  void drop_assignment(JobId id);  // not what is leaving
  void put_assignment(JobId id, const Assignment& assignment, const std::vector<std::size_t>& displaced_pods,
                      Hold hold);
  // Allocations are taken already.
  void hold(JobId id, Assignment assignment, std::vector<Allocation> allocations);
  // The other way round: it holds nothing any more; the allocations stay taken and are the caller's.
  std::pair<Assignment, std::vector<Allocation>> unhold(JobId id);
  void note_nominations(JobId id);  // `nominated` of the job, and of the model, from its allocations
  void end_displacement(JobId id);  // of its pods: they have other places
  void count_held(JobId id);  // in GPUs and surplus, after its allocations have changed while it holds them
  void note_end(JobId id);    // after what end_of() and learned_end_of() look at has changed
  void note_learned_end(JobId id);  // its part of note_end()
  void put_leaving(JobId id, const std::vector<PodPlace>& pods);
  Allocation allocation_for(JobId id, const PodPlace& place, NodeId on, PoolId pool,
                            Hold hold);  // on: place.node
  // How many pods the job could have beyond those it has (or, while it waits, beyond its minimum).
  Resources surplus_of(const Job& job, PoolId pool) const;
  // What a pod, or the request, is charged in the pool at least: memory shares on its largest GPUs.
  // And with GPUs of a model, where it must have that one and such are counted.
  Resources per_pod(const RoleSpec& role, PoolId pool) const;
  Resources asked(const Request& request, PoolId pool) const;
  int model_that_must_be(const RoleSpec& role) const;  // index into Resources::named; -1: none

 private:
  Pool* pool_around(NodeId id) { return node(id).pool == kNoId ? nullptr : &pool(node(id).pool); }
  void account(const Allocation& allocation, int sign);
  void account_pending(const Job& job, int sign);
  static void set_held_surplus(Pool& pool, Job& job, const Resources& now);
  void account_all(QueueTree& tree) const;
  std::array<std::int64_t, kMaxNamed> beside_models(std::array<std::int64_t, kMaxNamed> named) const;

  NodeInventory nodes_;
  QueueTree tree_;
  JobTable jobs_;
};

}  // namespace muster::placement
