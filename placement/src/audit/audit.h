// The auditor: it holds every plan against I1 to I9 of README.md and recounts everything from scratch. It
// shares only three things with the code that decides: the model itself, the fair shares (RULES.md 1 has
// tests of its own), and what a node would do for (would_do).
#pragma once

#include <map>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "audit/audit_disruption.h"
#include "model/cluster_model.h"
#include "muster/placement/cluster.h"
#include "plan/plan_observer.h"
#include "victims/victims.h"

namespace muster::placement {

// Watches one plan being made. ClusterModel::observer is it while it lives; O(cluster) to begin and to end.
class PlanAuditor : public PlanObserver {
 public:
  explicit PlanAuditor(ClusterModel& state, Time now);  // before the plan
  ~PlanAuditor() override;
  PlanAuditor(const PlanAuditor&) = delete;
  PlanAuditor& operator=(const PlanAuditor&) = delete;

  // Room was found for a claimant in `statement`, which is not committed yet.
  // I4: each victim is a legal one at this moment, by a right that the claimant has, and none can be put
  // back.
  void solution(const SolutionQuery& query, const Statement& statement, const Solution& found) override;

  // What is broken now that the plan is made, each as a sentence:
  // I1  what it starts or nominations fits the nodes, GPU by GPU, beside what is leaving still;
  // I2  a gang that starts has all of its minimum;
  // I3  at the leaf and all above, what it starts keeps to limits, and to quotas what is not preemptible;
  // I4  also who goes for a node, a queue or an older admission has that very reason, and no more at a time
  // than a queue that is drained lets go;
  // I5  who was to gain has places; a nomination ends in a start, with its node, or by a better right;
  // I6  no job is started and stopped, nor enlarged and shrunk, in one plan; a move goes elsewhere;
  // I7  who waits has a reason that is true, with numbers that are right;
  // I8  each job runs, waits in a pending queue, or waits for pods that are leaving; below a queue that is
  // drained nothing runs but for those who wait for a batch;
  // I9  who is disturbed for somebody to whom that is not owed loses no more in its life than the bound
  // allows.
  std::vector<std::string> after(const Plan& plan);

 private:
  struct Was {
    std::vector<PodPlace> pods;
    PoolId pool = kNoId;
    std::vector<std::int32_t> gpus;  // of a pod, by role
    std::set<std::size_t> nominated_pods;
    std::vector<PodPlace> leaving;
    bool displaced = false;
    bool moving = false;  // on its way to other places, and no start
    bool whole = false;   // had its minimum; an edit may have made that larger
    bool ran = false, nominated = false;
    LifeSoFar life;
    bool stuck = false;  // nominated, and who is in its way is not leaving
  };
  bool in_the_way_for_good(const Job& job) const;
  ClusterModel& s_;
  Time now_;
  std::map<JobId, Was> was_;                 // who held an assignment
  std::set<JobId> crowded_;                  // shared a GPU that was given out twice
  std::set<std::pair<JobId, JobId>> taken_;  // victim, claimant: as solution() saw them
  std::vector<std::string> broken_;

  friend class PlanAudit;
};

// plan(), watched; what is broken, Cluster::audit() included, is added to `broken`.
Plan audited_plan(Cluster& cluster, Time now, std::vector<std::string>& broken);

// Says on standard error what is broken and aborts, if anything is.
void require_sound(const std::vector<std::string>& broken);

}  // namespace muster::placement
