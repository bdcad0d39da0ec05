// RULES.md 1: what each Queue and Project may count on in a pool, by quota first, then by priority and
// weight.
#pragma once

#include <map>
#include <vector>

#include "model/cluster_model.h"

namespace muster::placement {

// Fair share per tree node in one pool, by QueueId. CPU and memory are only shared out where a quota accounts
// for them; elsewhere the share is what there is.
std::vector<Resources> fair_shares(const ClusterModel& state, PoolId pool);
// The same if somebody on `path` asked for so much more.
std::vector<Resources> fair_shares_with(ClusterModel& state, PoolId pool, const std::vector<QueueId>& path,
                                        const Resources& more);

// One level of RULES.md 1 for one resource, as numbers. This is the core of fair_shares(), and is tested by
// itself.
struct ShareClaim {
  std::int64_t quota = 0;
  std::int64_t limit = 0;  // a large number: none
  std::int64_t demand = 0;
  std::int64_t weight = 1;
  std::int64_t priority = 0;
  std::int64_t reserved = 0;  // comes first, wanted or not
  std::int64_t below = 0;     // what its children first get: counts as demand where that is less
};
// Who gets how much of `capacity`, in the order given (older first). What goes beyond quotas is handed out in
// units of `unit` (whole GPUs); source: weighted max-min fairness by progressive filling. Where the claims
// exceed the capacity, first what is reserved, then the rest of the quotas, each by priority, then in
// proportion. O(n² log n) at worst.
std::vector<std::int64_t> share_out(std::int64_t capacity, std::int64_t unit,
                                    const std::vector<ShareClaim>& claims);

// Past use: the weights of siblings, where their queue has a half-life. `beyond`: what each has held beyond
// its quota on average (past.h). All of them together have held X beyond quotas; a claim's part of that is
// X * weight / sum of weights. Who held more than its part b of it has its weight multiplied by part / b, who
// held less keeps it: twice the part halves the weight. Weights come back in units of 1 / kWeightUnit, none
// falls to 0.
inline constexpr std::int64_t kWeightUnit = 10'000;
inline constexpr std::int64_t kMaxWeight = 1'000'000'000;  // larger ones count as this
void discount(std::vector<ShareClaim>& claims, const std::vector<std::int64_t>& beyond);

}  // namespace muster::placement
