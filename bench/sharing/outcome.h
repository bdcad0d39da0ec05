// What came out of a day, from the simulation's own report, and whether it was right.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "sharing/idle_room.h"
#include "sharing/input.h"

namespace muster::bench {

// Seconds from submission to the first start or, without one, to the end.
struct DayWaits {
  // While they waited, the minimums of all jobs of the project that go before them (by priority, then by age)
  // were, with their own, within the project's quota; they were not; not preemptible.
  std::vector<double> entitled, beyond_quota, interactive;
  // Of all that were within the quota so, the interactive ones too: without the time that the first victims
  // were given to save, as far as it waited for that.
  std::vector<double> beyond_grace;
};

// What became of one job: who reads a day begins with those for whom it went worst.
struct DayStory {
  std::string job;
  bool is_within_quota = false;
  double beyond_grace = 0;  // seconds it waited, without the time that its first victims were given to save
  double attempts = 0;
};

struct DayOutcome {
  // GPU-seconds. `first_starts`: until a job worked in its first attempt, which nobody can avoid.
  double capacity = 0, allocated = 0, useful = 0;
  double first_starts = 0, lost_work = 0, stopping = 0, restarting = 0, resizing = 0;
  std::vector<double> useful_of;  // each project, with its first starts
  std::vector<double> attempts;   // of each job that has started
  DayWaits waits;
  std::vector<DayStory> stories;  // of all jobs that were submitted
  std::size_t not_started = 0, preemptions = 0, moves = 0, resizes = 0;
  IdleRoom idle{};                      // GPU-seconds
  std::vector<std::string> violations;  // as sentences; at most kMaxDayViolations, then one that says so

  double lost() const { return lost_work + stopping + restarting + resizing; }
};
inline constexpr std::size_t kMaxDayViolations = 20;

// `report`: JSON of the simulation (docs/simulate.md), played until the window ends. Walks through its events
// with books of its own and finds: a GPU given twice, a gang that is not whole or of another shape, one that
// runs twice, one that starts before it is submitted, one that is not preemptible and has to give something
// up, something taken for nobody, jobs that are not preemptible above their project's quota (not kFifo), a
// project above its limit (kStaticQuotas), waits and sums that differ from those that the simulation reports,
// and GPU time that is neither useful nor lost for a reason.
DayOutcome day_outcome(const nlohmann::json& report, const Day& day, Sharing policy);

}  // namespace muster::bench
