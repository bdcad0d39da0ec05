#include "muster/reconcilers/placement/placement_model.h"

#include <algorithm>
#include <map>
#include <set>
#include <tuple>

#include "muster/placement/cluster.h"
#include "muster/reconcilers/lifecycle/job_status.h"
#include "muster/reconcilers/placement/placement_specs.h"
#include "muster/reconcilers/pods/elastic.h"
#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/pods/pod_end.h"
#include "muster/reconcilers/pods/pod_identity.h"

namespace muster::reconcilers {
namespace pl = placement;

struct PlacementModel::Impl {
  struct JobState {
    std::optional<Decision> decision;
    std::int64_t generation = 0;
    std::int32_t attempt = 0;
    std::vector<std::string> role_names;
    std::set<std::string> lingering;  // keys of pods charged beside the assignment
    bool is_known = false;            // it was told to placement once
    bool was_readable = false;        // with what its pods need
  };

  std::function<void()> changed;
  pl::Cluster cluster;
  bool plan_was_cut_off = false;
  std::map<client::Key, JobState> jobs;
  std::map<std::string, std::string> project_of;  // by namespace
  std::map<std::string, GpuMeans> gpu_means;      // by pool
  std::map<std::string, client::Node> nodes;      // their GPU count depends on the pools' resource names
  std::map<std::string, std::set<std::int32_t>> failing;  // GPUs, by node
  std::set<std::string> gpu_resources;                    // of all pools
  // A pod that is charged beside assignments; `pod` where what it holds of GPUs depends on the pools.
  struct Other {
    client::Ptr<client::Pod> pod;
    std::string project;
    bool may_share = true;
  };
  std::map<std::string, Other> others;
  std::optional<pl::Time> wake;  // when to plan again though nothing changes

  void touch() { changed(); }

  std::string project_for(const std::string& ns) const {
    const auto found = project_of.find(ns);
    return found == project_of.end() ? std::string() : found->second;
  }

  pl::NodeSpec to_node(const client::Node& n) const {
    pl::NodeSpec spec = node_spec(n, gpu_resources);
    if (const auto bad = failing.find(n.meta.name); bad != failing.end())
      spec.unhealthy.insert(spec.unhealthy.end(), bad->second.begin(), bad->second.end());
    return spec;
  }

  // After pools came, went or name another resource: what counts GPUs is what any of them names.
  void recount_gpus() {
    std::set<std::string> resources;
    for (const auto& [pool, means] : gpu_means) resources.insert(means.resource);
    if (resources == gpu_resources) return;
    gpu_resources = std::move(resources);
    for (const auto& [name, n] : nodes) {
      if (!n.extended.empty()) cluster.upsert_node(to_node(n));
    }
    for (const auto& [key, other] : others) {
      if (other.pod) cluster.upsert_other_pod(as_other(*other.pod, other.project, other.may_share));
    }
  }

  pl::OtherPod as_other(const client::Pod& pod, const std::string& project, bool may_share) const {
    return other_pod(pod, project, gpu_resources, may_share);
  }
  // Charged until the pod object is gone, or has ended by itself.
  void charge(const client::Ptr<client::Pod>& pod, const std::string& project, bool may_share) {
    const bool has_gpus = !pod->extended.empty();
    charge(*pod, as_other(*pod, project, may_share), has_gpus ? Other{pod, project, may_share} : Other());
  }
  void charge(const client::Pod& pod, const pl::OtherPod& as, Other other) {
    if (pod.node_name.empty() || is_terminal(pod)) return give_back(pod.meta.key());
    cluster.upsert_other_pod(as);
    others[pod.meta.key()] = std::move(other);
    touch();
  }
  void give_back(const std::string& pod) {
    if (others.erase(pod) == 0) return;
    cluster.remove_other_pod(pod);
    touch();
  }

