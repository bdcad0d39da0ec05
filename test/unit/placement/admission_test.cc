// RULES.md 3: limits and quotas at every level. Table: what is already held, what is asked, who says no.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "small_cluster.h"

namespace muster::placement {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::job;
using testing::node;
using testing::project;
using testing::Q;
using testing::queue;
using testing::SmallCluster;

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
  SmallCluster w({node("n1"), node("n2")});
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
  const PendingReason* v = w.cluster.pending_reason("a/new");
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
  SmallCluster w({node("n1")});
  w.cluster.upsert_queue(queue("top", "", {8, -1}));
  w.cluster.upsert_queue(project("a", "top", {8, -1}));
  JobSpec j = job("a/j", 1, 0);
  j.preemptible = false;
  w.cluster.upsert_job(j);
  EXPECT_THAT(w.starts(), ElementsAre("a/j"));
}

TEST(AdmissionTest, CpuQuotaAndMemoryLimitAreKept) {
  SmallCluster w({node("n1")});
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
  EXPECT_EQ(w.cluster.pending_reason("a/cpus")->blocking[0].resource, "cpu");
  EXPECT_EQ(w.reason("a/memory"), Reason::kLimitReached);
  EXPECT_EQ(w.cluster.pending_reason("a/memory")->blocking[0].resource, "memory");
}

