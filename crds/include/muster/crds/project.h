// Project (cluster-scoped): a leaf of the tree; it claims one namespace, whose workloads are charged to it.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/crds/common.h"
#include "muster/crds/condition.h"
#include "muster/crds/metadata.h"
#include "muster/crds/schedule.h"
#include "muster/crds/usage.h"

namespace muster::crds {

// Kubernetes' Pod Security Standards, as its namespace labels spell them.
enum class PodSecurity : std::uint8_t { kPrivileged, kBaseline, kRestricted };
constexpr std::array<std::string_view, 3> names_of(PodSecurity) {
  return {"privileged", "baseline", "restricted"};
}

// What becomes of the namespace, and of the work in it, when its Project is deleted.
enum class DeletionPolicy : std::uint8_t { kRetain, kDelete };
constexpr std::array<std::string_view, 2> names_of(DeletionPolicy) {
  return {"Retain", "Delete"};
}

// What pods of an isolated namespace reach, beside each other.
struct NetworkEgress {
  bool dns = false;                // port 53, wherever name servers are
  std::vector<std::string> cidrs;  // each on all ports

  static constexpr auto fields() {
    return fields_of(field("dns", &NetworkEgress::dns, Zero::kOmit), field("cidrs", &NetworkEgress::cidrs));
  }
  bool operator==(const NetworkEgress&) const = default;
};

struct ProjectNetwork {
  std::vector<std::string> ingress_from;  // namespaces that reach its pods, too
  std::optional<NetworkEgress> egress;    // absent: what they reach is not restricted

  static constexpr auto fields() {
    using T = ProjectNetwork;
    return fields_of(field("ingressFrom", &T::ingress_from), field("egress", &T::egress));
  }
  bool operator==(const ProjectNetwork&) const = default;
};

struct ProjectNamespace {
  std::string name;
  std::optional<PodSecurity> pod_security;        // absent: the namespace's labels are left as they are
  bool isolate_network = false;                   // its pods hear only each other and Muster
  std::optional<ProjectNetwork> network;          // of an isolated one: who else, and what they reach
  std::optional<DeletionPolicy> deletion_policy;  // absent: Retain

  static constexpr auto fields() {
    using T = ProjectNamespace;
    return fields_of(field("name", &T::name), field("podSecurity", &T::pod_security),
                     field("isolateNetwork", &T::isolate_network, Zero::kOmit), field("network", &T::network),
                     field("deletionPolicy", &T::deletion_policy));
  }
  bool operator==(const ProjectNamespace&) const = default;
};

enum class GatewayScheme : std::uint8_t { kHttp, kHttps };
constexpr std::array<std::string_view, 2> names_of(GatewayScheme) {
  return {"http", "https"};
}

// Where ports that jobs expose are reached from outside: by a Gateway or by an Ingress.
struct ProjectGateway {
  std::string domain;  // each port gets a host directly below it
  GatewayScheme scheme = GatewayScheme::kHttp;
  std::string name, ns;            // JSON "namespace": a Gateway; empty: an Ingress
  std::string ingress_class_name;  // empty: a Gateway

  static constexpr auto fields() {
    using T = ProjectGateway;
    return fields_of(field("domain", &T::domain), field("scheme", &T::scheme), field("name", &T::name),
                     field("namespace", &T::ns), field("ingressClassName", &T::ingress_class_name));
  }
  bool operator==(const ProjectGateway&) const = default;
};

enum class MemberKind : std::uint8_t { kUser, kUserGroup, kServiceAccount };
constexpr std::array<std::string_view, 3> names_of(MemberKind) {
  return {"User", "Group", "ServiceAccount"};
}
enum class MemberRole : std::uint8_t { kAdmin, kResearcher, kViewer };
constexpr std::array<std::string_view, 3> names_of(MemberRole) {
  return {"Admin", "Researcher", "Viewer"};
}

// Who may do what in the project's namespace, and there only.
struct Member {
  MemberKind kind = MemberKind::kUser;
  std::string name;
  std::string ns;  // JSON "namespace": of a ServiceAccount, and only of one
  MemberRole role = MemberRole::kViewer;

