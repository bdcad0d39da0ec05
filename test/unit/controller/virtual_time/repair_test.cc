// Ground that is lost under a gang: all of it is placed anew in one decision, the rest stays where it is.
#include <gmock/gmock.h>
#include <spdlog/spdlog.h>

#include "virtual_cluster.h"

namespace muster::test {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::IsEmpty;

class Repair : public testing::Test {
 protected:
  Repair() { spdlog::set_level(spdlog::level::off); }

  // Nodes of 8 GPUs; pods end at once, but none on a node that is down.
  static void set_up(VirtualCluster& cluster, int nodes) {
    cluster.set_up(nodes, 8 * nodes);
    cluster.pods_end([&cluster](const json& pod) {
      const std::string node = pod["spec"]["nodeName"];
      const json& conditions = cluster.server.object(kNodes, node)["status"]["conditions"];
      return LastWords{.takes = seconds{2},
                       .message = R"({"checkpoint":{"step":1200}})",
                       .stuck = conditions[0]["status"] != "True"};
    });
  }
  static std::string node_of(VirtualCluster& cluster, const std::string& job, std::size_t pod) {
    return cluster.job(job)["status"]["assignment"]["pods"][pod]["node"];
  }
  static bool runs(VirtualCluster& cluster, const std::string& job, int attempt) {
    const json& status = cluster.job(job).value("/status"_json_pointer, json::object());
    return status.value("phase", "") == "Running" && status.value("attempt", 0) == attempt;
  }
};

TEST_F(Repair, AGangIsFormedAnewAroundALostNode) {
  for (std::uint64_t seed = 1; seed <= 16; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    VirtualCluster cluster(seed);
    set_up(cluster, 4);
    cluster.add_job("train", 3, 8);
    auto* op = &cluster.start();
    ASSERT_TRUE(cluster.world.run_until([&] { return runs(cluster, "train", 1); }, minutes{1}));
    const std::string lost = node_of(cluster, "train", 1);
    const std::string kept = node_of(cluster, "train", 2);
    cluster.set_node_ready(lost, false);
    cluster.world.run_for(seconds{55});
    EXPECT_TRUE(runs(cluster, "train", 1)) << "a node may be away for a minute";
    if (seed % 2 == 0) {  // the process dies somewhere on the way
      cluster.world.run_for(seconds{4} + cluster.dice.between(Duration{0}, Duration{4000}));
      op->cut_off = true;
      cluster.world.run_for(Duration{10});
      cluster.start("second");
    }
    ASSERT_TRUE(cluster.world.run_until([&] { return runs(cluster, "train", 2); }, minutes{1}))
        << cluster.job("train").dump(1);
    EXPECT_NE(node_of(cluster, "train", 1), lost);
    EXPECT_EQ(node_of(cluster, "train", 2), kept) << "healthy places are kept";
    const json& status = cluster.job("train")["status"];
    EXPECT_EQ(status.value("/restarts/count"_json_pointer, 0), 0) << "no fault of the program";
    EXPECT_EQ(status["assignment"]["resume"]["step"], 1200);
    EXPECT_THAT(cluster.complaints, IsEmpty());
    // Its name means the new pod, though the old one is there for as long as its node is away.
    EXPECT_EQ(cluster.pods_of("train").size(), 4u);
    const json& service = cluster.server.object("/api/v1/services", "team/train");
    EXPECT_EQ(service["spec"]["selector"]["muster.dev/attempt"], "2");
    if (HasFailure()) return;
  }
}

TEST_F(Repair, SeveralLostNodesAreOneDecision) {
  VirtualCluster cluster;
  set_up(cluster, 6);
  cluster.add_job("train", 4, 8);
  cluster.start();
  ASSERT_TRUE(cluster.world.run_until([&] { return runs(cluster, "train", 1); }, minutes{1}));
  const std::set<std::string> lost = {node_of(cluster, "train", 0), node_of(cluster, "train", 3)};
  for (const auto& node : lost) cluster.set_node_ready(node, false);
  ASSERT_TRUE(cluster.world.run_until([&] { return runs(cluster, "train", 2); }, minutes{2}));
  for (std::size_t i = 0; i < 4; ++i) EXPECT_FALSE(lost.contains(node_of(cluster, "train", i)));
  EXPECT_THAT(cluster.complaints, IsEmpty());
}

TEST_F(Repair, ANodeThatComesBackInTimeCostsNothing) {
  VirtualCluster cluster;
  set_up(cluster, 3);
  cluster.add_job("train", 2, 8);
  cluster.start();
  ASSERT_TRUE(cluster.world.run_until([&] { return runs(cluster, "train", 1); }, minutes{1}));
  cluster.set_node_ready(node_of(cluster, "train", 0), false);
  cluster.world.run_for(seconds{50});
  cluster.set_node_ready(node_of(cluster, "train", 0), true);
  cluster.world.run_for(minutes{5});
  EXPECT_TRUE(runs(cluster, "train", 1));
}

TEST_F(Repair, MaintenanceAndSickGpusMoveWhatStandsThere) {
  VirtualCluster cluster;
  set_up(cluster, 3);
  cluster.add_job("train", 2, 8);
  cluster.start();
  ASSERT_TRUE(cluster.world.run_until([&] { return runs(cluster, "train", 1); }, minutes{1}));
  const std::string first = node_of(cluster, "train", 0);
  json node = cluster.server.object(kNodes, first);
  node["spec"]["unschedulable"] = true;
  cluster.server.put(kNodes, node);
  cluster.world.run_for(minutes{2});
  EXPECT_TRUE(runs(cluster, "train", 1)) << "merely cordoned";
  node["spec"]["taints"] = json::array({{{"key", "muster.dev/maintenance"}, {"effect", "NoSchedule"}}});
  cluster.server.put(kNodes, node);
  ASSERT_TRUE(cluster.world.run_until([&] { return runs(cluster, "train", 2); }, minutes{1}));
  EXPECT_NE(node_of(cluster, "train", 0), first);
  node["spec"] = json::object();
  cluster.server.put(kNodes, node);
  const std::string second = node_of(cluster, "train", 1);
  json sick = cluster.server.object(kNodes, second);
  sick["metadata"]["annotations"]["muster.dev/gpu-unhealthy"] = "3";
  cluster.server.put(kNodes, sick);
  ASSERT_TRUE(cluster.world.run_until([&] { return runs(cluster, "train", 3); }, minutes{1}))
      << cluster.job("train").dump(1);
  EXPECT_NE(node_of(cluster, "train", 1), second);
  EXPECT_THAT(cluster.complaints, IsEmpty());
}

// The program fails because its peers are gone, before the node counts as lost: not its fault.
TEST_F(Repair, AProgramThatFailsWhileANodeIsAwayIsNotBlamed) {
  VirtualCluster cluster;
  set_up(cluster, 3);
  cluster.add_job("train", 2, 8, {{"restart", {{"limit", 0}}}});
  cluster.start();
  ASSERT_TRUE(cluster.world.run_until([&] { return runs(cluster, "train", 1); }, minutes{1}));
  cluster.set_node_ready(node_of(cluster, "train", 0), false);
  cluster.world.run_for(seconds{10});
  json failed = {{"phase", "Failed"}};
  failed["containerStatuses"] =
      json::array({{{"name", "main"}, {"state", {{"terminated", {{"exitCode", 1}, {"reason", "Error"}}}}}}});
  cluster.server.set_status(kPods, "team/train-worker-1-1", failed);
  ASSERT_TRUE(cluster.world.run_until([&] { return runs(cluster, "train", 2); }, minutes{2}))
      << cluster.job("train").dump(1);
  EXPECT_EQ(cluster.job("train")["status"].value("/restarts/count"_json_pointer, 0), 0);
}

// Somebody's Service has the name that the job's own would have.
TEST_F(Repair, AJobWhoseServicesNameIsTakenSaysSo) {
  VirtualCluster cluster;
  set_up(cluster, 1);
  const json theirs = {{"metadata", {{"name", "train"}, {"namespace", "team"}}}};
  cluster.server.put("/api/v1/services", theirs);
  cluster.add_job("train", 2, 1);
  cluster.start();
  cluster.world.run_for(seconds{5});
  const json status = cluster.job("train")["status"];
  EXPECT_EQ(status["queue"]["reason"], "BackingOff") << status.dump(1);
  for (const auto& c : status["conditions"]) {
    if (c["type"] == "Evicted") {
      EXPECT_EQ(c["reason"], "NameTaken") << c.dump();
    }
  }
  EXPECT_THAT(status["queue"]["message"].get<std::string>(),
              HasSubstr("services team/train exists and does not belong to this job"));
  cluster.server.erase("/api/v1/services", "team/train");
  EXPECT_TRUE(cluster.world.run_until([&] { return cluster.phase("train") == "Running"; }, minutes{2}));
  EXPECT_THAT(cluster.complaints, IsEmpty());
}

TEST_F(Repair, WithoutRoomItWaitsAndGoesOnWhenThereIsSome) {
  VirtualCluster cluster;
  set_up(cluster, 2);
  cluster.add_job("train", 2, 8);
  cluster.start();
  ASSERT_TRUE(cluster.world.run_until([&] { return runs(cluster, "train", 1); }, minutes{1}));
  const std::string lost = node_of(cluster, "train", 0);
  cluster.set_node_ready(lost, false);
  cluster.world.run_for(minutes{2});
  EXPECT_EQ(cluster.phase("train"), "Queued");
  const json& conditions = cluster.job("train")["status"]["conditions"];
  for (const auto& c : conditions) {
    if (c["type"] == "Evicted") {
      EXPECT_EQ(c["reason"], "NodeFailed");
      EXPECT_THAT(c["message"].get<std::string>(), HasSubstr(lost));
    }
  }
  EXPECT_EQ(cluster.pods_of("train").size(), 1u) << "the one that nobody can end";
  cluster.set_node_ready(lost, true);
  const auto stuck = cluster.pods_of("train");
  cluster.server.erase(kPods, "team/" + stuck[0]["metadata"]["name"].get<std::string>());
  EXPECT_TRUE(cluster.world.run_until([&] { return runs(cluster, "train", 2); }, minutes{1}));
  EXPECT_THAT(cluster.complaints, IsEmpty());
}

}  // namespace
}  // namespace muster::test
