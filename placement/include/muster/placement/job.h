// Workloads: what a gang asks for, and what it holds.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/placement/node.h"

namespace muster::placement {

struct RoleSpec {
  std::string name;
  std::int32_t replicas = 1;
  Resources per_pod;  // gpu: gpus * 1000; pods: 1
  std::int32_t gpus = 0;
  std::vector<std::string> models;  // any of these; empty: any
  Labels node_selector;
  std::vector<AnyOf> required;                           // each holds: affinity, volumes
  std::vector<std::pair<std::int64_t, Term>> preferred;  // weight, term
  std::vector<Toleration> tolerations;
  bool operator==(const RoleSpec&) const = default;
};

struct JobSpec {
  std::string id;       // "namespace/name"
  std::string project;  // empty: none owns it
  std::int64_t priority = 0;
  bool preemptible = true;
  Time submitted;
  std::vector<std::string> pools;  // in order of preference; empty: the default pool
  std::vector<RoleSpec> roles;
  std::vector<std::string> avoid_nodes;
  bool operator==(const JobSpec&) const = default;
};

struct PodPlace {
  std::int32_t role = 0;  // index into JobSpec::roles
  std::int32_t index = 0;
  std::string node;
  std::vector<std::int32_t> gpus;
  bool operator==(const PodPlace&) const = default;
};

struct Assignment {
  std::string pool;
  Time since;  // of two that hold one GPU the later yields
  std::vector<PodPlace> pods;
  bool operator==(const Assignment&) const = default;
};

// A pod that occupies its node without standing in an assignment: somebody else's, or one of an earlier
// attempt that has not gone yet. With `project` its amounts stay charged there.
struct OtherPod {
  std::string key;  // "namespace/name"
  std::string node;
  Resources amounts;
  std::int32_t gpu_count = 0;
  std::vector<std::int32_t> gpus;  // which, where known
  std::string project;
  bool preemptible = true;
  bool operator==(const OtherPod&) const = default;
};

}  // namespace muster::placement
