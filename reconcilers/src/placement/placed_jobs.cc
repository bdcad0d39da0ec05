#include "muster/reconcilers/placement/placed_jobs.h"

#include <algorithm>
#include <tuple>

#include "muster/reconcilers/lifecycle/job_status.h"
#include "muster/reconcilers/placement/placement_specs.h"
#include "muster/reconcilers/pods/elastic.h"
#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/pods/pod_end.h"
#include "muster/reconcilers/pods/pod_identity.h"

namespace muster::reconcilers {
namespace pl = placement;
namespace {

bool has_same_share(const pl::OtherPod& pod, const PodNeeds& needs) {
  const auto &is = pod.share, &asks = needs.share;
  return is.kind == asks.kind && is.milli == asks.milli && is.memory == asks.memory &&
         is.overcommit == asks.overcommit && is.profile == asks.profile && pod.gpu_count == needs.gpus;
}

// Places of the assignment by what they hold.
using Held = std::multiset<std::tuple<std::string, std::string, std::string>>;  // role, node, GPUs
Held held_by(const crds::Assignment& a, const std::vector<std::size_t>& displaced) {
  Held held;
  for (std::size_t i = 0; i < a.pods.size(); ++i) {
    if (std::ranges::find(displaced, i) == displaced.end())
      held.emplace(a.pods[i].role, a.pods[i].node, gpu_list(a.pods[i].gpus));
  }
  return held;
}
// Whether an earlier pod stands at a place that the assignment still has. Then that place pays for the pod.
// Each place pays for one.
bool takes_up(Held& held, const client::Pod& pod, const PodIdentity& id) {
  const auto* gpus = client::find_value(pod.annotations, kGpusAnnotation);
  const auto found = held.find({id.role, pod.node_name, gpus == nullptr ? "" : *gpus});
  if (found == held.end()) return false;
  held.erase(found);
  return true;
}
// The place of the assignment that the pod was made for; nullopt: none.
std::optional<std::size_t> place_of(const crds::Assignment& a, const PodIdentity& id) {
  if (id.attempt != a.attempt) return std::nullopt;
  const auto is_its = [&](const crds::PodAssignment& p) { return p.index == id.index && p.role == id.role; };
  // Gangs of one role mostly stand in the order of their indexes.
  auto i = static_cast<std::size_t>(id.index);
  if (i >= a.pods.size() || !is_its(a.pods[i]))
    i = static_cast<std::size_t>(std::ranges::find_if(a.pods, is_its) - a.pods.begin());
  if (i == a.pods.size() || a.pods[i].tries != id.tries) return std::nullopt;
  return i;
}

pl::Assignment to_promise(const crds::TrainingJob& job, const crds::Nomination& n) {
  crds::Assignment a;
  a.pool = n.pool;
  a.pods = n.pods;
  return assignment_spec(job.spec.roles, a, {});
}

std::int32_t size_of_role(const crds::Assignment& a, const std::string& role) {
  return static_cast<std::int32_t>(
      std::ranges::count_if(a.pods, [&](const crds::PodAssignment& p) { return p.role == role; }));
}

}  // namespace

PlacedJobs::PlacedJobs(pl::Cluster& cluster, OtherPods& pods, std::function<void()> changed, Options options)
    : cluster_(cluster), pods_(pods), changed_(std::move(changed)), options_(std::move(options)) {}

void PlacedJobs::charge_namespace(const std::string& ns, const std::string& project) {
  if (project.empty()) {
    project_of_.erase(ns);
  } else {
    project_of_[ns] = project;
  }
}
std::string PlacedJobs::project_of(const std::string& ns) const {
  const auto found = project_of_.find(ns);
  return found == project_of_.end() ? std::string() : found->second;
}

// The place that a pod on its way out still holds, in terms of its job's spec. nullopt: the pod was made from
// another spec, so what it holds is what it says itself.
std::optional<pl::PodPlace> PlacedJobs::leaving_place(const JobState& job, const Translation& wish,
                                                      const client::Pod& pod) const {
  const auto id = identity_of(pod);
  if (!id || pod.node_name.empty() || is_terminal(pod)) return std::nullopt;
  const auto role = std::ranges::find(job.role_names, id->role);
  const auto r = static_cast<std::size_t>(role - job.role_names.begin());
  if (r >= wish.needs.size()) return std::nullopt;
  const PodNeeds& needs = wish.needs[r];
  auto held = pods_.as_other(pod, "", true);
  if (!has_same_share(held, needs)) return std::nullopt;
  // Admission may have added to what the template asks for: a LimitRange its defaults, a mesh its sidecar. So
  // the amounts are compared only where nobody has seen what the pod was made from.
  const bool is_seen = id->attempt == job.seen_attempt && r < job.seen_requests.size();
  const PodRequests of_pod{crds::MilliCpu{pod.milli_cpu}, crds::Bytes{pod.memory_bytes}, held.named};
  if ((is_seen ? job.seen_requests[r] : of_pod) != needs.requests) return std::nullopt;
  return pl::PodPlace{static_cast<std::int32_t>(r), id->index, pod.node_name, std::move(held.gpus)};
}
// Charges the pods of the job that its assignment does not pay for: pods of earlier attempts and tries,
// members that left, and pods at places that hold nothing any more. If the job goes back to the queue, or is
// elastic, the pods count as the job's own that are leaving. Then their places are returned: they may be
// nominated to others, and a job that holds nothing else is a claimant again when the pods are gone.
std::vector<pl::PodPlace> PlacedJobs::charge_lingering(const client::Key& key, const crds::TrainingJob& job,
                                                       const Translation& wish, const Payers& payers,
                                                       const std::vector<client::Ptr<client::Pod>>& pods) {
  const crds::Assignment& a = payers.assignment;
  JobState& state = jobs_[key];
  std::vector<pl::PodPlace> leaving;
  std::set<std::string> now;
  std::optional<Held> held;
  const auto charge_itself = [&](const client::Ptr<client::Pod>& pod, const std::string& project) {
    pods_.charge(pod, project, true);
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
      pods_.give_back(pod->meta.key());
      continue;
    }
    auto place = payers.may_leave ? leaving_place(state, wish, *pod) : std::nullopt;
    if (place && may_leave(*place)) {
      pods_.give_back(pod->meta.key());
      leaving.push_back(std::move(*place));
      continue;
    }
    charge_itself(pod, project_of(job.metadata.ns));
  }
  for (const auto& gone : state.lingering) {
    if (!now.contains(gone)) pods_.give_back(gone);
  }
  state.lingering = std::move(now);
  return leaving;
}

