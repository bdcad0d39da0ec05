// The GPUs of one node: what fits beside what, and which ones a pod gets (RULES.md 4.6, 4.7; S6, S7, S24 to
// S26).
#include "node/devices.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "node/links.h"
#include "node/sharing.h"
#include "small_cluster.h"

namespace muster::placement {
namespace {

using namespace testing;

constexpr std::int64_t kMi = std::int64_t{1} << 20;

// World has one pool "default"; this one is spelled out where a test needs another.
PoolSpec shared_pool(SharingMode mode, std::int32_t clients = 0) {
  PoolSpec p = pool("default");
  p.sharing = {mode, clients};
  return p;
}

NodeSpec gpu_node(const std::string& name, std::int32_t gpus, std::int64_t mib) {
  NodeSpec n = node(name, gpus);
  n.gpu_memory = Bytes{mib * kMi};
  return n;
}

JobSpec with_share(const std::string& id, GpuShare share, std::int32_t gpus = 1, std::int32_t replicas = 1) {
  JobSpec j = job(id, replicas, gpus);
  j.roles[0].share = std::move(share);
  return j;
}
GpuShare fraction(std::int64_t milli) {
  GpuShare s;
  s.kind = GpuShare::Kind::kFraction;
  s.milli = MilliGpu{milli};
  return s;
}
GpuShare memory(std::int64_t mib, bool overcommit = false) {
  GpuShare s;
  s.kind = GpuShare::Kind::kMemory;
  s.memory = Bytes{mib * kMi};
  s.overcommit = overcommit;
  return s;
}
GpuShare mig(const std::string& profile) {
  GpuShare s;
  s.kind = GpuShare::Kind::kMig;
  s.profile = profile;
  return s;
}

using Places = std::vector<std::pair<std::string, std::vector<std::int32_t>>>;
Places places(const SmallCluster& w, const std::string& id) {
  Places list;
  if (const Assignment* a = w.cluster.assignment(id)) {
    for (const PodPlace& p : a->pods) list.emplace_back(p.node, p.gpus);
  }
  return list;
}
Places at(const std::string& node, std::vector<std::int32_t> gpus) {
  return {{node, std::move(gpus)}};
}

OtherPod other(const std::string& key, GpuShare share, std::vector<std::int32_t> gpus) {
  OtherPod p;
  p.key = key;
  p.node = "n1";
  p.gpu_count = static_cast<std::int32_t>(std::max<std::size_t>(1, gpus.size()));
  p.gpus = std::move(gpus);
  p.share = std::move(share);
  return p;
}

// Submits and plans at once.
Places start(SmallCluster& w, const JobSpec& j) {
  w.cluster.upsert_job(j);
  w.plan();
  return places(w, j.id);
}
// Holds these whole GPUs, and never leaves them.
void occupy(SmallCluster& w, const std::string& id, const std::string& node, std::vector<std::int32_t> gpus) {
  JobSpec j = job(id, 1, static_cast<std::int32_t>(gpus.size()));
  j.preemptible = false;
  w.cluster.upsert_job(j);
  w.cluster.set_assignment(id, assignment(1, {{0, 0, node, std::move(gpus)}}));
}
bool sound(const SmallCluster& w) {
  return w.cluster.audit().empty();
}
std::int64_t allocated(const SmallCluster& w) {
  return w.cluster.usage("a", true, "default").allocated.gpu.value;
}

// --- S6

struct Orders {
  NodeOrder nodes, gpus;
  Places second;
};
TEST(Fractions, S6PackAndSpreadOnBothLevels) {
  const auto pack = NodeOrder::kPack, spread = NodeOrder::kSpread;
  const std::vector<Orders> all = {{pack, pack, at("n0", {0})},
                                   {pack, spread, at("n0", {1})},
                                   {spread, pack, at("n1", {0})},
                                   {spread, spread, at("n1", {0})}};
  for (const Orders& o : all) {
    SmallCluster w({node("n0", 2), node("n1", 2)});
    PoolSpec p = pool("default");
    p.order = o.nodes;
    p.gpu_order = o.gpus;
    w.cluster.upsert_pool(p);
    EXPECT_EQ(start(w, with_share("a/1", fraction(500))), at("n0", {0}));
    EXPECT_EQ(start(w, with_share("a/2", fraction(500))), o.second);
    if (o.nodes == spread && o.gpus == spread) {
      EXPECT_EQ(start(w, with_share("a/3", fraction(500))), at("n0", {1}));
      EXPECT_EQ(start(w, with_share("a/4", fraction(500))), at("n1", {1}));
    }
    EXPECT_TRUE(sound(w));
  }
}

// --- fractions

TEST(Fractions, PackTakesTheGpuThatIsLeftWithLeast) {
  SmallCluster w({node("n", 3)});
  EXPECT_EQ(start(w, with_share("a/1", fraction(400))), at("n", {0}));
  EXPECT_EQ(start(w, with_share("a/2", fraction(700))), at("n", {1}));
  EXPECT_EQ(start(w, with_share("a/3", fraction(300))), at("n", {1}));
  EXPECT_EQ(start(w, with_share("a/4", fraction(300))), at("n", {0}));
}

TEST(Fractions, SeveralDevicesAreDistinctAndChargedEach) {
  SmallCluster w({node("n", 2)});
  EXPECT_EQ(start(w, with_share("a/1", fraction(500), 2)), at("n", {0, 1}));
  EXPECT_EQ(allocated(w), 1000);
  EXPECT_EQ(start(w, with_share("a/2", fraction(500), 2)), at("n", {0, 1}));
  EXPECT_EQ(start(w, with_share("a/3", fraction(500), 2)), Places{});
}

TEST(Fractions, WholeGpusAreNeverShared) {
  SmallCluster w({node("n", 2)});
  EXPECT_EQ(start(w, with_share("a/f", fraction(100))), at("n", {0}));
  EXPECT_EQ(start(w, job("a/two", 1, 2)), Places{});
  w.cluster.remove_job("a/two");
  EXPECT_EQ(start(w, job("a/one", 1, 1)), at("n", {1}));
  EXPECT_EQ(start(w, with_share("a/g", fraction(950))), Places{});
  EXPECT_EQ(w.reason("a/g"), Reason::kInsufficientCapacity);
}

TEST(Fractions, DoNotSpanGpus) {
  SmallCluster w({node("n", 2)});
  start(w, with_share("a/1", fraction(600)));
  start(w, with_share("a/2", fraction(600)));
  EXPECT_EQ(start(w, with_share("a/3", fraction(500))), Places{});
  EXPECT_EQ(w.reason("a/3"), Reason::kFragmented) << w.message("a/3");
  EXPECT_EQ(start(w, with_share("a/4", fraction(400))), at("n", {0}));
}

// One place on GPUs 0 and 1 each, two on GPU 2: two pods of two devices fit only if each takes GPU 2, though
// packing alone would take 0 and 1 first.
TEST(Fractions, GangOfSeveralDevicesTakesTheGpuThatAllNeed) {
  SmallCluster w({node("n", 3)});
  PoolSpec p = pool("default");
  p.gpu_order = NodeOrder::kSpread;
  w.cluster.upsert_pool(p);
  start(w, with_share("a/1", fraction(500)));
  start(w, with_share("a/2", fraction(500)));
  p.gpu_order = NodeOrder::kPack;
  w.cluster.upsert_pool(p);
  w.cluster.upsert_job(with_share("a/gang", fraction(500), 2, 2));
  w.plan();
  EXPECT_EQ(places(w, "a/gang"), (Places{{"n", {0, 2}}, {"n", {1, 2}}}));
  EXPECT_TRUE(sound(w));
}

// --- memory

TEST(MemoryShares, AreChargedByTheirPartRoundedUpAndBoundedByMemory) {
  SmallCluster w({gpu_node("n", 1, 30000)});
  for (const char* id : {"a/1", "a/2", "a/3"})
    EXPECT_EQ(start(w, with_share(id, memory(10000))), at("n", {0}));
  EXPECT_EQ(allocated(w), 1002);
  EXPECT_TRUE(w.cluster.conflicts().empty());
  EXPECT_EQ(start(w, with_share("a/4", memory(1))), Places{});
  EXPECT_TRUE(sound(w));
}

TEST(MemoryShares, NeedANodeThatTellsItsMemory) {
  SmallCluster w({node("n1", 1), gpu_node("n2", 1, 24000)});
  EXPECT_EQ(start(w, with_share("a/1", memory(12000))), at("n2", {0}));
  EXPECT_EQ(start(w, with_share("a/2", memory(24001))), Places{});
  EXPECT_EQ(w.reason("a/2"), Reason::kNoMatchingNodes);
}

TEST(MemoryShares, AFractionsMemoryCountsByItsShare) {
  SmallCluster w({gpu_node("n", 1, 20000)});
  EXPECT_EQ(start(w, with_share("a/f", fraction(500))), at("n", {0}));
  EXPECT_EQ(start(w, with_share("a/m", memory(10001))), Places{});
  w.cluster.remove_job("a/m");
  EXPECT_EQ(start(w, with_share("a/n", memory(10000))), at("n", {0}));
}

TEST(MemoryShares, S25OvercommitTakesThreeThatOptInAndNoFourth) {
  SmallCluster w({gpu_node("n", 1, 23028)});
  EXPECT_EQ(start(w, with_share("a/1", memory(13135))), at("n", {0}));
  EXPECT_EQ(start(w, with_share("a/2", memory(13135))), Places{});

  SmallCluster o({gpu_node("n", 1, 23028)});
  PoolSpec p = pool("default");
  p.memory_overcommit_milli = 2000;
  o.cluster.upsert_pool(p);
  for (const char* id : {"a/1", "a/2", "a/3"})
    EXPECT_EQ(start(o, with_share(id, memory(13135, true))), at("n", {0}));
  EXPECT_EQ(allocated(o), 3 * 571);
  EXPECT_EQ(start(o, with_share("a/4", memory(13135, true))), Places{});
  EXPECT_EQ(o.reason("a/4"), Reason::kInsufficientCapacity);
  EXPECT_TRUE(o.cluster.conflicts().empty());
  EXPECT_TRUE(sound(o));
}

TEST(MemoryShares, NobodyWhoDidNotOptInSharesAnOvercommittedGpu) {
  SmallCluster w({gpu_node("n", 1, 24000)});
  PoolSpec p = pool("default");
  p.memory_overcommit_milli = 2000;
  w.cluster.upsert_pool(p);
  EXPECT_EQ(start(w, with_share("a/opted", memory(16000, true))), at("n", {0}));
  EXPECT_EQ(start(w, with_share("a/plain", memory(16000))), Places{});
  EXPECT_EQ(start(w, with_share("a/small", memory(8000))), at("n", {0}));
  EXPECT_EQ(start(w, with_share("a/more", memory(1, true))), Places{}) << "the plain one's memory is its own";
}

// Assignments may come before the nodes that they name, after a restart: shares are then charged by what is
// known, and nobody is taken for an intruder.
TEST(MemoryShares, AreChargedAnewWhenTheNodeIsKnown) {
  SmallCluster w;
  for (const char* id : {"a/1", "a/2"}) {
    w.cluster.upsert_job(with_share(id, memory(12000)));
    w.cluster.set_assignment(id, assignment(1, {{0, 0, "n", {0}}}));
  }
  w.plan();
  w.cluster.upsert_node(gpu_node("n", 1, 24000));
  EXPECT_TRUE(w.plan().decisions.empty());
  EXPECT_EQ(allocated(w), 1000);
  EXPECT_TRUE(sound(w));
  EXPECT_EQ(start(w, with_share("a/3", memory(12000))), Places{});
}

// What waits counts as demand by the largest GPUs there are, whichever came first.
TEST(MemoryShares, WhatWaitsIsPricedAnewWhenLargerGpusComeOrGo) {
  SmallCluster w({gpu_node("n", 1, 24000)});
  ASSERT_EQ(start(w, with_share("a/1", memory(24000))), at("n", {0}));
  w.cluster.upsert_job(with_share("a/2", memory(12000)));
  w.plan();
  const auto pending = [&] { return w.cluster.usage("a", true, "default").pending.gpu.value; };
  ASSERT_EQ(pending(), 500);
  NodeSpec larger = gpu_node("large", 1, 48000);
  larger.usable = false;
  w.cluster.upsert_node(larger);
  w.plan();
  EXPECT_EQ(pending(), 500) << "one that takes no part";
  larger.usable = true;
  larger.allocatable.cpu = {};
  w.cluster.upsert_node(larger);
  w.plan();
  EXPECT_EQ(pending(), 250);
  w.cluster.remove_node("large");
  w.plan();
  EXPECT_EQ(pending(), 500);
  EXPECT_TRUE(sound(w));
}

// --- sharing modes

TEST(SharingModes, NoneGivesWholeGpusOnlyAndSaysSo) {
  SmallCluster w({gpu_node("n", 2, 24000)});
  w.cluster.upsert_pool(shared_pool(SharingMode::kNone));
  EXPECT_EQ(start(w, with_share("a/f", fraction(500))), Places{});
  EXPECT_EQ(w.reason("a/f"), Reason::kNoMatchingNodes);
  EXPECT_NE(w.message("a/f").find("whole GPUs only"), std::string::npos) << w.message("a/f");
  EXPECT_EQ(start(w, with_share("a/m", memory(1000))), Places{});
  EXPECT_EQ(start(w, job("a/w", 1, 1)), at("n", {0}));
}

TEST(SharingModes, S24TheFortyNinthMpsClientIsRefused) {
  SmallCluster w({node("n", 1)});
  w.cluster.upsert_pool(shared_pool(SharingMode::kMps));
  JobSpec j = with_share("a/many", fraction(20), 1, 48);
  w.cluster.upsert_job(j);
  w.plan();
  EXPECT_EQ(places(w, "a/many").size(), 48U);
  EXPECT_EQ(start(w, with_share("a/one", fraction(20))), Places{});
  EXPECT_EQ(w.reason("a/one"), Reason::kInsufficientCapacity);
  EXPECT_NE(w.message("a/one").find("48 MPS clients a GPU"), std::string::npos) << w.message("a/one");
}

TEST(SharingModes, TheLimitOfClientsIsThePoolsOwn) {
  SmallCluster w({node("n", 2)});
  w.cluster.upsert_pool(shared_pool(SharingMode::kTimeSlicing, 2));
  for (const char* id : {"a/1", "a/2", "a/3", "a/4"})
    EXPECT_FALSE(start(w, with_share(id, fraction(100))).empty());
  EXPECT_EQ(start(w, with_share("a/5", fraction(100))), Places{});
  EXPECT_NE(w.message("a/5").find("2 clients a GPU"), std::string::npos) << w.message("a/5");

  SmallCluster any({node("n", 1)});  // nothing said: any number
  JobSpec many = with_share("a/many", fraction(10), 1, 100);
  many.roles[0].per_pod.cpu = {};
  any.cluster.upsert_job(many);
  any.plan();
  EXPECT_EQ(places(any, "a/many").size(), 100U);
}

// A limit that is set later evicts nobody.
TEST(SharingModes, AreForWhatStarts) {
  SmallCluster w({node("n", 1)});
  start(w, with_share("a/1", fraction(100)));
  start(w, with_share("a/2", fraction(100)));
  w.cluster.upsert_pool(shared_pool(SharingMode::kNone));
  EXPECT_TRUE(w.plan().decisions.empty());
  EXPECT_TRUE(sound(w));
}

// --- MIG

TEST(Mig, S24TheEighthSliceIsRefused) {
  SmallCluster w({gpu_node("n", 1, 81920)});
  w.cluster.upsert_pool(shared_pool(SharingMode::kMig));
  for (int i = 1; i <= 7; ++i)
    EXPECT_EQ(start(w, with_share("a/" + std::to_string(i), mig("1g.10gb"))), at("n", {0})) << i;
  EXPECT_EQ(allocated(w), 1001);
  EXPECT_EQ(start(w, with_share("a/8", mig("1g.10gb"))), Places{});
  EXPECT_EQ(w.reason("a/8"), Reason::kInsufficientCapacity);
  EXPECT_NE(w.message("a/8").find("7 MIG compute slices and 8 memory slices a GPU"), std::string::npos)
      << w.message("a/8");
  EXPECT_TRUE(w.cluster.conflicts().empty());
  EXPECT_TRUE(sound(w));
}

TEST(Mig, MemorySlicesBindToo) {
  SmallCluster w({gpu_node("n", 1, 81920)});
  w.cluster.upsert_pool(shared_pool(SharingMode::kMig));
  EXPECT_EQ(start(w, with_share("a/1", mig("3g.40gb"))), at("n", {0}));
  EXPECT_EQ(start(w, with_share("a/2", mig("3g.40gb"))), at("n", {0}));
  EXPECT_EQ(allocated(w), 858);
  EXPECT_EQ(start(w, with_share("a/3", mig("1g.10gb"))), Places{});
}

TEST(Mig, ProfilesOfRealGpusTakeTheEighthsTheyAreNamedFor) {
  const auto slices = [](const char* profile, std::int64_t mib) {
    return mig_memory_slices(*mig_profile(profile), Bytes{mib * kMi});
  };
  // What nvidia-smi reports of an A100 40 GB, an H100 80 GB and an H200.
  EXPECT_EQ(slices("1g.5gb", 40960), 1);
  EXPECT_EQ(slices("2g.10gb", 40960), 2);
  EXPECT_EQ(slices("7g.40gb", 40960), 8);
  EXPECT_EQ(slices("1g.10gb", 81559), 1);
  EXPECT_EQ(slices("1g.20gb", 81559), 2);
  EXPECT_EQ(slices("3g.40gb", 81559), 4);
  EXPECT_EQ(slices("7g.80gb", 81559), 8);
  EXPECT_EQ(slices("1g.18gb", 143771), 1);
  EXPECT_EQ(slices("4g.71gb", 143771), 4);
  EXPECT_EQ(slices("7g.141gb", 143771), 8);
  EXPECT_GT(slices("7g.80gb", 40960), 8);
  EXPECT_GT(slices("1g.5gb", 0), 8) << "memory not known";
}

TEST(Mig, ASlicedGpuTakesNeitherWholePodsNorFractions) {
  SmallCluster w({gpu_node("n", 2, 81920)});
  w.cluster.upsert_pool(shared_pool(SharingMode::kMig));
  EXPECT_EQ(start(w, with_share("a/m", mig("1g.10gb"))), at("n", {0}));
  EXPECT_EQ(start(w, job("a/two", 1, 2)), Places{});
  w.cluster.remove_job("a/two");
  EXPECT_EQ(start(w, job("a/one", 1, 1)), at("n", {1}));
  w.cluster.remove_job("a/one");
  // The pool's mode changes: the sliced GPU stays sliced while somebody has a slice of it.
  w.cluster.upsert_pool(shared_pool(SharingMode::kFraction));
  EXPECT_EQ(start(w, with_share("a/f", fraction(500))), at("n", {1}));
  EXPECT_EQ(start(w, with_share("a/g", fraction(600))), Places{});
}

TEST(Mig, SeveralSlicesOfOnePodMayComeFromOneGpu) {
  SmallCluster w({gpu_node("n", 2, 81920)});
  w.cluster.upsert_pool(shared_pool(SharingMode::kMig));
  EXPECT_EQ(start(w, with_share("a/1", mig("3g.40gb"), 3)), at("n", {0, 0, 1}));
  EXPECT_EQ(start(w, with_share("a/2", mig("4g.40gb"))), at("n", {1}));
  EXPECT_TRUE(sound(w));
  w.cluster.remove_job("a/1");
  EXPECT_TRUE(sound(w));
  EXPECT_EQ(start(w, job("a/3", 1, 1)), at("n", {0}));
}

TEST(Mig, SlicesCutAlreadyAreCountedByProfile) {
  NodeSpec n = node("n", 0);
  n.mig = {{"1g.10gb", 2}};
  SmallCluster w({n});
  EXPECT_EQ(start(w, with_share("a/1", mig("1g.10gb"))), at("n", {}));
  EXPECT_EQ(start(w, with_share("a/2", mig("1g.10gb"))), at("n", {}));
  EXPECT_EQ(allocated(w), 286);
  EXPECT_EQ(start(w, with_share("a/3", mig("1g.10gb"))), Places{});
  EXPECT_EQ(w.reason("a/3"), Reason::kInsufficientCapacity) << w.message("a/3");
  EXPECT_EQ(start(w, with_share("a/big", mig("3g.40gb"))), Places{});
  EXPECT_EQ(w.reason("a/big"), Reason::kNoMatchingNodes);
  EXPECT_NE(w.message("a/big").find("3g.40gb"), std::string::npos) << w.message("a/big");
  w.cluster.remove_job("a/1");
  w.plan();
  EXPECT_EQ(places(w, "a/3"), at("n", {}));
  EXPECT_TRUE(sound(w));
}

// --- links

// nvidia-smi topo -m of a DGX-1, ranked as the operator ranks it: SYS 1, NV1 6, NV2 7.
NodeSpec dgx1(const std::string& name = "n") {
  NodeSpec n = node(name, 8, "V100");
  const int s = 1, a = 6, b = 7;
  n.gpu_links = {{0, a, a, b, b, s, s, s}, {a, 0, b, a, s, b, s, s}, {a, b, 0, b, s, s, a, s},
                 {b, a, b, 0, s, s, s, a}, {b, s, s, s, 0, a, a, b}, {s, b, s, s, a, 0, b, a},
                 {s, s, a, s, a, b, 0, b}, {s, s, s, a, b, a, b, 0}};
  n.gpu_numa = {0, 0, 0, 0, 1, 1, 1, 1};
  return n;
}

TEST(Links, S7TheSecondGpuOfTheJob) {
  const std::vector<std::pair<std::vector<std::int32_t>, std::int32_t>> cases = {
      {{}, 3},          {{3}, 4},
      {{3, 4}, 2},  // 1 and 2 have one link to 0; 1 has two to 5, 2 but one to 6
      {{2, 3, 4}, 1},   {{1, 3, 4}, 2},
      {{1, 2, 3, 4}, 5}};
  for (const auto& [others, expected] : cases) {
    SmallCluster w({dgx1()});
    JobSpec j = job("a/e", 1, 1);
    j.roles[0].max_replicas = 2;
    w.cluster.upsert_job(j);
    w.cluster.set_assignment("a/e", assignment(1, {{0, 0, "n", {0}}}));
    if (!others.empty()) occupy(w, "a/other", "n", others);
    w.plan();
    EXPECT_EQ(places(w, "a/e"), (Places{{"n", {0}}, {"n", {expected}}}));
  }
}

TEST(Links, S7AsOnePodOfTwo) {
  const std::vector<std::pair<std::vector<std::int32_t>, std::vector<std::int32_t>>> cases = {
      {{2, 6, 7}, {0, 3}}, {{2, 3, 5, 7}, {0, 4}}, {{2, 3, 4, 5, 7}, {0, 1}}};
  for (const auto& [others, expected] : cases) {
    SmallCluster w({dgx1()});
    occupy(w, "a/other", "n", others);
    EXPECT_EQ(start(w, job("a/pair", 1, 2)), at("n", expected));
  }
}

TEST(Links, FourOfADgx1AreAHalfThatIsLinkedWithinItself) {
  SmallCluster w({dgx1()});
  EXPECT_EQ(start(w, job("a/1", 1, 4)), at("n", {0, 1, 2, 3}));
  EXPECT_EQ(start(w, job("a/2", 1, 4)), at("n", {4, 5, 6, 7}));
}

TEST(Links, DoNotBreakABetterSet) {
  NodeSpec n = node("n", 4);
  n.gpu_links = {{0, 9, 3, 3}, {9, 0, 3, 3}, {3, 3, 0, 9}, {3, 3, 9, 0}};
  SmallCluster w({n});
  occupy(w, "a/busy", "n", {1});
  EXPECT_EQ(start(w, job("a/one", 1, 1)), at("n", {0}));
  EXPECT_EQ(start(w, job("a/two", 1, 2)), at("n", {2, 3}));
}

TEST(Links, EqualLinksOrABrokenMatrixAreAsNone) {
  NodeSpec n = node("n", 3);
  n.gpu_links = {{0, 5, 5}, {5, 0, 5}, {5, 5, 0}};
  EXPECT_FALSE(links_differ(n));
  n.gpu_links = {{0, 5, 6}, {5, 0}, {6, 5, 0}};
  EXPECT_FALSE(links_differ(n));
  n.gpu_links = {{0, 5}, {6, 0}};
  EXPECT_FALSE(links_differ(n));
  n.gpu_links = {{0, 5, 6}, {5, 0, 5}, {6, 5, 0}};
  EXPECT_TRUE(links_differ(n));
}

// What enumeration with the bound finds is what plain enumeration finds.
TEST(Links, ExactByComparison) {
  std::uint32_t seed = 7;
  const auto next = [&](std::uint32_t n) {
    seed = seed * 1664525U + 1013904223U;
    return (seed >> 8U) % n;
  };
  for (int round = 0; round < 200; ++round) {
    NodeSpec n = node("n", 8);
    n.gpu_links.assign(8, std::vector<int>(8));
    for (std::size_t i = 0; i < 8; ++i) {
      for (std::size_t j = 0; j < i; ++j)
        n.gpu_links[i][j] = n.gpu_links[j][i] = 1 + static_cast<int>(next(9));
    }
    std::vector<std::int32_t> idle;
    for (std::int32_t i = 0; i < 8; ++i) {
      if (next(4) > 0) idle.push_back(i);
    }
    if (idle.empty()) continue;
    const auto count = static_cast<std::int32_t>(1 + next(static_cast<std::uint32_t>(idle.size())));
    const auto sum = [&](const std::vector<std::int32_t>& set) {
      int total = 0;
      for (const auto i : set) {
        for (const auto j : set)
          total += i < j ? n.gpu_links[static_cast<std::size_t>(i)][static_cast<std::size_t>(j)] : 0;
      }
      return total;
    };
    int best = -1;
    for (unsigned bits = 0; bits < 1U << idle.size(); ++bits) {
      std::vector<std::int32_t> set;
      for (std::size_t i = 0; i < idle.size(); ++i) {
        if ((bits >> i & 1U) != 0) set.push_back(idle[i]);
      }
      if (static_cast<std::int32_t>(set.size()) == count) best = std::max(best, sum(set));
    }
    const std::vector<std::int32_t> none;
    const auto found = best_connected({n, idle, none, {}, count});
    ASSERT_EQ(static_cast<std::int32_t>(found.size()), count);
    EXPECT_EQ(sum(found), best);
  }
}

TEST(Links, ManyGpusAreSearchedByGrowing) {
  NodeSpec n = node("n", 64);
  n.gpu_links.assign(64, std::vector<int>(64, 1));
  for (std::size_t i = 0; i < 64; ++i) {
    for (std::size_t j = 0; j < 64; ++j) {
      if (i / 4 == j / 4) n.gpu_links[i][j] = 9;
    }
  }
  SmallCluster w({n});
  occupy(w, "a/busy", "n", {0, 5});
  EXPECT_EQ(start(w, job("a/four", 1, 4)), at("n", {8, 9, 10, 11}));
}

// --- NUMA

NodeSpec two_zones(const std::string& name, bool amounts = false) {
  NodeSpec n = node(name, 8);
  n.gpu_numa = {0, 0, 0, 0, 1, 1, 1, 1};
  if (amounts) n.zones = {{MilliCpu{32000}, Bytes{256 * kGi}}, {MilliCpu{32000}, Bytes{256 * kGi}}};
  return n;
}
JobSpec aligned(const std::string& id, std::int32_t gpus, std::int64_t cpus = 1, std::int32_t replicas = 1) {
  JobSpec j = job(id, replicas, gpus);
  j.roles[0] = role("worker", replicas, gpus, cpus);
  j.roles[0].numa_aligned = true;
  return j;
}

TEST(Numa, S26TheAlignedNodeOrNone) {
  SmallCluster w({two_zones("n1")});
  occupy(w, "a/0", "n1", {0, 1});
  occupy(w, "a/1", "n1", {4, 5});
  EXPECT_EQ(start(w, aligned("a/four", 4)), Places{});
  EXPECT_EQ(w.reason("a/four"), Reason::kFragmented);
  EXPECT_NE(w.message("a/four").find("NUMA"), std::string::npos) << w.message("a/four");
  w.cluster.upsert_node(two_zones("n2"));
  w.plan();
  EXPECT_EQ(places(w, "a/four"), at("n2", {0, 1, 2, 3}));
  EXPECT_EQ(start(w, job("a/any", 1, 4)), at("n2", {4, 5, 6, 7})) << "one NUMA node beats the tighter fit";
  EXPECT_EQ(start(w, job("a/last", 1, 4)), at("n1", {2, 3, 6, 7})) << "and does not hinder";
}

TEST(Numa, ADemandThatNoNodeCanMeetSaysSo) {
  SmallCluster w({two_zones("n1"), node("untold")});
  EXPECT_EQ(start(w, aligned("a/six", 6)), Places{});
  EXPECT_EQ(w.reason("a/six"), Reason::kNoMatchingNodes);
  EXPECT_NE(w.message("a/six").find("NUMA"), std::string::npos) << w.message("a/six");
  EXPECT_FALSE(start(w, job("a/plain", 1, 6)).empty());
}

TEST(Numa, OneZoneBeatsTheFirstIdleOnesAndTheOtherStaysWhole) {
  SmallCluster w({two_zones("n")});
  occupy(w, "a/busy", "n", {0, 1});
  EXPECT_EQ(start(w, job("a/four", 1, 4)), at("n", {4, 5, 6, 7}));
  w.cluster.remove_job("a/four");
  EXPECT_EQ(start(w, job("a/one", 1, 1)), at("n", {2}));
  EXPECT_EQ(start(w, job("a/again", 1, 4)), at("n", {4, 5, 6, 7}));
}

TEST(Numa, CpuAndMemoryOfTheZoneAreBooked) {
  SmallCluster w({two_zones("n", true)});
  EXPECT_EQ(start(w, aligned("a/1", 1, 20)), at("n", {0}));
  EXPECT_EQ(start(w, aligned("a/2", 1, 20)), at("n", {4})) << "zone 0 has 12 CPUs left";
  EXPECT_EQ(start(w, aligned("a/3", 1, 20)), Places{}) << "24 CPUs are free, but 12 and 12";
  EXPECT_EQ(w.reason("a/3"), Reason::kFragmented);
  EXPECT_EQ(start(w, aligned("a/4", 1, 12)), at("n", {1}));
  EXPECT_TRUE(sound(w));
  w.cluster.remove_job("a/1");
  EXPECT_TRUE(sound(w));
  w.plan();
  EXPECT_EQ(places(w, "a/3"), at("n", {0}));
}

TEST(Numa, RoomForAGangCountsZoneByZone) {
  SmallCluster w({two_zones("n", true)});
  EXPECT_EQ(start(w, aligned("a/five", 1, 12, 5)), Places{}) << "two of 12 CPUs in each zone";
  w.cluster.remove_job("a/five");
  EXPECT_EQ(start(w, aligned("a/three", 3, 8, 3)), Places{}) << "one of 3 GPUs in each zone";
  w.cluster.remove_job("a/three");
  EXPECT_EQ(start(w, aligned("a/two", 3, 8, 2)), (Places{{"n", {0, 1, 2}}, {"n", {4, 5, 6}}}));
}

TEST(Numa, SharesToo) {
  SmallCluster w({two_zones("n", true)});
  JobSpec cpu_hungry = with_share("a/1", fraction(100));
  cpu_hungry.roles[0].per_pod.cpu = MilliCpu{30000};
  EXPECT_EQ(start(w, cpu_hungry), at("n", {0}));
  JobSpec next = with_share("a/2", fraction(100));
  next.roles[0].per_pod.cpu = MilliCpu{10000};
  EXPECT_EQ(start(w, next), at("n", {4})) << "beside GPU 0 are 2 CPUs";
}

// --- what must not be believed or given

TEST(Devices, UnhealthyOnesAreNeverGivenOut) {
  NodeSpec n = node("n", 4);
  n.unhealthy = {1, 3};
  SmallCluster w({n});
  EXPECT_EQ(start(w, job("a/three", 1, 3)), Places{});
  EXPECT_EQ(w.reason("a/three"), Reason::kNoMatchingNodes);
  EXPECT_EQ(start(w, job("a/two", 1, 2)), at("n", {0, 2}));
  EXPECT_EQ(start(w, with_share("a/f", fraction(100))), Places{});
}

TEST(Devices, OneThatFailsUnderAPodIsNotCountedTwice) {
  SmallCluster w({node("n", 3)});
  EXPECT_EQ(start(w, job("a/one", 1, 1)), at("n", {0}));
  NodeSpec n = node("n", 3);
  n.unhealthy = {0};
  w.cluster.upsert_node(n);
  EXPECT_TRUE(sound(w));
  EXPECT_EQ(start(w, job("a/two", 1, 2)), at("n", {1, 2}));
  w.cluster.remove_job("a/one");
  EXPECT_TRUE(sound(w));
  EXPECT_EQ(start(w, job("a/more", 1, 1)), Places{});
}

TEST(Devices, AnIndexBeyondTheNodeIsNotBelieved) {
  SmallCluster w({node("n", 2)});
  w.cluster.upsert_job(job("a/odd", 1, 1));
  w.cluster.set_assignment("a/odd", assignment(1, {{0, 0, "n", {7}}}));
  EXPECT_TRUE(sound(w));
  EXPECT_EQ(start(w, job("a/two", 1, 2)), Places{}) << "it holds one, whichever";
  w.cluster.remove_job("a/two");
  EXPECT_EQ(start(w, job("a/one", 1, 1)).size(), 1U);
  w.cluster.remove_job("a/odd");
  EXPECT_TRUE(sound(w));
}

TEST(Devices, OneNamedTwiceIsHeldOnce) {
  SmallCluster w({node("n", 4)});
  w.cluster.upsert_job(job("a/odd", 1, 2));
  w.cluster.set_assignment("a/odd", assignment(1, {{0, 0, "n", {1, 1}}}));
  EXPECT_TRUE(w.cluster.conflicts().empty());
  EXPECT_EQ(start(w, job("a/three", 1, 3)), Places{});
  EXPECT_TRUE(w.cluster.assignment("a/odd") != nullptr);
  EXPECT_TRUE(sound(w));
}

TEST(Devices, WholeAndShareOnOneGpuAreAConflict) {
  SmallCluster w({node("n", 1)});
  w.cluster.upsert_job(job("a/whole", 1, 1));
  w.cluster.set_assignment("a/whole", assignment(1, {{0, 0, "n", {0}}}));
  w.cluster.upsert_job(with_share("a/part", fraction(10)));
  w.cluster.set_assignment("a/part", assignment(2, {{0, 0, "n", {0}}}));
  ASSERT_EQ(w.cluster.conflicts().size(), 1U);
  EXPECT_EQ(w.of_kind(Decision::Kind::kEvict), std::vector<std::string>{"a/part"});
}

// A pod outside jobs, such as one that outlives its job, keeps its part of the GPU and no more.
TEST(OthersTest, APodOutsideJobsHasItsShareOnly) {
  SmallCluster w({gpu_node("n1", 2, 80'000)});
  w.cluster.upsert_pool(shared_pool(SharingMode::kFraction));
  w.cluster.upsert_other_pod(other("a/half", fraction(500), {0}));
  w.cluster.upsert_other_pod(other("a/memory", memory(60'000), {1}));
  EXPECT_EQ(start(w, with_share("a/j1", fraction(500))), at("n1", {0}));
  EXPECT_EQ(start(w, with_share("a/j2", fraction(500))), Places{});
  EXPECT_EQ(start(w, with_share("a/j3", memory(20'000))), at("n1", {1}));
  w.cluster.remove_other_pod("a/half");
  w.plan();
  EXPECT_EQ(places(w, "a/j2"), at("n1", {0}));
  EXPECT_THAT(w.cluster.audit(), ::testing::IsEmpty());
}

// A pod that outlives its job is on the GPU as well: too much is given out, and nobody of its jobs is
// younger.
TEST(OthersTest, PodsOfOneJobThatShareAGpuAreNoTwoAdmissions) {
  SmallCluster w({gpu_node("n1", 1, 80'000)});
  w.cluster.upsert_pool(shared_pool(SharingMode::kFraction));
  w.cluster.upsert_job(with_share("a/twins", fraction(500), 1, 2));
  w.cluster.set_assignment("a/twins", assignment(1, {{0, 0, "n1", {0}}, {0, 1, "n1", {0}}}));
  w.cluster.upsert_other_pod(other("a/left", fraction(500), {0}));
  EXPECT_THAT(w.cluster.conflicts(), ::testing::IsEmpty());
  EXPECT_THAT(w.of_kind(Decision::Kind::kEvict), ::testing::IsEmpty());
  EXPECT_NE(w.cluster.assignment("a/twins"), nullptr);
  EXPECT_THAT(w.cluster.audit(), ::testing::IsEmpty());
}

// What it costs follows from its node, also when that is known later.
TEST(OthersTest, AShareOutsideJobsIsPricedByItsNode) {
  SmallCluster w({node("n2")});
  OtherPod pod = other("a/memory", memory(20'000), {0});
  pod.project = "a";
  w.cluster.upsert_other_pod(pod);
  w.cluster.upsert_node(gpu_node("n1", 1, 80'000));
  w.plan();
  EXPECT_EQ(w.cluster.usage("a", true, "default").allocated.gpu.value, 250);
  EXPECT_THAT(w.cluster.audit(), ::testing::IsEmpty());
}

TEST(OthersTest, ASliceOutsideJobsIsTakenFromThoseThatAreCut) {
  NodeSpec n = gpu_node("n1", 0, 80'000);
  n.mig["1g.10gb"] = 2;
  SmallCluster w({n});
  w.cluster.upsert_other_pod(other("a/slice", mig("1g.10gb"), {}));
  EXPECT_EQ(start(w, with_share("a/j1", mig("1g.10gb"))), at("n1", {}));
  EXPECT_EQ(start(w, with_share("a/j2", mig("1g.10gb"))), Places{});
  EXPECT_THAT(w.cluster.audit(), ::testing::IsEmpty());
}

// It may hold several kinds, and whole GPUs beside them, and all of it goes with it.
TEST(OthersTest, SlicesOfSeveralProfilesBesideWholeGpus) {
  NodeSpec n = gpu_node("n1", 2, 80'000);
  n.mig = {{"1g.10gb", 2}, {"3g.40gb", 1}};
  SmallCluster w({n});
  OtherPod pod = other("a/mixed", {}, {});
  pod.slices = {{"1g.10gb", 1}, {"3g.40gb", 1}};
  pod.project = "a";
  w.cluster.upsert_other_pod(pod);
  w.cluster.upsert_other_pod(pod);  // the same again changes nothing
  EXPECT_EQ(start(w, with_share("a/j1", mig("1g.10gb"))), at("n1", {}));
  EXPECT_EQ(start(w, with_share("a/j2", mig("1g.10gb"))), Places{});
  EXPECT_EQ(start(w, with_share("a/j3", mig("3g.40gb"))), Places{});
  EXPECT_EQ(start(w, job("a/j4", 1, 2)), Places{});
  EXPECT_THAT(w.cluster.audit(), ::testing::IsEmpty());
  w.cluster.remove_other_pod("a/mixed");
  w.plan();
  for (const char* id : {"a/j2", "a/j3"}) EXPECT_EQ(places(w, id), at("n1", {})) << id;
  EXPECT_THAT(places(w, "a/j4"), ::testing::SizeIs(1));
  EXPECT_THAT(w.cluster.audit(), ::testing::IsEmpty());
}

// A memory share asks for no amount of GPU, and keeps one from those who need it whole.
TEST(Sharing, WhoHoldsAPartByMemoryIsNamedToo) {
  SmallCluster w;
  w.cluster.upsert_pool(shared_pool(SharingMode::kMps));
  w.cluster.upsert_node(gpu_node("n1", 2, 80LL * 1024));
  EXPECT_THAT(start(w, with_share("a/half", fraction(500))), ::testing::Not(::testing::IsEmpty()));
  EXPECT_THAT(start(w, with_share("a/part", memory(60LL * 1024))), ::testing::Not(::testing::IsEmpty()));
  start(w, job("b/whole", 1, 2));
  EXPECT_THAT(w.message("b/whole"), ::testing::HasSubstr("held by a/part (750m), a/half (500m)"));
  w.cluster.remove_job("a/part");
  w.plan();
  EXPECT_THAT(w.message("b/whole"), ::testing::HasSubstr("held by a/half (500m)"));
}

}  // namespace
}  // namespace muster::placement
