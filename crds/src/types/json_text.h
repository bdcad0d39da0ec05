// JSON values in messages.
#pragma once

#include <array>
#include <charconv>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <system_error>

#include "muster/crds/common.h"

namespace muster::crds {

// A short JSON text for a message, whatever the value is.
inline std::string shown(const Json& value) {
  if (value.is_object()) return "an object";
  if (value.is_array()) return "a list of " + std::to_string(value.size());
  if (value.is_number_float()) {  // all digits of what is too large for an integer, where there are not many
    std::array<char, 32> digits{};
    const auto end = std::to_chars(digits.data(), digits.data() + digits.size(), value.get<double>(),
                                   std::chars_format::fixed);
    if (end.ec == std::errc()) return {digits.data(), end.ptr};
  }
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
