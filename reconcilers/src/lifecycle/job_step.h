// One step of a job's life while it is being decided: what is seen, and what has been decided so far.
#pragma once

#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "muster/reconcilers/lifecycle/gang.h"
#include "muster/reconcilers/lifecycle/lifecycle.h"

namespace muster::reconcilers {

// The transitions (transitions/transitions.h) read `seen` and write the rest.
struct JobStep {
  explicit JobStep(const Observed& observed) : seen(observed), spec(observed.job.spec), status(step.status) {
    status = seen.job.status;
    status.observed_generation = seen.job.metadata.generation;
  }
  JobStep(const JobStep&) = delete;
  JobStep& operator=(const JobStep&) = delete;

  const Observed& seen;
  const crds::TrainingJobSpec& spec;
  Step step;
  crds::TrainingJobStatus& status;  // that of `step`

  // The pods held against the assignment; empty without one. And for each place why it is lost; "": it is
  // not. Both are parallel to the assignment's pods. Whoever changes these calls match_pods() or
  // begin_attempt(), and asks for lost places only after the next find_lost().
  Gang gang;
  std::vector<std::string> lost;

  std::set<std::string_view> removing;  // uids of step.remove
  bool is_to_save = false;              // it leaves, and its work counts as saved until end_eviction()

  // Placement's decision of this kind; nullptr: there is none, or it is about another generation or attempt.
  const JobDecision* decision(JobDecision::Kind kind) const;

  // The pod is to go; nothing where it was told already.
  void remove(const client::Pod& pod);
  void remove_all();
  // Pods that were told to go and cannot, because nothing runs on their node any more, go by force.
  void remove_lost();

  // Pods that are to go and that must have gone before others may take their part: all of the job, or those
  // that stand for no place of the assignment. Of pods on lost nodes nobody knows when they will have gone:
  // they keep what they hold, and nobody waits for them.
  Lingering lingering() const;
  Lingering stale() const;
  bool is_given_up(const client::Pod& pod) const;

  // Look again then, at the latest.
  void wake(crds::Time at);
  // When one of these is overdue, or its node counts as lost.
  void wake_for(const Lingering& left);

  // An event, and a condition.
  void note(client::EventType type, std::string reason, std::string action, std::string text);
  void set(std::string type, crds::ConditionStatus value, std::string reason, std::string message);
};

}  // namespace muster::reconcilers
