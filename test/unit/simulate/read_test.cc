// What is read, and what is refused.
#include <gmock/gmock.h>

#include <fstream>

#include "muster/simulate/input.h"
#include "scenario.h"
#include "world/world.h"

namespace muster::simulate {
namespace {

std::vector<std::string> errors_of(const std::string& text) {
  std::vector<std::string> lines;
  const Input input = read_text(text, "t.yaml");
  for (const auto& e : input.errors) lines.push_back(crds::to_string(e));
  return lines;
}

template <class T>
const T& only(const Input& input) {
  EXPECT_TRUE(input.errors.empty()) << crds::to_string(input.errors.front());
  EXPECT_EQ(input.changes.size(), 1U);
  return std::get<T>(*input.changes.at(0).object);
}

// Who simulates has not applied Muster's manifests: its classes are there all the same.
TEST(ShippedPriorityClasses, AreThoseOfTheManifests) {
  std::ifstream none;
  const Input input = read_input({MUSTER_MANIFESTS "/priority-classes.yaml"}, none);
  ASSERT_TRUE(input.errors.empty()) << crds::to_string(input.errors.front());
  std::map<std::string, PriorityClass> classes;
  for (const Change& change : input.changes) {
    const auto& c = std::get<PriorityClass>(*change.object);
    if (c.name != "gpu-reservation") classes[c.name] = c;  // not for workloads
  }
  EXPECT_FALSE(classes.empty());
  EXPECT_TRUE(classes == shipped_priority_classes());
}

TEST(ReadInput, ANodeThatSaysLittleIsReady) {
  const Input input = read_text(
      "{apiVersion: v1, kind: Node, metadata: {name: n1, annotations: {simulate.muster.dev/fail-at: 1h, "
      "simulate.muster.dev/recover-at: 2h}}, status: {capacity: {cpu: 4, memory: 1Gi, nvidia.com/gpu: 2}}}",
      "t.yaml");
  const auto& node = only<NodeObject>(input);
  EXPECT_TRUE(node.node.ready);
  EXPECT_EQ(node.node.milli_cpu, 4000);
  EXPECT_EQ(node.fail_at, std::chrono::hours(1));
  EXPECT_EQ(node.recover_at, std::chrono::hours(2));
  const Input bad = read_text(
      "{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {conditions: [{type: Ready, status: "
      "Unknown}]}}",
      "t");
  EXPECT_FALSE(only<NodeObject>(bad).node.ready);
}

// PyYAML writes these names without quotes.
TEST(ReadInput, YAndNAreNames) {
  const Input input = read_text("{apiVersion: v1, kind: Node, metadata: {name: y}}", "t.yaml");
  EXPECT_EQ(only<NodeObject>(input).node.meta.name, "y");
  const Input list = read_text(
      "{apiVersion: muster.dev/v1alpha1, kind: QueueList, items: [{metadata: {name: n}, spec: {parent: Y}}]}",
      "t.yaml");
  ASSERT_EQ(list.errors.size(), 1U);
  EXPECT_THAT(crds::to_string(list.errors[0]),
              testing::HasSubstr("spec.parent: must be of lower-case letters"));
}

TEST(ReadInput, AQueueNeedsNoSpec) {
  const Input queue =
      read_text("{apiVersion: muster.dev/v1alpha1, kind: Queue, metadata: {name: q}}", "t.yaml");
  EXPECT_EQ(only<crds::Queue>(queue).spec, crds::QueueSpec());
}

TEST(ReadInput, WhatAPodAsksForIsJudgedWhereItIsStated) {
  EXPECT_THAT(errors_of("{apiVersion: v1, kind: Pod, metadata: {name: p, namespace: d}, spec: {nodeName: n, "
                        "containers: [{resources: {limits: {cpu: x}}}, {resources: {requests: {cpu: 1}, "
                        "limits: {cpu: 2z}}}]}}"),
              testing::ElementsAre(testing::HasSubstr("spec.containers[0].resources.limits.cpu: must be"),
                                   testing::HasSubstr("spec.containers[1].resources.limits.cpu: must be")));
}

TEST(ReadInput, ZonesAndDevices) {
  const Input zones = read_text(R"(
apiVersion: topology.node.k8s.io/v1alpha2
kind: NodeResourceTopology
metadata: {name: n1}
zones:
- {name: node-0, type: Node, resources: [{name: cpu, capacity: "8", allocatable: "7500m"}, {name: memory, capacity: 4Gi}]}
- {name: core-0, type: Core}
)",
                                "t.yaml");
  const auto& z = only<reconcilers::NodeTopology>(zones);
  ASSERT_EQ(z.zones.size(), 1U);
  EXPECT_EQ(z.zones[0].cpu.value, 7500);
  EXPECT_EQ(z.zones[0].memory.value, 4LL << 30);
  const Input slice = read_text(R"(
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: n1-gpus}
spec:
  driver: gpu.nvidia.com
  nodeName: n1
  devices:
  - {name: gpu-0, attributes: {type: {string: gpu}, productName: {string: H100}, example.com/numaNode: {int: 1}}, capacity: {memory: {value: 80Gi}}}
  - {name: gpu-0-mig-1, attributes: {type: {string: mig}}}
  - {name: gpu-1, attributes: {example.com/numaNode: {int: 0}}, taints: [{key: x, effect: NoSchedule}]}
  - {name: gpu-2, attributes: {example.com/numaNode: {int: 0}}, taints: [{key: x, effect: NoExecute}, {key: y, effect: None}]}
)",
                                "t.yaml");
  const auto& d = only<NodeDevices>(slice);
  EXPECT_EQ(d.gpus, 3);
  EXPECT_EQ(d.model, "H100");
  EXPECT_EQ(d.memory.value, 80LL << 30);
  EXPECT_EQ(d.numa, (std::vector<std::int32_t>{1, 0, 0}));
  EXPECT_EQ(d.not_to_be_given_out, (std::vector<std::int32_t>{1, 2}));
  EXPECT_EQ(d.to_be_left, (std::vector<std::int32_t>{2}));
}

