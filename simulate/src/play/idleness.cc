// How programs use their GPUs, where an annotation says so, and since when they do not. It is read as on a
// cluster: where the pool has gpuMetrics, and as often as it says. Readings that would say what the last one
// said are left out.
#include <algorithm>

#include "muster/reconcilers/lifecycle/job_status.h"
#include "muster/reconcilers/placement/placement_specs.h"
#include "world/world.h"

namespace muster::simulate {
namespace {

using reconcilers::Use;

// Before the annotation says anything a job uses its GPUs.
constexpr std::int64_t kInFullUse = 100;

client::Duration to_interval(pl::Duration d) {
  return std::chrono::milliseconds{d.ms};
}

}  // namespace

// Another attempt, and another bound, begin without a past.
reconcilers::Idleness World::idleness_of(Gang& g) {
  IdleWatch& use = g.idle_watch;
  const auto& a = g.job.status.assignment;
  const auto& idle = g.job.spec.idle;
  const bool is_read = reconcilers::ends_when_idle(g.job) && g.owner->behaviour().gpu_utilization &&
                       reading_intervals_.contains(a.pool);
  const bool is_another = use.attempt != a.attempt || use.below != (idle ? idle->gpu_utilization_below : 0);
  if (!is_read || is_another) use = {.version = use.version + 1};
  if (!is_read) return {};
  use.attempt = a.attempt;
  use.below = idle->gpu_utilization_below;
  if (use.told_by != g.owner->source) use.due.reset();
  use.told_by = g.owner->source;
  if (!use.due) {
    use.due = next_reading(g);
    ++use.version;
    if (use.due) agenda_add(*use.due, Due::kReading, &g, 0, use.version);
  }
  const bool is_known = use.read_at && use.last != Use::kUnknown;
  return {.is_known = is_known, .idle = std::chrono::floor<crds::Duration>(use.clock.idle())};
}

// As each node's endpoint would say it; one that has failed says nothing.
Use World::use_now(const Gang& g) const {
  const auto percent = g.owner->behaviour().gpu_utilization->at(to_instant(now), kInFullUse);
  std::vector<reconcilers::PodGpus> gpus;
  reconcilers::GpuReadings readings;
  for (const auto& place : g.job.status.assignment.pods) {
    if (place.gpus.empty()) continue;
    gpus.push_back({place.node, "", place.gpus});
    auto& reading = readings[place.node];
    if (is_failed(place.node)) reading = std::unexpected("node " + place.node + " is not Ready");
    if (!reading) continue;
    for (const std::int32_t gpu : place.gpus) reading->by_index[gpu] = static_cast<std::int32_t>(percent);
  }
  return reconcilers::use_of(gpus, g.idle_watch.below, readings).use;
}

// Absent: what is read will not change by itself.
std::optional<pl::Time> World::next_reading(const Gang& g) const {
  const IdleWatch& use = g.idle_watch;
  if (!use.read_at) return now;
  const pl::Duration interval = reading_intervals_.at(g.job.status.assignment.pool);
  if (use.last == Use::kIdle) return std::max(now, *use.read_at + interval);
  const Use is = use_now(g);
  if (is != use.last) return std::max(now, *use.read_at + interval);
  const auto change = g.owner->behaviour().gpu_utilization->next(to_instant(now));
  if (is == Use::kUnknown || !change) return std::nullopt;
  const std::int64_t away = (to_time(*change) - *use.read_at).ms;
  const std::int64_t steps = std::max<std::int64_t>((away + interval.ms - 1) / interval.ms, 1);
  return std::max(now, *use.read_at + pl::Duration{steps * interval.ms});
}

void World::read_gpus(Gang& g) {
  IdleWatch& use = g.idle_watch;
  use.due.reset();
  const auto interval = reading_intervals_.find(g.job.status.assignment.pool);
  if (interval != reading_intervals_.end()) {
    use.last = use_now(g);
    use.clock.add(to_point(now), use.last, to_interval(interval->second));
    use.read_at = now;
  }
  reconcile(g);
}

}  // namespace muster::simulate
