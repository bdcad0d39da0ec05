// Workloads: what a gang asks for, and what it holds.
#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/placement/node.h"

namespace muster::placement {

// What a pod wants of each of its GPUs.
struct GpuShare {
  enum class Kind : std::uint8_t {
    kWhole,
    kFraction,  // `milli` of each
    kMemory,    // `memory` of each; charged by its part of the GPU's memory, rounded up
    kMig,       // RoleSpec::gpus slices of `profile`; charged by compute slices / 7, rounded up
  };
  Kind kind = Kind::kWhole;
  MilliGpu milli;
  Bytes memory;
  Bytes memory_limit;       // may burst up to this; 0: `memory`. Limits do not decide about a place.
  bool overcommit = false;  // may be packed beyond the GPU's memory where the pool allows it
  std::string profile;      // "3g.40gb"
  bool operator==(const GpuShare&) const = default;
};

// Pods by their labels, seen from a domain of nodes (Kubernetes' inter-pod affinity).
struct PodTerm {
  std::vector<Requirement> selector;    // all hold; none: no pod
  std::vector<std::string> namespaces;  // empty: that of the job
  std::string topology_key;
  bool operator==(const PodTerm&) const = default;
};
struct SpreadConstraint {
  std::int32_t max_skew = 1;
  std::string topology_key;
  bool required = true;  // DoNotSchedule; else ScheduleAnyway
  std::vector<Requirement> selector;
  std::int32_t min_domains = 0;  // 0: left out
  bool operator==(const SpreadConstraint&) const = default;
};

// Label keys of the pool's topology. required: never wider; preferred: as near as possible.
struct TopologyRule {
  std::string required, preferred;
  bool operator==(const TopologyRule&) const = default;
};
// `size` consecutive pods (roles in order, then index) belong together.
struct GroupRule {
  std::int32_t size = 1;
  TopologyRule rule;
  bool operator==(const GroupRule&) const = default;
};

struct RoleSpec {
  std::string name;
  std::int32_t replicas = 1;      // the least that it can run with
  std::int32_t max_replicas = 0;  // elastic: up to so many; 0: `replicas`
  Resources per_pod;              // gpu: computed by placement from the three below; pods: 1
  std::int32_t gpus = 0;          // devices (MIG: slices)
  GpuShare share;
  bool numa_aligned = false;        // all GPUs, CPU and memory of a pod on one NUMA node, or not on this node
  std::vector<std::string> models;  // any of these; empty: any
  Labels labels;                    // of the pods
  Labels node_selector;
  std::vector<AnyOf> required;                           // each holds: affinity, volumes
  std::vector<std::pair<std::int64_t, Term>> preferred;  // weight, term
  std::vector<Toleration> tolerations;
  std::vector<PodTerm> pod_affinity, pod_anti_affinity;          // required
  std::vector<std::pair<std::int64_t, PodTerm>> preferred_pods;  // weight (negative: anti-affinity), term
  std::vector<SpreadConstraint> spread;
  TopologyRule topology;            // of this role's pods, within the job's
  std::int32_t colocate_with = -1;  // index of another role: pod i goes to the node of that role's pod i
  bool operator==(const RoleSpec&) const = default;

  std::int32_t most() const { return max_replicas > replicas ? max_replicas : replicas; }
};

struct JobSpec {
  std::string id;       // "namespace/name"
  std::string project;  // empty: none owns it
  std::int64_t priority = 0;
  bool preemptible = true;
  bool interactive = false;  // packed when it starts, never moved
  Time submitted;
  std::vector<std::string> pools;  // in order of preference; empty: the default pool
  std::vector<RoleSpec> roles;
  TopologyRule topology;                        // of all pods together
  std::vector<GroupRule> groups;                // coarse to fine
  std::vector<std::string> avoid_nodes;         // they refused a pod of it within the last five minutes
  std::optional<Duration> max_runtime;          // of an attempt from its start
  std::optional<Duration> checkpoint_interval;  // how often it saves by itself
  Duration grow_after;                          // an elastic job that was resized stays so for this long
  Duration grow_quiet;                          // and grows when there has been room for this long
  bool operator==(const JobSpec&) const = default;
};

// What is known about a running attempt; changes often and moves nothing.
struct Progress {
  Time began;                          // of the attempt
  std::optional<Time> saved;           // last reported checkpoint
  std::optional<Duration> start_took;  // from admission to running, last time; left out: 60 s
  std::optional<Time> resized;
  bool operator==(const Progress&) const = default;
};

struct PodPlace {
  std::int32_t role = 0;  // index into JobSpec::roles
  std::int32_t index = 0;
  std::string node;
  std::vector<std::int32_t> gpus;  // devices; those of shares name the GPU
  bool operator==(const PodPlace&) const = default;
};

// Milli-GPU that one pod of the role is charged on the node.
MilliGpu charge_on(const NodeSpec& node, const RoleSpec& role);

struct Assignment {
  std::string pool;
  Time since;  // of two that hold one GPU the later yields
  std::vector<PodPlace> pods;
  bool operator==(const Assignment&) const = default;
};

// A pod that occupies its node without standing in an assignment: somebody else's. With `project` its amounts
// are charged there.
struct OtherPod {
  std::string key;  // "namespace/name"
  std::string node;
  Labels labels;
  Resources amounts;
  std::int32_t gpu_count = 0;
  std::vector<std::int32_t> gpus;  // which, where known
  GpuShare share;  // of each of them; what is not whole is priced as on its node: amounts.gpu is not read
  // MIG slices beside these, by profile, of those that its node has cut; priced as there.
  std::map<std::string, std::int32_t> slices;
  std::string project;
  bool preemptible = true;
  bool operator==(const OtherPod&) const = default;
};

}  // namespace muster::placement
