#include "sequence.h"

#include <algorithm>
#include <array>
#include <span>
#include <sstream>
#include <string_view>

namespace muster::test {
namespace {

enum Part : unsigned { kLeaves, kStarts, kEnds, kGone };

Part part_of(std::string_view type) {
  if (type == "Evicted" || type == "Moved" || type == "Shrunk") return kLeaves;
  if (type == "Admitted" || type == "Restarted" || type == "Grown") return kStarts;
  return type == "Finished" ? kEnds : kGone;
}

bool are_same(std::span<const Event> expected, std::span<const Event> there, bool in_order) {
  if (in_order) return std::ranges::equal(expected, there);
  std::vector<Event> a(expected.begin(), expected.end()), b(there.begin(), there.end());
  std::ranges::sort(a);
  std::ranges::sort(b);
  return a == b;
}

}  // namespace

std::string to_string(const Event& e) {
  std::string text = e.type + " " + e.object;
  if (!e.reason.empty()) text += " " + e.reason;
  if (!e.beneficiary.empty()) text += " for " + e.beneficiary;
  return text;
}

Instants by_instant(const std::vector<TimedEvent>& events) {
  Instants all;
  for (std::size_t i = 0; i < events.size(); ++i) {
    if (i == 0 || events[i].at != events[i - 1].at) all.emplace_back();
    all.back().push_back(events[i].event);
  }
  return all;
}

bool is_single_threaded(const Instants& instants) {
  return std::ranges::all_of(instants, [](const std::vector<Event>& instant) {
    std::array<int, 4> parts{};
    for (const Event& e : instant) ++parts[part_of(e.type)];
    return std::ranges::all_of(parts, [](int n) { return n <= 1; });
  });
}

std::string difference(const Instants& expected, const std::vector<Event>& there) {
  const bool in_order = is_single_threaded(expected);
  std::ostringstream text;
  std::size_t at = 0;
  bool differs = false;
  const auto line = [&](const std::string& left, const std::string& right, const char* mark) {
    text << mark << left << std::string(left.size() < 50 ? 50 - left.size() : 1, ' ') << "| " << right
         << "\n";
  };
  for (std::size_t i = 0; i <= expected.size(); ++i) {
    const bool is_last = i == expected.size();
    const auto wanted = is_last ? std::span<const Event>() : std::span<const Event>(expected[i]);
    const std::size_t n = is_last ? there.size() - at : std::min(wanted.size(), there.size() - at);
    const auto got = std::span(there).subspan(at, n);
    at += n;
    const bool is_first = !differs && !are_same(wanted, got, in_order);
    differs = differs || is_first;
    for (std::size_t j = 0; j < std::max(wanted.size(), n); ++j) {
      line(j < wanted.size() ? to_string(wanted[j]) : "", j < n ? to_string(got[j]) : "",
           is_first ? "! " : "  ");
    }
    if (!is_last) line("--", "--", "  ");
  }
  return differs ? text.str() : std::string();
}

}  // namespace muster::test
