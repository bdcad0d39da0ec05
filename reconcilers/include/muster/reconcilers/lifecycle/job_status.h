// The status of a TrainingJob: what it says, and what in it follows from the rest.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "muster/crds/training_job.h"

namespace muster::reconcilers {

// What a place costs; empty: its GPUs, whole.
using PlaceCost = std::function<crds::MilliGpu(const crds::PodAssignment&)>;
crds::MilliGpu cost_of(const crds::PodAssignment& place, const PlaceCost& cost);

// Complete or Failed.
bool is_finished(const crds::TrainingJobStatus& status);

// Of a job that has no pods. A status that was restored from a backup tells of places that were held before
// the object was made, in a cluster of before. Until when nobody knows, so that time is not counted: they
// begin with the object. Otherwise it changes nothing, but for the seconds by which two clocks differ.
void begin_with_the_object(crds::TrainingJobStatus& status, const crds::ObjectMeta& object);

// It runs whole: its GPUs should be in use.
bool may_be_idle(const crds::TrainingJob& job);
// And it ends where they are not for long.
bool ends_when_idle(const crds::TrainingJob& job);

// Nothing but counters and the place in the queue differs: such a write may wait.
bool differs_in_counters_only(const crds::TrainingJobStatus& a, const crds::TrainingJobStatus& b);

// Adds the conditions that are missing, as Unknown. They are there from the first write, so that `kubectl
// wait` has something to wait for. Idle and InternalError are not among them: they come when there is
// something to say.
void start_conditions(crds::TrainingJobStatus& status, std::int64_t generation, crds::Time now);

// Sets what follows from the rest, for people: phase, the counters of pods, what the job holds. A finished
// job keeps the number of pods that succeeded. `leaving`: it holds no place any more, and pods of it are
// still there. `resizing`: members of it join or leave while it runs.
void describe(const crds::TrainingJobSpec& spec, crds::TrainingJobStatus& status, bool leaving = false,
              bool resizing = false, const PlaceCost& cost = {});

// Since when a job that has its places starts: since it got them, or was last whole. Attempts that fail in
// between do not change it. nullopt: it does not start.
std::optional<crds::Time> starts_since(const crds::TrainingJobStatus& status);

// The attempt whose pods serve: of a replica that moves, the one before until this one is ready.
std::int32_t serving_attempt(const crds::Assignment& assignment);

// Keys of the GPUs that the job's assignment gives it a share of. Empty where it has none, has ended,
// is on its way out, or was not looked at since its pods' GPUs were edited. Each once. O(pods of roles
// with shares).
std::vector<std::string> gpus_shared_by(const crds::TrainingJob& job);

}  // namespace muster::reconcilers
