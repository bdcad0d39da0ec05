// InferenceService: replicas of a server.
#pragma once

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/crds/common.h"
#include "muster/crds/condition.h"
#include "muster/crds/metadata.h"

namespace muster::crds {

struct CanaryStep {
  std::int32_t percent = 1;
  std::optional<Duration> duration;  // after its replicas were ready; absent: until it is promoted

  static constexpr auto fields() {
    return fields_of(field("percent", &CanaryStep::percent), field("duration", &CanaryStep::duration));
  }
  bool operator==(const CanaryStep&) const = default;
};
// What is read from a canary's pods.
enum class CanaryMetric : std::uint8_t { kErrorRate, kTimeToFirstToken };
constexpr std::array<std::string_view, 2> names_of(CanaryMetric) {
  return {"ErrorRate", "TimeToFirstToken"};
}
struct CanaryCheck {
  std::optional<CanaryMetric> metric;  // either this or name
  std::string name;                    // of a metric that is an amount
  StringMap labels;                    // of its series; empty: all
  MilliLoad max;                       // more than 0

  static constexpr auto fields() {
    using T = CanaryCheck;
    return fields_of(field("metric", &T::metric), field("name", &T::name), field("labels", &T::labels),
                     field("max", &T::max));
  }
  bool operator==(const CanaryCheck&) const = default;
};
// Ends a canary that does not do well.
struct CanaryAnalysis {
  std::vector<CanaryCheck> checks;
  Duration window = std::chrono::minutes{1};  // it is judged over so long

  static constexpr auto fields() {
    return fields_of(field("checks", &CanaryAnalysis::checks), field("window", &CanaryAnalysis::window));
  }
  bool operator==(const CanaryAnalysis&) const = default;
};
// A new revision first gets a part of the replicas.
struct Canary {
  std::optional<std::int32_t> percent;  // either this or steps
  std::vector<CanaryStep> steps;
  std::optional<CanaryAnalysis> analysis;
  std::string promoted_revision;  // this one may have all
  std::string aborted_revision;   // this one gets none; stronger than promoted_revision

  static constexpr auto fields() {
    return fields_of(field("percent", &Canary::percent), field("steps", &Canary::steps),
                     field("analysis", &Canary::analysis),
                     field("promotedRevision", &Canary::promoted_revision),
                     field("abortedRevision", &Canary::aborted_revision));
  }
  bool operator==(const Canary&) const = default;
};

// How the replicas of one revision of the spec give way to those of the next.
struct Rollout {
  std::int32_t max_surge = 1;                            // replicas beyond spec.replicas meanwhile
  std::int32_t max_unavailable = 0;                      // replicas that may be missing meanwhile; not both 0
  std::optional<std::int32_t> revision_history_limit{};  // see revision_history_limit_of()
  std::string to_revision;  // the kept revision that is in force; empty: the spec's
  std::optional<Canary> canary{};

  static constexpr auto fields() {
    return fields_of(field("maxSurge", &Rollout::max_surge),
                     field("maxUnavailable", &Rollout::max_unavailable),
                     field("revisionHistoryLimit", &Rollout::revision_history_limit),
                     field("toRevision", &Rollout::to_revision), field("canary", &Rollout::canary));
  }
  bool operator==(const Rollout&) const = default;
};

// How the replicas of one revision stand to each other.
enum class ReplicaSpread : std::uint8_t { kRequired, kPreferred };
constexpr std::array<std::string_view, 2> names_of(ReplicaSpread) {
  return {"Required", "Preferred"};
}
struct ReplicaPlacement {
  ReplicaSpread spread = ReplicaSpread::kRequired;
  std::string topology =
      "kubernetes.io/hostname";  // a node label: no two replicas where its value is the same

  static constexpr auto fields() {
    using T = ReplicaPlacement;
    return fields_of(field("spread", &T::spread), field("topology", &T::topology));
  }
  bool operator==(const ReplicaPlacement&) const = default;
};

// What a server says of itself.
enum class ServingMetric : std::uint8_t {
  kRequestsWaiting,
  kRequestsRunning,
  kKVCacheUtilization,
  kTimeToFirstToken
};
constexpr std::array<std::string_view, 4> names_of(ServingMetric) {
  return {"RequestsWaiting", "RequestsRunning", "KVCacheUtilization", "TimeToFirstToken"};
}

// Something that a service's size follows.
struct ScalingMetric {
  std::optional<ServingMetric> metric;  // either this or name
  std::string name;                     // of a metric of the pods that is an amount
  StringMap labels;                     // of its series; empty: all
  MilliLoad target;                     // for each replica; more than 0

