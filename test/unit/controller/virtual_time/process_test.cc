// The process around the reconcilers, in virtual time: what one object, a busy event loop or a server that
// does not answer may cost it.
#include <gmock/gmock.h>
#include <spdlog/spdlog.h>

#include <stdexcept>

#include "virtual_cluster.h"

namespace muster::test {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;

struct ProcessTest : testing::Test {
  ProcessTest() {
    spdlog::set_level(spdlog::level::off);
    cluster.set_up(2, 16);
  }
  ~ProcessTest() override { spdlog::set_level(spdlog::level::info); }

  std::string message(const std::string& job, const std::string& type) {
    for (const auto& c : cluster.job(job).value("/status/conditions"_json_pointer, json::array())) {
      if (c["type"] == type) return c.value("message", "");
    }
    return {};
  }
  std::string metrics(Operator& op) {
    op.controller->sample_metrics();
    return op.metrics.text();
  }

  VirtualCluster cluster;
};

TEST_F(ProcessTest, AJobWhoseReconcileThrowsSaysSoAndOthersGoOn) {
  bool is_mended = false;
  auto& op = cluster.start();
  op.controller->set_probe([&](std::string_view where, const std::string& key) {
    if (where == "trainingjob" && key == "team/bad" && !is_mended) throw std::runtime_error("vector::at");
  });
  cluster.add_job("bad", 1);
  cluster.add_job("good", 1);
  cluster.world.run_for(minutes{2});
  EXPECT_FALSE(op.ended);
  EXPECT_EQ(cluster.phase("good"), "Running");
  EXPECT_TRUE(cluster.condition("bad", "InternalError"));
  EXPECT_THAT(message("bad", "InternalError"), HasSubstr("vector::at"));
  EXPECT_THAT(
      metrics(op),
      testing::ContainsRegex("controller_runtime_reconcile_panics_total.controller=\"trainingjob\". [1-9]"));
  EXPECT_TRUE(cluster.pods_of("bad").empty());
  int said = 0;
  for (const auto& e : cluster.executed(Method::kPatch, "/trainingjobs/bad/status")) said += e.status < 300;
  EXPECT_EQ(said, 1) << "it is written once, however often it throws";

  is_mended = true;
  cluster.world.run_for(minutes{20});  // by its back-off
  EXPECT_EQ(cluster.phase("bad"), "Running");
  EXPECT_FALSE(cluster.condition("bad", "InternalError"));
  EXPECT_TRUE(cluster.stop(op));
}

TEST_F(ProcessTest, AJobThatThrowsKeepsNoRoomFromOthers) {
  auto& op = cluster.start();
  bool throws = false;
  op.controller->set_probe([&](std::string_view where, const std::string& key) {
    if (throws && where == "trainingjob" && key == "team/bad") throw std::runtime_error("a bug");
  });
  cluster.add_job("bad", 2, 8, {{"suspend", true}});
  cluster.world.run_for(seconds{5});
  throws = true;
  json bad = cluster.job("bad");
  bad["spec"]["suspend"] = false;
  cluster.server.put(kJobs, bad);
  cluster.add_job("good", 2, 8);
  cluster.world.run_for(minutes{1});
  EXPECT_EQ(cluster.phase("good"), "Running") << "all GPUs of the cluster";
  EXPECT_TRUE(cluster.condition("bad", "InternalError"));
  EXPECT_TRUE(cluster.complaints.empty());
  EXPECT_TRUE(cluster.stop(op));
}

TEST_F(ProcessTest, AnObjectThatCannotBeTakenInSaysSoUntilItCan) {
  auto& op = cluster.start();
  op.controller->set_probe([&](std::string_view where, const std::string& key) {
    const bool is_odd = where == "queues" && key == "odd" &&
                        !cluster.server.object(kMuster + "queues", "odd")["spec"].contains("limit");
    if (is_odd) throw std::runtime_error("a queue of an odd shape");
    if (where == "nodes" && key == "node-1") throw std::runtime_error("a node of an odd shape");
  });
  cluster.server.put(kMuster + "queues", {{"apiVersion", "muster.dev/v1alpha1"},
                                          {"kind", "Queue"},
                                          {"metadata", {{"name", "odd"}}},
                                          {"spec", {{"quota", {{"gpu", 1}}}}}});
  cluster.add_job("good", 1);
  cluster.world.run_for(minutes{1});
  EXPECT_FALSE(op.ended);
  EXPECT_EQ(cluster.phase("good"), "Running") << "on the node that could be taken in";
  const auto says_error = [&] {
    for (const auto& c : cluster.server.object(kMuster + "queues", "odd")
                             .value("/status/conditions"_json_pointer, json::array())) {
      if (c["type"] == "InternalError") return c["status"] == "True";
    }
    return false;
  };
  EXPECT_TRUE(says_error());
  EXPECT_THAT(metrics(op), testing::ContainsRegex("panics_total.controller=\"queue\". [1-9]"));
  EXPECT_THAT(metrics(op), testing::ContainsRegex("panics_total.controller=\"nodes\". [1-9]"));

  json odd = cluster.server.object(kMuster + "queues", "odd");
  odd["spec"]["limit"] = {{"gpu", 2}};
  cluster.server.put(kMuster + "queues", odd);
  cluster.world.run_for(minutes{20});
  EXPECT_FALSE(says_error());
  EXPECT_TRUE(cluster.stop(op));
}

// A new process meets a job that it cannot take in. What its pods hold is nobody else's.
TEST_F(ProcessTest, AJobThatRunsAndCannotBeTakenInKeepsItsGpus) {
  auto& first = cluster.start("first");
  cluster.add_job("bad", 2, 8);
  ASSERT_TRUE(cluster.world.run_until([&] { return cluster.phase("bad") == "Running"; }, minutes{1}));
  ASSERT_TRUE(cluster.stop(first));
  cluster.add_job("next", 1, 8);
  auto& second = cluster.start("second");
  second.controller->set_probe([&](std::string_view where, const std::string& key) {
    if (where.starts_with("trainingjob") && key == "team/bad") throw std::runtime_error("a bug");
  });
  cluster.world.run_for(minutes{2});
  EXPECT_TRUE(cluster.condition("bad", "InternalError"));
  EXPECT_EQ(cluster.phase("bad"), "Running");
  EXPECT_TRUE(cluster.pods_of("next").empty());
  EXPECT_TRUE(cluster.complaints.empty());
  EXPECT_TRUE(cluster.stop(second));
}

// What the first try did not tell placement is told by the next, though nobody changes the object again.
TEST_F(ProcessTest, AProjectThatCouldNotBeTakenInIsTakenInByTheNextTry) {
  auto& op = cluster.start();
  ASSERT_TRUE(cluster.world.run_until([&] { return op.controller->acting(); }, minutes{1}));
  cluster.add_job("large", 3, 8);  // the quota and limit are 16 GPUs
  json node = cluster.server.object(kNodes, "node-0");
  node["metadata"] = {{"name", "node-2"}};
  cluster.server.put(kNodes, node);
  cluster.world.run_for(seconds{10});
  ASSERT_TRUE(cluster.pods_of("large").empty());
  int throws = 2;
  op.controller->set_probe([&](std::string_view where, const std::string& key) {
    if (where == "projects" && key == "team" && throws-- > 0) throw std::runtime_error("a bug");
  });
  for (const auto& [collection, name] :
       {std::pair{kMuster + "queues", "root"}, std::pair{kMuster + "projects", "team"}}) {
    json share = cluster.server.object(collection, name);
    share["spec"]["quota"]["gpu"] = share["spec"]["limit"]["gpu"] = 24;
    cluster.server.put(collection, share);
  }
  cluster.world.run_for(minutes{1});
  EXPECT_LT(throws, 0);
  EXPECT_EQ(cluster.phase("large"), "Running");
  EXPECT_TRUE(cluster.stop(op));
}

// The loop stands still beyond the lease, as by a plan that takes long or a process that is stopped and
// continued: here at the moment when a status is written. Other writes were about to follow.
TEST_F(ProcessTest, ALoopThatStandsStillBeyondTheLeaseWritesNothingMore) {
  cluster.options.leader_elect = true;
  auto& op = cluster.start();
  ASSERT_TRUE(cluster.world.run_until([&] { return op.controller->acting(); }, minutes{1}));
  cluster.world.run_for(seconds{3});
  bool has_stood_still = false;
  Duration goes_on{};
  cluster.faults = [&](const HttpRequest& request) {
    if (has_stood_still || !is_job_status(request.target.substr(0, request.target.find('?')))) return Fault{};
    has_stood_still = true;
    cluster.world.clock().advance_to(cluster.world.clock().now() + seconds{20});
    goes_on = cluster.now();
    return Fault{};
  };
  for (const char* name : {"a", "b", "c"}) cluster.add_job(name, 2);
  cluster.world.run_for(minutes{1});
  ASSERT_TRUE(has_stood_still);
  for (const auto& e : cluster.server.executed()) {
    const bool is_write = e.method != Method::kGet && e.path.find("/leases") == std::string::npos;
    EXPECT_FALSE(is_write && e.at.time_since_epoch() >= goes_on) << e.path;
  }
  EXPECT_EQ(op.ended, controller::Ended::kLostLease);
}

// The requests for its pods arrive only after the process was told to stop and waits no longer. The next
// leader gives their GPUs to nobody, although their job is gone.
TEST_F(ProcessTest, WhoStopsKeepsItsLeaseWhilePodsMayStillBeMade) {
  cluster.options.leader_elect = true;
  auto& first = cluster.start("first");
  ASSERT_TRUE(cluster.world.run_until([&] { return first.controller->acting(); }, minutes{1}));
  int sent = 0;
  cluster.faults = [&](const HttpRequest& request) {
    const bool makes_pod = request.method == Method::kPost && request.target.contains("/pods");
    if (!makes_pod || !request.body.contains("late-worker")) return Fault{};
    ++sent;
    return Fault{.delay = seconds{28}};
  };
  cluster.add_job("late", 2, 8);  // the whole cluster
  ASSERT_TRUE(cluster.world.run_until([&] { return sent == 2; }, minutes{1}));
  cluster.delete_job("late");
  cluster.add_job("next", 2, 8);
  auto& second = cluster.start("second");
  EXPECT_TRUE(cluster.stop(first));
  EXPECT_TRUE(cluster.world.run_until([&] { return second.controller->acting(); }, minutes{1}));
  cluster.world.run_for(minutes{1});
  EXPECT_THAT(cluster.complaints, testing::IsEmpty());
  EXPECT_EQ(cluster.pods_of("late").size(), 2u);
  EXPECT_TRUE(cluster.pods_of("next").empty());
  cluster.collect();
  EXPECT_TRUE(cluster.world.run_until([&] { return cluster.phase("next") == "Running"; }, minutes{1}));
}

// A gateway answers 503 in its own words, and nobody knows what it has passed on.
TEST_F(ProcessTest, WhoStopsKeepsItsLeaseWhenAGatewayHasAnsweredForAPod) {
  cluster.options.leader_elect = true;
  auto& first = cluster.start("first");
  ASSERT_TRUE(cluster.world.run_until([&] { return first.controller->acting(); }, minutes{1}));
  int answered = 0;
  cluster.faults = [&](const HttpRequest& request) {
    if (request.method != Method::kPost || !request.target.contains("/pods")) return Fault{};
    ++answered;
    return Fault{.kind = FaultKind::kAnswer, .answer = {503, {}, "upstream connect error"}};
  };
  cluster.add_job("a", 1);
  ASSERT_TRUE(cluster.world.run_until([&] { return answered > 0; }, minutes{1}));
  auto& second = cluster.start("second");
  EXPECT_TRUE(cluster.stop(first));
  cluster.world.run_for(seconds{5});
  EXPECT_FALSE(second.controller->acting());
  EXPECT_TRUE(cluster.world.run_until([&] { return second.controller->acting(); }, minutes{1}));
}

// What got no answer long ago is no reason to keep it.
TEST_F(ProcessTest, WhoStopsGivesItsLeaseBackWhenNothingIsOnItsWay) {
  cluster.options.leader_elect = true;
  auto& first = cluster.start("first");
  ASSERT_TRUE(cluster.world.run_until([&] { return first.controller->acting(); }, minutes{1}));
  bool is_lost = false;
  cluster.faults = [&](const HttpRequest& request) {
    const bool makes_pod = request.method == Method::kPost && request.target.contains("/pods");
    if (!makes_pod || is_lost) return Fault{};
    is_lost = true;
    return Fault{.kind = FaultKind::kLostAfter};
  };
  cluster.add_job("a", 1);
  ASSERT_TRUE(cluster.world.run_until([&] { return cluster.phase("a") == "Running"; }, minutes{1}));
  ASSERT_TRUE(is_lost);
  cluster.world.run_for(seconds{20});
  auto& second = cluster.start("second");
  cluster.world.run_for(seconds{5});
  EXPECT_TRUE(cluster.stop(first));
  EXPECT_TRUE(cluster.world.run_until([&] { return second.controller->acting(); }, seconds{5}));
}

TEST_F(ProcessTest, NothingRunsAnyMoreWhenItHasEnded) {
  auto& op = cluster.start();
  ASSERT_TRUE(cluster.world.run_until([&] { return op.controller->acting(); }, minutes{1}));
  cluster.faults = [](const HttpRequest& request) {
    return Fault{.kind = request.method == Method::kGet ? FaultKind::kNone : FaultKind::kHangBefore};
  };
  for (const char* name : {"a", "b", "c"}) cluster.add_job(name, 2);
  cluster.world.run_for(seconds{2});
  EXPECT_GT(op.transport.in_flight(), 0u);
  EXPECT_TRUE(cluster.stop(op));
  EXPECT_EQ(op.transport.in_flight(), 0u);
  EXPECT_EQ(op.transport.open_streams(), 0u);
  op.controller.reset();
  cluster.world.run_for(minutes{2});  // a coroutine that was left would use what is gone
}

}  // namespace
}  // namespace muster::test
