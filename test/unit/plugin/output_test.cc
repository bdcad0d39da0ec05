// The forms in which kubectl-muster prints.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include "output/listing.h"

namespace muster::plugin {
namespace {

using testing::HasSubstr;

Listing small() {
  Listing listing;
  listing.columns = {{"NAME", "name"},
                     {"GPUS", "gpus"},
                     {"MORE", "more", Shown::kWideAndData},
                     {"", "", Shown::kTables},
                     {"", "hidden", Shown::kData}};
  listing.rows = {
      {{cell("a"), cell(std::int64_t{0}), cell("x, \"y\""), {"[#]", {}}, cell("h")}, Colour::kRed},
      {{cell("b"), positive(0), cell(""), {"[.]", {}}, cell("h")}}};
  listing.about["until"] = "now";
  listing.footer = "A footer.\n";
  listing.if_empty = "Nothing.\n";
  return listing;
}

TEST(Output, TablesShowTheirColumns) {
  EXPECT_EQ(print(small(), Format::kTable, false),
            "NAME  GPUS\na     0     [#]\nb           [.]\n\nA footer.\n");
  EXPECT_THAT(print(small(), Format::kWide, false), HasSubstr("NAME  GPUS  MORE\n"));
  auto empty = small();
  empty.rows.clear();
  EXPECT_EQ(print(empty, Format::kTable, true), "Nothing.\n");
  EXPECT_EQ(print(empty, Format::kCsv, false), "name,gpus,more,hidden\r\n");
}

TEST(Output, ColoursAreForWholeLines) {
  EXPECT_THAT(print(small(), Format::kTable, true),
              HasSubstr("\033[1mNAME  GPUS\033[0m\n\033[31ma     0     [#]\033[0m\nb  "));
  EXPECT_EQ(print(small(), Format::kJson, true), print(small(), Format::kJson, false));
}

TEST(Output, DataLeaveOutWhatIsNotThere) {
  const auto data = Data::parse(print(small(), Format::kJson, false));
  EXPECT_EQ(data["until"], "now");
  EXPECT_EQ(data["items"][0], Data::parse(R"({"name": "a", "gpus": 0, "more": "x, \"y\"", "hidden": "h"})"));
  EXPECT_EQ(data["items"][1], Data::parse(R"({"name": "b", "hidden": "h"})"));
  EXPECT_EQ(print(small(), Format::kCsv, false),
            "name,gpus,more,hidden\r\na,0,\"x, \"\"y\"\"\",h\r\nb,,,h\r\n");
}

TEST(Output, YamlKeepsTextText) {
  const Data data = {{"plain", "some words"},
                     {"yes", "yes"},
                     {"number", "12"},
                     {"time", "2026-03-04T12:00:00Z"},
                     {"colon", "a: b"},
                     {"empty", ""},
                     {"lines", "one\ntwo"},
                     {"count", 12},
                     {"none", Data::array()},
                     {"map", Data::object()},
                     {"list", {"a", "#b", "*c"}},
                     {"yesno", true}};
  const std::string text = to_yaml(data);
  EXPECT_THAT(text, HasSubstr("plain: some words\n"));
  EXPECT_THAT(text, HasSubstr("count: 12\n"));
  const YAML::Node read = YAML::Load(text);
  for (const char* key : {"plain", "yes", "number", "time", "colon", "empty", "lines"})
    EXPECT_EQ(read[key].as<std::string>(), data[key].get<std::string>()) << text;
  // A reader takes what is quoted for text.
  for (const char* key : {"yes", "number", "time", "empty"}) EXPECT_EQ(read[key].Tag(), "!") << key;
  EXPECT_EQ(read["list"][1].as<std::string>(), "#b");
  EXPECT_TRUE(read["none"].IsSequence());
  EXPECT_TRUE(read["map"].IsMap());
}

}  // namespace
}  // namespace muster::plugin
