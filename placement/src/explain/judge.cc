#include "explain/judge.h"

#include <algorithm>
#include <exception>
#include <map>
#include <utility>

#include "disruption/disruption.h"
#include "explain/reasons.h"
#include "model/due.h"
#include "model/statement.h"
#include "place/place.h"
#include "reserve/reservation.h"
#include "shares/admission.h"
#include "shares/backfill.h"
#include "shares/eligibility.h"

namespace muster::placement {
namespace {

constexpr std::int32_t kFirst = 100;  // of each pool: for these there is an estimate
constexpr std::size_t kMany = 1000;   // from then on not all are looked at by each plan
constexpr Duration kAllAfter = seconds(60);
constexpr Duration kWordsAfter = seconds(10);  // with many, the words of a shortage are kept so long

}  // namespace

void Judge::pending(const ServiceOrder& order) {
  Scene scene{order, order.pool(), false, true, {}, {}};
  Pool& p = s_.pool(scene.pool);
  scene.many = p.waiting > kMany;
  const bool all = !scene.many || !p.judged_all || s_.time >= *p.judged_all + kAllAfter;
  if (all && p.judging_since == 0) p.judging_since = s_.plans;
  const auto jobs = order.in_order(all ? p.waiting : kFirst);
  const JobId next_owner = reserve(s_, scene.pool, jobs);
  Where where;
  std::map<QueueId, std::int32_t> in_project;
  Forecast forecast(s_, scene.pool);
  for (const JobId id : jobs) {
    const Job& j = s_.job(id);
    if (j.pools.front() != scene.pool) continue;
    ++where.position;
    where.in_project = ++in_project[j.leaf];
    Forecast::Answer answer;
    if (where.position <= kFirst)
      answer = forecast.next(j, path(scene, j.leaf), s_.asked(s_.request_of(j), scene.pool));
    where.estimated_start = answer.start;
    where.from_history = answer.from_history;
    job(scene, id, where);
  }
  // It was found out just now, and others have waited for its turn.
  if (next_owner != kNoId && never_fits(s_, next_owner, scene.pool)) soonest(p.due, s_.time + seconds(1));
  for (const QueueId leaf : order.barred()) {
    if (!all) break;
    held(scene, forecast, leaf);
  }
  for (const JobId id : std::exchange(p.unjudged, {})) {
    const Job& j = s_.job(id);
    if (!j.waits || j.pending_reason) continue;
    if (const auto v = reason_of_leaf(s_.tree(), j.leaf, path(scene, j.leaf))) {
      publish(id, *v, 0, {});
    } else {
      job(scene, id, {});
    }
  }
  if (!scene.whole) {
    if (p.judging_since == 0) p.judging_since = s_.plans;
    return;
  }
  p.judging_since = 0;
  if (all) p.judged_all = scene.many ? std::optional(s_.time) : std::nullopt;
  if (!all) soonest(p.due, *p.judged_all + kAllAfter);
}

// The jobs of a Project in which nothing may start.
void Judge::held(Scene& scene, Forecast& forecast, QueueId leaf) {
  const auto& up = path(scene, leaf);
  const PendingReason v = reason_of_leaf(s_.tree(), leaf, up).value();
  std::int32_t asked_about = 0;
  for (const PendingKey& key : s_.pool(scene.pool).pending_queues.at(leaf).all) {
    const Job& j = s_.job(key.job);
    if (j.pools.front() != scene.pool) continue;
    Forecast::Answer answer;
    if (v.reason == Reason::kQueueHeld && ++asked_about <= kFirst)
      answer = forecast.held(j, up, s_.asked(s_.request_of(j), scene.pool));
    publish(key.job, v, 0, {.estimated_start = answer.start, .from_history = answer.from_history});
  }
}

bool Judge::put_off(Scene& scene, JobId id, bool may_be_kept_off) {
  if (!s_.work.is_spent()) return false;
  const Job& j = s_.job(id);
  const auto& refused = s_.request_of(j).refused;
  const auto known = refused.find(scene.pool);
  if (!may_be_kept_off && known != refused.end() && known->second.serial != 0) return false;
  scene.whole = false;
  if (!j.pending_reason) s_.pool(scene.pool).unjudged.insert(id);
  return true;
}

const std::vector<QueueId>& Judge::path(Scene& scene, QueueId leaf) const {
  const auto [known, fresh] = scene.paths.try_emplace(leaf);
  if (fresh) known->second = s_.tree().path(leaf);
  return known->second;
}

// A job that makes the code throw keeps the reason that it has. The others are judged.
void Judge::job(Scene& scene, JobId id, const Where& where) {
  try {
    judge(scene, id, where);
  } catch (const std::exception& e) {
    thrown_.push_back({s_.job(id).spec.id, e.what(), true});
  }
}

void Judge::judge(Scene& scene, JobId id, const Where& where) {
  const Job& j = s_.job(id);
  const PoolId pool = scene.pool;
  const auto& up = path(scene, j.leaf);
  if (const auto drain = reason_of_drain(s_, j, pool, up)) return publish(id, *drain, 0, where);
  const Resources asked = s_.asked(s_.request_of(j), pool);
  const auto bound = broken_bound(s_, up, pool, asked, applicant(j.spec), View::kNow);
  if (bound && bound->binds) return publish(id, reason_of_bound(s_, *bound, pool), 0, where);
  const bool off = kept_off(s_, id, pool, asked);
  if (put_off(scene, id, off)) return;
  if (off && fits_reserved(id, pool)) return publish(id, reason_of_reservation(s_, j, pool), 0, where);
  const Refusal& refusal = described(id, scene);
  const auto [eligibility, fresh] = scene.eligibilities.try_emplace({j.leaf, j.request});
  if (fresh && !refusal.never) eligibility->second = without_right(scene, j, up);
  const PendingReason* shortage = &refusal.pending_reason;
  std::optional<PendingReason> with_safe;
  const auto safe = safe_.find({j.leaf, j.request, j.spec.priority, pool});
  if (safe != safe_.end() && !refusal.never) {
    shortage = &with_safe.emplace(refusal.pending_reason);
    with_safe->message += why_not_yet(j, safe->second, up);
  }
  const auto& reservation = s_.pool(pool).reservation;
  if (reservation && reservation->owner == id) {
    Where at = where;
    if (reservation->start) {
      at.estimated_start = s_.tree().after_drains(up, *reservation->start, j.spec.max_runtime);
      at.from_history = false;
    }
    const PendingReason& v = eligibility->second ? *eligibility->second : *shortage;
    return publish(id, reason_of_owner(s_, v, *reservation), 0, at);
  }
  if (eligibility->second) {
    PendingReason v = *eligibility->second;
    if (safe != safe_.end()) v.message += restart_not_yet(safe->second);
    return publish(id, v, 0, where);
  }
  publish(id, *shortage, with_safe ? 0 : refusal.serial, where);
}

std::string Judge::why_not_yet(const Job& j, const Safe& safe, const std::vector<QueueId>& up) const {
  std::string text;
  if (safe.by_right) {
    text += "; " + s_.job(safe.by_right->second).spec.id + " is safe until " + show(safe.by_right->first) +
            " by minRuntime";
  }
  if (safe.pays) {
    text += "; others are disturbed for it from " + show(*safe.pays) +
            " on, when what is free has idled for as long as that costs";
  }
  text += restart_not_yet(safe);
  if (safe.waits_for_fair_share) {
    text += "; its fair share is owed to it from " +
            show(waits_since(j) + disruption_terms(s_.tree(), up).patience) + " on (disruption.patience)";
  }
  return text;
}

std::string Judge::restart_not_yet(const Safe& safe) const {
  if (!safe.restarts) return "";
  return "; " + s_.job(safe.restarts->second).spec.id +
         " would have to restart to give it surplus, and is let be until " + show(safe.restarts->first);
}

std::optional<PendingReason> Judge::without_right(const Scene& scene, const Job& j,
                                                  const std::vector<QueueId>& up) {
  const ServiceOrder& order = scene.order;
  Claimant c{s_.jobs().find(j.spec.id), order.pool(), up, s_.asked(s_.request_of(j), order.pool()),
             &order.fair()};
  // What others hold and could give would do: only the right to it is missing.
  const Pool& p = s_.pool(c.pool);
  const TreeSums& own = s_.tree().sums(j.leaf, c.pool);
  return reason_of_fair_share(
      s_, c, p.domains[0].free + s_.tree().preemptible(c.pool) - (own.allocated - own.non_preemptible));
}

// The refusal of a request (of this job and all that ask the same) with numbers as they are now.
const Refusal& Judge::described(JobId id, Scene& scene) {
  const PoolId pool = scene.pool;
  Request& request = s_.requests.at(s_.job(id).request);
  Refusal& refusal = request.refused[pool];
  if (refusal.version == s_.pool(pool).version) return refusal;
  if (scene.many && refusal.serial != 0 && s_.time < refusal.described + kWordsAfter) return refusal;
  const std::uint64_t since = s_.pool(pool).judging_since;
  const bool has_new_words = since != 0 && since < s_.plans && refusal.described_in >= since;
  if (refusal.serial != 0 && (has_new_words || s_.work.is_spent())) {
    scene.whole = scene.whole && has_new_words;
    return refusal;
  }
  refusal.described = s_.time;
  refusal.described_in = s_.plans;
  // Which of several roles it was, and how many had found a place, only another search can tell.
  if (request.roles.size() > 1 || request.about_pods || !s_.jobs().with_anti_affinity().empty()) {
    Statement statement(s_);
    place(s_, statement, {id, pool, View::kNow, Hold::kRunning, {}, kWholePool}, &refusal);
  }
  PendingReason v = reason_of_shortage(s_, request, pool, refusal);
  if (refusal.serial == 0 || v != refusal.pending_reason) {
    refusal.pending_reason = std::move(v);
    refusal.serial = ++s_.last_serial;
  }
  refusal.version = s_.pool(pool).version;
  refusal.members = s_.pool(pool).members;
  return refusal;
}

bool Judge::fits_reserved(JobId id, PoolId pool) {
  const auto [known, fresh] = fits_reserved_.try_emplace({s_.job(id).request, pool});
  if (fresh) {
    Statement statement(s_);
    known->second =
        place(s_, statement, {id, pool, View::kNow, Hold::kRunning, {}, kWholePool, true}).has_value();
  }
  return known->second;
}

void Judge::nominated(PoolId pool) {
  for (const JobId id : s_.jobs().nominated()) {
    const Job& j = s_.job(id);
    if (!j.nominated() || s_.pool_of(j.assignment->pool) != pool) continue;
    publish(id, reason_of_nomination(s_, id), 0, {});
  }
}

void Judge::sidelined() {
  if (!s_.sidelined_changed) return;
  s_.sidelined_changed = false;
  for (const JobId id : s_.jobs().sidelined()) publish(id, reason_of_sidelined(s_, s_.job(id)), 0, {});
}

// `serial`: of the refusal that the pending reason comes from; equal serials mean equal pending reasons.
void Judge::publish(JobId id, const PendingReason& pending_reason, std::uint64_t serial, const Where& where) {
  Job& j = s_.job(id);
  const bool same_text = j.pending_reason && serial != 0 && serial == j.pending_reason_serial;
  if (same_text && j.pending_reason->position == where.position &&
      j.pending_reason->project_position == where.in_project &&
      j.pending_reason->estimated_start == where.estimated_start &&
      j.pending_reason->estimated_from_history == where.from_history)
    return;
  PendingReason v = same_text ? *j.pending_reason : pending_reason;
  v.position = where.position;
  v.project_position = where.in_project;
  v.estimated_start = where.estimated_start;
  v.estimated_from_history = where.from_history;
  j.pending_reason_serial = serial;
  if (!same_text && j.pending_reason == v) return;
  j.pending_reason = std::move(v);
  changed_.push_back(j.spec.id);
}

}  // namespace muster::placement
