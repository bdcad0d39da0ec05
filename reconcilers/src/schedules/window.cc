#include "muster/reconcilers/schedules/window.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/reconcilers/schedules/effective_spec.h"

namespace muster::reconcilers {
namespace {

using crds::Time;
using std::chrono::days;
using std::chrono::minutes;

// So far ahead a start is looked for. The 29th of February falls on the same day of the week again after 40
// years at most.
constexpr days kHorizon{41 * 366};
// Clocks are put back by no more than this: so far a start that is over may lie ahead of what they show.
constexpr std::chrono::hours kMaxPutBack{3};
}  // namespace

std::optional<Time> Window::last_start(Time now) const {
  const Time over = now - duration;
  const auto from = zone.to_local(now) + kMaxPutBack;
  const auto last_day = std::chrono::floor<days>(from);
  for (auto day = last_day; day + days{2} > zone.to_local(over); day -= days{1}) {
    if (!cron.falls_on(std::chrono::year_month_day{day})) continue;
    const auto until = day == last_day ? std::chrono::floor<minutes>(from - day) : minutes{24 * 60 - 1};
    for (auto at = cron.last_until(until); at; at = cron.last_until(*at - minutes{1})) {
      const Time start = zone.to_sys(day + *at);
      if (start <= over) return std::nullopt;
      if (start <= now) return start;
    }
  }
  return std::nullopt;
}

std::optional<Time> Window::next_start(Time after) const {
  const auto from = zone.to_local(after);
  const auto today = std::chrono::floor<days>(from);
  for (auto day = today; day < today + kHorizon; day += days{1}) {
    if (!cron.falls_on(std::chrono::year_month_day{day})) continue;
    for (auto at = cron.first_from(day == today ? std::chrono::floor<minutes>(from - day) : minutes{0}); at;
         at = cron.first_from(*at + minutes{1})) {
      const Time start = zone.to_sys(day + *at);
      if (start > after) return start;
    }
  }
  return std::nullopt;
}

std::optional<Time> Window::next_boundary(Time after) const {
  const auto next = next_start(after);
  const auto last = last_start(after);
  if (!last) return next;
  const Time end = *last + duration;
  return next ? std::min(*next, end) : end;
}

std::optional<Window> window_of(const std::string& start, const std::string& time_zone,
                                crds::Duration duration, std::string_view list, std::size_t entry,
                                std::vector<std::string>& problems) {
  const auto cron = Cron::parse(start);
  const auto zone = TimeZone::find(time_zone);
  const bool is_fitting = duration > crds::Duration{0} && duration <= kMaxScheduled;
  const auto refuse = [&](const char* field, const std::string& what) {
    problems.push_back(fmt::format("{}[{}].{}: {}", list, entry, field, what));
  };
  if (!cron) refuse("start", cron.error());
  if (!zone) refuse("timeZone", zone.error());
  if (!is_fitting) refuse("duration", "must be longer than 0s and at most 366d");
  if (!cron || !zone || !is_fitting) return std::nullopt;
  return Window{entry, *cron, *zone, duration};
}

std::optional<Time> first_boundary(const std::vector<Window>& windows, Time after) {
  std::optional<Time> first;
  for (const Window& window : windows) {
    const auto boundary = window.next_boundary(after);
    if (boundary && (!first || *boundary < *first)) first = boundary;
  }
  return first;
}

}  // namespace muster::reconcilers
