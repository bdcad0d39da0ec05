#include "muster/reconcilers/projects/job_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "muster/reconcilers/common/json_reader.h"
#include "projects/template_policy.h"

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

using Verdict = std::optional<std::string>;  // why not

struct Case {
  const crds::ProjectPolicy& policy;
  const std::string& project;
  const Judged& job;
  const std::string& default_pool;

  const crds::TrainingJobSpec& spec() const { return job.spec; }
};

Verdict too_long(const Case& c, const char* field, const char* rule,
                 const std::optional<crds::Duration>& asked, const std::optional<crds::Duration>& longest) {
  if (!longest || !asked || *asked <= *longest) return std::nullopt;
  return fmt::format("spec.{}: {} is more than the {} that Project {} allows (policy.{}.{})", field,
                     crds::to_string(*asked), crds::to_string(*longest), c.project,
                     c.spec().mode == crds::Mode::kInteractive ? "interactive" : "batch", rule);
}
Verdict runs_too_long(const Case& c) {
  return too_long(c, "maxRuntime", "maxRuntime", c.spec().max_runtime,
                  policy_of(c.policy, c.spec().mode).max_runtime);
}
Verdict idles_too_long(const Case& c) {
  return too_long(c, "idle.timeout", "idleTimeout", c.spec().idle ? c.spec().idle->timeout : std::nullopt,
                  policy_of(c.policy, c.spec().mode).idle_timeout);
}

crds::MilliGpu gpus_in_all(const crds::TrainingJobSpec& spec) {
  crds::MilliGpu gpus;
  for (const auto& role : spec.roles) {
    if (role.gpus) gpus += gpus_of(*role.gpus) * crds::most_replicas(role);
  }
  return gpus;
}
Verdict has_too_many_gpus(const Case& c) {
  if (!c.policy.max_gpus_per_job) return std::nullopt;
  const auto gpus = gpus_in_all(c.spec());
  if (gpus <= crds::MilliGpu{1000} * *c.policy.max_gpus_per_job) return std::nullopt;
  return fmt::format(
      "spec.roles: ask for {} GPUs in all, more than the {} that Project {} allows a job "
      "(policy.maxGPUsPerJob)",
      crds::to_string(gpus), *c.policy.max_gpus_per_job, c.project);
}
Verdict has_too_many_pods(const Case& c) {
  if (!c.policy.max_pods_per_job) return std::nullopt;
  const auto pods = crds::most_replicas_of(c.spec());
  if (pods <= *c.policy.max_pods_per_job) return std::nullopt;
  return fmt::format(
      "spec.roles: ask for {} pods in all, more than the {} that Project {} allows a job "
      "(policy.maxPodsPerJob)",
      pods, *c.policy.max_pods_per_job, c.project);
}

Verdict names_foreign_pool(const Case& c) {
  const auto& allowed = c.policy.allowed_pools;
  if (allowed.empty()) return std::nullopt;
  std::vector<std::string> pools = c.spec().pools;
  if (pools.empty() && !c.default_pool.empty()) pools.push_back(c.default_pool);
  for (const auto& pool : pools) {
    if (std::ranges::find(allowed, pool) != allowed.end()) continue;
    return fmt::format("spec.pools: {} is not one of {}, the pools of Project {} (policy.allowedPools){}",
                       pool, fmt::join(allowed, ", "), c.project,
                       c.spec().pools.empty() ? "; it names no pool, and this is the cluster's default" : "");
  }
  return std::nullopt;
}
// A job without a class has the cluster's default, which nobody has chosen for it.
Verdict names_foreign_class(const Case& c) {
  const auto& allowed = c.policy.allowed_priority_classes;
  const auto& name = c.spec().priority_class_name;
  if (allowed.empty() || name.empty() || std::ranges::find(allowed, name) != allowed.end())
    return std::nullopt;
  return fmt::format(
      "spec.priorityClassName: {} is not one of {}, the classes of Project {} "
      "(policy.allowedPriorityClasses)",
      name, fmt::join(allowed, ", "), c.project);
}

Verdict has_forbidden_template(const Case& c) {
  for (const auto rule : {image_from_elsewhere, image_without_version, privileged_template, claim_not_allowed,
                          resource_not_allowed}) {
    for (std::size_t i = 0; i < c.spec().roles.size(); ++i) {
      const auto& pod_template = c.spec().roles[i].pod_template;
      if (pod_template.value == nullptr) continue;
      const PodTemplate judged{fmt::format("spec.roles[{}].template", i), *pod_template.value};
      if (auto text = rule(judged, c.policy, c.project)) return text;
    }
  }
  return std::nullopt;
}

