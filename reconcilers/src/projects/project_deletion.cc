#include "projects/project_deletion.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "muster/reconcilers/common/fan_out.h"
#include "muster/reconcilers/common/json_reader.h"
#include "muster/reconcilers/common/log.h"
#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/pods/pod_end.h"
#include "muster/reconcilers/projects/project_objects.h"

namespace muster::reconcilers {
namespace {

using crds::Json;

constexpr std::size_t kMostNamed = 5;
constexpr std::size_t kDeletedAtOnce = 32;

// Calls visit for each object of the namespace. Stores are sorted by "namespace/name".
template <class T, class Visit>
void each_in(const client::Store<T>& store, const std::string& ns, Visit&& visit) {
  const auto& all = store.all();
  for (auto it = all.lower_bound(ns + "/"); it != all.end() && it->second->meta.ns == ns; ++it)
    visit(*it->second);
}

std::string some_of(const std::vector<std::string>& names) {
  const auto shown = std::min(names.size(), kMostNamed);
  return fmt::format("{}{}",
                     fmt::join(names.begin(), names.begin() + static_cast<std::ptrdiff_t>(shown), ", "),
                     names.size() > shown ? ", …" : "");
}

// Jobs that hold places, or whose pods have still to end.
std::vector<std::string> jobs_with_pods(const Caches& caches, const std::string& ns) {
  std::vector<std::string> names;
  each_in(caches.jobs.store(), ns, [&](const Object<crds::TrainingJob>& job) {
    if (job.value.status.assignment.attempt != 0) names.push_back(job.meta.name);
  });
  each_in(caches.pods.store(), ns, [&](const client::Pod& pod) {
    const auto* job = client::find_value(pod.labels, kJobLabel);
    if (job != nullptr && !is_terminal(pod)) names.emplace_back(*job);
  });
  std::ranges::sort(names);
  names.erase(std::ranges::unique(names).begin(), names.end());
  return names;
}

struct Doomed {
  std::string name, uid;
};
template <class Kind>
client::Task<bool> delete_one(ReconcilerContext& context, std::string ns, Doomed object) {
  client::DeleteOptions options;
  options.uid = object.uid;
  options.propagation_policy = "Background";
  const client::ObjectRef ref{ns, object.name};
  const auto gone = co_await context.api.remove(resource_of<Kind>(), ref, options);
  if (gone || gone.error().code == client::ErrorCode::kNotFound) co_return true;
  log_warn("not removed with its Project", {{"object", fmt::format("{} {}/{}", Kind::kKind, ns, object.name)},
                                            {"error", client::to_string(gone.error())}});
  co_return false;
}

template <class Kind>
client::Task<bool> delete_all(ReconcilerContext& context, const ObjectStore<Kind>& store, std::string ns) {
  std::vector<Doomed> doomed;
  each_in(store, ns, [&](const Object<Kind>& object) {
    if (!object.value.metadata.deletion_timestamp) doomed.push_back({object.meta.name, object.meta.uid});
  });
  bool all = true;
  const std::function<client::Task<bool>(std::size_t)> one = [&](std::size_t i) {
    struct Delete {
      static client::Task<bool> run(ReconcilerContext& of, std::string in, Doomed object, bool& all_gone) {
        const bool gone = co_await delete_one<Kind>(of, std::move(in), std::move(object));
        if (!gone) all_gone = false;
        co_return !of.api.writes_stopped();
      }
    };
    return Delete::run(context, ns, doomed[i], all);
  };
  co_await fan_out(context.env.executor, doomed.size(), kDeletedAtOnce, one);
  co_return all;
}

// A merge patch replaces the whole list, so it is guarded by the state in which the list was read.
client::Task<bool> write_finalizers(ReconcilerContext& context, client::Ptr<Object<crds::Project>> project,
                                    std::vector<std::string> finalizers) {
  const Json body = {{"metadata",
                      {{"finalizers", finalizers},
                       {"uid", project->meta.uid},
                       {"resourceVersion", project->meta.resource_version}}}};
  const client::ObjectRef ref{"", project->meta.name};
  client::PatchOptions options;
  options.field_manager = kFieldManager;
  std::string text = body.dump();
  const auto done = co_await context.api.patch(resource_of<crds::Project>(), ref, std::move(text), options);
  if (done) {
    if (auto now = decode_object<crds::Project>(*done))
      context.caches.projects.store().assume(std::move(*now));
    co_return true;
  }
  if (done.error().code == client::ErrorCode::kNotFound) co_return true;
  log_warn("finalizers not written",
           {{"project", project->meta.name}, {"error", client::to_string(done.error())}});
  co_return false;
}

}  // namespace

bool has_delete_finalizer(const crds::Project& project) {
  return std::ranges::find(project.metadata.finalizers, kDeleteFinalizer) !=
         project.metadata.finalizers.end();
}

client::Task<bool> keep_finalizer(ReconcilerContext& context, client::Ptr<Object<crds::Project>> project) {
  const bool wanted = project->value.spec.ns.deletion_policy == crds::DeletionPolicy::kDelete;
  if (wanted == has_delete_finalizer(project->value)) co_return true;
  if (!wanted) {
    const bool dropped = co_await drop_finalizer(context, project);
    co_return dropped;
  }
  auto finalizers = project->value.metadata.finalizers;
  finalizers.emplace_back(kDeleteFinalizer);
  const bool written = co_await write_finalizers(context, project, std::move(finalizers));
  co_return written;
}

client::Task<bool> drop_finalizer(ReconcilerContext& context, client::Ptr<Object<crds::Project>> project) {
  auto finalizers = project->value.metadata.finalizers;
  std::erase(finalizers, kDeleteFinalizer);
  const bool written = co_await write_finalizers(context, project, std::move(finalizers));
  co_return written;
}

client::Task<NamespaceState> remove_work(ReconcilerContext& context, const crds::Project& project) {
  const std::string ns = crds::namespace_of(project);
  const auto busy = jobs_with_pods(context.caches, ns);
  if (!busy.empty()) {
    co_return NamespaceState{
        "Saving",
        fmt::format("the Project is being deleted when its work has saved: {} of its jobs {} still pods: {}",
                    busy.size(), busy.size() == 1 ? "has" : "have", some_of(busy)),
        false};
  }
  // Services first: they would make replicas anew.
  bool all = co_await delete_all(context, context.caches.services.store(), ns);
  const bool jobs = co_await delete_all(context, context.caches.jobs.store(), ns);
  all = all && jobs;
  std::size_t left = 0;
  each_in(context.caches.services.store(), ns, [&](const auto&) { ++left; });
  each_in(context.caches.jobs.store(), ns, [&](const auto&) { ++left; });
  if (left == 0) co_return NamespaceState{};
  co_return NamespaceState{
      "Removing",
      fmt::format("the Project is being deleted: {} of its jobs and services have still to go", left), !all};
}

client::Task<NamespaceState> remove_namespace(ReconcilerContext& context, const crds::Project& project) {
  const std::string ns = crds::namespace_of(project);
  const client::ObjectRef ref{"", ns};
  const auto read = co_await context.api.get(client::resources::kNamespaces, ref);
  if (!read && read.error().code == client::ErrorCode::kNotFound) co_return NamespaceState{};
  if (!read)
    co_return NamespaceState{
        "Removing", fmt::format("namespace {} not read: {}", ns, client::to_string(read.error())), true};
  const auto there = decode_namespace(*read);
  const Json object = Json::parse(*read, nullptr, false);
  const bool is_ours =
      there && there->project() == project.metadata.name &&
      text(find(&object, "metadata", "annotations", kMadeForAnnotation)) == project.metadata.name;
  if (!is_ours || there->terminating) co_return NamespaceState{};
  std::vector<std::string> claims;
  each_in(context.caches.claims.store(), ns,
          [&](const PersistentVolumeClaim& claim) { claims.push_back(claim.meta.name); });
  if (!claims.empty()) {
    context.events.record(
        event_target(project), client::EventType::kWarning, "NamespaceKept", "Delete",
        fmt::format(
            "namespace {} stays, because these claims are in it: {}; delete it when nobody needs them", ns,
            some_of(claims)));
    co_return NamespaceState{};
  }
  client::DeleteOptions options;
  options.uid = there->meta.uid;
  options.resource_version = there->meta.resource_version;  // it may just have passed to another Project
  const auto gone = co_await context.api.remove(client::resources::kNamespaces, ref, options);
  if (gone || gone.error().code == client::ErrorCode::kNotFound) {
    log_info("namespace deleted with its Project", {{"project", project.metadata.name}, {"namespace", ns}});
    co_return NamespaceState{};
  }
  if (gone.error().code == client::ErrorCode::kForbidden) {  // ../restricted
    context.events.record(event_target(project), client::EventType::kWarning, "NamespaceKept", "Delete",
                          fmt::format("namespace {} stays: Muster may not delete it here", ns));
    co_return NamespaceState{};
  }
  co_return NamespaceState{
      "Removing", fmt::format("namespace {} not deleted: {}", ns, client::to_string(gone.error())), true};
}

}  // namespace muster::reconcilers
