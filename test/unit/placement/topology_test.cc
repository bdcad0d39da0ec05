// RULES.md 4.2 and 4.3, topology: gangs, groups and roles in domains, and why there is none.
#include "pool/topology.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "model/cluster_model.h"
#include "small_cluster.h"

namespace muster::placement {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::job;
using testing::node;
using testing::role;
using testing::SmallCluster;
using NodeCounts = std::map<std::string, int>;

const std::string kRack = "muster.dev/rack";
const std::string kBlock = "muster.dev/block";
const std::string kHost(kHostLevel);

// A node named like its path, "b1r2n3": block b1, rack r2.
NodeSpec placed(const std::string& name, std::int32_t gpus = 8) {
  NodeSpec n = node(name, gpus);
  n.labels[kBlock] = name.substr(0, 2);
  n.labels[kRack] = name.substr(2, 2);
  return n;
}

// Blocks x racks x nodes, in a pool with the levels block, rack, host.
struct Site : SmallCluster {
  explicit Site(int blocks = 2, int racks = 2, int nodes = 2, NodeOrder order = NodeOrder::kPack) {
    PoolSpec p = testing::pool("default");
    p.topology = {kBlock, kRack, kHost};
    p.order = order;
    cluster.upsert_pool(p);
    for (int b = 1; b <= blocks; ++b) {
      for (int r = 1; r <= racks; ++r) {
        for (int n = 1; n <= nodes; ++n) cluster.upsert_node(placed(name(b, r, n)));
      }
    }
  }
  static std::string name(int b, int r, int n) {
    return "b" + std::to_string(b) + "r" + std::to_string(r) + "n" + std::to_string(n);
  }
  void occupy(const std::string& at, int gpus) {
    OtherPod p;
    p.key = "x/" + at;
    p.node = at;
    p.amounts = role("", 1, gpus).per_pod;
    p.gpu_count = gpus;
    for (int i = 0; i < gpus; ++i) p.gpus.push_back(i);
    cluster.upsert_other_pod(p);
  }
  // Which domains the job's pods are in: the first `letters` of its nodes' names.
  std::set<std::string> domains(const std::string& id, std::size_t letters) const {
    std::set<std::string> list;
    for (const auto& [node_name, pods] : nodes_of(id)) list.insert(node_name.substr(0, letters));
    return list;
  }
  // The node of each pod, in the order of the assignment.
  std::vector<std::string> nodes_in_order(const std::string& id) const {
    std::vector<std::string> list;
    if (const Assignment* a = cluster.assignment(id)) {
      for (const PodPlace& p : a->pods) list.push_back(p.node);
    }
    return list;
  }
};

JobSpec gang(const std::string& id, int replicas, int gpus, const TopologyRule& rule, std::int64_t at = 0) {
  JobSpec j = job(id, replicas, gpus, at);
  j.topology = rule;
  return j;
}

TEST(TopologyTest, RequiredIsNeverWider) {
  Site w;
  w.occupy("b1r1n1", 8);
  w.occupy("b1r2n1", 8);
  w.occupy("b2r1n2", 8);
  w.cluster.upsert_job(gang("a/rack", 2, 8, {kRack, ""}));
  w.plan();
  EXPECT_EQ(w.nodes_of("a/rack"), (NodeCounts{{"b2r2n1", 1}, {"b2r2n2", 1}})) << w.message("a/rack");
  w.cluster.upsert_job(gang("a/next", 2, 8, {kRack, ""}, 1));
  w.plan();
  EXPECT_THAT(w.nodes_of("a/next"), IsEmpty());
  w.cluster.upsert_job(gang("a/wider", 2, 8, {kBlock, kRack}, 2));
  w.plan();
  EXPECT_EQ(w.domains("a/wider", 2), std::set<std::string>{"b1"});
}

TEST(TopologyTest, TheSmallestDomainThatHoldsItAndOfThoseTheFullest) {
  Site w(2, 2, 4);
  w.occupy("b2r2n1", 8);
  w.cluster.upsert_job(gang("a/three", 3, 8, {kBlock, ""}));  // a rack would do
  w.cluster.upsert_job(gang("a/four", 4, 8, {"", kBlock}, 1));
  w.cluster.upsert_job(gang("a/six", 6, 8, {"", kRack}, 2));  // no rack holds it: one block does
  w.plan();
  EXPECT_EQ(w.domains("a/three", 4), std::set<std::string>{"b2r2"});
  EXPECT_EQ(w.domains("a/four", 4), std::set<std::string>{"b2r1"});
  EXPECT_EQ(w.domains("a/six", 2), std::set<std::string>{"b1"});
}

TEST(TopologyTest, SpreadTakesTheEmptiestDomain) {
  Site w(1, 3, 2, NodeOrder::kSpread);
  w.occupy("b1r1n1", 4);
  w.occupy("b1r3n1", 2);
  w.cluster.upsert_job(gang("a/j", 2, 2, {kRack, ""}));
  w.plan();
  EXPECT_EQ(w.nodes_of("a/j"), (NodeCounts{{"b1r2n1", 1}, {"b1r2n2", 1}}));
}

TEST(TopologyTest, PreferredUsesAsFewDomainsAsPossible) {
  Site w(1, 4, 4);
  for (const char* n : {"b1r1n1", "b1r1n2", "b1r1n3", "b1r3n1"}) w.occupy(n, 8);
  w.cluster.upsert_job(gang("a/j", 5, 8, {"", kRack}));  // 1 + 4 + 3 + 4 are free: 4 + 1
  w.plan();
  const auto nodes = w.nodes_of("a/j");
  EXPECT_EQ(nodes.size(), 5u);
  EXPECT_TRUE(nodes.contains("b1r1n4")) << "the rest goes where it fits best";
  EXPECT_EQ(w.domains("a/j", 4).size(), 2u);
}

TEST(TopologyTest, WithoutARuleNodesDecideButEqualOnesStandTogether) {
  Site w(1, 2, 2);
  w.occupy("b1r1n1", 8);
  w.cluster.upsert_job(job("a/j", 2, 8));
  w.plan();
  EXPECT_EQ(w.nodes_of("a/j").size(), 2u);
  w.cluster.remove_job("a/j");
  w.occupy("b1r1n1", 4);  // the fullest node wins over the nearest
  w.occupy("b1r2n2", 4);
  w.cluster.upsert_job(job("a/k", 2, 4));
  w.plan();
  EXPECT_EQ(w.nodes_of("a/k").size(), 1u);
}

TEST(TopologyTest, ADomainIsTheWholePathOfLabels) {
  Site w(2, 1, 1);  // rack r1 of block b1 and rack r1 of block b2, one node each
  w.cluster.upsert_job(gang("a/j", 2, 8, {kRack, ""}));
  EXPECT_THAT(w.starts(), IsEmpty());
  EXPECT_EQ(w.reason("a/j"), Reason::kTopologyUnsatisfiable);
}

TEST(TopologyTest, ANodeWithoutTheLabelLiesInNoDomainOfTheLevel) {
  Site w(1, 1, 1);
  NodeSpec bare = node("bare", 16);
  bare.labels[kBlock] = "b1";
  w.cluster.upsert_node(bare);
  w.cluster.upsert_job(gang("a/rack", 1, 8, {kRack, ""}));
  w.cluster.upsert_job(gang("a/more", 1, 8, {kRack, ""}, 1));
  w.cluster.upsert_job(gang("a/block", 1, 8, {kBlock, ""}, 2));
  w.cluster.upsert_job(gang("a/host", 1, 8, {kHost, ""}, 3));
  w.plan();
  EXPECT_EQ(w.nodes_of("a/rack"), (NodeCounts{{"b1r1n1", 1}}));
  EXPECT_THAT(w.nodes_of("a/more"), IsEmpty());
  EXPECT_EQ(w.nodes_of("a/block"), (NodeCounts{{"bare", 1}}));
  EXPECT_EQ(w.nodes_of("a/host"), (NodeCounts{{"bare", 1}}));
}

TEST(TopologyTest, HostIsALevelThoughThePoolDoesNotListIt) {
  SmallCluster w({node("n1", 4), node("n2", 4)});
  w.cluster.upsert_job(gang("a/one", 4, 1, {kHost, ""}));
  w.cluster.upsert_job(gang("a/eight", 8, 1, {kHost, ""}, 1));
  w.plan();
  EXPECT_EQ(w.nodes_of("a/one"), (NodeCounts{{"n1", 4}}));
  EXPECT_EQ(w.reason("a/eight"), Reason::kTopologyUnsatisfiable) << w.message("a/eight");
}

TEST(TopologyTest, AnUnknownLevelIsNamed) {
  Site w;
  w.cluster.upsert_job(gang("a/required", 1, 1, {"example.com/row", ""}));
  w.cluster.upsert_job(gang("a/preferred", 1, 1, {"", "example.com/row"}, 1));
  EXPECT_THAT(w.starts(), ElementsAre("a/preferred"));
  EXPECT_EQ(w.reason("a/required"), Reason::kTopologyUnsatisfiable);
  EXPECT_THAT(w.message("a/required"), HasSubstr("example.com/row"));
  EXPECT_THAT(w.message("a/required"), HasSubstr(kRack));
}

TEST(TopologyTest, GroupsAreTighterThanTheGang) {
  Site w(2, 2, 2);
  w.occupy("b1r1n1", 4);  // six free for pods of two GPUs: a group of four does not fit on it
  JobSpec j = gang("a/j", 16, 2, {kBlock, ""});
  j.groups = {{4, {kHost, ""}}};
  w.cluster.upsert_job(j);
  w.plan();
  const auto nodes = w.nodes_in_order("a/j");
  ASSERT_EQ(nodes.size(), 16u) << w.message("a/j");
  for (std::size_t i = 0; i < nodes.size(); ++i) EXPECT_EQ(nodes[i], nodes[i / 4 * 4]);
  EXPECT_EQ(w.domains("a/j", 2), std::set<std::string>{"b2"});
}

TEST(TopologyTest, ThreeLayersOfGroups) {
  Site w(3, 2, 2);
  JobSpec j = job("a/j", 32, 2);  // 4 blocks' worth of nothing: 2 blocks, 4 racks, 8 nodes
  j.groups = {{16, {kBlock, ""}}, {8, {kRack, ""}}, {4, {kHost, ""}}};
  w.cluster.upsert_job(j);
  w.plan();
  const auto nodes = w.nodes_in_order("a/j");
  ASSERT_EQ(nodes.size(), 32u) << w.message("a/j");
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    EXPECT_EQ(nodes[i].substr(0, 2), nodes[i / 16 * 16].substr(0, 2));
    EXPECT_EQ(nodes[i].substr(0, 4), nodes[i / 8 * 8].substr(0, 4));
    EXPECT_EQ(nodes[i], nodes[i / 4 * 4]);
  }
}

