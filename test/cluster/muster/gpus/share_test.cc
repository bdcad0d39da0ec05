// Shares of GPUs in a cluster: who shares a GPU sees the very one that a holder pod holds, nobody else
// gets it, and it is free again when the last has gone. Nodes are simulated: the reservation's "device" is
// its uid.
#include <gmock/gmock.h>

#include <map>
#include <set>
#include <thread>

#include "fixture.h"
#include "history.h"
#include "write_log.h"

namespace muster::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;

constexpr Milliseconds kCollected = 60s;
const std::string kReservations =
    "/api/v1/namespaces/muster-system/pods?labelSelector=muster.dev%2Fgpu-reservation";

json job_with(const std::string& name, const json& gpus, int replicas = 1) {
  json job = job_object({.name = name, .replicas = replicas, .gpus = 0});
  job["spec"]["roles"][0]["gpus"] = gpus;
  return job;
}
json half(const std::string& name, int replicas = 1) {
  return job_with(name, {{"fraction", "500m"}}, replicas);
}

// NVIDIA_VISIBLE_DEVICES of a pod's first container; "": it has none.
std::string device_of(const json& pod) {
  for (const auto& v : pod["spec"]["containers"][0].value("env", json::array())) {
    if (v["name"] == "NVIDIA_VISIBLE_DEVICES") return v["value"];
  }
  return {};
}

// Every sharer's pod was made while those that hold its GPUs did so: sentences about those that were not.
std::vector<std::string> made_too_late(History& history) {
  std::map<std::string, bool> holds;  // by uid: and is not on its way out
  std::set<std::string> seen;
  std::vector<std::string> wrong;
  history.replay([&](const Change& change) {
    if (change.object.value("kind", "") != "Pod") return;
    const json& meta = change.object["metadata"];
    const std::string uid = meta["uid"], name = meta["name"];
    const json annotations = meta.value("annotations", json::object());
    if (meta.value("labels", json::object()).contains("muster.dev/gpu-reservation"))
      holds[uid] = !change.is_gone && !meta.contains("deletionTimestamp") &&
                   change.object["status"].value("phase", "") == "Running";
    if (!annotations.contains("muster.dev/gpu-holders") || !seen.insert(uid).second) return;
    const std::string holder = annotations["muster.dev/gpu-holders"];
    if (!holds[holder]) wrong.push_back("pod " + name + " was made when nobody held its GPU");
    if (device_of(change.object) != "GPU-" + holder) wrong.push_back("pod " + name + " sees another GPU");
  });
  return wrong;
}

class Share : public OneCluster {
 protected:
  static void SetUpTestSuite() {
    testcluster::Options options;
    options.audit = true;
    cluster_ = Cluster::start(0, 0, options);
    testcluster::NodeTemplate node;
    node.gpus = 3;
    node.resources = {{"nvidia.com/mig-1g.10gb", "2"}};
    ASSERT_TRUE(cluster_->real().add_nodes(node));
    muster_ = cluster_->muster();
  }

  // Those that are not on their way out, by GPU index.
  static std::map<std::string, json> reservations() {
    const json list = cluster_->get(kReservations);
    std::map<std::string, json> all;
    for (const auto& pod : list["items"]) {
      if (!pod["metadata"].contains("deletionTimestamp"))
        all[pod["metadata"]["annotations"]["muster.dev/gpus"]] = pod;
    }
    return all;
  }
  static std::set<std::string> devices_of(const std::string& job) {
    std::set<std::string> all;
    for (const auto& pod : cluster_->pods(job)) all.insert(device_of(pod));
    return all;
  }
  // Every sharer's devices are those that are held at its index.
  static void check_devices(const std::string& job) {
    const auto held = reservations();
    for (const auto& pod : cluster_->pods(job)) {
      const std::string gpu = pod["metadata"]["annotations"]["muster.dev/gpus"];
      ASSERT_TRUE(held.contains(gpu)) << job << " has GPU " << gpu << ", which nobody holds";
      EXPECT_EQ(device_of(pod), "GPU-" + held.at(gpu)["metadata"]["uid"].get<std::string>());
    }
  }
  static bool wait_reservations(std::size_t n) {
    return cluster_->wait(kCollected, [&] { return cluster_->get(kReservations)["items"].size() == n; });
  }
  static void start(const json& job) {
    cluster_->create(job);
    const std::string name = job["metadata"]["name"];
    ASSERT_TRUE(cluster_->wait_phase(name, "Running")) << cluster_->job(name).dump(2);
  }
};