  static constexpr auto fields() {
    using T = Member;
    return fields_of(field("kind", &T::kind), field("name", &T::name), field("namespace", &T::ns),
                     field("role", &T::role));
  }
  bool operator==(const Member&) const = default;
};

// What is allowed to the jobs of one mode.
struct ModePolicy {
  // At most, and what a job gets that states none; absent: no bound.
  std::optional<Duration> max_runtime;
  std::optional<Duration> idle_timeout;

  static constexpr auto fields() {
    using T = ModePolicy;
    return fields_of(field("maxRuntime", &T::max_runtime), field("idleTimeout", &T::idle_timeout));
  }
  bool operator==(const ModePolicy&) const = default;
};

// For jobs that state nothing. Absent: nothing.
struct JobDefaults {
  std::string priority_class_name;
  std::optional<DefaultGpus> gpus;
  std::optional<MilliCpu> cpu_per_gpu;
  std::optional<Bytes> memory_per_gpu;

  static constexpr auto fields() {
    using T = JobDefaults;
    return fields_of(field("priorityClassName", &T::priority_class_name), field("gpus", &T::gpus),
                     field("cpuPerGPU", &T::cpu_per_gpu), field("memoryPerGPU", &T::memory_per_gpu));
  }
  bool operator==(const JobDefaults&) const = default;
};

// Which jobs must save. Of two bounds either makes a job one of them; absent: no bound.
struct CheckpointPolicy {
  std::optional<std::int32_t> required_above_gpus;
  std::optional<Duration> required_above_runtime;
  std::optional<Duration> max_interval;  // absent: they need not say how often

  static constexpr auto fields() {
    using T = CheckpointPolicy;
    return fields_of(field("requiredAboveGPUs", &T::required_above_gpus),
                     field("requiredAboveRuntime", &T::required_above_runtime),
                     field("maxInterval", &T::max_interval));
  }
  bool operator==(const CheckpointPolicy&) const = default;
};

struct ProjectPolicy {
  ModePolicy interactive, batch;
  std::optional<std::int32_t> max_gpus_per_job;  // absent: no bound
  std::vector<std::string> allowed_pools;        // empty: all
  std::string default_pool;                      // what a job means that names none; empty: the cluster's
  JobDefaults defaults;
  std::optional<std::int32_t> max_pods_per_job;       // absent: no bound
  std::vector<std::string> allowed_priority_classes;  // empty: all
  std::vector<std::string> allowed_image_prefixes;    // empty: any image
  bool forbid_latest_tag = false;                     // an image without tag and digest means it, too
  bool forbid_privileged = false;                     // and the namespaces of the node
  std::vector<std::string> required_labels;           // of jobs and services, each with a value
  std::optional<CheckpointPolicy> checkpoint;         // absent: no job must save
  std::optional<Duration> max_grace_period;           // absent: no bound
  std::vector<std::string> allowed_claims;            // empty: all
  std::vector<std::string> allowed_resources;         // beside CPUs, memory and GPUs; empty: all

  static constexpr auto fields() {
    using T = ProjectPolicy;
    return fields_of(field("interactive", &T::interactive), field("batch", &T::batch),
                     field("maxGPUsPerJob", &T::max_gpus_per_job), field("allowedPools", &T::allowed_pools),
                     field("defaultPool", &T::default_pool), field("defaults", &T::defaults),
                     field("maxPodsPerJob", &T::max_pods_per_job),
                     field("allowedPriorityClasses", &T::allowed_priority_classes),
                     field("allowedImagePrefixes", &T::allowed_image_prefixes),
                     field("forbidLatestTag", &T::forbid_latest_tag, Zero::kOmit),
                     field("forbidPrivileged", &T::forbid_privileged, Zero::kOmit),
                     field("requiredLabels", &T::required_labels), field("checkpoint", &T::checkpoint),
                     field("maxGracePeriod", &T::max_grace_period),
                     field("allowedClaims", &T::allowed_claims),
                     field("allowedResources", &T::allowed_resources));
  }
  bool operator==(const ProjectPolicy&) const = default;
};

// quota, limit, weight and priority at top level mean the default pool.
struct ProjectSpec {
  std::string queue;
  AmountsByModel quota;  // gpu left out: 0; others left out: not accounted
  Amounts reserved;      // the part of it that is never lent; left out: nothing
  Amounts limit;         // left out: none
  std::int32_t weight = 1;
  std::int32_t priority = 0;
  std::vector<PoolShare> pools;
  std::optional<Protection> reclaim;           // from what other queues take back
  std::optional<Protection> preempt;           // from higher priority in the same project
  std::optional<DisruptionPolicy> disruption;  // of what runs below
  std::optional<Lending> lending;              // absent: as the parent, at the top nothing more is lent
  ProjectNamespace ns;                         // JSON "namespace"; its name empty: the project's own name
  std::optional<ProjectGateway> gateway;       // absent: what is exposed is reached by its Service only
  std::vector<Member> members;
  std::optional<ProjectPolicy> policy;  // of jobs
  Admission admission = Admission::kOpen;
  std::optional<DrainPolicy> drain;  // absent: all at once
  std::vector<Schedule<ScheduledSet>> schedules;

