#include "muster/reconcilers/pods/expose.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "muster/reconcilers/common/owner.h"
#include "muster/reconcilers/pods/names.h"

namespace muster::reconcilers {
namespace {

using crds::Json;

// Below this only root may listen.
constexpr std::int32_t kFirstFreePort = 1024;

std::int32_t port_at_home(std::int32_t port) {
  return port < kFirstFreePort ? port + 8000 : port;
}

}  // namespace

std::string expose_service_name(std::string_view job) {
  return service_name(fmt::format("{}-expose", job));
}

Json expose_service_json(const crds::TrainingJob& job) {
  const std::string label = job_label(job.metadata.name);
  Json ports = Json::array();
  for (const auto& one : job.spec.expose) {
    ports.push_back({{"name", one.name}, {"port", one.port}, {"targetPort", one.port}, {"protocol", "TCP"}});
  }
  return {{"apiVersion", "v1"},
          {"kind", "Service"},
          {"metadata",
           {{"name", expose_service_name(job.metadata.name)},
            {"namespace", job.metadata.ns},
            {"labels", {{std::string(kJobLabel), label}}},
            {"ownerReferences", owner_references(job)}}},
          {"spec",
           {{"selector",
             {{std::string(kJobLabel), label},
              {std::string(kRoleLabel), job.spec.roles.front().name},
              {std::string(kIndexLabel), "0"}}},
            {"ports", std::move(ports)}}}};
}

std::vector<crds::Endpoint> endpoints_of(const crds::TrainingJob& job,
                                         const std::vector<std::string>& external_urls) {
  const std::string service = expose_service_name(job.metadata.name);
  const std::string& ns = job.metadata.ns;
  std::vector<crds::Endpoint> all;
  for (const auto& one : job.spec.expose) {
    all.push_back({.name = one.name,
                   .service = service,
                   .url = fmt::format("http://{}.{}.svc:{}{}", service, ns, one.port, one.path),
                   .port_forward = fmt::format("kubectl -n {} port-forward svc/{} {}:{}", ns, service,
                                               port_at_home(one.port), one.port)});
    if (all.size() <= external_urls.size()) all.back().external_url = external_urls[all.size() - 1];
  }
  return all;
}

}  // namespace muster::reconcilers
