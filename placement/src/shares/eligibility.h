// RULES.md 5.3: who is eligible to take from other Projects, by quota or by fair share, and which Projects
// may have to give.
#pragma once

#include <optional>
#include <vector>

#include "model/queue_tree.h"
#include "node/resource_vector.h"

namespace muster::placement {

// Who asks, for how much, in what pool.
struct Claimant {
  JobId job = kNoId;
  PoolId pool = kNoId;
  std::vector<QueueId> path;  // from its leaf to the top
  Resources asked;
  const std::vector<Resources>* fair = nullptr;  // of fair_shares()
  bool placed = false;                           // what it asks for is among what is allocated already
};

enum class Eligibility : std::uint8_t {
  kByQuota,      // it stays within its guarantee; a Project that gives is over its quota
  kByFairShare,  // it stays within its fair share; a Project that gives is over its fair share
};

// Whether the minimum that the claimant asks for is guaranteed to it: with the minimums of its Project's
// other jobs, which are `minimums`, it stays within the guarantee of the Project. Surplus does not count.
bool is_minimum_guaranteed(const QueueTree& tree, const Claimant& c, const Resources& minimums);

// Whether the claimant stays within the bound at its Project and at every Queue above, with what it asks for
// added to what is allocated now. A Queue that was beyond the bound before any victim was taken may have as
// much as then, because what its children exchange needs no room there. `before` has what was allocated then,
// by place on the path.
bool is_eligible(const QueueTree& tree, const Claimant& claimant, Eligibility eligibility,
                 const std::vector<Resources>& before);

// The same at its Project only. If it is false there, no victim of another Project can mend it.
bool may_be_eligible(const QueueTree& tree, const Claimant& claimant, Eligibility eligibility);

// Whether the Project of `path`, and every Queue above it below the one that it has in common with the
// claimant, is over in something that the claimant asks for. To a claimant of GPUs by quota, what holds no
// GPU also gives CPUs and memory that no quota there accounts for. By fair share, taking `amounts` may also
// leave none of them below its guarantee.
bool may_give(const QueueTree& tree, const Claimant& claimant, Eligibility eligibility,
              const std::vector<QueueId>& path, const Resources& amounts);

// What the leaf queue has beyond its quota. Negative where it has less. A resource that the quota does not
// account for counts as the largest amount there is.
Resources beyond_quota(const QueueTree& tree, QueueId leaf, PoolId pool);

// How long a victim in this leaf queue is safe after its start. The nearest level that sets it counts
// (RULES.md 5.6).
Duration min_runtime(const QueueTree& tree, const std::vector<QueueId>& path, bool reclaim);

}  // namespace muster::placement
