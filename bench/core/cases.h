// What bench_core measures: each case builds its cluster, checks that what is decided is what it should be,
// and returns the seconds it took.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <vector>

#include "report.h"

namespace muster::bench {

// One line of the report, from the case's sample.
struct Figure {
  std::string name;
  double value = 0;
  std::string unit;
  std::optional<Goal> goal{};
};

struct Case {
  std::string name;
  // `size`: 1 is what the goals are for; a tenth has a tenth of the nodes, pods, queues and of the gang.
  // Throws std::runtime_error where what was decided is wrong. The first figure is the one whose growth
  // is reported.
  std::function<std::vector<Figure>(double size)> run;
};

const std::vector<Case>& all_cases();

}  // namespace muster::bench
