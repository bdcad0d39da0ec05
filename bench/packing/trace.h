// Nodes and pods of a trace, as CSV files with a header line name them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>
#include <vector>

namespace muster::bench {

struct TraceNode {
  std::string name, model;
  std::int64_t cpu_milli = 0, memory_mib = 0;
  std::int32_t gpus = 0;
  bool operator==(const TraceNode&) const = default;
};

struct TracePod {
  std::string name;
  std::int64_t cpu_milli = 0, memory_mib = 0;
  std::int32_t gpus = 0;
  std::int64_t gpu_milli = 0;         // of each GPU; below 1000 only with one
  std::vector<std::string> models{};  // any of these; empty: any
  std::string qos{};
  std::optional<std::int64_t> created{}, scheduled{}, deleted{};  // seconds; absent: the trace does not say
  bool operator==(const TracePod&) const = default;

  std::int64_t milli() const { return gpus * gpu_milli; }
};

// Columns are found by name; others are left alone. Fields must not be quoted. Throws std::runtime_error,
// with file and line, for what cannot be read.
std::vector<TraceNode> read_nodes(
    const std::filesystem::path& file);  // sn, cpu_milli, memory_mib, gpu, model
// name, cpu_milli, memory_mib, num_gpu, gpu_milli and, where there are such, gpu_spec, qos, creation_time,
// scheduled_time, deletion_time
std::vector<TracePod> read_pods(const std::filesystem::path& file);

}  // namespace muster::bench
