// RULES.md 7.1 and 7.3, node reservations: the first in order that has waited long enough gets the nodes
// reserved where it can start earliest.
#pragma once

#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "model/cluster_model.h"

namespace muster::placement {

// Drops the pool's reservation if its owner does not wait there any more, is held, or lacks nothing but room
// under a limit or a quota, or if its nodes are no longer all there; or if it is late, so that a new one is
// made. What was refused because of it may fit then.
// It keeps nodes, not room under limits and quotas: that is only seen when the time is found.
void refresh_reservation(ClusterModel& state, PoolId pool);

// Reserves for the first that is refused (in the order of service) that lacks places and could start at all
// if others ended, once it has waited for PoolSpec::reservation_after, counted from its submission or, if
// that is later, from when it last held something. Earliest by the max_runtime of what runs; where that is
// not enough, those without one are expected to end in the order in which they began. Sets Pool::due.
// O(running jobs x their pods), rarely.
//
// One after the other, as they are refused: who comes after it in the same plan is kept off already. A new
// process, which knows of no reservation, would else give away at once what was kept.
struct Reserving {
  std::size_t looked_at = 0, tried = 0;
  std::set<std::tuple<QueueId, RequestId, bool>> passed_over;  // leaf, request, preemptible
  bool over = false;  // whose turn it is has not waited for long enough
};
void reserve_for(ClusterModel& state, PoolId pool, JobId refused, Reserving& search);
// For the first of all that were refused, as things are at the end of a plan; and when to look again.
void reserve(ClusterModel& state, PoolId pool, const std::vector<JobId>& refused);

}  // namespace muster::placement
