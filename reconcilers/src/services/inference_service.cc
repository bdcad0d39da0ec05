#include "muster/reconcilers/services/inference_service.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "muster/reconcilers/common/child.h"
#include "muster/reconcilers/common/fan_out.h"
#include "muster/reconcilers/common/log.h"
#include "muster/reconcilers/jobs/pod_refusal.h"
#include "muster/reconcilers/lifecycle/job_status.h"
#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/pods/pod_identity.h"
#include "muster/reconcilers/projects/job_policy.h"
#include "muster/reconcilers/projects/project.h"
#include "muster/reconcilers/schedules/scheduled_minimum.h"
#include "muster/reconcilers/services/service_objects.h"

namespace muster::reconcilers {
namespace {

using client::Error;
using client::ErrorCode;

constexpr std::size_t kFanOut = 16;
// How often its Service and budget are looked at again: somebody may have removed them.
constexpr client::Duration kKeepInterval = std::chrono::minutes{1};
// The same while an object of somebody else stands in the way: most often it is about to be removed.
constexpr client::Duration kRefusedInterval = std::chrono::seconds{10};
// What a service without a class of its own gets, where the cluster has it.
constexpr const char* kInference = "inference";
// The reason of a refusal that is not the spec's fault. It is tried again, and its owner is not told.
constexpr const char* kTransient = "Transient";

// A replica that the API server does not take is judged as a pod that it does not take.
Refused refused(const Error& error, const crds::InferenceServiceSpec& spec) {
  if (error.code == ErrorCode::kAlreadyExists) return {"NameTaken", error.message};
  const auto decision = decision_on_refusal(error);
  if (!decision) return {kTransient, client::to_string(error)};
  return {decision->kind == JobDecision::Kind::kEvict ? "InvalidSpec" : "Forbidden",
          in_terms_of_service(decision->message, spec)};
}

Refused lost(const std::string& revision) {
  return {
      "RevisionLost",
      fmt::format("revision {} is not kept any more, so no replica of it can be made; promote or abort the "
                  "canary, or change the spec",
                  revision)};
}

Outcome not_yet(const client::Key& key, const Refused& refusal) {
  log_warn("revisions not kept", {{"service", key}, {"error", refusal.message}});
  return Outcome::retry();
}

// What schedules say of the size now.
void tell_minimum(const MinimumNow& minimum, std::string& message) {
  if (!minimum.in_force.empty()) message += "; " + minimum.in_force;
  for (const std::string& problem : minimum.problems) message += "; it does not count: " + problem;
}

void wake(Outcome& outcome, const std::optional<crds::Time>& at, client::WallTime now) {
  if (at)
    outcome.no_later_than(std::max(std::chrono::ceil<client::Duration>(*at - now), client::Duration{0}));
}

// `wanted`: as it is in the revision in force. Under a canary the stable replicas are guaranteed first.
WantedReplicas wanted_replicas(const crds::InferenceService& wanted, const crds::InferenceService& stable,
                               const RolloutDecision& decided) {
  const std::int32_t size = crds::size_of(wanted);
  if (!decided.canary) return {size, crds::guaranteed_of(wanted)};
  const std::int32_t all = size + decided.beside;
  const std::int32_t share = std::min(decided.canary->replicas, all);
  const std::int32_t left = crds::guaranteed_of(wanted) + decided.beside - (all - share);
  return {all, std::min(crds::guaranteed_of(stable), all - share),
          WantedReplicas::OfCanary{share, std::clamp(left, 0, share)}};
}

}  // namespace

client::Task<Outcome> InferenceServiceReconciler::reconcile(client::Key key) {
  const Service service = context_.caches.services.store().find(key);
  if (!service || service->value.metadata.deletion_timestamp) {
    // Its replicas, Service and budget go by their owner references.
    std::erase_if(kept_, [&](const auto& kept) { return kept.first.starts_with(key + "/"); });
    ports_.erase(key);
    written_.erase(key);
    rooms_.erase(key);
    cannot_move_.erase(key);
    histories_.erase(key);
    autoscaler_.forget(key);
    canaries_.forget(key);
    co_return Outcome::done();
  }
  const crds::InferenceService& wanted = service->value;
  if (service->status_unreadable) {
    log_error("status cannot be read; the service is left as it is",
              {{"service", key}, {"problem", service->problem}});
    co_return Outcome::done();
  }
  if (!service->problem.empty())
    co_return co_await keep_serving(key, service, {"InvalidSpec", service->problem});
  std::string problem;
  const Service at_model = located(service, &problem);
  if (wanted.spec.model && at_model->value.spec.model->uri.empty()) {
    Outcome outcome = co_await keep_serving(key, service, {"ModelNotReady", problem});
    outcome.no_later_than(kRefusedInterval);
    co_return outcome;
  }
  co_return co_await keep_size(key, at_model);
}

// What serves goes on serving, and nothing else is made.
client::Task<Outcome> InferenceServiceReconciler::keep_serving(const client::Key& key, Service service,
                                                               Refused refusal) {
  const crds::InferenceService& wanted = service->value;
  const std::string revision = wanted.status.revision;
  const Fleet fleet = fleet_of(service, revision);
  // And as many as there were to be.
  crds::InferenceService known = wanted;
  const std::int32_t size = wanted.status.desired_replicas;
  known.spec.autoscaling.emplace();
  known.spec.autoscaling->min_replicas = known.spec.autoscaling->max_replicas = size;
  crds::InferenceServiceStatus status = status_of(known, fleet.views, revision, refusal,
                                                  rollout_before(wanted.status, revision), context_.now());
  status.model = wanted.status.model;
  co_return co_await write(key, service, std::move(status));
}

// The size is written down before anything is made or taken away for it: who comes next goes on from there.
client::Task<Outcome> InferenceServiceReconciler::keep_size(const client::Key& key, Service service) {
  const bool may_be_zero = crds::scales_to_zero(service->value.spec);
  if (!may_be_zero) {
    // It gives its port back after nobody is led there any more.
    if (service->value.status.activator_port != 0 && !co_await lead(key, service, {}))
      co_return Outcome::retry();
    ports_.erase(key);
  }
  if (!service->value.spec.autoscaling) {
    autoscaler_.forget(key);
    co_return co_await keep_replicas(key, service, {});
  }
  crds::Autoscaling rule = *service->value.spec.autoscaling;
  const MinimumNow minimum = minimum_now(rule, context_.now());
  rule.min_replicas = minimum.replicas;
  const std::int32_t size = crds::size_of(service->value);
  const Activation activation = may_be_zero ? activation_of(key, service) : Activation{};
  auto look = autoscaler_.look(key, rule, size, endpoints_of(service), activation);
  if (look.verdict) tell_minimum(minimum, look.verdict->message);
  crds::InferenceService sized = service->value;
  if (look.verdict) sized.status.desired_replicas = look.verdict->size;
  // The way back is gone while there are still replicas, or may not be used any more.
  const bool is_cut_off = may_be_zero && !activation.missing.empty() &&
                          (!fleet_of(service, "").jobs.empty() || !isolation_of(service).empty());
  if (sized.status.desired_replicas == 0 && is_cut_off) sized.status.desired_replicas = 1;
  sized.status.desired_replicas = crds::size_of(sized);
  sized.status.activator_port = may_be_zero ? port_of(key, service) : 0;
  const bool is_new = service->value.status.observed_generation == 0;  // nothing to remember yet
  if (!is_new && sized.status != service->value.status) {
    Outcome written = co_await write(key, service, sized.status);
    if (written.failed) co_return written;
    if (sized.status.desired_replicas != service->value.status.desired_replicas)
      tell_size(service, sized.status.desired_replicas, look.verdict);
    service = located(context_.caches.services.store().find(key));
    if (!service || service->value.status.desired_replicas != sized.status.desired_replicas)
      co_return Outcome::retry();
  }
  Outcome led = may_be_zero ? co_await keep_led(key, service) : Outcome::done();
  if (led.failed) co_return led;
  Outcome outcome = co_await keep_replicas(key, service, look.verdict);
  if (!outcome.failed) {
    outcome.no_later_than(look.again);
    if (led.after) outcome.no_later_than(*led.after);
  }
  co_return outcome;
}

client::Task<Outcome> InferenceServiceReconciler::keep_replicas(const client::Key& key, Service service,
                                                                std::optional<ScalingVerdict> scaling) {
  Refused refusal;
  const auto read = co_await read_revisions(key, service);
  if (!read) refusal = refused(read.error(), service->value.spec);
  if (refusal.reason == kTransient) co_return not_yet(key, refusal);
  const auto looked = look_at_canary(key, service);
  RevisionsView revisions{decide(key, service, looked ? looked->verdict : CanaryVerdict{}), {}};
  const RolloutDecision& decision = revisions.decision;
  // Before its replicas go: who comes next would try it again.
  if (decision.aborted && decision.aborted != service->value.status.aborted_canary)
    co_return co_await note_abort(key, service, *decision.aborted);
  // It is kept before anything is made of it.
  if (read) {
    const auto kept = co_await keep_revision(key, service, decision.own, decision.target);
    if (!kept) refusal = refused(kept.error(), service->value.spec);
    if (refusal.reason == kTransient) co_return not_yet(key, refusal);
  }
  if (read && !decision.refusal.empty()) refusal = {"InvalidSpec", decision.refusal};
  const std::string& revision = decision.target;
  const auto as_target = as_of(key, service, decision.own, revision);
  const auto as_stable = decision.canary ? as_of(key, service, decision.own, decision.stable) : as_target;
  const crds::InferenceService wanted = as_target.value_or(service->value);
  if (const Refused said = co_await keep_companions(key, service, wanted); refusal.reason.empty())
    refusal = said;

  Fleet fleet = fleet_of(service, revision);
  std::vector<Replica> states;
  for (const auto& view : fleet.views) {
    states.push_back(view.state);
    states.back().is_stable = decision.canary && view.revision == decision.stable;
  }
  const ServicePlan plan = plan_replicas(wanted_replicas(wanted, as_stable ? *as_stable : wanted, decision),
                                         wanted.spec.rollout, states, rollout_before(wanted.status, revision),
                                         room_since(key, service), context_.now());
  const bool was_stuck = cannot_move_.contains(key);
  if (plan.cannot_move)
    cannot_move_.insert(key);
  else
    cannot_move_.erase(key);
  std::vector<Job> leaving;
  for (const auto i : plan.remove) leaving.push_back(fleet.jobs[i]);
  bool ok = co_await remove(service, std::move(leaving));
  if (refusal.reason.empty() && plan.create_stable > 0) {
    refusal = as_stable ? co_await create(service, *as_stable, decision.stable, plan.create_stable,
                                          plan.create_stable_guaranteed)
                        : lost(decision.stable);
  }
  if (refusal.reason.empty() && plan.create > 0) {
    refusal = as_target ? co_await create(service, *as_target, revision, plan.create, plan.create_guaranteed)
                        : lost(revision);
  }
  if (refusal.reason == kTransient) {
    log_warn("not made", {{"service", key}, {"error", refusal.message}});
    refusal = {};
    ok = false;
  }
  if (read) ok = co_await prune_revisions(key, service, decision) && ok;

  fleet = fleet_of(service, revision);
  if (read) revisions.kept = histories_[key].all;
  // Before the status forgets of which roles it has Services.
  const bool are_removed = co_await remove_role_services(key, service, wanted, fleet);
  if (!are_removed) co_return Outcome::retry();
  Outcome outcome = co_await write(key, service,
                                   status_of(wanted, fleet.views, revision, refusal, plan.rollout,
                                             context_.now(), scaling, read ? &revisions : nullptr));
  if (!ok || outcome.failed) co_return Outcome::retry();
  const client::Duration again = refusal.reason.empty() ? kKeepInterval : kRefusedInterval;
  outcome.no_later_than(again);
  if (was_stuck != plan.cannot_move) outcome.no_later_than(client::Duration{0});  // its budget is another
  if (looked) outcome.no_later_than(looked->again);
  for (const auto& wake_at : {plan.wake_at, decision.wake_at})
    wake(outcome, wake_at, context_.env.clock.wall());
  co_return outcome;
}

std::vector<client::Ptr<client::Pod>> InferenceServiceReconciler::serving_pods(const Service& service) const {
  std::vector<client::Ptr<client::Pod>> all;
  for (const auto& job : context_.caches.jobs.store().by_index(kByOwner, service->meta.uid)) {
    if (job->value.metadata.deletion_timestamp) continue;
    for (const auto& pod : context_.caches.pods.store().by_index(kByOwner, job->meta.uid)) {
      const auto id = identity_of(*pod);
      if (!id || id->attempt != serving_attempt(job->value.status.assignment)) continue;
      if (!takes_requests(service->value.spec, *pod)) continue;
      if (!pod->ready || pod->deleting || pod->phase != client::PodPhase::kRunning) continue;
      all.push_back(pod);
    }
  }
  return all;
}

std::vector<MetricsEndpoint> InferenceServiceReconciler::endpoints_of(const Service& service,
                                                                      std::string_view revision) const {
  // Its defaults hold for who is not scaled as well.
  const crds::Autoscaling rule = service->value.spec.autoscaling.value_or(crds::Autoscaling{});
  const std::int32_t port = rule.metrics_port.value_or(service->value.spec.port);
  std::vector<MetricsEndpoint> all;
  for (const auto& pod : serving_pods(service)) {
    const std::string& replica = *client::find_value(pod->labels, kJobLabel);
    if (!revision.empty()) {
      const auto job = context_.caches.jobs.store().find(client::make_key(service->meta.ns, replica));
      if (!job) continue;
      const auto label = job->value.metadata.labels.find(std::string(kRevisionLabel));
      if (label == job->value.metadata.labels.end() || label->second != revision) continue;
    }
    all.push_back({replica, metrics_url(pod->ip, port, rule.metrics_path)});
  }
  return all;
}

InferenceServiceReconciler::Fleet InferenceServiceReconciler::fleet_of(const Service& service,
                                                                       const std::string& revision) const {
  Fleet fleet;
  for (const auto& job : context_.caches.jobs.store().by_index(kByOwner, service->meta.uid)) {
    if (job->value.metadata.deletion_timestamp) continue;
    fleet.jobs.push_back(job);
    auto& view = fleet.views.emplace_back(
        view_of(job->value, context_.caches.pods.store().by_index(kByOwner, job->meta.uid), revision));
    const crds::Assignment& assignment = job->value.status.assignment;
    view.state.is_cordoned = assignment.replaces.attempt == 0 &&  // else it moves already
                             std::ranges::any_of(assignment.pods, [this](const auto& place) {
                               const auto node = context_.caches.nodes.store().find(place.node);
                               return node && node->unschedulable;
                             });
  }
  return fleet;
}

crds::Time InferenceServiceReconciler::room_since(const client::Key& key, const Service& service) {
  std::set<std::string> replicas;  // by uid
  for (const auto& job : context_.caches.jobs.store().by_index(kByOwner, service->meta.uid)) {
    if (!job->value.metadata.deletion_timestamp) replicas.insert(job->meta.uid);
  }
  const auto pods = context_.caches.pods.store().by_index(kByService, key);
  const bool any = std::ranges::any_of(pods, [&](const auto& pod) {
    return identity_of(*pod) && is_leaving(*pod, replicas.contains(pod->owner_uid), context_.now());
  });
  return rooms_[key].look(any, context_.now());
}

// The `n` lowest ordinals whose names are free. The name of a replica on its way out is not free, because its
// pods may still be there.
std::vector<std::int32_t> InferenceServiceReconciler::free_ordinals(const Service& service,
                                                                    const std::string& revision,
                                                                    std::int32_t n) const {
  std::set<std::string> taken;
  for (const auto& pod : context_.caches.pods.store().by_index(kByService, service->meta.key())) {
    if (const auto* label = client::find_value(pod->labels, kJobLabel)) taken.insert(*label);
  }
  std::vector<std::int32_t> free;
  for (std::int32_t i = 0; free.size() < static_cast<std::size_t>(n); ++i) {
    const std::string name = replica_name(service->meta.name, revision, i);
    const auto key = client::make_key(service->meta.ns, name);
    if (!taken.contains(name) && !context_.caches.jobs.store().find(key)) free.push_back(i);
  }
  return free;
}

std::string InferenceServiceReconciler::priority_class_of(const crds::InferenceService& service) const {
  if (!service.spec.priority_class_name.empty()) return service.spec.priority_class_name;
  const auto project =
      context_.caches.projects.store().find(owner_of_namespace(context_.caches, service.metadata.ns));
  if (project && !allows_class(project->value, kInference)) return "";
  return context_.caches.priority_classes.store().find(kInference) ? kInference : "";
}

client::Task<Refused> InferenceServiceReconciler::keep_companions(client::Key key, Service service,
                                                                  crds::InferenceService as) {
  Refused first =
      co_await keep_companion(key + "/services", client::resources::kServices, service, endpoint_json(as));
  const Refused second =
      co_await keep_companion(key + "/poddisruptionbudgets", client::resources::kPodDisruptionBudgets,
                              service, disruption_budget_json(as, cannot_move_.contains(key)));
  if (first.reason.empty()) first = second;
  for (const crds::ServiceRole& role : as.spec.roles) {
    const Refused one = co_await keep_companion(key + "/services/" + role.name, client::resources::kServices,
                                                service, role_endpoint_json(as, role.name));
    if (first.reason.empty()) first = one;
  }
  co_return first;
}

// Of the roles that neither the spec, nor the revision in force, nor a replica has any more. The status names
// them until this is done.
client::Task<bool> InferenceServiceReconciler::remove_role_services(client::Key key, Service service,
                                                                    crds::InferenceService as,
                                                                    const Fleet& fleet) {
  std::set<std::string> needed;
  const auto need = [&needed](const std::vector<crds::ServiceRole>& roles) {
    for (const crds::ServiceRole& role : roles) needed.insert(role.name);
  };
  need(service->value.spec.roles);
  need(as.spec.roles);
  for (const auto& view : fleet.views) {
    for (const auto& [role, ready] : view.ready_groups) needed.insert(role);
  }
  for (const auto& role : service->value.status.roles) {
    if (needed.contains(role.name)) continue;
    const client::ObjectRef ref{service->meta.ns, role_service_name(service->meta.name, role.name)};
    const auto gone =
        co_await remove_child(context_.api, client::resources::kServices, ref, service->meta.uid);
    if (!gone) co_return false;
    kept_.erase(key + "/services/" + role.name);
  }
  co_return true;
}

client::Task<Refused> InferenceServiceReconciler::keep_companion(std::string id, client::Resource resource,
                                                                 Service service, crds::Json object) {
  const auto now = context_.env.clock.now();
  const std::string content = object.dump();
  const auto known = kept_.find(id);
  if (known != kept_.end() && known->second.content == content && now - known->second.at < kKeepInterval)
    co_return Refused{};
  const auto kept = co_await keep_child(context_.api, resource, std::move(object), service->meta.uid);
  if (!kept) co_return refused(kept.error(), service->value.spec);
  kept_[id] = {content, now};
  co_return Refused{};
}

client::Task<Refused> InferenceServiceReconciler::create(Service service, crds::InferenceService as,
                                                         std::string revision, std::int32_t n,
                                                         std::int32_t guaranteed) {
  const auto ordinals = free_ordinals(service, revision, n);
  const std::string priority_class = priority_class_of(as);
  Refused refusal;
  std::vector<std::string> names;
  const std::function<client::Task<bool>(std::size_t)> one = [&](std::size_t i) {
    struct Create {
      static client::Task<bool> run(ReconcilerContext& context, Service for_service, std::string body,
                                    Refused& said, std::vector<std::string>& all_made) {
        const auto made = co_await context.api.create(resource_of<crds::TrainingJob>(), for_service->meta.ns,
                                                      std::move(body), std::string(kFieldManager));
        if (!made) {
          said = refused(made.error(), for_service->value.spec);
          co_return false;
        }
        auto job = decode_object<crds::TrainingJob>(*made);
        if (!job) co_return false;
        all_made.push_back(job->meta.name);
        context.caches.jobs.store().assume(std::move(*job));
        co_return !context.api.writes_stopped();
      }
    };
    return Create::run(
        context_, service,
        replica_json(as, revision, ordinals[i], priority_class, i < static_cast<std::size_t>(guaranteed))
            .dump(),
        refusal, names);
  };
  co_await fan_out(context_.env.executor, ordinals.size(), kFanOut, one);
  tell(service, "ReplicasMade", "made", names);
  co_return refusal;
}

client::Task<bool> InferenceServiceReconciler::remove(Service service, std::vector<Job> jobs) {
  bool all = true;
  std::vector<std::string> names;
  const std::function<client::Task<bool>(std::size_t)> one = [&](std::size_t i) {
    struct Remove {
      static client::Task<bool> run(ReconcilerContext& context, Job job, bool& all_gone,
                                    std::vector<std::string>& gone_by_name) {
        client::DeleteOptions options;
        options.uid = job->meta.uid;
        options.propagation_policy = "Background";
        const client::ObjectRef ref{job->meta.ns, job->meta.name};
        const auto gone = co_await context.api.remove(resource_of<crds::TrainingJob>(), ref, options);
        if (!gone && gone.error().code != ErrorCode::kNotFound && gone.error().code != ErrorCode::kConflict) {
          all_gone = false;
          co_return !context.api.writes_stopped();
        }
        context.caches.jobs.store().assume_deleted(job->meta.key(), job->meta.uid);
        gone_by_name.push_back(job->meta.name);
        co_return !context.api.writes_stopped();
      }
    };
    return Remove::run(context_, jobs[i], all, names);
  };
  co_await fan_out(context_.env.executor, jobs.size(), kFanOut, one);
  tell(service, "ReplicasRemoved", "removed", names);
  co_return all;
}

client::Task<Outcome> InferenceServiceReconciler::write(const client::Key& key, Service service,
                                                        crds::InferenceServiceStatus wanted) {
  if (wanted == service->value.status) co_return Outcome::done();
  const auto now = context_.env.clock.now();
  if (const auto last = written_.find(key); last != written_.end() &&
                                            only_numbers_differ(wanted, service->value.status) &&
                                            now - last->second < context_.status_interval) {
    co_return Outcome::again(context_.status_interval - (now - last->second));
  }
  written_[key] = now;
  crds::InferenceService changed;
  changed.metadata = service->value.metadata;
  changed.status = wanted;
  ++context_.totals.status_writes;
  const auto done = co_await write_status(context_.api, context_.caches.services.store(), std::move(changed));
  if (!done && done.error().code == ErrorCode::kNotFound) co_return Outcome::done();
  if (!done) {
    log_warn("status not written", {{"service", key}, {"error", client::to_string(done.error())}});
    co_return Outcome::retry();
  }
  tell(service, wanted);
  co_return Outcome::done();
}

}  // namespace muster::reconcilers
