#include "muster/reconcilers/jobs/training_job.h"

#include <fmt/format.h>

#include <algorithm>

#include "job_volumes.h"
#include "muster/reconcilers/common/log.h"
#include "muster/reconcilers/jobs/pod_refusal.h"
#include "muster/reconcilers/jobs/translate.h"
#include "muster/reconcilers/lifecycle/job_status.h"
#include "muster/reconcilers/pods/pod_end.h"
#include "muster/reconcilers/projects/project.h"
#include "muster/reconcilers/sessions/activity_monitor.h"

namespace muster::reconcilers {
namespace {

using client::Error;
using client::ErrorCode;

// How often a job that waits for others to go looks who is still there.
constexpr client::Duration kVictimsInterval = std::chrono::seconds{5};

// A job is not deleted after ttlAfterFinished before those that wait for its end have seen it. How often that
// is looked at.
constexpr client::Duration kAwaitedInterval = std::chrono::seconds{1};

// While more writes than this that start or stop work are under way, mere counters yield to them; but nobody
// reads old ones for longer than kMaxYield.
constexpr int kMaxUrgentBeforeCounters = 8;
constexpr client::Duration kMaxYield = std::chrono::minutes{1};

// Places of one attempt that were changed because a kubelet refused the pod.
std::size_t pods_replaced(const crds::Assignment& before, const crds::Assignment& after) {
  if (before.attempt != after.attempt || before.pods.size() != after.pods.size()) return 0;
  std::size_t n = 0;
  for (std::size_t i = 0; i < after.pods.size(); ++i)
    n += after.pods[i].tries != before.pods[i].tries ? 1 : 0;
  return n;
}

void count_eviction(const crds::TrainingJobStatus& after, Totals& totals) {
  ++totals.evictions;
  const auto* evicted = crds::find_condition(after.conditions, "Evicted");
  const std::string reason = evicted == nullptr ? "" : evicted->reason;
  if (!after.nominated.pods.empty()) {
    ++totals.moves;
  } else if (reason == "Reclaimed") {
    ++totals.reclaims;
  } else if (reason == "Preempted") {
    ++totals.preemptions;
  }
}

// What the write has changed, for the metrics.
void count_changes(const crds::TrainingJobStatus& before, const crds::TrainingJobStatus& after,
                   Totals& totals) {
  if (before.assignment.attempt == 0 && after.assignment.attempt != 0) ++totals.starts;
  if (before.assignment.attempt != 0 && after.assignment.attempt != 0) {
    const auto was = before.assignment.pods.size(), is = after.assignment.pods.size();
    totals.shrinks += is < was ? 1 : 0;
    totals.grows += is > was ? 1 : 0;
  }
  totals.replacements += pods_replaced(before.assignment, after.assignment);
  if (before.assignment.attempt != 0 && after.assignment.attempt == 0 && !is_finished(after)) {
    count_eviction(after, totals);
  }
}

// When its program is to be asked again about its use; nullopt: it is not asked.
std::optional<client::Duration> activity_again(const ReconcilerContext& context, const client::Key& key) {
  return context.activity_monitor == nullptr ? std::nullopt : context.activity_monitor->again(key);
}

}  // namespace

TrainingJobReconciler::TrainingJobReconciler(ReconcilerContext& context)
    : context_(context),
      pods_(context, [this](const Job& job, const Error& error) { return refuse(job, error); }),
      exposure_(context),
      arrays_(context) {}

client::Task<Outcome> TrainingJobReconciler::reconcile(client::Key key) {
  const bool is_known = co_await read_if_unsure(key);
  if (!is_known) co_return Outcome::retry();
  // Before anything is judged: a pod of which nobody knows whether it was made holds its place.
  const bool has_found_out = co_await pods_.find_out(key);
  if (!has_found_out) co_return Outcome::retry();
  const bool have_gone = co_await let_pods_go(key);
  if (!have_gone) co_return Outcome::retry();
  Job job = find_alive(key);
  if (!job) co_return Outcome::done();
  if (job->value.spec.array) {
    const Outcome outcome = co_await reconcile_array(key, job);
    co_return outcome;
  }
  auto exposed = co_await exposure_.keep(job);
  job = find_alive(key);  // as it is after that
  if (!job) co_return Outcome::done();
  const View view = look(key, job);
  const Step step = advance(observe(view, std::move(exposed)));
  const bool is_awaited_yet = step.remove_job && is_awaited(*job, step.status);
  if (step.remove_job && !is_awaited_yet) {
    const Outcome removed = co_await remove_finished(job);
    co_return removed;
  }
  if (step.publish) {
    const bool has_service = co_await pods_.ensure(job, JobPods::Companion::kService);
    if (!has_service) co_return Outcome::retry();
  }
  const Commit committed = co_await commit(key, job, step);
  if (committed == Commit::kUnsure) in_doubt_[key] = job->meta.resource_version;
  if (committed == Commit::kRefused || committed == Commit::kUnsure) {
    // What was decided stays charged until we know. A write that is refused may be so because an earlier one,
    // of which nobody knew, has come through after all.
    if (in_doubt_.contains(key))
      unsure_.insert(key);
    else
      context_.placement.withdraw(key);
    co_return Outcome::retry();
  }
  const Job there = context_.caches.jobs.store().find(key);
  if (!there || there->meta.uid != job->meta.uid) co_return Outcome::retry();
  take_over(view, step);
  const bool is_done = co_await carry_out(view, step);
  if (!is_done) co_return Outcome::retry();
  Outcome outcome;
  if (step.wake_at)
    outcome.after = std::chrono::ceil<client::Duration>(*step.wake_at - context_.env.clock.wall());
  if (view.waits_for_victims) outcome.no_later_than(kVictimsInterval);
  if (is_awaited_yet) outcome.no_later_than(kAwaitedInterval);
  if (committed == Commit::kDeferred) outcome.no_later_than(context_.status_interval);
  if (const auto again = exposure_.again(job)) outcome.no_later_than(*again);
  if (const auto again = activity_again(context_, key)) outcome.no_later_than(*again);
  co_return outcome;
}

// An array holds nothing itself. What is wrong with its spec is wrong with every index, so none is made.
client::Task<Outcome> TrainingJobReconciler::reconcile_array(const client::Key& key, Job array) {
  const auto& ttl = array->value.spec.ttl_after_finished;
  const auto& ended = array->value.status.finished_at;
  if (const auto rest = arrays_.rest_of(key)) co_return Outcome::again(*rest);
  const bool is_kept = ttl && ended && context_.now() < *ended + *ttl;
  const bool is_awaited_yet = is_awaited(*array, array->value.status);
  if (ttl && ended && !is_kept && !is_awaited_yet && is_finished(array->value.status)) {
    const Outcome removed = co_await remove_finished(array);
    co_return removed;
  }
  const Translation wish = translate_job(*effective(array, context_.caches), context_.caches);
  DependencyVerdict dependencies = dependencies_of(array->value);
  ArrayReconciler::Wish of_array{.refused = refusal_of(dependencies),
                                 .met_dependencies = std::move(dependencies.met)};
  if (wish.invalid) of_array.refused = {wish.invalid_reason, *wish.invalid, true};
  Outcome outcome = co_await arrays_.reconcile(key, array, std::move(of_array));
  if (is_awaited_yet && ttl) outcome.no_later_than(kAwaitedInterval);
  if (is_kept)
    outcome.no_later_than(std::chrono::ceil<client::Duration>(*ended + *ttl - context_.env.clock.wall()));
  co_return outcome;
}

// After a write of which nobody knows whether it stands: what the server has. False: not read, again later.
client::Task<bool> TrainingJobReconciler::read_if_unsure(const client::Key& key) {
  if (!unsure_.contains(key)) co_return true;
  const auto [ns, name] = client::split_key(key);
  const client::ObjectRef ref{std::string(ns), std::string(name)};
  const auto read = co_await read_again<crds::TrainingJob>(context_.api, context_.caches.jobs.store(), ref);
  if (!read && read.error().code != ErrorCode::kNotFound) co_return false;
  unsure_.erase(key);
  co_return true;
}

// Pods are the API server's to collect when their job is gone. But a finalizer of somebody may keep the job
// for long, and who deletes it with --cascade=orphan would keep its GPUs for good: these pods are told to go.
// False: not all were told, again later.
client::Task<bool> TrainingJobReconciler::let_pods_go(client::Key key) {
  const auto& pods = context_.caches.pods.store();
  std::vector<PodRemoval> going;
  for (const auto& pod : pods.by_index(kOrphaned, key)) {
    if (!pod->deleting) going.push_back({pod->meta.name, pod->meta.uid, pod->node_name});
  }
  const Job job = context_.caches.jobs.store().find(key);
  if (job && job->value.metadata.deletion_timestamp) {
    for (const auto& pod : pods_of(job->meta.uid)) {
      if (!pod->deleting && !is_terminal(*pod))
        going.push_back({pod->meta.name, pod->meta.uid, pod->node_name});
    }
  }
  if (going.empty()) co_return true;
  log_info("its pods are told to go: the job is deleted",
           {{"job", key}, {"pods", std::to_string(going.size())}});
  const std::string ns(client::split_key(key).first);
  const bool all = co_await pods_.remove(ns, going);
  co_return all;
}

// The job, if there is anything to do for it; nullptr: it is gone, being deleted, or cannot be read. What was
// kept for an earlier job of this name is forgotten.
TrainingJobReconciler::Job TrainingJobReconciler::find_alive(const client::Key& key) {
  const Job job = context_.caches.jobs.store().find(key);
  if (job) meet(*job);
  if (!job || job->value.metadata.deletion_timestamp) {
    // Its pods stay charged until they are gone.
    forget(key, uids_[key]);
    if (!job) uids_.erase(key);
    return nullptr;
  }
  if (job->status_unreadable) {
    log_error("status cannot be read; the job is left as it is", {{"job", key}, {"problem", job->problem}});
    return nullptr;
  }
  return job;
}

// ttlAfterFinished has passed.
client::Task<Outcome> TrainingJobReconciler::remove_finished(Job job) {
  client::DeleteOptions options;
  options.uid = job->meta.uid;
  options.propagation_policy = "Background";
  const client::ObjectRef ref{job->meta.ns, job->meta.name};
  const auto gone = co_await context_.api.remove(resource_of<crds::TrainingJob>(), ref, options);
  if (!gone && gone.error().code != ErrorCode::kNotFound) co_return Outcome::retry();
  log_info("deleted after ttlAfterFinished", {{"job", job->meta.key()}});
  co_return Outcome::done();
}

// The step stands: placement counts with it from now on.
void TrainingJobReconciler::take_over(const View& view, const Step& step) {
  const auto& key = view.key;
  // Pods may have come and gone while the step was written: those that the caches have now count.
  const auto pods = pods_of(view.job->meta.uid);
  context_.placement.update(key, view.counts->value, view.wish, step, pods);
  count_use(key, view.counts->value, step.status, view.wish, pods);
  asked_with_[key] = view.counts->value.status.effective;
  if (crds::resizes_in_place(view.counts->value.spec) && step.status.assignment.attempt != 0)
    note_departed(reports_[key], view.job->meta.name, step.status.assignment, view.pods);
  if (const auto said = reports_.find(key); said != reports_.end())
    said->second.forget_before(step.status.attempt - 1);
}

// What follows from a step that stands: first pods go, then pods come. False: not all of it is done.
client::Task<bool> TrainingJobReconciler::carry_out(const View& view, const Step& step) {
  // The hosts file comes first: members that stay read in it who is left, and members that join who is there.
  if (crds::is_elastic(view.counts->value.spec) && step.status.assignment.attempt != 0) {
    const Job as_committed = context_.caches.jobs.store().find(view.key);
    if (!as_committed) co_return false;
    const bool has_hosts = co_await pods_.ensure(as_committed, JobPods::Companion::kHosts);
    if (!has_hosts) co_return false;
  }
  bool ok = true;
  if (!step.remove.empty() || !step.create.empty()) {
    const auto urgent = context_.urgent;
    ok = co_await pods_.remove(view.job->meta.ns, step.remove);
    if (ok && !step.create.empty()) {
      co_await select_nodes(context_, view.counts, view.wish, step.status.assignment);
      ok = co_await pods_.create(view.key, step.create);
    }
  }
  co_await select_nodes_of_ephemeral(context_, view.job, view.pods);
  co_return ok;
}

void TrainingJobReconciler::meet(const Object<crds::TrainingJob>& job) {
  auto& uid = uids_[job.meta.key()];
  if (uid == job.meta.uid) return;
  if (!uid.empty()) forget(job.meta.key(), uid);
  uid = job.meta.uid;
}

void TrainingJobReconciler::charge(const client::Key& key) {
  const Job job = context_.caches.jobs.store().find(key);
  if (job) meet(*job);
  if (!job || job->value.metadata.deletion_timestamp || job->status_unreadable) return;
  if (job->value.spec.array) return;  // its indexes hold what they hold, each by itself
  const Job counts = effective(job, context_.caches);
  const auto pods = pods_of(job->meta.uid);
  const Translation wish = translate_job(*counts, context_.caches);
  Step step;
  step.status = job->value.status;
  if (pods.empty()) begin_with_the_object(step.status, job->value.metadata);
  if (job->problem.empty() && job->value.status.assignment.attempt == 0) {
    Observed seen{.job = counts->value,
                  .pods = pods,
                  .now = context_.now(),
                  .invalid = wish.invalid,
                  .blocked = wish.blocked};
    seen.health = [this](const std::string& name) { return health_of(name); };
    seen.dependencies = dependencies_of(counts->value);
    step.wants_place = advance(seen).wants_place;
    asked_with_[key] = counts->value.status.effective;
  }
  context_.placement.update(key, counts->value, wish, step, pods);
  count_use(key, counts->value, step.status, wish, pods);
}

void TrainingJobReconciler::set_aside(const client::Key& key) {
  if (in_doubt_.contains(key)) return;  // a write that gives it places may still arrive
  const Job job = context_.caches.jobs.store().find(key);
  if (job && !job->status_unreadable) {
    const auto attempt = job->value.status.assignment.attempt;
    if (attempt != 0 && context_.placement.charges(key, attempt)) return;
  }
  const auto last = uids_.find(key);
  const std::string uid = job ? job->meta.uid : last != uids_.end() ? last->second : "";
  context_.placement.forget(key, all_pods_of(key, uid));
}

void TrainingJobReconciler::note(const client::Key& key, const client::Pod& pod) {
  reports_[key].note(pod, context_.now());
}

void TrainingJobReconciler::follow(const client::Key& key) {
  const auto said = reports_.find(key);
  if (said == reports_.end()) return;
  const Job job = context_.caches.jobs.store().find(key);
  if (!job || job->value.metadata.deletion_timestamp) {
    reports_.erase(said);
    return;
  }
  if (job->status_unreadable) return;
  const auto& status = job->value.status;
  if (crds::resizes_in_place(job->value.spec) && status.assignment.attempt != 0)
    note_departed(said->second, job->meta.name, status.assignment, pods_of(job->meta.uid));
  said->second.forget_before(status.attempt - 1);
}

// Whether a write of mere counters is for later. Counted from the first change, not from the last write: what
// comes at once, like a gang whose pods become ready one by one, is written once.
bool TrainingJobReconciler::may_wait(const client::Key& key, const crds::TrainingJobStatus& before,
                                     const crds::TrainingJobStatus& after) {
  const auto now = context_.env.clock.now();
  const auto due = counters_due_.try_emplace(key, now + context_.status_interval).first->second;
  const bool yields = context_.urgent.use_count() - 1 > kMaxUrgentBeforeCounters && now < due + kMaxYield &&
                      before.checkpoint == after.checkpoint;
  return now < due || yields;
}

// The commit point.
client::Task<TrainingJobReconciler::Commit> TrainingJobReconciler::commit(const client::Key& key,
                                                                          const Job& job, const Step& step) {
  const auto& before = job->value.status;
  if (step.status == before) {
    counters_due_.erase(key);
    co_return Commit::kStands;
  }
  // A new job's first word waits for placement's: one write instead of two when it starts at once.
  if (before.conditions.empty() && step.wants_place && step.status.queue.reason.empty() &&
      step.status.assignment.attempt == 0) {
    co_return Commit::kStands;
  }
  const bool counters_only = !before.conditions.empty() && differs_in_counters_only(before, step.status);
  if (counters_only && may_wait(key, before, step.status)) co_return Commit::kDeferred;
  counters_due_.erase(key);
  const auto urgent = counters_only ? nullptr : context_.urgent;
  crds::TrainingJob wanted;
  wanted.metadata = job->value.metadata;
  wanted.status = step.status;
  ++context_.totals.status_writes;
  const auto written = co_await write_status(context_.api, context_.caches.jobs.store(), std::move(wanted));
  if (!written) {
    log_warn("status not written", {{"job", key}, {"error", client::to_string(written.error())}});
    co_return written.error().outcome_unknown() ? Commit::kUnsure : Commit::kRefused;
  }
  for (const Note& n : step.notes) {
    context_.events.record(event_target(job->value), n.type, n.reason, n.action, n.text);
    log_info(n.text, {{"job", key}, {"reason", n.reason}});
  }
  count_changes(before, step.status, context_.totals);
  for (const Loss& loss : step.lost) {
    if (loss.is_of_gpus && context_.ledger != nullptr)
      context_.ledger->lose(key, owner_of_namespace(context_.caches, job->meta.ns), loss.work_seconds,
                            context_.now());
  }
  if (context_.on_step) context_.on_step(job->value, step);
  co_return Commit::kStands;
}

void TrainingJobReconciler::forget(const client::Key& key, const std::string& last_uid) {
  // A handler may call this while the last job's reconcile still makes pods.
  context_.placement.forget(key, all_pods_of(key, last_uid));
  if (context_.ledger != nullptr) context_.ledger->forget(key, context_.now());
  rejections_.erase(key);
  reports_.erase(key);
  counters_due_.erase(key);
  if (context_.gpu_monitor != nullptr) context_.gpu_monitor->forget(key);
  if (context_.activity_monitor != nullptr) context_.activity_monitor->forget(key);
  asked_with_.erase(key);
  in_doubt_.erase(key);
  pods_.forget(key);
  exposure_.forget(key);
  arrays_.forget(key);
}

bool TrainingJobReconciler::refuse(const Job& job, const Error& error) {
  const client::Key key = job->meta.key();
  auto back = decision_on_refusal(error);
  if (!back) {
    log_warn("not created", {{"job", key}, {"error", client::to_string(error)}});
    return false;
  }
  if (back->kind == JobDecision::Kind::kEvict) {
    rejections_[key] = {job->meta.uid, job->value.metadata.generation,
                        "the API server refuses its pods: " + back->message};
  }
  context_.placement.decide(key, std::move(*back));
  return true;
}

}  // namespace muster::reconcilers
