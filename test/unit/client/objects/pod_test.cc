// Pods and nodes from their text, by example.
#include "muster/client/pod.h"

#include <gtest/gtest.h>
#include <malloc.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>
#include <random>

#include "muster/client/informer.h"
#include "muster/client/testing/fake_transport.h"
#include "muster/client/testing/virtual_world.h"

namespace muster::client {
namespace {

using nlohmann::json;

PodFields fields() {
  PodFields f;
  f.labels = {"muster.dev/job", "muster.dev/role", "muster.dev/index", "muster.dev/attempt"};
  f.annotations = {"muster.dev/gpus"};
  return f;
}

// A worker of a gang, as an API server has it once it runs: managed fields, projected token,
// statuses and all.
json worker(int index) {
  const std::string name = "llama-pretrain-worker-" + std::to_string(index) + "-3";
  json managed = json::array();
  for (const char* who : {"muster", "kubelet"}) {
    managed.push_back(
        {{"manager", who},
         {"operation", "Update"},
         {"apiVersion", "v1"},
         {"time", "2026-01-02T03:04:05Z"},
         {"fieldsType", "FieldsV1"},
         {"fieldsV1",
          json::parse(R"({"f:metadata":{"f:labels":{".":{},"f:muster.dev/job":{},"f:muster.dev/role":{},
                         "f:muster.dev/index":{}},"f:ownerReferences":{".":{},"k:{\"uid\":\"0b5a\"}":{}}},"f:spec":{"f:containers":
                         {"k:{\"name\":\"main\"}":{".":{},"f:image":{},"f:resources":{".":{},"f:limits":{},"f:requests":{}}}}}})")}});
  }
  json env = json::array();
  for (int i = 0; i < 12; ++i)
    env.push_back({{"name", "VARIABLE_" + std::to_string(i)}, {"value", "value of it " + std::to_string(i)}});
  return {
      {"apiVersion", "v1"},
      {"kind", "Pod"},
      {"metadata",
       {{"name", name},
        {"namespace", "team-vision"},
        {"uid", "7d9c1d3e-4b5a-4c1f-9a51-0242ac120002"},
        {"resourceVersion", "123456789"},
        {"creationTimestamp", "2026-01-02T03:04:05Z"},
        {"labels",
         {{"muster.dev/job", "llama-pretrain"},
          {"muster.dev/role", "worker"},
          {"muster.dev/index", std::to_string(index)},
          {"muster.dev/attempt", "3"},
          {"app.kubernetes.io/managed-by", "muster"},
          {"team", "vision"}}},
        {"annotations", {{"muster.dev/gpus", "0,1,2,3,4,5,6,7"}, {"note", "not kept"}}},
        {"ownerReferences", json::array({{{"apiVersion", "v1"}, {"kind", "X"}, {"name", "x"}, {"uid", "no"}},
                                         {{"apiVersion", "muster.dev/v1alpha1"},
                                          {"kind", "TrainingJob"},
                                          {"name", "llama-pretrain"},
                                          {"uid", "0b5a7d9c-3e1d-4c1f-9a51-0242ac120002"},
                                          {"controller", true}}})},
        {"managedFields", managed}}},
      {"spec",
       {{"volumes",
         json::array({{{"name", "token"},
                       {"projected",
                        {{"sources", json::array({{{"serviceAccountToken", {{"path", "token"}}}}})}}}}})},
        {"containers",
         json::array({{{"name", "main"},
                       {"image", "registry.example/train:1"},
                       {"env", env},
                       {"resources",
                        {{"limits", {{"nvidia.com/gpu", "8"}, {"memory", "512Gi"}}},
                         {"requests", {{"nvidia.com/gpu", "8"}, {"memory", "512Gi"}, {"cpu", "64"}}}}}}})},
        {"nodeName", "node-" + std::to_string(index)},
        {"hostname", "worker-0"}}},
      {"status",
       {{"phase", "Running"},
        {"podIP", "10.1.2.3"},
        {"conditions",
         json::array(
             {{{"type", "PodScheduled"}, {"status", "True"}, {"lastTransitionTime", "2026-01-02T03:04:05Z"}},
              {{"type", "Ready"},
               {"status", "True"},
               {"lastProbeTime", nullptr},
               {"lastTransitionTime", "2026-01-02T03:04:09Z"}}})},
        {"containerStatuses",
         json::array({{{"name", "main"},
                       {"restartCount", 2},
                       {"ready", true},
                       {"lastState", {{"terminated", {{"exitCode", 3}}}}},
                       {"state", {{"running", {{"startedAt", "2026-01-02T03:04:08Z"}}}}}}})}}}};
}

TEST(DecodePod, AWorkerOfAGang) {
  const auto pod = decode_pod(worker(17).dump(), fields());
  ASSERT_TRUE(pod) << pod.error().message;
  EXPECT_EQ(pod->meta.key(), "team-vision/llama-pretrain-worker-17-3");
  EXPECT_EQ(pod->meta.resource_version, "123456789");
  EXPECT_EQ(pod->labels.size(), 4u);
  EXPECT_EQ(*find_value(pod->labels, "muster.dev/index"), "17");
  EXPECT_EQ(find_value(pod->labels, "team"), nullptr);
  EXPECT_EQ(*find_value(pod->annotations, "muster.dev/gpus"), "0,1,2,3,4,5,6,7");
  EXPECT_EQ(pod->owner_uid, "0b5a7d9c-3e1d-4c1f-9a51-0242ac120002");
  EXPECT_EQ(pod->node_name, "node-17");
  EXPECT_EQ(pod->ip, "10.1.2.3");
  EXPECT_EQ(pod->phase, PodPhase::kRunning);
  EXPECT_TRUE(pod->ready);
  EXPECT_FALSE(pod->deleting);
  EXPECT_EQ(pod->ready_at - pod->created_at, 4);
  EXPECT_EQ(pod->container_restarts, 2);
  EXPECT_EQ(pod->milli_cpu, 64000);
  EXPECT_EQ(pod->memory_bytes, std::int64_t{512} << 30);
  EXPECT_EQ(pod->extended, (Extended{{"nvidia.com/gpu", 8}}));
  EXPECT_TRUE(pod->ended.empty());
}

// Whom terms of others mean, nobody knows beforehand.
TEST(DecodePod, KeepsAllOtherLabelsWhereTheyAreWanted) {
  PodFields wanted = fields();
  wanted.other_labels = true;
  json text = worker(17);
  text["metadata"]["labels"]["app.kubernetes.io/name"] = "cache";
  text["metadata"]["labels"]["a"] = "";
  const auto pod = decode_pod(text.dump(), wanted);
  ASSERT_TRUE(pod) << pod.error().message;
  EXPECT_EQ(pod->labels.size(), 4u);
  const auto at = [&](const std::string& key) {
    const auto found = std::ranges::find(pod->other_labels, key, &std::pair<std::string, std::string>::first);
    return found == pod->other_labels.end() ? "none" : found->second;
  };
  EXPECT_EQ(at("app.kubernetes.io/name"), "cache");
  EXPECT_EQ(at("a"), "");
  EXPECT_NE(at("team"), "none");
  EXPECT_EQ(at("muster.dev/index"), "none") << "it stands in labels";
  EXPECT_TRUE(std::ranges::is_sorted(pod->other_labels));
  EXPECT_GT(memory_of(*pod), memory_of(*decode_pod(text.dump(), fields())));
}

TEST(DecodePod, StaysBelow1KiB) {
  const auto pod = decode_pod(worker(17).dump(), fields());
  ASSERT_TRUE(pod);
  EXPECT_LT(memory_of(*pod), 1024u);
  std::printf("pod of a gang: %zu bytes, of which %zu in place; its text: %zu bytes\n", memory_of(*pod),
              sizeof(Pod), worker(17).dump().size());
}

// Of any vendor: which of them are GPUs is not the pod's to know.
TEST(DecodePod, KeepsWhatItAsksForOfOtherResources) {
  json pod = worker(0);
  pod["spec"]["containers"][0]["resources"]["requests"] = {{"nvidia.com/mig-1g.10gb", 2},
                                                           {"amd.com/gpu", "4"},
                                                           {"vendor/nic", "0"},
                                                           {"ephemeral-storage", "1Gi"},
                                                           {"hugepages-2Mi", "2Mi"}};
  const auto decoded = decode_pod(pod.dump(), fields());
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_EQ(decoded->extended, (Extended{{"amd.com/gpu", 4},
                                         {"ephemeral-storage", std::int64_t{1} << 30},
                                         {"hugepages-2Mi", std::int64_t{2} << 20},
                                         {"nvidia.com/mig-1g.10gb", 2}}));
  EXPECT_EQ(amount_of(decoded->extended, "amd.com/gpu"), 4);
  EXPECT_EQ(amount_of(decoded->extended, "amd.com"), 0);
  EXPECT_EQ(amount_of(decoded->extended, "z"), 0);
}

// The streaming list of a big cluster, in the pieces that TLS makes of it. The figures are for the log;
// bench_client measures.
// As the scheduler counts it: what it asks for now, or what it still has, whichever is more.
TEST(DecodePod, WhileItIsResizedInPlaceTheLargerCounts) {
  const auto decoded = [](const char* status) {
    const std::string text =
        R"({"metadata": {"name": "p", "namespace": "ns", "uid": "u", "resourceVersion": "1"},
      "spec": {"containers": [
        {"name": "main", "resources": {"requests": {"cpu": "2", "memory": "1Gi"}}},
        {"name": "side", "resources": {"requests": {"cpu": "500m"}}}]}, "status": )" +
        std::string(status) + "}";
    const auto pod = decode_pod(text, {});
    EXPECT_TRUE(pod) << pod.error().message;
    return std::pair(pod->milli_cpu, pod->memory_bytes >> 20);
  };
  EXPECT_EQ(decoded("{}"), std::pair(2500L, 1024L));
  EXPECT_EQ(
      decoded(R"({"containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "4", "memory": "1Gi"},
      "resources": {"requests": {"cpu": "4", "memory": "2Gi"}}}]})"),
      std::pair(4500L, 2048L))
      << "it is made smaller, and the kubelet has not done it yet";
  EXPECT_EQ(
      decoded(
          R"({"containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "1", "memory": "1Gi"}}]})"),
      std::pair(2500L, 1024L))
      << "it grows";
  EXPECT_EQ(
      decoded(R"({"conditions": [{"type": "PodResizePending", "status": "True", "reason": "Infeasible"}],
      "containerStatuses": [{"name": "main", "allocatedResources": {"cpu": "1", "memory": "1Gi"}}]})"),
      std::pair(1500L, 1024L))
      << "it would grow beyond what its node has, and never will";
}

