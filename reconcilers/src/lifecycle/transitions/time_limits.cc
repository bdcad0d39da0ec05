// Limits of time: startTimeout, maxRuntime and idle.timeout.
#include <fmt/format.h>

#include <array>

#include "lifecycle/refusals.h"
#include "lifecycle/transitions/transitions.h"
#include "muster/reconcilers/lifecycle/lifecycle_texts.h"

namespace muster::reconcilers {
namespace {

using ConditionStatus = crds::ConditionStatus;
using std::chrono::seconds;

// So long before its end, by maxRuntime or by idle.timeout, a job is warned, if that is less than half of the
// limit.
struct EndWarning {
  std::chrono::minutes before;
  const char* reason;
};
constexpr std::array<EndWarning, 2> kEndWarnings = {
    {{kFirstEndWarning, "Within30Minutes"}, {kLastEndWarning, "Within5Minutes"}}};

// Of a job that states no timeout: nothing ends it, but who looks is told, and the ledger counts it.
void tell_idleness(JobStep& s) {
  const auto& gpus = s.seen.idleness;
  const bool was_told = crds::find_condition(s.status.conditions, "Idle") != nullptr;
  if (gpus.is_known && gpus.idle >= kLongIdle) {
    const auto below = s.spec.idle.value_or(crds::Idle{}).gpu_utilization_below;
    say_idleness(s, ConditionStatus::kTrue, "NotUsed",
                 fmt::format("all its GPUs have been used below {} % for {} or longer; it states no "
                             "idle.timeout, so nothing ends it",
                             below, crds::to_string(kLongIdle)));
  } else if (was_told && gpus.is_known) {
    say_idleness(s, ConditionStatus::kFalse, "GPUsInUse", "");
  } else if (was_told) {
    say_idleness(s, ConditionStatus::kUnknown, gpus.problem.empty() ? "NoTimeout" : "NoReading",
                 gpus.problem);
  }
}

// What has been idle, in words: its GPUs, its use, or both.
std::string what_is_idle(const JobStep& s, std::string_view gpus_were, std::string_view nobody_did) {
  const auto& idle = *s.spec.idle;
  std::string text;
  if (s.seen.idleness.of_gpus)
    text = fmt::format("all its GPUs {} used below {} %", gpus_were, idle.gpu_utilization_below);
  if (s.seen.idleness.of_use) {
    const auto path = idle.activity_path.substr(0, idle.activity_path.find('?'));  // no secret of it
    text += fmt::format("{}nobody {} it, as {} says,", text.empty() ? "" : " and ", nobody_did, path);
  }
  return text;
}

// At half of the timeout, and once for each of the two.
void warn_of_idle_end(JobStep& s, crds::Duration timeout, crds::Duration idle) {
  const char* reason = "HalfOfTimeout";
  std::string since = "half";
  for (const auto& warning : kEndWarnings) {
    if (warning.before * 2 >= timeout || timeout - idle > warning.before) continue;
    reason = warning.reason;
    since = fmt::format("all but the last {}", crds::to_string(warning.before));
  }
  const auto* before = crds::find_condition(s.status.conditions, "Idle");
  if (before != nullptr && before->status == ConditionStatus::kTrue && before->reason == reason) return;
  const auto text = fmt::format("{} for {} of idle.timeout {}: it ends unless {} used",
                                what_is_idle(s, "have been", "has used"), since, crds::to_string(timeout),
                                s.seen.idleness.of_use ? "it is" : "they are");
  s.note(client::EventType::kWarning, "Idle", "Watch", text);
  say_idleness(s, ConditionStatus::kTrue, reason, text);
}

// True: the attempt was ended because nobody uses its GPUs. It sets no time to look again: the monitor that
// reads the GPUs calls the job when something has changed.
bool is_left_idle(JobStep& s) {
  const auto timeout = s.spec.idle ? s.spec.idle->timeout : std::nullopt;
  const auto& gpus = s.seen.idleness;
  if (!timeout) {
    tell_idleness(s);
  } else if (!gpus.is_known) {
    if (!gpus.problem.empty()) say_idleness(s, ConditionStatus::kUnknown, "NoReading", gpus.problem);
  } else if (gpus.idle >= *timeout) {
    const auto why =
        fmt::format("{} for idle.timeout {}", what_is_idle(s, "were", "used"), crds::to_string(*timeout));
    say_idleness(s, ConditionStatus::kTrue, "IdleTimeout", why);
    fail(s, "IdleTimeout", why);
    return true;
  } else if (gpus.idle * 2 >= *timeout) {
    warn_of_idle_end(s, *timeout, gpus.idle);
  } else {
    say_idleness(s, ConditionStatus::kFalse, gpus.of_use ? "InUse" : "GPUsInUse", "");
  }
  return false;
}

// Once for each of the two. Looks again when the next is due.
void warn_of_end(JobStep& s, crds::Time due) {
  const char* reason = nullptr;
  for (const auto& warning : kEndWarnings) {
    if (warning.before * 2 >= *s.spec.max_runtime) continue;
    const auto at = due - warning.before;
    if (s.seen.now < at) {
      s.wake(at);
      break;
    }
    reason = warning.reason;
  }
  const auto* before = crds::find_condition(s.status.conditions, "EndsSoon");
  if (reason == nullptr) return say_no_end(s, "TimeLeft");
  const auto text = fmt::format("it ends at {}, after maxRuntime {}; a longer maxRuntime keeps it",
                                crds::to_string(due), crds::to_string(*s.spec.max_runtime));
  const bool is_said = before != nullptr && before->status == ConditionStatus::kTrue &&
                       before->reason == reason && before->message == text;
  if (is_said) return;
  s.note(client::EventType::kWarning, "EndsSoon", "Watch", text);
  s.set("EndsSoon", ConditionStatus::kTrue, reason, text);
}

}  // namespace

void say_no_end(JobStep& s, const char* reason) {
  if (crds::is_true(s.status.conditions, "EndsSoon")) s.set("EndsSoon", ConditionStatus::kFalse, reason, "");
}

bool out_of_time(JobStep& s) {
  if (!s.status.started_at) {
    const auto due = start_due(s);
    if (s.seen.now < due) return s.wake(due), false;
    if (server_is_late(s)) return true;
    back_off(s, "StartTimeout", say_start_timed_out(s.gang, s.spec.start_timeout));
    return true;
  }
  if (s.spec.max_runtime) {
    const auto due = *s.status.started_at + *s.spec.max_runtime - seconds{s.status.run_seconds};
    if (s.seen.now >= due) {
      fail(s, "MaxRuntimeExceeded",
           fmt::format("ran for maxRuntime {}", crds::to_string(*s.spec.max_runtime)));
      return true;
    }
    s.wake(due);
    warn_of_end(s, due);
  } else {
    say_no_end(s, "NoMaxRuntime");
  }
  return is_left_idle(s);
}

void say_idleness(JobStep& s, ConditionStatus value, const char* reason, std::string message) {
  const auto* before = crds::find_condition(s.status.conditions, "Idle");
  if (before != nullptr && before->status == value && before->reason == reason) message = before->message;
  s.set("Idle", value, reason, std::move(message));
}

}  // namespace muster::reconcilers
