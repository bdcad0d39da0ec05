// The ControllerRevisions of a service: read once, kept before replicas are made of them, and bounded; and
// what decides which of them is in force.
#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>

#include "muster/reconcilers/common/json_reader.h"
#include "muster/reconcilers/common/log.h"
#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/pods/served_model.h"
#include "muster/reconcilers/services/inference_service.h"
#include "muster/reconcilers/services/service_objects.h"

namespace muster::reconcilers {

using client::ErrorCode;

client::Task<client::Result<void>> InferenceServiceReconciler::read_revisions(client::Key key,
                                                                              Service service) {
  client::Result<void> done;
  const auto known = histories_.find(key);
  if (known != histories_.end() && known->second.uid == service->meta.uid) co_return done;
  History history{service->meta.uid, {}};
  client::ListOptions options;
  options.label_selector = pod_selector(service->value);
  do {
    const auto page = co_await context_.api.list(kControllerRevisions, service->meta.ns, options);
    if (!page) {
      done = std::unexpected(page.error());
      co_return done;
    }
    const Json list = Json::parse(page->body, nullptr, false);
    for (const Json& object : items(find(&list, "items"))) {
      if (auto one = read_revision(object, history.uid)) history.all.push_back(std::move(*one));
    }
    options.continue_token = page->continue_token;
  } while (!options.continue_token.empty());
  histories_[key] = std::move(history);
  co_return done;
}

// With its model where it is. What is made of it, and is kept as its revision, is of this one.
InferenceServiceReconciler::Service InferenceServiceReconciler::located(Service service,
                                                                        std::string* problem) const {
  if (!service || !service->value.spec.model) return service;
  const auto find_job = [&](const std::string& name) -> const crds::TrainingJob* {
    const auto job = context_.caches.jobs.store().find(client::make_key(service->meta.ns, name));
    return job && job->problem.empty() ? &job->value : nullptr;
  };
  const LocatedModel model = locate_model(service->value, find_job);
  if (problem != nullptr) *problem = model.problem;
  if (model.uri == service->value.spec.model->uri) return service;
  auto copy = std::make_shared<Object<crds::InferenceService>>(*service);
  copy->value.spec.model->uri = model.uri;
  return copy;
}

client::Task<Outcome> InferenceServiceReconciler::note_abort(client::Key key, Service service,
                                                             crds::AbortedCanary aborted) {
  crds::InferenceServiceStatus status = service->value.status;
  status.aborted_canary = std::move(aborted);
  Outcome outcome = co_await write(key, service, std::move(status));
  outcome.no_later_than(client::Duration{0});
  co_return outcome;
}

// Nothing where no canary is under way that is analysed.
std::optional<CanaryWatch::Look> InferenceServiceReconciler::look_at_canary(const client::Key& key,
                                                                            const Service& service) {
  const auto& rule = service->value.spec.rollout.canary;
  const auto& canary = service->value.status.canary;
  if (!rule || !rule->analysis || !canary) {
    canaries_.forget(key);
    return std::nullopt;
  }
  return canaries_.look(key, *rule->analysis, canary->revision, endpoints_of(service, canary->revision));
}

RolloutDecision InferenceServiceReconciler::decide(const client::Key& key, const Service& service,
                                                   const CanaryVerdict& canary) const {
  const auto history = histories_.find(key);
  RolloutView view;
  view.own = revision_of(service->value);
  view.is_kept = [&](const std::string& revision) {
    return history != histories_.end() && find_revision(history->second.all, revision) != nullptr;
  };
  view.ready = [&](const std::string& revision) {
    const Fleet fleet = fleet_of(service, "");
    return static_cast<std::int32_t>(std::ranges::count_if(
        fleet.views, [&](const ReplicaView& r) { return r.state.is_ready && r.revision == revision; }));
  };
  view.canary = canary;
  return decide_rollout(service->value, view, context_.now());
}

std::optional<crds::InferenceService> InferenceServiceReconciler::as_of(const client::Key& key,
                                                                        const Service& service,
                                                                        const std::string& own,
                                                                        const std::string& revision) const {
  if (revision == own) return service->value;
  const auto history = histories_.find(key);
  const KeptRevision* kept =
      history == histories_.end() ? nullptr : find_revision(history->second.all, revision);
  if (kept == nullptr) return std::nullopt;
  return with_revision(service->value, *kept);
}

client::Task<client::Result<void>> InferenceServiceReconciler::keep_revision(client::Key key, Service service,
                                                                             std::string own,
                                                                             std::string revision) {
  client::Result<void> done;
  const std::vector<KeptRevision>& all = histories_[key].all;
  const KeptRevision* there = find_revision(all, revision);
  const std::int64_t next = next_number(all);
  if (there != nullptr && there->number == next - 1) co_return done;
  if (there == nullptr && revision != own) co_return done;  // nobody has it any more
  Json object = revision_json(service->value, revision, next);
  const client::ObjectRef ref{service->meta.ns, object["metadata"]["name"].get<std::string>()};
  client::Result<std::string> written;
  if (there == nullptr) {
    written =
        co_await context_.api.create(kControllerRevisions, ref.ns, object.dump(), std::string(kFieldManager));
    // The answer to an earlier create may have been lost.
    if (!written && written.error().code == ErrorCode::kAlreadyExists)
      written = co_await context_.api.get(kControllerRevisions, ref);
  } else {
    const Json change = {{"metadata", {{"uid", there->uid}}}, {"revision", next}};
    client::PatchOptions options;
    options.field_manager = kFieldManager;
    written = co_await context_.api.patch(kControllerRevisions, ref, change.dump(), options);
  }
  if (!written) {
    histories_.erase(key);  // somebody may have removed it
    done = std::unexpected(written.error());
    co_return done;
  }
  auto now = read_revision(Json::parse(*written, nullptr, false), service->meta.uid);
  if (!now) {
    client::Error taken;
    taken.code = ErrorCode::kAlreadyExists;
    taken.message = fmt::format(
        "controllerrevisions {}/{} exists and was not made for this object; delete it or rename this one",
        ref.ns, ref.name);
    done = std::unexpected(taken);
    co_return done;
  }
  auto& kept = histories_[key];
  kept.uid = service->meta.uid;
  std::erase_if(kept.all, [&](const KeptRevision& one) { return one.name == revision; });
  kept.all.push_back(std::move(*now));
  co_return done;
}

client::Task<bool> InferenceServiceReconciler::prune_revisions(client::Key key, Service service,
                                                               RolloutDecision decision) {
  const std::int32_t limit = crds::revision_history_limit_of(service->value.spec.rollout);
  if (histories_[key].all.size() <= static_cast<std::size_t>(std::max(0, limit))) co_return true;
  std::set<std::string> in_use{decision.target, decision.stable, decision.own};
  for (const auto& view : fleet_of(service, "").views) in_use.emplace(view.revision);
  std::vector<KeptRevision> unwanted;
  for (const KeptRevision* one : surplus(histories_[key].all, in_use, limit)) unwanted.push_back(*one);
  for (const KeptRevision& one : unwanted) {
    client::DeleteOptions options;
    options.uid = one.uid;
    const auto gone = co_await context_.api.remove(kControllerRevisions,
                                                   client::ObjectRef{service->meta.ns, one.object}, options);
    if (!gone && gone.error().code != ErrorCode::kNotFound && gone.error().code != ErrorCode::kConflict) {
      log_warn("revision not removed", {{"service", key}, {"error", client::to_string(gone.error())}});
      co_return false;
    }
    std::erase_if(histories_[key].all, [&](const KeptRevision& r) { return r.uid == one.uid; });
  }
  co_return true;
}

}  // namespace muster::reconcilers
