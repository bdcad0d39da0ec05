// Names and the ids they stand for, and what counts in the tree.
#include "model/cluster_model.h"

#include <utility>

namespace muster::placement {

NodeId ClusterModel::node_of(const std::string& name) {
  if (const auto found = node_ids.find(name); found != node_ids.end()) return found->second;
  NodeId id;
  if (free_nodes_.empty()) {
    id = static_cast<NodeId>(nodes.size());
    nodes.emplace_back();
  } else {
    id = free_nodes_.back();
    free_nodes_.pop_back();
  }
  node(id).spec.name = name;
  node_ids.emplace(name, id);
  return id;
}

void ClusterModel::forget_node(NodeId id) {
  Node& n = node(id);
  if (n.known || n.allocations > 0) return;
  node_ids.erase(n.spec.name);
  n = Node{};
  free_nodes_.push_back(id);
}

PoolId ClusterModel::pool_of(const std::string& name) {
  const auto [it, fresh] = pool_ids.emplace(name, static_cast<PoolId>(pools.size()));
  if (fresh) {
    pools.emplace_back().spec.name = name;
    tree_.add_pool(name);
  }
  return it->second;
}

JobId ClusterModel::job_of(const std::string& id) {
  if (const auto found = job_ids.find(id); found != job_ids.end()) return found->second;
  JobId fresh;
  if (free_jobs_.empty()) {
    fresh = static_cast<JobId>(jobs.size());
    jobs.emplace_back();
  } else {
    fresh = free_jobs_.back();
    free_jobs_.pop_back();
  }
  job(fresh).spec.id = id;
  job_ids.emplace(id, fresh);
  return fresh;
}

void ClusterModel::forget_job(JobId id) {
  job_ids.erase(job(id).spec.id);
  job(id) = Job{};
  free_jobs_.push_back(id);
}

PoolId ClusterModel::find_pool(const std::string& name) const {
  const auto found = pool_ids.find(name);
  return found == pool_ids.end() || !pool(found->second).known ? kNoId : found->second;
}
JobId ClusterModel::find_job(const std::string& id) const {
  const auto found = job_ids.find(id);
  return found == job_ids.end() ? kNoId : found->second;
}

void ClusterModel::upsert_queue(const QueueSpec& spec) {
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
  for (const Job& j : jobs) {
    if (!j.known) continue;
    for (const Allocation& c : j.allocations) {
      if (c.node != kNoId) tree.account(c, 1);
    }
    for (const Leaving& l : j.leaving) tree.account(l.allocation, 1);
    tree.account_pending(j.leaf, j.pending_in, j.pending, j.surplus);
    tree.count(j.leaf, j.counted == Counted::kRunning ? 1 : 0, j.counted == Counted::kWaiting ? 1 : 0);
  }
  for (const auto& [key, c] : others) tree.account(c, 1);
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
  for (std::size_t i = 0; other_prices && i < jobs.size(); ++i) {
    if (jobs[i].known && request_of(jobs[i]).by_memory) count(static_cast<JobId>(i));
  }
}

}  // namespace muster::placement
