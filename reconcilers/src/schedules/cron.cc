#include "muster/reconcilers/schedules/cron.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cctype>
#include <charconv>
#include <span>
#include <vector>

namespace muster::reconcilers {
namespace {

using std::chrono::minutes;
using Error = std::unexpected<std::string>;

constexpr std::array<std::string_view, 12> kMonths = {"jan", "feb", "mar", "apr", "may", "jun",
                                                      "jul", "aug", "sep", "oct", "nov", "dec"};
constexpr std::array<std::string_view, 7> kWeekdays = {"sun", "mon", "tue", "wed", "thu", "fri", "sat"};

struct Field {
  std::string_view name;
  int least, most;
  std::span<const std::string_view> names{};  // of its values, from `least`
};
constexpr std::array<Field, 5> kFields = {{{"minute", 0, 59},
                                           {"hour", 0, 23},
                                           {"day of the month", 1, 31},
                                           {"month", 1, 12, kMonths},
                                           {"day of the week", 0, 7, kWeekdays}}};

std::vector<std::string_view> split(std::string_view text, std::string_view separators) {
  std::vector<std::string_view> parts;
  while (true) {
    const auto end = text.find_first_of(separators);
    parts.push_back(text.substr(0, end));
    if (end == std::string_view::npos) return parts;
    text.remove_prefix(end + 1);
  }
}

std::optional<int> number(std::string_view text) {
  int value = 0;
  const char* const end = text.data() + text.size();
  const auto [next, error] = std::from_chars(text.data(), end, value);
  const bool is_plain = !text.empty() && std::isdigit(static_cast<unsigned char>(text.front())) != 0;
  return is_plain && error == std::errc() && next == end ? std::optional(value) : std::nullopt;
}

std::optional<int> value_of(const Field& field, std::string_view text) {
  std::string word(text);
  std::ranges::transform(word, word.begin(), [](unsigned char c) { return std::tolower(c); });
  if (const auto found = std::ranges::find(field.names, word); found != field.names.end())
    return field.least + static_cast<int>(found - field.names.begin());
  const auto value = number(text);
  return value && *value >= field.least && *value <= field.most ? value : std::nullopt;
}

std::string allowed(const Field& field) {
  std::string text = fmt::format(
      "{} must be a list of *, numbers from {} to {} and ranges, * and ranges also with "
      "a step such as */2",
      field.name, field.least, field.most);
  if (!field.names.empty())
    text += fmt::format("; names are {} to {}", field.names.front(), field.names.back());
  return text;
}

// One of the list: the bits that it sets. False: it cannot be read.
template <std::size_t n>
bool take_part(const Field& field, std::string_view part, std::bitset<n>& bits) {
  const auto slash = part.find('/');
  const std::string_view range = part.substr(0, slash);
  const auto step = slash == std::string_view::npos ? std::optional(1) : number(part.substr(slash + 1));
  int from = field.least, to = field.most;
  if (range != "*") {
    const auto dash = range.find('-');
    const auto first = value_of(field, range.substr(0, dash));
    auto last = dash == std::string_view::npos ? first : value_of(field, range.substr(dash + 1));
    if (last == 0 && first && *first > 0 && field.most == 7) last = 7;  // fri-sun
    if (!first || !last || *first > *last) return false;
    if (dash == std::string_view::npos && slash != std::string_view::npos) return false;
    from = *first, to = *last;
  }
  if (!step || *step < 1 || *step > field.most) return false;
  for (int value = from; value <= to; value += *step) bits.set(static_cast<std::size_t>(value));
  return true;
}

template <std::size_t n>
std::expected<void, std::string> take_field(const Field& field, std::string_view text, std::bitset<n>& bits) {
  for (const std::string_view part : split(text, ",")) {
    if (!take_part(field, part, bits)) return Error(fmt::format("{}, has \"{}\"", allowed(field), part));
  }
  return {};
}

unsigned weekday_of(std::chrono::year_month_day day) {
  return std::chrono::weekday{std::chrono::sys_days{day}}.c_encoding();
}

}  // namespace

std::expected<Cron, std::string> Cron::parse(std::string_view text) {
  std::vector<std::string_view> parts = split(text, " \t");
  std::erase(parts, std::string_view());
  if (parts.size() != kFields.size()) {
    return Error(
        fmt::format("must have five fields (minute, hour, day of the month, month, day of the week), has {}",
                    parts.size()));
  }
  Cron cron;
  for (const auto& taken :
       {take_field(kFields[0], parts[0], cron.minutes_), take_field(kFields[1], parts[1], cron.hours_),
        take_field(kFields[2], parts[2], cron.days_), take_field(kFields[3], parts[3], cron.months_),
        take_field(kFields[4], parts[4], cron.weekdays_)}) {
    if (!taken) return Error(taken.error());
  }
  if (cron.weekdays_.test(7)) cron.weekdays_.set(0);
  cron.any_day_ = parts[2].starts_with('*');
  cron.any_weekday_ = parts[4].starts_with('*');
  // With February as long as it may be.
  constexpr std::array<unsigned, 13> kLengths = {0, 31, 29, 31, 30, 31, 30, 31, 31, 30, 31, 30, 31};
  bool comes = !cron.any_day_ && !cron.any_weekday_;
  for (unsigned month = 1; month <= 12; ++month) {
    for (unsigned day = 1; day <= kLengths[month]; ++day)
      comes = comes || (cron.months_.test(month) && cron.days_.test(day));
  }
  if (!comes) return Error("must name a day that comes: no month of those has such a day");
  return cron;
}

bool Cron::falls_on(std::chrono::year_month_day day) const {
  if (!months_.test(static_cast<unsigned>(day.month()))) return false;
  const bool is_day = days_.test(static_cast<unsigned>(day.day()));
  const bool is_weekday = weekdays_.test(weekday_of(day));
  return any_day_ || any_weekday_ ? is_day && is_weekday : is_day || is_weekday;
}

std::optional<minutes> Cron::first_from(minutes of_day) const {
  const auto from = static_cast<std::size_t>(std::max<std::int64_t>(of_day.count(), 0));
  for (std::size_t hour = from / 60; hour < 24; ++hour) {
    if (!hours_.test(hour)) continue;
    for (std::size_t minute = hour == from / 60 ? from % 60 : 0; minute < 60; ++minute) {
      if (minutes_.test(minute)) return minutes{static_cast<std::int64_t>(hour * 60 + minute)};
    }
  }
  return std::nullopt;
}

std::optional<minutes> Cron::last_until(minutes of_day) const {
  if (of_day.count() < 0) return std::nullopt;
  const auto until = static_cast<std::size_t>(std::min<std::int64_t>(of_day.count(), 24 * 60 - 1));
  for (std::size_t hour = until / 60 + 1; hour-- > 0;) {
    if (!hours_.test(hour)) continue;
    for (std::size_t minute = (hour == until / 60 ? until % 60 : 59) + 1; minute-- > 0;) {
      if (minutes_.test(minute)) return minutes{static_cast<std::int64_t>(hour * 60 + minute)};
    }
  }
  return std::nullopt;
}

}  // namespace muster::reconcilers
