// The inside of Cluster: nodes with their GPU ledgers, pools with what is free in each domain, the tree with
// its sums, jobs with what they hold. Everything is kept up to date change by change; audit() recounts it
// from scratch.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "devices.h"
#include "fragmentation.h"
#include "ids.h"
#include "muster/placement/cluster.h"
#include "ranking.h"
#include "request.h"
#include "wide.h"

namespace muster::placement {

// Devices beyond this are not believed: an index comes from a status that anybody may have written.
inline constexpr std::int32_t kMostGpusPerNode = 1024;

// What is held of something, in each of the ways.
struct Held {
  Resources used;      // by what runs and what is promised
  Resources promised;  // of these
  Resources leaving;   // beside these

  bool operator==(const Held&) const = default;
  void add(const Resources& amounts, Hold hold, int sign);
};
// What that leaves in a view; negative where more is held than there is.
Resources free_of(const Resources& has, const Held& held, View view);

// One node: what is left of it, and who has which GPU.
struct Node : Held {
  NodeSpec spec;
  bool known = false;   // false: only named by an assignment or a pod so far
  PoolId pool = kNoId;  // the one pool that selects it
  bool shared = false;  // selected by several: used by none
  ModelId model = kNoId;
  Resources used_by_others;
  std::vector<Gpu> gpus;
  std::vector<Held> zones;      // by NUMA node, where spec.zones says what these have
  std::vector<CutSlices> cut;   // one for each profile of spec.mig or that somebody has; grows only
  bool linked = false;          // links_differ()
  std::int32_t named_gpus = 0;  // healthy entries of `gpus` that somebody has who is not leaving
  std::int32_t unhealthy = 0;
  std::int32_t unnamed_gpus = 0;  // held by pods of which only the number is known
  std::int32_t charges = 0;       // pods that are charged here
  std::int32_t tree_charges = 0;  // of these, pods outside assignments that count against a Project
  std::vector<DomainId> domains;  // of its pool, the whole pool first
  Resources counted;              // what is counted as free in these domains
  MilliGpu spare;                 // … and in Pool::spare_gpu
  Resources counted_others;       // … and in Pool::used_by_others
  bool reserved = false;          // by Pool::reservation
  std::uint64_t stamp = 0;        // of the last change of it or of what is held of it; never the same again

