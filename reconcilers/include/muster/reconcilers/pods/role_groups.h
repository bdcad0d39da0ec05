// A replica of an InferenceService with roles is one TrainingJob: all roles start together, or none does. The
// pods of a role are groups of equal size in the order of their indexes, and the first pod of a group leads
// it. The TrainingJob itself knows no groups. Annotations tell its pods of them, and they decide nothing
// else.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include "muster/crds/inference_service.h"
#include "muster/crds/training_job.h"

namespace muster::reconcilers {

// Annotations of such a job: "muster.dev/group-size.<role>" of each role, and the role whose leaders answer.
inline constexpr std::string_view kGroupSizeAnnotation = "muster.dev/group-size.";
inline constexpr std::string_view kTrafficRoleAnnotation = "muster.dev/traffic-role";

// Writes them down: `job` has the service's roles.
void note_groups(crds::TrainingJob& job, const crds::InferenceServiceSpec& spec);

// Pods of a group of this role; 0: its pods are no groups.
std::int32_t group_size_of(const crds::TrainingJob& job, std::string_view role);
bool takes_traffic(const crds::TrainingJob& job, std::string_view role);

}  // namespace muster::reconcilers
