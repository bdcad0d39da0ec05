// RULES.md 2, order: dominant shares, claimants that ask the same, positions where many wait, plans that are
// cut off.
#include "order/order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <stdexcept>

#include "audit/audit.h"
#include "order/service_order.h"
#include "plan/plan_observer.h"
#include "small_cluster.h"

namespace muster::placement {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::job;
using testing::jobs_of;
using testing::node;
using testing::project;
using testing::queue;
using testing::SmallCluster;

// S29: 9 CPUs and 18 Gi; pods of 1 CPU and 4 Gi against pods of 3 CPUs and 1 Gi.
TEST(DominantShareTest, S29IsEqualWithinOnePod) {
  SmallCluster w({node("n1", 0, "", 9)});
  NodeSpec n = node("n1", 0, "", 9);
  n.allocatable.memory = Bytes{18 * testing::kGi};
  w.cluster.upsert_node(n);
  QueueSpec top = queue("top", "", {0});
  top.in_default_pool.quota = {MilliGpu{0}, MilliCpu{9000}, Bytes{18 * testing::kGi}};
  w.cluster.upsert_queue(top);
  for (const char* name : {"mem", "cpu"}) {
    QueueSpec p = project(name, "top");
    p.in_default_pool.quota = {MilliGpu{0}, MilliCpu{0}, Bytes{0}};
    w.cluster.upsert_queue(p);
  }
  for (int i = 0; i < 10; ++i) {
    JobSpec m = job("mem/" + std::to_string(i), 1, 0, i), c = job("cpu/" + std::to_string(i), 1, 0, i);
    m.roles = {testing::role("worker", 1, 0, 1, 4)};
    c.roles = {testing::role("worker", 1, 0, 3, 1)};
    w.cluster.upsert_job(m);
    w.cluster.upsert_job(c);
  }
  // Within their fair shares of 4.5 CPUs and 9 Gi: 2 of mem, 1 of cpu. Then the smaller share first.
  const auto order = w.starts();
  EXPECT_EQ(order.size(), 5u);
  EXPECT_EQ(std::count_if(order.begin(), order.end(), [](const auto& id) { return id[0] == 'm'; }), 3);
  EXPECT_THAT(std::vector(order.begin() + 3, order.end()), ElementsAre("cpu/1", "mem/2"));
}

// S30: two leaves of quota 4, each asks one gang of 5, 8 GPUs idle.
TEST(OrderTest, S30NothingIdlesForFairness) {
  SmallCluster w({node("n1")});
  w.cluster.upsert_queue(queue("top", "", {8}));
  for (const char* name : {"a", "b"}) {
    w.cluster.upsert_queue(project(name, "top", {4}));
    w.cluster.upsert_job(job(std::string(name) + "/gang", 5, 1));
  }
  EXPECT_THAT(w.starts(), ElementsAre("a/gang"));
  EXPECT_EQ(w.reason("b/gang"), Reason::kFairShareReached);
  EXPECT_THAT(w.plan().decisions, IsEmpty());
}

TEST(OrderTest, TiersCountAtEveryLevel) {
  // a is below its own quota, but its queue is not: it is no better than any other over quota.
  SmallCluster w({node("n1")});
  w.cluster.upsert_queue(queue("d1", "", {2}));
  w.cluster.upsert_queue(queue("d2", "", {2}));
  w.cluster.upsert_queue(project("a", "d1", {2}));
  w.cluster.upsert_queue(project("a2", "d1", {0}));
  w.cluster.upsert_queue(project("c", "d2", {2}));
  w.cluster.upsert_job(job("a2/runs", 1, 2));
  w.plan();
  w.cluster.upsert_job(job("a/j", 1, 2, 0, 9));
  w.cluster.upsert_job(job("c/j", 1, 2, 5));
  EXPECT_THAT(w.starts(), ElementsAre("c/j", "a/j"));
}

TEST(OrderTest, AllMinimumsComeBeforeAnySurplus) {
  SmallCluster w({node("n1")});
  JobSpec elastic = job("a/elastic", 2, 1);
  elastic.roles[0].max_replicas = 8;
  w.cluster.upsert_job(elastic);
  w.cluster.upsert_job(job("b/late", 4, 1, 9));
  EXPECT_THAT(w.starts(), ElementsAre("a/elastic", "b/late"));
  EXPECT_EQ(w.cluster.assignment("a/elastic")->pods.size(), 4u);
  EXPECT_EQ(w.cluster.assignment("b/late")->pods.size(), 4u);
}

// --- who need not be looked at

TEST(LineTest, WhoAsksTheSameAsOneThatWasRefusedIsPassedOver) {
  SmallCluster w({node("n1")});
  for (int i = 0; i < 5; ++i) w.cluster.upsert_job(job("a/" + std::to_string(i), 1, 4, i));
  JobSpec other = job("a/other", 1, 2, 9), urgent = job("a/urgent", 1, 4, 9, 5);
  w.cluster.upsert_job(other);
  w.cluster.upsert_job(urgent);
  ClusterModel& s = w.cluster.state();
  s.settle();
  ServiceOrder line(s, s.find_pool("default"));
  const auto next = [&](bool refused) {
    const JobId id = line.head();
    if (id == kNoId) return std::string();
    line.pop(refused);
    return s.job(id).spec.id;
  };
  EXPECT_EQ(next(true), "a/urgent");  // a higher priority may take from others: another matter
  EXPECT_EQ(next(false), "a/0");
  EXPECT_EQ(next(true), "a/1");
  EXPECT_EQ(next(true), "a/other");
  EXPECT_EQ(next(true), "");
  std::vector<std::string> all;
  for (const JobId id : line.in_order(100)) all.push_back(s.job(id).spec.id);
  EXPECT_THAT(all, ElementsAre("a/urgent", "a/0", "a/1", "a/2", "a/3", "a/4", "a/other"));
  EXPECT_EQ(line.in_order(3).size(), 3u);
}

TEST(LineTest, EqualRequestsStartAsLongAsThereIsRoom) {
  SmallCluster w({node("n1"), node("n2")});
  for (int i = 0; i < 5; ++i) w.cluster.upsert_job(job("a/" + std::to_string(i), 1, 4, i));
  EXPECT_THAT(w.starts(), ElementsAre("a/0", "a/1", "a/2", "a/3"));
  w.cluster.remove_job("a/2");
  EXPECT_THAT(w.starts(), ElementsAre("a/4"));
}

// --- positions where many wait

struct ManyWait : SmallCluster {
  static constexpr int kWaiting = 1200;
  ManyWait() : SmallCluster({node("n1")}) {
    cluster.upsert_job(job("a/runs", 1, 8));
    at(0);
    for (int i = 0; i < kWaiting; ++i) cluster.upsert_job(job(name(i), 1, 8, i + 1));
    at(1);
  }
  static std::string name(int i) { return "b/" + std::to_string(10000 + i); }
  Plan at(std::int64_t second) { return muster::placement::plan(cluster, Time{second * 1000}); }
  std::int32_t position(int i) const { return cluster.pending_reason(name(i))->position; }
};

TEST(ManyWaitTest, TheFirstAreCountedAtOnceTheRestOnceAMinute) {
  ManyWait w;
  EXPECT_EQ(w.position(0), 1);
  EXPECT_EQ(w.position(1199), 1200);
  w.cluster.remove_job("a/runs");
  const Plan one = w.at(2);
  EXPECT_THAT(jobs_of(one, Decision::Kind::kStart), ElementsAre(ManyWait::name(0)));
  EXPECT_EQ(w.position(1), 1);
  EXPECT_EQ(w.position(100), 100);
  EXPECT_EQ(w.position(101), 102);  // as before
  EXPECT_EQ(one.pending_reasons.size(), 100u);
  EXPECT_EQ(one.wake, Time{61'000});
  EXPECT_THAT(w.at(60).pending_reasons, IsEmpty());
  EXPECT_EQ(w.at(61).pending_reasons.size(), 1199u);  // and who holds what is said anew
  EXPECT_EQ(w.position(1199), 1199);
}

TEST(ManyWaitTest, WhoIsNewHasAReasonAtOnce) {
  ManyWait w;
  w.cluster.upsert_job(job("b/new", 1, 8, 5000));
  EXPECT_THAT(w.at(2).pending_reasons, ElementsAre("b/new"));
  EXPECT_EQ(w.reason("b/new"), w.reason(ManyWait::name(0)));
  EXPECT_EQ(w.cluster.pending_reason("b/new")->position, 0);
  w.at(61);
  EXPECT_EQ(w.cluster.pending_reason("b/new")->position, 1201);
}

TEST(ManyWaitTest, AHoldIsSaidAtOnce) {
  ManyWait w;
  QueueSpec held = project("b", "top");
  held.hold = true;
  w.cluster.upsert_queue(held);
  EXPECT_EQ(w.at(2).pending_reasons.size(), 1200u);
  EXPECT_EQ(w.reason(ManyWait::name(1199)), Reason::kQueueHeld);
}

// --- RULES.md 2.7: a plan that has done all the work that it may

// Each node has enough GPUs free, but not the CPUs that go with them. In all there are enough of both, so
// each job needs a search of its own.
struct ManyShapes : SmallCluster {
  explicit ManyShapes(int jobs) {
    for (int i = 0; i < 4; ++i) {
      const std::string name = "n" + std::to_string(i);
      cluster.upsert_node(node(name, 4));
      JobSpec runs = job("b/" + name, 1, 1);
      runs.preemptible = false;
      runs.roles[0].per_pod.cpu.value = 60'000;
      cluster.upsert_job(runs);
      cluster.set_assignment("b/" + name, testing::assignment(1, {{0, 0, name, {0}}}));
    }
    for (int i = 0; i < jobs; ++i) {
      JobSpec j = job("a/" + std::to_string(i), 1, 2, i);
      j.roles[0].per_pod.cpu.value = 10'000 + i;
      cluster.upsert_job(j);
    }
  }
  Plan sound() {
    std::vector<std::string> broken;
    Plan p = audited_plan(cluster, Time{++now}, broken);
    EXPECT_THAT(broken, IsEmpty());
    return p;
  }
  // Plans until no work is left; how many plans that takes.
  int all_work(std::vector<std::string>* started = nullptr) {
    for (int plans = 1; plans < 1000; ++plans) {
      const Plan p = sound();
      if (started != nullptr) {
        for (const std::string& id : jobs_of(p, Decision::Kind::kStart)) started->push_back(id);
      }
      if (!p.is_cut_off) return plans;
      EXPECT_EQ(p.wake, Time{now}) << "the next plan is to be made at once";
    }
    ADD_FAILURE() << "plans do not come to rest";
    return 0;
  }
};

TEST(CutOffTest, EverybodyHasATurnAndSaysWhyItWaits) {
  ManyShapes whole(30), cut(30);
  cut.cluster.bound_plans(1);
  EXPECT_EQ(whole.all_work(), 1);
  EXPECT_GT(cut.all_work(), 30) << "one search each";
  for (int i = 0; i < 30; ++i) {
    const std::string id = "a/" + std::to_string(i);
    ASSERT_NE(cut.cluster.pending_reason(id), nullptr) << id;
    EXPECT_EQ(*cut.cluster.pending_reason(id), *whole.cluster.pending_reason(id)) << id;
  }
  const Plan rest = cut.plan();
  EXPECT_THAT(rest.decisions, IsEmpty());
  EXPECT_FALSE(rest.is_cut_off);
  EXPECT_NE(rest.wake, Time{cut.now});
}

TEST(CutOffTest, TheNextPlanGoesOnWhereThisOneEnded) {
  ManyShapes w(30);
  w.cluster.upsert_job(job("a/last", 1, 1, 100));
  w.cluster.bound_plans(1);
  std::vector<std::string> started;
  const int plans = w.all_work(&started);
  EXPECT_THAT(started, ElementsAre("a/last"));
  // Who was refused before the start is asked once more, and then nothing changes any more.
  EXPECT_LT(plans, 150);
}

// Something becomes free before each plan, so that those at the head of the queue could be searched for again
// and again. All the same the last one has its turn when all before it have had theirs.
TEST(CutOffTest, NobodyIsStarvedByThoseBeforeIt) {
  ManyShapes w(30);
  w.cluster.upsert_node(node("n9", 1));
  w.cluster.upsert_job(job("a/last", 1, 1, 100));
  w.cluster.upsert_job(job("b/x", 1, 1));
  w.cluster.set_assignment("b/x", testing::assignment(1, {{0, 0, "n9", {0}}}));
  w.cluster.bound_plans(1);
  int plans = 0;
  for (; plans < 100 && !w.cluster.assignment("a/last"); ++plans) {
    w.cluster.clear_assignment("b/x");
    w.cluster.set_assignment("b/x", testing::assignment(1, {{0, 0, "n9", {0}}}));
    w.sound();
  }
  EXPECT_LT(plans, 40);
}

TEST(CutOffTest, WhoComesMeanwhileHasATurnAtItsPlace) {
  ManyShapes w(30);
  w.cluster.bound_plans(1);
  EXPECT_TRUE(w.sound().is_cut_off);
  EXPECT_TRUE(w.sound().is_cut_off);
  w.cluster.upsert_job(job("a/urgent", 1, 1, 100, 9));
  EXPECT_THAT(jobs_of(w.sound(), Decision::Kind::kStart), ElementsAre("a/urgent"));
}

TEST(CutOffTest, GrowthComesAfterAllTurnsAndGoesOnToo) {
  ManyShapes w(10);
  for (const char* id : {"b/e1", "b/e2", "b/e3"}) {
    JobSpec j = job(id, 1, 0);
    j.roles[0].max_replicas = 3;
    w.cluster.upsert_job(j);
  }
  w.cluster.bound_plans(1);
  w.all_work();
  for (const char* id : {"b/e1", "b/e2", "b/e3"}) {
    ASSERT_NE(w.cluster.assignment(id), nullptr);
    EXPECT_EQ(w.cluster.assignment(id)->pods.size(), 3u) << id;
  }
}

// --- what is thrown while a plan looks at one job

struct ThrowsFor : PlanObserver {
  explicit ThrowsFor(ClusterModel& s, std::string claimant) : model(s), id(std::move(claimant)) {}
  void solution(const SolutionQuery& q, const Statement&, const Solution&) override {
    if (model.job(q.claimant.job).spec.id == id) throw std::runtime_error("a bug");
  }
  ClusterModel& model;
  std::string id;
};

TEST(ThrownTest, CostsTheJobItsTurnAndNobodyElseAnything) {
  SmallCluster w({node("n1", 4), node("n2", 4)});
  w.cluster.upsert_queue(queue("top", "", {8}));
  w.cluster.upsert_queue(project("a", "top", {8}));
  w.cluster.upsert_queue(project("b", "top", {0}));
  w.cluster.upsert_job(job("b/1", 1, 4));
  w.cluster.upsert_job(job("b/2", 1, 4));
  EXPECT_EQ(w.starts().size(), 2u);
  for (const char* id : {"b/1", "b/2"}) w.cluster.set_assignment(id, *w.cluster.assignment(id));
  w.plan();
  w.cluster.upsert_job(job("a/bad", 1, 4, 1));
  w.cluster.upsert_job(job("a/good", 1, 4, 2));
  w.cluster.audit_plans(false);  // the auditor observes plans as well, and there is one observer
  ThrowsFor thrower(w.cluster.state(), "a/bad");
  w.cluster.state().observer = &thrower;
  const Plan p = w.plan();
  ASSERT_EQ(p.thrown.size(), 1u);
  EXPECT_EQ(p.thrown[0].job, "a/bad");
  EXPECT_EQ(p.thrown[0].what, "a bug");
  EXPECT_TRUE(p.thrown[0].waits);
  EXPECT_EQ(jobs_of(p, Decision::Kind::kEvict).size(), 1u) << "for a/good alone";
  EXPECT_TRUE(w.cluster.nominated("a/good"));
  EXPECT_FALSE(w.cluster.nominated("a/bad"));
  EXPECT_THAT(w.cluster.audit(), IsEmpty()) << "what was tried for it is undone";
  w.cluster.state().observer = nullptr;
  w.cluster.upsert_job(job("a/bad", 1, 4, 3));  // any change
  EXPECT_TRUE(w.plan().thrown.empty());
  EXPECT_TRUE(w.cluster.nominated("a/bad"));
}

}  // namespace
}  // namespace muster::placement