  // The place that a pod on its way out still holds, as its job's spec has it; nullopt: it was made from
  // another spec, and holds what it says itself.
  std::optional<pl::PodPlace> leaving_place(const JobState& job, const Translation& wish,
                                            const client::Pod& pod) const {
    const auto id = identity_of(pod);
    if (!id || pod.node_name.empty() || is_terminal(pod)) return std::nullopt;
    const auto role = std::ranges::find(job.role_names, id->role);
    const auto r = static_cast<std::size_t>(role - job.role_names.begin());
    if (r >= wish.needs.size()) return std::nullopt;
    const PodNeeds& needs = wish.needs[r];
    auto held = as_other(pod, "", true);
    if (!has_same_share(held, needs) || pod.milli_cpu != needs.requests.cpu.value ||
        pod.memory_bytes != needs.requests.memory.value)
      return std::nullopt;
    return pl::PodPlace{static_cast<std::int32_t>(r), id->index, pod.node_name, std::move(held.gpus)};
  }
  static bool has_same_share(const pl::OtherPod& pod, const PodNeeds& needs) {
    const auto &is = pod.share, &asks = needs.share;
    return is.kind == asks.kind && is.milli == asks.milli && is.memory == asks.memory &&
           is.overcommit == asks.overcommit && is.profile == asks.profile && pod.gpu_count == needs.gpus;
  }

  // Places of the assignment by what they hold.
  using Held = std::multiset<std::tuple<std::string, std::string, std::string>>;  // role, node, GPUs
  static Held held_by(const crds::Assignment& a, const std::vector<std::size_t>& displaced) {
    Held held;
    for (std::size_t i = 0; i < a.pods.size(); ++i) {
      if (std::ranges::find(displaced, i) == displaced.end())
        held.emplace(a.pods[i].role, a.pods[i].node, gpu_list(a.pods[i].gpus));
    }
    return held;
  }
  // An earlier pod of a place that the assignment has still, which pays for it.
  static bool takes_up(Held& held, const client::Pod& pod, const PodIdentity& id) {
    const auto* gpus = client::find_value(pod.annotations, kGpusAnnotation);
    const auto found = held.find({id.role, pod.node_name, gpus == nullptr ? "" : *gpus});
    if (found == held.end()) return false;
    held.erase(found);
    return true;
  }
  // The place of the assignment that the pod was made for; nullopt: none.
  static std::optional<std::size_t> place_of(const crds::Assignment& a, const PodIdentity& id) {
    if (id.attempt != a.attempt) return std::nullopt;
    const auto is_its = [&](const crds::PodAssignment& p) {
      return p.index == id.index && p.role == id.role;
    };
    // Gangs of one role mostly stand in the order of their indexes.
    auto i = static_cast<std::size_t>(id.index);
    if (i >= a.pods.size() || !is_its(a.pods[i]))
      i = static_cast<std::size_t>(std::ranges::find_if(a.pods, is_its) - a.pods.begin());
    if (i == a.pods.size() || a.pods[i].tries != id.tries) return std::nullopt;
    return i;
  }

  // How the pods of a job can be paid for other than by themselves.
  struct Payers {
    const crds::Assignment& assignment;         // none where its pods are charged for themselves
    const std::vector<std::size_t>& displaced;  // places of it that hold nothing
    bool may_leave = false;                     // pods beside the assignment may be charged as leaving
    // Where these stand as placement counts them: no others are charged as leaving.
    std::optional<std::vector<pl::PodPlace>> leaving = {};
  };

