#include "victims/victim_sets.h"

#include <algorithm>
#include <bit>
#include <iterator>
#include <set>

namespace muster::placement {
namespace {

constexpr int kMaxUnitsMoved = 3;  // so many units are moved in all combinations

}  // namespace

VictimSets::VictimSets(const ClusterModel& s, const Claimant& claimant, Action action,
                       const std::vector<Unit>& units)
    : claimant_(claimant), action_(action), units_(units) {
  for (const Unit& u : units_) beyond_.try_emplace(u.leaf, beyond_quota(s, u.leaf, claimant.pool));
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
    return exceeds(part.second, beyond_.at(part.first), claimant_.asked);
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
