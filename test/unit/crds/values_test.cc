// Quantities, durations, times and texts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>

#include "muster/crds/duration.h"
#include "muster/crds/quantity.h"
#include "muster/crds/text.h"
#include "muster/crds/time.h"

namespace muster::crds {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

TEST(Quantity, ReadsWhatKubernetesReads) {
  EXPECT_EQ(parse_gpu("2")->value, 2000);
  EXPECT_EQ(parse_gpu("2500m")->value, 2500);
  EXPECT_EQ(parse_gpu("2.5")->value, 2500);
  EXPECT_EQ(parse_gpu(".5")->value, 500);
  EXPECT_EQ(parse_gpu("5.")->value, 5000);
  EXPECT_EQ(parse_gpu("+1")->value, 1000);
  EXPECT_EQ(parse_cpu("2k")->value, 2'000'000);
  EXPECT_EQ(parse_cpu("1e3")->value, 1'000'000);
  EXPECT_EQ(parse_cpu("1E-3")->value, 1);
  EXPECT_EQ(parse_cpu("250u")->value, 1) << "rounded up";
  EXPECT_EQ(parse_cpu("0n")->value, 0);
  EXPECT_EQ(parse_memory("4Ti")->value, std::int64_t{4} << 40);
  EXPECT_EQ(parse_memory("1.5Gi")->value, 1'610'612'736);
  EXPECT_EQ(parse_memory("1E")->value, 1'000'000'000'000'000'000);
  EXPECT_EQ(parse_memory("128974848")->value, 128974848);
  EXPECT_EQ(parse_memory("100m")->value, 1) << "a tenth of a byte is rounded up";
  EXPECT_EQ(parse_memory("0.0000000000000000001")->value, 1);
  EXPECT_EQ(parse_memory("000000000000000000000012")->value, 12);
}

TEST(Quantity, RefusesEverythingElseAndSaysWhatIsAllowed) {
  for (const char* text : {"", "m", "-1", "four", "1.2.3", "1 Gi", "1GB", "1K", "1ki", "0x10", "1e", "1e+",
                           "1e999", "Gi", ".", "1Gim"}) {
    const auto result = parse_quantity(text, 1000);
    ASSERT_FALSE(result) << text;
    EXPECT_THAT(result.error(), testing::HasSubstr("must be a quantity such as")) << text;
  }
}

TEST(Quantity, OverflowIsAnErrorNotANumber) {
  EXPECT_EQ(parse_memory("9223372036854775807")->value, kMax);
  for (const char* text : {"9223372036854775808", "8Ei", "9223372036854775808000",
                           "99999999999999999999999Ei", "10E", "9e18k"}) {
    EXPECT_FALSE(parse_memory(text)) << text;
  }
  EXPECT_FALSE(parse_gpu("9223372036854775807"));
  EXPECT_EQ(parse_gpu("9223372036854775807m")->value, kMax);
}

TEST(Quantity, CanonicalForm) {
  EXPECT_EQ(to_string(MilliGpu{2500}), "2500m");
  EXPECT_EQ(to_string(MilliGpu{3000}), "3");
  EXPECT_EQ(to_string(MilliCpu{0}), "0");
  EXPECT_EQ(to_string(Bytes{std::int64_t{4} << 40}), "4Ti");
  EXPECT_EQ(to_string(Bytes{1536}), "1536");
  EXPECT_EQ(to_string(Bytes{3 << 20}), "3Mi");
  EXPECT_EQ(to_string(Bytes{0}), "0");
}

TEST(Quantity, PrintingAndReadingAreInverse) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    const auto value = static_cast<std::int64_t>(random() >> (1 + random() % 63));
    ASSERT_EQ(parse_gpu(to_string(MilliGpu{value}))->value, value);
    ASSERT_EQ(parse_memory(to_string(Bytes{value}))->value, value);
  }
}

