// RULES.md 7.4: which pending reason each waiting job has, as things are at the end of a plan.
#pragma once

#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include "model/cluster_model.h"
#include "model/due.h"
#include "order/service_order.h"
#include "reserve/forecast.h"

namespace muster::placement {

class Judge {
 public:
  // By leaf queue, request, priority and pool of a claimant: what keeps others safe from it, and until when.
  using SafeVictims = std::map<std::tuple<QueueId, RequestId, std::int64_t, PoolId>, Safe>;

  // To `changed` come the jobs whose reason is another now, to `thrown` those that could not be judged.
  Judge(ClusterModel& state, const SafeVictims& safe, std::vector<std::string>& changed,
        std::vector<Thrown>& thrown)
      : s_(state), safe_(safe), changed_(changed), thrown_(thrown) {}

  // All jobs that wait in the pool, in the order in which they would be served. Where these are many,
  // RULES.md 7.7 says which of them. Before, the first ones are considered for a reservation.
  void pending(const ServiceOrder& order);
  void nominated(PoolId pool);  // jobs whose places are nominated and not free yet
  void sidelined();             // jobs that stand in no pending queue

 private:
  struct Where {
    std::int32_t position = 0, in_project = 0;
    std::optional<Time> estimated_start{};
    bool from_history = false;
  };
  // What does not change from job to job of one pool.
  struct Scene {
    const ServiceOrder& order;
    PoolId pool;
    bool many = false;
    bool whole = true;  // false: the work was too much for this plan, so some keep the reasons they have
    std::map<QueueId, std::vector<QueueId>> paths;
    std::map<std::pair<QueueId, RequestId>, std::optional<PendingReason>> eligibilities;
  };
  void held(Scene& scene, Forecast& forecast, QueueId leaf);
  void job(Scene& scene, JobId job, const Where& where);
  void judge(Scene& scene, JobId job, const Where& where);
  // Nothing can be said of it without work that this plan may not do any more. It is judged by a later one.
  bool put_off(Scene& scene, JobId job, bool may_be_kept_off);
  const std::vector<QueueId>& path(Scene& scene, QueueId leaf) const;
  const Refusal& described(JobId job, Scene& scene);
  // Why it may not take from others yet, as the end of a sentence.
  std::string why_not_yet(const Job& job, const Safe& safe, const std::vector<QueueId>& path) const;
  std::string restart_not_yet(const Safe& safe) const;
  // The reason FairShareReached. nullopt: what binds is a shortage.
  std::optional<PendingReason> without_right(const Scene& scene, const Job& job,
                                             const std::vector<QueueId>& path);
  // Whether it would fit if it might use the reserved nodes. Asked once for all jobs that ask the same.
  bool fits_reserved(JobId job, PoolId pool);
  void publish(JobId job, const PendingReason& pending_reason, std::uint64_t serial, const Where& where);

  ClusterModel& s_;
  const SafeVictims& safe_;
  std::vector<std::string>& changed_;
  std::vector<Thrown>& thrown_;
  std::map<std::pair<RequestId, PoolId>, bool> fits_reserved_;
};

}  // namespace muster::placement
