// What a Project allows its jobs and what it gives to those that state nothing.
#include <gmock/gmock.h>

#include "fixture.h"

namespace muster::test {
namespace {

using testing::HasSubstr;

const std::string kProject = "/apis/muster.dev/v1alpha1/projects/strict";

class Policy : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    cluster_ = Cluster::start(1, 8);
    muster_ = cluster_->muster();
    cluster_->apply(R"(
apiVersion: muster.dev/v1alpha1
kind: Project
metadata: {name: strict}
spec:
  queue: root
  quota: {gpu: 8}
  policy:
    interactive: {maxRuntime: 12h, idleTimeout: 1h}
    batch: {maxRuntime: 1d12h}
    maxGPUsPerJob: 4
    allowedPools: [default, spare]
    defaultPool: default
    defaults: {priorityClassName: training, gpus: {count: 2}, cpuPerGPU: 3, memoryPerGPU: 5Gi}
)");
    ASSERT_TRUE(cluster_->wait_namespace("strict"));
    // The policies are in force some time after they were made.
    ASSERT_TRUE(cluster_->wait(30s, [] {
      const auto probe = apply("probe", {{"maxRuntime", "99d"}});
      if (probe.ok()) cluster_->remove(path_of_job("probe", "strict"));
      return probe.err.find("policy.batch.maxRuntime") != std::string::npos;
    }));
  }
  static void TearDownTestSuite() {
    muster_.reset();
    cluster_.reset();
  }
  void TearDown() override {
    if (HasFailure() && muster_) std::cerr << muster_->log().substr(0, 20000);
    cluster_->remove_all_jobs();
  }

  static testcluster::CommandResult apply(const std::string& name, const json& spec, int replicas = 1,
                                          int gpus = 1) {
    const auto result = cluster_->real().kubectl(
        {"apply", "-f", "-"},
        job_object({.name = name, .ns = "strict", .replicas = replicas, .gpus = gpus, .spec = spec}).dump());
    if (!result) throw std::runtime_error(result.error());
    return *result;
  }
  static void expect_refused(const testcluster::CommandResult& result, const std::string& words) {
    EXPECT_FALSE(result.ok());
    EXPECT_THAT(result.err, HasSubstr(words));
  }
  // Image and command alone.
  static void bare(const std::string& name, int replicas = 1) {
    cluster_->apply(
        "{apiVersion: muster.dev/v1alpha1, kind: TrainingJob, metadata: {name: " + name +
        ", namespace: strict}, spec: {roles: [{name: main, replicas: " + std::to_string(replicas) +
        ", template: {spec: {containers: [{name: main, image: registry.example/x, command: [run]}]}}}]}}");
  }

  static inline std::unique_ptr<Cluster> cluster_;
  static inline std::unique_ptr<MusterProcess> muster_;
};

TEST_F(Policy, WhatIsNotAllowedIsRefusedAtOnceWithRuleAndNumbers) {
  expect_refused(
      apply("long", {{"maxRuntime", "37h"}}),
      "spec.maxRuntime: 37h is more than the 1d12h that Project strict allows (policy.batch.maxRuntime)");
  expect_refused(apply("notebook", {{"mode", "Interactive"}, {"maxRuntime", "12h1m"}}),
                 "spec.maxRuntime: 12h1m is more than the 12h that Project strict allows "
                 "(policy.interactive.maxRuntime)");
  const json notebook = {{"mode", "Interactive"}, {"maxRuntime", "12h"}, {"idle", {{"timeout", "1h1s"}}}};
  expect_refused(apply("notebook", notebook),
                 "spec.idle.timeout: 1h1s is more than the 1h that Project strict allows "
                 "(policy.interactive.idleTimeout)");
  expect_refused(apply("big", json::object(), 3, 2),
                 "spec.roles: ask for 6 GPUs in all, more than the 4 that Project strict allows a job "
                 "(policy.maxGPUsPerJob)");
  expect_refused(
      apply("far", {{"pools", {"default", "b200"}}}),
      "spec.pools: b200 is not one of default, spare, the pools of Project strict (policy.allowedPools)");
  EXPECT_TRUE(apply("right", {{"maxRuntime", "36h"}, {"pools", {"spare", "default"}}}, 2, 2).ok());
  expect_refused(apply("right", {{"maxRuntime", "40h"}, {"pools", {"spare", "default"}}}, 2, 2),
                 "40h is more than");
}

TEST_F(Policy, OtherProjectsDoNotKnowOfIt) {
  cluster_->create(job_object({.name = "free", .replicas = 6, .spec = {{"maxRuntime", "99d"}}}));
  EXPECT_TRUE(cluster_->wait_phase("free", "Running"));
}

