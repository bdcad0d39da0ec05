// The rows of a day, and their means over several.
#pragma once

#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "report.h"
#include "sharing/outcome.h"

namespace muster::bench {

// What no scheduler could exceed, in GPU-seconds of useful time and first starts: `replay/metrics.h`.
double day_bound(const Day& day);

// The rows of one day under one policy, always the same ones in the same order. `fifo`: the outcome of the
// same day under kFifo; nullptr: it was not played. `load`: it decides which goal is that of the useful time.
std::vector<Row> day_figures(const DayOutcome& out, const Day& day, double load, const DayOutcome* fifo);

// Row by row; of rows whose name ends in "largest" the largest. All of one length, at least one. A mean is
// that of the values that are finite.
std::vector<Row> mean_of(const std::vector<std::vector<Row>>& days);

}  // namespace muster::bench
