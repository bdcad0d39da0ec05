// RULES.md 8 and Drain (3.6): what runs and cannot stay as it is, because its places are lost, an older
// admission holds its GPU, or its Queue is drained. This is decided before any waiting job is served.
#pragma once

#include "model/cluster_model.h"
#include "plan/decisions.h"

namespace muster::placement {

// RULES.md 8.4: of two admissions that hold one GPU beyond what it has, the older one stays.
void end_double_use(ClusterModel& s, Decisions& decisions);

// RULES.md 3.6: what holds places in this pool below a drained Queue is evicted, in batches where the Queue
// says so. The next batch needs no timer and no memory: when pods are gone, the pool has changed.
void drain(ClusterModel& s, Decisions& decisions, PoolId pool);

// RULES.md 8.2 and 8.3: all lost pods of a gang get other places in one decision, and the healthy ones keep
// theirs. Where there is no room, an elastic gang goes on without them if it keeps its minimum; any other
// gang is evicted whole. A search for places for each gang that has lost pods.
void replace_displaced(ClusterModel& s, Decisions& decisions);

}  // namespace muster::placement
