// Instants as the API server writes them (metav1.Time): RFC 3339, seconds.
#pragma once

#include <chrono>
#include <expected>
#include <string>
#include <string_view>
#include <utility>

#include "muster/common/time.h"

namespace muster::crds {

using Time = std::chrono::sys_seconds;

// "2026-01-02T03:04:05Z"; a fraction of a second is dropped (common/time.h). The error says what is allowed.
inline std::expected<Time, std::string> parse_time(std::string_view text) {
  auto time = common::parse_time(text);
  if (!time) return std::unexpected(std::move(time.error()));
  return std::chrono::floor<std::chrono::seconds>(*time);
}
inline std::string to_string(Time time) {  // "2026-01-02T03:04:05Z"
  return common::format_time(time);
}

}  // namespace muster::crds
