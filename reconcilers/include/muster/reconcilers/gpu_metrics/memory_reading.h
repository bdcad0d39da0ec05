// How full the memory of one node's GPUs is, as its metrics say. Pure functions.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/client/environment.h"
#include "muster/client/exposition.h"
#include "muster/crds/node_pool.h"

namespace muster::reconcilers {

// In per cent of what is used and free together, rounded down. A GPU of which not both are said is not there.
struct MemoryReading {
  std::map<std::int32_t, std::int32_t> by_index;
  // By pod, "namespace/name", where the exporter knows the pods: of the fullest of its GPUs.
  std::map<std::string, std::int32_t> by_pod;
};

// Samples are passed over as in reading_of(). O(samples log GPUs).
MemoryReading memory_reading_of(const crds::GpuMetrics& where, const std::vector<client::Sample>& samples,
                                client::WallTime now);

// Of the GPU that this pod holds, "namespace/name". It is found by the pod if the node's endpoint names pods
// at all, else by its index, as in use_of(). nullopt: nothing is said of it.
std::optional<std::int32_t> memory_used(const MemoryReading& reading, const std::string& pod,
                                        std::int32_t index);

}  // namespace muster::reconcilers
