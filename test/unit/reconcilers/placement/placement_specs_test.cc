// Objects to what placement takes; what a cluster does not get yet.
#include "muster/reconcilers/placement/placement_specs.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/reconcilers/jobs/translate.h"

namespace muster::reconcilers {
namespace {

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
  node.extended = {{"nvidia.com/gpu", 2}, {"nvidia.com/mig-1g.10gb", 7}, {"vendor/nic", 3}};
  const auto spec = node_spec(node, {"nvidia.com/gpu"});
  EXPECT_EQ(spec.gpus, 2);
  EXPECT_EQ(spec.gpu_model, "A100");
  EXPECT_EQ(spec.gpu_memory.value, 81920LL << 20);
  EXPECT_EQ(spec.gpu_links.size(), 2U);
  EXPECT_EQ(spec.gpu_numa, (std::vector<std::int32_t>{0, 1}));
  EXPECT_EQ(spec.mig, (std::map<std::string, std::int32_t>{{"1g.10gb", 7}}));
}

crds::TrainingJobSpec with(crds::Role role) {
  crds::TrainingJobSpec spec;
  spec.roles.push_back(std::move(role));
  return spec;
}

// Placement decides about all of these; on a cluster none is ignored silently.
TEST(NotSupported, NamesTheField) {
  crds::Role role;
  role.gpus.emplace().memory = crds::Bytes{1};
  role.gpus->on_memory_pressure = crds::MemoryPressure::kSwap;
  EXPECT_FALSE(not_supported(with(role)));
  role.gpus->on_memory_pressure = crds::MemoryPressure::kPriority;
  EXPECT_THAT(*not_supported(with(role)), testing::StartsWith("spec.roles[0].gpus.onMemoryPressure: "));
  role.gpus.emplace().count = 1;
  EXPECT_FALSE(not_supported(with(role)));
  role.gpus->numa_aligned = true;
  EXPECT_THAT(*not_supported(with(role)), testing::StartsWith("spec.roles[0].gpus.numaAligned: "));
  crds::Role apart;
  apart.pod_template.value = std::make_shared<const crds::Json>(crds::Json::parse(
      R"({"spec": {"affinity": {"podAffinity": {}, "podAntiAffinity": {"requiredDuringSchedulingIgnoredDuringExecution": []}}}})"));
  EXPECT_THAT(*not_supported(with(apart)),
              testing::StartsWith("spec.roles[0].template.spec.affinity.podAntiAffinity: "));
  apart.pod_template.value = std::make_shared<const crds::Json>(
      crds::Json::parse(R"({"spec": {"topologySpreadConstraints": [{"maxSkew": 1}]}})"));
  EXPECT_THAT(*not_supported(with(apart)),
              testing::StartsWith("spec.roles[0].template.spec.topologySpreadConstraints: "));
}

}  // namespace
}  // namespace muster::reconcilers