TEST(TopologyTest, GroupsGoOverRolesInOrder) {
  Site w(1, 2, 2);
  JobSpec j = job("a/j", 0, 0);
  j.roles = {role("leader", 2, 2), role("worker", 6, 2)};
  j.groups = {{4, {kHost, ""}}};  // leaders 0, 1 with workers 0, 1; workers 2 to 5
  w.cluster.upsert_job(j);
  w.plan();
  const auto nodes = w.nodes_in_order("a/j");
  ASSERT_EQ(nodes.size(), 8u) << w.message("a/j");
  for (std::size_t i = 0; i < nodes.size(); ++i) EXPECT_EQ(nodes[i], nodes[i / 4 * 4]);
}

TEST(TopologyTest, ARoleMayHaveARuleOfItsOwnInsideTheJobs) {
  Site w(2, 2, 3);
  JobSpec j = job("a/j", 0, 0);
  j.topology = {kBlock, ""};
  j.roles = {role("worker", 3, 8), role("ps", 2, 8)};
  j.roles[0].topology = {kRack, ""};
  w.occupy("b1r1n1", 8);
  w.occupy("b1r2n1", 8);
  w.cluster.upsert_job(j);
  w.plan();
  const auto nodes = w.nodes_in_order("a/j");
  ASSERT_EQ(nodes.size(), 5u) << w.message("a/j");
  EXPECT_EQ(w.domains("a/j", 2), std::set<std::string>{"b2"});
  EXPECT_EQ(nodes[0].substr(0, 4), nodes[2].substr(0, 4));
  EXPECT_EQ(nodes[1].substr(0, 4), nodes[2].substr(0, 4));
}

