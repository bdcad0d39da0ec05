// RULES.md 2 and 7, and the life of a decision: order, pending reasons, confirmation, replacement, conflicts.
#include "muster/placement/plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "small_cluster.h"

namespace muster::placement {
namespace {

using testing::assignment;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::job;
using testing::node;
using testing::project;
using testing::queue;
using testing::role;
using testing::SmallCluster;
using ::testing::UnorderedElementsAre;
using Kind = Decision::Kind;

std::string text_of(const Plan& plan) {
  std::string out;
  for (const Decision& d : plan.decisions) {
    out += std::to_string(static_cast<int>(d.kind)) + d.job + d.assignment.pool +
           std::to_string(d.assignment.since.ms) + d.message;
    for (const PodPlace& p : d.assignment.pods) {
      out += " " + std::to_string(p.role) + "." + std::to_string(p.index) + p.node;
      for (const auto g : p.gpus) out += ":" + std::to_string(g);
    }
    out += "\n";
  }
  for (const auto& v : plan.pending_reasons) out += v + "\n";
  return out;
}

// --- order ---

struct Leaf {
  const char* name;
  testing::Q q;
  int runs = 0;  // GPUs in use
};
struct OrderCase {
  const char* name;
  std::vector<Leaf> leaves;
  std::vector<JobSpec> jobs;
  std::vector<std::string> started;  // in order; one node of 8 GPUs
};
class Order : public ::testing::TestWithParam<OrderCase> {};

TEST_P(Order, Starts) {
  const OrderCase& c = GetParam();
  SmallCluster w({node("n1")});
  int gpu = 0;
  for (const Leaf& l : c.leaves) {
    w.cluster.upsert_queue(project(l.name, "top", l.q));
    if (l.runs == 0) continue;
    const std::string id = std::string(l.name) + "/running";
    w.cluster.upsert_job(job(id, 1, l.runs));
    PodPlace place{0, 0, "n1", {}};
    for (int i = 0; i < l.runs; ++i) place.gpus.push_back(gpu++);
    w.cluster.set_assignment(id, assignment(1, {place}));
  }
  std::int64_t quota = 0;
  for (const Leaf& l : c.leaves) quota += std::max<std::int64_t>(0, l.q.quota);
  w.cluster.upsert_queue(queue("top", "", {quota, -1}));
  for (const JobSpec& j : c.jobs) w.cluster.upsert_job(j);
  EXPECT_EQ(w.starts(), c.started);
}

INSTANTIATE_TEST_SUITE_P(
    Table, Order,
    ::testing::Values(
        OrderCase{"inside_a_leaf_by_priority_then_age",
                  {{"a", {}}},
                  {job("a/old", 1, 1, 1), job("a/older", 1, 1, 0), job("a/urgent", 1, 1, 9, 50)},
                  {"a/urgent", "a/older", "a/old"}},
        OrderCase{"equal_age_by_name", {{"a", {}}}, {job("a/2", 1, 1), job("a/1", 1, 1)}, {"a/1", "a/2"}},
        OrderCase{"below_quota_first",
                  {{"a", {0}}, {"b", {4}}},
                  {job("a/j", 1, 4, 0, 100), job("b/j", 1, 4, 9)},
                  {"b/j", "a/j"}},
        OrderCase{"who_is_at_quota_waits_for_who_is_below",
                  {{"a", {2}, 2}, {"b", {4}, 2}},
                  {job("a/j", 1, 2, 0), job("b/j", 1, 2, 9)},
                  {"b/j", "a/j"}},
        OrderCase{"priority_of_the_leaf",
                  {{"a", {0, -1, 1, 1}}, {"b", {0, -1, 1, 2}}},
                  {job("a/j", 1, 5), job("b/j", 1, 5, 9)},
                  {"b/j"}},
        OrderCase{"smaller_dominant_share",
                  {{"a", {0}, 2}, {"b", {0}, 1}},
                  {job("a/j", 1, 1), job("b/j", 1, 1, 9)},
                  {"b/j", "a/j"}},
        OrderCase{"in_turns",
                  {{"a", {4}}, {"b", {4}}},
                  {job("a/1", 1, 1, 1), job("a/2", 1, 1, 2), job("b/1", 1, 1, 3), job("b/2", 1, 1, 4)},
                  {"a/1", "b/1", "a/2", "b/2"}},
        OrderCase{"who_cannot_start_stops_nobody",
                  {{"a", {}}},
                  {job("a/big", 1, 9, 0, 9), job("a/small", 1, 8, 1)},
                  {"a/small"}}),
    [](const auto& param) { return std::string(param.param.name); });

TEST(OrderTest, EqualLeavesByAge) {
  SmallCluster w({node("n1")});
  QueueSpec a = project("a", "top"), b = project("b", "top");
  a.created = Time{20};
  b.created = Time{10};
  w.cluster.upsert_queue(a);
  w.cluster.upsert_queue(b);
  w.cluster.upsert_job(job("a/j", 1, 5));
  w.cluster.upsert_job(job("b/j", 1, 5));
  EXPECT_THAT(w.starts(), ElementsAre("b/j"));
}

// --- pending reasons ---

TEST(PlanTest, TwoGangsOfSixOnEight) {
  SmallCluster w({node("n1")});
  w.cluster.upsert_job(job("a/one", 6, 1, 1));
  w.cluster.upsert_job(job("a/two", 6, 1, 2));
  EXPECT_THAT(w.starts(), ElementsAre("a/one"));
  const PendingReason& v = *w.cluster.pending_reason("a/two");
  EXPECT_EQ(v.reason, Reason::kInsufficientCapacity);
  EXPECT_EQ(v.message, "needs 6 nvidia.com/gpu in pool default, 2 free of 8; held by a/one (6)");
  EXPECT_THAT(v.blocking, ElementsAre(Blocking{"gpu", "default", 6000, 2000, {"a/one"}}));
  EXPECT_EQ(w.cluster.assignment("a/two"), nullptr);
  w.cluster.remove_job("a/one");
  EXPECT_THAT(w.starts(), ElementsAre("a/two"));
  EXPECT_EQ(w.cluster.pending_reason("a/two"), nullptr);
}

TEST(PlanTest, EnoughInAllButNotWhereItMustBe) {
  SmallCluster w({node("n1"), node("n2")});
  w.cluster.upsert_job(job("a/x", 1, 5, 0));
  w.cluster.upsert_job(job("a/y", 1, 5, 1));
  w.cluster.upsert_job(job("a/whole", 1, 4, 2));
  EXPECT_THAT(w.starts(), ElementsAre("a/x", "a/y"));
  EXPECT_EQ(w.reason("a/whole"), Reason::kFragmented) << w.message("a/whole");
  EXPECT_EQ(w.cluster.pending_reason("a/whole")->blocking[0],
            (Blocking{"pods", "default", 1, 0, {"a/x", "a/y"}}));
}

TEST(PlanTest, RolesOfOneGangAreCountedTogether) {
  SmallCluster w({node("n1"), node("n2")});
  w.cluster.upsert_job(job("a/x", 1, 6));
  w.plan();
  JobSpec j = job("a/j", 0, 0);
  j.roles = {role("one", 1, 6), role("two", 1, 6)};
  w.cluster.upsert_job(j);
  EXPECT_THAT(w.starts(), IsEmpty());
  EXPECT_EQ(w.reason("a/j"), Reason::kInsufficientCapacity);
  EXPECT_EQ(w.cluster.pending_reason("a/j")->blocking[0],
            (Blocking{"gpu", "default", 12000, 10000, {"a/x"}}));
}

TEST(PlanTest, GangLargerThanThePool) {
  SmallCluster w({node("n1")});
  w.cluster.upsert_job(job("a/j", 1000, 8));
  EXPECT_THAT(w.starts(), IsEmpty());
  EXPECT_EQ(w.message("a/j"), "needs 8000 nvidia.com/gpu in pool default, 8 free of 8");
}

TEST(PlanTest, NoPoolAtAllThenTwoWithoutDefault) {
  Cluster c;
  c.upsert_queue(queue("top", ""));
  c.upsert_queue(project("a", "top"));
  c.upsert_job(job("a/j", 1, 1));
  JobSpec named = job("a/named", 1, 1);
  named.pools = {"nowhere"};
  c.upsert_job(named);
  plan(c, Time{1});
  EXPECT_EQ(c.pending_reason("a/j")->reason, Reason::kNoDefaultPool);
  EXPECT_EQ(c.pending_reason("a/named")->reason, Reason::kNoMatchingNodes);
  EXPECT_THAT(c.pending_reason("a/named")->message, HasSubstr("nowhere"));
  c.upsert_pool(testing::pool("x", {{"p", Operator::kIn, {"x"}}}));
  c.upsert_pool(testing::pool("y", {{"p", Operator::kIn, {"y"}}}));
  plan(c, Time{2});
  EXPECT_EQ(c.pending_reason("a/j")->reason, Reason::kNoDefaultPool);
  EXPECT_EQ(c.default_pool(), "");
  PoolSpec y = testing::pool("y", {{"p", Operator::kIn, {"y"}}});
  y.is_default = true;
  c.upsert_pool(y);
  EXPECT_EQ(c.default_pool(), "y");
  plan(c, Time{3});
  EXPECT_EQ(c.pending_reason("a/j")->reason, Reason::kNoMatchingNodes) << c.pending_reason("a/j")->message;
}

TEST(PlanTest, ProjectMissingParentMissingCircleHold) {
  SmallCluster w({node("n1")});
  JobSpec orphan = job("x/orphan", 1, 1);
  orphan.project = "";
  w.cluster.upsert_job(orphan);
  w.cluster.upsert_job(job("later/j", 1, 1));
  w.cluster.upsert_queue(project("lost", "nowhere"));
  w.cluster.upsert_job(job("lost/j", 1, 1));
  w.cluster.upsert_queue(queue("r1", "r2"));
  w.cluster.upsert_queue(queue("r2", "r1"));
  w.cluster.upsert_queue(project("round", "r1"));
  w.cluster.upsert_job(job("round/j", 1, 1));
  QueueSpec held = queue("held", "top");
  held.hold = true;
  w.cluster.upsert_queue(held);
  w.cluster.upsert_queue(project("below", "held"));
  w.cluster.upsert_job(job("below/j", 1, 1));
  EXPECT_THAT(w.starts(), IsEmpty());
  for (const char* id : {"x/orphan", "later/j", "lost/j", "round/j"}) {
    EXPECT_EQ(to_string(w.reason(id)), "ProjectNotFound") << id << ": " << w.message(id);
  }
  EXPECT_EQ(w.reason("below/j"), Reason::kQueueHeld);
  EXPECT_THAT(w.message("below/j"), HasSubstr("Queue held"));
  EXPECT_EQ(w.cluster.queue_problem("lost", true), "there is no Queue \"nowhere\"");
  EXPECT_EQ(w.cluster.queue_problem("round", true), "its parents form a circle");
  EXPECT_EQ(w.cluster.queue_problem("below", true), "");

  w.cluster.upsert_queue(queue("nowhere", ""));
  w.cluster.upsert_queue(queue("r1", ""));
  w.cluster.upsert_queue(project("later", "top"));
  held.hold = false;
  w.cluster.upsert_queue(held);
  EXPECT_THAT(w.starts(), UnorderedElementsAre("lost/j", "round/j", "later/j", "below/j"));
}

struct Bad {
  const char* name;
  void (*spoil)(JobSpec&);
};
class InvalidSpec : public ::testing::TestWithParam<Bad> {};
TEST_P(InvalidSpec, Waits) {
  SmallCluster w({node("n1")});
  JobSpec j = job("a/j", 2, 1);
  GetParam().spoil(j);
  w.cluster.upsert_job(j);
  w.cluster.upsert_job(job("a/good", 1, 1));
  EXPECT_THAT(w.starts(), ElementsAre("a/good"));
  EXPECT_EQ(w.reason("a/j"), Reason::kInvalidSpec);
  EXPECT_NE(w.message("a/j"), "");
  w.cluster.upsert_job(job("a/j", 2, 1));
  EXPECT_THAT(w.starts(), ElementsAre("a/j"));
}
constexpr std::int64_t kHuge = std::int64_t{1} << 62;
INSTANTIATE_TEST_SUITE_P(
    Table, InvalidSpec,
    ::testing::Values(Bad{"no_roles", [](JobSpec& j) { j.roles.clear(); }},
                      Bad{"no_pods", [](JobSpec& j) { j.roles[0].replicas = 0; }},
                      Bad{"negative_replicas", [](JobSpec& j) { j.roles[0].replicas = -1; }},
                      Bad{"negative_cpu", [](JobSpec& j) { j.roles[0].per_pod.cpu.value = -1; }},
                      Bad{"negative_gpus", [](JobSpec& j) { j.roles[0].gpus = -1; }},
                      Bad{"too_many_gpus", [](JobSpec& j) { j.roles[0].gpus = 1 << 30; }},
                      Bad{"too_many_pods", [](JobSpec& j) { j.roles[0].replicas = 2147483647; }},
                      Bad{"too_much_memory", [](JobSpec& j) { j.roles[0].per_pod.memory.value = kHuge; }},
                      Bad{"groups_that_do_not_divide", [](JobSpec& j) { j.groups = {{3, {}}}; }},
                      Bad{"beside_a_role_that_is_not_there",
                          [](JobSpec& j) { j.roles[0].colocate_with = 1; }},
                      Bad{"beside_itself", [](JobSpec& j) { j.roles[0].colocate_with = 0; }},
                      Bad{"beside_too_few",
                          [](JobSpec& j) {
                            j.roles.push_back(j.roles[0]);
                            j.roles[1].replicas = 3;
                            j.roles[1].colocate_with = 0;
                          }}),
    [](const auto& param) { return std::string(param.param.name); });

TEST(PlanTest, PositionsInPoolOrderAndInTheProject) {
  SmallCluster w({node("n1", 1)});
  w.cluster.upsert_queue(queue("top", "", {2}));
  w.cluster.upsert_queue(project("a", "top", {1}));
  w.cluster.upsert_queue(project("b", "top", {1}));
  w.cluster.upsert_job(job("a/1", 1, 1, 0));
  w.cluster.upsert_job(job("a/2", 1, 1, 1));
  w.cluster.upsert_job(job("a/3", 1, 1, 2));
  EXPECT_THAT(w.starts(), ElementsAre("a/1"));
  w.cluster.upsert_job(job("b/1", 1, 1, 3));
  EXPECT_THAT(w.starts(), IsEmpty());
  const auto at = [&](const char* id) {
    return std::pair(w.cluster.pending_reason(id)->position, w.cluster.pending_reason(id)->project_position);
  };
  EXPECT_EQ(at("b/1"), std::pair(1, 1));
  EXPECT_EQ(at("a/2"), std::pair(2, 1));
  EXPECT_EQ(at("a/3"), std::pair(3, 2));
}

TEST(PlanTest, APromiseEndsWithTheGpusOfItsNode) {
  SmallCluster w({node("n1", 4)});
  w.cluster.upsert_job(job("a/j", 1, 4));
  w.cluster.nominate("a/j", assignment(1, {{0, 0, "n1", {0, 1, 2, 3}}}));
  w.cluster.upsert_node(node("n1", 0));  // the driver is gone
  w.cluster.upsert_node(node("n2", 4));
  EXPECT_THAT(w.starts(), ElementsAre("a/j"));
  EXPECT_EQ(w.nodes_of("a/j"), (std::map<std::string, int>{{"n2", 1}}));
}

TEST(PlanTest, OnlyChangedVerdictsAreReturned) {
  SmallCluster w({node("n1")});
  w.cluster.upsert_job(job("a/runs", 1, 8));
  w.cluster.upsert_job(job("a/waits", 1, 8, 1));
  EXPECT_THAT(w.plan().pending_reasons, ElementsAre("a/waits"));
  EXPECT_THAT(w.plan().pending_reasons, IsEmpty());
  w.cluster.upsert_job(job("a/also", 1, 8, 2));
  EXPECT_THAT(w.plan().pending_reasons, ElementsAre("a/also"));
  w.cluster.remove_job("a/waits");
  EXPECT_THAT(w.plan().pending_reasons, ElementsAre("a/also"));  // its position
}

TEST(PlanTest, SecondPlanIsEmptyAndTheSameHistoryGivesTheSameBytes) {
  const auto history = [] {
    SmallCluster w({node("n1"), node("n2"), node("cpu", 0)});
    for (int i = 0; i < 9; ++i)
      w.cluster.upsert_job(job((i % 2 == 0 ? "a/j" : "b/j") + std::to_string(i), 1 + i % 3, i % 4, i));
    std::string text = text_of(w.plan());
    EXPECT_EQ(text_of(w.plan()), "");
    w.cluster.remove_job("a/j2");
    return text + text_of(w.plan());
  };
  EXPECT_EQ(history(), history());
}

TEST(PlanTest, PositionsAreThoseAfterTheStarts) {
  SmallCluster w({node("n1", 4)});
  w.cluster.upsert_queue(queue("top", "", {6}));
  w.cluster.upsert_queue(project("a", "top", {3}));
  w.cluster.upsert_queue(project("b", "top", {3}));
  w.cluster.upsert_job(job("a/big", 1, 8, 0, 10));
  w.cluster.upsert_job(job("a/small", 1, 3, 1));
  w.cluster.upsert_job(job("b/big", 1, 8, 2));
  EXPECT_THAT(w.starts(), ElementsAre("a/small"));
  EXPECT_EQ(w.cluster.pending_reason("b/big")->position, 1);  // a is at its quota now
  EXPECT_EQ(w.cluster.pending_reason("a/big")->position, 2);
}

TEST(PlanTest, StartInOnePoolMovesUpThoseBehindInTheOther) {
  Cluster c;
  c.upsert_pool(testing::pool("x", {{"kind", Operator::kIn, {"x"}}}));
  c.upsert_pool(testing::pool("y", {{"kind", Operator::kIn, {"y"}}}));
  c.upsert_queue(queue("top", ""));
  c.upsert_queue(project("a", "top"));
  JobSpec first = job("a/first", 1, 1, 0), second = job("a/second", 1, 1, 1);
  first.pools = {"x", "y"};
  second.pools = {"x"};
  c.upsert_job(first);
  c.upsert_job(second);
  plan(c, Time{1});
  EXPECT_EQ(c.pending_reason("a/second")->position, 2);
  NodeSpec n = node("n1");
  n.labels["kind"] = "y";
  c.upsert_node(n);
  EXPECT_THAT(plan(c, Time{2}).pending_reasons, ElementsAre("a/second"));
  EXPECT_EQ(c.pending_reason("a/second")->position, 1);
  EXPECT_THAT(plan(c, Time{3}).pending_reasons, IsEmpty());
}

// --- the life of a decision ---

TEST(PlanTest, AssumedStartIsConfirmedOrWithdrawn) {
  SmallCluster w({node("n1")});
  w.cluster.upsert_job(job("a/j", 1, 8));
  Plan p = w.plan();
  ASSERT_EQ(p.decisions.size(), 1u);
  EXPECT_EQ(w.cluster.usage("a", true, "default").allocated.gpu.value, 8000);
  w.cluster.clear_assignment("a/j");
  EXPECT_EQ(w.cluster.usage("a", true, "default").allocated.gpu.value, 0);
  EXPECT_EQ(w.cluster.usage("a", true, "default").pending.gpu.value, 8000);
  p = w.plan();
  ASSERT_EQ(p.decisions.size(), 1u);
  w.cluster.set_assignment("a/j", p.decisions[0].assignment);
  JobSpec changed = job("a/j", 1, 8);
  changed.priority = 5;
  w.cluster.upsert_job(changed);  // confirmed: it keeps its place
  EXPECT_NE(w.cluster.assignment("a/j"), nullptr);
  EXPECT_THAT(w.plan().decisions, IsEmpty());
}

TEST(PlanTest, ChangedSpecGivesAnAssumedStartBack) {
  SmallCluster w({node("n1")});
  w.cluster.upsert_job(job("a/j", 1, 8));
  EXPECT_THAT(w.starts(), ElementsAre("a/j"));
  w.cluster.upsert_job(job("a/j", 1, 4));
  EXPECT_EQ(w.cluster.assignment("a/j"), nullptr);
  EXPECT_THAT(w.starts(), ElementsAre("a/j"));
  EXPECT_EQ(w.cluster.pool_usage("default").free.gpu.value, 4000);
}

TEST(PlanTest, DisplacedPodGetsAnotherPlace) {
  SmallCluster w({node("n1"), node("n2")});
  JobSpec j = job("a/j", 2, 4);
  w.cluster.upsert_job(j);
  Plan p = w.plan();
  const Assignment first = p.decisions[0].assignment;
  ASSERT_EQ(first.pods[1].node, "n1");
  j.avoid_nodes = {"n1"};
  w.cluster.set_assignment("a/j", first);
  w.cluster.upsert_job(j);
  w.cluster.set_assignment("a/j", first, {1});
  p = w.plan();
  ASSERT_EQ(p.decisions.size(), 1u);
  EXPECT_EQ(p.decisions[0].kind, Kind::kReplace);
  ASSERT_EQ(p.decisions[0].assignment.pods.size(), 1u);
  EXPECT_EQ(p.decisions[0].assignment.pods[0].node, "n2");
  EXPECT_EQ(p.decisions[0].assignment.pods[0].index, 1);
  EXPECT_EQ(w.cluster.assignment("a/j")->pods[0], first.pods[0]);
  EXPECT_EQ(w.cluster.assignment("a/j")->pods[1].node, "n2");
  EXPECT_THAT(w.plan().decisions, IsEmpty());
}

TEST(PlanTest, DisplacedPodWithNowhereToGoTakesTheGangAlong) {
  SmallCluster w({node("n1")});
  JobSpec j = job("a/j", 2, 4);
  j.avoid_nodes = {"n1"};
  w.cluster.upsert_job(j);
  w.cluster.set_assignment("a/j", assignment(1, {{0, 0, "n1", {0, 1, 2, 3}}, {0, 1, "n1", {4, 5, 6, 7}}}),
                           {0});
  const Plan p = w.plan();
  ASSERT_EQ(p.decisions.size(), 1u);
  EXPECT_EQ(p.decisions[0].kind, Kind::kEvict);
  EXPECT_EQ(p.decisions[0].reason, EvictReason::kPlacesLost) << "the node is well";
  EXPECT_THAT(p.decisions[0].message, HasSubstr("a pod that node n1 refused"));
  EXPECT_THAT(w.plan().decisions, IsEmpty());
  w.cluster.set_leaving("a/j", {});
  w.plan();
  EXPECT_EQ(w.reason("a/j"), Reason::kNoMatchingNodes);
  EXPECT_THAT(
      w.message("a/j"),
      HasSubstr("; n1 has refused a pod of it or had a full GPU for it, and a node is tried again when"));
}

TEST(PlanTest, RefusedAndLostTogetherIsLost) {
  NodeSpec away = node("n2");
  away.usable = false;
  SmallCluster w({node("n1"), away});
  JobSpec j = job("a/j", 2, 4);
  j.avoid_nodes = {"n1", "n2"};
  w.cluster.upsert_job(j);
  w.cluster.set_assignment("a/j", assignment(1, {{0, 0, "n1", {0, 1, 2, 3}}, {0, 1, "n2", {4, 5, 6, 7}}}),
                           {0, 1});
  const Plan p = w.plan();
  ASSERT_EQ(p.decisions.size(), 1u);
  EXPECT_EQ(p.decisions[0].reason, EvictReason::kNodeFailed);
  EXPECT_THAT(p.decisions[0].message, HasSubstr("lost its place on node n2"));
}

TEST(PlanTest, AnElasticGangGoesOnWithoutWhatWasRefused) {
  SmallCluster w({node("n1")});
  JobSpec j = job("a/j", 1, 4);
  j.roles[0].max_replicas = 2;
  j.avoid_nodes = {"n1"};
  w.cluster.upsert_job(j);
  w.cluster.set_assignment("a/j", assignment(1, {{0, 0, "n1", {0, 1, 2, 3}}, {0, 1, "n1", {4, 5, 6, 7}}}),
                           {1});
  const Plan p = w.plan();
  ASSERT_EQ(p.decisions.size(), 1u);
  EXPECT_EQ(p.decisions[0].kind, Kind::kShrink);
  EXPECT_EQ(p.decisions[0].reason, EvictReason::kPlacesLost);
  EXPECT_THAT(p.decisions[0].message, HasSubstr("without the pods that node n1 refused"));
}

TEST(PlanTest, TwoAdmissionsOnOneGpuTheYoungerGoes) {
  SmallCluster w({node("n1")});
  w.cluster.upsert_job(job("a/young", 1, 2));
  w.cluster.upsert_job(job("a/old", 1, 2));
  w.cluster.set_assignment("a/young", assignment(20, {{0, 0, "n1", {1, 2}}}));
  w.cluster.set_assignment("a/old", assignment(10, {{0, 0, "n1", {0, 1}}}));
  EXPECT_THAT(w.cluster.conflicts(), ElementsAre(Conflict{"n1", 1, {"a/old", "a/young"}}));
  EXPECT_THAT(w.of_kind(Kind::kEvict), ElementsAre("a/young"));
  EXPECT_THAT(w.plan().decisions, IsEmpty());
  // Though the older ends first, the GPUs of the younger are not given away before it is gone.
  w.cluster.remove_job("a/old");
  EXPECT_THAT(w.cluster.conflicts(), IsEmpty());
  w.cluster.upsert_job(job("a/next", 1, 7));
  EXPECT_THAT(w.starts(), IsEmpty());
  w.cluster.remove_job("a/young");
  EXPECT_THAT(w.starts(), ElementsAre("a/next"));
}

// One pod for each whole node, all pods alike. A node counts again when the last pod there is gone.
TEST(PlanTest, TheLargestGangIsWhatWholeNodesOfOneSizeHave) {
  SmallCluster w({node("n1"), node("n2"), node("n3"), node("s1", 4), node("s2", 4)});
  const auto largest = [&] { return w.cluster.pool_usage("default").largest_gang.value; };
  EXPECT_EQ(largest(), 24'000);
  w.cluster.upsert_job(job("a/j", 3, 8));
  EXPECT_THAT(w.starts(), ElementsAre("a/j"));
  EXPECT_EQ(largest(), 8'000) << "the two small ones";
  w.cluster.upsert_job(job("a/one", 1, 1));
  EXPECT_THAT(w.starts(), ElementsAre("a/one"));
  EXPECT_EQ(largest(), 4'000);
  auto broken = node("s1", 4);
  broken.usable = false;
  auto other = node("s2", 4);
  other.usable = false;
  w.cluster.upsert_node(broken);
  w.cluster.upsert_node(other);
  EXPECT_EQ(largest(), 0);
  w.cluster.set_assignment("a/j", *w.cluster.assignment("a/j"));
  w.cluster.clear_assignment("a/j");
  w.cluster.set_leaving("a/j", {{0, 0, "n1", {0, 1, 2, 3, 4, 5, 6, 7}}});
  EXPECT_EQ(largest(), 16'000) << "a pod leaves n1";
}

// Asked again it says what it said, until something changes.
TEST(PlanTest, FairSharesFollowTheDemand) {
  SmallCluster w({node("n1")});
  const auto share = [&](const char* project) {
    return w.cluster.fair_share(project, true, "default").gpu.value;
  };
  w.cluster.upsert_job(job("a/j", 1, 8));
  EXPECT_EQ(share("a"), 8'000);
  EXPECT_EQ(share("b"), 0);
  w.cluster.upsert_job(job("b/j", 1, 8));
  EXPECT_EQ(share("a"), 4'000);
  EXPECT_EQ(share("b"), 4'000);
  w.cluster.upsert_queue(project("a", "top", {.quota = 6}));
  EXPECT_EQ(share("a"), 7'000);
  w.cluster.remove_node("n1");
  EXPECT_EQ(share("a"), 0);
  w.cluster.upsert_queue(project("new", "top"));
  EXPECT_EQ(share("new"), 0);
  EXPECT_EQ(share("nobody"), 0);
}

TEST(PlanTest, NodeGoesWithItsPodsStillThere) {
  SmallCluster w({node("n1"), node("n2")});
  w.cluster.upsert_job(job("a/j", 2, 4));
  w.plan();
  w.cluster.set_assignment("a/j", *w.cluster.assignment("a/j"));
  w.cluster.remove_node("n1");
  EXPECT_EQ(w.cluster.usage("a", true, "default").allocated.gpu.value, 8000);
  EXPECT_EQ(w.cluster.pool_usage("default").capacity.gpu.value, 8000);
  w.cluster.upsert_node(node("n1"));
  EXPECT_EQ(w.cluster.pool_usage("default").free.gpu.value, 8000);
  w.cluster.remove_node("n1");
  w.cluster.remove_job("a/j");
  EXPECT_THAT(w.cluster.audit(), IsEmpty());
}

TEST(PlanTest, GpusThatANodeGetsBackAreThoseOfTheAssignments) {
  // The device plugin was away when these became known: the node had no GPUs.
  SmallCluster w({node("n1", 0)});
  w.cluster.upsert_job(job("a/old", 1, 2));
  w.cluster.set_assignment("a/old", assignment(10, {{0, 0, "n1", {0, 1}}}));
  w.cluster.upsert_job(job("a/young", 1, 2));
  w.cluster.set_assignment("a/young", assignment(20, {{0, 0, "n1", {1, 2}}}));
  EXPECT_THAT(w.cluster.conflicts(), IsEmpty());
  w.cluster.upsert_node(node("n1"));
  EXPECT_THAT(w.cluster.conflicts(), ElementsAre(Conflict{"n1", 1, {"a/old", "a/young"}}));
  w.cluster.upsert_node(node("n1", 1));
  EXPECT_THAT(w.cluster.conflicts(), IsEmpty());
  EXPECT_THAT(w.cluster.audit(), IsEmpty());
}

TEST(PlanTest, WhatSeveralRolesLackIsToldAnew) {
  SmallCluster w({node("n1"), node("n2")});
  JobSpec j = job("a/two", 2, 4);
  j.roles.push_back(role("big", 1, 8));
  j.roles.push_back(role("more", 1, 4));
  w.cluster.upsert_job(j);
  JobSpec one = job("a/one", 1, 4);
  w.cluster.upsert_job(one);
  w.cluster.set_assignment("a/one", assignment(1, {{0, 0, "n1", {0, 1, 2, 3}}}));
  w.plan();
  const std::string before = w.message("a/two");
  // Less is free than when it was tried, which gives no reason to try again, but other numbers.
  w.cluster.upsert_job(job("a/other", 1, 4));
  w.cluster.set_assignment("a/other", assignment(1, {{0, 0, "n2", {0, 1, 2, 3}}}));
  w.plan();
  SmallCluster fresh({node("n1"), node("n2")});
  fresh.cluster.upsert_job(j);
  for (const char* id : {"a/one", "a/other"}) {
    fresh.cluster.upsert_job(job(id, 1, 4));
    fresh.cluster.set_assignment(id, *w.cluster.assignment(id));
  }
  fresh.plan();
  EXPECT_NE(w.message("a/two"), before);
  EXPECT_EQ(w.message("a/two"), fresh.message("a/two"));
}

TEST(PlanTest, HistoryInAnyOrder) {
  // A new leader hears of assignments before it knows nodes, pools, queues.
  Cluster c;
  c.upsert_job(job("a/j", 1, 8));
  c.set_assignment("a/j", assignment(1, {{0, 0, "n1", {0, 1, 2, 3, 4, 5, 6, 7}}}));
  c.upsert_job(job("a/next", 1, 1));
  plan(c, Time{1});
  c.upsert_node(node("n1"));
  plan(c, Time{2});
  c.upsert_queue(project("a", "top"));
  plan(c, Time{3});
  c.upsert_pool(testing::pool("default"));
  plan(c, Time{4});
  c.upsert_queue(queue("top", ""));
  const Plan p = plan(c, Time{5});
  EXPECT_THAT(p.decisions, IsEmpty());
  EXPECT_EQ(c.usage("top", false, "default").allocated.gpu.value, 8000);
  EXPECT_EQ(c.usage("top", false, "default").pending.gpu.value, 1000);
  EXPECT_EQ(c.usage("top", false, "default").borrowed.gpu.value, 8000);
  EXPECT_EQ(c.workloads("top", false).running, 1);
  EXPECT_EQ(c.workloads("top", false).waiting, 1);
  EXPECT_EQ(c.pending_reason("a/next")->reason, Reason::kInsufficientCapacity);
}

TEST(PlanTest, NonsenseInAnAssignmentIsSurvived) {
  SmallCluster w({node("n1")});
  w.cluster.upsert_job(job("a/j", 1, 2));
  w.cluster.set_assignment(
      "a/j",
      assignment(1,
                 {{0, 0, "n1", {-1, 2147483647}}, {7, 0, "n1", {0}}, {-1, 0, "", {}}, {0, 0, "n9", {1, 1}}}),
      {1, 2, 99});
  w.plan();
  w.cluster.remove_job("a/j");
  EXPECT_EQ(w.cluster.pool_usage("default").free.gpu.value, 8000);
  EXPECT_THAT(w.cluster.audit(), IsEmpty());
}

}  // namespace
}  // namespace muster::placement
