#include "muster/crds/validate.h"

#include <algorithm>
#include <nlohmann/json.hpp>
#include <regex>
#include <set>
#include <stdexcept>
#include <unordered_map>

#include "muster/crds/documents.h"
#include "muster/crds/metadata.h"
#include "muster/crds/time.h"
#include "schema/rules.h"
#include "types/json_text.h"
#include "types/path.h"

namespace muster::crds {
namespace {

std::size_t characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

bool matches_pattern(std::string_view text, const std::string& pattern) {
  thread_local std::unordered_map<std::string, std::regex> compiled;
  auto it = compiled.find(pattern);
  if (it == compiled.end()) it = compiled.emplace(pattern, std::regex(pattern, std::regex::ECMAScript)).first;
  return std::regex_search(text.begin(), text.end(), it->second);
}

// What a pattern of ours means, behind "must be".
std::string_view words_for(std::string_view pattern) {
  struct Words {
    std::string_view pattern, words;
  };
  static constexpr Words kWords[] = {
      {R"(^([0-9]{1,9}(\.[0-9]{1,3})?|[0-9]{1,12}m|[0-9]{1,6}(\.[0-9]{1,3})?k)$)",
       R"(a quantity such as 2, "0.5" or "2500m")"},
      {R"(^([0-9]{1,17}|[0-9]{1,14}(\.[0-9]{1,3})?(k|Ki)|[0-9]{1,11}(\.[0-9]{1,3})?(M|Mi)|[0-9]{1,8}(\.[0-9]{1,3})?(G|Gi)|[0-9]{1,5}(\.[0-9]{1,3})?(T|Ti)|[0-9]{1,2}(\.[0-9]{1,3})?(P|Pi))$)",
       R"(an amount of bytes such as "512Mi" or "4Ti")"},
      {"^([0-9]{1,17}|[0-9]{1,14}(k|Ki)|[0-9]{1,11}(M|Mi)|[0-9]{1,8}(G|Gi)|[0-9]{1,5}(T|Ti)|"
       "[0-9]{1,2}(P|Pi))$",
       R"(a whole number such as 64, or bytes such as "4Gi")"},
      {"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$",
       "of lower-case letters, digits, - and ., the first and the last a letter or a digit"},
      {"^[a-z0-9]([-a-z0-9]*[a-z0-9])?$",
       "of lower-case letters, digits and -, the first and the last a letter or a digit"},
      {"^[a-z]([-a-z0-9]*[a-z0-9])?$",
       "of lower-case letters, digits and -, the first a letter, the last no -"},
      {"^([0-9]{1,5}d)?([0-9]{1,6}h)?([0-9]{1,7}m)?([0-9]{1,9}s)?$", "a duration such as 14d, 1h30m or 90s"},
      {R"(^([0-9]{1,13}m?|[0-9]{1,6}\.[0-9]{1,3}|[0-9]{1,10}(\.[0-9]{1,3})?(k|Ki)|[0-9]{1,7}(\.[0-9]{1,3})?(M|Mi)|[0-9]{1,4}(\.[0-9]{1,3})?(G|Gi)|[0-9](\.[0-9]{1,3})?(T|Ti))$)",
       R"(an amount from 0 on such as 2, "500m", "0.5" or "64Gi")"},
      {"^[0-9]{1,19}(m|[KMGTPE]i)?$", R"(an amount from 0 on such as 2, "500m" or "64Gi")"},
      {R"(^(1|1000m|[1-9][0-9]{0,2}m|0?[.]([1-9][0-9]{0,2}|0[1-9][0-9]?|00[1-9]))$)",
       R"(a part of one GPU, from 1m to 1000m, such as "500m" or "0.5")"},
      {"^[1-7]g[.][1-9][0-9]{0,2}gb$",
       "a MIG profile of 1 to 7 slices such as 1g.10gb or 3g.40gb (`nvidia-smi mig -lgip` has those of a "
       "GPU)"},
      {"^([1-9]([.][0-9]{1,3})?|[1-9][0-9]{3}m)$",
       R"(a factor from 1 to less than 10 such as 1, "1.5" or "1500m")"},
      {"^([1-9][0-9]{0,8}m?|[0-9]{1,6}[.][0-9]{0,2}[1-9])$", R"(an amount above 0 such as 4 or "800m")"},
      {"^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
       "a name of letters, digits, -, _ and ., with a domain and a slash before it or without: "
       "topology.kubernetes.io/zone"},
      {"^[a-z0-9]([-a-z0-9.]*[a-z0-9])?/[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$",
       "an extended resource such as nvidia.com/gpu"},
      {"^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$",
       "of letters, digits, -, _ and ., the first and the last a letter or a digit"},
      {"^[A-Z][A-Za-z0-9]*$", "a word of letters and digits, the first a capital"},
      {"^[a-zA-Z_][a-zA-Z0-9_]*$", "of letters, digits and _, the first no digit"},
      {"^[a-zA-Z_:][a-zA-Z0-9_:]*$", "of letters, digits, _ and :, the first no digit"},
      {"^/[-A-Za-z0-9._~/]*$", "a path that begins with /, of letters, digits, -, ., _, ~ and /"},
      {"^/[^:]+$", "a path that begins with /, without a colon"},
      {"^[^:]+$", "without a colon"},
      {"^[^=]+$", "without ="},
  };
  const auto* const found = std::ranges::find(kWords, pattern, &Words::pattern);
  return found == std::end(kWords) ? std::string_view() : found->words;
}

bool set(const Json& schema, std::string_view keyword) {
  const Json* value = member(schema, keyword);
  return value != nullptr && value->is_boolean() && value->get<bool>();
}

// "a, b and c"
std::string listed(const std::vector<std::string>& words, std::string_view last = "and") {
  std::string text;
  for (std::size_t i = 0; i < words.size(); ++i) {
    if (i != 0) text += i + 1 == words.size() ? " " + std::string(last) + " " : ", ";
    text += words[i];
  }
  return text;
}

class Validator {
 public:
  Validator(std::string object, std::vector<FieldError>& errors)
      : object_(std::move(object)), errors_(errors) {}

