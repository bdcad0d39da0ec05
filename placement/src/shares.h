// Rule 1, shares: what each tree node may count on in a pool, by quota first, then by priority and weight.
#pragma once

#include <map>
#include <vector>

#include "state.h"

namespace muster::placement {

// Fair share per tree node in one pool, by LeafId. CPU and memory are only shared out where a quota accounts
// for them; elsewhere the share is what there is.
std::vector<Resources> fair_shares(const State& state, PoolId pool);
// The same if somebody on `path` asked for so much more.
std::vector<Resources> fair_shares_with(State& state, PoolId pool, const std::vector<LeafId>& path,
                                        const Resources& more);

// One level of rule 1 for one resource, as numbers: the tested core of fair_shares().
struct Claim {
  std::int64_t quota = 0;
  std::int64_t limit = 0;  // a large number: none
  std::int64_t demand = 0;
  std::int64_t weight = 1;
  std::int64_t priority = 0;
};
// Who gets how much of `capacity`, in the order given (older first). What goes beyond quotas is handed out in
// units of `unit` (whole GPUs); source: weighted max-min fairness by progressive filling. O(n² log n) at
// worst.
std::vector<std::int64_t> share_out(std::int64_t capacity, std::int64_t unit,
                                    const std::vector<Claim>& claims);

}  // namespace muster::placement
