// TrainingJob: a gang of pods that runs whole or not at all. Its status.assignment is the commit point.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/crds/common.h"
#include "muster/crds/condition.h"
#include "muster/crds/dependency.h"
#include "muster/crds/duration.h"
#include "muster/crds/effective.h"
#include "muster/crds/expose.h"
#include "muster/crds/job_array.h"
#include "muster/crds/metadata.h"

namespace muster::crds {

enum class Mode : std::uint8_t { kBatch, kInteractive };
constexpr std::array<std::string_view, 2> names_of(Mode) {
  return {"Batch", "Interactive"};
}

enum class Framework : std::uint8_t { kGeneric, kPyTorch, kJax, kTensorFlow, kMpi };
constexpr std::array<std::string_view, 5> names_of(Framework) {
  return {"Generic", "PyTorch", "JAX", "TensorFlow", "MPI"};
}

enum class CompletionPolicy : std::uint8_t { kAll, kFirst };
constexpr std::array<std::string_view, 2> names_of(CompletionPolicy) {
  return {"All", "First"};
}

enum class Phase : std::uint8_t {
  kQueued,
  kStarting,
  kRunning,
  kResizing,
  kCheckpointing,
  kSuspended,
  kSucceeded,
  kFailed
};
constexpr std::array<std::string_view, 8> names_of(Phase) {
  return {"Queued", "Starting", "Running", "Resizing", "Checkpointing", "Suspended", "Succeeded", "Failed"};
}

// The largest gang. The bound keeps status.assignment, and with it the object, small enough to be stored.
inline constexpr std::int32_t kMaxPods = 10'000;

struct Role {
  std::string name;
  std::optional<std::int32_t> replicas;                    // of a fixed gang; see least_replicas
  std::optional<std::int32_t> min_replicas, max_replicas;  // of an elastic one
  std::optional<Gpus> gpus;                                // absent: none
  std::string colocate_with;  // another role: pod i goes to the node of its pod i; empty: none
  TopologyRule topology;      // of this role's pods, within the job's
  RawJson pod_template;       // JSON "template": a PodTemplateSpec

  static constexpr auto fields() {
    using T = Role;
    return fields_of(field("name", &T::name), field("replicas", &T::replicas),
                     field("minReplicas", &T::min_replicas), field("maxReplicas", &T::max_replicas),
                     field("gpus", &T::gpus), field("colocateWith", &T::colocate_with),
                     field("topology", &T::topology), field("template", &T::pod_template));
  }
  bool operator==(const Role&) const = default;
};

// The pods without which the gang does not run, and the most that it can use.
inline std::int32_t least_replicas(const Role& role) {
  return role.min_replicas.value_or(role.replicas.value_or(1));
}
inline std::int32_t most_replicas(const Role& role) {
  return role.max_replicas.value_or(least_replicas(role));
}

enum class Resize : std::uint8_t { kInPlace, kRestart };
constexpr std::array<std::string_view, 2> names_of(Resize) {
  return {"InPlace", "Restart"};
}
struct Elastic {
  Resize resize = Resize::kInPlace;
  std::optional<std::int32_t> replicas{};  // the size wished for, in pods of the gang; absent: the most
  std::optional<Duration> grow_after{};    // see grow_after_of

  static constexpr auto fields() {
    using T = Elastic;
    return fields_of(field("resize", &T::resize), field("replicas", &T::replicas),
                     field("growAfter", &T::grow_after));
  }
  bool operator==(const Elastic&) const = default;
};

struct Checkpoint {
  Duration grace_period = std::chrono::seconds{30};  // from SIGTERM to SIGKILL
  std::string claim_name;                            // mounted in every pod; empty: none
  std::string mount_path;                            // where; stated with claim_name and only with it
  std::optional<Duration> interval{};                // how often the program saves by itself

  static constexpr auto fields() {
    using T = Checkpoint;
    return fields_of(field("gracePeriod", &T::grace_period), field("interval", &T::interval),
                     field("claimName", &T::claim_name), field("mountPath", &T::mount_path));
  }
  bool operator==(const Checkpoint&) const = default;
};

// How many faults of the program are tolerated in any `window`. Node faults and preemptions never count.
struct RestartPolicy {
  std::int32_t limit = 3;
  Duration window = std::chrono::hours{1};