  static constexpr auto fields() {
    using T = ScalingMetric;
    return fields_of(field("metric", &T::metric), field("name", &T::name), field("labels", &T::labels),
                     field("target", &T::target));
  }
  bool operator==(const ScalingMetric&) const = default;
};

// So many replicas come, or go, in any such time.
struct ScalingLimit {
  std::int32_t replicas = 0;
  Duration period{};

  static constexpr auto fields() {
    return fields_of(field("replicas", &ScalingLimit::replicas), field("period", &ScalingLimit::period));
  }
  bool operator==(const ScalingLimit&) const = default;
};

// At these times there are so many replicas at least.
struct ScheduledMinimum {
  std::string start;              // a cron expression of five fields
  Duration duration{};            // from each start on
  std::string time_zone = "UTC";  // a name of the IANA database
  std::int32_t min_replicas = 0;

  static constexpr auto fields() {
    using T = ScheduledMinimum;
    return fields_of(field("start", &T::start), field("duration", &T::duration),
                     field("timeZone", &T::time_zone), field("minReplicas", &T::min_replicas));
  }
  bool operator==(const ScheduledMinimum&) const = default;
};

// How many replicas there are follows what they say of themselves.
struct Autoscaling {
  std::int32_t min_replicas = 1;  // 0: none while nobody asks for anything
  std::int32_t max_replicas = 1;
  // Both or neither; see metrics_of().
  std::optional<ServingMetric> metric;
  std::optional<MilliLoad> target;     // for each replica; more than 0
  std::vector<ScalingMetric> metrics;  // beside the former
  std::optional<ScalingLimit> scale_up_limit, scale_down_limit;
  std::vector<ScheduledMinimum> schedules;
  std::optional<std::int32_t> metrics_port;
  std::string metrics_path = "/metrics";
  Duration window = std::chrono::minutes{1};  // what is read is averaged over so long
  Duration panic_window = std::chrono::seconds{10};
  Duration scale_down_delay = std::chrono::minutes{5};
  std::optional<Duration> scale_to_zero_after;  // only with min_replicas 0; see scale_to_zero_after_of()

  static constexpr auto fields() {
    using T = Autoscaling;
    return fields_of(field("minReplicas", &T::min_replicas), field("maxReplicas", &T::max_replicas),
                     field("metric", &T::metric), field("target", &T::target), field("metrics", &T::metrics),
                     field("scaleUpLimit", &T::scale_up_limit), field("scaleDownLimit", &T::scale_down_limit),
                     field("schedules", &T::schedules), field("metricsPort", &T::metrics_port),
                     field("metricsPath", &T::metrics_path), field("window", &T::window),
                     field("panicWindow", &T::panic_window), field("scaleDownDelay", &T::scale_down_delay),
                     field("scaleToZeroAfter", &T::scale_to_zero_after));
  }
  bool operator==(const Autoscaling&) const = default;
};

// All that its size follows: at least one.
inline std::vector<ScalingMetric> metrics_of(const Autoscaling& rule) {
  std::vector<ScalingMetric> all;
  if (rule.metric) all.push_back({rule.metric, "", {}, rule.target.value_or(MilliLoad{1000})});
  all.insert(all.end(), rule.metrics.begin(), rule.metrics.end());
  return all;
}

// What is served.
struct ServedModel {
  std::string uri;          // hf://, s3://, gs://, pvc:// or trainingjob://
  std::string cache_claim;  // where replicas keep what they load; empty: nowhere

  static constexpr auto fields() {
    return fields_of(field("uri", &ServedModel::uri), field("cacheClaim", &ServedModel::cache_claim));
  }
  bool operator==(const ServedModel&) const = default;
};

// The kind of some of the pods of a replica, which is then a set of roles: groups of equal size.
struct ServiceRole {
  std::string name;
  std::int32_t replicas = 1;    // groups
  std::int32_t group_size = 1;  // pods of a group; the first of them leads it
  bool traffic = false;         // its leaders answer; see traffic_role_of()
  std::optional<Gpus> gpus;     // of each pod; absent: none
  TopologyRule topology;        // of this role's pods, within the replica's
  RawJson pod_template;         // JSON "template": a PodTemplateSpec

