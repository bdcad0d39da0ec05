#include "muster/crds/duration.h"

#include <array>
#include <cassert>

namespace muster::crds {
namespace {

struct Unit {
  char letter;
  std::int64_t seconds;
  std::size_t digits;  // as the schemas' pattern has it
};
constexpr std::array<Unit, 4> kUnits = {{{'d', 86'400, 5}, {'h', 3'600, 6}, {'m', 60, 7}, {'s', 1, 9}}};

std::unexpected<std::string> malformed(std::string_view text) {
  return std::unexpected(
      "must be a duration of days, hours, minutes and seconds in this order, such as 14d, 1h30m or 90s, is "
      "\"" +
      std::string(text.substr(0, 40)) + "\"");
}

}  // namespace

std::expected<Duration, std::string> parse_duration(std::string_view text) {
  std::int64_t total = 0;
  std::size_t next_unit = 0;
  std::size_t at = 0;
  while (at < text.size()) {
    std::int64_t number = 0;
    std::size_t digits = 0;
    for (; at < text.size() && text[at] >= '0' && text[at] <= '9'; ++at) {
      if (++digits > 9) return malformed(text);
      number = number * 10 + (text[at] - '0');
    }
    if (digits == 0 || at == text.size()) return malformed(text);
    while (next_unit < kUnits.size() && kUnits[next_unit].letter != text[at]) ++next_unit;
    if (next_unit == kUnits.size() || digits > kUnits[next_unit].digits) return malformed(text);
    total += number * kUnits[next_unit].seconds;
    ++next_unit;
    ++at;
  }
  if (text.empty()) return malformed(text);
  return Duration{total};
}

std::string to_string(Duration duration) {
  assert(duration.count() >= 0);
  if (duration.count() == 0) return "0s";
  std::string text;
  std::int64_t rest = duration.count();
  for (const Unit& unit : kUnits) {
    if (const std::int64_t n = rest / unit.seconds; n != 0) text += std::to_string(n) + unit.letter;
    rest %= unit.seconds;
  }
  return text;
}

}  // namespace muster::crds
