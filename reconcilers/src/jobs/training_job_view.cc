// What a reconcile of a TrainingJob looks at: the caches, placement's decision, nodes, GPUs and what pods
// have said, as the input of advance().
#include <fmt/format.h>

#include <algorithm>

#include "muster/common/saturating.h"
#include "muster/crds/gpu_labels.h"
#include "muster/reconcilers/jobs/training_job.h"
#include "muster/reconcilers/jobs/translate.h"
#include "muster/reconcilers/lifecycle/gang.h"
#include "muster/reconcilers/lifecycle/job_status.h"
#include "muster/reconcilers/lifecycle/lifecycle_texts.h"
#include "muster/reconcilers/lifecycle/orphan.h"
#include "muster/reconcilers/placement/placement_specs.h"
#include "muster/reconcilers/pods/gpu_share.h"
#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/pods/pod_identity.h"
#include "muster/reconcilers/projects/project.h"
#include "muster/reconcilers/sessions/activity_monitor.h"
#include "muster/reconcilers/sharing/gpu_holders.h"
#include "muster/reconcilers/usage/job_use.h"

namespace muster::reconcilers {
namespace {

// The GPUs of the pods that have not succeeded. (A pod that has succeeded uses none, and nobody else gets its
// GPUs before the gang ends.) Exporters name the holder pod as the user of a GPU that is shared.
std::vector<PodGpus> gpus_in_use(const crds::TrainingJob& job, const GpuHolders* holder) {
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

std::string attempt_id(const crds::TrainingJob& job) {
  return fmt::format("{}/{}", job.metadata.uid, job.status.assignment.attempt);
}

// Where the first pod tells of its use: by its first exposed port. "": it has no address.
std::string activity_url(const crds::TrainingJob& job, const Caches& caches) {
  const auto& a = job.status.assignment;
  const auto& role = job.spec.roles.front().name;
  const auto first =
      std::ranges::find_if(a.pods, [&](const auto& place) { return place.role == role && place.index == 0; });
  if (first == a.pods.end()) return {};
  const auto name = pod_name(job.metadata.name, role, 0, a.attempt, first->tries);
  const auto pod = caches.pods.store().find(client::make_key(job.metadata.ns, name));
  return pod ? metrics_url(pod->ip, job.spec.expose.front().port, job.spec.idle->activity_path) : "";
}

}  // namespace

TrainingJobReconciler::View TrainingJobReconciler::look(const client::Key& key, const Job& job) {
  View view{
      .key = key, .job = job, .counts = effective(job, context_.caches), .pods = pods_of(job->meta.uid)};
  view.wish = translate_job(*view.counts, context_.caches);
  const auto rejection = rejections_.find(key);
  if (rejection != rejections_.end() && rejection->second.uid == job->meta.uid &&
      rejection->second.generation == job->value.metadata.generation) {
    view.wish.invalid = rejection->second.message;
    view.wish.invalid_reason = "InvalidSpec";
  } else if (!job->problem.empty()) {
    view.wish.invalid = job->problem;
    view.wish.invalid_reason = "InvalidSpec";
  }
  view.decision = context_.placement.decision(key);
  if (const auto doubt = in_doubt_.find(key);
      doubt != in_doubt_.end() && doubt->second != job->meta.resource_version)
    in_doubt_.erase(doubt);  // it was written since: a write that had not arrived by then is refused
  if (view.decision && view.decision->kind == JobDecision::Kind::kStart && !in_doubt_.contains(key) &&
      asked_with_[key] != view.counts->value.status.effective) {
    context_.placement.withdraw(
        key);  // the Project's defaults have changed since: asked again after this step
    view.decision.reset();
  }
  if (!view.decision && job->value.status.assignment.attempt != 0 &&
      owner_of_namespace(context_.caches, job->meta.ns).empty())
    view.decision = eviction_of_orphan(job->value);
  view.dependencies = dependencies_of(view.counts->value);
  view.nomination = context_.placement.nomination(key);
  view.verdict = context_.placement.verdict(key);
  view.waits_for_victims = view.verdict && view.verdict->reason == "WaitingForVictims";
  if (view.waits_for_victims) name_victims(*view.verdict);
  if (view.verdict && view.verdict->reason == "ProjectNotFound") {
    if (auto why = why_not_owned(context_.caches, job->meta.ns); !why.empty())
      view.verdict->message = std::move(why);
  }
  return view;
}

Observed TrainingJobReconciler::observe(const View& view, std::optional<Exposure> exposure) {
  const crds::TrainingJob& job = view.counts->value;
  Observed seen{.job = job,
                .pods = view.pods,
                .now = context_.now(),
                .invalid = view.wish.invalid,
                .blocked = view.wish.blocked};
  seen.invalid_reason = view.wish.invalid_reason;
  seen.blocked_reason = view.wish.blocked_reason;
  seen.decision = view.decision ? &*view.decision : nullptr;
  seen.nomination = view.nomination ? &*view.nomination : nullptr;
  seen.verdict = view.verdict ? &*view.verdict : nullptr;
  seen.node_usable = [this](const std::string& name) {
    const auto node = context_.caches.nodes.store().find(name);
    return node && node->ready && !node->unschedulable && !node->deleting;
  };
  seen.health = [this](const std::string& name) { return health_of(name); };
  seen.node_lost = [this](const std::string& name) {
    const auto node = context_.caches.nodes.store().find(name);
    return !node || is_out_of_service(*node);
  };
  seen.dependencies = view.dependencies;
  seen.idleness = idleness_of(view.key, job);
  seen.serves = view.wish.serves;
  seen.exposure = std::move(exposure);
  const auto* holders = context_.gpu_holders;
  if (holders != nullptr && (has_shares(job.spec) || holders->any())) {
    seen.holding = [this, &view](const crds::PodAssignment& place, const client::Pod* pod) {
      const bool shares = shares_gpus(view.counts->value.spec, place);
      return context_.gpu_holders->holding(view.key, place, shares, pod);
    };
  }
  if (asks_for_parts_of_gpus(view.wish.needs)) {
    seen.charge = [this, &view](const crds::PodAssignment& place) {
      return charge_of(view.counts->value.spec, view.wish, place);
    };
  }
  if (asks_for_no_gpu(view.wish.needs)) {
    seen.cpus = [&view](const crds::PodAssignment& place) {
      return cpus_of(view.counts->value.spec, view.wish.needs, place);
    };
  }
  if (asks_for_named(view.wish.needs)) {
    seen.named = [&view](const crds::PodAssignment& place) {
      return named_of(view.counts->value.spec, view.wish.needs, place);
    };
  }
  if (const auto said = reports_.find(view.key); said != reports_.end()) {
    if (crds::resizes_in_place(job.spec) && job.status.assignment.attempt != 0)
      note_departed(said->second, view.job->meta.name, job.status.assignment, view.pods);
    seen.reports = said->second.gangs();
  }
  return seen;
}

DependencyVerdict TrainingJobReconciler::dependencies_of(const crds::TrainingJob& job) const {
  const auto& jobs = context_.caches.jobs.store();
  return judge_dependencies(job, [&](const std::string& name) -> const crds::TrainingJob* {
    const auto other = jobs.find(client::make_key(job.metadata.ns, name));
    return other ? &other->value : nullptr;  // the store keeps it alive: nothing is changed meanwhile
  });
}

bool TrainingJobReconciler::is_awaited(const Object<crds::TrainingJob>& job,
                                       const crds::TrainingJobStatus& status) const {
  const auto waiting = context_.caches.jobs.store().by_index(kByDependency, job.meta.key());
  return std::ranges::any_of(waiting, [&](const Job& other) {
    if (other->value.metadata.deletion_timestamp || other->status_unreadable) return false;
    return std::ranges::any_of(awaited_by(other->value), [&](const crds::Dependency& dependency) {
      return dependency.name == job.meta.name && is_met(dependency, status);
    });
  });
}

std::vector<client::Ptr<client::Pod>> TrainingJobReconciler::pods_of(const std::string& uid) const {
  return context_.caches.pods.store().by_index(kByOwner, uid);
}

// Those on their way hold their places as well.
std::vector<client::Ptr<client::Pod>> TrainingJobReconciler::all_pods_of(const client::Key& key,
                                                                         const std::string& uid) const {
  auto pods = pods_of(uid);
  for (auto& pod : pods_.on_their_way(key)) pods.push_back(std::move(pod));
  return pods;
}

// Members that left a gang which goes on: what they say does not hold it up.
void TrainingJobReconciler::note_departed(CheckpointReports& reports, const std::string& job,
                                          const crds::Assignment& a,
                                          const std::vector<client::Ptr<client::Pod>>& pods) {
  for (const auto* pod : match(a, pods).strays) {
    const auto id = identity_of(*pod);
    if (id && id->attempt == a.attempt) reports.depart(*pod);
  }
  reports.keep_members(job, a);
}

crds::MilliGpu TrainingJobReconciler::charge_of(const crds::TrainingJobSpec& spec, const Translation& wish,
                                                const crds::PodAssignment& place) const {
  const auto role = std::ranges::find(spec.roles, place.role, &crds::Role::name);
  const auto r = static_cast<std::size_t>(role - spec.roles.begin());
  return r < wish.needs.size() ? context_.placement.charge_of(place, wish.needs[r]) : crds::MilliGpu{};
}

NodeHealth TrainingJobReconciler::health_of(const std::string& name) const {
  NodeHealth health;
  const auto node = context_.caches.nodes.store().find(name);
  if (!node) {
    health.lost = fmt::format("node {} is gone", name);
    health.ready = false;
    return health;
  }
  health.ready = node->ready;
  health.bad_gpus = unhealthy_gpus(*node);
  if (context_.gpu_monitor != nullptr) health.failing_gpus = context_.gpu_monitor->failing_gpus(name);
  if (is_out_of_service(*node)) {
    health.lost = fmt::format("node {} is out of service", name);
  } else if (is_in_maintenance(*node)) {
    health.lost = fmt::format("node {} is in maintenance", name);
  } else if (!node->ready) {
    const crds::Time since{std::chrono::seconds{node->ready_changed_at}};
    const auto due = since + context_.node_grace;
    if (context_.now() >= due) {
      health.lost = fmt::format("node {} has not been Ready since {}", name, crds::to_string(since));
    } else {
      health.again = due;
    }
  }
  return health;
}

// A program that tells of its use counts beside its GPUs, and alone where none of them is read.
Idleness TrainingJobReconciler::idleness_of(const client::Key& key, const crds::TrainingJob& job) {
  auto gpus = idleness_of_gpus(key, job);
  if (context_.activity_monitor == nullptr) return gpus;
  if (!ends_when_idle(job) || job.spec.idle->activity_path.empty() || job.spec.expose.empty()) {
    context_.activity_monitor->forget(key);
    return gpus;
  }
  auto use = context_.activity_monitor->look(key, {.attempt = attempt_id(job),
                                                   .url = activity_url(job, context_.caches),
                                                   .since = *job.status.started_at,
                                                   .timeout = *job.spec.idle->timeout});
  return has_gpus_read(job) ? both(std::move(gpus), std::move(use)) : use;
}

// A pool that is not known may have gpuMetrics.
bool TrainingJobReconciler::has_gpus_read(const crds::TrainingJob& job) const {
  if (context_.gpu_monitor == nullptr || gpus_in_use(job, context_.gpu_holders).empty()) return false;
  const auto pool = context_.caches.node_pools.store().find(job.status.assignment.pool);
  return !pool || pool->value.spec.gpu_metrics.has_value();
}

// Who may not be idle is not followed; nor who would not end for it, where nothing is read anyway.
Idleness TrainingJobReconciler::idleness_of_gpus(const client::Key& key, const crds::TrainingJob& job) {
  if (context_.gpu_monitor == nullptr) return {};
  const auto& a = job.status.assignment;
  if (!ends_when_idle(job) && !(may_be_idle(job) && context_.gpu_monitor->reads(a.pool))) {
    context_.gpu_monitor->forget(key);
    return {};
  }
  const crds::Idle stated = job.spec.idle.value_or(crds::Idle{});
  return context_.gpu_monitor->watch(key, {.pool = a.pool,
                                           .attempt = attempt_id(job),
                                           .gpus = gpus_in_use(job, context_.gpu_holders),
                                           .below = stated.gpu_utilization_below,
                                           .timeout = stated.timeout});
}

// Of GPUs that a job shares with others it is charged its part.
void TrainingJobReconciler::note_reading(const std::string& pool) {
  if (context_.ledger == nullptr || context_.gpu_monitor == nullptr) return;
  for (const auto& [key, job] : context_.caches.jobs.store().all()) {
    const auto& status = job->value.status;
    if (status.assignment.attempt == 0 || status.assignment.pool != pool) continue;
    // The pool was not read yet when these jobs were last looked at.
    if (may_be_idle(job->value) && !context_.gpu_monitor->watches(key)) idleness_of(key, job->value);
    const auto gpus = gpus_in_use(job->value, context_.gpu_holders);
    std::int64_t whole = 0;
    for (const auto& pod : gpus) whole += placement::kMilliPerGpu * std::ssize(pod.gpus);
    auto drawn = context_.gpu_monitor->milliwatts(pool, gpus);
    const std::int64_t held = status.allocated.gpu.value_or(crds::MilliGpu{}).value;
    if (drawn && held < whole) drawn = common::saturating_multiply(*drawn, held) / whole;
    context_.ledger->note_power(key, drawn, context_.now());
  }
}

// "mixed": its GPUs are of several models; "": none is known.
std::string TrainingJobReconciler::gpu_model_of(const crds::Assignment& assignment) const {
  std::string model;
  const auto pool = context_.caches.node_pools.store().find(assignment.pool);
  const crds::GpuLabels labels = crds::gpu_labels_of(pool ? pool->value.spec : crds::NodePoolSpec{});
  for (const auto& place : assignment.pods) {
    if (place.gpus.empty()) continue;
    const auto node = context_.caches.nodes.store().find(place.node);
    const auto value = [&](const std::string& label) { return client::find_value(node->labels, label); };
    const std::string here = node ? crds::gpus_of_node(labels, value).model : std::string();
    if (!model.empty() && here != model) return "mixed";
    model = here;
  }
  return model;
}

void TrainingJobReconciler::count_use(const client::Key& key, const crds::TrainingJob& job,
                                      const crds::TrainingJobStatus& status, const Translation& wish,
                                      const std::vector<client::Ptr<client::Pod>>& pods) {
  if (context_.ledger == nullptr) return;
  PlaceCost cost;
  if (asks_for_parts_of_gpus(wish.needs))
    cost = [&](const crds::PodAssignment& place) { return charge_of(job.spec, wish, place); };
  JobUse use = use_of(job, status, wish, pods, cost);
  use.project = owner_of_namespace(context_.caches, job.metadata.ns);
  use.model = gpu_model_of(status.assignment);
  context_.ledger->update(key, std::move(use), context_.now());
}

// Who of those it waits for goes last, and until when that is in order.
void TrainingJobReconciler::name_victims(crds::Waiting& verdict) const {
  Lingering left;
  for (const auto& blocking : verdict.blocking) {
    for (const auto& name : blocking.by) {
      const Job job = context_.caches.jobs.store().find(name);
      if (!job) continue;
      for (const auto& pod : pods_of(job->meta.uid)) {
        if (pod->deleting) left.add(*pod);
      }
    }
  }
  if (left.count > 0) verdict.message += say_last_to_go(left, context_.now());
}

}  // namespace muster::reconcilers
