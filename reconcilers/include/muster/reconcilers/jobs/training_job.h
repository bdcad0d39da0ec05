// The reconciler of TrainingJobs: one function from a key to an outcome. It looks at the caches, lets
// lifecycle.h say what is to be done, and does it in the order that survives a crash: the status first, then
// the pods.
//
// The crash path of a preemption, write by write. docs/crash-path.md has those of everything else.
//
//   0  plan() has decided, and nothing is written. The next process plans anew.
//   1  The victim's commit(): its assignment is emptied, Evicted says for whom. If the process dies now, the
//      victim's pods run and were told nothing. The next process calls charge() for every job before it
//      plans: pods that stand for no place of a record are charged as leaving, so nobody starts where they
//      are (PlacementModel::update). Then the victim's reconcile finds a job that waits and removes its pods
//      (waiting() in lifecycle.cc).
//   2  The preemptor's commit(): status.nominated names the places that are kept for it. This is another job,
//      so the write may come before 1. With 1 alone, the next plan nominates anew. With 2 alone, the victim's
//      record still stands, and the nomination gives way to it.
//   3  The victim's carry_out(): its pods are deleted, each by its uid. If the process dies in between, the
//      next one deletes those that were not told. Until a pod has ended or its object is gone, what it holds
//      stays charged.
//   4  The last of them is gone, and a plan starts the preemptor: its commit() writes the assignment, its
//      carry_out() makes the pods. If the process dies in between, the next one makes those that are missing,
//      under the same names (keep_whole() in lifecycle/transitions/attempt.cc).
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "muster/reconcilers/arrays/array.h"
#include "muster/reconcilers/caches/reconciler_context.h"
#include "muster/reconcilers/gpu_metrics/memory_pressure.h"
#include "muster/reconcilers/jobs/effective_job.h"
#include "muster/reconcilers/jobs/job_exposure.h"
#include "muster/reconcilers/jobs/job_pods.h"
#include "muster/reconcilers/lifecycle/lifecycle.h"

namespace muster::reconcilers {

class TrainingJobReconciler {
 public:
  explicit TrainingJobReconciler(ReconcilerContext& context);

  // Level-based and idempotent. Never runs twice at once for one key (the work queue sees to that).
  client::Task<Outcome> reconcile(client::Key key);
  // reconcile() or charge() threw for this job. Where it has no assignment it stands in no queue until they
  // are called again and succeed, so nothing is planned for it and no capacity is kept for it. What it has
  // stays charged: by its assignment, or where placement does not know that, by its pods.
  void set_aside(const client::Key& key);
  // Charges at once what the cached status gives the job and what pods of its earlier attempts hold, and puts
  // a job that waits into the queue. To be called when a job or its assignment is first seen: its reconcile
  // may have to wait for the writes of others. Until then others would be given what is not charged, and
  // would pass a job that does not stand in the queue.
  void charge(const client::Key& key);
  // The newest state of a pod of this job, also the last one of a pod that is gone. A process that does not
  // lead calls it too: when it comes to lead, the last word of a pod may be nowhere to be read any more.
  void note(const client::Key& key, const client::Pod& pod);
  // The job has changed while another process leads. Forgets the notes that do not count any more.
  void follow(const client::Key& key);
  // The GPUs of this pool were read: tells the ledger what those of each job draw, and follows from now on
  // how busy they are. O(jobs).
  void note_reading(const std::string& pool);
  // Call it after each reading of the pool. Of GPUs that are shared and full, those who are to go elsewhere
  // by onMemoryPressure (memory_pressure.h): that is decided, and their reconcile is to be called. O(jobs).
  std::vector<client::Key> relieve(const std::string& pool);

 private:
  using Job = JobPtr;
  // The API server's word that pods of this generation of the spec cannot be made.
  struct Rejection {
    std::string uid;
    std::int64_t generation = 0;
    std::string message;
  };

