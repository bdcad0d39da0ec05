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

// One replica more for a running elastic job, or one group of replicas, with the pods that are colocated.
struct GrowthClaim {
  JobId job = kNoId;
  std::vector<PodWish> pods;
  Resources asked;
  std::vector<QueueId> path;
};

// By what a running elastic job grows, step by step, up to its largest size. O(pods of the job), and that
// for each step.
class GrowthSteps {
 public:
  GrowthSteps(const ClusterModel& state, JobId job, PoolId pool);
  std::optional<GrowthClaim> next();  // `path` is not filled in; nullopt: it is as large as it may be

 private:
  const ClusterModel& s_;
  JobId job_;
  PoolId pool_;
  std::vector<std::vector<bool>> held_;  // by role and index
  std::vector<std::int64_t> count_;      // also beyond the most: indexes may have gaps
};

// The claimants for surplus in one pool: running elastic jobs below their largest size, in the order of
// RULES.md 2.4. While jobs grow, ranks only become worse. So only the first is ranked anew, as in
// ServiceOrder.
class Growth {
 public:
  // Leaves out leaf queues in which nothing may start, and jobs that are infeasible. `due` becomes the time
  // at which the jobs that this plan has shrunk are to be asked again. O(growable jobs).
  Growth(ClusterModel& state, PoolId pool, const std::vector<Resources>& fair, std::optional<Time>& due);

  // The first claim that has not been refused. Before the caller asks for the next one, it says what became
  // of this one. O(log jobs + pods of the job), and more only where ranks have changed.
  std::optional<GrowthClaim> next();
  void refused();  // the job of the last claim is not asked again
  // The last claim was granted. `took`: others gave for it, so any size and rank may have changed. O(jobs)
  // then.
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

// How often the job could grow by as much as it claims, as far as the totals of this room say. At least once.
std::int64_t steps_of_growth(const ClusterModel& state, const GrowthClaim& claim, const Resources& room);

}  // namespace muster::placement
