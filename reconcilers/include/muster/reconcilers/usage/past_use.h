// Past use (RULES.md 1.6) out of the ledger: what placement had averaged before this process began.
#pragma once

#include <string>
#include <vector>

#include "muster/crds/duration.h"
#include "muster/crds/usage.h"
#include "muster/placement/queue.h"

namespace muster::reconcilers {

// What a child of a Queue with this half-life held on average, for each pool, as of `usage.until`; recent
// times count more. Within a day the use counts as if it had been even. CPUs and memory are not told by pool:
// they are of `default_pool` ("": there is none, and they are left out). Empty: nothing was used. Complexity:
// O(days x pools).
std::vector<placement::PastUse> past_use_of(const std::string& name, bool is_project,
                                            const crds::UsageStatus& usage, crds::Duration half_life,
                                            const std::string& default_pool);

}  // namespace muster::reconcilers
