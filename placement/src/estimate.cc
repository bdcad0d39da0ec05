#include "estimate.h"

#include <algorithm>

#include "reservation.h"

namespace muster::placement {

Estimate::Estimate(const State& s, PoolId pool) : reached_(s.time), free_(s.pool(pool).domains[0].free) {
  for (const auto& [leaf, jobs] : s.pool(pool).holding) {
    for (const JobId id : jobs) {
      const Job& j = s.job(id);
      const auto end = end_of(j);
      if (!end) continue;
      Resources sum;
      for (const Charge& c : j.charges) {
        if (c.node != kNoId && s.node(c.node).takes_part()) sum += c.amounts;
      }
      // Who is late is about to go: to the minute, so that verdicts do not change with every plan.
      const Time minute{(s.time.ms / 60'000 + 1) * 60'000};
      ends_.emplace_back(*end > s.time ? *end : minute, sum);
    }
  }
  std::stable_sort(ends_.begin(), ends_.end(),
                   [](const auto& a, const auto& b) { return a.first < b.first; });
}

std::optional<Time> Estimate::next(const Resources& asked) {
  free_ -= asked;
  const auto short_of = [&](const auto amount, const auto wanted) {
    return wanted > decltype(wanted){} && amount < decltype(amount){};
  };
  while (short_of(free_.gpu, asked.gpu) || short_of(free_.cpu, asked.cpu) ||
         short_of(free_.memory, asked.memory)) {
    if (ended_ == ends_.size()) return std::nullopt;
    reached_ = ends_[ended_].first;
    free_ += ends_[ended_].second;
    ++ended_;
  }
  if (ended_ == 0) return std::nullopt;  // enough in all is free already: something else is in its way
  return reached_;
}

}  // namespace muster::placement
