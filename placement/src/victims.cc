#include "victims.h"

#include <algorithm>
#include <bit>
#include <map>
#include <numeric>
#include <set>

#include "admission.h"
#include "regions.h"
#include "totals.h"
#include "units.h"

namespace muster::placement {
namespace {

constexpr std::size_t kFewUnits = 8;    // so many candidates are tried in all combinations
constexpr int kFewMoves = 3;            // of these, so many are moved in all combinations
constexpr std::size_t kMostMoves = 16;  // workloads that one consolidation may move

// Of a set of units; smaller is better: own ones where both means are used, those that go before others of
// lower priority, leaves that fall below their quota, lost work, workloads that stop, then the order of the
// units.
using Preference = std::tuple<int, int, int, Wide, std::size_t, std::vector<std::size_t>>;

// A set of units and the claimant's places once they are gone.
struct Solution {
  std::vector<std::size_t> taken;  // indexes into the units, sorted
  std::vector<PodPlace> places;
  Preference key;
};

class Search {
 public:
  Search(State& state, Statement& statement, const RoomQuery& query, Means means, Right right,
         const Candidates& who, std::optional<Time>& due)
      : s_(state), st_(statement), q_(query), means_(means), right_(right) {
    for (const LeafId at : q_.claimant.path) before_.push_back(s_.sums(at, q_.claimant.pool).allocated);
    units_ = units(s_, {&q_.claimant, means, right, who, q_.now}, due);
    in_use_.assign(units_.size(), false);
    for (const Unit& u : units_) beyond_.try_emplace(u.leaf, beyond_quota(s_, u.leaf, q_.claimant.pool));
  }

  // On success everything is done in the statement.
  std::optional<Room> run() {
    if (units_.empty() || !could_suffice()) return std::nullopt;
    const std::size_t start = st_.mark();
    std::vector<Solution> found;
    const auto consider = [&](std::optional<Solution> one) {
      if (one) found.push_back(*std::move(one));
      reset(start);
    };
    const bool few = units_.size() <= kFewUnits;
    if (few) {
      for (const auto& subset : subsets()) {  // they come in the order of preference
        consider(exactly(subset));
        if (found.empty()) continue;
        if (auto room = carry_out(found.back(), start)) return room;
        found.clear();
      }
    }
    if (!few || means_ == Means::kMove) {
      std::vector<std::size_t> all(units_.size());
      std::iota(all.begin(), all.end(), std::size_t{0});
      if (means_ != Means::kMove) consider(sweep(all, 0));
      const Trial trial{[&](std::size_t i) {
                          const bool may = !in_use_[i] && may_take(units_[i]);
                          if (may) take(i);
                          return may;
                        },
                        [&] { reset(start); }};
      for (const auto& [order, within] : orders_by_place(s_, q_, units_, trial))
        consider(sweep(order, within));
    }
    std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.key < b.key; });
    for (const Solution& one : found) {
      if (auto room = carry_out(one, start)) return room;
    }
    return std::nullopt;
  }

 private:
  // --- the model with some units gone

  bool may_take(const Unit& u) const {
    if (u.after >= 0 && !in_use_[static_cast<std::size_t>(u.after)]) return false;
    if (means_ == Means::kMove || u.own) return true;
    // A gang that straddles the line goes whole: the right is judged before it goes.
    return may_give(s_, q_.claimant, right_, s_.path(u.leaf), u.amounts);
  }
  void take(std::size_t i) {
    for (const std::size_t pod : units_[i].pods) st_.release(units_[i].job, pod);
    in_use_[i] = true;
  }
  void give(std::size_t i) {
    for (const std::size_t pod : units_[i].pods) st_.readmit(units_[i].job, pod);
    in_use_[i] = false;
  }
  void reset(std::size_t mark) {
    st_.rollback(mark);
    in_use_.assign(units_.size(), false);
  }

