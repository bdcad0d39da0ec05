#include "sharing/figures.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "replay/metrics.h"

namespace muster::bench {
namespace {

struct LoadGoal {
  double load, useful_of_bound;
};
constexpr std::array kUsefulGoals = {LoadGoal{0.9, 97}, LoadGoal{1.2, 95}, LoadGoal{1.6, 96}};
constexpr double kLostGoal = 2, kAttemptsP99Goal = 3, kAttemptsMaxGoal = 8, kGraceGoal = 60, kJainGoal = 0.97,
                 kOverFifoGoal = 1;

// A job starts once at least, whoever schedules it.
Demand demand_of(const DayJob& job) {
  return {job.arrives, kStartSeconds + job.runs, job.full() * 1000};
}

std::vector<Demand> demands_of(const Day& day) {
  std::vector<Demand> demands;
  for (const DayJob& job : day.jobs) demands.push_back(demand_of(job));
  return demands;
}

std::optional<Goal> useful_goal(double load) {
  const auto goal = std::ranges::find(kUsefulGoals, load, &LoadGoal::load);
  return goal == kUsefulGoals.end() ? std::nullopt : std::optional(at_least(goal->useful_of_bound));
}

// Of each project's useful time over what it was entitled to in the window.
double jain(const DayOutcome& out, const Day& day) {
  std::vector<double> asked(day.projects.size(), 0), quotas;
  for (const DayJob& job : day.jobs) asked[job.project] += gpu_seconds_at_once(demand_of(job), day.window);
  for (const DayProject& p : day.projects) quotas.push_back(static_cast<double>(p.quota));
  const auto entitled = max_min(out.capacity, quotas, asked);
  std::vector<double> over_share;
  for (std::size_t i = 0; i < entitled.size(); ++i) {
    if (entitled[i] > 0) over_share.push_back(out.useful_of[i] / entitled[i]);
  }
  return jain_index(over_share);
}

}  // namespace

double day_bound(const Day& day) {
  return fluid_bound(demands_of(day), day.window, static_cast<double>(day.gpus()));
}

std::vector<Row> day_figures(const DayOutcome& out, const Day& day, double load, const DayOutcome* fifo) {
  std::vector<Row> rows;
  const auto add = [&](std::string name, double value, std::string unit, std::optional<Goal> goal = {}) {
    rows.push_back({std::move(name), value, std::move(unit), goal});
  };
  const auto of_allocated = [&](double gpu_seconds) { return 100 * gpu_seconds / out.allocated; };
  const double done = out.useful + out.first_starts;
  add("useful of bound", 100 * done / day_bound(day), "%", useful_goal(load));
  add("useful of capacity", 100 * out.useful / out.capacity, "%");
  add("allocated of capacity", 100 * out.allocated / out.capacity, "%");
  add("lost to disturbances, of allocated", of_allocated(out.lost()), "%", at_most(kLostGoal));
  add("lost: work done again", of_allocated(out.lost_work), "%");
  add("lost: stopping", of_allocated(out.stopping), "%");
  add("lost: starting again", of_allocated(out.restarting), "%");
  add("lost: resizing", of_allocated(out.resizing), "%");
  add("first starts, of allocated", of_allocated(out.first_starts), "%");
  add("attempts, p50", percentile(out.attempts, 50), "");
  add("attempts, p99", percentile(out.attempts, 99), "", at_most(kAttemptsP99Goal));
  add("attempts, largest", percentile(out.attempts, 100), "", at_most(kAttemptsMaxGoal));
  add("preemptions", static_cast<double>(out.preemptions), "count");
  add("moves", static_cast<double>(out.moves), "count");
  add("resizes", static_cast<double>(out.resizes), "count");
  const auto add_wait = [&](const std::string& name, const std::vector<double>& waits) {
    add("wait, " + name + ", p50", percentile(waits, 50), "s");
    add("wait, " + name + ", p99", percentile(waits, 99), "s");
  };
  add_wait("entitled", out.waits.entitled);
  add_wait("beyond quota", out.waits.beyond_quota);
  add_wait("interactive", out.waits.interactive);
  add("wait, within quota, beyond victims' grace, p99", percentile(out.waits.beyond_grace, 99), "s",
      at_most(kGraceGoal));
  add("never started", static_cast<double>(out.not_started), "jobs");
  add("Jain's index of useful time over fair share", jain(out, day), "", at_least(kJainGoal));
  const double of_fifo =
      fifo == nullptr ? std::numeric_limits<double>::quiet_NaN() : out.useful / fifo->useful;
  add("useful of first in, first out", of_fifo, "ratio", at_least(kOverFifoGoal));
  double idle = 0;
  for (const double x : out.idle) idle += x;
  add("idle although work waits, of capacity", 100 * idle / out.capacity, "%");
  for (std::size_t i = 0; i < out.idle.size(); ++i)
    add("idle: " + std::string(kIdleCauseNames[i]), 100 * out.idle[i] / out.capacity, "%");
  add("invariants broken", static_cast<double>(out.violations.size()), "count", at_most(0));
  return rows;
}

std::vector<Row> mean_of(const std::vector<std::vector<Row>>& days) {
  std::vector<Row> rows = days.front();
  for (std::size_t i = 0; i < rows.size(); ++i) {
    const bool is_largest = rows[i].name.ends_with("largest");
    double sum = 0, largest = -std::numeric_limits<double>::infinity();
    std::size_t count = 0;
    for (const auto& day : days) {
      const double value = day[i].value;
      if (!std::isfinite(value)) continue;
      sum += value;
      largest = std::max(largest, value);
      ++count;
    }
    rows[i].value = count == 0   ? std::numeric_limits<double>::quiet_NaN()
                    : is_largest ? largest
                                 : sum / static_cast<double>(count);
  }
  return rows;
}

}  // namespace muster::bench
