// Instants as the API server writes them (metav1.Time): RFC 3339, seconds.
#pragma once

#include <chrono>
#include <expected>
#include <string>
#include <string_view>

namespace muster::crds {

using Time = std::chrono::sys_seconds;

// "2026-01-02T03:04:05Z"; a fraction of a second is dropped, an offset ("+01:00") applied. The error says
// what is allowed.
std::expected<Time, std::string> parse_time(std::string_view text);
std::string to_string(Time time);  // "2026-01-02T03:04:05Z"

}  // namespace muster::crds
