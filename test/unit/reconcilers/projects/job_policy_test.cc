// What a job takes from its Project's defaults, and what the Project's policy refuses.
#include "muster/reconcilers/projects/job_policy.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/crds/codec.h"

namespace muster::reconcilers {
namespace {

using crds::Json;
using testing::HasSubstr;

template <class T>
T read(const std::string& json) {
  auto value = crds::from_json<T>(Json::parse(json));
  if (!value) throw std::runtime_error(crds::to_string(value.error()));
  return *std::move(value);
}
crds::Project project(const std::string& policy) {
  return read<crds::Project>(R"({"metadata": {"name": "nlp"}, "spec": {"queue": "q", "policy": )" + policy +
                             "}}");
}
// `more` goes before the roles: "\"mode\": \"Batch\",".
crds::TrainingJobSpec job(const std::string& roles, const std::string& more = {}) {
  return read<crds::TrainingJob>(R"({"metadata": {"name": "j"}, "spec": {)" + more + R"("roles": [)" + roles +
                                 "]}}")
      .spec;
}
const std::string kBare =
    R"({"name": "main", "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}})";
std::string role(const std::string& gpus, int replicas = 1, const std::string& resources = "{}") {
  return R"({"name": "main", "replicas": )" + std::to_string(replicas) + R"(, "gpus": )" + gpus +
         R"(, "template": {"spec": {"containers": [{"name": "c", "image": "i", "resources": )" + resources +
         "}]}}}";
}
std::optional<std::string> violation(const crds::Project& p, const crds::TrainingJobSpec& spec,
                                     const std::string& pool, const crds::StringMap& labels = {},
                                     bool serves = false) {
  return violation(p, Judged{spec, labels, serves}, pool);
}
const Json& requests(const crds::TrainingJobSpec& spec) {
  return spec.roles[0].pod_template.value->at("spec").at("containers")[0].at("resources").at("requests");
}

const std::string kDefaults = R"({"batch": {"maxRuntime": "2d"}, "defaultPool": "a100",
  "defaults": {"priorityClassName": "training", "gpus": {"count": 2}, "cpuPerGPU": 8, "memoryPerGPU": "64Gi"}})";

TEST(JobPolicy, AJobOfImageAndCommandAloneTakesEverything) {
  const auto p = project(kDefaults);
  const auto taken = taken_from(p, job(kBare));
  EXPECT_EQ(taken.priority_class_name, "training");
  EXPECT_THAT(taken.pools, testing::ElementsAre("a100"));
  EXPECT_EQ(taken.max_runtime, std::chrono::hours{48});
  const auto spec = with(taken, job(kBare));
  EXPECT_EQ(spec.roles[0].gpus->count, 2);
  EXPECT_EQ(requests(spec), Json::parse(R"({"cpu": "16", "memory": "128Gi"})"));
  EXPECT_EQ(spec.priority_class_name, "training");
  EXPECT_EQ(spec.max_runtime, std::chrono::hours{48});
}

TEST(JobPolicy, WhatTheJobStatesStands) {
  const auto spec =
      job(role(R"({"count": 1})", 1, R"({"limits": {"cpu": "3"}, "requests": {"memory": "1Gi"}})"),
          R"("priorityClassName": "interactive", "pools": ["h100"], "maxRuntime": "1h",)");
  EXPECT_EQ(taken_from(project(kDefaults), spec), crds::Effective{});
}

TEST(JobPolicy, ARoleWithCpusAloneAndOneBesideGpusGetNone) {
  const auto cpu_only = job(R"({"name": "main", "template": {"spec": {"containers": [
      {"name": "c", "image": "i", "resources": {"requests": {"cpu": "1"}}}]}}})");
  EXPECT_TRUE(taken_from(project(kDefaults), cpu_only).roles.empty());
  const auto taken =
      taken_from(project(kDefaults), job(role(R"({"count": 1})") +
                                         R"(, {"name": "launcher", "template": {"spec": {"containers": [
      {"name": "c", "image": "i"}]}}})"));
  ASSERT_EQ(taken.roles.size(), 1u);
  EXPECT_EQ(taken.roles[0].name, "main");
  EXPECT_FALSE(taken.roles[0].gpus);
}

