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
  Hopeless(const State& state, PoolId pool, const std::vector<Resources>& fair)
      : s_(state), pool_(pool), fair_(fair) {}

  // `lowest`: of lowest_running(). No job of this kind in this leaf can start: too little is free in all, its
  // leaf has no right to take from others and nothing to preempt. false: the totals do not say. O(1), once
  // for each request O(roles).
  bool operator()(LeafId leaf, std::int64_t lowest, const WaitKind& kind);

 private:
  const Resources* lacking(RequestId request);  // what it asks, where that is more than is free

  const State& s_;
  PoolId pool_;
  const std::vector<Resources>& fair_;
  std::map<RequestId, std::pair<bool, Resources>> asked_;  // and whether that is more than is free
};

}  // namespace muster::placement
