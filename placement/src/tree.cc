// The tree of Queues and Projects: its shape, and the sums at each of its nodes.
#include "state.h"

namespace muster::placement {
namespace {

// Calls visit for the tree node and all above it; stops in a circle.
template <class Visit>
void upwards(std::vector<TreeNode>& tree, LeafId from, Visit&& visit) {
  std::size_t steps = 0;
  for (LeafId at = from; at != kNoId && steps <= tree.size();
       at = tree[static_cast<std::size_t>(at)].parent, ++steps) {
    visit(tree[static_cast<std::size_t>(at)]);
  }
}

}  // namespace

// Sums are kept along `parent` links even where the tree does not hold together, so that they are right once
// it does.
void State::account(const Charge& c, int sign) {
  if (c.leaf == kNoId) return;
  const Resources amounts = c.amounts * sign;
  upwards(tree, c.leaf, [&](TreeNode& t) {
    TreeSums& s = t.sums[c.pool];
    if (c.hold == Hold::kLeaving) {
      s.leaving += amounts;
      return;
    }
    s.allocated += amounts;
    if (c.hold == Hold::kPromised) s.promised += amounts;
    if (c.fixed) s.fixed += amounts;
  });
  touch(c.pool);
}
void State::account_pending(const Job& j, int sign) {
  upwards(tree, j.leaf, [&](TreeNode& t) {
    TreeSums& s = t.sums[j.pending_in];
    s.pending += j.pending * sign;
    s.surplus += j.surplus * sign;
  });
}
void State::count_in_tree(LeafId from, int running, int waiting_jobs) {
  upwards(tree, from, [&](TreeNode& t) { t.running += running, t.waiting += waiting_jobs; });
}

// From scratch: changes of shape are rare, and undoing sums along a chain that was broken or a circle is not
// worth its traps.
void State::settle() {
  if (!shape_changed_) return;
  shape_changed_ = false;
  for (TreeNode& t : tree) {
    t.children.clear();
    t.sums.clear();
    t.running = t.waiting = 0;
    t.parent = kNoId;
  }
  for (std::size_t i = 0; i < tree.size(); ++i) {
    if (!tree[i].known || tree[i].spec.parent.empty()) continue;
    const LeafId p = find_leaf(tree[i].spec.parent, false);
    if (p == kNoId || !leaf(p).known) continue;
    tree[i].parent = p;
    leaf(p).children.insert(static_cast<LeafId>(i));
  }
  for (const Job& j : jobs) {
    if (!j.known) continue;
    for (const Charge& c : j.charges) {
      if (c.node != kNoId) account(c, 1);
    }
    for (const Leaving& l : j.leaving) account(l.charge, 1);
    account_pending(j, 1);
    count_in_tree(j.leaf, j.counted == Counted::kRunning ? 1 : 0, j.counted == Counted::kWaiting ? 1 : 0);
  }
  for (const auto& [key, c] : others) account(c, 1);
  touch_all();
}

std::vector<LeafId> State::path(LeafId from) const {
  std::vector<LeafId> chain;
  for (LeafId at = from; at != kNoId; at = leaf(at).parent) {
    if (!leaf(at).known || chain.size() > tree.size()) return {};
    chain.push_back(at);
    if (leaf(at).parent == kNoId && !leaf(at).spec.parent.empty()) return {};
  }
  return chain;
}

const Share& State::share(LeafId at, PoolId p) const {
  static const Share kAbsent{};
  const QueueSpec& spec = leaf(at).spec;
  if (p == kNoId) return kAbsent;
  if (p == default_pool) return spec.in_default_pool;
  const auto found = spec.in_pool.find(pool(p).spec.name);
  return found == spec.in_pool.end() ? kAbsent : found->second;
}

const TreeSums& State::sums(LeafId at, PoolId p) const {
  static const TreeSums kNothing{};
  const auto found = leaf(at).sums.find(p);
  return found == leaf(at).sums.end() ? kNothing : found->second;
}

}  // namespace muster::placement
