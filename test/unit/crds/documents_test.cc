// Files of objects: scalars, lines, errors.
#include "muster/crds/documents.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace muster::crds {
namespace {

using testing::HasSubstr;

Json one(std::string_view text) {
  const auto documents = load_documents(text, "f.yaml");
  if (!documents) return to_string(documents.error());
  if (documents->size() != 1) return documents->size();
  return *documents->at(0).object;
}

TEST(Documents, ScalarsAreKubernetes) {
  const Json object = one(R"(
a: 3
b: "3"
c: yes
d: 0x1F
e: 017
f: 1e3
g: 2.5
h: ~
i:
j: on
k: 2026-01-02T03:04:05Z
l: 4Ti
m: -7
n: !!str 5
o: 1_000
p: 18446744073709551615
q: 99999999999999999999
r: |
  two
  lines
s: .inf
t: 08
u: 'yes'
v: 1.5e3
)");
  EXPECT_EQ(object["a"], 3);
  EXPECT_EQ(object["b"], "3");
  EXPECT_EQ(object["c"], true);
  EXPECT_EQ(object["d"], 31);
  EXPECT_EQ(object["e"], 15);
  EXPECT_EQ(object["f"], 1000);
  EXPECT_TRUE(object["f"].is_number_integer());
  EXPECT_EQ(object["g"], 2.5);
  EXPECT_TRUE(object["h"].is_null() && object["i"].is_null());
  EXPECT_EQ(object["j"], true);
  EXPECT_EQ(object["k"], "2026-01-02T03:04:05Z");
  EXPECT_EQ(object["l"], "4Ti");
  EXPECT_EQ(object["m"], -7);
  EXPECT_EQ(object["n"], "5");
  EXPECT_EQ(object["o"], 1000);
  EXPECT_EQ(object["p"], 18446744073709551615ULL);
  EXPECT_TRUE(object["q"].is_number_float());
  EXPECT_EQ(object["r"], "two\nlines\n");
  EXPECT_EQ(object["s"], ".inf");
  EXPECT_TRUE(object["t"].is_number_integer()) << "no octal: a decimal, as a float without a fraction";
  EXPECT_EQ(object["u"], "yes");
  EXPECT_EQ(object["v"], 1500);
}

TEST(Documents, SeveralInAFileEmptyOnesPassedOver) {
  const auto documents = load_documents(
      "# nothing\n---\na: 1\n--- \n\n---\n# c\n---\nb: |\n  --- not a marker\n...\n---\nc: 3\n", "f.yaml");
  ASSERT_TRUE(documents) << to_string(documents.error());
  ASSERT_EQ(documents->size(), 3U);
  EXPECT_EQ(documents->at(0).location("a"), "f.yaml:3");
  EXPECT_EQ((*documents->at(1).object)["b"], "--- not a marker\n");
  EXPECT_EQ(documents->at(1).location("b"), "f.yaml:9");
  EXPECT_EQ(documents->at(2).location("c"), "f.yaml:13");
  EXPECT_TRUE(load_documents("", "f.yaml")->empty());
  EXPECT_EQ(load_documents("{\"a\": 1}\r\n---\r\nb: 2\r\n", "f.json")->size(), 2U);
}

TEST(Documents, LinesOfFields) {
  const auto documents = load_documents(R"(kind: A
metadata:
  labels:
    muster.dev/x: y
    muster.dev: z
spec:
  roles:
  - name: a
    gpus: {count: 1,
      models: [x]}
  - name: b
)",
                                        "d/f.yaml");
  ASSERT_TRUE(documents);
  const Document& d = documents->at(0);
  EXPECT_EQ(d.location(""), "d/f.yaml:1");
  EXPECT_EQ(d.location("metadata.labels.muster.dev/x"), "d/f.yaml:4");
  EXPECT_EQ(d.location("spec.roles[0].gpus.models[0]"), "d/f.yaml:10");
  EXPECT_EQ(d.location("spec.roles[1].gpus.count"), "d/f.yaml:11") << "the nearest that is there";
  EXPECT_EQ(d.location("spec.pools[3]"), "d/f.yaml:6");
  EXPECT_EQ(d.location("status"), "d/f.yaml:1");
}

TEST(Documents, AListIsItsItems) {
  const auto documents = load_documents("kind: List\nitems:\n- kind: A\n- kind: B\n  x: 1\n", "f.yaml");
  ASSERT_TRUE(documents);
  ASSERT_EQ(documents->size(), 2U);
  EXPECT_EQ((*documents->at(1).object)["kind"], "B");
  EXPECT_EQ(documents->at(1).location("x"), "f.yaml:5");
}

// As kubectl writes it; only a List's own items must say what they are.
TEST(Documents, AListOfOneKindIsItsItems) {
  const auto documents = load_documents(
      "{apiVersion: g/v1, kind: AList, items: [{metadata: {name: a}}, {apiVersion: g/v2, kind: B}]}",
      "f.yaml");
  ASSERT_TRUE(documents);
  ASSERT_EQ(documents->size(), 2U);
  EXPECT_EQ(*documents->at(0).object,
            Json({{"apiVersion", "g/v1"}, {"kind", "A"}, {"metadata", {{"name", "a"}}}}));
  EXPECT_EQ(*documents->at(1).object, Json({{"apiVersion", "g/v2"}, {"kind", "B"}}));
  EXPECT_EQ(one("{kind: AList, spec: {}}"), Json({{"kind", "AList"}, {"spec", Json::object()}}));
  EXPECT_EQ(one("{apiVersion: v1, kind: List, items: [{a: 1}]}"), Json({{"a", 1}}));
}