TEST_F(Share, HalvesShareOneGpuAndNobodyElseGetsIt) {
  start(half("one"));
  start(half("two"));
  EXPECT_EQ(devices_of("one"), devices_of("two"));
  EXPECT_THAT(reservations(), SizeIs(1));
  // Below the one is moved whose work costs less. Times in a status are whole seconds, so two of them may
  // seem equal that are a second apart and took different times to start.
  std::this_thread::sleep_for(3s);
  start(half("three"));
  EXPECT_NE(devices_of("one"), devices_of("three"));
  EXPECT_THAT(reservations(), SizeIs(2));
  for (const char* job : {"one", "two", "three"}) {
    check_devices(job);
    EXPECT_EQ(cluster_->job(job)["status"]["allocated"]["gpu"], "500m");
    EXPECT_THAT(cluster_->pods(job)[0]["spec"]["containers"][0]["resources"].dump(),
                Not(HasSubstr("nvidia.com")));
  }
  EXPECT_EQ(cluster_->audit_gpus(), "");

  // Of three GPUs two are held. When "one" has gone "three" fits beside "two", and is moved there; "two" does
  // not notice. The GPU that nobody shares any more is let go before the job that gets it whole has its pods.
  cluster_->create(job_with("whole", {{"count", 2}}));
  EXPECT_TRUE(cluster_->wait(30s, [] { return cluster_->reason("whole") == "InsufficientCapacity"; }));
  const auto held = devices_of("two");
  cluster_->remove(path_of_job("one"));
  ASSERT_TRUE(cluster_->wait_phase("whole", "Running", kCollected)) << cluster_->job("whole").dump(2);
  ASSERT_TRUE(cluster_->wait_phase("three", "Running")) << cluster_->job("three").dump(2);
  EXPECT_EQ(devices_of("two"), held);
  EXPECT_EQ(devices_of("three"), held);
  EXPECT_THAT(reservations(), SizeIs(1));
  EXPECT_EQ(cluster_->audit_gpus(), "");
  cluster_->remove(path_of_job("two"));
  EXPECT_TRUE(cluster_->wait(kCollected, [] { return cluster_->pods("two").empty(); }));
  EXPECT_THAT(reservations(), SizeIs(1));
  cluster_->remove(path_of_job("three"));
  EXPECT_TRUE(wait_reservations(0));
}

TEST_F(Share, ReplicasOfAServiceShareByMemory) {
  cluster_->create(service_object("chat", 2, {{"gpus", {{"count", nullptr}, {"memory", "30Gi"}}}}));
  const auto replicas = [] {
    return cluster_->get(path_of_service("chat")).value("/status/readyReplicas"_json_pointer, 0);
  };
  EXPECT_TRUE(cluster_->wait(60s, [&] { return replicas() == 2; }))
      << cluster_->get(path_of_service("chat")).dump(2);
  std::set<std::string> devices;
  const json pods = cluster_->get("/api/v1/namespaces/team/pods?labelSelector=muster.dev%2Fservice%3Dchat");
  for (const auto& pod : pods["items"]) devices.insert(device_of(pod));
  EXPECT_THAT(devices, SizeIs(1));
  EXPECT_THAT(reservations(), SizeIs(1));
  EXPECT_EQ(cluster_->audit_gpus(), "");
  cluster_->remove(path_of_service("chat"));
  EXPECT_TRUE(wait_reservations(0));
}

