#include "plan/claimants.h"

#include <algorithm>
#include <utility>

#include "disruption/disruption.h"
#include "model/due.h"
#include "model/statement.h"
#include "place/place.h"
#include "plan/plan_observer.h"
#include "pool/totals.h"
#include "shares/admission.h"
#include "shares/backfill.h"
#include "shares/entitlement.h"
#include "shares/shares.h"

namespace muster::placement {
namespace {

// Of those who have found room to grow and may not take it yet, so many are searched for in each plan, and so
// many more who find it for the first time.
constexpr int kMaxTooEarly = 100;

}  // namespace

void Claimants::begin_round() {
  refused_leaves_.clear();
  refused_with_right_ = false;
}

void Claimants::begin_growth() {
  too_early_ = new_to_room_ = 0;
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
  if (start_in_free_room(query, (off ? request.refused_beside : request.refused)[pool])) return true;
  // Any of its pools' free room comes before a victim in one.
  const bool waits_for_pool = pool != j.pools.back() && free_room_in_later_pool(j, pool);
  if (!waits_for_pool &&
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

bool Claimants::start_in_free_room(const SolutionQuery& q, Refusal& refusal) {
  const Claimant& c = q.claimant;
  const Job& j = s_.job(c.job);
  for (const View view : {View::kNow, View::kTarget}) {
    if (broken_bound(s_, c.path, c.pool, c.asked, applicant(j.spec), view)) continue;
    // Where pods look for others, these may have come.
    const bool remembered = !s_.request_of(j).about_pods && refusal.gains == s_.pool(c.pool).gains;
    if (view == View::kNow && remembered) continue;
    if (view == View::kTarget && nobody_leaves(c.pool, c.path)) continue;
    Statement statement(s_);
    const Hold hold = view == View::kNow ? Hold::kRunning : Hold::kNominated;
    if (!place(s_, statement, {c.job, c.pool, view, hold, {}, kWholePool, q.anywhere},
               view == View::kNow ? &refusal : nullptr)) {
      if (view == View::kNow) refusal.gains = s_.pool(c.pool).gains;
      continue;
    }
    const bool entitled = within_guarantee(c);
    decisions_.start(c.job, c.pool, statement, entitled);
    return true;
  }
  return false;
}

// With what has just been placed: the leaf and its ancestors stay within the smaller of quota and fair
// share.
bool Claimants::within_guarantee(const Claimant& c) const {
  return std::all_of(c.path.begin(), c.path.end(), [&](QueueId at) {
    return placement::within_guarantee(s_.tree(), at, c.pool, *c.fair, s_.tree().sums(at, c.pool).allocated,
                                       c.asked);
  });
}

// Neither from the pool's nodes nor from its queues. A node may have come to another pool since: its pods are
// charged in the pool that they were started in.
bool Claimants::nobody_leaves(PoolId pool, const std::vector<QueueId>& path) const {
  return s_.pool(pool).leaving == 0 && std::none_of(path.begin(), path.end(), [&](QueueId at) {
           return s_.tree().sums(at, pool).leaving.pods > 0;
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
  if (safe.costs_too_much) {
    chances.try_emplace({leaf, priority, pool, off}, now_);
    costs_too_much_in_.insert(pool);
  }
  safe_.erase({leaf, request, priority, pool});
  if (!solution) {
    no_solution_[kind] = decisions_.changes();
    if (safe.by_right || safe.pays || safe.restarts || safe.waits_for_fair_share)
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

// Until when it may not grow because its size has changed; what this very plan has given it is not all yet.
Time Claimants::stands_until(const Job& j) const {
  return j.progress.resized && j.grown_in != s_.plans ? *j.progress.resized + j.spec.grow_after : Time{};
}

// What there was before its size changed is what it has grown by, or was taken from it.
bool Claimants::has_noted_room(const Job& j) const {
  return j.room_since && !(j.progress.resized && *j.room_since < *j.progress.resized);
}

// Room that comes bit by bit is taken in one go, when it has been there for a while. Nothing is held
// meanwhile. Absent: to take it never pays.
std::optional<Time> Claimants::may_take_room(const Growth::GrowthClaim& claim, PoolId pool,
                                             const Resources& grows_by) const {
  const Job& j = s_.job(claim.job);
  const auto pays = growth_pays(claim, pool, grows_by, *j.room_since);
  if (!pays) return std::nullopt;
  return std::max({*pays, *j.room_since + j.spec.grow_quiet, stands_until(j)});
}

// Where very many could grow, those behind the first are not searched for in every plan. Whoever has found
// room counts as finding it still, until it may take it: then it is searched for in any case.
bool Claimants::waits_without_a_search(const Growth::GrowthClaim& claim, PoolId pool,
                                       const Resources& grows_by) {
  const Job& j = s_.job(claim.job);
  if (j.started_in == s_.plans || j.grown_in == s_.plans) return false;
  if (!has_noted_room(j)) {
    if (new_to_room_ < kMaxTooEarly) return false;
    soonest(s_.pool(pool).due, now_ + seconds(1));
    return true;
  }
  const auto from = may_take_room(claim, pool, grows_by);
  if (too_early_ < kMaxTooEarly || (from && *from <= now_)) return false;
  if (from) soonest(s_.pool(pool).due, *from);
  return true;
}

bool Claimants::is_too_early(const Growth::GrowthClaim& claim, PoolId pool, const Resources& grows_by) {
  Job& j = s_.job(claim.job);
  // It starts with all there is for it, and grows by all.
  if (j.started_in == s_.plans || j.grown_in == s_.plans) return false;
  const bool is_new = !has_noted_room(j);
  if (is_new) j.room_since = now_;
  const auto from = may_take_room(claim, pool, grows_by);
  if (from && *from <= now_) return false;
  if (from) soonest(s_.pool(pool).due, *from);
  ++(is_new ? new_to_room_ : too_early_);
  return true;
}

std::optional<Time> Claimants::growth_pays(const Growth::GrowthClaim& claim, PoolId pool,
                                           const Resources& grows_by, Time room_since) const {
  if (disruption_terms(s_.tree(), claim.path).free()) return room_since;
  return placement::growth_pays(s_, s_.job(claim.job), pool, grows_by, {room_since, now_});
}

Time Claimants::growth_pays_its_victims(const Growth::GrowthClaim& claim, PoolId pool,
                                        const Solution& solution, Time since) const {
  if (disruption_terms(s_.tree(), claim.path).free()) return since;
  Wide cost = 0;
  for (const Victim& v : solution.victims) {
    if (v.whole) cost += v.cost;
  }
  return placement::growth_pays_its_victims(s_, pool, cost, claim.asked, since);
}

bool Claimants::grow(const Growth::GrowthClaim& claim, PoolId pool, const std::vector<Resources>& fair) {
  const Job& j = s_.job(claim.job);
  const bool taken_already = j.started_in == s_.plans || j.grown_in == s_.plans;
  // A change of size would begin its start anew, and could keep it from ever being over.
  if (j.progress.is_starting && !taken_already) return false;
  SolutionQuery q{.claimant = {claim.job, pool, claim.path, claim.asked, &fair},
                  .pods = claim.pods,
                  .now = now_,
                  .anywhere = !kept_off(s_, claim.job, pool, claim.asked)};
  const Resources free = free_in(s_.pool(pool));
  const Resources into_free_room = claim.asked * steps_of_growth(s_, claim, free);
  const Resources with_victims = claim.asked * steps_of_growth(s_, claim, free + s_.tree().preemptible(pool));
  if (waits_without_a_search(claim, pool, into_free_room)) return false;
  for (const View view : {View::kNow, View::kTarget}) {
    if (broken_bound(s_, claim.path, pool, claim.asked, applicant(j.spec), view)) continue;
    if (view == View::kTarget && nobody_leaves(pool, claim.path)) continue;
    Statement statement(s_);
    const Hold hold = view == View::kNow ? Hold::kRunning : Hold::kNominated;
    if (!place(s_, statement, {claim.job, pool, view, hold, claim.pods, kWholePool, q.anywhere})) continue;
    if (is_too_early(claim, pool, into_free_room)) return false;
    decisions_.grow(claim.job, statement);
    return true;
  }
  s_.job(claim.job).room_since.reset();
  if (stands_until(j) > now_) {
    soonest(s_.pool(pool).due, stands_until(j));
    return false;
  }
  Job& job = s_.job(claim.job);
  // What its size had before has changed.
  if (j.progress.resized && job.claim_since && *job.claim_since < *j.progress.resized)
    job.claim_since.reset();
  q.since = job.claim_since;
  Statement statement(s_);
  Safe safe;
  const auto solution = find_solution(s_, statement, q, safe);
  if (safe.due) soonest(s_.pool(pool).due, *safe.due);
  if (safe.costs_too_much) costs_too_much_in_.insert(pool);
  if (!solution && !safe.costs_too_much) job.claim_since.reset();
  if (!job.claim_since && (solution || safe.costs_too_much)) job.claim_since = now_;
  if (!solution) {
    note_refused(q.claimant);
    return false;
  }
  auto pays = taken_already ? std::optional(now_) : growth_pays(claim, pool, with_victims, *job.claim_since);
  if (pays) pays = std::max(*pays, growth_pays_its_victims(claim, pool, *solution, *job.claim_since));
  if (!pays || *pays > now_) {
    if (pays) soonest(s_.pool(pool).due, *pays);
    return false;
  }
  if (s_.observer != nullptr) s_.observer->solution(q, statement, *solution);
  decisions_.apply(claim.job, pool, statement, *solution, false);
  ++victims_;
  return true;
}

}  // namespace muster::placement
