// What the properties (test/property) have found, each as small as it could be made.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "audit/audit.h"
#include "small_cluster.h"

namespace muster::placement {
namespace {

using testing::assignment;
using ::testing::ElementsAre;
using ::testing::IsEmpty;
using testing::job;
using testing::jobs_of;
using testing::kGi;
using testing::node;
using testing::pool;
using testing::project;
using testing::queue;
using testing::SmallCluster;

// A plan in which nothing is broken.
Plan sound(SmallCluster& w) {
  std::vector<std::string> broken;
  Plan p = audited_plan(w.cluster, Time{++w.now}, broken);
  EXPECT_THAT(broken, IsEmpty());
  return p;
}
PoolSpec of_label(const std::string& name) {
  PoolSpec p = pool(name, {{"pool", Operator::kIn, {name}}});
  p.is_default = name == "default";
  return p;
}
NodeSpec in_pool(NodeSpec n, const std::string& name) {
  n.labels["pool"] = name;
  return n;
}

TEST(Found, SlicesOfANodeThatHasCutNone) {
  SmallCluster w({node("n", 4)});
  JobSpec j = job("a/1", 1, 1);
  j.roles[0].share.kind = GpuShare::Kind::kMig;
  j.roles[0].share.profile = "1g.10gb";
  w.cluster.upsert_job(j);
  w.cluster.set_assignment("a/1", assignment(1, {{0, 0, "n", {}}}));
  EXPECT_THAT(w.cluster.audit(), IsEmpty());
  w.cluster.remove_job("a/1");
  EXPECT_THAT(w.cluster.audit(), IsEmpty());
}

TEST(Found, ALimitBoundsWhatIsHeldBackForThoseBelow) {
  SmallCluster w({node("n", 8)});
  w.cluster.upsert_queue(project("a", "top", {4, -1, 1, 0, 4}));
  sound(w);
  w.cluster.upsert_queue(queue("top", "", {8, 2}));
  EXPECT_THAT(w.cluster.audit(), IsEmpty());
}

TEST(Found, NothingIsHeldBackInACircle) {
  SmallCluster w({node("n", 8)});
  w.cluster.upsert_job(job("a/1", 1, 2));
  sound(w);
  w.cluster.upsert_queue(queue("top", "top", {8, -1, 1, 0, 4}));
  w.cluster.upsert_queue(project("a", "top", {4, -1, 1, 0, 2}));
  sound(w);
  w.cluster.remove_job("a/1");
  EXPECT_THAT(w.cluster.audit(), IsEmpty());
}

// A claimant of priority waits for a gang to leave; both its pods are to stand on one node.
struct Promised : SmallCluster {
  Promised() : SmallCluster({node("n", 8)}) {
    cluster.upsert_queue(project("a", "top", {8}));
    cluster.upsert_queue(queue("top", "", {8}));
    cluster.upsert_job(job("a/low", 2, 4));
    sound(*this);
    cluster.upsert_job(job("a/high", 2, 4, 5, 10));
    EXPECT_THAT(jobs_of(sound(*this), Decision::Kind::kEvict), ElementsAre("a/low"));
  }
};

TEST(Found, WhoWaitsForVictimsIsToldHowManyPodsHaveTheirPlacesTogether) {
  Promised w;
  // One of two has left: for each of the promised pods there is room, for both there is not.
  w.cluster.set_leaving("a/low", {w.cluster.leaving("a/low").front()});
  sound(w);
  const PendingReason& v = *w.cluster.pending_reason("a/high");
  EXPECT_EQ(v.reason, Reason::kWaitingForVictims);
  ASSERT_EQ(v.blocking.size(), 1U);
  EXPECT_EQ(v.blocking[0].need, 2);
  EXPECT_LT(v.blocking[0].have, 2);
}

TEST(Found, APromiseEndsWhenAForeignPodHasComeToStay) {
  Promised w;
  OtherPod pod;
  pod.key = "x/1";
  pod.node = "n";
  pod.amounts.memory = Bytes{512 * kGi};
  pod.amounts.pods = 1;
  w.cluster.upsert_other_pod(pod);
  w.cluster.set_leaving("a/low", {});
  sound(w);
  EXPECT_FALSE(w.cluster.nominated("a/high"));
  EXPECT_EQ(w.reason("a/high"), Reason::kInsufficientCapacity) << w.message("a/high");
  w.cluster.remove_other_pod("x/1");
  EXPECT_THAT(jobs_of(sound(w), Decision::Kind::kStart), ElementsAre("a/high"));
}

TEST(Found, WhoIsDrainedGetsNoOtherPlaceForALostPod) {
  SmallCluster w({node("n1", 8), node("n2", 8)});
  w.cluster.upsert_job(job("a/1", 1, 4));
  sound(w);
  const Assignment held = *w.cluster.assignment("a/1");
  QueueSpec top = queue("top", "");
  top.hold = top.drain = true;
  w.cluster.upsert_queue(top);
  w.cluster.set_assignment("a/1", held, {0});
  const Plan p = sound(w);
  ASSERT_EQ(p.decisions.size(), 1U);
  EXPECT_EQ(p.decisions[0].kind, Decision::Kind::kEvict);
  EXPECT_EQ(p.decisions[0].reason, EvictReason::kDrained);
}

// The node of a job is lost, and the job is evicted. Before the caller has written that down, room comes up
// elsewhere and a plan starts the job there. Then the node is back: what the record says holds, and its pods
// are there still.
TEST(Found, WhoIsStartedBeforeItsEvictionIsWrittenDownKeepsItsRecord) {
  SmallCluster w({node("n1", 8), node("n2", 8)});
  const Assignment recorded = assignment(1, {{0, 0, "n1", {0, 1, 2, 3, 4, 5, 6, 7}}});
  w.cluster.upsert_job(job("a/1", 1, 8, 1));
  w.cluster.set_assignment("a/1", recorded);
  w.cluster.upsert_job(job("a/2", 1, 8, 2));
  w.cluster.set_assignment("a/2", assignment(2, {{0, 0, "n2", {0, 1, 2, 3, 4, 5, 6, 7}}}));
  sound(w);
  w.cluster.remove_node("n1");
  w.cluster.set_assignment("a/1", recorded, {0});
  EXPECT_THAT(jobs_of(sound(w), Decision::Kind::kEvict), ElementsAre("a/1"));
  w.cluster.remove_job("a/2");
  EXPECT_THAT(jobs_of(sound(w), Decision::Kind::kStart), ElementsAre("a/1"));

  w.cluster.upsert_node(node("n1", 8));
  w.cluster.set_assignment("a/1", recorded);
  w.cluster.upsert_job(job("b/1", 1, 8, 3));
  EXPECT_THAT(jobs_of(sound(w), Decision::Kind::kStart), ElementsAre("b/1"));
  EXPECT_EQ(w.nodes_of("a/1"), (std::map<std::string, int>{{"n1", 1}}));
  EXPECT_EQ(w.nodes_of("b/1"), (std::map<std::string, int>{{"n2", 1}}));
}

// The node of a running gang goes to another pool, and the gang is asked to leave: who asks there waits for
// it instead of evicting somebody else.
TEST(Found, WhatLeavesANodeThatHasChangedItsPool) {
  SmallCluster w;
  w.cluster.upsert_pool(of_label("default"));
  w.cluster.upsert_pool(of_label("other"));
  w.cluster.upsert_node(in_pool(node("n1", 4), "other"));
  w.cluster.upsert_node(in_pool(node("n2", 4), "default"));
  for (const char* name : {"a", "b"}) {
    QueueSpec q = project(name, "top", {8});
    q.in_pool["other"] = q.in_default_pool;
    w.cluster.upsert_queue(q);
  }
  JobSpec moved = job("b/1", 1, 4);
  moved.pools = {"other"};
  w.cluster.upsert_job(moved);
  w.cluster.upsert_job(job("a/low", 1, 4));
  EXPECT_THAT(jobs_of(sound(w), Decision::Kind::kStart), ElementsAre("a/low", "b/1"));
  w.cluster.upsert_node(in_pool(node("n1", 4), "default"));
  const auto pods = w.cluster.assignment("b/1")->pods;
  w.cluster.clear_assignment("b/1");
  w.cluster.set_leaving("b/1", pods);
  w.cluster.upsert_job(job("a/high", 1, 4, 5, 10));
  EXPECT_THAT(jobs_of(sound(w), Decision::Kind::kEvict), IsEmpty());
  EXPECT_TRUE(w.cluster.nominated("a/high"));
}

TEST(Found, AVictimThatHasAlsoAPodOnANodeOfAnotherPool) {
  SmallCluster w;
  PoolSpec p = of_label("default");
  p.topology = {"rack"};
  w.cluster.upsert_pool(p);
  w.cluster.upsert_pool(of_label("other"));
  const auto racked = [](const std::string& name, const std::string& in) {
    NodeSpec n = in_pool(node(name, 4), in);
    n.labels["rack"] = "r";
    return n;
  };
  for (const char* name : {"n1", "n2", "n3"}) w.cluster.upsert_node(racked(name, "default"));
  w.cluster.upsert_queue(queue("top", "", {12}));
  w.cluster.upsert_queue(project("a", "top", {8}));
  w.cluster.upsert_queue(project("b", "top", {0}));
  w.cluster.upsert_job(job("b/1", 3, 4));
  sound(w);
  NodeSpec gone = node("n3", 4);
  w.cluster.upsert_node(gone);  // in no pool
  JobSpec j = job("a/1", 2, 4, 5);
  j.topology.required = "rack";
  w.cluster.upsert_job(j);
  EXPECT_THAT(jobs_of(sound(w), Decision::Kind::kEvict), ElementsAre("b/1"));
}

// Its limit is lowered while it is moved: it does not start, it goes on.
TEST(Found, WhoIsMovedGoesOnThoughALimitWasLowered) {
  SmallCluster w({node("n1", 4), node("n2", 4)});
  for (const std::string n : {"1", "2"}) {
    w.cluster.upsert_job(job("a/" + n, 1, 2));
    w.cluster.set_assignment("a/" + n, assignment(1, {{0, 0, "n" + n, {0, 1}}}));
  }
  w.cluster.upsert_job(job("a/big", 1, 4, 5));
  const auto moved = jobs_of(sound(w), Decision::Kind::kMove);
  ASSERT_EQ(moved.size(), 1U);
  w.cluster.upsert_queue(queue("top", "", {0, 3}));
  sound(w);
  EXPECT_FALSE(w.cluster.nominated("a/big"));
  EXPECT_TRUE(w.cluster.nominated(moved[0]));
  w.cluster.set_leaving(moved[0], {});
  EXPECT_THAT(jobs_of(sound(w), Decision::Kind::kStart), ElementsAre(moved[0]));
}

// The pods of an elastic gang with the highest indexes run, the others are promised still: these go first, or
// it would be left below its minimum.
TEST(Found, SurplusThatIsPromisedGoesBeforeWhatRuns) {
  SmallCluster w({node("n1", 4), node("n2", 4)});
  JobSpec elastic = job("a/elastic", 2, 1);
  elastic.roles[0].max_replicas = 4;
  w.cluster.upsert_job(elastic);
  w.cluster.set_assignment("a/elastic", assignment(1, {{0, 2, "n1", {0}}, {0, 3, "n1", {1}}}));
  JobSpec beside = job("a/beside", 1, 2);
  beside.preemptible = false;
  w.cluster.upsert_job(beside);
  w.cluster.set_assignment("a/beside", assignment(1, {{0, 0, "n1", {2, 3}}}));
  w.cluster.upsert_job(job("a/low", 1, 4, 0, -5));
  w.cluster.set_assignment("a/low", assignment(1, {{0, 0, "n2", {0, 1, 2, 3}}}));
  EXPECT_THAT(jobs_of(sound(w), Decision::Kind::kEvict), ElementsAre("a/low"));
  EXPECT_EQ(w.nodes_of("a/elastic")["n2"], 2);
  w.cluster.upsert_job(job("a/high", 1, 4, 5, 10));
  EXPECT_THAT(sound(w).decisions, IsEmpty());
  EXPECT_TRUE(w.cluster.nominated("a/high"));
  EXPECT_EQ(w.nodes_of("a/elastic"), (std::map<std::string, int>{{"n1", 2}}));
}

// A pod of others may have slices that its node does not list (any more). They come from none of the GPUs
// that a search counts, and the totals that rule out a search must not count otherwise.
TEST(Found, SlicesThatTheNodeDoesNotListTakeNoWholeGpus) {
  SmallCluster w({node("n", 2)});
  w.cluster.upsert_queue(project("a", "top", {0, -1, 0}));
  OtherPod pod;
  pod.key = "x/1";
  pod.node = "n";
  pod.slices["3g.40gb"] = 1;
  w.cluster.upsert_other_pod(pod);
  w.cluster.upsert_job(job("a/1", 1, 2));
  EXPECT_THAT(jobs_of(sound(w), Decision::Kind::kStart), ElementsAre("a/1"));
}

// Its roles were edited, and it runs with a part of its minimum until it is sent through the queue again. To
// be moved is to start again.
TEST(Found, WhoHasLessThanItsMinimumIsNotMoved) {
  for (const bool edited : {false, true}) {
    SmallCluster w({node("n1", 4), node("n2", 4)});
    for (const std::string n : {"1", "2"}) {
      w.cluster.upsert_job(job("a/" + n, 1, 2));
      w.cluster.set_assignment("a/" + n, assignment(1, {{0, 0, "n" + n, {0, 1}}}));
      if (edited) w.cluster.upsert_job(job("a/" + n, 2, 2));
    }
    w.cluster.upsert_job(job("a/big", 1, 4, 5));
    EXPECT_EQ(jobs_of(sound(w), Decision::Kind::kMove).size(), edited ? 0U : 1U);
  }
}

// Of a pod that leaves nobody knows which GPUs it has: they are as free as others when it has gone.
TEST(Found, WhoLeavesUnnamedGpusMakesRoomLikeOthers) {
  SmallCluster w({node("n1", 2), node("n2", 2)});
  w.cluster.upsert_job(job("a/old", 1, 2));
  w.cluster.set_leaving("a/old", {{0, 0, "n1", {4, 5}}});
  w.cluster.upsert_job(job("a/low", 1, 2, 0, -5));
  w.cluster.set_assignment("a/low", assignment(1, {{0, 0, "n2", {0, 1}}}));
  w.cluster.upsert_job(job("a/high", 1, 2, 5, 10));
  EXPECT_THAT(sound(w).decisions, IsEmpty());
  EXPECT_TRUE(w.cluster.nominated("a/high"));
  w.cluster.set_leaving("a/old", {});
  EXPECT_THAT(jobs_of(sound(w), Decision::Kind::kStart), ElementsAre("a/high"));
}

// A pod that leaves is charged in the pool that it was started in, also when its node has come to another
// one. Its queue has no room under its limit before it has gone, and then it has: nobody need be moved for
// that.
TEST(Found, WhoLeavesANodeOfAnotherPoolMakesRoomUnderALimit) {
  SmallCluster w({in_pool(node("n1", 8), "default"), in_pool(node("n2", 8), "default")});
  for (const std::string name : {"default", "other"}) w.cluster.upsert_pool(of_label(name));
  w.cluster.upsert_queue(project("a", "top", {4, 4}));
  w.cluster.upsert_job(job("a/cpu", 1, 0));
  w.cluster.set_assignment("a/cpu", assignment(1, {{0, 0, "n2", {}}}));
  w.cluster.upsert_job(job("a/old", 1, 4));
  w.cluster.set_leaving("a/old", {{0, 0, "n1", {0, 1, 2, 3}}});
  w.cluster.upsert_node(in_pool(node("n1", 8), "other"));
  w.cluster.upsert_job(job("a/new", 1, 4, 5));
  EXPECT_THAT(sound(w).decisions, IsEmpty());
  EXPECT_TRUE(w.cluster.nominated("a/new"));
  w.cluster.remove_job("a/old");
  EXPECT_THAT(jobs_of(sound(w), Decision::Kind::kStart), ElementsAre("a/new"));
}

// Two are nominated places on a node, and then the caller tells of a pod that stands there already. Not both
// fit any more: who can start first does, and the other one waits for its own pods, and then for another
// place.
TEST(Found, TwoArePromisedANodeAndAnAssignmentComesBetween) {
  SmallCluster w({node("n1", 0), node("n2", 0, "", 3)});
  const auto of_cpus = [&](const std::string& id, std::int64_t cpus) {
    JobSpec j = job(id, 1, 0);
    j.roles[0].per_pod.cpu = MilliCpu{cpus * 1000};
    w.cluster.upsert_job(j);
  };
  for (const std::string id : {"a/moves", "a/waits"}) {
    of_cpus(id, 1);
    w.cluster.nominate(id, assignment(1, {{0, 0, "n2", {}}}));
  }
  w.cluster.set_leaving("a/moves", {{0, 0, "n1", {}}});
  of_cpus("a/told", 2);
  w.cluster.set_assignment("a/told", assignment(1, {{0, 0, "n2", {}}}));
  EXPECT_THAT(jobs_of(sound(w), Decision::Kind::kStart), ElementsAre("a/waits"));
  w.cluster.set_leaving("a/moves", {});
  EXPECT_THAT(jobs_of(sound(w), Decision::Kind::kStart), ElementsAre("a/moves"));
  EXPECT_EQ(w.nodes_of("a/moves"), (std::map<std::string, int>{{"n1", 1}}));
}

// RULES.md 5.8: where disturbances count as free, to shrink by quota comes before to shrink by fair share. By
// quota the Queue of both may not hold more than it had, so two replicas go; by fair share one would have
// been enough.
TEST(Found, ByQuotaComesFirstAlsoWhereFewerWouldGoByFairShare) {
  SmallCluster w({node("n1", 8), node("n2", 8)});
  w.cluster.upsert_queue(queue("top", "", {10}));
  w.cluster.upsert_queue(project("a", "top", {2}));
  w.cluster.upsert_queue(project("b", "top", {6}));
  JobSpec elastic = job("a/elastic", 1, 4);
  elastic.roles[0].max_replicas = 3;
  w.cluster.upsert_job(elastic);
  w.cluster.set_assignment(
      "a/elastic",
      assignment(1, {{0, 0, "n1", {0, 1, 2, 3}}, {0, 1, "n1", {4, 5, 6, 7}}, {0, 2, "n2", {0, 1, 2, 3}}}));
  w.cluster.upsert_job(job("b/1", 5, 1, 5));
  const Plan p = sound(w);
  ASSERT_THAT(jobs_of(p, Decision::Kind::kShrink), ElementsAre("a/elastic"));
  EXPECT_EQ(p.decisions[0].assignment.pods.size(), 1U);
}

// Below it a disturbance has a price.
QueueSpec with_prices(QueueSpec q) {
  q.max_overhead = 50;
  return q;
}
QueueSpec held(QueueSpec q) {
  q.hold = true;
  return q;
}
Plan sound_at(SmallCluster& w, std::int64_t second) {
  w.now = second * 1000 - 1;
  return sound(w);
}

// Whose growth pays only after a while waits for so long at a stretch: not when it has no right to that room
// in between, or may not grow at all.
TEST(Found, GrowthForgetsTheRoomThatItCouldNotHaveMeanwhile) {
  const QueueSpec entitled = with_prices(project("a", "top", {8}));
  for (const QueueSpec& meanwhile : {with_prices(project("a", "top", {4})), held(entitled)}) {
    SmallCluster w({node("n", 8)});
    w.cluster.upsert_queue(entitled);
    w.cluster.upsert_queue(project("b", "top", {0}));
    JobSpec elastic = job("a/elastic", 1, 4);
    elastic.roles[0].max_replicas = 2;
    w.cluster.upsert_job(elastic);
    w.cluster.set_assignment("a/elastic", assignment(1, {{0, 0, "n", {0, 1, 2, 3}}}));
    w.cluster.upsert_job(job("b/1", 1, 4));
    w.cluster.set_assignment("b/1", assignment(1, {{0, 0, "n", {4, 5, 6, 7}}}));
    EXPECT_THAT(sound_at(w, 1000).decisions, IsEmpty());
    w.cluster.upsert_queue(meanwhile);
    EXPECT_THAT(sound_at(w, 1010).decisions, IsEmpty());
    w.cluster.upsert_queue(entitled);
    EXPECT_THAT(sound_at(w, 1100).decisions, IsEmpty());
    EXPECT_THAT(sound_at(w, 1219).decisions, IsEmpty());
    EXPECT_THAT(jobs_of(sound_at(w, 1220), Decision::Kind::kEvict), ElementsAre("b/1"));
  }
}

// What it might have had at the cost of others in an attempt that is over does not count in the next one.
TEST(Found, GrowthForgetsTheRoomOfAnEarlierAttempt) {
  SmallCluster w({node("n", 8)});
  w.cluster.upsert_queue(with_prices(project("a", "top", {0})));
  w.cluster.upsert_queue(with_prices(project("b", "top", {0})));
  JobSpec elastic = job("a/elastic", 1, 2);
  elastic.roles[0].max_replicas = 2;
  w.cluster.upsert_job(elastic);
  w.cluster.set_assignment("a/elastic", assignment(1, {{0, 0, "n", {0, 1}}}));
  JobSpec other = job("b/elastic", 1, 1);
  other.roles[0].max_replicas = 5;
  w.cluster.upsert_job(other);
  w.cluster.set_assignment(
      "b/elastic",
      assignment(1,
                 {{0, 0, "n", {2}}, {0, 1, "n", {3}}, {0, 2, "n", {4}}, {0, 3, "n", {5}}, {0, 4, "n", {6}}}));
  // One GPU is free. A second one costs 5 GPUs x 30 s, which one idle GPU has cost after 150 s.
  EXPECT_THAT(sound_at(w, 1000).decisions, IsEmpty());
  w.cluster.clear_assignment("a/elastic");
  EXPECT_THAT(jobs_of(sound_at(w, 1100), Decision::Kind::kStart), ElementsAre("a/elastic"));
  EXPECT_THAT(sound_at(w, 1160).decisions, IsEmpty());
  EXPECT_THAT(sound_at(w, 1249).decisions, IsEmpty());
  EXPECT_THAT(jobs_of(sound_at(w, 1250), Decision::Kind::kShrink), ElementsAre("b/elastic"));
}

// The same of one who waits. An earlier one of its Project cannot have room either, and has its turn.
TEST(Found, WhoWaitsForgetsTheRoomThatItCouldNotHaveMeanwhile) {
  const QueueSpec a = with_prices(project("a", "top", {0, -1, 0}));
  for (const bool hold : {false, true}) {
    SmallCluster w({node("n1", 4), node("n2", 4)});
    w.cluster.upsert_queue(a);
    w.cluster.upsert_queue(with_prices(project("b", "top")));
    const auto runs = [&](const std::string& id, const std::string& on, std::vector<std::int32_t> gpus) {
      w.cluster.upsert_job(job(id, 1, static_cast<std::int32_t>(gpus.size())));
      w.cluster.set_assignment(id, assignment(1, {{0, 0, on, std::move(gpus)}}));
      Progress p;
      p.saves_when_asked = true;
      w.cluster.set_progress(id, p);
    };
    runs("b/1", "n1", {0, 1});
    runs("b/2", "n2", {0, 1});
    w.cluster.upsert_job(job("a/early", 2, 4, 900'000));
    w.cluster.upsert_job(job("a/late", 1, 4, 900'001));
    // To move 2 GPUs costs two minutes of them, which the 4 that are free have cost after one.
    EXPECT_THAT(sound_at(w, 1000).decisions, IsEmpty());
    if (hold) {
      w.cluster.upsert_queue(held(a));
    } else {
      runs("b/3", "n1", {2});
    }
    EXPECT_THAT(sound_at(w, 1010).decisions, IsEmpty());
    if (hold) {
      w.cluster.upsert_queue(a);
    } else {
      w.cluster.remove_job("b/3");
    }
    EXPECT_THAT(sound_at(w, 1100).decisions, IsEmpty());
    EXPECT_THAT(sound_at(w, 1159).decisions, IsEmpty());
    EXPECT_EQ(jobs_of(sound_at(w, 1160), Decision::Kind::kMove).size(), 1U);
  }
}

// Of two who could move, the one of lower priority goes first, though that pays later. A node reservation
// keeps it off the only nodes where it would fit: from then on the other one is asked, and that has paid
// already.
TEST(Found, AReservationChangesWhoMayMove) {
  SmallCluster w({node("n1", 4), node("n2", 4), node("n3", 4)});
  w.cluster.upsert_queue(with_prices(project("a", "top", {0})));
  const auto runs = [&](JobSpec j, const std::string& on, std::vector<std::int32_t> gpus, bool saves) {
    w.cluster.upsert_job(j);
    w.cluster.set_assignment(j.id, assignment(1, {{0, 0, on, std::move(gpus)}}));
    Progress p;
    p.began = Time{1};
    p.saves_when_asked = saves;
    w.cluster.set_progress(j.id, p);
  };
  JobSpec ends = job("a/ends", 1, 1);
  ends.max_runtime = seconds(9000);
  ends.preemptible = false;
  runs(ends, "n3", {0}, false);
  runs(job("a/low", 1, 2), "n1", {0, 1}, false);
  runs(job("a/high", 1, 3, 0, 10), "n2", {0, 1, 2}, true);
  w.cluster.upsert_job(job("a/big", 1, 4, 1'000'000));
  EXPECT_THAT(sound_at(w, 1000).decisions, IsEmpty());
  const Plan reserves = sound_at(w, 1600);
  EXPECT_THAT(reserves.decisions, IsEmpty());
  ASSERT_TRUE(reserves.wake.has_value());
  EXPECT_EQ(reserves.wake->ms, 1'601'000);
  EXPECT_THAT(jobs_of(sound_at(w, 1601), Decision::Kind::kMove), ElementsAre("a/high"));
}

// It was on its way to another place when its user edited it. What comes next is a start, which Hold forbids.
TEST(Found, WhoIsEditedWhileItMovesStartsLikeOthers) {
  SmallCluster w({node("n1", 4), node("n2", 4)});
  for (const std::string n : {"1", "2"}) {
    w.cluster.upsert_job(job("a/" + n, 1, 2));
    w.cluster.set_assignment("a/" + n, assignment(1, {{0, 0, "n" + n, {0, 1}}}));
  }
  w.cluster.upsert_job(job("b/big", 1, 4, 5));
  const auto moved = jobs_of(sound(w), Decision::Kind::kMove);
  ASSERT_EQ(moved.size(), 1U);
  JobSpec edited = job(moved[0], 1, 2);
  edited.roles[0].per_pod.cpu = MilliCpu{2000};
  w.cluster.upsert_job(edited);
  w.cluster.set_leaving(moved[0], {});
  w.cluster.upsert_queue(held(project("a", "top")));
  w.cluster.nominate(moved[0], assignment(2, {{0, 0, moved[0] == "a/1" ? "n2" : "n1", {2, 3}}}));
  sound(w);
  EXPECT_EQ(w.cluster.assignment(moved[0]), nullptr);
}

}  // namespace
}  // namespace muster::placement