  bool takes_part() const { return known && pool != kNoId && !shared && spec.usable; }
  // GPUs that nobody has a part of, as if all that are leaving had gone.
  std::int32_t free_gpus() const { return spec.gpus - unhealthy - unnamed_gpus - named_gpus; }
  Resources free(View view = View::kTarget) const;  // never negative; gpu: whole ones, and only of kTarget
  bool healthy(std::int32_t gpu) const;
  void count_named();                                  // sets named_gpus; after the spec changed
  std::int32_t cut_index(const std::string& profile);  // into `cut`; made where there is none
};

// Nodes by model and free GPUs, sorted in each bucket: buckets bound from above what fits, without a look at
// any node. A bucket may be empty.
using Buckets = std::map<std::int32_t, std::vector<NodeId>>;

// Part of a pool: all of it, or the nodes with the same labels down to one topology level. The level of
// single hosts has no domains: there the nodes themselves are what is looked at.
struct Domain {
  DomainId parent = kNoId;
  std::int32_t depth = 0;  // 0: the whole pool; else that many labels
  std::string value;       // of the last of these labels
  std::vector<DomainId> children;
  std::int32_t nodes = 0;
  Resources capacity, free;
  std::map<ModelId, Buckets> by_free;
};

// Who is served when within a leaf: priority, then submission, then name.
struct WaitKey {
  std::int64_t minus_priority = 0;
  Time submitted;
  std::string id;
  JobId job = kNoId;
  auto operator<=>(const WaitKey&) const = default;
};

// Jobs of one leaf that have equal prospects: when one of them is refused, so is each that comes after it.
struct WaitKind {
  RequestId request = kNoId;
  std::int64_t priority = 0;
  bool preemptible = true;
  std::int64_t ends_within = 0, saves_within = 0;  // max_runtime, checkpoint_interval in ms; -1: left out
  JobId alone = kNoId;                             // of a job with several pools: it is a kind of its own
  auto operator<=>(const WaitKind&) const = default;
};
// Those of one leaf, in order, and by kind; no set is empty.
struct WaitLine {
  std::set<WaitKey> all;
  std::map<WaitKind, std::set<WaitKey>> kinds;
};

// At one level of the tree.
struct Rights {
  bool quota = false, fair = false;  // to stay within it
};

// Nodes that are kept for the first in order, which has waited long (reservation.h).
struct Reservation {
  JobId owner = kNoId;
  std::string name;           // of the owner: its id may be used again
  std::vector<NodeId> nodes;  // sorted
  std::optional<Time> start;  // when all of it will be free; nullopt: somebody there has no max_runtime
  Time made;
  std::vector<Rights> rights;  // of its owner, at each level from its leaf up
};

struct Pool {
  PoolSpec spec;
  bool known = false;
  std::set<NodeId> nodes;                                // selected by this pool alone; usable or not
  std::set<std::string> shared;                          // names of nodes that another pool selects too
  std::vector<Domain> domains = std::vector<Domain>(1);  // [0]: the whole pool
  std::map<std::string, DomainId> domain_ids;            // by path of labels
  std::size_t most_domains = 64;                         // beyond, drop_empty_domains() does so
  std::map<std::int64_t, std::int32_t> gpu_memories;     // of its usable nodes with GPUs, counted
  std::int64_t priced_by = -1;                     // the largest of these at the last settle(); -1: none
  std::map<std::int32_t, std::int32_t> zone_gpus;  // of its usable nodes: the largest NUMA node's, counted
  mutable Rankings rankings;                       // what searches have found out; of no other meaning
  Fragmentation fragmentation;                // by the requests of jobs that are counted here, see count()
  std::map<LeafId, WaitLine> lines;           // what may start here, by Project
  std::int64_t leaving = 0;                   // pods that are on their way out of its nodes
  std::size_t waiting = 0;                    // in these
  std::set<JobId> unjudged;                   // of those whose first pool this is: without a verdict
  std::optional<Time> judged_all;             // when all verdicts were last looked at, where many wait
  std::map<LeafId, std::set<JobId>> holding;  // who has places here, by Project
  // Of these, how many are preemptible, by Project and priority.
  std::map<std::pair<LeafId, std::int64_t>, std::int32_t> preemptible_jobs;
  Resources preemptible;                  // allocated to Projects, without what is not preemptible
  std::set<std::pair<Time, JobId>> ends;  // of what runs here and says when: end_of()
  std::set<JobId> growable;               // running elastic jobs that could be larger
  std::set<std::pair<std::int64_t, std::string>> holders;  // (minus milli-GPU, job)
  std::uint64_t version = 1, judged = 0;  // plan() has nothing to do here while they are equal …
  std::optional<Time> due;                // … before this
  std::uint64_t gains = 1;                // grows when something becomes free: what was refused may fit now
  std::vector<Resources> fair;            // fair_shares() as they were asked for last; by LeafId
  std::uint64_t members = 1;              // grows when a usable node comes, goes or is another
  std::optional<Reservation> reservation;
  // For the search that is being made, see place():
  bool closed = false;       // its reserved nodes are
  Bytes memory_from;         // memory shares go to GPUs of at least this size
  MilliGpu used_gpu;         // on nodes that take part, parts of GPUs included
  MilliGpu spare_gpu;        // spare_gpu() of these nodes
  Resources used_by_others;  // on these nodes
  Resources held_back;       // TreeSums::held_back of all top-level tree nodes
};

struct TreeSums {
  Resources allocated;  // running and promised
  Resources fixed;      // the non-preemptible part of allocated
  Resources promised;   // of these; nobody uses it yet
  Resources leaving;    // beside these
  Resources pending;    // of what waits, and of what was evicted and has not left yet
  Resources surplus;    // what elastic jobs would take beyond that
  // Of what is reserved here and below, the part that is not allocated; and the sum of the children's.
  Resources held_back, held_below;

