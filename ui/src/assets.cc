#include "assets.h"

#include <algorithm>
#include <array>
#include <utility>

namespace muster::ui {

const Asset* find_asset(std::string_view path) {
  if (!path.starts_with('/')) return nullptr;
  const std::string_view name = path == "/" ? "index.html" : path.substr(1);
  const auto all = assets();
  const auto found = std::ranges::find(all, name, &Asset::name);
  return found == all.end() ? nullptr : &*found;
}

std::string_view content_type(std::string_view name) {
  static constexpr std::array<std::pair<std::string_view, std::string_view>, 4> kTypes = {{
      {".html", "text/html; charset=utf-8"},
      {".css", "text/css; charset=utf-8"},
      {".js", "text/javascript; charset=utf-8"},
      {".svg", "image/svg+xml"},
  }};
  for (const auto& [ending, type] : kTypes) {
    if (name.ends_with(ending)) return type;
  }
  return "application/octet-stream";
}

}  // namespace muster::ui
