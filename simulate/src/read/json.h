// Reading JSON that may be anything.
#pragma once

#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "muster/crds/common.h"

namespace muster::simulate {

// nullptr: `parent` is nullptr or no object, or there is nothing (or null) under the key.
inline const crds::Json* find(const crds::Json* parent, std::string_view key) {
  if (parent == nullptr || !parent->is_object()) return nullptr;
  const auto found = parent->find(key);
  return found == parent->end() || found->is_null() ? nullptr : &*found;
}
inline const crds::Json* find(const crds::Json& parent, std::string_view key) {
  return find(&parent, key);
}
template <class... Keys>
const crds::Json* find(const crds::Json* parent, std::string_view key, Keys... more) {
  return find(find(parent, key), more...);
}

// "" where it is no string.
inline std::string text(const crds::Json* value) {
  return value != nullptr && value->is_string() ? value->get<std::string>() : std::string();
}

// A quantity as text, whether it is stated as text or as a number.
inline std::string quantity_of(const crds::Json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

}  // namespace muster::simulate
