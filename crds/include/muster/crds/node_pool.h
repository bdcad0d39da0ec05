// NodePool (cluster-scoped): which nodes belong together and how they are filled.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/crds/common.h"
#include "muster/crds/condition.h"
#include "muster/crds/metadata.h"
#include "muster/crds/usage.h"

namespace muster::crds {

enum class SelectorOperator : std::uint8_t { kIn, kNotIn, kExists, kDoesNotExist };
constexpr std::array<std::string_view, 4> names_of(SelectorOperator) {
  return {"In", "NotIn", "Exists", "DoesNotExist"};
}

struct SelectorRequirement {
  std::string key;
  SelectorOperator op = SelectorOperator::kIn;  // JSON "operator"
  std::vector<std::string> values;

  static constexpr auto fields() {
    using T = SelectorRequirement;
    return fields_of(field("key", &T::key), field("operator", &T::op), field("values", &T::values));
  }
  bool operator==(const SelectorRequirement&) const = default;
};

// metav1.LabelSelector. Empty selects every node.
struct LabelSelector {
  StringMap match_labels;
  std::vector<SelectorRequirement> match_expressions;

  static constexpr auto fields() {
    using T = LabelSelector;
    return fields_of(field("matchLabels", &T::match_labels),
                     field("matchExpressions", &T::match_expressions));
  }
  bool operator==(const LabelSelector&) const = default;
};
bool matches(const LabelSelector& selector, const StringMap& labels);

enum class NodeOrder : std::uint8_t { kPack, kSpread };
constexpr std::array<std::string_view, 2> names_of(NodeOrder) {
  return {"Pack", "Spread"};
}

struct PlacementPolicy {
  NodeOrder nodes = NodeOrder::kPack;
  NodeOrder gpus = NodeOrder::kPack;  // of fractions on the GPUs of a node

  static constexpr auto fields() {
    using T = PlacementPolicy;
    return fields_of(field("nodes", &T::nodes), field("gpus", &T::gpus));
  }
  bool operator==(const PlacementPolicy&) const = default;
};

struct Reservation {
  Duration after = std::chrono::minutes{10};  // when the first in order gets a place reserved

  static constexpr auto fields() { return fields_of(field("after", &Reservation::after)); }
  bool operator==(const Reservation&) const = default;
};

enum class SharingMode : std::uint8_t { kNone, kFraction, kTimeSlicing, kMps, kMig };
constexpr std::array<std::string_view, 5> names_of(SharingMode) {
  return {"None", "Fraction", "TimeSlicing", "MPS", "MIG"};
}
// What holds those who share a GPU to their part of it.
enum class Enforcement : std::uint8_t { kHami };
constexpr std::array<std::string_view, 1> names_of(Enforcement) {
  return {"HAMi"};
}
struct Sharing {
  SharingMode mode = SharingMode::kNone;
  std::optional<std::int32_t> max_clients;  // pods on one GPU; absent: what the mode allows
  std::optional<Enforcement> enforcement;   // absent: the mode alone

  static constexpr auto fields() {
    using T = Sharing;
    return fields_of(field("mode", &T::mode), field("maxClients", &T::max_clients),
                     field("enforcement", &T::enforcement));
  }
  bool operator==(const Sharing&) const = default;
};

struct Overcommit {
  MilliGpu gpu_memory{1000};  // GPU memory promised for each that is there, to those who opt in

  static constexpr auto fields() { return fields_of(field("gpuMemory", &Overcommit::gpu_memory)); }
  bool operator==(const Overcommit&) const = default;
};

enum class UnitOfMemory : std::uint8_t { kB, kKiB, kMiB, kGiB };
constexpr std::array<std::string_view, 4> names_of(UnitOfMemory) {
  return {"B", "KiB", "MiB", "GiB"};
}
// The labels of nodes that say what GPUs they have. "": none does.
struct GpuLabels {
  std::string model;
  std::string memory;                             // of one GPU
  UnitOfMemory memory_unit = UnitOfMemory::kMiB;  // of a number that names none
  std::string memory_sum_of;                      // of so many GPUs `memory` is the sum; "": of one

  static constexpr auto fields() {
    using T = GpuLabels;
    return fields_of(field("model", &T::model), field("memory", &T::memory),
                     field("memoryUnit", &T::memory_unit), field("memorySumOf", &T::memory_sum_of));
  }
  bool operator==(const GpuLabels&) const = default;
};

struct DaemonSetName {
  std::string ns;  // JSON "namespace"
  std::string name;