  static constexpr auto fields() {
    using T = ServiceRole;
    return fields_of(field("name", &T::name), field("replicas", &T::replicas),
                     field("groupSize", &T::group_size), field("traffic", &T::traffic),
                     field("gpus", &T::gpus), field("topology", &T::topology),
                     field("template", &T::pod_template));
  }
  bool operator==(const ServiceRole&) const = default;
};

inline std::int32_t pods_of(const ServiceRole& role) {
  return role.replicas * role.group_size;
}

struct InferenceServiceSpec {
  std::int32_t replicas = 1;  // the target of the scale subresource; see size_of()
  std::optional<Autoscaling> autoscaling;
  std::optional<ServedModel> model;  // absent: its template says all
  std::int32_t group_size = 1;       // pods of a replica: a gang
  bool preemptible = false;          // false: never made to yield, and must fit the quota
  // Of a preemptible service: so many replicas are not preemptible. Absent: none.
  std::optional<std::int32_t> guaranteed_replicas;
  std::optional<Duration> start_timeout;      // of a replica; see start_timeout_of()
  std::optional<std::int32_t> drain_seconds;  // from a replica's deletion to its SIGTERM; absent: none
  std::optional<Gpus> gpus;                   // of each pod; absent: none
  RawJson pod_template;                       // JSON "template": a PodTemplateSpec
  // A replica is a set of all of them, and group_size, gpus and pod_template are not looked at. Empty: it is
  // a group of equal pods.
  std::vector<ServiceRole> roles;
  GangTopology topology;                      // of the pods of one replica
  std::optional<ReplicaPlacement> placement;  // of the replicas; absent: wherever there is room
  std::int32_t port = 8000;
  Rollout rollout;
  std::string priority_class_name;
  std::vector<std::string> pools;  // in order of preference; empty: the default pool

  static constexpr auto fields() {
    using T = InferenceServiceSpec;
    return fields_of(
        field("replicas", &T::replicas), field("autoscaling", &T::autoscaling), field("model", &T::model),
        field("groupSize", &T::group_size), field("preemptible", &T::preemptible),
        field("guaranteedReplicas", &T::guaranteed_replicas), field("startTimeout", &T::start_timeout),
        field("drainSeconds", &T::drain_seconds), field("gpus", &T::gpus),
        field("template", &T::pod_template), field("roles", &T::roles), field("topology", &T::topology),
        field("placement", &T::placement), field("port", &T::port), field("rollout", &T::rollout),
        field("priorityClassName", &T::priority_class_name), field("pools", &T::pools));
  }
  bool operator==(const InferenceServiceSpec&) const = default;
};

// The canary that is under way.
struct CanaryStatus {
  std::string revision;
  std::int32_t replicas = 0;        // that are to be of it
  std::int32_t step = 0;            // of steps
  std::optional<Time> ready_since;  // all replicas of the step were first ready then

  static constexpr auto fields() {
    using T = CanaryStatus;
    return fields_of(field("revision", &T::revision), field("replicas", &T::replicas, Zero::kOmit),
                     field("step", &T::step, Zero::kOmit), field("readySince", &T::ready_since));
  }
  bool operator==(const CanaryStatus&) const = default;
};

// What rollout.canary.analysis has ended.
struct AbortedCanary {
  std::string revision;
  Time at{};
  std::string message;

  static constexpr auto fields() {
    using T = AbortedCanary;
    return fields_of(field("revision", &T::revision), field("at", &T::at), field("message", &T::message));
  }
  bool operator==(const AbortedCanary&) const = default;
};

// A revision that is kept.
struct ServiceRevision {
  std::string name;
  std::int64_t number = 0;
  std::optional<Time> created_at;
  std::vector<std::string> images;
  std::int32_t replicas = 0;
  std::int32_t ready_replicas = 0;

  static constexpr auto fields() {
    using T = ServiceRevision;
    return fields_of(field("name", &T::name), field("number", &T::number), field("createdAt", &T::created_at),
                     field("images", &T::images), field("replicas", &T::replicas, Zero::kOmit),
                     field("readyReplicas", &T::ready_replicas, Zero::kOmit));
  }
  bool operator==(const ServiceRevision&) const = default;
};

// How many groups of a role are ready, of all replicas together.
struct ServiceRoleStatus {
  std::string name;
  std::int32_t ready = 0;
  std::int32_t desired = 0;

  static constexpr auto fields() {
    using T = ServiceRoleStatus;
    return fields_of(field("name", &T::name), field("ready", &T::ready), field("desired", &T::desired));
  }
  bool operator==(const ServiceRoleStatus&) const = default;
};

struct InferenceServiceStatus {
  std::int64_t observed_generation = 0;
  Conditions conditions;              // Accepted, Ready, ScalingActive, RolledOut
  std::int32_t replicas = 0;          // that exist, of all revisions
  std::int32_t ready_replicas = 0;    // all of whose pods are ready
  std::int32_t updated_replicas = 0;  // of the revision in force
  std::int32_t desired_replicas = 0;  // with spec.autoscaling the record of what was decided last
  std::int32_t activator_port = 0;    // with minReplicas 0: where the activators listen for it; 0: nowhere
  std::int32_t rollout_places = 0;    // while one lasts: replicas that had places when it began
  std::string pods;                   // "1/2", ready of desired, for people
  // The spec's roles, and then those that only replicas of earlier revisions have.
  std::vector<ServiceRoleStatus> roles;
  std::string selector;         // of the pods, for HorizontalPodAutoscalers
  std::string revision;         // of the spec in force; label muster.dev/revision of its replicas
  std::string stable_revision;  // that last had all replicas, or was promoted
  std::optional<CanaryStatus> canary;
  std::optional<AbortedCanary> aborted_canary;  // the last; of a revision that may be gone
  std::string model;                            // where it is; empty: not known yet, or none is stated
  std::vector<ServiceRevision> revisions;       // the newest first
  std::string url;                              // where its Service answers, inside the cluster
  Amounts allocated;
  Waiting queue;  // of the first replica that waits