TEST(TopologyTest, ColocatedPodsShareANode) {
  Site w(1, 2, 2);
  w.occupy("b1r1n1", 4);
  JobSpec j = job("a/j", 0, 0);
  j.roles = {role("worker", 3, 8), role("saver", 3, 0, 60), role("log", 1, 0, 1)};
  j.roles[1].colocate_with = 0;
  j.roles[2].colocate_with = 1;
  w.cluster.upsert_job(j);
  w.plan();
  const auto nodes = w.nodes_in_order("a/j");
  ASSERT_EQ(nodes.size(), 7u) << w.message("a/j");
  for (std::size_t i = 0; i < 3; ++i) EXPECT_EQ(nodes[i], nodes[3 + i]);
  EXPECT_EQ(nodes[6], nodes[0]);
}

TEST(TopologyTest, ColocatedPodsCountTogether) {
  SmallCluster w({node("n1", 8, "H100", 10), node("n2", 8, "H100", 10)});
  JobSpec j = job("a/j", 0, 0);
  j.roles = {role("worker", 2, 1, 4), role("saver", 2, 1, 4)};
  j.roles[1].colocate_with = 0;
  w.cluster.upsert_job(j);
  w.plan();
  const Assignment* a = w.cluster.assignment("a/j");
  ASSERT_NE(a, nullptr) << w.message("a/j");
  EXPECT_EQ(a->pods[0].node, a->pods[2].node);
  EXPECT_EQ(a->pods[1].node, a->pods[3].node);
  EXPECT_NE(a->pods[0].node, a->pods[1].node);
}

