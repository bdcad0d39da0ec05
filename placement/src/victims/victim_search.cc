#include "victims/victim_search.h"

#include <algorithm>
#include <iterator>
#include <map>
#include <numeric>
#include <set>

#include "victims/regions.h"
#include "victims/victim_order.h"
#include "victims/victim_trial.h"

namespace muster::placement {
namespace {

constexpr std::size_t kMaxUnitsForAllSets = 8;  // so many candidates are tried in all combinations
constexpr std::size_t kMaxMoves = 16;           // workloads that one consolidation may move
constexpr std::size_t kMaxRounds = 8;           // of looking for lower priorities, in sets of so many at most

class VictimSearch {
 public:
  explicit VictimSearch(VictimTrial& trial)
      : t_(trial), s_(trial.model()), sets_(s_, trial.query().claimant, trial.action(), trial.units()) {}

  // On success everything is done in the statement.
  std::optional<Solution> run() {
    if (t_.units().empty() || !t_.could_suffice()) return std::nullopt;
    const std::size_t start = t_.mark();
    std::vector<Choice> found;
    const auto consider = [&](std::optional<Choice> one) {
      if (one) found.push_back(*std::move(one));
      t_.reset(start);
    };
    const bool few = t_.units().size() <= kMaxUnitsForAllSets;
    if (few && !would_do_without_all(start)) return std::nullopt;
    if (few) {
      if (auto solution = best_of_all(start)) return solution;
    }
    if (!few || t_.action() == Action::kMove) {
      std::vector<std::size_t> all(t_.units().size());
      std::iota(all.begin(), all.end(), std::size_t{0});
      if (t_.action() != Action::kMove) consider(sweep(all, kWholePool));
      const Trial trial{[&](std::size_t i, NodeId on) {
                          const bool may = !t_.taken(i) && t_.may_take(t_.units()[i]);
                          if (may) t_.take(i, on);
                          return may;
                        },
                        [&] { t_.reset(start); }};
      for (const auto& [order, within] : orders_by_place(s_, t_.query(), t_.units(), trial))
        consider(sweep(order, within));
    }
    const auto by_key = [](const auto& a, const auto& b) { return a.key < b.key; };
    std::stable_sort(found.begin(), found.end(), by_key);
    if (t_.action() != Action::kMove) {
      add_with_juniors(found, start);
      std::stable_sort(found.begin(), found.end(), by_key);
    }
    return first_that_holds(found, start);
  }

 private:
  // The same by the rights and by a search for places, whoever may go: fewer would leave less of both. For
  // few candidates only: with many it is nearly always so, and costs as much as the sweeps that it might
  // save. Not asked where pods look for others, which may be among those that go, and where quotas are
  // reserved: a leaf that gives holds back what it gave below its reserved part.
  bool would_do_without_all(std::size_t start) {
    if (s_.tree().reserves() || s_.request_of(s_.job(t_.query().claimant.job)).about_pods) return true;
    for (std::size_t i = 0; i < t_.units().size(); ++i) t_.take(i);
    const bool fit = t_.fits(kWholePool).has_value();
    t_.reset(start);
    return fit;
  }

  // --- sets of units