TEST(DecodePod, TenThousandPodsStreamIntoTheStore) {
#ifdef NDEBUG
  constexpr int kPods = 10'000;
#else
  constexpr int kPods = 1'000;  // sanitizers take forty times as long
#endif
  testing::VirtualWorld world;
  testing::FakeTransport transport(world.env());
  ApiClient api(world.env(), transport);
  const PodFields f = fields();
  Informer<Pod> pods(api, resources::kPods, [&f](std::string_view text) { return decode_pod(text, f); });
  auto stream = transport.enqueue_stream();
  std::string text;
  for (int i = 0; i < kPods; ++i) text += R"({"type":"ADDED","object":)" + worker(i).dump() + "}\n";
  text +=
      R"({"type":"BOOKMARK","object":{"metadata":{"resourceVersion":"123456789","annotations":{"k8s.io/initial-events-end":"true"}}}})"
      "\n";
  for (std::size_t at = 0; at < text.size(); at += 16384) stream->push(text.substr(at, 16384));
  const std::size_t heap_before = mallinfo2().uordblks;
  const auto start = std::chrono::steady_clock::now();
  world.start(pods.run());
  world.settle();
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  ASSERT_EQ(pods.store().size(), std::size_t{kPods});
  // The pieces of the stream have been freed meanwhile.
  const std::size_t held = mallinfo2().uordblks + text.size() - heap_before;
  std::printf("%d pods, %.1f MiB of text: %.0f ms, %.1f us a pod, %zu bytes a pod in the store\n", kPods,
              static_cast<double>(text.size()) / (1 << 20), took.count() * 1e3, took.count() * 1e6 / kPods,
              held / kPods);
  std::string changes;
  for (int i = 0; i < kPods; ++i) {
    json pod = worker(i);
    pod["metadata"]["resourceVersion"] = std::to_string(200'000'000 + i);
    changes += R"({"type":"MODIFIED","object":)" + pod.dump() + "}\n";
  }
  for (std::size_t at = 0; at < changes.size(); at += 16384) stream->push(changes.substr(at, 16384));
  const auto again = std::chrono::steady_clock::now();
  world.settle();
  const std::chrono::duration<double> changed = std::chrono::steady_clock::now() - again;
  EXPECT_EQ(pods.watcher().resource_version(), std::to_string(200'000'000 + kPods - 1));
  std::printf("%d changes: %.1f us each\n", kPods, changed.count() * 1e6 / kPods);
}

