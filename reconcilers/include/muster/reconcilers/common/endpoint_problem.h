// Why an endpoint was not read, as statuses tell it.
#pragma once

#include <cstddef>
#include <string>

namespace muster::reconcilers {

// The first 512 characters: an endpoint may answer with anything.
inline std::string told(const std::string& problem) {
  constexpr std::size_t kMost = 512;
  return problem.substr(0, kMost);
}

}  // namespace muster::reconcilers
