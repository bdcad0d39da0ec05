// How far a server's Retry-After is followed.
#pragma once

#include "muster/client/environment.h"

namespace muster::client {

// Beyond it a request is its caller's business again, and a watch tries all the same: what says "in a day"
// may be a proxy's page for the time of its maintenance.
constexpr Duration kMaxRetryAfter = std::chrono::minutes{1};

}  // namespace muster::client
