// NodePool (cluster-scoped): which nodes belong together and how they are filled.
#pragma once

#include <array>
#include <cstdint>
#include <string>
#include <tuple>
#include <vector>

#include "muster/crds/common.h"
#include "muster/crds/condition.h"
#include "muster/crds/metadata.h"

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
    return std::tuple(field("key", &T::key), field("operator", &T::op), field("values", &T::values));
  }
  bool operator==(const SelectorRequirement&) const = default;
};

// metav1.LabelSelector. Empty selects every node.
struct LabelSelector {
  StringMap match_labels;
  std::vector<SelectorRequirement> match_expressions;

  static constexpr auto fields() {
    using T = LabelSelector;
    return std::tuple(field("matchLabels", &T::match_labels),
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

  static constexpr auto fields() { return std::tuple(field("nodes", &PlacementPolicy::nodes)); }
  bool operator==(const PlacementPolicy&) const = default;
};

struct NodePoolSpec {
  LabelSelector node_selector;
  std::string gpu_resource = "nvidia.com/gpu";
  PlacementPolicy placement;
  bool is_default =
      false;  // JSON "default": the pool that top-level quotas and workloads without a pool mean

  static constexpr auto fields() {
    using T = NodePoolSpec;
    return std::tuple(field("nodeSelector", &T::node_selector), field("gpuResource", &T::gpu_resource),
                      field("placement", &T::placement), field("default", &T::is_default));
  }
  bool operator==(const NodePoolSpec&) const = default;
};

struct NodePoolStatus {
  std::int64_t observed_generation = 0;
  Conditions conditions;
  std::int32_t nodes = 0;  // usable ones
  Amounts capacity;        // of the usable nodes
  Amounts free;            // of it, not given out

  static constexpr auto fields() {
    using T = NodePoolStatus;
    return std::tuple(field("observedGeneration", &T::observed_generation, Zero::kOmit),
                      field("conditions", &T::conditions), field("nodes", &T::nodes, Zero::kOmit),
                      field("capacity", &T::capacity), field("free", &T::free));
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
    return std::tuple(field("metadata", &T::metadata), field("spec", &T::spec), field("status", &T::status));
  }
  bool operator==(const NodePool&) const = default;
};

}  // namespace muster::crds