TEST(JobPolicy, CpuAndMemoryFollowPartsOfGpusRoundedUp) {
  const auto p = project(R"({"defaults": {"cpuPerGPU": "1500m", "memoryPerGPU": "1001"}})");
  const auto taken = [&](const char* gpus) { return taken_from(p, job(role(gpus))).roles.at(0); };
  EXPECT_EQ(taken(R"({"fraction": "500m"})").cpu->value, 750);
  EXPECT_EQ(taken(R"({"fraction": "500m"})").memory->value, 501);
  EXPECT_EQ(taken(R"({"fraction": "500m", "devices": 4})").cpu->value, 3000);
  EXPECT_EQ(taken(R"({"mig": "3g.40gb", "count": 2})").cpu->value, 1287) << "858 of 1000";
  EXPECT_EQ(taken(R"({"memory": "10Gi"})").cpu->value, 1500);
}

TEST(JobPolicy, WithoutAPolicyNothingIsTakenOrRefused) {
  crds::Project bare;
  bare.metadata.name = "nlp";
  EXPECT_EQ(taken_from(bare, job(kBare)), crds::Effective{});
  EXPECT_EQ(violation(bare, job(role(R"({"count": 256})", 100)), "a100"), std::nullopt);
}

TEST(JobPolicy, MaxRuntimeIsHeldAgainstTheModesOwn) {
  const auto p = project(R"({"interactive": {"maxRuntime": "12h"}, "batch": {"maxRuntime": "1d12h"}})");
  const auto refused = [&](const char* more) { return violation(p, job(kBare, more), ""); };
  EXPECT_EQ(refused(R"("maxRuntime": "36h",)"), std::nullopt);
  EXPECT_EQ(
      refused(R"("maxRuntime": "37h",)"),
      "spec.maxRuntime: 1d13h is more than the 1d12h that Project nlp allows (policy.batch.maxRuntime)");
  EXPECT_THAT(refused(R"("mode": "Interactive", "maxRuntime": "13h",)").value(),
              HasSubstr("the 12h that Project nlp allows (policy.interactive.maxRuntime)"));
}

TEST(JobPolicy, GpusOfAllRolesAndReplicasCount) {
  const auto p = project(R"({"maxGPUsPerJob": 8})");
  EXPECT_EQ(violation(p, job(role(R"({"count": 2})", 4)), ""), std::nullopt);
  EXPECT_EQ(violation(p, job(role(R"({"count": 2})", 5)), ""),
            "spec.roles: ask for 10 GPUs in all, more than the 8 that Project nlp allows a job "
            "(policy.maxGPUsPerJob)");
  EXPECT_EQ(violation(p, job(role(R"({"fraction": "500m"})", 16)), ""), std::nullopt);
  EXPECT_THAT(violation(p, job(role(R"({"fraction": "500m"})", 17)), "").value(),
              HasSubstr("ask for 8500m GPUs"));
  EXPECT_TRUE(violation(p, job(R"({"name": "main", "minReplicas": 1, "maxReplicas": 9, "gpus": {"count": 1},
      "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}})"),
                        ""))
      << "it may grow to that";
}

TEST(JobPolicy, PoolsMustBeAllowedAlsoTheOneThatIsNotNamed) {
  const auto p = project(R"({"allowedPools": ["a100", "h100"]})");
  EXPECT_EQ(violation(p, job(kBare, R"("pools": ["h100", "a100"],)"), ""), std::nullopt);
  EXPECT_EQ(violation(p, job(kBare, R"("pools": ["h100", "b200"],)"), ""),
            "spec.pools: b200 is not one of a100, h100, the pools of Project nlp (policy.allowedPools)");
  EXPECT_EQ(violation(p, job(kBare), "a100"), std::nullopt);
  EXPECT_THAT(violation(p, job(kBare), "b200").value(), HasSubstr("this is the cluster's default"));
  EXPECT_EQ(violation(p, job(kBare), ""), std::nullopt) << "placement says NoDefaultPool";
}

TEST(JobPolicy, RolesThatAreGoneArePassedOver) {
  crds::Effective taken;
  taken.roles = {{.name = "gone", .gpus = crds::DefaultGpus{3}, .cpu = {}, .memory = {}}};
  EXPECT_EQ(with(taken, job(kBare)), job(kBare));
}