TEST(DecodePod, HowItEnded) {
  json pod = worker(1);
  pod["metadata"]["deletionTimestamp"] = "2026-01-02T04:00:00Z";
  pod["status"] = json::parse(R"({"phase":"Failed","reason":"Evicted","message":"gone",
    "conditions":[{"type":"PodScheduled","status":"False"},{"type":"Ready","status":"False","lastTransitionTime":"2026-01-02T03:04:09Z"}],
    "initContainerStatuses":[{"name":"fetch","state":{"terminated":{"exitCode":0}}},{"name":"mount","state":{"terminated":{"exitCode":7}}}],
    "containerStatuses":[{"name":"side","state":{"waiting":{"reason":"ContainerCreating"}}},
      {"name":"back","state":{"waiting":{"reason":"ImagePullBackOff","message":"no such image"}}},
      {"name":"main","state":{"terminated":{"exitCode":42,"reason":"Error","message":"saved step 7","finishedAt":"1970-01-01T00:01:00Z"}}}]})");
  const auto decoded = decode_pod(pod.dump(), fields());
  ASSERT_TRUE(decoded) << decoded.error().message;
  EXPECT_TRUE(decoded->deleting);
  EXPECT_EQ(decoded->reason, "Evicted");
  EXPECT_TRUE(decoded->scheduled_false);
  EXPECT_FALSE(decoded->ready);
  EXPECT_EQ(decoded->ready_at, 0);
  ASSERT_EQ(decoded->ended.size(), 2u);
  EXPECT_EQ(decoded->ended[0].name, "main");
  EXPECT_EQ(decoded->ended[0].exit_code, 42);
  EXPECT_EQ(decoded->ended[0].message, "saved step 7");
  EXPECT_EQ(decoded->ended[0].finished_at, 60);
  EXPECT_EQ(decoded->ended[1].name, "mount");
  EXPECT_EQ(decoded->waiting_reason, "ImagePullBackOff");
  EXPECT_EQ(decoded->waiting_message, "no such image");
}