  Resources in_use() const { return allocated - promised + leaving; }
  Resources demand() const { return allocated + pending + surplus; }
};

// What a tree node has held, for weights that fall with past use (past.h).
struct Past {
  std::array<Wide, 3> average{};  // GPU, CPU, memory in units of 1 / 2^20, up to `as_of`, weighted by age
  Time as_of;
  std::array<Wide, 3> since{};  // the amounts x milliseconds after that, up to `seen`
  Time seen;
  Resources held;         // from `seen` on
  bool restored = false;  // from before a restart: what it held since is not known
};

struct TreeNode {
  QueueSpec spec;
  bool known = false;
  LeafId parent = kNoId;
  std::set<LeafId> children;
  bool circular = false;        // it is above itself
  bool reserves = false;        // it, or something below, has a reserved part in some pool
  std::map<PoolId, Past> past;  // of the children of a queue with a half-life
  std::map<PoolId, TreeSums> sums;
  std::int32_t running = 0, waiting = 0;
};

// Of the node when it is empty: what is allocatable, with its healthy GPUs and the MIG slices that it lists.
Resources capacity_of(const Node& node);

// One pod's charge, as it was made; giving it back undoes exactly that.
struct Charge {
  NodeId node = kNoId;
  Resources amounts;
  std::vector<std::int32_t> gpus;
  const Labels* labels = nullptr;  // of a pod outside jobs: one of State::label_sets
  GpuUse use;                      // of each of them
  std::int32_t unnamed = 0;
  std::int32_t zone = -1;   // NUMA node, where all its GPUs are on one that tells what it has
  std::int32_t slices = 0;  // out of those that the node has cut already
  std::int32_t cut = -1;    // which: index into Node::cut
  JobId holder = kNoId;
  LeafId leaf = kNoId;
  PoolId pool = kNoId;
  bool fixed = false;  // not preemptible
  Hold hold = Hold::kRunning;
  std::uint64_t added_in = 0;  // the plan that has added this pod to a job that ran: State::plans
};

enum class Counted : std::uint8_t { kNot, kWaiting, kRunning };

struct Leaving {
  PodPlace place;
  Charge charge;
};

struct Job {
  JobSpec spec;
  Progress progress;
  bool known = false;
  bool waits = false;    // is a claimant; else it holds an assignment, or its pods are leaving
  bool assumed = false;  // its assignment is, by plan(), not confirmed yet
  bool moving = false;   // nominated, and its own pods have to go first, or have just gone
  RequestId request = kNoId;
  LeafId leaf = kNoId;
  std::vector<PoolId> pools;  // those of spec.pools that exist, or the default pool
  std::optional<Assignment> assignment;
  std::uint64_t started_in = 0;    // the plan that is being made has started it: Planner::serial
  std::optional<Time> room_since;  // when there was first room to grow, with grow_quiet
  std::uint64_t shrunk_in = 0;     // the plan that has last taken some of its pods
  std::uint64_t grown_in = 0;      // the plan that has last given it some
  bool entitled = false;           // that start kept its leaf and ancestors within quota and fair share
  bool to_be_evicted = false;  // plan() has said so; `assignment` is empty, the caller may not know it yet
  Counted counted = Counted::kNot;         // in the tree
  PoolId pending_in = kNoId;               // where it is counted as pending, and its request as typical
  std::optional<Assignment> evicted_from;  // when to_be_evicted
  std::vector<std::size_t> displaced;      // of assignment.pods
  std::vector<std::size_t> promised;       // of assignment.pods: not startable yet; sorted
  std::vector<Charge> charges;             // of assignment.pods, by index; displaced ones are empty
  std::vector<Leaving> leaving;
  MilliGpu held_gpu{};                          // its entry in Pool::holders; 0: none
  Resources pending, surplus;                   // with these
  std::optional<std::pair<PoolId, Time>> ends;  // its entry in Pool::ends
  Time last_held;                               // when it last ceased to hold something, as far as plans tell
  Time no_reservation_before;                   // it was tried, and nothing would do
  std::optional<Verdict> verdict;
  // Of the request's refusal that `verdict` was made from; 0: of another origin.
  std::uint64_t verdict_serial = 0;