  static constexpr auto fields() {
    using T = InferenceServiceStatus;
    return fields_of(field("observedGeneration", &T::observed_generation, Zero::kOmit),
                     field("conditions", &T::conditions), field("replicas", &T::replicas, Zero::kOmit),
                     field("readyReplicas", &T::ready_replicas, Zero::kOmit),
                     field("updatedReplicas", &T::updated_replicas, Zero::kOmit),
                     field("desiredReplicas", &T::desired_replicas, Zero::kOmit),
                     field("activatorPort", &T::activator_port, Zero::kOmit),
                     field("rolloutPlaces", &T::rollout_places, Zero::kOmit), field("pods", &T::pods),
                     field("roles", &T::roles), field("selector", &T::selector),
                     field("revision", &T::revision), field("stableRevision", &T::stable_revision),
                     field("canary", &T::canary), field("abortedCanary", &T::aborted_canary),
                     field("model", &T::model), field("revisions", &T::revisions), field("url", &T::url),
                     field("allocated", &T::allocated), field("queue", &T::queue));
  }
  bool operator==(const InferenceServiceStatus&) const = default;
};

struct InferenceService {
  using Status = InferenceServiceStatus;
  static constexpr std::string_view kKind = "InferenceService";
  static constexpr std::string_view kPlural = "inferenceservices";
  static constexpr bool kNamespaced = true;

  ObjectMeta metadata;
  InferenceServiceSpec spec;
  InferenceServiceStatus status;

  static constexpr auto fields() {
    using T = InferenceService;
    return fields_of(field("metadata", &T::metadata), field("spec", &T::spec), field("status", &T::status));
  }
  bool operator==(const InferenceService&) const = default;
};

inline std::int32_t pods_of_replica(const InferenceServiceSpec& spec) {
  std::int32_t sum = 0;
  for (const ServiceRole& role : spec.roles) sum += pods_of(role);
  return spec.roles.empty() ? spec.group_size : sum;
}

// The role whose leaders answer requests: the one that says so, else the first. nullptr: there are no roles.
inline const ServiceRole* traffic_role_of(const InferenceServiceSpec& spec) {
  if (spec.roles.empty()) return nullptr;
  const auto stated = std::ranges::find(spec.roles, true, &ServiceRole::traffic);
  return stated == spec.roles.end() ? &spec.roles.front() : &*stated;
}

// Whether it has no replica while nobody asks for anything.
inline bool scales_to_zero(const InferenceServiceSpec& spec) {
  return spec.autoscaling && spec.autoscaling->min_replicas == 0;
}

inline Duration scale_to_zero_after_of(const Autoscaling& rule) {
  return rule.scale_to_zero_after.value_or(std::chrono::minutes{30});
}

// How many replicas there are to be: spec.replicas, or with autoscaling what was decided last, within the
// bounds as they are now. A new service that may be at zero begins with one replica, so that its owner sees
// it serve.
inline std::int32_t size_of(const InferenceService& service) {
  const auto& scaling = service.spec.autoscaling;
  if (!scaling) return service.spec.replicas;
  const std::int32_t most = std::max(scaling->min_replicas, scaling->max_replicas);
  const bool is_new = service.status.observed_generation == 0 && service.status.desired_replicas == 0;
  return std::clamp(is_new ? 1 : service.status.desired_replicas, scaling->min_replicas, most);
}

// Models take long to load. A server that does not come up at all must not hold its GPUs for ever.
inline Duration start_timeout_of(const InferenceServiceSpec& spec) {
  return spec.start_timeout.value_or(std::chrono::minutes{30});
}

// How many revisions are kept beside those in use.
inline std::int32_t revision_history_limit_of(const Rollout& rollout) {
  return rollout.revision_history_limit.value_or(10);
}

// How many of them are not preemptible.
inline std::int32_t guaranteed_of(const InferenceService& service) {
  const std::int32_t all = size_of(service);
  return service.spec.preemptible ? std::min(all, service.spec.guaranteed_replicas.value_or(0)) : all;
}

}  // namespace muster::crds
