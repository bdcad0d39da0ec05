// Watches a plan while it is made. The auditor is one (audit/): what is shipped does without it.
#pragma once

#include "muster/placement/plan.h"
#include "victims/victims.h"

namespace muster::placement {

class PlanObserver {
 public:
  virtual ~PlanObserver() = default;
  // A claimant gets room by `solution`, which is done in `statement` and not committed yet.
  virtual void solution(const SolutionQuery& query, const Statement& statement, const Solution& solution) = 0;
};

// The plan itself, observed by ClusterModel::observer where there is one. plan() is this, or what
// Cluster::audit_plans() puts in its place.
Plan make_plan(ClusterModel& model, Time now);

}  // namespace muster::placement
