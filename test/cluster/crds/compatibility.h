// Whether a newer schema takes what an older one takes. The known tools for it (crdify, crd-schema-checker)
// are not to be had from the Go module proxy.
#pragma once

#include <fmt/format.h>

#include <algorithm>
#include <set>
#include <string>
#include <vector>

#include "muster/crds/common.h"

namespace muster::crds {

// True: a value that was within the older bound is within the newer one. null: no bound.
inline bool is_wider(const std::string& keyword, const Json& older, const Json& newer) {
  if (newer.is_null()) return true;
  if (older.is_null()) return false;
  if (keyword.starts_with("max")) return newer.get<double>() >= older.get<double>();
  if (keyword.starts_with("min")) return newer.get<double>() <= older.get<double>();
  if (keyword == "enum" ||
      keyword == "x-kubernetes-validations")  // all of the longer list must hold of the other
    return std::ranges::all_of(keyword == "enum" ? older : newer, [&](const Json& item) {
      const Json& others = keyword == "enum" ? newer : older;
      return std::ranges::find(others, item) != others.end();
    });
  if (keyword == "required")
    return std::ranges::all_of(
        newer, [&](const Json& name) { return std::ranges::find(older, name) != older.end(); });
  return false;  // any other keyword has to stay as it is
}

// One line for each thing by which the newer schema may refuse, drop or read otherwise what the older one
// takes. A keyword that this function does not know counts as soon as it differs.
inline std::vector<std::string> breaks(const Json& older, const Json& newer, const std::string& at = "") {
  std::vector<std::string> found;
  const auto look_at = [&](const std::string& name, const Json& before, const Json& after) {
    for (auto& line : breaks(before, after, at + name)) found.push_back(std::move(line));
  };
  std::set<std::string> keywords;
  for (const auto& [keyword, value] : older.items()) keywords.insert(keyword);
  for (const auto& [keyword, value] : newer.items()) keywords.insert(keyword);
  for (const auto& keyword : keywords) {
    const Json before = older.value(keyword, Json()), after = newer.value(keyword, Json());
    if (before == after || keyword == "description") continue;
    if (keyword == "properties") {
      for (const auto& [name, schema] : before.items()) {
        if (after.is_object() && after.contains(name)) {
          look_at("." + name, schema, after[name]);
        } else {
          found.push_back(fmt::format("{}.{} is gone", at, name));
        }
      }
    } else if ((keyword == "items" || keyword == "additionalProperties") && before.is_object() &&
               after.is_object()) {
      look_at("[]", before, after);
    } else if (keyword == "default" || !is_wider(keyword, before, after)) {
      found.push_back(fmt::format("{}: {} was {} and is {}", at, keyword, before.dump(), after.dump()));
    }
  }
  return found;
}

}  // namespace muster::crds
