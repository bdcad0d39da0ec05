// How a job gives its places back: for good, or to queue again.
#include <fmt/format.h>

#include <algorithm>
#include <chrono>

#include "lifecycle/refusals.h"
#include "lifecycle/transitions/transitions.h"
#include "muster/reconcilers/lifecycle/lifecycle_texts.h"
#include "muster/reconcilers/pods/pod_end.h"
#include "muster/reconcilers/pods/result.h"

namespace muster::reconcilers {
namespace {

using ConditionStatus = crds::ConditionStatus;

// A gang that did not start in time waits this long before it is tried again, doubling up to the maximum.
constexpr std::chrono::seconds kFirstRetry{10};
constexpr std::chrono::seconds kMaxRetry = std::chrono::minutes{10};

void release(JobStep& s, const std::string& reason, const std::string& message) {
  if (s.status.assignment.attempt == 0) s.status.started_at.reset();  // its last attempt is counted
  add_run_time(s);
  count_run(s);
  s.status.succeeded_replicas = static_cast<std::int32_t>(s.status.assignment.succeeded.size());
  s.status.assignment = {};
  s.status.queue = {};
  s.set("Admitted", ConditionStatus::kFalse, reason, message);
  s.set("PodsReady", ConditionStatus::kFalse, reason, message);
  s.gang = {};
}

}  // namespace

void add_run_time(JobStep& s) {
  if (s.status.started_at) s.status.run_seconds += (s.seen.now - *s.status.started_at).count();
}

void withdraw(JobStep& s, const std::string& reason, const std::string& text, client::EventType type) {
  // Said again, with more around it, while the job waits.
  const std::string message = cut(text, kMaxMessage / 2);
  const crds::Assignment given_back = s.status.assignment;
  const bool is_fault = reason == "NodeFailed" || reason == "PodLost" || reason == "ProgramFault";
  if (!is_fault) ask_to_save(s);
  release(s, reason, message);
  if (!s.is_to_save) s.status.started_at.reset();
  s.set("Evicted", ConditionStatus::kTrue, reason, message);
  s.status.queue.reason = "BackingOff";
  s.status.queue.message = message;
  if (reason == "Reclaimed" || reason == "Preempted") ++s.status.preemptions;
  s.note(type, reason, "Evict",
         fmt::format("attempt {} was withdrawn: {}; {}", s.status.attempt, message,
                     say_given_back(given_back, s.seen.charge)));
  s.step.create.clear();
  s.step.displaced.clear();
}

void requeue(JobStep& s, const std::string& reason, const std::string& message, client::EventType type) {
  withdraw(s, reason, message, type);
  s.remove_all();
  if (accept(s) && !held_back(s)) s.wake(s.seen.now);
}

void back_off(JobStep& s, const std::string& reason, const std::string& message) {
  ++s.status.start_failures;
  const auto doublings = std::min(s.status.start_failures - 1, 10);
  s.status.retry_at = s.seen.now + std::min(kMaxRetry, kFirstRetry * (1 << doublings));
  requeue(s, reason, message);
}

void move_to(JobStep& s, const JobDecision& to) {
  const auto preemptions = s.status.preemptions;
  requeue(s, to.reason, to.message);
  const bool is_wanted = !s.seen.invalid && (!s.seen.blocked || s.lingering().count > 0);
  if (to.generation != s.seen.job.metadata.generation || !is_wanted) return;
  s.status.nominated = {to.generation, to.pool, {}};
  for (const Place& p : to.places) s.status.nominated.pods.push_back({p.role, p.index, p.node, p.gpus, 0});
  s.status.preemptions = preemptions;  // it goes on elsewhere, whoever has asked for its places
}

void complete(JobStep& s) {
  for (const auto* pod : s.gang.pods) {
    if (pod != nullptr && s.status.result.empty()) s.status.result = result_of(*pod);
  }
  release(s, "Finished", "");
  s.status.finished_at = s.seen.now;
  s.set(
      "Complete", ConditionStatus::kTrue, "Completed",
      s.spec.completion.policy == crds::CompletionPolicy::kFirst ? "a pod succeeded" : "all pods succeeded");
  s.note(client::EventType::kNormal, "Completed", "Complete",
         fmt::format("attempt {} completed", s.status.attempt));
  finished(s);
}

void fail(JobStep& s, const std::string& reason, const std::string& message) {
  release(s, "Finished", "");
  s.status.finished_at = s.seen.now;
  s.set("Failed", ConditionStatus::kTrue, reason, message);
  // What GitOps tools and Helm take for a failure (docs/gitops.md).
  s.set("Stalled", ConditionStatus::kTrue, reason, message);
  s.note(client::EventType::kWarning, reason, "Fail", message);
  finished(s);
}

void finished(JobStep& s) {
  // What has ended stays for its logs; what still runs (policy First, or a role that is not waited
  // for) is ended.
  for (const auto& pod : s.seen.pods) {
    if (!is_terminal(*pod)) s.remove(*pod);
  }
  if (!s.spec.ttl_after_finished || !s.status.finished_at) return;
  const auto due = *s.status.finished_at + *s.spec.ttl_after_finished;
  // Not before its end is written: who watches it sees how it ended, even where the time is nothing.
  if (s.seen.now >= due && is_finished(s.seen.job.status)) {
    s.step.remove_job = true;
  } else {
    s.wake(due);
  }
}

}  // namespace muster::reconcilers
