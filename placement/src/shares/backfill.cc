#include "shares/backfill.h"

#include <algorithm>
#include <utility>

#include "node/resource_vector.h"
#include "shares/eligibility.h"

namespace muster::placement {
namespace {

bool within_quota(const AccountedKinds& kinds, const Bounds& quota, const Resources& used,
                  const Resources& asked) {
  return std::none_of(kinds.begin(), kinds.end(), [&](ResourceKind kind) {
    return amount_of(asked, kind) > 0 && amount_of(used, kind) > quota_of(quota, kind).value_or(kUnbounded);
  });
}

// Where nothing is known of the job yet. This is held against how long the owner may be kept waiting; what a
// disturbance costs is guessed higher (disruption.cc).
constexpr Duration kUnknownStart = seconds(60);

bool cheap_to_remove(const ClusterModel& s, const Job& j, const std::vector<QueueId>& path, const Job& owner,
                     const Reservation& r, PoolId pool) {
  const Duration after = s.pool(pool).spec.reservation_after;
  if (!j.spec.preemptible || !j.spec.checkpoint_interval) return false;
  const Duration restart = j.progress.start_took.value_or(kUnknownStart);
  if (Duration{j.spec.checkpoint_interval->ms + restart.ms} > after) return false;
  const bool own = j.leaf == owner.leaf;
  // The start may have come, and the owner waits still.
  const Time needed = std::max(s.time, r.start.value_or(s.time + after));
  if (s.time + min_runtime(s.tree(), path, !own) > needed) return false;
  return !own || j.spec.priority < owner.spec.priority;
}

}  // namespace

std::vector<BoundsKept> bounds_kept(const ClusterModel& s, const std::vector<QueueId>& path, PoolId pool,
                                    const Resources& asked, bool placed) {
  const auto& fair = s.pool(pool).fair;
  const AccountedKinds& kinds = s.tree().accounted();
  std::vector<BoundsKept> kept;
  for (const QueueId at : path) {
    const Resources used =
        placed ? s.tree().sums(at, pool).allocated : s.tree().sums(at, pool).allocated + asked;
    const auto i = static_cast<std::size_t>(at);
    kept.push_back({within_quota(kinds, s.tree().share(at, pool).quota, used, asked),
                    i < fair.size() && !exceeds(kinds, used, fair[i], asked)});
  }
  return kept;
}

BoundsKept kept_throughout(const std::vector<BoundsKept>& kept, const std::vector<QueueId>& path,
                           const std::vector<QueueId>& beside) {
  BoundsKept all{true, true};
  for (std::size_t k = 0; k < path.size(); ++k) {
    if (std::ranges::find(beside, path[k]) != beside.end()) continue;
    all.quota = all.quota && kept[k].quota;
    all.fair = all.fair && kept[k].fair;
  }
  return all;
}

bool kept_off(const ClusterModel& s, JobId id, PoolId pool, const Resources& asked, bool placed) {
  const Pool& p = s.pool(pool);
  if (!p.reservation || p.reservation->owner == id) return false;
  const Reservation& r = *p.reservation;
  const Job& j = s.job(id);
  const Job& owner = s.job(r.owner);
  if (j.leaf == owner.leaf && j.spec.priority > owner.spec.priority) return false;
  if (j.spec.max_runtime) {
    const Time end = end_of(j).value_or(s.time + *j.spec.max_runtime);
    if (r.start ? end <= *r.start : end - s.time <= p.spec.reservation_after) return false;
  }
  const auto path = s.tree().path(j.leaf), owners = s.tree().path(owner.leaf);
  const BoundsKept mine = kept_throughout(bounds_kept(s, path, pool, asked, placed), path, owners);
  const bool is_known = owners.size() == r.kept_bounds.size();
  const BoundsKept of_owner = is_known ? kept_throughout(r.kept_bounds, owners, path) : BoundsKept{};
  if (mine.any() && !of_owner.any()) return false;
  if (mine.quota && !of_owner.quota) return false;  // they go before the owner
  const bool may_be_taken_from = j.leaf == owner.leaf || (of_owner.any() && !mine.any());
  return !may_be_taken_from || !cheap_to_remove(s, j, path, owner, r, pool);
}

Resources free_beside_reservation(const ClusterModel& s, const Pool& p, const Resources& asked) {
  const bool parts = asked.gpu.value % kMilliPerGpu != 0;
  Resources free = p.domains[0].free;
  if (parts) free.gpu = p.domains[0].capacity.gpu - p.used_gpu;
  for (const NodeId id : p.reservation->nodes) {
    const Node& n = s.node(id);
    if (!n.takes_part() || &s.pool(n.pool) != &p) continue;
    Resources kept = n.counted;
    if (parts) kept.gpu = capacity_of(n).gpu - n.used.gpu;
    free -= kept;
  }
  return larger_of(free, Resources{});
}

}  // namespace muster::placement