TEST(JobPolicy, TheIdleTimeoutOfTheModeIsTheMostAndWhatAJobGetsThatStatesNone) {
  const auto p = project(R"({"interactive": {"idleTimeout": "1h"}, "batch": {"idleTimeout": "2h"}})");
  const auto batch = job(kBare);
  EXPECT_EQ(with(taken_from(p, batch), batch).idle.value().timeout, std::chrono::hours{2});
  const auto bound = job(kBare, R"("mode": "Interactive", "idle": {"gpuUtilizationBelow": 20},)");
  const auto effective = with(taken_from(p, bound), bound);
  EXPECT_EQ(effective.idle.value().timeout, std::chrono::hours{1});
  EXPECT_EQ(effective.idle.value().gpu_utilization_below, 20);
  const auto states = job(kBare, R"("mode": "Interactive", "idle": {"timeout": "30m"},)");
  EXPECT_EQ(taken_from(p, states).idle_timeout, std::nullopt);
  EXPECT_EQ(violation(p, states, ""), std::nullopt);
  EXPECT_EQ(violation(p, job(kBare, R"("mode": "Interactive", "idle": {"timeout": "2h"},)"), ""),
            "spec.idle.timeout: 2h is more than the 1h that Project nlp allows "
            "(policy.interactive.idleTimeout)");
  const auto none = project("{}");
  EXPECT_FALSE(with(taken_from(none, batch), batch).idle);
}

// A job of one role whose pod is this.
crds::TrainingJobSpec pod(const std::string& spec, const std::string& more = {}) {
  return job(R"({"name": "main", "template": {"spec": )" + spec + "}}", more);
}
crds::TrainingJobSpec image(const std::string& name) {
  return pod(R"({"containers": [{"name": "c", "image": ")" + name + R"("}]})");
}

TEST(JobPolicy, PodsOfAllRolesAtTheirLargestCount) {
  const auto p = project(R"({"maxPodsPerJob": 4})");
  EXPECT_EQ(violation(p, job(role(R"({"count": 1})", 4)), ""), std::nullopt);
  EXPECT_EQ(violation(p, job(role(R"({"count": 1})", 5)), ""),
            "spec.roles: ask for 5 pods in all, more than the 4 that Project nlp allows a job "
            "(policy.maxPodsPerJob)");
  EXPECT_TRUE(violation(p, job(R"({"name": "main", "minReplicas": 1, "maxReplicas": 5,
      "template": {"spec": {"containers": [{"name": "c", "image": "i"}]}}})"),
                        ""))
      << "it may grow to that";
}

TEST(JobPolicy, AClassThatIsNamedMustBeAllowed) {
  const auto p = project(R"({"allowedPriorityClasses": ["training", "interactive"]})");
  EXPECT_EQ(violation(p, job(kBare), ""), std::nullopt) << "it has the cluster's default";
  EXPECT_EQ(violation(p, job(kBare, R"("priorityClassName": "training",)"), ""), std::nullopt);
  EXPECT_EQ(violation(p, job(kBare, R"("priorityClassName": "urgent",)"), ""),
            "spec.priorityClassName: urgent is not one of training, interactive, the classes of Project nlp "
            "(policy.allowedPriorityClasses)");
  EXPECT_FALSE(allows_class(p, "inference"));
  EXPECT_TRUE(allows_class(p, "training"));
  EXPECT_TRUE(allows_class(project("{}"), "inference"));
}

TEST(JobPolicy, OnlyAllowedClaimsAreMounted) {
  const auto p = project(R"({"allowedClaims": ["data", "checkpoints"]})");
  const auto mounts = [](const std::string& claim) {
    return pod(R"({"containers": [{"name": "c", "image": "x"}], "volumes": [{"name": "t", "emptyDir": {}},
        {"name": "d", "persistentVolumeClaim": {"claimName": ")" +
               claim + R"("}}]})");
  };
  EXPECT_EQ(violation(p, mounts("data"), ""), std::nullopt);
  EXPECT_EQ(
      violation(p, mounts("theirs"), ""),
      "spec.roles[0].template.spec.volumes[1].persistentVolumeClaim.claimName: theirs is not one of data, "
      "checkpoints, the claims of Project nlp (policy.allowedClaims)");
  EXPECT_EQ(violation(project("{}"), mounts("theirs"), ""), std::nullopt);
  const auto saves = [](const std::string& claim) {
    return job(kBare, R"("checkpoint": {"claimName": ")" + claim + R"(", "mountPath": "/c"},)");
  };
  EXPECT_EQ(violation(p, saves("checkpoints"), ""), std::nullopt);
  EXPECT_EQ(violation(p, saves("theirs"), ""),
            "spec.checkpoint.claimName: theirs is not one of data, checkpoints, the claims of Project nlp "
            "(policy.allowedClaims)");
}

