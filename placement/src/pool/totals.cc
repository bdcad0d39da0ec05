#include "pool/totals.h"

#include <limits>

#include "node/resource_vector.h"

namespace muster::placement {

Resources free_in(const Pool& pool) {
  Resources sum = pool.domains[0].free;
  sum.gpu = pool.spare_gpu;
  return sum;
}

bool fits_in(const Resources& asked, const Resources& sum) {
  return std::all_of(kAllKinds.begin(), kAllKinds.end(),
                     [&](ResourceKind kind) { return amount_of(asked, kind) <= amount_of(sum, kind); });
}

std::int64_t lowest_running(const Pool& pool, QueueId leaf) {
  const auto& jobs = pool.preemptible_jobs;
  const auto lowest = jobs.lower_bound({leaf, std::numeric_limits<std::int64_t>::min()});
  const bool any = lowest != jobs.end() && lowest->first.first == leaf;
  return any ? lowest->first.second : std::numeric_limits<std::int64_t>::max();
}

}  // namespace muster::placement