TEST(AdmissionTest, PodsThatLingerStayCharged) {
  SmallCluster w({node("n1")});
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

// --- what is reserved ---

// 8 GPUs; susan, joe, jemma with quota 2 each, susan's 2 reserved.
struct ReservedWorld : SmallCluster {
  ReservedWorld() : SmallCluster({node("n1")}) {
    cluster.upsert_queue(queue("top", "", {8, -1, 1, 0, 2}));
    cluster.upsert_queue(project("susan", "top", {2, -1, 1, 0, 2}));
    cluster.upsert_queue(project("joe", "top", {2}));
    cluster.upsert_queue(project("jemma", "top", {2}));
  }
  void ask(const std::string& project_name, int jobs, bool interactive = false) {
    for (int i = 0; i < jobs; ++i) {
      JobSpec j = job(project_name + "/" + (interactive ? "i" : "j") + std::to_string(i), 1, 1);
      j.interactive = interactive;
      j.preemptible = !interactive;
      cluster.upsert_job(j);
    }
  }
  std::int64_t uses(const std::string& project_name) const {
    return cluster.usage(project_name, true, "default").allocated.gpu.value / 1000;
  }
};

TEST(ReservedTest, StaysFreeForItsOwner) {
  ReservedWorld w;
  w.ask("joe", 8);
  EXPECT_EQ(w.starts().size(), 6u);
  EXPECT_EQ(w.reason("joe/j7"), Reason::kInsufficientCapacity);
  EXPECT_EQ(w.message("joe/j7"),
            "needs 1 nvidia.com/gpu in pool default, 0 free beside the 2 that Project susan has reserved and "
            "not in use");
  EXPECT_THAT(w.cluster.pending_reason("joe/j7")->blocking[0].by, ElementsAre("Project susan"));
  w.ask("susan", 3, true);
  EXPECT_THAT(w.starts(), ElementsAre("susan/i0", "susan/i1"));
  EXPECT_EQ(w.reason("susan/i2"), Reason::kQuotaExceeded);
  EXPECT_EQ(w.uses("joe"), 6);
}

TEST(ReservedTest, ItsOwnerMayBorrow) {
  ReservedWorld w;
  w.ask("joe", 3);
  w.ask("susan", 3, true);
  EXPECT_EQ(w.starts().size(), 5u);
  EXPECT_EQ(w.reason("susan/i2"), Reason::kQuotaExceeded);
  w.ask("susan", 2);
  EXPECT_THAT(w.starts(), ElementsAre("susan/j0", "susan/j1"));
}

TEST(ReservedTest, ComesFreeForOthersOnlyWhenItsOwnerUsesIt) {
  ReservedWorld w;
  w.ask("joe", 7);
  EXPECT_EQ(w.starts().size(), 6u);
  w.ask("susan", 1);
  EXPECT_EQ(w.starts().size(), 1u);  // susan's: one more is still hers
  EXPECT_EQ(w.uses("joe"), 6);
  w.cluster.remove_job("joe/j0");
  w.plan();
  EXPECT_EQ(w.uses("joe"), 6);
  w.cluster.remove_job("susan/j0");
  EXPECT_THAT(w.starts(), IsEmpty());
  w.cluster.upsert_queue(project("susan", "top", {2}));  // nothing is reserved any more but for top
  w.ask("joe", 9);
  EXPECT_EQ(w.starts().size(), 2u);
}

TEST(ReservedTest, HoldsInsideItsQueueToo) {
  SmallCluster w({node("n1")});
  w.cluster.upsert_queue(queue("d1", "", {6, -1, 1, 0, 4}));
  w.cluster.upsert_queue(queue("d2", "", {2}));
  w.cluster.upsert_queue(project("x", "d1", {2, -1, 1, 0, 2}));
  w.cluster.upsert_queue(project("y", "d1", {4}));
  w.cluster.upsert_queue(project("z", "d2", {2}));
  const auto start = [&](const std::string& leaf, int first, int count) {
    for (int i = first; i < first + count; ++i)
      w.cluster.upsert_job(job(leaf + "/" + std::to_string(i), 1, 1));
    return w.starts().size();
  };
  EXPECT_EQ(start("z", 0, 8), 4u);  // d1's 4, not 4 and x's 2
  EXPECT_EQ(start("y", 0, 8), 2u);  // x's 2 are held back from d1's other Project as well
  EXPECT_EQ(start("x", 0, 8), 2u);
}

TEST(ReservedTest, WhoIsServedFromItsOwnPartIsNotHeldUpByOthers) {
  // Both have 4 reserved, and a node is gone: only 4 GPUs are left.
  SmallCluster w({node("n1", 4)});
  w.cluster.upsert_queue(queue("top", "", {8}));
  w.cluster.upsert_queue(project("a", "top", {4, -1, 1, 0, 4}));
  w.cluster.upsert_queue(project("b", "top", {4, -1, 1, 0, 4}));
  w.cluster.upsert_job(job("a/j", 1, 4));
  EXPECT_THAT(w.starts(), ElementsAre("a/j"));
}

TEST(ReservedTest, CountsPartsOfGpus) {
  SmallCluster w({node("n1", 2)});
  w.cluster.upsert_queue(queue("top", "", {2}));
  w.cluster.upsert_queue(project("a", "top", {1, -1, 1, 0, 1}));
  w.cluster.upsert_queue(project("b", "top", {1}));
  for (const char* id : {"b/1", "b/2", "b/3"}) {
    JobSpec j = job(id, 1, 1);
    j.roles[0].share.kind = GpuShare::Kind::kFraction;
    j.roles[0].share.milli = MilliGpu{500};
    w.cluster.upsert_job(j);
  }
  EXPECT_THAT(w.starts(), ElementsAre("b/1", "b/2"));
  w.cluster.upsert_job(job("a/j", 1, 1));
  EXPECT_THAT(w.starts(), ElementsAre("a/j"));
}

TEST(ReservedTest, CpusAsWell) {
  SmallCluster w({node("n1", 0, "", 8)});
  QueueSpec top = queue("top", ""), a = project("a", "top"), b = project("b", "top");
  for (QueueSpec* q : {&top, &a, &b}) q->in_default_pool.quota.cpu = MilliCpu{4000};
  a.in_default_pool.reserved.cpu = MilliCpu{3000};
  for (const QueueSpec* q : {&top, &a, &b}) w.cluster.upsert_queue(*q);
  JobSpec six = job("b/6", 6, 0), five = job("b/5", 5, 0);
  w.cluster.upsert_job(six);
  w.cluster.upsert_job(five);
  EXPECT_THAT(w.starts(), ElementsAre("b/5"));
  EXPECT_EQ(w.reason("b/6"), Reason::kInsufficientCapacity);
}

TEST(ReservedTest, InOnePoolOnly) {
  SmallCluster w({node("n1")});
  NodeSpec other = node("n2");
  other.labels["pool"] = "spot";
  w.cluster.upsert_node(other);
  PoolSpec first = testing::pool("default", {{"pool", Operator::kDoesNotExist, {}}});
  first.is_default = true;
  w.cluster.upsert_pool(first);
  w.cluster.upsert_pool(testing::pool("spot", {{"pool", Operator::kIn, {"spot"}}}));
  QueueSpec a = project("a", "top");
  a.in_pool["spot"].quota.gpu = MilliGpu{4000};
  a.in_pool["spot"].reserved.gpu = MilliGpu{4000};
  w.cluster.upsert_queue(a);
  JobSpec spot = job("b/spot", 8, 1), here = job("b/here", 8, 1);
  spot.pools = {"spot"};
  w.cluster.upsert_job(spot);
  w.cluster.upsert_job(here);
  EXPECT_THAT(w.starts(), ElementsAre("b/here"));
  EXPECT_EQ(w.reason("b/spot"), Reason::kInsufficientCapacity);
}

}  // namespace
}  // namespace muster::placement
