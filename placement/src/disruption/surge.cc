#include "disruption/surge.h"

#include <algorithm>

#include "shares/admission.h"

namespace muster::placement {
namespace {

template <class Counts>
std::int32_t count_replicas(const ClusterModel& s, const Job& replica, Counts&& counts) {
  std::int32_t n = 0;
  for (const Pool& p : s.pools) {
    const auto jobs = p.holding.find(replica.leaf);
    if (jobs == p.holding.end()) continue;
    n += static_cast<std::int32_t>(std::count_if(jobs->second.begin(), jobs->second.end(), [&](JobId id) {
      return s.job(id).spec.service == replica.spec.service && counts(s.job(id));
    }));
  }
  return n;
}

}  // namespace

bool may_surge(const Job& j) {
  return j.spec.serves && j.spec.max_surge > 0 && j.progress.is_ready;
}

bool is_surging(const Job& j) {
  return j.spec.serves && j.runs() && !j.leaving.empty();
}

bool has_room_to_surge(const ClusterModel& s, const Job& j, PoolId pool, const Resources& amounts,
                       std::int32_t already) {
  if (count_replicas(s, j, is_surging) + already >= j.spec.max_surge) return false;
  // Both are there for a while. A quota is not asked: soon it holds what it held before.
  return !broken_bound(s, s.tree().path(j.leaf), pool, amounts, Applicant{}, View::kNow);
}

std::int32_t ready_replicas(const ClusterModel& s, const Job& j) {
  return count_replicas(s, j, [](const Job& other) { return other.runs() && other.progress.is_ready; });
}

}  // namespace muster::placement
