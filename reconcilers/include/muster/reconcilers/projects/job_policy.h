// What a Project's policy means for one job: what the job takes from the defaults, and whether it is allowed.
// Pure functions. Rules that the API server can see are in manifests/base/project-policies.yaml as well, in
// the same words; these here judge what is taken too, and jobs that were there before a rule.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "muster/crds/project.h"
#include "muster/crds/training_job.h"

namespace muster::reconcilers {

// What the spec leaves out and the Project states; empty: nothing.
crds::Effective taken_from(const crds::Project& project, const crds::TrainingJobSpec& spec);

// The spec as it counts: with what was taken filled in. Roles that it does not have are passed over.
crds::TrainingJobSpec with(const crds::Effective& taken, crds::TrainingJobSpec spec);

// Whether a service that names no class may get this one.
bool allows_class(const crds::Project& project, std::string_view name);

// What is judged: a job, or a replica of a service.
struct Judged {
  const crds::TrainingJobSpec& spec;  // taken values filled in
  const crds::StringMap& labels;      // of a replica those of its service
  bool serves = false;                // a replica: it has no end and saves nothing
};

// Why this is not allowed in the project, with field, rule and numbers; nullopt: it is. Of several rules the
// first tells. `default_pool`: what a job that names no pool means; "": none.
std::optional<std::string> violation(const crds::Project& project, const Judged& job,
                                     const std::string& default_pool);

}  // namespace muster::reconcilers