  bool runs() const { return assignment && !nominated(); }
  bool nominated() const {
    return assignment && !promised.empty() && promised.size() == assignment->pods.size();
  }
};

// When the running job ends by its max_runtime; nullopt: it has none.
std::optional<Time> end_of(const Job& job);

// Tree nodes are found by kind and name.
inline std::string tree_key(const std::string& name, bool is_project) {
  return (is_project ? "p/" : "q/") + name;
}

class Watch;

// Ids of nodes and jobs are used again. Names of Queues, Projects and pools keep theirs as long as the
// process lives, for charges and lines refer to them in many places: about 600 bytes a name and 300 more for
// each pool that it had something in, and one more step where all tree nodes are walked. A hundred Projects
// made and deleted a day are 10 to 40 MB in a year without a restart.
class State {
 public:
  std::vector<Node> nodes;
  std::map<std::string, NodeId> node_ids;
  std::vector<Pool> pools;
  std::map<std::string, PoolId> pool_ids;  // also of pools that an assignment names and that do not exist
  PoolId default_pool = kNoId;
  std::map<std::string, ModelId> model_ids;
  std::vector<TreeNode> tree;
  std::map<std::string, LeafId> tree_ids;
  std::vector<Job> jobs;
  std::map<std::string, JobId> job_ids;
  Requests requests;
  std::map<std::string, Charge> others;               // by pod
  std::map<Labels, std::int32_t> label_sets;          // of these, and how many have them
  std::set<JobId> averse;                             // jobs with required anti-affinity
  std::set<std::pair<NodeId, std::int32_t>> crowded;  // GPUs given out twice: in_conflict()
  std::set<JobId> displaced;                          // jobs with displaced pods
  std::set<JobId> promised;                           // jobs with promised pods
  std::set<JobId> sidelined;  // wait, but stand in no line: no pool, no Project, impossible
  bool sidelined_changed = false;
  std::uint64_t last_serial = 0;
  std::uint64_t plans = 0;  // made so far
  Time time;                // of the last one
#ifdef NDEBUG
  bool audited = false;  // each plan is: audit.h
#else
  bool audited = true;
#endif
  Watch* watch = nullptr;  // of the plan that is being made

  Node& node(NodeId id) { return nodes[static_cast<std::size_t>(id)]; }
  const Node& node(NodeId id) const { return nodes[static_cast<std::size_t>(id)]; }
  Pool& pool(PoolId id) { return pools[static_cast<std::size_t>(id)]; }
  const Pool& pool(PoolId id) const { return pools[static_cast<std::size_t>(id)]; }
  TreeNode& leaf(LeafId id) { return tree[static_cast<std::size_t>(id)]; }
  const TreeNode& leaf(LeafId id) const { return tree[static_cast<std::size_t>(id)]; }
  Job& job(JobId id) { return jobs[static_cast<std::size_t>(id)]; }
  const Job& job(JobId id) const { return jobs[static_cast<std::size_t>(id)]; }
  const Request& request_of(const Job& j) const { return requests.at(j.request); }

  // --- names (state.cc)
  NodeId node_of(const std::string& name);  // these four make what is not there yet
  PoolId pool_of(const std::string& name);
  LeafId leaf_of(const std::string& name, bool is_project);
  JobId job_of(const std::string& id);
  PoolId find_pool(const std::string& name) const;  // kNoId: does not exist
  LeafId find_leaf(const std::string& name, bool is_project) const;
  JobId find_job(const std::string& id) const;
  void forget_job(JobId id);    // its id is used again
  void forget_node(NodeId id);  // if nothing is charged to it

