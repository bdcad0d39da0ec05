#include "state.h"

#include <algorithm>

namespace muster::placement {

NodeId State::node_of(const std::string& name) {
  const auto [it, fresh] = node_ids.emplace(name, static_cast<NodeId>(nodes.size()));
  if (fresh) {
    nodes.emplace_back();
    nodes.back().spec.name = name;
  }
  return it->second;
}
PoolId State::find_pool(const std::string& name) const {
  const auto found = pool_ids.find(name);
  return found == pool_ids.end() || !pools[static_cast<std::size_t>(found->second)].known ? kNone : found->second;
}
LeafId State::find_leaf(const std::string& name, bool is_project) const {
  const auto found = tree_ids.find(tree_key(name, is_project));
  return found == tree_ids.end() ? kNone : found->second;
}
JobId State::find_job(const std::string& id) const {
  const auto found = job_ids.find(id);
  return found == job_ids.end() ? kNone : found->second;
}

PoolId State::default_pool() const {
  PoolId only = kNone, marked = kNone;
  int known = 0, marks = 0;
  for (std::size_t i = 0; i < pools.size(); ++i) {
    if (!pools[i].known) continue;
    ++known;
    only = static_cast<PoolId>(i);
    if (pools[i].spec.is_default) ++marks, marked = static_cast<PoolId>(i);
  }
  if (marks == 1) return marked;
  return known == 1 && marks == 0 ? only : kNone;
}

void State::leave_bucket(NodeId id) {
  Node& n = nodes[static_cast<std::size_t>(id)];
  if (!takes_part(n)) return;
  auto& buckets = pools[static_cast<std::size_t>(n.pool)].models[n.spec.gpu_model].by_free;
  const auto bucket = buckets.find(n.free_gpus());
  if (bucket == buckets.end()) return;
  bucket->second.erase(id);
  if (bucket->second.empty()) buckets.erase(bucket);
}
void State::enter_bucket(NodeId id) {
  Node& n = nodes[static_cast<std::size_t>(id)];
  if (takes_part(n)) pools[static_cast<std::size_t>(n.pool)].models[n.spec.gpu_model].by_free[n.free_gpus()].insert(id);
}

// Which pool a node belongs to; called whenever its labels or a pool's selector change.
void State::sort_into_pool(NodeId id) {
  Node& n = nodes[static_cast<std::size_t>(id)];
  leave_bucket(id);
  for (Pool& p : pools) {
    p.nodes.erase(id);
    p.shared.erase(n.spec.name);
  }
  n.pool = kNone;
  n.shared = false;
  std::vector<PoolId> mine;
  for (std::size_t i = 0; i < pools.size() && n.known; ++i) {
    const auto& selector = pools[i].spec.selector;
    const bool selected = pools[i].known && std::all_of(selector.begin(), selector.end(), [&](const auto& r) { return matches(r, n.spec.labels); });
    if (selected) mine.push_back(static_cast<PoolId>(i));
  }
  if (mine.size() > 1) {
    n.shared = true;
    for (const PoolId p : mine) pools[static_cast<std::size_t>(p)].shared.insert(n.spec.name);
  }
  if (!mine.empty()) {
    n.pool = mine.front();
    if (!n.shared) pools[static_cast<std::size_t>(n.pool)].nodes.insert(id);
  }
  enter_bucket(id);
}

// `taken_by`: who already holds a GPU that was asked for; such a GPU is not taken again.
Charge State::take(JobId job, const std::string& node, const std::vector<std::int32_t>& gpus, const RoleSpec& role, LeafId leaf,
                   PoolId pool, bool fixed, std::vector<JobId>* taken_by) {
  Charge c;
  c.node = node_of(node);
  c.amounts = role.per_pod;
  c.leaf = leaf;
  c.pool = pool;
  c.fixed = fixed;
  leave_bucket(c.node);
  Node& n = nodes[static_cast<std::size_t>(c.node)];
  n.used += c.amounts;
  for (const auto gpu : gpus) {
    if (gpu < 0) continue;
    if (static_cast<std::size_t>(gpu) >= n.gpu_holder.size()) n.gpu_holder.resize(static_cast<std::size_t>(gpu) + 1, kNone);
    JobId& holder = n.gpu_holder[static_cast<std::size_t>(gpu)];
    if (holder != kNone) {
      if (taken_by != nullptr) taken_by->push_back(holder);
      continue;
    }
    holder = job;
    ++n.named_gpus;
    c.gpus.push_back(gpu);
  }
  c.unnamed = std::max<std::int32_t>(0, role.gpus - static_cast<std::int32_t>(gpus.size()));
  n.unnamed_gpus += c.unnamed;
  enter_bucket(c.node);
  account(leaf, pool, c.amounts, fixed, 1);
  return c;
}

void State::give_back(const Charge& c, JobId) {
  if (c.node == kNone) return;
  leave_bucket(c.node);
  Node& n = nodes[static_cast<std::size_t>(c.node)];
  n.used -= c.amounts;
  for (const auto gpu : c.gpus) {
    n.gpu_holder[static_cast<std::size_t>(gpu)] = kNone;
    --n.named_gpus;
  }
  n.unnamed_gpus -= c.unnamed;
  enter_bucket(c.node);
  account(c.leaf, c.pool, c.amounts, c.fixed, -1);
}

std::vector<LeafId> State::path(LeafId leaf) const {
  std::vector<LeafId> chain;
  for (LeafId at = leaf; at != kNone; at = tree[static_cast<std::size_t>(at)].parent) {
    const TreeNode& t = tree[static_cast<std::size_t>(at)];
    if (!t.known || chain.size() > tree.size()) return {};
    chain.push_back(at);
    if (t.parent == kNone && !t.spec.parent.empty()) return {};
  }
  return chain;
}

// Sums are kept along `parent` links even where the tree does not hold together, so that they are right once it does.
void State::account(LeafId leaf, PoolId pool, const Resources& amounts, bool fixed, int sign) {
  std::size_t steps = 0;
  for (LeafId at = leaf; at != kNone && steps <= tree.size(); at = tree[static_cast<std::size_t>(at)].parent, ++steps) {
    TreeSums& s = tree[static_cast<std::size_t>(at)].sums[pool];
    s.allocated += amounts * sign;
    if (fixed) s.fixed += amounts * sign;
  }
}
void State::account_pending(LeafId leaf, PoolId pool, const Resources& amounts, int sign) {
  std::size_t steps = 0;
  for (LeafId at = leaf; at != kNone && steps <= tree.size(); at = tree[static_cast<std::size_t>(at)].parent, ++steps) {
    tree[static_cast<std::size_t>(at)].sums[pool].pending += amounts * sign;
  }
}
void State::count(LeafId leaf, int running, int waiting_jobs) {
  std::size_t steps = 0;
  for (LeafId at = leaf; at != kNone && steps <= tree.size(); at = tree[static_cast<std::size_t>(at)].parent, ++steps) {
    tree[static_cast<std::size_t>(at)].running += running;
    tree[static_cast<std::size_t>(at)].waiting += waiting_jobs;
  }
}

const Share& State::share(LeafId leaf, PoolId pool) const {
  static const Share kAbsent{};
  const QueueSpec& spec = tree[static_cast<std::size_t>(leaf)].spec;
  if (pool == default_pool()) return spec.in_default_pool;
  if (pool == kNone) return kAbsent;
  const auto found = spec.in_pool.find(pools[static_cast<std::size_t>(pool)].spec.name);
  return found == spec.in_pool.end() ? kAbsent : found->second;
}

std::vector<PoolId> State::pools_of(const Job& job) const {
  std::vector<PoolId> list;
  if (job.spec.pools.empty()) {
    if (const PoolId p = default_pool(); p != kNone) list.push_back(p);
  }
  for (const auto& name : job.spec.pools) {
    if (const PoolId p = find_pool(name); p != kNone) list.push_back(p);
  }
  return list;
}

void State::start_waiting(JobId id) {
  Job& j = jobs[static_cast<std::size_t>(id)];
  waiting.insert(id);
  const auto usable = pools_of(j);
  j.pending_in = usable.empty() ? kNone : usable.front();
  account_pending(j.leaf, j.pending_in, j.total, 1);
  count(j.leaf, 0, 1);
  if (j.leaf != kNone) tree[static_cast<std::size_t>(j.leaf)].jobs.insert(id);
}
void State::stop_waiting(JobId id) {
  if (waiting.erase(id) == 0) return;
  Job& j = jobs[static_cast<std::size_t>(id)];
  account_pending(j.leaf, j.pending_in, j.total, -1);
  count(j.leaf, 0, -1);
  if (j.leaf != kNone) tree[static_cast<std::size_t>(j.leaf)].jobs.erase(id);
  j.verdict.reset();
}

void State::drop_assignment(JobId id) {
  Job& j = jobs[static_cast<std::size_t>(id)];
  if (!j.assignment) return;
  for (const Charge& c : j.charges) give_back(c, id);
  count(j.leaf, -1, 0);
  j.charges.clear();
  j.assignment.reset();
  j.displaced.clear();
  j.conflict.clear();
  j.assumed = false;
  j.to_be_evicted = false;
  troubled.erase(id);
}

void State::put_assignment(JobId id, const Assignment& assignment, const std::vector<std::size_t>& displaced) {
  Job& j = jobs[static_cast<std::size_t>(id)];
  j.assignment = assignment;
  j.displaced = displaced;
  j.charges.assign(assignment.pods.size(), {});
  count(j.leaf, 1, 0);
  const PoolId pool = find_pool(assignment.pool);
  std::vector<JobId> taken_by;
  for (std::size_t i = 0; i < assignment.pods.size(); ++i) {
    const PodPlace& p = assignment.pods[i];
    if (std::find(displaced.begin(), displaced.end(), i) != displaced.end()) continue;
    if (p.role < 0 || static_cast<std::size_t>(p.role) >= j.spec.roles.size()) continue;
    j.charges[i] = take(id, p.node, p.gpus, j.spec.roles[static_cast<std::size_t>(p.role)], j.leaf, pool, !j.spec.preemptible, &taken_by);
  }
  if (!displaced.empty()) troubled.insert(id);
  // Two admissions on one GPU (after a fail-over): the older stays.
  for (const JobId other : taken_by) {
    if (other < 0) continue;
    Job& o = jobs[static_cast<std::size_t>(other)];
    const bool other_is_older = !o.assignment || std::pair(o.assignment->since, o.spec.id) <= std::pair(assignment.since, j.spec.id);
    Job& yields = other_is_older ? j : o;
    yields.conflict = other_is_older ? o.spec.id : j.spec.id;
    troubled.insert(other_is_older ? id : other);
  }
}

}  // namespace muster::placement
