// What came out of a replay, from the simulation's own report, and whether it was right.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "replay/input.h"

namespace muster::bench {

struct ReplayOutcome {
  double capacity = 0, useful = 0, held = 0, lost = 0;  // GPU-seconds in the window
  std::vector<double> useful_of;                        // each project
  // Seconds, of the jobs that ask for GPUs: until the first start or, without one, so far.
  std::vector<double> waits;
  std::size_t not_started = 0, preemptions = 0, moves = 0;
  std::size_t out_of_time = 0;          // their maxRuntime ended them
  std::vector<std::string> violations;  // as sentences; at most kMaxViolations, then one that says so
};
inline constexpr std::size_t kMaxViolations = 20;

// `report`: JSON of the simulation (docs/simulate.md), played until the window ends. Walks through its events
// with books of its own and finds: a part of a GPU given twice, a node with more CPU or memory in use than it
// has, a job that runs twice at once or not with its one pod and GPUs, one that is not preemptible and
// evicted or moved for another, an eviction for nobody, jobs that are not preemptible above their project's
// quota (kBorrowing unless it `lends` to them, kStaticQuotas), a project above its limit (kStaticQuotas), and
// sums that differ from those that the simulation reports.
ReplayOutcome replay_outcome(const nlohmann::json& report, const std::vector<TraceNode>& nodes,
                             const std::vector<ReplayProject>& projects, const ReplayWorkload& workload,
                             Policy policy, bool lends = false);

}  // namespace muster::bench
