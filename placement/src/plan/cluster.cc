// The inputs. Each brings the model from what it was to what it is now; answers.cc has the queries.
#include "muster/placement/cluster.h"

#include <algorithm>

#include "model/cluster_model.h"
#include "node/links.h"
#include "node/numa.h"
#include "plan/next_plan.h"
#include "shares/past.h"
#include "shares/shares.h"

namespace muster::placement {

std::optional<std::size_t> default_among(const std::vector<bool>& marks) {
  if (marks.size() == 1) return 0;
  if (std::count(marks.begin(), marks.end(), true) != 1) return std::nullopt;
  return static_cast<std::size_t>(std::find(marks.begin(), marks.end(), true) - marks.begin());
}

namespace {

PoolId default_of(const ClusterModel& s) {
  std::vector<PoolId> known;
  std::vector<bool> marks;
  for (std::size_t i = 0; i < s.pools.size(); ++i) {
    if (!s.pools[i].known) continue;
    known.push_back(static_cast<PoolId>(i));
    marks.push_back(s.pools[i].spec.is_default);
  }
  const auto found = default_among(marks);
  return found ? known[*found] : kNoId;
}

// A pool came, went or changed: every node is sorted anew, and what waits lines up where it may start now.
template <class Change>
void change_pools(ClusterModel& s, Change&& change) {
  std::vector<std::pair<JobId, std::optional<PendingReason>>> waited;
  for (std::size_t i = 0; i < s.jobs().all().size(); ++i) {
    const auto id = static_cast<JobId>(i);
    if (!s.job(id).known || s.job(id).assignment) continue;
    waited.emplace_back(id, s.job(id).pending_reason);
    s.stop_waiting(id);
  }
  for (std::size_t i = 0; i < s.nodes().size(); ++i) s.leave_pool_index(static_cast<NodeId>(i));
  change();
  s.set_default_pool(default_of(s));
  for (std::size_t i = 0; i < s.nodes().size(); ++i) s.sort_into_pool(static_cast<NodeId>(i));
  for (auto& [id, pending_reason] : waited) {
    s.start_waiting(id);
    s.job(id).pending_reason = std::move(pending_reason);
  }
  s.touch_all();
}

bool asks_for_any(const JobSpec& spec) {
  return std::any_of(spec.roles.begin(), spec.roles.end(),
                     [](const RoleSpec& r) { return !r.named.empty(); });
}
bool asks_for_some_of(const JobSpec& spec, const std::vector<std::string>& names) {
  return std::any_of(spec.roles.begin(), spec.roles.end(), [&](const RoleSpec& role) {
    return std::any_of(names.begin(), names.end(),
                       [&](const std::string& name) { return role.named.contains(name); });
  });
}
bool asks_for_gpus(const JobSpec& spec) {
  return std::any_of(spec.roles.begin(), spec.roles.end(), [](const RoleSpec& r) { return r.gpus > 0; });
}

// What nodes, queues and pods outside jobs state of resources by name, after some of them are counted that
// were not.
void count_anew(Cluster& cluster) {
  ClusterModel& s = cluster.state();
  for (std::size_t i = 0; i < s.nodes().size(); ++i) {
    const Node& n = s.nodes().all()[i];
    const bool other_model = n.model_place != s.resource_names.place_of_model(n.spec);
    if (n.known && (other_model || !n.spec.named.empty())) cluster.upsert_node(NodeSpec(n.spec));
  }
  for (std::size_t i = 0; i < s.tree().size(); ++i) {
    const TreeNode& t = s.tree().queues()[i];
    if (t.known) s.upsert_queue(t.spec);
  }
  for (const auto& [key, pod] : std::map(s.others_with_named)) cluster.upsert_other_pod(pod);
}

// Its assignment without what is nominated only.
std::optional<Assignment> running_part(const Job& j) {
  if (!j.assignment || j.nominated_pods.empty()) return j.assignment;
  Assignment a = *j.assignment;
  for (auto it = j.nominated_pods.rbegin(); it != j.nominated_pods.rend(); ++it)
    a.pods.erase(a.pods.begin() + static_cast<std::ptrdiff_t>(*it));
  return a;
}

// Whatever it was before. What it holds and what is leaving is charged anew: amounts, owner or preemptibility
// may be others now.
void put_spec(ClusterModel& s, JobId id, const JobSpec& spec, QueueId leaf) {
  Job& j = s.job(id);
  const auto held = j.assumed || j.nominated() ? std::nullopt : running_part(j);
  const auto displaced = j.displaced;  // nominated pods stand behind all others
  const bool told = j.to_be_evicted;
  const auto evicted_from = j.evicted_from;
  std::vector<PodPlace> going;
  for (const Leaving& l : j.leaving) going.push_back(l.place);
  s.put_leaving(id, {});
  s.drop_assignment(id);
  s.stop_waiting(id);
  s.set_spec(id, spec, leaf);
  s.put_leaving(id, going);
  if (held) {
    s.put_assignment(id, *held, displaced, Hold::kRunning);
  } else {
    s.start_waiting(id);
    j.to_be_evicted = told;
    j.evicted_from = evicted_from;
  }
}

// By the models that are counted now: what the job holds, what of it is leaving, and what it asks for.
void charge_models_anew(ClusterModel& s, JobId id) {
  Job& j = s.job(id);
  const auto anew = [&](const PodPlace& place, Allocation& allocation) {
    if (allocation.node == kNoId) return;
    s.give_back(allocation, false);
    allocation = s.take(s.allocation_for(id, place, allocation.node, allocation.pool, allocation.hold));
  };
  for (std::size_t i = 0; i < j.allocations.size(); ++i) anew(j.assignment->pods[i], j.allocations[i]);
  for (Leaving& l : j.leaving) anew(l.place, l.allocation);
  s.count_held(id);
  s.count(id);
}

// After a resource has come into use or out of it, on nodes or in jobs.
void share_out_names(Cluster& cluster) {
  ClusterModel& s = cluster.state();
  const auto changes = s.resource_names.share_out();
  if (!changes.kinds.empty()) {
    s.note_models();
    for (const ResourceKind kind : changes.kinds) forget_past_use(s, kind);
    count_anew(cluster);
  }
  if (changes.names.empty()) return;
  const bool models = std::any_of(changes.names.begin(), changes.names.end(),
                                  [](const auto& name) { return ResourceNames::is_model(name); });
  for (std::size_t i = 0; i < s.jobs().all().size(); ++i) {
    const Job& j = s.jobs().all()[i];
    const auto id = static_cast<JobId>(i);
    if (j.known && asks_for_some_of(j.spec, changes.names)) put_spec(s, id, JobSpec(j.spec), j.leaf);
    if (j.known && models && asks_for_gpus(j.spec)) charge_models_anew(s, id);
  }
}

}  // namespace

Cluster::Cluster() : state_(std::make_unique<ClusterModel>()) {
#ifndef NDEBUG
  audit_plans(true);
#endif
}
Cluster::~Cluster() = default;
Cluster::Cluster(Cluster&&) noexcept = default;
Cluster& Cluster::operator=(Cluster&&) noexcept = default;

void Cluster::bound_plans(std::int64_t steps) {
  state_->max_plan_steps = steps;
}

void Cluster::upsert_node(const NodeSpec& stated) {
  ClusterModel& s = *state_;
  NodeSpec spec = stated;
  s.resource_names.count(spec.named, spec.allocatable);
  const NodeId id = s.node_of(spec.name);
  Node& n = s.node(id);
  const int model_place = s.resource_names.place_of_model(spec);
  if (n.known && n.spec == spec && n.model_place == model_place) return;
  s.resource_names.listed(spec.named, 1);
  s.resource_names.listed(n.spec.named, -1);
  s.resource_names.listed_model(spec, 1);
  s.resource_names.listed_model(n.spec, -1);
  s.leave_pool_index(id);
  const bool same_place = n.known && n.spec.labels == spec.labels;
  const bool same_gpus = n.spec.gpus == spec.gpus && n.spec.gpu_memory == spec.gpu_memory &&
                         n.spec.gpu_numa == spec.gpu_numa && n.spec.zones == spec.zones &&
                         n.model_place == model_place;
  n.spec = spec;
  n.model_place = model_place;
  n.spec.gpus = std::max(0, n.spec.gpus);
  auto& sick = n.spec.unhealthy;
  std::sort(sick.begin(), sick.end());
  sick.erase(std::unique(sick.begin(), sick.end()), sick.end());
  std::erase_if(sick, [&](std::int32_t gpu) { return gpu < 0 || gpu >= n.spec.gpus; });
  n.unhealthy = static_cast<std::int32_t>(sick.size());
  n.known = true;
  n.model = s.model_of(n.spec);
  n.linked = links_differ(n.spec);
  for (const auto& [profile, count] : n.spec.mig) n.cut_index(profile);
  for (CutSlices& cut : n.cut) cut.count = cut_slices(n.spec, cut.profile);
  n.count_named();
  s.requests.node_changed(id, n.spec);
  if (same_place) {
    s.enter_pool_index(id);
    if (n.pool != kNoId) ++s.pool(n.pool).gains, s.touch(n.pool);
  } else {
    s.sort_into_pool(id);
    if (n.pool != kNoId) s.drop_empty_domains(n.pool);
  }
  if (!same_gpus) s.reallocate(id);
  share_out_names(*this);
}

void Cluster::remove_node(const std::string& name) {
  ClusterModel& s = *state_;
  const NodeId id = s.nodes().find(name);
  if (id == kNoId || !s.node(id).known) return;
  s.leave_pool_index(id);
  s.requests.node_gone(id);
  Node& n = s.node(id);
  s.resource_names.listed(n.spec.named, -1);
  s.resource_names.listed_model(n.spec, -1);
  n.known = false;
  n.model_place = -1;
  n.spec = {};
  n.spec.name = name;
  n.unhealthy = 0;
  n.count_named();
  s.sort_into_pool(id);
  s.reallocate(id);
  s.forget_node(id);  // unless pods are charged there: they stay so until they are gone
  share_out_names(*this);
}

void Cluster::upsert_pool(const PoolSpec& spec) {
  ClusterModel& s = *state_;
  const PoolId id = s.pool_of(spec.name);
  if (s.pool(id).known && s.pool(id).spec == spec) return;
  change_pools(s, [&] {
    Pool& p = s.pool(id);
    if (p.spec.topology != spec.topology) {
      p.domains.assign(1, {});
      p.domain_ids.clear();
    }
    p.spec = spec;
    p.known = true;
  });
}

void Cluster::remove_pool(const std::string& name) {
  ClusterModel& s = *state_;
  const PoolId id = s.find_pool(name);
  if (id == kNoId) return;
  change_pools(s, [&] { s.pool(id).known = false; });
}

void Cluster::upsert_queue(const QueueSpec& spec) {
  ClusterModel& s = *state_;
  const QueueId before = s.tree().find_queue(spec.name, spec.is_project);
  s.resource_names.bounded(spec, 1);
  if (before != kNoId) s.resource_names.bounded(s.tree().queue(before).spec, -1);
  s.upsert_queue(spec);
  share_out_names(*this);
}

void Cluster::set_past_use(const PastUse& past) {
  ClusterModel& s = *state_;
  Past& p = s.past[s.queue_of(past.queue, past.is_project)][s.pool_of(past.pool)];
  set_average_use(p, past.average, past.as_of);
}

void Cluster::remove_queue(const std::string& name, bool is_project) {
  const QueueId id = state_->tree().find_queue(name, is_project);
  if (id == kNoId) return;
  state_->resource_names.bounded(state_->tree().queue(id).spec, -1);
  state_->remove_queue(id);
  share_out_names(*this);
}

void Cluster::upsert_job(const JobSpec& spec) {
  ClusterModel& s = *state_;
  const QueueId leaf = spec.project.empty() ? kNoId : s.queue_of(spec.project, true);
  const JobId id = s.job_of(spec.id);
  if (s.job(id).known && s.job(id).spec == spec) return;
  JobSpec before;
  if (s.job(id).known && asks_for_any(s.job(id).spec)) before = s.job(id).spec;
  s.resource_names.asked(spec, 1);
  share_out_names(*this);
  put_spec(s, id, spec, leaf);
  s.resource_names.asked(before, -1);
  share_out_names(*this);
}

void Cluster::remove_job(const std::string& name) {
  ClusterModel& s = *state_;
  const JobId id = s.jobs().find(name);
  if (id == kNoId) return;
  s.put_leaving(id, {});
  s.drop_assignment(id);
  s.stop_waiting(id);
  s.resource_names.asked(s.job(id).spec, -1);
  s.forget_job(id);
  share_out_names(*this);
}

void Cluster::set_assignment(const std::string& name, const Assignment& assignment,
                             const std::vector<std::size_t>& displaced) {
  ClusterModel& s = *state_;
  const JobId id = s.jobs().find(name);
  if (id == kNoId) return;
  Job& j = s.job(id);
  const auto same = [&](const std::optional<Assignment>& a) {
    return a && a->pool == assignment.pool && a->pods == assignment.pods;
  };
  // The caller has not written the eviction down yet. But if a later plan has started the job elsewhere, the
  // record wins: the caller knows nothing of that start, and what is recorded holds what it holds.
  if (j.to_be_evicted && same(j.evicted_from) && !j.runs()) return;
  if (!j.nominated() && same(running_part(j)) && j.displaced == displaced) {
    j.assignment->since = assignment.since;  // it moves nothing: who is older is asked when two meet
    j.assumed = false;
    s.note_end(id);
    return;
  }
  s.drop_assignment(id);
  s.stop_waiting(id);
  s.put_assignment(id, assignment, displaced, Hold::kRunning);
}

void Cluster::clear_assignment(const std::string& name) {
  ClusterModel& s = *state_;
  const JobId id = s.jobs().find(name);
  if (id == kNoId || s.job(id).waits) return;
  Job& j = s.job(id);
  s.put_leaving(id, {});
  const bool held = j.assignment && !j.nominated();
  s.drop_assignment(id);
  if (held) j.last_held = kFromNextPlan;
  s.start_waiting(id);
}

void Cluster::set_leaving(const std::string& name, const std::vector<PodPlace>& pods) {
  ClusterModel& s = *state_;
  const JobId id = s.jobs().find(name);
  if (id == kNoId) return;
  s.put_leaving(id, pods);
  Job& j = s.job(id);
  if (!j.assignment && pods.empty() && !j.waits) {
    j.to_be_evicted = false;
    j.evicted_from.reset();
    j.last_held = kFromNextPlan;
    s.start_waiting(id);
  } else if (!pods.empty() && j.waits) {
    s.stop_waiting(id);
  }
}

void Cluster::nominate(const std::string& name, const Assignment& assignment) {
  ClusterModel& s = *state_;
  const JobId id = s.jobs().find(name);
  if (id == kNoId || s.job(id).runs()) return;
  s.drop_assignment(id);
  s.stop_waiting(id);
  s.put_assignment(id, assignment, {}, Hold::kNominated);
}

void Cluster::set_progress(const std::string& name, const Progress& progress) {
  ClusterModel& s = *state_;
  const JobId id = s.jobs().find(name);
  if (id == kNoId) return;
  Job& j = s.job(id);
  // It may grow at another time, or be moved.
  const bool other = j.progress.resized != progress.resized || j.progress.is_ready != progress.is_ready ||
                     j.progress.is_starting != progress.is_starting;
  j.progress = progress;
  s.note_end(id);
  if (other && j.runs()) s.touch(s.pool_of(j.assignment->pool));
}

void Cluster::upsert_other_pod(const OtherPod& pod) {
  ClusterModel& s = *state_;
  remove_other_pod(pod.key);
  Allocation c;
  c.node = s.node_of(pod.node);
  c.holder = kOther;
  c.leaf = pod.project.empty() ? kNoId : s.queue_of(pod.project, true);
  c.pool = s.node(c.node).pool;
  c.non_preemptible = !pod.preemptible;
  auto slices = pod.slices;
  const Allocation empty = c;
  c.amounts = pod.amounts;
  s.resource_names.count(pod.named, c.amounts);
  const bool has_gpus = pod.gpu_count > 0 || !pod.gpus.empty() || !pod.slices.empty();
  if (!pod.named.empty() || has_gpus) s.others_with_named.emplace(pod.key, pod);
  if (pod.share.kind == GpuShare::Kind::kMig) {
    slices[pod.share.profile] += pod.gpu_count;
    c.amounts.gpu = {};
  } else {
    for (const std::int32_t gpu : pod.gpus) {
      if (gpu >= 0 && gpu < kMaxGpusPerNode) c.gpus.push_back(gpu);
    }
    c.unnamed = std::max(0, pod.gpu_count - static_cast<std::int32_t>(c.gpus.size()));
    if (pod.share.kind != GpuShare::Kind::kWhole) {
      c.use.whole = false;
      c.use.by_memory = pod.share.kind == GpuShare::Kind::kMemory;
      c.use.milli = static_cast<std::int32_t>(pod.share.milli.value);
      c.use.memory = pod.share.memory;
      c.use.overcommit = pod.share.overcommit;
    }
    const NodeSpec& node = s.node(c.node).spec;
    c = ClusterModel::gpus_outside_jobs(node, std::move(c));
  }
  charge_model(s.node(c.node), c);
  s.others.add(pod.key, s.take(std::move(c)), pod.labels);
  for (const auto& [profile, count] : slices) {
    Allocation cut = empty;
    RoleSpec asked;
    asked.gpus = cut.slices = count;
    asked.share.kind = GpuShare::Kind::kMig;
    asked.share.profile = profile;
    cut.amounts.gpu = charge_on(s.node(cut.node).spec, asked);
    charge_model(s.node(cut.node), cut);
    cut.cut = s.node(cut.node).cut_index(profile);
    s.others.add_slices(pod.key, profile, s.take(std::move(cut)));
  }
}

void Cluster::remove_other_pod(const std::string& key) {
  state_->others_with_named.erase(key);
  for (const Allocation& held : state_->others.remove(key)) state_->give_back(held);
}

}  // namespace muster::placement
