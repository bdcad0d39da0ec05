#include "muster/reconcilers/placement_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <map>
#include <set>

#include "muster/placement/cluster.h"
#include "muster/reconcilers/names.h"
#include "muster/reconcilers/pod_end.h"
#include "muster/reconcilers/pod_identity.h"

namespace muster::reconcilers {
namespace {

namespace pl = placement;

// The label by which NVIDIA's feature discovery names a node's GPU model.
constexpr std::string_view kModelLabel = "nvidia.com/gpu.product";

pl::Time to_time(const std::optional<crds::Time>& t) {
  return t ? pl::Time{std::chrono::duration_cast<std::chrono::milliseconds>(t->time_since_epoch()).count()}
           : pl::Time{};
}

pl::Bounds to_bounds(const crds::Amounts& a) {
  pl::Bounds b;
  if (a.gpu) b.gpu = pl::MilliGpu{a.gpu->value};
  if (a.cpu) b.cpu = pl::MilliCpu{a.cpu->value};
  if (a.memory) b.memory = pl::Bytes{a.memory->value};
  return b;
}
template <class Spec>
pl::Share to_share(const Spec& s) {
  return {to_bounds(s.quota), {}, to_bounds(s.limit), s.weight, s.priority};
}
template <class Spec>
void fill_shares(const Spec& spec, pl::QueueSpec& q) {
  q.in_default_pool = to_share(spec);
  for (const auto& p : spec.pools) q.in_pool[p.name] = to_share(p);
}

pl::RoleSpec to_role(const crds::Role& role, const PodNeeds& needs, const VolumeTerms* volumes) {
  pl::RoleSpec r;
  r.name = role.name;
  r.replicas = role.replicas;
  r.gpus = needs.gpus;
  r.per_pod = {pl::MilliGpu{needs.gpus * pl::kMilliPerGpu}, pl::MilliCpu{needs.requests.cpu.value},
               pl::Bytes{needs.requests.memory.value}, 1};
  r.models = needs.gpu_models;
  r.node_selector = needs.node_selector;
  if (!needs.required.empty()) r.required.push_back(needs.required);
  if (volumes != nullptr) {
    r.required.insert(r.required.end(), volumes->required.begin(), volumes->required.end());
  }
  for (const auto& p : needs.preferred) r.preferred.emplace_back(p.weight, p.term);
  r.tolerations = needs.tolerations;
  return r;
}

std::vector<std::int32_t> gpu_indexes(const client::Pod& pod) {
  std::vector<std::int32_t> list;
  const std::string* text = client::find_value(pod.annotations, kGpusAnnotation);
  if (text == nullptr) return list;
  const char* at = text->data();
  const char* const end = at + text->size();
  while (at < end) {
    std::int32_t n = 0;
    const auto [next, error] = std::from_chars(at, end, n);
    if (error != std::errc() || n < 0 || n > 1023) return {};
    list.push_back(n);
    at = next == end ? end : next + 1;
  }
  return list;
}

pl::OtherPod to_other(const client::Pod& pod, std::string project) {
  pl::OtherPod o;
  o.key = pod.meta.key();
  o.node = pod.node_name;
  o.amounts = {pl::MilliGpu{pod.gpus * pl::kMilliPerGpu}, pl::MilliCpu{pod.milli_cpu},
               pl::Bytes{pod.memory_bytes}, 1};
  o.gpu_count = static_cast<std::int32_t>(std::clamp<std::int64_t>(pod.gpus, 0, 1024));
  o.gpus = gpu_indexes(pod);
  if (o.gpus.size() > static_cast<std::size_t>(o.gpu_count)) o.gpus.clear();
  o.project = std::move(project);
  return o;
}

crds::Amounts to_amounts(const pl::Resources& r) {
  return {crds::MilliGpu{r.gpu.value}, crds::MilliCpu{r.cpu.value}, crds::Bytes{r.memory.value}};
}

std::string quantity(const std::string& resource, std::int64_t amount) {
  if (resource == "gpu") return crds::to_string(crds::MilliGpu{amount});
  if (resource == "cpu") return crds::to_string(crds::MilliCpu{amount});
  if (resource == "memory") return crds::to_string(crds::Bytes{amount});
  return std::to_string(amount);
}

crds::Waiting to_waiting(const pl::Verdict& v) {
  crds::Waiting w;
  w.position = v.position;
  w.project_position = v.project_position;
  w.reason = pl::to_string(v.reason);
  w.message = v.message;
  for (const auto& b : v.blocking)
    w.blocking.push_back(
        {b.resource, b.pool, quantity(b.resource, b.need), quantity(b.resource, b.have), b.by});
  return w;
}

}  // namespace

struct PlacementModel::Impl {
  struct JobState {
    std::optional<Decision> decision;
    std::int64_t generation = 0;
    std::vector<std::string> role_names;
    std::set<std::string> lingering;  // keys of pods charged beside the assignment
  };

