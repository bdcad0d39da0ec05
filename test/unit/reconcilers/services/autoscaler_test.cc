// Replicas read in the background, in virtual time, over a transport that fails as pods do.
#include "muster/reconcilers/services/autoscaler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>

#include "muster/client/testing/fake_transport.h"
#include "muster/client/testing/virtual_world.h"

namespace muster::reconcilers {
namespace {

using client::testing::Fault;
using client::testing::FaultKind;
using std::chrono::milliseconds;
using std::chrono::seconds;
using testing::HasSubstr;

crds::Autoscaling rule_of_two() {
  crds::Autoscaling rule;
  rule.max_replicas = 100;
  rule.metric = crds::ServingMetric::kRequestsWaiting;
  rule.target = crds::MilliLoad{2000};
  return rule;
}

struct AutoscalerTest : testing::Test {
  AutoscalerTest() {
    pods.set_latency(milliseconds{2}, milliseconds{9});
    pods.set_handler([this](const client::HttpRequest& request) {
      most = std::max(most, pods.in_flight());
      const auto found = answers.find(request.target);
      return found == answers.end() ? client::HttpResponse{404, {}, "not found"}
                                    : client::HttpResponse{200, {}, found->second};
    });
    pods.set_fault_hook([this](const client::HttpRequest& request) {
      Fault fault;
      if (silent.contains(request.target)) fault.kind = FaultKind::kHangBefore;
      return fault;
    });
  }

  std::vector<MetricsEndpoint> replicas(int n, const std::string& host = "10.0.0.") {
    std::vector<MetricsEndpoint> all;
    for (int i = 0; i < n; ++i)
      all.push_back({"chat-" + std::to_string(i), metrics_url(host + std::to_string(i), 8000, "/metrics")});
    return all;
  }
  void answer(const MetricsEndpoint& endpoint, int waiting) {
    answers[endpoint.url] = "vllm:num_requests_waiting{engine=\"0\"} " + std::to_string(waiting) + "\n";
  }
  // When it is time again: looks, waits for the answer, and looks at that.
  ScalingVerdict read(std::int32_t size, const std::vector<MetricsEndpoint>& serving,
                      const client::Key& key = "ns/chat") {
    world.run_for(reading_interval(rule));
    const auto before = news[key];
    scaler.look(key, rule, size, serving);
    EXPECT_TRUE(world.run_until([&] { return news[key] > before; }, seconds{60}));
    return scaler.look(key, rule, size, serving).verdict.value_or(ScalingVerdict{});
  }

