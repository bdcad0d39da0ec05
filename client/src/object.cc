#include "muster/client/object.h"

#include <simdjson.h>

#include <cstdio>

#include "padded_text.h"

namespace muster::client {

namespace {

bool well_formed(std::string_view version) {
  if (version.empty() || version.front() == '0') return false;
  return version.find_first_not_of("0123456789") == std::string_view::npos;
}

// Reads exactly `digits` decimal digits; -1: there are others.
int take_number(std::string_view& text, std::size_t digits) {
  if (text.size() < digits) return -1;
  int value = 0;
  for (char c : text.substr(0, digits)) {
    if (c < '0' || c > '9') return -1;
    value = value * 10 + (c - '0');
  }
  text.remove_prefix(digits);
  return value;
}

bool take_char(std::string_view& text, char c) {
  if (text.empty() || text.front() != c) return false;
  text.remove_prefix(1);
  return true;
}

// ".000006": to microseconds, further digits cut off. Absent: 0.
bool take_fraction(std::string_view& text, std::chrono::microseconds& out) {
  out = {};
  if (!take_char(text, '.')) return true;
  std::int64_t unit = 100'000;
  std::size_t digits = 0;
  for (; digits < text.size() && text[digits] >= '0' && text[digits] <= '9'; ++digits, unit /= 10) {
    out += std::chrono::microseconds{(text[digits] - '0') * unit};
  }
  text.remove_prefix(digits);
  return digits > 0;
}

// "Z" or "+02:00".
bool take_offset(std::string_view& text, std::chrono::minutes& out) {
  out = {};
  if (take_char(text, 'Z')) return true;
  const bool west = !text.empty() && text.front() == '-';
  if (!take_char(text, west ? '-' : '+')) return false;
  const int hours = take_number(text, 2);
  const bool colon = take_char(text, ':');
  const int minutes = take_number(text, 2);
  if (hours < 0 || !colon || minutes < 0 || hours > 23 || minutes > 59) return false;
  out = std::chrono::minutes{(west ? -1 : 1) * (hours * 60 + minutes)};
  return true;
}

std::string format(WallTime t, bool micros) {
  const auto day = std::chrono::floor<std::chrono::days>(t);
  const std::chrono::year_month_day date{day};
  const std::chrono::hh_mm_ss time{std::chrono::floor<std::chrono::microseconds>(t - day)};
  char text[64];
  const int n =
      std::snprintf(text, sizeof text, "%04d-%02u-%02uT%02d:%02d:%02d", static_cast<int>(date.year()),
                    static_cast<unsigned>(date.month()), static_cast<unsigned>(date.day()),
                    static_cast<int>(time.hours().count()), static_cast<int>(time.minutes().count()),
                    static_cast<int>(time.seconds().count()));
  std::string out(text, static_cast<std::size_t>(n));
  if (micros) {
    const int m = std::snprintf(text, sizeof text, ".%06d", static_cast<int>(time.subseconds().count()));
    out.append(text, static_cast<std::size_t>(m));
  }
  return out + 'Z';
}

}  // namespace

Key make_key(std::string_view ns, std::string_view name) {
  if (ns.empty()) return Key{name};
  Key key;
  key.reserve(ns.size() + 1 + name.size());
  key.append(ns).append(1, '/').append(name);
  return key;
}

std::pair<std::string_view, std::string_view> split_key(std::string_view key) {
  const auto slash = key.find('/');
  if (slash == std::string_view::npos) return {{}, key};
  return {key.substr(0, slash), key.substr(slash + 1)};
}

std::partial_ordering compare_resource_versions(std::string_view a, std::string_view b) {
  if (!well_formed(a) || !well_formed(b)) return std::partial_ordering::unordered;
  if (a.size() != b.size()) return a.size() <=> b.size();
  return a.compare(b) <=> 0;
}

std::string format_time(WallTime t) {
  return format(t, false);
}
std::string format_micro_time(WallTime t) {
  return format(t, true);
}

bool parse_time(std::string_view text, WallTime& out) {
  const int year = take_number(text, 4);
  const bool dash1 = take_char(text, '-');
  const int month = take_number(text, 2);
  const bool dash2 = take_char(text, '-');
  const int day = take_number(text, 2);
  if (year < 0 || !dash1 || month < 0 || !dash2 || day < 0 || !take_char(text, 'T')) return false;
  const int hour = take_number(text, 2);
  const bool colon1 = take_char(text, ':');
  const int minute = take_number(text, 2);
  const bool colon2 = take_char(text, ':');
  const int second = take_number(text, 2);
  if (hour < 0 || !colon1 || minute < 0 || !colon2 || second < 0) return false;
  std::chrono::microseconds fraction;
  std::chrono::minutes offset;
  if (!take_fraction(text, fraction) || !take_offset(text, offset) || !text.empty()) return false;
  const std::chrono::year_month_day date{std::chrono::year{year},
                                         std::chrono::month{static_cast<unsigned>(month)},
                                         std::chrono::day{static_cast<unsigned>(day)}};
  if (!date.ok() || hour > 23 || minute > 59 || second > 60) return false;
  out = std::chrono::sys_days{date} + std::chrono::hours{hour} + std::chrono::minutes{minute} +
        std::chrono::seconds{second} + fraction - offset;
  return true;
}

namespace {
simdjson::error_code read_meta(std::string_view json, Meta& meta) {
  thread_local simdjson::ondemand::parser parser;
  thread_local PaddedText padded;
  simdjson::ondemand::document document;
  simdjson::ondemand::object metadata;
  if (auto error = parser.iterate(padded.hold(json)).get(document)) return error;
  if (auto error = document["metadata"].get_object().get(metadata)) return error;
  for (auto field : metadata) {
    std::string_view key, value;
    if (auto error = field.unescaped_key().get(key)) return error;
    std::string* place = key == "name"              ? &meta.name
                         : key == "namespace"       ? &meta.ns
                         : key == "uid"             ? &meta.uid
                         : key == "resourceVersion" ? &meta.resource_version
                                                    : nullptr;
    if (place == nullptr) continue;
    if (auto error = field.value().get_string().get(value)) return error;
    *place = value;
  }
  return simdjson::SUCCESS;
}
}  // namespace

Result<Meta> decode_meta(std::string_view json) {
  Meta meta;
  const auto error = read_meta(json, meta);
  if (!error && !meta.name.empty()) return meta;
  Error bad;
  bad.code = ErrorCode::kDecode;
  bad.message = std::string{"metadata: "} + (error ? simdjson::error_message(error) : "name is missing");
  return std::unexpected(std::move(bad));
}

}  // namespace muster::client