// Tells placement of places that are nominated in the status and that it does not know of. That happens after
// a restart of ours, or when a changed spec (less is left of maxRuntime, for example) has made the job ask
// anew.
void PlacedJobs::keep_promise(const client::Key& key, const crds::TrainingJob& job, const crds::Nomination& n,
                              bool is_new) {
  if (n.pods.empty() || !is_new || n.generation != job.metadata.generation || cluster_.nominated(key)) return;
  cluster_.nominate(key, to_promise(job, n));
}

// Places of the record at which placement counts nothing of the job, neither as held nor as leaving: those
// that are displaced. And while a decision that is not written down yet takes places away, those that were
// displaced when it was made and are not now (their node is back). A pod that stands there pays for itself.
std::vector<std::size_t> PlacedJobs::uncharged(const client::Key& key, const pl::Assignment& recorded,
                                               std::vector<std::size_t> displaced) const {
  const pl::Assignment* held = cluster_.nominated(key) ? nullptr : cluster_.assignment(key);
  if (held != nullptr && held->pods == recorded.pods) return displaced;
  std::set<std::tuple<std::int32_t, std::int32_t, std::string, std::vector<std::int32_t>>> counted;
  const auto count = [&](const std::vector<pl::PodPlace>& places) {
    for (const auto& place : places) counted.emplace(place.role, place.index, place.node, place.gpus);
  };
  if (held != nullptr) count(held->pods);
  count(cluster_.leaving(key));
  for (std::size_t i = 0; i < recorded.pods.size(); ++i) {
    const auto& place = recorded.pods[i];
    const bool is_counted = counted.contains({place.role, place.index, place.node, place.gpus});
    if (!is_counted && std::ranges::find(displaced, i) == displaced.end()) displaced.push_back(i);
  }
  return displaced;
}

