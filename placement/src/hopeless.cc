#include "hopeless.h"

#include "rights.h"
#include "totals.h"

namespace muster::placement {

const Resources* Hopeless::lacking(RequestId id) {
  const auto [known, fresh] = asked_.try_emplace(id);
  auto& [lacks, asked] = known->second;
  if (fresh) {
    asked = s_.asked(s_.requests.at(id), pool_);
    lacks = !fits_in(asked, free_in(s_.pool(pool_)));
  }
  return lacks ? &asked : nullptr;
}

bool Hopeless::operator()(LeafId leaf, std::int64_t lowest, const WaitKind& kind) {
  if (kind.alone != kNoId || lowest < kind.priority) return false;
  const Resources* asked = lacking(kind.request);
  if (asked == nullptr) return false;
  const Claimant claimant{kNoId, pool_, {leaf}, *asked, &fair_};
  return !may_have_right(s_, claimant, Right::kGuarantee) && !may_have_right(s_, claimant, Right::kFairness);
}

}  // namespace muster::placement