Verdict saves_in_foreign_claim(const Case& c) {
  const auto& allowed = c.policy.allowed_claims;
  if (allowed.empty() || !c.spec().checkpoint) return std::nullopt;
  const auto& name = c.spec().checkpoint->claim_name;
  if (name.empty() || std::ranges::find(allowed, name) != allowed.end()) return std::nullopt;
  return fmt::format(
      "spec.checkpoint.claimName: {} is not one of {}, the claims of Project {} (policy.allowedClaims)", name,
      fmt::join(allowed, ", "), c.project);
}

Verdict lacks_label(const Case& c) {
  for (const auto& key : c.policy.required_labels) {
    const auto label = c.job.labels.find(key);
    if (label != c.job.labels.end() && !label->second.empty()) continue;
    return fmt::format(
        "metadata.labels: {} is not stated, and Project {} requires it (policy.requiredLabels)", key,
        c.project);
  }
  return std::nullopt;
}

// Why it is one of those that must save; "": it is not. A person at a session saves, not its program.
std::string why_it_saves(const Case& c, const crds::CheckpointPolicy& rule) {
  if (c.job.serves || c.spec().mode == crds::Mode::kInteractive) return {};
  const auto gpus = gpus_in_all(c.spec());
  if (rule.required_above_gpus && gpus > crds::MilliGpu{1000} * *rule.required_above_gpus)
    return fmt::format("has {} GPUs, more than {} (policy.checkpoint.requiredAboveGPUs)",
                       crds::to_string(gpus), *rule.required_above_gpus);
  const auto& longest = c.spec().max_runtime;
  if (!rule.required_above_runtime || (longest && *longest <= *rule.required_above_runtime)) return {};
  return fmt::format("may run {}, more than {} (policy.checkpoint.requiredAboveRuntime)",
                     longest ? "for " + crds::to_string(*longest) : "without end",
                     crds::to_string(*rule.required_above_runtime));
}
Verdict does_not_save(const Case& c) {
  if (!c.policy.checkpoint) return std::nullopt;
  const auto& rule = *c.policy.checkpoint;
  const auto why = why_it_saves(c, rule);
  if (why.empty()) return std::nullopt;
  if (!c.spec().checkpoint)
    return fmt::format("spec.checkpoint: must be stated in Project {}, because the job {}", c.project, why);
  if (!rule.max_interval) return std::nullopt;
  const auto& interval = c.spec().checkpoint->interval;
  if (!interval)
    return fmt::format(
        "spec.checkpoint.interval: must be stated in Project {}, and be at most {} "
        "(policy.checkpoint.maxInterval), because the job {}",
        c.project, crds::to_string(*rule.max_interval), why);
  if (*interval <= *rule.max_interval) return std::nullopt;
  return fmt::format(
      "spec.checkpoint.interval: {} is more than the {} that Project {} allows "
      "(policy.checkpoint.maxInterval), because the job {}",
      crds::to_string(*interval), crds::to_string(*rule.max_interval), c.project, why);
}

// A pod that is told to go holds its GPUs for so long at most.
Verdict takes_too_long_to_go(const Case& c) {
  const auto& longest = c.policy.max_grace_period;
  if (!longest) return std::nullopt;
  const auto too_much = [&](const std::string& field, const std::string& asked) {
    return fmt::format("{}: {} is more than the {} that Project {} allows (policy.maxGracePeriod)", field,
                       asked, crds::to_string(*longest), c.project);
  };
  if (c.spec().checkpoint) {
    const auto& grace = c.spec().checkpoint->grace_period;
    if (grace <= *longest) return std::nullopt;
    return too_much("spec.checkpoint.gracePeriod", crds::to_string(grace));
  }
  for (std::size_t i = 0; i < c.spec().roles.size(); ++i) {
    const Json* grace =
        find(c.spec().roles[i].pod_template.value.get(), "spec", "terminationGracePeriodSeconds");
    if (grace == nullptr || !grace->is_number_integer() || grace->get<std::int64_t>() <= longest->count())
      continue;
    return too_much(fmt::format("spec.roles[{}].template.spec.terminationGracePeriodSeconds", i),
                    grace->dump());
  }
  return std::nullopt;
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

bool allows_class(const crds::Project& project, std::string_view name) {
  if (!project.spec.policy) return true;
  const auto& allowed = project.spec.policy->allowed_priority_classes;
  return allowed.empty() || std::ranges::find(allowed, name) != allowed.end();
}

std::optional<std::string> violation(const crds::Project& project, const Judged& job,
                                     const std::string& default_pool) {
  if (!project.spec.policy) return std::nullopt;
  const Case c{*project.spec.policy, project.metadata.name, job, default_pool};
  // In the order in which the API server judges them.
  for (const auto rule : {runs_too_long, idles_too_long, has_too_many_gpus, names_foreign_pool,
                          has_too_many_pods, names_foreign_class, has_forbidden_template,
                          saves_in_foreign_claim, lacks_label, does_not_save, takes_too_long_to_go}) {
    if (auto text = rule(c)) return text;
  }
  return std::nullopt;
}

}  // namespace muster::reconcilers