  // `old_value`: what was there before an update, where the schema says which value that is; else nullptr.
  void check(const Json& schema, const Json& value, const Json* old_value, const Path& path) {
    const std::size_t before = errors_.size();
    if (!check_type(schema, value, path)) return;
    if (const Json* allowed = member(schema, "enum"); allowed != nullptr) check_enum(*allowed, value, path);
    if (value.is_string()) check_string(schema, value, path);
    if (value.is_number()) check_number(schema, value, path);
    if (value.is_object()) check_object(schema, value, old_value, path);
    if (value.is_array()) check_array(schema, value, old_value, path);
    // As on the server, rules see only what has the right shape.
    if (errors_.size() == before) check_rules(schema, value, old_value, path);
  }

  void check_metadata(const Json& metadata, const Path& path);

  void add(const Path& path, std::string message) {
    errors_.push_back({object_, path.text(), std::move(message), {}});
  }

 private:
  bool check_type(const Json& schema, const Json& value, const Path& path) {
    if (set(schema, "x-kubernetes-int-or-string")) {
      if (value.is_string() || value.is_number_integer()) return true;
      add(path, "must be an integer or a string, is " + shown(value) +
                    (value.is_number() ? ": put the number in quotes" : ""));
      return false;
    }
    if (value.is_null() && set(schema, "nullable")) return true;
    const std::string_view type = text_of(member(schema, "type"));
    const bool fits = type == "object"    ? value.is_object()
                      : type == "array"   ? value.is_array()
                      : type == "string"  ? value.is_string()
                      : type == "boolean" ? value.is_boolean()
                      : type == "integer" ? value.is_number_integer()
                                          : true;
    if (fits) return true;
    add(path, "must be " +
                  std::string(type == "object"    ? "an object"
                              : type == "array"   ? "a list"
                              : type == "string"  ? "a string"
                              : type == "boolean" ? "true or false"
                                                  : "an integer") +
                  ", is " + shown(value) +
                  (type == "string" && value.is_boolean()
                       ? " (YAML reads y, n, yes, no, on and off as true and false: put them in quotes)"
                       : ""));
    return false;
  }

