// Random days of a shared cluster: who submits what, and when. docs/benchmarks.md describes the mix.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "packing/trace.h"

namespace muster::bench {

// Priority classes: those that are shipped, and one below and one above that of training.
struct DayClass {
  const char* name;
  std::int32_t value;
};
inline constexpr DayClass kInteractiveClass{"interactive", 100}, kTrainingClass{"training", 50},
    kLowClass{"batch-low", 20}, kHighClass{"batch-high", 60};

enum class Resizing : std::uint8_t { kNever, kInPlace, kRestart };

struct DayJob {
  std::string name;
  std::size_t project = 0;
  std::int32_t pods = 1, least_pods = 1;  // fewer only of an elastic one
  std::int32_t gpus = 1;                  // of each pod
  Resizing resizing = Resizing::kNever;
  std::string priority_class;
  std::int32_t priority = 0;           // of that class
  bool is_interactive = false;         // not preemptible
  bool saves_when_asked = true;        // else it goes back to its last checkpoint
  std::int64_t arrives = 0, runs = 0;  // seconds; the run at full size, from when it works

  std::int64_t full() const { return std::int64_t{pods} * gpus; }
  std::int64_t least() const { return std::int64_t{least_pods} * gpus; }
};

struct DayProject {
  std::string name;
  std::int64_t quota = 0;  // GPUs
};

struct Day {
  std::int64_t window = 0;  // seconds
  std::vector<TraceNode> nodes;
  std::vector<DayProject> projects;  // their quotas add up to the nodes' GPUs
  std::vector<DayJob> jobs;          // in the order of their arrival

  std::int64_t gpus() const;
};

struct DayOptions {
  std::int64_t gpus = 256;  // in nodes of 8
  std::int64_t hours = 24;
  double load = 1.2;  // GPU time of all jobs, of that of the window
  std::uint64_t seed = 1;
};

// The same options give the same day. Throws std::runtime_error where the GPUs are not whole nodes or too few
// for the largest job.
Day random_day(const DayOptions& options);

// What programs need: to start, for a change of size in place, to save when they are asked to and do so. They
// save by themselves every so often.
inline constexpr std::int64_t kStartSeconds = 180, kResizeSeconds = 30, kSaveSeconds = 20,
                              kDayGraceSeconds = 60, kCheckpointSeconds = 1800;

}  // namespace muster::bench