// Somebody removes the pod that holds their GPU: it may be another's by now, so they leave it.
TEST_F(Share, WhoLosesItsReservationIsStartedAnew) {
  start(half("two", 2));
  const std::string before = *devices_of("two").begin();
  cluster_->remove("/api/v1/namespaces/muster-system/pods/" +
                   reservations().begin()->second["metadata"]["name"].get<std::string>());
  EXPECT_TRUE(cluster_->wait(60s, [&] {
    return cluster_->phase("two") == "Running" && !devices_of("two").contains(before);
  })) << cluster_->job("two").dump(2);
  check_devices("two");
  EXPECT_EQ(cluster_->job("two")["status"]["attempt"], 2);
  EXPECT_EQ(cluster_->job("two")["status"].value("/restarts/count"_json_pointer, 0), 0);
}

// A node whose kubelet is played by the test: it refuses the pod that is to hold the GPU.
TEST_F(Share, WhereAGpuCannotBeHeldItsSharersAreNot) {
  const std::string nodes = "/api/v1/nodes/";
  cluster_->patch(nodes + "node-0", {{"spec", {{"unschedulable", true}}}});
  cluster_->apply("{apiVersion: v1, kind: Node, metadata: {name: by-hand}}");
  const json amounts = {{"cpu", "8"}, {"memory", "64Gi"}, {"pods", "110"}, {"nvidia.com/gpu", "2"}};
  const json ready = {{"type", "Ready"}, {"status", "True"}, {"reason", "ByHand"}, {"message", ""}};
  cluster_->patch(nodes + "by-hand/status",
                  {{"status", {{"capacity", amounts}, {"allocatable", amounts}, {"conditions", {ready}}}}});
  cluster_->create(half("refused"));
  ASSERT_TRUE(cluster_->wait(30s, [] { return reservations().contains("0"); }))
      << cluster_->job("refused").dump(2);
  EXPECT_TRUE(cluster_->wait(10s, [] {
    return cluster_->condition("refused", "PodsReady").value("reason", "") == "WaitingForGPUs";
  }));
  EXPECT_THAT(cluster_->pods("refused"), IsEmpty());
  cluster_->patch(nodes + "node-0", {{"spec", {{"unschedulable", nullptr}}}});
  const std::string pod = reservations()["0"]["metadata"]["name"];
  cluster_->patch("/api/v1/namespaces/muster-system/pods/" + pod + "/status",
                  {{"status",
                    {{"phase", "Failed"},
                     {"reason", "UnexpectedAdmissionError"},
                     {"message", "Allocate failed: no healthy devices"}}}});
  const auto refusals = [] {
    return cluster_->job("refused")["status"].value("nodeRefusals", json::array());
  };
  ASSERT_TRUE(cluster_->wait(10s, [&] { return refusals().size() == 1; }))
      << cluster_->job("refused").dump(2);
  EXPECT_EQ(refusals()[0]["node"], "by-hand");
  EXPECT_EQ(refusals()[0]["reason"], "UnexpectedAdmissionError");
  ASSERT_TRUE(cluster_->wait_phase("refused", "Running")) << cluster_->job("refused").dump(2);
  EXPECT_EQ(cluster_->job("refused")["status"]["assignment"]["pods"][0]["node"], "node-0");
  EXPECT_EQ(cluster_->job("refused")["status"]["attempt"], 1);
  check_devices("refused");
  EXPECT_TRUE(wait_reservations(1));
  cluster_->remove(nodes + "by-hand");
}

TEST_F(Share, WhatKeepsAReservationFromBeingMadeIsTold) {
  cluster_->apply(R"(
apiVersion: v1
kind: ResourceQuota
metadata: {name: no-pods, namespace: muster-system}
spec: {hard: {pods: "0"}}
)");
  const std::string quota = "/api/v1/namespaces/muster-system/resourcequotas/no-pods";
  ASSERT_TRUE(
      cluster_->wait(10s, [&] { return cluster_->get(quota).contains("/status/hard"_json_pointer); }));
  cluster_->create(half("waits"));
  EXPECT_TRUE(cluster_->wait(10s, [] {
    const json ready = cluster_->condition("waits", "PodsReady");
    return ready.is_object() && ready["message"].get<std::string>().contains("exceeded quota");
  })) << cluster_->job("waits").dump(2);
  EXPECT_THAT(cluster_->pods("waits"), IsEmpty());
  cluster_->remove(quota);
  EXPECT_TRUE(cluster_->wait_phase("waits", "Running")) << cluster_->job("waits").dump(2);
}

