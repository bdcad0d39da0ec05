// Metrics in Prometheus' text format 0.0.4, as HTTP endpoints called /metrics answer them.
#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/client/error.h"

namespace muster::client {

// One line. The parts of a histogram or summary are samples of their own: "x_bucket" with label le, "x_sum",
// "x_count".
struct Sample {
  std::string name;
  std::vector<std::pair<std::string, std::string>> labels;  // in the order of the text, unescaped
  double value = 0;                                         // maybe NaN or infinite
  std::optional<std::int64_t> timestamp_ms;                 // Unix; absent: as of now

  const std::string* label(std::string_view key) const;  // nullptr: not there
};

// Is asked for each line's metric. False: the line is passed over, and only its name was looked at.
using WantedMetric = std::function<bool(std::string_view name)>;

inline constexpr std::size_t kMaxExposition = 2 << 20;  // bytes of text
inline constexpr std::size_t kMaxSamples = 20'000;      // that are wanted

// The samples in the order of the text; comments and types are passed over. Text that is not of the format,
// or beyond the two bounds, is kDecode, which names the line and what is wrong there. Text that was cut short
// is not of the format: its last line has no line feed. O(bytes).
Result<std::vector<Sample>> parse_exposition(std::string_view text, const WantedMetric& wanted = {});

}  // namespace muster::client
