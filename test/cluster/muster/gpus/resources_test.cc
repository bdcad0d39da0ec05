// What a template asks for beside GPUs, CPU and memory, and which fields of a pod it may set: as the pods of
// a job get it on an API server.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "fixture.h"

namespace muster::test {
namespace {

using testing::HasSubstr;

constexpr int kNodes = 16;

class Resources : public OneCluster {
 protected:
  static void SetUpTestSuite() {
    cluster_ = Cluster::start(0, 0);
    testcluster::NodeTemplate node;
    node.count = kNodes;
    node.resources = {{"rdma/hca", "8"}, {"hugepages-2Mi", "64Gi"}};
    const auto added = cluster_->real().add_nodes(node);
    ASSERT_TRUE(added) << added.error();
    cluster_->make_namespace("elsewhere");
    muster_ = cluster_->muster();
  }

  static json with_limits(json job, const json& limits) {
    json& container = job["spec"]["roles"][0]["template"]["spec"]["containers"][0];
    container["resources"]["limits"] = limits;
    return job;
  }
  static void create_foreign(const std::string& name, const std::string& node, const json& limits) {
    const json pod = {
        {"apiVersion", "v1"},
        {"kind", "Pod"},
        {"metadata", {{"name", name}, {"namespace", "elsewhere"}}},
        {"spec",
         {{"nodeName", node},
          {"containers",
           {{{"name", "main"}, {"image", "registry.example/x"}, {"resources", {{"limits", limits}}}}}}}}};
    const auto made = cluster_->real().kubectl({"create", "-f", "-"}, pod.dump());
    ASSERT_TRUE(made && made->ok()) << (made ? made->err : made.error());
  }
  static json blocking(const std::string& job) {
    return cluster_->job(job).value("/status/queue/blocking"_json_pointer, json::array());
  }
};

const json kOnInfiniBand = {{"rdma/hca", "8"}, {"hugepages-2Mi", "4Gi"}};

TEST_F(Resources, AGangOnInfiniBandHasItsDevicesAndTheNextOneSaysWhatItLacks) {
  json job = with_limits(job_object({.name = "train", .replicas = kNodes, .gpus = 8}), kOnInfiniBand);
  json& spec = job["spec"]["roles"][0]["template"]["spec"];
  spec["hostNetwork"] = true;
  cluster_->create(job);
  ASSERT_TRUE(cluster_->wait_phase("train", "Running", 60s)) << cluster_->job("train").dump(2);
  std::set<std::string> nodes;
  for (const json& pod : cluster_->pods("train")) {
    nodes.insert(pod["spec"]["nodeName"]);
    EXPECT_EQ(pod["spec"]["hostNetwork"], true);
    EXPECT_EQ(pod["spec"]["dnsPolicy"], "ClusterFirstWithHostNet") << "MASTER_ADDR would not resolve";
    const json& resources = pod["spec"]["containers"][0]["resources"];
    for (const char* list : {"requests", "limits"}) {
      EXPECT_EQ(resources[list]["rdma/hca"], "8") << resources;
      EXPECT_EQ(resources[list]["hugepages-2Mi"], "4Gi") << resources;
    }
  }
  EXPECT_EQ(nodes.size(), static_cast<std::size_t>(kNodes));

  cluster_->create(with_limits(job_object({.name = "next", .gpus = 0}), {{"rdma/hca", "1"}}));
  ASSERT_TRUE(cluster_->wait(20s, [] { return cluster_->reason("next") == "InsufficientCapacity"; }))
      << cluster_->job("next").dump(2);
  EXPECT_EQ(blocking("next"), json::array({{{"resource", "rdma/hca"},
                                            {"pool", "default"},
                                            {"need", "1"},
                                            {"have", "0"},
                                            {"by", {"team/train"}}}}));
  cluster_->patch(path_of_job("train"), {{"spec", {{"suspend", true}}}});
  EXPECT_TRUE(cluster_->wait_phase("next", "Running", 60s)) << cluster_->job("next").dump(2);
}

TEST_F(Resources, DevicesOfAForeignPodKeepAJobOff) {
  create_foreign("holds", "node-3", {{"rdma/hca", "1"}});
  cluster_->create(with_limits(job_object({.name = "train", .replicas = kNodes, .gpus = 8}), kOnInfiniBand));
  ASSERT_TRUE(cluster_->wait(20s, [] { return cluster_->reason("train") == "InsufficientCapacity"; }))
      << cluster_->job("train").dump(2);
  EXPECT_EQ(blocking("train"), json::array({{{"resource", "rdma/hca"},
                                             {"pool", "default"},
                                             {"need", "128"},
                                             {"have", "127"},
                                             {"by", {"other pods"}}}}));
  EXPECT_TRUE(cluster_->pods("train").empty());
  cluster_->remove("/api/v1/namespaces/elsewhere/pods/holds?gracePeriodSeconds=0");
  EXPECT_TRUE(cluster_->wait_phase("train", "Running", 60s)) << cluster_->job("train").dump(2);
}

constexpr const char* kTeam = "/apis/muster.dev/v1alpha1/projects/team";
constexpr const char* kOwner = "/apis/muster.dev/v1alpha1/projects/owner";

TEST_F(Resources, AQuotaOfDevicesComesBack) {
  cluster_->make_namespace("owner", "owner");
  cluster_->apply(R"(
apiVersion: muster.dev/v1alpha1
kind: Project
metadata: {name: owner}
spec: {queue: root, quota: {gpu: 1000, resources: {rdma/hca: 64}}}
)");
  cluster_->patch(kTeam, {{"spec", {{"quota", {{"resources", {{"rdma/hca", 64}}}}}}}});
  json job = with_limits(job_object({.name = "borrows", .replicas = kNodes, .gpus = 0}), kOnInfiniBand);
  job["spec"]["roles"][0]["template"]["spec"]["hostNetwork"] = true;
  cluster_->create(job);
  ASSERT_TRUE(cluster_->wait_phase("borrows", "Running", 60s)) << cluster_->job("borrows").dump(2);
  const auto status_is = [](const char* project, const char* what, const json& wanted) {
    return cluster_->wait(20s, [&] {
      const json status = cluster_->get(project)["status"];
      return status.value(what, json::object()).value("resources", json()) == wanted;
    });
  };
  EXPECT_TRUE(status_is(kTeam, "allocated", {{"rdma/hca", "128"}})) << cluster_->get(kTeam)["status"];
  EXPECT_TRUE(status_is(kTeam, "borrowed", {{"rdma/hca", "64"}})) << cluster_->get(kTeam)["status"];

  cluster_->create(with_limits(job_object({.name = "claims", .ns = "owner", .replicas = 8, .gpus = 0}),
                               {{"rdma/hca", "8"}}));
  ASSERT_TRUE(cluster_->wait_phase("claims", "Running", 60s, "owner"))
      << cluster_->job("claims", "owner").dump(2);
  EXPECT_EQ(cluster_->pods("claims", "owner").size(), 8U);
  EXPECT_EQ(cluster_->condition("borrows", "Evicted")["reason"], "Reclaimed");
  EXPECT_TRUE(status_is(kOwner, "allocated", {{"rdma/hca", "64"}})) << cluster_->get(kOwner)["status"];
  EXPECT_TRUE(status_is(kOwner, "fairShare", {{"rdma/hca", "64"}})) << cluster_->get(kOwner)["status"];
  EXPECT_TRUE(status_is(kTeam, "pending", {{"rdma/hca", "128"}})) << cluster_->get(kTeam)["status"];
  EXPECT_TRUE(status_is(kTeam, "allocated", {{"rdma/hca", "0"}})) << cluster_->get(kTeam)["status"];
  cluster_->patch(kTeam, {{"spec", {{"quota", {{"resources", nullptr}}}}}});
}

TEST_F(Resources, ALimitOfHugePagesAndANameThatNoNodeHas) {
  cluster_->patch(kTeam, {{"spec", {{"limit", {{"resources", {{"hugepages-2Mi", "1Gi"}}}}}}}});
  cluster_->create(with_limits(job_object({.name = "huge", .gpus = 0}), {{"hugepages-2Mi", "4Gi"}}));
  ASSERT_TRUE(cluster_->wait(20s, [] { return cluster_->reason("huge") == "LimitReached"; }))
      << cluster_->job("huge").dump(2);
  EXPECT_EQ(blocking("huge"), json::array({{{"resource", "hugepages-2Mi"},
                                            {"pool", "default"},
                                            {"need", "4Gi"},
                                            {"have", "1Gi"},
                                            {"by", {"Project team"}}}}));
  const auto unknown = [] { return cluster_->condition_of(kTeam, "ResourcesUnknown"); };
  ASSERT_TRUE(cluster_->wait(20s, [&] { return unknown().value("status", "") == "False"; }))
      << cluster_->get(kTeam)["status"];
  const json mistyped = {{"hugepages-2M", "1Gi"}, {"hugepages-2Mi", nullptr}};
  cluster_->patch(kTeam, {{"spec", {{"limit", {{"resources", mistyped}}}}}});
  EXPECT_TRUE(cluster_->wait_phase("huge", "Running", 60s)) << cluster_->job("huge").dump(2);
  ASSERT_TRUE(cluster_->wait(20s, [&] { return unknown().value("status", "") == "True"; }))
      << cluster_->get(kTeam)["status"];
  EXPECT_THAT(unknown().dump(),
              HasSubstr("nobody can use hugepages-2M, which a quota or limit names: no node has any"));
  cluster_->patch(kTeam, {{"spec", {{"limit", nullptr}}}});
}

TEST_F(Resources, WhatKubernetesWouldRefuseIsSaidAtOnce) {
  json job = job_object({.name = "unequal"});
  job["spec"]["roles"][0]["template"]["spec"]["containers"][0]["resources"]["requests"]["rdma/hca"] = "2";
  cluster_->create(job);
  ASSERT_TRUE(
      cluster_->wait(20s, [] { return cluster_->condition("unequal", "Stalled")["status"] == "True"; }));
  EXPECT_EQ(cluster_->condition("unequal", "Stalled")["reason"], "InvalidSpec");
  EXPECT_THAT(cluster_->condition("unequal", "Stalled").dump(),
              HasSubstr("resources.requests.rdma/hca: must equal the limit"));
  const auto gpus = cluster_->try_create(
      with_limits(job_object({.name = "by-container", .gpus = 0}), {{"nvidia.com/gpu", "1"}}));
  EXPECT_EQ(gpus.status, 422) << gpus.body;
  EXPECT_THAT(gpus.body, HasSubstr("GPUs are asked for with gpus"));
}

// Nodes have 128 CPUs. With the overhead of its class a pod of 100 takes 110 of them, so that 19 are too many
// beside it; without, they would not be.
TEST_F(Resources, ARuntimeClassesOverheadAndTermsCountBeforeThePodIsMade) {
  const auto runs_in = [](const std::string& name, const std::string& cpus, bool in_sandbox) {
    json job = job_object({.name = name, .gpus = 0});
    json& spec = job["spec"]["roles"][0]["template"]["spec"];
    spec["containers"][0]["resources"]["requests"]["cpu"] = cpus;
    spec["nodeSelector"] = {{"kubernetes.io/hostname", "node-5"}};
    if (in_sandbox) spec["runtimeClassName"] = "sandbox";
    return job;
  };
  cluster_->create(runs_in("sandboxed", "100", true));
  ASSERT_TRUE(cluster_->wait(20s, [] { return cluster_->reason("sandboxed") == "NoMatchingNodes"; }))
      << cluster_->job("sandboxed").dump(2);
  EXPECT_THAT(cluster_->job("sandboxed").dump(),
              HasSubstr("spec.roles[0].template.spec.runtimeClassName: there is no RuntimeClass"));
  const auto label = [](const json& runtime) {
    cluster_->patch("/api/v1/nodes/node-5", {{"metadata", {{"labels", {{"runtime", runtime}}}}}});
  };
  cluster_->apply(R"(
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: sandbox}
handler: sandbox
overhead: {podFixed: {cpu: "10", memory: 1Gi}}
scheduling: {nodeSelector: {runtime: sandbox}}
)");
  ASSERT_TRUE(cluster_->wait(20s, [] {
    return cluster_->job("sandboxed").dump().contains("none of the 16 usable nodes");
  })) << cluster_->job("sandboxed").dump(2);
  label("sandbox");
  ASSERT_TRUE(cluster_->wait_phase("sandboxed", "Running", 60s)) << cluster_->job("sandboxed").dump(2);
  const json pod = cluster_->pods("sandboxed").at(0)["spec"];
  EXPECT_EQ(pod["overhead"]["cpu"], "10");
  EXPECT_EQ(pod["nodeName"], "node-5");
  cluster_->create(runs_in("beside", "19", false));
  ASSERT_TRUE(cluster_->wait(20s, [] { return cluster_->reason("beside") == "InsufficientCapacity"; }))
      << cluster_->job("beside").dump(2);
  // A pod that leaves is its job's own, for all that its overhead makes it ask for more than its template.
  cluster_->patch(path_of_job("sandboxed"), {{"spec", {{"suspend", true}}}});
  EXPECT_TRUE(cluster_->wait_phase("beside", "Running", 60s)) << cluster_->job("beside").dump(2);
  label(nullptr);
}

// --- docs/reference.md, "Fields of a pod"

// Handed on as they are stated.
const json kHandedOn = json::parse(R"({
  "affinity": {"nodeAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": {"nodeSelectorTerms": [
    {"matchExpressions": [{"key": "kubernetes.io/os", "operator": "In", "values": ["linux"]}]}]}}},
  "automountServiceAccountToken": false,
  "dnsConfig": {"searches": ["cluster.example"]},
  "dnsPolicy": "ClusterFirstWithHostNet",
  "enableServiceLinks": false,
  "hostAliases": [{"ip": "10.9.8.7", "hostnames": ["store.example"]}],
  "hostIPC": true,
  "hostNetwork": true,
  "hostPID": true,
  "hostUsers": true,
  "imagePullSecrets": [{"name": "registry"}],
  "nodeSelector": {"kubernetes.io/arch": "amd64"},
  "restartPolicy": "Never",
  "runtimeClassName": "fast",
  "securityContext": {"fsGroup": 7},
  "serviceAccountName": "default",
  "shareProcessNamespace": false,
  "terminationGracePeriodSeconds": 45
})");
// Handed on, and Muster adds to them: the stated entries are there.
const json kAddedTo = json::parse(R"({
  "tolerations": [{"key": "reserved", "operator": "Exists", "effect": "NoSchedule"}],
  "volumes": [{"name": "shm", "emptyDir": {"medium": "Memory", "sizeLimit": "8Gi"}},
              {"name": "scratch", "ephemeral": {"volumeClaimTemplate": {"spec": {"accessModes": ["ReadWriteOnce"],
                "resources": {"requests": {"storage": "1Gi"}}}}}},
              {"name": "token", "projected": {"sources": [{"downwardAPI": {"items": [
                {"path": "labels", "fieldRef": {"apiVersion": "v1", "fieldPath": "metadata.labels"}}]}}]}}]
})");
// Judged by what is in them.
const std::set<std::string> kContainers = {"containers", "initContainers"};
// Refused by the schema or as a field that it does not know.
const std::set<std::string> kRefused = {"activeDeadlineSeconds",
                                        "ephemeralContainers",
                                        "hostname",
                                        "hostnameOverride",
                                        "nodeName",
                                        "os",
                                        "overhead",
                                        "preemptionPolicy",
                                        "priority",
                                        "priorityClassName",
                                        "readinessGates",
                                        "resourceClaims",
                                        "resources",
                                        "schedulerName",
                                        "schedulingGates",
                                        "schedulingGroup",
                                        "serviceAccount",
                                        "setHostnameAsFQDN",
                                        "subdomain"};
