// Rule 5, which sets of units are tried first, and which of two that would do is the better one.
#pragma once

#include <map>
#include <tuple>
#include <vector>

#include "node/wide.h"
#include "shares/rights.h"
#include "victims/units.h"

namespace muster::placement {

// Of a set of units; smaller is better: own ones where both means are used, leaves that fall below their
// quota, lost work, workloads that stop, then the set itself as sorted indexes, which follow the order of the
// units.
using Preference = std::tuple<int, int, Wide, std::size_t, std::vector<std::size_t>>;

class VictimSets {
 public:
  // Before any of the units is taken. Keeps references to all but the means.
  VictimSets(const State& state, const Claimant& claimant, Means means, const std::vector<Unit>& units);

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
  Means means_;
  const std::vector<Unit>& units_;
  std::map<LeafId, Resources> beyond_;  // its quota, before anything is taken
};

}  // namespace muster::placement
