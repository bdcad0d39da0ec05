// Which revision of an InferenceService is in force, and how many replicas may have it. Pure: no I/O, no
// clock, and no memory but the service's status. So a new process decides the same.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "muster/crds/inference_service.h"

namespace muster::reconcilers {

struct RolloutDecision {
  std::string own{};                           // the spec's own revision
  std::string target;                          // the revision in force
  std::string stable;                          // that last had all replicas, or was promoted; "": none yet
  std::optional<crds::CanaryStatus> canary{};  // target has canary->replicas, and stable all others
  std::int32_t beside = 0;              // so many of the canary's replicas are beyond the service's size
  std::string why_no_canary{};          // why the canary has no replica now; "": it has
  std::optional<crds::Time> wake_at{};  // the next step comes then
  bool is_aborted = false;              // the spec's own revision was
  std::optional<crds::AbortedCanary> aborted{};  // by analysis: the spec's own revision, now or before
  std::string why_no_step{};  // what analysis has against the canary, or does not know; "": nothing
  std::string why_not_own{};  // why the spec's own revision is not in force; "": it is
  std::string refusal{};      // what is wrong with spec.rollout; "": nothing. The rest is as
                              // it was in force
};

struct CanarySize {
  std::int32_t replicas = 0;  // of the service
  std::int32_t max_surge = 0;
};
struct CanaryShare {
  std::int32_t replicas = 0;
  std::int32_t beside = 0;  // of them, beyond the service's size
  bool operator==(const CanaryShare&) const = default;
};
// At most so many per cent, but at least one. None of none. A service of one replica does not give its only
// one to what nobody has tried: the canary is one more where a surge is allowed, else there is none. 100 per
// cent are all.
CanaryShare canary_share(const CanarySize& of, std::int32_t percent);

// How a canary does, by what its pods say of themselves: see canary_analysis.h.
struct CanaryVerdict {
  bool may_go_on = false;   // every check was read over the whole window, and is within its bound
  bool has_failed = false;  // one was beyond its bound over the whole window
  std::string message{};    // which, or why nobody knows; "" where it may go on
};

struct RolloutView {
  std::string own;                                                 // the spec's own revision
  std::function<bool(const std::string& revision)> is_kept;        // can be gone back to
  std::function<std::int32_t(const std::string& revision)> ready;  // replicas of it that are
  CanaryVerdict canary{};  // of the canary that is under way; with rollout.canary.analysis
};

// `service.status` is what was decided last. Without a stable revision there is no canary: a service that has
// not been rolled out whole yet has nothing to go back to.
RolloutDecision decide_rollout(const crds::InferenceService& service, const RolloutView& view,
                               crds::Time now);

}  // namespace muster::reconcilers
