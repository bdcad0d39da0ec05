// RULES.md 5.9, the end of a search: what becomes of the jobs that are taken, and which of them stay or move.
#include <algorithm>
#include <map>

#include "disruption/disruption.h"
#include "disruption/surge.h"
#include "shares/admission.h"
#include "victims/movable.h"
#include "victims/victim_trial.h"

namespace muster::placement {

std::optional<Solution> VictimTrial::carry_out(const Choice& best, std::size_t start) {
  if (!take_all(best.taken)) return reset(start), std::nullopt;
  own_taken_ = 0;
  Solution solution;
  std::map<JobId, std::size_t> at;
  for (const std::size_t i : best.taken) {
    const Unit& u = units_[i];
    own_taken_ += u.own ? 1 : 0;
    const auto [it, fresh] = at.emplace(u.job, solution.victims.size());
    if (fresh) solution.victims.push_back({.job = u.job, .reason = reason(u), .owed = u.own || owed_});
    Victim& victim = solution.victims[it->second];
    victim.cost += u.cost;
    victim.downtime.value = wrapping_add(victim.downtime.value, u.downtime.value);
    victim.amounts += u.amounts;
    victim.whole = victim.whole || u.last;
    auto& pods = victim.pods;
    pods.insert(pods.end(), u.pods.begin(), u.pods.end());
    std::sort(pods.begin(), pods.end());
  }
  const std::size_t taken = st_.mark();
  solution.places = best.places;
  claim(solution.places);
  surging_.clear();
  std::size_t moved = 0;
  for (Victim& v : solution.victims) moved += move(v, action_ == Action::kMove) ? 1 : 0;
  if (action_ == Action::kReclaimAndPreempt && !can_keep(solution)) return reset(start), std::nullopt;
  if (action_ != Action::kMove) return solution;
  if (moved == solution.victims.size()) return who_must_move(std::move(solution), start);
  // Where they all find a place first, the claimant may find one in what is left.
  st_.rollback(taken);
  surging_.clear();
  const bool all = std::all_of(solution.victims.begin(), solution.victims.end(),
                               [&](Victim& v) { return move(v, false); });
  if (auto places = all ? fits(kWholePool) : std::nullopt) {
    solution.places = *std::move(places);
    return who_must_move(std::move(solution), start);
  }
  return reset(start), std::nullopt;
}

bool VictimTrial::can_keep(const Solution& solution) {
  Claimant c = q_.claimant;
  c.placed = true;
  // Who moves is not gone: its leaf has to have the right with it as well.
  const bool some_move = std::any_of(solution.victims.begin(), solution.victims.end(), [](const Victim& v) {
    return v.reason == EvictReason::kPreempted && !v.moved_to.empty();
  });
  if (some_move && !is_eligible(s_.tree(), c, eligibility_, before_)) return false;
  const std::size_t mark = st_.mark();
  for (const Victim& v : solution.victims) {
    if (v.reason == EvictReason::kPreempted && v.moved_to.empty()) place_again(v, View::kTarget);
  }
  const QueueId leaf = c.path.front();
  const Claimant other{kNoId, c.pool, {}, c.asked, c.fair};
  const bool keeps = may_be_eligible(s_.tree(), c, eligibility_) ||
                     !may_give(s_.tree(), other, Eligibility::kByFairShare, {leaf}, c.asked);
  st_.rollback(mark);
  return keeps;
}

bool VictimTrial::moved(const std::vector<Victim>& victims, std::size_t start) {
  reset(start);
  for (const Victim& v : victims) {
    for (const std::size_t pod : v.pods) st_.release(v.job, pod);
  }
  for (const Victim& v : victims) {
    for (const PodPlace& p : v.moved_to) {
      const Allocation allocation =
          s_.allocation_for(v.job, p, s_.node_of(p.node), q_.claimant.pool, Hold::kNominated);
      if (!s_.available(allocation, v.surges ? View::kNow : View::kTarget)) return false;
      st_.place(v.job, p, q_.claimant.pool, Hold::kNominated);
    }
  }
  return true;
}

Solution VictimTrial::who_must_move(Solution solution, std::size_t start) {
  for (std::size_t k = solution.victims.size(); k-- > 0 && solution.victims.size() > 1;) {
    Solution fewer = solution;
    fewer.victims.erase(fewer.victims.begin() + static_cast<std::ptrdiff_t>(k));
    auto places = moved(fewer.victims, start) ? fits(kWholePool) : std::nullopt;
    if (!places) continue;
    fewer.places = *std::move(places);
    solution = std::move(fewer);
  }
  moved(solution.victims, start);
  claim(solution.places);
  return solution;
}

EvictReason VictimTrial::reason(const Unit& u) const {
  if (action_ == Action::kMove) return EvictReason::kConsolidated;
  return u.own ? EvictReason::kPreempted : EvictReason::kReclaimed;
}

bool VictimTrial::move(Victim& v, bool may_return) {
  const Job& j = s_.job(v.job);
  if (v.pods.size() != j.assignment->pods.size() || j.spec.interactive) return false;
  if (s_.tree().path(j.leaf).empty()) return false;  // below a broken tree nothing starts
  if (!has_all_of_minimum(s_.request_of(j), j.assignment->pods)) return false;
  v.surges = surges(v);
  if (!v.surges && has_to_surge(v)) return false;
  auto places = place_again(v, View::kNow);
  if (!places && may_return && !v.surges && v.pods.size() > 1 && !j.spec.resizes_in_place)
    places = place_again(v, View::kTarget);
  if (!places) {
    v.surges = false;  // who stays a victim is evicted
    return false;
  }
  v.moved_to = std::move(*places);
  if (v.surges) ++surging_[j.spec.service];
  return true;
}

bool VictimTrial::surges(const Victim& v) {
  const Job& j = s_.job(v.job);
  if (!may_surge(j)) return false;
  const auto found = surging_.find(j.spec.service);
  return has_room_to_surge(s_, j, q_.claimant.pool, v.amounts, found == surging_.end() ? 0 : found->second);
}

bool VictimTrial::has_to_surge(const Victim& v) const {
  const Job& j = s_.job(v.job);
  if (!j.spec.serves || action_ != Action::kMove) return false;
  if (!j.spec.preemptible || (!owed_ && !disruption_terms(s_.tree(), s_.tree().path(j.leaf)).free()))
    return true;
  if (!keeps_services_ || !is_last_of_service(v.job)) return false;
  kept_a_service_ = true;
  return true;
}

std::optional<std::vector<PodPlace>> VictimTrial::place_again(const Victim& v, View view) {
  const Job& j = s_.job(v.job);
  PlaceQuery query{v.job, q_.claimant.pool, view, Hold::kNominated, {}, kWholePool};
  const auto roles = std::ssize(s_.request_of(j).roles);
  for (const std::size_t i : v.pods) {
    if (j.assignment->pods[i].role < 0 || j.assignment->pods[i].role >= roles) return std::nullopt;
    query.pods.push_back({j.assignment->pods[i].role, j.assignment->pods[i].index});
  }
  const Applicant who = v.surges ? Applicant{} : applicant(j.spec);
  if (broken_bound(s_, s_.tree().path(j.leaf), query.pool, asked(s_, query), who, View::kTarget))
    return std::nullopt;
  return place(s_, st_, query);
}

}  // namespace muster::placement
