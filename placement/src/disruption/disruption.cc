#include "disruption/disruption.h"

#include <algorithm>
#include <limits>

#include "node/resource_vector.h"

namespace muster::placement {
namespace {

// Where nothing is known of the job yet.
constexpr Duration kUnknownStart = seconds(120), kUnknownResize = seconds(30);

// RULES.md 5.11: so many times over growth pays for itself before it is done.
constexpr Wide kGrowthPaysInPlace = 4, kGrowthPaysByRestart = 16, kGrowthPaysItsVictims = 4;
// For no longer does growth within the guarantee let those run on who have no right to the room.
constexpr Duration kGrowthLetsRun = seconds(600);

std::int64_t clamped(Wide value) {
  return static_cast<std::int64_t>(std::clamp<Wide>(value, 0, std::numeric_limits<std::int64_t>::max()));
}

Time last_change(const Job& j) {
  return std::max(j.progress.began, j.progress.resized.value_or(j.progress.began));
}

Duration lost_if_stopped(const Job& j, Time now) {
  if (j.spec.serves || j.progress.saves_when_asked) return {};
  Duration lost = now - std::max(j.progress.began, j.progress.saved.value_or(j.progress.began));
  if (j.spec.checkpoint_interval) lost = std::min(lost, *j.spec.checkpoint_interval);
  return std::max(lost, Duration{});
}

}  // namespace

DisruptionTerms disruption_terms(const QueueTree& tree, const std::vector<QueueId>& path) {
  DisruptionTerms terms;
  bool overhead = false, patience = false;
  for (const QueueId at : path) {
    const QueueSpec& spec = tree.queue(at).spec;
    if (!overhead && spec.max_overhead) terms.max_overhead = *spec.max_overhead, overhead = true;
    if (!patience && spec.patience) terms.patience = *spec.patience, patience = true;
  }
  return terms;
}

Time waits_since(const Job& j) {
  return std::max(j.spec.submitted, j.last_held);
}

std::int64_t size_of(const Job& j) {
  Resources held;
  for (const Allocation& a : j.allocations) {
    if (a.node != kNoId && a.hold != Hold::kNominated) held += a.amounts;
  }
  return held.gpu.value > 0 ? held.gpu.value : held.cpu.value;
}

WorkTime has_run(const Job& j, Time now) {
  const Duration since = std::max(now - last_change(j), Duration{});
  return {clamped(static_cast<Wide>(j.progress.ran.value) + static_cast<Wide>(size_of(j)) * since.ms)};
}

Duration downtime_of_going(const Job& j, Time now) {
  const Duration start = j.progress.start_took.value_or(kUnknownStart);
  if (j.spec.serves) return start;
  const Duration stop = j.progress.save_took.value_or(j.spec.grace_period);
  return Duration{lost_if_stopped(j, now).ms + stop.ms + start.ms};
}

Duration downtime_of_resizing(const Job& j, Time now) {
  return j.spec.resizes_in_place ? j.progress.resize_took.value_or(kUnknownResize)
                                 : downtime_of_going(j, now);
}

Bounded within_bound(const Job& j, const DisruptionTerms& terms, Duration downtime, Time now, bool stops) {
  const auto size = static_cast<Wide>(size_of(j));
  const Wide allowed = static_cast<Wide>(has_run(j, now).value) * terms.max_overhead;
  const auto lost_with = [&](Duration down) {
    return (static_cast<Wide>(j.progress.lost.value) + size * down.ms) * 100;
  };
  if (lost_with(downtime) <= allowed) return {true, {}};
  if (terms.max_overhead <= 0 || size <= 0) return {};
  // What it would lose grows with time, up to the time between two checkpoints.
  const Duration lost = stops ? lost_if_stopped(j, now) : Duration{};
  Duration later = downtime;
  if (lost.ms > 0) {
    if (!j.spec.checkpoint_interval) return {};
    later.ms += j.spec.checkpoint_interval->ms - lost.ms;
  }
  const Wide rate = size * terms.max_overhead;
  const Wide wait = (lost_with(later) - allowed + rate - 1) / rate;
  return {false, now + Duration{clamped(wait)}};
}

Wide cost_in_pool(const ClusterModel& s, PoolId pool, const Resources& amounts, Duration downtime) {
  const Resources& all = s.pool(pool).domains[0].capacity;
  std::int64_t part = 0;
  for (const ResourceKind kind : kBasicKinds)
    part = std::max(part, millionths(amount_of(amounts, kind), amount_of(all, kind)));
  return static_cast<Wide>(part) * downtime.ms;
}

std::optional<Time> breaks_even(Wide cost, Wide rate, Time since) {
  if (cost <= 0) return since;
  constexpr Wide kNever = Wide{1} << 60;
  const Wide wait = rate > 0 ? (cost + rate - 1) / rate : kNever;
  if (wait >= kNever) return std::nullopt;
  return since + Duration{static_cast<std::int64_t>(wait)};
}

std::optional<Time> growth_pays(const ClusterModel& s, const Job& j, PoolId pool, const Resources& grows_by,
                                RoomTime room) {
  Resources held;
  for (const Allocation& a : j.allocations) held += a.amounts;
  const Wide times = j.spec.resizes_in_place ? kGrowthPaysInPlace : kGrowthPaysByRestart;
  return breaks_even(times * cost_in_pool(s, pool, held, downtime_of_resizing(j, room.now)),
                     cost_in_pool(s, pool, grows_by, Duration{1}), room.since);
}

Time growth_pays_its_victims(const ClusterModel& s, PoolId pool, Wide cost, const Resources& grows_by,
                             Time since) {
  const auto pays =
      breaks_even(kGrowthPaysItsVictims * cost, cost_in_pool(s, pool, grows_by, Duration{1}), since);
  return std::min(pays.value_or(since + kGrowthLetsRun), since + kGrowthLetsRun);
}

void note_run(Job& j, Time now) {
  j.progress.ran = has_run(j, now);
}

void begin_attempt(Job& j, Time now) {
  j.progress.began = now;
  j.progress.resized.reset();
  forget_room(j);
}

void forget_room(Job& j) {
  j.room_since.reset();
  j.claim_since.reset();
}

}  // namespace muster::placement
