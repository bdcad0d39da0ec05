// The reconciler of TrainingJobs: one function from a key to an outcome. It looks at the caches,
// lets lifecycle.h say what is to be done, and does it in the order that survives a crash: status
// first, then pods.
#pragma once

#include <map>
#include <memory>
#include <set>
#include <string>

#include "muster/reconcilers/caches/world.h"
#include "muster/reconcilers/jobs/effective_job.h"
#include "muster/reconcilers/jobs/job_pods.h"
#include "muster/reconcilers/lifecycle/lifecycle.h"

namespace muster::reconcilers {

class TrainingJobReconciler {
 public:
  explicit TrainingJobReconciler(World& world);

  // Level-based and idempotent. Never runs twice at once for one key (the work queue sees to that).
  client::Task<Outcome> reconcile(client::Key key);
  // reconcile() or charge() threw for this job. Where it has no assignment it stands in no queue until they
  // are called again and succeed, so nothing is planned for it and no capacity is kept for it. What it has
  // stays charged.
  void set_aside(const client::Key& key);
  // What the cached status gives the job, and pods of its earlier attempts, are charged at once, and one that
  // waits stands in the queue. To be called when a job or its assignment is first seen: its reconcile may
  // have to wait for others' writes, what is not charged is free to others, and who does not stand in the
  // queue is passed by.
  void charge(const client::Key& key);
  // The newest state of a pod of this job; also the last one of a pod that is gone. A process that does not
  // lead calls it too: what a pod said last may be nowhere to be read when it does.
  void note(const client::Key& key, const client::Pod& pod);
  // The job has changed while another process leads: what was noted and counts no more is forgotten.
  void follow(const client::Key& key);

 private:
  using Job = JobPtr;
  // The API server's word that pods of this generation of the spec cannot be made.
  struct Rejection {
    std::string uid;
    std::int64_t generation = 0;
    std::string message;
  };

  void forget(const client::Key& key, const std::string& last_uid);
  void name_victims(crds::Waiting& verdict) const;
  NodeHealth health_of(const std::string& node) const;
  crds::MilliGpu charge_of(const crds::TrainingJobSpec& spec, const Translation& wish,
                           const crds::PodAssignment& place) const;
  Idleness idleness_of(const client::Key& key, const crds::TrainingJob& job);
  enum class Commit : std::uint8_t {
    kStands,    // on the server
    kDeferred,  // a mere counter; later
    kRefused,   // certainly not written
    kUnsure,    // may stand or not: nothing is done for the job until it was read again
  };
  client::Task<Commit> commit(const client::Key& key, const Job& job, const Step& step);
  // True: the gang goes back to the queue, or is evicted, for it.
  bool refuse(const Job& job, const client::Error& error);

  World& world_;
  JobPods pods_;
  std::map<client::Key, Rejection> rejections_;
  std::map<client::Key, client::TimePoint> counters_due_;  // when deferred counters are to be written
  std::map<client::Key, crds::Effective> asked_with_;      // what placement's decision will be about
  std::map<client::Key, CheckpointReports> reports_;
  std::set<client::Key> unsure_;             // read again before acting
  std::map<client::Key, std::string> uids_;  // key -> uid last seen
};

}  // namespace muster::reconcilers
