// RULES.md 5.11: what it costs to disturb a job, and what of that is allowed where it is not owed.
#pragma once

#include <optional>
#include <vector>

#include "model/cluster_model.h"
#include "node/wide.h"

namespace muster::placement {

// What the nearest Queue says that sets it.
struct DisruptionTerms {
  std::int32_t max_overhead = kMaxOverhead;  // per cent
  Duration patience = kPatience;

  // Disturbances count as free: the order of RULES.md 5.8 alone decides.
  bool free() const { return max_overhead >= 100; }
};
DisruptionTerms disruption_terms(const QueueTree& tree, const std::vector<QueueId>& path);

// Since when the job waits: its submission or, if that is later, when it last held something.
Time waits_since(const Job& job);

// What the job holds and runs on, in thousandths of a GPU; of a job without GPUs, of a CPU. O(its pods).
std::int64_t size_of(const Job& job);
// What the job has run in its life. O(its pods).
WorkTime has_run(const Job& job, Time now);

// For how long the whole gang does no work that is kept, if it is stopped now (evicted or moved), and if its
// size changes. Both count the work that is lost, the stop and the next start; a change in place is none of
// these.
Duration downtime_of_going(const Job& job, Time now);
Duration downtime_of_resizing(const Job& job, Time now);

// The job may be disturbed for so long although that is not owed: with what it has lost in its life to such
// disturbances it stays within the bound. `from`: where it may not, since when it will; absent: never, as far
// as is known now.
struct Bounded {
  bool allowed = false;
  std::optional<Time> from;
};
// `stops`: what it would lose by that is part of the downtime.
Bounded within_bound(const Job& job, const DisruptionTerms& terms, Duration downtime, Time now,
                     bool stops = true);

// Downtime of so much of the pool, in milliseconds x millionths of its dominant resource. So the costs of
// jobs with and without GPUs can be compared.
Wide cost_in_pool(const ClusterModel& state, PoolId pool, const Resources& amounts, Duration downtime);

// When room that idles since then at this rate (cost_in_pool() of a millisecond) has cost as much. Absent:
// never.
std::optional<Time> breaks_even(Wide cost, Wide rate, Time since);

// Growth disturbs the gang itself. It pays when the room that it would take has idled for several times as
// long as the gang is disturbed by it: such room seldom stays, and to give it back disturbs the gang again.
// Room that comes bit by bit is taken in one go, so all of it counts.
struct RoomTime {
  Time since, now;
};
std::optional<Time> growth_pays(const ClusterModel& state, const Job& job, PoolId pool,
                                const Resources& grows_by, RoomTime room);

// Growth within the guarantee may evict or move whole jobs, which costs `cost`. It does so when it has waited
// for the replicas `grows_by` since then for several times as long, or for ten minutes, and then waits anew
// for the next ones: most surplus is given back to a minimum soon.
Time growth_pays_its_victims(const ClusterModel& state, PoolId pool, Wide cost, const Resources& grows_by,
                             Time since);

// What the job has run until now is noted, because it holds other pods from now on. To be called while it
// holds the old ones.
void note_run(Job& job, Time now);
// It begins an attempt. What is known of its life stays known.
void begin_attempt(Job& job, Time now);
// It cannot grow, not at anybody's cost either: room has to be there for as long as ever once it can.
void forget_room(Job& job);

}  // namespace muster::placement