  void check_enum(const Json& allowed, const Json& value, const Path& path) {
    if (std::ranges::find(allowed, value) != allowed.end()) return;
    std::string words;
    for (const Json& word : allowed) {
      const std::string_view text = text_of(&word);
      words += (words.empty() ? "" : ", ") + std::string(text.empty() ? "\"\"" : text);
    }
    add(path, "must be " + std::string(allowed.size() > 1 ? "one of " : "") + words + ", is " + shown(value));
  }

  void check_string(const Json& schema, const Json& value, const Path& path) {
    const std::string_view text = text_of(&value);
    const std::size_t length = characters(text);
    if (const Json* least = member(schema, "minLength");
        least != nullptr && length < least->get<std::size_t>()) {
      add(path, "must have at least " + least->dump() + " characters, is " + shown(value));
      return;
    }
    if (const Json* most = member(schema, "maxLength");
        most != nullptr && length > most->get<std::size_t>()) {
      add(path, "must have at most " + most->dump() + " characters, has " + std::to_string(length));
      return;
    }
    if (const Json* pattern = member(schema, "pattern");
        pattern != nullptr && !matches_pattern(text, pattern->get_ref<const std::string&>())) {
      const auto& wanted = pattern->get_ref<const std::string&>();
      const std::string words(words_for(wanted));
      add(path,
          (words.empty() ? "must match " + wanted : "must be " + words + " (must match " + wanted + ")") +
              ", is " + shown(value));
    }
    if (text_of(member(schema, "format")) == "date-time") {
      if (const auto time = parse_time(text); !time) add(path, time.error());
    }
  }

  void check_number(const Json& schema, const Json& value, const Path& path) {
    if (const Json* least = member(schema, "minimum"); least != nullptr && value < *least) {
      add(path, "must be at least " + least->dump() + ", is " + shown(value));
    }
    const Json* most = member(schema, "maximum");
    if (most != nullptr && value > *most)
      add(path, "must be at most " + most->dump() + ", is " + shown(value));
    const bool narrow = text_of(member(schema, "format")) == "int32" && most == nullptr;
    if (narrow && value > std::numeric_limits<std::int32_t>::max()) {
      add(path, "must be at most 2147483647, is " + shown(value));
    }
  }

  void check_object(const Json& schema, const Json& value, const Json* old_value, const Path& path) {
    if (const Json* most = member(schema, "maxProperties");
        most != nullptr && value.size() > most->get<std::size_t>()) {
      add(path, "must have at most " + most->dump() + " entries, has " + std::to_string(value.size()));
    }
    if (const Json* required = member(schema, "required"); required != nullptr) {
      for (const Json& name : *required) {
        if (!value.contains(text_of(&name))) add(Path{&path, text_of(&name)}, "is required");
      }
    }
    const Json* properties = member(schema, "properties");
    const Json* additional = member(schema, "additionalProperties");
    const bool open = set(schema, "x-kubernetes-preserve-unknown-fields");
    for (const auto& [name, item] : value.items()) {
      const Path here{&path, name};
      if (const Json* property = member(properties, name)) {
        check(*property, item, member(old_value, name), here);
      } else if (additional != nullptr) {
        check(*additional, item, member(old_value, name), here);
      } else if (!open) {
        add_unknown(properties, here);
      }
    }
  }

  void add_unknown(const Json* properties, const Path& path) {
    std::vector<std::string> known;
    if (properties != nullptr) {
      for (const auto& [name, property] : properties->items()) known.push_back(name);
    }
    add(path, "is not a field of this kind" +
                  (known.empty() ? std::string() : "; known here are " + listed(known)));
  }