  static constexpr auto fields() {
    using T = RestartPolicy;
    return fields_of(field("limit", &T::limit), field("window", &T::window));
  }
  bool operator==(const RestartPolicy&) const = default;
};

struct Completion {
  std::string role;  // empty: every role
  CompletionPolicy policy = CompletionPolicy::kAll;

  static constexpr auto fields() {
    using T = Completion;
    return fields_of(field("role", &T::role), field("policy", &T::policy));
  }
  bool operator==(const Completion&) const = default;
};

// When a job ends because nobody uses what it holds.
struct Idle {
  std::optional<Duration> timeout;         // all its GPUs idle for so long; absent: the Project's, else never
  std::int32_t gpu_utilization_below = 5;  // percent
  std::string activity_path{};             // where its first exposed port tells of its use; empty: nowhere

  static constexpr auto fields() {
    using T = Idle;
    return fields_of(field("timeout", &T::timeout), field("gpuUtilizationBelow", &T::gpu_utilization_below),
                     field("activityPath", &T::activity_path));
  }
  bool operator==(const Idle&) const = default;
};

struct TrainingJobSpec {
  Mode mode = Mode::kBatch;
  std::optional<bool> preemptible;  // see is_preemptible
  std::string priority_class_name;
  bool suspend = false;
  Framework framework = Framework::kGeneric;
  std::vector<Role> roles;
  GangTopology topology;
  std::vector<std::string> pools;  // in order of preference; empty: the default pool
  std::optional<Elastic> elastic;  // how a gang with minReplicas and maxReplicas changes its size
  std::optional<Checkpoint> checkpoint;
  RestartPolicy restart;
  Duration start_timeout = std::chrono::minutes{10};
  std::optional<Duration> max_runtime;  // absent: none
  std::optional<Idle> idle;
  std::optional<Duration> ttl_after_finished;  // absent: kept
  Completion completion;
  std::vector<Dependency> depends_on;
  std::vector<ExposedPort> expose;
  std::optional<JobArray> array;  // absent: it is one gang

  static constexpr auto fields() {
    using T = TrainingJobSpec;
    return fields_of(
        field("mode", &T::mode), field("preemptible", &T::preemptible),
        field("priorityClassName", &T::priority_class_name), field("suspend", &T::suspend),
        field("framework", &T::framework), field("roles", &T::roles), field("topology", &T::topology),
        field("pools", &T::pools), field("elastic", &T::elastic), field("checkpoint", &T::checkpoint),
        field("restart", &T::restart), field("startTimeout", &T::start_timeout),
        field("maxRuntime", &T::max_runtime), field("idle", &T::idle),
        field("ttlAfterFinished", &T::ttl_after_finished), field("completion", &T::completion),
        field("dependsOn", &T::depends_on), field("expose", &T::expose), field("array", &T::array));
  }
  bool operator==(const TrainingJobSpec&) const = default;
};

// One pod's place. Its name is a function of job, role, index, attempt and tries.
struct PodAssignment {
  std::string role;
  std::int32_t index = 0;
  std::string node;
  std::vector<std::int32_t> gpus;  // devices on the node
  // JSON "try": pods of this place before, within the attempt (refused by a kubelet, lost).
  std::int32_t tries = 0;
  // JSON "joiningSince": a gang that runs has grown by it, and it was not Ready yet.
  std::optional<Time> joining{};

  static constexpr auto fields() {
    using T = PodAssignment;
    return fields_of(field("role", &T::role), field("index", &T::index), field("node", &T::node),
                     field("gpus", &T::gpus), field("try", &T::tries, Zero::kOmit),
                     field("joiningSince", &T::joining));
  }
  bool operator==(const PodAssignment&) const = default;
};

// What the program has saved: the step, and where it is. "": it did not say where.
struct SavedStep {
  std::optional<std::int64_t> step;  // absent: nothing was saved
  std::string uri;

  static constexpr auto fields() {
    return fields_of(field("step", &SavedStep::step), field("uri", &SavedStep::uri));
  }
  bool operator==(const SavedStep&) const = default;
};

// A replica of a service that moves: the attempt whose pods serve until those of the assignment are ready.
struct ReplacedAttempt {
  std::int32_t attempt = 0;  // 0: none
  std::vector<PodAssignment> pods;

