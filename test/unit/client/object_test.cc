// Keys, versions, times, quantities: small functions by tables.
#include "muster/client/object.h"

#include <gtest/gtest.h>

#include "muster/client/pod.h"

namespace muster::client {
namespace {

TEST(Object, KeysAreMadeAndSplit) {
  EXPECT_EQ(make_key("ns", "name"), "ns/name");
  EXPECT_EQ(make_key("", "node"), "node");
  EXPECT_EQ(split_key("ns/name"), (std::pair<std::string_view, std::string_view>("ns", "name")));
  EXPECT_EQ(split_key("node"), (std::pair<std::string_view, std::string_view>("", "node")));
}

TEST(Object, ResourceVersionsAreDecimalsOfAnyLength) {
  const auto less = std::partial_ordering::less;
  const auto unordered = std::partial_ordering::unordered;
  EXPECT_EQ(compare_resource_versions("9", "10"), less);
  EXPECT_EQ(compare_resource_versions("123456789012345678901234567890", "123456789012345678901234567891"),
            less);
  EXPECT_EQ(compare_resource_versions("7", "7"), std::partial_ordering::equivalent);
  EXPECT_EQ(compare_resource_versions("18446744073709551616", "18446744073709551615"),
            std::partial_ordering::greater);
  for (const char* bad : {"", "0", "01", "1a", "-1", "1.0", " 1"}) {
    EXPECT_EQ(compare_resource_versions(bad, "1"), unordered) << bad;
    EXPECT_EQ(compare_resource_versions("1", bad), unordered) << bad;
  }
}

TEST(Object, TimesAreWrittenAndReadAsTheApiServerDoes) {
  using namespace std::chrono;
  const WallTime t = sys_days{2026y / January / 2} + 3h + 4min + 5s + 6us;
  EXPECT_EQ(format_time(t), "2026-01-02T03:04:05Z");
  EXPECT_EQ(format_micro_time(t), "2026-01-02T03:04:05.000006Z");
  WallTime out;
  ASSERT_TRUE(parse_time("2026-01-02T03:04:05.000006Z", out));
  EXPECT_EQ(out, t);
  ASSERT_TRUE(parse_time("2026-01-02T05:34:05.000006789+02:30", out));
  EXPECT_EQ(out, t);
  ASSERT_TRUE(parse_time("1969-12-31T23:59:59Z", out));
  EXPECT_EQ(out, WallTime{-1s});
  EXPECT_EQ(format_time(out), "1969-12-31T23:59:59Z");
  for (const char* bad :
       {"", "2026-01-02", "2026-13-02T03:04:05Z", "2026-02-30T03:04:05Z", "2026-01-02T24:04:05Z",
        "2026-01-02T03:04:05", "2026-01-02T03:04:05.Z", "2026-01-02T03:04:05Zx", "2026-01-02 03:04:05Z",
        "2026-01-02T03:04:05+0200", "+026-01-02T03:04:05Z"}) {
    EXPECT_FALSE(parse_time(bad, out)) << bad;
  }
}

TEST(Object, MetaOfAnyObject) {
  const auto meta =
      decode_meta(R"({"kind":"X","metadata":{"name":"n","namespace":"s","uid":"u","resourceVersion":"5"}})");
  ASSERT_TRUE(meta);
  EXPECT_EQ(meta->key(), "s/n");
  EXPECT_EQ(meta->uid, "u");
  EXPECT_EQ(meta->resource_version, "5");
  for (const char* bad :
       {"", "{}", "[]", R"({"metadata":{}})", R"({"metadata":{"name":5}})", R"({"metadata":7})"}) {
    const auto none = decode_meta(bad);
    ASSERT_FALSE(none) << bad;
    EXPECT_EQ(none.error().code, ErrorCode::kDecode);
  }
}

TEST(Quantity, WholeAndThousandths) {
  struct Case {
    const char* text;
    std::int64_t scale, value;
  };
  for (const Case& c : {Case{"1", 1, 1},
                        Case{"1", 1000, 1000},
                        Case{"100m", 1000, 100},
                        Case{"100m", 1, 1},
                        Case{"0.1", 1000, 100},
                        Case{"1.5", 1, 2},
                        Case{"1.0000", 1, 1},
                        Case{".5", 1000, 500},
                        Case{"5.", 1, 5},
                        Case{"1Ki", 1, 1024},
                        Case{"1.5Gi", 1, 1610612736},
                        Case{"64Gi", 1, 68719476736},
                        Case{"1k", 1, 1000},
                        Case{"1e3", 1, 1000},
                        Case{"1E3", 1, 1000},
                        Case{"1E", 1, 1000000000000000000},
                        Case{"7Ei", 1, 8070450532247928832},
                        Case{"1n", 1, 1},
                        Case{"1u", 1000, 1},
                        Case{"0", 1, 0},
                        Case{"0.0001m", 1000, 1},
                        Case{"-1", 1, -1},
                        Case{"-1.5", 1, -2},
                        Case{"+2", 1, 2},
                        Case{"12e-1", 1000, 1200},
                        Case{"0.000000000000000000001", 1, 1},
                        Case{"9223372036854775807", 1, 9223372036854775807}}) {
    std::int64_t out = -77;
    EXPECT_TRUE(parse_quantity(c.text, c.scale, out)) << c.text;
    EXPECT_EQ(out, c.value) << c.text;
  }
  for (const char* bad : {"", "m", "Ki", "1x", "1 ", " 1", "1KiB", "--1", "1.2.3", "1e", "1e+", "e3", "8Ei",
                          "9223372036854775808", "1e30", "99999999999999999999999999999999999999999999"}) {
    std::int64_t out = 0;
    EXPECT_FALSE(parse_quantity(bad, 1, out)) << bad;
  }
}

}  // namespace
}  // namespace muster::client
