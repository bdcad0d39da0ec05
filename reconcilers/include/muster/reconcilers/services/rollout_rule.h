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
  std::optional<crds::Time> wake_at{};         // the next step comes then
  bool is_aborted = false;                     // the spec's own revision was
  std::string why_not_own{};                   // why the spec's own revision is not in force; "": it is
  std::string refusal{};                       // what is wrong with spec.rollout; "": nothing. The rest is as
                                               // it was in force
};

// At most so many per cent, but at least one. None of none.
std::int32_t canary_share(std::int32_t replicas, std::int32_t percent);

struct RolloutView {
  std::string own;                                                 // the spec's own revision
  std::function<bool(const std::string& revision)> is_kept;        // can be gone back to
  std::function<std::int32_t(const std::string& revision)> ready;  // replicas of it that are
};

// `service.status` is what was decided last. Without a stable revision there is no canary: a service that has
// not been rolled out whole yet has nothing to go back to.
RolloutDecision decide_rollout(const crds::InferenceService& service, const RolloutView& view,
                               crds::Time now);

}  // namespace muster::reconcilers
