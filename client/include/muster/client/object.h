// What every cached object has: the few metadata fields that caches, queues and owners need.
#pragma once

#include <chrono>
#include <compare>
#include <cstdint>
#include <string>
#include <string_view>
#include <utility>

#include "muster/client/error.h"

namespace muster::client {

// Key of an object in a cache: "namespace/name", or "name" for cluster-scoped kinds.
using Key = std::string;
Key make_key(std::string_view ns, std::string_view name);
// {"", name} for cluster-scoped keys.
std::pair<std::string_view, std::string_view> split_key(std::string_view key);

// Every type in a Store has these (see the concept Cached in informer.h).
struct Meta {
  std::string ns;
  std::string name;
  std::string uid;
  std::string resource_version;

  Key key() const { return make_key(ns, name); }
};

// The metadata of any object's text; kDecode where it has no name.
Result<Meta> decode_meta(std::string_view json);

// The order of resourceVersions of one kind, which are decimal strings of any length (KEP-5504). Malformed
// ones (not decimal, or with a leading zero) are unordered.
std::partial_ordering compare_resource_versions(std::string_view a, std::string_view b);

// RFC 3339 as the API server writes it, with microseconds or without: "2026-01-02T03:04:05.000006Z". It is
// read with any offset from UTC. Digits beyond microseconds are cut off.
using WallTime = std::chrono::sys_time<std::chrono::microseconds>;
std::string format_time(WallTime t);        // seconds: metav1.Time
std::string format_micro_time(WallTime t);  // microseconds: metav1.MicroTime
// False: not a time.
bool parse_time(std::string_view text, WallTime& out);

}  // namespace muster::client