  static constexpr auto fields() {
    return fields_of(field("namespace", &DaemonSetName::ns), field("name", &DaemonSetName::name));
  }
  bool operator==(const DaemonSetName&) const = default;
};

// What each node of the pool says about its GPUs, and where. The defaults are the DCGM exporter's.
struct GpuMetrics {
  std::optional<DaemonSetName> daemon_set;  // read are its pods; absent: the node's InternalIP
  std::int32_t port = 9400;
  std::string path = "/metrics";
  Duration interval = std::chrono::seconds{30};                     // each node is read so often
  std::string utilization = "DCGM_FI_DEV_GPU_UTIL";                 // the metric, in percent
  std::string double_bit_errors = "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL";  // beyond 0: the GPU is not used
  std::string power = "DCGM_FI_DEV_POWER_USAGE";                    // the metric, in watts
  std::string memory_used = "DCGM_FI_DEV_FB_USED";
  std::string memory_free = "DCGM_FI_DEV_FB_FREE";  // in the same unit
  std::int32_t memory_pressure_at = 95;             // per cent used: a GPU that is shared counts as full
  std::string index_label = "gpu";                  // of the GPU on its node

  static constexpr auto fields() {
    using T = GpuMetrics;
    return fields_of(field("daemonSet", &T::daemon_set), field("port", &T::port), field("path", &T::path),
                     field("interval", &T::interval), field("utilization", &T::utilization),
                     field("doubleBitErrors", &T::double_bit_errors), field("power", &T::power),
                     field("memoryUsed", &T::memory_used), field("memoryFree", &T::memory_free),
                     field("memoryPressureAt", &T::memory_pressure_at), field("indexLabel", &T::index_label));
  }
  bool operator==(const GpuMetrics&) const = default;
};

struct NodePoolSpec {
  LabelSelector node_selector;
  std::string gpu_resource = "nvidia.com/gpu";
  std::optional<GpuLabels> gpu_labels;  // absent: those of NVIDIA's feature discovery
  std::vector<std::string> topology;    // node labels, coarse to fine
  PlacementPolicy placement;
  Reservation reservation;
  std::optional<Sharing> sharing;  // absent: fractions and memory, without a limit of their number
  Overcommit overcommit;
  std::optional<GpuMetrics> gpu_metrics;  // absent: nobody says how busy its GPUs are
  // JSON "pricePerGPUHour": what work pays for each GPU that it holds; absent: its cost is not counted.
  std::optional<MilliCost> price_per_gpu_hour;
  // JSON "wattsPerGPU": what a GPU draws while work holds it, where nobody reads that; absent: not known.
  std::optional<std::int32_t> watts_per_gpu;
  // JSON "default": the pool that top-level quotas and workloads without a pool mean.
  bool is_default = false;

  static constexpr auto fields() {
    using T = NodePoolSpec;
    return fields_of(field("nodeSelector", &T::node_selector), field("gpuResource", &T::gpu_resource),
                     field("gpuLabels", &T::gpu_labels), field("topology", &T::topology),
                     field("placement", &T::placement), field("reservation", &T::reservation),
                     field("sharing", &T::sharing), field("overcommit", &T::overcommit),
                     field("gpuMetrics", &T::gpu_metrics), field("pricePerGPUHour", &T::price_per_gpu_hour),
                     field("wattsPerGPU", &T::watts_per_gpu), field("default", &T::is_default));
  }
  bool operator==(const NodePoolSpec&) const = default;
};

// GPUs of a node that are not to be used.
struct FailingGpus {
  std::string node;
  std::vector<std::int32_t> gpus;  // ascending

  static constexpr auto fields() {
    return fields_of(field("node", &FailingGpus::node), field("gpus", &FailingGpus::gpus));
  }
  bool operator==(const FailingGpus&) const = default;
};
inline constexpr std::size_t kMaxFailingNodes = 1000;

struct NodePoolStatus {
  std::int64_t observed_generation = 0;
  Conditions conditions;
  std::int32_t nodes = 0;  // usable ones
  Amounts capacity;        // of the usable nodes
  Amounts free;            // of it, not given out
  // The GPUs of the largest gang that could start now if each of its pods took all GPUs of a node;
  // absent: not counted yet.
  std::optional<MilliGpu> largest_gang;
  CapacityUsage usage;
  // JSON "failingGPUs": as last read; by node, kMaxFailingNodes at most.
  std::vector<FailingGpus> failing_gpus;

  static constexpr auto fields() {
    using T = NodePoolStatus;
    return fields_of(field("observedGeneration", &T::observed_generation, Zero::kOmit),
                     field("conditions", &T::conditions), field("nodes", &T::nodes, Zero::kOmit),
                     field("failingGPUs", &T::failing_gpus), field("capacity", &T::capacity),
                     field("free", &T::free), field("largestGang", &T::largest_gang),
                     field("usage", &T::usage));
  }
  bool operator==(const NodePoolStatus&) const = default;
};

struct NodePool {
  using Status = NodePoolStatus;
  static constexpr std::string_view kKind = "NodePool";
  static constexpr std::string_view kPlural = "nodepools";
  static constexpr bool kNamespaced = false;

  ObjectMeta metadata;
  NodePoolSpec spec;
  NodePoolStatus status;

  static constexpr auto fields() {
    using T = NodePool;
    return fields_of(field("metadata", &T::metadata), field("spec", &T::spec), field("status", &T::status));
  }
  bool operator==(const NodePool&) const = default;
};

}  // namespace muster::crds