TEST(JobPolicy, OnlyAllowedResourcesAreAskedFor) {
  const auto p = project(R"({"allowedResources": ["hugepages-2Mi"]})");
  const auto asks = [](const std::string& list) {
    return pod(R"({"containers": [{"name": "c", "image": "x", "resources": )" + list + "}]}");
  };
  EXPECT_EQ(violation(p, asks(R"({"requests": {"cpu": 1, "memory": 1, "ephemeral-storage": 1}})"), ""),
            std::nullopt);
  EXPECT_EQ(violation(p, asks(R"({"limits": {"hugepages-2Mi": "2Mi"}})"), ""), std::nullopt);
  EXPECT_EQ(violation(p, asks(R"({"requests": {"cpu": 1}, "limits": {"rdma/hca": 1}})"), ""),
            "spec.roles[0].template.spec.containers[0].resources: rdma/hca is not one of hugepages-2Mi, the "
            "resources of Project nlp (policy.allowedResources)");
  EXPECT_THAT(violation(p, pod(R"({"containers": [{"name": "c", "image": "x"}],
      "resources": {"requests": {"hugepages-1Gi": "1Gi"}}})"),
                        "")
                  .value(),
              HasSubstr("spec.roles[0].template.spec.resources: hugepages-1Gi is not one of"));
}

TEST(JobPolicy, EveryImageBeginsWithAnAllowedPrefix) {
  const auto p = project(R"({"allowedImagePrefixes": ["registry.example/", "ghcr.io/team/"]})");
  EXPECT_EQ(violation(p, image("registry.example/x"), ""), std::nullopt);
  EXPECT_EQ(violation(p, image("ghcr.io/team/x:1"), ""), std::nullopt);
  EXPECT_EQ(violation(p, image("ghcr.io/teams/x:1"), ""),
            "spec.roles[0].template.spec.containers[0].image: ghcr.io/teams/x:1 begins with none of "
            "registry.example/, ghcr.io/team/, which Project nlp allows (policy.allowedImagePrefixes)");
  EXPECT_TRUE(violation(p, image("registry.example.evil/x"), ""));
  EXPECT_TRUE(violation(p, image("ubuntu"), "")) << "from whichever registry the node has for it";
  EXPECT_THAT(violation(p, pod(R"({"containers": [{"name": "c", "image": "registry.example/x"}],
      "initContainers": [{"name": "a", "image": "ghcr.io/team/a"},
                         {"name": "b", "image": "quay.io/b", "restartPolicy": "Always"}]})"),
                        "")
                  .value(),
              HasSubstr("spec.roles[0].template.spec.initContainers[1].image: quay.io/b begins"));
  EXPECT_THAT(violation(p, pod(R"({"containers": [{"name": "c", "image": "registry.example/x"}],
      "volumes": [{"name": "v", "emptyDir": {}}, {"name": "w", "image": {"reference": "quay.io/w"}}]})"),
                        "")
                  .value(),
              HasSubstr("spec.roles[0].template.spec.volumes[1].image.reference: quay.io/w begins"));
}

TEST(JobPolicy, LatestIsAlsoWhatAnImageWithoutTagAndDigestMeans) {
  const auto p = project(R"({"forbidLatestTag": true})");
  for (const char* good : {"x:1", "registry.example:5000/x:1.2", "x@sha256:abc", "x:latest@sha256:abc",
                           "registry.example/latest:v1"})
    EXPECT_EQ(violation(p, image(good), ""), std::nullopt) << good;
  for (const char* bad : {"x", "x:latest", "registry.example:5000/x", "registry.example:5000/x:latest", "x:"})
    EXPECT_EQ(violation(p, image(bad), ""),
              std::string("spec.roles[0].template.spec.containers[0].image: ") + bad +
                  " means the tag latest, which Project nlp forbids (policy.forbidLatestTag); state another "
                  "tag, or a digest");
}

TEST(JobPolicy, NothingIsPrivileged) {
  const auto p = project(R"({"forbidPrivileged": true})");
  const std::string plain = R"("containers": [{"name": "c", "image": "i"}])";
  EXPECT_EQ(violation(p, pod("{" + plain + R"(, "hostNetwork": false})"), ""), std::nullopt);
  for (const char* field : {"hostNetwork", "hostPID", "hostIPC"})
    EXPECT_EQ(violation(p, pod("{" + plain + ", \"" + field + "\": true}"), ""),
              std::string("spec.roles[0].template.spec.") + field +
                  ": true is not allowed in Project nlp (policy.forbidPrivileged)");
  const std::string privileged =
      R"([{"name": "c", "image": "i"}, {"name": "d", "image": "i", "securityContext": {"privileged": true}}])";
  EXPECT_EQ(violation(p, pod("{" + plain + R"(, "initContainers": )" + privileged + "}"), ""),
            "spec.roles[0].template.spec.initContainers[1].securityContext.privileged: true is not allowed "
            "in Project nlp (policy.forbidPrivileged)");
  EXPECT_TRUE(violation(p, pod(R"({"containers": )" + privileged + "}"), ""));
  EXPECT_EQ(violation(project("{}"), pod(R"({"containers": )" + privileged + "}"), ""), std::nullopt);
}

