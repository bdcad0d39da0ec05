#include "victims/victims.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "disruption/disruption.h"
#include "pool/totals.h"
#include "shares/entitlement.h"
#include "victims/units.h"
#include "victims/victim_search.h"

namespace muster::placement {
namespace {

bool somebody_without_weight(const QueueTree& tree, PoolId pool) {
  for (std::size_t i = 0; i < tree.size(); ++i) {
    if (tree.queues()[i].known && tree.share(static_cast<QueueId>(i), pool).weight == 0) return true;
  }
  return false;
}

// One way to make room: RULES.md 5.1 to 5.5, and whether it is owed to the claimant (5.11).
struct Way {
  Action action = Action::kReclaim;
  Eligibility eligibility = Eligibility::kByQuota;
  bool surplus_only = false;
  bool owed = true;
  bool if_guaranteed = false;  // only what is guaranteed to the claimant, whoever holds it
};

class Ways {
 public:
  Ways(ClusterModel& s, Statement& statement, const SolutionQuery& q, Safe& safe)
      : s_(s),
        statement_(statement),
        q_(q),
        safe_(safe),
        terms_(disruption_terms(s.tree(), q.claimant.path)),
        grows_(s.job(q.claimant.job).assignment.has_value()),
        by_quota_(may_be_eligible(s.tree(), q.claimant, Eligibility::kByQuota)),
        by_fair_share_(may_be_eligible(s.tree(), q.claimant, Eligibility::kByFairShare)),
        free_(free_in(s.pool(q.claimant.pool))),
        // Somebody of its leaf could be preempted by it.
        juniors_(lowest_running(s.pool(q.claimant.pool), q.claimant.path.front()) <
                 s.job(q.claimant.job).spec.priority),
        peers_(!grows_ && peers_may_give()),
        // Idle room that leaves without a weight use is given back first.
        idle_room_((by_quota_ || by_fair_share_) && somebody_without_weight(s.tree(), q.claimant.pool)) {}

  std::optional<Solution> run() {
    if (!fits_in(q_.claimant.asked, free_ + s_.tree().preemptible(q_.claimant.pool))) return std::nullopt;
    auto solution = in_turn();
    if (solution || !safe_.kept_a_service) return solution;
    keeps_services_ = false;  // no other set of victims would do
    return in_turn();
  }

 private:
  std::optional<Solution> in_turn() { return terms_.free() ? in_order_of_the_list() : by_cost(); }

  // To this claimant disturbances count as free. Those whom it disturbs may still have a bound.
  std::optional<Solution> in_order_of_the_list() {
    std::vector<Way> ways;
    if (by_quota_) ways.push_back({Action::kReclaim, Eligibility::kByQuota});
    if (by_fair_share_) ways.push_back({Action::kReclaim, Eligibility::kByFairShare, false, false});
    if (juniors_ || peers_) ways.push_back({Action::kPreempt, Eligibility::kByQuota});
    for (Way way : ways) {
      way.surplus_only = true;
      if (auto solution = attempt(way)) return solution;
    }
    if (peers_ && !juniors_) ways.pop_back();
    if (may_move()) {
      if (auto solution = attempt({Action::kMove, Eligibility::kByQuota, false, by_quota_})) return solution;
    }
    for (const Way& way : ways) {
      if (auto solution = attempt(way)) return solution;
    }
    return juniors_ || peers_ ? by_either_right() : std::nullopt;
  }

  std::optional<Solution> by_cost() {
    const Time waited = grows_ ? last_size_change() : waits_since(s_.job(q_.claimant.job));
    const bool patient = waited + terms_.patience <= q_.now;
    if (auto solution = cheapest(owed_ways(patient))) return solution;
    if (!patient && by_fair_share_) {
      const bool may_reclaim = somebody_is_over();
      // Then moves are owed as well, and for these nobody has to be over (owed_ways).
      if (may_reclaim || (!by_quota_ && !grows_ && may_move())) soonest(safe_.due, waited + terms_.patience);
      if (may_reclaim) safe_.waits_for_fair_share = !grows_;
    }
    if (auto solution = first_that_pays(patient)) return solution;
    // Growth is no reason to take from the own leaf.
    if ((!juniors_ && !peers_) || grows_) return std::nullopt;
    for (const bool surplus_only : {true, false}) {
      if (!surplus_only && !juniors_) continue;
      if (auto solution = attempt({Action::kPreempt, Eligibility::kByQuota, surplus_only})) return solution;
    }
    return by_either_right();
  }

