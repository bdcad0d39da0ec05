// RULES.md 7.4: the words and numbers of each pending reason.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "model/cluster_model.h"
#include "pool/request.h"
#include "shares/admission.h"
#include "shares/eligibility.h"

namespace muster::placement {

// Reasons that need no look at any node, by what is met first: no Project, a broken tree, Hold.
std::optional<PendingReason> reason_of_leaf(const ClusterModel& state, QueueId leaf,
                                            const std::vector<QueueId>& path);
// A job that stands in no pending queue.
PendingReason reason_of_sidelined(const ClusterModel& state, const Job& job);
PendingReason reason_of_bound(const ClusterModel& state, const BrokenBound& bound, PoolId pool);
// No free room, and no right to what others hold; `theirs`: that, and what is free. nullopt: a right is not
// what is missing, or would not be enough.
std::optional<PendingReason> reason_of_fair_share(const ClusterModel& state, const Claimant& claimant,
                                                  const Resources& theirs);
// Behind a reservation.
PendingReason reason_of_reservation(const ClusterModel& state, const Job& job, PoolId pool);
// Of who has it: what it lacks, and what is kept for it.
PendingReason reason_of_owner(const ClusterModel& state, PendingReason shortage,
                              const Reservation& reservation);
// Of a job whose places are nominated: who is still there. Leaves the state as it was.
PendingReason reason_of_nomination(ClusterModel& state, JobId job);
// Of a request that found no place; notes in the refusal whether it ever could. O(nodes of the pool).
PendingReason reason_of_shortage(ClusterModel& state, Request& request, PoolId pool, Refusal& refusal);

// Of a request whose topology rules no domain meets with what is free now, or even if all nodes were empty;
// nullopt: as far as counting goes, some does. Request::eligible must be filled. O(nodes of the pool x
// roles).
std::optional<PendingReason> reason_of_topology(const ClusterModel& state, const Request& request,
                                                PoolId pool, bool if_empty);

// "3", "2500m", "512Mi" as people write amounts of the resource (gpu, cpu, memory, pods).
std::string show(std::string_view resource, std::int64_t amount);
// "2026-01-02T03:04:05Z"; a part of a second counts as a whole one.
std::string show(Time at);
// "Project a", "Queue b".
std::string who(const QueueSpec& spec);
// "a, b, c"; of more than `most` the first ones and "…".
std::string join(const std::vector<std::string>& list, std::size_t most);

}  // namespace muster::placement
