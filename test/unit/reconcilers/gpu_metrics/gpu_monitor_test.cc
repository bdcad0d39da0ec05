// Nodes read in the background, in virtual time, over a transport that fails as nodes do.
#include "muster/reconcilers/gpu_metrics/gpu_monitor.h"

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
using std::chrono::minutes;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

struct GpuMonitorTest : testing::Test {
  GpuMonitorTest() {
    nodes.set_latency(milliseconds{2}, milliseconds{9});
    nodes.set_handler([this](const client::HttpRequest& request) {
      most = std::max(most, nodes.in_flight());
      const auto found = answers.find(request.target);
      return found == answers.end() ? client::HttpResponse{503, {}, "not now"}
                                    : client::HttpResponse{200, {}, found->second};
    });
    nodes.set_fault_hook([this](const client::HttpRequest&) {
      Fault fault;
      if (silent) fault.kind = FaultKind::kHangBefore;
      return fault;
    });
  }

  static std::string url(int node) { return metrics_url("10.0.0." + std::to_string(node), 9400, "/metrics"); }
  std::vector<GpuEndpoint> endpoints() const {
    std::vector<GpuEndpoint> all;
    for (int i = 0; i < pool_size; ++i) all.push_back({"node-" + std::to_string(i), url(i)});
    return all;
  }
  // GPU 0 of the node, in percent.
  void answer(int node, int percent, const std::string& more = "") {
    answers[url(node)] = "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} " + std::to_string(percent) + "\n" + more;
  }
  // The pool is looked at again when it asks to be, for so long.
  void pass(client::Duration time) {
    const auto end = world.clock().now() + time;
    while (world.clock().now() < end) {
      const auto again = monitor.look("a100", where, [this] { return endpoints(); });
      world.run_for(std::min(again, end - world.clock().now()));
    }
  }
  static GangWatch watch_of(int pods, client::Duration timeout = minutes{10},
                            const std::string& attempt = "uid/1") {
    GangWatch w{.pool = "a100", .attempt = attempt, .gpus = {}, .below = 5, .timeout = timeout};
    for (int i = 0; i < pods; ++i)
      w.gpus.push_back({"node-" + std::to_string(i), "nlp/job-worker-" + std::to_string(i) + "-1", {0}});
    return w;
  }

  client::testing::VirtualWorld world;
  client::testing::FakeTransport nodes{world.env()};
  std::map<std::string, std::string> answers;  // by URL
  bool silent = false;
  int pool_size = 2;
  std::size_t most = 0;
  crds::GpuMetrics where;
  std::map<client::Key, int> jobs;
  std::map<std::string, int> changed, read;
  GpuMonitor monitor{world.env(),
                     nodes,
                     {.job = [this](const client::Key& key) { ++jobs[key]; },
                      .node = [this](const std::string& node) { ++changed[node]; },
                      .pool = [this](const std::string& pool) { ++read[pool]; }}};
};

TEST_F(GpuMonitorTest, AGangThatIsIdleAllTheTimeIsToldOfAtHalfAndAtTheEnd) {
  answer(0, 0);
  answer(1, 3);
  const auto first = monitor.watch("nlp/job", watch_of(2));
  EXPECT_FALSE(first.is_known);
  EXPECT_THAT(first.problem, HasSubstr("NodePool a100 has no gpuMetrics"));
  pass(minutes{5} - seconds{10});
  EXPECT_EQ(jobs["nlp/job"], 1) << "that it is known";
  EXPECT_TRUE(monitor.watch("nlp/job", watch_of(2)).is_known);
  pass(seconds{40});
  EXPECT_EQ(jobs["nlp/job"], 2);
  EXPECT_GE(monitor.watch("nlp/job", watch_of(2)).idle, minutes{5});
  pass(minutes{4} + seconds{10});
  EXPECT_EQ(jobs["nlp/job"], 2);
  EXPECT_LT(monitor.watch("nlp/job", watch_of(2)).idle, minutes{10});
  pass(minutes{1});
  EXPECT_GE(jobs["nlp/job"], 3);
  EXPECT_GE(monitor.watch("nlp/job", watch_of(2)).idle, minutes{10});
  EXPECT_EQ(monitor.watch("nlp/job", watch_of(2, minutes{10}, "uid/2")).idle, seconds{0})
      << "another attempt";
  EXPECT_EQ(monitor.counts().failed, 0u);
  EXPECT_EQ(monitor.counts().read, nodes.requests().size());
}