// Elsewhere: what it may say depends on what placement can do.
const std::set<std::string> kPlacement = {"topologySpreadConstraints"};

std::set<std::string> fields_of_pod_spec(testcluster::TestCluster& cluster) {
  const auto answer = cluster.request("GET", "/openapi/v3/api/v1");
  if (!answer) throw std::runtime_error(answer.error());
  std::set<std::string> fields;
  const json schemas = json::parse(answer->body).at("components").at("schemas");
  for (const auto& [name, schema] : schemas.at("io.k8s.api.core.v1.PodSpec").at("properties").items())
    fields.insert(name);
  return fields;
}

TEST_F(Resources, NoFieldOfAPodSpecIsForgotten) {
  std::set<std::string> judged = kRefused;
  judged.insert(kContainers.begin(), kContainers.end());
  judged.insert(kPlacement.begin(), kPlacement.end());
  for (const auto& [name, value] : kHandedOn.items()) judged.insert(name);
  for (const auto& [name, value] : kAddedTo.items()) judged.insert(name);
  EXPECT_EQ(judged, fields_of_pod_spec(cluster_->real())) << "decide, and tell it in docs/reference.md";
}

TEST_F(Resources, FieldsThatMusterCannotKeepAreRefused) {
  for (const std::string& field : kRefused) {
    json job = job_object({.name = "refused"});
    job["spec"]["roles"][0]["template"]["spec"][field] = "x";
    const auto answer = cluster_->real().request(
        "POST", "/apis/muster.dev/v1alpha1/namespaces/team/trainingjobs?fieldValidation=Strict", job.dump());
    ASSERT_TRUE(answer) << answer.error();
    EXPECT_GE(answer->status, 400) << field;
    EXPECT_THAT(answer->body, HasSubstr(field));
  }
}

