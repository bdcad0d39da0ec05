#include "hopeless.h"

#include <limits>

#include "rights.h"

namespace muster::placement {

const Resources* Hopeless::lacking(RequestId id) {
  const auto [known, fresh] = asked_.try_emplace(id);
  auto& [lacks, asked] = known->second;
  if (fresh) {
    const Pool& p = s_.pool(pool_);
    asked = s_.asked(s_.requests.at(id), pool_);
    // As if all that is leaving had gone, and wherever it is.
    const Resources& free = p.domains[0].free;
    lacks = asked.gpu > p.spare_gpu || asked.cpu > free.cpu || asked.memory > free.memory ||
            asked.pods > free.pods;
  }
  return lacks ? &asked : nullptr;
}

std::int64_t Hopeless::lowest_running(LeafId leaf) const {
  const auto& jobs = s_.pool(pool_).preemptible_jobs;
  const auto lowest = jobs.lower_bound({leaf, std::numeric_limits<std::int64_t>::min()});
  const bool any = lowest != jobs.end() && lowest->first.first == leaf;
  return any ? lowest->first.second : std::numeric_limits<std::int64_t>::max();
}

bool Hopeless::operator()(LeafId leaf, std::int64_t lowest_running, const WaitKind& kind) {
  if (kind.alone != kNoId || lowest_running < kind.priority) return false;
  const Resources* asked = lacking(kind.request);
  if (asked == nullptr) return false;
  const Claimant claimant{kNoId, pool_, {leaf}, *asked, &fair_};
  return !may_have_right(s_, claimant, Right::kGuarantee) && !may_have_right(s_, claimant, Right::kFairness);
}

}  // namespace muster::placement