  // Limits and quotas, and the right that is claimed, with the victims gone.
  bool entitled() const {
    const Claimant& c = q_.claimant;
    if (broken_bound(s_, c.path, c.pool, c.asked, s_.job(c.job).spec.preemptible, View::kTarget))
      return false;
    switch (means_) {
      case Means::kMove:
        return true;
      case Means::kReclaim:
        return has_right(s_, c, right_, before_);
      case Means::kPreempt:
        return in_bounds();
      case Means::kBoth:
        return has_right(s_, c, right_, before_) && in_bounds();
    }
    return false;
  }
  bool in_bounds() const {
    const Claimant& c = q_.claimant;
    for (std::size_t i = 0; i < c.path.size(); ++i) {
      const Resources after = s_.sums(c.path[i], c.pool).allocated + c.asked;
      const Resources& fair = (*c.fair)[static_cast<std::size_t>(c.path[i])];
      if (c.asked.gpu.value > 0 && after.gpu > std::max(fair.gpu, before_[i].gpu)) return false;
      if (c.asked.cpu.value > 0 && after.cpu > std::max(fair.cpu, before_[i].cpu)) return false;
      if (c.asked.memory.value > 0 && after.memory > std::max(fair.memory, before_[i].memory)) return false;
    }
    return true;
  }
  std::optional<std::vector<PodPlace>> fits(DomainId within) {
    if (!entitled()) return std::nullopt;
    const Claimant& c = q_.claimant;
    return place(s_, st_, {c.job, c.pool, View::kTarget, Hold::kPromised, q_.pods, within});
  }

  // All candidates together free enough: else nothing need be tried.
  bool could_suffice() const {
    Resources sum = free_in(s_.pool(q_.claimant.pool));
    for (const Unit& u : units_) sum += u.amounts;
    return fits_in(q_.claimant.asked, sum);
  }

  // --- sets of units

  // Takes units in this order until the claimant fits, then puts back what was not needed.
  std::optional<Solution> sweep(const std::vector<std::size_t>& order, DomainId within) {
    const std::size_t start = st_.mark();
    std::vector<std::size_t> taken;
    std::optional<std::vector<PodPlace>> places;
    std::size_t batch = 1, since = 0, full_tries = 0;
    for (std::size_t k = 0; k < order.size(); ++k) {
      if (!may_take(units_[order[k]])) continue;
      take(order[k]);
      taken.push_back(order[k]);
      if (means_ == Means::kMove && taken.size() > kMostMoves) break;
      if (++since < batch && k + 1 < order.size()) continue;
      since = 0;
      Refusal refusal;
      if (entitled() && !refuted(within)) {
        places = fits(within);
        if (places) break;
        if (++full_tries > 4) batch *= 2;  // each of these was a search: they must not become many
      }
    }
    if (!places) {
      // The last batch may not have been tried.
      if (since > 0) places = fits(within);
      if (!places) return reset(start), std::nullopt;
    }
    return pruned(std::move(taken), std::move(*places), start, within);
  }

  bool refuted(DomainId within) {
    const Claimant& c = q_.claimant;
    return refuted_by_totals(s_, {c.job, c.pool, View::kTarget, Hold::kPromised, q_.pods, within});
  }

