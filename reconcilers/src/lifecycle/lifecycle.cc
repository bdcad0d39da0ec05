#include "muster/reconcilers/lifecycle/lifecycle.h"

#include "lifecycle/job_step.h"
#include "lifecycle/transitions/transitions.h"
#include "muster/reconcilers/gpu_metrics/memory_pressure.h"
#include "muster/reconcilers/lifecycle/gang.h"
#include "muster/reconcilers/lifecycle/job_status.h"
#include "muster/reconcilers/lifecycle/lifecycle_texts.h"
#include "muster/reconcilers/pods/names.h"

namespace muster::reconcilers {
namespace {

using crds::ConditionStatus;

// --- every state and every transition, in the order in which they are looked at

enum class JobState : std::uint8_t {
  kFinished,    // Complete or Failed
  kCompleting,  // its pods have done what is asked for, and the status does not say so yet
  kSuspended,   // spec.suspend
  kWaiting,     // no assignment: in the queue, or kept from it
  kAdmitted,    // an assignment: starting or running
};

// True: the step ends here. Whatever comes behind is for a later step.
using Transition = bool (*)(JobStep&);

bool can_never_run(JobStep& s);
bool takes_places_back(JobStep& s);
bool follows_edit(JobStep& s);
bool changes_size(JobStep& s);
bool is_completed(JobStep& s);
bool takes_other_places(JobStep& s);
bool loses_members(JobStep& s);
bool loses_a_pod(JobStep& s);
bool program_fails(JobStep& s);
bool comes_up(JobStep& s);
bool makes_missing_pods(JobStep& s);
bool asks_for_places(JobStep& s);
bool gets_places(JobStep& s);
bool hears_why_not(JobStep& s);

constexpr Transition kWhileWaiting[] = {
    can_never_run,  // waits until the spec, or that of a job in its circle, is edited
    held_back,      // waits: pods of an earlier attempt still end, retryAt, other jobs, volumes, its Project
    asks_for_places,  // goes on
    gets_places,      // -> admitted
    hears_why_not,    // waits, and says what placement says
};

constexpr Transition kWhileAdmitted[] = {
    moves_in_vain,       // a replica that serves on where it was
    takes_places_back,   // kEvict, kMove, kBackOff of placement     -> waiting
    follows_edit,        // of the spec                              -> waiting, the next attempt, or smaller
    changes_size,        // kShrink, kGrow of placement              -> the next attempt, waiting, or goes on
    is_completed,        // by the members that stay                 -> finished
    takes_other_places,  // kReplace of placement. A gang that ran   -> the next attempt. One that starts, and
                         // one whose members may come and go, goes on
    loses_ground,        // of a gang that ran or fails: waits for kReplace
    loses_members,       // the others go on, or one is late         -> waiting
    is_completed,        // without the members that were lost       -> finished
    loses_a_pod,         // to the cluster                           -> waiting
    program_fails,  // by itself. Programs fail in the wake of lost pods and nodes, hence this comes after
                    // those                                    -> the next attempt, or finished: Failed
    comes_up,       // goes on. Before the time limits: it may have become whole while nobody looked
    out_of_time,    // startTimeout -> waiting; maxRuntime, idle.timeout -> finished: Failed
    makes_missing_pods,
};

JobState state_of(const JobStep& s) {
  if (is_finished(s.status)) return JobState::kFinished;
  const bool is_placed = s.status.assignment.attempt != 0;
  // Before all else: what is done is not done again because of a suspension or an eviction.
  if (is_placed && !s.seen.serves && is_complete(s.gang, s.status.assignment, s.spec.completion))
    return JobState::kCompleting;
  if (s.spec.suspend) return JobState::kSuspended;
  return is_placed ? JobState::kAdmitted : JobState::kWaiting;
}

template <std::size_t n>
void step_through(JobStep& s, const Transition (&transitions)[n]) {
  for (const Transition happens : transitions) {
    if (happens(s)) return;
  }
}

// --- the states

void suspended(JobStep& s) {
  const bool is_index = array_index_of(s.seen.job.metadata.labels).has_value();
  if (s.status.assignment.attempt != 0)
    withdraw(s, "Suspended",
             is_index ? "it, or the array that it is an index of, is suspended or runs fewer indexes"
                      : "spec.suspend was set",
             client::EventType::kNormal);
  s.remove_all();
  accept(s);
  s.set("Admitted", ConditionStatus::kFalse, "Suspended", "");
  s.set("Suspended", ConditionStatus::kTrue, "SuspendedByUser",
        is_index ? "its spec.suspend or that of its array is true, or the array's spec.array.parallelism was "
                   "lowered"
                 : "spec.suspend is true; set it to false to queue again");
  s.status.queue = {};
  s.status.retry_at.reset();
  s.status.start_failures = 0;
  s.status.nominated = {};
}

void waiting(JobStep& s) {
  s.remove_all();
  s.status.nominated = s.seen.nomination == nullptr ? crds::Nomination{} : *s.seen.nomination;
  step_through(s, kWhileWaiting);
}

void admitted(JobStep& s) {
  s.step.settles = true;
  step_through(s, kWhileAdmitted);
}

// --- while it waits

bool can_never_run(JobStep& s) {
  return !accept(s);
}

bool asks_for_places(JobStep& s) {
  s.step.wants_place = true;
  wake_for_refusals(s);
  const bool is_new = s.seen.job.status.nominated.pods.empty() && !s.status.nominated.pods.empty();
  if (is_new) {
    const auto* why = s.seen.verdict;
    s.note(client::EventType::kNormal, "Nominated", "Place",
           say_nominated(s.status.nominated, why == nullptr ? "others are leaving them" : why->message));
  }
  return false;
}

bool gets_places(JobStep& s) {
  const auto* start = s.decision(JobDecision::Kind::kStart);
  if (start != nullptr) admit(s, *start);
  return start != nullptr;
}

bool hears_why_not(JobStep& s) {
  if (s.seen.verdict == nullptr) return false;  // not judged yet
  s.status.queue = *s.seen.verdict;
  not_admitted(s, s.status.queue.reason, s.status.queue.message);
  return true;
}

// --- while it is admitted

bool takes_places_back(JobStep& s) {
  if (const auto* evict = s.decision(JobDecision::Kind::kEvict)) {
    count_loss(s, *evict);
    if (evict->reason == kMemoryPressure) avoid_nodes_of(s, evict->places);
    requeue(s, evict->reason, evict->message);
  } else if (const auto* move = s.decision(JobDecision::Kind::kMove)) {
    count_loss(s, *move);
    if (!surge_to(s, *move)) move_to(s, *move);
  } else if (const auto* refused = s.decision(JobDecision::Kind::kBackOff)) {
    back_off(s, refused->reason, refused->message);
  } else {
    return false;
  }
  return true;
}

bool follows_edit(JobStep& s) {
  if (!s.seen.invalid) accept(s);  // the edit was looked at; what runs is not judged anew
  return follow_spec(s);
}

bool changes_size(JobStep& s) {
  if (const auto* to = s.decision(JobDecision::Kind::kShrink)) shrink(s, *to);
  if (const auto* to = s.decision(JobDecision::Kind::kGrow)) grow(s, *to);
  return s.status.assignment.attempt != s.seen.job.status.assignment.attempt;  // anew, or not at all
}

bool is_completed(JobStep& s) {
  if (!is_complete(s.gang, s.status.assignment, s.spec.completion)) return false;
  complete(s);
  return true;
}

bool takes_other_places(JobStep& s) {
  find_lost(s);
  const auto* replace = s.decision(JobDecision::Kind::kReplace);
  if (replace == nullptr || replace_members(s, *replace)) return false;
  if (s.status.started_at || program_fault(s.gang) != nullptr) {
    reform(s, *replace);
    return true;
  }
  replace_pods(s, *replace);
  match_pods(s);
  find_lost(s);
  return false;
}

bool loses_members(JobStep& s) {
  go_on_without(s);
  return s.status.assignment.attempt == 0;
}

bool loses_a_pod(JobStep& s) {
  const auto lost = lost_pod(s);
  if (lost.empty()) return false;
  count_fault(s, "PodLost", lost);
  // One that was lost before the gang ran whole comes back with a delay. Else whoever removes the pods and we
  // would chase each other.
  s.status.started_at ? requeue(s, "PodLost", lost) : back_off(s, "PodLost", lost);
  return true;
}

bool program_fails(JobStep& s) {
  const auto* failed = failed_program(s);
  if (failed != nullptr) restart(s, *failed);
  return failed != nullptr;
}

bool comes_up(JobStep& s) {
  publish_names(s);
  judge_readiness(s);
  say_start_problem(s);
  return false;
}

bool makes_missing_pods(JobStep& s) {
  keep_whole(s);
  return true;
}

}  // namespace

Step advance(const Observed& seen) {
  JobStep s(seen);
  if (seen.pods.empty()) begin_with_the_object(s.status, seen.job.metadata);
  start_conditions(s.status, seen.job.metadata.generation, seen.now);
  const bool live = !is_finished(s.status);
  s.status.met_dependencies = seen.dependencies.met;
  if (live && s.status.assignment.attempt != 0) match_pods(s);
  note_checkpoints(s, live);
  if (live) end_eviction(s);
  const JobState state = state_of(s);
  if (state == JobState::kWaiting || state == JobState::kAdmitted)
    s.set("Suspended", ConditionStatus::kFalse, "NotSuspended", "");
  switch (state) {
    case JobState::kFinished:
      finished(s);
      break;
    case JobState::kCompleting:
      complete(s);
      break;
    case JobState::kSuspended:
      suspended(s);
      break;
    case JobState::kWaiting:
      waiting(s);
      break;
    case JobState::kAdmitted:
      admitted(s);
      break;
  }
  if (live && s.status.assignment.pods.size() != seen.job.status.assignment.pods.size())
    note_checkpoints_of_other_size(s);
  if (!is_finished(s.status)) {
    end_eviction(s);  // none of its pods was left to be told
    note_saves(s);
    forget_old_refusals(s);
  }
  const bool was_judged = crds::find_condition(s.status.conditions, "Idle") != nullptr;
  const bool has_run = s.status.started_at && (s.status.assignment.attempt != 0 || is_finished(s.status));
  if (was_judged && live && !has_run) say_idleness(s, ConditionStatus::kUnknown, "NotRunning", "");
  if (!has_run || is_finished(s.status)) say_no_end(s, "NotRunning");
  say_violation(s);
  say_exposure(s);
  s.remove_lost();
  const bool is_leaving = s.status.assignment.attempt == 0 && s.lingering().count > 0;
  describe(s.spec, s.status, is_leaving, is_resizing(s), seen.charge);
  if (seen.named) {
    for (const auto& place : s.status.assignment.pods) s.status.allocated.add_resources(seen.named(place));
  }
  s.status.selector = selector_of(seen.job.metadata.name);
  return std::move(s.step);
}

}  // namespace muster::reconcilers
