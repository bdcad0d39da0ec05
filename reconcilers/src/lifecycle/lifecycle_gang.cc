// What keeps a gang whole: pods that are missing, refused, lost or fail.
#include <fmt/format.h>

#include <algorithm>

#include "lifecycle_texts.h"
#include "machine.h"
#include "muster/reconcilers/pods/pod_end.h"
#include "muster/reconcilers/pods/pod_identity.h"
#include "refusals.h"

namespace muster::reconcilers {
namespace {

using crds::ConditionStatus;
using std::chrono::minutes;
using std::chrono::seconds;

constexpr seconds kPublishAfter{1};  // pods are dated to the second: up to one after the last was made
// A gang that did not start in time waits this long before it is tried again, doubling up to the maximum.
constexpr const char* kWaitingForEarlierPods = "WaitingForEarlierPods";  // reason of PodsReady
constexpr seconds kFirstRetry{10};
constexpr seconds kMaxRetry = minutes{10};

// A server that ends is started again at once; then after this long, doubling up to the maximum. One that ran
// for kMaxCrashDelay * 2 is taken for well again. The delays are kubelet's.
constexpr seconds kFirstCrashDelay{10};
constexpr seconds kMaxCrashDelay = minutes{5};

}  // namespace

// --- the running gang

// Pods that stand for no place of the assignment are removed.
void Machine::match_pods() {
  gang_ = match(status_.assignment, seen_.pods);
  lost_.assign(gang_.pods.size(), {});
  for (const auto* pod : gang_.strays) remove(*pod);
  if (seen_.serves) gang_.succeeded.assign(gang_.pods.size(), false);  // nothing there is ever done
  status_.assignment.succeeded = places_succeeded(gang_);
}

void Machine::complete() {
  release("Finished", "");
  status_.finished_at = seen_.now;
  set("Complete", ConditionStatus::kTrue, "Completed",
      spec_.completion.policy == crds::CompletionPolicy::kFirst ? "a pod succeeded" : "all pods succeeded");
  note(client::EventType::kNormal, "Completed", "Complete",
       fmt::format("attempt {} completed", status_.attempt));
  finished();
}

void Machine::fail(const std::string& reason, const std::string& message) {
  release("Finished", "");
  status_.finished_at = seen_.now;
  set("Failed", ConditionStatus::kTrue, reason, message);
  note(client::EventType::kWarning, reason, "Fail", message);
  finished();
}

// nullptr: all programs go on. A server's is not meant to end with success either.
const client::Pod* Machine::fault() const {
  if (const auto* failed = program_fault(gang_); failed != nullptr || !seen_.serves) return failed;
  const auto ended = std::ranges::find_if(gang_.pods, [](const client::Pod* pod) {
    return pod != nullptr && pod->phase == client::PodPhase::kSucceeded;
  });
  return ended == gang_.pods.end() ? nullptr : *ended;
}

// When a server that has just ended may start again.
void Machine::delay_restart() {
  auto& recent = status_.restarts.recent;
  if (status_.started_at && seen_.now - *status_.started_at >= 2 * kMaxCrashDelay) recent.clear();
  const auto doublings = std::min<std::size_t>(recent.size(), 6);
  recent.push_back(seen_.now);
  if (recent.size() > 8) recent.erase(recent.begin());
  if (doublings == 0) return status_.retry_at.reset();
  status_.retry_at = seen_.now + std::min(kMaxCrashDelay, kFirstCrashDelay * (1 << (doublings - 1)));
}

// A program's own fault: again in the same places with the next attempt number, within restart.limit in
// restart.window. The count and the new attempt are one write, so that no fault is counted twice.
void Machine::restart(const client::Pod& failed) {
  auto& recent = status_.restarts.recent;
  const auto why = say_failed(failed);
  ++status_.restarts.count;
  if (seen_.serves) return delay_restart(), start_again(why);
  std::erase_if(recent, [&](crds::Time t) { return t + spec_.restart.window <= seen_.now; });
  recent.push_back(seen_.now);
  if (recent.size() > static_cast<std::size_t>(spec_.restart.limit)) {
    return fail("RestartLimitExceeded",
                fmt::format("{}; restart.limit {} in {} is used up", why, spec_.restart.limit,
                            crds::to_string(spec_.restart.window)));
  }
  start_again(why);
}

void Machine::start_again(const std::string& why) {
  for (std::size_t i = 0; i < gang_.pods.size(); ++i) {
    if (displaced(i)) {  // not again in place: this one belongs to others by now
      return requeue("ProgramFault",
                     fmt::format("{}; node {} does not take its pod", why, status_.assignment.pods[i].node));
    }
  }
  for (const auto& place : status_.assignment.pods) {
    if (seen_.node_usable && !seen_.node_usable(place.node)) {
      return requeue("ProgramFault", fmt::format("{}; node {} is not to be used any more", why, place.node));
    }
  }
  add_run_time();
  renumber();
  begin_attempt(why, "Restarted", "Restart");
}

// Again, in the places of the assignment.
void Machine::begin_attempt(const std::string& why, const std::string& reason, const char* action,
                            client::EventType type) {
  auto& a = status_.assignment;
  a.attempt = ++status_.attempt;
  a.admitted_at = seen_.now;
  for (auto& p : a.pods) {
    p.tries = 0;
    p.joining.reset();
  }
  a.succeeded.clear();
  decide_resume();  // anew when the last word of the pods that end now is known
  status_.started_at.reset();
  status_.ready_replicas = 0;
  set("PodsReady", ConditionStatus::kFalse, "Restarting", why);
  const auto when = is_delayed() ? fmt::format(" at {}", crds::to_string(*status_.retry_at)) : std::string();
  note(type, reason, action, fmt::format("{}; starting attempt {}{}", why, a.attempt, when));
  remove_all();  // their ends are what makes room: pods are made when they are gone
  gang_ = match(a, {});
  lost_.assign(a.pods.size(), {});
  wake(start_due());
  if (lingering().count == 0) wake(seen_.now);  // nobody will tell when they are gone
}
// A server that keeps ending waits in its places.
bool Machine::is_delayed() const {
  return seen_.serves && status_.retry_at && *status_.retry_at > seen_.now;
}
crds::Time Machine::start_due() const {
  const auto begins = status_.assignment.admitted_at.value_or(seen_.now);
  return std::max(begins, seen_.serves ? status_.retry_at.value_or(begins) : begins) + spec_.start_timeout;
}

// --- repair

// Which places are lost: their node is, or one of their GPUs.
void Machine::find_lost() {
  const auto& places = status_.assignment.pods;
  lost_.assign(places.size(), {});
  if (!seen_.health) return;
  const bool is_failing = program_fault(gang_) != nullptr;
  NodeHealth health;
  for (std::size_t i = 0; i < places.size(); ++i) {
    if (gang_.succeeded[i]) continue;
    if (i == 0 || places[i].node != places[i - 1].node) health = seen_.health(places[i].node);
    lost_[i] = health.lost;
    // A program that fails while a node is away fails because of it.
    if (lost_[i].empty() && is_failing && !health.ready)
      lost_[i] = fmt::format("node {} is not Ready", places[i].node);
    for (const auto gpu : health.bad_gpus) {
      if (lost_[i].empty() && std::ranges::find(places[i].gpus, gpu) != places[i].gpus.end())
        lost_[i] = fmt::format("GPU {} of node {} is unhealthy", gpu, places[i].node);
    }
    for (const auto gpu : places[i].gpus) {
      if (lost_[i].empty() && health.failing_gpus.contains(gpu))
        lost_[i] = fmt::format("GPU {} of node {} has double-bit errors", gpu, places[i].node);
    }
    if (lost_[i].empty() && health.again) wake(*health.again);
  }
}

std::string Machine::why_lost() const {
  const auto first = std::ranges::find_if(lost_, [](const std::string& why) { return !why.empty(); });
  return first == lost_.end() ? std::string() : *first;
}

// True: a gang that ran stands on lost ground. All of it is placed anew in one decision, the rest stays
// where it is; until that is made nothing is done about it.
bool Machine::loses_ground() {
  if (why_lost().empty() || (!status_.started_at && program_fault(gang_) == nullptr)) return false;
  for (std::size_t i = 0; i < gang_.pods.size(); ++i) {
    if (displaced(i)) step_.displaced.push_back(i);
  }
  if (!status_.started_at) wake(status_.assignment.admitted_at.value_or(seen_.now) + spec_.start_timeout);
  return true;
}

// The next attempt, from the last checkpoint, with other places for those that were lost.
void Machine::reform(const Decision& replace) {
  const auto why = why_lost();
  add_run_time();
  replace_pods(replace);
  renumber();
  begin_attempt(fmt::format("{}; {} of {} pods have other places", why.empty() ? "places were lost" : why,
                            replace.places.size(), status_.assignment.pods.size()),
                "Reformed", "Reform");
}

// Why the pod of this place is lost, empty: it is not. Its node or somebody else ended it; or it is gone
// though the gang had run whole.
std::string Machine::lost_at(std::size_t i) const {
  const auto* pod = gang_.pods[i];
  const auto& place = status_.assignment.pods[i];
  if (gang_.succeeded[i] || (!status_.started_at && displaced(i))) return {};
  if (pod == nullptr && status_.started_at && !place.joining) return say_gone(place);
  if (pod == nullptr) return status_.started_at ? refused_at(i) : std::string();
  // Its program may have failed for it already (exit code 143): no fault of its own.
  if (pod->deleting) return say_deleted(*pod);
  if (!is_terminal(*pod)) {
    if (auto lost = holding(i).lost; !lost.empty()) return lost;
  }
  // A refusal once the gang ran whole is a kubelet that started anew and did not take its pod back.
  const bool ended_by_node = pod->phase == client::PodPhase::kFailed &&
                             (is_cluster_fault(*pod) || (status_.started_at && is_refusal(*pod)));
  return ended_by_node ? say_ended_by_node(*pod) : std::string();
}

std::string Machine::lost_pod() const {
  for (std::size_t i = 0; i < gang_.pods.size(); ++i) {
    if (auto why = lost_at(i); !why.empty()) return why;
  }
  return {};
}

// True: the attempt was ended for its time.
bool Machine::out_of_time() {
  if (!status_.started_at) {
    const auto due = start_due();
    if (seen_.now < due) return wake(due), false;
    back_off("StartTimeout", say_start_timed_out(gang_, spec_.start_timeout));
    return true;
  }
  if (spec_.max_runtime) {
    const auto due = *status_.started_at + *spec_.max_runtime - seconds{status_.run_seconds};
    if (seen_.now >= due) {
      fail("MaxRuntimeExceeded", fmt::format("ran for maxRuntime {}", crds::to_string(*spec_.max_runtime)));
      return true;
    }
    wake(due);
  }
  return is_left_idle();
}

// True: the attempt was ended because nobody uses its GPUs. Nothing wakes it for that: who reads does.
bool Machine::is_left_idle() {
  const auto timeout = spec_.idle ? spec_.idle->timeout : std::nullopt;
  const auto& gpus = seen_.idleness;
  if (!timeout) {
    if (crds::find_condition(status_.conditions, "Idle") != nullptr)
      say_idleness(ConditionStatus::kUnknown, "NoTimeout", "");
  } else if (!gpus.is_known) {
    if (!gpus.problem.empty()) say_idleness(ConditionStatus::kUnknown, "NoReading", gpus.problem);
  } else if (gpus.idle >= *timeout) {
    const auto why = fmt::format("all its GPUs were used below {} % for idle.timeout {}",
                                 spec_.idle->gpu_utilization_below, crds::to_string(*timeout));
    say_idleness(ConditionStatus::kTrue, "IdleTimeout", why);
    fail("IdleTimeout", why);
    return true;
  } else if (gpus.idle * 2 >= *timeout) {
    const auto warning = fmt::format(
        "all its GPUs have been used below {} % for half of idle.timeout {}: it ends unless they are used",
        spec_.idle->gpu_utilization_below, crds::to_string(*timeout));
    if (!crds::is_true(status_.conditions, "Idle"))
      note(client::EventType::kWarning, "Idle", "Watch", warning);
    say_idleness(ConditionStatus::kTrue, "HalfOfTimeout", warning);
  } else {
    say_idleness(ConditionStatus::kFalse, "GPUsInUse", "");
  }
  return false;
}

// A problem that is told in other words is not told again.
void Machine::say_idleness(ConditionStatus value, const char* reason, std::string message) {
  const auto* before = crds::find_condition(status_.conditions, "Idle");
  if (before != nullptr && before->status == value && before->reason == reason) message = before->message;
  set("Idle", value, reason, std::move(message));
}

void Machine::back_off(const std::string& reason, const std::string& message) {
  ++status_.start_failures;
  const auto doublings = std::min(status_.start_failures - 1, 10);
  status_.retry_at = seen_.now + std::min(kMaxRetry, kFirstRetry * (1 << doublings));
  requeue(reason, message);
}

// Of a gang that starts and is kept from it by pods that should have ended.
void Machine::say_who_stays(const Lingering& left) {
  const auto* ready = crds::find_condition(status_.conditions, "PodsReady");
  const bool was_said = ready != nullptr && ready->reason == kWaitingForEarlierPods;
  wake_for(left);
  if (left.count > 0 && left.deadline != crds::Time{} && seen_.now >= left.overdue_at()) {
    set("PodsReady", ConditionStatus::kFalse, kWaitingForEarlierPods,
        say_lingering(left, status_.assignment.attempt - 1, grace_seconds(spec_), seen_.now));
  } else if (was_said && left.count == 0) {
    set("PodsReady", ConditionStatus::kFalse, "Starting", "");
  }
}

// Pods that are missing are made, refused ones get another place. Not before the last pod of an earlier
// attempt has gone: until then it holds the very GPUs.
void Machine::keep_whole() {
  if (!status_.started_at) wake_for_refusals();
  const auto left = stale();
  if (!status_.started_at) say_who_stays(left);
  const bool is_clear = left.count == 0 && !is_delayed();
  if (is_delayed()) wake(*status_.retry_at);
  std::vector<std::size_t> missing;
  for (std::size_t i = 0; i < gang_.pods.size(); ++i) {
    const auto* pod = gang_.pods[i];
    if (displaced(i)) {
      if (pod != nullptr && is_refusal(*pod)) remember_refusal_of(*pod);
      if (pod == nullptr) remember_refusal_of(i);
      step_.displaced.push_back(i);
    } else if (pod == nullptr && !gang_.succeeded[i] &&
               (status_.started_at ? status_.assignment.pods[i].joining.has_value() : is_clear)) {
      missing.push_back(i);
    }
  }
  if (are_held(missing)) step_.create = std::move(missing);
  if (!status_.started_at && !step_.create.empty() && none_was_told()) decide_resume();
}

// No pod of this attempt knows yet what it starts from, whatever became of their places meanwhile.
bool Machine::none_was_told() const {
  const auto is_of_this = [&](const client::Pod* pod) {
    const auto id = identity_of(*pod);
    return id && id->attempt == status_.assignment.attempt;
  };
  return std::ranges::all_of(gang_.pods, [](const auto* pod) { return pod == nullptr; }) &&
         std::ranges::none_of(gang_.succeeded, std::identity()) &&
         std::ranges::none_of(gang_.strays, is_of_this);
}

// The place of this entry was refused: placement has given it back already, so nothing may be made there
// any more, not even when the refused pod is gone. The refusal in the status is what remembers it.
bool Machine::displaced(std::size_t i) const {
  const auto* pod = gang_.pods[i];
  if (gang_.succeeded[i]) return false;
  if (!lost_[i].empty()) return true;
  if (pod != nullptr) return pod->phase == client::PodPhase::kFailed && is_refusal(*pod);
  return !status_.started_at &&
         (!holding(i).refused.empty() || has_refused(status_.node_refusals, status_.assignment.pods[i].node,
                                                     status_.assignment.admitted_at));
}

// Placement avoids every node of the list, so an entry must go when its time has come, not with the next
// refusal; but not while a place on the node is still to be replaced.
void Machine::forget_old_refusals() {
  std::set<std::string> needed;
  for (std::size_t i = 0; i < gang_.pods.size(); ++i) {
    if (displaced(i)) needed.insert(status_.assignment.pods[i].node);
  }
  forget_refusals(status_.node_refusals, seen_.now, needed);
}

void Machine::wake_for_refusals() {
  for (const auto& r : status_.node_refusals) {
    if (*r.at + kRefusalMemory > seen_.now) wake(*r.at + kRefusalMemory);
  }
}

void Machine::replace_pods(const Decision& replace) {
  for (const Place& p : replace.places) {
    for (auto& mine : status_.assignment.pods) {
      if (mine.role != p.role || mine.index != p.index) continue;
      mine.node = p.node;
      mine.gpus = p.gpus;
      ++mine.tries;
    }
  }
}

// The headless Service comes when every pod has its address, or a moment after the last one was made,
// which is before a kubelet has started a program: the endpoint controllers then look at the gang once,
// instead of at every pod that starts. A controller that begins here makes it, since the gang has not run.
void Machine::publish_names() {
  // A replica has its service's address; a batch program that no framework tells its own has nobody to find.
  const bool is_alone =
      crds::most_replicas_of(spec_) == 1 &&
      (seen_.serves || (spec_.framework == crds::Framework::kGeneric && spec_.mode == crds::Mode::kBatch));
  if (status_.started_at || is_alone) return;
  std::int64_t newest = 0;
  bool all_started = true;
  for (std::size_t i = 0; i < gang_.pods.size(); ++i) {
    const auto* pod = gang_.pods[i];
    if (pod == nullptr && !gang_.succeeded[i]) return;
    if (pod == nullptr) continue;
    newest = std::max(newest, pod->created_at);
    if (pod->phase == client::PodPhase::kPending) all_started = false;
  }
  const crds::Time due = crds::Time{seconds{newest}} + kPublishAfter;
  step_.publish = all_started || seen_.now >= due;
  if (!step_.publish) wake(due);
}

void Machine::judge_readiness() {
  status_.ready_replicas = static_cast<std::int32_t>(count_ready(gang_));
  welcome();
  if (status_.started_at || count_there(gang_) < gang_.pods.size()) return;
  // Once whole, readiness of single pods shows in the counter only: the condition does not flap with a
  // probe.
  status_.started_at = seen_.now;
  status_.start_failures = 0;
  set("PodsReady", ConditionStatus::kTrue, "PodsReady",
      fmt::format("all {} pods are ready", gang_.pods.size()));
}

}  // namespace muster::reconcilers
