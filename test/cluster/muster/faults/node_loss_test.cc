// What `kubectl delete node` does to the jobs on it: Kubernetes' pod garbage collector marks their pods as
// disrupted and deletes them, some 40 to 60 s later.
#include <iostream>

#include "fixture.h"

namespace muster::test {
namespace {

std::string pod_path(const json& pod) {
  return "/api/v1/namespaces/team/pods/" + pod["metadata"]["name"].get<std::string>();
}
void delete_node_of(Cluster& cluster, const json& pod) {
  cluster.remove("/api/v1/nodes/" + pod["spec"]["nodeName"].get<std::string>());
}
json condition_of(const json& pod, const std::string& type) {
  if (pod.is_null()) return {};
  for (const auto& c : pod["status"].value("conditions", json::array())) {
    if (c["type"] == type) return c;
  }
  return {};
}

// Two gangs that fill four of five nodes; a node under each is deleted. One gang runs: it is formed anew on
// what is left, and its program is not blamed. Of the other, the pod on that node had succeeded already:
// nothing is lost with it.
TEST(NodeLoss, CostsARunningGangItsAttemptAndASucceededPodNothing) {
  const auto cluster = Cluster::start(5, 8);
  const auto muster = cluster->muster();
  cluster->create(
      job_object({.name = "gang", .replicas = 2, .gpus = 8, .spec = {{"restart", {{"limit", 0}}}}}));
  cluster->create(
      job_object({.name = "half", .replicas = 2, .gpus = 8, .spec = {{"restart", {{"limit", 0}}}}}));
  ASSERT_TRUE(cluster->wait_phase("gang", "Running") && cluster->wait_phase("half", "Running"))
      << muster->log();

  const json done = cluster->pods("half")[0];
  const json working = cluster->pods("half")[1];
  const json exit_now = {{"metadata", {{"annotations", {{"test.muster.dev/exit-now", "0"}}}}}};
  cluster->patch(pod_path(done), exit_now);
  ASSERT_TRUE(cluster->wait(20s, [&] {
    return cluster->job("half")["status"].value("succeededReplicas", 0) == 1;
  })) << cluster->job("half").dump(2);
  EXPECT_EQ(cluster->job("half")["status"]["pods"], "2/2") << "what has succeeded lacks nothing";

  // The finalizer lets us see how the collector leaves the pod. It holds nothing any more: nobody
  // waits for it.
  const json victim = cluster->pods("gang")[0];
  const std::string lost_node = victim["spec"]["nodeName"];
  cluster->patch(pod_path(victim), {{"metadata", {{"finalizers", {"test.muster.dev/look"}}}}});
  delete_node_of(*cluster, victim);
  delete_node_of(*cluster, done);

  ASSERT_TRUE(cluster->wait(120s,
                            [&] {
                              const json j = cluster->job("gang");
                              return j["status"]["attempt"] == 2 && j["status"]["phase"] == "Running";
                            }))
      << cluster->job("gang").dump(2) << muster->log();
  const json status = cluster->job("gang")["status"];
  EXPECT_EQ(status.value("/restarts/count"_json_pointer, 0), 0) << "no fault of the program";
  for (const auto& p : status["assignment"]["pods"]) EXPECT_NE(p["node"], lost_node);
  // Nobody waits for the collector: the gang runs before it comes.
  ASSERT_TRUE(cluster->wait(120s, [&] {
    const json condition = condition_of(cluster->get(pod_path(victim)), "DisruptionTarget");
    return !condition.is_null() && condition["status"] == "True";
  })) << cluster->get(pod_path(victim)).dump(2);
  const json left = cluster->get(pod_path(victim));
  EXPECT_EQ(condition_of(left, "DisruptionTarget").value("reason", ""), "DeletionByPodGC");
  EXPECT_EQ(left["status"]["phase"], "Failed");
  cluster->patch(pod_path(victim), {{"metadata", {{"finalizers", nullptr}}}});
  EXPECT_TRUE(cluster->wait(20s, [&] { return cluster->pods("gang").size() == 2; }));

  ASSERT_TRUE(cluster->wait(120s, [&] { return cluster->get(pod_path(done)).is_null(); }));
  cluster->catch_up();
  EXPECT_EQ(cluster->phase("half"), "Running");
  cluster->patch(pod_path(working), exit_now);
  ASSERT_TRUE(cluster->wait_phase("half", "Succeeded")) << cluster->job("half").dump(2);
  EXPECT_EQ(cluster->job("half")["status"]["attempt"], 1);
  EXPECT_EQ(cluster->job("half")["status"]["pods"], "2/2");
  EXPECT_EQ(cluster->audit_gpus(), "");
}

// A node is away for longer than it may be: its pod gets another place, the other stays where it is.
TEST(NodeLoss, ANodeThatIsNotReadyForLongLosesWhatStoodThere) {
  const auto cluster = Cluster::start(3, 8);
  const auto muster = cluster->muster({"--node-grace", "4"});
  cluster->create(job_object(
      {.name = "gang",
       .replicas = 2,
       .gpus = 8,
       .pod_annotations = {{"test.muster.dev/termination-message", R"({"checkpoint":{"step":40}})"}},
       .spec = {{"restart", {{"limit", 0}}}}}));
  ASSERT_TRUE(cluster->wait_phase("gang", "Running")) << muster->log();
  const json before = cluster->job("gang")["status"]["assignment"]["pods"];
  const std::string lost = before[0]["node"];
  cluster->patch("/api/v1/nodes/" + lost,
                 {{"metadata", {{"annotations", {{"test.muster.dev/down", "true"}}}}}});
  ASSERT_TRUE(cluster->wait(60s,
                            [&] {
                              const json j = cluster->job("gang");
                              return j["status"]["attempt"] == 2 && j["status"]["phase"] == "Running";
                            }))
      << cluster->job("gang").dump(2) << muster->log();
  const json status = cluster->job("gang")["status"];
  EXPECT_NE(status["assignment"]["pods"][0]["node"], lost);
  EXPECT_EQ(status["assignment"]["pods"][1]["node"], before[1]["node"]);
  EXPECT_EQ(status["assignment"]["resume"]["step"], 40);
  EXPECT_EQ(status.value("/restarts/count"_json_pointer, 0), 0);
  const json service = cluster->get("/api/v1/namespaces/team/services/gang");
  EXPECT_EQ(service["spec"]["selector"]["muster.dev/attempt"], "2");
  EXPECT_EQ(cluster->audit_gpus(), "");
}

// Three of the 64 nodes of a gang are deleted at once, and three are spare.
TEST(NodeLoss, OfThreeNodesAtOnceCostsOneRestartAndKeepsTheOtherPlaces) {
  constexpr int kPods = 64, kLost = 3;
  const auto cluster = Cluster::start(kPods + kLost, 8);
  const auto muster = cluster->muster();
  cluster->create(job_object(
      {.name = "gang",
       .replicas = kPods,
       .gpus = 8,
       .pod_annotations = {{"test.muster.dev/termination-message", R"({"checkpoint":{"step":1200}})"}},
       .spec = {{"restart", {{"limit", 0}}}}}));
  ASSERT_TRUE(cluster->wait_phase("gang", "Running", 60s)) << muster->log();
  const json before = cluster->job("gang")["status"]["assignment"]["pods"];
  ASSERT_EQ(before.size(), kPods);

  const auto lost_at = std::chrono::steady_clock::now();
  for (const std::size_t i : {0U, 20U, 40U})
    cluster->remove("/api/v1/nodes/" + before[i]["node"].get<std::string>());
  ASSERT_TRUE(cluster->wait(120s,
                            [&] {
                              const json status = cluster->job("gang")["status"];
                              return status["attempt"] != 1 && status["phase"] == "Running";
                            }))
      << cluster->job("gang").dump(2) << muster->log();
  const auto took =
      std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - lost_at).count();
  std::cout << "three of 64 nodes deleted: running again after " << took << " ms\n";
  RecordProperty("milliseconds", static_cast<int>(took));

