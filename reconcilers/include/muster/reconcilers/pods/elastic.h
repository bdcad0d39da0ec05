// Sizes of gangs: what is wished for, what is there, and what of a spec the pods follow from. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/crds/training_job.h"

namespace muster::reconcilers {

// The most pods of each role, in the spec's order. That is its maxReplicas, or less if spec.elastic.replicas
// wishes for fewer pods. Then each role has its minimum, and the rest of the wish goes pod by pod to the role
// that is smallest relative to its minimum, with what is colocated with it. Placement's growth does the same.
// A wish below the minimums counts as the minimums. O(pods + roles).
std::vector<std::int32_t> most_by_role(const crds::TrainingJobSpec& spec);
// Of all roles.
std::int32_t wished_size(const crds::TrainingJobSpec& spec);

// How many pods of the role the assignment has. Of a gang of fixed size, and without an assignment: the
// role's minimum. O(pods) for an elastic role, else O(1).
std::int32_t size_of(const crds::TrainingJob& job, const crds::Role& role);

// The rank of the role's pod 0. In a gang whose members join and leave, it does not change with the sizes of
// other roles, so ranks may have gaps.
std::int32_t first_rank(const crds::TrainingJob& job, std::string_view role);

// What of a spec the pods are made from. If two specs have the same, the pods of one can run on under the
// other. The number of pods is no part of it. Neither is what Muster acts on by itself while pods run
// (priority, times).
struct MadeFrom {
  std::string places;  // of what decides where the pods can run
  std::string pods;    // of the rest

  std::string text() const { return places + "-" + pods; }
};
MadeFrom made_from(const crds::TrainingJobSpec& spec);
// Whether the pods of the assignment are those that the spec means. False after an edit that asks for other
// places, as long as nobody has acted on it, or if it is invalid.
bool is_of_this_spec(const crds::TrainingJob& job, const crds::Assignment& assignment);

}  // namespace muster::reconcilers
