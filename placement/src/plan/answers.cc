// What Cluster says when asked.
#include <algorithm>
#include <map>

#include "model/cluster_model.h"
#include "muster/placement/cluster.h"
#include "muster/placement/node_usage.h"
#include "node/resource_vector.h"
#include "shares/past.h"
#include "shares/shares.h"

namespace muster::placement {
namespace {

// The pods of a gang are alike, so nodes of different sizes are not counted together.
MilliGpu largest_gang(const ClusterModel& s, const Pool& pool) {
  std::map<std::int32_t, std::int64_t> by_size;
  MilliGpu largest;
  for (const NodeId id : pool.nodes) {
    if (pool.reservation && std::ranges::binary_search(pool.reservation->nodes, id)) continue;
    const Node& n = s.node(id);
    const std::int32_t gpus = n.spec.gpus - n.unhealthy;
    if (!n.takes_part() || gpus <= 0 || n.used.gpu.value != 0 || n.leaving.gpu.value != 0) continue;
    largest.value = std::max(largest.value, by_size[gpus] += gpus * kMilliPerGpu);
  }
  return largest;
}

}  // namespace

bool Cluster::knows(const std::string& job) const {
  return state_->jobs().find(job) != kNoId;
}

const Assignment* Cluster::assignment(const std::string& job) const {
  const JobId id = state_->jobs().find(job);
  return id != kNoId && state_->job(id).assignment ? &*state_->job(id).assignment : nullptr;
}

bool Cluster::nominated(const std::string& job) const {
  const JobId id = state_->jobs().find(job);
  return id != kNoId && state_->job(id).nominated();
}

std::vector<PodPlace> Cluster::leaving(const std::string& job) const {
  std::vector<PodPlace> list;
  if (const JobId id = state_->jobs().find(job); id != kNoId) {
    for (const Leaving& l : state_->job(id).leaving) list.push_back(l.place);
  }
  return list;
}

const PendingReason* Cluster::pending_reason(const std::string& job) const {
  const JobId id = state_->jobs().find(job);
  return id != kNoId && state_->job(id).pending_reason ? &*state_->job(id).pending_reason : nullptr;
}

Usage Cluster::usage(const std::string& queue, bool is_project, const std::string& pool) const {
  ClusterModel& s = *state_;
  s.settle();
  Usage u;
  const QueueId id = s.tree().find_queue(queue, is_project);
  const PoolId p = s.find_pool(pool);
  if (id == kNoId || p == kNoId) return u;
  const TreeSums& sums = s.tree().sums(id, p);
  u.allocated = sums.in_use();
  u.pending = sums.pending;
  const Bounds& quota = s.tree().share(id, p).quota;
  for (const ResourceKind kind : s.tree().accounted()) {
    const std::int64_t used = amount_of(u.allocated, kind);
    const auto accounted = quota_of(quota, kind);
    if (accounted && used > *accounted) amount_of(u.borrowed, kind) = wrapping_sub(used, *accounted);
  }
  return u;
}

Resources Cluster::fair_share(const std::string& queue, bool is_project, const std::string& pool) const {
  ClusterModel& s = *state_;
  s.settle();
  const QueueId id = s.tree().find_queue(queue, is_project);
  const PoolId p = s.find_pool(pool);
  if (id == kNoId || p == kNoId) return {};
  auto& answered = s.pool(p).fair_answered;
  if (answered.version != s.pool(p).version || answered.shares.size() != s.tree().size())
    answered = {s.pool(p).version, fair_shares(s, p)};
  return answered.shares[static_cast<std::size_t>(id)];
}

NamedAmounts Cluster::accounted(const Resources& amounts) const {
  NamedAmounts named;
  for (const ResourceKind kind : state_->tree().accounted()) {
    const std::int64_t amount = amount_of(amounts, kind);
    if (kind >= ResourceKind::kNamed && amount < kPlenty)
      named.emplace(state_->resource_names.name_of(kind), amount);
  }
  return named;
}

std::string Cluster::uncountable(const std::string& resource) const {
  const ResourceNames& names = state_->resource_names;
  return names.has_place_for(resource) ? "" : names.why_no_more();
}

Workloads Cluster::workloads(const std::string& queue, bool is_project) const {
  state_->settle();
  const QueueId id = state_->tree().find_queue(queue, is_project);
  if (id == kNoId) return {};
  return {state_->tree().queue(id).running, state_->tree().queue(id).waiting};
}

std::string Cluster::queue_problem(const std::string& queue, bool is_project) const {
  ClusterModel& s = *state_;
  s.settle();
  QueueId at = s.tree().find_queue(queue, is_project);
  if (at == kNoId || !s.tree().queue(at).known) return "it is not known";
  if (is_project && s.tree().queue(at).spec.parent.empty()) return "it names no Queue";
  for (std::size_t steps = 0; steps <= s.tree().size(); ++steps) {
    const TreeNode& t = s.tree().queue(at);
    if (t.parent == kNoId) return t.spec.parent.empty() ? "" : "there is no Queue \"" + t.spec.parent + "\"";
    at = t.parent;
  }
  return "its parents form a circle";
}

std::vector<PastUse> Cluster::past_use() const {
  std::vector<PastUse> list;
  for (const auto& [id, by_pool] : state_->past) {
    const QueueSpec& queue = state_->tree().queue(id).spec;
    for (const auto& [pool, p] : by_pool)
      list.push_back({queue.name, queue.is_project, state_->pool(pool).spec.name, average_use(p), p.as_of});
  }
  return list;
}

PoolUsage Cluster::pool_usage(const std::string& pool) const {
  const ClusterModel& s = *state_;
  PoolUsage u;
  const PoolId id = s.find_pool(pool);
  if (id == kNoId) return u;
  const Domain& whole = s.pool(id).domains[0];
  u.nodes = whole.nodes;
  u.capacity = whole.capacity;
  u.free = whole.free;
  u.shared_nodes.assign(s.pool(id).shared.begin(), s.pool(id).shared.end());
  u.largest_gang = largest_gang(s, s.pool(id));
  return u;
}

bool Cluster::lends() const {
  return state_->tree().lends();
}

std::string Cluster::default_pool() const {
  const PoolId id = state_->tree().default_pool();
  return id == kNoId ? std::string() : state_->pool(id).spec.name;
}

std::vector<std::string> Cluster::pool_names() const {
  std::vector<std::string> names;
  for (const auto& [name, id] : state_->pool_ids) {
    if (state_->pool(id).known) names.push_back(name);
  }
  return names;
}

std::vector<Conflict> Cluster::conflicts() const {
  const ClusterModel& s = *state_;
  std::vector<Conflict> list;
  for (const auto& [node, gpu] : s.nodes().crowded()) {
    const auto holders = s.by_admission(node, gpu);
    if (holders.size() < 2) continue;
    Conflict c{s.node(node).spec.name, gpu, {}};
    for (const JobId id : holders) c.jobs.push_back(s.job(id).spec.id);
    list.push_back(std::move(c));
  }
  std::sort(list.begin(), list.end(), [](const Conflict& a, const Conflict& b) {
    return std::tie(a.node, a.gpu) < std::tie(b.node, b.gpu);
  });
  return list;
}

std::vector<NodeUsage> node_usage(Cluster& cluster) {
  const ClusterModel& s = cluster.state();
  std::vector<NodeUsage> list;
  for (const Node& n : s.nodes().all()) {
    const Resources capacity = capacity_of(n);
    const Resources held = n.used - n.nominated + n.leaving;
    if (!n.known || n.pool == kNoId || n.shared || (capacity.gpu.value <= 0 && held.gpu.value <= 0)) continue;
    list.push_back({n.spec.name, s.pool(n.pool).spec.name, n.spec.usable, capacity.gpu, held.gpu});
  }
  std::ranges::sort(list, {}, &NodeUsage::node);
  return list;
}

}  // namespace muster::placement
