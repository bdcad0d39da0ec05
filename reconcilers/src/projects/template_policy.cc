#include "projects/template_policy.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
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

}  // namespace muster::reconcilers