TEST_F(Share, SlicesThatAreCutAreAskedForAsResources) {
  start(job_with("slices", {{"mig", "1g.10gb"}, {"count", 2}}));
  const auto pods = cluster_->pods("slices");
  EXPECT_EQ(pods[0]["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/mig-1g.10gb"], "2");
  EXPECT_EQ(device_of(pods[0]), "");
  EXPECT_EQ(cluster_->job("slices")["status"]["allocated"]["gpu"], "286m");
  EXPECT_THAT(reservations(), IsEmpty());
  cluster_->create(job_with("more", {{"mig", "1g.10gb"}}));
  EXPECT_TRUE(cluster_->wait(30s, [] { return cluster_->reason("more") == "InsufficientCapacity"; }))
      << cluster_->job("more").dump(2);
  cluster_->create(job_with("uncut", {{"mig", "3g.40gb"}}));
  EXPECT_TRUE(cluster_->wait(30s, [] { return cluster_->reason("uncut") == "NoMatchingNodes"; }))
      << cluster_->job("uncut").dump(2);
}

// The pod as the API server has taken it. (What a kubelet and HAMi-core make of it no simulated node shows.)
TEST_F(Share, APoolThatEnforcesByHamiHasItsLibraryAndLimitsInThePods) {
  const std::string pool = "/apis/muster.dev/v1alpha1/nodepools/default";
  cluster_->patch(pool, {{"spec", {{"sharing", {{"mode", "TimeSlicing"}, {"enforcement", "HAMi"}}}}}});
  cluster_->catch_up();
  start(half("limited"));
  const json spec = cluster_->pods("limited")[0]["spec"];
  std::map<std::string, std::string> env;
  for (const auto& v : spec["containers"][0]["env"]) env[v["name"]] = v.value("value", "");
  EXPECT_EQ(env["CUDA_DEVICE_MEMORY_LIMIT_0"], "40779m") << "half of 81559 MiB";
  EXPECT_EQ(env["CUDA_DEVICE_SM_LIMIT"], "50");
  EXPECT_EQ(env["GPU_CORE_UTILIZATION_POLICY"], "force");
  std::map<std::string, std::string> mounted;  // by path: what of the node
  for (const auto& mount : spec["containers"][0]["volumeMounts"]) {
    for (const auto& volume : spec["volumes"]) {
      if (volume["name"] == mount["name"])
        mounted[mount["mountPath"]] = volume.value("/hostPath/path"_json_pointer, std::string());
    }
  }
  EXPECT_EQ(mounted["/usr/local/vgpu/libvgpu.so"], "/usr/local/vgpu/libvgpu.so");
  EXPECT_EQ(mounted["/etc/ld.so.preload"], "/usr/local/vgpu/ld.so.preload");
  check_devices("limited");
  cluster_->patch(pool, {{"spec", {{"sharing", nullptr}}}});
  cluster_->catch_up();
  start(half("free"));
  EXPECT_THAT(cluster_->pods("free")[0].dump(), Not(HasSubstr("vgpu")));
}

