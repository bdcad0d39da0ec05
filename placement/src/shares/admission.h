// RULES.md 3.2, 3.3, 3.5 and 3.10: limits at the Project and every Queue above, the quota of non-preemptible
// jobs, what is held back for reserved quota, and what is lent beyond a quota.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "model/cluster_model.h"
#include "node/resource_vector.h"

namespace muster::placement {

// Who asks to be admitted.
struct Applicant {
  bool preemptible = true;
  std::optional<Duration> max_runtime{};  // absent: it does not say that it ends
};
inline Applicant applicant(const JobSpec& spec) {
  return {spec.preemptible, spec.max_runtime};
}

enum class Bound : std::uint8_t {
  kLimit,
  kQuota,
  kReservedPart,  // held back: too little of the pool would stay free for reserved quota that others do not
                  // use
};

// The first bound that `amounts` more would break in this view; nullopt: none. (kForNominated: `amounts` are
// nominated already.) Limits and quotas are asked from the Project upwards, then what is held back. For that,
// what is leaving counts as free, and GPUs count as whole ones where whole ones are asked for. What is held
// back does not bind a claimant that stays within the reserved quota of a level of its path, as far as others
// are not below that level. O(depth).
struct BrokenBound {
  QueueId at = kNoId;  // where the bound is; kReservedPart: the Project itself
  Bound kind = Bound::kLimit;
  ResourceKind what = ResourceKind::kGpu;
  std::int64_t need = 0, have = 0;  // what is asked for, and what is left below the bound
  std::int64_t bound = 0;           // the bound; kReservedPart: how much is held back
  bool binds = true;                // kReservedPart: false where so much is not even free
};
std::optional<BrokenBound> broken_bound(const ClusterModel& state, const std::vector<QueueId>& path,
                                        PoolId pool, const Resources& amounts, const Applicant& who,
                                        View view = View::kNow);

// When schedules have lifted every limit and quota on the path that `amounts` more would break now, as far as
// the next change of each is known. `promised`: what others are to get before, by level. nullopt: they do not
// lift all of them. O(depth).
std::optional<Time> bounds_lifted(const ClusterModel& state, const std::vector<QueueId>& path, PoolId pool,
                                  const Resources& amounts, const Applicant& who,
                                  const std::map<QueueId, Resources>& promised);

// The Queues and Projects beside the path for which something of the resource is held back.
std::vector<QueueId> held_back_for(const QueueTree& tree, const std::vector<QueueId>& path, PoolId pool,
                                   ResourceKind what);

// The name of a level of `path` that is beyond a bound in what was asked for; "": there is none. For the
// auditor: right after a start there is none.
std::string breach(const QueueTree& tree, const std::vector<QueueId>& path, PoolId pool,
                   const Resources& asked, const Applicant& who);

}  // namespace muster::placement
