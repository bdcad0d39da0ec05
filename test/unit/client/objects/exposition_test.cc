#include "muster/client/exposition.h"

#include <gmock/gmock.h>

#include <cmath>

namespace muster::client {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;

std::vector<Sample> samples(std::string_view text, const WantedMetric& wanted = {}) {
  auto read = parse_exposition(text, wanted);
  EXPECT_TRUE(read) << (read ? "" : read.error().message);
  return read ? std::move(*read) : std::vector<Sample>{};
}
std::string refusal(std::string_view text) {
  const auto read = parse_exposition(text);
  if (read) return "taken";
  EXPECT_EQ(read.error().code, ErrorCode::kDecode);
  return read.error().message;
}

TEST(Exposition, ReadsNamesLabelsValuesAndTimes) {
  const auto all = samples(
      "# HELP http_requests_total The total number of \\n HTTP requests.\n"
      "# TYPE http_requests_total counter\n"
      "http_requests_total{method=\"post\",code=\"200\"} 1027 1395066363000\n"
      "\n"
      "  vllm:num_requests_waiting \t 3.5\n"
      "#and a comment with { and \"\n"
      "spaced { a = \"1\" , b=\"2\" , } 7 -3\n"
      "bare{} 1\n");
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(all[0].name, "http_requests_total");
  EXPECT_THAT(all[0].labels, ElementsAre(Pair("method", "post"), Pair("code", "200")));
  EXPECT_EQ(all[0].value, 1027);
  EXPECT_EQ(all[0].timestamp_ms, 1395066363000);
  EXPECT_EQ(*all[0].label("code"), "200");
  EXPECT_EQ(all[0].label("nothing"), nullptr);
  EXPECT_EQ(all[1].name, "vllm:num_requests_waiting");
  EXPECT_EQ(all[1].value, 3.5);
  EXPECT_FALSE(all[1].timestamp_ms);
  EXPECT_THAT(all[2].labels, ElementsAre(Pair("a", "1"), Pair("b", "2")));
  EXPECT_EQ(all[2].timestamp_ms, -3);
  EXPECT_THAT(all[3].labels, IsEmpty());
}

TEST(Exposition, LabelValuesAreUnescapedAndMayHoldAnything) {
  const auto all = samples(
      "x{path=\"C:\\\\DIR\\\\\",error=\"Cannot find:\\n\\\"FILE.TXT\\\"\",o=\"a,b}c=d #\",u=\"\xc3\xa9\","
      "empty=\"\"} 1\n");
  ASSERT_EQ(all.size(), 1u);
  EXPECT_THAT(all[0].labels,
              ElementsAre(Pair("path", "C:\\DIR\\"), Pair("error", "Cannot find:\n\"FILE.TXT\""),
                          Pair("o", "a,b}c=d #"), Pair("u", "\xc3\xa9"), Pair("empty", "")));
}

TEST(Exposition, ValuesMayBeAnyFloat) {
  const auto all = samples("a NaN\nb +Inf\nc -Inf\nd 1.458255915e9\ne -0.5\nf +3\ng 1e-3\nh Inf\n");
  ASSERT_EQ(all.size(), 8u);
  EXPECT_TRUE(std::isnan(all[0].value));
  EXPECT_TRUE(std::isinf(all[1].value) && all[1].value > 0);
  EXPECT_TRUE(std::isinf(all[2].value) && all[2].value < 0);
  EXPECT_EQ(all[3].value, 1458255915);
  EXPECT_EQ(all[4].value, -0.5);
  EXPECT_EQ(all[5].value, 3);
  EXPECT_EQ(all[6].value, 0.001);
  EXPECT_TRUE(std::isinf(all[7].value));
}

TEST(Exposition, AHistogramIsItsParts) {
  const auto all = samples(
      "# TYPE t histogram\n"
      "t_bucket{le=\"0.05\"} 24054\nt_bucket{le=\"+Inf\"} 144320\nt_sum 53423\nt_count 144320\n");
  ASSERT_EQ(all.size(), 4u);
  EXPECT_EQ(*all[1].label("le"), "+Inf");
  EXPECT_EQ(all[3].name, "t_count");
}

TEST(Exposition, OnlyWhatIsWantedIsRead) {
  const auto all = samples("skipped{ this is no sample\nwanted 1\nwanted_too 2\n",
                           [](std::string_view name) { return name == "wanted"; });
  ASSERT_EQ(all.size(), 1u);
  EXPECT_EQ(all[0].name, "wanted");
}

TEST(Exposition, NothingIsNoError) {
  EXPECT_THAT(samples(""), IsEmpty());
  EXPECT_THAT(samples("\n\n# EOF\n"), IsEmpty());
}

TEST(Exposition, SaysWhereAndWhatIsWrong) {
  EXPECT_THAT(refusal("a 1\nb 2"), HasSubstr("line 2: is cut short"));
  EXPECT_THAT(refusal("a 1\n{x=\"y\"} 1\n"), HasSubstr("line 2: does not begin with the name"));
  EXPECT_THAT(refusal("<html>\n"), HasSubstr("line 1: does not begin"));
  EXPECT_THAT(refusal("{\"a\": 1}\n"), HasSubstr("line 1: does not begin"));
  for (const char* bad :
       {"a\n", "a{x=\"1\" 1\n", "a{x=1} 1\n", "a{x=\"\\t\"} 1\n", "a{1=\"x\"} 1\n", "a{x=\"1\",,} 1\n",
        "a{,} 1\n", "a{x=\"1\"y=\"2\"} 1\n", "a 1 2 3\n", "a{x=\"1} 1\n"})
    EXPECT_THAT(refusal(bad), HasSubstr("line 1: is no sample")) << bad;
  for (const char* bad : {"a one\n", "a 1x\n", "a ++1\n", "a 1,5\n"})
    EXPECT_THAT(refusal(bad), HasSubstr("line 1: its value is no number")) << bad;
  EXPECT_THAT(refusal("a 1 1.5\n"), HasSubstr("line 1: its time is no number"));
  EXPECT_THAT(refusal("a 1 99999999999999999999\n"), HasSubstr("its time is no number"));
}

TEST(Exposition, IsBounded) {
  EXPECT_THAT(refusal(std::string(kMaxExposition + 1, '\n')), HasSubstr("more than"));
  std::string many;
  for (std::size_t i = 0; i <= kMaxSamples; ++i) many += "a 1\n";
  EXPECT_THAT(refusal(many), HasSubstr("more than 20000 samples"));
  EXPECT_EQ(samples(many, [](std::string_view) { return false; }).size(), 0u);
}

}  // namespace
}  // namespace muster::client
