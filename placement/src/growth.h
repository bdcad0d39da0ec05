// Rule 2, elastic: when all minimums that fit have started, surplus goes out replica by replica.
#pragma once

#include <vector>

#include "order.h"
#include "place.h"
#include "state.h"

namespace muster::placement {

// The claimants for surplus in one pool: running elastic jobs below their most, in the order of rule 2;
// inside a leaf and priority the smallest relative to its minimum first.
class Growth {
 public:
  // Leaves of which nothing may start are left out. `due`: when the first of those that were resized lately
  // may grow again; not touched if there is none.
  Growth(State& state, PoolId pool, const std::vector<Resources>& fair, Time now, std::optional<Time>& due);

  struct Claim {
    JobId job = kNoId;
    std::vector<PodWish> pods;  // one replica, or one group of them, with what is colocated
    Resources asked;
    std::vector<LeafId> path;
  };
  // The first that has not been refused; O(leaves x depth). The claim's job is looked at again next time
  // unless it is refused.
  std::optional<Claim> next();
  void refuse(JobId job);

 private:
  struct Leaf {
    LeafId leaf = kNoId;
    std::vector<LeafId> path;
    Seniority seniority;
    std::vector<JobId> jobs;
  };
  std::optional<Claim> claim_of(JobId job) const;

  State& s_;
  PoolId pool_;
  const std::vector<Resources>& fair_;
  std::vector<Leaf> leaves_;
};

}  // namespace muster::placement
