#include "reserve/forecast.h"

#include <algorithm>

#include "shares/admission.h"

namespace muster::placement {

Forecast::Answer Forecast::next(const Job& job, const std::vector<QueueId>& path, const Resources& asked) {
  const auto& runs = job.spec.max_runtime;
  const auto bound = broken_bound(s_, path, pool_, asked, applicant(job.spec), View::kNow);
  const bool binds = bound && bound->binds;
  if (binds && bound->kind == Bound::kReservedPart) return {};
  if (binds || s_.tree().drains_before_end(path, s_.time, runs) != kNoId)
    return by_schedules(job, path, asked, s_.time);
  later_.room(asked);
  const auto start = now_.next(asked);
  if (!start) return {};
  return {s_.tree().after_drains(path, *start, runs), now_.rests_on_history()};
}

Forecast::Answer Forecast::held(const Job& job, const std::vector<QueueId>& path, const Resources& asked) {
  const auto opens = s_.tree().opens(path, s_.time);
  return opens ? by_schedules(job, path, asked, *opens) : Answer{};
}

Forecast::Answer Forecast::by_schedules(const Job& job, const std::vector<QueueId>& path,
                                        const Resources& asked, Time from) {
  const auto lifted = bounds_lifted(s_, path, pool_, asked, applicant(job.spec), promised_);
  if (!lifted) return {};
  for (const QueueId level : path) promised_[level] += asked;
  const auto room = later_.room(asked);
  if (!room) return {};
  const Time start = std::max({from, *lifted, *room});
  return {s_.tree().after_drains(path, start, job.spec.max_runtime), later_.rests_on_history()};
}

}  // namespace muster::placement