// Of few pods it matters what their init containers said, and it may be long.
TEST(DecodePod, WhatAnInitContainerSaidIsKeptOfThoseAskedFor) {
  json pod = worker(1);
  pod["status"] = json::parse(R"({"phase":"Running","initContainerStatuses":[
    {"name":"quiet","state":{"terminated":{"exitCode":0}}},
    {"name":"report","state":{"terminated":{"exitCode":0,"message":"GPU-7"}}}]})");
  PodFields asked = fields();
  asked.labels.emplace_back("reports");
  EXPECT_EQ(decode_pod(pod.dump(), asked)->init_message, "");
  asked.init_message_label = "reports";
  EXPECT_EQ(decode_pod(pod.dump(), asked)->init_message, "");
  pod["metadata"]["labels"]["reports"] = "true";
  const auto decoded = decode_pod(pod.dump(), asked);
  EXPECT_EQ(decoded->init_message, "GPU-7");
  EXPECT_TRUE(decoded->ended.empty());
}

TEST(DecodePod, ErrorsNameObjectAndField) {
  json pod = worker(1);
  pod["spec"]["containers"][0]["resources"]["requests"]["cpu"] = "many";
  auto bad = decode_pod(pod.dump(), fields());
  ASSERT_FALSE(bad);
  EXPECT_EQ(bad.error().code, ErrorCode::kDecode);
  EXPECT_EQ(bad.error().message,
            "pod team-vision/llama-pretrain-worker-1-3: spec.containers[].resources.requests: must be a "
            "quantity such as 2, \"2500m\", \"0.5\" or \"4Gi\", is \"many\"");
  for (const char* text : {"", "{", "[]", "{}", "null", R"({"metadata":{"name":""}})",
                           R"({"metadata":{"name":7}})", R"({"metadata":{"name":"a"},"spec":[]})",
                           R"({"metadata":{"name":"a","creationTimestamp":"yesterday"}})"}) {
    EXPECT_FALSE(decode_pod(text, fields())) << text;
  }
  EXPECT_TRUE(decode_pod(R"({"metadata":{"name":"a"}})", fields()));
}

