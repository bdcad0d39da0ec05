#include "muster/reconcilers/placement_model.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <set>

#include "muster/placement/cluster.h"
#include "muster/reconcilers/names.h"
#include "muster/reconcilers/placement_specs.h"
#include "muster/reconcilers/pod_end.h"
#include "muster/reconcilers/pod_identity.h"

namespace muster::reconcilers {
namespace pl = placement;

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
    std::set<std::string> resources;
    for (const auto& [pool, resource] : gpu_resources) resources.insert(resource);
    return node_spec(n, resources);
  }

  // Charged until the pod object is gone, or has ended by itself.
  void charge(const client::Pod& pod, const std::string& project) {
    if (pod.node_name.empty() || is_terminal(pod)) return give_back(pod.meta.key());
    cluster.upsert_other_pod(other_pod(pod, project));
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

  // As the step leaves its status.
  pl::JobSpec to_job(const crds::TrainingJob& job, const Translation& wish,
                     const crds::TrainingJobStatus& status) const {
    pl::JobSpec s = job_spec(job, project_for(job.metadata.ns), wish.priority, wish.needs, wish.volumes);
    s.avoid_nodes.clear();
    for (const auto& refusal : status.node_refusals) s.avoid_nodes.push_back(refusal.node);
    return s;
  }

  static pl::Assignment to_assignment(const crds::TrainingJob& job, const crds::TrainingJobStatus& status) {
    // Seniority is that of the admission, not of a restart in place.
    const auto* admitted = crds::find_condition(status.conditions, "Admitted");
    return assignment_spec(job.spec.roles, status.assignment,
                           admitted != nullptr ? to_time(admitted->last_transition_time)
                                               : to_time(status.assignment.admitted_at));
  }

  static pl::Progress to_progress(const crds::TrainingJobStatus& status) {
    pl::Progress p;
    p.began = to_time(status.assignment.admitted_at);
    if (status.checkpoint.saved_at) p.saved = to_time(status.checkpoint.saved_at);
    if (status.started_at && status.assignment.admitted_at)
      p.start_took = to_duration(*status.started_at - *status.assignment.admitted_at);
    return p;
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
  const pl::PoolSpec spec = pool_spec(pool);
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
  impl_->cluster.upsert_queue(queue_spec(queue));
  impl_->touch();
}
void PlacementModel::queue_gone(const crds::Queue& queue) {
  impl_->cluster.remove_queue(queue.metadata.name, false);
  impl_->touch();
}
void PlacementModel::project(const crds::Project& project) {
  impl_->cluster.upsert_queue(queue_spec(project));
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
    impl_->cluster.upsert_job(impl_->to_job(job, wish, status));
    if (holds) {
      state.decision.reset();
      impl_->cluster.set_assignment(key, Impl::to_assignment(job, status), step.displaced);
      impl_->cluster.set_progress(key, Impl::to_progress(status));
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
