// Whether a gang uses its GPUs, and for how long it has not. Pure: readings and time come in. Nothing but a
// reading is taken for idle: time between two readings counts only where both are there, one follows the
// other, and both say so of every GPU of the gang.
#pragma once

#include <cstdint>
#include <expected>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/client/environment.h"
#include "muster/crds/duration.h"
#include "muster/reconcilers/gpu_metrics/gpu_reading.h"

namespace muster::reconcilers {

// So many intervals after the last reading nothing is known any more.
inline constexpr int kMissedReadings = 3;
// A job that states no idle.timeout is said to be idle after so long. Nothing ends it.
inline constexpr std::chrono::minutes kLongIdle{5};
// So long before its end a job is warned.
inline constexpr std::chrono::minutes kFirstEndWarning{30}, kLastEndWarning{5};

// By node; the error says why there is none.
using GpuReadings = std::map<std::string, std::expected<GpuReading, std::string>>;

// The GPUs of one pod, at least one.
struct PodGpus {
  std::string node;
  std::string pod;  // "namespace/name"
  std::vector<std::int32_t> gpus;

  bool operator==(const PodGpus&) const = default;
};

enum class Use : std::uint8_t { kUnknown, kIdle, kBusy };
struct GangUse {
  Use use = Use::kUnknown;
  std::string problem{};  // why it is unknown
};

// Busy if any GPU of the gang is used for `below` percent or more. If none is: unknown if one was not read or
// the gang has no GPU, and idle if all were read. A GPU is found by its pod if the node's endpoint names pods
// at all, else by its index. O(GPUs log GPUs of a node).
GangUse use_of(const std::vector<PodGpus>& gang, std::int32_t below, const GpuReadings& readings);

// What the gang's GPUs draw together; nullopt: one of them was not read, or it has none. A GPU is found as
// above.
std::optional<std::int64_t> milliwatts_of(const std::vector<PodGpus>& gang, const GpuReadings& readings);

// What a job's life is told.
struct Idleness {
  bool is_known = false;  // its GPUs were read lately, and its program asked, as far as each is to be
  crds::Duration idle{};  // for how long all of that has been idle; 0: something is in use
  std::string problem{};  // why it is not known; "": it was not tried yet
  bool of_gpus = true;    // its GPUs are read
  bool of_use = false;    // its program is asked when somebody last used it
};

// What is known of one attempt of a job.
class IdleClock {
 public:
  // One reading, in their order.
  void add(client::TimePoint at, Use use, client::Duration interval);
  // How long it has been idle without being seen busy. It begins anew after kMissedReadings intervals in
  // which nothing was known.
  client::Duration idle() const { return idle_; }
  bool is_known(client::TimePoint now, client::Duration interval) const {
    return known_ && now - *known_ <= kMissedReadings * interval;
  }

 private:
  std::optional<client::TimePoint> known_;  // the last reading that was not kUnknown
  bool last_was_idle_ = false;
  client::Duration idle_{};
};

}  // namespace muster::reconcilers
