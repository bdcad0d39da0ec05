// Checkpoints on their way from pods that come and go to the pods of the next attempt.
#include <gmock/gmock.h>
#include <spdlog/spdlog.h>

#include "virtual_cluster.h"

namespace muster::test {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;

class Checkpoints : public testing::Test {
 protected:
  Checkpoints() { spdlog::set_level(spdlog::level::off); }

  static std::string report(int step) {
    return R"({"checkpoint":{"step":)" + std::to_string(step) + R"(,"uri":"/ckpt/$(HOME)/)" +
           std::to_string(step) + "\"}}";
  }
  static std::string env(const json& pod, const std::string& name) {
    for (const auto& e : pod["spec"]["containers"][0]["env"]) {
      if (e["name"] == name) return e.value("value", "");
    }
    return "none";
  }
  static void suspend(VirtualCluster& cluster, const std::string& name, bool yes) {
    json job = cluster.job(name);
    job["spec"]["suspend"] = yes;
    cluster.server.put(kJobs, std::move(job));
  }
};

// Each pod's last word is seen for a millisecond and often in one delivery with its end.
TEST_F(Checkpoints, WhatPodsSaveWhenToldToGoIsWhereTheyGoOn) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    VirtualCluster cluster(seed);
    cluster.set_up(1, 8);
    cluster.pods_end([&](const json& pod) {
      const int index = std::stoi(pod["metadata"]["labels"]["muster.dev/index"].get<std::string>());
      return LastWords{.takes = seconds{10 + index}, .message = report(1200 + index)};
    });
    cluster.add_job("train", 4, 1, {{"checkpoint", {{"gracePeriod", "60s"}}}});
    cluster.start();
    ASSERT_TRUE(cluster.world.run_until([&] { return cluster.condition("train", "PodsReady"); }, minutes{1}));
    for (const auto& pod : cluster.pods_of("train")) EXPECT_EQ(env(pod, "MUSTER_RESUME_STEP"), "none");
    suspend(cluster, "train", true);
    cluster.world.run_for(seconds{5});
    EXPECT_EQ(cluster.pods_of("train").size(), 4u) << "they are saving";
    ASSERT_TRUE(cluster.world.run_until([&] { return cluster.pods_of("train").empty(); }, minutes{1}));
    cluster.world.run_for(seconds{5});
    const json saved = cluster.job("train")["status"]["checkpoint"];
    EXPECT_EQ(saved["step"], 1200) << "the smallest step that all have saved";
    EXPECT_EQ(saved["reportedBy"], "train-worker-0-1");
    EXPECT_EQ(saved["reporters"], 4);
    EXPECT_GE(saved["saveSeconds"], 13);
    EXPECT_LE(saved["saveSeconds"], 15);
    suspend(cluster, "train", false);
    ASSERT_TRUE(cluster.world.run_until([&] { return cluster.pods_of("train").size() == 4; }, minutes{1}));
    for (const auto& pod : cluster.pods_of("train")) {
      EXPECT_EQ(env(pod, "MUSTER_ATTEMPT"), "2");
      EXPECT_EQ(env(pod, "MUSTER_RESUME_STEP"), "1200");
      EXPECT_EQ(env(pod, "MUSTER_RESUME_URI"), "/ckpt/$$(HOME)/1200") << "nothing is put in for $(HOME)";
    }
    if (HasFailure()) return;
  }
}

TEST_F(Checkpoints, WhatIsSaidWhileItRunsOutlivesAnAbruptEnd) {
  VirtualCluster cluster;
  cluster.set_up(1, 8);
  cluster.pods_end([](const json&) { return LastWords{.takes = minutes{10}}; });  // killed
  cluster.add_job("train", 2, 1, {{"checkpoint", {{"gracePeriod", "20s"}}}});
  cluster.start();
  ASSERT_TRUE(cluster.world.run_until([&] { return cluster.condition("train", "PodsReady"); }, minutes{1}));
  cluster.annotate_pod("train-worker-0-1", "muster.dev/checkpoint", report(500));
  cluster.annotate_pod("train-worker-1-1", "muster.dev/checkpoint", "{nonsense");
  cluster.world.run_for(seconds{5});
  EXPECT_EQ(cluster.job("train")["status"]["checkpoint"]["step"], 500);
  suspend(cluster, "train", true);
  cluster.world.run_for(minutes{1});
  EXPECT_THAT(cluster.pods_of("train"), testing::IsEmpty());
  EXPECT_EQ(cluster.job("train")["status"]["checkpoint"]["step"], 500);
  EXPECT_TRUE(cluster.condition("train", "GracePeriodTooShort")) << "20 s did not do";
  suspend(cluster, "train", false);
  ASSERT_TRUE(cluster.world.run_until([&] { return cluster.pods_of("train").size() == 2; }, minutes{1}));
  for (const auto& pod : cluster.pods_of("train")) EXPECT_EQ(env(pod, "MUSTER_RESUME_STEP"), "500");
}

// The next process finds what is written, and what the pods still say.
TEST_F(Checkpoints, ANewProcessTakesThemUp) {
  VirtualCluster cluster;
  cluster.set_up(1, 8);
  cluster.add_job("train", 2);
  auto& first = cluster.start("first");
  ASSERT_TRUE(cluster.world.run_until([&] { return cluster.condition("train", "PodsReady"); }, minutes{1}));
  ASSERT_TRUE(cluster.stop(first));
  cluster.annotate_pod("train-worker-0-1", "muster.dev/checkpoint", report(70));
  auto& second = cluster.start("second");
  ASSERT_TRUE(cluster.world.run_until([&] { return second.controller->acting(); }, minutes{1}));
  cluster.world.run_for(seconds{5});
  const json saved = cluster.job("train")["status"]["checkpoint"];
  EXPECT_EQ(saved["step"], 70);
  ASSERT_TRUE(cluster.stop(second));
  cluster.start("third");
  cluster.world.run_for(minutes{1});
  EXPECT_EQ(cluster.job("train")["status"]["checkpoint"], saved) << "the same report is not a newer one";
}

}  // namespace
}  // namespace muster::test
