#include "projects/template_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <vector>

#include "muster/reconcilers/common/json_reader.h"

namespace muster::reconcilers {
namespace {

using crds::Json;

struct Stated {
  std::string at;
  std::string value;
};

// Of all that the template runs or mounts, as it is written.
std::vector<Stated> images_of(const PodTemplate& pod) {
  std::vector<Stated> all;
  const auto add = [&](const std::string& at, const Json* image) {
    if (image != nullptr && image->is_string()) all.push_back({at, image->get<std::string>()});
  };
  for (const char* list : {"containers", "initContainers"}) {
    std::size_t i = 0;
    for (const Json& container : items(find(&pod.value, "spec", list)))
      add(fmt::format("{}.spec.{}[{}].image", pod.at, list, i++), find(container, "image"));
  }
  std::size_t i = 0;
  for (const Json& volume : items(find(&pod.value, "spec", "volumes")))
    add(fmt::format("{}.spec.volumes[{}].image.reference", pod.at, i++), find(&volume, "image", "reference"));
  return all;
}

std::string not_one_of(const std::string& value, const std::vector<std::string>& allowed, const char* what,
                       const std::string& project, const char* rule) {
  return fmt::format("{} is not one of {}, the {} of Project {} (policy.{})", value, fmt::join(allowed, ", "),
                     what, project, rule);
}

// The first that a list of resources asks for and that is not allowed; "": none. CPUs, memory and the node's
// disk anybody may ask for; GPUs no template may.
std::string foreign_in(const Json* resources, const std::vector<std::string>& allowed) {
  std::set<std::string> names;
  for (const char* list : {"requests", "limits"}) {
    const Json* stated = find(resources, list);
    if (stated == nullptr || !stated->is_object()) continue;
    for (const auto& [name, amount] : stated->items()) names.insert(name);
  }
  const auto foreign = std::ranges::find_if(names, [&](const std::string& name) {
    return name != "cpu" && name != "memory" && name != "ephemeral-storage" &&
           std::ranges::find(allowed, name) == allowed.end();
  });
  return foreign == names.end() ? std::string() : *foreign;
}

}  // namespace

bool states_version(const std::string& image) {
  if (image.contains('@')) return true;
  const auto colon = image.rfind(':');
  if (colon == std::string::npos) return false;
  const auto tag = std::string_view(image).substr(colon + 1);  // or a port, and then a path
  return !tag.empty() && tag != "latest" && !tag.contains('/');
}

std::optional<std::string> image_from_elsewhere(const PodTemplate& pod, const crds::ProjectPolicy& policy,
                                                const std::string& project) {
  const auto& allowed = policy.allowed_image_prefixes;
  if (allowed.empty()) return std::nullopt;
  for (const auto& image : images_of(pod)) {
    const bool is_allowed = std::ranges::any_of(
        allowed, [&](const std::string& prefix) { return image.value.starts_with(prefix); });
    if (is_allowed) continue;
    return fmt::format("{}: {} begins with none of {}, which Project {} allows (policy.allowedImagePrefixes)",
                       image.at, image.value, fmt::join(allowed, ", "), project);
  }
  return std::nullopt;
}

std::optional<std::string> image_without_version(const PodTemplate& pod, const crds::ProjectPolicy& policy,
                                                 const std::string& project) {
  if (!policy.forbid_latest_tag) return std::nullopt;
  for (const auto& image : images_of(pod)) {
    if (states_version(image.value)) continue;
    return fmt::format(
        "{}: {} means the tag latest, which Project {} forbids (policy.forbidLatestTag); state another tag, "
        "or a digest",
        image.at, image.value, project);
  }
  return std::nullopt;
}

std::optional<std::string> privileged_template(const PodTemplate& pod, const crds::ProjectPolicy& policy,
                                               const std::string& project) {
  if (!policy.forbid_privileged) return std::nullopt;
  const auto forbidden = [&](const std::string& at) {
    return fmt::format("{}.spec.{}: true is not allowed in Project {} (policy.forbidPrivileged)", pod.at, at,
                       project);
  };
  for (const char* field : {"hostNetwork", "hostPID", "hostIPC"}) {
    if (is_true(find(&pod.value, "spec", field))) return forbidden(field);
  }
  for (const char* list : {"containers", "initContainers"}) {
    std::size_t i = 0;
    for (const Json& container : items(find(&pod.value, "spec", list))) {
      if (is_true(find(&container, "securityContext", "privileged")))
        return forbidden(fmt::format("{}[{}].securityContext.privileged", list, i));
      ++i;
    }
  }
  return std::nullopt;
}

std::optional<std::string> claim_not_allowed(const PodTemplate& pod, const crds::ProjectPolicy& policy,
                                             const std::string& project) {
  const auto& allowed = policy.allowed_claims;
  if (allowed.empty()) return std::nullopt;
  std::size_t i = 0;
  for (const Json& volume : items(find(&pod.value, "spec", "volumes"))) {
    const auto at = i++;
    const Json* claim = find(&volume, "persistentVolumeClaim", "claimName");
    if (claim == nullptr || !claim->is_string()) continue;
    const auto name = claim->get<std::string>();
    if (std::ranges::find(allowed, name) != allowed.end()) continue;
    return fmt::format("{}.spec.volumes[{}].persistentVolumeClaim.claimName: {}", pod.at, at,
                       not_one_of(name, allowed, "claims", project, "allowedClaims"));
  }
  return std::nullopt;
}

std::optional<std::string> resource_not_allowed(const PodTemplate& pod, const crds::ProjectPolicy& policy,
                                                const std::string& project) {
  const auto& allowed = policy.allowed_resources;
  if (allowed.empty()) return std::nullopt;
  const auto judge = [&](const std::string& at, const Json* resources) -> std::optional<std::string> {
    const auto name = foreign_in(resources, allowed);
    if (name.empty()) return std::nullopt;
    return fmt::format("{}.spec.{}: {}", pod.at, at,
                       not_one_of(name, allowed, "resources", project, "allowedResources"));
  };
  for (const char* list : {"containers", "initContainers"}) {
    std::size_t i = 0;
    for (const Json& container : items(find(&pod.value, "spec", list))) {
      if (auto text = judge(fmt::format("{}[{}].resources", list, i++), find(&container, "resources")))
        return text;
    }
  }
  return judge("resources", find(&pod.value, "spec", "resources"));
}

}  // namespace muster::reconcilers