  void check_array(const Json& schema, const Json& value, const Json* old_value, const Path& path) {
    if (const Json* least = member(schema, "minItems");
        least != nullptr && value.size() < least->get<std::size_t>()) {
      add(path, "must have at least " + least->dump() + " items, has " + std::to_string(value.size()));
    }
    if (const Json* most = member(schema, "maxItems");
        most != nullptr && value.size() > most->get<std::size_t>()) {
      add(path, "must have at most " + most->dump() + " items, has " + std::to_string(value.size()));
      return;
    }
    const Json* keys = member(schema, "x-kubernetes-list-map-keys");
    const Json* items = member(schema, "items");
    const bool unique = keys != nullptr || text_of(member(schema, "x-kubernetes-list-type")) == "set";
    std::set<Json> seen;
    for (std::size_t i = 0; i < value.size(); ++i) {
      const Path here{&path, {}, static_cast<int>(i)};
      const Json what = unique ? identity(value[i], keys) : Json();
      const Json& name = keys == nullptr ? what : what[0];
      // An item without a name has an error of its own.
      if (!name.is_null() && !seen.insert(what).second) add(here, "must not be stated twice: " + shown(name));
      if (items != nullptr)
        check(*items, value[i], keys == nullptr ? nullptr : correlated(old_value, value[i], *keys), here);
    }
  }

  // What makes an item of a set or map list distinct.
  static Json identity(const Json& item, const Json* keys) {
    if (keys == nullptr) return item;
    Json result = Json::array();
    for (const Json& key : *keys) {
      const Json* part = member(item, text_of(&key));
      result.push_back(part == nullptr ? Json() : *part);
    }
    return result;
  }

  static const Json* correlated(const Json* old_list, const Json& item, const Json& keys) {
    if (old_list == nullptr || !old_list->is_array()) return nullptr;
    const Json wanted = identity(item, &keys);
    const auto it =
        std::ranges::find_if(*old_list, [&](const Json& old) { return identity(old, &keys) == wanted; });
    return it == old_list->end() ? nullptr : &*it;
  }

  void check_rules(const Json& schema, const Json& value, const Json* old_value, const Path& path) {
    const Json* rules = member(schema, "x-kubernetes-validations");
    if (rules == nullptr) return;
    for (const Json& rule : *rules) {
      const std::string_view cel = text_of(member(rule, "rule"));
      const RuleTwin* twin = find_twin(cel);
      if (twin == nullptr) throw std::logic_error("rule without a twin: " + std::string(cel));
      const bool compares = cel.find("oldSelf") != std::string_view::npos;
      if ((compares && old_value == nullptr) || twin->holds(value, old_value)) continue;
      // A fieldPath begins with the point that joins it.
      std::string_view field = text_of(member(rule, "fieldPath"));
      if (field.starts_with('.')) field.remove_prefix(1);
      add(Path{&path, field}, std::string(text_of(member(rule, "message"))));
    }
  }

