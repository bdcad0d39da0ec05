// RFC 3339.
#include "muster/common/time.h"

#include <gtest/gtest.h>

#include <random>

namespace muster::common {
namespace {

using namespace std::chrono;

TEST(Time, IsWrittenAndReadAsTheApiServerDoes) {
  const WallTime t = sys_days{2026y / January / 2} + 3h + 4min + 5s + 6us;
  EXPECT_EQ(format_time(t), "2026-01-02T03:04:05Z");
  EXPECT_EQ(format_micro_time(t), "2026-01-02T03:04:05.000006Z");
  EXPECT_EQ(parse_time("2026-01-02T03:04:05.000006Z"), t);
  EXPECT_EQ(parse_time("2026-01-02T05:34:05.000006789+02:30"), t);
  EXPECT_EQ(parse_time("2026-01-01T22:04:05.000006-05:00"), t);
  EXPECT_EQ(parse_time("2026-01-02T03:04:05.5Z"), floor<seconds>(t) + 500ms);
}

TEST(Time, BeforeTheEpochIsRoundedDownToo) {
  EXPECT_EQ(parse_time("1969-12-31T23:59:59Z"), WallTime{-1s});
  EXPECT_EQ(format_time(WallTime{-1s}), "1969-12-31T23:59:59Z");
  EXPECT_EQ(format_time(WallTime{-1us}), "1969-12-31T23:59:59Z");
  EXPECT_EQ(format_micro_time(WallTime{-1us}), "1969-12-31T23:59:59.999999Z");
}

// One reader took small letters, the other one did not. RFC 3339, 5.6: they may be.
TEST(Time, LettersMayBeSmallAndSecondsLeap) {
  EXPECT_EQ(parse_time("2026-01-02t03:04:05z"), parse_time("2026-01-02T03:04:05Z"));
  EXPECT_EQ(parse_time("2016-12-31T23:59:60Z"), parse_time("2017-01-01T00:00:00Z"));
}

TEST(Time, WhatIsNoneSaysWhatIsAllowed) {
  for (const char* bad : {"",
                          "2026-01-02",
                          "2026-13-02T03:04:05Z",
                          "2026-00-02T03:04:05Z",
                          "2026-02-30T03:04:05Z",
                          "2026-01-02T24:04:05Z",
                          "2026-01-02T03:60:05Z",
                          "2026-01-02T03:04:61Z",
                          "2026-01-02T03:04:05",
                          "2026-01-02T03:04:05.Z",
                          "2026-01-02T03:04:05Zx",
                          "2026-01-02 03:04:05Z",
                          "2026-01-02T03:04:05+0200",
                          "2026-01-02T03:04:05+1:00",
                          "2026-01-02T03:04:05+24:00",
                          "2026-01-02T03:04:05+01:60",
                          "+026-01-02T03:04:05Z",
                          "2026-1-2T03:04:05Z",
                          "2026-01-02T03:04Z",
                          " 2026-01-02T03:04:05Z"}) {
    const auto time = parse_time(bad);
    ASSERT_FALSE(time) << bad;
    EXPECT_EQ(time.error(), "must be a time such as 2026-01-02T03:04:05Z, is \"" + std::string(bad) + "\"");
  }
}

TEST(Time, WritingAndReadingAreInverse) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    // From 1823 to 2116.
    const WallTime t{microseconds{static_cast<std::int64_t>(random() >> 10U) % 4'600'000'000'000'000 *
                                  (i % 2 == 0 ? 1 : -1)}};
    ASSERT_EQ(parse_time(format_micro_time(t)), t);
    ASSERT_EQ(parse_time(format_time(t)), floor<seconds>(t));
  }
}

}  // namespace
}  // namespace muster::common