// Drops a decision that was acted on, or that cannot be acted on any more. A decision to take something
// stands until it is taken, because the plan counts on it.
void PlacedJobs::drop_decision(JobState& state, bool holds, const Step& step) {
  if (!state.decision) return;
  const auto kind = state.decision->kind;
  const bool starts = kind == JobDecision::Kind::kStart;
  const bool resizes = kind == JobDecision::Kind::kGrow || kind == JobDecision::Kind::kShrink;
  if (resizes) {
    if (!holds || step.settles) state.decision.reset();
    return;
  }
  const bool takes = kind == JobDecision::Kind::kEvict || kind == JobDecision::Kind::kBackOff ||
                     kind == JobDecision::Kind::kMove;
  const bool is_taken =
      !holds || step.serves_on || (state.decision->surges && state.attempt != state.decision->attempt);
  if (starts ? (holds || !step.wants_place) : (takes ? is_taken : true)) state.decision.reset();
}

// As the step leaves its status.
pl::JobSpec PlacedJobs::to_job(const client::Key& key, const crds::TrainingJob& job, const Translation& wish,
                               const crds::TrainingJobStatus& status) const {
  pl::JobSpec s = job_spec(job, project_of(job.metadata.ns), wish.priority, wish.needs, wish.volumes);
  s.avoid_nodes.clear();
  for (const auto& refusal : status.node_refusals) s.avoid_nodes.push_back(refusal.node);
  const auto& a = status.assignment;
  s.preemptible = crds::counts_as_preemptible(job.spec, a, cluster_.lends());
  const bool may_grow = !wish.invalid && !wish.blocked && a.succeeded.empty();
  for (std::size_t r = 0; a.attempt != 0 && !may_grow && r < s.roles.size(); ++r)
    s.roles[r].max_replicas = std::min(s.roles[r].max_replicas, size_of_role(a, s.roles[r].name));
  s.serves = wish.serves;
  s.service = wish.service;
  s.max_surge = a.moved_in_vain.value_or(false) ? 0 : wish.max_surge;
  if (wish.spread) keep_apart(s, *wish.spread);
  if (wish.serves) keep_ports_apart(s, wish.needs);
  if (options_.complete) options_.complete(key, s);
  return s;
}

// The assignment in terms of the roles that placement knows of the job. If the pods are charged for
// themselves, their places get no role and cost nothing.
pl::Assignment PlacedJobs::to_assignment(const JobState& state, const crds::TrainingJob& job,
                                         const crds::TrainingJobStatus& status) {
  // Seniority is that of the admission, not of a restart in place.
  const auto* admitted = crds::find_condition(status.conditions, "Admitted");
  auto a = assignment_spec(
      job.spec.roles, status.assignment,
      admitted != nullptr ? to_time(admitted->last_transition_time) : to_time(status.assignment.admitted_at));
  for (std::size_t i = 0; i < a.pods.size(); ++i) {
    const auto role = std::ranges::find(state.role_names, status.assignment.pods[i].role);
    const bool is_charged = state.was_readable && role != state.role_names.end();
    a.pods[i].role = is_charged ? static_cast<std::int32_t>(role - state.role_names.begin()) : -1;
  }
  return a;
}

// The time that earlier attempts ran counts, as with maxRuntime.
std::optional<pl::LearnedEnd> PlacedJobs::learned_end(const crds::TrainingJob& job, const Translation& wish,
                                                      const crds::TrainingJobStatus& status) const {
  const auto began = status.started_at ? status.started_at : status.assignment.admitted_at;
  if (status.assignment.attempt == 0) return std::nullopt;
  if (!options_.usual_run_times || job.spec.max_runtime || wish.serves || !began) return std::nullopt;
  const auto usual = options_.usual_run_times(project_of(job.metadata.ns), user_of(job), size_of(job, wish));
  if (!usual) return std::nullopt;
  const crds::Duration before{status.run_seconds};
  return pl::LearnedEnd{to_time(*began + usual->median - before),
                        to_time(*began + usual->percentile_90 - before)};
}

pl::Progress PlacedJobs::to_progress(const crds::TrainingJob& job, const Translation& wish,
                                     const crds::TrainingJobStatus& status) const {
  pl::Progress p = progress_spec(job.spec, status);
  p.learned_end = learned_end(job, wish, status);
  if (!options_.instant_is_unknown) return p;
  for (auto* took : {&p.start_took, &p.resize_took}) {
    if (*took == pl::Duration{}) took->reset();
  }
  return p;
}

