// How a job waits, and how it gets its places.
#include <fmt/format.h>

#include <algorithm>
#include <numeric>

#include "lifecycle/refusals.h"
#include "lifecycle/transitions/transitions.h"
#include "muster/reconcilers/lifecycle/job_status.h"
#include "muster/reconcilers/lifecycle/lifecycle_texts.h"
#include "muster/reconcilers/lifecycle/start_problem.h"
#include "muster/reconcilers/pods/checkpoint.h"
#include "muster/reconcilers/pods/elastic.h"
#include "muster/reconcilers/pods/expose.h"

namespace muster::reconcilers {
namespace {

using ConditionStatus = crds::ConditionStatus;

constexpr const char* kViolated = "PolicyViolation";  // the condition, its reason, and why a job waits

void wait_for(JobStep& s, const std::string& reason, const std::string& message) {
  s.status.queue = {};
  s.status.queue.reason = reason;
  s.status.queue.message = cut(message, kMaxMessage);
  not_admitted(s, reason, s.status.queue.message);
}

// Whether somebody outside is led there, and what stands in the way.
void say_publication(JobStep& s, const Publication& found) {
  const auto* before = crds::find_condition(s.status.conditions, kPublished);
  if (found.reason.empty()) {
    const char* reason = is_finished(s.seen.job.status) ? kJobEnded : kNoGateway;
    if (before != nullptr) s.set(kPublished, ConditionStatus::kFalse, reason, "");
    return;
  }
  const bool is_well = found.problem.empty();
  if (!is_well && (before == nullptr || before->reason != found.reason))
    s.note(client::EventType::kWarning, found.reason, "Publish", found.problem);
  s.set(kPublished, is_well ? ConditionStatus::kTrue : ConditionStatus::kFalse, found.reason,
        cut(found.problem, kMaxMessage));
}

// Where nobody knows what leads there from outside, what was said of it stands.
std::vector<crds::Endpoint> endpoints_now(const JobStep& s) {
  const auto& published = s.seen.exposure->published;
  if (published) return endpoints_of(s.seen.job, published->urls);
  auto all = endpoints_of(s.seen.job);
  for (auto& one : all) {
    const auto said = std::ranges::find(s.status.endpoints, one.name, &crds::Endpoint::name);
    if (said != s.status.endpoints.end()) one.external_url = said->external_url;
  }
  return all;
}

}  // namespace

bool accept(JobStep& s) {
  const auto& dependencies = s.seen.dependencies;
  if (s.seen.invalid || dependencies.is_circle) {
    const std::string& reason = s.seen.invalid ? s.seen.invalid_reason : dependencies.reason;
    const std::string& message = s.seen.invalid ? *s.seen.invalid : dependencies.message;
    s.set("Accepted", ConditionStatus::kFalse, reason, message);
    s.set("Stalled", ConditionStatus::kTrue, reason, message);
    wait_for(s, reason, message);
    return false;
  }
  s.set("Accepted", ConditionStatus::kTrue, "Valid", "");
  s.set("Stalled", ConditionStatus::kFalse, "Valid", "");
  return true;
}

void say_violation(JobStep& s) {
  const bool holds = s.status.assignment.attempt != 0 && !is_finished(s.status);
  const auto* before = crds::find_condition(s.status.conditions, kViolated);
  if (!holds || !s.seen.invalid || s.seen.invalid_reason != kViolated) {
    if (before != nullptr && before->status == ConditionStatus::kTrue)
      s.set(kViolated, ConditionStatus::kFalse, holds ? "Allowed" : "NotRunning", "");
    return;
  }
  const auto text =
      cut(*s.seen.invalid + "; what runs is left alone, and is judged when it is next admitted", kMaxMessage);
  const bool is_said =
      before != nullptr && before->status == ConditionStatus::kTrue && before->message == text;
  if (is_said) return;
  s.note(client::EventType::kWarning, kViolated, "Watch", text);
  s.set(kViolated, ConditionStatus::kTrue, kViolated, text);
}

void say_exposure(JobStep& s) {
  if (!s.seen.exposure) return;
  constexpr const char* kExposed = "Exposed";
  const auto& found = *s.seen.exposure;
  if (is_finished(s.seen.job.status)) {
    if (!found.published) return;
    for (auto& endpoint : s.status.endpoints) endpoint.external_url.clear();
    return say_publication(s, *found.published);
  }
  const auto* before = crds::find_condition(s.status.conditions, kExposed);
  const bool is_well = found.problem.empty();
  s.status.endpoints = is_well ? endpoints_now(s) : std::vector<crds::Endpoint>();
  if (found.published) say_publication(s, *found.published);
  if (s.spec.expose.empty()) {
    if (before != nullptr) s.set(kExposed, ConditionStatus::kFalse, "NothingExposed", "");
    return;
  }
  if (!is_well && (before == nullptr || before->reason != found.reason))
    s.note(client::EventType::kWarning, found.reason, "Expose", found.problem);
  s.set(kExposed, is_well ? ConditionStatus::kTrue : ConditionStatus::kFalse,
        is_well ? "ServiceReady" : found.reason, cut(found.problem, kMaxMessage));
}

void not_admitted(JobStep& s, const std::string& reason, const std::string& message) {
  s.set("Admitted", ConditionStatus::kFalse, reason.empty() ? "Queued" : reason, message);
  const auto* ready = crds::find_condition(s.status.conditions, "PodsReady");
  // Why a server did not start is said until it starts again.
  if (s.seen.serves && ready != nullptr && is_start_problem(ready->reason)) return;
  s.set("PodsReady", ConditionStatus::kFalse, "NotAdmitted", "");
}

bool held_back(JobStep& s) {
  const auto* evicted = crds::find_condition(s.status.conditions, "Evicted");
  const std::string why =
      evicted != nullptr && evicted->status == ConditionStatus::kTrue && evicted->reason != "Suspended"
          ? "; attempt " + std::to_string(s.status.attempt) + " was withdrawn: " + evicted->message
          : std::string();
  if (const auto left = s.lingering(); left.count > 0) {
    wait_for(s, "BackingOff", say_lingering(left, s.status.attempt, grace_seconds(s.spec), s.seen.now) + why);
    s.wake_for(left);
    return true;
  }
  if (s.status.retry_at && *s.status.retry_at > s.seen.now) {
    s.wake(*s.status.retry_at);
    wait_for(s, "BackingOff", fmt::format("queued again at {}{}", crds::to_string(*s.status.retry_at), why));
  } else if (!s.seen.dependencies.reason.empty()) {
    wait_for(s, s.seen.dependencies.reason, s.seen.dependencies.message);
  } else if (s.seen.blocked) {
    wait_for(s, s.seen.blocked_reason, *s.seen.blocked);
  } else {
    return false;
  }
  s.status.nominated = {};
  return true;
}

void admit(JobStep& s, const JobDecision& start) {
  auto& a = s.status.assignment;
  a.attempt = ++s.status.attempt;
  a.pool = start.pool;
  a.admitted_at = s.seen.now;
  a.pods.clear();
  a.succeeded.clear();
  a.pods.reserve(start.places.size());
  for (const Place& p : start.places) a.pods.push_back({p.role, p.index, p.node, p.gpus, 0});
  a.resized_at.reset();
  a.generation = s.seen.job.metadata.generation;
  a.made_from = made_from(s.spec).text();
  a.preemptible = crds::is_preemptible(s.spec) ? std::optional(true) : std::nullopt;
  a.max_runtime = a.preemptible ? std::nullopt : s.spec.max_runtime;
  s.status.queue = {};
  s.status.nominated = {};
  s.status.met_dependencies.clear();
  s.status.retry_at.reset();
  s.status.started_at.reset();
  decide_resume(s);
  const auto text = say_admitted(a);
  s.set("PodsReady", ConditionStatus::kFalse, "Starting", "");
  s.set("Evicted", ConditionStatus::kFalse, "Admitted", "");
  s.note(client::EventType::kNormal, "Admitted", "Admit", text);
  // No pod of an earlier attempt exists (waiting() saw to that), so all are to be made.
  std::vector<std::size_t> all(a.pods.size());
  std::iota(all.begin(), all.end(), std::size_t{0});
  if (are_held(s, all)) s.step.create = std::move(all);
  s.wake(s.seen.now + s.spec.start_timeout);
}

}  // namespace muster::reconcilers
