#include "muster/reconcilers/services/canary_analysis.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::reconcilers {
namespace {

using client::TimePoint;
using crds::CanaryMetric;
using crds::MilliLoad;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;

MilliLoad load(double n) {
  return MilliLoad{static_cast<std::int64_t>(n * 1000)};
}

// At most 5 per cent of errors, and a queue of 10, read every 5 s.
struct Canary {
  Canary() {
    analysis.checks = {{.metric = CanaryMetric::kErrorRate, .name = {}, .labels = {}, .max = load(0.05)},
                       {.metric = {}, .name = "queue", .labels = {}, .max = load(10)}};
  }
  CanaryVerdict hear(double errors, double requests, double queue, int serving = 2, int read = 2) {
    LoadRound round{.at = now, .serving = serving, .read = read, .problem = "refused"};
    round.loads = {{load(errors), load(requests)}, {load(queue), {}}};
    now += seconds{5};
    return last = judge_canary(analysis, std::move(round), history);
  }
  CanaryVerdict hear_for(seconds time, double errors, double requests, double queue) {
    for (const TimePoint end = now + time; now < end;) hear(errors, requests, queue);
    return last;
  }
  crds::CanaryAnalysis analysis;
  CanaryHistory history;
  TimePoint now{seconds{1000}};
  CanaryVerdict last;
};

TEST(CanaryAnalysis, GoesOnWhenTheWholeWindowWasWithinTheBounds) {
  Canary c;
  EXPECT_FALSE(c.hear(0, 10, 4).may_go_on);
  EXPECT_THAT(c.last.message, HasSubstr("has not been read for 1m"));
  EXPECT_FALSE(c.hear_for(seconds{50}, 0, 10, 4).may_go_on);
  EXPECT_TRUE(c.hear_for(seconds{20}, 0, 10, 4).may_go_on);
  EXPECT_EQ(c.last.message, "");
  EXPECT_TRUE(c.hear(6, 10, 4).may_go_on) << "6 of 120 are 5 per cent";
  c.hear(6, 10, 4);
  EXPECT_FALSE(c.last.may_go_on);
}

TEST(CanaryAnalysis, FailsWhenOneWasBeyondItsBoundOverTheWindow) {
  Canary c;
  EXPECT_FALSE(c.hear(5, 10, 0).has_failed);
  EXPECT_THAT(c.last.message, HasSubstr("ErrorRate is 0.5 over 1m, max 0.05"));
  EXPECT_FALSE(c.hear_for(seconds{50}, 5, 10, 0).has_failed);
  EXPECT_TRUE(c.hear_for(seconds{15}, 5, 10, 0).has_failed);

  Canary queues;
  EXPECT_TRUE(queues.hear_for(seconds{75}, 0, 10, 40).has_failed);
  EXPECT_THAT(queues.last.message, HasSubstr("queue is 20 over 1m, max 10")) << "the mean of two pods";
}

TEST(CanaryAnalysis, WhatNobodyKnowsNeitherGoesOnNorFails) {
  Canary c;
  EXPECT_FALSE(c.hear_for(seconds{90}, 0, 0, 0).may_go_on);
  EXPECT_FALSE(c.last.has_failed);
  EXPECT_THAT(c.last.message, HasSubstr("ErrorRate is not known: its pods have counted no request over 1m"));
  c.hear_for(seconds{90}, 0, 10, 0);
  EXPECT_TRUE(c.last.may_go_on);
  EXPECT_FALSE(c.hear(0, 10, 0, 2, 1).may_go_on);
  EXPECT_THAT(c.last.message, HasSubstr("1 of 2 of its replicas were not read (refused)"));
  EXPECT_FALSE(c.hear(0, 10, 0, 0, 0).may_go_on);
  EXPECT_THAT(c.last.message, HasSubstr("no replica of it is ready"));
  c.now += minutes{10};
  EXPECT_FALSE(c.hear(9, 10, 0).has_failed) << "one reading after a long time says little";
  EXPECT_TRUE(c.hear_for(seconds{60}, 9, 10, 0).has_failed);
}

}  // namespace
}  // namespace muster::reconcilers
