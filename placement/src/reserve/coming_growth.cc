#include "reserve/coming_growth.h"

#include <algorithm>
#include <utility>

#include "disruption/disruption.h"
#include "model/statement.h"
#include "node/resource_vector.h"
#include "pool/totals.h"
#include "shares/admission.h"
#include "shares/backfill.h"
#include "shares/shares.h"

namespace muster::placement {
namespace {

constexpr Duration kOverdue = seconds(10);

class InTheWay {
 public:
  InTheWay(ClusterModel& s, const PlaceQuery& q, const Claimant& c)
      : s_(s), q_(q), c_(c), j_(s.job(q.job)), works_at_(s.time + start_time(j_)) {}

  std::optional<ComingGrowth> run() {
    if (!j_.spec.preemptible) return std::nullopt;
    find_who_grows();
    if (growing_.empty()) return std::nullopt;
    find_steps();
    return steps_.empty() ? std::nullopt : who_lacks_room();
  }

 private:
  struct Growing {
    ComingGrowth growth;
    std::vector<QueueId> path;
    Eligibility right = Eligibility::kByQuota;
  };

  // Those that grow before the claimant works, and may take its room then.
  void find_who_grows() {
    const Resources free = free_in(s_.pool(q_.pool));
    Statement statement(s_);
    if (!place(s_, statement, q_)) return;
    for (const JobId id : s_.pool(q_.pool).growable) {
      const Job& e = s_.job(id);
      if (id == q_.job || !e.runs() || !e.displaced.empty() || e.leaf == kNoId) continue;
      if (e.started_in == s_.plans || e.grown_in == s_.plans) continue;  // it has taken what there is for it
      if (!is_foreseeable(e)) continue;
      auto claim = GrowthSteps(s_, id, q_.pool).next();
      if (!claim) continue;
      claim->path = s_.tree().path(e.leaf);
      if (!s_.tree().may_start(e.leaf, claim->path)) continue;
      const auto right = right_against_claimant(e, *claim);
      if (!right) continue;
      const auto at = grows_at(s_, *claim, q_.pool, claim->asked * steps_of_growth(s_, *claim, free),
                               room_to_grow_since(e).value_or(s_.time));
      if (at && *at <= works_at_ && !is_overdue(e, *at) && !ends_before(*at))
        growing_.push_back({{id, *at, {}}, std::move(claim->path), *right});
    }
  }

  // Else it would be waited for, and nobody knows how long: its start takes longer than it should, or it is
  // not its turn yet to note that there is room.
  bool is_foreseeable(const Job& e) const {
    if (e.progress.is_starting && e.progress.began + start_time(e) <= s_.time) return false;
    return room_to_grow_since(e) || s_.pool(q_.pool).growable.size() <= kMaxTooEarly;
  }

  // It is to grow in this very plan, when all have started who wait. Beside the claimant that might not pay
  // yet. If it has not grown when it should have, nobody waits for it any more.
  bool is_overdue(const Job& e, Time at) const {
    return at <= s_.time && (!room_to_grow_since(e) || at + kOverdue < s_.time);
  }

  bool ends_before(Time at) const { return j_.spec.max_runtime && s_.time + *j_.spec.max_runtime <= at; }

  // By which it may evict the claimant, which stands at its places, before that works.
  std::optional<Eligibility> right_against_claimant(const Job& e, const GrowthClaim& claim) const {
    const bool own = e.leaf == j_.leaf;
    if (s_.time + min_runtime(s_.tree(), c_.path, !own) > works_at_) return std::nullopt;
    const bool free = disruption_terms(s_.tree(), claim.path).free();
    if (own) {
      const bool preempts = free && j_.spec.priority < e.spec.priority;
      return preempts ? std::optional(Eligibility::kByFairShare) : std::nullopt;
    }
    const Claimant grows{e_id(e), q_.pool, claim.path, claim.asked, c_.fair};
    for (const Eligibility right : {Eligibility::kByQuota, Eligibility::kByFairShare}) {
      if (right == Eligibility::kByFairShare && !free) continue;
      if (may_give(s_.tree(), grows, right, c_.path, {})) return right;
    }
    return std::nullopt;
  }
  JobId e_id(const Job& e) const { return s_.jobs().find(e.spec.id); }

