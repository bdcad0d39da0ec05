#include "plan/claimants.h"

#include <algorithm>
#include <utility>

#include "disruption/disruption.h"
#include "model/due.h"
#include "model/statement.h"
#include "place/place.h"
#include "plan/plan_observer.h"
#include "pool/totals.h"
#include "reserve/coming_growth.h"
#include "shares/admission.h"
#include "shares/backfill.h"
#include "shares/entitlement.h"
#include "shares/shares.h"

namespace muster::placement {
void Claimants::begin_round() {
  refused_leaves_.clear();
  refused_with_right_ = false;
}

void Claimants::begin_growth() {
  too_early_ = 0;
}

bool Claimants::enough_are_too_early() const {
  return too_early_ >= kMaxTooEarly;
}

void Claimants::forget_chance(JobId id, PoolId pool) {
  const Job& j = s_.job(id);
  std::erase_if(s_.requests.at(j.request).costs_too_much_since, [&](const auto& chance) {
    const auto& [leaf, priority, in_pool, off] = chance.first;
    return leaf == j.leaf && priority == j.spec.priority && in_pool == pool;
  });
}

bool Claimants::start(JobId id, const ServiceOrder& order) {
  const Job& j = s_.job(id);
  const PoolId pool = order.pool();
  Request& request = s_.requests.at(j.request);
  const Resources asked = s_.asked(request, pool);
  // Its demand counts in its first pool; what it has a right to in another one is judged as if it counted
  // there.
  std::optional<std::vector<Resources>> fair;
  if (j.pending_in != pool) fair = fair_shares_with(s_, pool, order.path(), asked);
  const bool off = kept_off(s_, id, pool, asked);
  const SolutionQuery query{.claimant = {id, pool, order.path(), asked, fair ? &*fair : &order.fair()},
                            .now = now_,
                            .anywhere = !off};
  const Found found = start_in_free_room(query, (off ? request.refused_beside : request.refused)[pool]);
  if (found == Found::kRoom) return true;
  // Any of its pools' free room comes before a victim in one.
  const bool waits_for_pool = pool != j.pools.back() && free_room_in_later_pool(j, pool);
  if (found == Found::kNothing && !waits_for_pool &&
      start_with_victims(
          query, std::tuple(j.leaf, j.request, j.spec.priority, pool, off,
                            waits_since(j) + disruption_terms(s_.tree(), order.path()).patience <= now_)))
    return true;
  note_refused(query.claimant);
  return false;
}

// Who starts or grows after it may be a victim for it, or be over its share by that: only in another round.
void Claimants::note_refused(const Claimant& c) {
  refused_leaves_.insert(c.path.front());
  refused_with_right_ =
      refused_with_right_ || may_be_eligible(s_.tree(), c, Eligibility::kByFairShare);  // the wider one
}

Claimants::Found Claimants::start_in_free_room(const SolutionQuery& q, Refusal& refusal) {
  const Claimant& c = q.claimant;
  const Job& j = s_.job(c.job);
  Found found = Found::kNothing;
  for (const View view : {View::kNow, View::kTarget}) {
    if (broken_bound(s_, c.path, c.pool, c.asked, applicant(j.spec), view)) continue;
    // Where pods look for others, these may have come.
    const bool remembered = !s_.request_of(j).about_pods && refusal.gains == s_.pool(c.pool).gains;
    if (view == View::kNow && remembered) continue;
    if (view == View::kTarget && s_.pool(c.pool).leaving == 0) continue;
    Statement statement(s_);
    const Hold hold = view == View::kNow ? Hold::kRunning : Hold::kNominated;
    const PlaceQuery places{c.job, c.pool, view, hold, {}, kWholePool, q.anywhere};
    if (!place(s_, statement, places, view == View::kNow ? &refusal : nullptr)) {
      if (view == View::kNow) refusal.gains = s_.pool(c.pool).gains;
      continue;
    }
    if (!s_.pool(c.pool).growable.empty()) {
      statement.rollback();
      if (in_the_way_of(s_, places, c)) {
        found = Found::kRoomOfOthers;
        continue;
      }
      if (!place(s_, statement, places)) continue;
    }
    const bool entitled = within_guarantee(c);
    decisions_.start(c.job, c.pool, statement, entitled);
    return Found::kRoom;
  }
  return found;
}

// With what has just been placed: the leaf and its ancestors stay within the smaller of quota and fair
// share.
bool Claimants::within_guarantee(const Claimant& c) const {
  return std::all_of(c.path.begin(), c.path.end(), [&](QueueId at) {
    return placement::within_guarantee(s_.tree(), at, c.pool, *c.fair, s_.tree().sums(at, c.pool).allocated,
                                       c.asked);
  });
}

bool Claimants::free_room_in_later_pool(const Job& j, PoolId after) {
  const JobId id = s_.jobs().find(j.spec.id);
  const auto path = s_.tree().path(j.leaf);
  for (auto it = std::find(j.pools.begin(), j.pools.end(), after) + 1; it != j.pools.end(); ++it) {
    if (broken_bound(s_, path, *it, s_.asked(s_.request_of(j), *it), applicant(j.spec), View::kNow)) continue;
    Statement statement(s_);
    if (place(s_, statement, {id, *it, View::kNow, Hold::kRunning, {}, kWholePool})) return true;
  }
  return false;
}

bool Claimants::start_with_victims(SolutionQuery q, const Kind& kind) {
  const auto known = no_solution_.find(kind);
  if (known != no_solution_.end() && known->second == decisions_.changes()) return false;
  q.limits_only = broken_bound(s_, q.claimant.path, q.claimant.pool, q.claimant.asked,
                               applicant(s_.job(q.claimant.job).spec), View::kTarget)
                      .has_value();
  const auto& [leaf, request, priority, pool, off, patient] = kind;
  const auto no_moves = no_moves_.find({request, pool, off});
  q.moves = no_moves == no_moves_.end() || no_moves->second != decisions_.changes();
  auto& chances = s_.requests.at(request).costs_too_much_since;
  const auto chance = chances.find({leaf, priority, pool, off});
  if (chance != chances.end()) q.since = chance->second;
  Statement statement(s_);
  Safe safe;
  const auto solution = find_solution(s_, statement, q, safe);
  if (safe.due) soonest(s_.pool(pool).due, *safe.due);
  if (!safe.costs_too_much && chance != chances.end()) chances.erase(chance);
  if (safe.costs_too_much) chances.try_emplace({leaf, priority, pool, off}, now_);
  safe_.erase({leaf, request, priority, pool});
  if (!solution) {
    no_solution_[kind] = decisions_.changes();
    if (safe.by_right || safe.pays || safe.waits_for_fair_share)
      safe_[{leaf, request, priority, pool}] = safe;
    // Who may move depends on the claimant's leaf where somebody is safe by minRuntime.
    if (q.moves && !q.limits_only && !safe.due) no_moves_[{request, pool, off}] = decisions_.changes();
    return false;
  }
  if (s_.observer != nullptr) s_.observer->solution(q, statement, *solution);
  decisions_.apply(q.claimant.job, q.claimant.pool, statement, *solution, within_guarantee(q.claimant));
  ++victims_;
  return true;
}

// Room that comes bit by bit is taken in one go, when it has been there for a while. Nothing is held
// meanwhile.
bool Claimants::is_too_early(const GrowthClaim& claim, PoolId pool, const Resources& grows_by) {
  Job& j = s_.job(claim.job);
  // It starts with all there is for it, and grows by all.
  if (j.started_in == s_.plans || j.grown_in == s_.plans) return false;
  j.room_since = room_to_grow_since(j).value_or(now_);
  const auto at = grows_at(s_, claim, pool, grows_by, *j.room_since);
  if (at && *at <= now_) return false;
  if (at) soonest(s_.pool(pool).due, *at);
  ++too_early_;
  return true;
}

bool Claimants::grow(const GrowthClaim& claim, PoolId pool, const std::vector<Resources>& fair) {
  const Job& j = s_.job(claim.job);
  const bool taken_already = j.started_in == s_.plans || j.grown_in == s_.plans;
  // A change of size would begin its start anew, and could keep it from ever being over.
  if (j.progress.is_starting && !taken_already) {
    // Who waits for its growth is not to wait for a start that takes longer than it should.
    if (stands_until(s_, j) > now_) soonest(s_.pool(pool).due, stands_until(s_, j));
    return false;
  }
  SolutionQuery q{.claimant = {claim.job, pool, claim.path, claim.asked, &fair},
                  .pods = claim.pods,
                  .now = now_,
                  .anywhere = !kept_off(s_, claim.job, pool, claim.asked)};
  const Resources free = free_in(s_.pool(pool));
  const Resources into_free_room = claim.asked * steps_of_growth(s_, claim, free);
  const Resources with_victims = claim.asked * steps_of_growth(s_, claim, free + s_.tree().preemptible(pool));
  for (const View view : {View::kNow, View::kTarget}) {
    if (broken_bound(s_, claim.path, pool, claim.asked, applicant(j.spec), view)) continue;
    if (view == View::kTarget && s_.pool(pool).leaving == 0) continue;
    Statement statement(s_);
    const Hold hold = view == View::kNow ? Hold::kRunning : Hold::kNominated;
    const PlaceQuery places{claim.job, pool, view, hold, claim.pods, kWholePool, q.anywhere};
    if (!place(s_, statement, places)) continue;
    if (j.started_in == s_.plans) {  // what it starts with would be undone like a start
      statement.rollback();
      if (in_the_way_of(s_, places, q.claimant)) return false;
      if (!place(s_, statement, places)) continue;
    }
    if (is_too_early(claim, pool, into_free_room)) return false;
    decisions_.grow(claim.job, statement);
    return true;
  }
  Job& job = s_.job(claim.job);
  // Others may have taken the room that it had noted. Its time goes on.
  job.claim_since = room_to_grow_since(job);
  job.room_since.reset();
  if (stands_until(s_, job) > now_) {
    if (!job.claim_since) job.claim_since = now_;  // who would give is looked for when it may grow
    soonest(s_.pool(pool).due, stands_until(s_, job));
    return false;
  }
  q.since = job.claim_since;
  Statement statement(s_);
  Safe safe;
  const auto solution = find_solution(s_, statement, q, safe);
  if (safe.due) soonest(s_.pool(pool).due, *safe.due);
  if (!solution && !safe.costs_too_much) job.claim_since.reset();
  if (!job.claim_since && (solution || safe.costs_too_much)) job.claim_since = now_;
  if (!solution) {
    note_refused(q.claimant);
    return false;
  }
  const auto at =
      taken_already ? std::optional(now_) : grows_at(s_, claim, pool, with_victims, *job.claim_since);
  if (!at || *at > now_) {
    if (at) soonest(s_.pool(pool).due, *at);
    return false;
  }
  if (s_.observer != nullptr) s_.observer->solution(q, statement, *solution);
  decisions_.apply(claim.job, pool, statement, *solution, false);
  ++victims_;
  return true;
}

}  // namespace muster::placement
