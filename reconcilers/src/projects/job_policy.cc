#include "muster/reconcilers/projects/job_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "muster/reconcilers/common/json_reader.h"

namespace muster::reconcilers {
namespace {

using crds::Json;

const crds::ModePolicy& policy_of(const crds::ProjectPolicy& policy, crds::Mode mode) {
  return mode == crds::Mode::kInteractive ? policy.interactive : policy.batch;
}

// Of one pod, in thousandths. A part by memory counts as whole GPUs: how much a GPU has is the
// node's business.
crds::MilliGpu gpus_of(const crds::Gpus& gpus) {
  const std::int64_t devices = crds::devices_of(gpus);
  if (gpus.fraction) return *gpus.fraction * devices;
  if (gpus.mig.empty()) return crds::MilliGpu{1000} * devices;
  const std::int64_t slices = gpus.mig.front() - '0';  // "3g.40gb", of seven
  return crds::MilliGpu{(slices * 1000 + 6) / 7} * devices;
}

// Any container of the template states it, as a request or a limit.
bool states(const crds::RawJson& pod_template, std::string_view resource) {
  if (pod_template.value == nullptr) return false;
  for (const char* list : {"containers", "initContainers"}) {
    const Json* containers = find(pod_template.value.get(), "spec", list);
    if (containers == nullptr || !containers->is_array()) continue;
    for (const Json& container : *containers) {
      if (find(&container, "resources", "requests", resource) != nullptr ||
          find(&container, "resources", "limits", resource) != nullptr)
        return true;
    }
  }
  return false;
}

// `per_gpu` for `gpus`, rounded up; in parts, so that nothing overflows on the way.
template <class A>
A times(A per_gpu, crds::MilliGpu gpus) {
  const std::int64_t part = gpus.value % 1000;
  const A of_part{per_gpu.value / 1000 * part + (per_gpu.value % 1000 * part + 999) / 1000};
  return per_gpu * (gpus.value / 1000) + of_part;
}

void request(crds::RawJson& pod_template, const char* resource, const std::string& quantity) {
  Json changed = *pod_template.value;
  changed["spec"]["containers"][0]["resources"]["requests"][resource] = quantity;
  pod_template.value = std::make_shared<const Json>(std::move(changed));
}

}  // namespace

crds::Effective taken_from(const crds::Project& project, const crds::TrainingJobSpec& spec) {
  crds::Effective taken;
  if (!project.spec.policy) return taken;
  const auto& policy = *project.spec.policy;
  const auto& defaults = policy.defaults;
  if (spec.priority_class_name.empty()) taken.priority_class_name = defaults.priority_class_name;
  if (spec.pools.empty() && !policy.default_pool.empty()) taken.pools = {policy.default_pool};
  const auto& of_mode = policy_of(policy, spec.mode);
  if (!spec.max_runtime) taken.max_runtime = of_mode.max_runtime;
  if (!spec.idle || !spec.idle->timeout) taken.idle_timeout = of_mode.idle_timeout;
  // The default is for a role without resources in a job that states no GPUs anywhere. A role with CPUs alone
  // means to have no GPU, and so does a role beside another with GPUs.
  const bool states_gpus =
      std::ranges::any_of(spec.roles, [](const crds::Role& role) { return role.gpus.has_value(); });
  for (const auto& role : spec.roles) {
    crds::EffectiveRole mine;
    mine.name = role.name;
    const bool states_cpu = states(role.pod_template, "cpu"),
               states_memory = states(role.pod_template, "memory");
    std::optional<crds::MilliGpu> gpus;
    if (role.gpus) {
      gpus = gpus_of(*role.gpus);
    } else if (!states_gpus && !states_cpu && !states_memory && defaults.gpus) {
      mine.gpus = defaults.gpus;
      gpus = crds::MilliGpu{1000} * defaults.gpus->count;
    }
    if (gpus && defaults.cpu_per_gpu && !states_cpu) mine.cpu = times(*defaults.cpu_per_gpu, *gpus);
    if (gpus && defaults.memory_per_gpu && !states_memory)
      mine.memory = times(*defaults.memory_per_gpu, *gpus);
    if (mine.gpus || mine.cpu || mine.memory) taken.roles.push_back(std::move(mine));
  }
  return taken;
}

crds::TrainingJobSpec with(const crds::Effective& taken, crds::TrainingJobSpec spec) {
  if (spec.priority_class_name.empty()) spec.priority_class_name = taken.priority_class_name;
  if (spec.pools.empty()) spec.pools = taken.pools;
  if (!spec.max_runtime) spec.max_runtime = taken.max_runtime;
  if (taken.idle_timeout) {
    if (!spec.idle) spec.idle.emplace();
    if (!spec.idle->timeout) spec.idle->timeout = taken.idle_timeout;
  }
  for (const auto& mine : taken.roles) {
    const auto role = std::ranges::find(spec.roles, mine.name, &crds::Role::name);
    if (role == spec.roles.end()) continue;
    if (mine.gpus && !role->gpus) role->gpus = crds::Gpus{.count = mine.gpus->count};
    const Json* containers = find(role->pod_template.value.get(), "spec", "containers");
    if (containers == nullptr || !containers->is_array() || containers->empty()) continue;
    if (mine.cpu) request(role->pod_template, "cpu", crds::to_string(*mine.cpu));
    if (mine.memory) request(role->pod_template, "memory", crds::to_string(*mine.memory));
  }
  return spec;
}

std::optional<std::string> violation(const crds::Project& project, const crds::TrainingJobSpec& spec,
                                     const std::string& default_pool) {
  if (!project.spec.policy) return std::nullopt;
  const auto& policy = *project.spec.policy;
  const auto& name = project.metadata.name;
  const auto& of_mode = policy_of(policy, spec.mode);
  const auto too_long = [&](const char* field, const char* rule, const auto& asked, const auto& longest) {
    if (!longest || !asked || *asked <= *longest) return std::optional<std::string>();
    return std::optional(fmt::format("spec.{}: {} is more than the {} that Project {} allows (policy.{}.{})",
                                     field, crds::to_string(*asked), crds::to_string(*longest), name,
                                     spec.mode == crds::Mode::kInteractive ? "interactive" : "batch", rule));
  };
  if (auto text = too_long("maxRuntime", "maxRuntime", spec.max_runtime, of_mode.max_runtime)) return text;
  const auto idle_timeout = spec.idle ? spec.idle->timeout : std::nullopt;
  if (auto text = too_long("idle.timeout", "idleTimeout", idle_timeout, of_mode.idle_timeout)) return text;
  if (policy.max_gpus_per_job) {
    crds::MilliGpu gpus;
    for (const auto& role : spec.roles) {
      if (role.gpus) gpus += gpus_of(*role.gpus) * crds::most_replicas(role);
    }
    if (gpus > crds::MilliGpu{1000} * *policy.max_gpus_per_job) {
      return fmt::format(
          "spec.roles: ask for {} GPUs in all, more than the {} that Project {} allows a job "
          "(policy.maxGPUsPerJob)",
          crds::to_string(gpus), *policy.max_gpus_per_job, name);
    }
  }
  if (policy.allowed_pools.empty()) return std::nullopt;
  std::vector<std::string> pools = spec.pools;
  if (pools.empty() && !default_pool.empty()) pools.push_back(default_pool);
  for (const auto& pool : pools) {
    if (std::ranges::find(policy.allowed_pools, pool) != policy.allowed_pools.end()) continue;
    return fmt::format("spec.pools: {} is not one of {}, the pools of Project {} (policy.allowedPools){}",
                       pool, fmt::join(policy.allowed_pools, ", "), name,
                       spec.pools.empty() ? "; it names no pool, and this is the cluster's default" : "");
  }
  return std::nullopt;
}

}  // namespace muster::reconcilers