  std::function<void()> changed;
  pl::Cluster cluster;
  std::map<client::Key, JobState> jobs;
  std::map<std::string, std::string> project_of;     // by namespace
  std::map<std::string, std::string> gpu_resources;  // by pool
  std::map<std::string, client::Node> nodes;         // their GPU count depends on the pools' resource names
  std::set<std::string> others;                      // pods that are charged beside assignments
  std::optional<pl::Time> wake;                      // when to plan again though nothing changes

  void touch() { changed(); }

  std::string project_for(const std::string& ns) const {
    const auto found = project_of.find(ns);
    return found == project_of.end() ? std::string() : found->second;
  }

  pl::NodeSpec to_node(const client::Node& n) const {
    pl::NodeSpec s;
    s.name = n.meta.name;
    for (const auto& [key, value] : n.labels) s.labels.emplace(key, value);
    for (const auto& t : n.taints) s.taints.push_back({t.key, t.value, t.effect});
    s.usable = n.ready && !n.unschedulable && !n.deleting;
    for (const auto& [resource, count] : n.extended) {
      const bool counts = std::any_of(gpu_resources.begin(), gpu_resources.end(),
                                      [&](const auto& p) { return p.second == resource; });
      if (counts) s.gpus += static_cast<std::int32_t>(std::clamp<std::int64_t>(count, 0, 1024));
    }
    if (const auto* model = client::find_value(n.labels, kModelLabel)) s.gpu_model = *model;
    s.allocatable = {pl::MilliGpu{s.gpus * pl::kMilliPerGpu}, pl::MilliCpu{n.milli_cpu},
                     pl::Bytes{n.memory_bytes}, n.pods};
    return s;
  }

  // Charged until the pod object is gone, or has ended by itself.
  void charge(const client::Pod& pod, const std::string& project) {
    if (pod.node_name.empty() || is_terminal(pod)) return give_back(pod.meta.key());
    cluster.upsert_other_pod(to_other(pod, project));
    others.insert(pod.meta.key());
    touch();
  }
  void give_back(const std::string& pod) {
    if (others.erase(pod) == 0) return;
    cluster.remove_other_pod(pod);
    touch();
  }

  // Pods of the job that its assignment does not mean (of earlier attempts and tries).
  void charge_lingering(const client::Key& key, const crds::TrainingJob& job, const crds::Assignment& a,
                        const std::vector<client::Ptr<client::Pod>>& pods) {
    std::map<std::pair<std::string, std::int32_t>, std::int32_t> tries;
    for (const auto& p : a.pods) tries[{p.role, p.index}] = p.tries;
    std::set<std::string> now;
    for (const auto& pod : pods) {
      const auto id = identity_of(*pod);
      const auto slot = id ? tries.find({id->role, id->index}) : tries.end();
      if (slot != tries.end() && id->attempt == a.attempt && id->tries == slot->second) {
        give_back(pod->meta.key());  // its assignment pays for it
        continue;
      }
      if (is_terminal(*pod)) continue;
      charge(*pod, project_for(job.metadata.ns));
      now.insert(pod->meta.key());
    }
    auto& known = jobs[key].lingering;
    for (const auto& gone : known) {
      if (!now.contains(gone)) give_back(gone);
    }
    known = std::move(now);
  }

