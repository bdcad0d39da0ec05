#include "muster/reconcilers/gpu_metrics/idle_rule.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/reconcilers/common/endpoint_problem.h"

namespace muster::reconcilers {
namespace {

// Of its busiest GPU, in percent; or why it cannot be told.
std::expected<std::int32_t, std::string> use_of_pod(const PodGpus& pod, const GpuReadings& readings) {
  const auto found = readings.find(pod.node);
  if (found == readings.end()) return std::unexpected(fmt::format("node {} is not read", pod.node));
  if (!found->second)
    return std::unexpected(fmt::format("node {}: {}", pod.node, told(found->second.error())));
  const GpuReading& reading = *found->second;
  std::int32_t most = 0;
  if (!reading.by_pod.empty()) {
    const auto mine = reading.by_pod.find(pod.pod);
    const std::size_t n = mine == reading.by_pod.end() ? 0 : mine->second.size();
    if (n < pod.gpus.size())
      return std::unexpected(fmt::format("node {}: of the {} GPUs of pod {} only {} are spoken of", pod.node,
                                         pod.gpus.size(), pod.pod, n));
    for (const auto& [gpu, percent] : mine->second) most = std::max(most, percent);
    return most;
  }
  for (const std::int32_t gpu : pod.gpus) {
    const auto mine = reading.by_index.find(gpu);
    if (mine == reading.by_index.end())
      return std::unexpected(fmt::format("node {}: nothing is said of GPU {}", pod.node, gpu));
    most = std::max(most, mine->second);
  }
  return most;
}

}  // namespace

GangUse use_of(const std::vector<PodGpus>& gang, std::int32_t below, const GpuReadings& readings) {
  GangUse all{gang.empty() ? Use::kUnknown : Use::kIdle, gang.empty() ? "it has no GPUs" : ""};
  for (const PodGpus& pod : gang) {
    const auto percent = use_of_pod(pod, readings);
    if (percent && *percent >= below) return {Use::kBusy};
    if (!percent && all.use == Use::kIdle) all = {Use::kUnknown, percent.error()};
  }
  return all;
}

std::optional<std::int64_t> milliwatts_of(const std::vector<PodGpus>& gang, const GpuReadings& readings) {
  if (gang.empty()) return std::nullopt;
  std::int64_t sum = 0;
  for (const PodGpus& pod : gang) {
    const auto found = readings.find(pod.node);
    if (found == readings.end() || !found->second) return std::nullopt;
    const GpuReading& reading = *found->second;
    if (!reading.milliwatts_by_pod.empty()) {
      const auto mine = reading.milliwatts_by_pod.find(pod.pod);
      if (mine == reading.milliwatts_by_pod.end() || mine->second.size() < pod.gpus.size())
        return std::nullopt;
      for (const auto& [gpu, milliwatts] : mine->second) sum += milliwatts;
      continue;
    }
    for (const std::int32_t gpu : pod.gpus) {
      const auto mine = reading.milliwatts_by_index.find(gpu);
      if (mine == reading.milliwatts_by_index.end()) return std::nullopt;
      sum += mine->second;
    }
  }
  return sum;
}

void IdleClock::add(client::TimePoint at, Use use, client::Duration interval) {
  const bool follows = is_known(at, interval);
  if (use == Use::kBusy || !follows) idle_ = {};
  if (use == Use::kIdle && follows && last_was_idle_) idle_ += at - *known_;
  last_was_idle_ = use == Use::kIdle;
  if (use != Use::kUnknown) known_ = at;
}

}  // namespace muster::reconcilers
