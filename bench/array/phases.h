// The two ways to the same pods that come, end and go, timed.
#pragma once

#include <chrono>
#include <cstdint>
#include <string>

#include "live/cluster.h"
#include "process.h"

namespace muster::bench {

struct ArrayLoad {
  int count = 10'000;            // indexes, of one pod with one GPU each
  int parallelism = 4000;        // how many may be open at once
  int in_flight = 32;            // requests of the bare client
  int kills = 0;                 // of Muster by SIGKILL, evenly over the run
  std::string runs_for = "10s";  // as KWOK reads it
  std::chrono::seconds timeout{1800};
};

struct ArrayResult {
  double seconds = 0;  // first request sent -> the last pod has succeeded; of an array: -> it says Complete
  CpuUse cpu;          // over `seconds`
  // Of an array:
  WriteCounts writes;                               // until all its jobs and pods were gone
  std::int64_t memory_peak = 0, memory_before = 0;  // Muster's, in bytes; of several processes the largest
  int kills = 0;
  std::size_t status_bytes = 0, object_bytes = 0;  // of the array, the most that was seen
};

// Creates pods with spec.nodeName set, evenly over the nodes, at most `parallelism` of them that have not
// succeeded, and deletes each when it has.
Outcome<ArrayResult> run_bare_pods(const BenchCluster& cluster, const ArrayLoad& load);

// Starts Muster and submits one array. Each index must have had exactly one pod, and this must have
// succeeded: anything else is an error. Nothing of it is there when this returns.
Outcome<ArrayResult> run_array(BenchCluster& cluster, const ArrayLoad& load);

}  // namespace muster::bench