// Whatever is done to its text, decoding ends with a pod or an error.
TEST(DecodePod, SurvivesBrokenText) {
  std::mt19937_64 random(7);
  const std::string whole = worker(3).dump();
  int refused = 0;
  for (int i = 0; i < 3000; ++i) {
    std::string text = whole;
    if (i % 2 == 0)
      text.resize(random() % text.size());
    else
      for (int k = 0; k < 3; ++k) text[random() % text.size()] = static_cast<char>(random());
    refused += !decode_pod(text, fields());
  }
  EXPECT_GT(refused, 1500);
}

TEST(DecodeNode, WhatPlacementAndHealthNeed) {
  const auto node =
      decode_node(R"({"metadata":{"name":"node-1","uid":"u","resourceVersion":"9","labels":{"b":"2","a":"1"},
      "annotations":{"muster.dev/x":"y","other/z":"w"}},
    "spec":{"unschedulable":true,"taints":[{"key":"nvidia.com/gpu","effect":"NoSchedule"},{"key":"k","value":"v","effect":"NoExecute","timeAdded":"2026-01-02T03:04:05Z"}]},
    "status":{"capacity":{"cpu":"999"},"allocatable":{"cpu":"127500m","memory":"1056784Mi","pods":"110","nvidia.com/gpu":"8","hugepages-2Mi":"0","amd.com/gpu":"0"},
      "conditions":[{"type":"MemoryPressure","status":"False"},{"type":"Ready","status":"True","lastTransitionTime":"1970-01-01T00:01:40Z"}],
      "addresses":[{"type":"Hostname","address":"node-1"},{"address":"10.0.0.7","type":"InternalIP"},{"type":"InternalIP","address":"fd00::7"}],
      "images":[{"names":["a"],"sizeBytes":1}]}})",
                  "muster.dev/");
  ASSERT_TRUE(node) << node.error().message;
  EXPECT_EQ(node->meta.key(), "node-1");
  EXPECT_EQ(node->labels, (KeyValues{{"a", "1"}, {"b", "2"}}));
  EXPECT_EQ(node->annotations, (KeyValues{{"muster.dev/x", "y"}}));
  EXPECT_EQ(node->taints,
            (std::vector<Taint>{{"nvidia.com/gpu", "", "NoSchedule"}, {"k", "v", "NoExecute"}}));
  EXPECT_TRUE(node->unschedulable);
  EXPECT_TRUE(node->ready);
  EXPECT_EQ(node->ready_changed_at, 100);
  EXPECT_EQ(node->address, "10.0.0.7");
  EXPECT_EQ(node->milli_cpu, 127500);
  EXPECT_EQ(node->memory_bytes, std::int64_t{1056784} << 20);
  EXPECT_EQ(node->pods, 110);
  EXPECT_EQ(node->extended,
            (std::vector<std::pair<std::string, std::int64_t>>{{"amd.com/gpu", 0}, {"nvidia.com/gpu", 8}}));
  EXPECT_FALSE(
      decode_node(R"({"metadata":{"name":"n"},"status":{"allocatable":{"cpu":"x"}}})", "muster.dev/"));
  EXPECT_FALSE(decode_node("{}", "muster.dev/"));
}

}  // namespace
}  // namespace muster::client
