// What one node's metrics endpoint says of its GPUs, as the DCGM exporter words it. Pure functions.
#pragma once

#include <cstdint>
#include <expected>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/client/environment.h"
#include "muster/client/exposition.h"
#include "muster/crds/node_pool.h"

namespace muster::reconcilers {

struct GpuReading {
  // In percent, rounded down; a GPU of which nothing credible is said is not there.
  std::map<std::int32_t, std::int32_t> by_index;
  // The same by pod, "namespace/name", and the text of the index label: where the exporter knows the pods.
  std::map<std::string, std::map<std::string, std::int32_t>> by_pod;
  // What each draws, in milliwatts, likewise.
  std::map<std::int32_t, std::int64_t> milliwatts_by_index{};
  std::map<std::string, std::map<std::string, std::int64_t>> milliwatts_by_pod{};
  // Those with double-bit errors, of those of which it says either.
  std::set<std::int32_t> failing, spoken_of;
};

// For parse_exposition().
bool is_wanted(const crds::GpuMetrics& where, std::string_view name);

// Values that are no percentage (DCGM's blank values among them) and samples that carry a time of more than
// three intervals ago, at least a minute, are passed over. The error is a sentence: none of the metrics is
// there. O(samples log GPUs).
std::expected<GpuReading, std::string> reading_of(const crds::GpuMetrics& where,
                                                  const std::vector<client::Sample>& samples,
                                                  client::WallTime now);

}  // namespace muster::reconcilers