  // Its minimum may be guaranteed, and its leaf have surplus that is not of lower priority.
  bool peers_may_give() const {
    const Claimant& c = q_.claimant;
    const auto minimums = minimums_below_surplus(s_, c.path.front(), c.pool);
    // Some of the minimums may be those of juniors.
    return minimums && (juniors_ || is_minimum_guaranteed(s_.tree(), c, *minimums));
  }

  std::vector<Way> owed_ways(bool patient) const {
    std::vector<Way> ways;
    const auto reclaim = [&](bool surplus_only) {
      if (by_quota_) ways.push_back({Action::kReclaim, Eligibility::kByQuota, surplus_only});
      if (by_fair_share_ && (patient || by_quota_) && (surplus_only || !grows_))
        ways.push_back({Action::kReclaim, Eligibility::kByFairShare, surplus_only, true, !patient});
    };
    reclaim(true);
    if (may_move() && (by_quota_ || (by_fair_share_ && patient && !grows_)))
      ways.push_back({Action::kMove, Eligibility::kByQuota});
    reclaim(false);
    return ways;
  }

  // The least sum of costs; of equal ones the first.
  std::optional<Solution> cheapest(const std::vector<Way>& ways) {
    const Way* best = nullptr;
    Wide least = 0;
    const std::size_t mark = statement_.mark();
    for (const Way& way : ways) {
      auto solution = attempt(way);
      if (!solution) continue;
      const Wide price = price_of(*solution);
      if (price == 0 || &way == &ways.back()) {
        if (best == nullptr || price < least) return solution;
      }
      statement_.rollback(mark);
      if (best == nullptr || price < least) best = &way, least = price;
    }
    return best != nullptr ? attempt(*best) : std::nullopt;
  }

  // Who stops without another place waits, which is a cost as well.
  static Wide price_of(const Solution& solution) {
    Wide price = 0;
    for (const Victim& v : solution.victims) price += v.whole && v.moved_to.empty() ? 2 * v.cost : v.cost;
    return price;
  }

  // What is not owed pays once the room that idles without it has cost as much (ski rental).
  std::optional<Solution> first_that_pays(bool patient) {
    std::vector<Way> ways;
    const bool reclaims = by_fair_share_ && !patient;
    if (reclaims) ways.push_back({Action::kReclaim, Eligibility::kByFairShare, true, false});
    if (!grows_ && may_move() && !by_quota_ && (!by_fair_share_ || !patient))
      ways.push_back({Action::kMove, Eligibility::kByQuota, false, false});
    if (reclaims && !grows_) ways.push_back({Action::kReclaim, Eligibility::kByFairShare, false, false});
    const std::size_t mark = statement_.mark();
    for (const Way& way : ways) {
      auto solution = attempt(way);
      if (!solution) continue;
      if (pays_now(*solution)) return solution;
      statement_.rollback(mark);
    }
    return std::nullopt;
  }

  // False: it is asked again when it does.
  bool pays_now(const Solution& solution) {
    const auto pays = pays_at(solution);
    if (pays && *pays <= q_.now) return true;
    safe_.costs_too_much = true;
    if (!pays) return false;
    soonest(safe_.pays, *pays);
    soonest(safe_.due, *pays);
    return false;
  }

  // Absent: it takes no room that idles, and never pays.
  std::optional<Time> pays_at(const Solution& solution) const {
    Wide cost = 0;
    Resources idle = q_.claimant.asked;
    for (const Victim& v : solution.victims) {
      cost += v.cost;
      if (v.moved_to.empty()) idle -= v.amounts;
    }
    if (cost == 0) return q_.now;
    const Wide rate = cost_in_pool(s_, q_.claimant.pool, larger_of(idle, Resources{}), Duration{1});
    return breaks_even(cost, rate, idles_since());
  }

