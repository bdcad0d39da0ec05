// Products of two 64-bit amounts.
#pragma once

#include <algorithm>
#include <cstdint>

namespace muster::placement {

__extension__ using Wide = __int128;

// `part` / `whole` in millionths. A part of nothing counts as the largest.
inline std::int64_t millionths(std::int64_t part, std::int64_t whole) {
  constexpr std::int64_t kLargest = 1'000'000'000'000;
  if (part <= 0) return 0;
  if (whole <= 0) return kLargest;
  return static_cast<std::int64_t>(std::min<Wide>(static_cast<Wide>(part) * 1'000'000 / whole, kLargest));
}

}  // namespace muster::placement
