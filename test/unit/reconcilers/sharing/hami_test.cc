// What HAMi-core is told in pods, and how it comes into them.
#include "muster/reconcilers/sharing/hami.h"

#include <gmock/gmock.h>

#include "muster/reconcilers/pods/pod_builder.h"
#include "sample_jobs.h"

namespace muster::reconcilers {
namespace {

constexpr crds::Bytes k80Gi{std::int64_t{80} << 30};

crds::Gpus half(std::int32_t devices = 1) {
  crds::Gpus gpus;
  gpus.fraction = crds::MilliGpu{500};
  gpus.devices = devices;
  return gpus;
}

Json pod_of(const crds::Gpus& gpus, const std::string& pod_template, crds::Bytes gpu_memory = k80Gi) {
  crds::TrainingJob job = sample_job();
  job.spec.roles = {role("worker", 1, std::nullopt, Json::parse(pod_template))};
  job.spec.roles[0].gpus = gpus;
  job.status.assignment.pods = {{.role = "worker", .index = 0, .node = "n1", .gpus = {0}}};
  return Json::parse(PodBuilder(under_hami(job, gpu_memory), {"nvidia.com/gpu"})
                         .pod(job.status.assignment.pods[0], HeldDevices{"GPU-a", "u1"}));
}
const std::string kTemplate = R"({"spec": {"containers": [{"name": "main", "image": "i"}]}})";

// "": not there. It must not be there twice.
std::string variable(const Json& container, const std::string& name) {
  std::string value;
  for (const auto& v : container.value("env", Json::array())) {
    if (v["name"] != name) continue;
    EXPECT_EQ(value, "") << name << " is there twice";
    value = v["value"];
  }
  return value;
}
Json at(const Json& list, const char* key, const std::string& value) {
  Json found;
  for (const auto& entry : list) {
    if (entry[key] != value) continue;
    EXPECT_TRUE(found.is_null()) << value << " is there twice";
    found = entry;
  }
  return found;
}

TEST(Hami, AFractionIsItsPartOfMemoryAndCompute) {
  const Json pod = pod_of(half(2), kTemplate);
  const Json& main = pod["spec"]["containers"][0];
  EXPECT_EQ(variable(main, "CUDA_DEVICE_MEMORY_LIMIT_0"), "40960m");
  EXPECT_EQ(variable(main, "CUDA_DEVICE_MEMORY_LIMIT_1"), "40960m");
  EXPECT_EQ(variable(main, "CUDA_DEVICE_MEMORY_LIMIT_2"), "");
  EXPECT_EQ(variable(main, "CUDA_DEVICE_SM_LIMIT"), "50");
  EXPECT_EQ(variable(main, "GPU_CORE_UTILIZATION_POLICY"), "force");
  EXPECT_EQ(variable(main, "NVIDIA_VISIBLE_DEVICES"), "GPU-a");
}

TEST(Hami, TheLibraryIsTheNodes) {
  const Json pod = pod_of(half(), kTemplate);
  const Json& spec = pod["spec"];
  const Json& mounts = spec["containers"][0]["volumeMounts"];
  for (const auto& [path, on_node] : {std::pair("/usr/local/vgpu/libvgpu.so", "/usr/local/vgpu/libvgpu.so"),
                                      std::pair("/etc/ld.so.preload", "/usr/local/vgpu/ld.so.preload")}) {
    const Json mount = at(mounts, "mountPath", path);
    ASSERT_FALSE(mount.is_null()) << path;
    EXPECT_EQ(mount["readOnly"], true);
    const Json volume = at(spec["volumes"], "name", mount["name"]);
    EXPECT_EQ(volume["hostPath"]["path"], on_node);
    EXPECT_EQ(volume["hostPath"]["type"], "File") << "a node without it starts no such pod";
  }
  EXPECT_EQ(at(spec["volumes"], "name", at(mounts, "mountPath", "/tmp/vgpulock")["name"])["hostPath"]["path"],
            "/tmp/vgpulock");
  const Json cache = at(mounts, "mountPath", "/usr/local/vgpu/cache");
  EXPECT_TRUE(at(spec["volumes"], "name", cache["name"]).contains("emptyDir"));
  EXPECT_EQ(variable(spec["containers"][0], "CUDA_DEVICE_MEMORY_SHARED_CACHE"),
            "/usr/local/vgpu/cache/main.cache");
}

TEST(Hami, MemoryIsLimitedToWhatItMayBurstTo) {
  crds::Gpus gpus;
  gpus.memory = crds::Bytes{std::int64_t{10} << 30};
  const Json pod = pod_of(gpus, kTemplate, {});
  EXPECT_EQ(variable(pod["spec"]["containers"][0], "CUDA_DEVICE_MEMORY_LIMIT_0"), "10240m");
  EXPECT_EQ(variable(pod["spec"]["containers"][0], "CUDA_DEVICE_SM_LIMIT"), "") << "it has all of it";
  gpus.memory_limit = crds::Bytes{std::int64_t{20} << 30};
  EXPECT_EQ(variable(pod_of(gpus, kTemplate)["spec"]["containers"][0], "CUDA_DEVICE_MEMORY_LIMIT_0"),
            "20480m");
}

TEST(Hami, WithoutTheSizeOfTheGpuAFractionLimitsComputeOnly) {
  const Json pod = pod_of(half(), kTemplate, {});
  EXPECT_EQ(variable(pod["spec"]["containers"][0], "CUDA_DEVICE_MEMORY_LIMIT_0"), "");
  EXPECT_EQ(variable(pod["spec"]["containers"][0], "CUDA_DEVICE_SM_LIMIT"), "50");
}

// In every container, whatever the template says there.
TEST(Hami, TheTemplateDoesNotGetRoundIt) {
  const Json pod = pod_of(half(), R"({"spec": {
    "volumes": [{"name": "mine", "emptyDir": {}}],
    "initContainers": [{"name": "fetch", "image": "i"}],
    "containers": [{"name": "main", "image": "i",
      "env": [{"name": "CUDA_DEVICE_MEMORY_LIMIT", "value": "80g"}, {"name": "CUDA_DEVICE_SM_LIMIT", "value": "100"},
              {"name": "GPU_CORE_UTILIZATION_POLICY", "value": "disable"}, {"name": "MINE", "value": "1"}],
      "volumeMounts": [{"name": "mine", "mountPath": "/etc/ld.so.preload"}, {"name": "mine", "mountPath": "/x"}]}]}})");
  const Json& main = pod["spec"]["containers"][0];
  EXPECT_EQ(variable(main, "CUDA_DEVICE_MEMORY_LIMIT"), "");
  EXPECT_EQ(variable(main, "CUDA_DEVICE_SM_LIMIT"), "50");
  EXPECT_EQ(variable(main, "GPU_CORE_UTILIZATION_POLICY"), "force");
  EXPECT_EQ(variable(main, "MINE"), "1");
  EXPECT_NE(at(main["volumeMounts"], "mountPath", "/etc/ld.so.preload")["name"], "mine");
  EXPECT_EQ(at(main["volumeMounts"], "mountPath", "/x")["name"], "mine");
  const Json& fetch = pod["spec"]["initContainers"][0];
  EXPECT_EQ(variable(fetch, "CUDA_DEVICE_MEMORY_LIMIT_0"), "40960m");
  EXPECT_EQ(variable(fetch, "CUDA_DEVICE_MEMORY_SHARED_CACHE"), "/usr/local/vgpu/cache/fetch.cache");
}

TEST(Hami, WhoHasWholeGpusIsLeftAlone) {
  crds::Gpus whole;
  whole.count = 1;
  const Json pod = pod_of(whole, kTemplate);
  EXPECT_EQ(variable(pod["spec"]["containers"][0], "CUDA_DEVICE_MEMORY_SHARED_CACHE"), "");
  EXPECT_TRUE(at(pod["spec"]["containers"][0]["volumeMounts"], "mountPath", "/etc/ld.so.preload").is_null());
}

TEST(Hami, IsForPoolsThatSaySo) {
  crds::NodePoolSpec pool;
  EXPECT_FALSE(enforces_by_hami(pool));
  pool.sharing.emplace().mode = crds::SharingMode::kTimeSlicing;
  EXPECT_FALSE(enforces_by_hami(pool));
  pool.sharing->enforcement = crds::Enforcement::kHami;
  EXPECT_TRUE(enforces_by_hami(pool));
}

}  // namespace
}  // namespace muster::reconcilers
