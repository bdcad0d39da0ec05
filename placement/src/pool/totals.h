// What the sums of a pool say of a claimant without a look at any node or job.
#pragma once

#include "pool/pool.h"

namespace muster::placement {

// What nobody has or was nominated at most, as if all that are leaving had gone; parts of GPUs as well. O(1).
Resources free_in(const Pool& pool);

// No resource of it is more than is there.
bool fits_in(const Resources& asked, const Resources& sum);

// The lowest priority of the leaf's preemptible jobs that hold places in the pool; without any the largest
// number. O(log of these).
std::int64_t lowest_running(const Pool& pool, QueueId leaf);

}  // namespace muster::placement
