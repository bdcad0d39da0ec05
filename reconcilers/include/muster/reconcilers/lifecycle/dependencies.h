// What a job that depends on others waits for (spec.dependsOn). Pure: the operator and `muster simulate` ask
// the same function. decisions/0064 says why it is so.
#pragma once

#include <functional>
#include <string>
#include <vector>

#include "muster/crds/training_job.h"

namespace muster::reconcilers {

struct DependencyVerdict {
  std::vector<crds::Dependency> met{};  // what status.metDependencies is to be
  std::string reason{};                 // why it waits; "": for no other job
  std::string message{};
  bool is_circle = false;  // the jobs wait for each other: none of them can ever start
};

// The job of this name in the namespace; nullptr: there is none.
using FindJob = std::function<const crds::TrainingJob*(const std::string& name)>;

// A job that was admitted once has begun; an array has when an index of it has a job, or had one.
bool has_begun(const crds::TrainingJobStatus& status);

// A job that has begun, or has ended, waits for nobody. Complexity: O(jobs that it waits for, also
// through others).
DependencyVerdict judge_dependencies(const crds::TrainingJob& job, const FindJob& find);

// Those of spec.dependsOn that it has not seen to be met; none once it has begun or has ended.
std::vector<crds::Dependency> awaited_by(const crds::TrainingJob& job);

// The other job has ended as `dependency` wants it.
bool is_met(const crds::Dependency& dependency, const crds::TrainingJobStatus& other);

// Jobs that depend on it are to look again.
bool is_other_dependency(const crds::TrainingJob& before, const crds::TrainingJob& now);

}  // namespace muster::reconcilers
