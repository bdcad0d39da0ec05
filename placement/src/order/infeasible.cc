#include "order/infeasible.h"

#include <algorithm>

#include "node/resource_vector.h"
#include "pool/totals.h"
#include "shares/eligibility.h"

namespace muster::placement {
namespace {

// The least that one replica more of any elastic role takes, of each resource.
Resources least_growth(const ClusterModel& s, const Request& request, PoolId pool) {
  std::optional<Resources> least;
  for (const RoleSpec& role : request.roles) {
    if (role.most() == role.replicas || role.colocate_with >= 0) continue;
    const Resources one = s.per_pod(role, pool);
    if (!least) least = one;
    least = smaller_of(*least, one);
  }
  return least.value_or(Resources{});
}

}  // namespace

Infeasible::Asked Infeasible::seen(const Resources& amounts) const {
  return {true, !fits_in(amounts, free_in(s_->pool(pool_))), amounts};
}

// The right by fair share is the wider one.
bool Infeasible::infeasible(QueueId leaf, std::int64_t lowest, std::int64_t priority,
                            const Asked& asked) const {
  if (lowest < priority || !asked.lacking) return false;
  return !may_be_eligible(s_->tree(), {kNoId, pool_, {leaf}, asked.amounts, fair_},
                          Eligibility::kByFairShare);
}

bool Infeasible::may_take_surplus(QueueId leaf, const Resources& amounts) const {
  const auto minimums = minimums_below_surplus(*s_, leaf, pool_);
  return minimums && is_minimum_guaranteed(s_->tree(), {kNoId, pool_, {leaf}, amounts, fair_}, *minimums);
}

bool Infeasible::starts(QueueId leaf, std::int64_t lowest, const PendingKind& kind) {
  if (kind.alone != kNoId) return false;
  const auto id = static_cast<std::size_t>(kind.request);
  if (starts_.size() <= id) starts_.resize(id + 1);
  Asked& asked = starts_[id];
  if (!asked.known) asked = seen(s_->asked(s_->requests.at(kind.request), pool_));
  return infeasible(leaf, lowest, kind.priority, asked) && !may_take_surplus(leaf, asked.amounts);
}

bool Infeasible::growth(QueueId leaf, std::int64_t lowest, const Job& job) {
  const auto id = static_cast<std::size_t>(job.request);
  if (growth_.size() <= id) growth_.resize(id + 1);
  Asked& asked = growth_[id];
  if (!asked.known) asked = seen(least_growth(*s_, s_->request_of(job), pool_));
  return infeasible(leaf, lowest, job.spec.priority, asked);
}

}  // namespace muster::placement
