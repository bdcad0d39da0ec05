// RULES.md 5.12: a replica of a service is moved without being missed. The new one is made before the old one
// goes.
#pragma once

#include <cstdint>

#include "model/cluster_model.h"

namespace muster::placement {

// It serves, its service may have a replica more, and there is nothing else that keeps it.
bool may_surge(const Job& replica);
// It is on its way elsewhere: its new pods start, and the old ones stay until those are ready.
bool is_surging(const Job& job);
// `already`: how many others of its service are moved by the same solution. O(jobs of its Project).
bool has_room_to_surge(const ClusterModel& state, const Job& replica, PoolId pool, const Resources& amounts,
                       std::int32_t already);
// The replicas of its service that serve, itself included. O(jobs of its Project).
std::int32_t ready_replicas(const ClusterModel& state, const Job& replica);

}  // namespace muster::placement
