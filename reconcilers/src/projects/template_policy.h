// Which pod templates a Project's policy allows: images, tags, privileges, claims and resources. Pure. The
// same rules are in manifests/base/project-policies.yaml, in the same words and the same order.
#pragma once

#include <optional>
#include <string>

#include "muster/crds/project.h"

namespace muster::reconcilers {

struct PodTemplate {
  std::string at;           // its field: "spec.roles[0].template"
  const crds::Json& value;  // a PodTemplateSpec
};

// Each: why the template is not allowed, with its field and the rule; nullopt: it is. Containers, init
// containers (so also sidecars) and volumes that are images count.
std::optional<std::string> image_from_elsewhere(const PodTemplate& pod, const crds::ProjectPolicy& policy,
                                                const std::string& project);
std::optional<std::string> image_without_version(const PodTemplate& pod, const crds::ProjectPolicy& policy,
                                                 const std::string& project);
std::optional<std::string> privileged_template(const PodTemplate& pod, const crds::ProjectPolicy& policy,
                                               const std::string& project);

// Claims that it mounts, and resources that it asks for.
std::optional<std::string> claim_not_allowed(const PodTemplate& pod, const crds::ProjectPolicy& policy,
                                             const std::string& project);
std::optional<std::string> resource_not_allowed(const PodTemplate& pod, const crds::ProjectPolicy& policy,
                                                const std::string& project);

// The image states a digest, or a tag other than latest.
bool states_version(const std::string& image);

}  // namespace muster::reconcilers
