// What a service tells its users, as events and in the log.
#include <fmt/format.h>

#include <string>

#include "muster/reconcilers/common/log.h"
#include "muster/reconcilers/services/inference_service.h"

namespace muster::reconcilers {

void InferenceServiceReconciler::tell(const Service& service, const char* reason, const char* verb,
                                      const std::vector<std::string>& names) const {
  if (names.empty()) return;
  const std::string text = names.size() == 1 ? fmt::format("replica {} was {}", names.front(), verb)
                                             : fmt::format("{} replicas were {}, the first of them {}",
                                                           names.size(), verb, names.front());
  context_.events.record(event_target(service->value), client::EventType::kNormal, reason, "Scale", text);
  log_info(text, {{"service", service->meta.key()}, {"reason", reason}});
}

void InferenceServiceReconciler::tell_size(const Service& service, std::int32_t now,
                                           const std::optional<ScalingVerdict>& why) const {
  const std::string text =
      fmt::format("from {} to {} replicas{}", service->value.status.desired_replicas, now,
                  why && why->size == now ? ": " + why->message : ", as spec.autoscaling allows");
  context_.events.record(event_target(service->value), client::EventType::kNormal, "Rescaled", "Scale", text);
  log_info(text, {{"service", service->meta.key()}, {"reason", "Rescaled"}});
}

void InferenceServiceReconciler::tell_canary(const Service& service,
                                             const crds::InferenceServiceStatus& now) const {
  const auto& before = service->value.status.canary;
  if (!before || (now.canary && now.canary->revision == before->revision)) return;
  const bool is_promoted = now.revision == before->revision;
  const auto* why = crds::find_condition(now.conditions, "RolledOut");
  const std::string text =
      is_promoted ? fmt::format("revision {} is promoted, and gets all replicas", before->revision)
                  : fmt::format("revision {} gives its replicas back to revision {}: {}", before->revision,
                                now.stable_revision, why == nullptr ? "" : why->message);
  const char* reason = is_promoted ? "CanaryPromoted" : "CanaryAborted";
  context_.events.record(event_target(service->value),
                         is_promoted ? client::EventType::kNormal : client::EventType::kWarning, reason,
                         "Serve", text);
  log_info(text, {{"service", service->meta.key()}, {"reason", reason}});
}

// Events for what people wait for: conditions that have come or gone.
void InferenceServiceReconciler::tell(const Service& service, const crds::InferenceServiceStatus& now) const {
  tell_canary(service, now);
  const auto* accepted = crds::find_condition(now.conditions, "Accepted");
  for (const auto& c : now.conditions) {
    const auto* before = crds::find_condition(service->value.status.conditions, c.type);
    if (before != nullptr && before->status == c.status && before->reason == c.reason) continue;
    if (before == nullptr && c.type == "Accepted" && c.status == crds::ConditionStatus::kTrue) continue;
    if (before == nullptr && c.type == "ScalingActive") continue;
    if (c.type == "Stalled" || c.type == "Reconciling") continue;  // Accepted and RolledOut say the same
    if (c.reason == "CanaryAborted") continue;                     // tell_canary() has said so
    // Ready was not True before either, and Accepted has the same reason.
    if (c.type == "Ready" && accepted != nullptr && accepted->status == crds::ConditionStatus::kFalse &&
        accepted->reason == c.reason && (before == nullptr || before->status == c.status))
      continue;
    const bool is_wanted = c.reason == "RollingOut" || c.reason == "NoReplicas" ||
                           c.reason == "NoReplicaServes" || c.reason == "ScalingDisabled" ||
                           c.reason == "ScaledToZero" || c.reason == "CanaryServes" ||
                           c.reason == "CanaryWaits";
    const bool is_violation = c.type == "PolicyViolation";
    if (is_violation && c.status != crds::ConditionStatus::kTrue) continue;
    const bool is_bad = is_violation || (c.status == crds::ConditionStatus::kFalse && !is_wanted &&
                                         (c.type == "Accepted" || before != nullptr));
    const std::string text =
        c.message.empty() ? fmt::format("{} is {}", c.type, to_string(c.status)) : c.message;
    context_.events.record(event_target(service->value),
                           is_bad ? client::EventType::kWarning : client::EventType::kNormal, c.reason,
                           "Serve", text);
    log_info(text, {{"service", service->meta.key()}, {"reason", c.reason}});
  }
}

}  // namespace muster::reconcilers