TEST_F(GpuMonitorTest, WhoStatesNoTimeoutIsToldOnceThatItIsIdle) {
  answer(0, 0);
  EXPECT_FALSE(monitor.reads("a100"));
  auto watch = watch_of(1);
  watch.timeout.reset();
  EXPECT_FALSE(monitor.watches("nlp/job"));
  monitor.watch("nlp/job", watch);
  EXPECT_TRUE(monitor.watches("nlp/job"));
  pass(minutes{4});
  EXPECT_TRUE(monitor.reads("a100"));
  EXPECT_EQ(jobs["nlp/job"], 1) << "that it is known";
  pass(minutes{2});
  EXPECT_EQ(jobs["nlp/job"], 2);
  EXPECT_GE(monitor.watch("nlp/job", watch).idle, kLongIdle);
  pass(minutes{60});
  EXPECT_EQ(jobs["nlp/job"], 2) << "nothing new";
}

TEST_F(GpuMonitorTest, OneThatIsBusyOrNotReadIsNeverIdle) {
  answer(0, 0);
  monitor.watch("nlp/job", watch_of(2));  // node 1 answers with 503
  answer(1, 50);
  monitor.watch("nlp/busy", watch_of(2));
  answers.erase(url(1));
  pass(minutes{60});
  const auto unread = monitor.watch("nlp/job", watch_of(2));
  EXPECT_FALSE(unread.is_known);
  EXPECT_EQ(unread.idle, seconds{0});
  EXPECT_THAT(unread.problem, HasSubstr("node node-1: http://10.0.0.1:9400/metrics answers with 503"));
  EXPECT_EQ(jobs["nlp/job"], 1) << "the problem is told once";
  const auto pool = monitor.last_reading("a100");
  EXPECT_EQ(pool->nodes, 2u);
  EXPECT_EQ(pool->read, 1u);
  EXPECT_THAT(pool->problem, HasSubstr("node-1"));
  answer(1, 50);
  pass(minutes{1});
  EXPECT_TRUE(monitor.watch("nlp/busy", watch_of(2)).is_known);
  EXPECT_EQ(monitor.watch("nlp/busy", watch_of(2)).idle, seconds{0});
}

// An hour of idleness, then an outage: what is known of it is forgotten, and said.
TEST_F(GpuMonitorTest, AnOutageBeginsAnew) {
  answer(0, 0);
  monitor.watch("nlp/job", watch_of(1, minutes{120}));
  pass(minutes{50});
  EXPECT_GE(monitor.watch("nlp/job", watch_of(1, minutes{120})).idle, minutes{49});
  const int before = jobs["nlp/job"];
  silent = true;
  pass(minutes{5});
  EXPECT_FALSE(monitor.watch("nlp/job", watch_of(1, minutes{120})).is_known);
  EXPECT_GT(jobs["nlp/job"], before);
  silent = false;
  pass(minutes{30});
  const auto after = monitor.watch("nlp/job", watch_of(1, minutes{120}));
  EXPECT_TRUE(after.is_known);
  EXPECT_LE(after.idle, minutes{30});
}

TEST_F(GpuMonitorTest, IsReadAtItsIntervalHoweverOftenItIsLookedAt) {
  answer(0, 0);
  answer(1, 0);
  for (int i = 0; i < 6000; ++i) {
    monitor.look("a100", where, [this] { return endpoints(); });
    world.run_for(milliseconds{100});
  }
  EXPECT_EQ(read["a100"], 20);
  EXPECT_EQ(nodes.requests().size(), 40u);
  EXPECT_EQ(nodes.requests()[0].headers[0].second, "text/plain;version=0.0.4");
}

TEST_F(GpuMonitorTest, SilentNodesAreGivenUpAndSoManyAtOnce) {
  pool_size = 200;
  silent = true;
  monitor.watch("nlp/job", watch_of(2));
  pass(seconds{13});
  EXPECT_EQ(read["a100"], 1) << "four times 64, each 3 s";
  EXPECT_LE(most, 64u);
  EXPECT_EQ(monitor.counts().failed, 200u);
  EXPECT_EQ(monitor.last_reading("a100")->read, 0u);
  pass(seconds{20});
  EXPECT_FALSE(monitor.readings().empty());
  monitor.stop();
  world.run_for(seconds{3});
  EXPECT_TRUE(monitor.readings().empty());
  EXPECT_EQ(read["a100"], 1);
}

