// When the operator acts, and how often: by what has happened, not by a period, and not for what is settled.
#include <gmock/gmock.h>
#include <spdlog/spdlog.h>

#include "virtual_cluster.h"

namespace muster::test {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

class Pace : public testing::Test {
 protected:
  Pace() { spdlog::set_level(spdlog::level::off); }

  // Keys of jobs that were put into the queue so far.
  static int jobs_queued(const Operator& op) {
    const std::string text = op.metrics.text(), name = "workqueue_adds_total{name=\"trainingjob\"} ";
    return std::stoi(text.substr(text.find(name) + name.size()));
  }
};

// A quota of the namespace is full: one refusal speaks for all pods of the gang.
TEST_F(Pace, AForbiddenGangIsNotPostedToItsLastPod) {
  VirtualCluster cluster;
  cluster.set_up(50, 400);
  cluster.server.distort = [](const MemoryApiServer::Executed& e) -> std::optional<client::HttpResponse> {
    if (e.method != Method::kPost || !e.path.ends_with("/pods")) return std::nullopt;
    return MemoryApiServer::failure(403, "Forbidden", "pods is forbidden: exceeded quota: compute");
  };
  cluster.add_job("large", 400);
  cluster.start();
  ASSERT_TRUE(cluster.world.run_until([&] { return cluster.condition("large", "Evicted"); }, seconds{5}))
      << cluster.job("large").dump(2);
  EXPECT_LE(cluster.executed(Method::kPost, "/pods").size(), 32u) << "as many as are made at once";
}

// What only time makes possible happens then, however seldom counters are written.
TEST_F(Pace, AVictimGoesWhenItIsSafeNoMoreThoughNothingElseHappens) {
  VirtualCluster cluster;
  cluster.set_up(1, 8);
  cluster.add_priority_class("low", 10);
  cluster.add_priority_class("high", 100);
  json queue = cluster.server.object(kMuster + "queues", "root");
  queue["spec"]["preempt"] = {{"minRuntime", "90s"}};
  cluster.server.put(kMuster + "queues", queue);
  cluster.options.status_interval = 3600;
  cluster.add_job("low", 8, 1, {{"priorityClassName", "low"}});
  cluster.start();
  ASSERT_TRUE(cluster.world.run_until([&] { return cluster.condition("low", "PodsReady"); }, minutes{1}));
  cluster.add_job("high", 8, 1, {{"priorityClassName", "high"}});
  cluster.world.run_for(seconds{60});
  EXPECT_FALSE(cluster.condition("low", "Evicted")) << "it is safe for 90 s";
  EXPECT_TRUE(cluster.world.run_until([&] { return cluster.condition("low", "Evicted"); }, seconds{40}))
      << cluster.job("high").dump(2);
}

// Who waits is told a little later that less is free, when many others are being started.
TEST_F(Pace, CountersYieldToWritesThatStartWork) {
  VirtualCluster cluster;
  cluster.set_up(4, 32);
  cluster.add_priority_class("high", 100);
  cluster.add_job("runs", 2, 8);
  auto& op = cluster.start();
  ASSERT_TRUE(cluster.world.run_until([&] { return cluster.condition("runs", "PodsReady"); }, minutes{1}));
  cluster.add_job("waits", 4, 8);
  cluster.world.run_for(seconds{5});
  const auto version = [&] { return cluster.job("waits")["metadata"]["resourceVersion"]; };
  const auto before = version();
  cluster.faults = [](const HttpRequest& request) {
    const bool makes_pod =
        request.method == Method::kPost && request.target.find("/pods") != std::string::npos;
    return makes_pod ? Fault{.delay = seconds{20}} : Fault{};
  };
  for (int i = 0; i < 12; ++i)
    cluster.add_job("small-" + std::to_string(i), 1, 1, {{"priorityClassName", "high"}});
  cluster.world.run_for(seconds{15});
  EXPECT_TRUE(cluster.condition("small-11", "Admitted"));
  EXPECT_EQ(version(), before) << cluster.job("waits")["status"].dump(2);
  cluster.world.run_for(seconds{10});
  EXPECT_TRUE(cluster.condition("small-11", "PodsReady"));
  EXPECT_NE(version(), before) << cluster.job("waits")["status"].dump(2);
  EXPECT_TRUE(cluster.stop(op));
}

// What it holds is held once, however long its earlier pods stay.
TEST_F(Pace, APodThatHoldsUpARestartInPlaceIsNotChargedBesideIt) {
  VirtualCluster cluster;
  cluster.set_up(1, 8);
  cluster.pods_end([](const json& pod) {
    return LastWords{.takes = seconds{1}, .stuck = pod["metadata"]["name"] == "train-worker-0-1"};
  });
  cluster.add_job("train", 2, 2);
  cluster.start();
  ASSERT_TRUE(cluster.world.run_until([&] { return cluster.condition("train", "PodsReady"); }, minutes{1}));
  cluster.server.set_status(kPods, "team/train-worker-1-1", {{"phase", "Failed"}});
  cluster.world.run_for(seconds{60});
  EXPECT_EQ(cluster.job("train")["status"]["assignment"]["attempt"], 2);
  EXPECT_EQ(cluster.pods_of("train").size(), 1u) << "the new ones wait";
  const json& project = cluster.server.object(kMuster + "projects", "team");
  EXPECT_EQ(project["status"]["allocated"]["gpu"], "4") << project["status"].dump(2);
}

// kubectl delete and apply: the pods of before save, and their names are taken until they have.
TEST_F(Pace, AJobMadeAnewWaitsForThePodsOfBeforeAndSaysSo) {
  VirtualCluster cluster;
  cluster.set_up(2, 16);
  cluster.add_job("train", 1, 8);
  auto& op = cluster.start();
  ASSERT_TRUE(cluster.world.run_until([&] { return cluster.condition("train", "PodsReady"); }, minutes{1}));
  cluster.server.erase(kJobs, "team/train");
  cluster.world.run_for(seconds{1});
  cluster.add_job("train", 1, 8);
  cluster.world.run_for(seconds{30});
  const json queue = cluster.job("train").value("/status/queue"_json_pointer, json::object());
  EXPECT_EQ(queue.value("reason", ""), "BackingOff") << cluster.job("train").dump(2);
  EXPECT_EQ(queue.value("message", ""),
            "pod train-worker-0-1 on node node-0 of a job that had this name before has not ended yet");
  EXPECT_EQ(cluster.phase("train"), "Queued");
  cluster.server.erase(kPods, "team/train-worker-0-1");
  cluster.world.run_for(seconds{1});
  EXPECT_EQ(cluster.phase("train"), "Starting") << "its hosts file is that of before";
  cluster.server.erase("/api/v1/configmaps", "team/train-hosts");
  EXPECT_TRUE(cluster.world.run_until([&] { return cluster.condition("train", "PodsReady"); }, seconds{5}))
      << cluster.job("train").dump(2);
  EXPECT_TRUE(cluster.stop(op));
}

// Claims that are bound all at once wake those who mention them, and not everybody each time.
TEST_F(Pace, AThousandClaimsWakeTheJobThatWaitsForOneOnce) {
  VirtualCluster cluster;
  cluster.set_up(1, 8);
  json with_claim;
  with_claim["checkpoint"] = {{"claimName", "ckpt-7"}, {"mountPath", "/ckpt"}};
  cluster.add_job("waits", 1, 1, with_claim);
  for (int i = 0; i < 20; ++i) cluster.add_job("large-" + std::to_string(i), 9);
  auto& op = cluster.start();
  cluster.world.run_for(seconds{20});
  EXPECT_FALSE(cluster.condition("waits", "PodsReady")) << "its claim is not there";
  const int before = jobs_queued(op);
  for (int i = 0; i < 1000; ++i) {
    json claim;
    claim["metadata"] = {{"name", "ckpt-" + std::to_string(i)}, {"namespace", "team"}};
    claim["spec"] = {{"volumeName", "pv-" + std::to_string(i)}, {"accessModes", {"ReadWriteMany"}}};
    claim["status"] = {{"phase", "Bound"}};
    json volume;
    volume["metadata"]["name"] = "pv-" + std::to_string(i);
    cluster.server.put("/api/v1/persistentvolumes", std::move(volume));
    cluster.server.put("/api/v1/persistentvolumeclaims", std::move(claim));
  }
  EXPECT_TRUE(cluster.world.run_until([&] { return cluster.condition("waits", "PodsReady"); }, seconds{10}))
      << cluster.job("waits").dump(2);
  EXPECT_LT(jobs_queued(op) - before, 200) << "of 21 jobs one mentions a claim";
}

}  // namespace
}  // namespace muster::test
