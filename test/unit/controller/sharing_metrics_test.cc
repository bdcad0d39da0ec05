// What a scrape says of Projects, Queues, pools and nodes while the operator works; and what one costs.
#include "process/sharing_metrics.h"

#include <gmock/gmock.h>
#include <prometheus/text_serializer.h>
#include <spdlog/spdlog.h>

#include <chrono>
#include <iostream>
#include <sstream>

#include "process/job_counts.h"
#include "virtual_time/virtual_cluster.h"

namespace muster::test {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::AllOf;
using testing::Ge;
using testing::HasSubstr;
using testing::Le;
using testing::Not;

// Series as they are written -> their values.
using Series = std::map<std::string, double>;

Series series_of(const std::string& text) {
  Series series;
  std::istringstream in(text);
  for (std::string line; std::getline(in, line);) {
    const auto space = line.rfind(' ');
    if (!line.starts_with('#')) series[line.substr(0, space)] = std::stod(line.substr(space));
  }
  return series;
}

struct SharingMetrics : testing::Test {
  SharingMetrics() {
    spdlog::set_level(spdlog::level::off);
    cluster.set_up(2, 32);  // twice what there is: what waits, waits for room
    cluster.add_priority_class("low", 10);
    cluster.add_priority_class("high", 100);
  }
  ~SharingMetrics() override { spdlog::set_level(spdlog::level::info); }

  static std::string text(Operator& op) {
    op.controller->sample_metrics();
    return op.metrics.text();
  }
  static Series scrape(Operator& op) { return series_of(text(op)); }
  // And until the operator knows that its write stands.
  bool run_until_phase(const std::string& job, const std::string& phase) {
    const bool is_there = cluster.world.run_until([&] { return cluster.phase(job) == phase; }, minutes{2});
    cluster.world.run_for(seconds{1});
    return is_there;
  }
  void finish(const std::string& job) {
    for (const auto& pod : cluster.pods_of(job)) {
      json status = {{"phase", "Succeeded"}};
      cluster.server.set_status(kPods, "team/" + pod["metadata"]["name"].get<std::string>(), status);
    }
  }

  VirtualCluster cluster;
};

TEST_F(SharingMetrics, AProjectItsQueueThePoolAndItsNodesSayWhoHasWhat) {
  auto& op = cluster.start();
  cluster.add_job("runs", 3, 4);
  ASSERT_TRUE(run_until_phase("runs", "Running"));
  cluster.add_job("waits", 1, 8);
  cluster.world.run_for(seconds{90});
  const Series s = scrape(op);
  const std::string team = R"({project="team",queue="root",pool="default"})";
  EXPECT_EQ(s.at("muster_project_allocated_gpus" + team), 12);
  EXPECT_EQ(s.at("muster_project_pending_gpus" + team), 8);
  EXPECT_EQ(s.at("muster_project_quota_gpus" + team), 32);
  EXPECT_EQ(s.at("muster_project_limit_gpus" + team), 32);
  EXPECT_EQ(s.at("muster_project_borrowed_gpus" + team), 0);
  EXPECT_EQ(s.at("muster_project_fair_share_gpus" + team), 16);
  const std::string root = R"({queue="root",parent="",pool="default"})";
  EXPECT_EQ(s.at("muster_queue_allocated_gpus" + root), 12);
  EXPECT_EQ(s.at("muster_queue_quota_gpus" + root), 32);
  EXPECT_EQ(s.at(R"(muster_project_info{project="team",queue="root",project_namespace="team"})"), 1);
  EXPECT_EQ(s.at(R"(muster_project_jobs{project="team",queue="root",phase="Running"})"), 1);
  EXPECT_EQ(s.at(R"(muster_project_jobs{project="team",queue="root",phase="Queued"})"), 1);
  EXPECT_EQ(s.at(R"(muster_project_jobs{project="team",queue="root",phase="Failed"})"), 0);
  const std::string reason = cluster.job("waits")["status"]["queue"]["reason"];
  EXPECT_EQ(s.at(R"(muster_project_waiting_jobs{project="team",queue="root",reason=")" + reason + "\"}"), 1);
  EXPECT_THAT(s.at(R"(muster_project_oldest_wait_seconds{project="team",queue="root"})"),
              AllOf(Ge(89), Le(92)));
  EXPECT_EQ(s.at(R"(muster_pool_nodes{pool="default"})"), 2);
  EXPECT_EQ(s.at(R"(muster_pool_capacity_gpus{pool="default"})"), 16);
  EXPECT_EQ(s.at(R"(muster_pool_free_gpus{pool="default"})"), 4);
  EXPECT_EQ(s.at(R"(muster_pool_largest_gang_gpus{pool="default"})"), 0) << "no node is empty";
  EXPECT_EQ(s.at(R"(muster_pool_failing_gpus{pool="default"})"), 0);
  EXPECT_EQ(s.at(R"(muster_node_allocated_gpus{node="node-0",pool="default"})") +
                s.at(R"(muster_node_allocated_gpus{node="node-1",pool="default"})"),
            12);
  EXPECT_EQ(s.at(R"(muster_node_capacity_gpus{node="node-1",pool="default"})"), 8);
  EXPECT_EQ(s.at(R"(muster_job_admission_wait_seconds_count{project="team"})"), 1);
  EXPECT_THAT(s.at(R"(muster_gpu_seconds_total{project="team",state="running"})"),
              AllOf(Ge(12 * 88), Le(12 * 96)));
  EXPECT_EQ(s.at(R"(muster_lost_work_gpu_seconds_total{project="team",cause="ProgramFault"})"), 0);

