// Rule 7, backfill: who may start beside a reservation, and who is kept off the nodes that it keeps.
#pragma once

#include <vector>

#include "model/state.h"

namespace muster::placement {

// At each level of the path, from the leaf up: whether it stays within quota, and within fair share.
// `placed`: what it asks is among what is allocated.
std::vector<Rights> rights_at(const State& state, const std::vector<LeafId>& path, PoolId pool,
                              const Resources& asked, bool placed);

// The job may not use the reserved nodes. All others than the owner are kept off, but who
// * ends by its max_runtime before the owner starts (where that is not known: within reservation_after);
// * is preemptible and cheap to remove: its checkpoint interval and restart are within reservation_after, its
//   minRuntime is over before the owner starts, and the owner could take from it by rule 5;
// * is of the owner's leaf and has a higher priority, or stays within quota or within fair share at every
//   level below what it has in common with the owner, which does neither: it goes before the owner, and might
//   take from others, beside idle nodes.
// `asked`: what it is about, all of a gang that waits, one replica of one that grows; `placed`: that is among
// what is allocated. O(depth).
bool kept_off(const State& state, JobId job, PoolId pool, const Resources& asked, bool placed = false);

}  // namespace muster::placement
