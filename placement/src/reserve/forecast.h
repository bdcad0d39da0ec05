// RULES.md 7.6: what is said to those who wait about their start, by what runs and by what schedules change.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "model/cluster_model.h"
#include "reserve/estimate.h"

namespace muster::placement {

// The claimants of one pool are asked about in their order. Who waits for nothing but room starts by the
// estimate. Who waits for an instant that schedules know (the end of a drain or a Hold, a limit or a quota
// that they change) starts at that instant, or when there is room after that. Such jobs take nothing from
// those behind them, which may start before. O(depth) for each, beside what Estimate costs.
class Forecast {
 public:
  Forecast(const ClusterModel& state, PoolId pool)
      : s_(state), pool_(pool), now_(state, pool), later_(now_) {}

  struct Answer {
    std::optional<Time> start{};  // absent: nobody knows
    bool from_history = false;    // it rests on how long other jobs took, too
  };
  // `path`: from its Project to the top.
  Answer next(const Job& job, const std::vector<QueueId>& path, const Resources& asked);
  // Of a job below a Queue that is held.
  Answer held(const Job& job, const std::vector<QueueId>& path, const Resources& asked);

 private:
  // It waits for schedules, and not before `from`.
  Answer by_schedules(const Job& job, const std::vector<QueueId>& path, const Resources& asked, Time from);

  const ClusterModel& s_;
  PoolId pool_;
  Estimate now_;                           // without those who wait for schedules
  Estimate later_;                         // with all
  std::map<QueueId, Resources> promised_;  // to those who wait for schedules, by level
};

}  // namespace muster::placement
