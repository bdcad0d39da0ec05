// Metrics as Prometheus' text format 0.0.4 has them: what HTTP endpoints called /metrics answer.
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

// One line. Parts of a histogram or summary are samples of their own: "x_bucket" with label le, "x_sum",
// "x_count".
struct Sample {
  std::string name;
  std::vector<std::pair<std::string, std::string>> labels;  // in the order of the text, unescaped
  double value = 0;                                         // maybe NaN or infinite
  std::optional<std::int64_t> timestamp_ms;                 // Unix; absent: as of now

  const std::string* label(std::string_view key) const;  // nullptr: not there
};

// Asked for each line's metric; false: the line is passed over, and nothing but its name was looked at.
using WantedMetric = std::function<bool(std::string_view name)>;

inline constexpr std::size_t kMaxExposition = 2 << 20;  // bytes of text
inline constexpr std::size_t kMaxSamples = 20'000;      // that are wanted

// The samples in the order of the text; comments and types are passed over. kDecode, naming the line and
// what is wrong there, for text that is not of the format (one that is cut short included: its last line
// has no line feed) or beyond the two bounds. O(bytes).
Result<std::vector<Sample>> parse_exposition(std::string_view text, const WantedMetric& wanted = {});

}  // namespace muster::client
