#include "muster/server/target.h"

#include <cstddef>

namespace muster::server {
namespace {

int digit(char c) {
  if (c >= '0' && c <= '9') return c - '0';
  if (c >= 'a' && c <= 'f') return c - 'a' + 10;
  if (c >= 'A' && c <= 'F') return c - 'A' + 10;
  return -1;
}

// What is no percent-encoding stays as it is.
std::string decoded(std::string_view text) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const bool is_escape =
        text[i] == '%' && i + 2 < text.size() && digit(text[i + 1]) >= 0 && digit(text[i + 2]) >= 0;
    out += is_escape ? static_cast<char>(16 * digit(text[i + 1]) + digit(text[i + 2])) : text[i];
    if (is_escape) i += 2;
  }
  return out;
}

}  // namespace

std::string Target::value(std::string_view name) const {
  for (const auto& [key, value] : query) {
    if (key == name) return value;
  }
  return {};
}

Target parse_target(std::string_view text) {
  const std::size_t mark = text.find('?');
  Target target{decoded(text.substr(0, mark))};
  if (mark == std::string_view::npos) return target;
  std::string_view rest = text.substr(mark + 1);
  while (!rest.empty()) {
    const std::size_t end = rest.find('&');
    const std::string_view part = rest.substr(0, end);
    const std::size_t equals = part.find('=');
    target.query.emplace_back(decoded(part.substr(0, equals)), equals == std::string_view::npos
                                                                   ? std::string()
                                                                   : decoded(part.substr(equals + 1)));
    rest = end == std::string_view::npos ? std::string_view() : rest.substr(end + 1);
  }
  return target;
}

}  // namespace muster::server
