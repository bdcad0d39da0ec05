// How long jobs run, learned by user and size.
#include "muster/reconcilers/usage/run_times.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <string>
#include <vector>

namespace muster::reconcilers {
namespace {

using std::chrono::seconds;
using ::testing::SizeIs;

constexpr crds::MilliGpu kFour{4000}, kEight{8000};

TEST(RunTimes, MedianAndNinetiethPercentileOfTheLatest) {
  std::vector<crds::RunTimes> known;
  for (int i = 1; i <= 30; ++i) learn(known, "ann", kFour, i);
  ASSERT_THAT(known, SizeIs(1));
  EXPECT_THAT(known[0].seconds, SizeIs(crds::RunTimes::kMostRuns)) << "11 to 30";
  EXPECT_EQ(known[0].seconds.front(), 30);
  EXPECT_EQ(known[0].median, seconds{20});
  EXPECT_EQ(known[0].percentile_90, seconds{28});
  EXPECT_EQ(usual_run_time(known, "ann", kFour), (UsualRunTime{seconds{20}, seconds{28}}));
}

TEST(RunTimes, FewRunsSayNothing) {
  std::vector<crds::RunTimes> known;
  learn(known, "ann", kFour, 10);
  learn(known, "ann", kFour, 10);
  EXPECT_EQ(usual_run_time(known, "ann", kFour), std::nullopt);
  learn(known, "ann", kEight, 10);
  EXPECT_EQ(usual_run_time(known, "ann", kFour), std::nullopt) << "that is another size";
}

TEST(RunTimes, WhoHasRunFewIsJudgedByOthers) {
  std::vector<crds::RunTimes> known;
  for (const auto n : {100, 200, 300}) learn(known, "ann", kFour, n);
  learn(known, "bob", kFour, 1);
  EXPECT_EQ(usual_run_time(known, "bob", kFour), (UsualRunTime{seconds{100}, seconds{300}}));
  EXPECT_EQ(usual_run_time(known, "ann", kFour), (UsualRunTime{seconds{200}, seconds{300}}));
}

TEST(RunTimes, WhoHasNotRunForLongestIsForgotten) {
  std::vector<crds::RunTimes> known;
  const auto most = static_cast<int>(crds::RunTimes::kMost);
  for (int i = 0; i < most; ++i) learn(known, "user-" + std::to_string(i), kFour, i);
  learn(known, "user-0", kFour, 7);
  learn(known, "new", kFour, 7);
  ASSERT_THAT(known, SizeIs(crds::RunTimes::kMost));
  EXPECT_EQ(known[0].user, "new");
  EXPECT_EQ(known[1].user, "user-0");
  for (const auto& runs : known) EXPECT_NE(runs.user, "user-1");
}

}  // namespace
}  // namespace muster::reconcilers
