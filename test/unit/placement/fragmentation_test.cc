// What is left of GPUs and of no use, and how placement avoids it (RULES.md 4.4).
#include "pool/fragmentation.h"

#include <gtest/gtest.h>

#include "model/cluster_model.h"
#include "small_cluster.h"

namespace muster::placement {
namespace {

using namespace testing;

RoleSpec asks(std::int32_t gpus, std::int64_t milli, std::int64_t cpus = 0) {
  RoleSpec r = role("r", 1, gpus, cpus);
  if (milli < kMilliPerGpu) {
    r.share.kind = GpuShare::Kind::kFraction;
    r.share.milli = MilliGpu{milli};
  }
  return r;
}

JobSpec single(const std::string& id, RoleSpec r) {
  JobSpec j = job(id, 1, r.gpus);
  j.roles = {std::move(r)};
  return j;
}

// The node n with what these jobs hold of it, and the pool's capacity.
struct OneNode {
  SmallCluster world;
  Fragmentation f;

  explicit OneNode(std::int32_t gpus, std::int64_t cpus = 100) : world({node("n", gpus, "H100", cpus)}) {}
  const Node& get() { return world.cluster.state().nodes().all()[0]; }
  void hold(const std::string& id, std::int64_t milli, std::vector<std::int32_t> gpus,
            std::int64_t cpus = 0) {
    world.cluster.upsert_job(single(id, asks(static_cast<std::int32_t>(gpus.size()), milli, cpus)));
    world.cluster.set_assignment(id, assignment(1, {{0, 0, "n", std::move(gpus)}}));
  }
  void prepare() { f.prepare(world.cluster.state().pools[0].domains[0].capacity); }
  std::int64_t unusable() { return f.unusable(get()) / 1000; }  // milli-GPU
  std::int64_t increase(const RoleSpec& r) { return f.increase(get(), 0, r) / 1000; }
};

TEST(Unusable, IsTheMeanOverTheTypicalRequestsOfWhatEachCannotUse) {
  OneNode n(3);
  n.hold("a/1", 1000, {0});
  n.hold("a/2", 700, {1});  // left: 300 of GPU 1, GPU 2
  n.f.count(asks(1, 1000), 1);
  n.f.count(asks(1, 200), 1);
  n.f.count(asks(2, 1000), 2);
  n.prepare();
  // 300 for a whole one, nothing for 200, all 1300 for two whole ones, which weigh twice.
  EXPECT_EQ(n.unusable(), (300 + 0 + 2 * 1300) / 4);
  n.f.count(asks(2, 1000), -2);
  n.prepare();
  EXPECT_EQ(n.unusable(), 150);
}

TEST(Unusable, AllOfItWithoutTheModelOrTheCpu) {
  OneNode n(2, 10);
  RoleSpec other = asks(1, 1000);
  other.models = {"A100"};
  n.f.count(other, 1);
  n.prepare();
  EXPECT_EQ(n.unusable(), 2000);
  n.f.count(other, -1);
  n.f.count(asks(1, 1000, 11), 1);
  n.prepare();
  // No room for it; and by the ratio of 11 CPUs to a GPU, 10 CPUs go with 909 of 2000.
  EXPECT_EQ(n.unusable(), 2000 + 1090);
}

TEST(Unusable, NobodyAsksForAnything) {
  OneNode n(2);
  n.prepare();
  EXPECT_EQ(n.unusable(), 0);
  EXPECT_EQ(n.f.matters(), Fragmentation::Matters::kNot);
  n.f.count(role("cpu", 1, 0), 5);
  n.prepare();
  EXPECT_TRUE(n.f.typical().empty());
}

TEST(Unusable, GrowsByWhatAPodWouldLeaveUnused) {
  OneNode n(2);
  n.f.count(asks(1, 1000), 1);
  n.f.count(asks(1, 400), 1);
  n.prepare();
  EXPECT_EQ(n.unusable(), 0);
  EXPECT_EQ(n.increase(asks(1, 1000)), 0);
  EXPECT_EQ(n.increase(asks(1, 400)), 600 / 2);  // 600 of no use to a whole one
  n.hold("a/1", 400, {0});
  EXPECT_EQ(n.unusable(), 300);
  EXPECT_EQ(n.increase(asks(1, 400)), (200 + 200) / 2 - 300);  // joins it: 200 of no use to either
  EXPECT_EQ(n.increase(asks(2, 400)), (200 + 600 + 200) / 2 - 300);
}

TEST(Unusable, WeighsByPowersOfTwoSoThatItSeldomChanges) {
  Fragmentation f;
  f.count(asks(1, 1000), 3);
  f.count(asks(1, 500), 100);
  f.prepare({});
  ASSERT_EQ(f.typical().size(), 2U);
  EXPECT_EQ(f.typical()[0].weight, 64);
  EXPECT_EQ(f.typical()[1].weight, 2);
  for (std::int64_t milli = 1; milli <= 100; ++milli) f.count(asks(1, milli), 1);
  f.prepare({});
  EXPECT_EQ(f.typical().size(), 20U) << "the most frequent ones";
  EXPECT_EQ(f.typical()[0].weight, 64);
}

TEST(Unusable, MattersWhereRequestsDiffer) {
  Fragmentation f;
  const Resources capacity = {MilliGpu{8000}, MilliCpu{80000}, {}, 0};
  f.count(asks(1, 1000, 10), 1);
  f.prepare(capacity);
  EXPECT_EQ(f.matters(), Fragmentation::Matters::kNot);
  f.count(asks(2, 1000, 20), 1);
  f.prepare(capacity);
  EXPECT_EQ(f.matters(), Fragmentation::Matters::kByCount);
  f.count(asks(1, 1000, 11), 1);
  f.prepare(capacity);
  EXPECT_EQ(f.matters(), Fragmentation::Matters::kByNode);
  f.count(asks(1, 1000, 11), -1);
  f.count(asks(1, 500), 1);
  f.prepare(capacity);
  EXPECT_EQ(f.matters(), Fragmentation::Matters::kByNode);
}

// --- what placement makes of it

std::string where(SmallCluster& w, const JobSpec& j) {
  w.cluster.upsert_job(j);
  w.plan();
  const Assignment* a = w.cluster.assignment(j.id);
  return a == nullptr ? "" : a->pods[0].node;
}
void hold(SmallCluster& w, const std::string& id, const std::string& node, std::vector<std::int32_t> gpus) {
  w.cluster.upsert_job(single(id, asks(static_cast<std::int32_t>(gpus.size()), 1000)));
  w.cluster.set_assignment(id, assignment(1, {{0, 0, node, std::move(gpus)}}));
}

// n1 has 5 free, n2 has 4: a pod of 1 goes to n1, so that both keep room for a pod of 4, which
// the pool knows.
TEST(Fragmentation, KeepsRoomForTheLargerRequestsOfThePool) {
  SmallCluster w({node("n1"), node("n2")});
  hold(w, "a/1", "n1", {0, 1, 2});
  hold(w, "a/2", "n2", {0, 1, 2, 3});
  EXPECT_EQ(where(w, single("a/one", asks(1, 1000))), "n1");
  EXPECT_NE(where(w, single("a/four", asks(4, 1000))), "");
  EXPECT_NE(where(w, single("a/fore", asks(4, 1000))), "");
}

TEST(Fragmentation, AFractionCompletesAStartedGpu) {
  SmallCluster w({node("n1", 2), node("n2", 2)});
  EXPECT_EQ(where(w, single("a/1", asks(1, 700))), "n1");
  hold(w, "a/2", "n2", {0});
  EXPECT_EQ(where(w, single("a/3", asks(1, 300))), "n1");
}

// Pods that want many CPUs with a GPU go where CPUs are many, though the other fits as tightly.
TEST(Fragmentation, LeavesNoGpuWithoutCpus) {
  SmallCluster w({node("a-poor", 4, "H100", 16), node("b-rich", 4, "H100", 64)});
  EXPECT_EQ(where(w, single("a/1", asks(1, 1000, 12))), "b-rich");
  EXPECT_EQ(where(w, single("a/2", asks(1, 1000, 12))), "b-rich");
}

TEST(Fragmentation, ScarceModelsAreKeptForThoseWhoNeedThem) {
  SmallCluster w({node("a-scarce", 2, "H200"), node("b-plenty", 2, "H100")});
  RoleSpec picky = asks(1, 1000);
  picky.models = {"H200"};
  EXPECT_EQ(where(w, single("a/picky", picky)), "a-scarce");
  EXPECT_EQ(where(w, single("a/any", asks(1, 1000))), "b-plenty") << "though the other fits tighter";
}

}  // namespace
}  // namespace muster::placement