  // Charges those pods of the job that its assignment does not pay for: pods of earlier attempts and tries,
  // members that left, and whoever still runs at a place that holds nothing any more. Where the job goes back
  // to the queue, and of an elastic gang, they are its own and returned: they leave, and others may be
  // promised their places. A job that holds nothing else is a claimant again when they are gone.
  std::vector<pl::PodPlace> charge_lingering(const client::Key& key, const crds::TrainingJob& job,
                                             const Translation& wish, const Payers& payers,
                                             const std::vector<client::Ptr<client::Pod>>& pods) {
    const crds::Assignment& a = payers.assignment;
    JobState& state = jobs[key];
    std::vector<pl::PodPlace> leaving;
    std::set<std::string> now;
    std::optional<Held> held;
    const auto charge_itself = [&](const client::Ptr<client::Pod>& pod, const std::string& project) {
      charge(pod, project, true);
      now.insert(pod->meta.key());
    };
    const auto is_taken_up = [&](const client::Pod& pod, const std::optional<PodIdentity>& id) {
      if (!id || id->attempt >= a.attempt) return false;
      if (!held) held = held_by(a, payers.displaced);
      return takes_up(*held, pod, *id);
    };
    const auto may_leave = [&](const pl::PodPlace& place) {
      return !payers.leaving || std::ranges::find(*payers.leaving, place) != payers.leaving->end();
    };
    for (const auto& pod : pods) {
      const auto id = identity_of(*pod);
      const auto mine = id ? place_of(a, *id) : std::nullopt;
      const bool is_displaced = mine && std::ranges::find(payers.displaced, *mine) != payers.displaced.end();
      if (is_displaced && !is_terminal(*pod)) {
        charge_itself(pod, "");  // the place is not its job's any more, and nobody else's yet
        continue;
      }
      if (mine || is_terminal(*pod) || is_taken_up(*pod, id)) {
        give_back(pod->meta.key());
        continue;
      }
      auto place = payers.may_leave ? leaving_place(state, wish, *pod) : std::nullopt;
      if (place && may_leave(*place)) {
        give_back(pod->meta.key());
        leaving.push_back(std::move(*place));
        continue;
      }
      charge_itself(pod, project_for(job.metadata.ns));
    }
    for (const auto& gone : state.lingering) {
      if (!now.contains(gone)) give_back(gone);
    }
    state.lingering = std::move(now);
    return leaving;
  }

  static pl::Assignment to_promise(const crds::TrainingJob& job, const crds::Nomination& n) {
    crds::Assignment a;
    a.pool = n.pool;
    a.pods = n.pods;
    return assignment_spec(job.spec.roles, a, {});
  }

  // What the status has promised, to a placement that does not know of it: after a restart of ours, or where
  // a changed spec (less is left of maxRuntime, say) has made it ask anew.
  void keep_promise(const client::Key& key, const crds::TrainingJob& job, const crds::Nomination& n,
                    bool is_new) {
    if (n.pods.empty() || !is_new || n.generation != job.metadata.generation || cluster.nominated(key))
      return;
    cluster.nominate(key, to_promise(job, n));
  }

  // Decisions that are acted on, or cannot be any more. What takes something stands until it is taken: the
  // plan counts with it.
  static void drop_decision(JobState& state, bool holds, const Step& step) {
    if (!state.decision) return;
    const auto kind = state.decision->kind;
    const bool starts = kind == Decision::Kind::kStart;
    const bool resizes = kind == Decision::Kind::kGrow || kind == Decision::Kind::kShrink;
    if (resizes) {
      if (!holds || step.settles) state.decision.reset();
      return;
    }
    const bool takes =
        kind == Decision::Kind::kEvict || kind == Decision::Kind::kBackOff || kind == Decision::Kind::kMove;
    if (starts ? (holds || !step.wants_place) : (takes ? !holds : true)) state.decision.reset();
  }

  static std::int32_t size_of_role(const crds::Assignment& a, const std::string& role) {
    return static_cast<std::int32_t>(
        std::ranges::count_if(a.pods, [&](const crds::PodAssignment& p) { return p.role == role; }));
  }

  // As the step leaves its status.
  pl::JobSpec to_job(const crds::TrainingJob& job, const Translation& wish,
                     const crds::TrainingJobStatus& status) const {
    pl::JobSpec s = job_spec(job, project_for(job.metadata.ns), wish.priority, wish.needs, wish.volumes);
    s.avoid_nodes.clear();
    for (const auto& refusal : status.node_refusals) s.avoid_nodes.push_back(refusal.node);
    s.grow_after = s.grow_quiet = to_duration(crds::grow_after_of(job.spec));
    const auto& a = status.assignment;
    const bool may_grow = !wish.invalid && !wish.blocked && a.succeeded.empty();
    for (std::size_t r = 0; a.attempt != 0 && !may_grow && r < s.roles.size(); ++r)
      s.roles[r].max_replicas = std::min(s.roles[r].max_replicas, size_of_role(a, s.roles[r].name));
    return s;
  }

