#include "muster/placement/plan.h"

#include <algorithm>
#include <exception>
#include <map>
#include <set>
#include <utility>

#include "explain/judge.h"
#include "model/cluster_model.h"
#include "model/due.h"
#include "muster/placement/cluster.h"
#include "order/growth.h"
#include "order/service_order.h"
#include "plan/claimants.h"
#include "plan/decisions.h"
#include "plan/next_plan.h"
#include "plan/repair.h"
#include "plan/turns.h"
#include "reserve/reservation.h"
#include "shares/past.h"
#include "shares/shares.h"

namespace muster::placement {
namespace {

// In one plan what it started may be undone for somebody with a better right; after so many rounds not any
// more.
constexpr int kMaxRounds = 64;

class Planner {
 public:
  Planner(ClusterModel& state, Time now)
      : s_(state), now_(now), decisions_(state, now), claimants_(state, now, decisions_), turns_(state) {}

  Plan run() {
    ++s_.plans;
    s_.time = now_;
    s_.settle();
    note_who_waits();
    advance_past_use(s_, now_);
    end_double_use(s_, decisions_);
    for (std::size_t i = 0; i < s_.pools.size(); ++i) {
      if (dirty(s_.pools[i])) drain(s_, decisions_, static_cast<PoolId>(i));
      if (has_changed(s_.pools[i])) turns_.note_change();
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

  // Who has come to wait since the last plan has done so until now.
  void note_who_waits() {
    const auto from_now = [&](const std::set<JobId>& jobs) {
      for (const JobId id : jobs) {
        if (Time& held = s_.job(id).last_held; held == kFromNextPlan) held = now_;
      }
    };
    for (const Pool& p : s_.pools) from_now(p.unjudged);
    from_now(s_.jobs().sidelined());
    from_now(s_.jobs().nominated());
  }

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
        again = again || claimants_.concerns_refused(id);
      }
      if (turns_.were_cut_short()) return;
      if (again && !turns_.goes_on()) continue;
      const auto grown = grow();
      if (turns_.were_cut_short()) return;
      if (turns_.goes_on() && turns_.end_sweep(decisions_.changes() > 0)) return;
      again =
          std::any_of(grown.begin(), grown.end(), [&](JobId id) { return claimants_.concerns_refused(id); });
      if (decisions_.openings() == before && !again) {
        served_all_ = decisions_.changes();
        break;
      }
    }
  }

  void begin_round() {
    claimants_.begin_round();
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
    const auto before = claimants_.victims();
    const bool passed_over = threw_.contains(id) || turns_.had(order.pool(), id);
    const bool infeasible = !passed_over && order.head_is_infeasible();
    const bool refused =
        passed_over || infeasible || !guarded(id, true, [&] { return claimants_.start(id, order); });
    if (refused && s_.job(id).pools.size() > 1) refused_in_.emplace(id, order.pool());
    const bool threw = threw_.contains(id);  // which says nothing of others that ask the same
    if (refused && !passed_over && !threw) turns_.refuse(order.pool(), id);
    // Another of its pools may take it.
    if (refused && !passed_over && !threw && s_.job(id).pools.back() == order.pool())
      reserve_for(s_, order.pool(), id, reserving_[order.pool()]);
    order.pop(refused && !threw);
    if (claimants_.victims() == before) return;
    for (ServiceOrder& o : orders_) o.rank_anew();
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
      claimants_.begin_growth();
      while (const auto claim = growth.next()) {
        if (turns_.are_over()) return list;
        const auto before = claimants_.victims();
        if (threw_.contains(claim->job) || turns_.had_for_growth(pool, claim->job)) {
          growth.refused();
        } else if (guarded(claim->job, false, [&] { return claimants_.grow(*claim, pool, fair); })) {
          list.push_back(claim->job);
          // They may have noted room that is gone now: the next plan sees it.
          if (claimants_.some_are_too_early()) soonest(s_.pool(pool).due, now_ + seconds(1));
          growth.granted(claimants_.victims() != before);
        } else {
          turns_.refuse_growth(pool, claim->job);
          growth.refused();
        }
      }
    }
    return list;
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
    Judge judge(s_, claimants_.safe(), pending_reasons_, thrown_);
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
      // Who may move to make room is kept off reserved nodes from now on: others may do so, at another cost.
      // The next plan notes since when, for all who wait beside the owner.
      const bool others_wait = p.waiting > 1 || claimants_.costs_too_much_in(order.pool());
      if (p.reservation && p.reservation->made == now_ && others_wait) soonest(p.due, now_ + seconds(1));
    }
    judge.sidelined();
    // What was tried and undone in the other pools has changed nothing there.
    if (decisions_.changes() != served_all_) return;
    for (Pool& p : s_.pools) p.judged = p.version;
  }

  ClusterModel& s_;
  Time now_;
  Decisions decisions_;
  Claimants claimants_;
  std::vector<std::string> pending_reasons_;
  std::vector<PoolId> served_;
  std::vector<ServiceOrder> orders_;               // of these pools
  std::set<std::pair<JobId, PoolId>> refused_in_;  // of jobs with several pools
  std::map<PoolId, Reserving> reserving_;          // in this round
  bool cut_off_ = false;                           // it reached its bound on rounds
  std::set<PoolId> reasons_only_;                  // where nothing but reasons is left from the plan before
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
