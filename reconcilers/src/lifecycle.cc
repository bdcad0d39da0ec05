#include "muster/reconcilers/lifecycle.h"

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string_view>

#include "gang.h"
#include "lifecycle_texts.h"
#include "muster/reconcilers/job_status.h"
#include "muster/reconcilers/pod_end.h"
#include "refusals.h"

namespace muster::reconcilers {
namespace {

using crds::ConditionStatus;
using std::chrono::minutes;
using std::chrono::seconds;

// A gang that did not start in time waits this long before it is tried again, doubling up to the maximum.
constexpr seconds kPublishAfter{1};  // pods are dated to the second: up to one after the last was made
constexpr seconds kFirstRetry{10};
constexpr seconds kLongestRetry = minutes{10};

// A server that ends is started again at once; then after this long, doubling up to the maximum. One that ran
// for kLongestCrashDelay * 2 is taken for well again. The delays are kubelet's.
constexpr seconds kFirstCrashDelay{10};
constexpr seconds kLongestCrashDelay = minutes{5};

class Machine {
 public:
  explicit Machine(const Observed& seen) : seen_(seen), spec_(seen.job.spec), status_(step_.status) {
    status_ = seen.job.status;
    status_.observed_generation = seen.job.metadata.generation;
  }

  Step run() {
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
    if (!is_finished(status_)) forget_old_refusals();
    remove_lost();
    describe(spec_, status_, status_.assignment.attempt == 0 && lingering().count > 0);
    return std::move(step_);
  }

 private:
  // --- the states

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
    status_.nominated = {};
  }

