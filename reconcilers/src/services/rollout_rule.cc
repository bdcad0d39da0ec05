#include "muster/reconcilers/services/rollout_rule.h"

#include <fmt/format.h>

#include <algorithm>

namespace muster::reconcilers {
namespace {

std::string stable_before(const crds::InferenceServiceStatus& status) {
  if (!status.stable_revision.empty()) return status.stable_revision;
  // The status may be of a version that did not know of it.
  return crds::is_true(status.conditions, "RolledOut") ? status.revision : std::string();
}

// Goes from step to step as time allows. Nothing: the last one has passed.
std::optional<crds::CanaryStatus> step_canary(crds::CanaryStatus canary, const crds::Canary& rule,
                                              std::int32_t desired, std::int32_t ready, crds::Time now,
                                              std::optional<crds::Time>& wake_at) {
  const auto steps = static_cast<std::int32_t>(rule.steps.size());
  if (rule.percent || steps == 0) {
    canary.replicas = canary_share(desired, rule.percent.value_or(1));
    canary.step = 0;
    canary.ready_since.reset();
    return canary;
  }
  canary.step = std::min(canary.step, steps - 1);  // steps may have been edited away
  for (; canary.step < steps; ++canary.step) {
    const crds::CanaryStep& step = rule.steps[static_cast<std::size_t>(canary.step)];
    canary.replicas = canary_share(desired, step.percent);
    const bool serves = canary.replicas > 0 && ready >= canary.replicas;
    if (serves && !canary.ready_since) canary.ready_since = now;
    // One that is asked for later, by autoscaling, does not set the clock back. But nothing goes on while
    // one is not ready.
    if (!serves || !step.duration) return canary;
    const crds::Time due = *canary.ready_since + *step.duration;
    if (now < due) {
      wake_at = due;
      return canary;
    }
    canary.ready_since.reset();
  }
  return std::nullopt;
}

}  // namespace

std::int32_t canary_share(std::int32_t replicas, std::int32_t percent) {
  if (replicas <= 0) return 0;
  return std::max(1, static_cast<std::int32_t>(std::int64_t{replicas} * percent / 100));
}

RolloutDecision decide_rollout(const crds::InferenceService& service, const RolloutView& view,
                               crds::Time now) {
  const crds::Rollout& rollout = service.spec.rollout;
  const crds::InferenceServiceStatus& status = service.status;
  RolloutDecision d;
  d.own = d.target = view.own;
  d.stable = stable_before(status);
  if (!rollout.to_revision.empty() && rollout.to_revision != view.own) {
    if (!view.is_kept(rollout.to_revision)) {
      d.refusal = fmt::format(
          "spec.rollout.toRevision: there is no revision \"{}\"; those that are kept are in status.revisions",
          rollout.to_revision);
      if (!status.revision.empty()) d.target = status.revision;
      d.canary = status.canary;
      return d;
    }
    d.target = rollout.to_revision;
    d.why_not_own = fmt::format(
        "revision {}, that of the spec, waits for spec.rollout.toRevision to be removed", view.own);
  }
  if (!rollout.canary || !rollout.to_revision.empty() || d.stable.empty() || d.target == d.stable) return d;
  const crds::Canary& rule = *rollout.canary;
  if (rule.aborted_revision == view.own) {
    d.target = d.stable;
    d.is_aborted = true;
    d.why_not_own = fmt::format(
        "revision {}, that of the spec, was aborted by spec.rollout.canary.abortedRevision", view.own);
    return d;
  }
  if (rule.promoted_revision != d.target) {
    crds::CanaryStatus canary;
    canary.revision = d.target;
    if (status.canary && status.canary->revision == d.target) canary = *status.canary;
    d.canary =
        step_canary(std::move(canary), rule, crds::size_of(service), view.ready(d.target), now, d.wake_at);
  }
  if (!d.canary) d.stable = d.target;
  return d;
}

}  // namespace muster::reconcilers
