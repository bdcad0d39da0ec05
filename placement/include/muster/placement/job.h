// Jobs: what a gang asks for, and what it holds.
#pragma once

#include <compare>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "muster/placement/node.h"

namespace muster::placement {

// What a pod takes of each of its GPUs.
struct GpuShare {
  enum class Kind : std::uint8_t {
    kWhole,
    kFraction,  // `milli` of each
    kMemory,    // `memory` of each. The charge is its part of the GPU's memory, rounded up
    kMig,       // RoleSpec::gpus slices of `profile`. The charge is its compute slices / 7, rounded up
  };
  Kind kind = Kind::kWhole;
  MilliGpu milli;
  Bytes memory;
  Bytes memory_limit;       // it may burst up to this; 0: up to `memory`. Plays no part in placement
  bool overcommit = false;  // it may be packed beyond the GPU's memory, where the pool allows that
  std::string profile;      // "3g.40gb"
  bool operator==(const GpuShare&) const = default;
};

// Pods with certain labels in the same domain of nodes (Kubernetes' inter-pod affinity).
struct PodTerm {
  std::vector<Requirement> selector;    // a pod must meet all of them; empty: no pod is meant
  std::vector<std::string> namespaces;  // empty: the namespace of the job
  std::string topology_key;
  bool operator==(const PodTerm&) const = default;
};
struct SpreadConstraint {
  std::int32_t max_skew = 1;
  std::string topology_key;
  bool required = true;  // true: DoNotSchedule; false: ScheduleAnyway
  std::vector<Requirement> selector;
  std::int32_t min_domains = 0;  // 0: not said
  bool operator==(const SpreadConstraint&) const = default;
};

// Label keys of the pool's topology. The pods never leave a domain of the required level. They stand as near
// to each other as the preferred level says, if possible (RULES.md 4.2).
struct TopologyRule {
  std::string required, preferred;
  bool operator==(const TopologyRule&) const = default;
};
// Each `size` consecutive pods belong together. Pods are counted by the order of their roles, then by index.
struct GroupRule {
  std::int32_t size = 1;
  TopologyRule rule;
  bool operator==(const GroupRule&) const = default;
};

struct RoleSpec {
  std::string name;
  std::int32_t replicas = 1;      // its minimum
  std::int32_t max_replicas = 0;  // an elastic role grows up to so many; 0: it is not elastic
  Resources per_pod;              // placement fills in `gpu` (from `gpus` and `share`) and `named`; pods: 1
  NamedAmounts named{};           // what a pod asks for of other resources
  std::int32_t gpus = 0;          // how many devices a pod uses; with MIG how many slices
  GpuShare share;
  // All GPUs, CPU and memory of a pod must come from one NUMA node. A node that cannot do that is passed
  // over.
  bool numa_aligned = false;
  std::vector<std::string> models;  // GPUs of one of these models; empty: of any model
  Labels labels;                    // of the pods
  Labels node_selector;
  std::vector<AnyOf> required;  // a node must meet each: affinity, and where volumes are
  std::vector<std::pair<std::int64_t, Term>> preferred;  // weight and term
  std::vector<Toleration> tolerations;
  std::vector<PodTerm> pod_affinity, pod_anti_affinity;          // required
  std::vector<std::pair<std::int64_t, PodTerm>> preferred_pods;  // weight and term; negative: anti-affinity
  std::vector<SpreadConstraint> spread;
  TopologyRule topology;  // for the pods of this role, within the rule of the job
  // The index of another role: pod i goes to the node of pod i of that role. -1: none.
  std::int32_t colocate_with = -1;
  bool operator==(const RoleSpec&) const = default;

