#include "act/rollout.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>

#include "muster/reconcilers/services/service_objects.h"

namespace muster::plugin {
namespace {

using Change = std::expected<RolloutChange, std::string>;

std::string state_of(const crds::InferenceServiceStatus& status, const std::string& revision) {
  if (status.canary && status.canary->revision == revision) return "canary";
  if (status.canary && status.stable_revision == revision) return "stable";
  return status.revision == revision ? "in force" : "";
}

const crds::ServiceRevision* find_kept(const crds::InferenceServiceStatus& status,
                                       const std::string& wanted) {
  for (const auto& one : status.revisions) {
    if (one.name == wanted || std::to_string(one.number) == wanted) return &one;
  }
  return nullptr;
}

// The newest but for that in force: numbers say which came into force last.
const crds::ServiceRevision* one_before(const crds::InferenceServiceStatus& status) {
  const crds::ServiceRevision* newest = nullptr;
  for (const auto& one : status.revisions) {
    if (one.name != status.revision && (newest == nullptr || one.number > newest->number)) newest = &one;
  }
  return newest;
}

Data in_rollout(Data fields) {
  return {{"spec", {{"rollout", std::move(fields)}}}};
}

int with_service(const Options& options, const std::string& name,
                 const std::function<int(Reader&, const crds::InferenceService&)>& run) {
  const auto wanted = parse_workload_name(name);
  if (!wanted) return wrong_use(wanted.error());
  if (wanted->kind == WorkloadName::Kind::kJob || wanted->index)
    return wrong_use("rollouts are of InferenceServices; " + name + " is none");
  return with_reader(options, [&](Reader& reader, const std::string& ns) {
    const auto service = reader.get<crds::InferenceService>(ns, wanted->name);
    return service ? run(reader, *service) : fail(said(service.error()));
  });
}

int carry_out(const Options& options, const std::string& name,
              const std::function<Change(const crds::InferenceService&)>& plan) {
  return with_service(options, name, [&](Reader& reader, const crds::InferenceService& service) {
    const Change change = plan(service);
    if (!change) return fail(change.error());
    const auto done =
        reader.patch(resource_of<crds::InferenceService>(), {service.metadata.ns, service.metadata.name},
                     crds::Json::parse(change->patch.dump()));
    if (!done) return fail(said(done.error()));
    std::cout << "inferenceservice.muster.dev/" << service.metadata.name << ' ' << change->what << '\n';
    return 0;
  });
}

}  // namespace

Listing revisions(const crds::InferenceService& service, crds::Time now) {
  Listing listing;
  listing.columns = {{"REVISION", "number"},   {"NAME", "name"},           {"STATE", "state"},
                     {"REPLICAS", "replicas"}, {"READY", "readyReplicas"}, {"AGE", "createdAt"},
                     {"IMAGES", "images"}};
  for (const auto& one : service.status.revisions) {
    Cell age;
    if (one.created_at) age = {for_people(now - *one.created_at), crds::to_string(*one.created_at)};
    listing.rows.push_back({{cell(one.number), cell(one.name), cell(state_of(service.status, one.name)),
                             cell(std::int64_t{one.replicas}), cell(std::int64_t{one.ready_replicas}), age,
                             cell(fmt::format("{}", fmt::join(one.images, " ")))}});
  }
  listing.if_empty = "No revision of " + name_of(service.metadata) + " is kept yet.\n";
  return listing;
}

std::string rollout_status(const crds::InferenceService& service) {
  const auto& status = service.status;
  const auto* c = crds::find_condition(status.conditions, "RolledOut");
  if (c == nullptr) return "It is not known yet: nothing has looked at " + name_of(service.metadata) + ".\n";
  std::string text = fmt::format("{}: {}", c->reason, c->message);
  if (service.metadata.generation > status.observed_generation)
    text += "\nThe spec has changed since then, and was not looked at yet.";
  return wrapped(text) + '\n';
}

Change undo(const crds::InferenceService& service, const std::string& to) {
  const auto& status = service.status;
  if (to.empty() && status.canary)
    return std::unexpected(
        fmt::format("a canary of revision {} is under way; `kubectl muster rollout abort {}` takes "
                    "it back",
                    status.canary->revision, service.metadata.name));
  const auto* wanted = to.empty() ? one_before(status) : find_kept(status, to);
  if (wanted == nullptr && to.empty()) return std::unexpected("there is no revision before the one in force");
  if (wanted == nullptr)
    return std::unexpected(
        fmt::format("there is no revision {}; `kubectl muster rollout history {}` lists them", to,
                    service.metadata.name));
  if (wanted->name == status.revision)
    return std::unexpected(fmt::format("revision {} ({}) is in force already", wanted->number, wanted->name));
  if (wanted->name == reconcilers::revision_of(service)) {
    // Going back to what the spec says leaves nothing to be said beside it.
    Data fields = {{"toRevision", nullptr}};
    if (service.spec.rollout.canary && service.spec.rollout.canary->aborted_revision == wanted->name)
      fields["canary"]["abortedRevision"] = nullptr;
    return RolloutChange{
        in_rollout(std::move(fields)),
        fmt::format("goes back to revision {} ({}), that of its spec", wanted->number, wanted->name)};
  }
  return RolloutChange{
      in_rollout({{"toRevision", wanted->name}}),
      fmt::format("goes back to revision {} ({}), and stays there until spec.rollout.toRevision is removed",
                  wanted->number, wanted->name)};
}

Change promote(const crds::InferenceService& service) {
  const auto& canary = service.status.canary;
  if (!canary) return std::unexpected("no canary is under way");
  Data fields = {{"promotedRevision", canary->revision}};
  if (service.spec.rollout.canary && service.spec.rollout.canary->aborted_revision == canary->revision)
    fields["abortedRevision"] = nullptr;
  return RolloutChange{in_rollout({{"canary", std::move(fields)}}),
                       fmt::format("revision {} gets all replicas", canary->revision)};
}

Change abort_canary(const crds::InferenceService& service) {
  const auto& canary = service.status.canary;
  if (!canary) return std::unexpected("no canary is under way; `undo` goes back to an earlier revision");
  Data fields = {{"abortedRevision", canary->revision}};
  if (service.spec.rollout.canary && service.spec.rollout.canary->promoted_revision == canary->revision)
    fields["promotedRevision"] = nullptr;
  return RolloutChange{in_rollout({{"canary", std::move(fields)}}),
                       fmt::format("revision {} gives its replicas back to revision {}", canary->revision,
                                   service.status.stable_revision)};
}

int run_rollout_status(const Options& options, const std::string& name) {
  return with_service(options, name, [&](Reader&, const crds::InferenceService& service) {
    std::cout << rollout_status(service);
    return 0;
  });
}

int run_rollout_history(const Options& options, const std::string& name) {
  return with_service(options, name, [&](Reader& reader, const crds::InferenceService& service) {
    return show(revisions(service, reader.now()), options.format);
  });
}

int run_rollout_undo(const Options& options, const std::string& name, const std::string& to) {
  return carry_out(options, name, [&](const crds::InferenceService& service) { return undo(service, to); });
}

int run_rollout_promote(const Options& options, const std::string& name) {
  return carry_out(options, name, promote);
}

int run_rollout_abort(const Options& options, const std::string& name) {
  return carry_out(options, name, abort_canary);
}

}  // namespace muster::plugin
