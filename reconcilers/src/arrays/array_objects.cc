#include "muster/reconcilers/arrays/array_objects.h"

#include <charconv>
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

// What is of this index alone.
crds::ObjectMeta metadata_of(const crds::TrainingJob& array, std::int32_t index,
                             const std::vector<std::string>& parameters) {
  crds::ObjectMeta meta;
  meta.name = index_job_name(array.metadata.name, index);
  meta.ns = array.metadata.ns;
  meta.labels = {{std::string(kArrayLabel), job_label(array.metadata.name)},
                 {std::string(kArrayIndexLabel), std::to_string(index)}};
  carry_over(array.metadata.labels, meta.labels);
  carry_over(array.metadata.annotations, meta.annotations);
  if (static_cast<std::size_t>(index) < parameters.size())
    meta.annotations[std::string(kArrayParameterAnnotation)] = parameters[static_cast<std::size_t>(index)];
  const std::int32_t retried = array.status.array ? array.status.array->retried : 0;
  if (retried > 0) meta.annotations[std::string(kArrayRetryAnnotation)] = std::to_string(retried);
  return meta;
}

crds::TrainingJobSpec spec_of_index(const crds::TrainingJob& array) {
  crds::TrainingJobSpec spec = array.spec;
  spec.array.reset();
  spec.depends_on.clear();
  spec.suspend = false;
  spec.ttl_after_finished.reset();
  return spec;
}

std::int32_t retry_of(const crds::TrainingJob& job) {
  const auto found = job.metadata.annotations.find(std::string(kArrayRetryAnnotation));
  std::int32_t retry = 0;
  if (found != job.metadata.annotations.end()) {
    const std::string& text = found->second;
    std::from_chars(text.data(), text.data() + text.size(), retry);
  }
  return retry;
}

}  // namespace

crds::TrainingJob index_job(const crds::TrainingJob& array, std::int32_t index) {
  crds::TrainingJob job;
  job.metadata = metadata_of(array, index, array.spec.array->parameters);
  job.spec = spec_of_index(array);
  return job;
}

IndexJobs::IndexJobs(const crds::TrainingJob& array, const std::vector<std::string>& lines)
    : array_(array),
      parameters_(array.spec.array->parameters.empty() ? lines : array.spec.array->parameters) {
  crds::TrainingJob job;
  job.spec = spec_of_index(array);
  common_ = crds::to_json(job);
  common_.erase("status");
}

crds::Json IndexJobs::json(std::int32_t index) const {
  crds::TrainingJob named;
  named.metadata = metadata_of(array_, index, parameters_);
  crds::Json object = common_;
  object["metadata"] = crds::to_json(named)["metadata"];
  object["metadata"]["ownerReferences"] = owner_references(array_);
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
  if (seen.state == State::kSucceeded) seen.result = status.result;
  seen.retry = retry_of(job);
  seen.ended = status.finished_at.value_or(crds::Time{});
  return seen;
}

std::optional<ArrayEnd::Kind> ended_as(const crds::TrainingJobStatus& status) {
  if (crds::is_true(status.conditions, "Complete")) return ArrayEnd::Kind::kComplete;
  if (crds::is_true(status.conditions, "Failed")) return ArrayEnd::Kind::kFailed;
  return std::nullopt;
}

ArrayRecord record_of(const crds::JobArray& array, const crds::TrainingJobStatus& status) {
  ArrayRecord record(array.count);
  if (!status.array) return record;
  record.succeeded = IndexSet::parse(status.array->succeeded_indexes, array.count);
  record.failed = IndexSet::parse(status.array->failed_indexes, array.count);
  record.held = IndexSet::parse(status.array->held_indexes, array.count);
  record.again = IndexSet::parse(status.array->retry_indexes, array.count);
  record.retried = status.array->retried;
  record.result = status.array->result_index;
  record.said = status.result;
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
