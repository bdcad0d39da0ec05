// Cron expressions: which days and minutes they name, and what is refused.
#include "muster/reconcilers/schedules/cron.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <vector>

namespace muster::reconcilers {
namespace {

using std::chrono::minutes;
using std::chrono::year;
using ::testing::ElementsAre;
using ::testing::HasSubstr;

Cron cron(std::string_view text) {
  const auto parsed = Cron::parse(text);
  EXPECT_TRUE(parsed) << text << ": " << (parsed ? "" : parsed.error());
  return parsed ? *parsed : *Cron::parse("* * * * *");
}

// Minutes of a day.
std::vector<std::int64_t> starts(std::string_view text) {
  std::vector<std::int64_t> all;
  const Cron c = cron(text);
  for (auto at = c.first_from(minutes{0}); at; at = c.first_from(*at + minutes{1}))
    all.push_back(at->count());
  // The same, backwards.
  std::vector<std::int64_t> back;
  for (auto at = c.last_until(minutes{1439}); at; at = c.last_until(*at - minutes{1}))
    back.insert(back.begin(), at->count());
  EXPECT_EQ(all, back) << text;
  return all;
}

// Of January 2026, which begins on a Thursday.
std::vector<unsigned> days(std::string_view text) {
  std::vector<unsigned> all;
  const Cron c = cron(text);
  for (unsigned d = 1; d <= 31; ++d) {
    if (c.falls_on(year{2026} / 1 / d)) all.push_back(d);
  }
  return all;
}

std::string refusal(std::string_view text) {
  const auto parsed = Cron::parse(text);
  EXPECT_FALSE(parsed) << text;
  return parsed ? "" : parsed.error();
}

TEST(Cron, MinutesAndHours) {
  EXPECT_THAT(starts("0 20 * * *"), ElementsAre(1200));
  EXPECT_THAT(starts("0,30 8-9 * * *"), ElementsAre(480, 510, 540, 570));
  EXPECT_THAT(starts("*/20 0 * * *"), ElementsAre(0, 20, 40));
  EXPECT_THAT(starts("10-30/10 1,3 * * *"), ElementsAre(70, 80, 90, 190, 200, 210));
  EXPECT_THAT(starts("59 23 * * *"), ElementsAre(1439));
  EXPECT_THAT(starts("5-6,5,50-59/5 0 * * *"), ElementsAre(5, 6, 50, 55));
  EXPECT_EQ(starts("* * * * *").size(), 1440U);
  EXPECT_EQ(starts("* */6 * * *").size(), 240U);
  EXPECT_THAT(starts("  0\t 20  *   * *  "), ElementsAre(1200)) << "blanks as in a crontab";
}

TEST(Cron, FirstAndLastFromWithinADay) {
  const Cron c = cron("15,45 6,18 * * *");
  EXPECT_EQ(c.first_from(minutes{375}), minutes{375});
  EXPECT_EQ(c.first_from(minutes{376}), minutes{405});
  EXPECT_EQ(c.first_from(minutes{406}), minutes{1095});
  EXPECT_EQ(c.first_from(minutes{1126}), std::nullopt);
  EXPECT_EQ(c.first_from(minutes{1440}), std::nullopt);
  EXPECT_EQ(c.last_until(minutes{1125}), minutes{1125});
  EXPECT_EQ(c.last_until(minutes{1124}), minutes{1095});
  EXPECT_EQ(c.last_until(minutes{1094}), minutes{405});
  EXPECT_EQ(c.last_until(minutes{374}), std::nullopt);
  EXPECT_EQ(c.last_until(minutes{-1}), std::nullopt);
}

TEST(Cron, DaysOfTheMonthAndOfTheWeek) {
  EXPECT_THAT(days("0 0 1,15 * *"), ElementsAre(1, 15));
  EXPECT_THAT(days("0 0 * * 6"), ElementsAre(3, 10, 17, 24, 31));
  EXPECT_THAT(days("0 0 * * 0"), ElementsAre(4, 11, 18, 25));
  EXPECT_EQ(days("0 0 * * 7"), days("0 0 * * 0")) << "Sunday is 0 and 7";
  EXPECT_EQ(days("0 0 * * sun"), days("0 0 * * 0"));
  EXPECT_EQ(days("0 0 * * 5-7"), days("0 0 * * fri,SAT,Sun"));
  EXPECT_EQ(days("0 0 * * fri-sun"), days("0 0 * * 5-7"));
  EXPECT_EQ(days("0 0 * * 1-5"), days("0 0 * * mon-fri"));
  EXPECT_THAT(days("0 0 28-31 * *"), ElementsAre(28, 29, 30, 31));
  EXPECT_THAT(days("0 0 */10 * *"), ElementsAre(1, 11, 21, 31));
}

TEST(Cron, OneOfBothDaysIsEnoughWhereBothAreRestricted) {
  EXPECT_THAT(days("0 0 13 * 5"), ElementsAre(2, 9, 13, 16, 23, 30));
  EXPECT_THAT(days("0 0 */2 * 5"), ElementsAre(9, 23)) << "begins with *: both have to be right";
}

TEST(Cron, Months) {
  EXPECT_THAT(days("0 0 2 feb *"), ElementsAre());
  EXPECT_THAT(days("0 0 2 1-3 *"), ElementsAre(2));
  EXPECT_THAT(days("0 0 2 JAN,dec *"), ElementsAre(2));
  EXPECT_THAT(days("0 0 2 */2 *"), ElementsAre(2)) << "1, 3, 5, …";
  EXPECT_TRUE(cron("0 0 29 2 *").falls_on(year{2028} / 2 / 29));
}

TEST(Cron, WhatIsRefusedAndWhy) {
  EXPECT_THAT(refusal(""), HasSubstr("must have five fields"));
  EXPECT_THAT(refusal("0 20 * *"), HasSubstr("has 4"));
  EXPECT_THAT(refusal("0 0 20 * * *"), HasSubstr("has 6"));
  EXPECT_THAT(refusal("@daily"), HasSubstr("must have five fields"));
  EXPECT_THAT(refusal("60 * * * *"), HasSubstr("minute must be a list of *, numbers from 0 to 59"));
  EXPECT_THAT(refusal("0 24 * * *"), HasSubstr("hour must be"));
  EXPECT_THAT(refusal("0 0 0 * *"), HasSubstr("day of the month must be"));
  EXPECT_THAT(refusal("0 0 32 * *"), HasSubstr("has \"32\""));
  EXPECT_THAT(refusal("0 0 1 0 *"), HasSubstr("month must be"));
  EXPECT_THAT(refusal("0 0 1 foo *"), HasSubstr("names are jan to dec"));
  EXPECT_THAT(refusal("0 0 * * 8"), HasSubstr("day of the week must be"));
  EXPECT_THAT(refusal("0 0 * * monday"), HasSubstr("names are sun to sat"));
  for (const char* bad :
       {"a * * * *", "5- * * * *", "-5 * * * *", "9-5 * * * *", "*/0 * * * *", "*/x * * * *", "5/10 * * * *",
        ", * * * *", "1, * * * *", "1..5 * * * *", "+1 * * * *", "1-2-3 * * * *", "*/ * * * *", "** * * * *",
        "99999999999 * * * *", "* * ? * *", "* * L * *"})
    EXPECT_THAT(refusal(bad), HasSubstr("must be a list")) << bad;
}

TEST(Cron, ADayThatNeverComesIsRefused) {
  EXPECT_THAT(refusal("0 0 30 2 *"), HasSubstr("must name a day that comes"));
  EXPECT_THAT(refusal("0 0 31 4,6,9,11 *"), HasSubstr("must name a day that comes"));
  cron("0 0 31 4,5 *");
  cron("0 0 29 2 *");
  cron("0 0 31 2 1");  // Mondays of February
}

}  // namespace
}  // namespace muster::reconcilers
