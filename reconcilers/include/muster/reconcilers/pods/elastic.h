// Sizes of gangs: what is wished for, what is there, and what of a spec the pods follow from. Pure functions.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "muster/crds/training_job.h"

namespace muster::reconcilers {

// The most pods of each role, in the spec's order: its maxReplicas, or less where spec.elastic.replicas says
// so. What that leaves above the minimums goes one by one to the role that is smallest relative to its
// minimum, as placement's growth does, with what is colocated with it. A wish below the minimums counts as
// these. O(pods + roles).
std::vector<std::int32_t> most_by_role(const crds::TrainingJobSpec& spec);
// Of all roles.
std::int32_t wished_size(const crds::TrainingJobSpec& spec);

// Pods of the role that the assignment means; of a fixed gang, and without an assignment: the least. O(pods)
// for an elastic role, else O(1).
std::int32_t size_of(const crds::TrainingJob& job, const crds::Role& role);

// The rank of the role's pod 0. Where members join and leave it does not move with the sizes of other roles:
// then ranks may have gaps.
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
// The pods of the assignment are those that the spec means. False after an edit that asks for other places
// and that was not followed yet, or is invalid.
bool is_of_this_spec(const crds::TrainingJob& job, const crds::Assignment& assignment);

}  // namespace muster::reconcilers
