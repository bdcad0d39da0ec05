#include "muster/reconcilers/services/autoscale_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::reconcilers {
namespace {

using client::Duration;
using client::TimePoint;
using crds::MilliLoad;
using crds::ServingMetric;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr client::WallTime kWall{seconds{1'800'000'000}};

MilliLoad load(double n) {
  return MilliLoad{static_cast<std::int64_t>(n * 1000)};
}

TEST(RollingMean, ForgetsWhatIsOlderThanItsWindowAndStaysSmall) {
  RollingMean mean;
  EXPECT_EQ(mean.mean(), 0);
  mean.add(TimePoint{seconds{0}}, 100, seconds{60});
  mean.add(TimePoint{seconds{30}}, 200, seconds{60});
  EXPECT_EQ(mean.mean(), 150);
  mean.add(TimePoint{seconds{60}}, 400, seconds{60});
  EXPECT_EQ(mean.mean(), 300);
  mean.add(TimePoint{seconds{600}}, 7, seconds{60});
  EXPECT_EQ(mean.mean(), 7);
  for (int i = 0; i < 3; ++i) mean.add(TimePoint{seconds{1000 + i}}, std::int64_t{1} << 62, minutes{60});
  EXPECT_GT(mean.mean(), 0) << "sums stop at the end";
}

crds::Autoscaling up_to_ten() {
  crds::Autoscaling rule;
  rule.max_replicas = 10;
  rule.metric = ServingMetric::kRequestsRunning;
  rule.target = MilliLoad{4000};
  return rule;
}

// A service that is read every 5 s.
struct Service {
  crds::Autoscaling rule = up_to_ten();
  std::int32_t size = 1;
  ScalingHistory history{};
  TimePoint now{seconds{1000}};
  ScalingVerdict last{};

  const ScalingVerdict& hear(LoadRound round) {
    now += seconds{5};
    round.at = now;
    last = judge(rule, size, round, history, now);
    size = last.size;
    return last;
  }
  const ScalingVerdict& hear(double all, std::int32_t serving = -1) {
    const std::int32_t n = serving < 0 ? size : serving;
    return hear({.serving = n, .read = n, .loads = {{load(all), {}}}});
  }
  const ScalingVerdict& hear_for(Duration time, double all) {
    for (const TimePoint end = now + time; now < end;) hear(all);
    return last;
  }
};

TEST(AutoscaleRule, FollowsTheLoadUpwardsWithinItsBounds) {
  Service s;
  EXPECT_EQ(s.hear(4).size, 1);
  EXPECT_TRUE(s.last.is_active);
  EXPECT_EQ(s.last.reason, "ValidMetricFound");
  s.hear_for(minutes{2}, 11);
  EXPECT_EQ(s.size, 3);
  EXPECT_THAT(s.last.message,
              HasSubstr("RequestsRunning is 11 in 3 replicas over 1m, target 4 for each: 3 wanted"));
  s.hear_for(minutes{2}, 1000);
  EXPECT_EQ(s.size, 10);
  EXPECT_THAT(s.last.message, HasSubstr("(maxReplicas; 250 would be right)"));
  s.rule.max_replicas = 7;
  EXPECT_EQ(s.hear(1000).size, 7) << "an edit holds at once";
  s.rule.min_replicas = 9;
  s.rule.max_replicas = 9;
  EXPECT_EQ(s.hear({.serving = 7}).size, 9) << "and where nothing can be read too";
}

TEST(AutoscaleRule, APeakIsAveragedOverTheWindowUnlessItAsksForTwiceTheSize) {
  Service s;
  s.size = 4;
  s.hear_for(minutes{2}, 16);
  EXPECT_EQ(s.hear(30).size, 4) << "one reading of twelve";
  s.hear_for(seconds{50}, 30);
  EXPECT_EQ(s.size, 8) << "all of them";
  s.hear_for(minutes{10}, 32);
  EXPECT_EQ(s.size, 8);
  s.hear(200);
  EXPECT_EQ(s.hear(200).size, 10) << "50 are needed: no waiting for the window";
}

TEST(AutoscaleRule, WithinTheToleranceNothingChanges) {
  Service s;
  s.size = 5;
  s.hear_for(minutes{20}, 22);
  EXPECT_EQ(s.size, 5);
  s.hear_for(minutes{20}, 18);
  EXPECT_EQ(s.size, 5);
  s.hear_for(minutes{20}, 22.1);
  EXPECT_EQ(s.size, 6);
}

TEST(AutoscaleRule, ReplicasThatStartCount) {
  Service s;
  s.size = 2;
  for (int i = 0; i < 60; ++i) s.hear(12, 2);
  EXPECT_EQ(s.size, 3) << "the third starts, the two say the same: no fourth";
}

TEST(AutoscaleRule, DownwardsToTheMostThatWasNeededInTheDelay) {
  Service s;
  s.hear_for(minutes{2}, 32);
  ASSERT_EQ(s.size, 8);
  s.hear_for(minutes{2}, 4);
  s.hear_for(minutes{2}, 20);
  EXPECT_EQ(s.size, 8) << "less than 5 minutes ago it was needed";
  s.hear_for(minutes{2}, 4);
  EXPECT_EQ(s.size, 5) << "what was needed in between";
  s.hear_for(minutes{5}, 4);
  EXPECT_EQ(s.size, 1);
}

TEST(AutoscaleRule, SizesDoNotFlapWithTheLoad) {
  Service s;
  s.hear_for(minutes{2}, 32);
  for (int i = 0; i < 100; ++i) {
    s.hear_for(minutes{2}, 4);
    EXPECT_EQ(s.size, 8);
    s.hear_for(minutes{2}, 32);
  }
}

TEST(AutoscaleRule, AnEmptyQueueTakesOneReplicaAtATime) {
  Service s;
  s.rule.metric = ServingMetric::kRequestsWaiting;
  s.hear_for(minutes{2}, 20);
  ASSERT_EQ(s.size, 5);
  s.hear_for(minutes{6}, 0);
  EXPECT_EQ(s.size, 4);
  s.hear_for(minutes{4}, 0);
  EXPECT_EQ(s.size, 4);
  s.hear_for(minutes{2}, 0);
  EXPECT_EQ(s.size, 3);
  s.hear_for(minutes{30}, 0);
  EXPECT_EQ(s.size, 1);
}

TEST(AutoscaleRule, PartialReadingsNeverTakeAwayAndAddOnlyWhatThoseReadAskFor) {
  Service s;
  s.size = 4;
  for (int i = 0; i < 200; ++i)
    s.hear({.serving = 4, .read = 3, .loads = {{load(0), {}}}, .problem = "no answer"});
  EXPECT_EQ(s.size, 4);
  EXPECT_FALSE(s.last.is_active);
  EXPECT_EQ(s.last.reason, "ReadingsPartial");
  EXPECT_THAT(s.last.message,
              HasSubstr("1 of 4 replicas that serve were not read (no answer), so none is taken"));
  for (int i = 0; i < 20; ++i) s.hear({.serving = 4, .read = 3, .loads = {{load(15), {}}}});
  EXPECT_EQ(s.size, 4) << "with a fourth that is idle there are enough";
  for (int i = 0; i < 20; ++i) s.hear({.serving = 4, .read = 3, .loads = {{load(24), {}}}});
  EXPECT_EQ(s.size, 6);
}

TEST(AutoscaleRule, HoldsWhereNothingIsRead) {
  Service s;
  s.hear_for(minutes{2}, 20);
  ASSERT_EQ(s.size, 5);
  for (int i = 0; i < 500; ++i) s.hear({.serving = 5, .read = 0, .problem = "refused"});
  EXPECT_EQ(s.size, 5);
  EXPECT_FALSE(s.last.is_active);
  EXPECT_EQ(s.last.reason, "ReadingsFailed");
  EXPECT_THAT(s.last.message,
              HasSubstr("5 of 5 replicas that serve were not read (refused): the size is held"));
  s.hear_for(minutes{4}, 4);
  EXPECT_EQ(s.size, 5) << "the delay begins when it can be read again";
  s.hear_for(minutes{2}, 4);
  EXPECT_EQ(s.size, 1);
  s.hear(LoadRound{});
  EXPECT_EQ(s.last.reason, "NoReplicaServes");
  EXPECT_EQ(s.size, 1);
}

TEST(AutoscaleRule, AnOldRoundIsRefused) {
  Service s;
  s.size = 2;
  LoadRound round{.at = s.now, .serving = 2, .read = 2, .loads = {{load(100), {}}}};
  EXPECT_EQ(judge(s.rule, 2, round, s.history, s.now + seconds{31}).size, 2);
  const auto said = judge(s.rule, 2, round, s.history, s.now + seconds{31});
  EXPECT_FALSE(said.is_active);
  EXPECT_EQ(said.reason, "ReadingsStale");
  EXPECT_EQ(judge(s.rule, 2, round, s.history, s.now + seconds{1}).size, 10);
}

TEST(AutoscaleRule, AfterARestartNothingGoesForTheWholeDelay) {
  Service s;
  s.size = 6;  // as the status has it
  s.hear_for(minutes{4}, 4);
  EXPECT_EQ(s.size, 6);
  s.hear_for(minutes{2}, 4);
  EXPECT_EQ(s.size, 1);
}

TEST(AutoscaleRule, WithoutDelayItGoesAtOnce) {
  Service s;
  s.size = 6;
  s.rule.scale_down_delay = seconds{0};
  EXPECT_EQ(s.hear(4).size, 1);
}

TEST(AutoscaleRule, ACacheThatIsFullerThanItsTargetGetsOneMore) {
  Service s;
  s.rule.metric = ServingMetric::kKVCacheUtilization;
  s.rule.target = MilliLoad{800};
  s.size = 3;
  EXPECT_EQ(s.hear(2.85).size, 4);
  s.hear_for(minutes{2}, 2.85);
  EXPECT_EQ(s.size, 4);
}

TEST(AutoscaleRule, AmountsOfAnySizeAreDefined) {
  Service s;
  s.rule.target = MilliLoad{1};
  s.hear({.serving = 1, .read = 1, .loads = {{MilliLoad{std::numeric_limits<std::int64_t>::max()}, {}}}});
  EXPECT_EQ(
      s.hear({.serving = 1, .read = 1, .loads = {{MilliLoad{std::numeric_limits<std::int64_t>::max()}, {}}}})
          .size,
      10);
  s.rule.target = MilliLoad{999'999'999'000};
  s.rule.max_replicas = 1000;
  s.size = 1000;
  s.hear_for(minutes{10}, 0);
  EXPECT_EQ(s.size, 1);
}

// --- several metrics

Service by_three() {
  Service s;
  s.rule.metrics = {
      {.metric = ServingMetric::kTimeToFirstToken, .name = {}, .labels = {}, .target = load(0.5)},
      {.metric = {}, .name = "queue_depth", .labels = {}, .target = load(2)}};
  return s;
}

TEST(SeveralMetrics, TheLargestWishCountsAndIsTold) {
  Service s = by_three();
  s.size = 2;
  // 2 replicas have 8 requests, as is right, and 10 requests in which the first token took 5 s together.
  const LoadRound calm{.serving = 2, .read = 2, .loads = {{load(8), {}}, {load(5), load(10)}, {load(4), {}}}};
  s.hear(calm);
  EXPECT_EQ(s.size, 2);
  EXPECT_THAT(s.last.message, HasSubstr("RequestsRunning is 8 in 2 replicas"));
  LoadRound slow = calm;
  slow.loads[1] = {load(15), load(10)};
  for (int i = 0; i < 12; ++i) slow.serving = slow.read = 2, s.hear(slow);
  EXPECT_EQ(s.size, 6) << "1.5 s is three times too long";
  EXPECT_THAT(s.last.message, HasSubstr("TimeToFirstToken is 1.5 s in 2 replicas over 1m, target 0.5"));
  LoadRound deep = slow;
  deep.loads[2] = {load(15), {}};
  for (int i = 0; i < 12; ++i) s.hear(deep);
  EXPECT_EQ(s.size, 8);
  EXPECT_THAT(s.last.message, HasSubstr("queue_depth is 15 in 2 replicas over 1m, target 2 for each"));
}

TEST(SeveralMetrics, AFastFirstTokenTakesOneReplicaAtATimeAndNobodyWaitingIsNoTime) {
  Service s;
  s.rule.metric = ServingMetric::kTimeToFirstToken;
  s.rule.target = load(1);
  s.size = 4;
  const LoadRound none{.serving = 4, .read = 4, .loads = {{{}, {}}}};
  const LoadRound one{.serving = 4, .read = 4, .loads = {{load(8), load(1)}}};
  s.hear(one);
  EXPECT_EQ(s.size, 10) << "the mean is that of the requests: 8 s";
  s.size = 4;
  s.history = {};
  for (int i = 0; i < 11; ++i) s.hear(i == 0 ? one : none), s.size = 4;
  EXPECT_THAT(s.last.message, HasSubstr("is 8 s")) << "readings without a request say nothing";
  s.history = {};
  for (int i = 0; i < 70; ++i) s.hear(none);
  EXPECT_EQ(s.size, 3);
}

// --- limits

TEST(ScalingLimits, OnlySoManyComeAndGoInAnySuchTime) {
  Service s;
  s.rule.scale_up_limit = crds::ScalingLimit{2, minutes{1}};
  s.rule.scale_down_limit = crds::ScalingLimit{3, minutes{10}};
  s.hear(1000);
  EXPECT_EQ(s.size, 3);
  EXPECT_THAT(
      s.last.message,
      HasSubstr("3 wanted (maxReplicas; 250 would be right) (scaleUpLimit: 2 in 1m; 10 would be right)"));
  s.hear_for(seconds{50}, 1000);
  EXPECT_EQ(s.size, 3);
  s.hear_for(seconds{15}, 1000);
  EXPECT_EQ(s.size, 5);
  s.hear_for(minutes{4}, 1000);
  EXPECT_EQ(s.size, 10);
  s.hear_for(minutes{7}, 0);
  EXPECT_EQ(s.size, 7);
  EXPECT_THAT(s.last.message, HasSubstr("(scaleDownLimit: 3 in 10m; 1 would be right)"));
  s.hear_for(minutes{7}, 0);
  EXPECT_EQ(s.size, 7);
  s.hear_for(minutes{4}, 0);
  EXPECT_EQ(s.size, 4);
  s.rule.min_replicas = 9;
  EXPECT_EQ(s.hear(0).size, 9) << "a bound waits for no limit";
  s.rule.min_replicas = 1;
  s.rule.max_replicas = 2;
  EXPECT_EQ(s.hear(0).size, 2);
}

TEST(ScalingLimits, HoldOnTheWayToZeroAndBack) {
  Service s;
  s.rule.min_replicas = 0;
  s.rule.scale_to_zero_after = minutes{1};
  s.rule.scale_down_limit = crds::ScalingLimit{1, minutes{10}};
  s.rule.scale_up_limit = crds::ScalingLimit{2, minutes{1}};
  s.size = 2;
  LoadRound idle{.serving = 2, .read = 2, .loads = {{load(0), {}}}};
  idle.is_idle = true;
  for (int i = 0; i < 14; ++i) s.hear(idle);
  EXPECT_EQ(s.size, 1);
  for (int i = 0; i < 130; ++i) s.hear(idle);
  EXPECT_EQ(s.size, 0);
  const auto back = size_for_held(s.rule, 0, 400);
  ASSERT_TRUE(back);
  EXPECT_EQ(back->size, 2);
}

// --- to zero

Service down_to_zero(ServingMetric metric = ServingMetric::kRequestsRunning) {
  Service s;
  s.rule.min_replicas = 0;
  s.rule.metric = metric;
  return s;
}

struct AtZero : testing::Test {
  // One reading of `size` replicas that say the same.
  const ScalingVerdict& hear(double all, bool is_idle, std::int64_t answered = 0) {
    LoadRound round{.serving = s.size, .read = s.size, .loads = {{load(all), {}}}};
    round.is_idle = is_idle;
    round.answered = answered;
    return hear(round);
  }
  const ScalingVerdict& hear(LoadRound round) {
    s.now += seconds{5};
    round.at = s.now;
    s.last = judge(s.rule, s.size, round, s.history, s.now, activation);
    s.size = s.last.size;
    return s.last;
  }
  void idle_for(Duration time) {
    for (const TimePoint end = s.now + time; s.now < end;) hear(0, true);
  }

  Service s = down_to_zero();
  Activation activation{};
};

TEST_F(AtZero, TheLastReplicaGoesWhenAllWereIdleForTheTime) {
  idle_for(minutes{29});
  EXPECT_EQ(s.size, 1);
  EXPECT_EQ(s.last.reason, "ValidMetricFound");
  idle_for(minutes{2});
  EXPECT_EQ(s.size, 0);
  EXPECT_TRUE(s.last.is_active);
  EXPECT_EQ(s.last.reason, "ScaledToZero");
}

TEST_F(AtZero, SeveralGoAtOnce) {
  s.rule.scale_to_zero_after = minutes{1};
  s.size = 4;
  idle_for(minutes{2});
  EXPECT_EQ(s.size, 0) << "whatever scaleDownDelay would keep";
}

TEST_F(AtZero, ALoadOfZeroIsNotEnoughByWhateverMetric) {
  for (const auto metric : {ServingMetric::kRequestsRunning, ServingMetric::kRequestsWaiting,
                            ServingMetric::kKVCacheUtilization}) {
    s = down_to_zero(metric);
    for (int i = 0; i < 1000; ++i) hear(0, false);
    EXPECT_EQ(s.size, 1) << "some request runs or waits";
  }
}

TEST_F(AtZero, ARequestBetweenTwoReadingsCounts) {
  for (int i = 0; i < 2000; ++i) hear(0, true, i / 100);
  EXPECT_EQ(s.size, 1) << "one in each 500 s was answered";
  for (int i = 0; i < 400; ++i) hear(0, true, 20);
  EXPECT_EQ(s.size, 0);
}

TEST_F(AtZero, AReadingThatFailsBeginsTheTimeAnew) {
  idle_for(minutes{29});
  hear({.serving = 1, .read = 0, .problem = "refused"});
  EXPECT_EQ(s.last.reason, "ReadingsFailed");
  idle_for(minutes{29});
  EXPECT_EQ(s.size, 1);
  idle_for(minutes{2});
  EXPECT_EQ(s.size, 0);

  s = down_to_zero();
  s.size = 2;
  LoadRound partial{.serving = 2, .read = 1, .problem = "refused"};
  partial.is_idle = true;
  for (int i = 0; i < 1000; ++i) hear(partial);
  EXPECT_EQ(s.size, 2) << "the one that was not read may be busy";
}

TEST_F(AtZero, NobodyReadsOldRounds) {
  idle_for(minutes{29});
  LoadRound old{.at = s.now, .serving = 1, .read = 1};
  old.is_idle = true;
  s.now += minutes{10};
  EXPECT_EQ(judge(s.rule, 1, old, s.history, s.now, activation).reason, "ReadingsStale");
  EXPECT_EQ(hear(0, true).size, 1) << "nobody knows of the ten minutes";
}

TEST_F(AtZero, WithoutAWayBackItStays) {
  activation.missing = "no activator runs";
  idle_for(minutes{29});
  EXPECT_TRUE(s.last.is_active) << "it is said in advance";
  EXPECT_THAT(s.last.message, HasSubstr("; it does not go to zero: no activator runs"));
  idle_for(minutes{31});
  EXPECT_EQ(s.size, 1);
  EXPECT_FALSE(s.last.is_active);
  EXPECT_EQ(s.last.reason, "NoActivator");
  activation.missing.clear();
  EXPECT_EQ(hear(0, true).size, 0) << "at once: it has been idle";
}

TEST_F(AtZero, AServerThatDoesNotSayWhetherItIsIdleStays) {
  LoadRound round{.serving = 1, .read = 1};
  round.idle_problem = "web-0: it answers with none of vllm:num_requests_running";
  for (int i = 0; i < 1000; ++i) hear(round);
  EXPECT_EQ(s.size, 1);
  EXPECT_THAT(s.last.message, HasSubstr("it does not go to zero: web-0: it answers with none of"));
}

TEST_F(AtZero, NothingMovesItThereButWhatIsHeld) {
  s.size = 0;
  hear(LoadRound{});
  EXPECT_EQ(s.size, 0);
  EXPECT_EQ(s.last.reason, "ScaledToZero");
  activation.missing = "none of 2 activators is ready";
  hear(LoadRound{});
  EXPECT_EQ(s.size, 0);
  EXPECT_FALSE(s.last.is_active);
  EXPECT_EQ(s.last.reason, "NoActivator");

  EXPECT_FALSE(size_for_held(s.rule, 0, 0));
  EXPECT_EQ(size_for_held(s.rule, 0, 1)->size, 1);
  EXPECT_EQ(size_for_held(s.rule, 0, 9)->size, 3);
  EXPECT_EQ(size_for_held(s.rule, 0, 1'000'000)->size, 10);
  EXPECT_EQ(size_for_held(s.rule, 0, 9)->reason, "RequestsHeld");
  EXPECT_FALSE(size_for_held(s.rule, 3, 9)) << "as many are made already";
  s.rule.metric = ServingMetric::kKVCacheUtilization;
  EXPECT_EQ(size_for_held(s.rule, 0, 1'000'000)->size, 1) << "nobody knows how much of a cache they need";
}

TEST_F(AtZero, AfterItsReturnTheTimeBeginsAnew) {
  idle_for(minutes{31});
  ASSERT_EQ(s.size, 0);
  hear(LoadRound{});
  s.size = 1;
  hear(LoadRound{});
  EXPECT_EQ(s.last.reason, "NoReplicaServes");
  idle_for(minutes{29});
  EXPECT_EQ(s.size, 1);
}

TEST_F(AtZero, WhatIsHeldIsLoadOfWhatServes) {
  s.rule.metric = ServingMetric::kRequestsWaiting;
  activation.held = 20;
  for (int i = 0; i < 30; ++i) hear(0, true);
  EXPECT_EQ(s.size, 5);
  activation.held = 0;
  EXPECT_GT(hear(0, true).size, 0);
}

TEST(ActivityOf, NeedsBothNumbersAndAddsUpWhatWasAnswered) {
  const auto said = [](std::string_view text) {
    const auto samples = client::parse_exposition(text, is_name_of_activity);
    EXPECT_TRUE(samples);
    return activity_of(*samples, kWall);
  };
  const auto idle = said(
      "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n"
      "vllm:request_success_total{finished_reason=\"stop\"} "
      "7\nvllm:request_success_total{finished_reason=\"length\"} 2\n");
  ASSERT_TRUE(idle);
  EXPECT_TRUE(idle->is_idle);
  EXPECT_EQ(idle->answered, 9);
  EXPECT_FALSE(said("sglang:num_running_reqs 0\nsglang:num_queue_reqs 1\n")->is_idle);
  EXPECT_FALSE(said("sglang:num_running_reqs 1\nsglang:num_queue_reqs 0\n")->is_idle);
  EXPECT_THAT(said("nv_inference_pending_request_count 0\n").error(),
              HasSubstr("none of vllm:num_requests_running"));
}

}  // namespace
}  // namespace muster::reconcilers
