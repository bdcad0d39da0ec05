#include "muster/reconcilers/projects/project.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "muster/reconcilers/common/child.h"
#include "muster/reconcilers/common/log.h"
#include "muster/reconcilers/pods/names.h"
#include "projects/project_deletion.h"

namespace muster::reconcilers {
namespace {

using client::Error;
using client::ErrorCode;
using crds::Json;

std::string words(const Error& error) {
  return error.message.empty() ? client::to_string(error) : error.message;
}
// Somebody was faster, or nobody knows whether the write stands: looked at again before anything is said
// about it.
constexpr const char* kOutdated = "Outdated";

// Between two looks at what a Project that is being deleted waits for.
constexpr client::Duration kDeletionInterval = std::chrono::seconds{1};

// The API server's own errors, such as those of a webhook that does not answer, are worth telling.
NamespaceState refused(const std::string& what, const Error& error) {
  const bool is_unknown = error.outcome_unknown() && error.code != ErrorCode::kInternal;
  return {is_unknown || error.code == ErrorCode::kConflict ? kOutdated : "WriteRefused",
          fmt::format("{}: {}", what, words(error)), true};
}

client::Informer<KeptObject>& informer_of(Caches& caches, const client::Resource& resource) {
  if (resource.plural == client::resources::kServiceAccounts.plural) return caches.service_accounts;
  if (resource.plural == client::resources::kNetworkPolicies.plural) return caches.network_policies;
  return caches.role_bindings;
}

// Server-side apply of a whole object, guarded by the state that was judged.
std::string apply_body(Json object, const client::Meta& seen) {
  object["metadata"]["uid"] = seen.uid;
  object["metadata"]["resourceVersion"] = seen.resource_version;
  return object.dump();
}
client::PatchOptions apply_options() {
  client::PatchOptions options;
  options.type = client::PatchType::kApply;
  options.field_manager = kFieldManager;
  options.force = true;
  return options;
}

// What is to be done where a Project's namespace was there before, and is not labelled for it.
std::string say_taken(const std::string& project, const Namespace& there) {
  const std::string other = there.project();
  const auto state =
      other.empty()
          ? std::string("exists and was not made for this Project; if it is meant for it: kubectl label")
          : fmt::format("is labelled for Project {}; to hand it over: kubectl label --overwrite", other);
  return fmt::format(
      "namespace {0} {1} namespace {0} {2}={3}; else make a Project with another spec.namespace.name",
      there.meta.name, state, kProjectLabel, project);
}

}  // namespace

std::string why_not_owned(const Caches& caches, const std::string& ns) {
  const auto there = caches.namespaces.store().find(ns);
  const auto first = first_claimant(caches.projects.store(), ns);
  if (!there || first.empty() || !owner_of_namespace(caches, ns).empty()) return {};
  return fmt::format("Project {} does not have its namespace: {}", first, say_taken(first, *there));
}

std::string owner_of_namespace(const Caches& caches, const std::string& ns) {
  const auto& projects = caches.projects.store();
  const auto there = caches.namespaces.store().find(ns);
  if (!there) return first_claimant(projects, ns);
  const auto claims = projects.by_index(kByNamespace, ns);
  for (const auto& p : claims) {
    if (!p->value.metadata.deletion_timestamp && is_namespace_of(p->value, *there)) return p->meta.name;
  }
  return {};
}

client::Task<Outcome> ProjectReconciler::reconcile(client::Key key) {
  const Project project = context_.caches.projects.store().find(key);
  const bool is_gone = !project || project->value.metadata.deletion_timestamp;
  NamespaceState state;
  if (is_gone && project && has_delete_finalizer(project->value)) {
    Outcome outcome = co_await finish(project);
    co_return outcome;
  }
  if (is_gone) {
    // The namespace stays (deletionPolicy Retain), with its label: a Project of this name gets it back.
    const bool removed = co_await remove_unwanted(key, "", {});
    state = {"Deleted", "the Project is being deleted", !removed};
  } else if (project->problem.empty()) {
    const bool kept = co_await keep_finalizer(context_, project);
    state = co_await keep(project);
    if (!kept) state.retry = true;
  } else {
    state = {"InvalidSpec", project->problem, false};
  }
  if (state.reason == kOutdated) co_return Outcome::retry();
  if (state.retry) log_warn("namespace is not as it should be", {{"project", key}, {"why", state.message}});
  const bool again = state.retry;
  Outcome outcome = co_await capacity_.project(key, std::move(state));
  if (again) co_return Outcome::retry();
  co_return outcome;
}

// deletionPolicy Delete. Its work saves because the Project is not there for it any more.
client::Task<Outcome> ProjectReconciler::finish(Project project) {
  const bool goes = project->value.spec.ns.deletion_policy == crds::DeletionPolicy::kDelete;
  NamespaceState state;  // somebody who does not want to wait says Retain
  if (goes) state = co_await remove_work(context_, project->value);
  if (goes && state.reason.empty()) {
    const bool removed = co_await remove_unwanted(project->meta.name, "", {});
    if (removed)
      state = co_await remove_namespace(context_, project->value);
    else
      state = {"Removing", "the Project is being deleted: not all that Muster kept is removed", true};
  }
  if (state.reason.empty()) {
    const bool dropped = co_await drop_finalizer(context_, project);
    if (dropped) log_info("Project deleted with its work", {{"project", project->meta.name}});
    co_return dropped ? Outcome::done() : Outcome::retry();
  }
  const auto* said = crds::find_condition(project->value.status.conditions, "NamespaceReady");
  if (said == nullptr || said->reason != state.reason) {
    context_.events.record(event_target(project->value), client::EventType::kNormal, state.reason, "Delete",
                           state.message);
  }
  const bool again = state.retry;
  Outcome outcome = co_await capacity_.project(project->meta.name, std::move(state));
  if (again) co_return Outcome::retry();
  // Nobody tells the Project when its work has gone.
  if (!outcome.failed) outcome.no_later_than(kDeletionInterval);
  co_return outcome;
}

client::Task<NamespaceState> ProjectReconciler::keep(const Project& project) {
  NamespaceState state = co_await keep_namespace(project->value);
  if (state.reason == "NamespaceTaken") {  // handed over: its members are out
    const bool removed = co_await remove_unwanted(project->meta.name, "", {});
    if (!removed) state.retry = true;
  }
  if (!state.reason.empty()) co_return state;
  const std::string ns = crds::namespace_of(project->value);
  const auto wanted = objects_of(project->value, context_.own_namespace);
  for (const auto& one : wanted) {
    NamespaceState kept = co_await keep_object(one, ns);
    if (state.reason.empty()) state = std::move(kept);
  }
  const bool removed = co_await remove_unwanted(project->meta.name, ns, wanted);
  if (!removed) state.retry = true;
  co_return state;
}

client::Task<NamespaceState> ProjectReconciler::keep_namespace(const crds::Project& project) {
  const std::string name = crds::namespace_of(project);
  auto& store = context_.caches.namespaces.store();
  if (!store.find(name)) {
    if (const auto first = first_claimant(context_.caches.projects.store(), name);
        first != project.metadata.name) {
      co_return NamespaceState{"NamespaceTaken",
                               fmt::format("the older Project {} claims namespace {} as well", first, name),
                               false};
    }
    Json fresh = namespace_json(project);
    fresh["metadata"]["annotations"] = {{std::string(kMadeForAnnotation), project.metadata.name}};
    std::string body = fresh.dump();
    const auto made = co_await context_.api.create(client::resources::kNamespaces, "", std::move(body),
                                                   std::string(kFieldManager));
    if (made) {
      log_info("namespace made", {{"project", project.metadata.name}, {"namespace", name}});
      if (auto ns = decode_namespace(*made)) store.assume(std::move(*ns));
    } else if (made.error().code != ErrorCode::kAlreadyExists) {
      co_return refused("namespace " + name + " not made", made.error());
    } else {
      const client::ObjectRef ref{"", name};
      const auto read = co_await context_.api.get(client::resources::kNamespaces, ref);
      if (!read) co_return refused("namespace " + name + " not read", read.error());
      if (auto ns = decode_namespace(*read)) store.assume(std::move(*ns));
    }
  }
  const auto there = store.find(name);
  if (!there) co_return NamespaceState{"NamespaceTerminating", "namespace " + name + " has just gone", true};
  if (!is_namespace_of(project, *there)) {
    co_return NamespaceState{"NamespaceTaken", say_taken(project.metadata.name, *there), false};
  }
  if (there->terminating) {
    co_return NamespaceState{
        "NamespaceTerminating",
        fmt::format("namespace {} is being deleted; it is made anew when it has gone", name), false};
  }
  const auto labels = namespace_labels(project);
  const bool labelled = std::ranges::all_of(labels, [&](const auto& label) {
    const auto found = there->labels.find(label.first);
    return found != there->labels.end() && found->second == label.second;
  });
  if (labelled) co_return NamespaceState{};
  std::string body = apply_body(namespace_json(project), there->meta);
  const client::ObjectRef ref{"", name};
  const client::PatchOptions options = apply_options();
  const auto mended =
      co_await context_.api.patch(client::resources::kNamespaces, ref, std::move(body), options);
  if (!mended) co_return refused("namespace " + name + " not labelled", mended.error());
  if (auto ns = decode_namespace(*mended)) store.assume(std::move(*ns));
  co_return NamespaceState{};
}

client::Task<NamespaceState> ProjectReconciler::keep_object(const WantedObject& wanted, std::string ns) {
  auto& store = informer_of(context_.caches, *wanted.resource).store();
  const client::ObjectRef ref{ns, wanted.name};
  const std::string what = fmt::format("{} {}/{}", wanted.resource->plural, ns, wanted.name);
  Kept there = store.find(client::make_key(ns, wanted.name));
  if (!there) {
    std::string body = wanted.object.value->dump();
    const auto made =
        co_await context_.api.create(*wanted.resource, ns, std::move(body), std::string(kFieldManager));
    if (made) {
      if (auto kept = decode_kept_object(*made)) store.assume(std::move(*kept));
      co_return NamespaceState{};
    }
    if (made.error().code != ErrorCode::kAlreadyExists) co_return refused(what + " not made", made.error());
    const auto read = co_await context_.api.get(*wanted.resource, ref);  // unlabelled, or not yet heard of
    if (!read) co_return refused(what + " not read", read.error());
    auto kept = decode_kept_object(*read);
    if (!kept) co_return refused(what + " not read", kept.error());
    there = std::make_shared<const KeptObject>(std::move(*kept));
  }
  if (!there->is_ours) {
    co_return NamespaceState{
        "NameTaken",
        fmt::format("{} exists and was not made by Muster; delete it, and Muster makes its own", what), true};
  }
  if (is_as_wanted(*there->content.value, *wanted.object.value)) co_return NamespaceState{};
  std::string body = apply_body(*wanted.object.value, there->meta);
  const client::PatchOptions options = apply_options();
  const auto mended = co_await context_.api.patch(*wanted.resource, ref, std::move(body), options);
  if (!mended) co_return refused(what + " not mended", mended.error());
  log_info("mended", {{"object", what}});
  if (auto kept = decode_kept_object(*mended)) store.assume(std::move(*kept));
  co_return NamespaceState{};
}

client::Task<bool> ProjectReconciler::remove_unwanted(const client::Key& project, std::string ns,
                                                      const std::vector<WantedObject>& wanted) {
  bool all = true;
  for (const auto* resource : {&client::resources::kRoleBindings, &client::resources::kNetworkPolicies,
                               &client::resources::kServiceAccounts}) {
    auto& store = informer_of(context_.caches, *resource).store();
    const auto labelled = store.by_index(kByProject, project);
    for (const auto& kept : labelled) {
      const bool is_wanted = kept->meta.ns == ns && std::ranges::any_of(wanted, [&](const WantedObject& w) {
                               return w.resource == resource && w.name == kept->meta.name;
                             });
      if (is_wanted || !kept->is_ours) continue;
      client::DeleteOptions options;
      options.uid = kept->meta.uid;
      options.resource_version = kept->meta.resource_version;  // it may just have passed to another Project
      const client::ObjectRef ref{kept->meta.ns, kept->meta.name};
      const auto gone = co_await context_.api.remove(*resource, ref, options);
      if (gone || gone.error().code == ErrorCode::kNotFound || gone.error().code == ErrorCode::kConflict) {
        if (gone) store.assume_deleted(kept->meta.key(), kept->meta.uid);
        continue;
      }
      log_warn("not removed", {{"object", resource->plural + " " + kept->meta.key()},
                               {"error", client::to_string(gone.error())}});
      all = false;
    }
  }
  co_return all;
}

}  // namespace muster::reconcilers