// NFD numbers the zones by their names; their order in the list says nothing.
TEST(ReadInput, ZonesStandInTheOrderOfTheirNumbers) {
  const Input zones = read_text(R"(
apiVersion: topology.node.k8s.io/v1alpha2
kind: NodeResourceTopology
metadata: {name: n1}
zones:
- {name: node-1, type: Node, resources: [{name: cpu, allocatable: "8"}, {name: nvidia.com/gpu, capacity: "3", allocatable: "2"}]}
- {name: node-0, type: Node, resources: [{name: cpu, allocatable: "4"}, {name: nvidia.com/gpu, capacity: "4"}]}
)",
                                "t.yaml");
  const auto& z = only<reconcilers::NodeTopology>(zones);
  ASSERT_EQ(z.zones.size(), 2U);
  EXPECT_EQ(z.zones[0].cpu.value, 4000);
  ASSERT_EQ(z.devices.size(), 2U);
  EXPECT_EQ(z.devices[0].at("nvidia.com/gpu"), 4);
  EXPECT_EQ(z.devices[1].at("nvidia.com/gpu"), 2);
}

// As `kubectl get pods,resourceslices -A -o yaml` has them.
TEST(ReadInput, WhatOccupiesNothingAndIsNoGpuIsPassedOver) {
  const Input input = read_text(R"(
apiVersion: v1
kind: Pod
metadata: {name: pending, namespace: x}
spec: {containers: [{name: main, image: img}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: n1-net}
spec: {driver: dra.net, nodeName: n1, devices: [{name: eth0, attributes: {dra.net/ifName: {string: eth0}}}]}
---
apiVersion: resource.k8s.io/v1
kind: ResourceSlice
metadata: {name: fabric}
spec: {driver: gpu.nvidia.com, allNodes: true, devices: [{name: gpu-0}]}
)",
                                "t.yaml");
  EXPECT_TRUE(input.errors.empty());
  EXPECT_TRUE(input.changes.empty());
}

TEST(ReadInput, TemplatesAreJudgedAndCutDownToWhatPlacementReads) {
  const Input input =
      read_text(job("a", "runs-for: 1h, age: 5m", "gpus: {memory: 4Gi, overcommit: true}"), "t.yaml");
  const auto& a = only<JobObject>(input);
  EXPECT_EQ(a.behaviour.runs_for, std::chrono::hours(1));
  EXPECT_EQ(a.behaviour.age, std::chrono::minutes(5));
  ASSERT_EQ(a.needs.size(), 1U);
  EXPECT_EQ(a.needs[0].share.kind, placement::GpuShare::Kind::kMemory);
  EXPECT_TRUE(a.needs[0].share.overcommit);
  ASSERT_NE(a.job.spec.roles[0].pod_template.value, nullptr);
  EXPECT_EQ(*a.job.spec.roles[0].pod_template.value,
            crds::Json::parse(R"({"spec":{"containers":[{}],"restartPolicy":"Never"}})"));
}

