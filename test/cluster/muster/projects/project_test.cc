// A Project's namespace and what Muster keeps in it: made, adopted, mended, removed; and what is not Muster's
// left alone.
#include <gmock/gmock.h>

#include "fixture.h"

namespace muster::test {
namespace {

using testing::HasSubstr;

const std::string kProjects = "/apis/muster.dev/v1alpha1/projects/";
std::string path_in(const std::string& ns, const std::string& what) {
  if (what.starts_with("rolebindings/"))
    return "/apis/rbac.authorization.k8s.io/v1/namespaces/" + ns + "/" + what;
  if (what.starts_with("networkpolicies/")) return "/apis/networking.k8s.io/v1/namespaces/" + ns + "/" + what;
  return "/api/v1/namespaces/" + ns + "/" + what;
}

class Projects : public OneCluster {
 protected:
  static void SetUpTestSuite() {
    cluster_ = Cluster::start(1, 8);
    muster_ = cluster_->muster();
  }

  // A Project of the same name as its namespace.
  static void project(const std::string& name, const std::string& more = {}) {
    cluster_->apply("apiVersion: muster.dev/v1alpha1\nkind: Project\nmetadata: {name: " + name +
                    "}\nspec:\n  queue: root\n  quota: {gpu: 8}\n" + more);
  }
  static json ready(const std::string& name) {
    const json c = cluster_->condition_of(kProjects + name, "NamespaceReady");
    return c.is_null() ? json{{"status", ""}, {"reason", ""}, {"message", ""}} : c;
  }
  static bool wait_ready(const std::string& name) { return cluster_->wait_namespace(name, 15s); }
  static bool wait_reason(const std::string& name, const std::string& reason) {
    return cluster_->wait(15s, [&] { return ready(name)["reason"] == reason; });
  }
  static json label(const std::string& ns, const std::string& key) {
    const json object = cluster_->get("/api/v1/namespaces/" + ns);
    return object.is_null() ? json() : object["metadata"].value("labels", json::object()).value(key, json());
  }
  static constexpr const char* kMembers =
      "  members:\n  - {kind: User, name: anna, role: Admin}\n  - {kind: Group, name: crew, role: Viewer}\n";
};

TEST_F(Projects, AProjectMakesItsNamespaceWithWhatBelongsIntoIt) {
  project("fresh", std::string("  namespace: {name: fresh-ns, podSecurity: restricted}\n") + kMembers);
  ASSERT_TRUE(wait_ready("fresh")) << cluster_->get(kProjects + "fresh").dump(2);
  EXPECT_EQ(label("fresh-ns", "muster.dev/project"), "fresh");
  EXPECT_EQ(label("fresh-ns", "pod-security.kubernetes.io/enforce"), "restricted");
  EXPECT_EQ(cluster_->get(path_in("fresh-ns", "serviceaccounts/muster-job"))["automountServiceAccountToken"],
            false);
  const json admins = cluster_->get(path_in("fresh-ns", "rolebindings/muster-admin"));
  EXPECT_EQ(admins["roleRef"]["name"], "muster-project-admin");
  EXPECT_EQ(admins["subjects"][0]["name"], "anna");
  EXPECT_EQ(cluster_->get(path_in("fresh-ns", "rolebindings/muster-viewer"))["subjects"][0]["kind"], "Group");
  EXPECT_TRUE(cluster_->get(path_in("fresh-ns", "rolebindings/muster-researcher")).is_null());
  EXPECT_EQ(cluster_->get(kProjects + "fresh")["status"]["namespace"], "fresh-ns");
}

TEST_F(Projects, ANamespaceThatIsNotLabelledForItIsLeftAloneUntilItIs) {
  cluster_->make_namespace("theirs");
  const json before = cluster_->get("/api/v1/namespaces/theirs");
  project("theirs", std::string("  namespace: {name: theirs, podSecurity: baseline}\n") + kMembers);
  ASSERT_TRUE(wait_reason("theirs", "NamespaceTaken"));
  EXPECT_THAT(ready("theirs")["message"].get<std::string>(),
              HasSubstr("kubectl label namespace theirs muster.dev/project=theirs"));
  EXPECT_EQ(cluster_->condition_of(kProjects + "theirs", "Accepted")["status"], "False");
  EXPECT_EQ(cluster_->get("/api/v1/namespaces/theirs"), before);
  EXPECT_TRUE(cluster_->get(path_in("theirs", "serviceaccounts/muster-job")).is_null());
  cluster_->create(job_object({.name = "early", .ns = "theirs"}));
  ASSERT_TRUE(cluster_->wait(10s, [&] { return cluster_->reason("early", "theirs") == "ProjectNotFound"; }));
  // As the message says.
  const auto labelled =
      cluster_->real().kubectl({"label", "namespace", "theirs", "muster.dev/project=theirs"});
  ASSERT_TRUE(labelled && labelled->ok());
  ASSERT_TRUE(wait_ready("theirs"));
  EXPECT_EQ(label("theirs", "pod-security.kubernetes.io/enforce"), "baseline");
  EXPECT_FALSE(cluster_->get(path_in("theirs", "rolebindings/muster-admin")).is_null());
  EXPECT_TRUE(cluster_->wait_phase("early", "Running", 20s, "theirs"));
}

TEST_F(Projects, ANamespaceOfAnotherProjectStaysThatProjectsUntilItIsHandedOver) {
  project("first", "  namespace: {name: shared}\n");
  ASSERT_TRUE(wait_ready("first"));
  project("second", "  namespace: {name: shared}\n");
  ASSERT_TRUE(wait_reason("second", "NamespaceTaken"));
  EXPECT_THAT(ready("second")["message"].get<std::string>(), HasSubstr("labelled for Project first"));
  const auto handed =
      cluster_->real().kubectl({"label", "--overwrite", "namespace", "shared", "muster.dev/project=second"});
  ASSERT_TRUE(handed && handed->ok());
  ASSERT_TRUE(wait_ready("second"));
  ASSERT_TRUE(wait_reason("first", "NamespaceTaken"));
  EXPECT_EQ(label("shared", "muster.dev/project"), "second");
  EXPECT_TRUE(cluster_->wait(10s, [&] {
    const json account = cluster_->get(path_in("shared", "serviceaccounts/muster-job"));
    return !account.is_null() && account["metadata"]["labels"]["muster.dev/project"] == "second";
  }));
}

TEST_F(Projects, WhatMusterMadeIsMendedAndWhatOthersAddedStays) {
  project("mend", std::string("  namespace: {name: mend, podSecurity: baseline}\n") + kMembers);
  ASSERT_TRUE(wait_ready("mend"));
  const std::string account = path_in("mend", "serviceaccounts/muster-job");
  const std::string admins = path_in("mend", "rolebindings/muster-admin");
  cluster_->patch(account,
                  {{"imagePullSecrets", {{{"name", "registry"}}}}, {"automountServiceAccountToken", true}});
  EXPECT_TRUE(
      cluster_->wait(10s, [&] { return cluster_->get(account)["automountServiceAccountToken"] == false; }));
  EXPECT_EQ(cluster_->get(account)["imagePullSecrets"][0]["name"], "registry");
  cluster_->patch(admins, {{"metadata", {{"annotations", {{"note", "ours"}}}}}, {"subjects", json::array()}});
  EXPECT_TRUE(cluster_->wait(10s, [&] { return cluster_->get(admins).contains("subjects"); }));
  EXPECT_EQ(cluster_->get(admins)["subjects"].size(), 1u);
  EXPECT_EQ(cluster_->get(admins)["metadata"]["annotations"]["note"], "ours");
  // The very label by which it is watched.
  cluster_->patch(admins, {{"metadata", {{"labels", {{"app.kubernetes.io/managed-by", nullptr}}}}}});
  EXPECT_TRUE(cluster_->wait(10s, [&] {
    return cluster_->get(admins)["metadata"]["labels"].value("app.kubernetes.io/managed-by", "") == "muster";
  }));
  cluster_->remove(admins);
  EXPECT_TRUE(cluster_->wait(10s, [&] { return !cluster_->get(admins).is_null(); }));
  cluster_->patch("/api/v1/namespaces/mend", {{"metadata",
                                               {{"labels",
                                                 {{"muster.dev/project", nullptr},
                                                  {"pod-security.kubernetes.io/enforce", "privileged"},
                                                  {"theirs", "stays"}}}}}});
  EXPECT_TRUE(cluster_->wait(10s, [&] { return label("mend", "muster.dev/project") == "mend"; }));
  EXPECT_EQ(label("mend", "pod-security.kubernetes.io/enforce"), "baseline");
  EXPECT_EQ(label("mend", "theirs"), "stays");
}

TEST_F(Projects, WhatIsNotWantedAnyMoreGoesAndWhatMusterDidNotMakeStays) {
  project("less", kMembers);
  ASSERT_TRUE(wait_ready("less"));
  const json mine = {
      {"apiVersion", "rbac.authorization.k8s.io/v1"},
      {"kind", "RoleBinding"},
      {"metadata",
       {{"name", "by-hand"},
        {"labels", {{"app.kubernetes.io/managed-by", "muster"}, {"muster.dev/project", "less"}}}}},
      {"roleRef", {{"apiGroup", "rbac.authorization.k8s.io"}, {"kind", "ClusterRole"}, {"name", "view"}}}};
  const auto made = cluster_->real().request(
      "POST", "/apis/rbac.authorization.k8s.io/v1/namespaces/less/rolebindings", mine.dump());
  ASSERT_TRUE(made && made->ok()) << made->body;
  cluster_->patch(kProjects + "less",
                  {{"spec", {{"members", {{{"kind", "User"}, {"name", "anna"}, {"role", "Admin"}}}}}}});
  EXPECT_TRUE(cluster_->wait(
      10s, [&] { return cluster_->get(path_in("less", "rolebindings/muster-viewer")).is_null(); }));
  EXPECT_FALSE(cluster_->get(path_in("less", "rolebindings/muster-admin")).is_null());
  EXPECT_FALSE(cluster_->get(path_in("less", "rolebindings/by-hand")).is_null());
}

TEST_F(Projects, AnObjectOfOthersUnderMustersNameIsToldAndLeftAlone) {
  cluster_->make_namespace("occupied", "occupied");
  const auto made = cluster_->real().kubectl(
      {"create", "rolebinding", "muster-admin", "-n", "occupied", "--clusterrole=view", "--user=eve"});
  ASSERT_TRUE(made && made->ok()) << made->err;
  project("occupied", kMembers);
  ASSERT_TRUE(wait_reason("occupied", "NameTaken"));
  EXPECT_THAT(ready("occupied")["message"].get<std::string>(),
              HasSubstr("rolebindings occupied/muster-admin exists and was not made by Muster; delete it"));
  const json there = cluster_->get(path_in("occupied", "rolebindings/muster-admin"));
  EXPECT_EQ(there["roleRef"]["name"], "view");
  EXPECT_EQ(there["subjects"][0]["name"], "eve");
  EXPECT_FALSE(cluster_->get(path_in("occupied", "rolebindings/muster-viewer")).is_null())
      << "the rest is made";
  cluster_->remove(path_in("occupied", "rolebindings/muster-admin"));
  EXPECT_TRUE(cluster_->wait(60s, [&] { return ready("occupied")["status"] == "True"; }));
}

TEST_F(Projects, PodsRunAsTheAccountWithoutRightsUnlessTheTemplateNamesOne) {
  project("accounts");
  ASSERT_TRUE(wait_ready("accounts"));
  const auto own = cluster_->real().kubectl({"create", "serviceaccount", "loader", "-n", "accounts"});
  ASSERT_TRUE(own && own->ok());
  json named = job_object({.name = "named", .ns = "accounts"});
  named["spec"]["roles"][0]["template"]["spec"]["serviceAccountName"] = "loader";
  cluster_->create(named);
  cluster_->create(job_object({.name = "plain", .ns = "accounts"}));
  ASSERT_TRUE(cluster_->wait_phase("named", "Running", 20s, "accounts"));
  ASSERT_TRUE(cluster_->wait_phase("plain", "Running", 20s, "accounts"));
  EXPECT_EQ(cluster_->pods("named", "accounts")[0]["spec"]["serviceAccountName"], "loader");
  EXPECT_EQ(cluster_->pods("plain", "accounts")[0]["spec"]["serviceAccountName"], "muster-job");
}

TEST_F(Projects, AnIsolatedNetworkIsAPolicyThatIsMendedAndGoesWhenItIsNotWanted) {
  project("island", "  namespace: {name: island, isolateNetwork: true}\n");
  ASSERT_TRUE(wait_ready("island"));
  const std::string path = path_in("island", "networkpolicies/muster-isolation");
  const json spec = cluster_->get(path)["spec"];
  EXPECT_EQ(spec["podSelector"], json::object());
  EXPECT_EQ(spec["policyTypes"], json::array({"Ingress"}));
  ASSERT_EQ(spec["ingress"].size(), 1u);
  EXPECT_EQ(spec["ingress"][0]["from"][0], json::parse(R"({"podSelector": {}})")) << "each other";
  EXPECT_EQ(spec["ingress"][0]["from"][1]["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"],
            "muster-system");
  cluster_->patch(
      path,
      {{"spec", {{"podSelector", {{"matchLabels", {{"app", "none"}}}}}, {"ingress", {json::object()}}}}});
  EXPECT_TRUE(cluster_->wait(10s, [&] { return cluster_->get(path)["spec"] == spec; }))
      << cluster_->get(path).dump(2);
  cluster_->patch(kProjects + "island", {{"spec", {{"namespace", {{"isolateNetwork", false}}}}}});
  EXPECT_TRUE(cluster_->wait(10s, [&] { return cluster_->get(path).is_null(); }));
}

TEST_F(Projects, AnIsolatedNetworkLetsInTheMonitoringAndSaysWhatIsReached) {
  project("inlet",
          "  namespace:\n    name: inlet\n    isolateNetwork: true\n    network: {ingressFrom: [monitoring], "
          "egress: {dns: true, cidrs: [10.0.8.0/24, '2001:db8::/32']}}\n");
  ASSERT_TRUE(wait_ready("inlet")) << ready("inlet").dump();
  const std::string path = path_in("inlet", "networkpolicies/muster-isolation");
  const json spec = cluster_->get(path)["spec"];
  EXPECT_EQ(spec["policyTypes"], json::array({"Ingress", "Egress"}));
  EXPECT_EQ(spec["ingress"][0]["from"][2]["namespaceSelector"]["matchLabels"]["kubernetes.io/metadata.name"],
            "monitoring");
  ASSERT_EQ(spec["egress"].size(), 3u) << spec.dump(2);
  EXPECT_EQ(spec["egress"][0], json::parse(R"({"to": [{"podSelector": {}}]})")) << "each other";
  EXPECT_EQ(spec["egress"][1]["ports"][1], json::parse(R"({"protocol": "TCP", "port": 53})"));
  EXPECT_EQ(spec["egress"][2]["to"][1]["ipBlock"]["cidr"], "2001:db8::/32");
  cluster_->patch(path, {{"spec", {{"egress", {json::object()}}}}});
  EXPECT_TRUE(cluster_->wait(10s, [&] { return cluster_->get(path)["spec"] == spec; }))
      << "it is mended: " << cluster_->get(path).dump(2);
  cluster_->patch(kProjects + "inlet", {{"spec", {{"namespace", {{"network", {{"egress", nullptr}}}}}}}});
  EXPECT_TRUE(cluster_->wait(10s, [&] {
    const json now = cluster_->get(path)["spec"];
    return now["policyTypes"] == json::array({"Ingress"}) && !now.contains("egress");
  })) << cluster_->get(path).dump(2);
  // What the pattern lets through the API server of NetworkPolicies still judges, and the Project says so.
  cluster_->patch(kProjects + "inlet",
                  {{"spec", {{"namespace", {{"network", {{"egress", {{"cidrs", {"999.0.0.0/8"}}}}}}}}}}});
  EXPECT_TRUE(wait_reason("inlet", "WriteRefused")) << ready("inlet").dump();
  EXPECT_THAT(ready("inlet")["message"].get<std::string>(), HasSubstr("999.0.0.0/8"));
}

// Its jobs save and give back what they hold; the namespace stays, with what others made in it, and a Project
// of the same name finds its jobs waiting.
TEST_F(Projects, ADeletedProjectLeavesItsNamespaceAndItsJobsWaiting) {
  project("passing", kMembers);
  ASSERT_TRUE(wait_ready("passing"));
  const auto made = cluster_->real().kubectl({"create", "configmap", "results", "-n", "passing"});
  ASSERT_TRUE(made && made->ok());
  cluster_->create(job_object({.name = "work",
                               .ns = "passing",
                               .pod_annotations = {{"test.muster.dev/save-for", "2s"}},
                               .spec = {{"checkpoint", {{"gracePeriod", "30s"}}}}}));
  ASSERT_TRUE(cluster_->wait_phase("work", "Running", 20s, "passing"));
  cluster_->remove(kProjects + "passing");
  ASSERT_TRUE(cluster_->wait(20s, [&] { return cluster_->phase("work", "passing") == "Queued"; }))
      << cluster_->job("work", "passing").dump(2);
  EXPECT_EQ(cluster_->condition("work", "Evicted", "passing")["reason"], "ProjectNotFound");
  EXPECT_TRUE(cluster_->wait(20s, [&] { return cluster_->pods("work", "passing").empty(); }));
  EXPECT_TRUE(cluster_->wait(20s, [&] { return cluster_->reason("work", "passing") == "ProjectNotFound"; }));
  EXPECT_TRUE(cluster_->wait(
      10s, [&] { return cluster_->get(path_in("passing", "rolebindings/muster-admin")).is_null(); }));
  EXPECT_FALSE(cluster_->get("/api/v1/namespaces/passing").is_null());
  EXPECT_FALSE(cluster_->get(path_in("passing", "configmaps/results")).is_null());
  project("passing", kMembers);
  EXPECT_TRUE(wait_ready("passing"));
  EXPECT_TRUE(cluster_->wait_phase("work", "Running", 20s, "passing"));
  EXPECT_EQ(cluster_->job("work", "passing")["status"]["attempt"], 2);
}

// What happened while no Muster was there is seen by the next one.
TEST_F(Projects, AProjectDeletedWhileMusterWasAwayIsClearedAway) {
  project("absent", kMembers);
  ASSERT_TRUE(wait_ready("absent"));
  EXPECT_EQ(muster_->stop(), 0);
  cluster_->remove(kProjects + "absent");
  EXPECT_FALSE(cluster_->get(path_in("absent", "rolebindings/muster-admin")).is_null());
  muster_ = cluster_->muster();
  EXPECT_TRUE(cluster_->wait(
      20s, [&] { return cluster_->get(path_in("absent", "rolebindings/muster-admin")).is_null(); }));
  EXPECT_FALSE(cluster_->get("/api/v1/namespaces/absent").is_null());
}

std::string allocated(const Cluster& cluster, const std::string& queue) {
  const json object = cluster.get("/apis/muster.dev/v1alpha1/queues/" + queue);
  return object.value("/status/allocated/gpu"_json_pointer, std::string("0"));
}

TEST_F(Projects, AProjectMovesToAnotherQueueWithAllThatRuns) {
  cluster_->apply(R"(
apiVersion: muster.dev/v1alpha1
kind: Queue
metadata: {name: other}
spec: {quota: {gpu: 4}, limit: {gpu: 3}}
)");
  project("mover");
  ASSERT_TRUE(wait_ready("mover")) << cluster_->get(kProjects + "mover").dump(2);
  cluster_->create(job_object({.name = "runs", .ns = "mover", .gpus = 2}));
  ASSERT_TRUE(cluster_->wait_phase("runs", "Running", 30s, "mover"));
  ASSERT_TRUE(cluster_->wait(15s, [] { return allocated(*cluster_, "root") == "2"; }))
      << allocated(*cluster_, "root");
  const std::string pod = cluster_->pods("runs", "mover").at(0)["metadata"]["uid"];
  cluster_->patch(kProjects + "mover", {{"spec", {{"queue", "other"}}}});
  EXPECT_TRUE(cluster_->wait(15s, [] { return allocated(*cluster_, "other") == "2"; }))
      << allocated(*cluster_, "other");
  EXPECT_TRUE(cluster_->wait(15s, [] { return allocated(*cluster_, "root") == "0"; }))
      << allocated(*cluster_, "root");
  // From now on the bounds of the new Queue count.
  cluster_->create(job_object({.name = "next", .ns = "mover", .gpus = 2}));
  ASSERT_TRUE(cluster_->wait(15s, [] { return cluster_->reason("next", "mover") == "LimitReached"; }))
      << cluster_->job("next", "mover").dump(2);
  EXPECT_THAT(cluster_->job("next", "mover")["status"]["queue"]["message"].get<std::string>(),
              HasSubstr("Queue other has 1 left of its limit of 3"));
  // And nothing was stopped for it.
  EXPECT_EQ(cluster_->phase("runs", "mover"), "Running");
  EXPECT_EQ(cluster_->job("runs", "mover")["status"].value("attempt", 0), 1);
  EXPECT_EQ(cluster_->pods("runs", "mover").at(0)["metadata"]["uid"], pod);
}

}  // namespace
}  // namespace muster::test
