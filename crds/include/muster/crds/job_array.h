// spec.array of a TrainingJob: many gangs of one template, and what has become of them.
#pragma once

#include <array>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "muster/crds/field.h"
#include "muster/crds/time.h"

namespace muster::crds {

enum class ArrayFailures : std::uint8_t { kContinue, kStop };
constexpr std::array<std::string_view, 2> names_of(ArrayFailures) {
  return {"Continue", "Stop"};
}

enum class ArraySuccess : std::uint8_t { kAll, kAny, kAtLeast, kResult };
constexpr std::array<std::string_view, 4> names_of(ArraySuccess) {
  return {"All", "Any", "AtLeast", "Result"};
}

// When an array is complete.
struct ArraySuccessPolicy {
  ArraySuccess policy = ArraySuccess::kAll;
  std::optional<std::int32_t> count;  // of kAtLeast: so many indexes

  static constexpr auto fields() {
    using T = ArraySuccessPolicy;
    return fields_of(field("policy", &T::policy), field("count", &T::count));
  }
  bool operator==(const ArraySuccessPolicy&) const = default;
};

// A key of a ConfigMap in the job's namespace.
struct ConfigMapKey {
  std::string name, key;

  static constexpr auto fields() {
    return fields_of(field("name", &ConfigMapKey::name), field("key", &ConfigMapKey::key));
  }
  bool operator==(const ConfigMapKey&) const = default;
};

// Where parameters are that are not in the spec: line i is that of index i.
struct ArrayParametersFrom {
  ConfigMapKey config_map_key_ref;

  static constexpr auto fields() {
    return fields_of(field("configMapKeyRef", &ArrayParametersFrom::config_map_key_ref));
  }
  bool operator==(const ArrayParametersFrom&) const = default;
};

// Many gangs of one template: indexes from 0. Each is a TrainingJob of its own.
struct JobArray {
  std::int32_t count = 1;
  std::optional<std::int32_t> parallelism{};  // how many wait or run at once; absent: all
  ArrayFailures failures = ArrayFailures::kContinue;
  std::optional<std::int32_t> max_failures{};  // with one more none goes on; absent: any number may fail
  std::vector<std::string> parameters{};       // of each index; empty: none has one
  std::optional<ArrayParametersFrom> parameters_from{};
  std::optional<std::int32_t> retry_failed{};  // a counter; absent: 0
  ArraySuccessPolicy success{};

  static constexpr auto fields() {
    using T = JobArray;
    return fields_of(field("count", &T::count), field("parallelism", &T::parallelism),
                     field("failures", &T::failures), field("maxFailures", &T::max_failures),
                     field("parameters", &T::parameters), field("parametersFrom", &T::parameters_from),
                     field("retryFailed", &T::retry_failed), field("success", &T::success));
  }
  bool operator==(const JobArray&) const = default;
};

// How many indexes of an array wait or run at once.
inline std::int32_t parallelism_of(const JobArray& array) {
  return array.parallelism.value_or(array.count);
}

// The newest checkpoint of one index. Where it is stands in the status of that index's job.
struct IndexCheckpoint {
  std::int32_t index = 0;
  std::int64_t step = 0;
  std::optional<Time> saved_at{};

  static constexpr auto fields() {
    using T = IndexCheckpoint;
    return fields_of(field("index", &T::index), field("step", &T::step), field("savedAt", &T::saved_at));
  }
  bool operator==(const IndexCheckpoint&) const = default;
};

// So many of those that run are told of: the status stays small.
inline constexpr std::size_t kMaxIndexCheckpoints = 100;

// What has become of the indexes of an array. Indexes are written as ranges: "0-41,43".
struct ArrayStatus {
  std::int32_t pending = 0;  // their turn has not come
  std::int32_t waiting = 0;  // they have a job that holds nothing
  std::int32_t running = 0;  // they have a job that holds its places
  std::int32_t succeeded = 0, failed = 0;
  std::int32_t stopped = 0;  // they had not ended when the array had
  // The record: what is in it has ended, and is not run again.
  std::string succeeded_indexes, failed_indexes;
  std::string running_indexes;
  std::string held_indexes;   // they have begun, and are suspended because parallelism was lowered
  std::string retry_indexes;  // they have failed and are to be run again, and have not begun to
  std::int32_t retried = 0;   // the highest spec.array.retryFailed that was honoured
  std::optional<std::int32_t> result_index;
  std::vector<IndexCheckpoint> checkpoints;  // of those that run, ascending; at most kMaxIndexCheckpoints

  static constexpr auto fields() {
    using T = ArrayStatus;
    return fields_of(field("pending", &T::pending), field("waiting", &T::waiting),
                     field("running", &T::running), field("succeeded", &T::succeeded),
                     field("failed", &T::failed), field("stopped", &T::stopped, Zero::kOmit),
                     field("succeededIndexes", &T::succeeded_indexes),
                     field("failedIndexes", &T::failed_indexes), field("runningIndexes", &T::running_indexes),
                     field("heldIndexes", &T::held_indexes), field("retryIndexes", &T::retry_indexes),
                     field("retried", &T::retried, Zero::kOmit), field("resultIndex", &T::result_index),
                     field("checkpoints", &T::checkpoints));
  }
  bool operator==(const ArrayStatus&) const = default;
};

}  // namespace muster::crds
