// gpus.numaAligned where nodes publish their NUMA nodes: as the kind comes, and its objects come and change,
// and when a kubelet knows better. The kind is a CRD of others; this one has the fields that its exporters
// fill in.
#include <gmock/gmock.h>

#include <thread>

#include "fixture.h"

namespace muster::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

constexpr const char* kCrd = R"(
apiVersion: apiextensions.k8s.io/v1
kind: CustomResourceDefinition
metadata:
  name: noderesourcetopologies.topology.node.k8s.io
  annotations: {api-approved.kubernetes.io: "https://github.com/kubernetes/enhancements/pull/1870"}
spec:
  group: topology.node.k8s.io
  scope: Cluster
  names: {kind: NodeResourceTopology, listKind: NodeResourceTopologyList, plural: noderesourcetopologies, singular: noderesourcetopology}
  versions:
  - name: v1alpha2
    served: true
    storage: true
    schema:
      openAPIV3Schema:
        type: object
        required: [zones]
        properties:
          topologyPolicies: {type: array, items: {type: string}}
          attributes: &attributes
            type: array
            items: {type: object, required: [name, value], properties: {name: {type: string}, value: {type: string}}}
          zones:
            type: array
            items:
              type: object
              required: [name, type]
              properties:
                name: {type: string}
                type: {type: string}
                parent: {type: string}
                attributes: *attributes
                costs:
                  type: array
                  items: {type: object, required: [name, value], properties: {name: {type: string}, value: {type: integer, format: int64}}}
                resources:
                  type: array
                  items:
                    type: object
                    required: [name, capacity, allocatable, available]
                    properties:
                      name: {type: string}
                      capacity: &amount {x-kubernetes-int-or-string: true, anyOf: [{type: integer}, {type: string}]}
                      allocatable: *amount
                      available: *amount
)";

const std::string kTopologies = "/apis/topology.node.k8s.io/v1alpha2/noderesourcetopologies";

json amount(const char* name, const char* of) {
  return {{"name", name}, {"capacity", of}, {"allocatable", of}, {"available", of}};
}
// Two NUMA nodes of 64 CPUs, 512 GiB and 4 GPUs.
json topology(const std::string& node, const std::string& policy) {
  json zones = json::array();
  for (const char* name : {"node-0", "node-1"}) {
    zones.push_back(
        {{"name", name},
         {"type", "Node"},
         {"costs", {{{"name", "node-0"}, {"value", 10}}, {{"name", "node-1"}, {"value", 20}}}},
         {"resources", {amount("cpu", "64"), amount("memory", "512Gi"), amount("nvidia.com/gpu", "4")}}});
  }
  return {{"apiVersion", "topology.node.k8s.io/v1alpha2"},
          {"kind", "NodeResourceTopology"},
          {"metadata", {{"name", node}}},
          {"attributes",
           {{{"name", "topologyManagerPolicy"}, {"value", policy}},
            {{"name", "topologyManagerScope"}, {"value", "pod"}}}},
          {"zones", zones}};
}

class Numa : public OneCluster {
 protected:
  static void SetUpTestSuite() {
    cluster_ = Cluster::start(0, 0);
    testcluster::NodeTemplate node;
    node.prefix = "n";
    node.count = 2;
    const auto added = cluster_->real().add_nodes(node);
    ASSERT_TRUE(added) << added.error();
    muster_ = cluster_->muster();
  }

  // Of the class Guaranteed, with 4 whole CPUs. `node`: the only one where it may go; "": any.
  static json aligned(const SimpleJob& job, const std::string& node = "", bool demands = true) {
    json object = job_object(job);
    json& role = object["spec"]["roles"][0];
    if (demands) role["gpus"]["numaAligned"] = true;
    json& pod = role["template"]["spec"];
    pod["containers"][0]["resources"] = {{"limits", {{"cpu", "4"}, {"memory", "16Gi"}}}};
    if (!node.empty()) pod["nodeSelector"] = {{"kubernetes.io/hostname", node}};
    return object;
  }
  static std::string message(const std::string& job) {
    return cluster_->job(job).value("/status/queue/message"_json_pointer, std::string());
  }
  static bool wait_message(const std::string& job, const std::string& words, Milliseconds timeout = 30s) {
    return cluster_->wait(timeout, [&] { return message(job).find(words) != std::string::npos; });
  }
  static std::string say(const std::string& job) { return cluster_->job(job).dump(2); }
  static json place(const std::string& job) {
    return cluster_->job(job).value("/status/assignment/pods/0"_json_pointer, json::object());
  }
  static std::vector<int> gpus(const std::string& job) {
    return place(job).value("gpus", std::vector<int>());
  }
  static std::string node(const std::string& job) { return place(job).value("node", ""); }
  static void publish(const json& topology) {
    const auto made = cluster_->real().kubectl({"apply", "--server-side", "-f", "-"}, topology.dump());
    ASSERT_TRUE(made && made->ok()) << (made ? made->err : made.error());
  }
};

