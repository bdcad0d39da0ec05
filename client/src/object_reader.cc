#include "object_reader.h"

namespace muster::client::reader {

std::int64_t unix_seconds(Value& value, std::string_view field) {
  const std::string_view written = text(value);
  WallTime t;
  if (!parse_time(written, t)) {
    throw BadField{std::string{field} + ": \"" + std::string{written} +
                   "\" is not a time as RFC 3339 has it"};
  }
  return std::chrono::floor<std::chrono::seconds>(t).time_since_epoch().count();
}

std::int64_t quantity(Value& value, std::int64_t scale, std::string_view field) {
  const bool is_text = value.type() == simdjson::ondemand::json_type::string;
  std::string_view written = is_text ? text(value) : value.raw_json_token();
  if (!is_text) {
    while (!written.empty() && written.back() <= ' ') written.remove_suffix(1);
  }
  std::int64_t amount = 0;
  if (!parse_quantity(written, scale, amount)) {
    throw BadField{std::string{field} + ": \"" + std::string{written} +
                   "\" is not a quantity, or beyond 64 bits"};
  }
  return amount;
}

Condition read_condition(Value& value) {
  Condition condition;
  each_field(value, [&](std::string_view key, Value& v) {
    if (key == "type") condition.type = text(v);
    if (key == "status") condition.status = text(v);
    if (key == "lastTransitionTime")
      condition.since = unix_seconds(v, "status.conditions[].lastTransitionTime");
  });
  return condition;
}

// Built, not assigned: an assigned string takes up to twice the room.
bool read_meta_field(std::string_view key, Value& value, Meta& meta) {
  if (key == "name") {
    meta.name = std::string{text(value)};
  } else if (key == "namespace") {
    meta.ns = std::string{text(value)};
  } else if (key == "uid") {
    meta.uid = std::string{text(value)};
  } else if (key == "resourceVersion") {
    meta.resource_version = std::string{text(value)};
  } else {
    return false;
  }
  return true;
}

}  // namespace muster::client::reader