  cluster.set_node_ready("node-1", false);
  cluster.world.run_for(seconds{1});
  const Series later = scrape(op);
  EXPECT_EQ(later.at(R"(muster_node_usable{node="node-0",pool="default"})"), 1);
  EXPECT_EQ(later.at(R"(muster_node_usable{node="node-1",pool="default"})"), 0);
  EXPECT_EQ(later.at(R"(muster_pool_nodes{pool="default"})"), 1);
  EXPECT_TRUE(cluster.stop(op));
}

TEST_F(SharingMetrics, WhatHappensToJobsIsCountedByProjectAndCause) {
  cluster.pods_end([](const json&) { return LastWords{.takes = seconds{5}, .message = ""}; });
  auto& op = cluster.start();
  cluster.add_job("low", 2, 8, {{"priorityClassName", "low"}});
  ASSERT_TRUE(run_until_phase("low", "Running"));
  cluster.world.run_for(minutes{2});
  cluster.add_job("high", 1, 8, {{"priorityClassName", "high"}});
  ASSERT_TRUE(run_until_phase("high", "Running"));
  finish("high");
  ASSERT_TRUE(run_until_phase("high", "Succeeded"));
  const Series s = scrape(op);
  EXPECT_EQ(s.at(R"(muster_job_disruptions_total{project="team",action="evict",cause="Preempted"})"), 1);
  EXPECT_GT(s.at(R"(muster_disruption_gpu_seconds_total{project="team",cause="Preempted",owed="true"})"), 0);
  EXPECT_GT(s.at(R"(muster_lost_work_gpu_seconds_total{project="team",cause="Preempted"})"), 0);
  EXPECT_EQ(s.at(R"(muster_job_run_seconds_count{project="team",result="Succeeded"})"), 1);
  EXPECT_EQ(s.at(R"(muster_job_run_seconds_count{project="team",result="Failed"})"), 0);
  EXPECT_EQ(s.at(R"(muster_job_admission_wait_seconds_count{project="team"})"), 2)
      << "the second start of low is not its first";
  EXPECT_TRUE(cluster.stop(op));
}