  // --- ledger (ledger.cc): every change of a node's use goes through these two
  Charge take(Charge wanted);
  void turn(Charge& charge, Hold to);  // it is held in another way from now on
  // `gain`: something becomes free that was not so when jobs were refused (not: a trial is undone).
  void give_back(const Charge& charge, bool gain = true);
  // After a node's GPUs or NUMA nodes changed: what is charged there is charged anew. O(pods of those jobs +
  // pods outside jobs); where GPUs without a number are charged there, O(all jobs' pods).
  void recharge(NodeId id);
  // The charge of a pod outside jobs, which has its GPUs, or its share of each, as the node is now.
  static Charge gpus_outside_jobs(const NodeSpec& n, Charge c);
  // The pods of jobs on one GPU, each by its job, the oldest admission first; those it is promised to last.
  std::vector<JobId> by_admission(NodeId id, std::int32_t gpu) const;
  void leave_pool_index(NodeId id);
  void enter_pool_index(NodeId id);
  // The same as both, after what is free on the node has changed and nothing else.
  struct InUse {
    std::int32_t free_gpus = 0;
    MilliGpu gpu;
  };
  void refresh_pool_index(NodeId id, const InUse& before);
  // Call after labels or selectors changed; the node must have left the index.
  void sort_into_pool(NodeId id);
  // Where the pool has far more domains than its nodes are in, makes them anew from their labels: values of
  // labels come and go with nodes. Once all nodes are in the index. O(1), and now and then O(nodes).
  void drop_empty_domains(Pool& pool);
  void touch(PoolId id) {
    if (id != kNoId) ++pool(id).version;
  }
  void touch_all() {
    for (Pool& p : pools) ++p.version, p.judged_all.reset();
    sidelined_changed = true;
  }

  // --- tree (tree.cc)
  void account(const Charge& charge, int sign);
  void account_pending(const Job& job, int sign);
  void count_in_tree(LeafId leaf, int running, int waiting_jobs);
  void count(JobId id);                      // brings what is counted of the job to what it is now
  void reshape() { shape_changed_ = true; }  // parents changed, or what is reserved
  // Links parents and recounts after reshape(), and what asks for GPU memory after a pool has got or lost its
  // largest GPUs; then O(all jobs), once per batch.
  void settle();
  // The chain from a tree node to the top; empty if it does not reach the top (missing parent, circle).
  std::vector<LeafId> path(LeafId leaf) const;
  const Share& share(LeafId leaf, PoolId pool) const;
  const TreeSums& sums(LeafId leaf, PoolId pool) const;
  bool reserves() const { return reserves_; }  // some tree node has a reserved part

  // --- jobs (jobs.cc)
  void start_waiting(JobId id);
  void stop_waiting(JobId id, bool leave_lines = true);
  void leave_lines(JobId id);
  void drop_assignment(JobId id);  // not what is leaving
  void put_assignment(JobId id, const Assignment& assignment, const std::vector<std::size_t>& displaced_pods,
                      Hold hold);
  // Charges are taken already.
  void hold(JobId id, Assignment assignment, std::vector<Charge> charges);
  // The other way round: it holds nothing any more; the charges stay taken and are the caller's.
  std::pair<Assignment, std::vector<Charge>> unhold(JobId id);
  bool available(const Charge& charge, View view) const;
  void note_promises(JobId id);  // `promised` of the job, and of the State, from its charges
  void note_end(JobId id);       // after what end_of() looks at has changed
  void put_leaving(JobId id, const std::vector<PodPlace>& pods);
  Charge charge_for(JobId id, const PodPlace& place, NodeId on, PoolId pool, Hold hold);  // on: place.node
  // How many pods the job could have beyond those it has (or, while it waits, beyond its minimum).
  Resources surplus_of(const Job& job, PoolId pool) const;
  // What a pod, or the request, is charged in the pool at least: memory shares on its largest GPUs.
  Resources per_pod(const RoleSpec& role, PoolId pool) const;
  Resources asked(const Request& request, PoolId pool) const;

 private:
  std::vector<NodeId> free_nodes_;
  std::uint64_t stamps_ = 0;
  std::vector<JobId> free_jobs_;
  void hold_back(LeafId at, PoolId pool, TreeSums& sums) const;  // counts it anew from the children's
  void seed_held_back(LeafId at);
  void recount();
  bool shape_changed_ = false;
  bool reserves_ = false;
};

}  // namespace muster::placement
