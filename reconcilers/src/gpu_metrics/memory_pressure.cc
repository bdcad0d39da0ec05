#include "muster/reconcilers/gpu_metrics/memory_pressure.h"

#include <algorithm>
#include <tuple>

namespace muster::reconcilers {

bool FullGpus::note(const std::string& gpu, client::TimePoint at, std::optional<std::int32_t> percent,
                    std::int32_t bound) {
  Gpu& known = gpus_[gpu];
  if (percent && *percent >= bound) {
    known.readings = std::min(known.readings + 1, kFullReadings);
  } else if (!percent || *percent <= bound - kRelief) {
    known.readings = 0;
  }
  return known.readings >= kFullReadings && (!known.left || at - *known.left >= kGpuRest);
}

void FullGpus::has_left(const std::string& gpu, client::TimePoint at) {
  gpus_[gpu] = {.readings = 0, .left = at};
}

void FullGpus::keep_only(const std::set<std::string>& gpus, client::TimePoint at) {
  for (auto it = gpus_.begin(); it != gpus_.end();) {
    const bool stays = gpus.contains(it->first);
    if (!stays) it->second.readings = 0;
    const bool rests = it->second.left && at - *it->second.left < kGpuRest;
    it = stays || rests ? std::next(it) : gpus_.erase(it);
  }
}

const Sharer* who_goes(const std::vector<Sharer>& sharers) {
  if (sharers.size() < 2) return nullptr;
  const auto order = [](const Sharer& s) {
    return std::tuple(!s.is_idle, s.priority, s.admitted ? -s.admitted->time_since_epoch().count() : 0);
  };
  const Sharer* first = nullptr;
  for (const Sharer& s : sharers) {
    if (!s.says_priority) continue;
    if (first == nullptr || std::tuple(order(s), s.job) < std::tuple(order(*first), first->job)) first = &s;
  }
  if (first == nullptr || first->rests) return nullptr;
  const bool gives_way = std::ranges::any_of(
      sharers, [&](const Sharer& s) { return &s != first && s.priority >= first->priority; });
  return first->is_idle || gives_way ? first : nullptr;
}

}  // namespace muster::reconcilers
