#include "muster/placement/cluster.h"

#include <algorithm>

#include "state.h"

namespace muster::placement {
namespace {

Resources total_of(const JobSpec& spec) {
  Resources sum;
  for (const RoleSpec& r : spec.roles) sum += r.per_pod * r.replicas;
  return sum;
}

// The sums of the tree from scratch, for changes of its shape: these are rare, and undoing sums along a chain that may
// have been broken or a circle is not worth its traps.
void recount(State& s) {
  for (TreeNode& t : s.tree) {
    t.sums.clear();
    t.running = t.waiting = 0;
  }
  for (std::size_t i = 0; i < s.jobs.size(); ++i) {
    Job& j = s.jobs[i];
    if (!j.known) continue;
    for (const Charge& c : j.charges) {
      if (c.node != kNone) s.account(c.leaf, c.pool, c.amounts, c.fixed, 1);
    }
    if (j.assignment) s.count(j.leaf, 1, 0);
    if (s.waiting.contains(static_cast<JobId>(i))) {
      s.account_pending(j.leaf, j.pending_in, j.total, 1);
      s.count(j.leaf, 0, 1);
    }
  }
  for (const auto& [key, c] : s.others) s.account(c.leaf, c.pool, c.amounts, c.fixed, 1);
}

void link_parents(State& s) {
  for (TreeNode& t : s.tree) t.children.clear();
  for (std::size_t i = 0; i < s.tree.size(); ++i) {
    TreeNode& t = s.tree[i];
    t.parent = kNone;
    if (!t.known || t.spec.parent.empty()) continue;
    const LeafId p = s.find_leaf(t.spec.parent, false);
    if (p == kNone || !s.tree[static_cast<std::size_t>(p)].known) continue;
    t.parent = p;
    s.tree[static_cast<std::size_t>(p)].children.insert(static_cast<LeafId>(i));
  }
}

LeafId tree_node(State& s, const std::string& name, bool is_project) {
  const auto [it, fresh] = s.tree_ids.emplace(tree_key(name, is_project), static_cast<LeafId>(s.tree.size()));
  if (fresh) s.tree.emplace_back();
  return it->second;
}

// Everything that waits is counted as pending in its first pool: a change of the pools changes which that is.
template <class Change>
void with_waiting_recounted(State& s, Change&& change) {
  const std::set<JobId> waited = s.waiting;
  std::map<JobId, Verdict> verdicts;
  for (const JobId id : waited) {
    if (auto& v = s.jobs[static_cast<std::size_t>(id)].verdict) verdicts[id] = *v;
    s.stop_waiting(id);
  }
  change();
  for (const JobId id : waited) {
    s.start_waiting(id);
    if (const auto v = verdicts.find(id); v != verdicts.end()) s.jobs[static_cast<std::size_t>(id)].verdict = v->second;
  }
}

}  // namespace

Cluster::Cluster() : state_(std::make_unique<State>()) {}
Cluster::~Cluster() = default;
Cluster::Cluster(Cluster&&) noexcept = default;
Cluster& Cluster::operator=(Cluster&&) noexcept = default;

void Cluster::upsert_node(const NodeSpec& spec) {
  State& s = *state_;
  const NodeId id = s.node_of(spec.name);
  Node& n = s.nodes[static_cast<std::size_t>(id)];
  if (n.known && n.spec == spec) return;
  s.leave_bucket(id);
  const bool same_place = n.known && n.spec.labels == spec.labels;
  n.spec = spec;
  n.known = true;
  if (n.gpu_holder.size() < static_cast<std::size_t>(spec.gpus)) n.gpu_holder.resize(static_cast<std::size_t>(spec.gpus), kNone);
  if (same_place) {
    s.enter_bucket(id);
  } else {
    s.sort_into_pool(id);
  }
}

void Cluster::remove_node(const std::string& name) {
  State& s = *state_;
  const auto found = s.node_ids.find(name);
  if (found == s.node_ids.end()) return;
  s.leave_bucket(found->second);
  Node& n = s.nodes[static_cast<std::size_t>(found->second)];
  n.known = false;
  const std::string kept = n.spec.name;
  n.spec = {};
  n.spec.name = kept;
  s.sort_into_pool(found->second);  // what it holds stays charged to the tree until the pods are gone
}

void Cluster::upsert_pool(const PoolSpec& spec) {
  State& s = *state_;
  const auto [it, fresh] = s.pool_ids.emplace(spec.name, static_cast<PoolId>(s.pools.size()));
  if (fresh) s.pools.emplace_back();
  Pool& p = s.pools[static_cast<std::size_t>(it->second)];
  if (p.known && p.spec == spec) return;
  with_waiting_recounted(s, [&] {
    for (std::size_t i = 0; i < s.nodes.size(); ++i) s.leave_bucket(static_cast<NodeId>(i));
    p.spec = spec;
    p.known = true;
    for (std::size_t i = 0; i < s.nodes.size(); ++i) s.sort_into_pool(static_cast<NodeId>(i));
  });
}

void Cluster::remove_pool(const std::string& name) {
  State& s = *state_;
  const PoolId id = s.find_pool(name);
  if (id == kNone) return;
  with_waiting_recounted(s, [&] {
    for (std::size_t i = 0; i < s.nodes.size(); ++i) s.leave_bucket(static_cast<NodeId>(i));
    s.pools[static_cast<std::size_t>(id)].known = false;
    for (std::size_t i = 0; i < s.nodes.size(); ++i) s.sort_into_pool(static_cast<NodeId>(i));
  });
}

void Cluster::upsert_queue(const QueueSpec& spec) {
  State& s = *state_;
  const LeafId id = tree_node(s, spec.name, spec.is_project);
  TreeNode& t = s.tree[static_cast<std::size_t>(id)];
  const bool same_shape = t.known && t.spec.parent == spec.parent;
  t.spec = spec;
  t.known = true;
  if (same_shape) return;
  link_parents(s);
  recount(s);
}

void Cluster::remove_queue(const std::string& name, bool is_project) {
  State& s = *state_;
  const LeafId id = s.find_leaf(name, is_project);
  if (id == kNone) return;
  s.tree[static_cast<std::size_t>(id)].known = false;
  s.tree[static_cast<std::size_t>(id)].spec = {};
  s.tree[static_cast<std::size_t>(id)].spec.name = name;
  link_parents(s);
  recount(s);
}

void Cluster::upsert_job(const JobSpec& spec) {
  State& s = *state_;
  const auto [it, fresh] = s.job_ids.emplace(spec.id, static_cast<JobId>(s.jobs.size()));
  if (fresh) s.jobs.emplace_back();
  const JobId id = it->second;
  const LeafId leaf = spec.project.empty() ? kNone : tree_node(s, spec.project, true);
  Job& j = s.jobs[static_cast<std::size_t>(id)];
  if (j.known && j.has_spec && j.spec == spec) return;
  const auto held = j.assignment;
  const auto displaced = j.displaced;
  const bool assumed = j.assumed;
  if (held) s.drop_assignment(id);
  s.stop_waiting(id);
  j.spec = spec;
  j.known = j.has_spec = true;
  j.leaf = leaf;
  j.total = total_of(spec);
  if (held && !assumed) {
    s.put_assignment(id, *held, displaced);
  } else {
    s.start_waiting(id);
  }
}

void Cluster::remove_job(const std::string& name) {
  State& s = *state_;
  const JobId id = s.find_job(name);
  if (id == kNone) return;
  s.drop_assignment(id);
  s.stop_waiting(id);
  Job& j = s.jobs[static_cast<std::size_t>(id)];
  j = Job{};
  j.spec.id = name;
}

void Cluster::set_assignment(const std::string& name, const Assignment& assignment, const std::vector<std::size_t>& displaced) {
  State& s = *state_;
  const JobId id = s.find_job(name);
  if (id == kNone || !s.jobs[static_cast<std::size_t>(id)].known) return;
  Job& j = s.jobs[static_cast<std::size_t>(id)];
  if (j.assignment && *j.assignment == assignment && j.displaced == displaced) {
    j.assumed = false;
    return;
  }
  s.drop_assignment(id);
  s.stop_waiting(id);
  s.put_assignment(id, assignment, displaced);
}

void Cluster::clear_assignment(const std::string& name) {
  State& s = *state_;
  const JobId id = s.find_job(name);
  if (id == kNone || !s.jobs[static_cast<std::size_t>(id)].assignment) return;
  s.drop_assignment(id);
  if (s.jobs[static_cast<std::size_t>(id)].known) s.start_waiting(id);
}

void Cluster::upsert_other_pod(const OtherPod& pod) {
  State& s = *state_;
  remove_other_pod(pod.key);
  RoleSpec as_role;
  as_role.per_pod = pod.amounts;
  as_role.gpus = pod.gpu_count;
  const LeafId leaf = pod.project.empty() ? kNone : tree_node(s, pod.project, true);
  const NodeId node = s.node_of(pod.node);
  s.others[pod.key] = s.take(kOther, pod.node, pod.gpus, as_role, leaf, s.nodes[static_cast<std::size_t>(node)].pool,
                             !pod.preemptible, nullptr);
}

void Cluster::remove_other_pod(const std::string& key) {
  State& s = *state_;
  const auto found = s.others.find(key);
  if (found == s.others.end()) return;
  s.give_back(found->second, kOther);
  s.others.erase(found);
}

bool Cluster::knows(const std::string& job) const {
  const JobId id = state_->find_job(job);
  return id != kNone && state_->jobs[static_cast<std::size_t>(id)].known;
}
const Assignment* Cluster::assignment(const std::string& job) const {
  const JobId id = state_->find_job(job);
  if (id == kNone) return nullptr;
  const auto& held = state_->jobs[static_cast<std::size_t>(id)].assignment;
  return held ? &*held : nullptr;
}
const Verdict* Cluster::verdict(const std::string& job) const {
  const JobId id = state_->find_job(job);
  if (id == kNone) return nullptr;
  const auto& v = state_->jobs[static_cast<std::size_t>(id)].verdict;
  return v ? &*v : nullptr;
}

Usage Cluster::usage(const std::string& queue, bool is_project, const std::string& pool) const {
  const State& s = *state_;
  Usage u;
  const LeafId id = s.find_leaf(queue, is_project);
  const PoolId p = s.find_pool(pool);
  if (id == kNone) return u;
  const auto& sums = s.tree[static_cast<std::size_t>(id)].sums;
  const auto found = sums.find(p);
  if (found == sums.end()) return u;
  u.allocated = found->second.allocated;
  u.pending = found->second.pending;
  const Bounds& quota = s.share(id, p).quota;
  const auto over = [](auto used, auto bound) { return used > bound ? used - bound : decltype(used){}; };
  u.borrowed.gpu = over(u.allocated.gpu, quota.gpu.value_or(MilliGpu{}));
  if (quota.cpu) u.borrowed.cpu = over(u.allocated.cpu, *quota.cpu);
  if (quota.memory) u.borrowed.memory = over(u.allocated.memory, *quota.memory);
  return u;
}

Workloads Cluster::workloads(const std::string& queue, bool is_project) const {
  const LeafId id = state_->find_leaf(queue, is_project);
  if (id == kNone) return {};
  const TreeNode& t = state_->tree[static_cast<std::size_t>(id)];
  return {t.running, t.waiting};
}

std::string Cluster::queue_problem(const std::string& queue, bool is_project) const {
  const State& s = *state_;
  LeafId at = s.find_leaf(queue, is_project);
  if (at == kNone || !s.tree[static_cast<std::size_t>(at)].known) return "it is not known";
  for (std::size_t steps = 0; steps <= s.tree.size(); ++steps) {
    const TreeNode& t = s.tree[static_cast<std::size_t>(at)];
    if (t.parent == kNone) {
      if (t.spec.parent.empty()) return t.spec.is_project ? "it names no Queue" : "";
      return "there is no Queue \"" + t.spec.parent + "\"";
    }
    at = t.parent;
  }
  return "its parents form a circle";
}

PoolUsage Cluster::pool_usage(const std::string& pool) const {
  const State& s = *state_;
  PoolUsage u;
  const PoolId id = s.find_pool(pool);
  if (id == kNone) return u;
  const Pool& p = s.pools[static_cast<std::size_t>(id)];
  for (const NodeId n : p.nodes) {
    const Node& node = s.nodes[static_cast<std::size_t>(n)];
    if (!takes_part(node)) continue;
    ++u.nodes;
    u.capacity += node.spec.allocatable;
    Resources free = node.free();
    free.gpu = MilliGpu{node.free_gpus() * kMilliPerGpu};
    u.free += free;
  }
  u.shared_nodes.assign(p.shared.begin(), p.shared.end());
  return u;
}

std::string Cluster::default_pool() const {
  const PoolId p = state_->default_pool();
  return p == kNone ? std::string() : state_->pools[static_cast<std::size_t>(p)].spec.name;
}
std::vector<std::string> Cluster::pool_names() const {
  std::vector<std::string> names;
  for (const auto& [name, id] : state_->pool_ids) {
    if (state_->pools[static_cast<std::size_t>(id)].known) names.push_back(name);
  }
  return names;
}

}  // namespace muster::placement