std::vector<Place> PlacedJobs::to_places(const JobState& job, const pl::Assignment& a) {
  std::vector<Place> places;
  places.reserve(a.pods.size());
  for (const auto& p : a.pods) {
    const auto role = static_cast<std::size_t>(p.role);  // an edit may have removed it
    if (role < job.role_names.size()) places.push_back({job.role_names[role], p.index, p.node, p.gpus});
  }
  return places;
}

void PlacedJobs::update(const client::Key& key, const crds::TrainingJob& job, const Translation& wish,
                        const Step& step, const std::vector<client::Ptr<client::Pod>>& pods) {
  auto& state = jobs_[key];
  const auto& status = step.status;
  const bool holds = status.assignment.attempt != 0;
  if (state.decision && state.generation != job.metadata.generation &&
      state.decision->kind == JobDecision::Kind::kStart)
    state.decision.reset();
  state.generation = job.metadata.generation;
  state.attempt = status.assignment.attempt;
  // If the spec cannot be read any more, or is not what the pods were made from, what the job holds stays
  // charged as it was. If that was so from the beginning, it is charged as its pods say.
  const bool is_readable = !wish.needs.empty() && (!holds || is_of_this_spec(job, status.assignment));
  state.was_readable = state.was_readable || is_readable;
  const bool is_renewed = is_readable || !holds || !cluster_.knows(key);
  if (is_renewed) {
    state.role_names.clear();
    for (const auto& r : job.spec.roles) state.role_names.push_back(r.name);
  }
  drop_decision(state, holds, step);
  if (holds)
    update_holder(key, job, wish, step, pods, is_renewed);
  else
    update_other(key, job, wish, step, pods);
  changed_();
}

void PlacedJobs::update_holder(const client::Key& key, const crds::TrainingJob& job, const Translation& wish,
                               const Step& step, const std::vector<client::Ptr<client::Pod>>& pods,
                               bool is_renewed) {
  auto& state = jobs_[key];
  const auto& status = step.status;
  state.is_known = true;
  if (is_renewed) cluster_.upsert_job(to_job(key, job, wish, status));
  if (is_renewed && state.was_readable) {
    state.seen_attempt = status.assignment.attempt;
    state.seen_requests.clear();
    for (const PodNeeds& needs : wish.needs) state.seen_requests.push_back(needs.requests);
  }
  // A move, or another size, that is not written down yet: placement has it as it will be already.
  const bool is_ahead = state.decision && (state.decision->kind == JobDecision::Kind::kMove ||
                                           state.decision->kind == JobDecision::Kind::kGrow ||
                                           state.decision->kind == JobDecision::Kind::kShrink);
  const auto recorded = to_assignment(state, job, status);
  if (!is_ahead) cluster_.set_assignment(key, recorded, step.displaced);
  const crds::Assignment none;
  Payers payers{state.was_readable ? status.assignment : none, uncharged(key, recorded, step.displaced)};
  // A replica that moves is there twice for a while.
  payers.may_leave = state.was_readable && (crds::is_elastic(job.spec) || wish.serves);
  // A decision that is not written down yet has already changed who leaves. That stands.
  if (state.decision) payers.leaving = cluster_.leaving(key);
  const auto leaving = charge_lingering(key, job, wish, payers, pods);
  if (!state.decision && (!leaving.empty() || !cluster_.leaving(key).empty()))
    cluster_.set_leaving(key, leaving);
  cluster_.set_progress(key, to_progress(job, wish, status));
}

void PlacedJobs::update_other(const client::Key& key, const crds::TrainingJob& job, const Translation& wish,
                              const Step& step, const std::vector<client::Ptr<client::Pod>>& pods) {
  auto& state = jobs_[key];
  const auto& status = step.status;
  const bool returns = !job.spec.suspend && !is_finished(status) && !wish.invalid;
  const crds::Assignment none;
  const auto leaving = charge_lingering(
      key, job, wish, {state.was_readable ? status.assignment : none, step.displaced, returns}, pods);
  const bool is_promised = returns && !status.nominated.pods.empty();
  if (!step.wants_place && leaving.empty() && !is_promised) {
    cluster_.remove_job(key);
    state.is_known = false;
    return;
  }
  const bool was_promised = cluster_.nominated(key) || !state.is_known;
  state.is_known = true;
  cluster_.upsert_job(to_job(key, job, wish, status));
  cluster_.set_leaving(key, leaving);
  keep_promise(key, job, status.nominated, was_promised);
  if (leaving.empty() && !state.decision && !cluster_.nominated(key)) cluster_.clear_assignment(key);
}

