#include "muster/placement/plan.h"

#include <algorithm>
#include <exception>
#include <map>
#include <set>
#include <tuple>
#include <utility>

#include "disruption/disruption.h"
#include "explain/judge.h"
#include "model/cluster_model.h"
#include "model/due.h"
#include "model/statement.h"
#include "muster/placement/cluster.h"
#include "order/growth.h"
#include "order/service_order.h"
#include "place/place.h"
#include "plan/decisions.h"
#include "plan/plan_observer.h"
#include "plan/repair.h"
#include "plan/turns.h"
#include "pool/totals.h"
#include "reserve/reservation.h"
#include "shares/admission.h"
#include "shares/backfill.h"
#include "shares/entitlement.h"
#include "shares/past.h"
#include "shares/shares.h"
#include "victims/victims.h"

namespace muster::placement {
namespace {

// In one plan what it started may be undone for somebody with a better right; after so many rounds not any
// more.
constexpr int kMaxRounds = 64;
// So many jobs of a pool wait at once until room has been there for long enough: they take it first.
constexpr int kMaxTooEarly = 100;

class Planner {
 public:
  Planner(ClusterModel& state, Time now) : s_(state), now_(now), decisions_(state, now), turns_(state) {}

  Plan run() {
    ++s_.plans;
    s_.time = now_;
    s_.settle();
    advance_past_use(s_, now_);
    end_double_use(s_, decisions_);
    for (const Pool& p : s_.pools) {
      if (dirty(p)) drain(s_, decisions_, p);
      if (has_changed(p)) turns_.note_change();
    }
    replace_displaced(s_, decisions_);
    decisions_.start_nominated();
    s_.work.begin(s_.max_plan_steps);
    for (int round = 0; !is_last(round); ++round) {
      serve();
      decisions_.reconsider();
      const auto before = decisions_.changes();
      decisions_.start_nominated();
      // Else who has started so may grow, or leave room.
      if (decisions_.changes() == before || turns_.were_cut_short() || turns_.swept()) break;
    }
    turns_.leave_rest(served_, decisions_.changes() > 0);
    judge();
    Plan plan;
    plan.is_cut_off = cut_off_ || work_is_left();
    plan.decisions = decisions_.finish();
    plan.thrown = std::move(thrown_);
    note_past_use(s_);
    plan.pending_reasons = std::move(pending_reasons_);
    for (const Pool& p : s_.pools) {
      if (p.known && p.due && (!plan.wake || *p.due < *plan.wake)) plan.wake = p.due;
    }
    if (work_is_left()) plan.wake = now_;
    return plan;
  }

 private:
  // Whether a loop ends here though there may be more to do.
  bool is_last(int round) {
    if (round < kMaxRounds) return false;
    cut_off_ = true;
    return true;
  }

  // --- what waits

  bool has_changed(const Pool& p) const {
    return p.known && (p.version != p.judged || (p.due && *p.due <= now_));
  }
  bool dirty(const Pool& p) const {
    return has_changed(p) || (p.known && (p.has_unserved || p.judging_since != 0));
  }

  // Round after round until nothing changes: what one round evicts, undoes or starts can let others start.
  // Positions and reasons are those of the last round. A plan that goes on makes one round: it ends when all
  // have had their turn.
  void serve() {
    for (int round = 0; !is_last(round); ++round) {
      const auto before = decisions_.openings();
      begin_round();
      serve_in_order();
      bool again = decisions_.openings() != before;
      for (const JobId id : decisions_.take_started()) {
        s_.leave_pending_queues(id);
        again = again || concerns_refused(id);
      }
      if (turns_.were_cut_short()) return;
      if (again && !turns_.goes_on()) continue;
      const auto grown = grow();
      if (turns_.were_cut_short()) return;
      if (turns_.goes_on() && turns_.end_sweep(decisions_.changes() > 0)) return;
      again = std::any_of(grown.begin(), grown.end(), [&](JobId id) { return concerns_refused(id); });
      if (decisions_.openings() == before && !again) {
        served_all_ = decisions_.changes();
        break;
      }
    }
  }