TEST_F(Resources, FieldsThatAreHandedOnReachThePod) {
  cluster_->apply(R"(
apiVersion: node.k8s.io/v1
kind: RuntimeClass
metadata: {name: fast}
handler: fast
)");
  json job = job_object({.name = "every"});
  json& spec = job["spec"]["roles"][0]["template"]["spec"];
  spec.update(kHandedOn);
  spec.update(kAddedTo);
  spec["containers"][0]["securityContext"]["privileged"] = true;
  spec["initContainers"] = json::parse(R"([
    {"name": "prepare", "image": "registry.example/prepare"},
    {"name": "proxy", "image": "registry.example/proxy", "restartPolicy": "Always",
     "resources": {"requests": {"cpu": "1"}}}])");
  cluster_->create(job);
  ASSERT_TRUE(cluster_->wait(60s, [] { return cluster_->pods("every").size() == 1; }))
      << cluster_->job("every").dump(2);
  const json pod = cluster_->pods("every")[0]["spec"];
  for (const auto& [name, value] : kHandedOn.items()) EXPECT_EQ(pod.value(name, json()), value) << name;
  for (const auto& [name, list] : kAddedTo.items()) {
    for (const json& stated : list) {
      const bool there = std::ranges::any_of(pod.at(name), [&](json one) {
        json merged = one;
        merged.merge_patch(stated);
        return merged == one;
      });
      EXPECT_TRUE(there) << name << " has no " << stated << ", has " << pod.at(name);
    }
  }
  EXPECT_EQ(pod["containers"][0]["securityContext"]["privileged"], true);
  EXPECT_EQ(pod["initContainers"][1]["restartPolicy"], "Always");
}

}  // namespace
}  // namespace muster::test
