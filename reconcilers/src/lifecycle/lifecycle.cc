#include "muster/reconcilers/lifecycle/lifecycle.h"

#include <fmt/format.h>

#include <numeric>

#include "lifecycle_texts.h"
#include "machine.h"
#include "muster/reconcilers/lifecycle/job_status.h"
#include "muster/reconcilers/pods/elastic.h"
#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/pods/pod_end.h"
#include "refusals.h"

namespace muster::reconcilers {

using crds::ConditionStatus;

Step Machine::run() {
  start_conditions(status_, seen_.job.metadata.generation, seen_.now);
  const bool live = !is_finished(status_);
  const bool placed = live && status_.assignment.attempt != 0;
  if (placed) match_pods();
  note_checkpoints(live);
  if (!live) {
    finished();
  } else if (placed && !seen_.serves && is_complete(gang_, status_.assignment, spec_.completion)) {
    complete();  // before all else: what is done is not done again because of a suspension or an eviction
  } else if (spec_.suspend) {
    suspended();
  } else if (status_.assignment.attempt == 0) {
    set("Suspended", ConditionStatus::kFalse, "NotSuspended", "");
    waiting();
  } else {
    set("Suspended", ConditionStatus::kFalse, "NotSuspended", "");
    admitted();
  }
  // Of how many pods a report has to be depends on how many there are.
  if (live && status_.assignment.pods.size() != seen_.job.status.assignment.pods.size())
    note_checkpoints(true);
  if (!is_finished(status_)) forget_old_refusals();
  const bool was_judged = crds::find_condition(status_.conditions, "Idle") != nullptr;
  if (was_judged && live && !status_.started_at) say_idleness(ConditionStatus::kUnknown, "NotRunning", "");
  remove_lost();
  describe(spec_, status_, status_.assignment.attempt == 0 && lingering().count > 0, is_resizing(),
           seen_.charge);
  status_.selector = selector_of(seen_.job.metadata.name);
  return std::move(step_);
}

// --- the states

void Machine::finished() {
  // What has ended stays for its logs; what still runs (policy First, or a role that is not waited
  // for) is ended.
  for (const auto& pod : seen_.pods) {
    if (!is_terminal(*pod)) remove(*pod);
  }
  if (!spec_.ttl_after_finished || !status_.finished_at) return;
  const auto due = *status_.finished_at + *spec_.ttl_after_finished;
  if (seen_.now >= due) {
    step_.remove_job = true;
  } else {
    wake(due);
  }
}

void Machine::suspended() {
  if (status_.assignment.attempt != 0)
    withdraw("Suspended", "spec.suspend was set", client::EventType::kNormal);
  remove_all();
  accept();
  set("Admitted", ConditionStatus::kFalse, "Suspended", "");
  set("Suspended", ConditionStatus::kTrue, "SuspendedByUser",
      "spec.suspend is true; set it to false to queue again");
  status_.queue = {};
  status_.retry_at.reset();
  status_.start_failures = 0;
  status_.nominated = {};
}

void Machine::waiting() {
  remove_all();
  const bool had_promise = !status_.nominated.pods.empty();
  status_.nominated = seen_.nomination == nullptr ? crds::Nomination{} : *seen_.nomination;
  if (!accept() || held_back()) return;
  step_.wants_place = true;
  wake_for_refusals();
  if (!had_promise && !status_.nominated.pods.empty()) {
    note(client::EventType::kNormal, "Nominated", "Place",
         say_nominated(status_.nominated,
                       seen_.verdict == nullptr ? "others are leaving them" : seen_.verdict->message));
  }
  if (const auto* start = decision(Decision::Kind::kStart)) {
    admit(*start);
  } else if (seen_.verdict != nullptr) {
    status_.queue = *seen_.verdict;
    not_admitted(status_.queue.reason, status_.queue.message);
  }
}

// True: it must not be placed yet; said why.
bool Machine::held_back() {
  const auto* evicted = crds::find_condition(status_.conditions, "Evicted");
  const std::string why =
      evicted != nullptr && evicted->status == ConditionStatus::kTrue && evicted->reason != "Suspended"
          ? "; attempt " + std::to_string(status_.attempt) + " was withdrawn: " + evicted->message
          : std::string();
  if (const auto left = lingering(); left.count > 0) {
    wait_for("BackingOff", say_lingering(left, status_.attempt, grace_seconds(spec_), seen_.now) + why);
    wake_for(left);
    return true;
  }
  if (status_.retry_at && *status_.retry_at > seen_.now) {
    wake(*status_.retry_at);
    wait_for("BackingOff", fmt::format("queued again at {}{}", crds::to_string(*status_.retry_at), why));
  } else if (seen_.blocked) {
    wait_for(seen_.blocked_reason, *seen_.blocked);
  } else {
    return false;
  }
  status_.nominated = {};
  return true;
}

void Machine::admitted() {
  step_.settles = true;
  if (const auto* evict = decision(Decision::Kind::kEvict)) return requeue(evict->reason, evict->message);
  if (const auto* move = decision(Decision::Kind::kMove)) return this->move(*move);
  if (const auto* evict = decision(Decision::Kind::kBackOff)) return back_off(evict->reason, evict->message);
  if (!seen_.invalid) accept();  // an edit of the spec was looked at; what runs is not judged anew
  if (follow_spec()) return;
  if (const auto* to = decision(Decision::Kind::kShrink)) shrink(*to);
  if (const auto* to = decision(Decision::Kind::kGrow)) grow(*to);
  if (status_.assignment.attempt != seen_.job.status.assignment.attempt) return;  // anew, or not at all
  if (is_complete(gang_, status_.assignment, spec_.completion))
    return complete();  // who still worked has left
  find_lost();
  if (const auto* replace = decision(Decision::Kind::kReplace); replace && !replace_members(*replace)) {
    if (status_.started_at || program_fault(gang_) != nullptr) return reform(*replace);
    replace_pods(*replace);
    match_pods();
    find_lost();
  }
  // What the cluster did comes first: programs fail in its wake, and that is not held against them.
  if (loses_ground()) return;
  go_on_without();
  if (status_.assignment.attempt == 0) return;
  if (is_complete(gang_, status_.assignment, spec_.completion)) return complete();
  if (const auto lost = lost_pod(); !lost.empty()) {
    // Lost before it ran whole: with a delay, or whoever removes the pods and we would chase each other.
    return status_.started_at ? requeue("PodLost", lost) : back_off("PodLost", lost);
  }
  if (const auto* failed = fault()) return restart(*failed);
  publish_names();
  judge_readiness();  // before the time: a gang that became whole while nobody looked is not withdrawn
  if (out_of_time()) return;
  keep_whole();
}

// --- checkpoints

// What pods say while they go counts after the job's end too; no more is changed then.
void Machine::note_checkpoints(bool live) {
  auto& known = status_.checkpoint;
  const bool edited_at_rest = spec_.suspend && status_.assignment.attempt == 0 &&
                              seen_.job.status.observed_generation != seen_.job.metadata.generation;
  if (edited_at_rest) {  // other programs may report in another way, and save faster
    known.reporters = 0;
    known.save_seconds = 0;
  }
  for (const GangReport& report : seen_.reports) {
    // Programs that never speak of checkpoints are not measured by how they end.
    if (spec_.checkpoint || known.step || report.saved.step)
      take_over(known, report,
                status_.assignment.attempt == 0 ? crds::replicas_of(spec_)
                                                : static_cast<std::int32_t>(status_.assignment.pods.size()));
  }
  if (!live) return;
  const std::int64_t grace = grace_seconds(spec_);
  if (known.save_seconds > grace) {
    set("GracePeriodTooShort", ConditionStatus::kTrue, "SavingTakesLonger",
        say_grace_too_short(grace, known.save_seconds));
  } else if (known.save_seconds > 0) {
    set("GracePeriodTooShort", ConditionStatus::kFalse, "SavedInTime", "");
  } else {
    set("GracePeriodTooShort", ConditionStatus::kUnknown, "NothingSavedYet", "");
  }
}

// Decided before the first pod of an attempt is made, and for all of them.
void Machine::decide_resume() {
  auto& a = status_.assignment;
  a.resume = {status_.checkpoint.step, status_.checkpoint.uri};
  set("Admitted", ConditionStatus::kTrue, "Admitted", say_admitted(a));
}

// --- waiting and admission

// False: the spec can never run; said in Accepted, Stalled and the queue's reason.
bool Machine::accept() {
  if (seen_.invalid) {
    set("Accepted", ConditionStatus::kFalse, seen_.invalid_reason, *seen_.invalid);
    set("Stalled", ConditionStatus::kTrue, seen_.invalid_reason, *seen_.invalid);
    wait_for(seen_.invalid_reason, *seen_.invalid);
    return false;
  }
  set("Accepted", ConditionStatus::kTrue, "Valid", "");
  set("Stalled", ConditionStatus::kFalse, "Valid", "");
  return true;
}

void Machine::not_admitted(const std::string& reason, const std::string& message) {
  set("Admitted", ConditionStatus::kFalse, reason.empty() ? "Queued" : reason, message);
  set("PodsReady", ConditionStatus::kFalse, "NotAdmitted", "");
}

void Machine::wait_for(const std::string& reason, const std::string& message) {
  status_.queue = {};
  status_.queue.reason = reason;
  status_.queue.message = cut(message, kMaxMessage);
  not_admitted(reason, status_.queue.message);
}

void Machine::admit(const Decision& start) {
  auto& a = status_.assignment;
  a.attempt = ++status_.attempt;
  a.pool = start.pool;
  a.admitted_at = seen_.now;
  a.pods.clear();
  a.succeeded.clear();
  a.pods.reserve(start.places.size());
  for (const Place& p : start.places) a.pods.push_back({p.role, p.index, p.node, p.gpus, 0});
  a.resized_at.reset();
  a.generation = seen_.job.metadata.generation;
  a.made_from = made_from(spec_).text();
  status_.queue = {};
  status_.nominated = {};
  status_.retry_at.reset();
  status_.started_at.reset();
  decide_resume();
  const auto text = say_admitted(a);
  set("PodsReady", ConditionStatus::kFalse, "Starting", "");
  set("Evicted", ConditionStatus::kFalse, "Admitted", "");
  note(client::EventType::kNormal, "Admitted", "Admit", text);
  // No pod of an earlier attempt exists (waiting() saw to that), so all are to be made.
  std::vector<std::size_t> all(a.pods.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  if (are_held(all)) step_.create = std::move(all);
  wake(seen_.now + spec_.start_timeout);
}

// --- the way back

void Machine::add_run_time() {
  if (status_.started_at) status_.run_seconds += (seen_.now - *status_.started_at).count();
}

void Machine::release(const std::string& reason, const std::string& message) {
  add_run_time();
  status_.succeeded_replicas = static_cast<std::int32_t>(status_.assignment.succeeded.size());
  status_.assignment = {};
  status_.queue = {};
  set("Admitted", ConditionStatus::kFalse, reason, message);
  set("PodsReady", ConditionStatus::kFalse, reason, message);
  gang_ = {};
}

// Everything back, queued again with the old submission time.
void Machine::withdraw(const std::string& reason, const std::string& text, client::EventType type) {
  // Said again, with more around it, while the job waits.
  const std::string message = cut(text, kMaxMessage / 2);
  const crds::Assignment given_back = status_.assignment;
  release(reason, message);
  status_.started_at.reset();
  set("Evicted", ConditionStatus::kTrue, reason, message);
  status_.queue.reason = "BackingOff";
  status_.queue.message = message;
  if (reason == "Reclaimed" || reason == "Preempted") ++status_.preemptions;
  note(type, reason, "Evict",
       fmt::format("attempt {} was withdrawn: {}; {}", status_.attempt, message,
                   say_given_back(given_back, seen_.charge)));
  step_.create.clear();
  step_.displaced.clear();
}

// As the next step would find it, so that one write says it all. A place is asked for by that next step.
void Machine::requeue(const std::string& reason, const std::string& message, client::EventType type) {
  withdraw(reason, message, type);
  remove_all();
  if (accept() && !held_back()) wake(seen_.now);
}

void Machine::move(const Decision& to) {
  requeue(to.reason, to.message);
  const bool is_wanted = !seen_.invalid && (!seen_.blocked || lingering().count > 0);
  if (to.generation != seen_.job.metadata.generation || !is_wanted) return;
  status_.nominated = {to.generation, to.pool, {}};
  for (const Place& p : to.places) status_.nominated.pods.push_back({p.role, p.index, p.node, p.gpus, 0});
}

// --- helpers

const Decision* Machine::decision(Decision::Kind kind) const {
  const auto* d = seen_.decision;
  if (d == nullptr || d->kind != kind) return nullptr;
  const bool resizes = kind == Decision::Kind::kGrow || kind == Decision::Kind::kShrink;
  if (resizes && d->attempt != status_.assignment.attempt) return nullptr;  // indexes may mean others by now
  const bool placed =
      kind == Decision::Kind::kStart || kind == Decision::Kind::kReplace || kind == Decision::Kind::kGrow;
  return !placed || d->generation == seen_.job.metadata.generation ? d : nullptr;
}

void Machine::remove(const client::Pod& pod) {
  if (pod.deleting) return;
  const bool is_new = removing_.insert(pod.meta.uid).second;
  if (!is_new) return;
  std::optional<std::int64_t> grace;
  if (spec_.checkpoint) grace = spec_.checkpoint->grace_period.count();  // as it is now, not as it was made
  step_.remove.push_back({pod.meta.name, pod.meta.uid, pod.node_name, grace});
}

// Whoever was told to go and cannot, because nothing runs any more where it is.
void Machine::remove_lost() {
  for (const auto& pod : seen_.pods) {
    if (pod->deleting && pod->grace_seconds > 0 && !is_terminal(*pod) && seen_.node_lost &&
        seen_.node_lost(pod->node_name))
      step_.remove.push_back({pod->meta.name, pod->meta.uid, pod->node_name, 0});
  }
}

void Machine::remove_all() {
  for (const auto& pod : seen_.pods) remove(*pod);
}

// Pods that are to go and that must have gone before others may take their part. Of those on lost nodes
// nobody knows when they will: they hold their places, and nobody waits for them.
Lingering Machine::lingering() const {
  Lingering all;
  for (const auto& pod : seen_.pods) {
    if (!is_given_up(*pod)) all.add(*pod);
  }
  return all;
}

Lingering Machine::stale() const {
  Lingering all;
  for (const auto* pod : gang_.strays) {
    if (!is_given_up(*pod)) all.add(*pod);
  }
  return all;
}

bool Machine::is_given_up(const client::Pod& pod) const {
  return seen_.health && pod.deleting && !seen_.health(pod.node_name).lost.empty();
}

void Machine::wake_for(const Lingering& left) {
  if (left.overdue_at() > seen_.now) wake(left.overdue_at());
  if (left.count == 0 || !seen_.health) return;
  for (const auto& pod : seen_.pods) {  // nobody waits for them once their node counts as lost
    const auto again = pod->deleting ? seen_.health(pod->node_name).again : std::nullopt;
    if (again) wake(*again);
  }
}

void Machine::wake(crds::Time at) {
  if (!step_.wake_at || at < *step_.wake_at) step_.wake_at = at;
}

void Machine::note(client::EventType type, std::string reason, std::string action, std::string text) {
  step_.notes.push_back({type, std::move(reason), std::move(action), std::move(text)});
}

void Machine::set(std::string type, ConditionStatus value, std::string reason, std::string message) {
  crds::set_condition(status_.conditions, {std::move(type), value, seen_.job.metadata.generation, seen_.now,
                                           std::move(reason), std::move(message)});
}

Step advance(const Observed& seen) {
  return Machine(seen).run();
}

}  // namespace muster::reconcilers
