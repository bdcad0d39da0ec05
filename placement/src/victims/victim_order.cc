#include "victims/victim_order.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <map>
#include <set>
#include <string_view>
#include <tuple>

#include "node/resource_vector.h"

namespace muster::placement {
namespace {

constexpr int kMaxUnitsMoved = 3;  // so many units are moved in all combinations

// Only jobs are compared by it. Where it is weighed against room that idles, disruption.cc guesses higher.
constexpr Duration kUnknownStart = seconds(60);

}  // namespace

Wide lost_work(const ClusterModel& s, const Job& j, PoolId pool, const Resources& amounts, Time now) {
  if (j.nominated() || (j.started_in != 0 && j.started_in == s.plans)) return 0;
  Duration lost = now - std::max(j.progress.began, j.progress.saved.value_or(j.progress.began));
  if (j.spec.checkpoint_interval) lost = std::min(lost, *j.spec.checkpoint_interval);
  lost.ms = std::max<std::int64_t>(0, lost.ms) + j.progress.start_took.value_or(kUnknownStart).ms;
  const Resources& all = s.pool(pool).domains[0].capacity;
  std::int64_t share = 0;
  for (const ResourceKind kind : kBasicKinds)
    share = std::max(share, millionths(amount_of(amounts, kind), amount_of(all, kind)));
  return static_cast<Wide>(lost.ms) * share;
}

// Merges the leaves' lists, each in its own order, always taking the cheapest head.
std::vector<Unit> in_taking_order(const ClusterModel& s, const Claimant& c, std::vector<Unit> all) {
  std::map<QueueId, Resources> beyond;
  for (const Unit& u : all) beyond.try_emplace(u.leaf, beyond_quota(s.tree(), u.leaf, c.pool));
  // Higher: taken later. Own ones last, before them what leaves others below their quota; first of all go
  // leaves without a weight, which give idle room back first.
  const auto rank = [&](const Unit& u) {
    if (u.leaf == c.path.front()) return 3;
    if (exceeds(s.tree().accounted(), u.amounts, beyond.at(u.leaf), c.asked)) return 2;
    return u.idle_room ? 0 : 1;
  };
  const auto own_order = [&](std::size_t a, std::size_t b) {
    const Unit& x = all[a];
    const Unit& y = all[b];
    return std::tie(x.priority, x.cost, x.began, s.job(x.job).spec.id) <
           std::tie(y.priority, y.cost, y.began, s.job(y.job).spec.id);
  };
  std::map<QueueId, std::vector<std::size_t>> by_leaf;
  for (std::size_t i = 0; i < all.size(); ++i) by_leaf[all[i].leaf].push_back(i);
  using Head = std::tuple<int, Wide, std::int64_t, std::int64_t, std::string_view, QueueId>;
  std::map<QueueId, std::size_t> at;
  std::set<Head> heads;
  const auto put_head = [&](QueueId leaf) {
    const auto& list = by_leaf[leaf];
    if (at[leaf] == list.size()) return;
    const Unit& u = all[list[at[leaf]]];
    heads.emplace(rank(u), u.cost, u.over, u.began, s.job(u.job).spec.id, leaf);
  };
  for (auto& [leaf, list] : by_leaf) {
    std::stable_sort(list.begin(), list.end(), own_order);
    put_head(leaf);
  }
  // Surplus before the minimum of the same job, whatever it costs: a unit that comes before the one that has
  // to go first waits until that is in the list.
  std::vector<Unit> out;
  std::vector<std::int32_t> place(all.size(), -1);
  std::map<std::int32_t, std::vector<std::size_t>> waiting;
  const auto emit = [&](auto&& self, std::size_t i) -> void {
    place[i] = static_cast<std::int32_t>(out.size());
    Unit u = std::move(all[i]);
    if (u.after >= 0) u.after = place[static_cast<std::size_t>(u.after)];
    out.push_back(std::move(u));
    if (const auto next = waiting.extract(static_cast<std::int32_t>(i))) {
      for (const std::size_t k : next.mapped()) self(self, k);
    }
  };
  while (!heads.empty()) {
    const QueueId leaf = std::get<5>(heads.extract(heads.begin()).value());
    const std::size_t i = by_leaf[leaf][at[leaf]++];
    if (all[i].after >= 0 && place[static_cast<std::size_t>(all[i].after)] < 0) {
      waiting[all[i].after].push_back(i);
    } else {
      emit(emit, i);
    }
    put_head(leaf);
  }
  return out;
}

VictimSets::VictimSets(const ClusterModel& s, const Claimant& claimant, Action action,
                       const std::vector<Unit>& units)
    : kinds_(s.tree().accounted()), claimant_(claimant), action_(action), units_(units) {
  for (const Unit& u : units_) beyond_.try_emplace(u.leaf, beyond_quota(s.tree(), u.leaf, claimant.pool));
}

Preference VictimSets::preference(std::vector<std::size_t> taken) const {
  std::sort(taken.begin(), taken.end());
  Wide cost = 0;
  std::set<JobId> stopped;
  for (const std::size_t i : taken) {
    cost += units_[i].cost;
    if (units_[i].last) stopped.insert(units_[i].job);
  }
  const int own_ones = action_ == Action::kReclaimAndPreempt ? own(taken) : 0;
  return {own_ones, below_quota(taken), cost, stopped.size(), std::move(taken)};
}

bool VictimSets::outdone(const std::vector<std::size_t>& taken,
                         const std::vector<std::size_t>& instead) const {
  std::vector<std::size_t> spared, more;
  std::set_difference(taken.begin(), taken.end(), instead.begin(), instead.end(), std::back_inserter(spared));
  std::set_difference(instead.begin(), instead.end(), taken.begin(), taken.end(), std::back_inserter(more));
  if (spared.empty() || more.empty()) return false;
  std::map<QueueId, std::int64_t> highest;
  for (const std::size_t i : spared) {
    const auto [it, fresh] = highest.emplace(units_[i].leaf, units_[i].priority);
    if (!fresh) it->second = std::max(it->second, units_[i].priority);
  }
  const bool lower = std::all_of(more.begin(), more.end(), [&](std::size_t i) {
    const auto senior = highest.find(units_[i].leaf);
    return senior != highest.end() && units_[i].priority < senior->second;
  });
  return lower && (action_ != Action::kReclaimAndPreempt || own(instead) <= own(taken)) &&
         below_quota(instead) <= below_quota(taken);
}

VictimSets::Juniors VictimSets::juniors(const std::vector<std::size_t>& taken) const {
  std::vector<bool> is_taken(units_.size(), false);
  for (const std::size_t i : taken) is_taken[i] = true;
  std::map<QueueId, std::int64_t> lowest;  // of those that are not
  for (std::size_t i = 0; i < units_.size(); ++i) {
    if (is_taken[i]) continue;
    const auto [it, fresh] = lowest.emplace(units_[i].leaf, units_[i].priority);
    if (!fresh) it->second = std::min(it->second, units_[i].priority);
  }
  const Unit* highest = nullptr;
  for (const std::size_t i : taken) {
    const Unit& u = units_[i];
    const auto found = lowest.find(u.leaf);
    if (found == lowest.end() || found->second >= u.priority) continue;
    if (highest == nullptr || u.priority > highest->priority) highest = &u;
  }
  Juniors result;
  if (highest == nullptr) return result;
  for (std::size_t i = 0; i < units_.size(); ++i) {
    const Unit& u = units_[i];
    if (u.leaf != highest->leaf) continue;
    if (is_taken[i] && u.priority == highest->priority) result.seniors.push_back(i);
    if (!is_taken[i] && u.priority < highest->priority) result.juniors.push_back(i);
  }
  return result;
}

int VictimSets::own(const std::vector<std::size_t>& taken) const {
  return static_cast<int>(
      std::count_if(taken.begin(), taken.end(), [&](std::size_t i) { return units_[i].own; }));
}

// How many leaves are left below their quota, or have less than it already.
int VictimSets::below_quota(const std::vector<std::size_t>& taken) const {
  std::map<QueueId, Resources> parts;
  for (const std::size_t i : taken) {
    if (!units_[i].own) parts[units_[i].leaf] += units_[i].amounts;
  }
  return static_cast<int>(std::count_if(parts.begin(), parts.end(), [&](const auto& part) {
    return exceeds(kinds_, part.second, beyond_.at(part.first), claimant_.asked);
  }));
}

std::vector<std::vector<std::size_t>> VictimSets::all() const {
  std::vector<Preference> keys;  // each ends in its subset
  for (std::size_t bits = 1; bits < (std::size_t{1} << units_.size()); ++bits) {
    if (action_ == Action::kMove && std::popcount(bits) > kMaxUnitsMoved) continue;
    std::vector<std::size_t> subset;
    bool whole = true;
    for (std::size_t i = 0; i < units_.size(); ++i) {
      if ((bits >> i & 1) == 0) continue;
      const auto after = units_[i].after;
      whole = whole && (after < 0 || (bits >> static_cast<std::size_t>(after) & 1) != 0);
      subset.push_back(i);
    }
    if (whole) keys.push_back(preference(std::move(subset)));
  }
  std::sort(keys.begin(), keys.end());
  std::vector<std::vector<std::size_t>> list;
  for (Preference& key : keys) list.push_back(std::get<std::vector<std::size_t>>(std::move(key)));
  return list;
}

}  // namespace muster::placement
