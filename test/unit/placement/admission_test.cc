// Rule 3: limits and quotas at every level. Table: what is already held, what is asked, who says no.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "world.h"

namespace muster::placement {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::job;
using testing::node;
using testing::project;
using testing::Q;
using testing::queue;
using testing::World;

struct Case {
  const char* name;
  Q top, leaf;
  int held;  // GPUs of a/old, one pod each, which is preemptible if `held_preemptible`
  bool held_preemptible;
  int asked;
  bool preemptible;
  Reason reason;  // kNone: it starts
  std::int64_t have = 0;
  const char* by = "";
};

class Admission : public ::testing::TestWithParam<Case> {};

TEST_P(Admission, Bounds) {
  const Case& c = GetParam();
  World w({node("n1"), node("n2")});
  w.cluster.upsert_queue(queue("top", "", c.top));
  w.cluster.upsert_queue(project("a", "top", c.leaf));
  if (c.held > 0) {
    JobSpec old = job("a/old", c.held, 1);
    old.preemptible = c.held_preemptible;
    w.cluster.upsert_job(old);
    Assignment held;
    held.pool = "default";
    for (int i = 0; i < c.held; ++i) held.pods.push_back({0, i, "n1", {i}});
    w.cluster.set_assignment("a/old", held);
  }
  JobSpec asked = job("a/new", c.asked, 1);
  asked.preemptible = c.preemptible;
  w.cluster.upsert_job(asked);
  const auto started = w.starts();
  if (c.reason == Reason::kNone) {
    EXPECT_THAT(started, ElementsAre("a/new")) << w.message("a/new");
    return;
  }
  EXPECT_THAT(started, IsEmpty());
  const Verdict* v = w.cluster.verdict("a/new");
  ASSERT_NE(v, nullptr);
  EXPECT_EQ(to_string(v->reason), to_string(c.reason)) << v->message;
  ASSERT_EQ(v->blocking.size(), 1u);
  EXPECT_EQ(v->blocking[0].need, c.asked * 1000);
  EXPECT_EQ(v->blocking[0].have, c.have * 1000);
  EXPECT_THAT(v->blocking[0].by, ElementsAre(c.by));
}

INSTANTIATE_TEST_SUITE_P(
    Table, Admission,
    ::testing::Values(
        Case{"no_bounds", {}, {}, 0, true, 16, true, Reason::kNone},
        Case{"limit_met_exactly", {}, {4, 6}, 4, true, 2, true, Reason::kNone},
        Case{"limit_of_leaf", {}, {4, 6}, 6, true, 1, true, Reason::kLimitReached, 0, "Project a"},
        Case{"limit_of_queue", {16, 7}, {16, 16}, 4, true, 4, true, Reason::kLimitReached, 3, "Queue top"},
        Case{"limit_counts_both_kinds", {}, {8, 8}, 6, false, 4, true, Reason::kLimitReached, 2, "Project a"},
        Case{"over_quota_preemptible", {4, -1}, {2, -1}, 4, true, 8, true, Reason::kNone},
        Case{"quota_met_exactly", {8, -1}, {8, -1}, 6, false, 2, false, Reason::kNone},
        Case{"quota_of_leaf", {16, -1}, {8, -1}, 8, false, 1, false, Reason::kQuotaExceeded, 0, "Project a"},
        Case{"quota_of_queue", {6, -1}, {8, -1}, 4, false, 4, false, Reason::kQuotaExceeded, 2, "Queue top"},
        Case{"quota_ignores_preemptible", {8, -1}, {8, -1}, 8, true, 8, false, Reason::kNone},
        Case{
            "quota_left_out_is_zero", {8, -1}, {}, 0, true, 1, false, Reason::kQuotaExceeded, 0, "Project a"},
        Case{"limit_before_quota", {}, {0, 0}, 0, true, 1, false, Reason::kLimitReached, 0, "Project a"},
        Case{"zero_limit", {}, {0, 0}, 0, true, 1, true, Reason::kLimitReached, 0, "Project a"}),
    [](const auto& param) { return std::string(param.param.name); });

TEST(AdmissionTest, CpuWithoutQuotaIsNotAccounted) {
  World w({node("n1")});
  w.cluster.upsert_queue(queue("top", "", {8, -1}));
  w.cluster.upsert_queue(project("a", "top", {8, -1}));
  JobSpec j = job("a/j", 1, 0);
  j.preemptible = false;
  w.cluster.upsert_job(j);
  EXPECT_THAT(w.starts(), ElementsAre("a/j"));
}

TEST(AdmissionTest, CpuQuotaAndMemoryLimitAreKept) {
  World w({node("n1")});
  QueueSpec a = project("a", "top");
  a.in_default_pool.quota.cpu = MilliCpu{2000};
  a.in_default_pool.limit.memory = Bytes{4 * testing::kGi};
  w.cluster.upsert_queue(a);
  JobSpec cpus = job("a/cpus", 3, 0);
  cpus.preemptible = false;
  w.cluster.upsert_job(cpus);
  w.cluster.upsert_job(job("a/memory", 5, 0));
  EXPECT_THAT(w.starts(), IsEmpty());
  EXPECT_EQ(w.reason("a/cpus"), Reason::kQuotaExceeded);
  EXPECT_EQ(w.cluster.verdict("a/cpus")->blocking[0].resource, "cpu");
  EXPECT_EQ(w.reason("a/memory"), Reason::kLimitReached);
  EXPECT_EQ(w.cluster.verdict("a/memory")->blocking[0].resource, "memory");
}

TEST(AdmissionTest, PodsThatLingerStayCharged) {
  World w({node("n1")});
  w.cluster.upsert_queue(project("a", "top", {0, 4}));
  OtherPod old;
  old.key = "a/j-worker-0-1";
  old.node = "n1";
  old.amounts = testing::role("", 1, 3).per_pod;
  old.gpu_count = 3;
  old.gpus = {0, 1, 2};
  old.project = "a";
  w.cluster.upsert_other_pod(old);
  w.cluster.upsert_job(job("a/j", 2, 1));
  EXPECT_THAT(w.starts(), IsEmpty());
  EXPECT_EQ(w.reason("a/j"), Reason::kLimitReached);
  w.cluster.remove_other_pod(old.key);
  EXPECT_THAT(w.starts(), ElementsAre("a/j"));
}

TEST(AdmissionTest, LingeringPodIsChargedWhereItsNodeBelongsEvenIfThatIsKnownLater) {
  Cluster c;
  OtherPod old;
  old.key = "a/p";
  old.node = "n1";
  old.amounts = testing::role("", 1, 2).per_pod;
  old.gpu_count = 2;
  old.project = "a";
  c.upsert_other_pod(old);
  c.upsert_queue(project("a", "top"));
  c.upsert_queue(queue("top", ""));
  c.upsert_node(node("n1"));
  c.upsert_pool(testing::pool("default"));
  EXPECT_EQ(c.usage("a", true, "default").allocated.gpu.value, 2000);
  EXPECT_EQ(c.usage("top", false, "default").allocated.gpu.value, 2000);
  EXPECT_THAT(c.audit(), IsEmpty());
}

}  // namespace
}  // namespace muster::placement
