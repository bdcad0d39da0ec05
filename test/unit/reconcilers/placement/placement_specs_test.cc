// Objects to what placement takes; what a cluster does not get yet.
#include "muster/reconcilers/placement/placement_specs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <chrono>
#include <limits>
#include <memory>
#include <nlohmann/json.hpp>
#include <optional>

#include "muster/reconcilers/jobs/translate.h"

namespace muster::reconcilers {
namespace {

namespace pl = placement;

TEST(GpuLinks, AreRankedAsNvidiaPrintsThem) {
  const auto links = parse_gpu_links("X NV2 SYS; NV2 X PIX; SYS PIX X");
  ASSERT_TRUE(links);
  const auto& l = *links;
  EXPECT_EQ(l.size(), 3U);
  EXPECT_GT(l[0][1], l[1][2]);
  EXPECT_GT(l[1][2], l[0][2]);
  EXPECT_EQ(l[1][0], l[0][1]);
  const auto printed = parse_gpu_links(
      "\tGPU0\tGPU1\tCPU Affinity\tNUMA Affinity\nGPU0\t X \tNV12\t0-31\t0\nGPU1\tNV12\t X \t0-31\t0\n");
  ASSERT_TRUE(printed);
  EXPECT_EQ(printed->size(), 2U);
  EXPECT_GT((*printed)[0][1], l[0][1]);
}

TEST(GpuLinks, WhatIsNoMatrixIsRefused) {
  for (const char* text : {"", "NV1 NV1", "X NV2; NV1 X", "X PIX; PIX", "X FAST; FAST X", "PIX X; X PIX"})
    EXPECT_FALSE(parse_gpu_links(text)) << text;
  EXPECT_EQ(*parse_gpu_numa("0,0,1"), (std::vector<std::int32_t>{0, 0, 1}));
  for (const char* text : {"", "a", "0 1", "-1", "0;1"}) EXPECT_FALSE(parse_gpu_numa(text)) << text;
}

TEST(NodeSpec, ReadsLabelsAnnotationsAndSlices) {
  client::Node node;
  node.meta.name = "n1";
  node.ready = true;
  node.labels = {{"nvidia.com/gpu.memory", "81920"}, {"nvidia.com/gpu.product", "A100"}};
  node.annotations = {{"muster.dev/gpu-links", "X NV1;NV1 X"}, {"muster.dev/gpu-numa", "0,1"}};
  node.extended = {
      {"hugepages-2Mi", 2 << 20}, {"nvidia.com/gpu", 2}, {"nvidia.com/mig-1g.10gb", 7}, {"vendor/nic", 3}};
  const auto spec = node_spec(node, {"nvidia.com/gpu"});
  EXPECT_EQ(spec.named, (pl::NamedAmounts{{"hugepages-2Mi", 2 << 20}, {"vendor/nic", 3}}));
  EXPECT_EQ(spec.gpus, 2);
  EXPECT_EQ(spec.gpu_model, "A100");
  EXPECT_EQ(spec.gpu_memory.value, 81920LL << 20);
  EXPECT_EQ(spec.gpu_links.size(), 2U);
  EXPECT_EQ(spec.gpu_numa, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(spec.mig, (std::map<std::string, std::int32_t>{{"1g.10gb", 7}}));
}

// --- why a job waits

TEST(Waiting, SaysToTheMinuteWhenItIsLikelyToStart) {
  pl::PendingReason reason;
  reason.reason = pl::Reason::kInsufficientCapacity;
  EXPECT_EQ(to_waiting(reason).estimated_start, std::nullopt);
  for (const std::int64_t ms : {60'001, 90'000, 120'000}) {
    reason.estimated_start = pl::Time{ms};
    EXPECT_EQ(to_waiting(reason).estimated_start, crds::Time{std::chrono::minutes{2}}) << ms;
  }
}

// --- what a disturbance may cost, and what it costs

TEST(QueueSpec, HasWhatDisturbancesMayCost) {
  crds::Project project;
  EXPECT_EQ(queue_spec(project).max_overhead, std::nullopt);
  EXPECT_EQ(queue_spec(project).patience, std::nullopt);
  EXPECT_EQ(queue_spec(project).lends_non_preemptible, std::nullopt) << "as the parent";
  project.spec.disruption = {.max_overhead = 0, .patience = std::chrono::minutes{90}};
  project.spec.lending.emplace().non_preemptible = {std::chrono::hours{4}};
  EXPECT_EQ(queue_spec(project).max_overhead, 0);
  EXPECT_EQ(queue_spec(project).patience, pl::seconds(5400));
  EXPECT_EQ(queue_spec(project).lends_non_preemptible, pl::seconds(4 * 3600));

  crds::Queue queue;
  queue.spec.disruption = {.max_overhead = 100, .patience = std::nullopt};
  queue.spec.lending.emplace();
  EXPECT_EQ(queue_spec(queue).max_overhead, 100);
  EXPECT_EQ(queue_spec(queue).patience, std::nullopt);
  EXPECT_EQ(queue_spec(queue).lends_non_preemptible, pl::Duration{}) << "to nobody, whatever the parent says";
}

crds::TrainingJob one_worker(const char* pod_template = "{}") {
  crds::TrainingJob job;
  crds::Role& worker = job.spec.roles.emplace_back();
  worker.name = "worker";
  worker.pod_template.value = std::make_shared<const crds::Json>(crds::Json::parse(pod_template));
  return job;
}

TEST(JobSpec, SaysHowLongItsPodsHaveToEnd) {
  const auto grace = [](const crds::TrainingJob& job) {
    return job_spec(job, "nlp", 0, {}, {}).grace_period;
  };
  EXPECT_EQ(grace(one_worker()), pl::seconds(30));
  auto job = one_worker(R"({"spec": {"terminationGracePeriodSeconds": 120}})");
  EXPECT_EQ(grace(job), pl::seconds(120));
  job.spec.checkpoint.emplace().grace_period = std::chrono::seconds{45};
  EXPECT_EQ(grace(job), pl::seconds(45));
  EXPECT_EQ(grace(one_worker(R"({"spec": {"terminationGracePeriodSeconds": -5}})")), pl::Duration{});
  EXPECT_GT(grace(one_worker(R"({"spec": {"terminationGracePeriodSeconds": 9223372036854775807}})")),
            pl::seconds(1'000'000'000));
}

TEST(JobSpec, SaysWhetherAnotherSizeIsARestart) {
  auto job = one_worker();
  job.spec.roles.front().min_replicas = 1;
  job.spec.roles.front().max_replicas = 2;
  EXPECT_TRUE(job_spec(job, "nlp", 0, {}, {}).resizes_in_place);
  job.spec.elastic.emplace().resize = crds::Resize::kRestart;
  EXPECT_FALSE(job_spec(job, "nlp", 0, {}, {}).resizes_in_place);
}

constexpr crds::Time kStart{std::chrono::sys_days{std::chrono::year{2026} / 1 / 2}};

struct Progress : testing::Test {
  Progress() { job.status.assignment.admitted_at = kStart; }
  pl::Progress progress() const { return progress_spec(job.spec, job.status); }
  crds::TrainingJob job = one_worker();
};

TEST_F(Progress, TheLastStartIsKnownFromAttemptsBefore) {
  EXPECT_EQ(progress().start_took, std::nullopt);
  job.status.started_at = kStart + std::chrono::seconds{70};
  EXPECT_EQ(progress().start_took, pl::seconds(70)) << "of a status from before it was kept";
  job.status.disruption.start_seconds = 90;
  EXPECT_EQ(progress().start_took, pl::seconds(90));
  job.status.started_at.reset();
  EXPECT_EQ(progress().start_took, pl::seconds(90));
}

TEST_F(Progress, AnAttemptStartsUntilItsPodsHaveBeenReady) {
  EXPECT_FALSE(progress().is_starting) << "it has no attempt";
  job.status.assignment.attempt = 2;
  EXPECT_TRUE(progress().is_starting);
  job.status.started_at = kStart + std::chrono::seconds{70};
  EXPECT_FALSE(progress().is_starting);
}

TEST_F(Progress, ItIsTakenToSaveWhenAskedUntilAnEvictionHasShown) {
  EXPECT_FALSE(progress().saves_when_asked);
  job.spec.checkpoint.emplace();
  EXPECT_TRUE(progress().saves_when_asked) << "it states checkpoint";
  job.spec.checkpoint.reset();
  job.status.checkpoint.step = 0;
  EXPECT_TRUE(progress().saves_when_asked) << "it has reported";
  job.status.disruption.saves_when_asked = false;
  EXPECT_FALSE(progress().saves_when_asked);
  job.status.checkpoint.step.reset();
  job.status.disruption.saves_when_asked = true;
  EXPECT_TRUE(progress().saves_when_asked);
}

TEST_F(Progress, HasWhatChangesHaveTaken) {
  EXPECT_EQ(progress().save_took, std::nullopt);
  EXPECT_EQ(progress().resize_took, std::nullopt);
  job.status.checkpoint.save_seconds = 12;
  job.status.disruption.resize_seconds = 25;
  EXPECT_EQ(progress().save_took, pl::seconds(12));
  EXPECT_EQ(progress().resize_took, pl::seconds(25));
}

TEST_F(Progress, CountsInThousandthsAndMilliseconds) {
  job.status.disruption.ran = 7;
  job.status.disruption.lost_optional = 3;
  job.status.disruption.lost_owed = 5;
  EXPECT_EQ(progress().ran, pl::WorkTime{7'000'000});
  EXPECT_EQ(progress().lost, pl::WorkTime{3'000'000});
  EXPECT_EQ(to_seconds({3'000'000}), 3);
  EXPECT_EQ(to_seconds({3'000'001}), 4) << "rounded up";
  EXPECT_EQ(to_seconds({-1}), 0);
}

// A status is what somebody wrote.
TEST_F(Progress, AbsurdNumbersStayNumbers) {
  constexpr auto kMost = std::numeric_limits<std::int64_t>::max();
  auto& known = job.status.disruption;
  known.ran = known.lost_optional = kMost;
  known.start_seconds = known.resize_seconds = kMost;
  job.status.checkpoint.save_seconds = kMost;
  EXPECT_GT(progress().ran, pl::WorkTime{kMost / 2});
  EXPECT_GT(progress().start_took, pl::Duration{kMost / 2});
  EXPECT_GT(progress().save_took, pl::Duration{kMost / 2});
  EXPECT_EQ(to_seconds({kMost}), kMost / 1'000'000 + 1);
  known.ran = known.lost_optional = -kMost;
  EXPECT_EQ(progress().ran, pl::WorkTime{0});
  EXPECT_EQ(progress().lost, pl::WorkTime{0});
}

TEST(OtherPod, HasAllItsLabels) {
  client::Pod pod;
  pod.labels = {{"muster.dev/job", "a"}};
  pod.other_labels = {{"app", "cache"}};
  EXPECT_EQ(other_pod(pod, "", {}).labels, (pl::Labels{{"app", "cache"}, {"muster.dev/job", "a"}}));
}

pl::JobSpec replica(const crds::ReplicaPlacement& placement) {
  crds::TrainingJob job;
  job.metadata.name = "chat-0a1b2-7";
  job.metadata.labels = {{"muster.dev/service", "chat"}, {"muster.dev/revision", "0a1b2"}, {"other", "x"}};
  job.spec.roles.emplace_back().name = "server";
  auto spec = job_spec(job, "", 0, {PodNeeds{}}, {});
  keep_apart(spec, placement);
  return spec;
}

// Those of its own gang, and of another revision, may stand beside it.
TEST(KeepApart, AReplicaAvoidsTheOthersOfItsRevision) {
  const std::vector<pl::Requirement> others = {{"muster.dev/service", pl::Operator::kIn, {"chat"}},
                                               {"muster.dev/revision", pl::Operator::kIn, {"0a1b2"}},
                                               {"muster.dev/job", pl::Operator::kNotIn, {"chat-0a1b2-7"}}};
  auto role = replica({}).roles.at(0);
  EXPECT_EQ(role.labels, (pl::Labels{{"muster.dev/job", "chat-0a1b2-7"},
                                     {"muster.dev/revision", "0a1b2"},
                                     {"muster.dev/role", "server"},
                                     {"muster.dev/service", "chat"}}));
  EXPECT_EQ(role.pod_anti_affinity, (std::vector<pl::PodTerm>{{others, {}, "kubernetes.io/hostname"}}));
  EXPECT_TRUE(role.required.empty()) << "a node is known by its name";

  role = replica({crds::ReplicaSpread::kRequired, "rack"}).roles.at(0);
  EXPECT_EQ(role.pod_anti_affinity, (std::vector<pl::PodTerm>{{others, {}, "rack"}}));
  ASSERT_EQ(role.required.size(), 1u) << "nodes without the label are in no rack";
  EXPECT_EQ(role.required[0].at(0).labels,
            (std::vector<pl::Requirement>{{"rack", pl::Operator::kExists, {}}}));

  role = replica({crds::ReplicaSpread::kPreferred, "rack"}).roles.at(0);
  EXPECT_TRUE(role.pod_anti_affinity.empty());
  EXPECT_TRUE(role.required.empty());
  ASSERT_EQ(role.preferred_pods.size(), 1u);
  EXPECT_EQ(role.preferred_pods[0].first, -100);
  EXPECT_EQ(role.preferred_pods[0].second.selector, others);
}

// One program listens on one port of its node, whatever its revision.
TEST(KeepApart, ReplicasOnTheNodesNetworkDoNotShareANode) {
  crds::TrainingJob job;
  job.metadata.name = "chat-0a1b2-7";
  job.metadata.labels = {{"muster.dev/service", "chat"}, {"muster.dev/revision", "0a1b2"}};
  job.spec.roles.emplace_back().name = "router";
  job.spec.roles.emplace_back().name = "decode";
  const auto on_host =
      server_needs(crds::Json::parse(R"({"spec": {"hostNetwork": true, "containers": [{"name": "main"}]}})"),
                   std::nullopt, "t");
  ASSERT_TRUE(on_host);
  const std::vector<PodNeeds> needs = {*on_host, PodNeeds{}};
  auto spec = job_spec(job, "", 0, needs, {});
  keep_ports_apart(spec, needs);
  const std::vector<pl::Requirement> others = {{"muster.dev/service", pl::Operator::kIn, {"chat"}},
                                               {"muster.dev/role", pl::Operator::kIn, {"router"}},
                                               {"muster.dev/job", pl::Operator::kNotIn, {"chat-0a1b2-7"}}};
  EXPECT_EQ(spec.roles[0].pod_anti_affinity,
            (std::vector<pl::PodTerm>{{others, {}, "kubernetes.io/hostname"}}));
  EXPECT_TRUE(spec.roles[1].pod_anti_affinity.empty());
}

}  // namespace
}  // namespace muster::reconcilers
