// Who is taken first (RULES.md 5.8): the order of all legal victims, and which of two sets of them is better.
// The order is told here and nowhere else in the code.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "node/wide.h"
#include "shares/eligibility.h"
#include "victims/units.h"

namespace muster::placement {

// What the job loses if these amounts of it are taken now: milliseconds of work and of the next start, times
// millionths of the pool. A job that has not begun loses nothing.
Wide lost_work(const ClusterModel& state, const Job& job, PoolId pool, const Resources& amounts, Time now);

// In millionths; a part of nothing counts as the largest.
std::int64_t millionths(std::int64_t part, std::int64_t whole);

// The list of candidates. Inside a leaf: lower priority first, then the least lost work, the latest start,
// the id. The leaves' lists are merged by what stands first in each: below a weight of 0 first, then the
// others, then what would leave its leaf below quota, then the claimant's own leaf; then by least lost work,
// by the leaf with the largest allocated / fair share, by the latest start, by id. Surplus of a job always
// goes before its minimum.
std::vector<Unit> in_taking_order(const ClusterModel& state, const Claimant& claimant, std::vector<Unit> all);

// What a set of units is judged by; smaller is better. In this order: how many are of the claimant's own leaf
// (where reclaim and preemption are used together), how many leaves fall below their quota, lost work, how
// many jobs stop, and last the units themselves by their places in the list.
using Preference = std::tuple<int, int, Wide, std::size_t, std::vector<std::size_t>>;

class VictimSets {
 public:
  // Before any of the units is taken. Keeps references to all but the action.
  VictimSets(const ClusterModel& state, const Claimant& claimant, Action action,
             const std::vector<Unit>& units);

  // O(taken x units).
  Preference preference(std::vector<std::size_t> taken) const;
  // Of two sets that would both do: `taken` has units for which `instead` has none but such of lower priority
  // of the same leaf, and nothing speaks against these. Then `taken` is not to be, whatever it costs. Both
  // sorted. O(units).
  bool outdone(const std::vector<std::size_t>& taken, const std::vector<std::size_t>& instead) const;
  // Those that could stand in for some unit of `taken`: of the same leaf and of lower priority than one of
  // it. Of the highest priority for which there are any. Empty: there are none. O(units).
  struct Juniors {
    std::vector<std::size_t> seniors, juniors;  // of `taken`; not in it, in the order of the units
  };
  Juniors juniors(const std::vector<std::size_t>& taken) const;
  // All that can be, in the order of preference; of those that are to move only the small ones. For few
  // units: O(2^units).
  std::vector<std::vector<std::size_t>> all() const;

 private:
  int own(const std::vector<std::size_t>& taken) const;
  int below_quota(const std::vector<std::size_t>& taken) const;

  const Claimant& claimant_;
  Action action_;
  const std::vector<Unit>& units_;
  std::map<QueueId, Resources> beyond_;  // its quota, before anything is taken
};

}  // namespace muster::placement
