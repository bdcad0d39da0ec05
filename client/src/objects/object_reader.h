// How pods and nodes are read: simdjson's on-demand interface with its exceptions, which end at
// read_object(). A missing field and a null are the same everywhere, as they are to the API server.
#pragma once

#include <simdjson.h>

#include <algorithm>
#include <string>
#include <string_view>
#include <utility>

#include "muster/client/error.h"
#include "muster/client/object.h"
#include "muster/client/pod.h"
#include "objects/padded_text.h"

namespace muster::client::reader {

using Value = simdjson::ondemand::value;

// A value that is JSON but not what its field takes; ends at read_object().
struct BadField {
  std::string message;
};

// fn(key, value) for each field that is not null. `key` is valid during the call.
template <class Fn>
void each_field(simdjson::ondemand::object object, Fn fn) {
  for (auto field : object) {
    const std::string_view key = field.unescaped_key();
    Value value = field.value();
    if (!value.is_null()) fn(key, value);
  }
}
template <class Fn>
void each_field(Value& value, Fn fn) {
  each_field(value.get_object().value(), std::move(fn));
}
// fn(value) for each element.
template <class Fn>
void each_element(Value& value, Fn fn) {
  simdjson::ondemand::array array = value.get_array();  // named: value() would refer into a temporary
  for (auto element : array) {
    Value v = element.value();
    fn(v);
  }
}

// What stands in Extended.
inline bool is_other_resource(std::string_view resource) {
  return resource.contains('/') || resource == "ephemeral-storage" || resource.starts_with("hugepages-");
}

inline std::string_view text(Value& value) {
  return value.get_string();
}
std::int64_t unix_seconds(Value& value, std::string_view field);
// A quantity, written as text or as a number.
std::int64_t quantity(Value& value, std::int64_t scale, std::string_view field);
// An element of status.conditions. Its texts are valid as long as the parsed document.
struct Condition {
  std::string_view type, status, reason;
  std::int64_t since = 0;  // lastTransitionTime in Unix seconds; 0: not said
};
Condition read_condition(Value& value);
// True if `key` was one of Meta's.
bool read_meta_field(std::string_view key, Value& value, Meta& meta);
// Pairs that `wanted` says yes to, sorted by key, no spare capacity.
template <class Wanted>
KeyValues read_pairs(Value& value, Wanted wanted) {
  KeyValues found;
  each_field(value, [&](std::string_view key, Value& v) {
    if (wanted(key)) found.emplace_back(key, text(v));
  });
  std::sort(found.begin(), found.end());
  found.shrink_to_fit();
  return found;
}

// Calls read(root) on the object's text. `meta` names the object in the error, as far as it was read.
template <class Read>
Result<void> read_object(std::string_view kind, std::string_view json, const Meta& meta, Read read) {
  thread_local simdjson::ondemand::parser parser;
  thread_local PaddedText padded;
  Error bad;
  bad.code = ErrorCode::kDecode;
  try {
    simdjson::ondemand::document document = parser.iterate(padded.hold(json));
    read(document.get_object().value());
    if (!meta.name.empty()) return {};
    bad.message = "metadata.name is missing";
  } catch (const simdjson::simdjson_error& e) {
    bad.message = e.what();
  } catch (const BadField& e) {
    bad.message = e.message;
  }
  bad.message = std::string{kind} + " " + (meta.name.empty() ? "?" : meta.key()) + ": " + bad.message;
  return std::unexpected(std::move(bad));
}

}  // namespace muster::client::reader
