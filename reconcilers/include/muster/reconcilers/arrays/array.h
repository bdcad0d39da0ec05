// The reconciler of arrays: TrainingJobs with spec.array. plan_array() says which indexes get a job and which
// jobs go; this does it, in the order that survives a crash: first the record, then what follows from it.
//
// Two things keep an index from being run twice. A job that has ended is deleted only when the record has its
// index. And no job is made by a record that may be old: before the first, a process that comes to lead has
// written this array's status, guarded by its resourceVersion, or has read it from the API server and found
// that its watch has come so far.
#pragma once

#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/reconcilers/arrays/array_parameters.h"
#include "muster/reconcilers/arrays/array_status.h"
#include "muster/reconcilers/caches/reconciler_context.h"

namespace muster::reconcilers {

class ArrayReconciler {
 public:
  using Job = client::Ptr<Object<crds::TrainingJob>>;

  explicit ArrayReconciler(ReconcilerContext& context) : context_(context), parameters_(context) {}

  // What the reconciler of jobs has found out about it.
  struct Wish {
    ArrayRefusal refused{};                            // why no index begins; an empty reason: they do
    std::vector<crds::Dependency> met_dependencies{};  // for the status
  };
  // Level-based and idempotent. `array` has spec.array, is not being deleted, and its status can be read.
  client::Task<Outcome> reconcile(client::Key key, Job array, Wish wish);
  // How long the array is to be left alone. To look at one takes time by the number of its jobs, and each of
  // them that changes asks for a look. So looks at one array take a fifth of the time at most.
  std::optional<client::Duration> rest_of(const client::Key& key) const;
  void forget(const client::Key& key);

 private:
  // Its jobs that are there.
  struct Indexes {
    std::vector<Job> objects;
    std::vector<const crds::TrainingJob*> jobs;
    std::vector<IndexJob> seen;
  };
  enum class Written : std::uint8_t { kStands, kDeferred, kFailed };

  Indexes indexes_of(const Job& array) const;
  ArrayPlan plan_for(const Job& array, const Indexes& indexes) const;
  client::Task<Written> write(const client::Key& key, Job array, crds::TrainingJobStatus wanted);
  client::Task<bool> is_sure(const client::Key& key, const Job& array);
  client::Task<bool> remove(Job array, std::vector<Job> jobs);
  bool has_begun(const Job& array) const;
  client::Task<Outcome> begin(const client::Key& key, Job array, std::vector<std::int32_t> indexes,
                              const ParameterLines* lines, bool is_record_deferred);
  client::Task<ArrayRefusal> create(Job array, std::vector<std::int32_t> indexes,
                                    const ParameterLines* lines);
  client::Task<ArrayRefusal> create_one(Job array, std::int32_t index, std::string body);
  void tell(const Job& array, const ArrayPlan& plan, const Indexes& indexes) const;
  void note(const Job& array, client::EventType type, const std::string& reason, const char* action,
            const std::string& text) const;

  ReconcilerContext& context_;
  ArrayParameters parameters_;
  std::map<client::Key, client::TimePoint> rests_until_;
  std::map<client::Key, client::TimePoint> written_;  // the last status
  std::map<client::Key, std::string> sure_;           // -> uid: its record is not older than this process
  std::map<client::Key, ArrayRefusal> refused_;       // what was said last
};

}  // namespace muster::reconcilers