  // By what they would grow, by right, if the claimant were not there.
  void find_steps() {
    Statement statement(s_);
    for (std::size_t i = 0; i < growing_.size(); ++i) {
      const Growing& g = growing_[i];
      std::vector<Resources> before;
      for (const QueueId at : g.path) {
        before.push_back(s_.tree().sums(at, q_.pool).allocated);
        if (std::find(c_.path.begin(), c_.path.end(), at) != c_.path.end()) before.back() += c_.asked;
      }
      GrowthSteps steps(s_, g.growth.job, q_.pool);
      while (auto claim = steps.next()) {
        const Claimant grows{g.growth.job, q_.pool, g.path, claim->asked, c_.fair};
        if (!is_eligible(s_.tree(), grows, g.right, before)) break;
        if (broken_bound(s_, g.path, q_.pool, claim->asked, applicant(s_.job(g.growth.job).spec), q_.view))
          break;
        if (!fits(statement, *claim)) break;
        steps_.emplace_back(i, std::move(*claim));
      }
    }
  }

  bool fits(Statement& statement, const GrowthClaim& claim) {
    const bool anywhere = !kept_off(s_, claim.job, q_.pool, claim.asked);
    return place(s_, statement,
                 {claim.job, q_.pool, q_.view, Hold::kRunning, claim.pods, kWholePool, anywhere})
        .has_value();
  }

  // The first that does not grow as far beside the claimant.
  std::optional<ComingGrowth> who_lacks_room() {
    Statement statement(s_);
    if (!place(s_, statement, q_)) return std::nullopt;
    std::optional<ComingGrowth> first;
    for (const auto& [i, claim] : steps_) {
      if (fits(statement, claim)) continue;
      if (!first) first = growing_[i].growth;
      first->lacks += claim.asked;
    }
    return first;
  }

  ClusterModel& s_;
  const PlaceQuery& q_;
  const Claimant& c_;
  const Job& j_;
  Time works_at_;
  std::vector<Growing> growing_;
  std::vector<std::pair<std::size_t, GrowthClaim>> steps_;  // of growing_
};

}  // namespace

Time stands_until(const ClusterModel& s, const Job& j) {
  if (j.started_in == s.plans || j.grown_in == s.plans) return {};
  Time until{};
  if (j.progress.resized) until = *j.progress.resized + j.spec.grow_after;
  // A change of size would begin its start anew, and could keep it from ever being over.
  if (j.progress.is_starting) until = std::max(until, j.progress.began + start_time(j));
  return until;
}

// What there was before its size changed is what it has grown by, or was taken from it.
std::optional<Time> room_to_grow_since(const Job& j) {
  std::optional<Time> since;
  for (const auto& noted : {j.room_since, j.claim_since}) {
    if (noted && (!j.progress.resized || *noted >= *j.progress.resized) && (!since || *noted < *since))
      since = noted;
  }
  return since;
}

std::optional<Time> grows_at(const ClusterModel& s, const GrowthClaim& claim, PoolId pool,
                             const Resources& grows_by, Time since) {
  const Job& j = s.job(claim.job);
  std::optional<Time> pays = since;
  if (!disruption_terms(s.tree(), claim.path).free())
    pays = growth_pays(s, j, pool, grows_by, {since, s.time});
  if (!pays) return std::nullopt;
  return std::max({since + j.spec.grow_quiet, stands_until(s, j), *pays});
}

std::optional<ComingGrowth> in_the_way_of(ClusterModel& s, const PlaceQuery& q, const Claimant& c) {
  return s.pool(q.pool).growable.empty() ? std::nullopt : InTheWay(s, q, c).run();
}

}  // namespace muster::placement
