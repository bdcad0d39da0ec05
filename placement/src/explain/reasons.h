// RULES.md 7.4: the words and numbers of each pending reason.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "explain/words.h"
#include "model/cluster_model.h"
#include "pool/request.h"
#include "shares/admission.h"
#include "shares/eligibility.h"

namespace muster::placement {

inline constexpr std::size_t kMaxHolders = 8;    // in Blocking::by
inline constexpr std::size_t kHoldersNamed = 3;  // in a sentence

// Reasons that need no look at any node: no Project, a broken tree, Hold. The first that is true counts.
std::optional<PendingReason> reason_of_leaf(const QueueTree& tree, QueueId leaf,
                                            const std::vector<QueueId>& path);
// Reserved: RULES.md 3.6 and 7.5. nullopt: no drain is in the way.
std::optional<PendingReason> reason_of_drain(const ClusterModel& state, const Job& job, PoolId pool,
                                             const std::vector<QueueId>& path);
// A job that stands in no pending queue.
PendingReason reason_of_sidelined(const ClusterModel& state, const Job& job);
PendingReason reason_of_bound(const ClusterModel& state, const BrokenBound& bound, PoolId pool);
// FairShareReached: there is no free room, and the claimant is not eligible to take from others. `theirs` is
// what others could give, and what is free. nullopt: something else is missing, or `theirs` would not be
// enough.
std::optional<PendingReason> reason_of_fair_share(const ClusterModel& state, const Claimant& claimant,
                                                  const Resources& theirs);
// Reserved: RULES.md 7.5.
PendingReason reason_of_reservation(const ClusterModel& state, const Job& job, PoolId pool);
// For the owner of a reservation: what it lacks, and what is kept for it.
PendingReason reason_of_owner(const ClusterModel& state, PendingReason shortage,
                              const Reservation& reservation);
// For a job whose places are nominated: who is still there. Leaves the model as it was.
PendingReason reason_of_nomination(ClusterModel& state, JobId job);
// For a request that found no place. Notes in the refusal whether it ever could find one. O(nodes of the
// pool).
PendingReason reason_of_shortage(ClusterModel& state, Request& request, PoolId pool, Refusal& refusal);

// TopologyUnsatisfiable: no domain meets the topology rules of the request with what is free now, or
// (if_empty) even if all nodes were empty. nullopt: as far as counting can tell, some domain does.
// Request::eligible must be filled. O(nodes of the pool x roles).
std::optional<PendingReason> reason_of_topology(const ClusterModel& state, const Request& request,
                                                PoolId pool, bool if_empty);

}  // namespace muster::placement