  static constexpr auto fields() {
    using T = ReplacedAttempt;
    return fields_of(field("attempt", &T::attempt, Zero::kOmit), field("pods", &T::pods));
  }
  bool operator==(const ReplacedAttempt&) const = default;
};

// The commit point: written before any of its pods exists, and withdrawn whole.
struct Assignment {
  std::int32_t attempt = 0;  // from 1; 0: no assignment
  std::string pool;
  std::optional<Time> admitted_at;  // of two that claim one GPU the older stays
  std::vector<PodAssignment> pods;  // by role in the spec's order, then index
  // Indexes into `pods`, ascending, of the pods that have succeeded. It is remembered because somebody may
  // collect such a pod while its peers still work.
  std::vector<std::int32_t> succeeded;
  SavedStep resume{};  // what all pods of this attempt start from; decided when the first of them is made
  std::optional<Time> resized_at{};  // when an elastic gang last changed its size
  std::int64_t generation = 0;       // the last one that `made_from` is known to hold for
  std::string made_from;             // what the pods follow from in the spec; "": not noted
  ReplacedAttempt replaces{};        // its pods stay until those of this attempt are ready
  // It was to move and could not start elsewhere. So it is not tried again while its pods serve.
  std::optional<bool> moved_in_vain{};
  // It was started as preemptible. So it is, whatever the spec says now: what is not preemptible has to be
  // within a quota, and that is judged at a start.
  std::optional<bool> preemptible{};
  // Of one that is not: by when it said at its start that it ends. Quota may have been lent to it for so
  // long.
  std::optional<Duration> max_runtime{};

  static constexpr auto fields() {
    using T = Assignment;
    return fields_of(field("attempt", &T::attempt, Zero::kOmit), field("pool", &T::pool),
                     field("admittedAt", &T::admitted_at), field("pods", &T::pods),
                     field("succeeded", &T::succeeded), field("resume", &T::resume),
                     field("resizedAt", &T::resized_at), field("generation", &T::generation, Zero::kOmit),
                     field("madeFrom", &T::made_from), field("replaces", &T::replaces),
                     field("movedInVain", &T::moved_in_vain), field("preemptible", &T::preemptible),
                     field("maxRuntime", &T::max_runtime));
  }
  bool operator==(const Assignment&) const = default;
};

// Places that are kept for a job until others, or its own pods, have left them. This is not the commit point:
// it may be given up at any time before the job is assigned.
struct Nomination {
  std::int64_t generation = 0;  // of the spec that was placed
  std::string pool;
  std::vector<PodAssignment> pods;  // empty: none

  static constexpr auto fields() {
    using T = Nomination;
    return fields_of(field("generation", &T::generation, Zero::kOmit), field("pool", &T::pool),
                     field("pods", &T::pods));
  }
  bool operator==(const Nomination&) const = default;
};

struct Restarts {
  std::int32_t count = 0;  // program faults in the job's life
  // Those within restart.window; of a replica of a service the last 8. The oldest comes first.
  std::vector<Time> recent;

  static constexpr auto fields() {
    using T = Restarts;
    return fields_of(field("count", &T::count, Zero::kOmit), field("recent", &T::recent));
  }
  bool operator==(const Restarts&) const = default;
};

// The newest checkpoint that every pod which reports has saved.
struct CheckpointStatus {
  std::optional<std::int64_t> step;  // absent: none was reported
  std::string uri;
  std::optional<Time> saved_at;
  std::string reported_by;     // the pod
  std::int32_t attempt = 0;    // of that pod
  std::int32_t reporters = 0;  // pods that had saved this step or a later one
  // The longest time that a pod took from SIGTERM to its end with a report. 0: no pod did yet.
  std::int64_t save_seconds = 0;

  static constexpr auto fields() {
    using T = CheckpointStatus;
    return fields_of(field("step", &T::step), field("uri", &T::uri), field("savedAt", &T::saved_at),
                     field("reportedBy", &T::reported_by), field("attempt", &T::attempt, Zero::kOmit),
                     field("reporters", &T::reporters, Zero::kOmit),
                     field("saveSeconds", &T::save_seconds, Zero::kOmit));
  }
  bool operator==(const CheckpointStatus&) const = default;
};

// What the job has run and what disturbances have cost it in its life, in GPU-seconds (of a job without GPUs
// CPU-seconds); and what is known of the next one.
struct DisruptionStatus {
  std::int64_t ran = 0;            // until this attempt began or last changed its size
  std::int64_t lost_optional = 0;  // to disturbances that were not owed to anybody
  std::int64_t lost_owed = 0;
  std::optional<std::int64_t> start_seconds;   // from its last admission until it worked
  std::optional<std::int64_t> resize_seconds;  // from its last change of size in place until it worked again
  std::optional<bool> saves_when_asked;        // at its last eviction; absent: it had none

