#include "muster/reconcilers/sharing/hami.h"

#include <algorithm>
#include <cstdint>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/reconcilers/pods/gpu_share.h"

namespace muster::reconcilers {
namespace {

using crds::Json;
using Variables = std::vector<std::pair<std::string, std::string>>;

struct Mount {
  std::string_view volume, path;
  std::string_view host_type;  // of the hostPath of the same path; "": an emptyDir
  std::string_view host_path;
  bool read_only;
};
// A node without the files starts no such pod, so that nobody runs without limits unseen. The lock is of the
// whole node: by it HAMi-core learns which of the node's processes is its own. What the containers of a pod
// have taken is counted in the cache, in a file for each, because their processes may have the same numbers.
constexpr std::string_view kCache = "/usr/local/vgpu/cache";
constexpr Mount kMounts[] = {
    {"muster-hami-library", "/usr/local/vgpu/libvgpu.so", "File", "/usr/local/vgpu/libvgpu.so", true},
    {"muster-hami-preload", "/etc/ld.so.preload", "File", "/usr/local/vgpu/ld.so.preload", true},
    {"muster-hami-lock", "/tmp/vgpulock", "Directory", "/tmp/vgpulock", false},
    {"muster-hami-cache", kCache, "", "", false},
};

// In MiB, of each of its GPUs; 0: not known.
std::int64_t limit_of(const crds::Gpus& gpus, crds::Bytes gpu_memory) {
  if (gpus.memory) return gpus.memory_limit.value_or(*gpus.memory).value >> 20;
  return (gpu_memory.value >> 20) * gpus.fraction->value / 1000;
}

// As all its containers have them.
Variables limits_of(const crds::Gpus& gpus, crds::Bytes gpu_memory) {
  Variables all;
  if (const std::int64_t mib = limit_of(gpus, gpu_memory); mib > 0) {
    for (std::int32_t i = 0; i < crds::devices_of(gpus); ++i)
      all.emplace_back("CUDA_DEVICE_MEMORY_LIMIT_" + std::to_string(i), std::to_string(mib) + "m");
  }
  if (gpus.fraction) {
    all.emplace_back("CUDA_DEVICE_SM_LIMIT",
                     std::to_string(std::max<std::int64_t>(1, gpus.fraction->value / 10)));
    // Else it is HAMi's monitor that decides whether compute is limited, and without one nothing is.
    all.emplace_back("GPU_CORE_UTILIZATION_POLICY", "force");
  }
  return all;
}

bool has(const Json& entry, const char* key, std::string_view value) {
  return entry.is_object() && entry.contains(key) && entry[key] == value;
}

Json::array_t& list_in(Json& parent, const char* key) {
  Json& list = parent[key];
  if (!list.is_array()) list = Json::array();
  return list.get_ref<Json::array_t&>();
}

void load_in(Json& container, const Variables& limits) {
  auto& mounts = list_in(container, "volumeMounts");
  for (const Mount& m : kMounts) {
    std::erase_if(mounts, [&](const Json& own) { return has(own, "mountPath", m.path); });
    mounts.push_back({{"name", m.volume}, {"mountPath", m.path}, {"readOnly", m.read_only}});
  }
  auto& env = list_in(container, "env");
  const auto put = [&](const std::string& name, std::string value) {
    std::erase_if(env, [&](const Json& own) { return has(own, "name", name); });
    env.push_back({{"name", name}, {"value", std::move(value)}});
  };
  // One without an index is for all GPUs that have none: the template's own would be another limit.
  std::erase_if(env, [&](const Json& own) { return has(own, "name", "CUDA_DEVICE_MEMORY_LIMIT"); });
  for (const auto& [name, value] : limits) put(name, value);
  const std::string name = container.value("name", std::string("container"));
  put("CUDA_DEVICE_MEMORY_SHARED_CACHE", std::string(kCache) + "/" + name + ".cache");
}

void load(Json& spec, const Variables& limits) {
  auto& volumes = list_in(spec, "volumes");
  for (const Mount& m : kMounts) {
    Json volume = {{"name", m.volume}};
    if (m.host_type.empty())
      volume["emptyDir"] = Json::object();
    else
      volume["hostPath"] = {{"path", m.host_path}, {"type", m.host_type}};
    volumes.push_back(std::move(volume));
  }
  for (const char* list : {"initContainers", "containers"}) {
    if (!spec.contains(list) || !spec[list].is_array()) continue;
    for (Json& container : spec[list]) {
      if (container.is_object()) load_in(container, limits);
    }
  }
}

}  // namespace

bool enforces_by_hami(const crds::NodePoolSpec& pool) {
  return pool.sharing && pool.sharing->enforcement == crds::Enforcement::kHami;
}

crds::TrainingJob under_hami(crds::TrainingJob job, crds::Bytes gpu_memory) {
  for (crds::Role& role : job.spec.roles) {
    const auto& stated = role.pod_template.value;
    if (!role.gpus || !is_shared(*role.gpus) || stated == nullptr || !stated->is_object() ||
        !stated->contains("spec") || !(*stated)["spec"].is_object())
      continue;
    Json changed = *stated;
    load(changed["spec"], limits_of(*role.gpus, gpu_memory));
    role.pod_template.value = std::make_shared<const Json>(std::move(changed));
  }
  return job;
}

}  // namespace muster::reconcilers