  // By the roles that placement knows of the job. Where the pods themselves are charged, their places are of
  // no role and cost nothing.
  static pl::Assignment to_assignment(const JobState& state, const crds::TrainingJob& job,
                                      const crds::TrainingJobStatus& status) {
    // Seniority is that of the admission, not of a restart in place.
    const auto* admitted = crds::find_condition(status.conditions, "Admitted");
    auto a = assignment_spec(job.spec.roles, status.assignment,
                             admitted != nullptr ? to_time(admitted->last_transition_time)
                                                 : to_time(status.assignment.admitted_at));
    for (std::size_t i = 0; i < a.pods.size(); ++i) {
      const auto role = std::ranges::find(state.role_names, status.assignment.pods[i].role);
      const bool is_charged = state.was_readable && role != state.role_names.end();
      a.pods[i].role = is_charged ? static_cast<std::int32_t>(role - state.role_names.begin()) : -1;
    }
    return a;
  }

  static pl::Progress to_progress(const crds::TrainingJob& job, const crds::TrainingJobStatus& status) {
    pl::Progress p;
    p.began = to_time(status.assignment.admitted_at);
    if (status.checkpoint.saved_at) p.saved = to_time(status.checkpoint.saved_at);
    if (crds::is_elastic(job.spec)) p.resized = std::max(p.began, to_time(status.assignment.resized_at));
    if (status.started_at && status.assignment.admitted_at)
      p.start_took = to_duration(*status.started_at - *status.assignment.admitted_at);
    return p;
  }

