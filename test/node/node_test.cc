// Muster in a pod of a real node, and jobs with real programs in real containers: what KWOK can only pretend.
#include <gmock/gmock.h>

#include <set>

#include "fixture.h"

namespace muster::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

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

}  // namespace
}  // namespace muster::test