  const json status = cluster->job("gang")["status"];
  const json& after = status["assignment"]["pods"];
  ASSERT_EQ(after.size(), before.size());
  int kept = 0;
  for (std::size_t i = 0; i < after.size(); ++i) {
    EXPECT_EQ(after[i]["index"], before[i]["index"]);
    kept += after[i]["node"] == before[i]["node"] ? 1 : 0;
  }
  EXPECT_EQ(kept, kPods - kLost);
  EXPECT_EQ(status.value("/assignment/resume/step"_json_pointer, 0), 1200) << status.dump(1);
  // It has heard of all three nodes, and has answered.
  ASSERT_TRUE(cluster->wait(30s, [&] {
    return cluster->get("/apis/muster.dev/v1alpha1/nodepools/default")["status"].value("nodes", 0) == kPods;
  })) << cluster->get("/apis/muster.dev/v1alpha1/nodepools/default").dump(2);
  cluster->catch_up();
  const json later = cluster->job("gang")["status"];
  EXPECT_EQ(later["attempt"], 2) << "one restart, whenever each loss was heard of";
  EXPECT_EQ(later["phase"], "Running");
  EXPECT_EQ(later.value("/restarts/count"_json_pointer, 0), 0) << "no fault of the program";
  EXPECT_EQ(later.value("preemptions", 0), 0);
  EXPECT_EQ(cluster->audit_gpus(), "");
}

}  // namespace
}  // namespace muster::test
