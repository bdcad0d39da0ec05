// What a job holds at one instant, and what it does with it.
#include "muster/reconcilers/usage/job_use.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>

#include "muster/reconcilers/pods/names.h"

namespace muster::reconcilers {
namespace {

using std::chrono::seconds;

constexpr crds::Time kStart{std::chrono::sys_days{std::chrono::year{2026} / 1 / 2}};

struct JobUseTest : testing::Test {
  crds::TrainingJob job;
  Translation wish;
  std::vector<client::Ptr<client::Pod>> pods;

  JobUseTest() {
    job.metadata.name = "llama";
    crds::Role worker;
    worker.name = "worker";
    job.spec.roles.push_back(worker);
    wish.needs.emplace_back().requests = {crds::MilliCpu{4000}, crds::Bytes{std::int64_t{8} << 30}};
    auto& a = job.status.assignment;
    a.attempt = 2;
    a.pool = "a100";
    a.admitted_at = kStart;
    a.pods = {{"worker", 0, "node-0", {0, 1}}, {"worker", 1, "node-1", {0, 1}}};
  }

  void pod(std::int32_t attempt, std::int32_t index, const std::string& node, const std::string& gpus) {
    client::Pod p;
    p.meta.name = pod_name("llama", "worker", index, attempt, 0);
    p.meta.uid = p.meta.name;
    p.labels = {{std::string(kAttemptLabel), std::to_string(attempt)},
                {std::string(kIndexLabel), std::to_string(index)},
                {std::string(kJobLabel), "llama"},
                {std::string(kRoleLabel), "worker"},
                {std::string(kTryLabel), "0"}};
    p.annotations = {{std::string(kGpusAnnotation), gpus}};
    p.node_name = node;
    p.milli_cpu = 4000;
    p.phase = client::PodPhase::kRunning;
    pods.push_back(std::make_shared<const client::Pod>(std::move(p)));
  }
  Held held() { return use_of(job, job.status, wish, pods, {}).held; }
};

TEST_F(JobUseTest, WhatIsAssignedIsHeldAndStartsUntilItIsWhole) {
  job.metadata.labels["muster.dev/user"] = "ann";
  auto use = use_of(job, job.status, wish, pods, {});
  EXPECT_EQ(use.user, "ann");
  EXPECT_EQ(use.pool, "a100");
  EXPECT_EQ(use.held.gpus(Doing::kStarting), 4000);
  EXPECT_EQ(use.held.milli_cpus, 8000);
  EXPECT_EQ(use.held.memory_mib, 16 * 1024);
  EXPECT_EQ(use.begin, kStart);
  job.status.started_at = kStart + seconds{30};
  use = use_of(job, job.status, wish, pods, {});
  EXPECT_EQ(use.held.gpus(Doing::kStarting), 0);
  EXPECT_EQ(use.held.gpus(Doing::kRunning), 4000);
  EXPECT_EQ(use.whole, kStart + seconds{30});
}

TEST_F(JobUseTest, GpusThatAreNotUsedAreIdle) {
  job.status.started_at = kStart;
  crds::set_condition(job.status.conditions,
                      {"Idle", crds::ConditionStatus::kTrue, 1, kStart, "GpusIdle", ""});
  EXPECT_EQ(held().gpus(Doing::kIdle), 4000);
  EXPECT_EQ(held().gpus(Doing::kRunning), 0);
  EXPECT_EQ(use_of(job, job.status, wish, pods, {}).idle_since, kStart);
}

TEST_F(JobUseTest, PodsThatAreToGoSaveUntilTheyHaveEnded) {
  pod(2, 0, "node-0", "0,1");
  pod(2, 1, "node-1", "0,1");
  job.status.assignment = {};
  EXPECT_EQ(held().gpus(Doing::kSaving), 4000);
  EXPECT_EQ(held().milli_cpus, 8000);
  auto ended = *pods[0];
  ended.phase = client::PodPhase::kFailed;
  pods[0] = std::make_shared<const client::Pod>(ended);
  EXPECT_EQ(held().gpus(Doing::kSaving), 2000);
}

TEST_F(JobUseTest, GpusThatTheNextAttemptHasAgainCountOnce) {
  pod(1, 0, "node-0", "0,1");
  pod(1, 1, "node-1", "0,1");
  pod(1, 2, "node-2", "0,1");
  EXPECT_EQ(held().gpus(Doing::kStarting), 4000);
  EXPECT_EQ(held().gpus(Doing::kSaving), 2000);
}

TEST_F(JobUseTest, PartsOfGpusCountAsParts) {
  const auto use =
      use_of(job, job.status, wish, pods, [](const crds::PodAssignment&) { return crds::MilliGpu{250}; });
  EXPECT_EQ(use.held.milli_gpus[0], 500);
}

TEST_F(JobUseTest, WhatWaitsHoldsNothing) {
  job.status.assignment = {};
  EXPECT_EQ(held(), Held{});
}

}  // namespace
}  // namespace muster::reconcilers
