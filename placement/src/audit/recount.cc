#include "audit/recount.h"

#include <algorithm>

namespace muster::placement {
namespace {

void add_to(Tally& t, const Allocation& c, int sign) {
  const Resources amounts = c.amounts * sign;
  switch (c.hold) {
    case Hold::kRunning:
      t.running += amounts;
      break;
    case Hold::kNominated:
      t.nominated += amounts;
      break;
    case Hold::kLeaving:
      t.leaving += amounts;
      t.anybody_leaves = true;
      return;
  }
  if (c.non_preemptible) t.non_preemptible += amounts;
}

template <class Map, class Key>
Tally found(const Map& map, const Key& key) {
  const auto it = map.find(key);
  return it == map.end() ? Tally{} : it->second;
}

}  // namespace

Recount::Recount(const ClusterModel& s) : s_(s) {
  for (const Job& j : s.jobs().all()) {
    for (const Allocation& c : j.allocations) add(c);
    for (const Leaving& l : j.leaving) add(l.allocation);
  }
  for (const auto& [key, c] : s.others.all()) add(c);
}

void Recount::add(const Allocation& c, int sign) {
  if (c.node == kNoId) return;
  add_to(nodes_[c.node], c, sign);
  // As far up as the tree holds together.
  std::set<QueueId> seen;
  for (QueueId at = c.leaf; at != kNoId && seen.insert(at).second;) {
    add_to(tree_[{at, c.pool}], c, sign);
    const TreeNode& t = s_.tree().queue(at);
    at = t.known && !t.spec.parent.empty() ? s_.tree().find_queue(t.spec.parent, false) : kNoId;
  }
  Devices& d = devices_[c.node];
  if (c.hold != Hold::kLeaving) d.unnamed += std::int64_t{sign} * c.unnamed;
  GpuUse use = c.use;
  use.holder = c.holder;
  use.hold = c.hold;
  for (const std::int32_t gpu : c.gpus) {
    auto& uses = d.uses[gpu];
    if (sign > 0) {
      uses.push_back(use);
    } else if (const auto mine = std::find(uses.begin(), uses.end(), use); mine != uses.end()) {
      uses.erase(mine);
    }
  }
}

Tally Recount::of(QueueId at, PoolId pool) const {
  return found(tree_, std::pair(at, pool));
}
Tally Recount::on(NodeId node) const {
  return found(nodes_, node);
}

std::vector<GpuUse> Recount::uses(NodeId node, std::int32_t gpu, View view) const {
  const auto d = devices_.find(node);
  if (d == devices_.end()) return {};
  const auto u = d->second.uses.find(gpu);
  if (u == d->second.uses.end()) return {};
  std::vector<GpuUse> list = u->second;
  std::erase_if(list, [&](const GpuUse& use) { return !counts(use.hold, view); });
  return list;
}

std::int64_t Recount::idle_gpus(NodeId node) const {
  const NodeSpec& spec = s_.node(node).spec;
  std::int64_t idle = 0;
  for (std::int32_t gpu = 0; gpu < spec.gpus; ++gpu) {
    const bool sick = std::find(spec.unhealthy.begin(), spec.unhealthy.end(), gpu) != spec.unhealthy.end();
    if (!sick && uses(node, gpu, View::kTarget).empty()) ++idle;
  }
  const auto d = devices_.find(node);
  return idle - (d == devices_.end() ? 0 : d->second.unnamed);
}

std::vector<QueueId> way_up(const QueueTree& tree, QueueId from) {
  std::vector<QueueId> path;
  for (QueueId at = from; at != kNoId;) {
    if (!tree.queue(at).known || path.size() > tree.size()) return {};
    path.push_back(at);
    const std::string& parent = tree.queue(at).spec.parent;
    if (parent.empty()) return path;
    at = tree.find_queue(parent, false);
  }
  return {};
}

bool may_be_lent_to(const QueueTree& tree, QueueId at, const JobSpec& job) {
  if (!job.max_runtime) return false;
  for (std::size_t i = 0; i < tree.size(); ++i) {
    if (static_cast<QueueId>(i) == at || !tree.queues()[i].known ||
        tree.queues()[i].parent != tree.queue(at).parent)
      continue;
    for (const QueueId level : way_up(tree, static_cast<QueueId>(i))) {
      const auto& longest = tree.queue(level).spec.lends_non_preemptible;
      if (!longest) continue;
      if (*job.max_runtime <= *longest) return true;
      break;
    }
  }
  return false;
}

}  // namespace muster::placement
