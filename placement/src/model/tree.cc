// The tree of Queues and Projects: its shape, and the sums at each of its nodes.
#include <algorithm>
#include <utility>

#include "model/cluster_model.h"
#include "node/resource_vector.h"

namespace muster::placement {
namespace {

// Calls visit for the tree node (by id) and all above it, of a circle for the first that it comes to.
template <class Visit>
void upwards(std::vector<TreeNode>& tree, QueueId from, Visit&& visit) {
  for (QueueId at = from; at != kNoId;) {
    TreeNode& t = tree[static_cast<std::size_t>(at)];
    visit(at, t);
    if (t.circular) break;
    at = t.parent;
  }
}

}  // namespace

Resources reserved_part(const Share& share) {
  Resources part;
  for (const ResourceKind kind : kAccountedKinds) {
    const auto reserved = bound_of(share.reserved, kind), quota = bound_of(share.quota, kind);
    if (!reserved || !quota) continue;
    const std::int64_t most = std::min(*quota, bound_of(share.limit, kind).value_or(kUnbounded));
    amount_of(part, kind) = std::max<std::int64_t>(0, std::min(*reserved, most));
  }
  return part;
}

bool reserves_anything(const QueueSpec& spec) {
  const auto any = [](const Share& share) {
    return share.reserved.gpu || share.reserved.cpu || share.reserved.memory;
  };
  return any(spec.in_default_pool) || std::any_of(spec.in_pool.begin(), spec.in_pool.end(),
                                                  [&](const auto& entry) { return any(entry.second); });
}

// Sums are kept along `parent` links even where the tree does not hold together, so that they are right once
// it does.
void ClusterModel::account(const Allocation& c, int sign) {
  if (c.leaf == kNoId) return;
  const Resources amounts = c.amounts * sign;
  if (c.pool != kNoId && !c.non_preemptible && c.hold != Hold::kLeaving) pool(c.pool).preemptible += amounts;
  Resources more;  // held back one level below
  upwards(tree, c.leaf, [&](QueueId at, TreeNode& t) {
    TreeSums& s = t.sums[c.pool];
    if (c.hold == Hold::kLeaving) {
      s.leaving += amounts;
      return;
    }
    s.allocated += amounts;
    if (c.hold == Hold::kNominated) s.nominated += amounts;
    if (c.non_preemptible) s.non_preemptible += amounts;
    if (!t.reserves) return;
    s.held_below += more;
    const Resources before = s.held_back;
    hold_back(at, c.pool, s);
    more = s.held_back - before;
    if (t.parent == kNoId && t.spec.parent.empty() && c.pool != kNoId) pool(c.pool).held_back += more;
  });
  touch(c.pool);
}
void ClusterModel::account_pending(const Job& j, int sign) {
  upwards(tree, j.leaf, [&](QueueId, TreeNode& t) {
    TreeSums& s = t.sums[j.pending_in];
    s.pending += j.pending * sign;
    s.surplus += j.surplus * sign;
  });
}
void ClusterModel::count_in_tree(QueueId from, int running, int waiting_jobs) {
  upwards(tree, from, [&](QueueId, TreeNode& t) { t.running += running, t.waiting += waiting_jobs; });
}

void ClusterModel::hold_back(QueueId at, PoolId p, TreeSums& s) const {
  const Share& mine = share(at, p);
  const Resources own = reserved_part(mine);
  for (const ResourceKind kind : kAccountedKinds) {
    const std::int64_t used = amount_of(s.allocated, kind);
    const std::int64_t most =
        std::max(wrapping_sub(amount_of(own, kind), used), amount_of(s.held_below, kind));
    const auto limit = bound_of(mine.limit, kind);
    amount_of(s.held_back, kind) =
        std::max<std::int64_t>(0, limit ? std::min(most, wrapping_sub(*limit, used)) : most);
  }
}

// From scratch: changes of shape are rare, and undoing sums along a chain that was broken or a circle is not
// worth its traps.
void ClusterModel::settle() {
  if (std::exchange(shape_changed_, false)) recount();
  // What asks for GPU memory is priced by the largest GPUs of its pool.
  bool other_prices = false;
  for (Pool& p : pools) {
    const std::int64_t largest = p.gpu_memories.empty() ? -1 : p.gpu_memories.rbegin()->first;
    other_prices = std::exchange(p.priced_by, largest) != largest || other_prices;
  }
  for (std::size_t i = 0; other_prices && i < jobs.size(); ++i) {
    if (jobs[i].known && request_of(jobs[i]).by_memory) count(static_cast<JobId>(i));
  }
}

void ClusterModel::recount() {
  for (TreeNode& t : tree) {
    t.children.clear();
    t.sums.clear();
    t.running = t.waiting = 0;
    t.parent = kNoId;
    t.reserves = false;
  }
  for (Pool& p : pools) p.held_back = p.preemptible = {};
  for (std::size_t i = 0; i < tree.size(); ++i) {
    if (!tree[i].known || tree[i].spec.parent.empty()) continue;
    const QueueId p = find_queue(tree[i].spec.parent, false);
    if (p == kNoId || !queue(p).known) continue;
    tree[i].parent = p;
    queue(p).children.insert(static_cast<QueueId>(i));
  }
  for (std::size_t i = 0; i < tree.size(); ++i) {
    QueueId at = tree[i].parent;
    for (std::size_t steps = 0; at != kNoId && at != static_cast<QueueId>(i) && steps < tree.size(); ++steps)
      at = queue(at).parent;
    tree[i].circular = at == static_cast<QueueId>(i);
  }
  reserves_ = false;
  for (std::size_t i = 0; i < tree.size(); ++i) {
    // Where the tree does not hold together nobody can use it.
    if (!reserves_anything(tree[i].spec) || path(static_cast<QueueId>(i)).empty()) continue;
    reserves_ = true;
    upwards(tree, static_cast<QueueId>(i), [](QueueId, TreeNode& t) { t.reserves = true; });
  }
  for (std::size_t i = 0; i < tree.size() && reserves_; ++i) {
    if (tree[i].parent == kNoId && tree[i].spec.parent.empty()) seed_held_back(static_cast<QueueId>(i));
  }
  for (const Job& j : jobs) {
    if (!j.known) continue;
    for (const Allocation& c : j.allocations) {
      if (c.node != kNoId) account(c, 1);
    }
    for (const Leaving& l : j.leaving) account(l.allocation, 1);
    account_pending(j, 1);
    count_in_tree(j.leaf, j.counted == Counted::kRunning ? 1 : 0, j.counted == Counted::kWaiting ? 1 : 0);
  }
  for (const auto& [key, c] : others) account(c, 1);
  touch_all();
}

// Nothing is allocated yet.
void ClusterModel::seed_held_back(QueueId at) {
  TreeNode& t = queue(at);
  if (!t.reserves) return;
  for (const QueueId child : t.children) seed_held_back(child);
  for (std::size_t i = 0; i < pools.size(); ++i) {
    const auto p = static_cast<PoolId>(i);
    TreeSums& s = t.sums[p];
    for (const QueueId child : t.children) s.held_below += sums(child, p).held_back;
    hold_back(at, p, s);
    if (t.parent == kNoId) pools[i].held_back += s.held_back;
  }
}

std::vector<QueueId> ClusterModel::path(QueueId from) const {
  std::vector<QueueId> chain;
  for (QueueId at = from; at != kNoId; at = queue(at).parent) {
    if (!queue(at).known || chain.size() > tree.size()) return {};
    chain.push_back(at);
    if (queue(at).parent == kNoId && !queue(at).spec.parent.empty()) return {};
  }
  return chain;
}

bool ClusterModel::may_start(QueueId at, const std::vector<QueueId>& path) const {
  return at != kNoId && queue(at).known && !path.empty() &&
         std::none_of(path.begin(), path.end(), [&](QueueId above) { return queue(above).spec.hold; });
}

const Share& ClusterModel::share(QueueId at, PoolId p) const {
  static const Share kAbsent{};
  const QueueSpec& spec = queue(at).spec;
  if (p == kNoId) return kAbsent;
  if (p == default_pool) return spec.in_default_pool;
  const auto found = spec.in_pool.find(pool(p).spec.name);
  return found == spec.in_pool.end() ? kAbsent : found->second;
}

const TreeSums& ClusterModel::sums(QueueId at, PoolId p) const {
  static const TreeSums kNothing{};
  const auto found = queue(at).sums.find(p);
  return found == queue(at).sums.end() ? kNothing : found->second;
}

}  // namespace muster::placement
