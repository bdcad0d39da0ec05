// RULES.md 1.6, past use: what Queues and Projects have held, weighted by age, so that one that had more than
// its part yields for a while.
#pragma once

#include <optional>

#include "model/cluster_model.h"

namespace muster::placement {

// Kept for the children of queues with a half-life h, for each pool: an average of what was held, in which a
// moment's weight halves every h. From t to t + d, with m held on average in between:
//   average(t + d) = m + (average(t) - m) * 2^(-d/h)
// It starts at 0. Amounts are folded in when d reaches h / 256, so that shares do not change with every plan.

// Brings all averages up to `now`; to be called before anything is decided, with note_past_use() after it.
// What a tree node holds between two plans is what it held at the end of the first. O(tree nodes x pools)
// where a half-life is set, else O(tree nodes).
void advance_past_use(ClusterModel& state, Time now);
void note_past_use(ClusterModel& state);

Resources average_use(const PastByQueue& past, QueueId queue, PoolId pool);
Resources average_use(const Past& past);
void set_average_use(Past& past, const Resources& use, Time as_of);  // after a restart
void forget_past_use(ClusterModel& state, ResourceKind kind);  // which counts another resource from now on

// When some average in the pool is folded next; nullopt: none is kept.
std::optional<Time> next_fold(const ClusterModel& state, PoolId pool);

// 2^(-elapsed / half_life) in units of 2^-32; elapsed >= 0, half_life > 0.
std::uint64_t decay(Duration elapsed, Duration half_life);

}  // namespace muster::placement
