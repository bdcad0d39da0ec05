// Muster in a pod of a real node, and jobs with real programs in real containers: what KWOK can only pretend.
#include <gmock/gmock.h>

#include <set>

#include "fixture.h"

namespace muster::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// What train.py comes to after 60 steps.
constexpr const char* kHashOf60 = "873414c1169727e6f2e8da3e1b9ad647d4474bcad936f5ab22806c523907f925";

std::vector<std::string> values(const std::vector<TrainEvent>& events) {
  std::vector<std::string> result;
  for (const TrainEvent& event : events) result.push_back(event.value);
  return result;
}

class Node : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    if (const auto possible = testcluster::enter_node_network(); !possible) {
      impossible_ = possible.error();
      return;
    }
    nodes_ = NodeCluster::start();
  }
  static void TearDownTestSuite() { nodes_.reset(); }
  void SetUp() override {
    if (!impossible_.empty()) GTEST_SKIP() << impossible_;
  }
  void TearDown() override {
    if (!nodes_) return;
    if (HasFailure())
      std::cerr << nodes_->muster_log() << nodes_->kubectl({"get", "pods,tj", "-A", "-o", "wide"});
    nodes_->stop_jobs();
    EXPECT_TRUE(nodes_->node().running());
  }

  static Cluster& cluster() { return nodes_->cluster(); }
  static json muster_pods() {
    return cluster().get(
        "/api/v1/namespaces/muster-system/pods?labelSelector=app.kubernetes.io%2Fname%3Dmuster")["items"];
  }
  static std::string leader() {
    const json lease =
        cluster().get("/apis/coordination.k8s.io/v1/namespaces/muster-system/leases/muster-controller");
    const std::string holder = lease["spec"].value("holderIdentity", "");
    return holder.substr(0, holder.find('_'));  // <pod>_<random>
  }

  static inline std::unique_ptr<NodeCluster> nodes_;
  static inline std::string impossible_;
};

TEST_F(Node, MusterRunsFromItsImageAndAnotherPodTakesOver) {
  json pods = muster_pods();
  ASSERT_EQ(pods.size(), 2u);
  for (const json& pod : pods) {
    EXPECT_EQ(pod["status"]["containerStatuses"][0]["restartCount"], 0) << pod.dump(2);
    const std::string name = pod["metadata"]["name"];
    EXPECT_THAT(nodes_->kubectl({"get", "--raw",
                                 "/api/v1/namespaces/muster-system/pods/" + name + ":8080/proxy/metrics"}),
                HasSubstr("muster_cached_objects{resource=\"nodes\"} 1"));
  }
  const std::string before = leader();
  ASSERT_FALSE(before.empty());
  cluster().remove("/api/v1/namespaces/muster-system/pods/" + before);
  // It gives the lease back on SIGTERM; after a crash this would take a lease's length, 15 s.
  EXPECT_TRUE(cluster().wait(10s, [&] { return !leader().empty() && leader() != before; }));
  cluster().create(nodes_->train_job({.name = "after"}, {{"STEPS", "3"}}));
  EXPECT_TRUE(cluster().wait_phase("after", "Succeeded"));
}

TEST_F(Node, AProgramRunsToItsKnownEndOnTheGpusThatMusterCounted) {
  cluster().create(nodes_->train_job({.name = "train", .replicas = 2, .gpus = 2}, {{"STEPS", "60"}}));
  ASSERT_TRUE(cluster().wait_phase("train", "Succeeded", 60s)) << cluster().job("train").dump(2);
  EXPECT_THAT(values(nodes_->events("train", "done")), ElementsAre(kHashOf60));
  // The kubelet has picked them, and no GPU twice.
  std::set<std::string> gpus;
  for (const TrainEvent& event : nodes_->events("train", "gpus")) {
    std::istringstream list(event.value);
    for (std::string id; std::getline(list, id, ',');) gpus.insert(id);
  }
  EXPECT_THAT(gpus, ElementsAre("GPU-real-0-0", "GPU-real-0-1", "GPU-real-0-2", "GPU-real-0-3"));
  EXPECT_EQ(cluster().job("train")["status"]["attempt"], 1);
}

TEST_F(Node, AGangIsRunningOnceItIsReadyNotOnceItHasStarted) {
  cluster().create(nodes_->train_job({.name = "slow"}, {{"STEPS", "3"}, {"START_SECONDS", "2"}}));
  ASSERT_TRUE(cluster().wait(30s, [&] {
    const auto pods = cluster().pods("slow");
    return !pods.empty() && pods[0]["status"].value("phase", "") == "Running";
  }));
  EXPECT_EQ(cluster().phase("slow"), "Starting");
  ASSERT_TRUE(cluster().wait_phase("slow", "Succeeded")) << cluster().job("slow").dump(2);
}

TEST_F(Node, AProgramThatCrashesTooOftenFails) {
  cluster().create(
      nodes_->train_job({.name = "crash", .spec = {{"restart", {{"limit", 1}, {"window", "1h"}}}}},
                        {{"STEPS", "60"}, {"CRASH_AT", "10"}, {"CRASH_TIMES", "9"}}));
  ASSERT_TRUE(cluster().wait_phase("crash", "Failed", 60s)) << cluster().job("crash").dump(2);
  EXPECT_EQ(cluster().job("crash")["status"]["attempt"], 2);
  EXPECT_THAT(cluster().condition("crash", "Failed")["message"].get<std::string>(), HasSubstr("exit code 3"));
}

}  // namespace
}  // namespace muster::test
