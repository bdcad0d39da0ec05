// Where we are in an object, built only when there is something to say about it.
#pragma once

#include <string>
#include <string_view>

namespace muster::crds {

// A step of a path on the stack of a recursion: a field, or an item where `index` is not negative.
struct Path {
  const Path* parent = nullptr;
  std::string_view name{};
  int index = -1;

  // "spec.roles[0].gpus.count"
  std::string text() const {
    std::string result = parent == nullptr ? std::string() : parent->text();
    if (index >= 0) return result + "[" + std::to_string(index) + "]";
    if (name.empty()) return result;
    if (!result.empty()) result += '.';
    return result += name;
  }
};

}  // namespace muster::crds
