#include "muster/reconcilers/placement/node_topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

namespace muster::reconcilers {
namespace {

namespace pl = placement;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

const std::set<std::string> kGpus = {"nvidia.com/gpu"};

// As exporters publish it: two NUMA nodes with 32 CPUs, 256 GiB and 2 GPUs each, the second listed first.
crds::Json topology(const std::string& policy) {
  crds::Json zones = crds::Json::array();
  for (const char* name : {"node-1", "node-0"}) {
    zones.push_back(
        {{"name", name},
         {"type", "Node"},
         {"costs", {{{"name", name}, {"value", 10}}}},
         {"resources",
          {{{"name", "cpu"}, {"capacity", "32"}, {"allocatable", "31500m"}, {"available", "1"}},
           {{"name", "memory"}, {"capacity", "256Gi"}, {"allocatable", "256Gi"}, {"available", "0"}},
           {{"name", "hugepages-2Mi"}, {"capacity", "0"}, {"allocatable", "0"}, {"available", "0"}},
           {{"name", "nvidia.com/gpu"}, {"capacity", "2"}, {"allocatable", 2}, {"available", "2"}}}}});
  }
  crds::Json object = {{"metadata", {{"name", "n1"}, {"uid", "u"}, {"resourceVersion", "7"}}},
                       {"zones", zones}};
  if (!policy.empty()) object["attributes"] = {{{"name", "topologyManagerPolicy"}, {"value", policy}}};
  return object;
}
NodeTopology read(const crds::Json& object) {
  auto topology = decode_node_topology(object.dump());
  if (!topology) throw std::runtime_error(topology.error().message);
  return *topology;
}
pl::NodeSpec node(std::int32_t gpus) {
  pl::NodeSpec n;
  n.gpus = gpus;
  return n;
}
pl::NodeSpec with(pl::NodeSpec n, const std::string& policy) {
  const auto t = read(topology(policy));
  add_topology(n, &t, kGpus);
  return n;
}

TEST(NodeTopology, GivesCpusMemoryAndGpusToTheZonesByNumber) {
  const auto n = with(node(4), "single-numa-node");
  ASSERT_EQ(n.zones.size(), 2u);
  EXPECT_EQ(n.zones[0], (pl::NumaZone{pl::MilliCpu{31500}, pl::Bytes{256LL << 30}}));
  EXPECT_THAT(n.gpu_numa, ElementsAre(0, 0, 1, 1));
  EXPECT_EQ(n.numa_policy, pl::NumaPolicy::kSingle);
  EXPECT_EQ(n.unaligned, "");
}

TEST(NodeTopology, WhereTheNodeSaysMoreOfItsGpusThatCounts) {
  pl::NodeSpec said = node(4);
  said.gpu_numa = {0, 1, 0, 1};
  EXPECT_THAT(with(said, "restricted").gpu_numa, ElementsAre(0, 1, 0, 1));
  EXPECT_EQ(with(said, "restricted").numa_policy, pl::NumaPolicy::kRestricted);
  const auto other = with(node(8), "restricted");
  EXPECT_THAT(other.gpu_numa, IsEmpty()) << "the zones have four";
  EXPECT_THAT(other.unaligned, HasSubstr("on which NUMA nodes their GPUs are"));
}

TEST(NodeTopology, APolicyThatAlignsNobodyIsNamed) {
  for (const std::string policy : {"none", "best-effort"}) {
    const auto n = with(node(4), policy);
    EXPECT_EQ(n.numa_policy, pl::NumaPolicy::kAny);
    EXPECT_THAT(n.unaligned, HasSubstr("topologyManagerPolicy of their kubelets is " + policy));
    EXPECT_THAT(n.gpu_numa, ElementsAre(0, 0, 1, 1)) << "they are where they are";
  }
  EXPECT_THAT(with(node(4), "").unaligned, HasSubstr("is not known"));
  crds::Json older = topology("");
  older["topologyPolicies"] = {"SingleNUMANodePodLevel"};
  EXPECT_EQ(read(older).policy, "single-numa-node");
}

TEST(NodeTopology, WhatAZoneDoesNotListBoundsNobody) {
  const auto t = read(crds::Json::parse(R"({"metadata": {"name": "n1"}, "zones": [
    {"name": "node-0", "type": "Node", "resources": [{"name": "cpu", "capacity": "8", "allocatable": "8"}]},
    {"name": "core-0", "type": "Core"}]})"));
  ASSERT_EQ(t.zones.size(), 1u);
  EXPECT_EQ(t.zones[0].cpu.value, 8000);
  EXPECT_GT(t.zones[0].memory.value, std::int64_t{1} << 50);
}

// Who states the annotation answers for the kubelet.
TEST(NodeTopology, WithoutOneOnlyTheAnnotationHelps) {
  pl::NodeSpec n = node(4);
  add_topology(n, nullptr, kGpus);
  EXPECT_THAT(n.unaligned, HasSubstr("no NodeResourceTopology"));
  n.gpu_numa = {0, 0, 1, 1};
  add_topology(n, nullptr, kGpus);
  EXPECT_EQ(n.unaligned, "");
}

TEST(NodeTopology, WhatIsNotAnAmountIsNamed) {
  crds::Json object = topology("none");
  object["zones"][1]["resources"][3]["allocatable"] = "1500m";
  EXPECT_THAT(
      decode_node_topology(object.dump()).error().message,
      HasSubstr("NodeResourceTopology n1: zones[1].resources[3].allocatable: must be a whole number"));
  object["zones"][1]["resources"][3]["allocatable"] = "many";
  EXPECT_FALSE(decode_node_topology(object.dump()));
  EXPECT_FALSE(decode_node_topology("{}"));
  EXPECT_TRUE(decode_node_topology(R"({"metadata": {"name": "n"}, "zones": 7})")) << "it says nothing";
}

}  // namespace
}  // namespace muster::reconcilers
