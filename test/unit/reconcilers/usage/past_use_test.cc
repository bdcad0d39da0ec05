// Past use out of the ledger, against what placement would have averaged itself.
#include "muster/reconcilers/usage/past_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cmath>

#include "muster/reconcilers/placement/placement_specs.h"

namespace muster::reconcilers {
namespace {

using std::chrono::days;
using std::chrono::hours;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr crds::Time kMidnight{std::chrono::sys_days{std::chrono::year{2026} / 1 / 31}};

crds::UsageStatus usage(std::int64_t today, std::int64_t yesterday) {
  crds::UsageStatus u;
  u.until = kMidnight + hours{12};
  u.days.push_back({"2026-01-31", {.cpu_seconds = 2 * today}, {}, {{"a100", today}}, {}});
  u.days.push_back({"2026-01-30", {}, {}, {{"a100", yesterday}}, {}});
  return u;
}

TEST(PastUse, WhatIsHeldForLongIsTheAverage) {
  crds::UsageStatus u;
  u.until = kMidnight;
  for (int i = 1; i <= 30; ++i)
    u.days.push_back({crds::to_string(kMidnight - days{i}).substr(0, 10), {}, {}, {{"a100", 8 * 86400}}, {}});
  const auto past = past_use_of("nlp", true, u, days{1}, "a100");
  ASSERT_THAT(past, SizeIs(1));
  EXPECT_EQ(past[0].queue, "nlp");
  EXPECT_TRUE(past[0].is_project);
  EXPECT_EQ(past[0].pool, "a100");
  EXPECT_EQ(past[0].average.gpu.value, 8000);
  EXPECT_EQ(past[0].as_of, to_time(kMidnight));
}

TEST(PastUse, AMomentsWeightHalvesEveryHalfLife) {
  // 4 GPUs yesterday, none today: after 12 hours of a half-life of 12 hours.
  const auto past = past_use_of("nlp", true, usage(0, 4 * 86400), hours{12}, "a100");
  ASSERT_THAT(past, SizeIs(1));
  EXPECT_EQ(past[0].average.gpu.value, 4000 * (0.5 - 0.125));
}

TEST(PastUse, TodayIsAsLongAsItIsOld) {
  const auto past = past_use_of("nlp", true, usage(4 * 43200, 0), hours{12}, "a100");
  ASSERT_THAT(past, SizeIs(1));
  EXPECT_EQ(past[0].average.gpu.value, 2000);
  EXPECT_EQ(past[0].average.cpu.value, 4000);
}

TEST(PastUse, NothingUsedSaysNothing) {
  EXPECT_THAT(past_use_of("nlp", true, {}, hours{12}, "a100"), IsEmpty());
  EXPECT_THAT(past_use_of("nlp", true, usage(0, 0), hours{12}, "a100"), IsEmpty());
  crds::UsageStatus unreadable = usage(100, 0);
  unreadable.days.resize(1);
  unreadable.days[0].date = "tomorrow";
  EXPECT_THAT(past_use_of("nlp", true, unreadable, hours{12}, "a100"), IsEmpty());
}

}  // namespace
}  // namespace muster::reconcilers
