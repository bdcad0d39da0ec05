// The inside of Cluster: nodes with their GPU ledgers, pools with buckets of free GPUs, the tree with its sums, jobs.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <unordered_map>
#include <vector>

#include "muster/placement/cluster.h"

namespace muster::placement {

using NodeId = std::int32_t;
using PoolId = std::int32_t;
using JobId = std::int32_t;
using LeafId = std::int32_t;  // index of any tree node
inline constexpr std::int32_t kNone = -1;

// One node: what is left of it, and who has which GPU.
struct Node {
  NodeSpec spec;
  bool known = false;   // false: only named by an assignment or a pod so far
  PoolId pool = kNone;  // the one pool that selects it
  bool shared = false;  // selected by several: used by none
  Resources used;
  std::vector<JobId> gpu_holder;    // by GPU index; kNone: free; kOther: a pod outside assignments
  std::int32_t unnamed_gpus = 0;    // held by pods of which only the number is known
  std::int32_t named_gpus = 0;      // gpu_holder entries that are taken

  std::int32_t free_gpus() const { return spec.gpus - unnamed_gpus - named_gpus; }
  Resources free() const { return spec.allocatable - used; }
};
inline constexpr JobId kOther = -2;

// Nodes of one model by free GPUs, so that a search looks at those that can do only.
struct Buckets {
  std::map<std::int32_t, std::set<NodeId>> by_free;
};

struct Pool {
  PoolSpec spec;
  bool known = false;
  std::set<NodeId> nodes;  // usable or not
  std::map<std::string, Buckets> models;
  std::set<std::string> shared;  // names of nodes that another pool selects too
};

struct TreeSums {
  Resources allocated;
  Resources fixed;    // the non-preemptible part of allocated
  Resources pending;
};

struct TreeNode {
  QueueSpec spec;
  bool known = false;
  LeafId parent = kNone;
  std::set<LeafId> children;
  std::map<PoolId, TreeSums> sums;
  std::int32_t running = 0, waiting = 0;
  std::set<JobId> jobs;  // of a Project: that wait
};

// One pod's charge, as it was made; giving it back undoes exactly that.
struct Charge {
  NodeId node = kNone;
  Resources amounts;
  std::vector<std::int32_t> gpus;  // those that were really taken in the ledger
  std::int32_t unnamed = 0;
  LeafId leaf = kNone;
  PoolId pool = kNone;
  bool fixed = false;
};

struct Job {
  JobSpec spec;
  bool known = false;
  bool has_spec = false;
  LeafId leaf = kNone;
  std::optional<Assignment> assignment;
  bool assumed = false;                 // by plan(), not confirmed yet
  bool to_be_evicted = false;           // told already
  std::vector<std::size_t> displaced;   // of assignment.pods
  std::vector<Charge> charges;          // of assignment.pods, by index; displaced ones are empty
  std::string conflict;                 // its GPU is held by an older admission
  Resources total;                      // of the whole gang
  PoolId pending_in = kNone;            // where `total` is counted as pending
  std::optional<Verdict> verdict;
};

// Tree nodes are found by kind and name.
inline std::string tree_key(const std::string& name, bool is_project) { return (is_project ? "p/" : "q/") + name; }

class State {
 public:
  std::vector<Node> nodes;
  std::map<std::string, NodeId> node_ids;
  std::vector<Pool> pools;
  std::map<std::string, PoolId> pool_ids;
  std::vector<TreeNode> tree;
  std::map<std::string, LeafId> tree_ids;
  std::vector<Job> jobs;
  std::map<std::string, JobId> job_ids;
  std::map<std::string, Charge> others;  // by pod
  std::set<JobId> waiting;               // known, no assignment
  std::set<JobId> troubled;              // displaced pods or a conflict

  NodeId node_of(const std::string& name);  // makes an unknown one
  PoolId find_pool(const std::string& name) const;
  LeafId find_leaf(const std::string& name, bool is_project) const;
  JobId find_job(const std::string& id) const;
  PoolId default_pool() const;

  // Ledger. Every change of a node's use goes through these, so that buckets and sums never drift.
  Charge take(JobId job, const std::string& node, const std::vector<std::int32_t>& gpus, const RoleSpec& role, LeafId leaf,
              PoolId pool, bool fixed, std::vector<JobId>* taken_by);
  void give_back(const Charge& charge, JobId holder);
  void account(LeafId leaf, PoolId pool, const Resources& amounts, bool fixed, int sign);
  void account_pending(LeafId leaf, PoolId pool, const Resources& amounts, int sign);
  void count(LeafId leaf, int running, int waiting_jobs);

  void leave_bucket(NodeId id);
  void enter_bucket(NodeId id);
  void sort_into_pool(NodeId id);

  // The chain from a tree node to the top; empty if it does not reach the top (missing parent, cycle).
  std::vector<LeafId> path(LeafId leaf) const;
  const Share& share(LeafId leaf, PoolId pool) const;

  void stop_waiting(JobId id);
  void start_waiting(JobId id);
  void drop_assignment(JobId id);
  void put_assignment(JobId id, const Assignment& assignment, const std::vector<std::size_t>& displaced);
  std::vector<PoolId> pools_of(const Job& job) const;  // those that exist, in order
};

inline bool takes_part(const Node& node) { return node.known && node.pool != kNone && !node.shared && node.spec.usable; }

}  // namespace muster::placement
