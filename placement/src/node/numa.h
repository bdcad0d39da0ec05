// RULES.md 4.6: the NUMA nodes ("zones") of a machine. Which of its GPUs, CPUs and memory belong together?
#pragma once

#include <cstdint>
#include <vector>

#include "node/node.h"

namespace muster::placement {

// All GPUs of a pod of the role have to come from one zone there: the pod demands it, or the kubelet turns
// away what is on several.
bool must_align(const NodeSpec& node, const RoleSpec& role);

// The zone of a GPU; -1: not known.
std::int32_t zone_at(const NodeSpec& node, std::int32_t gpu);

// The zone that all these GPUs are on; -1: none, several, or not known.
std::int32_t zone_of(const NodeSpec& node, const std::vector<std::int32_t>& gpus);

// One more than the highest zone that the node has anything in; 0: nothing is known of its zones.
std::int32_t zones_of(const NodeSpec& node);

// GPUs of the zone that has most.
std::int32_t largest_zone(const NodeSpec& node);

// How many pods of the role find CPU and memory in the zone; INT64_MAX where the node does not tell what its
// zones have, or gives CPUs of all zones to such a pod. What pods hold that are on no single zone is not
// known by zone: the rest of the whole node bounds it.
std::int64_t room_in_zone(const Node& node, std::int32_t zone, const RoleSpec& role, View view);

// The same for an empty node.
bool zone_would_do(const NodeSpec& node, std::int32_t zone, const RoleSpec& role);

}  // namespace muster::placement
