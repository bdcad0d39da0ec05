// The files of the page (ui/page/), which are part of the program.
#pragma once

#include <span>
#include <string_view>

namespace muster::ui {

struct Asset {
  std::string_view name;  // "now.js"
  std::string_view content;
};

// Made by ui/embed.cmake.
std::span<const Asset> assets();

// "/" is index.html. nullptr: there is no such file.
const Asset* find_asset(std::string_view path);
// By the ending of its name.
std::string_view content_type(std::string_view name);

}  // namespace muster::ui
