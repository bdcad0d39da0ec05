#include "muster/reconcilers/lifecycle.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <set>
#include <string_view>

#include "muster/reconcilers/pod_identity.h"

namespace muster::reconcilers {
namespace {

using crds::ConditionStatus;
using std::chrono::minutes;
using std::chrono::seconds;

// A gang that did not start in time waits this long before it is tried again, doubling up to the maximum.
constexpr seconds kFirstRetry{10};
constexpr seconds kLongestRetry = minutes{10};
// A node that refused a pod is not chosen again for this long: its kubelet knows something that we do not.
constexpr seconds kRefusalMemory = minutes{5};
constexpr std::size_t kMaxRefusals = 32;
// What others wrote is quoted up to here; the schema takes 4096 characters for a whole message.
constexpr std::size_t kMaxQuote = 256;
constexpr std::size_t kMaxMessage = 4000;

// At most `bytes`, cut at a character and not inside one: half a UTF-8 sequence is no valid JSON.
std::string cut(std::string_view text, std::size_t bytes) {
  if (text.size() <= bytes) return std::string(text);
  while (bytes > 0 && (static_cast<unsigned char>(text[bytes]) & 0xC0) == 0x80) --bytes;
  return std::string(text.substr(0, bytes)) + "...";
}

// ": what it said", or nothing.
std::string quoted(std::string_view text) {
  return text.empty() ? std::string() : ": " + cut(text, kMaxQuote);
}

// Pods that are not wanted any more and still hold something.
struct Lingering {
  std::size_t count = 0;
  std::string example;

  void add(const client::Pod& pod) {
    if (is_terminal(pod)) return;
    if (count++ == 0) example = fmt::format("{} on node {}", pod.meta.name, pod.node_name);
  }
};

struct PlacedPod {
  const client::Pod* pod = nullptr;  // the pod that the assignment's entry means; nullptr: none exists
};

class Machine {
 public:
  explicit Machine(const Observed& seen) : seen_(seen), spec_(seen.job.spec), status_(step_.status) {
    status_ = seen.job.status;
    status_.observed_generation = seen.job.metadata.generation;
  }