// Else whoever asks when to look again would do nothing but look.
TEST_F(GpuMonitorTest, ARoundThatTakesLongerThanItsIntervalIsWaitedFor) {
  where.interval = seconds{1};
  silent = true;
  monitor.look("a100", where, [this] { return endpoints(); });
  world.run_for(milliseconds{1500});
  EXPECT_EQ(read["a100"], 0);
  EXPECT_EQ(monitor.look("a100", where, [this] { return endpoints(); }), seconds{1});
  world.run_for(seconds{2});
  EXPECT_EQ(read["a100"], 1);
}

TEST_F(GpuMonitorTest, DoubleBitErrorsAreToldOnceAndStayUntilTheNodeSaysOtherwise) {
  answer(0, 50, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{gpu=\"0\"} 0\nDCGM_FI_DEV_ECC_DBE_VOL_TOTAL{gpu=\"3\"} 2\n");
  answer(1, 50);
  pass(minutes{2});
  EXPECT_THAT(monitor.failing_gpus("node-0"), ElementsAre(3));
  EXPECT_THAT(monitor.failing_gpus("node-1"), IsEmpty());
  EXPECT_EQ(changed["node-0"], 1);
  EXPECT_EQ(changed["node-1"], 0);
  EXPECT_THAT(monitor.last_reading("a100")->failing, ElementsAre(crds::FailingGpus{"node-0", {3}}));
  answer(0, 50);  // says nothing of errors
  pass(minutes{1});
  silent = true;
  pass(minutes{1});
  EXPECT_THAT(monitor.failing_gpus("node-0"), ElementsAre(3));
  silent = false;
  answer(0, 50, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{gpu=\"3\"} 0\n");
  pass(minutes{1});
  EXPECT_THAT(monitor.failing_gpus("node-0"), IsEmpty());
  EXPECT_EQ(changed["node-0"], 2);
}

TEST_F(GpuMonitorTest, WhatAnEarlierProcessReadIsGoodUntilTheNodesAnswer) {
  answer(0, 50, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{gpu=\"3\"} 0\n");
  monitor.restore("a100", {{"node-0", {3}}, {"node-1", {0, 2}}, {"gone", {1}}});
  monitor.restore("a100", {{"node-0", {3}}});
  EXPECT_EQ(changed["node-0"], 1);
  EXPECT_THAT(monitor.failing_gpus("node-1"), ElementsAre(0, 2));
  pass(minutes{1});
  EXPECT_THAT(monitor.failing_gpus("node-0"), IsEmpty());
  EXPECT_THAT(monitor.failing_gpus("node-1"), ElementsAre(0, 2)) << "it does not answer";
  EXPECT_THAT(monitor.failing_gpus("gone"), IsEmpty());
  monitor.restore("a100", {{"node-0", {3}}});
  EXPECT_THAT(monitor.failing_gpus("node-0"), IsEmpty()) << "this process knows better";
}

TEST_F(GpuMonitorTest, APoolThatIsNotReadAnyMoreIsForgotten) {
  answer(0, 0, "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{gpu=\"0\"} 1\n");
  monitor.watch("nlp/job", watch_of(1));
  pass(minutes{9});
  ASSERT_TRUE(monitor.watch("nlp/job", watch_of(1)).is_known);
  const int told = jobs["nlp/job"];
  monitor.forget_pool("a100");
  EXPECT_EQ(jobs["nlp/job"], told + 1);
  EXPECT_EQ(changed["node-0"], 2);
  EXPECT_THAT(monitor.failing_gpus("node-0"), IsEmpty());
  EXPECT_FALSE(monitor.watch("nlp/job", watch_of(1)).is_known);
  EXPECT_FALSE(monitor.last_reading("a100"));
  pass(minutes{5});
  EXPECT_LT(monitor.watch("nlp/job", watch_of(1)).idle, minutes{5});
  pool_size = 0;  // the node is gone
  pass(minutes{1});
  EXPECT_EQ(changed["node-0"], 4);
  monitor.forget("nlp/job");
}

}  // namespace
}  // namespace muster::reconcilers
