// What a Project wants in its namespace, and when what is there is as it should be. That it is made, mended
// and removed is looked at live.
#include "muster/reconcilers/projects/project_objects.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/reconcilers/common/child.h"
#include "muster/reconcilers/pods/names.h"

namespace muster::reconcilers {
namespace {

using crds::Json;
using crds::MemberKind;
using crds::MemberRole;

crds::Project project(const std::string& name = "nlp") {
  crds::Project p;
  p.metadata.name = name;
  return p;
}
Namespace ns(const std::string& name, const std::string& label = {}, const std::string& uid = "uid-1") {
  Namespace n;
  n.meta = {"", name, uid, "1"};
  if (!label.empty()) n.labels[std::string(kProjectLabel)] = label;
  return n;
}
std::vector<std::string> names(const std::vector<WantedObject>& all) {
  std::vector<std::string> names;
  for (const auto& one : all) names.push_back(one.resource->plural + "/" + one.name);
  return names;
}

TEST(ProjectObjects, AProjectWithoutMembersHasAnAccountForItsPodsAndNoMore) {
  const auto all = objects_of(project(), "muster-system");
  ASSERT_THAT(names(all), testing::ElementsAre("serviceaccounts/muster-job"));
  EXPECT_EQ(all[0].object.value->at("automountServiceAccountToken"), false);
  EXPECT_EQ(all[0].object.value->at("metadata")["namespace"], "nlp");
  EXPECT_EQ(all[0].object.value->at("metadata")["labels"]["muster.dev/project"], "nlp");
}

TEST(ProjectObjects, EachRoleIsOneBindingToItsShippedRoleWithAllItsMembersOnce) {
  auto p = project();
  p.spec.ns.name = "lang";
  p.spec.members = {{MemberKind::kUserGroup, "nlp-team", "", MemberRole::kResearcher},
                    {MemberKind::kServiceAccount, "ci", "build", MemberRole::kResearcher},
                    {MemberKind::kUserGroup, "nlp-team", "", MemberRole::kResearcher},
                    {MemberKind::kUser, "anna", "", MemberRole::kAdmin}};
  const auto all = objects_of(p, "muster-system");
  ASSERT_THAT(names(all), testing::ElementsAre("serviceaccounts/muster-job", "rolebindings/muster-admin",
                                               "rolebindings/muster-researcher"));
  const Json& binding = *all[2].object.value;
  EXPECT_EQ(binding["metadata"]["namespace"], "lang");
  EXPECT_EQ(binding["roleRef"]["name"], "muster-project-researcher");
  EXPECT_EQ(binding["subjects"], Json::parse(R"([
    {"kind": "Group", "apiGroup": "rbac.authorization.k8s.io", "name": "nlp-team"},
    {"kind": "ServiceAccount", "name": "ci", "namespace": "build"}])"));
}

TEST(ProjectObjects, AnIsolatedNetworkLetsInItsOwnPodsAndMusterWhereverThatRuns) {
  auto p = project();
  p.spec.ns.isolate_network = true;
  const auto all = objects_of(p, "gpu-ops");
  ASSERT_THAT(names(all),
              testing::ElementsAre("serviceaccounts/muster-job", "networkpolicies/muster-isolation"));
  EXPECT_EQ(all[1].object.value->at("spec"), Json::parse(R"({
    "podSelector": {}, "policyTypes": ["Ingress"], "ingress": [{"from": [
      {"podSelector": {}},
      {"namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "gpu-ops"}}}]}]})"));
}

TEST(ProjectObjects, AnIsolatedNetworkMayLetInOthersAndSayWhatIsReached) {
  auto p = project();
  p.spec.ns.isolate_network = true;
  p.spec.ns.network.emplace().ingress_from = {"monitoring"};
  const auto spec = [&] { return objects_of(p, "gpu-ops")[1].object.value->at("spec"); };
  EXPECT_EQ(spec()["policyTypes"], Json::array({"Ingress"}));
  EXPECT_EQ(spec()["ingress"][0]["from"][2], Json::parse(R"({
    "namespaceSelector": {"matchLabels": {"kubernetes.io/metadata.name": "monitoring"}}})"));
  p.spec.ns.network->egress.emplace();
  EXPECT_EQ(spec()["policyTypes"], Json::array({"Ingress", "Egress"}));
  EXPECT_EQ(spec()["egress"], Json::parse(R"([{"to": [{"podSelector": {}}]}])")) << "only each other";
  p.spec.ns.network->egress = {true, {"10.0.8.0/24", "2001:db8::/32"}};
  EXPECT_EQ(spec()["egress"], Json::parse(R"([
    {"to": [{"podSelector": {}}]},
    {"ports": [{"protocol": "UDP", "port": 53}, {"protocol": "TCP", "port": 53}]},
    {"to": [{"ipBlock": {"cidr": "10.0.8.0/24"}}, {"ipBlock": {"cidr": "2001:db8::/32"}}]}])"));
}

TEST(ProjectObjects, OthersMayAddFieldsButNotElementsAndChangeNothing) {
  const Json wanted = Json::parse(R"({"a": {"b": 1}, "list": [{"x": 1}], "empty": {}})");
  EXPECT_TRUE(is_as_wanted(Json::parse(R"({"a": {"b": 1, "c": 2}, "list": [{"x": 1}], "empty": {}, "d": 3})"),
                           wanted));
  EXPECT_FALSE(is_as_wanted(Json::parse(R"({"a": {"b": 2}, "list": [{"x": 1}], "empty": {}})"), wanted));
  EXPECT_FALSE(is_as_wanted(Json::parse(R"({"a": 1, "list": [{"x": 1}], "empty": {}})"), wanted));
  EXPECT_FALSE(
      is_as_wanted(Json::parse(R"({"a": {"b": 1}, "list": [{"x": 1}, {"x": 2}], "empty": {}})"), wanted));
  EXPECT_FALSE(
      is_as_wanted(Json::parse(R"({"a": {"b": 1}, "list": [{"x": 1, "y": 2}], "empty": {}})"), wanted));
  EXPECT_FALSE(
      is_as_wanted(Json::parse(R"({"a": {"b": 1}, "list": [{"x": 1}], "empty": {"z": 1}})"), wanted));
  EXPECT_FALSE(is_as_wanted(Json::parse(R"({"a": {"b": 1}, "list": [{"x": 1}]})"), wanted));
}

TEST(ProjectObjects, ANamespaceIsAProjectsByItsLabelAlone) {
  const auto p = project();
  EXPECT_TRUE(is_namespace_of(p, ns("nlp", "nlp")));
  EXPECT_FALSE(is_namespace_of(p, ns("nlp")));
  EXPECT_FALSE(is_namespace_of(p, ns("nlp", "vision"))) << "handed over";
  EXPECT_FALSE(is_namespace_of(p, ns("vision", "nlp"))) << "it does not claim it";
}

TEST(ProjectObjects, AnOwnNamespaceThatLostItsLabelStaysOwnOneMadeAnewDoesNot) {
  auto p = project();
  p.status.ns_uid = "uid-1";
  EXPECT_TRUE(is_namespace_of(p, ns("nlp")));
  EXPECT_FALSE(is_namespace_of(p, ns("nlp", "", "uid-2")));
  EXPECT_FALSE(is_namespace_of(p, ns("nlp", "vision")));
}

TEST(ProjectObjects, OursIsWhatMustersFieldManagerWrote) {
  const auto text = [](const char* manager) {
    Json object = {{"metadata", {{"name", "muster-job"}, {"namespace", "nlp"}, {"uid", "u"}}}};
    object["metadata"]["labels"] = {{"muster.dev/project", "nlp"}};
    object["metadata"]["managedFields"] = Json::array({{{"manager", "other"}}, {{"manager", manager}}});
    return object.dump();
  };
  const auto ours = decode_kept_object(text("muster"));
  ASSERT_TRUE(ours);
  EXPECT_TRUE(ours->is_ours);
  EXPECT_EQ(ours->project, "nlp");
  EXPECT_FALSE(ours->content.value->at("metadata").contains("managedFields"));
  EXPECT_FALSE(decode_kept_object(text("kubectl"))->is_ours);
  EXPECT_FALSE(decode_kept_object("[]"));
}

TEST(ProjectObjects, PodSecurityIsALabelOnlyWhereItIsStated) {
  auto p = project();
  EXPECT_EQ(namespace_labels(p).size(), 1u);
  p.spec.ns.pod_security = crds::PodSecurity::kRestricted;
  EXPECT_EQ(namespace_labels(p)["pod-security.kubernetes.io/enforce"], "restricted");
}

}  // namespace
}  // namespace muster::reconcilers