  void begin_round() {
    refused_leaves_.clear();
    refused_with_right_ = false;
    for (std::size_t i = 0; i < s_.pools.size(); ++i) {  // also those that the last round has touched
      const auto p = static_cast<PoolId>(i);
      if (!dirty(s_.pools[i]) || std::find(served_.begin(), served_.end(), p) != served_.end()) continue;
      served_.push_back(p);
      if (!has_changed(s_.pools[i]) && !s_.pools[i].has_unserved) reasons_only_.insert(p);
      // Those who are not looked at in this plan have said when they are to be looked at.
      const bool all_are_looked_at = !turns_.goes_on() && !reasons_only_.contains(p);
      auto& due = s_.pools[i].due;
      if (all_are_looked_at || (due && *due <= now_)) due.reset();
    }
    std::sort(served_.begin(), served_.end());
    for (const PoolId p : served_) refresh_reservation(s_, p);
    orders_.clear();
    refused_in_.clear();
    reserving_.clear();
    turns_.begin_round();
    orders_.reserve(served_.size());
    for (const PoolId p : served_) {
      orders_.emplace_back(s_, p);
      note_rights_of_owner(s_, p);
    }
  }

  void serve_in_order() {
    while (const auto at = next_order()) {
      if (turns_.are_over()) return;
      serve_head(*at);
    }
  }

  bool work_is_left() const {
    return std::any_of(s_.pools.begin(), s_.pools.end(),
                       [](const Pool& p) { return p.known && (p.has_unserved || p.judging_since != 0); });
  }

  // What is thrown while one job is looked at costs this job its turn, and the others nothing: what was tried
  // for it is undone. Only if a decision was half made can the model not be trusted any more.
  template <class Look>
  bool guarded(JobId id, bool waits, Look&& look) {
    try {
      return look();
    } catch (const std::exception& e) {
      if (decisions_.is_half_made()) throw;
      thrown_.push_back({s_.job(id).spec.id, e.what(), waits});
      threw_.insert(id);
      for (Pool& p : s_.pools) p.rankings = {};  // one of them may have been under way
      return false;
    }
  }

  // --- one claimant after the other

  // A job goes into the first of its pools that takes it, so its turn in one comes after its turn in those
  // before. Two jobs may wait for each other that way: then the first pool decides.
  std::optional<std::size_t> next_order() {
    std::optional<std::size_t> any;
    for (std::size_t i = 0; i < orders_.size(); ++i) {
      if (reasons_only_.contains(orders_[i].pool())) continue;
      const JobId id = orders_[i].head();
      if (id == kNoId) continue;
      if (!any) any = i;
      const Job& j = s_.job(id);
      const auto here = std::find(j.pools.begin(), j.pools.end(), orders_[i].pool());
      if (std::all_of(j.pools.begin(), here, [&](PoolId p) { return decided(id, p); })) return i;
    }
    return any;
  }
  bool decided(JobId id, PoolId pool) const {
    const bool served =
        std::any_of(orders_.begin(), orders_.end(), [&](const ServiceOrder& o) { return o.pool() == pool; });
    return !served || refused_in_.contains({id, pool});
  }

  void serve_head(std::size_t at) {
    ServiceOrder& order = orders_[at];
    const JobId id = order.head();
    const auto before = victims_;
    const bool passed_over = threw_.contains(id) || turns_.had(order.pool(), id);
    const bool infeasible = !passed_over && order.head_is_infeasible();
    if (infeasible) s_.requests.at(s_.job(id).request).costs_too_much_since.clear();
    const bool refused = passed_over || infeasible || !guarded(id, true, [&] { return served(id, order); });
    if (refused && s_.job(id).pools.size() > 1) refused_in_.emplace(id, order.pool());
    const bool threw = threw_.contains(id);  // which says nothing of others that ask the same
    if (refused && !passed_over && !threw) turns_.refuse(order.pool(), id);
    // Another of its pools may take it.
    if (refused && !passed_over && !threw && s_.job(id).pools.back() == order.pool())
      reserve_for(s_, order.pool(), id, reserving_[order.pool()]);
    order.pop(refused && !threw);
    if (victims_ == before) return;
    for (ServiceOrder& o : orders_) o.rank_anew();
  }