  pl::JobSpec to_job(const client::Key& key, const crds::TrainingJob& job, const Translation& wish,
                     const crds::TrainingJobStatus& status) const {
    pl::JobSpec s;
    s.id = key;
    s.project = project_for(job.metadata.ns);
    s.priority = wish.priority;
    s.preemptible = crds::is_preemptible(job.spec);
    s.submitted = to_time(job.metadata.creation_timestamp);
    s.pools = job.spec.pools;
    for (std::size_t r = 0; r < job.spec.roles.size() && r < wish.needs.size(); ++r) {
      s.roles.push_back(
          to_role(job.spec.roles[r], wish.needs[r], r < wish.volumes.size() ? &wish.volumes[r] : nullptr));
    }
    for (const auto& refusal : status.node_refusals) s.avoid_nodes.push_back(refusal.node);
    return s;
  }

  static pl::Assignment to_assignment(const crds::TrainingJob& job, const crds::TrainingJobStatus& status) {
    pl::Assignment out;
    out.pool = status.assignment.pool;
    // Seniority is that of the admission, not of a restart in place.
    const auto* admitted = crds::find_condition(status.conditions, "Admitted");
    out.since = admitted != nullptr ? to_time(admitted->last_transition_time)
                                    : to_time(status.assignment.admitted_at);
    for (const auto& p : status.assignment.pods) {
      const auto role = std::find_if(job.spec.roles.begin(), job.spec.roles.end(),
                                     [&](const auto& r) { return r.name == p.role; });
      out.pods.push_back(
          {role == job.spec.roles.end() ? -1 : static_cast<std::int32_t>(role - job.spec.roles.begin()),
           p.index, p.node, p.gpus});
    }
    return out;
  }

  std::vector<Place> to_places(const JobState& job, const pl::Assignment& a) const {
    std::vector<Place> places;
    places.reserve(a.pods.size());
    for (const auto& p : a.pods)
      places.push_back({job.role_names[static_cast<std::size_t>(p.role)], p.index, p.node, p.gpus});
    return places;
  }

