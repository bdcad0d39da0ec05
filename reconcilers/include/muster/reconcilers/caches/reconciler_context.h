// What all reconcilers share: the caches, the placement model, and the way to the API server; and what a
// reconcile answers.
#pragma once

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "muster/client/api.h"
#include "muster/client/events.h"
#include "muster/reconcilers/caches/caches.h"
#include "muster/reconcilers/gpu_metrics/gpu_monitor.h"
#include "muster/reconcilers/placement/placement_model.h"
#include "muster/reconcilers/usage/ledger.h"

namespace muster::reconcilers {

// Running totals, for metrics.
struct Totals {
  std::uint64_t pods_created = 0, pods_deleted = 0, status_writes = 0;
  std::uint64_t starts = 0, evictions = 0, replacements = 0, shrinks = 0, grows = 0;
  std::uint64_t reclaims = 0, preemptions = 0, moves = 0;  // parts of evictions
};

class GpuHolders;
class ActivityMonitor;

// What all reconcilers share. One event loop owns it; there are no locks.
struct ReconcilerContext {
  client::Environment env;
  client::ApiClient& api;
  client::EventRecorder& events;
  Caches& caches;
  PlacementModel& placement;
  client::Duration status_interval;     // between two writes of mere counters to one object
  std::chrono::seconds node_grace{60};  // a node that is not Ready for so long is lost
  Totals totals{};
  // Called when a step of a job stands, with the job as it was before: for metrics by Project.
  std::function<void(const crds::TrainingJob& before, const Step& step)> on_step{};
  // Its use count tells how many writes that start or stop work are under way: each of them keeps a copy. It
  // is shared because an event loop that ends drops its coroutines, with the copies in them, after the
  // context is gone.
  std::shared_ptr<const char> urgent = std::make_shared<const char>();
  GpuMonitor* gpu_monitor = nullptr;            // nullptr: nothing is known of them
  ActivityMonitor* activity_monitor = nullptr;  // nullptr: nobody asks sessions about their use
  GpuHolders* gpu_holders = nullptr;            // nullptr: shares of GPUs are not given out
  Ledger* ledger = nullptr;                     // nullptr: nobody counts what work uses
  std::string own_namespace = "muster-system";  // where Muster's processes run

  crds::Time now() const { return std::chrono::floor<std::chrono::seconds>(env.clock.wall()); }
};

// What a reconcile came to.
struct Outcome {
  bool failed = false;                      // again after the key's back-off
  std::optional<client::Duration> after{};  // look again then

  static Outcome done() { return {}; }
  static Outcome retry() { return {.failed = true}; }
  static Outcome again(client::Duration d) { return {.after = d}; }
  void no_later_than(client::Duration d) {
    if (!after || *after > d) after = d;
  }
};

}  // namespace muster::reconcilers