TEST_F(SharingMetrics, AnEstimateIsHeldAgainstTheRealStart) {
  auto& op = cluster.start();
  cluster.add_job("first", 2, 8, {{"maxRuntime", "30m"}});
  ASSERT_TRUE(run_until_phase("first", "Running"));
  cluster.add_job("second", 2, 8);
  cluster.world.run_for(minutes{10});
  ASSERT_TRUE(cluster.job("second")["status"]["queue"].contains("estimatedStart")) << cluster.job("second");
  finish("first");
  ASSERT_TRUE(run_until_phase("second", "Running"));
  const Series s = scrape(op);
  EXPECT_EQ(s.at(R"(muster_job_start_estimate_error_seconds_count{project="team"})"), 1)
      << "nobody had told the first when it would start";
  EXPECT_THAT(s.at(R"(muster_job_start_estimate_error_seconds_sum{project="team"})"),
              AllOf(Ge(1100), Le(1300)));
  EXPECT_EQ(s.at(R"(muster_job_start_estimate_error_seconds_bucket{project="team",le="900"})"), 0);
  EXPECT_EQ(s.at(R"(muster_job_start_estimate_error_seconds_bucket{project="team",le="3600"})"), 1);
  EXPECT_TRUE(cluster.stop(op));
}

TEST_F(SharingMetrics, AServiceSaysHowManyReplicasItLacks) {
  auto& op = cluster.start();
  json container = {{"name", "main"}, {"image", "registry.example/serve:1"}};
  json service = {{"apiVersion", "muster.dev/v1alpha1"}, {"kind", "InferenceService"}};
  service["metadata"] = {{"name", "chat"}, {"namespace", "team"}};
  service["spec"] = {{"replicas", 3}, {"gpus", {{"count", 8}}}};
  service["spec"]["template"]["spec"]["containers"] = json::array({container});
  cluster.server.put(kMuster + "inferenceservices", service);
  cluster.world.run_for(minutes{1});
  const Series s = scrape(op);
  EXPECT_EQ(s.at(R"(muster_project_service_desired_replicas{project="team",queue="root"})"), 3);
  EXPECT_EQ(s.at(R"(muster_project_service_ready_replicas{project="team",queue="root"})"), 2);
  EXPECT_EQ(s.at(R"(muster_project_service_allocated_gpus{project="team",queue="root"})"), 16);
  EXPECT_TRUE(cluster.stop(op));
}

TEST_F(SharingMetrics, WhatIsGoneLosesItsSeries) {
  auto& op = cluster.start();
  cluster.add_job("runs", 1, 8);
  ASSERT_TRUE(run_until_phase("runs", "Running"));
  EXPECT_THAT(text(op), HasSubstr("project=\"team\""));
  EXPECT_THAT(text(op), HasSubstr("node=\"node-1\""));
  cluster.remove_job("runs");
  cluster.server.erase(kMuster + "projects", "team");
  cluster.server.erase(kNodes, "node-1");
  cluster.world.run_for(seconds{10});
  EXPECT_THAT(text(op), Not(HasSubstr("project=\"team\"")));
  EXPECT_THAT(text(op), Not(HasSubstr("node=\"node-1\"")));
  EXPECT_TRUE(cluster.stop(op));
}

TEST_F(SharingMetrics, OnlyTheProcessThatLeadsSaysThem) {
  cluster.options.leader_elect = true;
  auto& leads = cluster.start("first");
  cluster.world.run_for(seconds{5});
  auto& waits = cluster.start("second");
  cluster.world.run_for(seconds{5});
  ASSERT_TRUE(leads.controller->acting());
  ASSERT_FALSE(waits.controller->acting());
  EXPECT_THAT(text(leads), HasSubstr("muster_pool_capacity_gpus"));
  EXPECT_THAT(text(waits), Not(HasSubstr("muster_pool_capacity_gpus")));
  EXPECT_TRUE(cluster.stop(waits));
  EXPECT_TRUE(cluster.stop(leads));
}

}  // namespace
}  // namespace muster::test
