// The auditor: what must hold, recounted from scratch.
#pragma once

#include <string>
#include <vector>

#include "muster/placement/cluster.h"

namespace muster::placement {

// I1 to I3 for what a plan has just decided: its starts fit their nodes, come whole and keep to limits and
// quotas. (For what was decided elsewhere or earlier they may be broken by a later edit, which is no defect
// of the model.)
std::vector<std::string> audit_decisions(const State& state, const Plan& plan);

// Cluster::audit() and audit_decisions(), or says on standard error what is broken and aborts. For debug
// builds.
void require_sound(Cluster& cluster, const Plan& plan);

}  // namespace muster::placement
