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

// Of "self.a.b": whether the schema has that field.
inline bool has_field(const Json& schema, std::string_view path) {
  const Json* at = &schema;
  for (std::size_t begin = 0; begin < path.size();) {
    const std::size_t end = std::min(path.find('.', begin), path.size());
    const std::string name(path.substr(begin, end - begin));
    if (!at->contains("properties") || !at->at("properties").contains(name)) return false;
    at = &at->at("properties").at(name);
    begin = end + 1;
  }
  return true;
}

// The alternatives of a rule in CEL: what stands between `||` outside of all brackets.
inline std::vector<std::string> alternatives(const std::string& rule) {
  std::vector<std::string> list(1);
  int depth = 0;
  for (std::size_t i = 0; i < rule.size(); ++i) {
    depth += rule[i] == '(' || rule[i] == '[' ? 1 : rule[i] == ')' || rule[i] == ']' ? -1 : 0;
    if (depth == 0 && rule.compare(i, 4, " || ") == 0) {
      list.emplace_back();
      i += 3;
    } else {
      list.back() += rule[i];
    }
  }
  return list;
}

// A rule that holds of every object without a field that only the newer schema has, or with one that the
// older one requires: the older one takes no other.
inline bool is_about_a_new_field(const std::string& rule, const Json& older, const Json& newer) {
  const auto is_new = [&](const std::string& before, const std::string& text, const std::string& after) {
    if (!text.starts_with(before) || !text.ends_with(after) || text.size() <= before.size() + after.size())
      return false;
    const std::string path = text.substr(before.size(), text.size() - before.size() - after.size());
    return path.find_first_of(" ()[]") == std::string::npos && !has_field(older, path) &&
           has_field(newer, path);
  };
  const auto all = alternatives(rule);
  if (std::ranges::any_of(all, [&](const std::string& one) { return is_new("!has(self.", one, ")"); }))
    return true;
  const Json required = older.value("required", Json::array());
  const auto is_required = [&](const std::string& one) {
    return std::ranges::any_of(
        required, [&](const Json& name) { return one == "has(self." + name.get<std::string>() + ")"; });
  };
  if (std::ranges::any_of(all, is_required)) return true;
  // A field that cannot be added or removed.
  const auto equals = rule.find(") == has(oldSelf.");
  return equals != std::string::npos && is_new("has(self.", rule.substr(0, equals + 1), ")") &&
         rule == fmt::format("{} == has(oldSelf.{}", rule.substr(0, equals + 1), rule.substr(9, equals - 8));
}

// One of the older schema's rules that is this one with fewer alternatives; `rule` where there is none.
inline Json stricter(const Json& rule, const Json& older) {
  const auto now = alternatives(rule.at("rule").get<std::string>());
  for (const Json& before : older.value("x-kubernetes-validations", Json::array())) {
    const auto all = alternatives(before.at("rule").get<std::string>());
    if (std::ranges::all_of(all, [&](const std::string& one) { return std::ranges::count(now, one) > 0; }))
      return before;
  }
  return rule;
}

inline Json without_rules_about_new_fields(const Json& rules, const Json& older, const Json& newer) {
  Json rest = Json::array();
  for (const Json& rule : rules) {
    if (!is_about_a_new_field(rule.at("rule").get<std::string>(), older, newer))
      rest.push_back(stricter(rule, older));
  }
  return rest.empty() ? Json() : rest;
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
    const Json before = older.value(keyword, Json());
    Json after = newer.value(keyword, Json());
    if (keyword == "x-kubernetes-validations") after = without_rules_about_new_fields(after, older, newer);
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
