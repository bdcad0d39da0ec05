// gpus.numaAligned asks for what kubelets give to some pods only.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/reconcilers/pods/requests.h"

namespace muster::reconcilers {
namespace {

using testing::StartsWith;

std::string problem(const char* spec, const crds::Gpus& gpus) {
  const auto needs = pod_needs(crds::Json{{"spec", crds::Json::parse(spec)}}, gpus, "spec.roles[0].template");
  return needs ? "" : needs.error().field + ": " + needs.error().message;
}
crds::Gpus aligned() {
  crds::Gpus gpus;
  gpus.count = 2;
  gpus.numa_aligned = true;
  return gpus;
}

TEST(Aligned, APodOfTheClassGuaranteedWithWholeCpus) {
  const crds::Gpus gpus = aligned();
  const std::string at = "spec.roles[0].template.spec.";
  EXPECT_EQ(problem(R"({"containers": [{"resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}]})", gpus),
            "");
  EXPECT_EQ(problem(R"({"containers": [{"resources": {"limits": {"cpu": "2", "memory": "1Gi"},
                        "requests": {"cpu": 2, "memory": "1024Mi"}}}]})",
                    gpus),
            "");
  EXPECT_THAT(problem(R"({"containers": [{}]})", gpus),
              StartsWith(at + "containers[0].resources.limits.cpu: is required: with gpus.numaAligned"));
  EXPECT_THAT(problem(R"({"containers": [{"resources": {"limits": {"cpu": "2"}}}]})", gpus),
              StartsWith(at + "containers[0].resources.limits.memory: is required"));
  EXPECT_THAT(problem(R"({"containers": [{"resources": {"limits": {"cpu": "2", "memory": "1Gi"},
                        "requests": {"cpu": "1"}}}]})",
                      gpus),
              StartsWith(at + "containers[0].resources.requests.cpu: must equal the limit or be left out"));
  EXPECT_THAT(
      problem(R"({"containers": [{"resources": {"limits": {"cpu": "1500m", "memory": "1Gi"}}}]})", gpus),
      StartsWith(at + "containers[0].resources.limits.cpu: must be whole CPUs"));
}

TEST(Aligned, WhatStandsBesideItNeedsNoWholeCpus) {
  const crds::Gpus gpus = aligned();
  EXPECT_EQ(problem(R"({"containers": [{"resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}],
                        "initContainers": [{"restartPolicy": "Always",
                                            "resources": {"limits": {"cpu": "100m", "memory": "64Mi"}}}]})",
                    gpus),
            "");
  EXPECT_THAT(problem(R"({"containers": [{"resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}],
                          "initContainers": [{}]})",
                      gpus),
              StartsWith("spec.roles[0].template.spec.initContainers[0].resources.limits.cpu: is required"));
  EXPECT_THAT(problem(R"({"containers": [{"resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}],
                          "resources": {"limits": {"cpu": "2"}}})",
                      gpus),
              StartsWith("spec.roles[0].template.spec.resources: must be left out with gpus.numaAligned"));
}

TEST(Aligned, WholeGpusOnly) {
  crds::Gpus gpus;
  gpus.numa_aligned = true;
  gpus.fraction = crds::MilliGpu{500};
  EXPECT_THAT(problem(R"({"containers": [{"resources": {"limits": {"cpu": "2", "memory": "1Gi"}}}]})", gpus),
              StartsWith("spec.roles[0].gpus.numaAligned: must be left out with fraction, memory and mig"));
}

}  // namespace
}  // namespace muster::reconcilers
