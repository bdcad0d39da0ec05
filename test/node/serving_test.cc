// What a service's owner does to it, and what load does: no request is lost.
#include "serving.h"

namespace muster::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

TEST_F(Serving, ARollingUpdateAndAScaleDownLoseNoRequest) {
  cluster().create(service(2, "first"));
  ASSERT_TRUE(wait_rolled_out(2)) << status().dump(2);
  Load load(cluster(), "owner", "load", 6);
  ASSERT_TRUE(load.wait_requests(50)) << load.summary();
  EXPECT_THAT(metrics_of(pods()[0]), HasSubstr("vllm:num_requests_running{model_name=\"first\"}"));

  json changed = service(2, "second")["spec"]["template"];
  cluster().patch(path(), {{"spec", {{"template", changed}}}});
  ASSERT_TRUE(wait_rolled_out(2)) << status().dump(2);
  ASSERT_TRUE(load.wait_requests(50)) << load.summary();
  nodes_->kubectl({"-n", "owner", "scale", "isvc/chat", "--replicas=1"});
  ASSERT_TRUE(wait_rolled_out(1)) << status().dump(2);
  ASSERT_TRUE(load.wait_requests(20)) << load.summary();

  load.end();
  const json summary = load.summary();
  EXPECT_THAT(summary["lost"], IsEmpty()) << summary.dump(2);
  EXPECT_GT(summary["by_model"].value("first", 0), 50);
  EXPECT_GT(summary["by_model"].value("second", 0), 50);
}

// The operator is killed when the canary serves, and again right after somebody has aborted it.
TEST_F(Serving, ACanaryThatIsAbortedWhileTheOperatorDiesLosesNoRequest) {
  json chat = service(2, "first");
  chat["spec"]["rollout"] = {{"canary", {{"percent", 50}}}};
  cluster().create(chat);
  ASSERT_TRUE(wait_rolled_out(2)) << status().dump(2);
  const std::string stable = status()["revision"];
  Load load(cluster(), "owner", "canary", 6);
  ASSERT_TRUE(load.wait_requests(50)) << load.summary();

  json changed = service(2, "second")["spec"]["template"];
  cluster().patch(path(), {{"spec", {{"template", changed}}}});
  ASSERT_TRUE(cluster().wait(90s, [&] {
    return cluster().condition_of(path(), "RolledOut").value("reason", "") == "CanaryServes";
  })) << status().dump(2);
  const auto kill_operator = [] {
    nodes_->kubectl({"-n", "muster-system", "delete", "pods", "-l", "app.kubernetes.io/name=muster",
                     "--grace-period=0", "--force"});
  };
  kill_operator();
  ASSERT_TRUE(load.wait_requests(50)) << load.summary();
  const std::string canary = status()["canary"]["revision"];
  cluster().patch(path(), {{"spec", {{"rollout", {{"canary", {{"abortedRevision", canary}}}}}}}});
  kill_operator();
  ASSERT_TRUE(wait_rolled_out(2)) << status().dump(2);
  EXPECT_EQ(status()["revision"], stable);
  ASSERT_TRUE(load.wait_requests(50)) << load.summary();

  load.end();
  const json summary = load.summary();
  EXPECT_THAT(summary["lost"], IsEmpty()) << summary.dump(2);
  EXPECT_GT(summary["by_model"].value("first", 0), 50);
  EXPECT_GT(summary["by_model"].value("second", 0), 10);
}

// A replica is to have five requests. One is always on its way, at the peak twelve and then fifteen; of
// these three take long, and follow on one another, so that replicas have to answer after they have been
// told to end.
TEST_F(Serving, LoadScalesItFromOneToThreeAndBackAndNoRequestIsLost) {
  json chat = service(1, "chat");
  chat["spec"]["autoscaling"] = {{"maxReplicas", 4}, {"metric", "RequestsRunning"}, {"target", "5"},
                                 {"window", "3s"},   {"panicWindow", "2s"},         {"scaleDownDelay", "3s"}};
  json& environment = chat["spec"]["template"]["spec"]["containers"][0]["env"];
  environment.push_back({{"name", "TOKEN_SECONDS"}, {"value", "0.2"}});
  cluster().create(chat);
  ASSERT_TRUE(wait_rolled_out(1)) << status().dump(2);
  Load always(cluster(), "owner", "always", 1);
  ASSERT_TRUE(always.wait_requests(1)) << always.summary();
  EXPECT_EQ(status()["desiredReplicas"], 1);

  Load peak(cluster(), "owner", "peak", 11);
  ASSERT_TRUE(wait_rolled_out(3)) << status().dump(2);
  ASSERT_TRUE(cluster().wait(60s, [&] {
    return std::ranges::none_of(pods(), [&](const json& pod) {
      return metrics_of(pod).find("vllm:request_success_total{model_name=\"chat\"} 0\n") != std::string::npos;
    });
  })) << "a replica has answered nothing";
  EXPECT_EQ(status()["desiredReplicas"], 3);
  EXPECT_EQ(cluster().condition_of(path(), "ScalingActive")["status"], "True") << status().dump(2);

  Load slow(cluster(), "owner", "slow", 3, 75);
  ASSERT_TRUE(slow.wait_asked(3)) << slow.summary();
  peak.end();
  ASSERT_TRUE(cluster().wait(60s, [&] {
    return std::ranges::any_of(pods(),
                               [](const json& pod) { return pod["metadata"].contains("deletionTimestamp"); });
  })) << status().dump(2);
  slow.end();
  ASSERT_TRUE(wait_rolled_out(1)) << status().dump(2);
  EXPECT_EQ(status()["desiredReplicas"], 1);
  ASSERT_TRUE(always.wait_requests(1)) << always.summary();
  always.end();
  for (const Load* load : {&always, &peak, &slow}) {
    EXPECT_THAT(load->summary()["lost"], IsEmpty());
    EXPECT_GT(load->summary()["requests"], 0);
  }
}

}  // namespace
}  // namespace muster::test
