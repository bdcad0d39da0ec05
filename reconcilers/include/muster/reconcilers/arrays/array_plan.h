// What becomes of an array next: which indexes get a job, which jobs go, and whether the array has ended. One
// pure function: no I/O, no clock, no memory. The operator and `muster simulate` call it.
//
// Every index is a TrainingJob of its own. What makes a crash harmless is the record in the array's status:
//
//   an index is in the record              its job goes
//   it is not, and it has a job            that job is its job
//   it is not, and has none                it gets one when its turn comes
//
// The record is written before a job that has ended is deleted. So whoever comes next sees the end of an
// index in its job or in the record, and each index is run to its end once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "muster/crds/time.h"
#include "muster/crds/training_job.h"
#include "muster/reconcilers/arrays/index_set.h"

namespace muster::reconcilers {

// The job of one index, as it is seen.
struct IndexJob {
  enum class State : std::uint8_t {
    kNew,    // it has never held a place
    kWaits,  // it has, and holds none now
    kHolds,  // it holds its places
    kSucceeded,
    kFailed,
  };
  std::int32_t index = 0;
  State state = State::kNew;
  bool leaves = false;      // its object is being deleted
  bool has_result = false;  // it has succeeded, and a pod has said a result
  crds::Time ended{};       // of one that has ended

  bool has_ended() const { return state == State::kSucceeded || state == State::kFailed; }
};

// What the status remembers.
struct ArrayRecord {
  explicit ArrayRecord(std::int32_t count) : succeeded(count), failed(count), held(count) {}

  IndexSet succeeded, failed;            // they have ended
  IndexSet held;                         // they have begun, and are suspended: parallelism was lowered
  std::optional<std::int32_t> result{};  // the first of `succeeded` that has said one

  bool has(std::int32_t index) const { return succeeded.contains(index) || failed.contains(index); }
  bool operator==(const ArrayRecord&) const = default;
};

struct ArrayEnd {
  enum class Kind : std::uint8_t { kComplete, kFailed };
  Kind kind = Kind::kComplete;
  std::string reason;   // of the condition
  std::string message;  // a sentence
};

struct ArrayPlan {
  explicit ArrayPlan(std::int32_t count) : record(count) {}

  ArrayRecord record;  // to be written before anything else of the plan is done
  std::optional<ArrayEnd> end{};
  // Indexes that this record has and the one before had not, in their order.
  std::vector<std::int32_t> news{};
  std::vector<std::int32_t> create{};  // these get their job
  std::vector<std::size_t> remove{};   // indexes into the jobs: these go
};

// So many jobs of failed indexes stay until the array goes, for their logs: those that failed first.
inline constexpr std::size_t kMaxFailedKept = 10;

// `suspended`: spec.suspend. `has_ended`: the status says that the array has. `jobs`: all that are there, at
// most one of an index. O(count + jobs log jobs).
//  - Who has ended is recorded in the order of the ends. What the array waits for is judged by all of them.
//  - While more wait and run than parallelism allows, jobs that have never held a place go, the highest index
//    first. Of the others so many are held: those that hold no place first, then the highest index. They are
//    suspended, and go on before any new index gets a job.
//  - When the array has ended, all go but some that failed.
ArrayPlan plan_array(const crds::JobArray& array, bool suspended, bool has_ended, const ArrayRecord& before,
                     const std::vector<IndexJob>& jobs);

}  // namespace muster::reconcilers
