// What happens between two plans has no time of its own: it counts from the next plan on.
#pragma once

#include <cstdint>
#include <limits>

#include "muster/placement/amounts.h"

namespace muster::placement {

// Job::last_held of a job that has ceased to hold something, until the next plan begins.
inline constexpr Time kFromNextPlan{std::numeric_limits<std::int64_t>::max() / 2};

}  // namespace muster::placement
