// One attempt of a gang: its pods are made, become ready, and are started again when a program fails.
#include <fmt/format.h>

#include <algorithm>
#include <functional>

#include "lifecycle/refusals.h"
#include "lifecycle/transitions/transitions.h"
#include "muster/reconcilers/lifecycle/gang.h"
#include "muster/reconcilers/lifecycle/lifecycle_texts.h"
#include "muster/reconcilers/pods/pod_end.h"
#include "muster/reconcilers/pods/pod_identity.h"

namespace muster::reconcilers {
namespace {

using ConditionStatus = crds::ConditionStatus;
using std::chrono::seconds;

constexpr seconds kPublishAfter{1};  // pods are dated to the second: up to one after the last was made
constexpr const char* kWaitingForEarlierPods = "WaitingForEarlierPods";  // reason of PodsReady

// A server that keeps ending waits in its places.
bool is_delayed(const JobStep& s) {
  return s.seen.serves && s.status.retry_at && *s.status.retry_at > s.seen.now;
}

// Of a gang that starts and is kept from it by pods that should have ended.
void say_who_stays(JobStep& s, const Lingering& left) {
  const auto* ready = crds::find_condition(s.status.conditions, "PodsReady");
  const bool was_said = ready != nullptr && ready->reason == kWaitingForEarlierPods;
  s.wake_for(left);
  if (left.count > 0 && left.deadline != crds::Time{} && s.seen.now >= left.overdue_at()) {
    s.set("PodsReady", ConditionStatus::kFalse, kWaitingForEarlierPods,
          say_lingering(left, s.status.assignment.attempt - 1, grace_seconds(s.spec), s.seen.now));
  } else if (was_said && left.count == 0) {
    s.set("PodsReady", ConditionStatus::kFalse, "Starting", "");
  }
}

// Whether no pod of this attempt is known, at its places or elsewhere. Then none was told which checkpoint it
// starts from.
bool none_was_told(const JobStep& s) {
  const auto is_of_this = [&](const client::Pod* pod) {
    const auto id = identity_of(*pod);
    return id && id->attempt == s.status.assignment.attempt;
  };
  return std::ranges::all_of(s.gang.pods, [](const auto* pod) { return pod == nullptr; }) &&
         std::ranges::none_of(s.gang.succeeded, std::identity()) &&
         std::ranges::none_of(s.gang.strays, is_of_this);
}

}  // namespace

void match_pods(JobStep& s) {
  s.gang = match(s.status.assignment, s.seen.pods);
  s.lost.assign(s.gang.pods.size(), {});
  for (const auto* pod : s.gang.strays) s.remove(*pod);
  if (s.seen.serves) s.gang.succeeded.assign(s.gang.pods.size(), false);  // nothing there is ever done
  s.status.assignment.succeeded = places_succeeded(s.gang);
}

void note_checkpoints(JobStep& s, bool live) {
  auto& known = s.status.checkpoint;
  const bool edited_at_rest = s.spec.suspend && s.status.assignment.attempt == 0 &&
                              s.seen.job.status.observed_generation != s.seen.job.metadata.generation;
  if (edited_at_rest) {  // other programs may report in another way, and save faster
    known.reporters = 0;
    known.save_seconds = 0;
  }
  for (const GangReport& report : s.seen.reports) {
    // Programs that never speak of checkpoints are not measured by how they end.
    if (s.spec.checkpoint || known.step || report.saved.step)
      take_over(known, report,
                s.status.assignment.attempt == 0
                    ? crds::replicas_of(s.spec)
                    : static_cast<std::int32_t>(s.status.assignment.pods.size()));
  }
  if (!live) return;
  const std::int64_t grace = grace_seconds(s.spec);
  if (known.save_seconds > grace) {
    s.set("GracePeriodTooShort", ConditionStatus::kTrue, "SavingTakesLonger",
          say_grace_too_short(grace, known.save_seconds));
  } else if (known.save_seconds > 0) {
    s.set("GracePeriodTooShort", ConditionStatus::kFalse, "SavedInTime", "");
  } else {
    s.set("GracePeriodTooShort", ConditionStatus::kUnknown, "NothingSavedYet", "");
  }
}

void decide_resume(JobStep& s) {
  auto& a = s.status.assignment;
  a.resume = {s.status.checkpoint.step, s.status.checkpoint.uri};
  s.set("Admitted", ConditionStatus::kTrue, "Admitted", say_admitted(a));
}

void note_checkpoints_of_other_size(JobStep& s) {
  note_checkpoints(s, true);
  if (s.status.assignment.attempt != 0 && !s.status.started_at && none_was_told(s)) decide_resume(s);
}

const client::Pod* failed_program(const JobStep& s) {
  if (const auto* failed = program_fault(s.gang); failed != nullptr || !s.seen.serves) return failed;
  const auto ended = std::ranges::find_if(s.gang.pods, [](const client::Pod* pod) {
    return pod != nullptr && pod->phase == client::PodPhase::kSucceeded;
  });
  return ended == s.gang.pods.end() ? nullptr : *ended;
}

void start_again(JobStep& s, const std::string& why) {
  for (std::size_t i = 0; i < s.gang.pods.size(); ++i) {
    if (is_displaced(s, i)) {  // not again in place: this one belongs to others by now
      return requeue(s, "ProgramFault",
                     fmt::format("{}; node {} does not take its pod", why, s.status.assignment.pods[i].node));
    }
  }
  if (const auto node = unusable_node(s); !node.empty())
    return requeue(s, "ProgramFault", fmt::format("{}; node {} is not to be used any more", why, node));
  add_run_time(s);
  renumber_places(s);
  begin_attempt(s, why, "Restarted", "Restart");
}

void restart(JobStep& s, const client::Pod& failed) {
  count_program_fault(s);
  ++s.status.restarts.count;
  if (s.seen.serves) return restart_server(s, failed);
  auto& recent = s.status.restarts.recent;
  const auto why = say_failed(failed);
  std::erase_if(recent, [&](crds::Time t) { return t + s.spec.restart.window <= s.seen.now; });
  recent.push_back(s.seen.now);
  if (recent.size() > static_cast<std::size_t>(s.spec.restart.limit)) {
    return fail(s, "RestartLimitExceeded",
                fmt::format("{}; restart.limit {} in {} is used up", why, s.spec.restart.limit,
                            crds::to_string(s.spec.restart.window)));
  }
  start_again(s, why);
}

void begin_attempt(JobStep& s, const std::string& why, const std::string& reason, const char* action,
                   client::EventType type) {
  auto& a = s.status.assignment;
  count_run(s);
  a.replaces = {};
  a.moved_in_vain.reset();
  a.attempt = ++s.status.attempt;
  a.admitted_at = s.seen.now;
  for (auto& p : a.pods) {
    p.tries = 0;
    p.joining.reset();
  }
  a.succeeded.clear();
  decide_resume(s);  // anew when the last word of the pods that end now is known
  s.status.started_at.reset();
  s.status.ready_replicas = 0;
  s.set("PodsReady", ConditionStatus::kFalse, "Restarting", why);
  const auto when =
      is_delayed(s) ? fmt::format(" at {}", crds::to_string(*s.status.retry_at)) : std::string();
  s.note(type, reason, action, fmt::format("{}; starting attempt {}{}", why, a.attempt, when));
  s.remove_all();  // their ends are what makes room: pods are made when they are gone
  s.gang = match(a, {});
  s.lost.assign(a.pods.size(), {});
  s.wake(start_due(s));
  if (s.lingering().count == 0) s.wake(s.seen.now);  // nobody will tell when they are gone
}

void keep_whole(JobStep& s) {
  if (!s.status.started_at) wake_for_refusals(s);
  const auto left = s.stale();
  if (!s.status.started_at) say_who_stays(s, left);
  const bool is_clear = left.count == 0 && !is_delayed(s);
  if (is_delayed(s)) s.wake(*s.status.retry_at);
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < s.gang.pods.size(); ++i) {
    const auto* pod = s.gang.pods[i];
    if (is_displaced(s, i)) {
      if (pod != nullptr && is_refusal(*pod)) remember_refusal_of(s, *pod);
      if (pod == nullptr) remember_refusal_of(s, i);
      s.step.displaced.push_back(i);
    } else if (pod == nullptr && !s.gang.succeeded[i] &&
               (s.status.started_at ? s.status.assignment.pods[i].joining.has_value() : is_clear)) {
      missing.push_back(i);
    }
  }
  if (are_held(s, missing)) s.step.create = std::move(missing);
  if (!s.status.started_at && !s.step.create.empty() && none_was_told(s)) decide_resume(s);
}

