// What disturbances cost: GPU time that gangs hold and do not work in, by the cause of that.
#include "play/losses.h"

#include <algorithm>

#include "world/world.h"

namespace muster::simulate {

// As of now. Where a gang stands still because of a fault, nothing of this is the cause.
Losses World::loss_rates(const Gang& g) const {
  Losses rates;
  std::int64_t all = 0, leaving = 0;
  for (const Charge& c : g.charged) all += c.milli;
  for (const GangPod& p : g.pods) leaving += p.leaves() ? p.milli_gpu : 0;
  leaving = std::min(leaving, all);
  rates[Loss::kStopping] = leaving;
  const auto& status = g.job.status;
  if (status.assignment.attempt == 0 || g.state != Gang::State::kRunning) return rates;
  const std::int64_t idle = all - leaving - (g.work.runs() ? g.work.milli_gpu() : 0);
  const bool has_lost_a_node = std::ranges::any_of(
      g.job.status.assignment.pods, [this](const auto& place) { return is_failed(place.node); });
  if (idle <= 0 || has_lost_a_node) return rates;
  if (!status.started_at) {
    rates[status.assignment.attempt == 1 ? Loss::kStarting : Loss::kRestarting] = idle;
  } else if (g.stands_until) {
    rates[Loss::kResizing] = idle;
  }
  return rates;
}

void World::count_losses(Gang& g) {
  g.owner->losses += g.loss_meter.read(now);
  g.loss_meter.set(now, loss_rates(g));
}

Losses World::losses_of(const Workload& w) const {
  Losses sum = w.losses;
  for (const auto* list : {&w.gangs, &w.retired}) {
    for (const auto& g : *list) sum += g->loss_meter.read(now);
  }
  return sum;
}

Losses World::losses() const {
  Losses sum;
  for (const auto& [key, w] : workloads_) sum += losses_of(*w);
  for (const auto& w : graveyard_) sum += losses_of(*w);
  return sum;
}

// Net of what was done again.
std::int64_t World::useful_milli_ms_of(const Workload& w) const {
  std::int64_t sum = 0;
  for (const auto* list : {&w.gangs, &w.retired}) {
    for (const auto& g : *list) {
      Work work = g->work;
      work.advance(now);
      // More than was done by then may have been lost.
      sum += std::max<std::int64_t>(work.done().milli_gpu_ms - g->milli_gpu_ms_before, 0);
    }
  }
  return sum;
}

std::int64_t World::useful_milli_ms() const {
  std::int64_t sum = 0;
  for (const auto& [key, w] : workloads_) sum += useful_milli_ms_of(*w);
  for (const auto& w : graveyard_) sum += useful_milli_ms_of(*w);
  return sum;
}

}  // namespace muster::simulate
