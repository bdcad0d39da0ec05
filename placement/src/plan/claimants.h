// RULES.md 2.3, 2.5 and 5: one claimant is served, with all its actions: it takes free room, room that others
// are leaving, or room that it may make. It starts, or it grows.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>
#include <vector>

#include "explain/judge.h"
#include "model/cluster_model.h"
#include "order/growth.h"
#include "order/service_order.h"
#include "plan/decisions.h"
#include "victims/victims.h"

namespace muster::placement {

// Of one plan. It remembers who was refused, so that those who are alike are not searched for again.
class Claimants {
 public:
  Claimants(ClusterModel& state, Time now, Decisions& decisions)
      : s_(state), now_(now), decisions_(decisions) {}

  void begin_round();
  // The job that waits first in the order starts or is nominated its places; false: it is refused.
  bool start(JobId id, const ServiceOrder& order);

  void begin_growth();  // in a pool
  // The running elastic job gets further pods; false: it is refused, or has to wait for a while.
  bool grow(const Growth::GrowthClaim& claim, PoolId pool, const std::vector<Resources>& fair);
  bool some_are_too_early() const { return too_early_ + new_to_room_ > 0; }

  // In this round somebody was refused who may find room now that this one has started or grown: it may be a
  // victim, or be over its share.
  bool concerns_refused(JobId started) const {
    return refused_with_right_ || refused_leaves_.contains(s_.job(started).leaf);
  }
  // Somebody would find room in the pool at the cost of others, and that does not pay yet.
  bool costs_too_much_in(PoolId pool) const { return costs_too_much_in_.contains(pool); }
  std::uint64_t victims() const { return victims_; }        // grows whenever somebody gives room
  const Judge::SafeVictims& safe() const { return safe_; }  // of claimants that found no room

 private:
  // Those who are alike in all that decides whether there are victims for them; the last: it has waited so
  // long that its fair share is owed to it.
  using Kind = std::tuple<QueueId, RequestId, std::int64_t, PoolId, bool, bool>;

  bool start_in_free_room(const SolutionQuery& query, Refusal& refusal);
  bool nobody_leaves(PoolId pool, const std::vector<QueueId>& path) const;
  bool free_room_in_later_pool(const Job& job, PoolId after);
  bool start_with_victims(SolutionQuery query, const Kind& kind);
  bool within_guarantee(const Claimant& claimant) const;
  void note_refused(const Claimant& claimant);

  Time stands_until(const Job& job) const;
  bool has_noted_room(const Job& job) const;
  std::optional<Time> may_take_room(const Growth::GrowthClaim& claim, PoolId pool,
                                    const Resources& grows_by) const;
  bool waits_without_a_search(const Growth::GrowthClaim& claim, PoolId pool, const Resources& grows_by);
  bool is_too_early(const Growth::GrowthClaim& claim, PoolId pool, const Resources& grows_by);
  std::optional<Time> growth_pays(const Growth::GrowthClaim& claim, PoolId pool, const Resources& grows_by,
                                  Time room_since) const;
  Time growth_pays_its_victims(const Growth::GrowthClaim& claim, PoolId pool, const Solution& solution,
                               Time since) const;

  ClusterModel& s_;
  Time now_;
  Decisions& decisions_;
  std::map<Kind, std::uint64_t> no_solution_;  // when it was refused: Decisions::changes()
  std::map<std::tuple<RequestId, PoolId, bool>, std::uint64_t> no_moves_;  // the same of consolidation alone
  Judge::SafeVictims safe_;
  std::uint64_t victims_ = 0;
  // In the pool of which jobs grow: how many were searched for that have found room and may not take it yet,
  // and how many of them have found it now.
  int too_early_ = 0, new_to_room_ = 0;
  std::set<PoolId> costs_too_much_in_;
  std::set<QueueId> refused_leaves_;  // in this round
  bool refused_with_right_ = false;   // as far as their own leaf is concerned
};

}  // namespace muster::placement