// --- growth and replacement

TEST(TopologyTest, WhatIsReplacedStaysInTheDomainOfTheOthers) {
  Site w(2, 1, 6);
  w.cluster.upsert_job(gang("a/j", 4, 8, {kBlock, ""}));
  w.plan();
  Assignment a = *w.cluster.assignment("a/j");
  const std::string block = a.pods[0].node.substr(0, 2);
  w.cluster.set_assignment("a/j", a);
  w.cluster.set_assignment("a/j", a, {1, 3});
  w.plan();
  const Assignment* now = w.cluster.assignment("a/j");
  ASSERT_NE(now, nullptr);
  EXPECT_EQ(now->pods[0], a.pods[0]);
  EXPECT_EQ(now->pods[2], a.pods[2]);
  EXPECT_EQ(w.domains("a/j", 2), std::set<std::string>{block});
  EXPECT_EQ(w.nodes_of("a/j").size(), 4u);
}

TEST(TopologyTest, AGangOf512KeepsItsHealthyPlaces) {  // S22
  Site w(2, 2, 1);
  SmallCluster big;
  PoolSpec p = testing::pool("default");
  p.topology = {kBlock};
  big.cluster.upsert_pool(p);
  for (int i = 0; i < 600; ++i) {
    NodeSpec n = node("n" + std::to_string(1000 + i));
    n.labels[kBlock] = i < 514 ? "x" : "y";
    big.cluster.upsert_node(n);
  }
  JobSpec j = gang("a/j", 512, 8, {kBlock, ""});
  big.cluster.upsert_job(j);
  big.plan();
  ASSERT_NE(big.cluster.assignment("a/j"), nullptr);
  const Assignment before = *big.cluster.assignment("a/j");
  big.cluster.set_assignment("a/j", before);
  // One node dies and its pod is lost, and so are two others; two spares and the nodes of these two are left.
  j.avoid_nodes = {before.pods[7].node};
  big.cluster.upsert_job(j);
  big.cluster.set_assignment("a/j", before, {7, 100, 300});
  const Plan plan = big.plan();
  ASSERT_EQ(plan.decisions.size(), 1u);
  EXPECT_EQ(plan.decisions[0].kind, Decision::Kind::kReplace);
  EXPECT_EQ(plan.decisions[0].assignment.pods.size(), 3u);
  const Assignment* after = big.cluster.assignment("a/j");
  int kept = 0;
  for (std::size_t i = 0; i < 512; ++i) {
    kept += after->pods[i] == before.pods[i] && i != 7 && i != 100 && i != 300 ? 1 : 0;
    EXPECT_LT(after->pods[i].node, "n1514");
  }
  EXPECT_EQ(kept, 509);
  EXPECT_NE(after->pods[7].node, before.pods[7].node);
}

