// manifests/base and its components as overlays take them in: in a namespace of their own, and with fewer
// rights.
#include <gmock/gmock.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <map>
#include <regex>
#include <set>

#include "delivery.h"
#include "muster/crds/documents.h"

namespace muster::test {
namespace {

using testing::HasSubstr;
using testing::Not;

Cluster::Install applied(const Overlay& overlay) {
  return [overlay](testcluster::TestCluster& real) {
    return real.apply_without_deployments(write_overlay(real.directory() / "overlay", overlay));
  };
}

// A pod of a user that asks for a GPU.
json gpu_pod(const std::string& name) {
  return {{"apiVersion", "v1"},
          {"kind", "Pod"},
          {"metadata", {{"name", name}, {"namespace", "team"}}},
          {"spec",
           {{"containers",
             {{{"name", "main"},
               {"image", "registry.example/train:1"},
               {"resources", {{"limits", {{"nvidia.com/gpu", "1"}}}}}}}}}}};
}

bool can(Cluster& cluster, const std::string& ns, const std::string& verb, const std::string& resource,
         const std::string& account = "system:serviceaccount:muster-system:muster") {
  const auto said =
      cluster.real().kubectl({"auth", "can-i", verb, resource, "--namespace", ns, "--as", account});
  return said && said->out.starts_with("yes");
}

bool selects(const json& selector, const json& labels) {
  const json equal = selector.value("matchLabels", json::object());
  for (const auto& [key, value] : equal.items())
    if (labels.value(key, json()) != value) return false;
  const json expressions = selector.value("matchExpressions", json::array());
  for (const auto& e : expressions) {
    EXPECT_EQ(e["operator"], "In") << "this test knows no other";
    if (std::ranges::count(e["values"], labels.value(e["key"].get<std::string>(), json())) == 0) return false;
  }
  return true;
}

// Whether a pod with these labels reaches a port of any address. What no policy selects reaches everything.
bool reaches(int port, const json& labels, const std::vector<json>& policies) {
  bool selected = false;
  for (const auto& policy : policies) {
    const auto& spec = policy["spec"];
    const auto& types = spec["policyTypes"];
    if (!selects(spec["podSelector"], labels) || std::ranges::count(types, "Egress") == 0) continue;
    selected = true;
    for (const auto& rule : spec.value("egress", json::array()))
      for (const auto& p : rule.value("ports", json::array()))
        if (!rule.contains("to") && p["port"] == port && p["protocol"] == "TCP") return true;
  }
  return !selected;
}

// The pods of `helm test`, which kustomize does not render.
std::map<std::string, json> labels_of_chart_tests() {
  static const std::regex kLabels("  labels: \\{app.kubernetes.io/name: ([a-z-]+)\\}");
  std::map<std::string, json> result;
  for (const auto& file : std::filesystem::directory_iterator(manifests("helm/muster/templates/tests"))) {
    std::ifstream in(file.path());
    const std::string text(std::istreambuf_iterator<char>(in), {});
    std::smatch found;
    EXPECT_TRUE(std::regex_search(text, found, kLabels)) << file.path();
    result[file.path().filename()] = {{"app.kubernetes.io/name", found[1].str()}};
  }
  return result;
}

TEST(Install, InAClosedNetworkAllProcessesReachTheApiServer) {
  const auto directory =
      std::filesystem::path(testing::TempDir()) / ("muster-network-" + std::to_string(getpid()));
  const std::string yaml = kustomize(write_overlay(
      directory, {.resources = {"ui", "activator"}, .components = {"restricted", "metrics-tls"}}));
  std::filesystem::remove_all(directory);
  const auto documents = crds::load_documents(yaml, "rendered");
  ASSERT_TRUE(documents) << documents.error().message;
  std::map<std::string, json> pods = labels_of_chart_tests();
  EXPECT_FALSE(pods.empty());
  std::vector<json> policies;
  for (const auto& document : *documents) {
    const json& object = *document.object;
    if (object["kind"] == "NetworkPolicy") policies.push_back(object);
    if (object["kind"] == "Deployment")
      pods[object["metadata"]["name"]] = object["spec"]["template"]["metadata"]["labels"];
  }
  for (const char* name : {"muster", "muster-ui", "muster-activator"})
    EXPECT_TRUE(pods.contains(name)) << name;
  for (const auto& [name, labels] : pods)
    for (const int port : {443, 6443}) EXPECT_TRUE(reaches(port, labels, policies)) << name << " " << port;
  EXPECT_FALSE(reaches(443, {{"app.kubernetes.io/name", "muster-gpu-holder"}}, policies))
      << "nor anybody else";
}

TEST(Install, AnOverlayNamesANamespaceAndNothingElseHasToBeReplaced) {
  const auto cluster = Cluster::start_with(
      applied({.ns = "gpu", .components = {"ha", "restricted"}, .namespaces = {}}), "gpu");
  const std::string rendered = kustomize(cluster->real().directory() / "overlay");
  EXPECT_THAT(rendered, Not(HasSubstr("muster-system")));
  EXPECT_THAT(rendered, HasSubstr("replicas: 2"));
  for (const char* name : {"muster", "muster-leader-election"}) {
    const json schema =
        cluster->get("/apis/flowcontrol.apiserver.k8s.io/v1/flowschemas/" + std::string(name));
    EXPECT_EQ(schema["spec"]["rules"][0]["subjects"][0]["serviceAccount"]["namespace"], "gpu");
  }
}

// The policies know Muster by what it may do, in whichever namespace it is.
TEST(Install, InAnotherNamespaceMusterAloneGivesOutGpus) {
  const auto cluster = Cluster::start_with(applied({.ns = "gpu"}), "gpu");
  cluster->add_team(1, 8);
  const auto muster =
      cluster->muster({"--leader-elect", "--lease-namespace", "gpu", "--reservation-namespace", "gpu"});
  cluster->create(job_object({.name = "train", .gpus = 8}));
  EXPECT_TRUE(cluster->wait_phase("train", "Running")) << muster->log();
  const auto by_admin =
      cluster->real().request("POST", "/api/v1/namespaces/team/pods", gpu_pod("by-admin").dump());
  ASSERT_TRUE(by_admin);
  EXPECT_EQ(by_admin->status, 403) << by_admin->body;
  EXPECT_THAT(by_admin->body, HasSubstr("make a TrainingJob"));
  // Anybody may call an account like Muster's.
  cluster->apply(R"(
apiVersion: v1
kind: ServiceAccount
metadata: {name: muster, namespace: team}
---
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: everything, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin}
subjects: [{kind: ServiceAccount, name: muster, namespace: team}]
)");
  const auto by_namesake = cluster->real().request("POST", "/api/v1/namespaces/team/pods",
                                                   gpu_pod("by-namesake").dump(), "application/json", 30s,
                                                   {"Impersonate-User: system:serviceaccount:team:muster"});
  ASSERT_TRUE(by_namesake);
  EXPECT_EQ(by_namesake->status, 403) << by_namesake->body;
  EXPECT_THAT(by_namesake->body, HasSubstr("make a TrainingJob"));
}

// Where its namespaces are listed, it can do nothing in others, and says so of the work there.
TEST(Install, RestrictedToNamespacesItWorksThereAndOnlyLooksElsewhere) {
  const auto install = [](testcluster::TestCluster& real) -> testcluster::Result<void> {
    for (const char* ns : {"team", "closed"}) {
      if (const auto made = real.kubectl({"create", "namespace", ns}); !made || !made->ok())
        return std::unexpected(std::string("no namespace"));
      if (const auto done = real.kubectl({"label", "namespace", ns, std::string("muster.dev/project=") + ns});
          !done || !done->ok())
        return std::unexpected(std::string("no label"));
    }
    return applied({.components = {"restricted"}, .namespaces = {"team"}})(real);
  };
  const auto cluster = Cluster::start_with(install);
  testcluster::NodeTemplate nodes;
  nodes.count = 2;
  ASSERT_TRUE(cluster->real().add_nodes(nodes));
  cluster->apply(R"(
apiVersion: muster.dev/v1alpha1
kind: Queue
metadata: {name: root}
spec: {quota: {gpu: "16"}}
---
apiVersion: muster.dev/v1alpha1
kind: NodePool
metadata: {name: default}
spec: {default: true}
---
apiVersion: muster.dev/v1alpha1
kind: Project
metadata: {name: team}
spec: {queue: root, quota: {gpu: "8"}, members: [{kind: User, name: anna, role: Researcher}]}
---
apiVersion: muster.dev/v1alpha1
kind: Project
metadata: {name: closed}
spec: {queue: root, quota: {gpu: "8"}}
---
apiVersion: muster.dev/v1alpha1
kind: Project
metadata: {name: absent}
spec: {queue: root, quota: {gpu: "8"}}
)");
  const auto muster = cluster->muster();
  cluster->create(job_object({.name = "train", .gpus = 8}));
  EXPECT_TRUE(cluster->wait_phase("train", "Running")) << muster->log();
  cluster->create(service_object("chat", 1));
  EXPECT_TRUE(cluster->wait(30s, [&] {
    return cluster->condition_of(path_of_service("chat"), "RolledOut")["status"] == "True";
  })) << cluster->get(path_of_service("chat")).dump(1);
  EXPECT_FALSE(
      cluster->get("/apis/rbac.authorization.k8s.io/v1/namespaces/team/rolebindings/muster-researcher")
          .is_null());

  cluster->create(job_object({.name = "train", .ns = "closed", .gpus = 1}));
  const auto project = [&](const std::string& name) {
    return cluster->condition_of("/apis/muster.dev/v1alpha1/projects/" + name, "NamespaceReady");
  };
  EXPECT_TRUE(cluster->wait(30s, [&] { return cluster->reason("train", "closed") == "NamespaceNotReady"; }))
      << cluster->job("train", "closed").dump(1);
  EXPECT_TRUE(cluster->pods("train", "closed").empty());
  EXPECT_EQ(project("closed")["reason"], "WriteRefused");
  EXPECT_THAT(project("closed")["message"].get<std::string>(), HasSubstr("forbidden"));
  EXPECT_EQ(project("absent")["reason"], "WriteRefused") << "it makes no namespace";

  for (const std::string ns : {"closed", "default", "kube-system"}) {
    EXPECT_FALSE(can(*cluster, ns, "create", "pods")) << ns;
    EXPECT_FALSE(can(*cluster, ns, "delete", "pods")) << ns;
    EXPECT_FALSE(can(*cluster, ns, "create", "rolebindings")) << ns;
    EXPECT_FALSE(can(*cluster, ns, "patch", "namespaces")) << ns;
  }
  EXPECT_TRUE(can(*cluster, "team", "create", "pods"));
  EXPECT_TRUE(can(*cluster, "muster-system", "create", "pods")) << "they hold shared GPUs";
  EXPECT_FALSE(can(*cluster, "muster-system", "create", "rolebindings"));
  for (const std::string ns : {"team", "kube-system"})
    EXPECT_FALSE(can(*cluster, ns, "get", "secrets")) << ns;
}

}  // namespace
}  // namespace muster::test
