#include "objects/object_reader.h"

#include "muster/common/quantity.h"
#include "muster/common/time.h"

namespace muster::client::reader {

std::int64_t unix_seconds(Value& value, std::string_view field) {
  const auto time = common::parse_time(text(value));
  if (!time) throw BadField{std::string{field} + ": " + time.error()};
  return std::chrono::floor<std::chrono::seconds>(*time).time_since_epoch().count();
}

std::int64_t quantity(Value& value, std::int64_t scale, std::string_view field) {
  const bool is_text = value.type() == simdjson::ondemand::json_type::string;
  std::string_view written = is_text ? text(value) : value.raw_json_token();
  if (!is_text) {
    while (!written.empty() && written.back() <= ' ') written.remove_suffix(1);
  }
  const auto amount = common::parse_quantity(written, scale);
  if (!amount) throw BadField{std::string{field} + ": " + amount.error()};
  return *amount;
}

Condition read_condition(Value& value) {
  Condition condition;
  each_field(value, [&](std::string_view key, Value& v) {
    if (key == "type") condition.type = text(v);
    if (key == "status") condition.status = text(v);
    if (key == "reason") condition.reason = text(v);
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
