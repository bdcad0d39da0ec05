// RULES.md 7.7: which claimants need not be served at all. It is told without a look at each of them.
#pragma once

#include <vector>

#include "model/cluster_model.h"

namespace muster::placement {

// For one pool and one round of a plan, at its beginning. While jobs start, what is infeasible stays so; when
// something ends, there is another round.
class Infeasible {
 public:
  Infeasible(const ClusterModel& state, PoolId pool, const std::vector<Resources>& fair)
      : s_(&state), pool_(pool), fair_(&fair) {}

  // `lowest`: of lowest_running(). No job of this kind in this leaf can start: too little is free in all, its
  // leaf has no right to take from others and nothing to preempt. false: the totals do not say. O(1), once
  // for each request O(roles).
  bool starts(QueueId leaf, std::int64_t lowest, const PendingKind& kind);
  // The same of an elastic job that runs: no more of any of its roles.
  bool growth(QueueId leaf, std::int64_t lowest, const Job& job);

 private:
  struct Asked {
    bool known = false;
    bool lacking = false;  // more than is free
    Resources amounts;
  };
  bool infeasible(QueueId leaf, std::int64_t lowest, std::int64_t priority, const Asked& asked) const;
  Asked seen(const Resources& amounts) const;

  const ClusterModel* s_;
  PoolId pool_;
  const std::vector<Resources>* fair_;
  std::vector<Asked> starts_, growth_;  // by request
};

}  // namespace muster::placement