  std::optional<Solution> pruned(std::vector<std::size_t> taken, std::vector<PodPlace> places,
                                 std::size_t start, DomainId within) {
    // First those whose places the claimant did not take at all, all at once.
    const auto back_first = [&](std::size_t a, std::size_t b) { return a > b; };
    std::sort(taken.begin(), taken.end(), back_first);
    std::set<NodeId> used;
    for (const PodPlace& p : places) used.insert(s_.node_ids.at(p.node));
    std::vector<std::size_t> kept, apart;
    for (const std::size_t i : taken) {
      const auto& nodes = units_[i].nodes;
      const bool touches =
          std::any_of(nodes.begin(), nodes.end(), [&](NodeId n) { return used.contains(n); });
      (touches ? kept : apart).push_back(i);
    }
    // A unit stays taken if others that were taken go after it, or if the right would not hold without.
    std::set<std::size_t> gone(taken.begin(), taken.end());
    const auto needed_by_others = [&](std::size_t i) {
      return std::any_of(gone.begin(), gone.end(),
                         [&](std::size_t k) { return units_[k].after == static_cast<std::int32_t>(i); });
    };
    const auto try_back = [&](std::size_t i, bool again) {
      if (needed_by_others(i)) return;
      std::vector<std::size_t> rest;
      for (const std::size_t k : gone) {
        if (k != i) rest.push_back(k);
      }
      if (again && !enough_without(i)) return;
      reset(start);
      std::sort(rest.begin(), rest.end());
      std::optional<std::vector<PodPlace>> found;
      if (take_all(rest)) {
        if (again) {
          found = fits(within);
        } else if (entitled()) {
          found = places;
          for (const PodPlace& p : places) st_.place(q_.claimant.job, p, q_.claimant.pool, Hold::kPromised);
        }
      }
      if (found) {
        gone.erase(i);
        places = std::move(*found);
        return;
      }
      reset(start);
      take_all({gone.begin(), gone.end()});
      for (const PodPlace& p : places) st_.place(q_.claimant.job, p, q_.claimant.pool, Hold::kPromised);
    };
    if (apart.size() > 1) {  // all at once, where nothing but room matters; else one by one
      std::vector<std::size_t> rest;
      for (const std::size_t k : gone) {
        if (std::find(apart.begin(), apart.end(), k) == apart.end()) rest.push_back(k);
      }
      reset(start);
      const bool whole = take_all(rest) && entitled();
      if (whole) {
        gone = {rest.begin(), rest.end()};
        apart.clear();
      } else {
        reset(start);
        take_all({gone.begin(), gone.end()});
      }
      for (const PodPlace& p : places) st_.place(q_.claimant.job, p, q_.claimant.pool, Hold::kPromised);
    }
    for (const std::size_t i : apart) try_back(i, false);
    for (const std::size_t i : kept) try_back(i, true);
    return solution({gone.begin(), gone.end()}, std::move(places));
  }

  // What is free with the claimant in place, plus what the claimant has, would still do without this unit's
  // part.
  bool enough_without(std::size_t i) const {
    const Resources& free = s_.pool(q_.claimant.pool).domains[0].free;
    const Resources& part = units_[i].amounts;
    // Whole GPUs only: started ones may hide room for fractions.
    const RoleSpec* role = nullptr;
    for (const RoleSpec& r : s_.request_of(s_.job(q_.claimant.job)).roles) {
      if (r.gpus > 0) role = &r;
    }
    const bool whole = role != nullptr && role->share.kind == GpuShare::Kind::kWhole;
    const bool whole_part = part.gpu.value % kMilliPerGpu == 0;
    return !whole || !whole_part || free.gpu >= part.gpu;
  }

  // Small ones first: who gives must be over before each removal, so the largest had best go last. false: one
  // of them is not legal.
  bool take_all(std::vector<std::size_t> list) {
    std::stable_sort(list.begin(), list.end(), [&](std::size_t a, std::size_t b) {
      const Resources& x = units_[a].amounts;
      const Resources& y = units_[b].amounts;
      return std::tie(x.gpu, x.cpu, x.memory) < std::tie(y.gpu, y.cpu, y.memory);
    });
    while (!list.empty()) {
      const auto next =
          std::find_if(list.begin(), list.end(), [&](std::size_t i) { return may_take(units_[i]); });
      if (next == list.end()) return false;
      take(*next);
      list.erase(next);
    }
    return true;
  }

  std::optional<Solution> exactly(const std::vector<std::size_t>& subset) {
    if (!take_all(subset)) return std::nullopt;
    auto places = fits(0);
    if (!places) return std::nullopt;
    return solution(subset, std::move(*places));
  }

  Solution solution(std::vector<std::size_t> taken, std::vector<PodPlace> places) const {
    Solution found{std::move(taken), std::move(places), {}};
    found.key = key_of(found.taken);
    return found;
  }