TEST(Documents, SingleLettersAreTextWhereThatIsWanted) {
  const auto value = [](std::string_view text, Letters letters) {
    const auto loaded = load_all_documents(text, "f.yaml", letters);
    return loaded.errors.empty() ? *loaded.documents.at(0).object : Json(to_string(loaded.errors[0]));
  };
  constexpr std::string_view kText = "{y: y, Y: Y, n: n, N: N, q: 'y', yes: yes, no: off}";
  EXPECT_EQ(value(kText, Letters::kText),
            Json({{"y", "y"}, {"Y", "Y"}, {"n", "n"}, {"N", "N"}, {"q", "y"}, {"yes", true}, {"no", false}}));
  EXPECT_EQ(value("{a: y, b: N, c: 'n'}", Letters::kBoolean), Json({{"a", true}, {"b", false}, {"c", "n"}}));
}

// Nothing that is in a file goes unread without a word.
TEST(Documents, WhatIsNoTextOrBehindADocumentIsAnError) {
  const auto errors = [](std::string_view text) {
    std::vector<std::string> lines;
    for (const FieldError& e : load_all_documents(text, "f.yaml").errors) lines.push_back(to_string(e));
    return lines;
  };
  const auto at = [](int line, const char* what) {
    return testing::ElementsAre("f.yaml:" + std::to_string(line) + ": must " + what);
  };
  constexpr const char* kBehind =
      "end with its document: what begins here belongs to none; separate documents by ---";
  EXPECT_THAT(errors("{a: 1}\n{b: 2}\n"), at(2, kBehind)) << "JSON lines";
  EXPECT_THAT(errors("---\n{a: 1}\nb: 2\n"), at(3, kBehind));
  EXPECT_THAT(errors("{a: 1} rest\n---\n{b: 2}\n"), at(1, kBehind));
  EXPECT_THAT(errors("---\n,a: 1\n"), at(2, kBehind)) << "for which YAML::LoadAll never ends";
  EXPECT_THAT(errors("{a: 1}\n---\n,\n"), at(3, kBehind));
  EXPECT_THAT(errors("{a: 1} # a comment\n\n# another\n---\n{b: 2}\n...\n"), testing::IsEmpty());
  EXPECT_THAT(errors("a: 1\nb: \xFF\n"), at(2, "be text in UTF-8"));
  EXPECT_THAT(errors(std::string_view("\xFF\xFE\x61\0:\0 \0\x31\0", 10)), at(1, "be text in UTF-8"));
  EXPECT_THAT(errors("\xEF\xBB\xBF{a: \xC3\xA4}\n"), testing::IsEmpty()) << "with a byte order mark";
}

TEST(Documents, AliasesAndMergeKeys) {
  const Json object = one("base: &b {x: 1, y: 2}\nuse: {<<: *b, y: 3}\nboth: {<<: [*b, {z: 4}]}\n");
  EXPECT_EQ(object["use"], Json({{"x", 1}, {"y", 3}}));
  EXPECT_EQ(object["both"], Json({{"x", 1}, {"y", 2}, {"z", 4}}));
}

TEST(Documents, ErrorsHaveFileAndLine) {
  const auto error = [](std::string_view text) {
    const auto documents = load_documents(text, "f.yaml");
    return documents ? std::string("no error") : to_string(documents.error());
  };
  EXPECT_THAT(error("a: 1\n---\nb: [1\n"), HasSubstr("f.yaml:"));
  EXPECT_THAT(error("a: 1\n---\nb: [1\n"), HasSubstr("must be YAML"));
  EXPECT_EQ(error("a: 1\nb:\n  c: 1\n  c: 2\n"), "f.yaml:4: b.c: must not be stated twice");
  EXPECT_EQ(
      error("- a\n"),
      "f.yaml:1: must be an object, is a list of 1; several objects are documents separated by ---, or the "
      "items of a List");
  EXPECT_EQ(error("a: 1\n---\n\nhello\n"), "f.yaml:4: must be an object, is \"hello\"");
  EXPECT_EQ(error("? [a]\n: 1\n"), "f.yaml:1: must have plain keys");
  EXPECT_THAT(error(std::string(5000, '[')), HasSubstr("must be YAML"));
  EXPECT_THAT(error("a: " + std::string(200, '[') + std::string(200, ']')), HasSubstr("nested deeper"));
  std::string bomb = "a0: &a0 [x,x,x,x,x,x,x,x,x,x]\n";
  for (int i = 1; i < 9; ++i) {
    const std::string from = "*a" + std::to_string(i - 1);
    bomb += "a" + std::to_string(i) + ": &a" + std::to_string(i) + " [" + from;
    for (int j = 0; j < 9; ++j) bomb += "," + from;
    bomb += "]\n";
  }
  EXPECT_THAT(error(bomb), HasSubstr("values, aliases written out"));
}

}  // namespace
}  // namespace muster::crds
