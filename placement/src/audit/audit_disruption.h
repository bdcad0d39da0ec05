// I9, for one decision.
#pragma once

#include <optional>
#include <string>

#include "model/cluster_model.h"

namespace muster::placement {

// What a job had run and lost when a plan began, by the auditor's own count.
struct LifeSoFar {
  WorkTime ran, lost;
};
LifeSoFar life_so_far(const Job& job, Time now);

// What is wrong with a disturbance that is not owed and costs so much; nullopt: nothing.
std::optional<std::string> beyond_bound(const ClusterModel& state, const Job& job, const LifeSoFar& before,
                                        WorkTime cost);

// What the claimant's fair share gives it a right to is weighed now against what its quota does: it has
// waited for long enough or stays within its guarantee, and disturbances have a price.
bool fair_share_is_due(const ClusterModel& state, const Job& claimant, bool is_guaranteed, Time now);

}  // namespace muster::placement