TEST(ReadInput, AReplicaIsLeftOutWhereMustersServiceControlsIt) {
  const auto changes = [](const char* owner) {
    std::string replica = job("web-0a1b2-0", "", "gpus: {count: 1}");
    const std::string name = "name: web-0a1b2-0,";
    replica.replace(replica.find(name), name.size(), name + " ownerReferences: [" + owner + "],");
    const Input input = read_text(replica, "t.yaml");
    EXPECT_TRUE(input.errors.empty()) << crds::to_string(input.errors.front());
    return input.changes.size();
  };
  EXPECT_EQ(
      changes("{apiVersion: muster.dev/v1alpha1, kind: InferenceService, name: web, uid: u, controller: "
              "true}"),
      0U);
  EXPECT_EQ(changes("{apiVersion: muster.dev/v1alpha1, kind: InferenceService, name: web, uid: u}"), 1U);
  EXPECT_EQ(
      changes("{apiVersion: muster.dev/v1alpha1, kind: InferenceService, name: web, uid: u, controller: "
              "false}"),
      1U);
  EXPECT_EQ(changes("{apiVersion: serving.kserve.io/v1beta1, kind: InferenceService, name: web, uid: u, "
                    "controller: true}"),
            1U)
      << "KServe's";
}

TEST(ReadInput, ADeletionIsAChangeOfItsOwn) {
  const Input input = read_text(job("a", "at: 5s, delete-at: 10s", "gpus: {count: 1}"), "t.yaml");
  ASSERT_EQ(input.changes.size(), 2U);
  EXPECT_EQ(input.changes[0].at, std::chrono::seconds(5));
  EXPECT_TRUE(input.changes[1].remove);
  EXPECT_EQ(input.changes[1].at, std::chrono::seconds(10));
  EXPECT_THAT(
      errors_of(job("a", "at: 5s, delete-at: 5s", "gpus: {count: 1}")),
      testing::ElementsAre(testing::HasSubstr("simulate.muster.dev/delete-at: must be later than at")));
}

// An error ends nothing: what comes behind it is read as well.
TEST(ReadInput, GoesOnBehindAnError) {
  const auto errors = errors_of("{a: b\n---\n[1, 2]\n---\n{apiVersion: v1, kind: Node, metadata: {}}\n---\n" +
                                job("a", "never: 1s", "gpus: {count: 0}"));
  ASSERT_EQ(errors.size(), 4U) << testing::PrintToString(errors);
  EXPECT_THAT(errors[0], testing::HasSubstr("must be YAML"));
  EXPECT_THAT(errors[1], testing::HasSubstr("must be an object, is a list of 2"));
  EXPECT_THAT(errors[2], testing::HasSubstr("metadata.name: is required"));
  EXPECT_THAT(errors[3], testing::HasSubstr("spec.roles[0].gpus.count: must be at least 1, is 0"));
}

TEST(ReadInput, EditsKeepToTheRulesOfUpdates) {
  const std::string text =
      job("a", "", "replicas: 1") + job("a", "at: 5s", "replicas: 1", "mode: Interactive, maxRuntime: 1h, ");
  EXPECT_THAT(errors_of(text), testing::ElementsAre(testing::HasSubstr("spec.mode: cannot change")));
  EXPECT_TRUE(
      errors_of(job("a", "delete-at: 4s", "replicas: 1") + job("a", "at: 5s", "replicas: 2")).empty());
}

TEST(ReadInput, FilesThatAreNotThere) {
  std::istringstream in;
  const Input input = read_input({"/nowhere.yaml"}, in);
  ASSERT_EQ(input.errors.size(), 1U);
  EXPECT_EQ(crds::to_string(input.errors[0]), "/nowhere.yaml: cannot be read");
}

}  // namespace
}  // namespace muster::simulate
