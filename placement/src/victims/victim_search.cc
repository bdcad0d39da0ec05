#include "victims/victim_search.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>

#include "model/totals.h"
#include "shares/admission.h"
#include "victims/regions.h"
#include "victims/units.h"
#include "victims/victim_sets.h"

namespace muster::placement {
namespace {

constexpr std::size_t kMaxUnitsForAllSets = 8;  // so many candidates are tried in all combinations
constexpr std::size_t kMaxMoves = 16;           // workloads that one consolidation may move
constexpr std::size_t kMaxRounds = 8;           // of looking for lower priorities, in sets of so many at most

// A set of units and the claimant's places once they are gone.
struct Choice {
  std::vector<std::size_t> taken;  // indexes into the units, sorted
  std::vector<PodPlace> places;
  Preference key;
};

class Search {
 public:
  Search(ClusterModel& state, Statement& statement, const SolutionQuery& query, Action action,
         Eligibility eligibility, const VictimFilter& who, Safe& safe)
      : s_(state),
        st_(statement),
        q_(query),
        action_(action),
        eligibility_(eligibility),
        units_(units(s_, {&q_.claimant, action, eligibility, who, q_.now}, safe)),
        sets_(s_, q_.claimant, action, units_) {
    for (const QueueId at : q_.claimant.path) before_.push_back(s_.sums(at, q_.claimant.pool).allocated);
  }

  // On success everything is done in the statement.
  std::optional<Solution> run() {
    if (units_.empty() || !could_suffice()) return std::nullopt;
    const std::size_t start = st_.mark();
    in_use_.assign(units_.size(), false);
    std::vector<Choice> found;
    const auto consider = [&](std::optional<Choice> one) {
      if (one) found.push_back(*std::move(one));
      reset(start);
    };
    const bool few = units_.size() <= kMaxUnitsForAllSets;
    if (few && !would_do_without_all(start)) return std::nullopt;
    if (few) {
      if (auto solution = best_of_all(start)) return solution;
    }
    if (!few || action_ == Action::kMove) {
      std::vector<std::size_t> all(units_.size());
      std::iota(all.begin(), all.end(), std::size_t{0});
      if (action_ != Action::kMove) consider(sweep(all, 0));
      const Trial trial{[&](std::size_t i, NodeId on) {
                          const bool may = !in_use_[i] && may_take(units_[i]);
                          if (may) take(i, on);
                          return may;
                        },
                        [&] { reset(start); }};
      for (const auto& [order, within] : orders_by_place(s_, q_, units_, trial))
        consider(sweep(order, within));
    }
    const auto by_key = [](const auto& a, const auto& b) { return a.key < b.key; };
    std::stable_sort(found.begin(), found.end(), by_key);
    if (action_ != Action::kMove) {
      add_with_juniors(found, start);
      std::stable_sort(found.begin(), found.end(), by_key);
    }
    return first_that_holds(found, start);
  }

  // Of the set that was found: how many units are of the claimant's own leaf.
  std::size_t own_taken() const { return own_taken_; }

 private:
  // --- the model with some units gone