  std::vector<Place> to_places(const JobState& job, const pl::Assignment& a) const {
    std::vector<Place> places;
    places.reserve(a.pods.size());
    for (const auto& p : a.pods) {
      const auto role = static_cast<std::size_t>(p.role);  // an edit may have removed it
      if (role < job.role_names.size()) places.push_back({job.role_names[role], p.index, p.node, p.gpus});
    }
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
void PlacementModel::failing_gpus(const std::string& node, std::set<std::int32_t> gpus) {
  if (gpus.empty())
    impl_->failing.erase(node);
  else
    impl_->failing[node] = std::move(gpus);
  const auto known = impl_->nodes.find(node);
  if (known == impl_->nodes.end()) return;
  impl_->cluster.upsert_node(impl_->to_node(known->second));
  impl_->touch();
}
void PlacementModel::node_gone(const client::Node& node) {
  impl_->nodes.erase(node.meta.name);
  impl_->cluster.remove_node(node.meta.name);
  impl_->touch();
}

void PlacementModel::pool(const crds::NodePool& pool) {
  pl::PoolSpec spec = pool_spec(pool);
  impl_->gpu_means[spec.name] = {pool.spec.gpu_resource, spec.sharing.mode == pl::SharingMode::kMps};
  // Nobody here cuts GPUs: slices are those that nodes list as resources, which count in any mode.
  if (spec.sharing.mode == pl::SharingMode::kMig) spec.sharing.mode = pl::SharingMode::kNone;
  impl_->cluster.upsert_pool(spec);
  impl_->recount_gpus();
  impl_->touch();
}
void PlacementModel::pool_gone(const crds::NodePool& pool) {
  impl_->gpu_means.erase(pool.metadata.name);
  impl_->cluster.remove_pool(pool.metadata.name);
  impl_->recount_gpus();
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

void PlacementModel::foreign_pod(const client::Ptr<client::Pod>& pod) {
  // What Muster made stays charged to its project even when its job is gone.
  const bool ours = client::find_value(pod->labels, kJobLabel) != nullptr;
  const auto project = ours ? impl_->project_for(pod->meta.ns) : std::string();
  impl_->charge(pod, project, !project.empty());  // elsewhere anybody may say that it shares a GPU
}
void PlacementModel::job_pod(const client::Key& job, const crds::Assignment& assignment,
                             const client::Ptr<client::Pod>& pod, bool is_new) {
  const auto known = impl_->jobs.find(job);
  if (is_terminal(*pod)) return impl_->give_back(pod->meta.key());
  if (!is_new || known == impl_->jobs.end()) return;
  const auto id = identity_of(*pod);
  if (known->second.was_readable && id && Impl::place_of(assignment, *id))
    return impl_->give_back(pod->meta.key());  // what an earlier pod of that name held
  impl_->charge(pod, impl_->project_for(pod->meta.ns), true);
  known->second.lingering.insert(pod->meta.key());
}
void PlacementModel::holder_pod(const client::Pod& pod) {
  auto other = other_pod(pod, "", {});  // no resource is a GPU of its own
  other.slices.clear();
  impl_->charge(pod, other, {});
}
void PlacementModel::pod_gone(const client::Pod& pod) {
  impl_->give_back(pod.meta.key());
}

void PlacementModel::update(const client::Key& key, const crds::TrainingJob& job, const Translation& wish,
                            const Step& step, const std::vector<client::Ptr<client::Pod>>& pods) {
  auto& state = impl_->jobs[key];
  auto& cluster = impl_->cluster;
  const auto& status = step.status;
  const bool holds = status.assignment.attempt != 0;
  if (state.decision && state.generation != job.metadata.generation &&
      state.decision->kind == Decision::Kind::kStart)
    state.decision.reset();
  state.generation = job.metadata.generation;
  state.attempt = status.assignment.attempt;
  const bool returns = !holds && !job.spec.suspend && !is_finished(status) && !wish.invalid;
  // Where the spec cannot be read any more, or is not what its pods were made from, what it holds stays
  // charged as it was; where that is so from the beginning, as its pods say.
  const bool is_readable = !wish.needs.empty() && (!holds || is_of_this_spec(job, status.assignment));
  state.was_readable = state.was_readable || is_readable;
  const bool is_renewed = is_readable || !holds || !cluster.knows(key);
  if (is_renewed) {
    state.role_names.clear();
    for (const auto& r : job.spec.roles) state.role_names.push_back(r.name);
  }
  Impl::drop_decision(state, holds, step);
  const crds::Assignment none;
  Impl::Payers payers{state.was_readable ? status.assignment : none, step.displaced};
  payers.may_leave = returns || (holds && state.was_readable && crds::is_elastic(job.spec));
  // What is decided and not written down yet has changed who leaves; that stands.
  if (holds && state.decision) payers.leaving = cluster.leaving(key);
  const auto leaving = impl_->charge_lingering(key, job, wish, payers, pods);
  const bool is_promised = returns && !status.nominated.pods.empty();
  if (!holds && !step.wants_place && leaving.empty() && !is_promised) {
    cluster.remove_job(key);
    state.is_known = false;
    return impl_->touch();
  }
  const bool was_promised = cluster.nominated(key) || !state.is_known;
  state.is_known = true;
  if (is_renewed) cluster.upsert_job(impl_->to_job(job, wish, status));
  if (holds) {
    // A move, or another size, that is not written down yet: placement has it as it will be already.
    const bool is_ahead = state.decision && (state.decision->kind == Decision::Kind::kMove ||
                                             state.decision->kind == Decision::Kind::kGrow ||
                                             state.decision->kind == Decision::Kind::kShrink);
    if (!state.decision && (!leaving.empty() || !cluster.leaving(key).empty()))
      cluster.set_leaving(key, leaving);
    if (!is_ahead) cluster.set_assignment(key, Impl::to_assignment(state, job, status), step.displaced);
    cluster.set_progress(key, Impl::to_progress(job, status));
    return impl_->touch();
  }
  cluster.set_leaving(key, leaving);
  impl_->keep_promise(key, job, status.nominated, was_promised);
  if (leaving.empty() && !state.decision && !cluster.nominated(key)) cluster.clear_assignment(key);
  impl_->touch();
}

void PlacementModel::forget(const client::Key& key, const std::vector<client::Ptr<client::Pod>>& pods) {
  const auto found = impl_->jobs.find(key);
  if (found != impl_->jobs.end()) {
    for (const auto& pod : found->second.lingering) impl_->give_back(pod);
    impl_->jobs.erase(found);
  }
  impl_->cluster.remove_job(key);
  for (const auto& pod : pods) foreign_pod(pod);
  impl_->touch();
}

bool PlacementModel::plan_was_cut_off() const {
  return impl_->plan_was_cut_off;
}

std::vector<client::Key> PlacementModel::plan(crds::Time now) {
  const auto plan = pl::plan(impl_->cluster, to_time(now));
  impl_->plan_was_cut_off = plan.is_cut_off;
  std::vector<client::Key> news;
  for (const auto& d : plan.decisions) {
    const auto found = impl_->jobs.find(d.job);
    if (found == impl_->jobs.end()) continue;
    auto& job = found->second;
    Decision decision;
    decision.generation = job.generation;
    decision.attempt = job.attempt;
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
      case pl::Decision::Kind::kMove:
        decision.kind = d.kind == pl::Decision::Kind::kMove ? Decision::Kind::kMove : Decision::Kind::kEvict;
        decision.reason = pl::to_string(d.reason);
        break;
      case pl::Decision::Kind::kGrow:
        decision.kind = Decision::Kind::kGrow;
        break;
      case pl::Decision::Kind::kShrink:
        decision.kind = Decision::Kind::kShrink;
        decision.reason = pl::to_string(d.reason);
        break;
    }
    decision.places = impl_->to_places(job, d.assignment);
    job.decision = std::move(decision);
    news.push_back(d.job);
  }
  news.insert(news.end(), plan.pending_reasons.begin(), plan.pending_reasons.end());
  impl_->wake = plan.wake;
  return news;
}
std::optional<crds::Time> PlacementModel::wake_at() const {
  if (!impl_->wake) return std::nullopt;
  return std::chrono::ceil<std::chrono::seconds>(
      std::chrono::sys_time<std::chrono::milliseconds>{std::chrono::milliseconds{impl_->wake->ms}});
}

std::optional<Decision> PlacementModel::decision(const client::Key& key) const {
  const auto found = impl_->jobs.find(key);
  return found == impl_->jobs.end() ? std::nullopt : found->second.decision;
}
void PlacementModel::withdraw(const client::Key& key) {
  const auto found = impl_->jobs.find(key);
  if (found == impl_->jobs.end() || !found->second.decision) return;
  if (found->second.decision->kind != Decision::Kind::kStart) return;
  found->second.decision.reset();
  impl_->cluster.clear_assignment(key);
  impl_->touch();
}
void PlacementModel::decide(const client::Key& key, Decision decision) {
  const auto found = impl_->jobs.find(key);
  if (found != impl_->jobs.end()) found->second.decision = std::move(decision);
}
std::optional<crds::Nomination> PlacementModel::nomination(const client::Key& key) const {
  const auto found = impl_->jobs.find(key);
  if (found == impl_->jobs.end() || !impl_->cluster.nominated(key)) return std::nullopt;
  const pl::Assignment& a = *impl_->cluster.assignment(key);
  crds::Nomination n{found->second.generation, a.pool, {}};
  for (Place& p : impl_->to_places(found->second, a))
    n.pods.push_back({std::move(p.role), p.index, std::move(p.node), std::move(p.gpus), 0});
  return n;
}
std::optional<crds::Waiting> PlacementModel::verdict(const client::Key& key) const {
  const auto* v = impl_->cluster.pending_reason(key);
  return v == nullptr ? std::nullopt : std::optional(to_waiting(*v));
}

GpuMeans PlacementModel::gpu_means(const std::string& pool) const {
  const auto found = impl_->gpu_means.find(pool);
  return found == impl_->gpu_means.end() ? GpuMeans{"nvidia.com/gpu"} : found->second;
}
crds::MilliGpu PlacementModel::charge_of(const crds::PodAssignment& place, const PodNeeds& needs) const {
  const auto node = impl_->nodes.find(place.node);
  pl::RoleSpec role;
  role.gpus = needs.gpus;
  role.share = needs.share;
  const auto charge =
      pl::charge_on(node == impl_->nodes.end() ? pl::NodeSpec{} : impl_->to_node(node->second), role);
  return crds::MilliGpu{charge.value};
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
