#include "output/text.h"

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

std::int64_t milli_gpus(const crds::Amounts& amounts) {
  return amounts.gpu ? amounts.gpu->value : 0;
}

std::string gpus(const crds::Amounts& amounts) {
  return amounts.gpu ? crds::to_string(*amounts.gpu) : "0";
}

namespace {

std::string wrapped_line(std::string_view text, std::size_t width) {
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

}  // namespace

std::string wrapped(std::string_view text, std::size_t width) {
  const std::size_t end = text.find('\n');
  std::string first = wrapped_line(text.substr(0, end), width);
  if (end == std::string_view::npos) return first;
  return first + '\n' + wrapped(text.substr(end + 1), width);
}

std::string name_of(const crds::ObjectMeta& meta) {
  return meta.ns + "/" + meta.name;
}

std::string said(const client::Error& error, std::string_view if_forbidden) {
  std::string text = error.message.empty() ? client::to_string(error) : error.message;
  if (error.code == client::ErrorCode::kForbidden && !if_forbidden.empty())
    text += "\n" + std::string(if_forbidden) + ".";
  return text;
}

}  // namespace muster::plugin
