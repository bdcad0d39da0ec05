// What becomes of gangs: advance() decides it, as on a cluster, and is looked to here. What it says is done
// to the pods (pods.cc), and told as events.
#include <algorithm>
#include <stdexcept>

#include "muster/reconcilers/lifecycle/job_status.h"
#include "muster/reconcilers/lifecycle/orphan.h"
#include "muster/reconcilers/placement/placement_specs.h"
#include "muster/reconcilers/pods/pod_end.h"
#include "world/occupancy.h"
#include "world/world.h"

namespace muster::simulate {
namespace {

// A gang comes to rest after a few looks; one that does not never will.
constexpr int kMaxLooks = 1000;

// Why its pods are asked to go, of a job that has failed for this reason.
std::string why_ended(const std::string& reason) {
  if (reason == "MaxRuntimeExceeded") return "MaxRuntime";
  return reason == "IdleTimeout" ? "Idle" : reason;
}

Phase phase_of(crds::Phase phase) {
  const auto name = std::ranges::find(kPhaseNames, crds::to_string(phase));
  return static_cast<Phase>(name - kPhaseNames.begin());
}

bool is_evicted_for_others(const std::string& reason) {
  return reason == "Reclaimed" || reason == "Preempted";
}

}  // namespace

std::string_view object_of(std::string_view gang_id) {
  const std::size_t slash = gang_id.find('/', gang_id.find('/') + 1);
  return gang_id.substr(0, slash);
}

// --- what a reconciler does

// As often as there is something to do at this instant. `beneficiary`: for whom it is told to change.
void World::reconcile(Gang& g, const std::string& beneficiary) {
  std::optional<crds::Time> wake;
  for (int looks = 0; look(g, beneficiary, wake); ++looks) {
    if (looks == kMaxLooks) throw std::logic_error(g.id + " does not come to rest");
  }
  if (g.owner->is_service) to_serve_.insert(g.owner->source->key);
  if (!g.owner->array_key.empty()) to_serve_.insert(g.owner->array_key);
  if (reconcilers::is_finished(g.job.status)) {
    tell_end(g);
  } else {
    look_again(g, wake);
  }
  count_losses(g);
}

// A namespace that has lost its Project gives back what runs there, as on a cluster.
std::optional<reconcilers::JobDecision> World::decision_about(const Gang& g) const {
  auto decision = placed_.decision(g.id);
  const bool is_orphan = g.job.status.assignment.attempt != 0 && placed_.project_of(g.owner->ns).empty();
  return decision || !is_orphan ? decision : reconcilers::eviction_of_orphan(g.job);
}

reconcilers::DependencyVerdict World::dependencies_of(const Gang& g) const {
  return g.owner->is_service ? reconcilers::DependencyVerdict{} : verdict_on_dependencies(g.job, g.owner->ns);
}

reconcilers::DependencyVerdict World::verdict_on_dependencies(const crds::TrainingJob& job,
                                                              const std::string& ns) const {
  return reconcilers::judge_dependencies(job, [&](const std::string& name) -> const crds::TrainingJob* {
    const auto other = jobs_by_key_.find(client::make_key(ns, name));
    if (other == jobs_by_key_.end()) return nullptr;
    return other->second->is_array() ? &other->second->array : &other->second->gangs.front()->job;
  });
}

// Jobs that wait for this one, which was made, edited or deleted, or has ended.
void World::look_at_dependents(const Workload& w) {
  if (w.is_service) return;
  std::vector<Gang*> dependents;
  for (const auto& [key, other] : depending_) {
    if (other == &w || other->ns != w.ns || other->finished) continue;
    if (other->is_array()) {
      to_serve_.insert(other->source->key);
      continue;
    }
    Gang& g = *other->gangs.front();
    if (std::ranges::any_of(reconcilers::awaited_by(g.job), [&](const auto& d) { return d.name == w.name; }))
      dependents.push_back(&g);
  }
  for (Gang* g : dependents) reconcile(*g);
}

// Why it waits, where somebody looks at its status: the service of a replica.
std::optional<crds::Waiting> World::verdict_about(const Gang& g) const {
  if (!g.owner->is_service || g.state != Gang::State::kWaiting) return std::nullopt;
  const auto* verdict = cluster.pending_reason(g.id);
  return verdict == nullptr ? std::nullopt : std::optional(reconcilers::to_waiting(*verdict));
}

// True: something has changed, and there may be more to do.
bool World::look(Gang& g, const std::string& beneficiary, std::optional<crds::Time>& wake) {
  const auto decision = decision_about(g);
  const auto nomination = placed_.nomination(g.id);
  std::vector<client::Ptr<client::Pod>> pods;
  pods.reserve(g.pods.size());
  for (const GangPod& p : g.pods) pods.push_back(p.pod);
  reconcilers::Observed seen{.job = g.job, .pods = pods, .now = to_stamp(now), .invalid = g.wish.invalid};
  seen.invalid_reason = g.wish.invalid_reason;
  seen.decision = decision ? &*decision : nullptr;
  const auto verdict = verdict_about(g);
  seen.verdict = verdict ? &*verdict : nullptr;
  seen.nomination = nomination ? &*nomination : nullptr;
  seen.node_usable = [this](const std::string& name) { return node_spec(name).usable; };
  seen.health = [this](const std::string& name) { return health_of(name); };
  seen.node_lost = [this](const std::string& name) { return is_dead(name); };
  seen.dependencies = dependencies_of(g);
  seen.idleness = idleness_of(g);
  seen.serves = g.owner->is_service;
  if (g.last_words) seen.reports = {*g.last_words};
  if (reconcilers::asks_for_parts_of_gpus(g.wish.needs))
    seen.charge = [&](const crds::PodAssignment& place) { return charge_of(g, place); };
  if (reconcilers::asks_for_no_gpu(g.wish.needs)) {
    seen.cpus = [&](const crds::PodAssignment& place) {
      return reconcilers::cpus_of(g.job.spec, g.wish.needs, place);
    };
  }
  if (reconcilers::asks_for_named(g.wish.needs)) {
    seen.named = [&](const crds::PodAssignment& place) {
      return reconcilers::named_of(g.job.spec, g.wish.needs, place);
    };
  }
  const reconcilers::Step step = reconcilers::advance(seen);

  const bool was_whole = is_whole(g);
  const bool moves = decision && decision->kind == reconcilers::JobDecision::Kind::kMove;
  const bool differs = step.status != g.job.status;
  const bool goes_on = g.job.status.started_at && step.status.assignment.attempt == g.works_in;
  const bool is_smaller = step.status.assignment.pods.size() < g.job.status.assignment.pods.size();
  // It may grow from now on.
  if (!g.job.status.started_at && step.status.started_at && crds::is_elastic(g.job.spec)) changed_ = true;
  if (step.wants_place && !cluster.knows(g.id)) changed_ = true;  // it is back after a delay
  g.job.status = step.status;
  if (goes_on && is_smaller) stand_still(g);
  placed_.update(g.id, g.job, g.wish, step, pods);
  if (differs) stop_former_work(g, was_whole);
  if (differs || step.displaced.size() > 0 || g.state == Gang::State::kBroken) {
    const bool is_displaced = !step.displaced.empty();
    g.state = step.status.assignment.attempt != 0
                  ? (is_displaced ? Gang::State::kBroken : Gang::State::kRunning)
              : !reconcilers::is_finished(step.status) && !g.job.spec.suspend && !g.wish.invalid
                  ? Gang::State::kWaiting
                  : Gang::State::kOut;
    if (is_displaced) changed_ = true;
  }
  settle(g);
  tell_step(g, step, moves, beneficiary);
  const bool some_go = tell_to_go(g, step.remove, was_whole);
  for (const std::size_t i : step.create) make_pod(g, step.status.assignment.pods[i]);
  if (some_go || !step.create.empty()) settle(g);
  tell_release(g);
  follow_work(g);
  wake = step.wake_at;
  return differs || some_go || !step.create.empty();
}

// What follows from its status and its pods.
void World::settle(Gang& g) {
  const auto& status = g.job.status;
  const auto* admitted = crds::find_condition(status.conditions, "Admitted");
  const pl::Time since =
      reconcilers::to_time(admitted == nullptr ? crds::Time{} : admitted->last_transition_time);
  g.assignment = reconcilers::assignment_spec(g.job.spec.roles, status.assignment, since);
  find_pods_beside(g);
  charge(g);
  if (status.assignment.attempt != 0) g.attempt = status.assignment.attempt;
  if (status.assignment.attempt == 0 && status.nominated.pods.empty()) g.moving_to.reset();
}

// Pods that leave wake it themselves.
void World::look_again(Gang& g, const std::optional<crds::Time>& at) {
  const bool is_awaited = g.job.status.assignment.attempt != 0 || g.pods.empty();
  const auto due = at && is_awaited ? std::optional(reconcilers::to_time(*at)) : std::nullopt;
  if (due == g.look_at) return;
  g.look_at = due;
  ++g.look_version;
  if (due && *due > now) agenda_add(*due, Due::kLook, &g, 0, g.look_version);
}

Phase World::phase(const Workload& w) const {
  if (w.finished) return w.failed ? Phase::kFailed : Phase::kSucceeded;
  if (w.is_array()) return phase_of(w.array.status.phase.value_or(crds::Phase::kQueued));
  const bool is_suspended = !w.is_service && (w.job().job.spec.suspend || is_suspended_by_array(w));
  if (is_suspended && w.invalid.empty())
    return std::ranges::any_of(w.gangs.front()->pods, &GangPod::leaves) ? Phase::kCheckpointing
                                                                        : Phase::kSuspended;
  Phase phase = Phase::kRunning;
  for (const auto& g : w.gangs) {
    if (g->leaves_whole) return Phase::kCheckpointing;
    const bool starts = !g->job.status.started_at && w.behaviour().starts_in.count() > 0;
    phase = std::min(phase, g->state != Gang::State::kRunning ? Phase::kQueued
                            : starts                          ? Phase::kStarting
                            : g->stands_until                 ? Phase::kResizing
                                                              : Phase::kRunning);
  }
  return phase;
}

// --- what is told

void World::append_pods(const Gang& g, const std::vector<crds::PodAssignment>& places, Pods& pods) const {
  for (const auto& p : places) pods.push_back({p.role, index_in_service(g, p.role, p.index), p.node, p.gpus});
}

std::shared_ptr<const Pods> World::pods_of(const Workload& w) const {
  auto pods = std::make_shared<Pods>();
  for (const auto& g : w.gangs) append_pods(*g, g->job.status.assignment.pods, *pods);
  return pods;
}

void World::tell(EventType type, const Workload& w, std::string reason, std::string beneficiary,
                 std::shared_ptr<const Pods> pods) {
  ++event_counts[static_cast<std::size_t>(type)];
  if (pods == nullptr) pods = pods_of(w);
  events.push_back({to_instant(now), type, w.key, std::move(reason), std::string(object_of(beneficiary)),
                    std::move(pods)});
}

// The notes that a cluster would record as events of the job.
void World::tell_step(Gang& g, const reconcilers::Step& step, bool moves, const std::string& beneficiary) {
  Workload& w = *g.owner;
  for (const reconcilers::Note& note : step.notes) {
    if (note.action == "Admit") {
      const bool again = g.moving_to != nullptr;
      g.moving_to.reset();
      g.waits_for = pl::Reason::kNone;
      tell(again ? EventType::kRestarted : EventType::kAdmitted, w, again ? "Moved" : "");
    } else if (note.action == "Evict") {
      g.leaves_whole = true;
      g.waits_for = pl::Reason::kNone;
      const auto& places = step.status.nominated.pods;
      if (moves && !places.empty()) {
        ++w.moves;
        auto target = std::make_shared<Pods>();
        append_pods(g, places, *target);
        g.moving_to = std::move(target);
        tell(EventType::kMoved, w, note.reason, beneficiary, g.moving_to);
      } else {
        w.preemptions += is_evicted_for_others(note.reason) ? 1 : 0;
        metrics.preemptions += is_evicted_for_others(note.reason) ? 1 : 0;
        tell(EventType::kEvicted, w, note.reason, beneficiary);
      }
    } else if (note.action == "Move") {  // its pods stay until those elsewhere are ready
      if (note.reason == "MoveFailed") continue;
      ++w.moves;
      auto target = std::make_shared<Pods>();
      append_pods(g, step.status.assignment.pods, *target);
      tell(EventType::kMoved, w, note.reason, beneficiary, std::move(target));
    } else if (note.action == "Fail") {
      g.leaves_whole = true;
      g.ended_as = note.reason;
      tell(EventType::kEvicted, w, why_ended(note.reason));
    } else if (note.action == "Shrink") {
      tell(EventType::kShrunk, w, note.reason == "MemberLost" ? "NodeFailed" : note.reason, beneficiary);
    } else if (note.action == "Grow") {
      tell(EventType::kGrown, w, "", beneficiary);
    } else if (note.action == "Reform" || note.action == "Replace") {
      tell(EventType::kRestarted, w, "NodeFailed");
    } else if (note.action == "Restart") {
      tell(EventType::kRestarted, w, note.reason == "Restarted" ? "ProgramFault" : note.reason);
    }
  }
  tell_refusal(g);
}

// All that it held is free.
void World::tell_release(Gang& g) {
  if (!g.leaves_whole || !g.pods.empty()) return;
  g.leaves_whole = false;
  changed_ = true;
  tell(EventType::kReleased, *g.owner, {}, {}, g.moving_to);
  // What it had taken from its Project it has given back, and its Project's rules hold for it again.
  if (!reconcilers::is_finished(g.job.status)) restate(g);
}

// It is not to run as it is: told once.
void World::tell_refusal(Gang& g) {
  const bool waits = g.job.status.assignment.attempt == 0 && !reconcilers::is_finished(g.job.status);
  if (!waits) return;
  const bool is_violation = g.invalid.empty() && !g.violation.empty();
  const std::string why = !g.invalid.empty()                    ? "InvalidSpec"
                          : is_violation && !g.job.spec.suspend ? "PolicyViolation"
                          : !g.job.spec.suspend                 ? dependencies_of(g).reason
                                                                : "";
  if (!why.empty() && g.refused_as != why) tell(EventType::kWaiting, *g.owner, why);
  g.refused_as = why;
}

// It has ended: told once, and forgotten when its pods are gone.
void World::tell_end(Gang& g) {
  Workload& w = *g.owner;
  if (!w.finished) {
    w.finished = now;
    w.failed = crds::is_true(g.job.status.conditions, "Failed");
    w.end_reason = g.ended_as;
    ++g.ends_version, ++g.look_version;
    ++finished_jobs_;
    changed_ = true;
    tell(EventType::kFinished, w, g.ended_as);
    look_at_dependents(w);
  }
  std::erase_if(g.pods, [](const GangPod& p) { return reconcilers::is_terminal(*p.pod); });
  if (!g.pods.empty()) return;
  tell_release(g);
  placed_.forget(g.id);
  gangs_.erase(g.id);
}

}  // namespace muster::simulate
