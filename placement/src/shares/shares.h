// RULES.md 1: what each Queue and Project may count on in a pool, by quota first, then by priority and
// weight.
#pragma once

#include <map>
#include <vector>

#include "model/cluster_model.h"

namespace muster::placement {

// The fair share of every Queue and Project in one pool, by QueueId. Other resources than GPUs are
// shared out only where a quota accounts for them. Elsewhere the share is kPlenty.
std::vector<Resources> fair_shares(const ClusterModel& state, PoolId pool);
// The same, if the Project of `path` asked for `more` in addition.
std::vector<Resources> fair_shares_with(const ClusterModel& state, PoolId pool,
                                        const std::vector<QueueId>& path, const Resources& more);

// One level of RULES.md 1 for one resource, as numbers. This is the core of fair_shares(), and is tested by
// itself.
struct ShareClaim {
  std::int64_t quota = 0;
  std::int64_t limit = 0;  // a very large number: no limit
  std::int64_t demand = 0;
  std::int64_t weight = 1;
  std::int64_t priority = 0;
  std::int64_t reserved = 0;  // its reserved quota: comes first, wanted or not
  std::int64_t below = 0;     // what its children get in step 1.1; counts as demand if that is larger
};
// How much of `capacity` each claim gets. The claims are sorted, the older first. What goes beyond quotas is
// handed out in pieces of `unit` (whole GPUs). Source: weighted max-min fairness by progressive filling.
// Where the claims exceed the capacity, reserved quota comes first, then the rest of the quotas, each by
// priority, and inside a priority by weighted max-min as well, with the quotas as weights. O(n² log n) at
// worst.
std::vector<std::int64_t> share_out(std::int64_t capacity, std::int64_t unit,
                                    const std::vector<ShareClaim>& claims);

// RULES.md 1.6: lowers the weights of siblings by their past use. `beyond` has what each has held beyond its
// quota on average (past.h). Together they have held X beyond quotas. The part of a claim is X * weight / sum
// of weights. A claim that held b, and b is more than its part, has its weight multiplied by part / b. So
// twice the part halves the weight. A claim that held less keeps its weight. Weights come back in units of 1
// / kWeightUnit, and none falls to 0.
inline constexpr std::int64_t kWeightUnit = 10'000;
inline constexpr std::int64_t kMaxWeight = 1'000'000'000;  // larger ones count as this
void discount(std::vector<ShareClaim>& claims, const std::vector<std::int64_t>& beyond);

}  // namespace muster::placement