  // Takes units in this order until the claimant fits, then puts back what was not needed.
  std::optional<Choice> sweep(const std::vector<std::size_t>& order, DomainId within) {
    const std::size_t start = t_.mark();
    std::vector<std::size_t> taken;
    std::optional<std::vector<PodPlace>> places;
    std::size_t batch = 1, since = 0, full_tries = 0, bare = start;
    for (std::size_t k = 0; k < order.size(); ++k) {
      if (!t_.may_take(t_.units()[order[k]])) continue;
      t_.take(order[k]);
      taken.push_back(order[k]);
      if (t_.action() == Action::kMove && taken.size() > kMaxMoves) break;
      if (++since < batch && k + 1 < order.size()) continue;
      since = 0;
      if (t_.entitled() && !t_.refuted(within)) {
        bare = t_.mark();
        places = t_.fits(within);
        if (places) break;
        if (++full_tries > 4) batch *= 2;  // each of these was a search: they must not become many
      }
    }
    if (!places) {
      // The last batch may not have been tried.
      bare = t_.mark();
      if (since > 0) places = t_.fits(within);
      if (!places) return t_.reset(start), std::nullopt;
    }
    return pruned(std::move(taken), std::move(*places), {start, bare}, within);
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
    const auto used = nodes_of(places);
    std::vector<std::size_t> kept, apart;
    for (const std::size_t i : taken) (touches(i, used) ? kept : apart).push_back(i);
    // A unit stays taken if others that were taken go after it, or if the right would not hold without.
    std::set<std::size_t> gone(taken.begin(), taken.end());
    const auto needed_by_others = [&](std::size_t i) {
      return std::any_of(gone.begin(), gone.end(),
                         [&](std::size_t k) { return t_.units()[k].after == static_cast<std::int32_t>(i); });
    };
    // Who goes after it gives of more when it stays, so none of the others loses its being legal by that.
    const auto try_back = [&](std::size_t i, bool again) {
      if (needed_by_others(i) || (again && !t_.enough_without(i))) return;
      t_.rollback(marks.bare);
      t_.give(i);
      const std::size_t without = t_.mark();
      std::optional<std::vector<PodPlace>> found;
      if (again) {
        found = t_.fits(within);
      } else if (t_.entitled()) {
        t_.claim(places);
        found = places;
      }
      if (found) {
        gone.erase(i);
        places = std::move(*found);
        marks.bare = without;
        return;
      }
      t_.rollback(marks.bare);
      t_.note_taken(i);
      t_.claim(places);
    };
    if (apart.size() > 1) {  // all at once, where nothing but room matters; else one by one
      std::vector<std::size_t> rest;
      for (const std::size_t k : gone) {
        if (std::find(apart.begin(), apart.end(), k) == apart.end()) rest.push_back(k);
      }
      t_.reset(marks.start);
      if (t_.take_all(rest) && t_.entitled()) {
        gone = {rest.begin(), rest.end()};
        apart.clear();
      } else {
        t_.reset(marks.start);
        t_.take_all({gone.begin(), gone.end()});
      }
      marks.bare = t_.mark();
      t_.claim(places);
    }
    for (const std::size_t i : apart) try_back(i, false);
    for (const std::size_t i : kept) try_back(i, true);
    // Surplus that had to go before a minimum, which stays after all.
    for (const std::size_t i : apart) {
      if (gone.contains(i)) try_back(i, true);
    }
    std::vector<std::size_t> going(gone.begin(), gone.end());
    if (some_go_for_a_share(going, places)) return t_.reset(marks.start), std::nullopt;
    return choice(std::move(going), std::move(places));
  }

  // They are in nobody's way: they would go only so that the Project stays within its share, and start again
  // in room that is free.
  bool some_go_for_a_share(const std::vector<std::size_t>& going, const std::vector<PodPlace>& places) const {
    const bool only_own = t_.action() == Action::kPreempt ||
                          (t_.action() == Action::kReclaimAndPreempt &&
                           std::ranges::all_of(going, [&](std::size_t i) { return t_.units()[i].own; }));
    if (!only_own || t_.query().limits_only || s_.request_of(s_.job(t_.query().claimant.job)).about_pods)
      return false;
    const auto used = nodes_of(places);
    return std::ranges::any_of(going, [&](std::size_t i) { return !touches(i, used); });
  }

  std::set<NodeId> nodes_of(const std::vector<PodPlace>& places) const {
    std::set<NodeId> nodes;
    for (const PodPlace& p : places) nodes.insert(s_.nodes().find(p.node));
    return nodes;
  }
  bool touches(std::size_t unit, const std::set<NodeId>& nodes) const {
    return std::ranges::any_of(t_.units()[unit].nodes, [&](NodeId n) { return nodes.contains(n); });
  }

  std::optional<Choice> exactly(const std::vector<std::size_t>& subset) {
    const std::size_t start = t_.mark();
    if (!t_.take_all(subset)) return std::nullopt;
    const std::size_t bare = t_.mark();
    auto places = t_.fits(kWholePool);
    if (!places) return std::nullopt;
    // Some may cost nothing. Who need not move is seen when all have a place.
    return t_.action() == Action::kMove ? choice(subset, std::move(*places))
                                        : pruned(subset, std::move(*places), {start, bare}, kWholePool);
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
      if (fresh) it->second = exactly(set), t_.reset(start);
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
      } else if (auto solution = t_.carry_out(*one, start)) {
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
        other = sweep(with, kWholePool);
        t_.reset(start);
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
      if (auto solution = t_.carry_out(*next, start)) return solution;
      found.erase(next);
    }
    return std::nullopt;
  }

  VictimTrial& t_;
  ClusterModel& s_;
  VictimSets sets_;  // of the trial's units
};

}  // namespace

std::optional<Found> find_victims(ClusterModel& s, Statement& statement, const SolutionQuery& q,
                                  Action action, Eligibility eligibility, const VictimFilter& who,
                                  Safe& safe) {
  VictimTrial trial(s, statement, q, action, eligibility, who, safe);
  auto solution = VictimSearch(trial).run();
  safe.kept_a_service = safe.kept_a_service || trial.kept_a_service();
  if (!solution) return std::nullopt;
  return Found{*std::move(solution), trial.own_taken()};
}

}  // namespace muster::placement
