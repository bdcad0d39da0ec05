// RULES.md 2.4: when all minimums that fit have started, surplus is handed out, replica by replica.
#pragma once

#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "model/cluster_model.h"
#include "order/infeasible.h"
#include "order/order.h"

namespace muster::placement {

// The claimants for surplus in one pool: running elastic jobs below their most, in the order of rule 2;
// inside a leaf and priority the smallest relative to its minimum first. While jobs grow, ranks only grow
// worse: the first one is ranked anew, and is the first indeed if it is still before the next, as in
// ServiceOrder.
class Growth {
 public:
  // Leaves of which nothing may start are left out, and jobs that are infeasible. `due`: when those are to be
  // asked that this plan has shrunk; not touched if there are none. O(growable jobs).
  Growth(ClusterModel& state, PoolId pool, const std::vector<Resources>& fair, std::optional<Time>& due);

  struct GrowthClaim {
    JobId job = kNoId;
    std::vector<PodWish> pods;  // one replica, or one group of them, with what is colocated
    Resources asked;
    std::vector<QueueId> path;
  };
  // The first that has not been refused. O(log jobs + pods of the job), more only where ranks have changed.
  // The caller says what became of it before it asks for the next one.
  std::optional<GrowthClaim> next();
  void refused();  // the last claim's job is not looked at again
  // It was granted. `took`: from others, so that sizes and ranks have changed in any way; O(jobs) then.
  void granted(bool took);

 private:
  struct Entry {
    std::int64_t priority = 0, size = 0, least = 0;
    Time submitted;
    std::string_view id;
    JobId job = kNoId;
  };
  static bool comes_after(const Entry& a, const Entry& b);
  struct Leaf {
    QueueId leaf = kNoId;
    std::vector<QueueId> path;
    Seniority seniority;
    std::vector<Entry> jobs;           // a heap by comes_after()
    std::int64_t lowest = 0;           // lowest_running()
    std::optional<GrowthClaim> claim;  // of the first of them
  };
  bool is_infeasible(const Leaf& leaf, JobId job);  // then there is no room for it either
  Entry entry(JobId job) const;
  static JobId take_first(Leaf& leaf);
  std::optional<GrowthClaim> claim_of(JobId job) const;
  bool find_claim(Leaf& leaf);  // false: none is left
  LeafRank rank(const Leaf& leaf) const;
  void enter(std::size_t leaf);

  ClusterModel& s_;
  PoolId pool_;
  const std::vector<Resources>& fair_;
  std::optional<Time>& due_;
  Infeasible infeasible_;
  std::vector<Leaf> leaves_;
  std::set<std::pair<LeafRank, std::size_t>> order_;
  std::size_t last_ = 0;  // whose claim was given out
};

}  // namespace muster::placement
