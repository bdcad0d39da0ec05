// What leads from a Project's gateway to the ports of its sessions, on an API server with and without Gateway
// API.
#include <gmock/gmock.h>

#include "plugin_fixture.h"

namespace muster::test {
namespace {

using testing::EndsWith;
using testing::HasSubstr;
using testing::StartsWith;

const std::string kTeam = "/apis/muster.dev/v1alpha1/projects/team";
const std::string kIngresses = "/apis/networking.k8s.io/v1/namespaces/team/ingresses";
const std::string kRoutes = "/apis/gateway.networking.k8s.io/v1/namespaces/team/httproutes";

// As Gateway API has it, as far as this needs it: with the defaults that its schema fills in.
constexpr const char* kHttpRoutes = R"(
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: httproutes.gateway.networking.k8s.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes-sigs/gateway-api/pull/3328"}
spec:
  group: gateway.networking.k8s.io
  names: {kind: HTTPRoute, listKind: HTTPRouteList, plural: httproutes, singular: httproute}
  scope: Namespaced
  versions:
  - name: v1
    served: true
    storage: true
    subresources: {status: {}}
    schema:
      openAPIV3Schema:
        type: object
        properties:
          spec:
            type: object
            properties:
              hostnames: {type: array, items: {type: string}}
              parentRefs:
                type: array
                items:
                  type: object
                  required: [name]
                  properties:
                    group: {type: string, default: gateway.networking.k8s.io}
                    kind: {type: string, default: Gateway}
                    name: {type: string}
                    namespace: {type: string}
              rules:
                type: array
                items:
                  type: object
                  properties:
                    matches:
                      type: array
                      default: [{path: {type: PathPrefix, value: /}}]
                      items:
                        type: object
                        properties:
                          path:
                            type: object
                            default: {type: PathPrefix, value: /}
                            properties: {type: {type: string, default: PathPrefix}, value: {type: string, default: /}}
                    backendRefs:
                      type: array
                      items:
                        type: object
                        properties:
                          group: {type: string, default: ""}
                          kind: {type: string, default: Service}
                          name: {type: string}
                          port: {type: integer}
                          weight: {type: integer, default: 1}
)";

class Gateways : public OneCluster {
 protected:
  static void SetUpTestSuite() {
    cluster_ = Cluster::start(1, 4);
    muster_ = cluster_->muster();
  }
  void TearDown() override {
    name_gateway(nullptr);
    OneCluster::TearDown();
  }
  static void name_gateway(const json& gateway) {
    cluster_->patch(kTeam, {{"spec", {{"gateway", nullptr}}}});
    if (!gateway.is_null()) cluster_->patch(kTeam, {{"spec", {{"gateway", gateway}}}});
  }
  static void start(const std::string& name, const json& expose) {
    cluster_->create(job_object({.name = name, .spec = {{"mode", "Interactive"}, {"expose", expose}}}));
    ASSERT_TRUE(cluster_->wait_phase(name, "Running")) << cluster_->job(name).dump(2);
  }
  static json list(const std::string& path) {
    const json all = cluster_->get(path);
    return all.is_null() ? json::array() : all["items"];
  }
  static std::vector<std::string> urls(const std::string& job) {
    std::vector<std::string> all;
    const json status = cluster_->job(job)["status"];
    for (const auto& one : status.value("endpoints", json::array()))
      all.push_back(one.value("externalURL", std::string()));
    return all;
  }
  static bool wait_published(const std::string& job, const std::string& reason) {
    return cluster_->wait(40s, [&] {
      const json c = cluster_->condition(job, "Published");
      return !c.is_null() && c["reason"] == reason;
    });
  }
};

const json kJupyter = {{"name", "jupyter"}, {"port", 8888}, {"path", "/lab"}};
const json kBoard = {{"name", "board"}, {"port", 6006}};

TEST_F(Gateways, AnIngressOfEachPortIsMadeMendedAndRemovedWhenTheJobEnds) {
  start("note", json::array({kJupyter, kBoard}));
  EXPECT_TRUE(cluster_->condition("note", "Published").is_null()) << "nobody asks for it";
  name_gateway({{"domain", "example.org"}, {"ingressClassName", "nginx"}});
  ASSERT_TRUE(wait_published("note", "IngressReady")) << cluster_->job("note").dump(2);
  ASSERT_EQ(list(kIngresses).size(), 2U);
  ASSERT_EQ(urls("note").size(), 2U);
  EXPECT_THAT(urls("note")[0],
              testing::AllOf(StartsWith("http://note-jupyter-"), EndsWith(".example.org/lab")));
  for (const auto& ingress : list(kIngresses)) {
    EXPECT_EQ(ingress["metadata"]["ownerReferences"][0]["uid"], cluster_->job("note")["metadata"]["uid"]);
    const json& rule = ingress["spec"]["rules"][0];
    EXPECT_EQ(rule["http"]["paths"][0]["backend"]["service"]["name"], "note-expose");
    EXPECT_TRUE(urls("note")[0].contains(rule["host"].get<std::string>()) ||
                urls("note")[1].contains(rule["host"].get<std::string>()));
  }
  EXPECT_THAT(cluster_->job("note")["status"]["endpoints"][0]["portForward"].get<std::string>(),
              HasSubstr("port-forward svc/note-expose 8888:8888"));

  // Another scheme mends them; one port less removes one.
  cluster_->patch(kTeam, {{"spec", {{"gateway", {{"scheme", "https"}}}}}});
  ASSERT_TRUE(cluster_->wait(20s, [] { return urls("note")[0].starts_with("https://"); }));
  EXPECT_TRUE(list(kIngresses)[0]["spec"].contains("tls"));
  cluster_->patch(kTeam, {{"spec", {{"gateway", {{"scheme", "http"}}}}}});
  ASSERT_TRUE(cluster_->wait(20s, [] { return !list(kIngresses)[0]["spec"].contains("tls"); }));
  cluster_->patch(path_of_job("note"), {{"spec", {{"expose", json::array({kJupyter})}}}});
  ASSERT_TRUE(cluster_->wait(20s, [] { return list(kIngresses).size() == 1; }));
  EXPECT_TRUE(cluster_->wait(20s, [] { return urls("note").size() == 1; })) << "it is said after it is done";

  // A suspended session keeps its address, also over another process; one that has ended does not.
  const json before = list(kIngresses)[0]["metadata"];
  cluster_->patch(path_of_job("note"), {{"spec", {{"suspend", true}}}});
  ASSERT_TRUE(cluster_->wait_phase("note", "Suspended"));
  muster_->kill();
  muster_ = cluster_->muster();
  cluster_->patch(path_of_job("note"), {{"spec", {{"suspend", false}}}});
  ASSERT_TRUE(cluster_->wait_phase("note", "Running"));
  EXPECT_EQ(list(kIngresses)[0]["metadata"]["uid"], before["uid"]);
  EXPECT_EQ(list(kIngresses)[0]["metadata"]["generation"], before["generation"]) << "it was as wanted";
  cluster_->patch(path_of_job("note"), {{"spec", {{"maxRuntime", "1s"}}}});
  ASSERT_TRUE(cluster_->wait_phase("note", "Failed")) << cluster_->job("note").dump(2);
  EXPECT_TRUE(cluster_->wait(20s, [] { return list(kIngresses).empty(); }));
  EXPECT_TRUE(wait_published("note", "JobEnded")) << cluster_->job("note").dump(2);
  EXPECT_EQ(urls("note")[0], "");
}

TEST_F(Gateways, AnHttpRouteLeadsThereAsSoonAsTheClusterHasThatApi) {
  name_gateway(
      {{"domain", "example.org"}, {"scheme", "https"}, {"name", "shared"}, {"namespace", "gateways"}});
  start("note", json::array({kJupyter}));
  ASSERT_TRUE(wait_published("note", "APIMissing")) << cluster_->job("note").dump(2);
  const json missing = cluster_->condition("note", "Published");
  EXPECT_EQ(missing["status"], "False");
  EXPECT_THAT(
      missing["message"].get<std::string>(),
      HasSubstr("this cluster has no httproutes of gateway.networking.k8s.io/v1, which spec.gateway of "
                "Project team asks for"));
  EXPECT_EQ(cluster_->condition("note", "Exposed")["reason"], "ServiceReady") << "it is reached all the same";
  EXPECT_THAT(urls("note"), testing::ElementsAre(""));

  cluster_->apply(kHttpRoutes);
  ASSERT_TRUE(wait_published("note", "HTTPRouteReady")) << cluster_->job("note").dump(2);
  const json made = list(kRoutes);
  ASSERT_EQ(made.size(), 1U);
  EXPECT_EQ(made[0]["spec"]["parentRefs"][0]["name"], "shared");
  EXPECT_EQ(made[0]["spec"]["rules"][0]["backendRefs"][0]["port"], 8888);
  EXPECT_EQ(urls("note")[0], "https://" + made[0]["spec"]["hostnames"][0].get<std::string>() + "/lab");
  EXPECT_EQ(made[0]["metadata"]["ownerReferences"][0]["uid"], cluster_->job("note")["metadata"]["uid"]);
  muster_->kill();
  muster_ = cluster_->muster();
  cluster_->catch_up();
  EXPECT_EQ(list(kRoutes)[0]["metadata"]["resourceVersion"], made[0]["metadata"]["resourceVersion"]);

  // Another gateway takes its place, and none removes it.
  name_gateway({{"domain", "example.org"}, {"ingressClassName", "nginx"}});
  ASSERT_TRUE(wait_published("note", "IngressReady")) << cluster_->job("note").dump(2);
  EXPECT_TRUE(list(kRoutes).empty());
  ASSERT_EQ(list(kIngresses).size(), 1U);
  // What somebody else has under such a name stays.
  const std::string ingress = kIngresses + "/" + list(kIngresses)[0]["metadata"]["name"].get<std::string>();
  cluster_->patch(ingress, {{"metadata", {{"ownerReferences", nullptr}}}});
  name_gateway(nullptr);
  ASSERT_TRUE(wait_published("note", "NoGateway")) << cluster_->job("note").dump(2);
  EXPECT_FALSE(cluster_->get(ingress).is_null());
  name_gateway({{"domain", "example.org"}, {"ingressClassName", "nginx"}});
  EXPECT_TRUE(wait_published("note", "NameTaken")) << cluster_->job("note").dump(2);
  EXPECT_EQ(cluster_->phase("note"), "Running");
  cluster_->remove(ingress);
}

}  // namespace
}  // namespace muster::test
