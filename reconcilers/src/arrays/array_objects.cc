#include "muster/reconcilers/arrays/array_objects.h"

#include <nlohmann/json.hpp>

#include "muster/crds/codec.h"
#include "muster/reconcilers/common/owner.h"
#include "muster/reconcilers/pods/names.h"
#include "muster/reconcilers/usage/run_times.h"

namespace muster::reconcilers {
namespace {

void carry_over(const crds::StringMap& from, crds::StringMap& to) {
  const std::string user(kUserLabel);
  if (const auto found = from.find(user); found != from.end()) to[user] = found->second;
}

}  // namespace

crds::TrainingJob index_job(const crds::TrainingJob& array, std::int32_t index) {
  crds::TrainingJob job;
  job.metadata.name = index_job_name(array.metadata.name, index);
  job.metadata.ns = array.metadata.ns;
  job.metadata.labels = {{std::string(kArrayLabel), job_label(array.metadata.name)},
                         {std::string(kArrayIndexLabel), std::to_string(index)}};
  carry_over(array.metadata.labels, job.metadata.labels);
  carry_over(array.metadata.annotations, job.metadata.annotations);
  job.spec = array.spec;
  job.spec.array.reset();
  job.spec.suspend = false;
  job.spec.ttl_after_finished.reset();
  const auto& parameters = array.spec.array->parameters;
  if (static_cast<std::size_t>(index) < parameters.size())
    job.metadata.annotations[std::string(kArrayParameterAnnotation)] =
        parameters[static_cast<std::size_t>(index)];
  return job;
}

crds::Json index_job_json(const crds::TrainingJob& array, std::int32_t index) {
  crds::Json object = crds::to_json(index_job(array, index));
  object["metadata"]["ownerReferences"] = owner_references(array);
  object.erase("status");
  return object;
}

bool is_index_job(const Object<crds::TrainingJob>& job) {
  return job.owner_kind == crds::TrainingJob::kKind;
}

std::optional<std::int32_t> index_in(const crds::TrainingJob& array, const crds::TrainingJob& job) {
  const auto index = array_index_of(job.metadata.labels);
  if (!index || !array.spec.array || *index >= array.spec.array->count) return std::nullopt;
  return job.metadata.name == index_job_name(array.metadata.name, *index) ? index : std::nullopt;
}

IndexJob seen_as_index(const crds::TrainingJob& job, std::int32_t index) {
  using State = IndexJob::State;
  const auto& status = job.status;
  IndexJob seen{.index = index};
  seen.leaves = job.metadata.deletion_timestamp.has_value();
  seen.state = crds::is_true(status.conditions, "Complete") ? State::kSucceeded
               : crds::is_true(status.conditions, "Failed") ? State::kFailed
               : status.assignment.attempt != 0             ? State::kHolds
               : status.attempt != 0                        ? State::kWaits
                                                            : State::kNew;
  seen.has_result = seen.state == State::kSucceeded && !status.result.empty();
  seen.ended = status.finished_at.value_or(crds::Time{});
  return seen;
}

ArrayRecord record_of(const crds::JobArray& array, const crds::TrainingJobStatus& status) {
  ArrayRecord record(array.count);
  if (!status.array) return record;
  record.succeeded = IndexSet::parse(status.array->succeeded_indexes, array.count);
  record.failed = IndexSet::parse(status.array->failed_indexes, array.count);
  record.held = IndexSet::parse(status.array->held_indexes, array.count);
  record.result = status.array->result_index;
  return record;
}

bool is_suspended_by(const crds::TrainingJob& array, std::int32_t index) {
  if (!array.spec.array) return false;
  if (array.spec.suspend) return true;
  const auto& status = array.status.array;
  if (!status || status->held_indexes.empty()) return false;
  return IndexSet::parse(status->held_indexes, array.spec.array->count).contains(index);
}

}  // namespace muster::reconcilers