  client::testing::VirtualWorld world;
  client::testing::FakeTransport pods{world.env()};
  std::map<std::string, std::string> answers;  // by URL
  std::map<std::string, bool> silent;
  std::map<client::Key, int> news;
  std::size_t most = 0;
  crds::Autoscaling rule = rule_of_two();
  Autoscaler scaler{world.env(), pods, [this](const client::Key& key) { ++news[key]; }};
};

TEST(MetricsUrl, IsThatOfThePod) {
  EXPECT_EQ(metrics_url("10.0.0.7", 8000, "/metrics"), "http://10.0.0.7:8000/metrics");
  EXPECT_EQ(metrics_url("fd00::7", 8002, "/prometheus/metrics"), "http://[fd00::7]:8002/prometheus/metrics");
  EXPECT_EQ(metrics_url("", 8000, "/metrics"), "");
}

TEST(ReadingInterval, IsHalfThePanicWindowWithinBounds) {
  crds::Autoscaling rule;
  EXPECT_EQ(reading_interval(rule), seconds{5});
  rule.panic_window = seconds{1};
  EXPECT_EQ(reading_interval(rule), seconds{1});
  rule.panic_window = rule.window = std::chrono::hours{9};
  EXPECT_EQ(reading_interval(rule), seconds{15});
  rule.window = seconds{6};
  EXPECT_EQ(reading_interval(rule), seconds{3});
}

TEST_F(AutoscalerTest, AddsUpWhatReplicasSay) {
  const auto two = replicas(2);
  answer(two[0], 5);
  answer(two[1], 6);
  EXPECT_FALSE(scaler.look("ns/other", rule, 2, two).verdict) << "nothing was read yet";
  const auto said = read(2, two);
  EXPECT_EQ(said.size, 6);
  EXPECT_TRUE(said.is_active);
  EXPECT_EQ(pods.requests()[0].headers[0].second, "text/plain;version=0.0.4");
}

// A replica that is a set of roles may answer at several places.
TEST_F(AutoscalerTest, AReplicaWithSeveralEndpointsIsOne) {
  auto four = replicas(4);
  four[1].replica = four[0].replica;
  four[3].replica = four[2].replica;
  for (const auto& endpoint : four) answer(endpoint, 2);
  EXPECT_THAT(read(2, four).message, HasSubstr("is 8 in 2 replicas"));
  answers.erase(four[3].url);
  const auto partial = read(2, four);
  EXPECT_EQ(partial.reason, "ReadingsPartial");
  EXPECT_THAT(partial.message, HasSubstr("1 of 2 replicas that serve were not read (chat-2:"));

  rule.metric = crds::ServingMetric::kKVCacheUtilization;
  rule.target = crds::MilliLoad{500};
  for (std::size_t i = 0; i < 4; ++i)
    answers[four[i].url] = "vllm:kv_cache_usage_perc " + std::string(i < 2 ? "0.25" : "0.75") + "\n";
  EXPECT_THAT(read(2, four).message, HasSubstr("is 1 in 2 replicas")) << "a full one is 1, however large";
}

TEST_F(AutoscalerTest, IsReadAtItsIntervalHoweverOftenItIsLookedAt) {
  const auto one = replicas(1);
  answer(one[0], 1);
  for (int i = 0; i < 600; ++i) {
    scaler.look("ns/chat", rule, 1, one);
    world.run_for(milliseconds{100});
  }
  EXPECT_EQ(news["ns/chat"], 12);
  EXPECT_EQ(pods.requests().size(), 12u);
}

TEST_F(AutoscalerTest, WhoIsNotReadIsSaidAndTheSizeHeld) {
  const auto three = replicas(3);
  answer(three[0], 0);
  answers[three[1].url] = "<html>\n";
  const auto partial = read(3, three);
  EXPECT_EQ(partial.reason, "ReadingsPartial");
  EXPECT_THAT(partial.message, HasSubstr("2 of 3 replicas"));
  EXPECT_EQ(partial.size, 3);
  EXPECT_EQ(read(3, {{"chat-0", ""}}).reason, "ReadingsFailed");
  EXPECT_THAT(read(3, {{"chat-0", ""}}).message, HasSubstr("chat-0: its pod has no address"));
  EXPECT_EQ(read(3, {}).reason, "NoReplicaServes");
}

TEST_F(AutoscalerTest, SilenceDelaysNobodyElse) {
  auto all = replicas(40);
  for (const auto& r : all) answer(r, 2);
  silent[all[0].url] = true;
  const auto healthy = replicas(1, "10.0.1.");
  answer(healthy[0], 8);
  scaler.look("ns/chat", rule, 40, all);
  scaler.look("ns/healthy", rule, 1, healthy);
  world.run_for(milliseconds{200});
  EXPECT_EQ(news["ns/healthy"], 1) << "not behind the silent one";
  EXPECT_EQ(pods.requests().size(), 41u) << "nor are those of its own service";
  EXPECT_EQ(news["ns/chat"], 0);
  world.run_for(seconds{3});
  EXPECT_EQ(news["ns/chat"], 1) << "which is given up after its timeout";
  const auto said = scaler.look("ns/chat", rule, 40, all).verdict;
  EXPECT_EQ(said->reason, "ReadingsPartial");
  EXPECT_EQ(said->size, 40);
  EXPECT_LE(most, 17u) << "of one service so many at once";
}

// Else the service would be reconciled without a pause until the silent one is given up.
TEST_F(AutoscalerTest, AReadingThatTakesLongerThanItsIntervalIsWaitedFor) {
  const auto one = replicas(1);
  silent[one[0].url] = true;
  rule.panic_window = seconds{2};
  scaler.look("ns/chat", rule, 1, one);
  world.run_for(milliseconds{1500});
  EXPECT_EQ(news["ns/chat"], 0);
  EXPECT_EQ(scaler.look("ns/chat", rule, 1, one).again, seconds{1});
}

TEST_F(AutoscalerTest, ADeletedServiceIsForgottenAndAnotherMetricHasNoPast) {
  const auto one = replicas(1);
  answer(one[0], 8);
  scaler.look("ns/chat", rule, 1, one);
  scaler.forget("ns/chat");
  world.run_for(seconds{10});
  EXPECT_EQ(news["ns/chat"], 0);
  EXPECT_EQ(read(1, one).size, 4);
  rule.metric = crds::ServingMetric::kRequestsRunning;
  EXPECT_FALSE(scaler.look("ns/chat", rule, 4, one).verdict);
}

TEST_F(AutoscalerTest, OfCountersWhatHasComeSinceCounts) {
  rule.metric = crds::ServingMetric::kTimeToFirstToken;
  rule.target = crds::MilliLoad{500};
  const auto two = replicas(2);
  const auto say = [&](int i, const char* seconds_in_all, int requests) {
    answers[two[static_cast<std::size_t>(i)].url] =
        std::string("vllm:time_to_first_token_seconds_sum ") + seconds_in_all +
        "\nvllm:time_to_first_token_seconds_count " + std::to_string(requests) + "\n";
  };
  say(0, "900", 100);  // what was before anybody looked says nothing of now
  say(1, "0", 0);
  EXPECT_EQ(read(2, two).size, 2);
  say(0, "901", 101);
  say(1, "0.5", 1);
  EXPECT_EQ(read(2, two).size, 3) << "0.75 s in the mean of both";
  say(0, "0.5", 1);  // it began anew
  EXPECT_EQ(read(3, two).reason, "ValidMetricFound");
}

TEST_F(AutoscalerTest, AReplicaThatLacksOneOfSeveralMetricsIsNotRead) {
  rule.metrics.push_back(
      {.metric = {}, .name = "queue_depth", .labels = {}, .target = crds::MilliLoad{1000}});
  const auto one = replicas(1);
  answer(one[0], 2);
  EXPECT_THAT(read(1, one).message, HasSubstr("it answers with no queue_depth"));
  answers[one[0].url] += "queue_depth 7\n";
  EXPECT_EQ(read(1, one).size, 7);
}

TEST_F(AutoscalerTest, StopsWithinItsTimeout) {
  auto all = replicas(50);
  for (const auto& r : all) silent[r.url] = true;
  scaler.look("ns/chat", rule, 50, all);
  world.run_for(milliseconds{100});
  EXPECT_FALSE(scaler.readings().empty());
  scaler.stop();
  world.run_for(seconds{3});
  EXPECT_TRUE(scaler.readings().empty());
  EXPECT_EQ(news["ns/chat"], 0);
  scaler.look("ns/other", rule, 50, all);
  EXPECT_TRUE(scaler.readings().empty()) << "nothing new is begun";
}

TEST_F(AutoscalerTest, NumbersAloneAreSaidAgainSeldom) {
  const auto one = replicas(1);
  answer(one[0], 1);
  const auto first = read(1, one).message;
  answer(one[0], 2);
  EXPECT_EQ(read(1, one).message, first);
  world.run_for(seconds{30});
  EXPECT_NE(read(1, one).message, first);
}

}  // namespace
}  // namespace muster::reconcilers
