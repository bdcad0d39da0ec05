// What a controller says of itself until it is ready.
#include <gmock/gmock.h>
#include <spdlog/spdlog.h>

#include "virtual_cluster.h"

namespace muster::test {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

TEST(Readiness, NamesTheCachesThatAreNotSyncedAndWhy) {
  spdlog::set_level(spdlog::level::off);
  VirtualCluster cluster;
  cluster.set_up(1, 8);
  cluster.faults = [](const HttpRequest& request) {
    Fault fault;
    if (request.target.contains("/rolebindings?")) {
      fault.kind = FaultKind::kAnswer;
      fault.answer = MemoryApiServer::failure(403, "Forbidden", "rolebindings is forbidden: User \"u\"");
    }
    if (request.target.contains("/networkpolicies?")) fault.kind = FaultKind::kHangBefore;
    return fault;
  };
  auto& op = cluster.start();
  cluster.world.run_for(seconds{10});
  EXPECT_FALSE(op.controller->synced());
  EXPECT_EQ(op.controller->unsynced(),
            "rolebindings: Forbidden (HTTP 403): rolebindings is forbidden: User \"u\"\n"
            "networkpolicies: no error\n");
  op.controller->sample_metrics();
  EXPECT_THAT(op.metrics.text(), HasSubstr("muster_watch_errors_total{resource=\"pods\"} 0"));
  EXPECT_THAT(op.metrics.text(),
              testing::ContainsRegex("muster_watch_errors_total.resource=\"rolebindings\". [1-9]"));

  cluster.faults = {};
  EXPECT_TRUE(cluster.world.run_until([&] { return op.controller->synced(); }, seconds{120}));
  EXPECT_EQ(op.controller->unsynced(), "");
  EXPECT_TRUE(cluster.stop(op));
}

TEST(Readiness, EveryWatchedResourceHasItsMetrics) {
  spdlog::set_level(spdlog::level::off);
  VirtualCluster cluster;
  cluster.set_up(1, 8);
  auto& op = cluster.start();
  ASSERT_TRUE(cluster.world.run_until([&] { return op.controller->synced(); }, seconds{120}));
  op.controller->sample_metrics();
  const std::string text = op.metrics.text();
  for (const char* resource :
       {"nodes", "pods", "queues", "projects", "nodepools", "trainingjobs", "inferenceservices",
        "priorityclasses", "runtimeclasses", "persistentvolumeclaims", "persistentvolumes", "storageclasses",
        "namespaces", "serviceaccounts", "rolebindings", "networkpolicies"}) {
    EXPECT_THAT(text, HasSubstr(std::string("muster_decode_errors_total{resource=\"") + resource + "\"} 0"));
    EXPECT_THAT(text, HasSubstr(std::string("muster_cached_objects{resource=\"") + resource + "\"}"));
  }
  EXPECT_TRUE(cluster.stop(op));
}

}  // namespace
}  // namespace muster::test
