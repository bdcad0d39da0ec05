#include "muster/client/object.h"

#include <algorithm>
#include <cstdio>

namespace muster::client {

Key make_key(std::string_view ns, std::string_view name) {
  Key key;
  key.reserve(ns.size() + 1 + name.size());
  if (!ns.empty()) {
    key += ns;
    key += '/';
  }
  key += name;
  return key;
}

std::pair<std::string_view, std::string_view> split_key(std::string_view key) {
  const auto slash = key.find('/');
  if (slash == std::string_view::npos) return {{}, key};
  return {key.substr(0, slash), key.substr(slash + 1)};
}

namespace {

bool is_digit(char c) { return c >= '0' && c <= '9'; }

bool well_formed(std::string_view version) {
  return !version.empty() && version.front() != '0' && std::all_of(version.begin(), version.end(), is_digit);
}

// `count` digits at `at`, which moves on; -1: not digits.
int take_number(std::string_view text, std::size_t& at, std::size_t count) {
  if (at + count > text.size()) return -1;
  int number = 0;
  for (const std::size_t end = at + count; at < end; ++at) {
    if (!is_digit(text[at])) return -1;
    number = number * 10 + (text[at] - '0');
  }
  return number;
}

bool take(std::string_view text, std::size_t& at, char c) {
  if (at >= text.size() || text[at] != c) return false;
  ++at;
  return true;
}

// ".123456789" to microseconds, digits beyond them dropped; false: a dot without digits.
bool take_fraction(std::string_view text, std::size_t& at, std::chrono::microseconds& out) {
  out = {};
  if (!take(text, at, '.')) return true;
  std::int64_t unit = 100'000;
  const std::size_t start = at;
  for (; at < text.size() && is_digit(text[at]); ++at, unit /= 10) out += std::chrono::microseconds{(text[at] - '0') * unit};
  return at > start;
}

// "Z" or "+01:30".
bool take_offset(std::string_view text, std::size_t& at, std::chrono::minutes& out) {
  out = {};
  if (take(text, at, 'Z') || take(text, at, 'z')) return true;
  if (at >= text.size() || (text[at] != '+' && text[at] != '-')) return false;
  const int sign = text[at++] == '-' ? -1 : 1;
  const int hours = take_number(text, at, 2);
  if (hours < 0 || hours > 23 || !take(text, at, ':')) return false;
  const int minutes = take_number(text, at, 2);
  if (minutes < 0 || minutes > 59) return false;
  out = std::chrono::minutes{sign * (hours * 60 + minutes)};
  return true;
}

std::string format_seconds(WallTime t) {
  const auto day = std::chrono::floor<std::chrono::days>(t);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss time{std::chrono::floor<std::chrono::seconds>(t - day)};
  char out[64];
  std::snprintf(out, sizeof out, "%04d-%02u-%02uT%02d:%02d:%02d", static_cast<int>(date.year()),
                static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()), static_cast<int>(time.hours().count()),
                static_cast<int>(time.minutes().count()), static_cast<int>(time.seconds().count()));
  return out;
}

}  // namespace

std::partial_ordering compare_resource_versions(std::string_view a, std::string_view b) {
  if (!well_formed(a) || !well_formed(b)) return std::partial_ordering::unordered;
  if (a.size() != b.size()) return a.size() <=> b.size();
  return a.compare(b) <=> 0;
}

std::string format_time(WallTime t) { return format_seconds(t) + "Z"; }

std::string format_micro_time(WallTime t) {
  const auto fraction = (t - std::chrono::floor<std::chrono::seconds>(t)).count();
  char out[16];
  std::snprintf(out, sizeof out, ".%06dZ", static_cast<int>(fraction));
  return format_seconds(t) + out;
}

bool parse_time(std::string_view text, WallTime& out) {
  std::size_t at = 0;
  const int year = take_number(text, at, 4);
  if (year < 0 || !take(text, at, '-')) return false;
  const int month = take_number(text, at, 2);
  if (month < 0 || !take(text, at, '-')) return false;
  const int day = take_number(text, at, 2);
  if (day < 0 || !(take(text, at, 'T') || take(text, at, 't'))) return false;
  const int hour = take_number(text, at, 2);
  if (hour < 0 || hour > 23 || !take(text, at, ':')) return false;
  const int minute = take_number(text, at, 2);
  if (minute < 0 || minute > 59 || !take(text, at, ':')) return false;
  const int second = take_number(text, at, 2);
  if (second < 0 || second > 60) return false;  // 60: a leap second, the next minute's first
  std::chrono::microseconds fraction;
  std::chrono::minutes offset;
  if (!take_fraction(text, at, fraction) || !take_offset(text, at, offset) || at != text.size()) return false;
  const std::chrono::year_month_day date{std::chrono::year{year}, std::chrono::month{static_cast<unsigned>(month)},
                                         std::chrono::day{static_cast<unsigned>(day)}};
  if (!date.ok()) return false;
  out = std::chrono::sys_days{date} + std::chrono::hours{hour} + std::chrono::minutes{minute} +
        std::chrono::seconds{second} + fraction - offset;
  return true;
}

}  // namespace muster::client
