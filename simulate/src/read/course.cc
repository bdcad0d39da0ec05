#include "muster/simulate/course.h"

#include <algorithm>

namespace muster::simulate {
namespace {

std::string trimmed(std::string_view text) {
  const auto first = text.find_first_not_of(" \t\n");
  if (first == std::string_view::npos) return {};
  return std::string(text.substr(first, text.find_last_not_of(" \t\n") - first + 1));
}

// Never empty: of "" there is one, which is "".
std::vector<std::string> parts_of(std::string_view text) {
  std::vector<std::string> parts;
  while (true) {
    const auto comma = text.find(',');
    parts.push_back(trimmed(text.substr(0, comma)));
    if (comma == std::string_view::npos) return parts;
    text.remove_prefix(comma + 1);
  }
}

std::string is(std::string_view text) {
  return ", is \"" + std::string(text) + "\"";
}

}  // namespace

std::expected<Course, std::string> Course::parse(
    std::string_view text,
    const std::function<std::expected<std::int64_t, std::string>(const std::string&)>& read) {
  Course course;
  for (const std::string& part : parts_of(text)) {
    const auto colon = part.find(':');
    const auto at = crds::parse_duration(trimmed(std::string_view(part).substr(0, colon)));
    if (colon == std::string::npos || !at)
      return std::unexpected("must be instants, each with its value, such as \"0s: 90, 30m: 0\"" + is(text));
    const auto value = read(trimmed(std::string_view(part).substr(colon + 1)));
    if (!value) return std::unexpected(value.error());
    if (!course.steps_.empty() && *at <= course.steps_.back().first)
      return std::unexpected("must have its instants in ascending order" + is(text));
    course.steps_.emplace_back(*at, *value);
  }
  return course;
}

std::int64_t Course::at(Instant t, std::int64_t before) const {
  const auto later = std::ranges::upper_bound(steps_, t, {}, &std::pair<Instant, std::int64_t>::first);
  return later == steps_.begin() ? before : std::prev(later)->second;
}

std::optional<Instant> Course::next(Instant after) const {
  const auto later = std::ranges::upper_bound(steps_, after, {}, &std::pair<Instant, std::int64_t>::first);
  return later == steps_.end() ? std::nullopt : std::optional(later->first);
}

std::expected<std::vector<Instant>, std::string> parse_instants(std::string_view text) {
  std::vector<Instant> instants;
  for (const std::string& part : parts_of(text)) {
    const auto at = crds::parse_duration(part);
    if (!at)
      return std::unexpected("must be instants, separated by commas, such as \"30m\" or \"30m, 2h\"" +
                             is(text));
    if (!instants.empty() && *at <= instants.back())
      return std::unexpected("must have its instants in ascending order" + is(text));
    instants.push_back(*at);
  }
  return instants;
}

}  // namespace muster::simulate