  static constexpr auto fields() {
    using T = DisruptionStatus;
    return fields_of(
        field("ran", &T::ran, Zero::kOmit), field("lostOptional", &T::lost_optional, Zero::kOmit),
        field("lostOwed", &T::lost_owed, Zero::kOmit), field("startSeconds", &T::start_seconds),
        field("resizeSeconds", &T::resize_seconds), field("savesWhenAsked", &T::saves_when_asked));
  }
  bool operator==(const DisruptionStatus&) const = default;
};

// One disturbance: what the job had to give, and why.
struct Disruption {
  Time at{};
  std::string reason{};   // Reclaimed, Preempted, Consolidated, Drained, NodeFailed, …
  std::string message{};  // for whom, and by which right
  // Thousandths of a GPU that it gave, and what that cost it, in GPU-seconds (without GPUs, CPU-seconds).
  MilliGpu gave{};
  std::int64_t cost = 0;
  bool owed = false;

  static constexpr auto fields() {
    using T = Disruption;
    return fields_of(field("at", &T::at), field("reason", &T::reason), field("message", &T::message),
                     field("gave", &T::gave), field("cost", &T::cost, Zero::kOmit),
                     field("owed", &T::owed, Zero::kOmit));
  }
  bool operator==(const Disruption&) const = default;
};

inline constexpr std::size_t kMostDisruptions = 10;

// A node whose kubelet refused a pod of this job. It is not tried again for a while.
struct NodeRefusal {
  std::string node;
  std::string reason;  // the pod's: OutOfcpu, UnexpectedAdmissionError, …
  std::optional<Time> at;

  static constexpr auto fields() {
    using T = NodeRefusal;
    return fields_of(field("node", &T::node), field("reason", &T::reason), field("at", &T::at));
  }
  bool operator==(const NodeRefusal&) const = default;
};

struct TrainingJobStatus {
  std::int64_t observed_generation = 0;
  std::optional<Phase> phase;  // derived, for people
  // From the first write on: Accepted, Admitted, PodsReady, Evicted, Suspended, Complete, Failed, Stalled,
  // GracePeriodTooShort. When they have something to say: Idle, EndsSoon, PolicyViolation, Exposed,
  // Published, InternalError.
  Conditions conditions;
  Effective effective;
  Assignment assignment;
  Nomination nominated;
  std::string pods;           // "4/8", ready or succeeded, of desired, for people
  std::int32_t replicas = 0;  // of the assignment; with `selector` what the scale subresource shows
  std::string selector;
  std::int32_t desired_replicas = 0;
  std::int32_t ready_replicas = 0;
  std::int32_t succeeded_replicas = 0;  // of the attempt in force; kept when the job has ended
  Amounts allocated;
  std::int32_t attempt = 0;  // the latest; outlives its assignment
  Restarts restarts;
  std::int32_t preemptions = 0;
  std::int32_t start_failures = 0;  // consecutive attempts that did not run whole within startTimeout
  std::optional<Time> retry_at;     // not admitted before (BackingOff)
  std::vector<NodeRefusal> node_refusals;
  CheckpointStatus checkpoint;
  DisruptionStatus disruption;
  std::vector<Disruption> disruptions;  // the latest, newest first; at most kMostDisruptions
  Waiting queue;
  std::optional<Time> started_at;   // when this attempt first ran whole
  std::int64_t run_seconds = 0;     // running time of the attempts before this one; counts towards maxRuntime
  std::optional<Time> finished_at;  // Complete or Failed
  // Of spec.dependsOn: seen to be met before it was first admitted; empty from then on.
  std::vector<Dependency> met_dependencies;
  std::vector<Endpoint> endpoints;  // of spec.expose; empty: its Service is not there
  std::string result;               // JSON that a pod has said when the job was complete; "": none has
  std::optional<ArrayStatus> array;

