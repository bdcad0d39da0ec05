// Muster in a pod of a real node, and jobs with real programs in real containers: what KWOK can only pretend.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <set>
#include <sstream>

#include "fixture.h"

namespace muster::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::SizeIs;

json muster_pods(const Cluster& cluster) {
  return cluster.get(
      "/api/v1/namespaces/muster-system/pods?labelSelector=app.kubernetes.io%2Fname%3Dmuster")["items"];
}

std::string leader(const Cluster& cluster) {
  const json lease =
      cluster.get("/apis/coordination.k8s.io/v1/namespaces/muster-system/leases/muster-controller");
  const std::string holder = lease["spec"].value("holderIdentity", "");
  return holder.substr(0, holder.find('_'));  // <pod>_<random>
}

std::string proc(pid_t pid, const std::string& file) {
  std::ostringstream text;
  text << std::ifstream("/proc/" + std::to_string(pid) + "/" + file).rdbuf();
  return text.str();
}

// Asked of the kernel, not of the manifests.
TEST_F(Node, MusterRunsWithoutRightsAndHasNothingToWriteTo) {
  const auto processes = nodes_->node().processes("muster");
  ASSERT_THAT(processes, SizeIs(2));
  for (const pid_t pid : processes) {
    const std::string status = proc(pid, "status");
    EXPECT_THAT(status, ContainsRegex("\nUid:\t65532\t65532\t65532\t65532\n"));
    EXPECT_THAT(status, ContainsRegex("\nGid:\t65532\t65532\t65532\t65532\n"));
    EXPECT_THAT(status, ContainsRegex("\nCapEff:\t0+\n"));
    EXPECT_THAT(status, ContainsRegex("\nCapBnd:\t0+\n"));
    EXPECT_THAT(status, ContainsRegex("\nNoNewPrivs:\t1\n"));
    EXPECT_THAT(proc(pid, "mountinfo"), ContainsRegex(" / / ro[, ]"));
    EXPECT_FALSE(std::filesystem::exists("/proc/" + std::to_string(pid) + "/root/bin"))
        << "the image has a shell";
  }
}

TEST_F(Node, MusterRunsFromItsImageAndAnotherPodTakesOver) {
  json pods = muster_pods(cluster());
  ASSERT_EQ(pods.size(), 2u);
  for (const json& pod : pods) {
    EXPECT_EQ(pod["status"]["containerStatuses"][0]["restartCount"], 0) << pod.dump(2);
    const std::string name = pod["metadata"]["name"];
    EXPECT_THAT(nodes_->kubectl({"get", "--raw",
                                 "/api/v1/namespaces/muster-system/pods/" + name + ":8080/proxy/metrics"}),
                HasSubstr("muster_cached_objects{resource=\"nodes\"} 3"));
  }
  const std::string before = leader(cluster());
  ASSERT_FALSE(before.empty());
  cluster().remove("/api/v1/namespaces/muster-system/pods/" + before);
  // It gives the lease back on SIGTERM; after a crash this would take a lease's length, 15 s.
  EXPECT_TRUE(cluster().wait(10s, [&] { return !leader(cluster()).empty() && leader(cluster()) != before; }));
  cluster().create(nodes_->train_job({.name = "after"}, {{"STEPS", "3"}}));
  EXPECT_TRUE(cluster().wait_phase("after", "Succeeded"));
}

// One pod on the real node, two that only seem to run: a gang like any other.
TEST_F(Node, AGangSpansRealAndSimulatedNodes) {
  json job =
      nodes_->train_job({.name = "spans", .spec = {{"completion", {{"role", "worker"}}}}}, {{"STEPS", "20"}});
  json peer = {{"name", "peer"}, {"replicas", 2}, {"gpus", {{"count", 8}}}};
  peer["template"]["spec"] = on_simulated_nodes();
  peer["template"]["spec"]["containers"] = {{{"name", "main"}, {"image", "registry.example/peer:1"}}};
  job["spec"]["roles"].push_back(peer);
  cluster().create(job);
  ASSERT_TRUE(cluster().wait_phase("spans", "Running")) << cluster().job("spans").dump(2);
  std::set<std::string> used;
  for (const json& pod : cluster().pods("spans")) used.insert(pod["spec"]["nodeName"]);
  EXPECT_THAT(used, testing::ElementsAre("real-0", "simulated-0", "simulated-1"));
  EXPECT_EQ(cluster().audit_gpus(), "");
  EXPECT_TRUE(cluster().wait_phase("spans", "Succeeded")) << cluster().job("spans").dump(2);
}

}  // namespace
}  // namespace muster::test
