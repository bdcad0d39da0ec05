// RULES.md 2, order: dominant shares, claimants that ask the same, positions where many wait.
#include "order/order.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "order/service_order.h"
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

}  // namespace
}  // namespace muster::placement
