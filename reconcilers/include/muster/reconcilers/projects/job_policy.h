// What a Project's policy means for one job: what the job takes from the defaults, and whether it is allowed.
// Pure functions. Rules that the API server can see are in manifests/base/project-policies.yaml as well, in
// the same words; these here judge what is taken too, and jobs that were there before a rule.
#pragma once

#include <optional>
#include <string>

#include "muster/crds/project.h"
#include "muster/crds/training_job.h"

namespace muster::reconcilers {

// What the spec leaves out and the Project states; empty: nothing.
crds::Effective taken_from(const crds::Project& project, const crds::TrainingJobSpec& spec);

// The spec as it counts: with what was taken filled in. Roles that it does not have are passed over.
crds::TrainingJobSpec with(const crds::Effective& taken, crds::TrainingJobSpec spec);

// Why a job with this spec (taken values filled in) is not allowed in the project, with rule and numbers;
// nullopt: it is. `default_pool`: what a job that names no pool means; "": none.
std::optional<std::string> violation(const crds::Project& project, const crds::TrainingJobSpec& spec,
                                     const std::string& default_pool);

}  // namespace muster::reconcilers
