#include "audit/audit_disruption.h"

#include <algorithm>

#include "audit/recount.h"
#include "node/wide.h"

namespace muster::placement {
namespace {

std::int32_t max_overhead(const ClusterModel& s, QueueId leaf) {
  for (const QueueId at : way_up(s.tree(), leaf)) {
    if (const auto& own = s.tree().queue(at).spec.max_overhead) return *own;
  }
  return kMaxOverhead;
}

}  // namespace

LifeSoFar life_so_far(const Job& j, Time now) {
  std::int64_t gpu = 0, cpu = 0;
  const auto runs = [](const Allocation& a) { return a.node != kNoId && a.hold != Hold::kNominated; };
  for (std::size_t i = 0; i < j.allocations.size(); ++i) {
    const Allocation* a = &j.allocations[i];
    // A pod that is lost, and may be replaced by the plan, has run until now: as much as others of its role.
    if (std::find(j.displaced.begin(), j.displaced.end(), i) != j.displaced.end()) {
      for (std::size_t k = 0; k < j.allocations.size() && !runs(*a); ++k) {
        if (j.assignment->pods[k].role == j.assignment->pods[i].role) a = &j.allocations[k];
      }
    }
    if (runs(*a)) gpu += a->amounts.gpu.value, cpu += a->amounts.cpu.value;
  }
  Time since = j.progress.began;
  if (j.progress.resized && *j.progress.resized > since) since = *j.progress.resized;
  const std::int64_t ms = now > since ? (now - since).ms : 0;
  return {{wrapping_add(j.progress.ran.value, wrapping_mul(gpu > 0 ? gpu : cpu, ms))}, j.progress.lost};
}

std::optional<std::string> beyond_bound(const ClusterModel& s, const Job& j, const LifeSoFar& before,
                                        WorkTime cost) {
  const std::int32_t most = max_overhead(s, j.leaf);
  const Wide lost = (static_cast<Wide>(before.lost.value) + cost.value) * 100;
  if (most >= 100 || lost <= static_cast<Wide>(before.ran.value) * most) return std::nullopt;
  return "is disturbed for " + std::to_string(cost.value) + " after it has lost " +
         std::to_string(before.lost.value) + " of " + std::to_string(before.ran.value) +
         ", with a bound of " + std::to_string(most) + " per cent";
}

bool fair_share_is_due(const ClusterModel& s, const Job& claimant, bool is_guaranteed, Time now) {
  // There the order of RULES.md 5.8 alone decides: what can be had by quota is not asked for by fair share,
  // also where fewer would have to go for that.
  if (max_overhead(s, claimant.leaf) >= 100) return false;
  if (is_guaranteed) return true;
  Duration patience = kPatience;
  for (const QueueId at : way_up(s.tree(), claimant.leaf)) {
    if (const auto& own = s.tree().queue(at).spec.patience) {
      patience = *own;
      break;
    }
  }
  return claimant.spec.submitted + patience <= now && claimant.last_held + patience <= now;
}

}  // namespace muster::placement
