// The account of one Project or Queue: what its work has used, in all and by day. Amounts are integers, finer
// than what a status says: thousandths of GPUs and CPUs, and MiB, times seconds.
// Costs are thousandths of the currency and energy is in milliwatts, also times seconds.
#pragma once

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/crds/usage.h"

namespace muster::reconcilers {

// What work does with what it holds.
enum class Doing : std::uint8_t { kStarting, kRunning, kSaving, kIdle };
inline constexpr std::size_t kDoings = 4;

// What is held at one instant.
struct Held {
  std::array<std::int64_t, kDoings> milli_gpus{};  // by Doing
  std::int64_t milli_cpus = 0;
  std::int64_t memory_mib = 0;
  // What some of the GPUs draw, as it was read, and how many these are.
  std::int64_t read_milliwatts = 0, read_milli_gpus = 0;

  std::int64_t& gpus(Doing doing) { return milli_gpus[static_cast<std::size_t>(doing)]; }
  void add(const Held& other);
  void take(const Held& other);  // what was added before
  std::int64_t all_milli_gpus() const;
  bool operator==(const Held&) const = default;
};

// What the NodePool says of its GPUs; 0: nothing.
struct Rates {
  crds::MilliCost price;   // of a GPU in an hour
  std::int64_t watts = 0;  // of a GPU; where that was read the reading counts
  bool operator==(const Rates&) const = default;
};

// Whose work it is, and where it runs. "": not said.
struct Part {
  std::string user, pool, model;
  auto operator<=>(const Part&) const = default;
};

// What was held, times seconds.
struct Used {
  Held held;                     // without what was read
  std::int64_t lost_milli = 0;   // milli-GPU-seconds of work that was thrown away
  std::int64_t hourly_cost = 0;  // 3600 of these are one thousandth of the currency
  std::int64_t milliwatt_seconds = 0;

  void add(const Held& amounts, const Rates& rates, std::int64_t seconds);
  std::int64_t milli_gpu_seconds() const { return held.all_milli_gpus(); }
  bool operator==(const Used&) const = default;
};

class Account {
 public:
  // Goes on from what was written.
  explicit Account(const crds::UsageStatus& written);

  // Up to when everything was counted in what was written; nullopt: nothing was.
  std::optional<crds::Time> counted_until() const { return counted_until_; }

  // What was held before `told` is not in since_start(): another process has told it in its counters.
  // Complexity: O(days between the two instants x log).
  void count(const Part& part, const Held& held, const Rates& rates, crds::Time begin, crds::Time end,
             std::optional<crds::Time> told = std::nullopt);
  // Work of this part was thrown away.
  void lose(const Part& part, std::int64_t gpu_seconds, crds::Time at);
  // A job was admitted for the first time, which had waited for so long.
  void note_start(std::int64_t waited_seconds, crds::Time at);
  // Something else of the object is new, which stands beside this account (runTimes).
  void note_change() { has_changed_ = true; }
  // Something is held no longer: no status of a job tells for sure that it was.
  void note_end() { has_ended_ = true; }
  // Since the last status().
  bool has_ended() const { return has_ended_; }

  // As it is to be written. `now`: until then everything is counted. If nothing was added since the last
  // call, it is the same as then, until the next day begins.
  crds::UsageStatus status(crds::Time now);
  // Since this process began: for counters.
  const Used& since_start() const { return since_start_; }
  // What a GPU of the pool drew on average on the latest day that tells; nullopt: none does. O(days x log).
  std::optional<std::int64_t> usual_watts(const std::string& pool) const;

 private:
  using PartSums = std::map<std::string, Used>;  // CPUs and memory of it are not written
  struct Day {
    Used sum;
    PartSums users, pools, models;
    crds::Waits waits;
  };
  static PartSums read(const std::vector<crds::UsagePart>& written);
  static std::vector<crds::UsagePart> by_name(const PartSums& parts);
  static std::vector<crds::UsagePart> most_first(PartSums parts);

  Day& day_of(std::chrono::sys_days date);
  static void add_to_parts(Day& day, const Part& part, const Used& used);
  bool begins_a_day(crds::Time now) const;

  std::optional<crds::Time> counted_until_, written_until_;
  bool has_changed_ = false, has_ended_ = false;
  Used total_, since_start_;
  std::map<std::chrono::sys_days, Day> days_;
};

}  // namespace muster::reconcilers
