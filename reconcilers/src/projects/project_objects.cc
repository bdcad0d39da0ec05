#include "muster/reconcilers/projects/project_objects.h"

#include <algorithm>
#include <nlohmann/json.hpp>

#include "common/json_reader.h"
#include "muster/reconcilers/common/objects.h"

namespace muster::reconcilers {
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

crds::StringMap labels_of(const Json& object) {
  crds::StringMap map;
  const Json* labels = find(&object, "metadata", "labels");
  if (labels == nullptr || !labels->is_object()) return map;
  for (const auto& [name, value] : labels->items()) {
    if (value.is_string()) map[name] = value.get<std::string>();
  }
  return map;
}

bool has_manager(const Json& object, std::string_view manager) {
  return std::ranges::any_of(items(find(&object, "metadata", "managedFields")),
                             [&](const Json& entry) { return text(find(entry, "manager")) == manager; });
}

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

}  // namespace

std::string Namespace::project() const {
  const auto found = labels.find(std::string(kProjectLabel));
  return found == labels.end() ? std::string() : found->second;
}

client::Result<Namespace> decode_namespace(std::string_view json) {
  const auto object = read_object(json, "Namespace");
  if (!object) return std::unexpected(object.error());
  Namespace ns;
  ns.meta = meta_of(*object);
  ns.labels = labels_of(*object);
  ns.terminating = find(&*object, "metadata", "deletionTimestamp") != nullptr;
  return ns;
}

client::Result<KeptObject> decode_kept_object(std::string_view json) {
  auto object = read_object(json, "object");
  if (!object) return std::unexpected(object.error());
  KeptObject kept;
  kept.meta = meta_of(*object);
  const auto labels = labels_of(*object);
  if (const auto found = labels.find(std::string(kProjectLabel)); found != labels.end())
    kept.project = found->second;
  kept.is_ours = has_manager(*object, kFieldManager);
  (*object)["metadata"].erase("managedFields");
  object->erase("status");
  kept.content.value = std::make_shared<const Json>(std::move(*object));
  return kept;
}

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
  if (project.spec.ns.isolate_network) {
    Json policy = {{"apiVersion", "networking.k8s.io/v1"}, {"kind", "NetworkPolicy"}};
    policy["metadata"] = metadata(project, kIsolation);
    const Json everything = Json::object();
    const Json of_muster = {{"matchLabels", {{"kubernetes.io/metadata.name", own_namespace}}}};
    policy["spec"]["podSelector"] = everything;
    policy["spec"]["policyTypes"] = Json::array({"Ingress"});
    Json from = Json::array();
    from.push_back({{"podSelector", everything}});
    from.push_back({{"namespaceSelector", of_muster}});
    policy["spec"]["ingress"] = Json::array();
    policy["spec"]["ingress"].push_back({{"from", std::move(from)}});
    want(client::resources::kNetworkPolicies, kIsolation, std::move(policy));
  }
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

bool is_as_wanted(const Json& there, const Json& wanted) {
  if (!wanted.is_object() || wanted.empty()) return there == wanted;
  if (!there.is_object()) return false;
  return std::ranges::all_of(wanted.items(), [&](const auto& field) {
    const auto found = there.find(field.key());
    return found != there.end() && is_as_wanted(*found, field.value());
  });
}

bool is_namespace_of(const crds::Project& project, const Namespace& ns) {
  if (crds::namespace_of(project) != ns.meta.name) return false;
  const std::string labelled = ns.project();
  if (!labelled.empty()) return labelled == project.metadata.name;
  return !ns.meta.uid.empty() && project.status.ns_uid == ns.meta.uid;
}

}  // namespace muster::reconcilers