  bool somebody_is_over() const {
    const Claimant& c = q_.claimant;
    return std::any_of(s_.pool(c.pool).holding.begin(), s_.pool(c.pool).holding.end(), [&](const auto& held) {
      if (held.first == kNoId || held.first == c.path.front() || held.second.empty()) return false;
      const auto path = s_.tree().path(held.first);
      return !path.empty() && may_give(s_.tree(), c, Eligibility::kByFairShare, path, {});
    });
  }

  // Both the claimant and the room are there.
  Time idles_since() const {
    const Time room = q_.since.value_or(q_.now);
    return grows_ ? room : std::max(room, waits_since(s_.job(q_.claimant.job)));
  }

  Time last_size_change() const {
    const Progress& p = s_.job(q_.claimant.job).progress;
    return std::max(p.began, p.resized.value_or(p.began));
  }

  // What moves needs its room elsewhere.
  bool may_move() const { return q_.moves && !q_.limits_only && fits_in(q_.claimant.asked, free_); }

  std::optional<Solution> attempt(const Way& way) {
    const std::size_t mark = statement_.mark();
    std::optional<Found> found;
    if (idle_room_ && way.action == Action::kReclaim) found = search(way, true);
    if (!found) found = search(way, false);
    if (found && way.if_guaranteed && !is_guaranteed(found->solution)) {
      statement_.rollback(mark);
      found.reset();
    }
    return found ? std::optional(std::move(found->solution)) : std::nullopt;
  }

  // With what it takes the claimant stays within its guarantee at each level below those that it has in
  // common with whom it takes from. Above them nobody gains anything.
  bool is_guaranteed(const Solution& solution) const {
    const auto& mine = q_.claimant.path;
    return std::ranges::all_of(solution.victims, [&](const Victim& v) {
      const auto theirs = s_.tree().path(s_.job(v.job).leaf);
      return std::ranges::all_of(mine, [&](QueueId at) {
        return std::ranges::find(theirs, at) != theirs.end() ||
               within_guarantee(s_.tree(), at, q_.claimant.pool, *q_.claimant.fair,
                                s_.tree().sums(at, q_.claimant.pool).allocated, q_.claimant.asked);
      });
    });
  }

  std::optional<Found> search(const Way& way, bool idle_room_only) {
    const VictimFilter who{way.surplus_only, idle_room_only, way.owed, keeps_services_, peers_};
    return find_victims(s_, statement_, q_, way.action, way.eligibility, who, safe_);
  }

  // As few as are needed go by preemption. What is reclaimed beside them and is not owed has to pay as ever.
  std::optional<Solution> by_either_right() {
    const std::size_t mark = statement_.mark();
    const auto both = [&](Eligibility eligibility) -> std::optional<Found> {
      const bool owed = is_owed(eligibility);
      auto found = search({Action::kReclaimAndPreempt, eligibility, false, owed}, false);
      if (found && !owed && !terms_.free() && !pays_now(found->solution)) return std::nullopt;
      return found;
    };
    auto best = both(Eligibility::kByQuota);
    if (!best || best->own > 1) {
      statement_.rollback(mark);
      auto other = both(Eligibility::kByFairShare);
      if (other && (!best || other->own < best->own)) return std::move(other->solution);
      statement_.rollback(mark);
      if (best) best = both(Eligibility::kByQuota);
    }
    return best ? std::optional(std::move(best->solution)) : std::nullopt;
  }
  bool is_owed(Eligibility eligibility) const {
    return eligibility == Eligibility::kByQuota ||
           (!terms_.free() && waits_since(s_.job(q_.claimant.job)) + terms_.patience <= q_.now);
  }

  ClusterModel& s_;
  Statement& statement_;
  const SolutionQuery& q_;
  Safe& safe_;
  DisruptionTerms terms_;
  bool grows_, by_quota_, by_fair_share_;
  Resources free_;
  bool juniors_, peers_, idle_room_;
  bool keeps_services_ = true;
};

}  // namespace

std::optional<Solution> find_solution(ClusterModel& s, Statement& statement, const SolutionQuery& q,
                                      Safe& safe) {
  return Ways(s, statement, q, safe).run();
}

}  // namespace muster::placement