void PlacedJobs::forget(const client::Key& key) {
  const auto found = jobs_.find(key);
  if (found != jobs_.end()) {
    for (const auto& pod : found->second.lingering) pods_.give_back(pod);
    jobs_.erase(found);
  }
  cluster_.remove_job(key);
}

bool PlacedJobs::charges(const client::Key& key, std::int32_t attempt) const {
  const auto found = jobs_.find(key);
  return found != jobs_.end() && found->second.attempt == attempt && cluster_.assignment(key) != nullptr;
}

void PlacedJobs::job_pod(const client::Key& job, const crds::Assignment& assignment,
                         const client::Ptr<client::Pod>& pod, bool is_new) {
  const auto known = jobs_.find(job);
  if (reconcilers::is_terminal(*pod)) return pods_.give_back(pod->meta.key());
  if (!is_new || known == jobs_.end()) return;
  const auto id = identity_of(*pod);
  if (known->second.was_readable && id && place_of(assignment, *id))
    return pods_.give_back(pod->meta.key());  // what an earlier pod of that name held
  pods_.charge(pod, project_of(pod->meta.ns), true);
  known->second.lingering.insert(pod->meta.key());
}

const JobDecision* PlacedJobs::note(const pl::Decision& d) {
  const auto found = jobs_.find(d.job);
  if (found == jobs_.end()) return nullptr;
  auto& job = found->second;
  JobDecision decision;
  decision.generation = job.generation;
  decision.attempt = job.attempt;
  decision.pool = d.assignment.pool;
  decision.message = d.message;
  decision.cost_seconds = to_seconds(d.cost);
  decision.owed = d.owed;
  decision.surges = d.surges;
  switch (d.kind) {
    case pl::Decision::Kind::kStart:
      decision.kind = JobDecision::Kind::kStart;
      break;
    case pl::Decision::Kind::kReplace:
      decision.kind = JobDecision::Kind::kReplace;
      break;
    case pl::Decision::Kind::kEvict:
    case pl::Decision::Kind::kMove:
      decision.kind =
          d.kind == pl::Decision::Kind::kMove ? JobDecision::Kind::kMove : JobDecision::Kind::kEvict;
      decision.reason = pl::to_string(d.reason);
      break;
    case pl::Decision::Kind::kGrow:
      decision.kind = JobDecision::Kind::kGrow;
      break;
    case pl::Decision::Kind::kShrink:
      decision.kind = JobDecision::Kind::kShrink;
      decision.reason = pl::to_string(d.reason);
      break;
  }
  decision.places = to_places(job, d.assignment);
  job.decision = std::move(decision);
  return &*job.decision;
}

std::optional<JobDecision> PlacedJobs::decision(const client::Key& key) const {
  const auto found = jobs_.find(key);
  return found == jobs_.end() ? std::nullopt : found->second.decision;
}
void PlacedJobs::withdraw(const client::Key& key) {
  const auto found = jobs_.find(key);
  if (found == jobs_.end() || !found->second.decision) return;
  if (found->second.decision->kind != JobDecision::Kind::kStart) return;
  found->second.decision.reset();
  cluster_.clear_assignment(key);
  changed_();
}
void PlacedJobs::decide(const client::Key& key, JobDecision decision) {
  const auto found = jobs_.find(key);
  if (found != jobs_.end()) found->second.decision = std::move(decision);
}
std::optional<crds::Nomination> PlacedJobs::nomination(const client::Key& key) const {
  const auto found = jobs_.find(key);
  if (found == jobs_.end() || !cluster_.nominated(key)) return std::nullopt;
  const pl::Assignment& a = *cluster_.assignment(key);
  crds::Nomination n{found->second.generation, a.pool, {}};
  for (Place& p : to_places(found->second, a))
    n.pods.push_back({std::move(p.role), p.index, std::move(p.node), std::move(p.gpus), 0});
  return n;
}

}  // namespace muster::reconcilers
