#include "muster/reconcilers/jobs/training_job.h"

#include <fmt/format.h>

#include <algorithm>

#include "job_volumes.h"
#include "lifecycle/gang.h"
#include "lifecycle/lifecycle_texts.h"
#include "muster/reconcilers/common/log.h"
#include "muster/reconcilers/jobs/translate.h"
#include "muster/reconcilers/lifecycle/job_status.h"
#include "muster/reconcilers/lifecycle/pod_refusal.h"
#include "muster/reconcilers/placement/placement_specs.h"
#include "muster/reconcilers/pods/gpu_share.h"
#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/pods/pod_identity.h"
#include "muster/reconcilers/projects/project.h"
#include "muster/reconcilers/sharing/gpu_holder.h"

namespace muster::reconcilers {
namespace {

using client::Error;
using client::ErrorCode;

std::vector<client::Ptr<client::Pod>> pods_of(const World& world, const std::string& uid) {
  return world.caches.pods.store().by_index(kByOwner, uid);
}

// How often a job that waits for others to go looks who is still there.
constexpr client::Duration kVictimsInterval = std::chrono::seconds{5};

// While more writes than this that start or stop work are under way, mere counters yield to them; but nobody
// reads old ones for longer than kMaxYield.
constexpr int kManyUrgent = 8;
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

// Members that left a gang which goes on: what they say does not hold it up.
void note_departed(CheckpointReports& reports, const std::string& job, const crds::Assignment& a,
                   const std::vector<client::Ptr<client::Pod>>& pods) {
  for (const auto* pod : match(a, pods).strays) {
    const auto id = identity_of(*pod);
    if (id && id->attempt == a.attempt) reports.depart(*pod);
  }
  reports.keep_members(job, a);
}

// Those of pods that have not succeeded, which are not given to others before the gang ends.
// Exporters know a GPU that is shared as that of the pod which holds it.
std::vector<PodGpus> gpus_in_use(const crds::TrainingJob& job, const GpuHolder* holder) {
  const auto& a = job.status.assignment;
  std::vector<PodGpus> all;
  for (std::size_t i = 0; i < a.pods.size(); ++i) {
    const auto& place = a.pods[i];
    if (place.gpus.empty() || std::ranges::binary_search(a.succeeded, static_cast<std::int32_t>(i))) continue;
    if (holder != nullptr && shares_gpus(job.spec, place)) {
      for (const auto gpu : place.gpus)
        all.push_back({place.node, holder->pod_key({place.node, gpu}), {gpu}});
      continue;
    }
    const auto name = pod_name(job.metadata.name, place.role, place.index, a.attempt, place.tries);
    all.push_back({place.node, client::make_key(job.metadata.ns, name), place.gpus});
  }
  return all;
}

// A namespace that has lost its Project (it was deleted, or the namespace handed over to nobody): what runs
// there saves and gives back what it holds.
std::optional<Decision> eviction_of_orphan(const Object<crds::TrainingJob>& job, const Caches& caches) {
  if (job.value.status.assignment.attempt == 0 || !owner_of_namespace(caches, job.meta.ns).empty())
    return std::nullopt;
  Decision evict;
  evict.kind = Decision::Kind::kEvict;
  evict.generation = job.value.metadata.generation;
  evict.reason = "ProjectNotFound";
  evict.message = fmt::format("no Project has namespace {} any more", job.meta.ns);
  return evict;
}

}  // namespace

TrainingJobReconciler::TrainingJobReconciler(World& world)
    : world_(world),
      pods_(world, [this](const Job& job, const Error& error) { return refuse(job, error); }) {}

client::Task<Outcome> TrainingJobReconciler::reconcile(client::Key key) {
  if (unsure_.contains(key)) {
    const auto [ns, name] = client::split_key(key);
    const client::ObjectRef ref{std::string(ns), std::string(name)};
    const auto read = co_await read_again<crds::TrainingJob>(world_.api, world_.caches.jobs.store(), ref);
    if (!read && read.error().code != ErrorCode::kNotFound) co_return Outcome::retry();
    unsure_.erase(key);
  }
  const Job job = world_.caches.jobs.store().find(key);
  if (!job || job->value.metadata.deletion_timestamp) {
    // Its pods go by their owner references; they stay charged until they are gone.
    if (job) uids_[key] = job->meta.uid;
    forget(key, uids_[key]);
    if (!job) uids_.erase(key);
    co_return Outcome::done();
  }
  if (auto& uid = uids_[key]; uid != job->meta.uid) {
    if (!uid.empty()) forget(key, uid);
    uid = job->meta.uid;
  }
  if (job->status_unreadable) {
    log_error("status cannot be read; the job is left as it is", {{"job", key}, {"problem", job->problem}});
    co_return Outcome::done();
  }
  const Job counts = effective(job, world_.caches);
  const auto pods = pods_of(world_, job->meta.uid);
  const Rejection* rejection = nullptr;
  if (const auto found = rejections_.find(key); found != rejections_.end() &&
                                                found->second.uid == job->meta.uid &&
                                                found->second.generation == job->value.metadata.generation) {
    rejection = &found->second;
  }
  Translation wish = translate_job(counts->value, world_.caches);
  if (!job->problem.empty() || rejection != nullptr) {
    wish.invalid = rejection != nullptr ? rejection->message : job->problem;
    wish.invalid_reason = "InvalidSpec";
  }

  auto decision = world_.placement.decision(key);
  if (decision && decision->kind == Decision::Kind::kStart &&
      asked_with_[key] != counts->value.status.effective) {
    world_.placement.withdraw(key);  // the Project's defaults have changed since: asked again below
    decision.reset();
  }
  if (!decision) decision = eviction_of_orphan(*job, world_.caches);
  const auto nomination = world_.placement.nomination(key);
  auto verdict = world_.placement.verdict(key);
  const bool has_victims = verdict && verdict->reason == "WaitingForVictims";
  if (has_victims) name_victims(*verdict);
  if (verdict && verdict->reason == "ProjectNotFound") {
    if (auto why = why_not_owned(world_.caches, job->meta.ns); !why.empty())
      verdict->message = std::move(why);
  }
  Observed seen{.job = counts->value,
                .pods = pods,
                .now = world_.now(),
                .invalid = wish.invalid,
                .blocked = wish.blocked};
  seen.invalid_reason = wish.invalid_reason;
  seen.blocked_reason = wish.blocked_reason;
  seen.decision = decision ? &*decision : nullptr;
  seen.nomination = nomination ? &*nomination : nullptr;
  seen.verdict = verdict ? &*verdict : nullptr;
  seen.node_usable = [this](const std::string& name) {
    const auto node = world_.caches.nodes.store().find(name);
    return node && node->ready && !node->unschedulable && !node->deleting;
  };
  seen.health = [this](const std::string& name) { return health_of(name); };
  seen.node_lost = [this](const std::string& name) {
    const auto node = world_.caches.nodes.store().find(name);
    return !node || is_out_of_service(*node);
  };
  seen.idleness = idleness_of(key, counts->value);
  seen.serves = is_replica(*job);
  const bool shares = has_shares(counts->value.spec);
  if (world_.holder != nullptr && (shares || world_.holder->any())) {
    seen.holding = [&](const crds::PodAssignment& place, const client::Pod* pod) {
      return world_.holder->holding(key, place, shares_gpus(counts->value.spec, place), pod);
    };
  }
  if (std::ranges::any_of(wish.needs, [](const PodNeeds& needs) {
        return needs.share.kind != placement::GpuShare::Kind::kWhole;
      })) {
    seen.charge = [&](const crds::PodAssignment& place) {
      return charge_of(counts->value.spec, wish, place);
    };
  }
  const bool in_place = crds::resizes_in_place(counts->value.spec);
  if (const auto said = reports_.find(key); said != reports_.end()) {
    if (in_place && counts->value.status.assignment.attempt != 0)
      note_departed(said->second, job->meta.name, counts->value.status.assignment, pods);
    seen.reports = said->second.gangs();
  }
  const Step step = advance(seen);

  if (step.remove_job) {
    client::DeleteOptions options;
    options.uid = job->meta.uid;
    options.propagation_policy = "Background";
    const client::ObjectRef ref{job->meta.ns, job->meta.name};
    const auto gone = co_await world_.api.remove(resource_of<crds::TrainingJob>(), ref, options);
    if (!gone && gone.error().code != ErrorCode::kNotFound) co_return Outcome::retry();
    log_info("deleted after ttlAfterFinished", {{"job", key}});
    co_return Outcome::done();
  }

  if (step.publish) {
    const bool has_service = co_await pods_.ensure(job, JobPods::Companion::kService);
    if (!has_service) co_return Outcome::retry();
  }
  const Commit committed = co_await commit(key, job, step);
  if (committed == Commit::kRefused) world_.placement.withdraw(key);
  if (committed == Commit::kUnsure) unsure_.insert(key);  // what was decided stays charged until we know
  if (committed == Commit::kRefused || committed == Commit::kUnsure) co_return Outcome::retry();
  world_.placement.update(key, counts->value, wish, step, pods);
  asked_with_[key] = counts->value.status.effective;
  if (in_place && step.status.assignment.attempt != 0)
    note_departed(reports_[key], job->meta.name, step.status.assignment, pods);
  if (const auto said = reports_.find(key); said != reports_.end())
    said->second.forget_before(step.status.attempt - 1);
  // Those who stay read there who is left, and those who come who is there.
  if (crds::is_elastic(counts->value.spec) && step.status.assignment.attempt != 0) {
    const Job as_committed = world_.caches.jobs.store().find(key);
    if (!as_committed) co_return Outcome::retry();
    const bool has_hosts = co_await pods_.ensure(as_committed, JobPods::Companion::kHosts);
    if (!has_hosts) co_return Outcome::retry();
  }

  bool ok = true;
  if (!step.remove.empty() || !step.create.empty()) {
    const auto urgent = world_.urgent;
    ok = co_await pods_.remove(job, step.remove);
    if (ok && !step.create.empty()) {
      co_await select_nodes(world_, counts, wish, step.status.assignment);
      ok = co_await pods_.create(key, step.create);
    }
  }
  co_await select_nodes_of_ephemeral(world_, job, pods);
  if (!ok) co_return Outcome::retry();
  Outcome outcome;
  if (step.wake_at)
    outcome.after = std::chrono::ceil<client::Duration>(*step.wake_at - world_.env.clock.wall());
  if (has_victims) outcome.no_later_than(kVictimsInterval);
  if (committed == Commit::kDeferred) outcome.no_later_than(world_.status_interval);
  co_return outcome;
}

void TrainingJobReconciler::charge(const client::Key& key) {
  const Job job = world_.caches.jobs.store().find(key);
  if (!job || job->value.metadata.deletion_timestamp || job->status_unreadable) return;
  const Job counts = effective(job, world_.caches);
  const auto pods = pods_of(world_, job->meta.uid);
  const Translation wish = translate_job(counts->value, world_.caches);
  Step step;
  step.status = job->value.status;
  if (job->problem.empty() && job->value.status.assignment.attempt == 0) {
    Observed seen{.job = counts->value,
                  .pods = pods,
                  .now = world_.now(),
                  .invalid = wish.invalid,
                  .blocked = wish.blocked};
    seen.health = [this](const std::string& name) { return health_of(name); };
    step.wants_place = advance(seen).wants_place;
    asked_with_[key] = counts->value.status.effective;
  }
  world_.placement.update(key, counts->value, wish, step, pods);
}

void TrainingJobReconciler::set_aside(const client::Key& key) {
  const Job job = world_.caches.jobs.store().find(key);
  if (job && !job->status_unreadable && job->value.status.assignment.attempt != 0) return;
  world_.placement.forget(key,
                          job ? pods_of(world_, job->meta.uid) : std::vector<client::Ptr<client::Pod>>{});
}

void TrainingJobReconciler::note(const client::Key& key, const client::Pod& pod) {
  reports_[key].note(pod, world_.now());
}

void TrainingJobReconciler::follow(const client::Key& key) {
  const auto said = reports_.find(key);
  if (said == reports_.end()) return;
  const Job job = world_.caches.jobs.store().find(key);
  if (!job || job->value.metadata.deletion_timestamp) {
    reports_.erase(said);
    return;
  }
  if (job->status_unreadable) return;
  const auto& status = job->value.status;
  if (crds::resizes_in_place(job->value.spec) && status.assignment.attempt != 0)
    note_departed(said->second, job->meta.name, status.assignment, pods_of(world_, job->meta.uid));
  said->second.forget_before(status.attempt - 1);
}

crds::MilliGpu TrainingJobReconciler::charge_of(const crds::TrainingJobSpec& spec, const Translation& wish,
                                                const crds::PodAssignment& place) const {
  const auto role = std::ranges::find(spec.roles, place.role, &crds::Role::name);
  const auto r = static_cast<std::size_t>(role - spec.roles.begin());
  return r < wish.needs.size() ? world_.placement.charge_of(place, wish.needs[r]) : crds::MilliGpu{};
}

NodeHealth TrainingJobReconciler::health_of(const std::string& name) const {
  NodeHealth health;
  const auto node = world_.caches.nodes.store().find(name);
  if (!node) {
    health.lost = fmt::format("node {} is gone", name);
    health.ready = false;
    return health;
  }
  health.ready = node->ready;
  health.bad_gpus = unhealthy_gpus(*node);
  if (world_.gpus != nullptr) health.failing_gpus = world_.gpus->failing_gpus(name);
  if (is_out_of_service(*node)) {
    health.lost = fmt::format("node {} is out of service", name);
  } else if (is_in_maintenance(*node)) {
    health.lost = fmt::format("node {} is in maintenance", name);
  } else if (!node->ready) {
    const crds::Time since{std::chrono::seconds{node->ready_changed_at}};
    const auto due = since + world_.node_grace;
    if (world_.now() >= due) {
      health.lost = fmt::format("node {} has not been Ready since {}", name, crds::to_string(since));
    } else {
      health.again = due;
    }
  }
  return health;
}

// Of a job that runs and has a timeout; who has none is not followed.
Idleness TrainingJobReconciler::idleness_of(const client::Key& key, const crds::TrainingJob& job) {
  if (world_.gpus == nullptr) return {};
  const auto timeout = job.spec.idle ? job.spec.idle->timeout : std::nullopt;
  const auto& a = job.status.assignment;
  if (!timeout || a.attempt == 0 || !job.status.started_at || is_finished(job.status)) {
    world_.gpus->forget(key);
    return {};
  }
  return world_.gpus->watch(key, {.pool = a.pool,
                                  .attempt = fmt::format("{}/{}", job.metadata.uid, a.attempt),
                                  .gpus = gpus_in_use(job, world_.holder),
                                  .below = job.spec.idle->gpu_utilization_below,
                                  .timeout = *timeout});
}

// Who of those it waits for goes last, and until when that is in order.
void TrainingJobReconciler::name_victims(crds::Waiting& verdict) const {
  Lingering left;
  for (const auto& blocking : verdict.blocking) {
    for (const auto& name : blocking.by) {
      const Job job = world_.caches.jobs.store().find(name);
      if (!job) continue;
      for (const auto& pod : pods_of(world_, job->meta.uid)) {
        if (pod->deleting) left.add(*pod);
      }
    }
  }
  if (left.count > 0) verdict.message += say_last_to_go(left, world_.now());
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
  const auto now = world_.env.clock.now();
  const bool counters_only = !before.conditions.empty() && differs_in_counters_only(before, step.status);
  if (counters_only) {
    // Counted from the first change, not from the last write: what comes at once, like a gang whose pods
    // become ready one by one, is written once.
    const auto due = counters_due_.try_emplace(key, now + world_.status_interval).first->second;
    const bool yields = world_.urgent.use_count() - 1 > kManyUrgent && now < due + kMaxYield &&
                        before.checkpoint == step.status.checkpoint;
    if (now < due || yields) co_return Commit::kDeferred;
  }
  counters_due_.erase(key);
  const auto urgent = counters_only ? nullptr : world_.urgent;
  crds::TrainingJob wanted;
  wanted.metadata = job->value.metadata;
  wanted.status = step.status;
  ++world_.totals.status_writes;
  const auto written = co_await write_status(world_.api, world_.caches.jobs.store(), std::move(wanted));
  if (!written) {
    log_warn("status not written", {{"job", key}, {"error", client::to_string(written.error())}});
    co_return written.error().outcome_unknown() ? Commit::kUnsure : Commit::kRefused;
  }
  for (const Note& n : step.notes) {
    world_.events.record(event_target(job->value), n.type, n.reason, n.action, n.text);
    log_info(n.text, {{"job", key}, {"reason", n.reason}});
  }
  if (before.assignment.attempt == 0 && step.status.assignment.attempt != 0) ++world_.totals.starts;
  if (before.assignment.attempt != 0 && step.status.assignment.attempt != 0) {
    const auto was = before.assignment.pods.size(), is = step.status.assignment.pods.size();
    world_.totals.shrinks += is < was ? 1 : 0;
    world_.totals.grows += is > was ? 1 : 0;
  }
  world_.totals.replacements += pods_replaced(before.assignment, step.status.assignment);
  if (before.assignment.attempt != 0 && step.status.assignment.attempt == 0 && !is_finished(step.status)) {
    count_eviction(step.status, world_.totals);
  }
  co_return Commit::kStands;
}

void TrainingJobReconciler::forget(const client::Key& key, const std::string& last_uid) {
  world_.placement.forget(key, pods_of(world_, last_uid));
  rejections_.erase(key);
  reports_.erase(key);
  counters_due_.erase(key);
  if (world_.gpus != nullptr) world_.gpus->forget(key);
  asked_with_.erase(key);
  pods_.forget(key);
}

bool TrainingJobReconciler::refuse(const Job& job, const Error& error) {
  const client::Key key = job->meta.key();
  auto back = decision_on_refusal(error);
  if (!back) {
    log_warn("not created", {{"job", key}, {"error", client::to_string(error)}});
    return false;
  }
  if (back->kind == Decision::Kind::kEvict) {
    rejections_[key] = {job->meta.uid, job->value.metadata.generation,
                        "the API server refuses its pods: " + back->message};
  }
  world_.placement.decide(key, std::move(*back));
  return true;
}

}  // namespace muster::reconcilers
