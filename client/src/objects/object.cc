#include "muster/client/object.h"

#include <simdjson.h>

#include "muster/common/time.h"
#include "objects/padded_text.h"

namespace muster::client {

namespace {

bool well_formed(std::string_view version) {
  if (version.empty() || version.front() == '0') return false;
  return version.find_first_not_of("0123456789") == std::string_view::npos;
}

}  // namespace

Key make_key(std::string_view ns, std::string_view name) {
  if (ns.empty()) return Key{name};
  Key key;
  key.reserve(ns.size() + 1 + name.size());
  key.append(ns).append(1, '/').append(name);
  return key;
}

std::pair<std::string_view, std::string_view> split_key(std::string_view key) {
  const auto slash = key.find('/');
  if (slash == std::string_view::npos) return {{}, key};
  return {key.substr(0, slash), key.substr(slash + 1)};
}

std::partial_ordering compare_resource_versions(std::string_view a, std::string_view b) {
  if (!well_formed(a) || !well_formed(b)) return std::partial_ordering::unordered;
  if (a.size() != b.size()) return a.size() <=> b.size();
  return a.compare(b) <=> 0;
}

std::string format_time(WallTime t) {
  return common::format_time(t);
}
std::string format_micro_time(WallTime t) {
  return common::format_micro_time(t);
}
bool parse_time(std::string_view text, WallTime& out) {
  const auto time = common::parse_time(text);
  if (time) out = *time;
  return time.has_value();
}

namespace {
simdjson::error_code read_meta(std::string_view json, Meta& meta) {
  thread_local simdjson::ondemand::parser parser;
  thread_local PaddedText padded;
  simdjson::ondemand::document document;
  simdjson::ondemand::object metadata;
  if (auto error = parser.iterate(padded.hold(json)).get(document)) return error;
  if (auto error = document["metadata"].get_object().get(metadata)) return error;
  for (auto field : metadata) {
    std::string_view key, value;
    if (auto error = field.unescaped_key().get(key)) return error;
    std::string* place = key == "name"              ? &meta.name
                         : key == "namespace"       ? &meta.ns
                         : key == "uid"             ? &meta.uid
                         : key == "resourceVersion" ? &meta.resource_version
                                                    : nullptr;
    if (place == nullptr) continue;
    if (auto error = field.value().get_string().get(value)) return error;
    *place = value;
  }
  return simdjson::SUCCESS;
}
}  // namespace

Result<Meta> decode_meta(std::string_view json) {
  Meta meta;
  const auto error = read_meta(json, meta);
  if (!error && !meta.name.empty()) return meta;
  Error bad;
  bad.code = ErrorCode::kDecode;
  bad.message = std::string{"metadata: "} + (error ? simdjson::error_message(error) : "name is missing");
  return std::unexpected(std::move(bad));
}

}  // namespace muster::client
