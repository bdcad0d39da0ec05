#include "http/retry_after.h"

#include <curl/curl.h>

#include <algorithm>
#include <charconv>
#include <cstdint>

namespace muster::client {

std::optional<Duration> read_retry_after_seconds(std::string_view header) {
  std::uint32_t seconds = 0;
  const char* end = header.data() + header.size();
  // NOLINTNEXTLINE(bugprone-suspicious-stringview-data-usage): it ends at `end`
  const auto [stop, status] = std::from_chars(header.data(), end, seconds);
  if (status != std::errc() || stop != end) return std::nullopt;
  return std::chrono::seconds{seconds};
}

std::optional<Duration> read_retry_after(const std::string& header, WallTime now) {
  if (const auto seconds = read_retry_after_seconds(header)) return seconds;
  // libcurl knows the three forms of dates that a server may send, and says -1 to anything else.
  const time_t date = curl_getdate(header.c_str(), nullptr);
  if (date < 0) return std::nullopt;
  const std::chrono::sys_seconds at{std::chrono::seconds{date}};
  return std::max(Duration{0}, std::chrono::ceil<Duration>(at - now));
}

}  // namespace muster::client