  std::string object_;
  std::vector<FieldError>& errors_;
};

constexpr std::string_view kQualifiedName =
    "^([a-z0-9]([-a-z0-9.]*[a-z0-9])?/)?[A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?$";

// metav1.ObjectMeta as the API server checks it on creation, as far as files state it.
const Json& metadata_schema() {
  static const Json& schema = *new Json([] {
    const Json text = {{"type", "string"}, {"maxLength", 253}};
    const Json number = {{"type", "integer"}};
    const Json open = {{"type", "object"}, {"x-kubernetes-preserve-unknown-fields", true}};
    const Json label = {
        {"type", "string"}, {"maxLength", 63}, {"pattern", "^([A-Za-z0-9]([-A-Za-z0-9_.]*[A-Za-z0-9])?)?$"}};
    const Json name = {
        {"type", "string"}, {"maxLength", 253}, {"pattern", "^[a-z0-9]([-a-z0-9.]*[a-z0-9])?$"}};
    const Json time = {{"type", "string"}, {"format", "date-time"}};
    return Json{{"type", "object"},
                {"properties",
                 {{"name", name},
                  {"generateName", text},
                  {"namespace", name},
                  {"selfLink", {{"type", "string"}}},
                  {"uid", text},
                  {"resourceVersion", text},
                  {"generation", number},
                  {"creationTimestamp", time},
                  {"deletionTimestamp", time},
                  {"deletionGracePeriodSeconds", number},
                  {"labels", {{"type", "object"}, {"additionalProperties", label}}},
                  {"annotations", {{"type", "object"}, {"additionalProperties", {{"type", "string"}}}}},
                  {"ownerReferences", {{"type", "array"}, {"items", open}}},
                  {"finalizers", {{"type", "array"}, {"items", text}}},
                  {"managedFields", {{"type", "array"}, {"items", open}}}}}};
  }());
  return schema;
}

void Validator::check_metadata(const Json& metadata, const Path& path) {
  check(metadata_schema(), metadata, nullptr, path);
  if (!metadata.is_object()) return;
  if (text_of(member(metadata, "name")).empty() && text_of(member(metadata, "generateName")).empty()) {
    add(Path{&path, "name"}, "is required");
  }
  for (const std::string_view keyed : {"labels", "annotations"}) {
    const Path map_path{&path, keyed};
    const Json* map = member(metadata, keyed);
    if (map == nullptr || !map->is_object()) continue;
    for (const auto& [key, value] : map->items()) {
      if (key.size() > 317 || !matches_pattern(key, std::string(kQualifiedName))) {
        add(Path{&map_path, key}, "must be a qualified name such as example.com/name");
      }
    }
  }
}

// The API server adds nothing else to metadata that rules look at, so its nulls are simply not there.
Json with_defaults(Json object) {
  apply_defaults(object);
  if (const auto metadata = object.find("metadata"); metadata != object.end() && metadata->is_object()) {
    for (auto it = metadata->begin(); it != metadata->end();)
      it = it->is_null() ? metadata->erase(it) : std::next(it);
  }
  return object;
}

std::vector<FieldError> run(const Json& object, const Json* before) {
  std::vector<FieldError> errors;
  Validator validator(object_name(object), errors);
  const Path root;
  const Crd* crd = find_crd(text_of(member(object, "apiVersion")), text_of(member(object, "kind")));
  if (crd == nullptr) {
    std::vector<std::string> kinds;
    for (const Crd& known : all_crds()) kinds.push_back(known.kind);
    validator.add(
        root, "must be of apiVersion " + std::string(kApiVersion) + " and of kind " + listed(kinds, "or"));
    return errors;
  }
  Json body = with_defaults(object);
  const Path metadata_path{&root, "metadata"};
  if (const auto metadata = body.find("metadata"); metadata == body.end()) {
    validator.add(metadata_path, "is required");
  } else {
    validator.check_metadata(*metadata, metadata_path);
    // The schema knows of metadata only the name, which it restricts further; one that is wrong already has
    // had its error.
    const bool wrong = std::ranges::find(errors, "metadata.name", &FieldError::field) != errors.end();
    const std::string name(wrong ? std::string_view() : text_of(member(*metadata, "name")));
    *metadata = name.empty() ? Json::object() : Json{{"name", name}};
  }
  if (before == nullptr) {
    validator.check(*crd->schema, body, nullptr, root);
  } else {
    const Json old = with_defaults(*before);
    validator.check(*crd->schema, body, &old, root);
  }
  return errors;
}

}  // namespace

std::vector<FieldError> validate(const Json& object) {
  return run(object, nullptr);
}
std::vector<FieldError> validate_by_schema(const Json& schema, const Json& value, std::string object) {
  std::vector<FieldError> errors;
  Validator(std::move(object), errors).check(schema, value, nullptr, Path{});
  return errors;
}
std::vector<FieldError> validate_metadata(const Json& object) {
  std::vector<FieldError> errors;
  Validator validator(object_name(object), errors);
  const Path root;
  const Path path{&root, "metadata"};
  const Json* metadata = member(object, "metadata");
  if (metadata == nullptr) {
    validator.add(path, "is required");
  } else {
    validator.check_metadata(*metadata, path);
  }
  return errors;
}
std::vector<FieldError> validate_update(const Json& before, const Json& after) {
  return run(after, &before);
}

}  // namespace muster::crds
