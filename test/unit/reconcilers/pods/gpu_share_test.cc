// Shares of GPUs in pods: how they are asked for, told and read back.
#include "muster/reconcilers/pods/gpu_share.h"

#include <gmock/gmock.h>

#include <algorithm>
#include <limits>
#include <set>
#include <utility>

#include "muster/reconcilers/lifecycle/job_status.h"
#include "muster/reconcilers/placement/placement_specs.h"
#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/pods/pod_builder.h"
#include "sample_jobs.h"

namespace muster::reconcilers {
namespace {

using Kind = placement::GpuShare::Kind;
using testing::ElementsAre;
using testing::IsEmpty;

crds::Gpus fraction(std::int64_t milli, std::int32_t devices = 1) {
  crds::Gpus gpus;
  gpus.fraction = crds::MilliGpu{milli};
  if (devices > 1) gpus.devices = devices;
  return gpus;
}
crds::Gpus memory(std::int64_t mib) {
  crds::Gpus gpus;
  gpus.memory = crds::Bytes{mib << 20};
  return gpus;
}
crds::Gpus slices(std::int32_t count) {
  crds::Gpus gpus;
  gpus.mig = "1g.10gb";
  gpus.count = count;
  return gpus;
}

// Of one role and one pod on node n1.
crds::TrainingJob job_with(const crds::Gpus& gpus, std::vector<std::int32_t> devices) {
  crds::TrainingJob job = sample_job();
  job.metadata.generation = 3;
  job.spec.roles = {role("worker", 1, std::nullopt, bare_template())};
  job.spec.roles[0].gpus = gpus;
  job.status.assignment.generation = 3;
  job.status.assignment.pods = {{.role = "worker", .index = 0, .node = "n1", .gpus = std::move(devices)}};
  return job;
}
Json pod_of(const crds::TrainingJob& job, bool mps = false) {
  return Json::parse(PodBuilder(job, {"nvidia.com/gpu", mps})
                         .pod(job.status.assignment.pods[0], HeldDevices{"GPU-a,GPU-b", "u1,u2"}));
}
// "": not there.
std::string variable(const Json& container, const std::string& name) {
  for (const auto& v : container.value("env", Json::array())) {
    if (v["name"] == name) return v["value"];
  }
  return {};
}

TEST(ShareText, IsReadBack) {
  for (const auto& gpus : {fraction(250), memory(13135), slices(2)}) {
    const auto read = read_share(share_text(gpus));
    EXPECT_EQ(read.share.kind, gpus.fraction ? Kind::kFraction : gpus.memory ? Kind::kMemory : Kind::kMig);
    EXPECT_EQ(read.share.milli.value, gpus.fraction.value_or(crds::MilliGpu{}).value);
    EXPECT_EQ(read.share.memory.value, gpus.memory.value_or(crds::Bytes{}).value);
    EXPECT_EQ(read.share.profile, gpus.mig);
    EXPECT_EQ(read.count, gpus.mig.empty() ? 0 : 2);
    EXPECT_FALSE(read.share.overcommit);
  }
  crds::Gpus burst = memory(1024);
  burst.overcommit = true;
  EXPECT_TRUE(read_share(share_text(burst)).share.overcommit);
  crds::Gpus whole;
  whole.count = 2;
  EXPECT_EQ(share_text(whole), "");
}

TEST(ShareText, WhatCannotBeReadIsWhole) {
  for (const char* text : {"", "half", "fraction=2", "fraction=0", "fraction=x",
                           "memory=", "mig=1g.5gb,count=x", "memory=-1", "fraction="})
    EXPECT_EQ(read_share(text).share.kind, Kind::kWhole) << text;
}

TEST(NodeGpuKey, IsReadBack) {
  const NodeGpu gpu{"n/1", 12};
  EXPECT_EQ(gpu_of_key(key_of(gpu)), gpu);
  for (const char* key : {"", "n1", "n1/", "n1/x", "n1/1,2", "n1/-1"}) EXPECT_FALSE(gpu_of_key(key)) << key;
}

TEST(SharingPod, SeesTheDevicesThatAreHeldForItAndAsksForNone) {
  const auto job = job_with(fraction(500, 2), {0, 3});
  const Json pod = pod_of(job);
  const Json& container = pod["spec"]["containers"][0];
  EXPECT_EQ(container["env"][0]["name"], kVisibleDevices) << "the template may refer to it";
  EXPECT_EQ(variable(container, "NVIDIA_VISIBLE_DEVICES"), "GPU-a,GPU-b");
  EXPECT_FALSE(container.contains("resources"));
  EXPECT_EQ(variable(container, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "");
  const Json& annotations = pod["metadata"]["annotations"];
  EXPECT_EQ(annotations["muster.dev/gpus"], "0,3");
  EXPECT_EQ(annotations["muster.dev/gpu-share"], "fraction=500m");
  EXPECT_EQ(annotations["muster.dev/gpu-holders"], "u1,u2");
}

// What an image or a template says would show it all GPUs of the node.
TEST(SharingPod, NothingElseSaysWhatItSees) {
  auto job = job_with(fraction(500), {0});
  Json text = sample_template();
  for (const char* list : {"initContainers", "containers"}) {
    for (auto& container : text["spec"][list])
      container["env"] = {{{"name", "NVIDIA_VISIBLE_DEVICES"}, {"value", "all"}}};
  }
  job.spec.roles[0].pod_template.value = std::make_shared<const Json>(text);
  const Json pod = pod_of(job);
  for (const char* list : {"initContainers", "containers"}) {
    for (const auto& container : pod["spec"][list]) {
      EXPECT_EQ(variable(container, "NVIDIA_VISIBLE_DEVICES"), "GPU-a,GPU-b") << container;
      EXPECT_EQ(std::ranges::count_if(container["env"],
                                      [](const Json& v) { return v["name"] == "NVIDIA_VISIBLE_DEVICES"; }),
                1);
    }
  }
}

TEST(SharingPod, UnderMpsIsToldItsPartOfEach) {
  const auto env = [](const crds::Gpus& gpus, const char* name) {
    return variable(pod_of(job_with(gpus, {0, 1}), true)["spec"]["containers"][0], name);
  };
  EXPECT_EQ(env(fraction(500), "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "50");
  EXPECT_EQ(env(fraction(5), "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "1");
  EXPECT_EQ(env(fraction(500), "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), "");
  crds::Gpus gpus = memory(1024);
  gpus.devices = 2;
  EXPECT_EQ(env(gpus, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), "0=1024M,1=1024M");
  gpus.memory_limit = crds::Bytes{std::int64_t{2048} << 20};
  EXPECT_EQ(env(gpus, "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT"), "0=2048M,1=2048M");
  EXPECT_EQ(env(gpus, "CUDA_MPS_ACTIVE_THREAD_PERCENTAGE"), "");
}

// A fraction is a fraction of the memory, too. How much that is, the node says.
TEST(SharingPod, UnderMpsAFractionBoundsTheMemory) {
  constexpr crds::Bytes kOf80GiB{std::int64_t{81920} << 20};
  EXPECT_EQ(memory_limits(fraction(500, 2), kOf80GiB), "0=40960M,1=40960M");
  EXPECT_EQ(memory_limits(fraction(1), {std::int64_t{100} << 20}), "0=1M") << "0 would be no limit";
  EXPECT_EQ(memory_limits(fraction(500), {}), "") << "the node does not say";
  EXPECT_EQ(memory_limits(memory(1024), kOf80GiB), "") << "stated by the job";
  const auto job = job_with(fraction(500, 2), {0, 3});
  const auto limit = [&](bool mps, const std::string& limits) {
    const std::string pod = PodBuilder(job, {"nvidia.com/gpu", mps})
                                .pod(job.status.assignment.pods[0], {"GPU-a,GPU-b", "u", limits});
    return variable(Json::parse(pod)["spec"]["containers"][0], "CUDA_MPS_PINNED_DEVICE_MEM_LIMIT");
  };
  EXPECT_EQ(limit(true, "0=40960M,1=40960M"), "0=40960M,1=40960M");
  EXPECT_EQ(limit(true, ""), "");
  EXPECT_EQ(limit(false, "0=40960M,1=40960M"), "");
}

TEST(SharingPod, IsToldWhatToDoUnderPressure) {
  crds::Gpus gpus = memory(1024);
  gpus.on_memory_pressure = crds::MemoryPressure::kSwap;
  const Json pod = pod_of(job_with(gpus, {0}));
  EXPECT_EQ(variable(pod["spec"]["containers"][0], "MUSTER_ON_MEMORY_PRESSURE"), "Swap");
}

TEST(SlicePod, AsksForItsSlices) {
  const Json pod = pod_of(job_with(slices(2), {}));
  const Json& container = pod["spec"]["containers"][0];
  for (const char* list : {"requests", "limits"})
    EXPECT_EQ(container["resources"][list], Json({{"nvidia.com/mig-1g.10gb", "2"}}));
  EXPECT_EQ(variable(container, "NVIDIA_VISIBLE_DEVICES"), "");
  EXPECT_FALSE(pod["metadata"]["annotations"].contains("muster.dev/gpu-holders"));
}

TEST(SharedGpus, AreThoseOfTheAssignmentWhileItStands) {
  auto job = job_with(fraction(500), {2, 0});
  job.status.assignment.pods.push_back({.role = "worker", .index = 1, .node = "n1", .gpus = {2}});
  EXPECT_THAT(gpus_shared_by(job), ElementsAre("n1/0", "n1/2"));
  auto ended = job;
  crds::set_condition(ended.status.conditions,
                      {"Complete", crds::ConditionStatus::kTrue, 1, crds::Time{}, "Completed", ""});
  EXPECT_THAT(gpus_shared_by(ended), IsEmpty());
  auto waits = job;
  waits.status.assignment = {};
  EXPECT_THAT(gpus_shared_by(waits), IsEmpty());
  // Its pods have whole GPUs yet: what the edit asks for is not theirs.
  auto edited = job;
  edited.metadata.generation = 4;
  edited.status.assignment.made_from = "other-pods";
  EXPECT_THAT(gpus_shared_by(edited), IsEmpty());
  EXPECT_THAT(gpus_shared_by(job_with(slices(1), {0})), IsEmpty());
  crds::Gpus whole;
  whole.count = 1;
  EXPECT_THAT(gpus_shared_by(job_with(whole, {0})), IsEmpty());
}

client::Pod sharer(const char* share) {
  client::Pod pod;
  pod.meta = {"nlp", "llama-worker-0-1", "uid", "1"};
  pod.node_name = "n1";
  pod.owner_uid = "uid-1";
  pod.labels = {{std::string(kJobLabel), "llama"}};
  pod.annotations = {{std::string(kShareAnnotation), share}, {std::string(kGpusAnnotation), "0,3"}};
  return pod;
}

TEST(SharedGpus, AreThoseOfAPodUntilItHasEnded) {
  client::Pod pod = sharer("fraction=500m");
  EXPECT_THAT(gpus_shared_by(pod), ElementsAre("n1/0", "n1/3"));
  pod.deleting = true;
  EXPECT_THAT(gpus_shared_by(pod), ElementsAre("n1/0", "n1/3"));
  pod.phase = client::PodPhase::kFailed;
  EXPECT_THAT(gpus_shared_by(pod), IsEmpty());
  EXPECT_THAT(gpus_shared_by(sharer("mig=1g.10gb,count=1")), IsEmpty());
}

const std::set<std::string> kGpus = {"nvidia.com/gpu", "amd.com/gpu"};

// A pod that outlives its job is charged for what it had.
TEST(OtherPodOf, ASharerHasItsShare) {
  const auto other = other_pod(sharer("fraction=500m"), "nlp", kGpus);
  EXPECT_EQ(other.share.kind, Kind::kFraction);
  EXPECT_EQ(other.gpu_count, 2);
  EXPECT_THAT(other.gpus, ElementsAre(0, 3));
  client::Pod slice = sharer("mig=1g.10gb,count=1");
  slice.extended = {{"nvidia.com/mig-1g.10gb", 1}};
  const auto cut = other_pod(slice, "nlp", kGpus);
  EXPECT_EQ(cut.share.kind, Kind::kMig);
  EXPECT_EQ(cut.gpu_count, 1);
  EXPECT_THAT(cut.slices, IsEmpty()) << "counted once";
  // Anybody may write an annotation on a pod of his own.
  client::Pod poses = sharer("fraction=500m");
  poses.owner_uid.clear();
  EXPECT_EQ(other_pod(poses, "nlp", kGpus).share.kind, Kind::kWhole);
  EXPECT_THAT(other_pod(poses, "nlp", kGpus).gpus, IsEmpty());
  EXPECT_THAT(gpus_shared_by(poses), IsEmpty());
}

// Whoever is not to be believed about shares holds what it asks the kubelet for.
TEST(OtherPodOf, WhoMayNotShareHoldsWhatItAsksFor) {
  client::Pod pod = sharer("fraction=500m");
  pod.extended = {{"nvidia.com/gpu", 1}};
  auto other = other_pod(pod, "", kGpus, false);
  EXPECT_EQ(other.share.kind, Kind::kWhole);
  EXPECT_EQ(other.gpu_count, 1);
  EXPECT_THAT(other.gpus, IsEmpty()) << "the two that it names are more than it asks for";
  pod = sharer("mig=1g.10gb,count=1");
  pod.extended = {{"nvidia.com/mig-1g.10gb", 2}};
  other = other_pod(pod, "", kGpus, false);
  EXPECT_EQ(other.share.kind, Kind::kWhole);
  EXPECT_THAT(other.slices, ElementsAre(std::pair("1g.10gb", 2)));
}

// As on nodes: whole GPUs are what pools name, slices are slices in any pool, and nothing else counts.
TEST(OtherPodOf, ResourcesAreCountedAsOnNodes) {
  client::Pod pod;
  pod.extended = {{"amd.com/gpu", 4},
                  {"nvidia.com/gpu", 2},
                  {"nvidia.com/mig-1g.10gb", 3},
                  {"nvidia.com/mig-3g.40gb", 1},
                  {"vendor/nic", 8}};
  auto other = other_pod(pod, "", kGpus);
  EXPECT_EQ(other.gpu_count, 6);
  EXPECT_EQ(other.amounts.gpu.value, 6000);
  EXPECT_THAT(other.slices, ElementsAre(std::pair("1g.10gb", 3), std::pair("3g.40gb", 1)));
  other = other_pod(pod, "", {"amd.com/gpu"});
  EXPECT_EQ(other.gpu_count, 4);
  pod.extended = {{"amd.com/gpu", std::numeric_limits<std::int64_t>::max()}};
  EXPECT_EQ(other_pod(pod, "", kGpus).gpu_count, 1024) << "no machine has more";
}

}  // namespace
}  // namespace muster::reconcilers
