#include "muster/common/time.h"

#include <optional>

#include "quoted.h"

namespace muster::common {
namespace {

using std::chrono::microseconds;
using std::chrono::minutes;

// Reads exactly `count` digits off the front of `text`.
std::optional<int> take_number(std::string_view& text, std::size_t count) {
  if (text.size() < count) return {};
  int value = 0;
  for (const char c : text.substr(0, count)) {
    if (c < '0' || c > '9') return {};
    value = value * 10 + (c - '0');
  }
  text.remove_prefix(count);
  return value;
}

bool take_one_of(std::string_view& text, std::string_view allowed) {
  if (text.empty() || allowed.find(text.front()) == std::string_view::npos) return false;
  text.remove_prefix(1);
  return true;
}

// Two numbers of two digits with `between` between them, such as "03:04".
struct Pair {
  int first, second;
};
std::optional<Pair> take_pair(std::string_view& text, std::string_view between) {
  const auto first = take_number(text, 2);
  if (!first || !take_one_of(text, between)) return {};
  const auto second = take_number(text, 2);
  if (!second) return {};
  return Pair{*first, *second};
}

// ".000006"; absent: 0.
std::optional<microseconds> take_fraction(std::string_view& text) {
  microseconds fraction{0};
  if (!take_one_of(text, ".")) return fraction;
  std::size_t digits = 0;
  for (std::int64_t unit = 100'000; digits < text.size() && text[digits] >= '0' && text[digits] <= '9';
       ++digits, unit /= 10) {
    fraction += microseconds{(text[digits] - '0') * unit};
  }
  text.remove_prefix(digits);
  return digits == 0 ? std::nullopt : std::optional(fraction);
}

// "Z" or "+02:00".
std::optional<minutes> take_offset(std::string_view& text) {
  if (take_one_of(text, "Zz")) return minutes{0};
  const bool west = text.starts_with('-');
  if (!take_one_of(text, "+-")) return {};
  const auto offset = take_pair(text, ":");
  if (!offset || offset->first > 23 || offset->second > 59) return {};
  return minutes{(west ? -1 : 1) * (offset->first * 60 + offset->second)};
}

std::optional<WallTime> read(std::string_view text) {
  const auto year = take_number(text, 4);
  if (!year || !take_one_of(text, "-")) return {};
  const auto month_and_day = take_pair(text, "-");
  if (!month_and_day || !take_one_of(text, "Tt")) return {};
  const auto hour_and_minute = take_pair(text, ":");
  if (!hour_and_minute || !take_one_of(text, ":")) return {};
  const auto second = take_number(text, 2);
  const auto fraction = take_fraction(text);
  if (!second || !fraction) return {};
  const auto offset = take_offset(text);
  if (!offset || !text.empty()) return {};
  const std::chrono::year_month_day date{std::chrono::year{*year},
                                         std::chrono::month{static_cast<unsigned>(month_and_day->first)},
                                         std::chrono::day{static_cast<unsigned>(month_and_day->second)}};
  if (!date.ok() || hour_and_minute->first > 23 || hour_and_minute->second > 59 || *second > 60) return {};
  return std::chrono::sys_days{date} + std::chrono::hours{hour_and_minute->first} +
         minutes{hour_and_minute->second} + std::chrono::seconds{*second} + *fraction - *offset;
}

}  // namespace

std::expected<WallTime, std::string> parse_time(std::string_view text) {
  if (const auto time = read(text)) return *time;
  return std::unexpected("must be a time such as 2026-01-02T03:04:05Z, is " + quoted(text));
}

std::string format_micro_time(WallTime time) {
  const auto seconds = std::chrono::floor<std::chrono::seconds>(time);
  char fraction[16];
  std::snprintf(fraction, sizeof fraction, ".%06dZ", static_cast<int>((time - seconds).count()));
  return detail::date_and_time(seconds) + fraction;
}

}  // namespace muster::common
