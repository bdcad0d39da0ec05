#include "plan/decisions.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "disruption/disruption.h"
#include "disruption/surge.h"
#include "explain/reasons.h"
#include "model/due.h"
#include "shares/admission.h"
#include "shares/eligibility.h"
#include "victims/movable.h"

namespace muster::placement {
namespace {

auto order_of(const PodPlace& p) {
  return std::tie(p.role, p.index);
}

void insert_sorted(Assignment& a, std::vector<Allocation>& allocations,
                   std::vector<Statement::Placed> placed) {
  for (auto& p : placed) {
    const auto at =
        std::upper_bound(a.pods.begin(), a.pods.end(), p.place,
                         [](const PodPlace& x, const PodPlace& y) { return order_of(x) < order_of(y); });
    allocations.insert(allocations.begin() + (at - a.pods.begin()), std::move(p.allocation));
    a.pods.insert(at, std::move(p.place));
  }
}

// What of it runs or may run now.
Assignment without_nominations(const Job& j) {
  Assignment a = *j.assignment;
  for (auto it = j.nominated_pods.rbegin(); it != j.nominated_pods.rend(); ++it)
    a.pods.erase(a.pods.begin() + static_cast<std::ptrdiff_t>(*it));
  return a;
}

std::string why(EvictReason reason, const std::string& beneficiary, bool is_senior) {
  switch (reason) {
    case EvictReason::kReclaimed:
      return "reclaimed for " + beneficiary + ", whose Project has a right to more than it holds";
    case EvictReason::kPreempted:
      return is_senior
                 ? "preempted for " + beneficiary + ", which has a higher priority in the same Project"
                 : "gave surplus to " + beneficiary + " of the same Project, whose minimum is guaranteed";
    case EvictReason::kConsolidated:
      return "moved to another place to make room for " + beneficiary;
    default:
      return "";
  }
}

}  // namespace

void erase_pods(Assignment& a, std::vector<Allocation>& allocations, const std::vector<std::size_t>& pods) {
  for (auto it = pods.rbegin(); it != pods.rend(); ++it) {
    a.pods.erase(a.pods.begin() + static_cast<std::ptrdiff_t>(*it));
    allocations.erase(allocations.begin() + static_cast<std::ptrdiff_t>(*it));
  }
}

Decisions::Entry* Decisions::find(JobId job, Decision::Kind kind) {
  for (auto it = entries_.rbegin(); it != entries_.rend(); ++it) {
    if (!it->dropped && it->job == job && it->decision.kind == kind) return &*it;
  }
  return nullptr;
}

Decisions::Entry& Decisions::say(Decision::Kind kind, JobId job, EvictReason reason,
                                 const std::string& beneficiary, std::string message) {
  entries_.push_back({{kind, s_.job(job).spec.id, {}, reason, beneficiary, std::move(message)}, job, false});
  return entries_.back();
}

// What a disturbance costs its victim counts from when it is decided, and not any more if it is dropped.
void Decisions::charge(Entry& e, const Victim& v) {
  const WorkTime cost = v.surges ? WorkTime{} : v.downtime;  // nobody misses what moves so
  e.decision.cost = cost;
  e.decision.owed = v.owed;
  e.decision.surges = v.surges;
  WorkTime& lost = s_.job(e.job).progress.lost;
  if (!v.owed) lost.value = wrapping_add(lost.value, cost.value);
}

void Decisions::drop(Entry& e) {
  e.dropped = true;
  WorkTime& lost = s_.job(e.job).progress.lost;
  if (!e.decision.owed) lost.value = wrapping_sub(lost.value, e.decision.cost.value);
}

void Decisions::start(JobId id, PoolId pool, Statement& statement, bool entitled) {
  const UnderWay under_way(*this);
  auto outcome = statement.commit();
  Assignment a{s_.pool(pool).spec.name, now_, {}};
  std::vector<Allocation> allocations;
  const bool runs = outcome.placed.empty() || outcome.placed.front().allocation.hold == Hold::kRunning;
  insert_sorted(a, allocations, std::move(outcome.placed));
  s_.stop_waiting(id, false);
  started_.push_back(id);
  ++changes_;
  Job& j = s_.job(id);
  // Its demand may have stood in another pool, somebody may want to be near it, nodes may be reserved for it.
  const auto& reservation = s_.pool(pool).reservation;
  if (j.pools.size() > 1 || s_.requests.any_about_pods() || (reservation && reservation->owner == id))
    ++openings_;
  j.started_in = s_.plans;
  j.entitled = entitled;
  j.assumed = runs;
  if (runs) begin_attempt(j, now_);
  s_.hold(id, std::move(a), std::move(allocations));
  if (runs) say(Decision::Kind::kStart, id, EvictReason::kNone, "", "");
}

void Decisions::add_pods(JobId id, std::vector<Statement::Placed> placed) {
  Job& j = s_.job(id);
  const bool runs = placed.front().allocation.hold == Hold::kRunning;
  for (auto& p : placed) p.allocation.added_in = runs ? s_.plans : 0;
  const WorkTime cost{wrapping_mul(size_of(j), downtime_of_resizing(j, now_).ms)};
  note_run(j, now_);
  auto [a, allocations] = s_.unhold(id);
  insert_sorted(a, allocations, std::move(placed));
  s_.hold(id, std::move(a), std::move(allocations));
  j.progress.resized = now_;
  j.grown_in = s_.plans;
  ++changes_;
  if (s_.requests.any_about_pods()) ++openings_;
  if (runs && !started_now(j) && find(id, Decision::Kind::kGrow) == nullptr)
    say(Decision::Kind::kGrow, id, EvictReason::kNone, "", "").decision.cost = cost;
}

void Decisions::grow(JobId id, Statement& statement) {
  const UnderWay under_way(*this);
  add_pods(id, statement.commit().placed);
}

void Decisions::back_to_waiting(JobId id) {
  Job& j = s_.job(id);
  s_.unhold(id);
  j.assumed = false;
  j.moving = false;
  j.started_in = 0;
  std::erase(started_, id);
  for (const auto kind : {Decision::Kind::kStart, Decision::Kind::kMove}) {
    if (Entry* e = find(id, kind)) {
      if (kind == Decision::Kind::kMove) {  // it was on its way elsewhere: now it just goes
        e->decision.kind = Decision::Kind::kEvict;
        continue;
      }
      drop(*e);
    }
  }
  s_.start_waiting(id);
}

// Who has gone for one whose start is undone, or who has to go as well, has gone for the one who takes its
// place.
void Decisions::pass_on(JobId undone, JobId claimant) {
  const std::string& heir = s_.job(claimant).spec.id;
  for (Entry& e : entries_) {
    Decision& d = e.decision;
    if (e.dropped || d.beneficiary != s_.job(undone).spec.id) continue;
    if (d.reason == EvictReason::kReclaimed || d.reason == EvictReason::kPreempted)
      d.reason =
          s_.job(e.job).leaf == s_.job(claimant).leaf ? EvictReason::kPreempted : EvictReason::kReclaimed;
    d.beneficiary = heir;
    d.message = why(d.reason, heir, s_.job(claimant).spec.priority > s_.job(e.job).spec.priority);
  }
}

void Decisions::give(const Victim& v, JobId claimant, PoolId pool, std::vector<Statement::Placed> moved) {
  Job& j = s_.job(v.job);
  const std::string& beneficiary = s_.job(claimant).spec.id;
  const bool is_senior = s_.job(claimant).spec.priority > j.spec.priority;
  // Pods of roles that an edit has removed hold nothing, and stop nobody.
  const bool whole = std::all_of(j.allocations.begin(), j.allocations.end(),
                                 [](const Allocation& c) { return c.node == kNoId; });
  const bool fresh = started_now(j) && !j.nominated();
  const bool runs = j.runs() && !fresh;
  ++changes_;
  ++openings_;
  if (!whole) {
    const bool any_ran = std::any_of(v.pods.begin(), v.pods.end(), [&](std::size_t i) {
      return std::any_of(j.leaving.begin(), j.leaving.end(),
                         [&](const Leaving& l) { return l.place == j.assignment->pods[i]; });
    });
    if (!fresh && any_ran) note_run(j, now_);
    auto [a, allocations] = s_.unhold(v.job);
    erase_pods(a, allocations, v.pods);
    s_.hold(v.job, std::move(a), std::move(allocations));
    if (!fresh && any_ran) {
      j.progress.resized = now_;
      j.shrunk_in = s_.plans;
      soonest(s_.pool(pool).due, now_ + seconds(1));  // then it may grow again
      if (Entry* grown = find(v.job, Decision::Kind::kGrow)) drop(*grown);
      if (find(v.job, Decision::Kind::kShrink) == nullptr)
        charge(
            say(Decision::Kind::kShrink, v.job, v.reason, beneficiary, why(v.reason, beneficiary, is_senior)),
            v);
    }
    const bool any_added = std::any_of(j.allocations.begin(), j.allocations.end(),
                                       [&](const Allocation& c) { return c.added_in == s_.plans; });
    Entry* grown = find(v.job, Decision::Kind::kGrow);
    if (grown != nullptr && !any_added) drop(*grown);
    return;
  }
  if (!moved.empty()) {
    auto [a, allocations] = s_.unhold(v.job);
    a = {s_.pool(pool).spec.name, a.since, {}};
    allocations.clear();
    if (v.surges) surge(v.job, moved);
    insert_sorted(a, allocations, std::move(moved));
    s_.hold(v.job, std::move(a), std::move(allocations));
    j.moving = !v.surges && (j.moving || runs);
    if (runs)
      charge(say(Decision::Kind::kMove, v.job, v.reason, beneficiary, why(v.reason, beneficiary, is_senior)),
             v);
    // All of it goes elsewhere, whatever was said of it.
    for (const auto kind :
         {Decision::Kind::kStart, Decision::Kind::kGrow, Decision::Kind::kShrink, Decision::Kind::kReplace}) {
      if (Entry* said = find(v.job, kind)) drop(*said);
    }
    return;
  }
  pass_on(v.job, claimant);
  if (!runs) return back_to_waiting(v.job);
  auto [a, allocations] = s_.unhold(v.job);
  // The places that this plan has found for lost or further pods go to somebody else: nobody has been told.
  for (const auto kind : {Decision::Kind::kGrow, Decision::Kind::kShrink, Decision::Kind::kReplace}) {
    if (Entry* said = find(v.job, kind)) drop(*said);
  }
  j.to_be_evicted = true;
  j.evicted_from = std::move(a);
  s_.start_waiting(v.job);  // counted as pending; a claimant again when its pods are gone
  evicted_.push_back(v.job);
  charge(say(Decision::Kind::kEvict, v.job, v.reason, beneficiary, why(v.reason, beneficiary, is_senior)), v);
}

// It starts at once: its new places are free, and its old pods stay until it is ready there.
void Decisions::surge(JobId id, std::vector<Statement::Placed>& moved) {
  Job& j = s_.job(id);
  for (auto& p : moved) s_.turn(p.allocation, Hold::kRunning);
  j.progress.is_ready = false;
  j.assumed = true;
}

void Decisions::apply(JobId claimant, PoolId pool, Statement& statement, const Solution& solution,
                      bool entitled) {
  const UnderWay under_way(*this);
  ++openings_;
  auto outcome = statement.commit();
  std::map<JobId, std::vector<Statement::Placed>> by_job;
  for (auto& p : outcome.placed) by_job[p.job].push_back(std::move(p));
  for (const Victim& v : solution.victims) give(v, claimant, pool, std::move(by_job[v.job]));
  Job& j = s_.job(claimant);
  auto mine = std::move(by_job[claimant]);
  if (j.assignment) return add_pods(claimant, std::move(mine));
  Assignment a{s_.pool(pool).spec.name, now_, {}};
  std::vector<Allocation> allocations;
  insert_sorted(a, allocations, std::move(mine));
  s_.stop_waiting(claimant, false);
  started_.push_back(claimant);
  ++changes_;
  j.started_in = s_.plans;
  j.entitled = entitled;
  s_.hold(claimant, std::move(a), std::move(allocations));
}

void Decisions::replace(JobId id, std::vector<std::size_t> pods, Statement& statement) {
  auto placed = statement.commit().placed;
  Job& j = s_.job(id);
  Decision d{Decision::Kind::kReplace, j.spec.id, {j.assignment->pool, now_, {}},
             EvictReason::kNodeFailed, "",        {}};
  for (std::size_t k = 0; k < pods.size(); ++k) {
    d.assignment.pods.push_back(placed[k].place);
    j.assignment->pods[pods[k]] = std::move(placed[k].place);
    j.allocations[pods[k]] = std::move(placed[k].allocation);
    j.allocations[pods[k]].added_in = s_.plans;
  }
  s_.end_displacement(id);
  ++changes_;
  entries_.push_back({std::move(d), id, false});
}

void Decisions::evict(JobId id, EvictReason reason, const std::string& beneficiary, std::string message) {
  Job& j = s_.job(id);
  if (!j.assignment) return;
  ++changes_;
  const bool ran = j.runs();
  Statement statement(s_);
  for (std::size_t pod = 0; pod < j.allocations.size(); ++pod) statement.release(id, pod);
  statement.commit();
  auto [a, allocations] = s_.unhold(id);
  if (!ran) {
    s_.start_waiting(id);
    return;
  }
  j.to_be_evicted = true;
  j.evicted_from = std::move(a);
  say(Decision::Kind::kEvict, id, reason, beneficiary, std::move(message));
  // Nothing of it need be left to wait for (all of its nodes may be gone): then it waits at once.
  s_.start_waiting(id);
}

void Decisions::shrink_to_placed(JobId id, EvictReason reason, std::string message) {
  Job& j = s_.job(id);
  auto pods = j.displaced;
  std::sort(pods.begin(), pods.end());
  note_run(j, now_);
  auto [a, allocations] = s_.unhold(id);
  erase_pods(a, allocations, pods);
  s_.hold(id, std::move(a), std::move(allocations));
  j.progress.resized = now_;
  j.shrunk_in = s_.plans;  // else it might grow in the same plan, and the caller hear only of that
  ++changes_;
  say(Decision::Kind::kShrink, id, reason, "", std::move(message));
}

void Decisions::reconsider() {
  auto list = std::exchange(evicted_, {});
  std::stable_sort(list.begin(), list.end(), [&](JobId a, JobId b) {
    const JobSpec& x = s_.job(a).spec;
    const JobSpec& y = s_.job(b).spec;
    return std::tie(y.priority, x.submitted, x.id) < std::tie(x.priority, y.submitted, y.id);
  });
  for (const JobId id : list) {
    Job& j = s_.job(id);
    Entry* entry = find(id, Decision::Kind::kEvict);
    if (entry == nullptr || !j.evicted_from || j.assignment) continue;
    Resources amounts;
    for (const Leaving& l : j.leaving) amounts += l.allocation.amounts;
    const PoolId pool = s_.find_pool(j.evicted_from->pool);
    const auto path = s_.tree().path(j.leaf);
    if (pool == kNoId || broken_bound(s_, path, pool, amounts, applicant(j.spec), View::kTarget)) continue;
    // With whole GPUs the totals say most of it.
    const Resources& free = s_.pool(pool).domains[0].free;
    if (amounts.gpu.value % kMilliPerGpu == 0 && amounts.gpu > free.gpu) continue;
    if (stays(id, pool)) {
      drop(*entry);
    } else if (!j.spec.interactive && !path.empty() && moves(id, pool)) {
      entry->decision.kind = Decision::Kind::kMove;
    } else {
      continue;
    }
    ++changes_;
  }
}

// Where it stood. Claimants of this plan that were nominated its places may take others instead: nobody has
// been told.
bool Decisions::stays(JobId id, PoolId pool) {
  Job& j = s_.job(id);
  if (j.leaving.size() != j.evicted_from->pods.size()) return false;
  Statement statement(s_);
  std::vector<JobId> nominated;
  for (const JobId other : s_.jobs().nominated()) {
    const Job& o = s_.job(other);
    if (!o.nominated() || !started_now(o) || s_.pool_of(o.assignment->pool) != pool) continue;
    const bool in_the_way = std::any_of(o.allocations.begin(), o.allocations.end(), [&](const Allocation& c) {
      return std::any_of(j.leaving.begin(), j.leaving.end(),
                         [&](const Leaving& l) { return l.allocation.node == c.node; });
    });
    if (in_the_way) nominated.push_back(other);
  }
  std::sort(nominated.begin(), nominated.end());
  for (const JobId other : nominated) {
    for (std::size_t pod = 0; pod < s_.job(other).allocations.size(); ++pod) statement.release(other, pod);
  }
  const std::size_t mark = statement.mark();
  std::size_t back = 0;
  for (; back < j.leaving.size() && s_.available(j.leaving[back].allocation, View::kTarget); ++back)
    s_.turn(j.leaving[back].allocation, Hold::kRunning);
  bool all = back == j.leaving.size();
  for (std::size_t k = 0; k < nominated.size() && all; ++k) {
    PlaceQuery query{nominated[k], pool, View::kTarget, Hold::kNominated, {}, kWholePool};
    for (const PodPlace& p : s_.job(nominated[k]).assignment->pods) query.pods.push_back({p.role, p.index});
    all = place(s_, statement, query).has_value();
  }
  if (!all) {
    statement.rollback(mark);
    while (back > 0) s_.turn(j.leaving[--back].allocation, Hold::kLeaving);
    return false;
  }
  auto outcome = statement.commit();
  std::map<JobId, std::vector<Statement::Placed>> by_job;
  for (auto& p : outcome.placed) by_job[p.job].push_back(std::move(p));
  for (Leaving& l : std::exchange(j.leaving, {}))
    by_job[id].push_back({id, std::move(l.place), std::move(l.allocation)});
  for (auto& [job, placed] : by_job) {
    Assignment a = job == id ? std::move(*j.evicted_from) : s_.unhold(job).first;
    a.pods.clear();
    std::vector<Allocation> allocations;
    insert_sorted(a, allocations, std::move(placed));
    s_.hold(job, std::move(a), std::move(allocations));
  }
  j.to_be_evicted = false;
  j.evicted_from.reset();
  return true;
}

// To another place that is free at once.
bool Decisions::moves(JobId id, PoolId pool) {
  Job& j = s_.job(id);
  if (!has_all_of_minimum(s_.request_of(j), j.evicted_from->pods)) return false;
  Resources amounts;
  for (const Leaving& l : j.leaving) amounts += l.allocation.amounts;
  const bool surges = may_surge(j) && has_room_to_surge(s_, j, pool, amounts, 0);
  Statement statement(s_);
  PlaceQuery query{id, pool, View::kNow, Hold::kNominated, {}, kWholePool};
  for (const PodPlace& p : j.evicted_from->pods) query.pods.push_back({p.role, p.index});
  if (!place(s_, statement, query)) return false;
  auto placed = statement.commit().placed;
  if (surges) surge(id, placed);
  Assignment a{j.evicted_from->pool, j.evicted_from->since, {}};
  std::vector<Allocation> allocations;
  insert_sorted(a, allocations, std::move(placed));
  j.to_be_evicted = false;
  j.evicted_from.reset();
  s_.hold(id, std::move(a), std::move(allocations));
  j.moving = !surges;
  if (!surges) return true;
  Entry& entry = *find(id, Decision::Kind::kEvict);
  if (!entry.decision.owed)
    j.progress.lost.value = wrapping_sub(j.progress.lost.value, entry.decision.cost.value);
  entry.decision.cost = {};
  entry.decision.surges = true;
  return true;
}

std::vector<Decision> Decisions::finish() {
  std::vector<Decision> list;
  list.reserve(entries_.size());
  for (Entry& e : entries_) {
    if (e.dropped) continue;
    const Job& j = s_.job(e.job);
    switch (e.decision.kind) {
      case Decision::Kind::kStart:
      case Decision::Kind::kGrow:
      case Decision::Kind::kShrink:
        if (!j.assignment) continue;
        e.decision.assignment = without_nominations(j);
        break;
      case Decision::Kind::kMove:
        if (!j.assignment) continue;
        e.decision.assignment = *j.assignment;
        break;
      case Decision::Kind::kReplace:  // of these, the plan may have taken surplus again
        if (!j.assignment) continue;
        std::erase_if(e.decision.assignment.pods, [&](const PodPlace& p) {
          const auto& now = j.assignment->pods;
          return std::find(now.begin(), now.end(), p) == now.end();
        });
        if (e.decision.assignment.pods.empty()) continue;
        break;
      case Decision::Kind::kEvict:
        break;
    }
    list.push_back(std::move(e.decision));
  }
  return list;
}

}  // namespace muster::placement
