#include "audit/audit_disruption.h"

#include "audit/recount.h"
#include "node/wide.h"

namespace muster::placement {

LifeSoFar life_so_far(const Job& j, Time now) {
  std::int64_t gpu = 0, cpu = 0;
  for (const Allocation& a : j.allocations) {
    if (a.node == kNoId || a.hold == Hold::kNominated) continue;
    gpu += a.amounts.gpu.value, cpu += a.amounts.cpu.value;
  }
  Time since = j.progress.began;
  if (j.progress.resized && *j.progress.resized > since) since = *j.progress.resized;
  const std::int64_t ms = now > since ? (now - since).ms : 0;
  return {{wrapping_add(j.progress.ran.value, wrapping_mul(gpu > 0 ? gpu : cpu, ms))}, j.progress.lost};
}

std::optional<std::string> beyond_bound(const ClusterModel& s, const Job& j, const LifeSoFar& before,
                                        WorkTime cost) {
  std::int32_t most = kMaxOverhead;
  for (const QueueId at : way_up(s.tree(), j.leaf)) {
    if (s.tree().queue(at).spec.max_overhead) {
      most = *s.tree().queue(at).spec.max_overhead;
      break;
    }
  }
  const Wide lost = (static_cast<Wide>(before.lost.value) + cost.value) * 100;
  if (most >= 100 || lost <= static_cast<Wide>(before.ran.value) * most) return std::nullopt;
  return "is disturbed for " + std::to_string(cost.value) + " after it has lost " +
         std::to_string(before.lost.value) + " of " + std::to_string(before.ran.value) +
         ", with a bound of " + std::to_string(most) + " per cent";
}

}  // namespace muster::placement
