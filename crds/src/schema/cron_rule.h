// The rule for the start of a schedule, and its twin.
#pragma once

#include <nlohmann/json.hpp>
#include <regex>
#include <string>
#include <string_view>

#include "muster/crds/codec.h"
#include "types/json_text.h"

namespace muster::crds {

// Whether a text could be a cron expression. reconcilers/schedules/cron.h reads it.
// clang-format off
inline constexpr std::string_view kCronRule =
    "self.matches('"
    "^([*](/[1-9][0-9]?)?|[0-5]?[0-9](-[0-5]?[0-9](/[1-9][0-9]?)?)?)(,([*](/[1-9][0-9]?)?|[0-5]?[0-9](-[0"
    "-5]?[0-9](/[1-9][0-9]?)?)?))*"
    " +([*](/[1-9][0-9]?)?|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3])(/[1-9][0-9]?)?)?)(,([*](/[1-9][0-9]?)"
    "?|([01]?[0-9]|2[0-3])(-([01]?[0-9]|2[0-3])(/[1-9][0-9]?)?)?))*"
    " +([*](/[1-9][0-9]?)?|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01])(/[1-9][0-9]?)?)?)(,([*](/"
    "[1-9][0-9]?)?|(0?[1-9]|[12][0-9]|3[01])(-(0?[1-9]|[12][0-9]|3[01])(/[1-9][0-9]?)?)?))*"
    " +([*](/[1-9][0-9]?)?|(0?[1-9]|1[0-2]|[A-Za-z]{3})(-(0?[1-9]|1[0-2]|[A-Za-z]{3})(/[1-9][0-9]?)?)?)(,"
    "([*](/[1-9][0-9]?)?|(0?[1-9]|1[0-2]|[A-Za-z]{3})(-(0?[1-9]|1[0-2]|[A-Za-z]{3})(/[1-9][0-9]?)?)?))*"
    " +([*](/[1-9][0-9]?)?|([0-7]|[A-Za-z]{3})(-([0-7]|[A-Za-z]{3})(/[1-9][0-9]?)?)?)(,([*](/[1-9][0-9]?)"
    "?|([0-7]|[A-Za-z]{3})(-([0-7]|[A-Za-z]{3})(/[1-9][0-9]?)?)?))*$"
    "')";
// clang-format on
inline bool is_cron(const Json& self, const Json*) {
  constexpr std::string_view kBefore = "self.matches('", kBehind = "')";
  constexpr auto kPattern =
      kCronRule.substr(kBefore.size(), kCronRule.size() - kBefore.size() - kBehind.size());
  static const auto& pattern = *new std::regex(std::string(kPattern), std::regex::ECMAScript);
  const auto start = text_of(&self);
  return std::regex_search(start.begin(), start.end(), pattern);
}

}  // namespace muster::crds
