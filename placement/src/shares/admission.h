// RULES.md 3.2, 3.3 and 3.5: limits at the Project and every Queue above, the quota of non-preemptible jobs,
// and what is held back for reserved quota.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "model/cluster_model.h"

namespace muster::placement {

enum class Bound : std::uint8_t {
  kLimit,
  kQuota,
  kReserved,  // too little of the pool would stay free for the unused reserved parts beside the path
};

// The first bound that `amounts` more would break in this view (kForNominated: `amounts` are nominated
// already): limits and quotas from the leaf upwards, then what is reserved. nullopt: none. What is reserved
// is counted with what is leaving as free, and GPUs as whole ones where whole ones are asked for. It does not
// bind who stays within the reserved part of its leaf or of an ancestor, as against all that is not below
// that. O(depth).
struct BrokenBound {
  QueueId at = kNoId;  // kReserved: the leaf itself
  Bound kind = Bound::kLimit;
  const char* resource = "";
  std::int64_t need = 0, have = 0;  // asked for; left below the bound
  std::int64_t bound = 0;           // kReserved: what others have reserved and do not use
  bool binds = true;                // kReserved: so much is free at all
};
std::optional<BrokenBound> broken_bound(const ClusterModel& state, const std::vector<QueueId>& path,
                                        PoolId pool, const Resources& amounts, bool preemptible,
                                        View view = View::kNow);

// The tree nodes beside the path for which something of the resource is held back.
std::vector<QueueId> held_back_for(const ClusterModel& state, const std::vector<QueueId>& path, PoolId pool,
                                   std::string_view resource);

// The name of a tree node on `path` that stands beyond a bound in what was asked for; "": none. For the
// auditor: right after a start there is none.
std::string breach(const ClusterModel& state, const std::vector<QueueId>& path, PoolId pool,
                   const Resources& asked, bool preemptible);

}  // namespace muster::placement
