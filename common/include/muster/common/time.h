// Instants as Kubernetes writes them: RFC 3339, in UTC.
#pragma once

#include <chrono>
#include <cstdio>
#include <expected>
#include <string>
#include <string_view>

namespace muster::common {

using WallTime = std::chrono::sys_time<std::chrono::microseconds>;

// "2026-01-02T03:04:05Z", or with a fraction ("05.000006Z") or an offset ("05+01:30") in place of the Z. T
// and Z may be small letters, and a second 60 is a leap second, as RFC 3339 has it. Digits beyond
// microseconds are cut off. The error is a sentence fragment that says what is allowed and quotes the text.
std::expected<WallTime, std::string> parse_time(std::string_view text);

namespace detail {
inline std::string date_and_time(std::chrono::sys_seconds time) {
  const auto midnight = std::chrono::floor<std::chrono::days>(time);
  const std::chrono::year_month_day day{midnight};
  const std::chrono::hh_mm_ss clock{time - midnight};
  char text[64];
  const int size =
      std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02d", static_cast<int>(day.year()),
                    static_cast<unsigned>(day.month()), static_cast<unsigned>(day.day()),
                    static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
                    static_cast<int>(clock.seconds().count()));
  return std::string(text, static_cast<std::size_t>(size));
}
}  // namespace detail

// metav1.Time: "2026-01-02T03:04:05Z". A finer time is rounded down. Written here and not in a .cc, so that
// placement, which links no other library, can use it.
inline std::string format_time(WallTime time) {
  return detail::date_and_time(std::chrono::floor<std::chrono::seconds>(time)) + 'Z';
}

// metav1.MicroTime: "2026-01-02T03:04:05.000006Z".
std::string format_micro_time(WallTime time);

}  // namespace muster::common
