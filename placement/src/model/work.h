// RULES.md 2.7: how much work one plan may do, and what is left for the next one.
#pragma once

#include <cstdint>
#include <set>
#include <tuple>
#include <utility>

#include "node/ids.h"
#include "pool/pool.h"

namespace muster::placement {

// Work is counted in steps, and time is not measured: the same inputs have to give the same plan on every
// machine. A step is about a look at one node or at one pod.
class WorkBudget {
 public:
  void begin(std::int64_t steps) { left_ = steps; }
  void spend(std::int64_t steps) const { left_ -= steps; }
  bool is_spent() const { return left_ <= 0; }
  std::int64_t left() const { return left_; }

 private:
  mutable std::int64_t left_ = 0;  // to count is no change of the model
};

// What plans that were cut off have refused since all were served for the last time. The plans that follow
// pass over these until everybody has had a turn.
struct Sweep {
  // Jobs of one leaf queue that ask the same in one pool. The serial is that of their request, whose id may
  // be used again.
  using Refused = std::tuple<PoolId, QueueId, PendingKind, std::uint64_t>;
  bool is_open = false;  // the last plan was cut off before everybody had a turn
  bool changed = false;  // something has changed since the first of these plans: those refused may fit now
  std::set<Refused> refused;
  std::set<std::pair<PoolId, JobId>> refused_growth;
};

}  // namespace muster::placement
