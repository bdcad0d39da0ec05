// RULES.md 8 and Drain (3.6): what runs and cannot stay as it is, because its places are lost, an older
// admission holds its GPU, or its Queue is drained. This is decided before any waiting job is served.
#pragma once

#include "model/cluster_model.h"
#include "plan/decisions.h"

namespace muster::placement {

// Of two admissions that hold one GPU beyond what it has, the older one stays.
void end_double_use(ClusterModel& s, Decisions& decisions);

// What stands below a Queue that is drained is let go. `pool`: where.
void drain(ClusterModel& s, Decisions& decisions, const Pool& pool);

// All lost pods of a gang get another place in one decision, the healthy ones keep theirs. An elastic gang
// goes on without them if it may; else, where there is no room, it is taken back whole. Complexity: a search
// for places for each gang that has lost some.
void replace_displaced(ClusterModel& s, Decisions& decisions);

}  // namespace muster::placement