  Step run() {
    start_conditions();
    const bool live = !is_finished(status_);
    const bool placed = live && status_.assignment.attempt != 0;
    if (placed) match_pods();
    if (!live) {
      finished();
    } else if (placed && completed()) {
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
    if (!is_finished(status_)) forget_old_refusals();
    describe();
    return std::move(step_);
  }

 private:
  // --- the states
  // -------------------------------------------------------------------------------------------------

  void finished() {
    // What has ended stays for its logs; what still runs (policy First, or a role that is not waited for) is
    // ended.
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

  void suspended() {
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
  }

  void waiting() {
    remove_all();
    if (!accept() || held_back()) return;
    step_.wants_place = true;
    wake_for_refusals();
    if (const auto* start = decision(Decision::Kind::kStart)) {
      admit(*start);
    } else if (seen_.verdict != nullptr) {
      status_.queue = *seen_.verdict;
      not_admitted(status_.queue.reason, status_.queue.message);
    }
  }

  // True: it must not be placed yet; said why.
  bool held_back() {
    const auto* evicted = crds::find_condition(status_.conditions, "Evicted");
    const std::string why =
        evicted != nullptr && evicted->status == ConditionStatus::kTrue && evicted->reason != "Suspended"
            ? "; attempt " + std::to_string(status_.attempt) + " was withdrawn: " + evicted->message
            : std::string();
    if (const auto left = lingering(); left.count > 0) {
      wait_for("BackingOff", fmt::format("{} pods of attempts up to {} have not ended yet, among them {}{}",
                                         left.count, status_.attempt, left.example, why));
    } else if (status_.retry_at && *status_.retry_at > seen_.now) {
      wake(*status_.retry_at);
      wait_for("BackingOff", fmt::format("queued again at {}{}", crds::to_string(*status_.retry_at), why));
    } else if (seen_.blocked) {
      wait_for("NoMatchingNodes", *seen_.blocked);
    } else {
      return false;
    }
    return true;
  }

  void admitted() {
    if (const auto* evict = decision(Decision::Kind::kEvict)) return requeue(evict->reason, evict->message);
    if (const auto* evict = decision(Decision::Kind::kBackOff))
      return back_off(evict->reason, evict->message);
    if (const auto* replace = decision(Decision::Kind::kReplace)) {
      replace_pods(*replace);
      match_pods();
    }
    if (!seen_.invalid) accept();  // an edit of the spec was looked at; what runs is not judged anew
    // What the cluster did comes first: programs fail in its wake, and that is not held against them.
    if (const auto lost = lost_pod(); !lost.empty()) {
      // Lost before it ran whole: with a delay, or whoever removes the pods and we would chase each other.
      return status_.started_at ? requeue("PodLost", lost) : back_off("PodLost", lost);
    }
    if (const auto* failed = program_fault()) return restart(*failed);
    judge_readiness();  // before the time: a gang that became whole while nobody looked is not withdrawn
    if (out_of_time()) return;
    keep_whole();
  }

  // --- waiting and admission
  // --------------------------------------------------------------------------------------

  // False: the spec can never run; said in Accepted, Stalled and the queue's reason.
  bool accept() {
    if (seen_.invalid) {
      set("Accepted", ConditionStatus::kFalse, "InvalidSpec", *seen_.invalid);
      set("Stalled", ConditionStatus::kTrue, "InvalidSpec", *seen_.invalid);
      wait_for("InvalidSpec", *seen_.invalid);
      return false;
    }
    set("Accepted", ConditionStatus::kTrue, "Valid", "");
    set("Stalled", ConditionStatus::kFalse, "Valid", "");
    return true;
  }

  void not_admitted(const std::string& reason, const std::string& message) {
    set("Admitted", ConditionStatus::kFalse, reason.empty() ? "Queued" : reason, message);
    set("PodsReady", ConditionStatus::kFalse, "NotAdmitted", "");
  }

  void wait_for(const std::string& reason, const std::string& message) {
    status_.queue = {};
    status_.queue.reason = reason;
    status_.queue.message = cut(message, kMaxMessage);
    not_admitted(reason, status_.queue.message);
  }

  void admit(const Decision& start) {
    auto& a = status_.assignment;
    a.attempt = ++status_.attempt;
    a.pool = start.pool;
    a.admitted_at = seen_.now;
    a.pods.clear();
    a.pods.reserve(start.places.size());
    for (const Place& p : start.places) a.pods.push_back({p.role, p.index, p.node, p.gpus, 0});
    status_.queue = {};
    status_.retry_at.reset();
    status_.started_at.reset();
    const auto text = admitted_text();
    set("Admitted", ConditionStatus::kTrue, "Admitted", text);
    set("PodsReady", ConditionStatus::kFalse, "Starting", "");
    set("Evicted", ConditionStatus::kFalse, "Admitted", "");
    note(client::EventType::kNormal, "Admitted", "Admit", text);
    // No pod of an earlier attempt exists (waiting() saw to that), so all are to be made.
    for (std::size_t i = 0; i < a.pods.size(); ++i) step_.create.push_back(i);
    wake(seen_.now + spec_.start_timeout);
  }

  std::string admitted_text() const {
    const auto& a = status_.assignment;
    return fmt::format("attempt {}: {} pods in pool {}", a.attempt, a.pods.size(), a.pool);
  }

  // --- the running gang
  // -------------------------------------------------------------------------------------------

  // Which pod stands for which entry of the assignment. All others are of earlier attempts or tries: they are
  // removed.
  void match_pods() {
    const auto& a = status_.assignment;
    std::map<std::string_view, std::size_t> by_role_index;
    std::vector<std::string> keys(a.pods.size());
    for (std::size_t i = 0; i < a.pods.size(); ++i) {
      keys[i] = slot_key(a.pods[i].role, a.pods[i].index);
      by_role_index.emplace(keys[i], i);
    }
    placed_.assign(a.pods.size(), {});
    stale_ = {};
    for (const auto& pod : seen_.pods) {
      const auto id = identity_of(*pod);
      const auto slot = id ? by_role_index.find(slot_key(id->role, id->index)) : by_role_index.end();
      if (slot != by_role_index.end() && id->attempt == a.attempt &&
          id->tries == a.pods[slot->second].tries) {
        placed_[slot->second].pod = pod.get();
        continue;
      }
      stale_.add(*pod);
      remove(*pod);
    }
  }

  bool completed() const {
    const auto& c = spec_.completion;
    bool all = true, any = false, waited_for = false;
    for (std::size_t i = 0; i < placed_.size(); ++i) {
      if (!c.role.empty() && status_.assignment.pods[i].role != c.role) continue;
      const auto* pod = placed_[i].pod;
      const bool succeeded = pod != nullptr && pod->phase == client::PodPhase::kSucceeded;
      waited_for = true;
      all = all && succeeded;
      any = any || succeeded;
    }
    return c.policy == crds::CompletionPolicy::kFirst ? any : (all && waited_for);
  }

  void complete() {
    release("Finished", "");
    status_.finished_at = seen_.now;
    set("Complete", ConditionStatus::kTrue, "Completed",
        spec_.completion.policy == crds::CompletionPolicy::kFirst ? "a pod succeeded" : "all pods succeeded");
    note(client::EventType::kNormal, "Completed", "Complete",
         fmt::format("attempt {} completed", status_.attempt));
    finished();
  }

  void fail(const std::string& reason, const std::string& message) {
    release("Finished", "");
    status_.finished_at = seen_.now;
    set("Failed", ConditionStatus::kTrue, reason, message);
    note(client::EventType::kWarning, reason, "Fail", message);
    finished();
  }

  const client::Pod* program_fault() const {
    for (const auto& p : placed_) {
      if (p.pod != nullptr && p.pod->phase == client::PodPhase::kFailed && !is_refusal(*p.pod) &&
          !is_cluster_fault(*p.pod)) {
        return p.pod;
      }
    }
    return nullptr;
  }

  static std::string how_it_ended(const client::Pod& pod) {
    for (const auto& end : pod.ended) {
      if (end.exit_code == 0) continue;
      return fmt::format("pod {}: container {} ended with exit code {}{}{}", pod.meta.name, end.name,
                         end.exit_code, end.reason.empty() ? "" : " (" + end.reason + ")",
                         quoted(end.message));
    }
    return fmt::format("pod {} failed{}{}", pod.meta.name, pod.reason.empty() ? "" : " (" + pod.reason + ")",
                       quoted(pod.message));
  }

  // A program's own fault: again in the same places with the next attempt number, within restart.limit in
  // restart.window. The count and the new attempt are one write, so that no fault is counted twice.
  void restart(const client::Pod& failed) {
    auto& recent = status_.restarts.recent;
    std::erase_if(recent, [&](crds::Time t) { return t + spec_.restart.window <= seen_.now; });
    const auto why = how_it_ended(failed);
    ++status_.restarts.count;
    if (recent.size() >= static_cast<std::size_t>(spec_.restart.limit)) {
      return fail("RestartLimitExceeded",
                  fmt::format("{}; restart.limit {} in {} is used up", why, spec_.restart.limit,
                              crds::to_string(spec_.restart.window)));
    }
    recent.push_back(seen_.now);
    for (std::size_t i = 0; i < placed_.size(); ++i) {
      if (displaced(i)) {  // not again in place: this one belongs to others by now
        return requeue("ProgramFault", fmt::format("{}; node {} does not take its pod", why,
                                                   status_.assignment.pods[i].node));
      }
    }
    for (const auto& place : status_.assignment.pods) {
      if (seen_.node_usable && !seen_.node_usable(place.node)) {
        return requeue("ProgramFault",
                       fmt::format("{}; node {} is not to be used any more", why, place.node));
      }
    }
    add_run_time();
    auto& a = status_.assignment;
    a.attempt = ++status_.attempt;
    a.admitted_at = seen_.now;
    for (auto& p : a.pods) p.tries = 0;
    set("Admitted", ConditionStatus::kTrue, "Admitted", admitted_text());
    status_.started_at.reset();
    status_.ready_replicas = 0;
    set("PodsReady", ConditionStatus::kFalse, "Restarting", why);
    note(client::EventType::kWarning, "Restarted", "Restart",
         fmt::format("{}; starting attempt {}", why, a.attempt));
    for (const auto& p : seen_.pods)
      remove(*p);  // their ends are what makes room: pods are made when they are gone
    placed_.assign(a.pods.size(), {});
    wake(seen_.now + spec_.start_timeout);
  }

  // Empty: none. A pod that its node or somebody else ended; or one that is gone though the gang had run
  // whole.
  std::string lost_pod() const {
    for (std::size_t i = 0; i < placed_.size(); ++i) {
      const auto* pod = placed_[i].pod;
      const auto& place = status_.assignment.pods[i];
      if (pod == nullptr) {
        if (status_.started_at)
          return fmt::format("pod {} of node {} is gone", slot_key(place.role, place.index), place.node);
      } else if (pod->phase == client::PodPhase::kSucceeded || (!status_.started_at && displaced(i))) {
        continue;
      } else if (pod->deleting) {
        // Its program may have failed for it already (exit code 143): no fault of its own.
        return fmt::format("pod {} on node {} was deleted", pod->meta.name, pod->node_name);
      } else if (pod->phase == client::PodPhase::kFailed &&
                 (is_cluster_fault(*pod) || (status_.started_at && is_refusal(*pod)))) {
        // A refusal once the gang ran whole is a kubelet that started anew and did not take its pod back.
        return fmt::format("pod {} was ended by node {}: {}{}", pod->meta.name, pod->node_name, pod->reason,
                           quoted(pod->message));
      }
    }
    return {};
  }

  // True: the attempt was ended for its time.
  bool out_of_time() {
    const auto& a = status_.assignment;
    if (!status_.started_at) {
      const auto due = a.admitted_at.value_or(seen_.now) + spec_.start_timeout;
      if (seen_.now < due) return wake(due), false;
      start_timed_out();
      return true;
    }
    if (!spec_.max_runtime) return false;
    const auto due = *status_.started_at + *spec_.max_runtime - seconds{status_.run_seconds};
    if (seen_.now < due) return wake(due), false;
    fail("MaxRuntimeExceeded", fmt::format("ran for maxRuntime {}", crds::to_string(*spec_.max_runtime)));
    return true;
  }

  void start_timed_out() {
    std::size_t ready = 0;
    std::string why;
    if (stale_.count > 0)
      why = fmt::format("; {} pods of earlier attempts have not ended, among them {}", stale_.count,
                        stale_.example);
    for (const auto& p : placed_) {
      if (p.pod == nullptr) continue;
      const bool refused = p.pod->phase == client::PodPhase::kFailed;
      if (p.pod->ready || p.pod->phase == client::PodPhase::kSucceeded) {
        ++ready;
      } else if (why.empty() && refused) {
        why = fmt::format("; node {} refused pod {}: {}{}", p.pod->node_name, p.pod->meta.name, p.pod->reason,
                          quoted(p.pod->message));
      } else if (why.empty() && !p.pod->waiting_reason.empty()) {
        why = fmt::format("; pod {} on node {}: {}{}", p.pod->meta.name, p.pod->node_name,
                          p.pod->waiting_reason, quoted(p.pod->waiting_message));
      }
    }
    back_off("StartTimeout", fmt::format("{} of {} pods were ready after startTimeout {}{}", ready,
                                         placed_.size(), crds::to_string(spec_.start_timeout), why));
  }

  void back_off(const std::string& reason, const std::string& message) {
    ++status_.start_failures;
    const auto doublings = std::min(status_.start_failures - 1, 10);
    status_.retry_at = seen_.now + std::min(kLongestRetry, kFirstRetry * (1 << doublings));
    requeue(reason, message);
  }

  // Pods that are missing are made, refused ones get another place. Not before the last pod of an earlier
  // attempt has gone: until then it holds the very GPUs.
  void keep_whole() {
    if (!status_.started_at) wake_for_refusals();
    for (std::size_t i = 0; i < placed_.size(); ++i) {
      const auto* pod = placed_[i].pod;
      if (displaced(i)) {
        if (pod != nullptr) remember_refusal(*pod);
        step_.displaced.push_back(i);
      } else if (pod == nullptr && stale_.count == 0 && !status_.started_at) {
        step_.create.push_back(i);
      }
    }
  }

  void remember_refusal(const client::Pod& pod) {
    auto& list = status_.node_refusals;
    const auto known =
        std::find_if(list.begin(), list.end(), [&](const auto& r) { return r.node == pod.node_name; });
    if (known != list.end() && known->at >= status_.assignment.admitted_at) return;
    if (known != list.end()) list.erase(known);
    if (list.size() >= kMaxRefusals) list.erase(list.begin());
    list.push_back({pod.node_name, pod.reason, seen_.now});
    wake(seen_.now + kRefusalMemory);
    note(client::EventType::kWarning, "PodRefused", "Place",
         fmt::format("node {} refused pod {}: {}{}", pod.node_name, pod.meta.name, pod.reason,
                     quoted(pod.message)));
  }

  // The place of this entry was refused: placement has given it back already, so nothing may be made there
  // any more, not even when the refused pod is gone. The refusal in the status is what remembers it.
  bool displaced(std::size_t i) const {
    const auto* pod = placed_[i].pod;
    if (pod != nullptr) return pod->phase == client::PodPhase::kFailed && is_refusal(*pod);
    const auto& list = status_.node_refusals;
    return !status_.started_at && std::any_of(list.begin(), list.end(), [&](const auto& r) {
      return r.node == status_.assignment.pods[i].node && r.at >= status_.assignment.admitted_at;
    });
  }

  // Placement avoids every node of the list, so an entry must go when its time has come, not with the next
  // refusal; but not while a place on the node is still to be replaced.
  void forget_old_refusals() {
    std::set<std::string_view> needed;
    for (std::size_t i = 0; i < placed_.size(); ++i) {
      if (displaced(i)) needed.insert(status_.assignment.pods[i].node);
    }
    std::erase_if(status_.node_refusals, [&](const crds::NodeRefusal& r) {
      return !r.at || (*r.at + kRefusalMemory <= seen_.now && !needed.contains(r.node));
    });
  }
  void wake_for_refusals() {
    for (const auto& r : status_.node_refusals) {
      if (*r.at + kRefusalMemory > seen_.now) wake(*r.at + kRefusalMemory);
    }
  }

  void replace_pods(const Decision& replace) {
    for (const Place& p : replace.places) {
      for (auto& mine : status_.assignment.pods) {
        if (mine.role != p.role || mine.index != p.index) continue;
        mine.node = p.node;
        mine.gpus = p.gpus;
        ++mine.tries;
      }
    }
  }

  void judge_readiness() {
    std::int32_t ready = 0, there = 0;
    for (const auto& p : placed_) {
      if (p.pod == nullptr) continue;
      if (p.pod->ready || p.pod->phase == client::PodPhase::kSucceeded) ++there;
      if (p.pod->ready) ++ready;
    }
    status_.ready_replicas = ready;
    if (status_.started_at || there < static_cast<std::int32_t>(placed_.size())) return;
    // Once whole, readiness of single pods shows in the counter only: the condition does not flap with a
    // probe.
    status_.started_at = seen_.now;
    status_.start_failures = 0;
    set("PodsReady", ConditionStatus::kTrue, "PodsReady",
        fmt::format("all {} pods are ready", placed_.size()));
  }

  // --- the way back
  // -----------------------------------------------------------------------------------------------

  void add_run_time() {
    if (status_.started_at) status_.run_seconds += (seen_.now - *status_.started_at).count();
  }

  void release(const std::string& reason, const std::string& message) {
    add_run_time();
    status_.assignment = {};
    status_.queue = {};
    set("Admitted", ConditionStatus::kFalse, reason, message);
    set("PodsReady", ConditionStatus::kFalse, reason, message);
    placed_.clear();
  }

  // Everything back, queued again with the old submission time.
  void withdraw(const std::string& reason, const std::string& text, client::EventType type) {
    const std::string message =
        cut(text, kMaxMessage / 2);  // said again, with more around it, while the job waits
    release(reason, message);
    status_.started_at.reset();
    set("Evicted", ConditionStatus::kTrue, reason, message);
    status_.queue.reason = "BackingOff";
    status_.queue.message = message;
    note(type, reason, "Evict", fmt::format("attempt {} was withdrawn: {}", status_.attempt, message));
    step_.create.clear();
    step_.displaced.clear();
  }

  // As the next step would find it, so that one write says it all. A place is asked for by that next step.
  void requeue(const std::string& reason, const std::string& message) {
    withdraw(reason, message, client::EventType::kWarning);
    remove_all();
    if (accept() && !held_back()) wake(seen_.now);
  }

  // --- helpers
  // ----------------------------------------------------------------------------------------------------

  static std::string slot_key(std::string_view role, std::int32_t index) {
    return fmt::format("{}-{}", role, index);
  }

  const Decision* decision(Decision::Kind kind) const {
    const auto* d = seen_.decision;
    if (d == nullptr || d->kind != kind) return nullptr;
    const bool placed = kind == Decision::Kind::kStart || kind == Decision::Kind::kReplace;
    return !placed || d->generation == seen_.job.metadata.generation ? d : nullptr;
  }

  void remove(const client::Pod& pod) {
    if (pod.deleting) return;
    const auto known = std::find_if(step_.remove.begin(), step_.remove.end(),
                                    [&](const auto& r) { return r.uid == pod.meta.uid; });
    if (known == step_.remove.end()) step_.remove.push_back({pod.meta.name, pod.meta.uid});
  }
  void remove_all() {
    step_.remove.clear();
    step_.remove.reserve(seen_.pods.size());
    for (const auto& pod : seen_.pods) {
      if (!pod->deleting) step_.remove.push_back({pod->meta.name, pod->meta.uid});
    }
  }
  Lingering lingering() const {
    Lingering all;
    for (const auto& pod : seen_.pods) all.add(*pod);
    return all;
  }

  void wake(crds::Time at) {
    if (!step_.wake_at || at < *step_.wake_at) step_.wake_at = at;
  }

  void note(client::EventType type, std::string reason, std::string action, std::string text) {
    step_.notes.push_back({type, std::move(reason), std::move(action), std::move(text)});
  }

  void set(std::string type, ConditionStatus value, std::string reason, std::string message) {
    crds::set_condition(status_.conditions, {std::move(type), value, seen_.job.metadata.generation, seen_.now,
                                             std::move(reason), std::move(message)});
  }

  // All conditions are there from the first write, so that `kubectl wait` has something to wait for.
  void start_conditions() {
    static constexpr std::array<std::string_view, 8> kTypes = {
        "Accepted", "Admitted", "PodsReady", "Evicted", "Suspended", "Complete", "Failed", "Stalled"};
    for (const auto type : kTypes) {
      if (crds::find_condition(status_.conditions, type) == nullptr) {
        set(std::string(type), ConditionStatus::kUnknown, "Pending", "");
      }
    }
  }

  crds::Phase phase() const {
    if (crds::is_true(status_.conditions, "Complete")) return crds::Phase::kSucceeded;
    if (crds::is_true(status_.conditions, "Failed")) return crds::Phase::kFailed;
    if (spec_.suspend) return crds::Phase::kSuspended;
    if (status_.assignment.attempt == 0) return crds::Phase::kQueued;
    return status_.started_at ? crds::Phase::kRunning : crds::Phase::kStarting;
  }

  // What follows from the rest, for people.
  void describe() {
    status_.phase = phase();
    status_.desired_replicas = crds::replicas_of(spec_);
    if (status_.assignment.attempt == 0) status_.ready_replicas = 0;
    status_.pods = fmt::format("{}/{}", status_.ready_replicas, status_.desired_replicas);
    std::int64_t gpus = 0;
    for (const auto& p : status_.assignment.pods) gpus += static_cast<std::int64_t>(p.gpus.size());
    status_.allocated = {};
    if (status_.assignment.attempt != 0) status_.allocated.gpu = crds::MilliGpu{gpus * 1000};
  }

  const Observed& seen_;
  const crds::TrainingJobSpec& spec_;
  Step step_;
  crds::TrainingJobStatus& status_;
  std::vector<PlacedPod> placed_;  // parallel to status_.assignment.pods
  Lingering stale_;                // pods of earlier attempts or tries
};

bool one_of(std::string_view reason, std::initializer_list<std::string_view> list) {
  return std::find(list.begin(), list.end(), reason) != list.end();
}

// Kubelet's own words when it rejects a pod at admission (pkg/kubelet/lifecycle; the last for a node under
// pressure).
bool says_refused(const client::Pod& pod) {
  return pod.reason.starts_with("OutOf") ||
         one_of(pod.reason,
                {"UnexpectedAdmissionError", "NodeAffinity", "NodeAffinityMismatch", "TopologyAffinityError",
                 "Allocate failed", "PodOSNotSupported", "PodOSSelectorNodeLabelDoesNotMatch",
                 "NodeSelectorMismatching", "Taints", "TaintToleration", "NodeName", "NodePorts",
                 "UnmatchedNodeSelector", "AppArmor"}) ||
         (pod.reason == "Evicted" && pod.message.starts_with("The node had condition"));
}

}  // namespace

Step advance(const Observed& seen) {
  return Machine(seen).run();
}

bool differs_in_counters_only(const crds::TrainingJobStatus& a, const crds::TrainingJobStatus& b) {
  const auto without_counters = [](crds::TrainingJobStatus s) {
    s.ready_replicas = 0;
    s.pods.clear();
    s.queue.position = 0;
    s.queue.project_position = 0;
    s.queue.message.clear();
    s.queue.blocking.clear();
    // The message of Admitted=False repeats the queue's.
    for (auto& c : s.conditions) {
      if (c.type == "Admitted" && c.status != ConditionStatus::kTrue) c.message.clear();
    }
    return s;
  };
  return without_counters(a) == without_counters(b);
}

bool is_finished(const crds::TrainingJobStatus& status) {
  return crds::is_true(status.conditions, "Complete") || crds::is_true(status.conditions, "Failed");
}

bool is_terminal(const client::Pod& pod) {
  return pod.phase == client::PodPhase::kSucceeded || pod.phase == client::PodPhase::kFailed;
}

bool is_refusal(const client::Pod& pod) {
  return pod.ended.empty() && says_refused(pod);
}

bool is_cluster_fault(const client::Pod& pod) {
  if (pod.disrupted) return true;
  // A pod that ran and is then turned away: its kubelet started anew and did not take it back.
  if (!pod.ended.empty() && says_refused(pod)) return true;
  return !is_refusal(pod) &&
         one_of(pod.reason, {"Evicted", "NodeLost", "NodeShutdown", "Shutdown", "Terminated", "Preempting",
                             "PreemptionByScheduler", "TerminationByKubelet", "DeletionByTaintManager",
                             "DeletionByPodGC"});
}

}  // namespace muster::reconcilers
