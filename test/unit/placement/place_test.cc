// RULES.md 4: where pods go, and why they go nowhere.
#include "place/place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "small_cluster.h"

namespace muster::placement {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::job;
using testing::node;
using testing::role;
using testing::SmallCluster;
using NodeCounts = std::map<std::string, int>;

// Occupies `gpus` GPUs of the node.
void occupy(SmallCluster& w, const std::string& name, int gpus) {
  OtherPod p;
  p.key = "x/" + name;
  p.node = name;
  p.amounts = role("", 1, gpus).per_pod;
  p.gpu_count = gpus;
  for (int i = 0; i < gpus; ++i) p.gpus.push_back(i);
  w.cluster.upsert_other_pod(p);
}

struct Packing {
  const char* name;
  NodeOrder order;
  std::vector<std::pair<const char*, int>> taken;  // nodes n1… of 8 GPUs, GPUs in use
  int replicas, gpus;
  NodeCounts expect;
};

class Place : public ::testing::TestWithParam<Packing> {};

TEST_P(Place, Gang) {
  const Packing& c = GetParam();
  SmallCluster w;
  PoolSpec p = testing::pool("default");
  p.order = c.order;
  w.cluster.upsert_pool(p);
  for (const auto& [name, gpus] : c.taken) {
    w.cluster.upsert_node(node(name));
    if (gpus > 0) occupy(w, name, gpus);
  }
  w.cluster.upsert_job(job("a/j", c.replicas, c.gpus));
  w.plan();
  EXPECT_EQ(w.nodes_of("a/j"), c.expect) << w.message("a/j");
}

INSTANTIATE_TEST_SUITE_P(
    Table, Place,
    ::testing::Values(
        Packing{"best_fit", NodeOrder::kPack, {{"n1", 0}, {"n2", 4}, {"n3", 6}}, 1, 2, {{"n3", 1}}},
        Packing{
            "best_fit_that_holds_it", NodeOrder::kPack, {{"n1", 0}, {"n2", 4}, {"n3", 6}}, 1, 3, {{"n2", 1}}},
        Packing{
            "one_node_for_the_gang", NodeOrder::kPack, {{"n1", 6}, {"n2", 0}, {"n3", 6}}, 4, 2, {{"n2", 4}}},
        Packing{"tightest_that_holds_the_gang", NodeOrder::kPack, {{"n1", 0}, {"n2", 4}}, 2, 2, {{"n2", 2}}},
        Packing{"as_few_nodes_as_possible",
                NodeOrder::kPack,
                {{"n1", 6}, {"n2", 0}, {"n3", 4}},
                6,
                2,
                {{"n2", 4}, {"n3", 2}}},
        Packing{"rest_where_least_is_left",
                NodeOrder::kPack,
                {{"n1", 4}, {"n2", 0}, {"n3", 6}},
                5,
                2,
                {{"n2", 4}, {"n3", 1}}},
        Packing{"all_or_nothing", NodeOrder::kPack, {{"n1", 6}, {"n2", 0}}, 6, 2, {}},
        Packing{
            "spread", NodeOrder::kSpread, {{"n1", 0}, {"n2", 2}, {"n3", 0}}, 2, 1, {{"n1", 1}, {"n3", 1}}},
        Packing{
            "spread_evens_out", NodeOrder::kSpread, {{"n1", 0}, {"n2", 2}}, 6, 1, {{"n1", 4}, {"n2", 2}}}),
    [](const auto& param) { return std::string(param.param.name); });

TEST(PlaceTest, NamesTheGpus) {
  SmallCluster w({node("n1")});
  w.cluster.upsert_job(job("a/x", 1, 3));
  w.cluster.upsert_job(job("a/y", 2, 2, 1));
  w.plan();
  EXPECT_THAT(w.cluster.assignment("a/x")->pods[0].gpus, ElementsAre(0, 1, 2));
  EXPECT_THAT(w.cluster.assignment("a/y")->pods[0].gpus, ElementsAre(3, 4));
  EXPECT_THAT(w.cluster.assignment("a/y")->pods[1].gpus, ElementsAre(5, 6));
}

TEST(PlaceTest, PodsWithoutGpusAvoidGpuNodes) {
  SmallCluster w({node("gpu"), node("cpu", 0, "", 4)});
  w.cluster.upsert_job(job("a/j", 6, 0));
  w.plan();
  EXPECT_EQ(w.nodes_of("a/j"), (NodeCounts{{"cpu", 4}, {"gpu", 2}}));
}

TEST(PlaceTest, PodsWithoutGpusDoNotMindThatMoreGpusAreInUseThanThereAre) {
  SmallCluster w({node("n1", 2)});
  occupy(w, "n1", 4);
  w.cluster.upsert_job(job("a/j", 1, 0));
  w.plan();
  EXPECT_EQ(w.nodes_of("a/j"), (NodeCounts{{"n1", 1}}));
}

TEST(PlaceTest, RolesShareNodesAndTheHungryComeFirst) {
  SmallCluster w({node("n1", 8, "H100", 8), node("n2", 8, "H100", 8)});
  JobSpec j = job("a/j", 0, 0);
  j.roles = {role("light", 8, 0, 1), role("heavy", 2, 8, 4)};
  w.cluster.upsert_job(j);
  EXPECT_THAT(w.starts(), ElementsAre("a/j")) << w.message("a/j");
}

TEST(PlaceTest, RoleWithFewNodesToChooseFromComesFirstInTheSecondAttempt) {
  SmallCluster w({node("n1"), node("n2")});
  JobSpec j = job("a/j", 0, 0);
  j.roles = {role("any", 1, 8), role("bound", 1, 8)};
  j.roles[1].node_selector = {{"kubernetes.io/hostname", "n1"}};
  w.cluster.upsert_job(j);
  EXPECT_THAT(w.starts(), ElementsAre("a/j")) << w.message("a/j");
}

TEST(PlaceTest, OtherPodsOccupyCpuMemorySlotsAndGpus) {
  NodeSpec n = node("n1", 8, "H100", 10);
  n.allocatable.pods = 2;
  SmallCluster w({n});
  OtherPod p;
  p.key = "kube-system/agent";
  p.node = "n1";
  p.amounts = role("", 1, 0, 4).per_pod;
  w.cluster.upsert_other_pod(p);
  w.cluster.upsert_job(job("a/slots", 2, 0, 0));
  JobSpec cpus = job("a/cpus", 1, 1, 1);
  cpus.roles[0].per_pod.cpu = MilliCpu{7000};
  w.cluster.upsert_job(cpus);
  EXPECT_THAT(w.starts(), IsEmpty());
  EXPECT_EQ(w.cluster.pending_reason("a/slots")->blocking[0],
            (Blocking{"pods", "default", 2, 1, {"other pods"}}));
  EXPECT_EQ(w.cluster.pending_reason("a/cpus")->blocking[0],
            (Blocking{"cpu", "default", 7000, 6000, {"other pods"}}));
  w.cluster.remove_other_pod(p.key);
  EXPECT_THAT(w.starts(), ElementsAre("a/slots"));
}

TEST(PlaceTest, ModelsSelectorsAffinityTaints) {
  NodeSpec tainted = node("tainted");
  tainted.taints = {{"team", "x", "NoSchedule"}};
  NodeSpec cordoned = node("cordoned");
  cordoned.usable = false;
  SmallCluster w({node("a100", 8, "A100"), node("h100", 8, "H100"), tainted, cordoned});
  const auto put = [&](const std::string& id, auto&& change) {
    JobSpec j = job(id, 1, 1);
    change(j.roles[0], j);
    w.cluster.upsert_job(j);
  };
  put("a/model", [](RoleSpec& r, JobSpec&) { r.models = {"A100"}; });
  put("a/selector", [](RoleSpec& r, JobSpec&) { r.node_selector = {{"kubernetes.io/hostname", "h100"}}; });
  put("a/field",
      [](RoleSpec& r, JobSpec&) { r.required = {{{{}, {{"metadata.name", Operator::kIn, {"h100"}}}}}}; });
  put("a/tolerates", [](RoleSpec& r, JobSpec&) {
    r.tolerations = {{"team", false, "x", "NoSchedule"}};
    r.required = {{{{}, {{"metadata.name", Operator::kIn, {"tainted"}}}}}};
  });
  put("a/avoids", [](RoleSpec& r, JobSpec& j) {
    r.models = {"H100"};
    j.avoid_nodes = {"h100"};
  });
  put("a/cordoned",
      [](RoleSpec& r, JobSpec&) { r.node_selector = {{"kubernetes.io/hostname", "cordoned"}}; });
  put("a/prefers", [](RoleSpec& r, JobSpec&) {
    r.preferred = {{10, {{{"kubernetes.io/hostname", Operator::kIn, {"h100"}}}, {}}}};
  });
  w.plan();
  EXPECT_EQ(w.nodes_of("a/model"), (NodeCounts{{"a100", 1}}));
  EXPECT_EQ(w.nodes_of("a/selector"), (NodeCounts{{"h100", 1}}));
  EXPECT_EQ(w.nodes_of("a/field"), (NodeCounts{{"h100", 1}}));
  EXPECT_EQ(w.nodes_of("a/tolerates"), (NodeCounts{{"tainted", 1}}));
  EXPECT_EQ(w.nodes_of("a/prefers"), (NodeCounts{{"h100", 1}}));
  EXPECT_EQ(w.reason("a/avoids"), Reason::kNoMatchingNodes) << w.message("a/avoids");
  EXPECT_EQ(w.reason("a/cordoned"), Reason::kNoMatchingNodes) << w.message("a/cordoned");
}

TEST(PlaceTest, PreferNoScheduleIsTheLastResort) {
  NodeSpec soft = node("soft", 2);
  soft.taints = {{"team", "x", "PreferNoSchedule"}};
  SmallCluster w({soft, node("n1", 4)});
  w.cluster.upsert_job(job("a/one", 1, 2, 0));
  w.cluster.upsert_job(job("a/two", 1, 2, 1));
  w.cluster.upsert_job(job("a/three", 1, 2, 2));
  w.plan();
  EXPECT_EQ(w.nodes_of("a/one"), (NodeCounts{{"n1", 1}}));
  EXPECT_EQ(w.nodes_of("a/two"), (NodeCounts{{"n1", 1}}));
  EXPECT_EQ(w.nodes_of("a/three"), (NodeCounts{{"soft", 1}}));
}

TEST(PlaceTest, GangGoesWholeIntoTheFirstPoolThatTakesIt) {
  Cluster c;
  c.upsert_pool(testing::pool("x", {{"kind", Operator::kIn, {"x"}}}));
  c.upsert_pool(testing::pool("y", {{"kind", Operator::kIn, {"y"}}}));
  c.upsert_queue(testing::queue("top", ""));
  c.upsert_queue(testing::project("a", "top"));
  for (const char* name : {"x", "y"}) {
    NodeSpec n = node(name);
    n.labels["kind"] = name;
    c.upsert_node(n);
  }
  JobSpec first = job("a/first", 1, 6, 0);
  first.pools = {"y", "x"};
  JobSpec second = job("a/second", 1, 6, 1);
  second.pools = {"y", "x"};
  JobSpec third = job("a/third", 1, 6, 2);
  third.pools = {"y", "x"};
  for (const auto& j : {third, second, first}) c.upsert_job(j);
  plan(c, Time{1});
  ASSERT_NE(c.assignment("a/first"), nullptr);
  ASSERT_NE(c.assignment("a/second"), nullptr);
  EXPECT_EQ(c.assignment("a/first")->pool, "y");
  EXPECT_EQ(c.assignment("a/second")->pool, "x");
  ASSERT_NE(c.pending_reason("a/third"), nullptr);
  EXPECT_EQ(c.pending_reason("a/third")->blocking[0].pool, "y");
  c.remove_job("a/second");
  plan(c, Time{2});
  ASSERT_NE(c.assignment("a/third"), nullptr);
  EXPECT_EQ(c.assignment("a/third")->pool, "x");
}

TEST(PlaceTest, NodeInTwoPoolsIsUsedByNeither) {
  SmallCluster w({node("n1")});
  w.cluster.upsert_pool(testing::pool("also", {{"kubernetes.io/hostname", Operator::kExists, {}}}));
  JobSpec j = job("a/j", 1, 1);
  j.pools = {"default", "also"};
  w.cluster.upsert_job(j);
  EXPECT_THAT(w.starts(), IsEmpty());
  EXPECT_THAT(w.cluster.pool_usage("default").shared_nodes, ElementsAre("n1"));
  EXPECT_THAT(w.cluster.pool_usage("also").shared_nodes, ElementsAre("n1"));
  w.cluster.remove_pool("also");
  EXPECT_THAT(w.starts(), ElementsAre("a/j"));
  EXPECT_THAT(w.cluster.pool_usage("default").shared_nodes, IsEmpty());
}

TEST(PlaceTest, FreeAmountsAreCountedPerDomain) {
  SmallCluster w;
  PoolSpec p = testing::pool("default");
  p.topology = {"block", "rack"};
  w.cluster.upsert_pool(p);
  for (const auto& [name, block, rack] :
       {std::tuple("n1", "b1", "r1"), {"n2", "b1", "r2"}, {"n3", "b2", "r1"}}) {
    NodeSpec n = node(name);
    n.labels["block"] = block;
    n.labels["rack"] = rack;
    w.cluster.upsert_node(n);
  }
  w.cluster.upsert_job(job("a/j", 1, 5));
  w.plan();
  const Pool& inside = w.cluster.state().pool(w.cluster.state().find_pool("default"));
  const auto free_of = [&](const char* path) {
    return inside.domains[static_cast<std::size_t>(inside.domain_ids.at(path))].free.gpu.value / 1000;
  };
  EXPECT_EQ(inside.domains.size(), 6u);  // all, two blocks, three racks: r1 of b1 is not r1 of b2
  EXPECT_EQ(inside.domains[0].free.gpu.value, 19000);
  EXPECT_EQ(free_of("/b1"), 11);
  EXPECT_EQ(free_of("/b1/r1"), 3);
  EXPECT_EQ(free_of("/b2/r1"), 8);
}

TEST(StatementTest, RollsBackWithoutATrace) {
  SmallCluster w({node("n1"), node("n2")});
  w.cluster.upsert_job(job("a/held", 2, 4));
  w.cluster.upsert_job(job("a/next", 1, 8, 1));
  w.plan();
  ASSERT_EQ(w.nodes_of("a/held"), (NodeCounts{{"n1", 2}}));
  ClusterModel& s = w.cluster.state();
  const JobId held = s.jobs().find("a/held"), next = s.jobs().find("a/next");
  const PoolId p = s.find_pool("default");
  const auto before = w.cluster.pool_usage("default").free;
  {
    Statement statement(s);
    statement.release(held, 0);
    statement.release(held, 1);
    EXPECT_EQ(w.cluster.pool_usage("default").free.gpu.value, before.gpu.value + 8000);
    statement.place(held, {0, 0, "n2", {}}, p, Hold::kNominated);  // moved, and by one pod smaller
    statement.place(next, {0, 0, "n1", {0, 1, 2, 3, 4, 5, 6, 7}}, p, Hold::kNominated);
    // What is promised is nobody's yet. (a/next holds 8; a/held was started by this very plan and is
    // simply gone.)
    EXPECT_EQ(w.cluster.usage("a", true, "default").allocated.gpu.value, 8000);
    EXPECT_EQ(s.tree().sums(s.tree().find_queue("a", true), p).allocated.gpu.value, 8000 + 4000 + 8000);
  }
  EXPECT_EQ(w.cluster.pool_usage("default").free, before);
  EXPECT_THAT(w.cluster.audit(), IsEmpty());
}

// Labels' values come and go with nodes: what nobody has any more is not kept for ever.
TEST(PlaceTest, DomainsThatNoNodeIsInAreDropped) {
  SmallCluster w;
  PoolSpec racks = testing::pool("default");
  racks.topology = {"rack"};
  w.cluster.upsert_pool(racks);
  const auto in_rack = [](const std::string& name, int rack) {
    NodeSpec n = node(name);
    n.labels["rack"] = "r" + std::to_string(rack);
    return n;
  };
  w.cluster.upsert_node(in_rack("stays", -1));
  w.cluster.upsert_job(job("a/runs", 1, 8));
  w.plan();
  for (int i = 0; i < 1000; ++i) {
    w.cluster.upsert_node(in_rack("moves", i));
    w.cluster.upsert_node(in_rack("comes" + std::to_string(i), i + 1000));
    w.cluster.remove_node("comes" + std::to_string(i));
  }
  const Pool& p = w.cluster.state().pool(w.cluster.state().find_pool("default"));
  EXPECT_LE(p.domains.size(), 66U);
  EXPECT_LE(p.domain_ids.size(), 65U);
  EXPECT_EQ(p.domains[0].nodes, 2);
  EXPECT_THAT(w.cluster.audit(), ::testing::IsEmpty());
  JobSpec near = job("a/near", 2, 4);
  near.topology.required = "rack";
  w.cluster.upsert_job(near);
  w.plan();
  EXPECT_EQ(w.nodes_of("a/runs"), (NodeCounts{{"stays", 1}}));
  EXPECT_EQ(w.nodes_of("a/near"), (NodeCounts{{"moves", 2}}));
}

}  // namespace
}  // namespace muster::placement
