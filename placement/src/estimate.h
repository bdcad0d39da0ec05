// Rule 7: when what waits is likely to start, as far as what runs says when it ends.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "state.h"

namespace muster::placement {

// The claimants of one pool, asked for in their order: each starts when what is free in all, and what ends by
// its max_runtime until then, suffices for it and for all before it. An estimate: places, rights and what is
// given back by those before it are left out of account. O(running jobs log), then O(running jobs) for all
// claimants together.
class Estimate {
 public:
  Estimate(const State& state, PoolId pool);

  // nullopt: too little of what runs says when it ends.
  std::optional<Time> next(const Resources& asked);

 private:
  std::vector<std::pair<Time, Resources>> ends_;  // sorted by time
  std::size_t ended_ = 0;
  Time reached_;  // of the last that has ended
  Resources free_;
};

}  // namespace muster::placement
