// Quantities by Kubernetes' grammar.
#include "muster/common/quantity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <random>
#include <string>

namespace muster::common {
namespace {

using testing::HasSubstr;

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

struct Case {
  std::string text;
  std::int64_t scale, value;
};

void expect_read(const std::vector<Case>& cases) {
  for (const Case& c : cases) {
    const auto value = parse_quantity(c.text, c.scale);
    ASSERT_TRUE(value) << c.text << ": " << value.error();
    EXPECT_EQ(*value, c.value) << c.text;
  }
}

TEST(Quantity, NumbersAndSigns) {
  expect_read({{"1", 1, 1},
               {"1", 1000, 1000},
               {"0", 1, 0},
               {"0.1", 1000, 100},
               {"2.5", 1000, 2500},
               {".5", 1000, 500},
               {"5.", 1, 5},
               {"1.0000", 1, 1},
               {"000000000000000000000012", 1, 12},
               {"128974848", 1, 128974848},
               {"+2", 1, 2},
               {"-1", 1, -1},
               {"-2500m", 1000, -2500},
               {"-0", 1, 0}});
}

TEST(Quantity, EverySuffix) {
  expect_read({{"1000000000n", 1, 1},
               {"1000000u", 1, 1},
               {"250u", 1000, 1},
               {"100m", 1000, 100},
               {"2k", 1000, 2'000'000},
               {"3M", 1, 3'000'000},
               {"4G", 1, 4'000'000'000},
               {"5T", 1, 5'000'000'000'000},
               {"6P", 1, 6'000'000'000'000'000},
               {"7E", 1, 7'000'000'000'000'000'000},
               {"1Ki", 1, 1024},
               {"1.5Mi", 1, 1'572'864},
               {"64Gi", 1, 68'719'476'736},
               {"1.5Gi", 1, 1'610'612'736},
               {"4Ti", 1, std::int64_t{4} << 40},
               {"5Pi", 1, std::int64_t{5} << 50},
               {"7Ei", 1, std::int64_t{7} << 60}});
}

// One reader took two digits and at most 18, the other one three digits. Kubernetes takes any.
TEST(Quantity, Exponents) {
  expect_read({{"1e3", 1, 1000},
               {"1E3", 1, 1000},
               {"1e+3", 1, 1000},
               {"1E-3", 1000, 1},
               {"12e-1", 1000, 1200},
               {"1e0", 1, 1},
               {"1E", 1, 1'000'000'000'000'000'000},
               {"0e999", 1, 0},
               {"0e9223372036854775807", 1, 0},
               {"1e003", 1, 1000},
               {"0.000000000000000000000000000001e30", 1, 1},
               {"1000000000000000000000000000000000000000000e-42", 1, 1},
               {"1e-30", 1, 1},
               {"1e-9223372036854775808", 1, 1}});
}

// What is finer than the unit is rounded away from zero, however many digits say so. One reader refused a
// fraction of more than 37 digits, the other one lost what came after 18 of them.
TEST(Quantity, RoundsUpAndLosesNothing) {
  expect_read(
      {{"100m", 1, 1},
       {"1.5", 1, 2},
       {"-1.5", 1, -2},
       {"1n", 1, 1},
       {"1u", 1000, 1},
       {"0.0001m", 1000, 1},
       {"0.000000000000000000001", 1, 1},
       {"0." + std::string(500, '0') + "1", 1, 1},
       {"2." + std::string(500, '0'), 1, 2},
       {"2." + std::string(500, '0') + "1", 1, 3},
       // 1.999…Ki is 2047.99…, and 1.0000000000000000008673617379884035472Ei is 2^60 and very nearly one.
       {"1." + std::string(60, '9') + "Ki", 1, 2048},
       {"1.0000000000000000008673617379884035472Ei", 1, (std::int64_t{1} << 60) + 1},
       {"1.0000000000000000008673617379884035473Ei", 1, (std::int64_t{1} << 60) + 2},
       {"0.00000000000000000086736173798840354720596224069595336914062500Ei", 1, 1},
       {"9007199254740993", 1, 9007199254740993},
       {"9007199254740.993", 1000, 9007199254740993},
       {"9223372036854775807", 1, kMax},
       {"9223372036854775807m", 1000, kMax},
       {"-9223372036854775807", 1, -kMax},
       {"9223372036854775.807", 1000, kMax},
       {"0.9223372036854775807e19", 1, kMax}});
}

TEST(Quantity, WhatIsNoneSaysWhatIsAllowed) {
  for (const char* text :
       {"",     "m",    "Ki",  "Gi",  ".",   "-",     "+",     "four", "1x",   "1 ",
        " 1",   "1 Gi", "1GB", "1K",  "1ki", "1KiB",  "1Gim",  "--1",  "+-1",  "1.2.3",
        "0x10", "1e",   "1e+", "1e-", "e3",  "1e1.5", "1e+-3", "1ee3", "1e3k", "1e9223372036854775808",
        "1,5",  "NaN",  "Inf"}) {
    const auto value = parse_quantity(text, 1000);
    ASSERT_FALSE(value) << text;
    EXPECT_EQ(value.error(), "must be a quantity such as 2, \"2500m\", \"0.5\" or \"4Gi\", is \"" +
                                 std::string(text) + "\"");
  }
  EXPECT_THAT(parse_quantity(std::string(1000, 'x'), 1).error(),
              HasSubstr("is \"" + std::string(40, 'x') + "\""));
}

TEST(Quantity, WhatInt64CannotHoldIsAnErrorAndNotANumber) {
  for (const char* text : {"9223372036854775808", "9223372036854775807.1", "8Ei", "10E", "9e18k", "1e19",
                           "1e30", "1e999", "1e9223372036854775807", "99999999999999999999999Ei",
                           "9223372036854775808000", "99999999999999999999999999999999999999999999"}) {
    const auto value = parse_quantity(text, 1);
    ASSERT_FALSE(value) << text;
    if (std::string_view(text) == "9e18k") {  // either an exponent or a suffix
      EXPECT_THAT(value.error(), HasSubstr("must be a quantity such as"));
      continue;
    }
    EXPECT_EQ(value.error(), "must be a quantity below 2^63 in its smallest unit, is \"" +
                                 std::string(text).substr(0, 40) + "\"");
  }
  EXPECT_FALSE(parse_quantity("9223372036854775807", 1000));
  EXPECT_EQ(parse_quantity("-9223372036854775808", 1).error(),
            "must be a quantity above -2^63 in its smallest unit, is \"-9223372036854775808\"");
}

TEST(Quantity, AmountsAreNotNegative) {
  EXPECT_EQ(parse_amount("1.5", 1000), 1500);
  EXPECT_EQ(parse_amount("-0", 1000), 0);
  EXPECT_EQ(parse_amount("-1", 1000).error(),
            "must be a quantity of 0 or more, such as 2, \"2500m\", \"0.5\" or \"4Gi\", is \"-1\"");
  EXPECT_FALSE(parse_amount("-1n", 1));
  EXPECT_THAT(parse_amount("x", 1).error(), HasSubstr("such as"));
}

// The digits of a number may be written with any exponent: the amount is the same.
TEST(Quantity, TheSameNumberWrittenOtherwiseIsTheSame) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    const auto value = static_cast<std::int64_t>(random() >> (1 + random() % 63));
    const std::string digits = std::to_string(value);
    const auto behind = random() % (digits.size() + 1);  // the point
    const std::string text = digits.substr(0, digits.size() - behind) + "." +
                             digits.substr(digits.size() - behind) + "e" + std::to_string(behind);
    ASSERT_EQ(parse_quantity(text, 1), value) << text;
    ASSERT_EQ(parse_quantity("-" + digits + "000e-3", 1), -value) << digits;
    ASSERT_EQ(parse_quantity(digits + "m", 1000), value) << digits;
  }
}

TEST(Quantity, NoTextCrashes) {
  std::mt19937 random(2);
  constexpr std::string_view kAlphabet = "0123456789.+-eEmnukKMGTPi ";
  for (int i = 0; i < 50'000; ++i) {
    std::string text;
    for (auto n = random() % 24; n > 0; --n) text += kAlphabet[random() % kAlphabet.size()];
    const auto value = parse_quantity(text, i % 2 == 0 ? 1000 : 1);
    if (!value) {
      ASSERT_THAT(value.error(), HasSubstr("must be a quantity"));
    } else if (!text.starts_with('-')) {
      ASSERT_GE(*value, 0) << text;
    }
  }
}

TEST(Quantity, AmountsAreWrittenAsPeopleWriteThem) {
  EXPECT_EQ(format_milli(3000), "3");
  EXPECT_EQ(format_milli(2500), "2500m");
  EXPECT_EQ(format_milli(0), "0");
  EXPECT_EQ(format_bytes(0), "0");
  EXPECT_EQ(format_bytes(1000), "1000");
  EXPECT_EQ(format_bytes(65536), "64Ki");
  EXPECT_EQ(format_bytes(std::int64_t{1} << 60), "1Ei");
  EXPECT_EQ(format_bytes(std::int64_t{1536} << 20), "1536Mi");
}

}  // namespace
}  // namespace muster::common