  void waiting() {
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
  bool held_back() {
    const auto* evicted = crds::find_condition(status_.conditions, "Evicted");
    const std::string why =
        evicted != nullptr && evicted->status == ConditionStatus::kTrue && evicted->reason != "Suspended"
            ? "; attempt " + std::to_string(status_.attempt) + " was withdrawn: " + evicted->message
            : std::string();
    if (const auto left = lingering(); left.count > 0) {
      wait_for("BackingOff", say_lingering(left, status_.attempt, seen_.now) + why);
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

  void admitted() {
    if (const auto* evict = decision(Decision::Kind::kEvict)) return requeue(evict->reason, evict->message);
    if (const auto* move = decision(Decision::Kind::kMove)) return this->move(*move);
    if (const auto* evict = decision(Decision::Kind::kBackOff))
      return back_off(evict->reason, evict->message);
    if (!seen_.invalid) accept();  // an edit of the spec was looked at; what runs is not judged anew
    find_lost();
    if (const auto* replace = decision(Decision::Kind::kReplace)) {
      if (status_.started_at || program_fault(gang_) != nullptr) return reform(*replace);
      replace_pods(*replace);
      match_pods();
      find_lost();
    }
    // What the cluster did comes first: programs fail in its wake, and that is not held against them.
    if (loses_ground()) return;
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
  void note_checkpoints(bool live) {
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
        take_over(known, report, crds::replicas_of(spec_));
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
  void decide_resume() {
    auto& a = status_.assignment;
    a.resume = {status_.checkpoint.step, status_.checkpoint.uri};
    set("Admitted", ConditionStatus::kTrue, "Admitted", say_admitted(a));
  }

  // --- waiting and admission

  // False: the spec can never run; said in Accepted, Stalled and the queue's reason.
  bool accept() {
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
    a.succeeded.clear();
    a.pods.reserve(start.places.size());
    for (const Place& p : start.places) a.pods.push_back({p.role, p.index, p.node, p.gpus, 0});
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
    for (std::size_t i = 0; i < a.pods.size(); ++i) step_.create.push_back(i);
    wake(seen_.now + spec_.start_timeout);
  }

  // --- the running gang

  // Pods that stand for no place of the assignment are removed.
  void match_pods() {
    gang_ = match(status_.assignment, seen_.pods);
    lost_.assign(gang_.pods.size(), {});
    for (const auto* pod : gang_.strays) remove(*pod);
    if (seen_.serves) gang_.succeeded.assign(gang_.pods.size(), false);  // nothing there is ever done
    status_.assignment.succeeded = places_succeeded(gang_);
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

  // nullptr: all programs go on. A server's is not meant to end with success either.
  const client::Pod* fault() const {
    if (const auto* failed = program_fault(gang_); failed != nullptr || !seen_.serves) return failed;
    const auto ended = std::ranges::find_if(gang_.pods, [](const client::Pod* pod) {
      return pod != nullptr && pod->phase == client::PodPhase::kSucceeded;
    });
    return ended == gang_.pods.end() ? nullptr : *ended;
  }

  // When a server that has just ended may start again.
  void delay_restart() {
    auto& recent = status_.restarts.recent;
    if (status_.started_at && seen_.now - *status_.started_at >= 2 * kLongestCrashDelay) recent.clear();
    const auto doublings = std::min<std::size_t>(recent.size(), 6);
    recent.push_back(seen_.now);
    if (recent.size() > 8) recent.erase(recent.begin());
    if (doublings == 0) return status_.retry_at.reset();
    status_.retry_at = seen_.now + std::min(kLongestCrashDelay, kFirstCrashDelay * (1 << (doublings - 1)));
  }

  // A program's own fault: again in the same places with the next attempt number, within restart.limit in
  // restart.window. The count and the new attempt are one write, so that no fault is counted twice.
  void restart(const client::Pod& failed) {
    auto& recent = status_.restarts.recent;
    const auto why = say_failed(failed);
    ++status_.restarts.count;
    if (seen_.serves) return delay_restart(), start_again(why);
    std::erase_if(recent, [&](crds::Time t) { return t + spec_.restart.window <= seen_.now; });
    if (recent.size() >= static_cast<std::size_t>(spec_.restart.limit)) {
      return fail("RestartLimitExceeded",
                  fmt::format("{}; restart.limit {} in {} is used up", why, spec_.restart.limit,
                              crds::to_string(spec_.restart.window)));
    }
    recent.push_back(seen_.now);
    start_again(why);
  }

  void start_again(const std::string& why) {
    for (std::size_t i = 0; i < gang_.pods.size(); ++i) {
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
    begin_attempt(why, "Restarted", "Restart");
  }

  // Again, in the places of the assignment.
  void begin_attempt(const std::string& why, const char* reason, const char* action) {
    auto& a = status_.assignment;
    a.attempt = ++status_.attempt;
    a.admitted_at = seen_.now;
    for (auto& p : a.pods) p.tries = 0;
    a.succeeded.clear();
    decide_resume();  // anew when the last word of the pods that end now is known
    status_.started_at.reset();
    status_.ready_replicas = 0;
    set("PodsReady", ConditionStatus::kFalse, "Restarting", why);
    const auto when =
        is_delayed() ? fmt::format(" at {}", crds::to_string(*status_.retry_at)) : std::string();
    note(client::EventType::kWarning, reason, action,
         fmt::format("{}; starting attempt {}{}", why, a.attempt, when));
    remove_all();  // their ends are what makes room: pods are made when they are gone
    gang_ = match(a, {});
    lost_.assign(a.pods.size(), {});
    wake(start_due());
  }
  // A server that keeps ending waits in its places.
  bool is_delayed() const { return seen_.serves && status_.retry_at && *status_.retry_at > seen_.now; }
  crds::Time start_due() const {
    const auto begins = status_.assignment.admitted_at.value_or(seen_.now);
    return std::max(begins, seen_.serves ? status_.retry_at.value_or(begins) : begins) + spec_.start_timeout;
  }

  // --- repair

  // Which places are lost: their node is, or one of their GPUs.
  void find_lost() {
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
      if (lost_[i].empty() && health.again) wake(*health.again);
    }
  }
  std::string why_lost() const {
    const auto first = std::ranges::find_if(lost_, [](const std::string& why) { return !why.empty(); });
    return first == lost_.end() ? std::string() : *first;
  }

  // True: a gang that ran stands on lost ground. All of it is placed anew in one decision, the rest stays
  // where it is; until that is made nothing is done about it.
  bool loses_ground() {
    if (why_lost().empty() || (!status_.started_at && program_fault(gang_) == nullptr)) return false;
    for (std::size_t i = 0; i < gang_.pods.size(); ++i) {
      if (displaced(i)) step_.displaced.push_back(i);
    }
    if (!status_.started_at) wake(status_.assignment.admitted_at.value_or(seen_.now) + spec_.start_timeout);
    return true;
  }

  // The next attempt, from the last checkpoint, with other places for those that were lost.
  void reform(const Decision& replace) {
    const auto why = why_lost();
    add_run_time();
    replace_pods(replace);
    begin_attempt(fmt::format("{}; {} of {} pods have other places", why.empty() ? "places were lost" : why,
                              replace.places.size(), status_.assignment.pods.size()),
                  "Reformed", "Reform");
  }

  // Empty: none. A pod that its node or somebody else ended; or one that is gone though the gang had run
  // whole.
  std::string lost_pod() const {
    for (std::size_t i = 0; i < gang_.pods.size(); ++i) {
      const auto* pod = gang_.pods[i];
      if (gang_.succeeded[i] || (!status_.started_at && displaced(i))) continue;
      if (pod == nullptr) {
        if (status_.started_at) return say_gone(status_.assignment.pods[i]);
      } else if (pod->deleting) {
        // Its program may have failed for it already (exit code 143): no fault of its own.
        return say_deleted(*pod);
      } else if (pod->phase == client::PodPhase::kFailed &&
                 (is_cluster_fault(*pod) || (status_.started_at && is_refusal(*pod)))) {
        // A refusal once the gang ran whole is a kubelet that started anew and did not take its pod back.
        return say_ended_by_node(*pod);
      }
    }
    return {};
  }

  // True: the attempt was ended for its time.
  bool out_of_time() {
    if (!status_.started_at) {
      const auto due = start_due();
      if (seen_.now < due) return wake(due), false;
      back_off("StartTimeout", say_start_timed_out(gang_, spec_.start_timeout));
      return true;
    }
    if (!spec_.max_runtime) return false;
    const auto due = *status_.started_at + *spec_.max_runtime - seconds{status_.run_seconds};
    if (seen_.now < due) return wake(due), false;
    fail("MaxRuntimeExceeded", fmt::format("ran for maxRuntime {}", crds::to_string(*spec_.max_runtime)));
    return true;
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
    const bool is_clear = stale().count == 0 && !is_delayed();
    if (is_delayed()) wake(*status_.retry_at);
    for (std::size_t i = 0; i < gang_.pods.size(); ++i) {
      const auto* pod = gang_.pods[i];
      if (displaced(i)) {
        if (pod != nullptr && is_refusal(*pod)) remember_refusal_of(*pod);
        step_.displaced.push_back(i);
      } else if (pod == nullptr && !gang_.succeeded[i] && is_clear && !status_.started_at) {
        step_.create.push_back(i);
      }
    }
    const bool is_first =
        step_.create.size() == gang_.pods.size() &&
        std::ranges::all_of(status_.assignment.pods, [](const auto& p) { return p.tries == 0; });
    if (is_first) decide_resume();
  }

  void remember_refusal_of(const client::Pod& pod) {
    const bool is_new =
        remember_refusal(status_.node_refusals, pod, seen_.now, status_.assignment.admitted_at);
    if (!is_new) return;
    wake(seen_.now + kRefusalMemory);
    note(client::EventType::kWarning, "PodRefused", "Place", say_refused(pod));
  }

  // The place of this entry was refused: placement has given it back already, so nothing may be made there
  // any more, not even when the refused pod is gone. The refusal in the status is what remembers it.
  bool displaced(std::size_t i) const {
    const auto* pod = gang_.pods[i];
    if (gang_.succeeded[i]) return false;
    if (!lost_[i].empty()) return true;
    if (pod != nullptr) return pod->phase == client::PodPhase::kFailed && is_refusal(*pod);
    return !status_.started_at && has_refused(status_.node_refusals, status_.assignment.pods[i].node,
                                              status_.assignment.admitted_at);
  }

  // Placement avoids every node of the list, so an entry must go when its time has come, not with the next
  // refusal; but not while a place on the node is still to be replaced.
  void forget_old_refusals() {
    std::set<std::string> needed;
    for (std::size_t i = 0; i < gang_.pods.size(); ++i) {
      if (displaced(i)) needed.insert(status_.assignment.pods[i].node);
    }
    forget_refusals(status_.node_refusals, seen_.now, needed);
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

  // The headless Service comes when every pod has its address, or a moment after the last one was made,
  // which is before a kubelet has started a program: the endpoint controllers then look at the gang once,
  // instead of at every pod that starts. A controller that begins here makes it, since the gang has not run.
  void publish_names() {
    const bool is_alone = seen_.serves && gang_.pods.size() == 1;  // its service's own address is enough
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

  void judge_readiness() {
    status_.ready_replicas = static_cast<std::int32_t>(count_ready(gang_));
    if (status_.started_at || count_there(gang_) < gang_.pods.size()) return;
    // Once whole, readiness of single pods shows in the counter only: the condition does not flap with a
    // probe.
    status_.started_at = seen_.now;
    status_.start_failures = 0;
    set("PodsReady", ConditionStatus::kTrue, "PodsReady",
        fmt::format("all {} pods are ready", gang_.pods.size()));
  }

  // --- the way back

  void add_run_time() {
    if (status_.started_at) status_.run_seconds += (seen_.now - *status_.started_at).count();
  }

  void release(const std::string& reason, const std::string& message) {
    add_run_time();
    status_.succeeded_replicas = static_cast<std::int32_t>(status_.assignment.succeeded.size());
    status_.assignment = {};
    status_.queue = {};
    set("Admitted", ConditionStatus::kFalse, reason, message);
    set("PodsReady", ConditionStatus::kFalse, reason, message);
    gang_ = {};
  }

  // Everything back, queued again with the old submission time.
  void withdraw(const std::string& reason, const std::string& text, client::EventType type) {
    const std::string message =
        cut(text, kMaxMessage / 2);  // said again, with more around it, while the job waits
    const crds::Assignment given_back = status_.assignment;
    release(reason, message);
    status_.started_at.reset();
    set("Evicted", ConditionStatus::kTrue, reason, message);
    status_.queue.reason = "BackingOff";
    status_.queue.message = message;
    if (reason == "Reclaimed" || reason == "Preempted") ++status_.preemptions;
    note(type, reason, "Evict",
         fmt::format("attempt {} was withdrawn: {}; {}", status_.attempt, message,
                     say_given_back(given_back)));
    step_.create.clear();
    step_.displaced.clear();
  }

  // As the next step would find it, so that one write says it all. A place is asked for by that next step.
  void requeue(const std::string& reason, const std::string& message) {
    withdraw(reason, message, client::EventType::kWarning);
    remove_all();
    if (accept() && !held_back()) wake(seen_.now);
  }

  void move(const Decision& to) {
    requeue(to.reason, to.message);
    const bool is_wanted = !seen_.invalid && (!seen_.blocked || lingering().count > 0);
    if (to.generation != seen_.job.metadata.generation || !is_wanted) return;
    status_.nominated = {to.generation, to.pool, {}};
    for (const Place& p : to.places) status_.nominated.pods.push_back({p.role, p.index, p.node, p.gpus, 0});
  }

  // --- helpers

  const Decision* decision(Decision::Kind kind) const {
    const auto* d = seen_.decision;
    if (d == nullptr || d->kind != kind) return nullptr;
    const bool placed = kind == Decision::Kind::kStart || kind == Decision::Kind::kReplace;
    return !placed || d->generation == seen_.job.metadata.generation ? d : nullptr;
  }

  void remove(const client::Pod& pod) {
    if (pod.deleting) return;
    const bool is_new = removing_.insert(pod.meta.uid).second;
    if (!is_new) return;
    std::optional<std::int64_t> grace;
    if (spec_.checkpoint) grace = spec_.checkpoint->grace_period.count();  // as it is now, not as it was made
    step_.remove.push_back({pod.meta.name, pod.meta.uid, pod.node_name, grace});
  }
  // Whoever was told to go and cannot, because nothing runs any more where it is.
  void remove_lost() {
    for (const auto& pod : seen_.pods) {
      if (pod->deleting && pod->grace_seconds > 0 && !is_terminal(*pod) && seen_.node_lost &&
          seen_.node_lost(pod->node_name))
        step_.remove.push_back({pod->meta.name, pod->meta.uid, pod->node_name, 0});
    }
  }
  void remove_all() {
    for (const auto& pod : seen_.pods) remove(*pod);
  }
  // Pods that are to go and that must have gone before others may take their part. Of those on lost nodes
  // nobody knows when they will: they hold their places, and nobody waits for them.
  Lingering lingering() const {
    Lingering all;
    for (const auto& pod : seen_.pods) {
      if (!is_given_up(*pod)) all.add(*pod);
    }
    return all;
  }
  Lingering stale() const {
    Lingering all;
    for (const auto* pod : gang_.strays) {
      if (!is_given_up(*pod)) all.add(*pod);
    }
    return all;
  }
  bool is_given_up(const client::Pod& pod) const {
    return seen_.health && pod.deleting && !seen_.health(pod.node_name).lost.empty();
  }

  void wake_for(const Lingering& left) {
    if (left.overdue_at() > seen_.now) wake(left.overdue_at());
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

  const Observed& seen_;
  const crds::TrainingJobSpec& spec_;
  Step step_;
  crds::TrainingJobStatus& status_;
  Gang gang_;                      // empty without an assignment
  std::vector<std::string> lost_;  // parallel to the assignment's pods: why the place is lost; "": it is not
  std::set<std::string_view> removing_;  // uids of step_.remove
};

}  // namespace

Step advance(const Observed& seen) {
  return Machine(seen).run();
}

}  // namespace muster::reconcilers