  // What one reconcile looks at. Observed points into it: it stays where it is until advance() has answered.
  struct View {
    client::Key key;
    Job job;     // as the server has it
    Job counts;  // as it counts: effective()
    std::vector<client::Ptr<client::Pod>> pods;
    Translation wish{};
    std::optional<JobDecision> decision{};
    std::optional<crds::Nomination> nomination{};
    std::optional<crds::Waiting> verdict{};
    bool waits_for_victims = false;
    DependencyVerdict dependencies{};
  };

  // --- looking (training_job_view.cc)
  View look(const client::Key& key, const Job& job);
  Observed observe(const View& view, std::optional<Exposure> exposure);
  std::vector<client::Ptr<client::Pod>> pods_of(const std::string& uid) const;  // that the cache has
  std::vector<client::Ptr<client::Pod>> all_pods_of(const client::Key& key, const std::string& uid) const;
  static void note_departed(CheckpointReports& reports, const std::string& job, const crds::Assignment& a,
                            const std::vector<client::Ptr<client::Pod>>& pods);
  void name_victims(crds::Waiting& verdict) const;
  DependencyVerdict dependencies_of(const crds::TrainingJob& job) const;
  // Somebody waits for the end that this status tells of, and has not seen it yet.
  bool is_awaited(const Object<crds::TrainingJob>& job, const crds::TrainingJobStatus& status) const;
  NodeHealth health_of(const std::string& node) const;
  crds::MilliGpu charge_of(const crds::TrainingJobSpec& spec, const Translation& wish,
                           const crds::PodAssignment& place) const;
  Idleness idleness_of(const client::Key& key, const crds::TrainingJob& job);
  Idleness idleness_of_gpus(const client::Key& key, const crds::TrainingJob& job);
  bool has_gpus_read(const crds::TrainingJob& job) const;
  std::string gpu_model_of(const crds::Assignment& assignment) const;
  // Tells the ledger what the job holds.
  void count_use(const client::Key& key, const crds::TrainingJob& job, const crds::TrainingJobStatus& status,
                 const Translation& wish, const std::vector<client::Ptr<client::Pod>>& pods);

  // --- doing (training_job.cc)
  client::Task<bool> read_if_unsure(const client::Key& key);
  client::Task<bool> let_pods_go(client::Key key);
  Job find_alive(const client::Key& key);
  client::Task<Outcome> remove_finished(Job job);
  client::Task<Outcome> reconcile_array(const client::Key& key, Job array);
  void take_over(const View& view, const Step& step);
  client::Task<bool> carry_out(const View& view, const Step& step);
  // Notes which job has the name now. If it is another than before, what was kept for that one is forgotten,
  // and its pods stay charged for themselves.
  void meet(const Object<crds::TrainingJob>& job);
  void forget(const client::Key& key, const std::string& last_uid);
  bool may_wait(const client::Key& key, const crds::TrainingJobStatus& before,
                const crds::TrainingJobStatus& after);
  enum class Commit : std::uint8_t {
    kStands,    // on the server
    kDeferred,  // a mere counter; later
    kRefused,   // certainly not written
    kUnsure,    // may stand or not: nothing is done for the job until it was read again
  };
  client::Task<Commit> commit(const client::Key& key, const Job& job, const Step& step);
  // True: the gang goes back to the queue, or is evicted, for it.
  bool refuse(const Job& job, const client::Error& error);

  ReconcilerContext& context_;
  JobPods pods_;
  JobExposure exposure_;
  ArrayReconciler arrays_;
  std::map<client::Key, Rejection> rejections_;
  std::map<client::Key, client::TimePoint> counters_due_;  // when deferred counters are to be written
  std::map<client::Key, crds::Effective> asked_with_;      // what placement's decision will be about
  std::map<client::Key, CheckpointReports> reports_;
  std::set<client::Key> unsure_;  // read again before acting
  // The resourceVersion that guards a status write of unknown outcome. That write may still be on its way.
  std::map<client::Key, std::string> in_doubt_;
  std::map<client::Key, std::string> uids_;    // key -> uid last seen
  std::map<std::string, FullGpus> full_gpus_;  // by pool
};

}  // namespace muster::reconcilers
