// How long jobs run, learned from those of the same Project, user and size that have succeeded. Pure. What is
// learned stands in the Project's status (`runTimes`) and is bounded there.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/crds/training_job.h"
#include "muster/crds/usage.h"
#include "muster/reconcilers/placement/translation.h"

namespace muster::reconcilers {

// Who the work is for: a label of the job.
inline constexpr std::string_view kUserLabel = "muster.dev/user";
std::string user_of(const crds::TrainingJob& job);  // "": not said
// The GPUs that it asks for at least.
crds::MilliGpu size_of(const crds::TrainingJob& job, const Translation& wish);

// One more job has run for so long.
void learn(std::vector<crds::RunTimes>& known, const std::string& user, crds::MilliGpu gpus,
           std::int64_t seconds);

struct UsualRunTime {
  crds::Duration median{}, percentile_90{};
  bool operator==(const UsualRunTime&) const = default;
};
// Fewer runs say nothing.
inline constexpr std::size_t kFewestRuns = 3;
// Of the user's jobs of that size; where these are too few, of all users' jobs of that size. nullopt: these
// are too few as well. O(runs x log).
std::optional<UsualRunTime> usual_run_time(const std::vector<crds::RunTimes>& known, const std::string& user,
                                           crds::MilliGpu gpus);
// The same, of whatever knows the Project.
using UsualRunTimes = std::function<std::optional<UsualRunTime>(
    const std::string& project, const std::string& user, crds::MilliGpu gpus)>;

}  // namespace muster::reconcilers
