#include "reserve/estimate.h"

#include <algorithm>

#include "node/resource_vector.h"

namespace muster::placement {

Estimate::Estimate(const ClusterModel& s, PoolId pool)
    : s_(s),
      ends_(s.pool(pool).ends),
      next_(ends_.upper_bound({s.time, kLastId<JobId>})),
      late_(ends_.begin()),
      reached_(s.time),
      free_(s.pool(pool).domains[0].free) {}

bool Estimate::another_ends() {
  // Who is late is about to go: to the minute, so that pending reasons do not change with every plan.
  const Time minute{(s_.time.ms / 60'000 + 1) * 60'000};
  const bool any_late = late_ != ends_.end() && late_->first <= s_.time;
  const bool next_first = next_ != ends_.end() && (!any_late || next_->first <= minute);
  if (!next_first && !any_late) return false;
  const auto [time, id] = next_first ? *next_++ : std::pair(minute, (late_++)->second);
  reached_ = time;
  for (const Allocation& c : s_.job(id).allocations) {
    if (c.node != kNoId && s_.node(c.node).takes_part()) free_ += c.amounts;
  }
  return any_ended_ = true;
}

std::optional<Time> Estimate::next(const Resources& asked) {
  free_ -= asked;
  const auto too_little = [&](ResourceKind kind) {
    return amount_of(asked, kind) > 0 && amount_of(free_, kind) < 0;
  };
  while (std::any_of(kAccountedKinds.begin(), kAccountedKinds.end(), too_little)) {
    if (!another_ends()) return std::nullopt;
  }
  if (!any_ended_) return std::nullopt;  // enough in all is free already: something else is in its way
  return reached_;
}

}  // namespace muster::placement