  static constexpr auto fields() {
    using T = TrainingJobStatus;
    return fields_of(
        field("observedGeneration", &T::observed_generation, Zero::kOmit), field("phase", &T::phase),
        field("conditions", &T::conditions), field("effective", &T::effective),
        field("assignment", &T::assignment), field("nominated", &T::nominated), field("pods", &T::pods),
        field("replicas", &T::replicas, Zero::kOmit), field("selector", &T::selector),
        field("desiredReplicas", &T::desired_replicas, Zero::kOmit),
        field("readyReplicas", &T::ready_replicas, Zero::kOmit),
        field("succeededReplicas", &T::succeeded_replicas, Zero::kOmit), field("allocated", &T::allocated),
        field("attempt", &T::attempt, Zero::kOmit), field("restarts", &T::restarts),
        field("preemptions", &T::preemptions, Zero::kOmit),
        field("startFailures", &T::start_failures, Zero::kOmit), field("retryAt", &T::retry_at),
        field("nodeRefusals", &T::node_refusals), field("checkpoint", &T::checkpoint),
        field("disruption", &T::disruption), field("disruptions", &T::disruptions), field("queue", &T::queue),
        field("startedAt", &T::started_at), field("runSeconds", &T::run_seconds, Zero::kOmit),
        field("finishedAt", &T::finished_at), field("result", &T::result), field("array", &T::array),
        field("metDependencies", &T::met_dependencies), field("endpoints", &T::endpoints));
  }
  bool operator==(const TrainingJobStatus&) const = default;
};

struct TrainingJob {
  using Status = TrainingJobStatus;
  static constexpr std::string_view kKind = "TrainingJob";
  static constexpr std::string_view kPlural = "trainingjobs";
  static constexpr bool kNamespaced = true;

  ObjectMeta metadata;
  TrainingJobSpec spec;
  TrainingJobStatus status;

  static constexpr auto fields() {
    using T = TrainingJob;
    return fields_of(field("metadata", &T::metadata), field("spec", &T::spec), field("status", &T::status));
  }
  bool operator==(const TrainingJob&) const = default;
};

// spec.preemptible; if it is left out, true for Batch and false for Interactive. A job that is not
// preemptible must fit the quota.
inline bool is_preemptible(const TrainingJobSpec& spec) {
  return spec.preemptible.value_or(spec.mode == Mode::kBatch);
}
// It may run longer now than it said at its start.
inline bool has_been_lengthened(const TrainingJobSpec& spec, const Assignment& assignment) {
  return assignment.max_runtime && (!spec.max_runtime || *spec.max_runtime > *assignment.max_runtime);
}
// Whether it may be made to yield now: what runs counts as it was started. `lends`: somebody lends quota to
// work that ends in time.
inline bool counts_as_preemptible(const TrainingJobSpec& spec, const Assignment& assignment, bool lends) {
  return is_preemptible(spec) || assignment.preemptible.value_or(false) ||
         (lends && has_been_lengthened(spec, assignment));
}
// Pods of the whole gang at its least.
inline std::int32_t replicas_of(const TrainingJobSpec& spec) {
  std::int32_t sum = 0;
  for (const Role& role : spec.roles) sum += least_replicas(role);
  return sum;
}
inline std::int32_t most_replicas_of(const TrainingJobSpec& spec) {
  std::int32_t sum = 0;
  for (const Role& role : spec.roles) sum += most_replicas(role);
  return sum;
}

inline bool is_elastic(const Role& role) {
  return most_replicas(role) > least_replicas(role);
}
inline bool is_elastic(const TrainingJobSpec& spec) {
  for (const Role& role : spec.roles) {
    if (is_elastic(role)) return true;
  }
  return false;
}
// Its members join and leave one by one; all other gangs restart to get another size. A gang of a fixed size
// may say so as well (by stating `elastic`): then a member that is lost is replaced, and the others run on.
inline bool resizes_in_place(const TrainingJobSpec& spec) {
  return spec.elastic ? spec.elastic->resize == Resize::kInPlace : is_elastic(spec);
}
// It grows when its size has stood for so long and room has been there for so long.
inline Duration grow_after_of(const TrainingJobSpec& spec) {
  if (spec.elastic && spec.elastic->grow_after) return *spec.elastic->grow_after;
  return resizes_in_place(spec) ? std::chrono::minutes{1} : std::chrono::minutes{10};
}

}  // namespace muster::crds
