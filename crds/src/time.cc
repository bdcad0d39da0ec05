#include "muster/crds/time.h"

#include <cstdio>

namespace muster::crds {
namespace {

std::unexpected<std::string> malformed(std::string_view text) {
  return std::unexpected("must be a time such as 2026-01-02T03:04:05Z, is \"" +
                         std::string(text.substr(0, 40)) + "\"");
}

// The number in exactly `count` digits at `at`; -1: not digits.
int number(std::string_view text, std::size_t at, std::size_t count) {
  if (at + count > text.size()) return -1;
  int value = 0;
  for (std::size_t i = at; i < at + count; ++i) {
    if (text[i] < '0' || text[i] > '9') return -1;
    value = value * 10 + (text[i] - '0');
  }
  return value;
}

}  // namespace

std::expected<Time, std::string> parse_time(std::string_view text) {
  using namespace std::chrono;
  constexpr std::size_t kDateTime = 19;  // "2026-01-02T03:04:05"
  if (text.size() <= kDateTime || text[4] != '-' || text[7] != '-' || (text[10] != 'T' && text[10] != 't') ||
      text[13] != ':' || text[16] != ':') {
    return malformed(text);
  }
  const int y = number(text, 0, 4), mo = number(text, 5, 2), d = number(text, 8, 2);
  const int h = number(text, 11, 2), mi = number(text, 14, 2), s = number(text, 17, 2);
  if (y < 0 || mo < 0 || d < 0 || h < 0 || mi < 0 || s < 0 || h > 23 || mi > 59 || s > 60)
    return malformed(text);
  const year_month_day date{year{y}, month{static_cast<unsigned>(mo)}, day{static_cast<unsigned>(d)}};
  if (!date.ok()) return malformed(text);

  std::size_t at = kDateTime;
  if (text[at] == '.') {
    const std::size_t first = ++at;
    while (at < text.size() && text[at] >= '0' && text[at] <= '9') ++at;
    if (at == first) return malformed(text);
  }
  minutes offset{0};
  const std::string_view zone = text.substr(at);
  if (zone != "Z" && zone != "z") {
    const int oh = number(zone, 1, 2), om = number(zone, 4, 2);
    if (zone.size() != 6 || (zone[0] != '+' && zone[0] != '-') || zone[3] != ':' || oh < 0 || oh > 23 ||
        om < 0 || om > 59) {
      return malformed(text);
    }
    offset = minutes{oh * 60 + om} * (zone[0] == '-' ? -1 : 1);
  }
  return sys_days{date} + hours{h} + minutes{mi} + seconds{s} - offset;
}

std::string to_string(Time time) {
  using namespace std::chrono;
  const auto day_start = floor<days>(time);
  const year_month_day date{day_start};
  const hh_mm_ss clock{time - day_start};
  char text[48];
  std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02dZ", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                static_cast<int>(clock.hours().count()), static_cast<int>(clock.minutes().count()),
                static_cast<int>(clock.seconds().count()));
  return text;
}

}  // namespace muster::crds
