// RULES.md 7.6: when a waiting job is likely to start, as far as running jobs say when they end.
#pragma once

#include <optional>

#include "model/cluster_model.h"

namespace muster::placement {

// The claimants of one pool are asked about in their order. Each starts when what is free in all, and what
// ends by its max_runtime until then, is enough for it and for all before it. It is an estimate: it does not
// look at places and eligibility, nor at what claimants before it will give back. O(pods of the jobs that
// have to end) for all claimants together.
class Estimate {
 public:
  Estimate(const ClusterModel& state, PoolId pool);

  // nullopt: too little of what runs says when it ends.
  std::optional<Time> next(const Resources& asked);

 private:
  using Ends = std::set<std::pair<Time, JobId>>;
  bool another_ends();  // adds to free_ what it gives back; false: no other job says when it ends

  const ClusterModel& s_;
  const Ends& ends_;
  Ends::const_iterator next_, late_;  // those that end after now; those that should have ended
  Time reached_;                      // when the last of them ends
  bool any_ended_ = false;
  Resources free_;
};

}  // namespace muster::placement
