// What a server says about when to come back.
#pragma once

#include <optional>
#include <string>
#include <string_view>

#include "muster/client/environment.h"

namespace muster::client {

// The value of the header Retry-After where it is a number of seconds.
std::optional<Duration> read_retry_after_seconds(std::string_view header);

// The value of the header Retry-After (RFC 9110, 10.2.3): seconds, or a date, which becomes the time from
// `now` until then (0 if it has passed). nullopt: it is neither.
std::optional<Duration> read_retry_after(const std::string& header, WallTime now);

// Beyond it a request is its caller's business again, and a watch tries all the same: what says "in a day"
// may be a proxy's page for the time of its maintenance.
constexpr Duration kMaxRetryAfter = std::chrono::minutes{1};

}  // namespace muster::client
