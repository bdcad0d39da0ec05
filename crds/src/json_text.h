// JSON values in messages.
#pragma once

#include <cmath>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "muster/crds/common.h"

namespace muster::crds {

// A short JSON text for a message, whatever the value is.
inline std::string shown(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list of " + std::to_string(value.size());
  // All digits of what is too large for an integer.
  const double number = value.is_number_float() ? value.get<double>() : 0.5;
  if (number == std::trunc(number) && std::abs(number) < 1e25)
    return std::to_string(number).substr(0, std::to_string(number).find('.'));
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  if (text.size() > 80) {
    std::size_t end = 77;
    while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0) == 0x80) --end;
    text = text.substr(0, end) + "...";
  }
  return text;
}

// The member, or nullptr where `object` is no object or has none of this name.
inline const Json* member(const Json* object, std::string_view name) {
  if (object == nullptr || !object->is_object()) return nullptr;
  const auto it = object->find(name);
  return it == object->end() ? nullptr : &*it;
}
inline const Json* member(const Json& object, std::string_view name) {
  return member(&object, name);
}

// The text, or empty where `value` is nullptr or no string.
inline std::string_view text_of(const Json* value) {
  if (value == nullptr || !value->is_string()) return {};
  return value->get_ref<const std::string&>();
}

}  // namespace muster::crds
