#include "text.h"

#include <algorithm>
#include <array>
#include <utility>

namespace muster::plugin {

std::string for_people(std::chrono::seconds duration) {
  constexpr std::array<std::pair<std::int64_t, char>, 4> kUnits = {
      {{86'400, 'd'}, {3'600, 'h'}, {60, 'm'}, {1, 's'}}};
  std::int64_t left = std::max<std::int64_t>(0, duration.count());
  std::string text;
  int said = 0;
  for (const auto& [seconds, unit] : kUnits) {
    const std::int64_t n = left / seconds;
    left %= seconds;
    if (said > 0) ++said;
    if (n > 0) {
      text += std::to_string(n) + unit;
      said = std::max(said, 1);
    }
    if (said == 2) break;
  }
  return text.empty() ? "0s" : text;
}

std::string gpus(const crds::Amounts& amounts) {
  return amounts.gpu ? crds::to_string(*amounts.gpu) : "0";
}

std::string wrapped(std::string_view text, std::size_t width) {
  std::string out;
  std::size_t line = 0;
  while (!text.empty()) {
    const std::size_t end = std::min(text.find(' '), text.size());
    const std::string_view word = text.substr(0, end);
    text.remove_prefix(std::min(end + 1, text.size()));
    if (line > 0 && line + 1 + word.size() > width) {
      out += '\n';
      line = 0;
    } else if (line > 0) {
      out += ' ';
      ++line;
    }
    out += word;
    line += word.size();
  }
  return out;
}

}  // namespace muster::plugin