  std::int32_t most() const { return max_replicas > replicas ? max_replicas : replicas; }
};

struct JobSpec {
  std::string id;       // "namespace/name"
  std::string project;  // empty: no Project owns its namespace
  std::int64_t priority = 0;
  bool preemptible = true;
  bool interactive = false;  // it is never moved
  Time submitted;
  std::vector<std::string> pools;  // in the order in which it prefers them; empty: the default pool
  std::vector<RoleSpec> roles;
  TopologyRule topology;                        // for all pods together
  std::vector<GroupRule> groups;                // coarse to fine
  std::vector<std::string> avoid_nodes;         // nodes that refused one of its pods in the last five minutes
  std::optional<Duration> max_runtime;          // how long an attempt may run, from its start
  std::optional<Duration> checkpoint_interval;  // how often it saves by itself
  // RULES.md 2.5: an elastic job grows when its size has stood for the first, and room has been there for the
  // second.
  Duration grow_after;
  Duration grow_quiet;
  // What it costs to disturb it (RULES.md 5.11).
  Duration grace_period;         // from when it is asked to go until it is ended
  bool resizes_in_place = true;  // false: a change of its size restarts the gang
  bool serves = false;           // it is a replica of a service: it has no work to lose
  // Of a replica: its service, and how many of the service's replicas may be replaced at once by one more
  // that is made before they go (RULES.md 5.12). 0: none.
  std::string service{};
  std::int32_t max_surge = 0;
  bool operator==(const JobSpec&) const = default;
};

// GPU time, in thousandths of a GPU x milliseconds. Of a job without GPUs it is CPU time, in thousandths of a
// CPU x milliseconds.
struct WorkTime {
  std::int64_t value = 0;
  auto operator<=>(const WorkTime&) const = default;
};

// When a running job will have ended, by how long jobs like it took before: half of them had ended by then,
// and nine of ten. An estimate rests on it, and nothing else (RULES.md 7.6).
struct LearnedEnd {
  Time median, percentile_90;
  auto operator<=>(const LearnedEnd&) const = default;
};

// What is known about a running attempt. It changes often, and no change of it moves anything.
struct Progress {
  Time began;                               // when the attempt began
  std::optional<Time> saved;                // when it last reported a checkpoint
  std::optional<Duration> start_took;       // its last start, from admission until it worked
  std::optional<Time> resized;              // when its size last changed
  bool is_starting = false;                 // not all its pods have been ready yet: it does not grow before
  bool saves_when_asked = false;            // what it has done until then is not lost
  std::optional<Duration> save_took;        // its last save when it was asked to go
  std::optional<Duration> resize_took;      // its last change of size in place, until it worked again
  WorkTime ran;                             // before the later of `began` and `resized`, in all its life
  WorkTime lost;                            // in its life to optional disturbances (RULES.md 5.11)
  bool is_ready = false;                    // a replica of a service: it serves now
  std::optional<LearnedEnd> learned_end{};  // not read of a job with max_runtime
  bool operator==(const Progress&) const = default;
};

struct PodPlace {
  std::int32_t role = 0;  // index into JobSpec::roles
  std::int32_t index = 0;
  std::string node;
  std::vector<std::int32_t> gpus;  // indexes of devices; a share names the GPU that it is a part of
  bool operator==(const PodPlace&) const = default;
};

// What one pod of the role is charged on the node.
MilliGpu charge_on(const NodeSpec& node, const RoleSpec& role);

struct Assignment {
  std::string pool;
  Time since;  // of two assignments that hold one GPU the later one yields
  std::vector<PodPlace> pods;
  bool operator==(const Assignment&) const = default;
};

// A pod that occupies its node and stands in no assignment: it is somebody else's. If it names a Project, its
// amounts are charged to that.
struct OtherPod {
  std::string key;  // "namespace/name"
  std::string node;
  Labels labels;
  Resources amounts;     // placement fills in `named`
  NamedAmounts named{};  // what it asks for of other resources
  std::int32_t gpu_count = 0;
  std::vector<std::int32_t> gpus;  // which devices, where that is known
  // What it takes of each. If that is not the whole GPU, the charge is what the node says, and amounts.gpu is
  // not read.
  GpuShare share;
  // MIG slices that it holds beside these, by profile, of those that its node has cut. Charged as the node
  // says.
  std::map<std::string, std::int32_t> slices;
  std::string project;
  bool preemptible = true;
  bool operator==(const OtherPod&) const = default;
};

}  // namespace muster::placement
