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
//
// An index that has failed and is to be run again is taken out of the record and put down as such, together
// with the number of the retry. Its old job has a lower number: it goes, and its end counts no more. Its new
// job has this number.
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
  bool leaves = false;     // its object is being deleted
  std::string result{};    // JSON that a pod of one that has succeeded has said; "": none has
  std::int32_t retry = 0;  // the number of the retry that it was made after
  crds::Time ended{};      // of one that has ended

  bool has_ended() const { return state == State::kSucceeded || state == State::kFailed; }
};

// What the status remembers.
struct ArrayRecord {
  explicit ArrayRecord(std::int32_t count) : succeeded(count), failed(count), held(count), again(count) {}

  IndexSet succeeded, failed;            // they have ended
  IndexSet held;                         // they have begun, and are suspended: parallelism was lowered
  IndexSet again;                        // they have failed, and have no new job yet
  std::int32_t retried = 0;              // the number of the last retry
  std::optional<std::int32_t> result{};  // the first of `succeeded` that has said one
  std::string said{};                    // what it has said: its job goes

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
  bool reopened = false;     // it had failed, and goes on: indexes are run again
  std::int32_t retries = 0;  // so many indexes are run again that were not to be before
  // Indexes that this record has and the one before had not, in their order.
  std::vector<std::int32_t> news{};
  std::vector<std::int32_t> create{};  // these get their job
  std::vector<std::size_t> remove{};   // indexes into the jobs: these go
};

// So many jobs of failed indexes stay until the array goes, for their logs: those that failed first.
inline constexpr std::size_t kMaxFailedKept = 10;

// `suspended`: spec.suspend. `ended`: as the status says that the array has. `jobs`: all that are there, at
// most one of an index. O(count + jobs log jobs).
//  - Who has ended is recorded in the order of the ends. What the array waits for is judged by all of them.
//  - While more wait and run than parallelism allows, jobs that have never held a place go, the highest index
//    first. Of the others so many are held: those that hold no place first, then the highest index. They are
//    suspended, and go on before any new index gets a job.
//  - When the array has ended, all go but some that failed.
//  - Where spec.array.retryFailed is above what was honoured, the indexes that have failed are run again: as
//    soon as each index of the retry before has its new job, which has that number. An array that has failed
//    goes on then. One that is complete stays so.
ArrayPlan plan_array(const crds::JobArray& array, bool suspended, std::optional<ArrayEnd::Kind> ended,
                     const ArrayRecord& before, const std::vector<IndexJob>& jobs);

// The indexes that have failed are to be run again.
bool is_retry_due(const crds::JobArray& array, std::int32_t retried, std::optional<ArrayEnd::Kind> ended);

}  // namespace muster::reconcilers
