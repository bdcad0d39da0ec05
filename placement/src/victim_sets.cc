#include "victim_sets.h"

#include <algorithm>
#include <bit>
#include <set>

namespace muster::placement {
namespace {

constexpr int kFewMoves = 3;  // so many units are moved in all combinations

}  // namespace

VictimSets::VictimSets(const State& s, const Claimant& claimant, Means means, const std::vector<Unit>& units)
    : claimant_(claimant), means_(means), units_(units) {
  for (const Unit& u : units_) beyond_.try_emplace(u.leaf, beyond_quota(s, u.leaf, claimant.pool));
}

Preference VictimSets::preference(std::vector<std::size_t> taken) const {
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
// as its amounts tell. For surplus that has to go before the minimum nobody else would do.
int VictimSets::out_of_turn(const std::vector<std::size_t>& taken) const {
  std::vector<bool> followed(units_.size(), false);
  for (const std::size_t i : taken) {
    if (units_[i].after >= 0) followed[static_cast<std::size_t>(units_[i].after)] = true;
  }
  int count = 0;
  for (const std::size_t i : taken) {
    const Unit& u = units_[i];
    if (followed[i]) continue;
    for (std::size_t k = 0; k < units_.size(); ++k) {
      const Unit& v = units_[k];
      if (v.leaf == u.leaf && v.priority < u.priority && !std::binary_search(taken.begin(), taken.end(), k) &&
          v.amounts.gpu >= u.amounts.gpu && v.nodes == u.nodes) {
        ++count;
        break;
      }
    }
  }
  return count;
}

// How many leaves are left below their quota, or have less than it already.
int VictimSets::below_quota(const std::vector<std::size_t>& taken) const {
  std::map<LeafId, Resources> parts;
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
    if (means_ == Means::kMove && std::popcount(bits) > kFewMoves) continue;
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
