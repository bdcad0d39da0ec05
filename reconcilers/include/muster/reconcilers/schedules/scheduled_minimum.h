// How many replicas an autoscaled service has at least at an instant, by its schedules. Pure but for the time
// zone database, as effective_spec.h.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "muster/crds/inference_service.h"

namespace muster::reconcilers {

struct MinimumNow {
  std::int32_t replicas = 0;  // the highest of minReplicas and of what holds now
  std::string in_force{};     // "at least 4 by spec.autoscaling.schedules[0]"; "": minReplicas counts
  std::optional<crds::Time> changes_at{};  // an entry may begin or end then; absent: never
  std::vector<std::string> problems{};     // of entries that do not count, as in EffectiveSpec
};
MinimumNow minimum_now(const crds::Autoscaling& rule, crds::Time now);

}  // namespace muster::reconcilers
