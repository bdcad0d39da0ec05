// What the work of a Project or Queue has used, in time, and what NodePools had for it. The ledger of the
// operator keeps it (reconcilers/usage/ledger.h).
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/crds/duration.h"
#include "muster/crds/field.h"
#include "muster/crds/quantity.h"
#include "muster/crds/time.h"

namespace muster::crds {

// Days of usage are those of UTC, written as "2026-01-31". So their texts are in order as the days are.
inline std::string day_text(std::chrono::sys_days day) {
  return to_string(Time{day}).substr(0, std::string_view("2026-01-31").size());
}
// nullopt: it is no such text.
inline std::optional<std::chrono::sys_days> parse_day(const std::string& text) {
  const auto midnight = parse_time(text + "T00:00:00Z");
  if (!midnight) return std::nullopt;
  return std::chrono::floor<std::chrono::days>(*midnight);
}

// The first five are in GPU-seconds. `starting`, `saving`, `idle` and `lost` are parts of
// `gpu_seconds` that do not overlap. What is left of it was useful.
struct Usage {
  std::int64_t gpu_seconds = 0;  // held
  std::int64_t starting = 0;     // from admission until all pods were ready
  std::int64_t saving = 0;       // by pods that were told to go, until they had ended
  std::int64_t idle = 0;         // while the readings of the GPUs said that nothing ran on them
  std::int64_t lost = 0;         // work that was done, and thrown away
  std::int64_t cpu_seconds = 0;
  std::int64_t memory_gib_seconds = 0;
  // What the NodePools took for the GPUs, at the prices of the time; absent: none has stated a price.
  std::optional<MilliCost> cost{};
  std::int64_t watt_hours = 0;  // drawn by the GPUs, as far as NodePools or readings tell

  static constexpr auto fields() {
    using T = Usage;
    return fields_of(field("gpuSeconds", &T::gpu_seconds, Zero::kOmit),
                     field("starting", &T::starting, Zero::kOmit), field("saving", &T::saving, Zero::kOmit),
                     field("idle", &T::idle, Zero::kOmit), field("lost", &T::lost, Zero::kOmit),
                     field("cpuSeconds", &T::cpu_seconds, Zero::kOmit),
                     field("memoryGiBSeconds", &T::memory_gib_seconds, Zero::kOmit), field("cost", &T::cost),
                     field("wattHours", &T::watt_hours, Zero::kOmit));
  }
  bool operator==(const Usage&) const = default;
};

// The part of one user, one pool, or one model of GPUs. Its seconds are as in Usage.
struct UsagePart {
  std::string name;
  std::int64_t gpu_seconds = 0;
  std::optional<MilliCost> cost{};
  std::int64_t watt_hours = 0;
  std::int64_t starting = 0, saving = 0, idle = 0, lost = 0;

  static constexpr auto fields() {
    using T = UsagePart;
    return fields_of(field("name", &T::name), field("gpuSeconds", &T::gpu_seconds), field("cost", &T::cost),
                     field("wattHours", &T::watt_hours, Zero::kOmit),
                     field("starting", &T::starting, Zero::kOmit), field("saving", &T::saving, Zero::kOmit),
                     field("idle", &T::idle, Zero::kOmit), field("lost", &T::lost, Zero::kOmit));
  }
  bool operator==(const UsagePart&) const = default;
};

// How long jobs had waited when they were admitted for the first time.
struct Waits {
  std::int64_t starts = 0;   // how many these were
  std::int64_t seconds = 0;  // all together
  std::int64_t longest = 0;  // in seconds

  static constexpr auto fields() {
    using T = Waits;
    return fields_of(field("starts", &T::starts, Zero::kOmit), field("seconds", &T::seconds, Zero::kOmit),
                     field("longest", &T::longest, Zero::kOmit));
  }
  bool operator==(const Waits&) const = default;
};

struct UsageDay {
  std::string date;  // UTC: "2026-01-31"
  Usage sum;
  // By label muster.dev/user. At most kMostUsers, those with most first; the others are summed up as
  // "others".
  std::vector<UsagePart> users;
  std::vector<UsagePart> pools;   // by name
  std::vector<UsagePart> models;  // of GPUs, by name; GPUs whose node names no model are left out
  Waits waits{};                  // of jobs that were admitted on this day

  static constexpr auto fields() {
    using T = UsageDay;
    return fields_of(field("date", &T::date), field("sum", &T::sum), field("users", &T::users),
                     field("pools", &T::pools), field("models", &T::models), field("waits", &T::waits));
  }
  bool operator==(const UsageDay&) const = default;
};

struct UsageStatus {
  std::optional<Time> until;  // nothing later is counted; absent: nothing is counted yet
  Usage total;                // since the object was made
  Usage last_30_days;         // today and the 29 days before it
  Usage last_7_days;
  std::vector<UsageDay> days;  // newest first, at most kMostDays; a day without work is left out

  static constexpr std::size_t kMostDays = 31;
  static constexpr std::size_t kMostUsers = 32;
  static constexpr std::size_t kMostParts = 64;  // pools or models of a day; the schema's bound

  static constexpr auto fields() {
    using T = UsageStatus;
    return fields_of(field("until", &T::until), field("total", &T::total),
                     field("last30Days", &T::last_30_days), field("last7Days", &T::last_7_days),
                     field("days", &T::days));
  }
  bool operator==(const UsageStatus&) const = default;
};

// How long jobs of one user and one size ran until they had succeeded, in all their attempts.
struct RunTimes {
  std::string user;  // label muster.dev/user; "": not said
  MilliGpu gpus;     // what such a job asks for at least
  Duration median{};
  Duration percentile_90{};           // nine of ten ran no longer
  std::vector<std::int64_t> seconds;  // of each, the latest first, at most kMostRuns

  static constexpr std::size_t kMost = 32;  // of a Project; the one that was not added to for longest goes
  static constexpr std::size_t kMostRuns = 20;

  static constexpr auto fields() {
    using T = RunTimes;
    return fields_of(field("user", &T::user), field("gpus", &T::gpus), field("median", &T::median),
                     field("percentile90", &T::percentile_90), field("seconds", &T::seconds));
  }
  bool operator==(const RunTimes&) const = default;
};

// What a NodePool had, in GPU-seconds of healthy GPUs of usable nodes.
struct CapacityDay {
  std::string date;
  std::int64_t gpu_seconds = 0;
  std::int64_t unallocated = 0;  // of these: nobody held them

  static constexpr auto fields() {
    using T = CapacityDay;
    return fields_of(field("date", &T::date), field("gpuSeconds", &T::gpu_seconds),
                     field("unallocated", &T::unallocated));
  }
  bool operator==(const CapacityDay&) const = default;
};
struct CapacityUsage {
  std::optional<Time> until;      // nothing later is counted; absent: nothing is counted yet
  std::int64_t gpu_seconds = 0;   // since it was first counted
  std::int64_t unallocated = 0;   // of these
  std::vector<CapacityDay> days;  // newest first, at most UsageStatus::kMostDays

  static constexpr auto fields() {
    using T = CapacityUsage;
    return fields_of(field("until", &T::until), field("gpuSeconds", &T::gpu_seconds, Zero::kOmit),
                     field("unallocated", &T::unallocated, Zero::kOmit), field("days", &T::days));
  }
  bool operator==(const CapacityUsage&) const = default;
};

}  // namespace muster::crds
