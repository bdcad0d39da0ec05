#include "muster/crds/time.h"

#include <utility>

#include "muster/common/time.h"

namespace muster::crds {

std::expected<Time, std::string> parse_time(std::string_view text) {
  auto time = common::parse_time(text);
  if (!time) return std::unexpected(std::move(time.error()));
  return std::chrono::floor<std::chrono::seconds>(*time);
}

std::string to_string(Time time) {
  return common::format_time(time);
}

}  // namespace muster::crds
