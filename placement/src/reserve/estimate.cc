#include "reserve/estimate.h"

#include <algorithm>

#include "node/resource_vector.h"

namespace muster::placement {

Estimate::Estimate(const ClusterModel& s, PoolId pool)
    : s_(s),
      ends_(s.pool(pool).ends),
      learned_ends_(s.pool(pool).learned_ends),
      next_(ends_.upper_bound({s.time, kLastId<JobId>})),
      late_(ends_.begin()),
      learned_(learned_ends_.upper_bound({s.time, kLastId<JobId>})),
      reached_(s.time),
      free_(s.pool(pool).domains[0].free) {}

bool Estimate::is_counted(const std::pair<Time, JobId>& learned) const {
  const Time median = s_.job(learned.second).learned_end->second.median;
  return median > s_.time && learned.first != median;
}

bool Estimate::another_ends() {
  while (learned_ != learned_ends_.end() && is_counted(*learned_)) ++learned_;
  // Who is late is about to go: to the minute, so that pending reasons do not change with every plan.
  const Time minute{(s_.time.ms / 60'000 + 1) * 60'000};
  Ends::const_iterator* first = nullptr;
  Time time;
  const auto offer = [&](Ends::const_iterator& end, Time at) {
    if (first != nullptr && time <= at) return;
    first = &end;
    time = at;
  };
  if (next_ != ends_.end()) offer(next_, next_->first);
  if (late_ != ends_.end() && late_->first <= s_.time) offer(late_, minute);
  if (learned_ != learned_ends_.end()) offer(learned_, learned_->first);
  if (first == nullptr) return false;
  rests_on_history_ = rests_on_history_ || first == &learned_;
  reached_ = time;
  const JobId id = (*first)->second;
  ++*first;
  for (const Allocation& c : s_.job(id).allocations) {
    if (c.node != kNoId && s_.node(c.node).takes_part()) free_ += c.amounts;
  }
  return any_ended_ = true;
}

std::optional<Time> Estimate::room(const Resources& asked) {
  free_ -= asked;
  const auto too_little = [&](ResourceKind kind) {
    return amount_of(asked, kind) > 0 && amount_of(free_, kind) < 0;
  };
  while (std::any_of(kAllKinds.begin(), kAllKinds.end(), too_little)) {
    if (!another_ends()) return std::nullopt;
  }
  return reached_;
}

std::optional<Time> Estimate::next(const Resources& asked) {
  const auto then = room(asked);
  return any_ended_ ? then : std::nullopt;
}

}  // namespace muster::placement