TEST(JobPolicy, RequiredLabelsHaveAValue) {
  const auto p = project(R"({"requiredLabels": ["cost-centre"]})");
  EXPECT_EQ(violation(p, job(kBare), "", {{"cost-centre", "42"}}), std::nullopt);
  for (const auto& labels : {crds::StringMap{}, crds::StringMap{{"cost-centre", ""}}})
    EXPECT_EQ(violation(p, job(kBare), "", labels),
              "metadata.labels: cost-centre is not stated, and Project nlp requires it "
              "(policy.requiredLabels)");
}

TEST(JobPolicy, LargeAndLongJobsSaveOftenEnough) {
  const auto p = project(R"({"checkpoint": {"requiredAboveGPUs": 8, "requiredAboveRuntime": "1d",
                                            "maxInterval": "1h"}})");
  const std::string large = role(R"({"count": 2})", 5), small = role(R"({"count": 2})", 4);
  const std::string brief = R"("maxRuntime": "1d",)", why_large =
                                                          "because the job has 10 GPUs, more than 8 "
                                                          "(policy.checkpoint.requiredAboveGPUs)";
  const auto saves = [](const char* interval) {
    return std::string(R"("checkpoint": {"interval": ")") + interval + "\"},";
  };
  EXPECT_EQ(violation(p, job(small, brief), ""), std::nullopt);
  EXPECT_EQ(violation(p, job(large, brief), ""),
            "spec.checkpoint: must be stated in Project nlp, " + why_large);
  EXPECT_EQ(violation(p, job(large, brief + R"("checkpoint": {},)"), ""),
            "spec.checkpoint.interval: must be stated in Project nlp, and be at most 1h "
            "(policy.checkpoint.maxInterval), " +
                why_large);
  EXPECT_EQ(violation(p, job(large, brief + saves("2h")), ""),
            "spec.checkpoint.interval: 2h is more than the 1h that Project nlp allows "
            "(policy.checkpoint.maxInterval), " +
                why_large);
  EXPECT_EQ(violation(p, job(large, brief + saves("1h")), ""), std::nullopt);
  EXPECT_THAT(
      violation(p, job(small, R"("maxRuntime": "2d",)"), "").value(),
      HasSubstr("because the job may run for 2d, more than 1d (policy.checkpoint.requiredAboveRuntime)"));
  EXPECT_THAT(violation(p, job(small), "").value(), HasSubstr("may run without end, more than 1d"));
  EXPECT_EQ(violation(p, job(large, R"("mode": "Interactive",)"), ""), std::nullopt) << "a person saves";
  EXPECT_EQ(violation(p, job(large), "", {}, true), std::nullopt) << "a replica has nothing to save";
}

TEST(JobPolicy, NobodyTakesTooLongToGo) {
  const auto p = project(R"({"maxGracePeriod": "5m"})");
  const auto graceful = [](int seconds) {
    return R"({"name": "main", "template": {"spec": {"terminationGracePeriodSeconds": )" +
           std::to_string(seconds) + R"(, "containers": [{"name": "c", "image": "i"}]}}})";
  };
  EXPECT_EQ(violation(p, job(kBare), ""), std::nullopt);
  EXPECT_EQ(violation(p, job(graceful(300)), ""), std::nullopt);
  EXPECT_EQ(
      violation(p, job(graceful(301)), ""),
      "spec.roles[0].template.spec.terminationGracePeriodSeconds: 301 is more than the 5m that Project nlp "
      "allows (policy.maxGracePeriod)");
  EXPECT_EQ(violation(p, job(kBare, R"("checkpoint": {"gracePeriod": "5m"},)"), ""), std::nullopt);
  EXPECT_EQ(
      violation(p, job(kBare, R"("checkpoint": {"gracePeriod": "1d"},)"), ""),
      "spec.checkpoint.gracePeriod: 1d is more than the 5m that Project nlp allows (policy.maxGracePeriod)");
}

}  // namespace
}  // namespace muster::reconcilers
