// What a replay is judged by.
#pragma once

#include <vector>

#include "replay/workload.h"

namespace muster::bench {

// (sum x)^2 / (n sum x^2) (Jain, Chiu, Hawe 1984): 1 where all are equal, 1/n where one has everything. NaN
// for an empty sample, 1 where all are 0.
double jain_index(const std::vector<double>& sample);

// Weighted max-min: nobody gets more than their demand, and where not all can be met the rest have the same
// amount per weight. All vectors of one size; weights above 0. O(n^2).
std::vector<double> max_min(double capacity, const std::vector<double>& weights,
                            const std::vector<double>& demands);

// So many thousandths of a GPU from an instant on, for so long where it starts at once.
struct Demand {
  std::int64_t arrives = 0, runs = 0, milli = 0;
};

// What it can have had in the window at most: as long as it has work, or until the window ends.
double gpu_seconds_at_once(const Demand& demand, std::int64_t window);

// GPU-seconds that jobs of each project can have had in the window at most: from its arrival on each runs as
// long as it has work, or until the window ends.
std::vector<double> asked_gpu_seconds(const ReplayWorkload& workload, std::size_t projects);

// GPU-seconds of work that nobody could exceed on so many GPUs, whatever is started, moved or cut when: for
// every instant s, no job has done more by then than in the time since its arrival (A(s) in sum), and after s
// there are not more GPUs than there are. So it is at most A(s) + GPUs x (window - s), and the least over
// all s is the bound. Holds with parts of jobs, without nodes, and knowing the future. O(n log n).
double fluid_bound(const std::vector<Demand>& demands, std::int64_t window, double gpus);
double fluid_bound(const ReplayWorkload& workload, double gpus);

}  // namespace muster::bench