TEST(Quantity, NoTextCrashes) {
  std::mt19937 random(2);
  constexpr std::string_view kAlphabet = "0123456789.+-eEmnukKMGTPi ";
  for (int i = 0; i < 50'000; ++i) {
    std::string text;
    for (auto n = random() % 24; n > 0; --n) text += kAlphabet[random() % kAlphabet.size()];
    if (const auto value = parse_quantity(text, i % 2 == 0 ? 1000 : 1)) {
      ASSERT_GE(*value, 0) << text;
    }
    if (const auto value = parse_duration(text)) {
      ASSERT_GE(value->count(), 0) << text;
    }
  }
}

TEST(Amount, SumsStopAtTheEnds) {
  EXPECT_EQ((Bytes{kMax} + Bytes{1}).value, kMax);
  EXPECT_EQ((Bytes{-kMax} - Bytes{kMax}).value, std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ((Bytes{kMax / 2} * 3).value, kMax);
  EXPECT_EQ((Bytes{-kMax / 2} * 3).value, std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ((MilliGpu{1500} + MilliGpu{500}).value, 2000);
  EXPECT_LT(MilliGpu{1}, MilliGpu{2});
}

TEST(DurationText, ReadsAndPrints) {
  using namespace std::chrono_literals;
  EXPECT_EQ(*parse_duration("120s"), 120s);
  EXPECT_EQ(*parse_duration("10m"), 10min);
  EXPECT_EQ(*parse_duration("48h"), 48h);
  EXPECT_EQ(*parse_duration("14d"), 14 * 24h);
  EXPECT_EQ(*parse_duration("1h30m"), 90min);
  EXPECT_EQ(*parse_duration("1d2h3m4s"), 26h + 3min + 4s);
  EXPECT_EQ(*parse_duration("0s"), 0s);
  EXPECT_EQ(to_string(Duration{90min}), "1h30m");
  EXPECT_EQ(to_string(Duration{48h}), "2d");
  EXPECT_EQ(to_string(Duration{0}), "0s");
  for (const char* text :
       {"", "10", "m", "1.5h", "-1s", "30m1h", "1h1h", "1w", "10 m", "1000000000s", "100000d"}) {
    const auto result = parse_duration(text);
    ASSERT_FALSE(result) << text;
    EXPECT_THAT(result.error(), testing::HasSubstr("must be a duration")) << text;
  }
  std::mt19937 random(3);
  for (int i = 0; i < 10'000; ++i) {
    const Duration duration{random() % 8'000'000'000U};
    ASSERT_EQ(*parse_duration(to_string(duration)), duration);
  }
}

TEST(TimeText, ReadsAndPrints) {
  const Time time{std::chrono::seconds{1'767'323'045}};
  EXPECT_EQ(to_string(time), "2026-01-02T03:04:05Z");
  EXPECT_EQ(*parse_time("2026-01-02T03:04:05Z"), time);
  EXPECT_EQ(*parse_time("2026-01-02T03:04:05.999999Z"), time);
  EXPECT_EQ(*parse_time("2026-01-02T04:34:05+01:30"), time);
  EXPECT_EQ(*parse_time("2026-01-01T22:04:05-05:00"), time);
  for (const char* text : {"", "2026-01-02", "2026-01-02T03:04:05", "2026-02-30T03:04:05Z",
                           "2026-01-02T24:04:05Z", "2026-01-02T03:04:05.Z", "2026-01-02 03:04:05Z",
                           "2026-01-02T03:04:05+1:00", "2026-01-02T03:04:05Zx"}) {
    EXPECT_FALSE(parse_time(text)) << text;
  }
}

TEST(Cut, TakesNoMoreThanIsAskedForAndCutsBetweenCharacters) {
  EXPECT_EQ(cut("four", 4), "four");
  EXPECT_EQ(cut("", 3), "");
  EXPECT_EQ(cut("12345", 4), "1...");
  EXPECT_EQ(cut("1234", 3), "...");
  EXPECT_EQ(cut("ab\u20accd", 7), "ab\u20accd");
  EXPECT_EQ(cut("ab\u20accde", 7), "ab...");  // the sign's bytes are 2 to 4
  EXPECT_EQ(cut("ab\u20accdef", 8), "ab\u20ac...");
}

}  // namespace
}  // namespace muster::crds
