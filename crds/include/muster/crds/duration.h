// Durations as specs state them: "120s", "10m", "48h", "14d", "1h30m".
#pragma once

#include <chrono>
#include <expected>
#include <string>
#include <string_view>

namespace muster::crds {

using Duration = std::chrono::seconds;

// Days, hours, minutes, seconds, each at most once and in this order, whole numbers of at most 5, 6, 7 and 9
// digits. The error says what is allowed.
std::expected<Duration, std::string> parse_duration(std::string_view text);
// Canonical form, the same grammar: "1h30m", "2d", "0s". Negative durations are a bug.
std::string to_string(Duration duration);

}  // namespace muster::crds
