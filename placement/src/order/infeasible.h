// RULES.md 7.7: which claimants need not be served at all. It is told without a look at each of them.
#pragma once

#include <vector>

#include "model/cluster_model.h"

namespace muster::placement {

// For one pool, at the beginning of one round of a plan. While jobs start, what is infeasible stays
// infeasible. When something ends, there is another round.
class Infeasible {
 public:
  Infeasible(const ClusterModel& state, PoolId pool, const std::vector<Resources>& fair)
      : s_(&state), pool_(pool), fair_(&fair) {}

  // True: no job of this kind in this leaf queue can start. Too little is free in all, the leaf queue is not
  // eligible to take from others, and there is nothing to preempt. False: the totals do not tell. `lowest` is
  // what lowest_running() says. O(1), and once for each request O(roles).
  bool starts(QueueId leaf, std::int64_t lowest, const PendingKind& kind);
  // The same for the growth of an elastic job: none of its roles can have one more replica.
  bool growth(QueueId leaf, std::int64_t lowest, const Job& job);

 private:
  struct Asked {
    bool known = false;
    bool lacking = false;  // more than is free
    Resources amounts;
  };
  bool infeasible(QueueId leaf, std::int64_t lowest, std::int64_t priority, const Asked& asked) const;
  // Surplus of its own Project, for a minimum that is guaranteed.
  bool may_take_surplus(QueueId leaf, const Resources& amounts) const;
  Asked seen(const Resources& amounts) const;

  const ClusterModel* s_;
  PoolId pool_;
  const std::vector<Resources>* fair_;
  std::vector<Asked> starts_, growth_;  // by request
};

}  // namespace muster::placement
