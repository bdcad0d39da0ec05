// What is held, with its node, in its pool and in the tree.
#include "model/cluster_model.h"

#include <algorithm>
#include <tuple>
#include <utility>

namespace muster::placement {
namespace {

constexpr std::int64_t kStepsOfAChange = 8;  // what is kept about nodes, domains and the tree changes with it

}  // namespace

PoolId ClusterModel::pool_of(const std::string& name) {
  const auto [it, fresh] = pool_ids.emplace(name, static_cast<PoolId>(pools.size()));
  if (fresh) {
    pools.emplace_back().spec.name = name;
    tree_.add_pool(name);
  }
  return it->second;
}

PoolId ClusterModel::find_pool(const std::string& name) const {
  const auto found = pool_ids.find(name);
  return found == pool_ids.end() || !pool(found->second).known ? kNoId : found->second;
}

Allocation ClusterModel::take(Allocation c) {
  work.spend(kStepsOfAChange);
  nodes_.take(c, pool_around(c.node));
  account(c, 1);
  return c;
}

void ClusterModel::give_back(const Allocation& c, bool gain) {
  if (c.node == kNoId) return;
  work.spend(kStepsOfAChange);
  const Node& n = node(c.node);
  nodes_.give_back(c, pool_around(c.node));
  if (gain && n.takes_part()) ++pool(n.pool).gains;
  account(c, -1);
  if (gain) forget_node(c.node);
}

void ClusterModel::turn(Allocation& c, Hold to) {
  if (c.node == kNoId || c.hold == to) return;
  Allocation next = c;
  give_back(c, false);
  next.hold = to;
  c = take(std::move(next));
}

void ClusterModel::sort_into_pool(NodeId id) {
  const PoolId before = node(id).pool;
  nodes_.sort_into_pool(id, pools);
  const Node& n = node(id);
  if (n.pool == before || n.tree_allocations == 0) return;
  // Pods outside assignments are charged where their node belongs.
  others.visit_on(id, [&](Allocation& c) {
    account(c, -1);
    c.pool = n.pool;
    account(c, 1);
  });
}

std::vector<JobId> ClusterModel::by_admission(NodeId id, std::int32_t gpu) const {
  std::vector<GpuUse> uses;
  for (const GpuUse& use : node(id).gpus[static_cast<std::size_t>(gpu)].uses) {
    if (use.holder != kOther && use.hold != Hold::kLeaving) uses.push_back(use);
  }
  const auto age = [&](const GpuUse& u) {
    return std::tuple(u.hold == Hold::kNominated, job(u.holder).assignment->since,
                      std::string_view(job(u.holder).spec.id));
  };
  std::sort(uses.begin(), uses.end(), [&](const GpuUse& a, const GpuUse& b) { return age(a) < age(b); });
  // Several pods of a job may share the GPU: they are one admission.
  const auto same = [](const GpuUse& a, const GpuUse& b) { return a.holder == b.holder && a.hold == b.hold; };
  uses.erase(std::unique(uses.begin(), uses.end(), same), uses.end());
  std::vector<JobId> list;
  for (const GpuUse& use : uses) list.push_back(use.holder);
  return list;
}

void ClusterModel::upsert_queue(QueueSpec spec) {
  resource_names.count(spec);
  if (spec.coming_share) {
    resource_names.count(spec.coming_share->share.quota);
    resource_names.count(spec.coming_share->share.limit);
  }
  if (tree_.upsert(spec)) touch_all();
}

void ClusterModel::remove_queue(QueueId id) {
  if (tree_.remove(id)) touch_all();
}

void ClusterModel::account(const Allocation& c, int sign) {
  if (c.leaf == kNoId) return;
  tree_.account(c, sign);
  touch(c.pool);
}

void ClusterModel::account_pending(const Job& j, int sign) {
  tree_.account_pending(j.leaf, j.pending_in, j.pending * sign, j.surplus * sign);
}

void ClusterModel::account_all(QueueTree& tree) const {
  for (const Job& j : jobs_.all()) {
    if (!j.known) continue;
    for (const Allocation& c : j.allocations) {
      if (c.node != kNoId) tree.account(c, 1);
    }
    for (const Leaving& l : j.leaving) tree.account(l.allocation, 1);
    tree.account_pending(j.leaf, j.pending_in, j.pending, j.surplus);
    tree.count(j.leaf, j.counted == Counted::kRunning ? 1 : 0, j.counted == Counted::kWaiting ? 1 : 0);
  }
  for (const auto& [key, c] : others.all()) tree.account(c, 1);
}

QueueTree ClusterModel::tree_counted_anew() const {
  QueueTree fresh = tree_;
  fresh.reshape();
  fresh.relink();
  account_all(fresh);
  return fresh;
}

void ClusterModel::settle() {
  if (tree_.relink()) {
    account_all(tree_);
    touch_all();
  }
  // What asks for GPU memory is priced by the largest GPUs of its pool.
  bool other_prices = false;
  for (Pool& p : pools) {
    const std::int64_t largest = p.gpu_memories.empty() ? -1 : p.gpu_memories.rbegin()->first;
    other_prices = std::exchange(p.priced_by, largest) != largest || other_prices;
  }
  for (std::size_t i = 0; other_prices && i < jobs_.all().size(); ++i) {
    const auto id = static_cast<JobId>(i);
    if (job(id).known && request_of(job(id)).by_memory) count(id);
  }
}

}  // namespace muster::placement