  bool may_take(const Unit& u) const {
    if (u.after >= 0 && !in_use_[static_cast<std::size_t>(u.after)]) return false;
    if (action_ == Action::kMove || u.own) return true;
    // A gang that straddles the line goes whole: the right is judged before it goes.
    return may_give(s_, q_.claimant, eligibility_, s_.path(u.leaf), u.amounts);
  }
  // `on`: only what it has on this node; kNoId: all of it.
  void take(std::size_t i, NodeId on = kNoId) {
    const Job& j = s_.job(units_[i].job);
    for (const std::size_t pod : units_[i].pods) {
      if (on == kNoId || j.allocations[pod].node == on) st_.release(units_[i].job, pod);
    }
    in_use_[i] = true;
  }
  void give(std::size_t i) {
    for (const std::size_t pod : units_[i].pods) st_.readmit(units_[i].job, pod);
    in_use_[i] = false;
  }
  // The claimant has these places, which are free.
  void claim(const std::vector<PodPlace>& places) {
    for (const PodPlace& p : places) st_.place(q_.claimant.job, p, q_.claimant.pool, Hold::kNominated);
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
    switch (action_) {
      case Action::kMove:
        return true;
      case Action::kReclaim:
        return is_eligible(s_, c, eligibility_, before_);
      case Action::kPreempt:
        return in_bounds();
      case Action::kReclaimAndPreempt:
        return is_eligible(s_, c, eligibility_, before_) && in_bounds();
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
    return place(s_, st_, {c.job, c.pool, View::kTarget, Hold::kNominated, q_.pods, within, q_.anywhere});
  }

  // All candidates together free enough: else nothing need be tried.
  bool could_suffice() const {
    Resources sum = free_in(s_.pool(q_.claimant.pool));
    for (const Unit& u : units_) sum += u.amounts;
    return fits_in(q_.claimant.asked, sum);
  }

  // The same by the rights and by a search for places, whoever may go: fewer would leave less of both. For
  // few candidates only: with many it is nearly always so, and costs as much as the sweeps that it might
  // save. Not asked where pods look for others, which may be among those that go, and where quotas are
  // reserved: a leaf that gives holds back what it gave below its reserved part.
  bool would_do_without_all(std::size_t start) {
    if (s_.reserves() || s_.request_of(s_.job(q_.claimant.job)).about_pods) return true;
    for (std::size_t i = 0; i < units_.size(); ++i) take(i);
    const bool fit = fits(0).has_value();
    reset(start);
    return fit;
  }

  // --- sets of units

  // Takes units in this order until the claimant fits, then puts back what was not needed.
  std::optional<Choice> sweep(const std::vector<std::size_t>& order, DomainId within) {
    const std::size_t start = st_.mark();
    std::vector<std::size_t> taken;
    std::optional<std::vector<PodPlace>> places;
    std::size_t batch = 1, since = 0, full_tries = 0, bare = start;
    for (std::size_t k = 0; k < order.size(); ++k) {
      if (!may_take(units_[order[k]])) continue;
      take(order[k]);
      taken.push_back(order[k]);
      if (action_ == Action::kMove && taken.size() > kMaxMoves) break;
      if (++since < batch && k + 1 < order.size()) continue;
      since = 0;
      if (entitled() && !refuted(within)) {
        bare = st_.mark();
        places = fits(within);
        if (places) break;
        if (++full_tries > 4) batch *= 2;  // each of these was a search: they must not become many
      }
    }
    if (!places) {
      // The last batch may not have been tried.
      bare = st_.mark();
      if (since > 0) places = fits(within);
      if (!places) return reset(start), std::nullopt;
    }
    return pruned(std::move(taken), std::move(*places), {start, bare}, within);
  }

  bool refuted(DomainId within) {
    const Claimant& c = q_.claimant;
    return refuted_by_totals(s_, {c.job, c.pool, View::kTarget, Hold::kNominated, q_.pods, within});
  }

  // Before anything was taken, and before the claimant was placed.
  struct Marks {
    std::size_t start, bare;
  };

  std::optional<Choice> pruned(std::vector<std::size_t> taken, std::vector<PodPlace> places, Marks marks,
                               DomainId within) {
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
    // Who goes after it gives of more when it stays, so none of the others loses its being legal by that.
    const auto try_back = [&](std::size_t i, bool again) {
      if (needed_by_others(i) || (again && !enough_without(i))) return;
      st_.rollback(marks.bare);
      give(i);
      const std::size_t without = st_.mark();
      std::optional<std::vector<PodPlace>> found;
      if (again) {
        found = fits(within);
      } else if (entitled()) {
        claim(places);
        found = places;
      }
      if (found) {
        gone.erase(i);
        places = std::move(*found);
        marks.bare = without;
        return;
      }
      st_.rollback(marks.bare);
      in_use_[i] = true;
      claim(places);
    };
    if (apart.size() > 1) {  // all at once, where nothing but room matters; else one by one
      std::vector<std::size_t> rest;
      for (const std::size_t k : gone) {
        if (std::find(apart.begin(), apart.end(), k) == apart.end()) rest.push_back(k);
      }
      reset(marks.start);
      if (take_all(rest) && entitled()) {
        gone = {rest.begin(), rest.end()};
        apart.clear();
      } else {
        reset(marks.start);
        take_all({gone.begin(), gone.end()});
      }
      marks.bare = st_.mark();
      claim(places);
    }
    for (const std::size_t i : apart) try_back(i, false);
    for (const std::size_t i : kept) try_back(i, true);
    return choice({gone.begin(), gone.end()}, std::move(places));
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

  std::optional<Choice> exactly(const std::vector<std::size_t>& subset) {
    const std::size_t start = st_.mark();
    if (!take_all(subset)) return std::nullopt;
    const std::size_t bare = st_.mark();
    auto places = fits(0);
    if (!places) return std::nullopt;
    // Some may cost nothing. Who need not move is seen when all have a place.
    return action_ == Action::kMove ? choice(subset, std::move(*places))
                                    : pruned(subset, std::move(*places), {start, bare}, 0);
  }

  Choice choice(std::vector<std::size_t> taken, std::vector<PodPlace> places) const {
    Choice found{std::move(taken), std::move(places), {}};
    found.key = sets_.preference(found.taken);
    return found;
  }

  // --- which of several that would do

  // Few units: all sets, the best first.
  std::optional<Solution> best_of_all(std::size_t start) {
    const auto sets = sets_.all();
    std::map<std::vector<std::size_t>, std::optional<Choice>> tried;
    const auto attempt = [&](const std::vector<std::size_t>& set) -> const std::optional<Choice>& {
      const auto [it, fresh] = tried.try_emplace(set);
      if (fresh) it->second = exactly(set), reset(start);
      return it->second;
    };
    std::vector<Choice> later;  // lower priorities would do as well, but may not hold in the end
    for (const auto& set : sets) {
      const auto& one = attempt(set);
      if (!one) continue;
      const bool outdone = std::any_of(sets.begin(), sets.end(), [&](const auto& other) {
        return sets_.outdone(one->taken, other) && attempt(other);
      });
      if (outdone) {
        later.push_back(*one);
      } else if (auto solution = carry_out(*one, start)) {
        return solution;
      }
    }
    return first_that_holds(later, start);
  }

  // Many: the best one, again and again, with those of the highest priority left out for which others of
  // their leaf could go.
  void add_with_juniors(std::vector<Choice>& found, std::size_t start) {
    if (found.empty()) return;
    std::size_t best = first_in_turn(found);
    for (std::size_t round = 0; round < kMaxRounds && found[best].taken.size() <= kMaxRounds; ++round) {
      const auto [seniors, juniors] = sets_.juniors(found[best].taken);
      if (juniors.empty()) return;
      // All others that were taken, then what is needed of the juniors.
      std::vector<std::size_t> order;
      std::set_difference(found[best].taken.begin(), found[best].taken.end(), seniors.begin(), seniors.end(),
                          std::back_inserter(order));
      order.insert(order.end(), juniors.begin(), juniors.end());
      std::optional<Choice> other;
      // One of them may have to go all the same: as few as do.
      for (std::size_t kept = 0; !other && kept < seniors.size(); ++kept) {
        auto with = order;
        with.insert(with.end(), seniors.begin(), seniors.begin() + static_cast<std::ptrdiff_t>(kept));
        other = sweep(with, 0);
        reset(start);
      }
      if (!other || !sets_.outdone(found[best].taken, other->taken)) return;
      found.push_back(*std::move(other));
      best = found.size() - 1;
    }
  }

  // The first that no other outdoes.
  std::size_t first_in_turn(const std::vector<Choice>& found) const {
    const auto in_turn = [&](const Choice& one) {
      return std::none_of(found.begin(), found.end(),
                          [&](const Choice& other) { return sets_.outdone(one.taken, other.taken); });
    };
    const auto first = std::find_if(found.begin(), found.end(), in_turn);
    return first == found.end() ? 0 : static_cast<std::size_t>(first - found.begin());
  }

  // Of those in turn, then of the others.
  std::optional<Solution> first_that_holds(std::vector<Choice> found, std::size_t start) {
    while (!found.empty()) {
      const auto next = found.begin() + static_cast<std::ptrdiff_t>(first_in_turn(found));
      if (auto solution = carry_out(*next, start)) return solution;
      found.erase(next);
    }
    return std::nullopt;
  }

  // --- the end

  // Takes the solution again; who finds a place in what is left moves there instead.
  std::optional<Solution> carry_out(const Choice& best, std::size_t start) {
    if (!take_all(best.taken)) return reset(start), std::nullopt;
    own_taken_ = 0;
    Solution solution;
    std::map<JobId, std::size_t> at;
    for (const std::size_t i : best.taken) {
      const Unit& u = units_[i];
      own_taken_ += u.own ? 1 : 0;
      const auto [it, fresh] = at.emplace(u.job, solution.victims.size());
      if (fresh) solution.victims.push_back({u.job, {}, reason(u), {}});
      auto& pods = solution.victims[it->second].pods;
      pods.insert(pods.end(), u.pods.begin(), u.pods.end());
      std::sort(pods.begin(), pods.end());
    }
    const std::size_t taken = st_.mark();
    solution.places = best.places;
    claim(solution.places);
    std::size_t moved = 0;
    for (Victim& v : solution.victims) moved += move(v) ? 1 : 0;
    if (action_ == Action::kReclaimAndPreempt && !can_keep(solution)) return reset(start), std::nullopt;
    if (action_ != Action::kMove) return solution;
    if (moved == solution.victims.size()) return who_must_move(std::move(solution), start);
    // Where they all find a place first, the claimant may find one in what is left.
    st_.rollback(taken);
    const bool all =
        std::all_of(solution.victims.begin(), solution.victims.end(), [&](Victim& v) { return move(v); });
    if (auto places = all ? fits(0) : std::nullopt) {
      solution.places = *std::move(places);
      return who_must_move(std::move(solution), start);
    }
    return reset(start), std::nullopt;
  }

  // Whether it could keep what it reclaims. Who was preempted and finds free room will soon be back; if the
  // leaf is beyond the right by that, and the claimant a legal victim of those from whom it has reclaimed,
  // the two would take from each other in circles.
  bool can_keep(const Solution& solution) {
    const std::size_t mark = st_.mark();
    for (const Victim& v : solution.victims) {
      if (v.reason == EvictReason::kPreempted && v.moved_to.empty()) place_again(v, View::kTarget);
    }
    Claimant c = q_.claimant;
    c.placed = true;
    const QueueId leaf = c.path.front();
    const Claimant other{kNoId, c.pool, {}, c.asked, c.fair};
    const bool keeps = may_be_eligible(s_, c, eligibility_) ||
                       !may_give(s_, other, Eligibility::kByFairShare, {leaf}, c.asked);
    st_.rollback(mark);
    return keeps;
  }

  // All go to their new places, as far as these are free without anybody else's going.
  bool moved(const std::vector<Victim>& victims, std::size_t start) {
    reset(start);
    for (const Victim& v : victims) {
      for (const std::size_t pod : v.pods) st_.release(v.job, pod);
    }
    for (const Victim& v : victims) {
      for (const PodPlace& p : v.moved_to) {
        const Allocation allocation =
            s_.allocation_for(v.job, p, s_.node_of(p.node), q_.claimant.pool, Hold::kNominated);
        if (!s_.available(allocation, View::kNow)) return false;
        st_.place(v.job, p, q_.claimant.pool, Hold::kNominated);
      }
    }
    return true;
  }

  // Now that each has a place: who need not have gone, stays.
  Solution who_must_move(Solution solution, std::size_t start) {
    for (std::size_t k = solution.victims.size(); k-- > 0 && solution.victims.size() > 1;) {
      Solution fewer = solution;
      fewer.victims.erase(fewer.victims.begin() + static_cast<std::ptrdiff_t>(k));
      auto places = moved(fewer.victims, start) ? fits(0) : std::nullopt;
      if (!places) continue;
      fewer.places = *std::move(places);
      solution = std::move(fewer);
    }
    moved(solution.victims, start);
    claim(solution.places);
    return solution;
  }

  EvictReason reason(const Unit& u) const {
    if (action_ == Action::kMove) return EvictReason::kConsolidated;
    return u.own ? EvictReason::kPreempted : EvictReason::kReclaimed;
  }

  bool move(Victim& v) {
    const Job& j = s_.job(v.job);
    if (v.pods.size() != j.assignment->pods.size() || j.spec.interactive) return false;
    auto places = place_again(v, View::kNow);
    if (!places) return false;
    v.moved_to = std::move(*places);
    return true;
  }

  // The pods that it gives, where there is room for them all.
  std::optional<std::vector<PodPlace>> place_again(const Victim& v, View view) {
    const Job& j = s_.job(v.job);
    PlaceQuery query{v.job, q_.claimant.pool, view, Hold::kNominated, {}, 0};
    const auto roles = std::ssize(s_.request_of(j).roles);
    for (const std::size_t i : v.pods) {
      if (j.assignment->pods[i].role < 0 || j.assignment->pods[i].role >= roles) return std::nullopt;
      query.pods.push_back({j.assignment->pods[i].role, j.assignment->pods[i].index});
    }
    if (broken_bound(s_, s_.path(j.leaf), query.pool, asked(s_, query), j.spec.preemptible, View::kTarget))
      return std::nullopt;
    return place(s_, st_, query);
  }

  ClusterModel& s_;
  Statement& st_;
  const SolutionQuery& q_;
  Action action_;
  Eligibility eligibility_;
  std::vector<Resources> before_;
  std::vector<Unit> units_;
  VictimSets sets_;  // of these
  std::vector<bool> in_use_;
  std::size_t own_taken_ = 0;
};

}  // namespace

std::optional<Found> find_victims(ClusterModel& s, Statement& statement, const SolutionQuery& q,
                                  Action action, Eligibility eligibility, const VictimFilter& who,
                                  Safe& safe) {
  Search search(s, statement, q, action, eligibility, who, safe);
  auto solution = search.run();
  if (!solution) return std::nullopt;
  return Found{*std::move(solution), search.own_taken()};
}

}  // namespace muster::placement
