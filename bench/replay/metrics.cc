#include "replay/metrics.h"

#include <algorithm>
#include <limits>
#include <utility>

namespace muster::bench {

double jain_index(const std::vector<double>& sample) {
  if (sample.empty()) return std::numeric_limits<double>::quiet_NaN();
  double sum = 0, squares = 0;
  for (const double x : sample) sum += x, squares += x * x;
  return squares > 0 ? sum * sum / (static_cast<double>(sample.size()) * squares) : 1;
}

std::vector<double> max_min(double capacity, const std::vector<double>& weights,
                            const std::vector<double>& demands) {
  std::vector<double> shares(demands.size(), 0);
  std::vector<std::size_t> open;
  for (std::size_t i = 0; i < demands.size(); ++i) open.push_back(i);
  while (!open.empty()) {
    double weight = 0;
    for (const std::size_t i : open) weight += weights[i];
    const double level = std::max(capacity, 0.0) / weight;
    std::vector<std::size_t> rest;
    for (const std::size_t i : open) {
      if (demands[i] > level * weights[i]) rest.push_back(i);
    }
    if (rest.size() == open.size()) {
      for (const std::size_t i : open) shares[i] = level * weights[i];
      break;
    }
    for (const std::size_t i : open) {
      if (demands[i] <= level * weights[i]) shares[i] = demands[i], capacity -= demands[i];
    }
    open = std::move(rest);
  }
  return shares;
}

double gpu_seconds_at_once(const Demand& demand, std::int64_t window) {
  const std::int64_t time = std::min(demand.arrives + demand.runs, window) - demand.arrives;
  return time <= 0 ? 0 : static_cast<double>(time * demand.milli) / 1000;
}

std::vector<double> asked_gpu_seconds(const ReplayWorkload& workload, std::size_t projects) {
  std::vector<double> asked(projects, 0);
  for (const ReplayJob& job : workload.jobs)
    asked[job.project] += gpu_seconds_at_once({job.arrives, job.runs, job.pod.milli()}, workload.window);
  return asked;
}

double fluid_bound(const ReplayWorkload& workload, double gpus) {
  std::vector<Demand> demands;
  for (const ReplayJob& job : workload.jobs) demands.push_back({job.arrives, job.runs, job.pod.milli()});
  return fluid_bound(demands, workload.window, gpus);
}

double fluid_bound(const std::vector<Demand>& demands, std::int64_t window, double gpus) {
  std::vector<std::pair<std::int64_t, std::int64_t>> steps;  // instant, milli-GPU more
  for (const Demand& d : demands) {
    steps.emplace_back(d.arrives, d.milli);
    steps.emplace_back(d.arrives + d.runs, -d.milli);
  }
  steps.emplace_back(window, 0);
  std::ranges::sort(steps);
  double done = 0, best = gpus * static_cast<double>(window);
  std::int64_t at = 0, milli = 0;
  for (const auto& [instant, more] : steps) {
    if (instant > window) break;
    done += static_cast<double>((instant - at) * milli) / 1000;
    at = instant;
    milli += more;
    best = std::min(best, done + gpus * static_cast<double>(window - at));
  }
  return best;
}

}  // namespace muster::bench
