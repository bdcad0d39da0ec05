// RULES.md 5: who gives way to whom. S3 and so on are the scenarios of that number in test/scenarios/.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <set>

#include "small_cluster.h"

namespace muster::placement {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::job;
using testing::node;
using testing::pool;
using testing::Q;
using testing::queue;
using ::testing::UnorderedElementsAre;
using Kind = Decision::Kind;

// A cluster of one pool and Projects below one Queue; time in seconds.
struct Cell {
  Cluster cluster;
  std::int64_t now = 100'000;

  explicit Cell(const std::vector<NodeSpec>& nodes, std::int64_t top = 1000) {
    cluster.upsert_pool(pool("default"));
    cluster.upsert_queue(queue("top", "", {top}));
    for (const NodeSpec& n : nodes) cluster.upsert_node(n);
  }
  void project(const std::string& name, Q q) { cluster.upsert_queue(testing::project(name, "top", q)); }
  // Runs already, since `ago` seconds; pods on the given nodes and GPUs.
  void running(JobSpec j, std::vector<PodPlace> pods, std::int64_t ago = 3600,
               std::optional<std::int64_t> saved_ago = std::nullopt) {
    cluster.upsert_job(j);
    cluster.set_assignment(j.id, {"default", Time{(now - ago) * 1000}, std::move(pods)});
    Progress p;
    p.began = Time{(now - ago) * 1000};
    if (saved_ago) p.saved = Time{(now - *saved_ago) * 1000};
    cluster.set_progress(j.id, p);
  }
  Plan plan() { return muster::placement::plan(cluster, Time{++now * 1000}); }
  std::vector<std::string> say(const Plan& p) {
    std::vector<std::string> list;
    for (const Decision& d : p.decisions) {
      static constexpr const char* kWords[] = {"start ", "replace ", "grow ", "shrink ", "move ", "evict "};
      list.push_back(kWords[static_cast<int>(d.kind)] + d.job);
    }
    return list;
  }
  std::vector<std::string> decisions() { return say(plan()); }
  void gone(const std::string& id) { cluster.set_leaving(id, {}); }
  Reason reason(const std::string& id) const {
    const PendingReason* v = cluster.pending_reason(id);
    return v == nullptr ? Reason::kNone : v->reason;
  }
  std::size_t size(const std::string& id) const {
    const Assignment* a = cluster.assignment(id);
    return a == nullptr ? 0 : a->pods.size();
  }
};

JobSpec with_priority(JobSpec j, std::int64_t priority) {
  j.priority = priority;
  return j;
}
JobSpec fixed(JobSpec j) {
  j.preemptible = false;
  return j;
}
JobSpec elastic(JobSpec j, std::int32_t least, std::int32_t most) {
  j.roles[0].replicas = least;
  j.roles[0].max_replicas = most;
  return j;
}
std::vector<PodPlace> pods_on(const std::string& name, std::int32_t count, std::int32_t first_gpu = 0) {
  std::vector<PodPlace> list;
  for (std::int32_t i = 0; i < count; ++i) list.push_back({0, i, name, {first_gpu + i}});
  return list;
}

TEST(VictimsTest, S3ReclaimsExactlyWhatIsLacking) {
  Cell c({node("n1", 10)});
  c.project("a", {4, 6});
  c.project("b", {6, 8});
  for (int i = 0; i < 6; ++i) c.running(job("a/" + std::to_string(i), 1, 1), {{0, 0, "n1", {i}}}, 3600 - i);
  for (int i = 0; i < 3; ++i) c.running(job("b/" + std::to_string(i), 1, 1), {{0, 0, "n1", {6 + i}}});
  c.cluster.upsert_job(job("b/next", 3, 1));
  const Plan p = c.plan();
  // The latest started have lost least.
  EXPECT_THAT(c.say(p), UnorderedElementsAre("evict a/4", "evict a/5"));
  EXPECT_EQ(p.decisions[0].beneficiary, "b/next");
  EXPECT_EQ(p.decisions[0].reason, EvictReason::kReclaimed);
  EXPECT_TRUE(c.cluster.nominated("b/next"));
  EXPECT_EQ(c.reason("b/next"), Reason::kWaitingForVictims);
  EXPECT_THAT(c.decisions(), IsEmpty());
  c.gone("a/4");
  EXPECT_THAT(c.decisions(), IsEmpty());
  c.gone("a/5");
  EXPECT_THAT(c.decisions(), ElementsAre("start b/next"));
  EXPECT_THAT(c.decisions(), IsEmpty());
  // S4: A is at its quota.
  c.cluster.upsert_job(job("b/more", 1, 1));
  EXPECT_THAT(c.decisions(), IsEmpty());
  EXPECT_EQ(c.reason("b/more"), Reason::kFairShareReached);
}

TEST(VictimsTest, S5bOnlyWhenNeeded) {
  Cell c({node("n1", 8)});
  for (const char* name : {"susan", "joe", "jemma"}) c.project(name, {2});
  for (int i = 0; i < 8; ++i) c.running(job("susan/" + std::to_string(i), 1, 1), {{0, 0, "n1", {i}}});
  c.cluster.upsert_job(job("joe/j", 2, 1));
  EXPECT_EQ(c.plan().decisions.size(), 2u);
  c.cluster.upsert_job(job("jemma/j", 2, 1));
  EXPECT_EQ(c.plan().decisions.size(), 2u);
  EXPECT_EQ(c.cluster.usage("susan", true, "default").allocated.gpu.value, 8000);  // until they are gone
  for (int i = 0; i < 8; ++i) c.gone("susan/" + std::to_string(i));
  EXPECT_THAT(c.decisions(), UnorderedElementsAre("start joe/j", "start jemma/j"));
  EXPECT_EQ(c.cluster.usage("susan", true, "default").allocated.gpu.value, 4000);
  c.cluster.remove_job("joe/j");
  EXPECT_EQ(c.plan().decisions.size(), 2u);
}

TEST(VictimsTest, S9HigherPriorityInTheSameLeaf) {
  Cell c({node("n1", 8)});
  c.project("a", {8});
  c.running(with_priority(job("a/low", 8, 1), 50), pods_on("n1", 8));
  c.cluster.upsert_job(with_priority(job("a/high", 8, 1), 100));
  const Plan p = c.plan();
  EXPECT_THAT(c.say(p), ElementsAre("evict a/low"));
  EXPECT_EQ(p.decisions[0].reason, EvictReason::kPreempted);
  c.gone("a/low");
  EXPECT_THAT(c.decisions(), ElementsAre("start a/high"));
  c.cluster.remove_job("a/high");
  EXPECT_THAT(c.decisions(), ElementsAre("start a/low"));
}

TEST(VictimsTest, EqualPriorityDoesNotPreempt) {
  Cell c({node("n1", 8)});
  c.project("a", {8});
  c.running(job("a/one", 8, 1), pods_on("n1", 8));
  c.cluster.upsert_job(job("a/two", 1, 1));
  EXPECT_THAT(c.decisions(), IsEmpty());
}

TEST(VictimsTest, S10OneIsMovedAndNobodyWaits) {
  Cell c({node("n1", 4), node("n2", 4)});
  c.project("a", {});
  c.running(job("a/1", 1, 2), {{0, 0, "n1", {0, 1}}});
  c.running(job("a/2", 1, 2), {{0, 0, "n2", {0, 1}}});
  c.cluster.upsert_job(job("a/big", 1, 4));
  const Plan p = c.plan();
  ASSERT_EQ(p.decisions.size(), 1u);
  EXPECT_EQ(p.decisions[0].kind, Kind::kMove);
  const std::string moved = p.decisions[0].job;
  EXPECT_EQ(p.decisions[0].assignment.pods[0].node, moved == "a/1" ? "n2" : "n1");
  c.gone(moved);
  EXPECT_THAT(c.decisions(), UnorderedElementsAre("start " + moved, "start a/big"));
}

TEST(VictimsTest, S11NothingIsMovedThatMustNotBe) {
  Cell c({node("n1", 4), node("n2", 4)});
  c.project("a", {8});
  c.running(fixed(job("a/1", 1, 2)), {{0, 0, "n1", {0, 1}}});
  c.running(fixed(job("a/2", 1, 2)), {{0, 0, "n2", {0, 1}}});
  c.cluster.upsert_job(job("a/big", 1, 4));
  EXPECT_THAT(c.decisions(), IsEmpty());
  EXPECT_EQ(c.reason("a/big"), Reason::kFragmented);
}

TEST(VictimsTest, S12S13ShrinksAndGrowsBack) {
  Cell c({node("n1", 8)});
  c.project("a", {});
  c.project("b", {4});
  c.running(elastic(job("a/e", 2, 1), 2, 8), pods_on("n1", 8));
  c.cluster.upsert_job(job("b/j", 4, 1));
  const Plan p = c.plan();
  EXPECT_THAT(c.say(p), ElementsAre("shrink a/e"));
  EXPECT_EQ(p.decisions[0].assignment.pods.size(), 4u);
  EXPECT_EQ(p.decisions[0].assignment.pods.back().index, 3);  // the highest indexes go
  c.gone("a/e");
  EXPECT_THAT(c.decisions(), ElementsAre("start b/j"));
  EXPECT_THAT(c.decisions(), IsEmpty());
  c.cluster.remove_job("b/j");
  const Plan back = c.plan();
  EXPECT_THAT(c.say(back), ElementsAre("grow a/e"));
  EXPECT_EQ(back.decisions[0].assignment.pods.size(), 8u);
}

TEST(VictimsTest, SurplusGivesWayToAMinimumOfItsPriorityThatIsGuaranteed) {
  Cell c({node("n1", 8)});
  c.project("a", {8});
  c.running(elastic(job("a/e", 2, 1), 2, 8), pods_on("n1", 8));
  const std::int64_t now = c.now * 1000;            // who has waited for long would have nodes reserved
  c.cluster.upsert_job(job("a/seven", 7, 1, now));  // with 2 of the other one it is beyond
  EXPECT_THAT(c.decisions(), IsEmpty());
  c.cluster.upsert_job(job("a/six", 6, 1, now));
  const Plan p = c.plan();
  EXPECT_THAT(c.say(p), ElementsAre("shrink a/e"));
  EXPECT_EQ(p.decisions[0].assignment.pods.size(), 2u);
  EXPECT_EQ(p.decisions[0].reason, EvictReason::kPreempted);
  EXPECT_EQ(p.decisions[0].message, "gave surplus to a/six of the same Project, whose minimum is guaranteed");
  EXPECT_TRUE(p.decisions[0].owed);
  c.gone("a/e");
  EXPECT_THAT(c.decisions(), ElementsAre("start a/six"));
}

TEST(VictimsTest, SurplusOfHigherPriorityStays) {
  Cell c({node("n1", 8)});
  c.project("a", {8});
  c.running(with_priority(elastic(job("a/e", 2, 1), 2, 8), 1), pods_on("n1", 8));
  c.cluster.upsert_job(job("a/x", 1, 1));
  EXPECT_THAT(c.decisions(), IsEmpty());
}

// Room that comes bit by bit is taken in one go; others may use it meanwhile. A start takes all at once.
TEST(VictimsTest, GrowthWaitsUntilRoomHasBeenThereForAWhile) {
  Cell c({node("n1", 8)});
  c.project("a", {});
  JobSpec e = elastic(job("a/e", 2, 1), 2, 8);
  e.grow_quiet = seconds(10);
  c.running(e, {{0, 0, "n1", {0}}, {0, 1, "n1", {1}}});
  c.running(job("a/x", 3, 1), {{0, 0, "n1", {2}}, {0, 1, "n1", {3}}, {0, 2, "n1", {4}}});
  c.running(job("a/y", 3, 1), {{0, 0, "n1", {5}}, {0, 1, "n1", {6}}, {0, 2, "n1", {7}}});
  EXPECT_THAT(c.decisions(), IsEmpty());
  c.cluster.remove_job("a/x");
  const Plan first = c.plan();
  EXPECT_THAT(c.say(first), IsEmpty());
  EXPECT_EQ(first.wake, Time{c.now * 1000} + seconds(10));
  c.now += 5;
  c.cluster.remove_job("a/y");
  EXPECT_THAT(c.decisions(), IsEmpty());
  c.cluster.upsert_job(job("a/late", 1, 1));
  EXPECT_THAT(c.decisions(), ElementsAre("start a/late"));
  c.now += 3;
  const Plan grown = c.plan();
  EXPECT_THAT(c.say(grown), ElementsAre("grow a/e"));
  EXPECT_EQ(grown.decisions[0].assignment.pods.size(), 7u);
}

// What it is told must be one thing: a growth said in the same plan would hide the shrink.
TEST(VictimsTest, WhoGoesOnWithoutLostPodsDoesNotGrowInTheSamePlan) {
  Cell c({node("n1", 2), node("n2", 2), node("n3", 1)});
  c.project("a", {});
  const JobSpec e = elastic(job("a/e", 2, 1), 2, 4);
  c.cluster.upsert_job(e);
  const std::vector<PodPlace> pods{
      {0, 0, "n1", {0}}, {0, 1, "n1", {1}}, {0, 2, "n2", {0}}, {0, 3, "n2", {1}}};
  c.cluster.remove_node("n2");
  c.cluster.set_assignment("a/e", {"default", Time{(c.now - 60) * 1000}, pods}, {2, 3});
  const Plan p = c.plan();
  EXPECT_THAT(c.say(p), ElementsAre("shrink a/e"));
  EXPECT_EQ(p.decisions[0].assignment.pods.size(), 2u);
  EXPECT_EQ(p.wake, Time{c.now * 1000}) << "nobody's going brings the next plan";
  EXPECT_THAT(c.decisions(), ElementsAre("grow a/e"));
}

// As after a restart between the writes of a plan: the promise is written down, and nobody was told to go.
TEST(VictimsTest, APromiseDoesNotStopWhoWasNeverTold) {
  Cell c({node("n1", 4)});
  c.project("a", {2});
  c.project("b", {2});
  c.running(elastic(job("a/e", 2, 1), 2, 4), pods_on("n1", 4));
  c.cluster.upsert_job(job("b/j", 2, 1));
  c.cluster.nominate("b/j", {"default", {}, pods_on("n1", 2, 2)});
  const Plan p = c.plan();
  EXPECT_THAT(c.say(p), ElementsAre("shrink a/e"));
  EXPECT_EQ(p.decisions[0].reason, EvictReason::kReclaimed);
  EXPECT_TRUE(c.cluster.nominated("b/j"));
}

// Whose pods are charged apart, as after an edit that was not acted on yet.
TEST(VictimsTest, PlacesOfNoRoleStayWithTheirJobAndCostNothing) {
  Cell c({node("n1", 1), node("n2", 1)});
  c.project("a", {});
  const JobSpec e = elastic(job("a/e", 1, 1), 1, 2);
  c.cluster.upsert_job(e);
  const std::vector<PodPlace> pods{{0, 0, "n1", {0}}, {0, 1, "n2", {0}}, {-1, 0, "n3", {0}}};
  c.cluster.remove_node("n2");
  c.cluster.set_assignment("a/e", {"default", Time{(c.now - 60) * 1000}, pods}, {1});
  const Plan p = c.plan();
  EXPECT_THAT(c.say(p), ElementsAre("shrink a/e"));
  ASSERT_EQ(p.decisions[0].assignment.pods.size(), 2u);
  EXPECT_EQ(p.decisions[0].assignment.pods[1].node, "n3");
}

TEST(VictimsTest, IndexesWithGapsDoNotCountAsRoomBelowTheMost) {
  Cell c({node("n1", 8)});
  c.project("a", {});
  c.running(elastic(job("a/e", 2, 1), 2, 5),
            {{0, 0, "n1", {0}}, {0, 1, "n1", {1}}, {0, 6, "n1", {6}}, {0, 7, "n1", {7}}});
  EXPECT_THAT(c.decisions(), ElementsAre("grow a/e"));
  EXPECT_EQ(c.size("a/e"), 5u);
}

// Room that was there before it grew, or was taken from it, is no sign that there has been some since.
TEST(VictimsTest, QuietBeginsAnewAfterAResize) {
  Cell c({node("n1", 8)});
  c.project("a", {});
  JobSpec e = elastic(job("a/e", 2, 1), 2, 8);
  e.grow_quiet = e.grow_after = seconds(10);
  c.running(e, {{0, 0, "n1", {0}}, {0, 1, "n1", {1}}});
  c.running(job("a/x", 4, 1), {{0, 0, "n1", {2}}, {0, 1, "n1", {3}}, {0, 2, "n1", {4}}, {0, 3, "n1", {5}}});
  EXPECT_THAT(c.decisions(), IsEmpty());
  c.now += 10;
  EXPECT_THAT(c.decisions(), ElementsAre("grow a/e"));
  EXPECT_EQ(c.size("a/e"), 4u);
  Progress p;
  p.began = Time{(c.now - 3600) * 1000};
  p.resized = Time{c.now * 1000};
  c.cluster.set_progress("a/e", p);
  c.cluster.remove_job("a/x");
  EXPECT_THAT(c.decisions(), IsEmpty());
  c.now += 8;  // and one with each plan
  EXPECT_THAT(c.decisions(), IsEmpty());
  EXPECT_THAT(c.decisions(), ElementsAre("grow a/e")) << "its size has stood, and room was there, at once";
  EXPECT_EQ(c.size("a/e"), 8u);
}

TEST(VictimsTest, AStartIsOverBeforeItGrows) {
  Cell c({node("n1", 8)});
  c.project("a", {});
  JobSpec e = elastic(job("a/e", 2, 1), 2, 8);
  e.grow_quiet = e.grow_after = seconds(10);
  c.running(e, {{0, 0, "n1", {0}}, {0, 1, "n1", {1}}});
  Progress p;
  p.began = Time{(c.now - 3600) * 1000};
  p.is_starting = true;
  c.cluster.set_progress("a/e", p);
  EXPECT_THAT(c.decisions(), IsEmpty());
  c.now += 60;
  EXPECT_THAT(c.decisions(), IsEmpty());
  p.is_starting = false;
  c.cluster.set_progress("a/e", p);
  EXPECT_THAT(c.decisions(), IsEmpty()) << "room is looked at from now on";
  c.now += 10;
  EXPECT_THAT(c.decisions(), ElementsAre("grow a/e"));
}

TEST(VictimsTest, AStartDoesNotWaitForQuiet) {
  Cell c({node("n1", 8)});
  c.project("a", {});
  JobSpec e = elastic(job("a/e", 2, 1), 2, 8);
  e.grow_quiet = e.grow_after = seconds(10);
  c.cluster.upsert_job(e);
  EXPECT_THAT(c.decisions(), ElementsAre("start a/e"));
  EXPECT_EQ(c.size("a/e"), 8u);
}

TEST(VictimsTest, ElasticStartsWithAllThatIsFree) {
  Cell c({node("n1", 8)});
  c.project("a", {});
  c.cluster.upsert_job(elastic(job("a/e", 2, 1), 2, 16));
  const Plan p = c.plan();
  EXPECT_THAT(c.say(p), ElementsAre("start a/e"));
  EXPECT_EQ(p.decisions[0].assignment.pods.size(), 8u);
}

TEST(VictimsTest, S15TheStraddlingGangGoesWhole) {
  Cell c({node("n1", 12)});
  c.project("a", {4});
  c.project("b", {8});
  c.running(job("a/gang", 12, 1), pods_on("n1", 12));
  c.cluster.upsert_job(job("b/j", 8, 1));
  EXPECT_THAT(c.decisions(), ElementsAre("evict a/gang"));
  c.gone("a/gang");
  EXPECT_THAT(c.decisions(), ElementsAre("start b/j"));
  c.cluster.remove_job("b/j");
  EXPECT_THAT(c.decisions(), ElementsAre("start a/gang"));
}

TEST(VictimsTest, S16TheOneThatLosesLeastGoes) {
  Cell c({node("n1", 3)});
  c.project("a", {});
  c.project("b", {1});
  c.running(job("a/long", 1, 1), {{0, 0, "n1", {0}}}, 7200, 50 * 60);
  c.running(job("a/fresh", 1, 1), {{0, 0, "n1", {1}}}, 7200, 60);
  c.running(job("a/mid", 1, 1), {{0, 0, "n1", {2}}}, 7200, 20 * 60);
  c.cluster.upsert_job(job("b/j", 1, 1));
  EXPECT_THAT(c.decisions(), ElementsAre("evict a/fresh"));
}

TEST(VictimsTest, S18FromTheSiblingNotFurther) {
  Cell c({node("n1", 12)});
  c.cluster.upsert_queue(queue("d1", "", {6}));
  c.cluster.upsert_queue(queue("d2", "", {6}));
  c.cluster.upsert_queue(testing::project("a", "d1", {2}));
  c.cluster.upsert_queue(testing::project("b", "d1", {4}));
  c.cluster.upsert_queue(testing::project("c", "d2", {6}));
  for (int i = 0; i < 12; ++i) c.running(job("a/" + std::to_string(i), 1, 1), {{0, 0, "n1", {i}}});
  c.cluster.upsert_job(job("b/j", 4, 1));
  EXPECT_EQ(c.plan().decisions.size(), 4u);
  for (int i = 0; i < 12; ++i) c.gone("a/" + std::to_string(i));
  EXPECT_THAT(c.decisions(), ElementsAre("start b/j"));
  c.cluster.upsert_job(job("c/j", 6, 1));
  const Plan p = c.plan();
  EXPECT_EQ(p.decisions.size(), 6u);
  for (const Decision& d : p.decisions) EXPECT_EQ(d.job.substr(0, 2), "a/") << d.job;
}

TEST(VictimsTest, S23ServicesTakeBackFromTraining) {
  Cell c({node("n1", 8)});
  c.project("a", {4});
  c.project("b", {});
  c.running(fixed(job("a/s1", 1, 2)), {{0, 0, "n1", {0, 1}}});
  for (int i = 2; i < 8; ++i) c.running(job("b/" + std::to_string(i), 1, 1), {{0, 0, "n1", {i}}});
  c.cluster.upsert_job(fixed(job("a/s2", 1, 2)));
  const Plan p = c.plan();
  EXPECT_EQ(p.decisions.size(), 2u);
  for (const Decision& d : p.decisions) EXPECT_EQ(d.kind, Kind::kEvict);
}

TEST(VictimsTest, S31LowerPriorityGoesThoughItLosesMore) {
  Cell c({node("n1", 4)});
  c.project("a", {2});
  c.project("b", {2});
  c.running(with_priority(job("a/low", 1, 1), 10), {{0, 0, "n1", {0}}}, 90'000, 80'000);
  c.running(with_priority(job("a/high", 1, 1), 20), {{0, 0, "n1", {1}}}, 90'000, 10);
  c.running(with_priority(job("a/2", 1, 1), 20), {{0, 0, "n1", {2}}}, 90'000, 20);
  c.running(with_priority(job("a/3", 1, 1), 20), {{0, 0, "n1", {3}}}, 90'000, 20);
  c.cluster.upsert_job(job("b/j", 1, 1));
  EXPECT_THAT(c.decisions(), ElementsAre("evict a/low"));
}

TEST(VictimsTest, S32OtherLeavesBeforeTheOwn) {
  Cell c({node("n1", 4)});
  c.project("a", {2});
  c.project("b", {1});
  c.running(with_priority(job("a/own", 1, 1), 10), {{0, 0, "n1", {0}}}, 60);
  for (int i = 1; i < 4; ++i)
    c.running(with_priority(job("b/" + std::to_string(i), 1, 1), 200), {{0, 0, "n1", {i}}}, 90'000);
  c.cluster.upsert_job(with_priority(job("a/high", 1, 1), 100));
  const auto said = c.decisions();
  ASSERT_EQ(said.size(), 1u);
  EXPECT_EQ(said[0].substr(0, 8), "evict b/");
}

TEST(VictimsTest, S33ComesToRest) {
  Cell c({node("n1", 4)}, 4);
  c.project("a", {2});
  c.project("b", {2});
  c.cluster.upsert_job(with_priority(job("b/3", 3, 1), 10));
  c.cluster.upsert_job(with_priority(job("a/3", 3, 1), 5));
  c.cluster.upsert_job(job("a/2", 2, 1));
  c.cluster.upsert_job(job("b/2", 2, 1));
  c.cluster.upsert_job(job("b/4", 4, 1));
  int quiet = 0;
  for (int i = 0; i < 40 && quiet < 5; ++i) {
    const Plan p = c.plan();
    quiet = p.decisions.empty() ? quiet + 1 : 0;
    for (const Decision& d : p.decisions) {
      if (d.kind == Kind::kEvict || d.kind == Kind::kMove) c.gone(d.job);
    }
    c.now += 1000;
  }
  EXPECT_EQ(quiet, 5);
}

TEST(VictimsTest, S34NobodyIsStartedAndEvictedInOneDecision) {
  Cell c({node("n1", 8)});
  c.project("x", {});
  c.project("y", {});
  c.cluster.upsert_job(with_priority(job("x/8", 8, 1), 10));
  c.cluster.upsert_job(job("y/4", 4, 1));
  const Plan p = c.plan();
  std::set<std::string> started;
  for (const Decision& d : p.decisions) {
    if (d.kind == Kind::kStart) started.insert(d.job);
    EXPECT_FALSE(d.kind == Kind::kEvict && started.contains(d.job)) << d.job;
  }
  EXPECT_THAT(started, ElementsAre("y/4"));
}

TEST(VictimsTest, S35TheOneThatSufficesGoes) {
  Cell c({node("n1", 10)});
  c.project("l0", {-1, -1, 1});
  c.project("l1", {-1, -1, 0});
  c.running(job("l1/x", 1, 1), {{0, 0, "n1", {0}}});
  c.running(job("l1/y", 6, 1), pods_on("n1", 6, 1));
  c.cluster.upsert_job(job("l0/a", 4, 1, 1));
  c.cluster.upsert_job(job("l0/b", 1, 1, 2));
  EXPECT_THAT(c.decisions(), ElementsAre("evict l1/y"));
}

TEST(VictimsTest, MinRuntimeKeepsTheYoungSafeAndWakesThePlan) {
  Cell c({node("n1", 2)});
  QueueSpec a = testing::project("a", "top", {});
  a.reclaim_min_runtime = seconds(600);
  c.cluster.upsert_queue(a);
  c.project("b", {2});
  c.running(job("a/j", 2, 1), pods_on("n1", 2), 100);
  c.cluster.upsert_job(job("b/j", 2, 1));
  const Plan p = c.plan();
  EXPECT_THAT(p.decisions, IsEmpty());
  ASSERT_TRUE(p.wake.has_value());
  ASSERT_NE(c.cluster.pending_reason("b/j"), nullptr);
  EXPECT_THAT(c.cluster.pending_reason("b/j")->message,
              ::testing::HasSubstr("held by a/j (2); a/j is safe until 1970-01-02T03:55:00Z by minRuntime"));
  c.cluster.upsert_job(job("a/none", 2, 1));  // it has no right to anything
  c.plan();
  EXPECT_THAT(c.cluster.pending_reason("a/none")->message,
              ::testing::Not(::testing::HasSubstr("is safe until")));
  c.cluster.remove_job("a/none");
  c.now = p.wake->ms / 1000 - 2;
  EXPECT_THAT(c.decisions(), IsEmpty());
  EXPECT_THAT(c.decisions(), ElementsAre("evict a/j"));
}

TEST(VictimsTest, NoVictimIsSuperfluous) {
  Cell c({node("n1", 4), node("n2", 4)});
  c.project("a", {});
  c.project("b", {4});
  // Emptying n2 costs more than n1 in all, and the cheapest single ones lie on both.
  c.running(job("a/1", 1, 2), {{0, 0, "n1", {0, 1}}}, 100);
  c.running(job("a/2", 1, 2), {{0, 0, "n1", {2, 3}}}, 500);
  c.running(job("a/3", 1, 2), {{0, 0, "n2", {0, 1}}}, 200);
  c.running(job("a/4", 1, 2), {{0, 0, "n2", {2, 3}}}, 5000);
  c.cluster.upsert_job(job("b/j", 1, 4));
  EXPECT_THAT(c.decisions(), UnorderedElementsAre("evict a/1", "evict a/2"));
}

TEST(VictimsTest, WithinTheSmallerOfQuotaAndFairShareNobodyGives) {
  Cell c({node("n1", 4)});
  c.project("a", {2});
  c.project("b", {4});  // 6 quotas on 4 GPUs
  for (int i = 0; i < 2; ++i) c.running(job("a/" + std::to_string(i), 1, 1), {{0, 0, "n1", {i}}});
  for (int i = 2; i < 4; ++i) c.running(job("b/" + std::to_string(i), 1, 1), {{0, 0, "n1", {i}}});
  c.cluster.upsert_job(job("b/next", 1, 1));
  const auto said = c.decisions();
  // a's claim is 2 of 6 parts of 4 GPUs: it may be over by a part of a GPU, never by a whole one below that.
  for (const auto& s : said) EXPECT_EQ(s.substr(0, 8), "evict a/") << s;
  EXPECT_LE(said.size(), 1u);
}

TEST(VictimsTest, ReclaimUnderAnAncestorsLimit) {
  Cell c({node("n1", 8)});
  c.cluster.upsert_queue(queue("d", "", {4, 4}));
  c.cluster.upsert_queue(testing::project("a", "d", {1}));
  c.cluster.upsert_queue(testing::project("b", "d", {3}));
  for (int i = 0; i < 4; ++i) c.running(job("a/" + std::to_string(i), 1, 1), {{0, 0, "n1", {i}}});
  c.cluster.upsert_job(job("b/j", 3, 1));
  EXPECT_EQ(c.plan().decisions.size(), 3u);  // 4 GPUs are free, but not below d's limit
  for (int i = 0; i < 4; ++i) c.gone("a/" + std::to_string(i));
  EXPECT_THAT(c.decisions(), ElementsAre("start b/j"));
}

// What somebody has a right to in its second pool does not depend on where its demand is counted.
TEST(VictimsTest, ReclaimsInTheSecondPool) {
  Cluster c;
  c.upsert_pool(pool("p1", {{"pool", Operator::kIn, {"p1"}}}));
  c.upsert_pool(pool("p2", {{"pool", Operator::kIn, {"p2"}}}));
  for (const char* name : {"p1", "p2"}) {
    NodeSpec n = node(std::string("n-") + name, 4);
    n.labels["pool"] = name;
    c.upsert_node(n);
  }
  const auto in = [&](QueueSpec q, std::int64_t p1, std::int64_t p2) {
    q.in_pool["p1"].quota.gpu = MilliGpu{p1 * 1000};
    q.in_pool["p2"].quota.gpu = MilliGpu{p2 * 1000};
    c.upsert_queue(q);
  };
  in(queue("top", ""), 8, 8);
  in(testing::project("a", "top"), 0, 4);
  in(testing::project("b", "top"), 4, 0);
  for (const char* name : {"p1", "p2"}) {
    JobSpec j = job(std::string("b/") + name, 4, 1);
    j.pools = {name};
    c.upsert_job(j);
    c.set_assignment(j.id, {name, Time{1}, pods_on(std::string("n-") + name, 4)});
  }
  JobSpec j = job("a/j", 4, 1);
  j.pools = {"p1", "p2"};
  c.upsert_job(j);
  const Plan p = muster::placement::plan(c, Time{1'000'000});
  ASSERT_EQ(p.decisions.size(), 1u);
  EXPECT_EQ(p.decisions[0].kind, Kind::kEvict);
  EXPECT_EQ(p.decisions[0].job, "b/p2");
}

TEST(VictimsTest, DrainedQueueLetsGo) {
  Cell c({node("n1", 2)});
  c.project("a", {2});
  c.running(job("a/j", 2, 1), pods_on("n1", 2));
  QueueSpec q = queue("top", "", {10});
  q.hold = q.drain = true;
  c.cluster.upsert_queue(q);
  const Plan p = c.plan();
  EXPECT_THAT(c.say(p), ElementsAre("evict a/j"));
  EXPECT_EQ(p.decisions[0].reason, EvictReason::kDrained);
  c.gone("a/j");
  EXPECT_THAT(c.decisions(), IsEmpty());
  EXPECT_EQ(c.reason("a/j"), Reason::kQueueHeld);
}

// 4 GPUs at a time, and 8 are held. What is leaving is all that the next process needs to know.
TEST(VictimsTest, ADrainInBatchesGoesOnWhenPodsAreGoneAlsoInAnotherProcess) {
  const auto process = [](int running) {
    Cell c({node("n1", 8)});
    c.project("a", {8});
    for (std::int32_t i = 0; i < 4; ++i) {
      const JobSpec j = job("a/" + std::to_string(i), 2, 1, i);
      if (i < running) {
        c.running(j, pods_on("n1", 2, 2 * i));
      } else {
        c.cluster.upsert_job(j);
        c.cluster.set_leaving(j.id, pods_on("n1", 2, 2 * i));
      }
    }
    QueueSpec q = queue("top", "", {10});
    q.hold = q.drain = true;
    q.drain_batch = MilliGpu{4000};
    c.cluster.upsert_queue(q);
    return c;
  };
  Cell c = process(4);
  EXPECT_THAT(c.decisions(), UnorderedElementsAre("evict a/3", "evict a/2"));
  EXPECT_THAT(c.decisions(), IsEmpty());
  Cell next = process(2);
  EXPECT_THAT(next.decisions(), IsEmpty());
  next.gone("a/3");
  EXPECT_THAT(next.decisions(), ElementsAre("evict a/1"));
  EXPECT_THAT(next.decisions(), IsEmpty());
  next.gone("a/2");
  EXPECT_THAT(next.decisions(), ElementsAre("evict a/0"));
}

TEST(VictimsTest, FourThousandSinglesForOneGang) {
  std::vector<NodeSpec> nodes;
  for (int i = 0; i < 500; ++i) nodes.push_back(node("n" + std::to_string(i), 8));
  Cell c(nodes, 100'000);
  c.project("a", {});
  c.project("b", {4000});
  for (int i = 0; i < 4000; ++i)
    c.running(job("a/" + std::to_string(i), 1, 1), {{0, 0, "n" + std::to_string(i / 8), {i % 8}}}, 3600 + i);
  c.cluster.upsert_job(job("b/gang", 500, 8));
  EXPECT_EQ(c.plan().decisions.size(), 4000u);
}

// 8 GPUs; a has a quota of 4 and a fair share of 5, and runs 2; b has a fair share of 3, and runs 6. By its
// guarantee a would have to give up both of its own, by fairness one.
TEST(Both, AsFewOfItsOwnAsEitherRightNeeds) {
  Cell c({node("n", 8)}, 8);
  c.project("a", {4, -1, 1});
  c.project("b", {0, -1, 3});
  for (std::int32_t gpu = 0; gpu < 8; ++gpu) {
    const std::string id = (gpu < 2 ? "a/" : "b/") + std::to_string(gpu);
    c.running(job(id, 1, 1), {{0, 0, "n", {gpu}}}, 3600 - gpu);
  }
  c.cluster.upsert_job(job("a/high", 1, 4, c.now, 10));
  EXPECT_THAT(c.decisions(), UnorderedElementsAre("evict a/1", "evict b/5", "evict b/6", "evict b/7"));
}

}  // namespace
}  // namespace muster::placement