  TreeNumbers numbers(const std::string& name, bool is_project) const {
    TreeNumbers n;
    const std::string main = cluster.default_pool();
    const auto usage = cluster.usage(name, is_project, main);
    n.allocated = to_amounts(usage.allocated);
    n.borrowed = to_amounts(usage.borrowed);
    n.pending = to_amounts(usage.pending);
    for (const auto& pool : cluster.pool_names()) {
      if (pool == main) continue;
      const auto u = cluster.usage(name, is_project, pool);
      if (u == pl::Usage{}) continue;
      n.pools.push_back({pool, to_amounts(u.allocated), to_amounts(u.borrowed), to_amounts(u.pending)});
    }
    const auto work = cluster.workloads(name, is_project);
    n.running = work.running;
    n.waiting = work.waiting;
    n.problem = cluster.queue_problem(name, is_project);
    return n;
  }
};

PlacementModel::PlacementModel(std::function<void()> changed) : impl_(std::make_unique<Impl>()) {
  impl_->changed = std::move(changed);
}
PlacementModel::~PlacementModel() = default;

void PlacementModel::node(const client::Node& node) {
  impl_->nodes[node.meta.name] = node;
  impl_->cluster.upsert_node(impl_->to_node(node));
  impl_->touch();
}
void PlacementModel::node_gone(const client::Node& node) {
  impl_->nodes.erase(node.meta.name);
  impl_->cluster.remove_node(node.meta.name);
  impl_->touch();
}

void PlacementModel::pool(const crds::NodePool& pool) {
  pl::PoolSpec spec;
  spec.name = pool.metadata.name;
  spec.order =
      pool.spec.placement.nodes == crds::NodeOrder::kPack ? pl::NodeOrder::kPack : pl::NodeOrder::kSpread;
  spec.is_default = pool.spec.is_default;
  spec.gpu_resource = pool.spec.gpu_resource;
  for (const auto& [key, value] : pool.spec.node_selector.match_labels)
    spec.selector.push_back({key, pl::Operator::kIn, {value}});
  for (const auto& e : pool.spec.node_selector.match_expressions)
    spec.selector.push_back({e.key, static_cast<pl::Operator>(e.op), e.values});
  auto& resource = impl_->gpu_resources[spec.name];
  const bool other_resource = resource != pool.spec.gpu_resource;
  resource = pool.spec.gpu_resource;
  impl_->cluster.upsert_pool(spec);
  if (other_resource) {
    for (const auto& [name, n] : impl_->nodes) impl_->cluster.upsert_node(impl_->to_node(n));
  }
  impl_->touch();
}
void PlacementModel::pool_gone(const crds::NodePool& pool) {
  impl_->gpu_resources.erase(pool.metadata.name);
  impl_->cluster.remove_pool(pool.metadata.name);
  impl_->touch();
}

void PlacementModel::queue(const crds::Queue& queue) {
  pl::QueueSpec spec;
  spec.name = queue.metadata.name;
  spec.parent = queue.spec.parent;
  spec.hold = queue.spec.admission == crds::Admission::kHold;
  spec.created = to_time(queue.metadata.creation_timestamp);
  fill_shares(queue.spec, spec);
  impl_->cluster.upsert_queue(spec);
  impl_->touch();
}
void PlacementModel::queue_gone(const crds::Queue& queue) {
  impl_->cluster.remove_queue(queue.metadata.name, false);
  impl_->touch();
}
void PlacementModel::project(const crds::Project& project) {
  pl::QueueSpec spec;
  spec.name = project.metadata.name;
  spec.parent = project.spec.queue;
  spec.is_project = true;
  spec.created = to_time(project.metadata.creation_timestamp);
  fill_shares(project.spec, spec);
  impl_->cluster.upsert_queue(spec);
  impl_->touch();
}
void PlacementModel::project_gone(const std::string& name) {
  impl_->cluster.remove_queue(name, true);
  impl_->touch();
}
void PlacementModel::charge_namespace(const std::string& ns, const std::string& project) {
  if (project.empty()) {
    impl_->project_of.erase(ns);
  } else {
    impl_->project_of[ns] = project;
  }
  impl_->touch();
}

void PlacementModel::foreign_pod(const client::Pod& pod) {
  // What Muster made stays charged to its project even when its job is gone.
  const bool ours = client::find_value(pod.labels, kJobLabel) != nullptr;
  impl_->charge(pod, ours ? impl_->project_for(pod.meta.ns) : std::string());
}
void PlacementModel::foreign_pod_gone(const client::Pod& pod) {
  impl_->give_back(pod.meta.key());
}

void PlacementModel::update(const client::Key& key, const crds::TrainingJob& job, const Translation& wish,
                            const Step& step, const std::vector<client::Ptr<client::Pod>>& pods) {
  auto& state = impl_->jobs[key];
  const auto& status = step.status;
  const bool holds = status.assignment.attempt != 0;
  if (state.generation != job.metadata.generation) state.decision.reset();
  state.generation = job.metadata.generation;
  state.role_names.clear();
  for (const auto& r : job.spec.roles) state.role_names.push_back(r.name);
  impl_->charge_lingering(key, job, status.assignment, pods);
  if (!holds && !step.wants_place) {
    state.decision.reset();
    impl_->cluster.remove_job(key);
  } else {
    impl_->cluster.upsert_job(impl_->to_job(key, job, wish, status));
    if (holds) {
      state.decision.reset();
      impl_->cluster.set_assignment(key, Impl::to_assignment(job, status), step.displaced);
      impl_->cluster.set_progress(
          key, {to_time(status.assignment.admitted_at), std::nullopt, std::nullopt, std::nullopt});
    } else if (!state.decision || state.decision->kind != Decision::Kind::kStart) {
      state.decision.reset();
      if (!impl_->cluster.nominated(key)) impl_->cluster.clear_assignment(key);
    }
  }
  impl_->touch();
}

void PlacementModel::forget(const client::Key& key, const std::vector<client::Ptr<client::Pod>>& pods) {
  const auto found = impl_->jobs.find(key);
  if (found != impl_->jobs.end()) {
    for (const auto& pod : found->second.lingering) impl_->give_back(pod);
    impl_->jobs.erase(found);
  }
  impl_->cluster.remove_job(key);
  for (const auto& pod : pods) foreign_pod(*pod);
  impl_->touch();
}

std::vector<client::Key> PlacementModel::plan(crds::Time now) {
  const auto plan = pl::plan(impl_->cluster, to_time(now));
  std::vector<client::Key> news;
  for (const auto& d : plan.decisions) {
    const auto found = impl_->jobs.find(d.job);
    if (found == impl_->jobs.end()) continue;
    auto& job = found->second;
    Decision decision;
    decision.generation = job.generation;
    decision.pool = d.assignment.pool;
    decision.message = d.message;
    switch (d.kind) {
      case pl::Decision::Kind::kStart:
        decision.kind = Decision::Kind::kStart;
        break;
      case pl::Decision::Kind::kReplace:
        decision.kind = Decision::Kind::kReplace;
        break;
      case pl::Decision::Kind::kEvict:
      case pl::Decision::Kind::kMove:  // it is queued again, and the core has a place for it
        decision.kind = Decision::Kind::kEvict;
        decision.reason = pl::to_string(d.reason);
        break;
      case pl::Decision::Kind::kGrow:
      case pl::Decision::Kind::kShrink:
        continue;  // gangs are of a fixed size here: see the fields that are refused as not supported
    }
    decision.places = impl_->to_places(job, d.assignment);
    job.decision = std::move(decision);
    news.push_back(d.job);
  }
  news.insert(news.end(), plan.verdicts.begin(), plan.verdicts.end());
  impl_->wake = plan.wake;
  return news;
}
bool PlacementModel::due(crds::Time now) const {
  return impl_->wake && to_time(now) >= *impl_->wake;
}

std::optional<Decision> PlacementModel::decision(const client::Key& key) const {
  const auto found = impl_->jobs.find(key);
  return found == impl_->jobs.end() ? std::nullopt : found->second.decision;
}
void PlacementModel::withdraw(const client::Key& key) {
  const auto found = impl_->jobs.find(key);
  if (found == impl_->jobs.end() || !found->second.decision) return;
  const bool started = found->second.decision->kind == Decision::Kind::kStart;
  found->second.decision.reset();
  if (started) impl_->cluster.clear_assignment(key);
  impl_->touch();
}
void PlacementModel::decide(const client::Key& key, Decision decision) {
  const auto found = impl_->jobs.find(key);
  if (found != impl_->jobs.end()) found->second.decision = std::move(decision);
}
std::optional<crds::Waiting> PlacementModel::verdict(const client::Key& key) const {
  const auto* v = impl_->cluster.verdict(key);
  return v == nullptr ? std::nullopt : std::optional(to_waiting(*v));
}

std::string PlacementModel::gpu_resource(const std::string& pool) const {
  const auto found = impl_->gpu_resources.find(pool);
  return found == impl_->gpu_resources.end() ? std::string("nvidia.com/gpu") : found->second;
}
TreeNumbers PlacementModel::numbers_of_queue(const std::string& name) const {
  return impl_->numbers(name, false);
}
TreeNumbers PlacementModel::numbers_of_project(const std::string& name) const {
  return impl_->numbers(name, true);
}
PoolNumbers PlacementModel::numbers_of_pool(const std::string& name) const {
  const auto u = impl_->cluster.pool_usage(name);
  return {u.nodes, to_amounts(u.capacity), to_amounts(u.free), u.shared_nodes};
}

}  // namespace muster::reconcilers
