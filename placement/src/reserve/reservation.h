// RULES.md 7.1 and 7.3, node reservations: the first in order that has waited long enough gets the nodes
// reserved where it can start earliest.
#pragma once

#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "model/cluster_model.h"

namespace muster::placement {

// Drops the pool's reservation where RULES.md 7.3 says that it ends or is late. What was refused because of
// it may fit then. A reservation keeps nodes. It does not keep room under limits and quotas: that is looked
// at only when the start is estimated.
void refresh_reservation(ClusterModel& state, PoolId pool);

// Of the pool's reservation, once the fair shares of the plan are known.
void note_rights_of_owner(ClusterModel& state, PoolId pool);

// Makes a reservation for the refused job, if it is the one that RULES.md 7.1 means. Sets Pool::due.
// O(running jobs x their pods), rarely.
//
// It is called for one job after the other, as they are refused. So jobs that come later in the same plan are
// kept off already. Otherwise a new process, which knows of no reservation, would give away at once what was
// kept.
struct Reserving {
  std::size_t looked_at = 0, tried = 0;
  std::set<std::tuple<QueueId, RequestId, bool>> passed_over;  // leaf, request, preemptible
  bool over = false;   // the job whose turn it is has not waited long enough
  JobId next = kNoId;  // that job
};
void reserve_for(ClusterModel& state, PoolId pool, JobId refused, Reserving& search);
// The same at the end of a plan, for all jobs that were refused, in their order. Also notes when to look
// again. Gives the job whose turn it will be when it has waited long enough.
JobId reserve(ClusterModel& state, PoolId pool, const std::vector<JobId>& refused);

// A plan has found out that the pool could not take the job even if all of it were empty. Nobody waits for
// its turn.
bool never_fits(const ClusterModel& state, JobId job, PoolId pool);

}  // namespace muster::placement
