// RULES.md 5.8, who is taken first: the list of candidates, which sets of units are tried first, and which of
// two sets that would do is better. No other file of the code has a say in that.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "node/wide.h"
#include "shares/eligibility.h"
#include "victims/units.h"

namespace muster::placement {

// What the job loses if these amounts of it are taken now: milliseconds of work and of its next start, times
// millionths of the pool. A job that has not begun loses nothing.
Wide lost_work(const ClusterModel& state, const Job& job, PoolId pool, const Resources& amounts, Time now);

// Puts the candidates into the order of the list in RULES.md 5.8. Surplus of a job always goes before its
// minimum.
std::vector<Unit> in_taking_order(const ClusterModel& state, const Claimant& claimant, std::vector<Unit> all);

// How good a set of units is; smaller is better. These are keys 6 to 10 of RULES.md 5.8: own units (only
// where reclaim and preemption are used together), leaf queues that fall below their quota, lost work, jobs
// that stop, and the set itself as sorted indexes, which follow the order of the units.
using Preference = std::tuple<int, int, Wide, std::size_t, std::vector<std::size_t>>;

class VictimSets {
 public:
  // To be made before any of the units is taken. It keeps references to everything but the action.
  VictimSets(const ClusterModel& state, const Claimant& claimant, Action action,
             const std::vector<Unit>& units);

  // O(taken x units).
  Preference preference(std::vector<std::size_t> taken) const;
  // Both sets would do. True: in place of some units of `taken`, `instead` has only units of lower priority
  // of the same leaf queue, and takes no more own units and leaves no more leaf queues below quota. Then
  // `taken` is passed over, whatever it costs (RULES.md 5.8). Both are sorted. O(units).
  bool outdone(const std::vector<std::size_t>& taken, const std::vector<std::size_t>& instead) const;
  // Units that could go in place of some units of `taken`, because they are of lower priority and of the same
  // leaf queue. Looked for is the highest priority in `taken` for which there are any. Empty: there are none.
  // O(units).
  struct Juniors {
    std::vector<std::size_t> seniors, juniors;  // of `taken`; not in it, in the order of the units
  };
  Juniors juniors(const std::vector<std::size_t>& taken) const;
  // All sets that can be, the best first. Of moves only the small sets. Only for few units: O(2^units).
  std::vector<std::vector<std::size_t>> all() const;

 private:
  int own(const std::vector<std::size_t>& taken) const;
  int below_quota(const std::vector<std::size_t>& taken) const;

  const AccountedKinds& kinds_;
  const Claimant& claimant_;
  Action action_;
  const std::vector<Unit>& units_;
  std::map<QueueId, Resources> beyond_;  // its quota, before anything is taken
};

}  // namespace muster::placement
