// Which claimants need not be served at all, told without looking at each of them.
#pragma once

#include <map>
#include <vector>

#include "state.h"

namespace muster::placement {

// For one pool and one round of a plan, at its beginning. While jobs start, what is hopeless stays so; when
// something ends, there is another round.
class Hopeless {
 public:
  Hopeless(State& state, PoolId pool, const std::vector<Resources>& fair)
      : s_(state), pool_(pool), fair_(fair) {}

  // No job of this kind (`first` is one) in the leaf of `path` can start: the totals say that there is no
  // room for what it asks, too little is free to be joined by moving others, and its leaf has no right to
  // take from others and nothing to preempt. false: they do not say. O(depth), once for each request
  // O(distinct numbers of free GPUs x models).
  bool operator()(const std::vector<LeafId>& path, const WaitKind& kind, JobId first);

 private:
  bool no_room(RequestId request, JobId first);

  State& s_;
  PoolId pool_;
  const std::vector<Resources>& fair_;
  std::map<RequestId, bool> no_room_;
};

}  // namespace muster::placement
