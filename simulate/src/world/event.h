// What the simulation tells of, as it happens.
#pragma once

#include <array>
#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "muster/simulate/course.h"

namespace muster::simulate {

enum class EventType : std::uint8_t {
  kAdmitted,
  kReleased,
  kEvicted,
  kShrunk,
  kGrown,
  kMoved,
  kRestarted,
  kFinished,
  kWaiting,
};
inline constexpr std::array<std::string_view, 9> kEventNames = {
    "Admitted", "Released", "Evicted", "Shrunk", "Grown", "Moved", "Restarted", "Finished", "Waiting"};

struct PodAt {
  std::string role;
  std::int32_t index = 0;
  std::string node;
  std::vector<std::int32_t> gpus;
};
using Pods = std::vector<PodAt>;

struct Event {
  Instant at{0};
  EventType type = EventType::kAdmitted;
  std::string object;  // "namespace/name"
  std::string reason;
  std::string beneficiary;
  std::shared_ptr<const Pods> pods;  // never null
};

}  // namespace muster::simulate
