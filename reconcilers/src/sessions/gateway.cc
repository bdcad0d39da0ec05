#include "muster/reconcilers/sessions/gateway.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "muster/reconcilers/common/owner.h"
#include "muster/reconcilers/pods/expose.h"
#include "muster/reconcilers/pods/names.h"

namespace muster::reconcilers {
namespace {

using crds::Json;

constexpr std::size_t kMaxLabel = 63;
constexpr std::size_t kHashDigits = 10;
constexpr const char* kGatewayGroup = "gateway.networking.k8s.io";
const client::Resource kHttpRoutes{kGatewayGroup, "v1", "httproutes"};
const client::Resource kIngresses{"networking.k8s.io", "v1", "ingresses"};

std::string host_of(const crds::TrainingJob& job, const crds::ExposedPort& port,
                    const crds::ProjectGateway& gateway) {
  return route_name(job.metadata.ns, job.metadata.name, port.name) + "." + gateway.domain;
}

Json http_route_spec(const std::string& host, const std::string& service, std::int32_t port,
                     const crds::ProjectGateway& gateway) {
  const Json everything = {{"path", {{"type", "PathPrefix"}, {"value", "/"}}}};
  const Json backend = {{"group", ""}, {"kind", "Service"}, {"name", service}, {"port", port}, {"weight", 1}};
  const Json parent = {
      {"group", kGatewayGroup}, {"kind", "Gateway"}, {"name", gateway.name}, {"namespace", gateway.ns}};
  return {{"parentRefs", Json::array({parent})},
          {"hostnames", Json::array({host})},
          {"rules",
           Json::array({{{"matches", Json::array({everything})}, {"backendRefs", Json::array({backend})}}})}};
}

Json ingress_spec(const std::string& host, const std::string& service, std::int32_t port,
                  const crds::ProjectGateway& gateway) {
  const Json backend = {{"service", {{"name", service}, {"port", {{"number", port}}}}}};
  const Json path = {{"path", "/"}, {"pathType", "Prefix"}, {"backend", backend}};
  Json spec = {{"ingressClassName", gateway.ingress_class_name},
               {"rules", Json::array({{{"host", host}, {"http", {{"paths", Json::array({path})}}}}})},
               {"tls", nullptr}};  // none, also where there was one
  // Without a Secret: the controller's own certificate.
  if (gateway.scheme == crds::GatewayScheme::kHttps)
    spec["tls"] = Json::array({{{"hosts", Json::array({host})}}});
  return spec;
}

}  // namespace

RouteKind route_kind_of(const crds::ProjectGateway& gateway) {
  return gateway.ingress_class_name.empty() ? RouteKind::kHttpRoute : RouteKind::kIngress;
}

const client::Resource& resource_of(RouteKind kind) {
  return kind == RouteKind::kHttpRoute ? kHttpRoutes : kIngresses;
}

std::string route_name(std::string_view ns, std::string_view job, std::string_view port) {
  std::string name = fmt::format("{}-{}", job, port);
  name.resize(std::min(name.size(), kMaxLabel - kHashDigits - 1));
  while (name.back() == '-') name.pop_back();
  return fmt::format("{}-{}", name, hash_of(fmt::format("{}/{}/{}", ns, job, port), kHashDigits));
}

Json route_json(const crds::TrainingJob& job, const crds::ExposedPort& port,
                const crds::ProjectGateway& gateway) {
  const bool is_route = route_kind_of(gateway) == RouteKind::kHttpRoute;
  const auto host = host_of(job, port, gateway);
  const auto service = expose_service_name(job.metadata.name);
  return {{"apiVersion", is_route ? "gateway.networking.k8s.io/v1" : "networking.k8s.io/v1"},
          {"kind", is_route ? "HTTPRoute" : "Ingress"},
          {"metadata",
           {{"name", route_name(job.metadata.ns, job.metadata.name, port.name)},
            {"namespace", job.metadata.ns},
            {"labels", {{std::string(kJobLabel), job_label(job.metadata.name)}}},
            {"ownerReferences", owner_references(job)}}},
          {"spec", is_route ? http_route_spec(host, service, port.port, gateway)
                            : ingress_spec(host, service, port.port, gateway)}};
}

std::vector<std::string> external_urls(const crds::TrainingJob& job, const crds::ProjectGateway& gateway) {
  std::vector<std::string> all;
  for (const auto& port : job.spec.expose)
    all.push_back(
        fmt::format("{}://{}{}", crds::to_string(gateway.scheme), host_of(job, port, gateway), port.path));
  return all;
}

}  // namespace muster::reconcilers
