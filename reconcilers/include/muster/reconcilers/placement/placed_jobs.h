// What placement knows of jobs, as the steps of their lives tell it, and what it has decided about them. The
// controller and `muster simulate` both drive placement through this.
#pragma once

#include <cstdint>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/client/informer.h"
#include "muster/client/pod.h"
#include "muster/crds/training_job.h"
#include "muster/placement/cluster.h"
#include "muster/placement/plan.h"
#include "muster/reconcilers/lifecycle/lifecycle.h"
#include "muster/reconcilers/placement/other_pods.h"
#include "muster/reconcilers/placement/translation.h"
#include "muster/reconcilers/usage/run_times.h"

namespace muster::reconcilers {

class PlacedJobs {
 public:
  struct Options {
    // A start or a change of size that took no time says nothing: nobody has said how long one takes, and
    // placement weighs it as a usual one.
    bool instant_is_unknown = false;
    // Asked before placement hears of a job: what is known of it beyond its objects. Empty: nothing.
    std::function<void(const client::Key&, placement::JobSpec&)> complete{};
    // How long jobs like one that states no maxRuntime are likely to run. Empty: nobody knows.
    UsualRunTimes usual_run_times{};
  };

  // `changed` is called when there is news for plan(). `cluster` and `pods` outlive this.
  PlacedJobs(placement::Cluster& cluster, OtherPods& pods, std::function<void()> changed, Options options);

  // Which Project a namespace's work is charged to; "": none.
  void charge_namespace(const std::string& ns, const std::string& project);
  std::string project_of(const std::string& ns) const;

  // A job as its last step left it: waiting, holding its assignment, or neither. `pods` are all that it has
  // now, not those that the step was made from. Each that has not ended is charged when this returns: by a
  // place of the assignment, as one that leaves, or for itself.
  void update(const client::Key& key, const crds::TrainingJob& job, const Translation& wish, const Step& step,
              const std::vector<client::Ptr<client::Pod>>& pods);
  // See PlacementModel::job_pod().
  void job_pod(const client::Key& job, const crds::Assignment& assignment,
               const client::Ptr<client::Pod>& pod, bool is_new);
  // The job is gone; what its pods hold is the caller's matter.
  void forget(const client::Key& key);

  // Whether what the assignment of this attempt holds is charged.
  bool charges(const client::Key& key, std::int32_t attempt) const;

  // Notes what a plan has decided about this job, until the API server knows it. nullptr: no such job.
  const JobDecision* note(const placement::Decision& decided);
  // Not yet known to the API server; nullopt: none.
  std::optional<JobDecision> decision(const client::Key& key) const;
  // The decision could not be committed. What a start held is free again; any other stands and is to be tried
  // again.
  void withdraw(const client::Key& key);
  // A decision from elsewhere (the API server refuses the pods).
  void decide(const client::Key& key, JobDecision decision);
  // Places that are kept for it until others have left them; nullopt: none.
  std::optional<crds::Nomination> nomination(const client::Key& key) const;

 private:
  struct JobState {
    // What the pods of this attempt were made to ask for, by role; 0: nobody has seen it.
    std::int32_t seen_attempt = 0;
    std::vector<PodRequests> seen_requests{};
    std::optional<JobDecision> decision;
    std::int64_t generation = 0;
    std::int32_t attempt = 0;
    std::vector<std::string> role_names;
    std::set<std::string> lingering;  // keys of pods charged beside the assignment
    bool is_known = false;            // it was told to placement once
    bool was_readable = false;        // with what its pods need
  };

  std::optional<placement::PodPlace> leaving_place(const JobState& job, const Translation& wish,
                                                   const client::Pod& pod) const;
  // How the pods of a job can be paid for other than by themselves.
  struct Payers {
    const crds::Assignment& assignment;  // none where its pods are charged for themselves
    std::vector<std::size_t> displaced;  // places of it that hold nothing
    bool may_leave = false;              // pods beside the assignment may be charged as leaving
    // Where these stand as placement counts them: no others are charged as leaving.
    std::optional<std::vector<placement::PodPlace>> leaving = {};
  };
  std::vector<placement::PodPlace> charge_lingering(const client::Key& key, const crds::TrainingJob& job,
                                                    const Translation& wish, const Payers& payers,
                                                    const std::vector<client::Ptr<client::Pod>>& pods);
  void keep_promise(const client::Key& key, const crds::TrainingJob& job, const crds::Nomination& n,
                    bool is_new);
  // Halves of update(): the job has an assignment, or has none. `is_renewed`: its spec is told as well.
  void update_holder(const client::Key& key, const crds::TrainingJob& job, const Translation& wish,
                     const Step& step, const std::vector<client::Ptr<client::Pod>>& pods, bool is_renewed);
  void update_other(const client::Key& key, const crds::TrainingJob& job, const Translation& wish,
                    const Step& step, const std::vector<client::Ptr<client::Pod>>& pods);
  placement::JobSpec to_job(const client::Key& key, const crds::TrainingJob& job, const Translation& wish,
                            const crds::TrainingJobStatus& status) const;
  placement::Progress to_progress(const crds::TrainingJob& job, const Translation& wish,
                                  const crds::TrainingJobStatus& status) const;
  std::optional<placement::LearnedEnd> learned_end(const crds::TrainingJob& job, const Translation& wish,
                                                   const crds::TrainingJobStatus& status) const;
  static placement::Assignment to_assignment(const JobState& state, const crds::TrainingJob& job,
                                             const crds::TrainingJobStatus& status);
  std::vector<std::size_t> uncharged(const client::Key& key, const placement::Assignment& recorded,
                                     std::vector<std::size_t> displaced) const;
  static void drop_decision(JobState& state, bool holds, const Step& step);
  static std::vector<Place> to_places(const JobState& job, const placement::Assignment& a);

  placement::Cluster& cluster_;
  OtherPods& pods_;
  std::function<void()> changed_;
  Options options_;
  std::map<client::Key, JobState> jobs_;
  std::map<std::string, std::string, std::less<>> project_of_;  // by namespace
};

}  // namespace muster::reconcilers
