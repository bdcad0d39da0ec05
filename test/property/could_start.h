// Work conservation, counted without the search, the indexes or the bounds of the code under test: whether a
// job of one role could start, or grow, in room that is free.
#pragma once

#include "muster/placement/cluster.h"

namespace muster::placement {

// It waits, and there is room for its minimum in one of its pools, under all limits and quotas, beside what
// is reserved. False also where that cannot be told by counting alone: several roles, rules that nest,
// NUMA nodes, affinity between pods, shares of GPUs by memory.
bool could_start(Cluster& cluster, const JobSpec& spec);

// It runs, is elastic, its grow_after is over, there is room for one more replica, and growth is free to it.
bool could_grow(Cluster& cluster, const JobSpec& spec, Time now);

}  // namespace muster::placement
