// Schema and type, walked against each other; rules and their twins.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <set>
#include <type_traits>

#include "muster/crds/crds.h"
#include "muster/crds/validate.h"
#include "schema/rules.h"

namespace muster::crds {
namespace {

constexpr std::string_view kDurationPattern = "^([0-9]{1,5}d)?([0-9]{1,6}h)?([0-9]{1,7}m)?([0-9]{1,9}s)?$";

template <class T>
constexpr bool kIsOptional = false;
template <class T>
constexpr bool kIsOptional<std::optional<T>> = true;
template <class T>
constexpr bool kIsList = false;
template <class T>
constexpr bool kIsList<std::vector<T>> = true;

template <class T>
void walk(const Json& schema, const std::string& path);

void expect_type(const Json& schema, const std::string& path, const char* type) {
  EXPECT_EQ(schema.value("type", ""), type) << path;
}

template <class T>
void walk_struct(const Json& schema, const std::string& path) {
  expect_type(schema, path, "object");
  std::set<std::string> in_schema;
  const Json properties = schema.value("properties", Json::object());
  for (const auto& [name, property] : properties.items()) in_schema.insert(name);
  std::set<std::string> in_type;
  const auto one = [&](const auto& f) {
    const std::string name(f.name);
    EXPECT_TRUE(in_type.insert(name).second) << path << "." << name << " is in the type's table twice";
    if (!in_schema.contains(name)) return;
    walk<std::remove_cvref_t<decltype(std::declval<T>().*(f.member))>>(properties[name], path + "." + name);
  };
  T::fields()([&](const auto&... f) { (one(f), ...); });
  EXPECT_EQ(in_schema, in_type) << path;
  EXPECT_FALSE(schema.contains("x-kubernetes-preserve-unknown-fields")) << path << " is open";
}

template <class T>
void walk(const Json& schema, const std::string& path) {
  if constexpr (kIsOptional<T>) {
    EXPECT_FALSE(schema.contains("default")) << path << " has a default, so it is never absent";
    walk<typename T::value_type>(schema, path);
  } else if constexpr (kIsList<T>) {
    expect_type(schema, path, "array");
    EXPECT_TRUE(schema.contains("x-kubernetes-list-type")) << path;
    walk<typename T::value_type>(schema.at("items"), path + "[]");
  } else if constexpr (HasFields<T>) {
    walk_struct<T>(schema, path);
  } else if constexpr (NamedEnum<T>) {
    expect_type(schema, path, "string");
    Json names = Json::array();
    for (const std::string_view name : names_of(T{})) names.push_back(name);
    EXPECT_EQ(schema.value("enum", Json()), names) << path;
  } else if constexpr (std::is_same_v<T, std::string>) {
    expect_type(schema, path, "string");
    EXPECT_FALSE(schema.contains("enum")) << path << " should be an enum in the type";
    EXPECT_NE(schema.value("format", ""), "date-time") << path << " should be a Time in the type";
    EXPECT_NE(schema.value("pattern", ""), kDurationPattern) << path << " should be a Duration in the type";
  } else if constexpr (std::is_same_v<T, bool>) {
    expect_type(schema, path, "boolean");
  } else if constexpr (std::is_integral_v<T>) {
    expect_type(schema, path, "integer");
    EXPECT_EQ(schema.value("format", ""), sizeof(T) == 4 ? "int32" : "int64") << path;
  } else if constexpr (std::is_same_v<T, Duration>) {
    EXPECT_EQ(schema.value("pattern", ""), kDurationPattern) << path;
  } else if constexpr (std::is_same_v<T, Time>) {
    EXPECT_EQ(schema.value("format", ""), "date-time") << path;
  } else if constexpr (std::is_same_v<T, StringMap>) {
    EXPECT_EQ(schema.at("additionalProperties").at("type"), "string") << path;
  } else if constexpr (std::is_same_v<T, NamedAmounts>) {
    EXPECT_TRUE(schema.at("additionalProperties").value("x-kubernetes-int-or-string", false)) << path;
    EXPECT_EQ(schema.value("maxProperties", 0U), kMaxNamedAmounts) << path;
  } else if constexpr (std::is_same_v<T, ModelAmounts>) {
    EXPECT_TRUE(schema.at("additionalProperties").value("x-kubernetes-int-or-string", false)) << path;
  } else if constexpr (std::is_same_v<T, RawJson>) {
    expect_type(schema, path, "object");
  } else {
    EXPECT_TRUE(schema.value("x-kubernetes-int-or-string", false)) << path << " is a quantity in the type";
  }
}

template <class T>
const Json& schema_of() {
  const Crd* crd = find_crd(kApiVersion, T::kKind);
  EXPECT_NE(crd, nullptr);
  EXPECT_EQ(crd->plural, T::kPlural);
  EXPECT_EQ(crd->namespaced, T::kNamespaced);
  return *crd->schema;
}

template <class T>
class Kind : public testing::Test {};
using Kinds = testing::Types<Queue, Project, NodePool, TrainingJob, InferenceService>;
TYPED_TEST_SUITE(Kind, Kinds);

TYPED_TEST(Kind, SchemaAndTypeHaveTheSameFields) {
  const Json& properties = schema_of<TypeParam>().at("properties");
  walk<decltype(TypeParam::spec)>(properties.at("spec"), "spec");
  walk<decltype(TypeParam::status)>(properties.at("status"), "status");
  EXPECT_EQ(properties.size(), 5U) << "apiVersion, kind, metadata, spec, status";
}

// A schema's default is the type's: reading an object before and after the server has put defaults in
// is the same.
TYPED_TEST(Kind, DefaultsAreTheTypes) {
  Json object = {{"apiVersion", kApiVersion},
                 {"kind", TypeParam::kKind},
                 {"metadata", {{"name", "a"}}},
                 {"spec", Json::object()}};
  // Every object that has defaults inside, empty.
  Json& spec = object["spec"];
  if (TypeParam::kKind == "Queue" || TypeParam::kKind == "Project")
    spec = {{"pools", Json::array({{{"name", "p"}}})}, {"schedules", Json::array({Json::object()})}};
  if (TypeParam::kKind == "NodePool")
    spec = {{"placement", Json::object()}, {"gpuMetrics", Json::object()}, {"gpuLabels", Json::object()}};
  if (TypeParam::kKind == "TrainingJob") {
    spec = {{"roles", Json::array({{{"name", "w"}}})},
            {"checkpoint", Json::object()},
            {"restart", Json::object()},
            {"idle", Json::object()},
            {"array", {{"count", 1}, {"success", Json::object()}}},
            {"completion", Json::object()},
            {"dependsOn", Json::array({{{"name", "other"}}})}};
  }
  if (TypeParam::kKind == "InferenceService") spec = {{"roles", Json::array({{{"name", "r"}}})}};
  Json with_defaults = object;
  apply_defaults(with_defaults);
  EXPECT_NE(object, with_defaults);
  EXPECT_EQ(*from_json<TypeParam>(object), *from_json<TypeParam>(with_defaults));
  object["spec"] = Json::object();
  with_defaults = object;
  apply_defaults(with_defaults);
  EXPECT_EQ(*from_json<TypeParam>(object), *from_json<TypeParam>(with_defaults));
}

// f(schema node, path) for every node of a schema.
template <class F>
void each_node(const Json& schema, const std::string& path, F&& f) {
  f(schema, path);
  if (schema.contains("properties")) {
    for (const auto& [name, property] : schema["properties"].items())
      each_node(property, path + "." + name, f);
  }
  if (schema.contains("items")) each_node(schema["items"], path + "[]", f);
  if (schema.contains("additionalProperties")) each_node(schema["additionalProperties"], path + ".*", f);
}

template <class F>
void each_node(F&& f) {
  for (const Crd& crd : all_crds()) each_node(*crd.schema, crd.kind, f);
}

TEST(Schema, EveryRuleHasATwinAndEveryTwinARule) {
  std::set<std::string> in_schemas;
  each_node([&](const Json& schema, const std::string& path) {
    for (const Json& rule : schema.value("x-kubernetes-validations", Json::array())) {
      const std::string cel = rule.at("rule");
      in_schemas.insert(cel);
      EXPECT_NE(find_twin(cel), nullptr) << path << ": " << cel;
      EXPECT_FALSE(rule.value("message", "").empty()) << path << ": " << cel;
    }
  });
  std::set<std::string> in_code;
  for (const RuleTwin& twin : rule_twins())
    EXPECT_TRUE(in_code.insert(std::string(twin.cel)).second) << twin.cel;
  EXPECT_EQ(in_schemas, in_code);
}

// What the validator does not know it would silently not check.
TEST(Schema, UsesOnlyKeywordsThatTheValidatorKnows) {
  const std::set<std::string> known = {"description",
                                       "type",
                                       "format",
                                       "properties",
                                       "required",
                                       "items",
                                       "additionalProperties",
                                       "enum",
                                       "default",
                                       "pattern",
                                       "minLength",
                                       "maxLength",
                                       "minimum",
                                       "maximum",
                                       "minItems",
                                       "maxItems",
                                       "maxProperties",
                                       "x-kubernetes-validations",
                                       "x-kubernetes-list-type",
                                       "x-kubernetes-list-map-keys",
                                       "x-kubernetes-int-or-string",
                                       "x-kubernetes-preserve-unknown-fields"};
  each_node([&](const Json& schema, const std::string& path) {
    for (const auto& [keyword, value] : schema.items())
      EXPECT_TRUE(known.contains(keyword)) << path << ": " << keyword;
  });
}

TEST(Schema, EverythingIsBounded) {
  each_node([](const Json& schema, const std::string& path) {
    const std::string type = schema.value("type", "");
    const bool standard =
        path.find('.') == path.rfind('.') && !path.ends_with("spec") && !path.ends_with("status");
    if (standard) return;  // apiVersion, kind, metadata: the API server's own
    if (type == "string" && !schema.contains("enum")) {
      EXPECT_TRUE(schema.contains("maxLength")) << path;
    }
    if (type == "array") {
      EXPECT_TRUE(schema.contains("maxItems")) << path;
      EXPECT_TRUE(schema.contains("x-kubernetes-list-type")) << path;
    }
    if (schema.contains("additionalProperties")) {
      EXPECT_TRUE(schema.contains("maxProperties")) << path;
    }
    if (schema.contains("x-kubernetes-int-or-string")) {
      EXPECT_TRUE(schema.contains("pattern") && schema.contains("maxLength")) << path;
    }
  });
}

// What only Muster writes is replaced whole, so that the API server keeps no record of who owns which entry.
TEST(Schema, StatusListsAreAtomicExceptConditions) {
  each_node([](const Json& schema, const std::string& path) {
    if (path.find(".status") == std::string::npos || schema.value("type", "") != "array") return;
    EXPECT_EQ(schema.value("x-kubernetes-list-type", ""), path.ends_with(".conditions") ? "map" : "atomic")
        << path;
  });
}

TEST(Schema, TrainingAndInferenceShareThePodTemplate) {
  Json training = schema_of<TrainingJob>()["properties"]["spec"]["properties"]["roles"]["items"]["properties"]
                                          ["template"];
  Json inference = schema_of<InferenceService>()["properties"]["spec"]["properties"]["template"];
  Json& a = training["properties"]["spec"]["properties"]["restartPolicy"];
  Json& b = inference["properties"]["spec"]["properties"]["restartPolicy"];
  EXPECT_EQ(a["default"], "Never");
  EXPECT_EQ(b["default"], "Always");
  a = b;
  EXPECT_EQ(training, inference);
  EXPECT_EQ(schema_of<InferenceService>()["properties"]["spec"]["properties"]["roles"]["items"]["properties"]
                                         ["template"],
            inference);
}

}  // namespace
}  // namespace muster::crds
