// RULES.md 7.4: which pending reason each waiting job has, as things are at the end of a plan.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "model/cluster_model.h"
#include "order/service_order.h"

namespace muster::placement {

class Judge {
 public:
  // Of claimants by leaf, request, priority and pool: whom they have a right to take, and minRuntime keeps.
  using SafeVictims = std::map<std::tuple<QueueId, RequestId, std::int64_t, PoolId>, std::pair<Time, JobId>>;

  Judge(ClusterModel& state, const SafeVictims& safe, std::vector<std::string>& changed)
      : s_(state), safe_(safe), changed_(changed) {}

  // All that waits in the order's pool, in the order in which it would be served. Where that are many, only
  // the first of them and those that have no pending reason yet; all of them once a minute (Pool::due). The
  // first ones are considered for a reservation before.
  void pending(const ServiceOrder& order);
  void nominated(PoolId pool);  // those whose places are nominated, not free
  void sidelined();             // those that stand in no pending queue

 private:
  struct Where {
    std::int32_t position = 0, in_project = 0;
    std::optional<Time> estimated_start;
  };
  // What does not change from job to job of one pool.
  struct Scene {
    const ServiceOrder& order;
    PoolId pool;
    bool many = false;
    std::map<QueueId, std::vector<QueueId>> paths;
    std::map<std::pair<QueueId, RequestId>, std::optional<PendingReason>> eligibilities;
  };
  void job(Scene& scene, JobId job, const Where& where);
  const std::vector<QueueId>& path(Scene& scene, QueueId leaf) const;
  const Refusal& described(JobId job, const Scene& scene);
  // nullopt: a shortage binds, not a right.
  std::optional<PendingReason> without_right(const Scene& scene, const Job& job,
                                             const std::vector<QueueId>& path);
  // It would fit on what is reserved for another one. Once for all jobs that ask the same.
  bool fits_reserved(JobId job, PoolId pool);
  void publish(JobId job, const PendingReason& pending_reason, std::uint64_t serial, const Where& where);

  ClusterModel& s_;
  const SafeVictims& safe_;
  std::vector<std::string>& changed_;
  std::map<std::pair<RequestId, PoolId>, bool> fits_reserved_;
};

}  // namespace muster::placement
