// Rule 4, placement: a complete set of nodes and GPUs for a gang in one pool, or none.
#pragma once

#include <optional>
#include <vector>

#include "state.h"
#include "statement.h"

namespace muster::placement {

// Places all pods of the job in `pool`, in `statement`. nullopt: it does not fit, nothing is left placed, and
// `refusal` has the role for which there was no room. Pack: each role on as few nodes as possible, of equal
// ones on that which keeps least idle beside it. Spread: pod by pod on the emptiest node. Pods without GPUs
// avoid nodes with GPUs. A gang of one role is placed whenever it can be; with several roles that compete for
// the same nodes it is a heuristic, tried in two orders of the roles. O(distinct numbers of free GPUs x
// models) for each node used, when CPU and memory are not what is short and no affinity is preferred; else
// O(nodes with enough free GPUs).
std::optional<std::vector<PodPlace>> place_gang(State& state, Statement& statement, JobId job, PoolId pool,
                                                Refusal& refusal);

// One pod of the job, by the same rules.
std::optional<PodPlace> place_pod(State& state, Statement& statement, JobId job, PoolId pool,
                                  std::int32_t role, std::int32_t index);

// How many pods of the role the node has room for now.
std::int64_t room_for(const Node& node, const RoleSpec& role);

}  // namespace muster::placement
