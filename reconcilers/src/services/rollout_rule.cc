#include "muster/reconcilers/services/rollout_rule.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/crds/text.h"

namespace muster::reconcilers {
namespace {

std::string stable_before(const crds::InferenceServiceStatus& status) {
  if (!status.stable_revision.empty()) return status.stable_revision;
  // The status may be of a version that did not know of it.
  return crds::is_true(status.conditions, "RolledOut") ? status.revision : std::string();
}

// Goes from step to step as time allows. Nothing: the last one has passed.
std::optional<crds::CanaryStatus> step_canary(crds::CanaryStatus canary, const crds::Canary& rule,
                                              const CanarySize& of, const RolloutView& view, crds::Time now,
                                              std::optional<crds::Time>& wake_at) {
  const auto steps = static_cast<std::int32_t>(rule.steps.size());
  if (rule.percent || steps == 0) {
    canary.replicas = canary_share(of, rule.percent.value_or(1)).replicas;
    canary.step = 0;
    canary.ready_since.reset();
    return canary;
  }
  canary.step = std::min(canary.step, steps - 1);  // steps may have been edited away
  for (; canary.step < steps; ++canary.step) {
    const crds::CanaryStep& step = rule.steps[static_cast<std::size_t>(canary.step)];
    canary.replicas = canary_share(of, step.percent).replicas;
    if (canary.replicas == 0) canary.ready_since.reset();  // what it had served before is no proof any more
    const bool serves = canary.replicas > 0 && view.ready(canary.revision) >= canary.replicas;
    if (serves && !canary.ready_since) canary.ready_since = now;
    // One that is asked for later, by autoscaling, does not set the clock back. But nothing goes on while
    // one is not ready.
    if (!serves || !step.duration) return canary;
    const crds::Time due = *canary.ready_since + *step.duration;
    if (now < due) {
      wake_at = due;
      return canary;
    }
    if (rule.analysis && !view.canary.may_go_on) return canary;
    canary.ready_since.reset();
  }
  return std::nullopt;
}

std::int32_t percent_of(const crds::Canary& rule, std::int32_t step) {
  if (rule.percent || rule.steps.empty()) return rule.percent.value_or(1);
  return rule.steps[std::min(static_cast<std::size_t>(step), rule.steps.size() - 1)].percent;
}

// By spec.rollout.canary.analysis, now or before.
bool ends_canary(const RolloutView& view, const crds::InferenceServiceStatus& status, crds::Time now,
                 RolloutDecision& d) {
  const bool is_under_way = status.canary && status.canary->revision == view.own;
  if (!d.aborted && is_under_way && view.canary.has_failed)
    d.aborted = crds::AbortedCanary{view.own, now, crds::cut(view.canary.message, 1024)};
  if (!d.aborted) return false;
  d.target = d.stable;
  d.is_aborted = true;
  d.why_not_own =
      fmt::format("revision {}, that of the spec, was aborted by spec.rollout.canary.analysis: {}", view.own,
                  d.aborted->message);
  return true;
}

// What is told of one that has no replica.
std::string why_none(const crds::InferenceService& service) {
  if (crds::size_of(service) == 0)
    return "at size 0 there is no canary: no step passes, and the first replica is of the stable revision";
  return "the only replica stays of the stable revision, and spec.rollout.maxSurge 0 leaves no room for one "
         "beside it";
}

}  // namespace

CanaryShare canary_share(const CanarySize& of, std::int32_t percent) {
  const auto share = static_cast<std::int32_t>(std::int64_t{of.replicas} * percent / 100);
  if (of.replicas <= 0 || share > 0) return {std::max(0, share), 0};
  if (of.replicas > 1) return {1, 0};
  return of.max_surge > 0 ? CanaryShare{1, 1} : CanaryShare{0, 0};
}

RolloutDecision decide_rollout(const crds::InferenceService& service, const RolloutView& view,
                               crds::Time now) {
  const crds::Rollout& rollout = service.spec.rollout;
  const crds::InferenceServiceStatus& status = service.status;
  RolloutDecision d;
  d.own = d.target = view.own;
  d.stable = stable_before(status);
  // Until the spec is another, or nobody analyses any more.
  const bool is_analysed = rollout.canary && rollout.canary->analysis;
  if (is_analysed && rollout.canary->promoted_revision != view.own && status.aborted_canary &&
      status.aborted_canary->revision == view.own)
    d.aborted = status.aborted_canary;
  if (!rollout.to_revision.empty() && rollout.to_revision != view.own) {
    if (!view.is_kept(rollout.to_revision)) {
      d.refusal = fmt::format(
          "spec.rollout.toRevision: there is no revision \"{}\"; those that are kept are in status.revisions",
          rollout.to_revision);
      if (!status.revision.empty()) d.target = status.revision;
      d.canary = status.canary;
      if (d.canary && rollout.canary) {
        const CanarySize of{crds::size_of(service), rollout.max_surge};
        d.beside = canary_share(of, percent_of(*rollout.canary, d.canary->step)).beside;
      }
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
    if (rule.analysis && ends_canary(view, status, now, d)) return d;
    crds::CanaryStatus canary;
    canary.revision = d.target;
    if (status.canary && status.canary->revision == d.target) canary = *status.canary;
    const CanarySize of{crds::size_of(service), rollout.max_surge};
    d.canary = step_canary(std::move(canary), rule, of, view, now, d.wake_at);
    if (d.canary) d.beside = canary_share(of, percent_of(rule, d.canary->step)).beside;
    if (d.canary && rule.analysis) d.why_no_step = view.canary.message;
    if (d.canary && d.canary->replicas == 0) d.why_no_canary = why_none(service);
  }
  if (!d.canary) d.stable = d.target;
  return d;
}

}  // namespace muster::reconcilers
