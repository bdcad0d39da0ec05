// How every benchmark reports: a table for people, or one line of JSON for programs.
#pragma once

#include <cstdio>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace muster::bench {

struct Goal {
  enum class Sense : std::uint8_t { kAtMost, kAtLeast };
  Sense sense = Sense::kAtMost;
  double limit = 0;

  bool met(double value) const { return sense == Sense::kAtMost ? value <= limit : value >= limit; }
  std::string text() const;  // "<= 1.3"
};
inline Goal at_most(double limit) {
  return {Goal::Sense::kAtMost, limit};
}
inline Goal at_least(double limit) {
  return {Goal::Sense::kAtLeast, limit};
}

struct Row {
  std::string name;
  double value = 0;
  std::string unit;  // "s", "MiB", "ratio", "count", …
  std::optional<Goal> goal{};
};

class Report {
 public:
  explicit Report(std::string bench) : bench_(std::move(bench)) {}

  void add(std::string name, double value, std::string unit, std::optional<Goal> goal = {});
  const std::vector<Row>& rows() const { return rows_; }

  // Name, value, unit, goal, and "ok" or "missed" where there is a goal.
  std::string table() const;
  // {"bench":NAME,"rows":[{"name":…,"value":…,"unit":…,"goal":…}]}; a goal is text as in the table, or null.
  // A value that is not finite is null.
  std::string json() const;
  // One of the two to standard output.
  void print(bool as_json) const;

 private:
  std::string bench_;
  std::vector<Row> rows_;
};

// The value below which `percent` of the sample lies (nearest rank); NaN for an empty sample.
double percentile(std::vector<double> sample, double percent);
inline double median(std::vector<double> sample) {
  return percentile(std::move(sample), 50);
}

// Sends what the libraries log to standard error, where progress() writes too. To be called first in main():
// by default spdlog writes to standard output, where whoever reads --json expects one object and nothing
// else.
void log_to_standard_error();

// One line on standard error, with the seconds since the program started. Standard output is the
// report's alone.
void progress(std::string_view text);

}  // namespace muster::bench
