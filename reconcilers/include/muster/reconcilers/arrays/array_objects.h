// The TrainingJob that an array makes for an index, and how it is known again. Pure.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/crds/training_job.h"
#include "muster/reconcilers/arrays/array_plan.h"
#include "muster/reconcilers/common/objects.h"

namespace muster::reconcilers {

// What the index runs: the array's spec without what is about the array as a whole (array, suspend,
// ttlAfterFinished). Its name, labels and annotations say which index it is. Of the array's own labels and
// annotations it has muster.dev/user, and none by which GitOps tools know what is theirs.
crds::TrainingJob index_job(const crds::TrainingJob& array, std::int32_t index);

// The same of many indexes. What they have in common is made once: O(1) for each, also where the array has
// thousands of parameters.
class IndexJobs {
 public:
  // `lines`: the parameters, where they are not in the spec. Both outlive it.
  IndexJobs(const crds::TrainingJob& array, const std::vector<std::string>& lines);

  // As it is made: owned by the array, without a status.
  crds::Json json(std::int32_t index) const;

 private:
  const crds::TrainingJob& array_;
  const std::vector<std::string>& parameters_;
  crds::Json common_;
};

// The job is controlled by an array: by a TrainingJob. Whether that is there is another question.
bool is_index_job(const Object<crds::TrainingJob>& job);
// Which index of the array it is, by its name and its label; nullopt: of no index that the array has.
std::optional<std::int32_t> index_in(const crds::TrainingJob& array, const crds::TrainingJob& job);

// How far it has come.
IndexJob seen_as_index(const crds::TrainingJob& job, std::int32_t index);

// How the array has ended; nullopt: it has not.
std::optional<ArrayEnd::Kind> ended_as(const crds::TrainingJobStatus& status);

// What the status remembers. `status` may have no array yet.
ArrayRecord record_of(const crds::JobArray& array, const crds::TrainingJobStatus& status);

// The index is to hold nothing, by its array: that is suspended, or lets fewer run.
bool is_suspended_by(const crds::TrainingJob& array, std::int32_t index);

}  // namespace muster::reconcilers
