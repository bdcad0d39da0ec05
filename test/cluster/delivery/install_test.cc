// manifests/base and its components as overlays take them in: in a namespace of their own, and with fewer
// rights.
#include <gmock/gmock.h>

#include <set>

#include "delivery.h"

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