TEST(TopologyTest, AReplacedPodOfAGroupGoesToTheGroup) {
  Site w(1, 2, 2);
  JobSpec j = job("a/j", 8, 1);
  j.groups = {{4, {kHost, ""}}};
  w.cluster.upsert_job(j);
  w.plan();
  const Assignment a = *w.cluster.assignment("a/j");
  w.cluster.set_assignment("a/j", a);
  w.cluster.set_assignment("a/j", a, {5});
  w.plan();
  EXPECT_EQ(w.cluster.assignment("a/j")->pods[5].node, a.pods[4].node);
}

TEST(TopologyTest, SurplusGrowsInTheSameDomain) {
  Site w(2, 1, 3);
  JobSpec j = gang("a/j", 1, 8, {kBlock, ""});
  j.roles[0].max_replicas = 6;
  w.cluster.upsert_job(j);
  w.plan();
  EXPECT_EQ(w.nodes_of("a/j").size(), 3u);
  EXPECT_EQ(w.domains("a/j", 2).size(), 1u);
}

TEST(TopologyTest, AGrownRoleTakesItsColocatedPodsAlong) {
  Site w(1, 1, 4);
  JobSpec j = job("a/j", 0, 0);
  j.roles = {role("worker", 1, 8), role("saver", 1, 0)};
  j.roles[0].max_replicas = j.roles[1].max_replicas = 3;
  j.roles[1].colocate_with = 0;
  w.cluster.upsert_job(j);
  w.plan();
  const Assignment* a = w.cluster.assignment("a/j");
  ASSERT_NE(a, nullptr) << w.message("a/j");
  ASSERT_EQ(a->pods.size(), 6u);
  for (const PodPlace& p : a->pods) {
    const auto lead = std::find_if(a->pods.begin(), a->pods.end(),
                                   [&](const PodPlace& o) { return o.role == 0 && o.index == p.index; });
    EXPECT_EQ(p.node, lead->node);
  }
}

// --- reasons

TEST(TopologyTest, TheBestDomainIsNamedWithItsCount) {  // S17
  Site w(1, 4, 4);
  for (const char* r : {"b1r1", "b1r2", "b1r3"}) {
    for (const char* n : {"n1", "n2", "n3"}) w.occupy(std::string(r) + n, 8);
  }
  w.occupy("b1r4n1", 8);
  w.cluster.upsert_job(gang("a/j", 4, 8, {kRack, ""}));
  EXPECT_THAT(w.starts(), IsEmpty());
  EXPECT_EQ(w.reason("a/j"), Reason::kTopologyUnsatisfiable);
  const std::string text = w.message("a/j");
  EXPECT_THAT(text, HasSubstr("4 pods"));
  EXPECT_THAT(text, HasSubstr("rack r4 of block b1"));
  EXPECT_THAT(text, HasSubstr("room for 3"));
  EXPECT_THAT(text, HasSubstr(kBlock)) << "what would help";
  ASSERT_EQ(w.cluster.pending_reason("a/j")->blocking.size(), 1u);
  EXPECT_EQ(w.cluster.pending_reason("a/j")->blocking[0].need, 4);
  EXPECT_EQ(w.cluster.pending_reason("a/j")->blocking[0].have, 3);
  w.cluster.remove_other_pod("x/b1r4n1");
  w.plan();
  EXPECT_EQ(w.domains("a/j", 4), std::set<std::string>{"b1r4"});
}

// Judged as if all were empty: then it does not say that there is room now.
TEST(TopologyTest, WhatOnlyAnEmptyPoolWouldHoldIsNotSaidToHaveRoom) {
  Site w(2, 1, 2);
  w.occupy("b1r1n1", 8);
  w.cluster.upsert_job(gang("a/j", 3, 8, {kBlock, ""}));
  EXPECT_THAT(w.starts(), IsEmpty());
  EXPECT_EQ(w.reason("a/j"), Reason::kTopologyUnsatisfiable);
  EXPECT_THAT(w.message("a/j"),
              ::testing::EndsWith("; without the rule it would have room if all were empty"));
  w.cluster.upsert_job(gang("a/k", 3, 8, {kRack, ""}));
  w.plan();
  EXPECT_THAT(w.message("a/k"), ::testing::EndsWith(" would have room if all were empty"));
}

