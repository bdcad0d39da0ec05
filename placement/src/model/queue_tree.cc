#include "model/queue_tree.h"

#include <algorithm>
#include <utility>

#include "node/resource_vector.h"

namespace muster::placement {
namespace {

std::string key_of(const std::string& name, bool is_project) {
  return (is_project ? "p/" : "q/") + name;
}

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

Resources reserved_part(const Share& share, const AccountedKinds& kinds) {
  Resources part;
  for (const ResourceKind kind : kinds) {
    const auto reserved = bound_of(share.reserved, kind), quota = bound_of(share.quota, kind);
    if (!reserved || !quota) continue;
    const std::int64_t most = std::min(*quota, bound_of(share.limit, kind).value_or(kUnbounded));
    amount_of(part, kind) = std::max<std::int64_t>(0, std::min(*reserved, most));
  }
  return part;
}

bool reserves_anything(const QueueSpec& spec) {
  const auto any = [](const Share& share) {
    return std::any_of(kChargedKinds.begin(), kChargedKinds.end(),
                       [&](ResourceKind kind) { return bound_of(share.reserved, kind).has_value(); });
  };
  return any(spec.in_default_pool) || std::any_of(spec.in_pool.begin(), spec.in_pool.end(),
                                                  [&](const auto& entry) { return any(entry.second); });
}

QueueId QueueTree::queue_of(const std::string& name, bool is_project) {
  const auto [it, fresh] = ids_.emplace(key_of(name, is_project), static_cast<QueueId>(nodes_.size()));
  if (fresh) {
    nodes_.emplace_back().spec.name = name;
    nodes_.back().spec.is_project = is_project;
  }
  return it->second;
}

QueueId QueueTree::find_queue(const std::string& name, bool is_project) const {
  const auto found = ids_.find(key_of(name, is_project));
  return found == ids_.end() ? kNoId : found->second;
}

bool QueueTree::upsert(const QueueSpec& spec) {
  TreeNode& t = at(queue_of(spec.name, spec.is_project));
  if (t.known && t.spec == spec) return false;
  // Its limit bounds what is held back for those below it.
  if (!t.known || t.spec.parent != spec.parent || t.reserves || reserves_anything(spec)) reshape();
  note_bounds(t.spec, -1);
  note_bounds(spec, 1);
  lenders_ += (spec.lends_non_preemptible ? 1 : 0) - (t.spec.lends_non_preemptible ? 1 : 0);
  t.spec = spec;
  t.known = true;
  return true;
}

bool QueueTree::remove(QueueId id) {
  TreeNode& t = at(id);
  if (!t.known) return false;
  t.known = false;
  if (t.spec.lends_non_preemptible) --lenders_;
  note_bounds(t.spec, -1);
  QueueSpec nothing;
  nothing.name = t.spec.name;
  nothing.is_project = t.spec.is_project;
  t.spec = std::move(nothing);
  reshape();
  return true;
}

void QueueTree::note_bounds(const QueueSpec& spec, int sign) {
  const auto note = [&](const Share& share) {
    for (const Bounds* bounds : {&share.quota, &share.reserved, &share.limit}) {
      for (std::size_t i = 0; i < bounds_.size(); ++i) bounds_[i] += bounds->counted[i] ? sign : 0;
    }
  };
  note(spec.in_default_pool);
  for (const auto& [pool, share] : spec.in_pool) note(share);
  accounted_.clear_named();
  for (const ResourceKind kind : kChargedKinds) {
    if (kind >= ResourceKind::kNamed && bounds_[named_index(kind)] > 0) accounted_.add(kind);
  }
}

void QueueTree::add_pool(const std::string& name) {
  pool_names_.push_back(name);
  in_pool_.emplace_back();
}

void QueueTree::set_default_pool(PoolId pool) {
  default_pool_ = pool;
  if (reserves_) reshape();
}

void QueueTree::account(const Allocation& c, int sign) {
  if (c.leaf == kNoId) return;
  const Resources amounts = c.amounts * sign;
  PoolSums none;
  PoolSums& all = c.pool == kNoId ? none : in_pool_[static_cast<std::size_t>(c.pool)];
  if (!c.non_preemptible && c.hold != Hold::kLeaving) all.preemptible += amounts;
  Resources more;  // held back one level below
  upwards(nodes_, c.leaf, [&](QueueId id, TreeNode& t) {
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
    hold_back(id, c.pool, s);
    more = s.held_back - before;
    if (t.parent == kNoId && t.spec.parent.empty()) all.held_back += more;
  });
}

void QueueTree::account_pending(QueueId leaf, PoolId pool, const Resources& pending,
                                const Resources& surplus) {
  upwards(nodes_, leaf, [&](QueueId, TreeNode& t) {
    TreeSums& s = t.sums[pool];
    s.pending += pending;
    s.surplus += surplus;
  });
}

void QueueTree::count(QueueId leaf, int running, int waiting) {
  upwards(nodes_, leaf, [&](QueueId, TreeNode& t) { t.running += running, t.waiting += waiting; });
}

void QueueTree::hold_back(QueueId id, PoolId p, TreeSums& s) const {
  const Share& mine = share(id, p);
  const Resources own = reserved_part(mine, accounted_);
  for (const ResourceKind kind : accounted_) {
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
bool QueueTree::relink() {
  if (!std::exchange(shape_changed_, false)) return false;
  for (TreeNode& t : nodes_) {
    t.children.clear();
    t.sums.clear();
    t.running = t.waiting = 0;
    t.parent = kNoId;
    t.reserves = false;
  }
  for (PoolSums& p : in_pool_) p = {};
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (!nodes_[i].known || nodes_[i].spec.parent.empty()) continue;
    const QueueId p = find_queue(nodes_[i].spec.parent, false);
    if (p == kNoId || !queue(p).known) continue;
    nodes_[i].parent = p;
    at(p).children.insert(static_cast<QueueId>(i));
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    QueueId above = nodes_[i].parent;
    for (std::size_t steps = 0; above != kNoId && above != static_cast<QueueId>(i) && steps < nodes_.size();
         ++steps)
      above = queue(above).parent;
    nodes_[i].circular = above == static_cast<QueueId>(i);
  }
  reserves_ = false;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    // Where the tree does not hold together nobody can use it.
    if (!reserves_anything(nodes_[i].spec) || path(static_cast<QueueId>(i)).empty()) continue;
    reserves_ = true;
    upwards(nodes_, static_cast<QueueId>(i), [](QueueId, TreeNode& t) { t.reserves = true; });
  }
  for (std::size_t i = 0; i < nodes_.size() && reserves_; ++i) {
    if (nodes_[i].parent == kNoId && nodes_[i].spec.parent.empty()) seed_held_back(static_cast<QueueId>(i));
  }
  return true;
}

// Nothing is allocated yet.
void QueueTree::seed_held_back(QueueId id) {
  TreeNode& t = at(id);
  if (!t.reserves) return;
  for (const QueueId child : t.children) seed_held_back(child);
  for (std::size_t i = 0; i < in_pool_.size(); ++i) {
    const auto p = static_cast<PoolId>(i);
    TreeSums& s = t.sums[p];
    for (const QueueId child : t.children) s.held_below += sums(child, p).held_back;
    hold_back(id, p, s);
    if (t.parent == kNoId) in_pool_[i].held_back += s.held_back;
  }
}

std::vector<QueueId> QueueTree::path(QueueId from) const {
  std::vector<QueueId> chain;
  for (QueueId id = from; id != kNoId; id = queue(id).parent) {
    if (!queue(id).known || chain.size() > nodes_.size()) return {};
    chain.push_back(id);
    if (queue(id).parent == kNoId && !queue(id).spec.parent.empty()) return {};
  }
  return chain;
}

bool QueueTree::may_start(QueueId leaf, const std::vector<QueueId>& path) const {
  return leaf != kNoId && queue(leaf).known && !path.empty() &&
         std::none_of(path.begin(), path.end(), [&](QueueId above) { return queue(above).spec.hold; });
}

namespace {

// What starts at `start` and may run for so long is evicted by the drain, and after the drain it would not
// be.
bool is_kept_by(const ComingDrain& drain, Time start, Duration runs) {
  return start + runs > drain.at && (!drain.open_after || runs <= *drain.open_after);
}

}  // namespace

QueueId QueueTree::drains_before_end(const std::vector<QueueId>& path, Time now,
                                     std::optional<Duration> runs) const {
  if (!runs) return kNoId;
  const auto drains = [&](QueueId at) {
    const auto& drain = queue(at).spec.coming_drain;
    return drain && is_kept_by(*drain, now, *runs);
  };
  const auto found = std::ranges::find_if(path, drains);
  return found == path.end() ? kNoId : *found;
}

Time QueueTree::after_drains(const std::vector<QueueId>& path, Time at, std::optional<Duration> runs) const {
  for (bool moved = true; moved;) {  // each drain moves it once at most
    moved = false;
    for (const QueueId level : path) {
      const auto& drain = queue(level).spec.coming_drain;
      if (!drain || at >= drain->until) continue;
      if (at < drain->at && (!runs || !is_kept_by(*drain, at, *runs))) continue;
      at = drain->until;
      moved = true;
    }
  }
  return at;
}

std::optional<Time> QueueTree::opens(const std::vector<QueueId>& path, Time now) const {
  for (const QueueId level : path) {
    const QueueSpec& spec = queue(level).spec;
    if (!spec.hold) continue;
    if (!spec.opens) return std::nullopt;
    now = std::max(now, *spec.opens);
  }
  return now;
}

const Share& QueueTree::share(QueueId id, PoolId p) const {
  static const Share kAbsent{};
  const QueueSpec& spec = queue(id).spec;
  if (p == kNoId) return kAbsent;
  if (p == default_pool_) return spec.in_default_pool;
  const auto found = spec.in_pool.find(pool_names_[static_cast<std::size_t>(p)]);
  return found == spec.in_pool.end() ? kAbsent : found->second;
}

const TreeSums& QueueTree::sums(QueueId id, PoolId p) const {
  static const TreeSums kNothing{};
  const auto found = queue(id).sums.find(p);
  return found == queue(id).sums.end() ? kNothing : found->second;
}

const Resources& QueueTree::held_back(PoolId pool) const {
  return in_pool_[static_cast<std::size_t>(pool)].held_back;
}

const Resources& QueueTree::preemptible(PoolId pool) const {
  return in_pool_[static_cast<std::size_t>(pool)].preemptible;
}

}  // namespace muster::placement
