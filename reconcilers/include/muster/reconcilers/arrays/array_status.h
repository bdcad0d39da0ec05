// What an array's indexes come to, for its status. Pure.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "muster/crds/training_job.h"
#include "muster/reconcilers/arrays/array_plan.h"
#include "muster/reconcilers/lifecycle/dependencies.h"

namespace muster::reconcilers {

// Why a job of an index was not made, or why the array cannot run as it is; an empty reason: nothing is
// wrong.
struct ArrayRefusal {
  std::string reason;
  std::string message;
  bool is_for_good = false;  // somebody has to change the array
  bool only_waits = false;   // nothing is wrong with the array: what it needs is not there yet
};

// What the other jobs are to it that it waits for before its first index.
ArrayRefusal refusal_of(const DependencyVerdict& verdict);

// The status as it is to be. `array.status` is what was, `plan` follows from it, and `jobs` are those that
// the plan was made for. O(jobs).
crds::TrainingJobStatus array_status(const crds::TrainingJob& array, const ArrayPlan& plan,
                                     const std::vector<const crds::TrainingJob*>& jobs,
                                     const ArrayRefusal& refused, crds::Time now);

enum class ArrayNews : std::uint8_t {
  kNone,      // nothing differs
  kCounters,  // nothing but numbers, and words that repeat numbers: such a write can wait for long
  kRecord,    // indexes have ended: it can wait a moment, in which more may end
  kUrgent,    // anything else
};
ArrayNews compare(const crds::TrainingJobStatus& before, const crds::TrainingJobStatus& after);

}  // namespace muster::reconcilers
