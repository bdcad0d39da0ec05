#include "yaml/yaml_json.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <nlohmann/json.hpp>
#include <optional>
#include <string_view>

#include "types/path.h"

namespace muster::crds {
namespace {

constexpr int kMaxDepth = 100;

template <std::size_t N>
bool is_one_of(std::string_view text, const std::array<std::string_view, N>& words) {
  return std::ranges::find(words, text) != words.end();
}

constexpr std::array<std::string_view, 5> kNull = {"", "~", "null", "Null", "NULL"};
constexpr std::array<std::string_view, 11> kTrue = {"y",    "Y",    "yes", "Yes", "YES", "true",
                                                    "True", "TRUE", "on",  "On",  "ON"};
constexpr std::array<std::string_view, 11> kFalse = {"n",     "N",     "no",  "No",  "NO", "false",
                                                     "False", "FALSE", "off", "Off", "OFF"};

// 12, -3, +4, 1_000, 0x1F, 0b101, 017 and 0o17.
std::optional<Json> integer(std::string_view text) {
  std::string digits;
  std::ranges::copy_if(text, std::back_inserter(digits), [](char c) { return c != '_'; });
  std::string_view rest = digits;
  const bool negative = rest.starts_with('-');
  if (negative || rest.starts_with('+')) rest.remove_prefix(1);
  if (rest.empty() || text.starts_with('_')) return {};
  int base = 10;
  if (rest.size() > 1 && rest[0] == '0') {
    base = 8;
    rest.remove_prefix(1);
    const char prefix = rest[0];
    if (prefix == 'x' || prefix == 'b' || prefix == 'o') {
      base = prefix == 'x' ? 16 : prefix == 'b' ? 2 : 8;
      rest.remove_prefix(1);
    }
  }
  std::uint64_t value = 0;
  const auto [end, status] = std::from_chars(rest.data(), rest.data() + rest.size(), value, base);
  if (status != std::errc() || end != rest.data() + rest.size()) return {};
  if (!negative) return Json(value);
  if (value > std::uint64_t{1} << 63U) return {};
  return Json(static_cast<std::int64_t>(~value + 1));
}

std::optional<Json> real(std::string_view text) {
  // Only what starts like a number: from_chars would also take "inf" and "nan", which JSON has not.
  if (text.find_first_not_of("0123456789+-.eE") != std::string_view::npos) return {};
  if (text.find_first_of("0123456789") == std::string_view::npos) return {};
  if (text.starts_with('+')) text.remove_prefix(1);
  double value = 0;
  const auto [end, status] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (status != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) return {};
  // 3.0 and 1e3 are integers to Kubernetes' reader.
  if (value == std::trunc(value) && std::abs(value) < 1e15) return Json(static_cast<std::int64_t>(value));
  return Json(value);
}

constexpr std::array<std::string_view, 4> kLetters = {"y", "Y", "n", "N"};

Json scalar(const YAML::Node& node, Letters letters) {
  const std::string& text = node.Scalar();
  if (node.Tag() == "!" || node.Tag() == "tag:yaml.org,2002:str") return text;  // quoted, or said to be text
  if (is_one_of(text, kNull)) return nullptr;
  if (letters == Letters::kText && is_one_of(text, kLetters)) return text;
  if (is_one_of(text, kTrue)) return true;
  if (is_one_of(text, kFalse)) return false;
  if (auto number = integer(text)) return *std::move(number);
  if (auto number = real(text)) return *std::move(number);
  return text;
}

class Converter {
 public:
  Converter(std::size_t max_values, Letters letters) : max_values_(max_values), letters_(letters) {}

  std::expected<Json, YamlError> run(const YAML::Node& node) {
    Json result = convert(node, Path{}, 0);
    if (error_) return std::unexpected(*std::move(error_));
    return result;
  }

 private:
  Json fail(const YAML::Node& node, const Path& path, std::string message) {
    if (!error_) error_ = YamlError{node.Mark().line + 1, path.text(), std::move(message)};
    return {};
  }

  Json convert(const YAML::Node& node, const Path& path, int depth) {
    if (error_) return {};
    if (depth > kMaxDepth)
      return fail(node, path, "must not be nested deeper than " + std::to_string(kMaxDepth));
    if (++values_ > max_values_) {
      return fail(node, path,
                  "must have at most " + std::to_string(max_values_) + " values, aliases written out");
    }
    switch (node.Type()) {
      case YAML::NodeType::Scalar:
        return scalar(node, letters_);
      case YAML::NodeType::Sequence:
        return list(node, path, depth);
      case YAML::NodeType::Map:
        return map(node, path, depth);
      default:
        return nullptr;
    }
  }

  Json list(const YAML::Node& node, const Path& path, int depth) {
    Json result = Json::array();
    int index = 0;
    for (const YAML::Node& item : node) {
      result.push_back(convert(item, Path{&path, {}, index++}, depth + 1));
      if (error_) break;
    }
    return result;
  }

  Json map(const YAML::Node& node, const Path& path, int depth) {
    Json result = Json::object();
    Json merged = Json::object();
    for (const auto& entry : node) {
      const YAML::Node& key = entry.first;
      const YAML::Node& value = entry.second;
      if (!key.IsScalar()) return fail(key, path, "must have plain keys");
      const std::string& name = key.Scalar();
      if (name == "<<" && key.Tag() != "!") {
        merge(value, merged, path, depth);
      } else if (result.contains(name)) {
        return fail(key, Path{&path, name}, "must not be stated twice");
      } else {
        result[name] = convert(value, Path{&path, name}, depth + 1);
      }
      if (error_) return {};
    }
    for (auto& [name, value] : merged.items()) {
      if (!result.contains(name)) result[name] = value;
    }
    return result;
  }

  // Of several merged maps the first that has a key wins.
  void merge(const YAML::Node& value, Json& merged, const Path& path, int depth) {
    const Json from = convert(value, path, depth + 1);
    const Json sources = from.is_array() ? from : Json::array({from});
    for (const Json& source : sources) {
      if (!source.is_object()) {
        fail(value, path, "must merge (<<) maps only");
        return;
      }
      for (const auto& [name, item] : source.items()) {
        if (!merged.contains(name)) merged[name] = item;
      }
    }
  }

  std::optional<YamlError> error_;
  std::size_t max_values_;
  Letters letters_;
  std::size_t values_ = 0;
};

}  // namespace

std::expected<Json, YamlError> to_json(const YAML::Node& node, std::size_t max_values, Letters letters) {
  return Converter(max_values, letters).run(node);
}

}  // namespace muster::crds
