// The tree of Queues and Projects: its shape, and at each of its nodes the sums of what is below.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "muster/placement/queue.h"
#include "node/ids.h"
#include "node/node.h"
#include "node/resource_vector.h"
#include "node/wide.h"

namespace muster::placement {

struct TreeSums {
  Resources allocated;        // running and nominated
  Resources non_preemptible;  // the non-preemptible part of allocated
  Resources nominated;        // of these; nobody uses it yet
  Resources leaving;          // beside these
  Resources pending;          // of what waits, and of what was evicted and has not left yet
  Resources surplus;          // what elastic jobs would take beyond that
  // Of what is reserved here and below, the part that is not allocated; and the sum of the children's.
  Resources held_back, held_below;

  Resources in_use() const { return allocated - nominated + leaving; }
  Resources demand() const { return allocated + pending + surplus; }
};

struct TreeNode {
  QueueSpec spec;
  bool known = false;
  QueueId parent = kNoId;
  std::set<QueueId> children;
  bool circular = false;  // it is above itself
  bool reserves = false;  // it, or something below, has a reserved part in some pool
  std::map<PoolId, TreeSums> sums;
  std::int32_t running = 0, waiting = 0;
};

// What a tree node has held in one pool, for weights that fall with past use (past.h).
struct Past {
  using Amounts = std::array<Wide, kChargedKinds.size()>;
  Amounts average{};  // in units of 1 / 2^20, up to `as_of`, weighted by age
  Time as_of;
  Amounts since{};  // the amounts x milliseconds after that, up to `seen`
  Time seen;
  Resources held;         // from `seen` on
  bool restored = false;  // from before a restart: what it held since is not known
};

// Of the children of Queues with a half-life.
using PastByQueue = std::map<QueueId, std::map<PoolId, Past>>;

// The part of a quota that is never lent: `reserved` as far as quota and limit reach.
Resources reserved_part(const Share& share, const AccountedKinds& kinds);
bool reserves_anything(const QueueSpec& spec);

// Ids are never used again: Queues and Projects that are gone keep theirs, for allocations and pending queues
// refer to them in many places.
class QueueTree {
 public:
  // --- names
  QueueId queue_of(const std::string& name, bool is_project);          // made where there is none
  QueueId find_queue(const std::string& name, bool is_project) const;  // kNoId: there is none
  const TreeNode& queue(QueueId id) const { return nodes_[static_cast<std::size_t>(id)]; }
  const std::vector<TreeNode>& queues() const { return nodes_; }  // by QueueId, also what is not known
  std::size_t size() const { return nodes_.size(); }

  // --- shape. What changes it (or what is reserved) shows after the next relink().
  bool upsert(const QueueSpec& spec);  // false: it is so already
  bool remove(QueueId id);             // false: it is not known
  // Queues say by a pool's name what they have in it, or for the default pool (kNoId: there is none).
  void add_pool(const std::string& name);  // in the order of PoolIds
  void set_default_pool(PoolId pool);      // also to be called when it stays and another pool has changed
  PoolId default_pool() const { return default_pool_; }
  void reshape() { shape_changed_ = true; }
  // Links parents. True: then all sums are 0, and whatever counts in the tree is to be counted anew.
  bool relink();
  // The chain from a tree node to the top; empty if it does not reach the top (missing parent, circle).
  std::vector<QueueId> path(QueueId leaf) const;
  // The Project is known, hangs on a complete tree, and no Queue above it is held. `path`: path(leaf).
  bool may_start(QueueId leaf, const std::vector<QueueId>& path) const;
  // RULES.md 3.6: the Queue on this path that would drain a job that ends only after `runs`, where after the
  // drain the job would have the time. kNoId: there is none.
  QueueId drains_before_end(const std::vector<QueueId>& path, Time now, std::optional<Duration> runs) const;
  // When a job that could start at `at` may start, as far as coming drains are known: none of them is on
  // then, and none keeps it (RULES.md 3.6).
  Time after_drains(const std::vector<QueueId>& path, Time at, std::optional<Duration> runs) const;
  // When schedules let new jobs start below each level that is held. nullopt: never, as far as is known.
  std::optional<Time> opens(const std::vector<QueueId>& path, Time now) const;
  const Share& share(QueueId at, PoolId pool) const;
  bool reserves() const { return reserves_; }  // some tree node has a reserved part
  bool lends() const { return lenders_ > 0; }  // some tree node lends to non-preemptible jobs
  // What anybody here states a bound of, in any pool.
  const AccountedKinds& accounted() const { return accounted_; }
  void set_models(const std::array<bool, kMaxNamed>& models) { accounted_.set_models(models); }

  // --- sums. Kept along `parent` links even where the tree does not hold together, so that they are right
  // once it does. O(depth).
  void account(const Allocation& allocation, int sign);
  void account_pending(QueueId leaf, PoolId pool, const Resources& pending, const Resources& surplus);
  void count(QueueId leaf, int running, int waiting);
  const TreeSums& sums(QueueId at, PoolId pool) const;
  const Resources& held_back(PoolId pool) const;    // TreeSums::held_back of all top-level tree nodes
  const Resources& preemptible(PoolId pool) const;  // allocated to Projects, without what is not preemptible

 private:
  struct PoolSums {
    Resources held_back, preemptible;
  };
  TreeNode& at(QueueId id) { return nodes_[static_cast<std::size_t>(id)]; }
  void hold_back(QueueId at, PoolId pool, TreeSums& sums) const;  // counts it anew from the children's
  void seed_held_back(QueueId at);
  void note_bounds(const QueueSpec& spec, int sign);  // into `accounted_`

  std::vector<TreeNode> nodes_;
  std::map<std::string, QueueId> ids_;  // by kind and name
  std::vector<std::string> pool_names_;
  std::vector<PoolSums> in_pool_;
  PoolId default_pool_ = kNoId;
  AccountedKinds accounted_;
  std::array<std::int32_t, kMaxNamed> bounds_{};  // how many there are of each resource known by name
  std::int32_t lenders_ = 0;
  bool shape_changed_ = false;
  bool reserves_ = false;
};

}  // namespace muster::placement
