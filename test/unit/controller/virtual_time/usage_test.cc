// What a process that begins to act takes over from the ledger, and that the ledger keeps a quiet cluster
// quiet.
#include <gmock/gmock.h>
#include <spdlog/spdlog.h>

#include "muster/crds/quantity.h"
#include "muster/crds/time.h"
#include "virtual_cluster.h"

namespace muster::test {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;

const std::string kProjects = kMuster + "projects";

class UsageInVirtualTime : public testing::Test {
 protected:
  UsageInVirtualTime() { spdlog::set_level(spdlog::level::off); }

  static std::int64_t gpu_seconds(VirtualCluster& cluster, const std::string& project) {
    return cluster.server.object(kProjects, project).value("/status/usage/total/gpuSeconds"_json_pointer, 0);
  }
  static int fair_share(VirtualCluster& cluster, const std::string& project) {
    const std::string gpus = cluster.server.object(kProjects, project)
                                 .value("/status/fairShare/gpu"_json_pointer, std::string("0"));
    return std::stoi(gpus);
  }
};

// `team` has used the whole cluster for a day, and `other` nothing. Both ask for all of it now.
TEST_F(UsageInVirtualTime, PastUseGoesOnFromTheLedger) {
  VirtualCluster cluster;
  cluster.set_up(1, 8);
  json root = cluster.server.object(kMuster + "queues", "root");
  root["spec"]["quota"] = {{"gpu", 0}};
  root["spec"]["fairness"] = {{"halfLife", "1d"}};
  cluster.server.put(kMuster + "queues", root);
  const json none = {{"queue", "root"}, {"quota", {{"gpu", 0}}}};
  json project = cluster.server.object(kProjects, "team");
  project["spec"] = none;
  cluster.server.put(kProjects, project);
  project["metadata"] = {{"name", "other"}};
  cluster.server.put(kProjects, project);
  const auto until = client::format_time(cluster.world.clock().wall());
  const auto yesterday = client::format_time(cluster.world.clock().wall() - hours{24})
                             .substr(0, std::string("2026-01-31").size());
  json status = cluster.server.object(kProjects, "team").value("status", json::object());
  status["usage"] = {
      {"until", until},
      {"total", {{"gpuSeconds", 8 * 86400}}},
      {"days", json::array({{{"date", yesterday},
                             {"sum", {{"gpuSeconds", 8 * 86400}}},
                             {"pools", json::array({{{"name", "default"}, {"gpuSeconds", 8 * 86400}}})}}})}};
  cluster.server.set_status(kProjects, "team", status);
  for (int i = 0; i < 8; ++i) {
    for (const std::string ns : {"team", "other"}) {
      const std::string name = ns + "-" + std::to_string(i);
      cluster.add_job(name, 1);
      json job = cluster.server.object(kJobs, "team/" + name);
      if (ns == "team") continue;
      cluster.server.erase(kJobs, "team/" + name);
      job["metadata"]["namespace"] = ns;
      cluster.server.put(kJobs, std::move(job));
    }
  }
  cluster.start();
  cluster.world.run_for(minutes{3});
  EXPECT_EQ(fair_share(cluster, "team") + fair_share(cluster, "other"), 8);
  EXPECT_LT(fair_share(cluster, "team"), fair_share(cluster, "other"));
  EXPECT_GE(gpu_seconds(cluster, "team"), 8 * 86400) << "what was written is kept";
}

// While nothing changes, usage is written once an hour; the next process finds out what was not.
TEST_F(UsageInVirtualTime, AQuietHourIsOneWriteAndNothingOfItIsLost) {
  VirtualCluster cluster;
  cluster.set_up(1, 8);
  cluster.add_job("train", 4);
  auto& first = cluster.start("first");
  ASSERT_TRUE(cluster.world.run_until([&] { return cluster.phase("train") == "Running"; }, minutes{1}));
  cluster.world.run_for(hours{1} + minutes{5});
  const auto after_an_hour = gpu_seconds(cluster, "team");
  EXPECT_NEAR(static_cast<double>(after_an_hour), 4 * 3600, 4 * 120);
  const auto writes_to = [&](const char* object) {
    return cluster.executed(client::Method::kPatch, object).size();
  };
  const auto writes = writes_to("/projects/team/status"), of_pool = writes_to("/nodepools/default/status");
  cluster.world.run_for(minutes{50});
  EXPECT_EQ(writes_to("/projects/team/status"), writes);
  EXPECT_EQ(writes_to("/nodepools/default/status"), of_pool);
  const auto pool = cluster.server.object(kMuster + "nodepools", "default")["status"]["usage"];
  EXPECT_NEAR(pool["gpuSeconds"].get<double>(), 8 * 3600, 8 * 400);
  EXPECT_NEAR(pool["unallocated"].get<double>(), 4 * 3600, 4 * 500);
  ASSERT_TRUE(cluster.stop(first));
  EXPECT_EQ(gpu_seconds(cluster, "team"), after_an_hour);
  cluster.start("second");
  cluster.world.run_for(hours{1} + minutes{5});
  EXPECT_NEAR(static_cast<double>(gpu_seconds(cluster, "team")), 4 * 3600 * 3, 4 * 600);
}

// Three jobs without maxRuntime have run for 20 minutes each. The fourth runs; what waits behind it is told
// when, and by what. The next process has learned it from the Project, and not twice.
TEST_F(UsageInVirtualTime, AnEstimateRestsOnWhatTheProjectsJobsTookBefore) {
  VirtualCluster cluster;
  cluster.set_up(1, 16);  // twice what there is: what waits, waits for room
  json pool = cluster.server.object(kMuster + "nodepools", "default");
  pool["spec"]["pricePerGPUHour"] = "3";
  pool["spec"]["wattsPerGPU"] = 500;
  cluster.server.put(kMuster + "nodepools", pool);
  auto& first = cluster.start("first");
  const auto runs = [&](const std::string& job) {
    return cluster.world.run_until([&] { return cluster.phase(job) == "Running"; }, minutes{2});
  };
  for (const std::string job : {"a", "b", "c"}) {
    cluster.add_job(job, 1, 8);
    ASSERT_TRUE(runs(job));
    cluster.world.run_for(minutes{20});
    for (const auto& pod : cluster.pods_of(job))
      cluster.server.set_status(kPods, "team/" + pod["metadata"]["name"].get<std::string>(),
                                {{"phase", "Succeeded"}});
    cluster.world.run_for(minutes{1});
    ASSERT_EQ(cluster.phase(job), "Succeeded");
  }
  const auto team = [&] { return cluster.server.object(kProjects, "team")["status"]; };
  ASSERT_EQ(team().value("/runTimes/0/seconds"_json_pointer, json()).size(), 3) << team();
  EXPECT_EQ(team()["runTimes"][0]["gpus"], "8");
  EXPECT_NEAR(gpu_seconds(cluster, "team"), 3 * 8 * 1200, 3 * 8 * 60);
  const auto hours_held = static_cast<double>(gpu_seconds(cluster, "team")) / 3600;
  const auto cost = crds::parse_cost(team()["usage"]["total"]["cost"].get<std::string>());
  EXPECT_NEAR(static_cast<double>(cost->value), 3000 * hours_held, 10);
  EXPECT_NEAR(team()["usage"]["total"]["wattHours"].get<double>(), 500 * hours_held, 2);

  cluster.add_job("d", 1, 8);
  ASSERT_TRUE(runs("d"));
  const auto started = cluster.world.clock().wall();
  cluster.add_job("waits", 1, 8);
  cluster.world.run_for(minutes{1});
  const auto queue = [&] { return cluster.job("waits")["status"]["queue"]; };
  EXPECT_EQ(queue()["estimatedStartFrom"], "History") << queue();
  const auto start = crds::parse_time(queue()["estimatedStart"].get<std::string>());
  ASSERT_TRUE(start);
  EXPECT_NEAR(static_cast<double>(std::chrono::duration_cast<seconds>(*start - started).count()), 1200, 90);

  ASSERT_TRUE(cluster.stop(first));
  cluster.start("second");
  cluster.world.run_for(minutes{2});
  EXPECT_EQ(queue()["estimatedStartFrom"], "History");
  EXPECT_EQ(team()["runTimes"][0]["seconds"].size(), 3);
}

}  // namespace
}  // namespace muster::test