  Preference key_of(std::vector<std::size_t> taken) const {
    std::sort(taken.begin(), taken.end());
    int own = 0;
    Wide cost = 0;
    std::set<JobId> stopped;
    for (const std::size_t i : taken) {
      own += units_[i].own ? 1 : 0;
      cost += units_[i].cost;
      if (units_[i].last) stopped.insert(units_[i].job);
    }
    return {means_ == Means::kBoth ? own : 0,
            out_of_turn(taken),
            below_quota(taken),
            cost,
            stopped.size(),
            std::move(taken)};
  }

  // How many are taken while one of lower priority of the same leaf stays and would do in its stead, as far
  // as its amounts tell.
  int out_of_turn(const std::vector<std::size_t>& taken) const {
    int count = 0;
    for (const std::size_t i : taken) {
      const Unit& u = units_[i];
      for (std::size_t k = 0; k < units_.size(); ++k) {
        const Unit& v = units_[k];
        if (v.leaf == u.leaf && v.priority < u.priority &&
            !std::binary_search(taken.begin(), taken.end(), k) && v.amounts.gpu >= u.amounts.gpu &&
            v.nodes == u.nodes) {
          ++count;
          break;
        }
      }
    }
    return count;
  }

  // How many leaves are left below their quota, or have less than it already.
  int below_quota(const std::vector<std::size_t>& taken) const {
    std::map<LeafId, Resources> parts;
    for (const std::size_t i : taken) {
      if (!units_[i].own) parts[units_[i].leaf] += units_[i].amounts;
    }
    return static_cast<int>(std::count_if(parts.begin(), parts.end(), [&](const auto& part) {
      return exceeds(part.second, beyond_.at(part.first), q_.claimant.asked);
    }));
  }

  // All subsets in the order of preference; of those that are to move only the small ones.
  std::vector<std::vector<std::size_t>> subsets() const {
    std::vector<Preference> keys;  // each ends in its subset
    for (std::size_t bits = 1; bits < (std::size_t{1} << units_.size()); ++bits) {
      if (means_ == Means::kMove && std::popcount(bits) > kFewMoves) continue;
      std::vector<std::size_t> subset;
      bool whole = true;
      for (std::size_t i = 0; i < units_.size(); ++i) {
        if ((bits >> i & 1) == 0) continue;
        const auto after = units_[i].after;
        whole = whole && (after < 0 || (bits >> static_cast<std::size_t>(after) & 1) != 0);
        subset.push_back(i);
      }
      if (whole) keys.push_back(key_of(std::move(subset)));
    }
    std::sort(keys.begin(), keys.end());
    std::vector<std::vector<std::size_t>> list;
    for (Preference& key : keys) list.push_back(std::get<std::vector<std::size_t>>(std::move(key)));
    return list;
  }

  // --- the end

  // Takes the solution again; who finds a place in what is left moves there instead.
  std::optional<Room> carry_out(const Solution& best, std::size_t start) {
    if (!take_all(best.taken)) return reset(start), std::nullopt;
    Room room;
    std::map<JobId, std::size_t> at;
    for (const std::size_t i : best.taken) {
      const Unit& u = units_[i];
      const auto [it, fresh] = at.emplace(u.job, room.victims.size());
      if (fresh) room.victims.push_back({u.job, {}, reason(u), {}});
      auto& pods = room.victims[it->second].pods;
      pods.insert(pods.end(), u.pods.begin(), u.pods.end());
      std::sort(pods.begin(), pods.end());
    }
    const std::size_t taken = st_.mark();
    room.places = best.places;
    for (const PodPlace& p : room.places) st_.place(q_.claimant.job, p, q_.claimant.pool, Hold::kPromised);
    std::size_t moved = 0;
    for (Victim& v : room.victims) moved += move(v) ? 1 : 0;
    if (means_ != Means::kMove || moved == room.victims.size()) return room;
    // Where they all find a place first, the claimant may find one in what is left.
    st_.rollback(taken);
    const bool all =
        std::all_of(room.victims.begin(), room.victims.end(), [&](Victim& v) { return move(v); });
    if (auto places = all ? fits(0) : std::nullopt) {
      room.places = *std::move(places);
      return room;
    }
    return reset(start), std::nullopt;
  }