// The first test: nobody has heard of the kind yet.
TEST_F(Numa, AJobSaysWhatIsMissingUntilItsNodeIsKnownToAlign) {
  cluster_->create(aligned({.name = "four", .gpus = 4}));
  ASSERT_TRUE(wait_message("four", "no NodeResourceTopology says")) << say("four");
  EXPECT_EQ(cluster_->reason("four"), "NoMatchingNodes");
  EXPECT_THAT(message("four"), HasSubstr("on 2 of them no pod is aligned"));
  EXPECT_THAT(message("four"), HasSubstr("Node Feature Discovery"));

  cluster_->apply(kCrd);
  ASSERT_TRUE(cluster_->wait(20s, [] { return !cluster_->get(kTopologies).is_null(); }));
  publish(topology("n-0", "none"));
  ASSERT_TRUE(wait_message("four", "topologyManagerPolicy of their kubelets is none", 60s)) << say("four");
  EXPECT_THAT(message("four"), HasSubstr("no NodeResourceTopology says")) << "of n-1";

  publish(topology("n-0", "single-numa-node"));
  ASSERT_TRUE(cluster_->wait_phase("four", "Running")) << say("four");
  EXPECT_EQ(node("four"), "n-0");
  EXPECT_THAT(gpus("four"), ElementsAre(0, 1, 2, 3));
  EXPECT_EQ(cluster_->pods("four")[0]["status"]["qosClass"], "Guaranteed");
  publish(topology("n-1", "single-numa-node"));

  // What runs stays when the object goes; who comes waits.
  cluster_->remove(kTopologies + "/n-0");
  cluster_->create(aligned({.name = "late", .gpus = 4}, "n-0"));
  ASSERT_TRUE(wait_message("late", "no NodeResourceTopology says")) << say("late");
  EXPECT_EQ(cluster_->phase("four"), "Running");
  publish(topology("n-0", "single-numa-node"));
  ASSERT_TRUE(cluster_->wait_phase("late", "Running")) << say("late");
  EXPECT_THAT(gpus("late"), ElementsAre(4, 5, 6, 7));
}

// S26, as far as kubelets let it: on n-0 two GPUs are free, one on each NUMA node.
TEST_F(Numa, TheAlignedNodeOrNone) {
  for (const char* busy : {"busy-0", "busy-1"}) {
    cluster_->create(aligned({.name = busy, .gpus = 3, .spec = {{"preemptible", false}}}, "n-0"));
    ASSERT_TRUE(cluster_->wait_phase(busy, "Running")) << say(busy);
  }
  cluster_->create(aligned({.name = "here", .gpus = 2}, "n-0"));
  ASSERT_TRUE(wait_message("here", "with all of a pod on one NUMA node")) << say("here");
  EXPECT_EQ(cluster_->reason("here"), "Fragmented");
  // Its kubelet would turn it away as well, though it demands nothing.
  cluster_->create(aligned({.name = "plain", .gpus = 2}, "n-0", false));
  ASSERT_TRUE(wait_message("plain", "on one node")) << say("plain");
  cluster_->create(aligned({.name = "there", .gpus = 2}));
  ASSERT_TRUE(cluster_->wait_phase("there", "Running")) << say("there");
  EXPECT_EQ(node("there"), "n-1");
  EXPECT_THAT(gpus("there"), ElementsAre(0, 1));

  // A restart of Muster knows it all again.
  muster_->kill();
  muster_ = cluster_->muster();
  cluster_->catch_up();
  EXPECT_EQ(cluster_->phase("here"), "Queued");
  // The kubelet of n-0 is set up anew, and aligns nobody: what demands nothing may come.
  publish(topology("n-0", "best-effort"));
  ASSERT_TRUE(cluster_->wait_phase("plain", "Running")) << say("plain");
  EXPECT_THAT(gpus("plain"), ElementsAre(3, 7));
  EXPECT_EQ(cluster_->phase("here"), "Queued");
  publish(topology("n-0", "single-numa-node"));
  EXPECT_EQ(cluster_->audit_gpus(), "");
}

// Its NUMA nodes are not as free as Muster thinks.
TEST_F(Numa, AKubeletThatRefusesSendsThePodToAnotherNode) {
  cluster_->create(aligned({.name = "refused",
                            .gpus = 4,
                            .pod_annotations = {{"test.muster.dev/refuse", "TopologyAffinityError"},
                                                {"test.muster.dev/refuse-on", "n-0"}}}));
  ASSERT_TRUE(cluster_->wait_phase("refused", "Running")) << say("refused");
  EXPECT_EQ(node("refused"), "n-1");
  const json status = cluster_->job("refused")["status"];
  ASSERT_EQ(status["nodeRefusals"].size(), 1u) << status.dump(2);
  EXPECT_EQ(status["nodeRefusals"][0]["reason"], "TopologyAffinityError");
  EXPECT_EQ(status["attempt"], 1) << "the program is not blamed";

  // And where there is no other, it is not tried again and again.
  cluster_->create(aligned({.name = "nowhere",
                            .gpus = 4,
                            .pod_annotations = {{"test.muster.dev/refuse", "TopologyAffinityError"}}},
                           "n-0"));
  ASSERT_TRUE(wait_message("nowhere", "n-0 has refused a pod of it")) << say("nowhere");
  std::this_thread::sleep_for(3s);
  EXPECT_EQ(cluster_->phase("nowhere"), "Queued");
  EXPECT_EQ(cluster_->job("nowhere")["status"]["attempt"], 1) << say("nowhere");
}

TEST_F(Numa, WhoAsksForWhatKubeletsDoNotPinIsRefused) {
  json job = aligned({.name = "part", .gpus = 1});
  json& resources = job["spec"]["roles"][0]["template"]["spec"]["containers"][0]["resources"];
  resources["limits"]["cpu"] = "1500m";
  cluster_->create(job);
  ASSERT_TRUE(cluster_->wait(20s, [] { return cluster_->reason("part") == "InvalidSpec"; })) << say("part");
  EXPECT_THAT(message("part"),
              HasSubstr("spec.roles[0].template.spec.containers[0].resources.limits.cpu: must be "
                        "whole CPUs"));
  EXPECT_EQ(cluster_->condition("part", "Accepted")["status"], "False");
}

}  // namespace
}  // namespace muster::test