// Nodes as AMD's device plugin and node labeller leave them.
TEST_F(Share, GpusOfAnotherVendorAreKnownByItsLabels) {
  cluster_->apply(R"(
apiVersion: muster.dev/v1alpha1
kind: NodePool
metadata: {name: default}
spec: {nodeSelector: {matchExpressions: [{key: amd.com/gpu.family, operator: DoesNotExist}]}, default: true}
---
apiVersion: muster.dev/v1alpha1
kind: NodePool
metadata: {name: amd}
spec:
  nodeSelector: {matchExpressions: [{key: amd.com/gpu.family, operator: Exists}]}
  gpuResource: amd.com/gpu
  gpuLabels: {model: amd.com/gpu.product-name, memory: amd.com/gpu.vram}
)");
  testcluster::NodeTemplate node;
  node.prefix = "amd";
  node.gpus = 0;
  node.resources = {{"amd.com/gpu", "2"}};
  node.labels = {{"amd.com/gpu.family", "AI"},
                 {"amd.com/gpu.product-name", "AMD_Instinct_MI300X_OAM"},
                 {"amd.com/gpu.vram", "192G"}};
  ASSERT_TRUE(cluster_->real().add_nodes(node));
  const auto on_amd = [](const std::string& name, const json& gpus) {
    json job = job_with(name, gpus);
    job["spec"]["pools"] = {"amd"};
    return job;
  };
  start(on_amd("whole", {{"count", 1}, {"models", {"AMD_Instinct_MI300X_OAM"}}}));
  EXPECT_EQ(cluster_->pods("whole")[0]["spec"]["containers"][0]["resources"]["limits"]["amd.com/gpu"], "1");
  cluster_->create(on_amd("other", {{"count", 1}, {"models", {"AMD_Instinct_MI250X"}}}));
  EXPECT_TRUE(cluster_->wait(30s, [] { return cluster_->reason("other") == "NoMatchingNodes"; }))
      << cluster_->job("other").dump(2);
  start(on_amd("part", {{"memory", "48Gi"}}));
  EXPECT_EQ(cluster_->job("part")["status"]["allocated"]["gpu"], "250m") << "of 192 GiB";
  cluster_->create(on_amd("large", {{"memory", "193Gi"}}));
  EXPECT_TRUE(cluster_->wait(30s, [] { return cluster_->reason("large") == "NoMatchingNodes"; }))
      << cluster_->job("large").dump(2);
  EXPECT_TRUE(cluster_->wait(20s, [] {
    const json days = cluster_->get("/apis/muster.dev/v1alpha1/projects/team")
                          .value("/status/usage/days"_json_pointer, json::array());
    return days.dump().contains(R"("name":"AMD_Instinct_MI300X_OAM")");
  })) << cluster_->get("/apis/muster.dev/v1alpha1/projects/team").dump(2);
}

// Admission, reservation, hosts file, pods, status, Service: killed after each of the first writes, and after
// the first of the way back.
TEST_F(Share, KilledAfterAnyWriteNothingIsLostOrLeft) {
  History history(*cluster_, {"trainingjobs"});
  for (const int fatal : {1, 2, 3, 4, 6}) {
    SCOPED_TRACE("killed after write " + std::to_string(fatal));
    const std::string name = "killed-" + std::to_string(fatal);
    {
      WriteLog writes(cluster_->real().audit_log());
      cluster_->create(half(name, 3));
      ASSERT_TRUE(testcluster::wait_until(
          30s, [&] { return writes.but_for_events() >= fatal; }, 1ms))
          << "it wrote only:\n"
          << tell(writes.kinds());
      muster_->kill();
    }
    muster_ = cluster_->muster();
    ASSERT_TRUE(cluster_->wait_phase(name, "Running", 60s)) << cluster_->job(name).dump(2) << muster_->log();
    EXPECT_THAT(cluster_->pods(name), SizeIs(3));
    EXPECT_THAT(reservations(), SizeIs(2));
    check_devices(name);
    EXPECT_EQ(cluster_->audit_gpus(), "");
    if (fatal == 6) {
      EXPECT_THAT(made_too_late(history), IsEmpty());
      Auditor auditor;
      history.replay([&](const Change& change) { auditor.see(change); });
      EXPECT_THAT(auditor.problems(), IsEmpty());
      EXPECT_EQ(auditor.pods_made(), 15);
    }
    cluster_->remove(path_of_job(name));
    if (fatal == 1) {
      muster_->kill();
      EXPECT_TRUE(cluster_->wait(kCollected, [&] { return cluster_->pods(name).empty(); }));
      EXPECT_THAT(reservations(), SizeIs(2));  // nobody is there to remove them
      muster_ = cluster_->muster();
    }
    EXPECT_TRUE(wait_reservations(0));
  }
}

}  // namespace
}  // namespace muster::test
