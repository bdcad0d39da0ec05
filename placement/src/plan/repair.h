// Rule 8, and what else is admitted already and cannot stay as it is: GPUs that two hold, places that are
// lost, Queues that are drained. Decided before anybody who waits is served.
#pragma once

#include "model/state.h"
#include "plan/decisions.h"

namespace muster::placement {

// Of two admissions that hold one GPU beyond what it has, the older one stays.
void end_double_use(State& s, Decisions& decisions);

// What stands below a Queue that is drained is let go. `pool`: where.
void drain(State& s, Decisions& decisions, const Pool& pool);

// All lost pods of a gang get another place in one decision, the healthy ones keep theirs. An elastic gang
// goes on without them if it may; else, where there is no room, it is taken back whole. Complexity: a search
// for places for each gang that has lost some.
void replace_displaced(State& s, Decisions& decisions);

}  // namespace muster::placement
