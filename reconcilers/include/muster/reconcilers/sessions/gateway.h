// How the ports of a job are reached from outside the cluster, where its Project names a gateway: one
// HTTPRoute or one Ingress for each port, with a host of its own. Pure.
#pragma once

#include <string>
#include <vector>

#include "muster/client/api.h"
#include "muster/crds/project.h"
#include "muster/crds/training_job.h"

namespace muster::reconcilers {

// By which kind of object.
enum class RouteKind : std::uint8_t { kHttpRoute, kIngress };
RouteKind route_kind_of(const crds::ProjectGateway& gateway);
const client::Resource& resource_of(RouteKind kind);

// "<job>-<port>-<hash>": the object's name and the first label of its host. The hash is of namespace, job and
// port, so two ports in a cluster never share one, and a job that is made again has its address again.
std::string route_name(std::string_view ns, std::string_view job, std::string_view port);

// Leads to the Service of spec.expose. It states what the API server would fill in: so it is found as wanted.
crds::Json route_json(const crds::TrainingJob& job, const crds::ExposedPort& port,
                      const crds::ProjectGateway& gateway);

// Of each port, in the order of the spec: "https://notebook-jupyter-0123456789.sessions.example.org/lab".
std::vector<std::string> external_urls(const crds::TrainingJob& job, const crds::ProjectGateway& gateway);

}  // namespace muster::reconcilers
