#include "muster/reconcilers/schedules/scheduled_minimum.h"

#include <fmt/format.h>

#include <utility>

#include "muster/reconcilers/schedules/window.h"

namespace muster::reconcilers {

MinimumNow minimum_now(const crds::Autoscaling& rule, crds::Time now) {
  constexpr const char* kList = "spec.autoscaling.schedules";
  MinimumNow result{.replicas = rule.min_replicas};
  std::vector<Window> windows;
  for (std::size_t i = 0; i < rule.schedules.size(); ++i) {
    auto window = window_of(rule.schedules[i], kList, i, result.problems);
    if (!window) continue;
    const std::int32_t least = rule.schedules[i].min_replicas;
    if (window->holds(now) && least > result.replicas) {
      result.replicas = least;
      result.in_force = fmt::format("at least {} by {}[{}]", least, kList, i);
    }
    windows.push_back(std::move(*window));
  }
  result.changes_at = first_boundary(windows, now);
  return result;
}

}  // namespace muster::reconcilers
