#include "muster/reconcilers/sessions/job_routes.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "muster/reconcilers/common/child.h"
#include "muster/reconcilers/common/log.h"
#include "muster/reconcilers/jobs/pod_refusal.h"
#include "muster/reconcilers/lifecycle/job_status.h"
#include "muster/reconcilers/pods/expose.h"
#include "muster/reconcilers/projects/project.h"
#include "muster/reconcilers/sessions/gateway.h"

namespace muster::reconcilers {
namespace {

using client::ErrorCode;

constexpr const char* kRouteReady = "HTTPRouteReady";
constexpr const char* kIngressReady = "IngressReady";

struct OldRoute {
  std::string port;
  RouteKind kind;
};

// The kinds of routes that may be there. Where something stood in the way nobody has noted which.
std::vector<RouteKind> kinds_made(const crds::TrainingJob& job) {
  if (!was_published(job)) return {};
  const auto* c = crds::find_condition(job.status.conditions, kPublished);
  const std::string reason = c == nullptr ? "" : c->reason;
  if (reason == kRouteReady) return {RouteKind::kHttpRoute};
  if (reason == kIngressReady) return {RouteKind::kIngress};
  return {RouteKind::kHttpRoute, RouteKind::kIngress};
}

std::vector<OldRoute> unwanted(const crds::TrainingJob& job, const std::optional<crds::ProjectGateway>& now) {
  std::set<std::string> stated, all;
  for (const auto& port : job.spec.expose) stated.insert(port.name);
  all = stated;
  for (const auto& endpoint : job.status.endpoints) all.insert(endpoint.name);
  std::vector<OldRoute> old;
  for (const RouteKind kind : kinds_made(job)) {
    const bool is_kind = now && route_kind_of(*now) == kind;
    for (const auto& port : all) {
      if (!is_kind || !stated.contains(port)) old.push_back({port, kind});
    }
  }
  return old;
}

// What stands in the way of a route; nullopt: a passing fault.
std::optional<Publication> refusal_of(const client::Error& error, const client::Resource& resource,
                                      const std::string& project) {
  if (error.code == ErrorCode::kNotFound) {
    return Publication{
        .reason = "APIMissing",
        .problem = fmt::format("this cluster has no {} of {}/{}, which spec.gateway of Project {} asks for: "
                               "install that API, or let the Project name another gateway",
                               resource.plural, resource.group, resource.version, project)};
  }
  const auto refused = decision_on_refusal(error);
  if (!refused) return std::nullopt;
  return Publication{.reason = refused->reason == "NameTaken" ? "NameTaken" : "RouteRefused",
                     .problem = refused->message};
}

}  // namespace

bool was_published(const crds::TrainingJob& job) {
  const auto* c = crds::find_condition(job.status.conditions, kPublished);
  return c != nullptr && c->reason != kNoGateway && c->reason != kJobEnded;
}

std::optional<crds::ProjectGateway> JobRoutes::gateway_of(const crds::TrainingJob& job) const {
  if (job.spec.expose.empty() || is_finished(job.status)) return std::nullopt;
  const auto owner = owner_of_namespace(context_.caches, job.metadata.ns);
  const auto project = context_.caches.projects.store().find(owner);
  return project ? project->value.spec.gateway : std::nullopt;
}

client::Task<std::optional<Publication>> JobRoutes::keep(JobPtr job,
                                                         std::optional<crds::ProjectGateway> gateway) {
  std::optional<Publication> said;
  const bool is_clean = co_await remove_unwanted(job, gateway);
  if (!is_clean) co_return said;
  if (!gateway) co_return said.emplace();
  const RouteKind kind = route_kind_of(*gateway);
  for (const auto& port : job->value.spec.expose) {
    auto wanted = route_json(job->value, port, *gateway);
    const auto kept = co_await keep_child(context_.api, resource_of(kind), std::move(wanted), job->meta.uid);
    if (kept) continue;
    said = refusal_of(kept.error(), resource_of(kind), owner_of_namespace(context_.caches, job->meta.ns));
    if (!said)
      log_warn("route not kept", {{"job", job->meta.key()}, {"error", client::to_string(kept.error())}});
    co_return said;
  }
  said.emplace(external_urls(job->value, *gateway),
               kind == RouteKind::kHttpRoute ? kRouteReady : kIngressReady);
  co_return said;
}

client::Task<bool> JobRoutes::remove_unwanted(JobPtr job, std::optional<crds::ProjectGateway> gateway) {
  for (const auto& old : unwanted(job->value, gateway)) {
    const auto gone = co_await remove_child(
        context_.api, resource_of(old.kind),
        {job->meta.ns, route_name(job->meta.ns, job->meta.name, old.port)}, job->meta.uid);
    // Another object has its name now, or nobody lets Muster look: it goes with the job then.
    const bool is_done =
        gone || gone.error().code == ErrorCode::kConflict || gone.error().code == ErrorCode::kForbidden;
    if (is_done) continue;
    log_warn("route not removed", {{"job", job->meta.key()}, {"error", client::to_string(gone.error())}});
    co_return false;
  }
  co_return true;
}

}  // namespace muster::reconcilers