  // One claimant with all its actions: free room, room that others are leaving, room that it may make.
  bool served(JobId id, const ServiceOrder& order) {
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
  void note_refused(const Claimant& c) {
    refused_leaves_.insert(c.path.front());
    refused_with_right_ =
        refused_with_right_ || may_be_eligible(s_.tree(), c, Eligibility::kByFairShare);  // the wider one
  }
  bool concerns_refused(JobId started) const {
    return refused_with_right_ || refused_leaves_.contains(s_.job(started).leaf);
  }

  bool start_in_free_room(const SolutionQuery& q, Refusal& refusal) {
    const Claimant& c = q.claimant;
    const Job& j = s_.job(c.job);
    for (const View view : {View::kNow, View::kTarget}) {
      if (broken_bound(s_, c.path, c.pool, c.asked, applicant(j.spec), view)) continue;
      // Where pods look for others, these may have come.
      const bool remembered = !s_.request_of(j).about_pods && refusal.gains == s_.pool(c.pool).gains;
      if (view == View::kNow && remembered) continue;
      if (view == View::kTarget && s_.pool(c.pool).leaving == 0) continue;
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
  bool within_guarantee(const Claimant& c) const {
    return std::all_of(c.path.begin(), c.path.end(), [&](QueueId at) {
      return placement::within_guarantee(s_.tree(), at, c.pool, *c.fair, s_.tree().sums(at, c.pool).allocated,
                                         c.asked);
    });
  }

  bool free_room_in_later_pool(const Job& j, PoolId after) {
    const JobId id = s_.jobs().find(j.spec.id);
    const auto path = s_.tree().path(j.leaf);
    for (auto it = std::find(j.pools.begin(), j.pools.end(), after) + 1; it != j.pools.end(); ++it) {
      if (broken_bound(s_, path, *it, s_.asked(s_.request_of(j), *it), applicant(j.spec), View::kNow))
        continue;
      Statement statement(s_);
      if (place(s_, statement, {id, *it, View::kNow, Hold::kRunning, {}, kWholePool})) return true;
    }
    return false;
  }

  // Those who are alike in all that decides whether there are victims for them; the last: it has waited so
  // long that its fair share is owed to it.
  using Kind = std::tuple<QueueId, RequestId, std::int64_t, PoolId, bool, bool>;
  bool start_with_victims(SolutionQuery q, const Kind& kind) {
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
      if (safe.by_right || safe.pays || safe.waits_for_fair_share || safe.preempts)
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

  // --- surplus

  std::vector<JobId> grow() {
    std::vector<JobId> list;
    for (ServiceOrder& order : orders_) {
      const PoolId pool = order.pool();
      if (reasons_only_.contains(pool)) continue;
      const auto fair = fair_shares(s_, pool);
      s_.pool(pool).fair = fair;
      Growth growth(s_, pool, fair, s_.pool(pool).due);
      too_early_ = 0;
      while (too_early_ < kMaxTooEarly) {
        const auto claim = growth.next();
        if (!claim) break;
        if (turns_.are_over()) return list;
        const auto before = victims_;
        if (threw_.contains(claim->job) || turns_.had_for_growth(pool, claim->job)) {
          growth.refused();
        } else if (guarded(claim->job, false, [&] { return grown(*claim, pool, fair); })) {
          list.push_back(claim->job);
          growth.granted(victims_ != before);
        } else {
          turns_.refuse_growth(pool, claim->job);
          growth.refused();
        }
      }
    }
    return list;
  }

  // Until when it may not grow because its size has changed; what this very plan has given it is not all yet.
  Time stands_until(const Job& j) const {
    return j.progress.resized && j.grown_in != s_.plans ? *j.progress.resized + j.spec.grow_after : Time{};
  }

  // Room that comes bit by bit is taken in one go, when it has been there for a while. Nothing is held
  // meanwhile.
  bool is_too_early(const Growth::GrowthClaim& claim, PoolId pool, const Resources& grows_by) {
    Job& j = s_.job(claim.job);
    // It starts with all there is for it, and grows by all.
    if (j.started_in == s_.plans || j.grown_in == s_.plans) return false;
    // What there was before its size changed is what it has grown by, or was taken from it.
    if (!j.room_since || (j.progress.resized && *j.room_since < *j.progress.resized)) j.room_since = now_;
    Time due = std::max(*j.room_since + j.spec.grow_quiet, stands_until(j));
    const auto pays = growth_pays(claim, pool, grows_by, *j.room_since);
    if (pays && *pays <= now_ && due <= now_) return false;
    if (pays) soonest(s_.pool(pool).due, std::max(due, *pays));
    ++too_early_;
    return true;
  }

  std::optional<Time> growth_pays(const Growth::GrowthClaim& claim, PoolId pool, const Resources& grows_by,
                                  Time room_since) const {
    if (disruption_terms(s_.tree(), claim.path).free()) return room_since;
    return placement::growth_pays(s_, s_.job(claim.job), pool, grows_by, {room_since, now_});
  }

  bool grown(const Growth::GrowthClaim& claim, PoolId pool, const std::vector<Resources>& fair) {
    const Job& j = s_.job(claim.job);
    SolutionQuery q{.claimant = {claim.job, pool, claim.path, claim.asked, &fair},
                    .pods = claim.pods,
                    .now = now_,
                    .anywhere = !kept_off(s_, claim.job, pool, claim.asked)};
    const Resources free = free_in(s_.pool(pool));
    const Resources into_free_room = claim.asked * steps_of_growth(s_, claim, free);
    const Resources with_victims =
        claim.asked * steps_of_growth(s_, claim, free + s_.tree().preemptible(pool));
    for (const View view : {View::kNow, View::kTarget}) {
      if (broken_bound(s_, claim.path, pool, claim.asked, applicant(j.spec), view)) continue;
      if (view == View::kTarget && s_.pool(pool).leaving == 0) continue;
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
    const bool taken_already = j.started_in == s_.plans || j.grown_in == s_.plans;
    // What its size had before has changed.
    if (j.progress.resized && job.claim_since && *job.claim_since < *j.progress.resized)
      job.claim_since.reset();
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
    const auto pays =
        taken_already ? std::optional(now_) : growth_pays(claim, pool, with_victims, *job.claim_since);
    if (!pays || *pays > now_) {
      if (pays) soonest(s_.pool(pool).due, *pays);
      return false;
    }
    if (s_.observer != nullptr) s_.observer->solution(q, statement, *solution);
    decisions_.apply(claim.job, pool, statement, *solution, false);
    ++victims_;
    return true;
  }

  // --- why the rest waits: as things are at the end of the plan

  // First those pools that the last plan has not done with, so that each has its turn.
  std::vector<const ServiceOrder*> by_what_is_left() const {
    std::vector<const ServiceOrder*> list;
    for (const bool is_left : {true, false}) {
      for (const ServiceOrder& order : orders_) {
        if ((s_.pool(order.pool()).judging_since != 0) == is_left) list.push_back(&order);
      }
    }
    return list;
  }

  // What is judged is true of those alone who have had their turn: where some have not, all wait for that.
  void judge() {
    s_.work.begin(s_.max_plan_steps);
    Judge judge(s_, safe_, pending_reasons_, thrown_);
    for (const ServiceOrder* order : by_what_is_left()) {
      if (!turns_.were_cut_short()) judge.pending(*order);
      judge.nominated(order->pool());
    }
    for (const ServiceOrder& order : orders_) {
      Pool& p = s_.pool(order.pool());
      p.judged = p.version;
      const bool wanted = !p.pending_queues.empty() || !p.growable.empty();
      const auto fold = wanted ? next_fold(s_, order.pool()) : std::nullopt;
      if (fold) soonest(p.due, *fold);
    }
    judge.sidelined();
    // What was tried and undone in the other pools has changed nothing there.
    if (decisions_.changes() != served_all_) return;
    for (Pool& p : s_.pools) p.judged = p.version;
  }

  ClusterModel& s_;
  Time now_;
  Decisions decisions_;
  std::vector<std::string> pending_reasons_;
  std::vector<PoolId> served_;
  std::vector<ServiceOrder> orders_;               // of these pools
  std::set<std::pair<JobId, PoolId>> refused_in_;  // of jobs with several pools
  std::map<PoolId, Reserving> reserving_;          // in this round
  std::map<Kind, std::uint64_t> no_solution_;      // when it was refused: Decisions::changes()
  std::map<std::tuple<RequestId, PoolId, bool>, std::uint64_t> no_moves_;  // the same of consolidation alone
  Judge::SafeVictims safe_;                                                // of claimants that found no room
  std::uint64_t victims_ = 0;
  int too_early_ = 0;                 // in the pool of which jobs grow
  std::set<QueueId> refused_leaves_;  // in this round
  bool refused_with_right_ = false;   // as far as their own leaf is concerned
  bool cut_off_ = false;              // it reached its bound on rounds
  std::set<PoolId> reasons_only_;     // where nothing but reasons is left from the plan before
  Turns turns_;
  std::vector<Thrown> thrown_;
  std::set<JobId> threw_;                    // not looked at again in this plan
  std::optional<std::uint64_t> served_all_;  // Decisions::changes() when serving changed nothing any more
};

}  // namespace

Plan make_plan(ClusterModel& model, Time now) {
  return Planner(model, now).run();
}

Plan plan(Cluster& cluster, Time now) {
  const auto audited = cluster.state().audited_plan;
  return audited != nullptr ? audited(cluster, now) : make_plan(cluster.state(), now);
}

}  // namespace muster::placement
