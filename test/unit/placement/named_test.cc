// Resources that placement knows by name: RDMA devices, huge pages, local disk.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "small_cluster.h"

namespace muster::placement {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::job;
using testing::node;
using testing::project;
using testing::Q;
using testing::queue;
using testing::SmallCluster;
using ::testing::UnorderedElementsAre;

NodeSpec with(NodeSpec n, NamedAmounts named) {
  n.named = std::move(named);
  return n;
}
JobSpec asking(JobSpec j, NamedAmounts named) {
  for (RoleSpec& r : j.roles) r.named = named;
  return j;
}
OtherPod other(const std::string& key, const std::string& on, NamedAmounts named) {
  OtherPod p;
  p.key = key;
  p.node = on;
  p.amounts.pods = 1;
  p.named = std::move(named);
  return p;
}

TEST(NamedTest, OnlyANodeThatHasItWouldDo) {
  SmallCluster c({node("n1"), with(node("n2"), {{"rdma/hca", 8}})});
  c.cluster.upsert_job(asking(job("a/j", 2, 1), {{"rdma/hca", 4}}));
  EXPECT_THAT(c.starts(), ElementsAre("a/j"));
  EXPECT_EQ(c.nodes_of("a/j"), (std::map<std::string, int>{{"n2", 2}}));
  EXPECT_THAT(c.cluster.audit(), IsEmpty());
}

TEST(NamedTest, ThePendingReasonNamesItWithNeedAndHave) {
  SmallCluster c({with(node("n1"), {{"hugepages-2Mi", 4 * testing::kGi}, {"rdma/hca", 8}})});
  c.cluster.upsert_job(asking(job("a/holds", 1, 1), {{"rdma/hca", 6}}));
  EXPECT_THAT(c.starts(), ElementsAre("a/holds"));
  c.cluster.upsert_job(asking(job("b/lacks", 1, 1), {{"rdma/hca", 3}}));
  EXPECT_THAT(c.starts(), IsEmpty());
  EXPECT_EQ(c.reason("b/lacks"), Reason::kInsufficientCapacity);
  EXPECT_THAT(c.message("b/lacks"),
              HasSubstr("needs 3 rdma/hca in pool default, 2 free of 8; held by a/holds (6)"));
  EXPECT_EQ(c.cluster.pending_reason("b/lacks")->blocking,
            (std::vector<Blocking>{{"rdma/hca", "default", 3, 2, {"a/holds"}}}));
  c.cluster.upsert_job(asking(job("b/huge", 1, 1), {{"hugepages-2Mi", 5 * testing::kGi}}));
  EXPECT_THAT(c.starts(), IsEmpty());
  EXPECT_EQ(c.reason("b/huge"), Reason::kNoMatchingNodes);
  EXPECT_THAT(c.message("b/huge"), HasSubstr("no node has more than 4Gi hugepages-2Mi"));
  c.cluster.remove_job("a/holds");
  EXPECT_THAT(c.starts(), ElementsAre("b/lacks"));
  EXPECT_THAT(c.cluster.audit(), IsEmpty());
}

// They came when nobody had asked for it yet.
TEST(NamedTest, NodesAndPodsOfOthersAreCountedWhenAJobFirstAsks) {
  SmallCluster c({with(node("n1"), {{"rdma/hca", 8}})});
  c.cluster.upsert_other_pod(other("x/early", "n1", {{"rdma/hca", 5}}));
  c.cluster.upsert_job(asking(job("a/j", 1, 1), {{"rdma/hca", 4}}));
  EXPECT_THAT(c.starts(), IsEmpty());
  EXPECT_THAT(c.message("a/j"), HasSubstr("3 free of 8; held by other pods (5)"));
  c.cluster.upsert_other_pod(other("x/early", "n1", {{"rdma/hca", 4}}));
  EXPECT_THAT(c.starts(), ElementsAre("a/j"));
  c.cluster.upsert_other_pod(other("x/late", "n1", {{"rdma/hca", 1}}));
  c.cluster.remove_other_pod("x/early");
  c.cluster.upsert_job(asking(job("b/j", 1, 1), {{"rdma/hca", 4}}));
  EXPECT_THAT(c.starts(), IsEmpty()) << "the one that came late holds one of four";
  c.cluster.remove_other_pod("x/late");
  EXPECT_THAT(c.starts(), ElementsAre("b/j"));
  EXPECT_THAT(c.cluster.audit(), IsEmpty());
}

TEST(NamedTest, ItIsTakenFromWhoHoldsIt) {
  SmallCluster c;
  c.cluster.upsert_queue(queue("top", "", {.quota = 8}));
  c.cluster.upsert_queue(project("a", "top", {.quota = 4}));
  c.cluster.upsert_queue(project("b", "top", {.quota = 4}));
  c.cluster.upsert_node(with(node("n1"), {{"rdma/hca", 8}}));
  c.cluster.upsert_job(job("b/without", 4, 1));
  c.cluster.upsert_job(asking(job("b/with", 1, 1), {{"rdma/hca", 8}}));
  EXPECT_EQ(c.starts().size(), 2u);
  c.cluster.upsert_job(asking(job("a/j", 1, 1), {{"rdma/hca", 8}}));
  EXPECT_THAT(c.of_kind(Decision::Kind::kEvict), ElementsAre("b/with")) << "GPUs are free";
  EXPECT_TRUE(c.cluster.nominated("a/j"));
  c.cluster.set_leaving("b/with", {});
  EXPECT_THAT(c.starts(), ElementsAre("a/j"));
  EXPECT_THAT(c.cluster.audit(), IsEmpty());
}

TEST(NamedTest, AGangGoesToTheDomainThatHasEnoughOfIt) {
  SmallCluster c;
  PoolSpec p = testing::pool("default");
  p.topology = {"rack"};
  c.cluster.upsert_pool(p);
  for (int i = 0; i < 4; ++i) {
    NodeSpec n = with(node("n" + std::to_string(i)), {{"rdma/hca", i < 2 ? 4 : 8}});
    n.labels["rack"] = i < 2 ? "r1" : "r2";
    c.cluster.upsert_node(n);
  }
  JobSpec j = asking(job("a/j", 4, 1), {{"rdma/hca", 4}});
  j.topology.required = "rack";
  c.cluster.upsert_job(j);
  EXPECT_THAT(c.starts(), ElementsAre("a/j"));
  EXPECT_EQ(c.nodes_of("a/j"), (std::map<std::string, int>{{"n2", 2}, {"n3", 2}}));
}

std::string kind(std::size_t i) {
  return "vendor/kind-" + std::to_string(i);
}
// Has 8 of each of so many kinds.
NodeSpec with_kinds(NodeSpec n, std::size_t kinds) {
  for (std::size_t i = 0; i < kinds; ++i) n.named[kind(i)] = 8;
  return n;
}
// One job for each of so many kinds.
void ask_for_kinds(SmallCluster& c, std::size_t kinds) {
  for (std::size_t i = 0; i < kinds; ++i)
    c.cluster.upsert_job(asking(job("a/" + std::to_string(i), 1, 1), {{kind(i), 1}}));
}

TEST(NamedTest, MoreKindsThanCanBeCountedAreRefused) {
  SmallCluster c({with_kinds(node("n1"), kMaxNamed + 1)});
  ask_for_kinds(c, kMaxNamed + 1);
  EXPECT_EQ(c.starts().size(), kMaxNamed);
  EXPECT_EQ(c.reason("a/6"), Reason::kInvalidSpec);
  EXPECT_THAT(c.message("a/6"),
              HasSubstr("asks for vendor/kind-6, and no more than 6 resources beside GPUs, CPU, memory and "
                        "pods can be counted: these are vendor/kind-0, vendor/kind-1"));
  EXPECT_THAT(c.cluster.uncountable(kind(6)), HasSubstr("no more than 6 resources"));
  EXPECT_EQ(c.cluster.uncountable(kind(5)), "");
  EXPECT_THAT(c.cluster.audit(), IsEmpty());
}

// The place of a resource is free again when no job asks for it.
TEST(NamedTest, ThePlaceOfTheLastJobIsGivenOut) {
  SmallCluster c({with_kinds(node("n1"), kMaxNamed + 1), with_kinds(node("n2"), 1)});
  ask_for_kinds(c, kMaxNamed + 1);
  c.cluster.upsert_other_pod(other("x/p", "n1", {{kind(kMaxNamed), 6}, {kind(0), 2}}));
  EXPECT_EQ(c.starts().size(), kMaxNamed);
  c.cluster.remove_job("a/0");
  EXPECT_THAT(c.starts(), ElementsAre("a/6"));
  EXPECT_THAT(c.cluster.audit(), IsEmpty());
  c.cluster.upsert_job(asking(job("b/more", 1, 1), {{kind(kMaxNamed), 2}}));
  EXPECT_THAT(c.starts(), IsEmpty());
  EXPECT_THAT(c.message("b/more"), HasSubstr("needs 2 vendor/kind-6 in pool default, 1 free of 8"));
  c.cluster.upsert_job(asking(job("b/first", 1, 1), {{kind(0), 1}}));
  EXPECT_THAT(c.starts(), IsEmpty());
  EXPECT_EQ(c.reason("b/first"), Reason::kInvalidSpec) << "all six are in use";
  // Edited, it asks for another kind, and gives its start back. The last job of its kind goes.
  c.cluster.upsert_job(asking(job("a/6", 1, 1), {{kind(0), 1}}));
  c.cluster.remove_job("b/more");
  EXPECT_THAT(c.starts(), UnorderedElementsAre("a/6", "b/first"));
  EXPECT_THAT(c.cluster.audit(), IsEmpty());
}

// What no node lists takes no place: whoever mistypes a name keeps nobody off.
TEST(NamedTest, MistypedNamesTakeNoPlaces) {
  SmallCluster c({with(node("n1"), {{"rdma/hca", 8}})});
  ask_for_kinds(c, 20);
  EXPECT_THAT(c.starts(), IsEmpty());
  EXPECT_EQ(c.reason("a/19"), Reason::kNoMatchingNodes);
  EXPECT_THAT(c.message("a/19"), HasSubstr("no node has more than 0 vendor/kind-19"));
  c.cluster.upsert_job(asking(job("b/j", 1, 1), {{"rdma/hca", 4}}));
  EXPECT_THAT(c.starts(), ElementsAre("b/j"));
  // It starts by itself when a node comes that lists the name.
  c.cluster.upsert_node(with(node("n2"), {{kind(7), 1}}));
  EXPECT_THAT(c.starts(), ElementsAre("a/7"));
  EXPECT_EQ(c.nodes_of("a/7"), (std::map<std::string, int>{{"n2", 1}}));
  EXPECT_EQ(c.reason("a/8"), Reason::kNoMatchingNodes);
  EXPECT_THAT(c.cluster.audit(), IsEmpty());
}

// A node's list is empty while its device plugin starts anew. What is held stays counted.
TEST(NamedTest, ANameThatIsNotListedForAWhileKeepsItsPlace) {
  SmallCluster c({with(node("n1"), {{"rdma/hca", 8}})});
  c.cluster.upsert_job(asking(job("a/holds", 1, 1), {{"rdma/hca", 6}}));
  EXPECT_THAT(c.starts(), ElementsAre("a/holds"));
  c.cluster.upsert_node(node("n1"));
  c.cluster.upsert_job(asking(job("b/lacks", 1, 1), {{"rdma/hca", 3}}));
  EXPECT_THAT(c.starts(), IsEmpty());
  EXPECT_EQ(c.reason("b/lacks"), Reason::kNoMatchingNodes);
  c.cluster.upsert_node(with(node("n1"), {{"rdma/hca", 8}}));
  EXPECT_THAT(c.starts(), IsEmpty());
  EXPECT_THAT(c.message("b/lacks"), HasSubstr("2 free of 8; held by a/holds (6)"));
  EXPECT_THAT(c.cluster.audit(), IsEmpty());
}

// What runs where no node lists its resource is charged when one does.
TEST(NamedTest, WhatRunsIsChargedOnceItsResourceIsListed) {
  SmallCluster c({node("n1")});
  c.cluster.upsert_job(asking(job("a/runs", 1, 1), {{"rdma/hca", 6}}));
  c.cluster.set_assignment("a/runs", {"default", Time{1}, {{0, 0, "n1", {0}}}});
  c.cluster.upsert_job(asking(job("b/waits", 1, 1), {{"rdma/hca", 3}}));
  EXPECT_THAT(c.starts(), IsEmpty());
  c.cluster.upsert_node(with(node("n1"), {{"rdma/hca", 8}}));
  EXPECT_THAT(c.starts(), IsEmpty());
  EXPECT_THAT(c.message("b/waits"), HasSubstr("2 free of 8; held by a/runs (6)"));
  EXPECT_THAT(c.cluster.audit(), IsEmpty());
}

// A process that starts anew may hear of others first. What runs then holds its GPUs all the same.
TEST(NamedTest, WhatRunsIsChargedWithoutAPlaceToCountIn) {
  SmallCluster c({with(with_kinds(node("n1"), kMaxNamed), {{"vendor/one-more", 1}})});
  c.cluster.upsert_node(with_kinds(node("n2"), kMaxNamed));
  ask_for_kinds(c, kMaxNamed);
  c.cluster.upsert_job(asking(job("b/runs", 1, 8), {{"vendor/one-more", 1}}));
  c.cluster.set_assignment("b/runs", {"default", Time{1}, {{0, 0, "n1", {0, 1, 2, 3, 4, 5, 6, 7}}}});
  c.cluster.remove_node("n2");
  c.cluster.upsert_job(job("c/other", 1, 1));
  EXPECT_THAT(c.starts(), IsEmpty()) << "all GPUs are held";
  EXPECT_THAT(c.cluster.audit(), IsEmpty());
}

// --- quotas, limits and fair shares

QueueSpec bounded(QueueSpec q, NamedAmounts quota, NamedAmounts limit = {}, NamedAmounts reserved = {}) {
  q.in_default_pool.quota.named = std::move(quota);
  q.in_default_pool.limit.named = std::move(limit);
  q.in_default_pool.reserved.named = std::move(reserved);
  return q;
}

// top -> {a, b}, one node with 8 GPUs and 8 devices.
struct Devices : SmallCluster {
  Devices() : SmallCluster({with(node("n1"), {{"rdma/hca", 8}, {"hugepages-2Mi", 64 * testing::kGi}})}) {
    cluster.upsert_queue(queue("top", "", {.quota = 8}));
  }
  NamedAmounts allocated(const std::string& project) {
    return cluster.accounted(cluster.usage(project, true, "default").allocated);
  }
  NamedAmounts fair_share(const std::string& project) {
    return cluster.accounted(cluster.fair_share(project, true, "default"));
  }
};

TEST(NamedTest, ALimitBoundsIt) {
  Devices c;
  c.cluster.upsert_queue(bounded(project("a", "top", {.quota = 8}), {}, {{"rdma/hca", 4}}));
  c.cluster.upsert_job(asking(job("a/one", 1, 1), {{"rdma/hca", 4}}));
  EXPECT_THAT(c.starts(), ElementsAre("a/one"));
  c.cluster.upsert_job(asking(job("a/two", 1, 1), {{"rdma/hca", 1}}));
  EXPECT_THAT(c.starts(), IsEmpty());
  EXPECT_EQ(c.reason("a/two"), Reason::kLimitReached);
  EXPECT_THAT(c.message("a/two"),
              HasSubstr("needs 1 rdma/hca in pool default; Project a has 0 left of its limit of 4"));
  EXPECT_EQ(c.cluster.pending_reason("a/two")->blocking,
            (std::vector<Blocking>{{"rdma/hca", "default", 1, 0, {"Project a"}}}));
  EXPECT_EQ(c.allocated("a"), (NamedAmounts{{"rdma/hca", 4}}));
  EXPECT_EQ(c.allocated("b"), (NamedAmounts{{"rdma/hca", 0}}));
  EXPECT_EQ(c.fair_share("a"), NamedAmounts{}) << "a limit is no quota";
  EXPECT_THAT(c.cluster.audit(), IsEmpty());
}

TEST(NamedTest, WhatIsNotPreemptibleStaysWithinItsQuota) {
  Devices c;
  c.cluster.upsert_queue(bounded(project("a", "top", {.quota = 8}), {{"hugepages-2Mi", 4 * testing::kGi}}));
  JobSpec fixed = asking(job("a/fixed", 1, 1), {{"hugepages-2Mi", 5 * testing::kGi}});
  fixed.preemptible = false;
  c.cluster.upsert_job(fixed);
  EXPECT_THAT(c.starts(), IsEmpty());
  EXPECT_EQ(c.reason("a/fixed"), Reason::kQuotaExceeded);
  EXPECT_THAT(c.message("a/fixed"), HasSubstr("needs 5Gi hugepages-2Mi in pool default; Project a has 4Gi "
                                              "left of its quota of 4Gi"));
  fixed.preemptible = true;
  c.cluster.upsert_job(fixed);
  EXPECT_THAT(c.starts(), ElementsAre("a/fixed")) << "it may borrow";
  EXPECT_THAT(c.cluster.audit(), IsEmpty());
}

// Before any job asks it is not counted, and the bounds stand there already.
TEST(NamedTest, BoundsCountFromTheFirstJobThatAsks) {
  Devices c;
  c.cluster.upsert_queue(bounded(project("a", "top", {.quota = 8}), {{"rdma/hca", 8}}));
  c.plan();
  EXPECT_EQ(c.allocated("a"), NamedAmounts{});
  c.cluster.upsert_job(asking(job("a/one", 1, 1), {{"rdma/hca", 2}}));
  EXPECT_THAT(c.starts(), ElementsAre("a/one"));
  EXPECT_EQ(c.allocated("a"), (NamedAmounts{{"rdma/hca", 2}}));
  EXPECT_EQ(c.fair_share("a"), (NamedAmounts{{"rdma/hca", 2}}));
  c.cluster.upsert_queue(project("a", "top", {.quota = 8}));
  EXPECT_EQ(c.allocated("a"), NamedAmounts{}) << "nobody states a bound any more";
  EXPECT_THAT(c.cluster.audit(), IsEmpty());
}

TEST(NamedTest, AQuotaOfItComesBackAndGpusAreNotAsked) {
  Devices c;
  c.cluster.upsert_queue(bounded(queue("top", "", {.quota = 8}), {{"rdma/hca", 8}}));
  c.cluster.upsert_queue(bounded(project("a", "top", {.quota = 4}), {{"rdma/hca", 6}}));
  c.cluster.upsert_queue(bounded(project("b", "top", {.quota = 4}), {{"rdma/hca", 2}}));
  c.cluster.upsert_job(asking(job("b/within", 1, 1), {{"rdma/hca", 2}}));
  c.cluster.upsert_job(asking(job("b/borrows", 1, 1, 5), {{"rdma/hca", 6}}));
  EXPECT_EQ(c.starts().size(), 2u);
  EXPECT_EQ(c.cluster.accounted(c.cluster.usage("b", true, "default").borrowed),
            (NamedAmounts{{"rdma/hca", 6}}));
  c.cluster.upsert_job(asking(job("a/j", 1, 1), {{"rdma/hca", 6}}));
  EXPECT_THAT(c.of_kind(Decision::Kind::kEvict), ElementsAre("b/borrows"));
  EXPECT_TRUE(c.cluster.nominated("a/j"));
  EXPECT_EQ(c.fair_share("a"), (NamedAmounts{{"rdma/hca", 6}}));
  EXPECT_EQ(c.fair_share("b"), (NamedAmounts{{"rdma/hca", 2}}));
  EXPECT_THAT(c.cluster.audit(), IsEmpty());
}

TEST(NamedTest, BeyondItsQuotaNothingIsTakenForIt) {
  Devices c;
  c.cluster.upsert_queue(bounded(queue("top", "", {.quota = 8}), {{"rdma/hca", 8}}));
  c.cluster.upsert_queue(bounded(project("a", "top", {.quota = 4}), {{"rdma/hca", 2}}));
  c.cluster.upsert_queue(bounded(project("b", "top", {.quota = 4}), {{"rdma/hca", 6}}));
  c.cluster.upsert_job(asking(job("b/j", 1, 1), {{"rdma/hca", 6}}));
  EXPECT_THAT(c.starts(), ElementsAre("b/j"));
  c.cluster.upsert_job(asking(job("a/j", 1, 1), {{"rdma/hca", 3}}));
  EXPECT_THAT(c.plan().decisions, IsEmpty());
  EXPECT_EQ(c.reason("a/j"), Reason::kFairShareReached);
  EXPECT_THAT(c.message("a/j"), HasSubstr("Project a has 0 of its fair share of 2"));
  EXPECT_THAT(c.cluster.audit(), IsEmpty());
}

TEST(NamedTest, ReservedQuotaOfItIsHeldBack) {
  Devices c;
  c.cluster.upsert_queue(
      bounded(project("a", "top", {.quota = 4}), {{"rdma/hca", 6}}, {}, {{"rdma/hca", 6}}));
  c.cluster.upsert_job(asking(job("b/much", 1, 1), {{"rdma/hca", 3}}));
  c.cluster.upsert_job(asking(job("b/little", 1, 1, 5), {{"rdma/hca", 2}}));
  EXPECT_THAT(c.starts(), ElementsAre("b/little"));
  EXPECT_THAT(c.message("b/much"), HasSubstr("needs 3 rdma/hca in pool default, 0 free beside the 6 that "
                                             "Project a has reserved and not in use"));
  EXPECT_THAT(c.cluster.audit(), IsEmpty());
}

TEST(NamedTest, TheDominantShareIsThatOfTheDevices) {
  Devices c;
  c.cluster.upsert_queue(bounded(project("a", "top", {.quota = 2}), {{"rdma/hca", 2}}));
  c.cluster.upsert_queue(bounded(project("b", "top", {.quota = 2}), {{"rdma/hca", 2}}));
  c.cluster.upsert_job(asking(job("a/runs", 1, 2), {{"rdma/hca", 4}}));
  c.cluster.upsert_job(job("b/runs", 1, 2));
  EXPECT_EQ(c.starts().size(), 2u);
  c.cluster.upsert_job(job("a/next", 1, 4, 5));
  c.cluster.upsert_job(job("b/next", 1, 4, 6));
  EXPECT_THAT(c.starts(), ElementsAre("b/next")) << "a is the older, and holds twice its quota of devices";
  EXPECT_THAT(c.cluster.audit(), IsEmpty());
}

TEST(NamedTest, AQuotaOfWhatNoNodeHasIsSaidAsSuch) {
  Devices c;
  c.cluster.upsert_queue(bounded(project("a", "top", {.quota = 8}), {{"rdma/hcas", 8}}));
  c.cluster.upsert_job(asking(job("a/j", 1, 1), {{"rdma/hcas", 1}}));
  EXPECT_THAT(c.starts(), IsEmpty());
  EXPECT_EQ(c.reason("a/j"), Reason::kNoMatchingNodes);
  EXPECT_THAT(c.message("a/j"), HasSubstr("no node has more than 0 rdma/hcas"));
}

// What nobody asks for takes none of the six places.
TEST(NamedTest, NamesInQuotasTakeNoPlaces) {
  SmallCluster c({with(with_kinds(node("n1"), kMaxNamed), {{"vendor/quota-0", 1}})});
  c.cluster.upsert_node(with_kinds(node("n2"), kMaxNamed));
  NamedAmounts many;
  for (int i = 0; i < 20; ++i) many["vendor/quota-" + std::to_string(i)] = 1;
  c.cluster.upsert_queue(bounded(project("a", "top", {.quota = 8}), many));
  EXPECT_EQ(c.cluster.uncountable("vendor/kind-0"), "");
  ask_for_kinds(c, kMaxNamed);
  EXPECT_EQ(c.starts().size(), kMaxNamed) << "they are counted";
  EXPECT_EQ(c.cluster.uncountable("vendor/kind-0"), "");
  EXPECT_THAT(c.cluster.uncountable("vendor/quota-0"), HasSubstr("no more than 6 resources"));
}

TEST(NamedTest, ANegativeAmountIsInvalid) {
  SmallCluster c({node("n1")});
  c.cluster.upsert_job(asking(job("a/j", 1, 1), {{"rdma/hca", -1}}));
  EXPECT_THAT(c.starts(), IsEmpty());
  EXPECT_EQ(c.reason("a/j"), Reason::kInvalidSpec);
}

}  // namespace
}  // namespace muster::placement