TEST(TopologyTest, AGroupThatNoEmptyNodeWouldHoldIsSaidAtOnce) {  // S28
  Site w(1, 1, 0);
  for (const char* n : {"b1r1n1", "b1r1n2"}) w.cluster.upsert_node(placed(n, 4));
  JobSpec j = job("a/j", 8, 1);
  j.groups = {{8, {kHost, ""}}};
  w.cluster.upsert_job(j);
  EXPECT_THAT(w.starts(), IsEmpty());
  EXPECT_EQ(w.reason("a/j"), Reason::kTopologyUnsatisfiable);
  EXPECT_THAT(w.message("a/j"), HasSubstr("even if"));
  EXPECT_THAT(w.message("a/j"), HasSubstr("4"));
  w.occupy("b1r1n1", 4);  // and when others stand there, nothing else becomes the reason
  w.plan();
  EXPECT_EQ(w.reason("a/j"), Reason::kTopologyUnsatisfiable);
  w.cluster.upsert_node(placed("b1r1n3", 8));
  EXPECT_THAT(w.starts(), ElementsAre("a/j"));
}

// Prefill and decode of one replica. Each of them would find room in the rack, but they share its GPUs.
TEST(TopologyTest, RolesThatShareADomainAreCountedTogether) {
  Site w(1, 2, 2);
  w.occupy("b1r1n1", 2);
  w.occupy("b1r2n1", 2);
  JobSpec j = gang("a/j", 4, 4, {kRack, ""});
  j.roles[0].replicas = 2;
  j.roles.push_back(j.roles[0]);
  j.roles[0].name = "prefill";
  j.roles[1].name = "decode";
  w.cluster.upsert_job(j);
  EXPECT_THAT(w.starts(), IsEmpty());
  EXPECT_EQ(w.reason("a/j"), Reason::kTopologyUnsatisfiable) << w.message("a/j");
  EXPECT_THAT(w.message("a/j"), HasSubstr("needs room for 4 pods in one rack"));
  EXPECT_THAT(w.message("a/j"), HasSubstr("has room for 3"));
  w.cluster.remove_other_pod("x/b1r2n1");
  w.plan();
  EXPECT_EQ(w.domains("a/j", 4), std::set<std::string>{"b1r2"});
}

// One GPU each for prefill, and a whole node for decode: the sizes differ.
TEST(TopologyTest, RolesOfDifferentSizesAreCountedByTheirGpus) {
  Site w(1, 2, 2);
  w.occupy("b1r1n1", 6);
  w.occupy("b1r2n1", 6);
  JobSpec j = gang("a/j", 4, 1, {kRack, ""});
  j.roles[0].replicas = 3;
  j.roles.push_back(j.roles[0]);
  j.roles[1].name = "decode";
  j.roles[1].replicas = 1;
  j.roles[1].gpus = 8;
  w.cluster.upsert_job(j);
  EXPECT_THAT(w.starts(), IsEmpty());
  EXPECT_EQ(w.reason("a/j"), Reason::kTopologyUnsatisfiable) << w.message("a/j");
  EXPECT_THAT(w.message("a/j"), HasSubstr("has room for 3"));
}

TEST(TopologyTest, GroupsThatDoNotFitAreNamed) {
  Site w(1, 1, 3);
  for (const char* n : {"b1r1n1", "b1r1n2", "b1r1n3"}) w.occupy(n, 3);
  JobSpec j = job("a/j", 8, 1);
  j.groups = {{4, {kHost, ""}}};
  w.cluster.upsert_job(j);
  EXPECT_THAT(w.starts(), ElementsAre("a/j"));
  w.cluster.remove_job("a/j");
  w.occupy("b1r1n2", 5);
  w.occupy("b1r1n3", 5);
  w.cluster.upsert_job(j);
  EXPECT_THAT(w.starts(), IsEmpty());
  EXPECT_EQ(w.reason("a/j"), Reason::kTopologyUnsatisfiable) << w.message("a/j");
  EXPECT_THAT(w.message("a/j"), HasSubstr("groups of 4"));
}

TEST(TopologyTest, TooLittleInAllIsNotTheTopologysFault) {
  Site w(1, 2, 1);
  w.occupy("b1r1n1", 8);
  w.cluster.upsert_job(gang("a/j", 2, 8, {kBlock, ""}));
  EXPECT_THAT(w.starts(), IsEmpty());
  EXPECT_EQ(w.reason("a/j"), Reason::kInsufficientCapacity);
}

}  // namespace
}  // namespace muster::placement
