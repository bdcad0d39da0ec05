// What the work of a Project or Queue has used, in time. The ledger of the operator keeps it
// (reconcilers/usage/ledger.h).
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/crds/field.h"
#include "muster/crds/time.h"

namespace muster::crds {

// All in GPU-seconds, but for the last two. `starting`, `saving`, `idle` and `lost` are parts of
// `gpu_seconds` that do not overlap. What is left of it was useful.
struct Usage {
  std::int64_t gpu_seconds = 0;  // held
  std::int64_t starting = 0;     // from admission until all pods were ready
  std::int64_t saving = 0;       // by pods that were told to go, until they had ended
  std::int64_t idle = 0;         // while the readings of the GPUs said that nothing ran on them
  std::int64_t lost = 0;         // work that was done, and thrown away
  std::int64_t cpu_seconds = 0;
  std::int64_t memory_gib_seconds = 0;

  static constexpr auto fields() {
    using T = Usage;
    return fields_of(field("gpuSeconds", &T::gpu_seconds, Zero::kOmit),
                     field("starting", &T::starting, Zero::kOmit), field("saving", &T::saving, Zero::kOmit),
                     field("idle", &T::idle, Zero::kOmit), field("lost", &T::lost, Zero::kOmit),
                     field("cpuSeconds", &T::cpu_seconds, Zero::kOmit),
                     field("memoryGiBSeconds", &T::memory_gib_seconds, Zero::kOmit));
  }
  bool operator==(const Usage&) const = default;
};

// The part of one user, or of one pool.
struct UsagePart {
  std::string name;
  std::int64_t gpu_seconds = 0;

  static constexpr auto fields() {
    using T = UsagePart;
    return fields_of(field("name", &T::name), field("gpuSeconds", &T::gpu_seconds));
  }
  bool operator==(const UsagePart&) const = default;
};

struct UsageDay {
  std::string date;  // UTC: "2026-01-31"
  Usage sum;
  // By label muster.dev/user. At most kMostUsers, those with most first; the others are summed up as
  // "others".
  std::vector<UsagePart> users;
  std::vector<UsagePart> pools;  // by name

  static constexpr auto fields() {
    using T = UsageDay;
    return fields_of(field("date", &T::date), field("sum", &T::sum), field("users", &T::users),
                     field("pools", &T::pools));
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

  static constexpr auto fields() {
    using T = UsageStatus;
    return fields_of(field("until", &T::until), field("total", &T::total),
                     field("last30Days", &T::last_30_days), field("last7Days", &T::last_7_days),
                     field("days", &T::days));
  }
  bool operator==(const UsageStatus&) const = default;
};

}  // namespace muster::crds
