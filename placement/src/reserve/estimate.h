// RULES.md 7.6: when a waiting job is likely to start, as far as somebody can say when running jobs end.
#pragma once

#include <optional>

#include "model/cluster_model.h"

namespace muster::placement {

// The claimants of one pool are asked about in their order. Each starts when what is free in all, and what
// ends until then, is enough for it and for all before it. A job ends by its max_runtime, and without one
// when half of the jobs like it had ended; if that is over, when nine of ten had. It is an estimate: it does
// not look at places and eligibility, nor at what claimants before it will give back. O(pods of the jobs that
// have to end) for all claimants together.
class Estimate {
 public:
  Estimate(const ClusterModel& state, PoolId pool);

  // When there is room for it, after all before it; now, where enough is free already. nullopt: of too little
  // of what runs is it known when it ends.
  std::optional<Time> room(const Resources& asked);
  // The same for one that waits though nothing but room is in its way. nullopt also where enough in all is
  // free already: then it waits for something that is not known here.
  std::optional<Time> next(const Resources& asked);
  // What next() has said rests on how long other jobs took, too.
  bool rests_on_history() const { return rests_on_history_; }

 private:
  using Ends = std::set<std::pair<Time, JobId>>;
  bool another_ends();  // adds to free_ what it gives back; false: of no other job is its end known
  // Of the two instants of a job the first one that is still to come counts.
  bool is_counted(const std::pair<Time, JobId>& learned) const;

  const ClusterModel& s_;
  const Ends &ends_, &learned_ends_;
  Ends::const_iterator next_, late_;  // those that end after now; those that should have ended
  Ends::const_iterator learned_;      // of learned_ends_, after now
  Time reached_;                      // when the last of them ends
  bool any_ended_ = false, rests_on_history_ = false;
  Resources free_;
};

}  // namespace muster::placement
