// RULES.md 7.2: who may use reserved nodes (backfill), and who is kept off.
#pragma once

#include <vector>

#include "model/cluster_model.h"

namespace muster::placement {

// For each level of the path, from the Project up: whether it stays within quota, and within fair share.
// `placed`: what it asks for is among what is allocated already.
std::vector<BoundsKept> bounds_kept(const ClusterModel& state, const std::vector<QueueId>& path, PoolId pool,
                                    const Resources& asked, bool placed);

// What is kept at every level of the path that is not on `beside`, too.
BoundsKept kept_throughout(const std::vector<BoundsKept>& kept, const std::vector<QueueId>& path,
                           const std::vector<QueueId>& beside);

// Whether the job may not use the reserved nodes. RULES.md 7.2 has the exceptions; each is a condition here.
// `asked` is what it is about: all of a gang that waits, or one replica of a gang that grows. `placed`: that
// is among what is allocated already. O(depth).
bool kept_off(const ClusterModel& state, JobId job, PoolId pool, const Resources& asked, bool placed = false);

// What is free on the nodes of the pool that are not kept for the owner of its reservation. GPUs count whole
// where whole ones are asked for.
Resources free_beside_reservation(const ClusterModel& state, const Pool& pool, const Resources& asked);

}  // namespace muster::placement
