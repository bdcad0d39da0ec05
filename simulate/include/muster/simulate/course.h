// Amounts over time, as annotations state them.
#pragma once

#include <cstdint>
#include <expected>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "muster/crds/duration.h"

namespace muster::simulate {

// Seconds since the beginning of the simulation; what happened before is negative.
using Instant = crds::Duration;

// An amount that changes at instants: each value holds from its instant on.
class Course {
 public:
  // "0s: 90, 30m: 0": instants in ascending order, each with its value. `read` turns one value into an
  // integer, or says what it must be. The error is a sentence without its subject.
  static std::expected<Course, std::string> parse(
      std::string_view text,
      const std::function<std::expected<std::int64_t, std::string>(const std::string&)>& read);

  // `before`: what holds before the first instant. O(log n).
  std::int64_t at(Instant t, std::int64_t before) const;
  // The first instant after this one at which another value begins; absent: none. O(log n).
  std::optional<Instant> next(Instant after) const;

 private:
  std::vector<std::pair<Instant, std::int64_t>> steps_;
};

// "10m, 2h": instants in ascending order. The error is a sentence without its subject.
std::expected<std::vector<Instant>, std::string> parse_instants(std::string_view text);

}  // namespace muster::simulate
