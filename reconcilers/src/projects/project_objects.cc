#include "muster/reconcilers/projects/project_objects.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "muster/reconcilers/pods/names.h"

namespace muster::reconcilers {

using crds::Json;

namespace {

constexpr std::string_view kRbac = "rbac.authorization.k8s.io";
constexpr std::string_view kEnforce = "pod-security.kubernetes.io/enforce";

struct RoleNames {
  crds::MemberRole role;
  const char* binding;
  const char* cluster_role;  // of manifests/base/rbac-projects.yaml
};
constexpr const char* kIsolation = "muster-isolation";
constexpr RoleNames kRoles[] = {
    {crds::MemberRole::kAdmin, "muster-admin", "muster-project-admin"},
    {crds::MemberRole::kResearcher, "muster-researcher", "muster-project-researcher"},
    {crds::MemberRole::kViewer, "muster-viewer", "muster-project-viewer"},
};

Json metadata(const crds::Project& project, std::string_view name) {
  return {{"name", name},
          {"namespace", crds::namespace_of(project)},
          {"labels", {{kManagedByLabel, kManagedBy}, {kProjectLabel, project.metadata.name}}}};
}

Json subject(const crds::Member& member) {
  if (member.kind == crds::MemberKind::kServiceAccount)
    return {{"kind", "ServiceAccount"}, {"name", member.name}, {"namespace", member.ns}};
  return {{"kind", crds::to_string(member.kind)}, {"apiGroup", kRbac}, {"name", member.name}};
}

Json pods_in(const std::string& ns) {
  return {{"namespaceSelector", {{"matchLabels", {{"kubernetes.io/metadata.name", ns}}}}}};
}

// What pods reach beside each other.
Json egress_rules(const crds::NetworkEgress& egress) {
  Json rules = Json::array();
  Json own = Json::array();
  own.push_back({{"podSelector", Json::object()}});
  rules.push_back({{"to", std::move(own)}});
  if (egress.dns) {
    Json ports = Json::array();
    for (const char* protocol : {"UDP", "TCP"}) ports.push_back({{"protocol", protocol}, {"port", 53}});
    rules.push_back({{"ports", std::move(ports)}});
  }
  if (egress.cidrs.empty()) return rules;
  Json ranges = Json::array();
  for (const auto& cidr : egress.cidrs) ranges.push_back({{"ipBlock", {{"cidr", cidr}}}});
  rules.push_back({{"to", std::move(ranges)}});
  return rules;
}

Json isolation(const crds::Project& project, const std::string& own_namespace) {
  const auto network = project.spec.ns.network.value_or(crds::ProjectNetwork{});
  Json policy = {{"apiVersion", "networking.k8s.io/v1"}, {"kind", "NetworkPolicy"}};
  policy["metadata"] = metadata(project, kIsolation);
  Json& spec = policy["spec"];
  spec["podSelector"] = Json::object();
  spec["policyTypes"] = Json::array({"Ingress"});
  Json from = Json::array();
  from.push_back({{"podSelector", Json::object()}});
  from.push_back(pods_in(own_namespace));
  for (const auto& ns : network.ingress_from) from.push_back(pods_in(ns));
  spec["ingress"] = Json::array();
  spec["ingress"].push_back({{"from", std::move(from)}});
  if (network.egress) {
    spec["policyTypes"].push_back("Egress");
    spec["egress"] = egress_rules(*network.egress);
  }
  return policy;
}

}  // namespace

crds::StringMap namespace_labels(const crds::Project& project) {
  crds::StringMap labels{{std::string(kProjectLabel), project.metadata.name}};
  if (const auto& level = project.spec.ns.pod_security)
    labels[std::string(kEnforce)] = std::string(crds::to_string(*level));
  return labels;
}

Json namespace_json(const crds::Project& project) {
  return {{"apiVersion", "v1"},
          {"kind", "Namespace"},
          {"metadata", {{"name", crds::namespace_of(project)}, {"labels", namespace_labels(project)}}}};
}

std::vector<WantedObject> objects_of(const crds::Project& project, const std::string& own_namespace) {
  std::vector<WantedObject> all;
  const auto want = [&all](const client::Resource& resource, std::string_view name, Json object) {
    all.push_back({&resource, std::string(name), {std::make_shared<const Json>(std::move(object))}});
  };
  Json account = {{"apiVersion", "v1"}, {"kind", "ServiceAccount"}};
  account["metadata"] = metadata(project, kJobAccount);
  account["automountServiceAccountToken"] = false;
  want(client::resources::kServiceAccounts, kJobAccount, std::move(account));
  if (project.spec.ns.isolate_network)
    want(client::resources::kNetworkPolicies, kIsolation, isolation(project, own_namespace));
  for (const RoleNames& names : kRoles) {
    Json subjects = Json::array();
    for (const auto& member : project.spec.members) {
      if (member.role != names.role) continue;
      Json one = subject(member);
      if (std::ranges::find(subjects, one) == subjects.end()) subjects.push_back(std::move(one));
    }
    if (subjects.empty()) continue;
    Json binding = {{"apiVersion", std::string(kRbac) + "/v1"}, {"kind", "RoleBinding"}};
    binding["metadata"] = metadata(project, names.binding);
    binding["roleRef"] = {{"apiGroup", kRbac}, {"kind", "ClusterRole"}, {"name", names.cluster_role}};
    binding["subjects"] = std::move(subjects);
    want(client::resources::kRoleBindings, names.binding, std::move(binding));
  }
  return all;
}

bool is_namespace_of(const crds::Project& project, const Namespace& ns) {
  if (crds::namespace_of(project) != ns.meta.name) return false;
  const std::string labelled = ns.project();
  if (!labelled.empty()) return labelled == project.metadata.name;
  return !ns.meta.uid.empty() && project.status.ns_uid == ns.meta.uid;
}

}  // namespace muster::reconcilers
