// Where the nodes of a NodePool are read.
#pragma once

#include <vector>

#include "muster/reconcilers/caches/reconciler_context.h"
#include "muster/reconcilers/gpu_metrics/gpu_monitor.h"

namespace muster::reconcilers {

// One for each node that the pool selects and that has GPUs of its. Complexity: O(nodes).
std::vector<GpuEndpoint> gpu_endpoints(const crds::NodePool& pool, const Caches& caches);

// Begins to read the pool where it says how and it is time to; returns when to look again. One that says
// nothing, or is gone, is forgotten.
std::optional<client::Duration> follow_gpus(const client::Key& pool, const Caches& caches,
                                            GpuMonitor& monitor);

}  // namespace muster::reconcilers