  EvictReason reason(const Unit& u) const {
    if (means_ == Means::kMove) return EvictReason::kConsolidated;
    return u.own ? EvictReason::kPreempted : EvictReason::kReclaimed;
  }

  bool move(Victim& v) {
    const Job& j = s_.job(v.job);
    if (v.pods.size() != j.assignment->pods.size() || j.spec.interactive) return false;
    PlaceQuery query{v.job, q_.claimant.pool, View::kNow, Hold::kPromised, {}, 0};
    Resources amounts;
    for (const std::size_t i : v.pods) {
      query.pods.push_back({j.assignment->pods[i].role, j.assignment->pods[i].index});
      amounts += s_.request_of(j).roles[static_cast<std::size_t>(j.assignment->pods[i].role)].per_pod;
    }
    if (broken_bound(s_, s_.path(j.leaf), query.pool, amounts, j.spec.preemptible, View::kTarget))
      return false;
    auto places = place(s_, st_, query);
    if (!places) return false;
    v.moved_to = std::move(*places);
    return true;
  }

  State& s_;
  Statement& st_;
  const RoomQuery& q_;
  Means means_;
  Right right_;
  std::vector<Resources> before_;
  std::map<LeafId, Resources> beyond_;  // its quota, before anything is taken
  std::vector<Unit> units_;
  std::vector<bool> in_use_;
};

}  // namespace

std::optional<Room> make_room(State& s, Statement& statement, const RoomQuery& q, std::optional<Time>& due) {
  const Claimant& c = q.claimant;
  const Resources free = free_in(s.pool(c.pool));
  if (!fits_in(c.asked, free + s.pool(c.pool).preemptible)) return std::nullopt;
  std::vector<Right> rights;
  for (const Right right : {Right::kGuarantee, Right::kFairness}) {
    if (may_have_right(s, c, right)) rights.push_back(right);
  }
  std::vector<std::pair<Means, Right>> ways;
  for (const Right right : rights) ways.emplace_back(Means::kReclaim, right);
  // Somebody of its leaf could be preempted by it.
  const bool juniors = lowest_running(s, c.pool, c.path.front()) < s.job(c.job).spec.priority;
  if (juniors) ways.emplace_back(Means::kPreempt, Right::kGuarantee);
  // Idle room that leaves without a weight use is given back first.
  const bool idle_room = !rights.empty() && std::any_of(s.tree.begin(), s.tree.end(), [&](const TreeNode& t) {
    return t.known && s.share(static_cast<LeafId>(&t - s.tree.data()), c.pool).weight == 0;
  });
  const auto attempt = [&](Means means, Right right, bool surplus_only) -> std::optional<Room> {
    if (idle_room && means == Means::kReclaim) {
      if (auto room = Search(s, statement, q, means, right, {surplus_only, true}, due).run()) return room;
    }
    return Search(s, statement, q, means, right, {surplus_only, false}, due).run();
  };
  for (const auto& [means, right] : ways) {
    if (auto room = attempt(means, right, true)) return room;
  }
  // What moves needs its room elsewhere.
  if (!q.limits_only && fits_in(c.asked, free)) {
    if (auto room = attempt(Means::kMove, Right::kGuarantee, false)) return room;
  }
  for (const auto& [means, right] : ways) {
    if (auto room = attempt(means, right, false)) return room;
  }
  for (const Right right : {Right::kGuarantee, Right::kFairness}) {
    if (!juniors) break;
    if (auto room = attempt(Means::kBoth, right, false)) return room;
  }
  return std::nullopt;
}

}  // namespace muster::placement
