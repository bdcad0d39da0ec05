// I7 for one job: what it says about why it waits is true.
#pragma once

#include <string>
#include <vector>

#include "audit/recount.h"
#include "model/cluster_model.h"

namespace muster::placement {

// `now`: what is held. Adds a sentence to `broken` for each thing that is wrong.
void audit_reason(const ClusterModel& state, const Recount& now, JobId id, std::vector<std::string>& broken);

}  // namespace muster::placement
