// What a trace of pods becomes: jobs of projects with quotas, on some or all of the trace's nodes.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "packing/trace.h"

namespace muster::bench {

struct ReplayProject {
  std::string name;
  std::int64_t quota_milli = 0;  // of GPUs
  std::uint64_t demand = 0;      // its part of the jobs, as a weight among the projects
};

// A job of one pod. Seconds count from the beginning of the window.
struct ReplayJob {
  std::string name;
  std::size_t project = 0;
  TracePod pod;
  std::int64_t arrives = 0, runs = 0;
  bool preemptible = true;

  std::int64_t ends_at_once() const { return arrives + runs; }  // where it starts on arrival
};

struct ReplayWorkload {
  std::int64_t window = 0;      // seconds
  std::vector<ReplayJob> jobs;  // in the order of their arrival
  std::size_t never_ran = 0;    // pods of the trace left out: not scheduled, so that no run time is known
  std::size_t before = 0;       // left out: gone before the window begins
};

enum class Preemptible : std::uint8_t { kByQos, kAll };

// The first of every `every` nodes of the list.
std::vector<TraceNode> thinned(const std::vector<TraceNode>& nodes, std::size_t every);
std::int64_t gpu_milli(const std::vector<TraceNode>& nodes);

// `count` projects whose quotas add up to `capacity_milli`: each even one (the first is 0) has twice the
// quota of an odd one, and project i gets 1 + i mod 5 parts of the jobs. So some ask for more than their
// quota and some for less.
std::vector<ReplayProject> replay_projects(std::size_t count, std::int64_t capacity_milli);

// Each pod that ran arrives `load` times at its own time, and runs for its own time (from scheduled to
// deleted). `from`: where the window begins, in the trace's seconds; it ends with the last deletion. A pod
// that runs when the window begins arrives with it, and has the rest of its run left. Each of the copies goes
// to a project whose quota holds it, drawn by a hash of name and copy. By qos, LS and Guaranteed are not
// preemptible. Throws std::runtime_error where the trace has no times, a pod is deleted before it is
// scheduled, or no project's quota holds a pod.
ReplayWorkload replay_workload(const std::vector<TracePod>& pods, const std::vector<ReplayProject>& projects,
                               std::int64_t from, std::int64_t load, Preemptible preemptible);

}  // namespace muster::bench
