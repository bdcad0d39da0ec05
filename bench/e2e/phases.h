// The two ways to the same pods, timed.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "live/cluster.h"
#include "process.h"

namespace muster::bench {

struct Load {
  int pods = 4000;
  int gang = 40;       // pods of a job; divides `pods`
  int in_flight = 32;  // of the bare client
  std::chrono::seconds timeout{300};
};

struct PhaseResult {
  double seconds = 0;           // first request sent -> last pod seen Running
  double creating_seconds = 0;  // first request sent -> last create (of pods; with Muster: of jobs) answered
  CpuUse cpu;                   // over `seconds`
  WriteCounts writes;           // until the writes after the last pod Running had ended
  std::int64_t memory_peak = 0, memory_before = 0;  // Muster's, in bytes
  // Per job, in seconds since its create was sent.
  std::vector<double> admitted, first_pod, all_running;
};

// Creates the pods one by one with spec.nodeName set, evenly over the nodes, and waits until the last one
// runs. They are gone when this returns.
Outcome<PhaseResult> run_bare(const BenchCluster& cluster, const Load& load);

// Starts Muster, submits all jobs at once, waits until the last pod runs, audits, ends Muster. Pods and jobs
// are gone when this returns. What the audit finds is an error.
Outcome<PhaseResult> run_muster(BenchCluster& cluster, const Load& load);

}  // namespace muster::bench