  static constexpr auto fields() {
    using T = ProjectSpec;
    return fields_of(field("queue", &T::queue), field("quota", &T::quota), field("reserved", &T::reserved),
                     field("limit", &T::limit), field("weight", &T::weight), field("priority", &T::priority),
                     field("pools", &T::pools), field("reclaim", &T::reclaim), field("preempt", &T::preempt),
                     field("disruption", &T::disruption), field("lending", &T::lending),
                     field("namespace", &T::ns), field("gateway", &T::gateway), field("members", &T::members),
                     field("policy", &T::policy), field("admission", &T::admission), field("drain", &T::drain),
                     field("schedules", &T::schedules));
  }
  bool operator==(const ProjectSpec&) const = default;
};

struct ProjectStatus {
  std::int64_t observed_generation = 0;
  Conditions conditions;
  std::string ns;      // JSON "namespace": the one it claims
  std::string ns_uid;  // JSON "namespaceUID": of that namespace when it was last seen to be this Project's
  AmountsByModel allocated;  // in the default pool
  AmountsByModel borrowed;   // the part of `allocated` beyond quota
  AmountsByModel pending;    // asked for by what waits
  // What it is entitled to in the default pool, as demand is now.
  AmountsByModel fair_share;
  std::int32_t running = 0;  // workloads that hold something, in all pools
  std::int32_t waiting = 0;  // workloads that wait, in all pools
  std::vector<PoolUsage> pools;
  UsageStatus usage;
  std::vector<RunTimes> run_times;        // learned from jobs that succeeded; the latest first, at most kMost
  std::optional<NextChange> next_change;  // by spec.schedules
  std::optional<DrainStatus> drain;       // absent: admission is not Drain

  static constexpr auto fields() {
    using T = ProjectStatus;
    return fields_of(
        field("observedGeneration", &T::observed_generation, Zero::kOmit),
        field("conditions", &T::conditions), field("namespace", &T::ns), field("namespaceUID", &T::ns_uid),
        field("allocated", &T::allocated), field("borrowed", &T::borrowed), field("pending", &T::pending),
        field("fairShare", &T::fair_share), field("running", &T::running, Zero::kOmit),
        field("waiting", &T::waiting, Zero::kOmit), field("pools", &T::pools), field("usage", &T::usage),
        field("runTimes", &T::run_times), field("nextChange", &T::next_change), field("drain", &T::drain));
  }
  bool operator==(const ProjectStatus&) const = default;
};

struct Project {
  using Status = ProjectStatus;
  static constexpr std::string_view kKind = "Project";
  static constexpr std::string_view kPlural = "projects";
  static constexpr bool kNamespaced = false;

  ObjectMeta metadata;
  ProjectSpec spec;
  ProjectStatus status;

  static constexpr auto fields() {
    using T = Project;
    return fields_of(field("metadata", &T::metadata), field("spec", &T::spec), field("status", &T::status));
  }
  bool operator==(const Project&) const = default;
};

// The namespace that a Project claims: spec.namespace.name, or its own name.
inline const std::string& namespace_of(const Project& p) {
  return p.spec.ns.name.empty() ? p.metadata.name : p.spec.ns.name;
}

}  // namespace muster::crds
