// Nodes, and the terms under which a pod may go to one. All terms mean what they mean in Kubernetes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "muster/placement/amounts.h"

namespace muster::placement {

using Labels = std::map<std::string, std::string>;

struct Taint {
  std::string key, value, effect;  // effect: NoSchedule, PreferNoSchedule, NoExecute
  bool operator==(const Taint&) const = default;
};

struct Toleration {
  std::string key;      // empty, and `exists`: it tolerates every taint
  bool exists = false;  // false: the value must be equal
  std::string value;
  std::string effect;  // empty: it tolerates every effect
  bool operator==(const Toleration&) const = default;
};

enum class Operator : std::uint8_t { kIn, kNotIn, kExists, kDoesNotExist, kGt, kLt };

struct Requirement {
  std::string key;
  Operator op = Operator::kIn;
  std::vector<std::string> values;
  bool operator==(const Requirement&) const = default;
};

// A node matches if it meets all requirements. A term without any requirement matches no node.
struct Term {
  std::vector<Requirement> labels;
  std::vector<Requirement> fields;  // key metadata.name
  bool operator==(const Term&) const = default;
};
using AnyOf = std::vector<Term>;  // one of them must match; empty: every node matches

// What one NUMA node of a machine has.
struct NumaZone {
  MilliCpu cpu;
  Bytes memory;
  bool operator==(const NumaZone&) const = default;
};

// Which pods the node's kubelet admits, by the NUMA nodes that their GPUs come from (Kubernetes' topology
// manager policies).
enum class NumaPolicy : std::uint8_t {
  kAny,         // all
  kRestricted,  // what one NUMA node could hold, only on one
  kSingle,      // only what is on one
};

struct NodeSpec {
  std::string name;
  Labels labels;
  std::vector<Taint> taints;
  bool usable = true;     // it is Ready and not cordoned
  Resources allocatable;  // gpu: gpus * 1000; placement fills in `named`
  NamedAmounts named;     // what it has of other resources
  std::int32_t gpus = 0;  // its devices, healthy or not
  std::string gpu_model;
  Bytes gpu_memory;                     // of one GPU. 0: not known, and then no memory share goes there
  std::vector<std::int32_t> unhealthy;  // indexes of devices that must not be given out
  // [i][j]: how good the link between devices i and j is; higher is better. Empty: all are alike.
  std::vector<std::vector<int>> gpu_links;
  std::vector<std::int32_t> gpu_numa;  // the NUMA node of each device; empty: not known
  std::vector<NumaZone> zones;         // by NUMA node; empty: not known
  NumaPolicy numa_policy = NumaPolicy::kAny;
  // Why no pod goes there that demands alignment, for people; "": nothing is in the way.
  std::string unaligned;
  std::map<std::string, std::int32_t> mig;  // how many slices are cut already, by profile ("1g.10gb")
  bool operator==(const NodeSpec&) const = default;
};

bool matches(const Requirement& requirement, const Labels& labels);
bool matches(const Term& term, const NodeSpec& node);
bool matches(const AnyOf& terms, const NodeSpec& node);
// The first taint with effect NoSchedule or NoExecute that is not tolerated; nullptr: all are.
const Taint* untolerated(const NodeSpec& node, const std::vector<Toleration>& tolerations);

}  // namespace muster::placement
