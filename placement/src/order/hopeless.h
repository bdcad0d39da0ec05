// Which claimants need not be served at all, told without looking at each of them.
#pragma once

#include <vector>

#include "model/state.h"

namespace muster::placement {

// For one pool and one round of a plan, at its beginning. While jobs start, what is hopeless stays so; when
// something ends, there is another round.
class Hopeless {
 public:
  Hopeless(const State& state, PoolId pool, const std::vector<Resources>& fair)
      : s_(&state), pool_(pool), fair_(&fair) {}

  // `lowest`: of lowest_running(). No job of this kind in this leaf can start: too little is free in all, its
  // leaf has no right to take from others and nothing to preempt. false: the totals do not say. O(1), once
  // for each request O(roles).
  bool starts(LeafId leaf, std::int64_t lowest, const WaitKind& kind);
  // The same of an elastic job that runs: no more of any of its roles.
  bool growth(LeafId leaf, std::int64_t lowest, const Job& job);

 private:
  struct Asked {
    bool known = false;
    bool lacking = false;  // more than is free
    Resources amounts;
  };
  bool hopeless(LeafId leaf, std::int64_t lowest, std::int64_t priority, const Asked& asked) const;
  Asked seen(const Resources& amounts) const;

  const State* s_;
  PoolId pool_;
  const std::vector<Resources>* fair_;
  std::vector<Asked> starts_, growth_;  // by request
};

}  // namespace muster::placement