TEST_F(Policy, AJobOfImageAndCommandAloneTakesTheDefaultsAndItsSpecStays) {
  bare("hello");
  ASSERT_TRUE(cluster_->wait_phase("hello", "Running", 30s, "strict"))
      << cluster_->job("hello", "strict").dump(2);
  const json job = cluster_->job("hello", "strict");
  EXPECT_EQ(job["status"]["effective"], json::parse(R"({"priorityClassName": "training", "pools": ["default"],
      "maxRuntime": "1d12h", "roles": [{"name": "main", "gpus": {"count": 2}, "cpu": "6", "memory": "10Gi"}]})"));
  EXPECT_FALSE(job["spec"].contains("priorityClassName"));
  EXPECT_FALSE(job["spec"].contains("maxRuntime"));
  EXPECT_FALSE(job["spec"]["roles"][0].contains("gpus"));
  EXPECT_EQ(job["metadata"]["generation"], 1);
  const json pod = cluster_->pods("hello", "strict")[0];
  EXPECT_EQ(pod["spec"]["priorityClassName"], "training");
  EXPECT_EQ(pod["spec"]["containers"][0]["resources"]["requests"],
            json::parse(R"({"cpu": "6", "memory": "10Gi", "nvidia.com/gpu": "2"})"));
  // What runs keeps what it took; what starts later takes what is stated then.
  cluster_->patch(kProject, {{"spec", {{"policy", {{"defaults", {{"gpus", {{"count", 1}}}}}}}}}});
  bare("later");
  ASSERT_TRUE(cluster_->wait_phase("later", "Running", 30s, "strict"));
  EXPECT_EQ(cluster_->job("later", "strict")["status"]["effective"]["roles"][0]["cpu"], "3");
  EXPECT_EQ(cluster_->job("hello", "strict")["status"]["effective"], job["status"]["effective"]);
  EXPECT_EQ(cluster_->job("hello", "strict")["status"]["attempt"], 1);
  cluster_->patch(kProject, {{"spec", {{"policy", {{"defaults", {{"gpus", {{"count", 2}}}}}}}}}});
}

TEST_F(Policy, AnInteractiveJobTakesItsEndFromTheProject) {
  ASSERT_TRUE(apply("note", {{"mode", "Interactive"}}).ok());
  ASSERT_TRUE(cluster_->wait_phase("note", "Running", 20s, "strict"))
      << cluster_->job("note", "strict").dump(2);
  const json effective = cluster_->job("note", "strict")["status"]["effective"];
  EXPECT_EQ(effective["maxRuntime"], "12h");
  EXPECT_EQ(effective["idleTimeout"], "1h");
}

TEST_F(Policy, WhatTheApiServerCannotSeeIsToldByTheStatus) {
  bare("many", 3);  // 2 GPUs each by default: 6
  ASSERT_TRUE(cluster_->wait(15s, [&] { return cluster_->reason("many", "strict") == "PolicyViolation"; }))
      << cluster_->job("many", "strict").dump(2);
  const json accepted = cluster_->condition("many", "Accepted", "strict");
  EXPECT_EQ(accepted["status"], "False");
  EXPECT_EQ(accepted["reason"], "PolicyViolation");
  EXPECT_THAT(accepted["message"].get<std::string>(), HasSubstr("ask for 6 GPUs in all, more than the 4"));
  EXPECT_TRUE(cluster_->pods("many", "strict").empty());
  cluster_->patch(kProject, {{"spec", {{"policy", {{"maxGPUsPerJob", 6}}}}}});
  EXPECT_TRUE(cluster_->wait_phase("many", "Running", 20s, "strict"));
  // Tightened again: what runs is not judged anew, and may still be labelled and suspended.
  cluster_->patch(kProject, {{"spec", {{"policy", {{"maxGPUsPerJob", 4}}}}}});
  cluster_->patch(path_of_job("many", "strict"), {{"metadata", {{"labels", {{"note", "mine"}}}}}});
  EXPECT_EQ(cluster_->phase("many", "strict"), "Running");
  // It holds its 6 of the 8 GPUs: three more are not there.
  ASSERT_TRUE(apply("more", json::object(), 3).ok());
  EXPECT_TRUE(cluster_->wait(10s, [&] { return !cluster_->reason("more", "strict").empty(); }));
  EXPECT_TRUE(cluster_->pods("more", "strict").empty());
  EXPECT_EQ(cluster_->phase("more", "strict"), "Queued");
  cluster_->patch(path_of_job("many", "strict"), {{"spec", {{"suspend", true}}}});
  EXPECT_TRUE(cluster_->wait_phase("many", "Suspended", 20s, "strict"));
}

}  // namespace
}  // namespace muster::test