void publish_names(JobStep& s) {
  // A gang of one pod needs no names in two cases: a replica has the address of its service, and a batch
  // program without a framework has nobody to find.
  const bool is_alone =
      crds::most_replicas_of(s.spec) == 1 &&
      (s.seen.serves || (s.spec.framework == crds::Framework::kGeneric && s.spec.mode == crds::Mode::kBatch));
  if (s.status.started_at || is_alone) return;
  std::int64_t newest = 0;
  bool all_started = true;
  for (std::size_t i = 0; i < s.gang.pods.size(); ++i) {
    const auto* pod = s.gang.pods[i];
    if (pod == nullptr && !s.gang.succeeded[i]) return;
    if (pod == nullptr) continue;
    newest = std::max(newest, pod->created_at);
    if (pod->phase == client::PodPhase::kPending) all_started = false;
  }
  const crds::Time due = crds::Time{seconds{newest}} + kPublishAfter;
  s.step.publish = all_started || s.seen.now >= due;
  if (!s.step.publish) s.wake(due);
}

void judge_readiness(JobStep& s) {
  s.status.ready_replicas = static_cast<std::int32_t>(count_ready(s.gang));
  welcome_members(s);
  if (s.status.started_at || count_there(s.gang) < s.gang.pods.size()) return;
  // Once whole, readiness of single pods shows in the counter only: the condition does not flap with a
  // probe.
  s.status.started_at = s.seen.now;
  s.status.start_failures = 0;
  note_start(s);
  end_surge(s);
  s.set("PodsReady", ConditionStatus::kTrue, "PodsReady",
        fmt::format("all {} pods are ready", s.gang.pods.size()));
}

}  // namespace muster::reconcilers
