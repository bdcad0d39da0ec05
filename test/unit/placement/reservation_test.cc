// RULES.md 7.1 to 7.6: reservation, backfill, estimated starts.
#include "reserve/reservation.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "small_cluster.h"

namespace muster::placement {
namespace {

Progress began(Time at) {
  Progress progress;
  progress.began = at;
  return progress;
}

using testing::assignment;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::job;
using testing::jobs_of;
using testing::node;
using testing::pool;
using testing::project;
using testing::queue;
using testing::SmallCluster;
using Kind = Decision::Kind;

constexpr std::int64_t kMinute = 60'000;

// Two nodes of 2 GPUs, quota 8; time in minutes. What runs is not preemptible, so that nothing but its end
// makes room.
struct Two : SmallCluster {
  Two() : SmallCluster({node("n1", 2), node("n2", 2)}) {
    cluster.upsert_queue(queue("top", "", {8}));
    cluster.upsert_queue(project("a", "top", {8}));
    cluster.upsert_queue(project("b", "top", {0}));
  }
  JobSpec fixed(const std::string& id, int gpus, int minute, int max_minutes = 0) {
    JobSpec j = job(id, 1, gpus, minute * kMinute);
    j.preemptible = false;
    if (max_minutes > 0) j.max_runtime = Duration{max_minutes * kMinute};
    return j;
  }
  void runs(const JobSpec& spec, const std::string& on, std::vector<std::int32_t> gpus, int since = 1) {
    cluster.upsert_job(spec);
    cluster.set_assignment(spec.id, assignment(since, {{0, 0, on, std::move(gpus)}}));
    cluster.set_progress(spec.id, began(Time{since * kMinute}));
  }
  Plan at(int minute) { return muster::placement::plan(cluster, Time{minute * kMinute}); }
  std::vector<std::string> starts_at(int minute) {
    std::vector<std::string> list;
    for (const Decision& d : at(minute).decisions) {
      if (d.kind == Kind::kStart) list.push_back(d.job);
    }
    return list;
  }
  const std::optional<Reservation>& reservation() {
    ClusterModel& s = cluster.state();
    return s.pool(s.find_pool("default")).reservation;
  }
  std::vector<std::string> reserved() {
    std::vector<std::string> names;
    if (reservation()) {
      for (const NodeId id : reservation()->nodes) names.push_back(cluster.state().node(id).spec.name);
    }
    return names;
  }
};

// n1 runs until minute 31 and 21, n2 until 61 and for ever; a/wide wants 2 GPUs on one node.
struct Waiting : Two {
  Waiting() {
    runs(fixed("a/1", 1, 0, 30), "n1", {0});
    runs(fixed("a/2", 1, 0, 20), "n1", {1});
    runs(fixed("b/3", 1, 0, 60), "n2", {0});
    runs(fixed("b/4", 1, 0), "n2", {1});
    cluster.upsert_job(fixed("a/wide", 2, 2));
  }
  void ends(const std::string& id) { cluster.remove_job(id); }
};

TEST(ReservationTest, IsMadeWhenTheFirstHasWaitedLongEnough) {
  Waiting w;
  const Plan before = w.at(5);
  EXPECT_FALSE(w.reservation());
  ASSERT_TRUE(before.wake);
  EXPECT_EQ(before.wake->ms, 12 * kMinute);
  w.at(12);
  EXPECT_THAT(w.reserved(), ElementsAre("n1"));
  EXPECT_EQ(w.reservation()->start, Time{31 * kMinute});
  EXPECT_EQ(w.cluster.pending_reason("a/wide")->estimated_start, Time{31 * kMinute});
  EXPECT_THAT(w.message("a/wide"), HasSubstr("; 1 node is reserved for it (n1)"));
}

TEST(ReservationTest, ItsOwnerStartsThere) {
  Waiting w;
  w.at(12);
  w.ends("a/2");
  w.cluster.upsert_job(w.fixed("a/young", 1, 13));
  EXPECT_THAT(w.starts_at(22), IsEmpty());
  EXPECT_EQ(w.reason("a/young"), Reason::kReserved);
  EXPECT_THAT(w.message("a/young"), HasSubstr("reserved for a/wide"));
  EXPECT_THAT(w.cluster.pending_reason("a/young")->blocking[0].by, ElementsAre("a/wide"));
  w.ends("a/1");
  EXPECT_THAT(w.starts_at(30), ElementsAre("a/wide"));
  ASSERT_TRUE(w.reservation());
  EXPECT_EQ(w.reservation()->name, "a/young");  // it has waited long enough as well
  EXPECT_EQ(w.reason("a/young"), Reason::kInsufficientCapacity);
}

TEST(ReservationTest, TellsWhatIsFreeOnOtherNodes) {
  Waiting w;
  w.at(12);
  w.ends("a/2");  // a GPU of n1 is free and kept
  w.ends("b/3");  // a GPU of n2 is free
  JobSpec pair = w.fixed("a/pair", 1, 13);
  pair.roles[0].replicas = 2;
  w.cluster.upsert_job(pair);
  EXPECT_THAT(w.starts_at(22), IsEmpty());
  ASSERT_EQ(w.reason("a/pair"), Reason::kReserved) << w.message("a/pair");
  const Blocking& blocking = w.cluster.pending_reason("a/pair")->blocking[0];
  EXPECT_EQ(blocking.need, 2000);
  EXPECT_EQ(blocking.have, 1000);
  EXPECT_THAT(w.message("a/pair"), HasSubstr(", 1 free beside what is reserved for a/wide"));
}

// n1 is empty, and another gang could not start there.
TEST(ReservationTest, ItsNodesDoNotCountForTheLargestGang) {
  Two w;
  w.runs(w.fixed("a/long", 2, 0, 30), "n2", {0, 1});
  JobSpec wide = w.fixed("a/wide", 2, 1);
  wide.roles[0].replicas = 2;
  w.cluster.upsert_job(wide);
  w.at(2);
  EXPECT_EQ(w.cluster.pool_usage("default").largest_gang.value, 2000);
  w.at(12);
  ASSERT_THAT(w.reserved(), ElementsAre("n1", "n2"));
  EXPECT_EQ(w.cluster.pool_usage("default").largest_gang.value, 0);
}

TEST(ReservationTest, WhoEndsBeforeIsBackfilled) {
  Waiting w;
  w.at(12);
  w.ends("a/2");
  w.cluster.upsert_job(w.fixed("a/long", 1, 13, 10));
  w.cluster.upsert_job(w.fixed("a/short", 1, 14, 9));
  EXPECT_THAT(w.starts_at(22), ElementsAre("a/short"));
  EXPECT_EQ(w.reason("a/long"), Reason::kInsufficientCapacity) << w.message("a/long");
}

TEST(ReservationTest, WhoIsCheapToRemoveIsBackfilled) {
  Waiting w;
  w.at(12);
  w.ends("a/2");
  JobSpec dear = job("b/dear", 1, 1, 13 * kMinute), cheap = job("b/cheap", 1, 1, 14 * kMinute);
  cheap.checkpoint_interval = Duration{5 * kMinute};
  w.cluster.upsert_job(dear);
  w.cluster.upsert_job(cheap);
  EXPECT_THAT(w.starts_at(22), ElementsAre("b/cheap"));
  w.ends("a/1");  // now the owner can have all of n1 by its right
  std::vector<std::string> evicted;
  for (const Decision& d : w.at(31).decisions) {
    if (d.kind == Kind::kEvict) evicted.push_back(d.job);
  }
  EXPECT_THAT(evicted, ElementsAre("b/cheap"));
  EXPECT_TRUE(w.cluster.nominated("a/wide"));
}

TEST(ReservationTest, AnotherPlaceThatComesFreeEarlierIsTaken) {
  Waiting w;
  w.at(12);
  w.ends("b/3");
  w.ends("b/4");
  EXPECT_THAT(w.starts_at(14), ElementsAre("a/wide"));
  EXPECT_FALSE(w.reservation());
}

TEST(ReservationTest, EndsWithItsOwner) {
  const auto with_young = [](auto&& change) {
    Waiting w;
    w.at(12);
    w.ends("a/2");
    w.cluster.upsert_job(w.fixed("a/young", 1, 13));
    EXPECT_THAT(w.starts_at(22), IsEmpty());
    change(w);
    return w.starts_at(23);
  };
  EXPECT_THAT(with_young([](Waiting& w) { w.cluster.remove_job("a/wide"); }), ElementsAre("a/young"));
  EXPECT_THAT(with_young([](Waiting& w) { w.cluster.upsert_queue(project("a", "top", {8, 2})); }),
              IsEmpty());  // it is limited, and lacks places
  EXPECT_THAT(with_young([](Waiting& w) {
                QueueSpec held = project("a", "top", {8});
                held.hold = true;
                w.cluster.upsert_queue(held);
                JobSpec other = job("b/other", 1, 1, 13 * kMinute);
                w.cluster.upsert_job(other);
              }),
              ElementsAre("b/other"));
  EXPECT_THAT(with_young([](Waiting& w) {
                JobSpec larger = w.fixed("a/wide", 3, 2);  // fits nowhere
                w.cluster.upsert_job(larger);
              }),
              IsEmpty());
}

TEST(ReservationTest, HigherPriorityOfTheSameLeafIsNotKeptOff) {
  Waiting w;
  w.at(12);
  w.ends("a/2");
  JobSpec urgent = w.fixed("a/urgent", 1, 13);
  urgent.priority = 5;
  w.cluster.upsert_job(urgent);
  EXPECT_THAT(w.starts_at(22), ElementsAre("a/urgent"));
}

TEST(ReservationTest, WhoIsWithinQuotaIsNotKeptOffByWhoIsNot) {
  Waiting w;
  w.at(12);
  w.ends("a/2");
  w.cluster.upsert_job(w.fixed("b/urgent", 1, 13));
  w.cluster.upsert_queue(project("b", "top", {4}));
  EXPECT_THAT(w.starts_at(22), IsEmpty());  // both are
  w.cluster.upsert_queue(project("a", "top", {2}));
  EXPECT_THAT(w.starts_at(23), ElementsAre("b/urgent"));
}

// Nobody knows when they end, and nobody may take or move them.
TEST(ReservationTest, NothingIsKeptBesideWhatMayNeverEnd) {
  Two w;
  w.runs(w.fixed("a/1", 1, 0), "n1", {0}, 5);
  w.runs(w.fixed("b/3", 1, 0), "n2", {0}, 1);
  w.cluster.upsert_job(w.fixed("a/wide", 2, 2));
  w.at(20);
  EXPECT_THAT(w.reserved(), IsEmpty());
  w.cluster.upsert_job(w.fixed("a/eleven", 1, 13));
  EXPECT_THAT(w.starts_at(22), ElementsAre("a/eleven"));
}

TEST(ReservationTest, WithoutAnyEndThoseThatBeganFirstAreWaitedFor) {
  Two w;
  const auto preemptible = [&](const char* id) {
    JobSpec spec = w.fixed(id, 1, 0);
    spec.preemptible = true;
    return spec;
  };
  w.runs(preemptible("a/1"), "n1", {0}, 5);
  w.runs(preemptible("a/2"), "n1", {1}, 6);
  w.runs(preemptible("a/3"), "n2", {0}, 1);
  w.runs(preemptible("a/4"), "n2", {1}, 2);
  w.cluster.upsert_job(w.fixed("a/wide", 2, 2));
  const Plan plan = w.at(20);
  EXPECT_THAT(w.reserved(), ElementsAre("n2"));
  EXPECT_FALSE(w.reservation()->start);
  EXPECT_EQ(plan.wake, Time{80 * kMinute});  // it is thought over
  EXPECT_FALSE(w.cluster.pending_reason("a/wide")->estimated_start);
  w.cluster.remove_job("a/3");
  w.cluster.upsert_job(w.fixed("a/eleven", 1, 13, 11));
  w.cluster.upsert_job(w.fixed("a/ten", 1, 14, 10));
  EXPECT_THAT(w.starts_at(22), ElementsAre("a/ten"));
  w.cluster.remove_job("a/4");  // all that is left there has an end
  w.at(23);
  EXPECT_EQ(w.reservation()->start, Time{32 * kMinute});
}

// It has a right to what it holds, but not to more: so it is kept off until it has no longer to go than those
// are let be that wait, and a plan is made then.
TEST(ReservationTest, WhoMayGrowOntoItsNodesLaterIsLookedAtThen) {
  Two w;
  w.cluster.remove_node("n2");
  w.cluster.upsert_node(node("n1", 3));
  w.cluster.upsert_queue(project("a", "top", {1}));
  w.cluster.upsert_queue(project("b", "top", {1, -1, 0}));
  w.runs(job("a/old", 1, 1), "n1", {0});
  JobSpec elastic = job("b/elastic", 1, 1);
  elastic.roles[0].max_replicas = 2;
  elastic.max_runtime = Duration{60 * kMinute};
  w.runs(elastic, "n1", {1});
  w.cluster.upsert_job(job("a/wide", 1, 3, 2 * kMinute));
  const Plan plan = w.at(12);
  EXPECT_THAT(plan.decisions, IsEmpty());
  EXPECT_THAT(w.reserved(), ElementsAre("n1"));
  EXPECT_EQ(plan.wake, Time{51 * kMinute});
  EXPECT_THAT(jobs_of(w.at(51), Kind::kGrow), ElementsAre("b/elastic"));
}

TEST(ReservationTest, WhoCouldNeverStartReservesNothing) {
  Waiting w;
  w.cluster.upsert_job(w.fixed("a/giant", 1, 1));
  JobSpec giant = job("a/giant", 3, 2, 0);
  w.cluster.upsert_job(giant);
  w.at(12);
  EXPECT_THAT(w.reservation()->name, "a/wide");
}

TEST(ReservationTest, IsLateWhenAJobOutstaysItsTime) {
  Waiting w;
  w.at(12);
  const Plan plan = w.at(31);
  EXPECT_EQ(plan.wake, Time{32 * kMinute});
  w.at(32);
  ASSERT_TRUE(w.reservation());
  EXPECT_EQ(w.reservation()->made, Time{32 * kMinute});
}

TEST(ReservationTest, TheClockBeginsAnewWhenItHasHeldSomething) {
  Waiting w;
  w.cluster.upsert_job(job("a/gang", 1, 2, 0));
  w.cluster.remove_job("a/wide");
  w.cluster.set_assignment("a/gang", assignment(1, {{0, 0, "n3", {0, 1}}}));  // a node that is gone
  w.at(30);
  w.cluster.clear_assignment("a/gang");
  w.at(31);  // it is known to hold nothing since then
  EXPECT_FALSE(w.reservation());
  w.at(40);
  EXPECT_FALSE(w.reservation());
  w.at(41);
  EXPECT_TRUE(w.reservation());
}

TEST(ReservationTest, WhoLacksOnlyRoomUnderALimitReservesNothing) {
  Two w;  // S2, for an hour
  w.cluster.upsert_queue(project("a", "top", {2, 2}));
  w.runs(w.fixed("a/1", 2, 0), "n1", {0, 1});
  w.cluster.upsert_job(job("a/more", 1, 1, 0));
  w.at(60);
  EXPECT_FALSE(w.reservation());
  EXPECT_EQ(w.reason("a/more"), Reason::kLimitReached);
}

// S21: 9 nodes of 8 GPUs full of 1-GPU jobs of 4 minutes (maxRuntime 5), 300 more waiting, a gang of
// 8 x 8 older.
TEST(ReservationTest, S21GangStartsAndTheRestOfThePoolStaysBusy) {
  std::vector<NodeSpec> nodes;
  for (int i = 1; i <= 9; ++i) nodes.push_back(node("n" + std::to_string(i)));
  SmallCluster w(nodes);
  w.cluster.upsert_queue(queue("top", "", {72}));
  w.cluster.upsert_queue(project("a", "top", {72}));
  std::map<std::string, std::int64_t> ends;  // seconds
  const auto small = [&](int i) {
    JobSpec j = job("a/s" + std::to_string(1000 + i), 1, 1, 100);
    j.preemptible = false;
    j.max_runtime = seconds(300);
    w.cluster.upsert_job(j);
    return j.id;
  };
  const std::int64_t begin = 10'000;
  for (int i = 0; i < 72; ++i) {
    const auto id = small(i);
    const std::int64_t ran = i * 10 % 240;
    w.cluster.set_assignment(id, assignment(1, {{0, 0, "n" + std::to_string(i % 9 + 1), {i / 9}}}));
    w.cluster.set_progress(id, began(Time{(begin - ran) * 1000}));
    ends[id] = begin - ran + 240;
  }
  for (int i = 72; i < 472; ++i) small(i);
  JobSpec gang = job("a/gang", 8, 8, begin * 1000);
  gang.preemptible = false;
  gang.priority = 0;
  gang.submitted = Time{50};  // older than all others, and first seen now
  w.cluster.upsert_job(gang);
  PoolSpec p = pool("default");
  p.reservation_after = seconds(begin + 600);  // it waits since the epoch
  w.cluster.upsert_pool(p);
  std::int64_t started = 0;
  for (std::int64_t now = begin; now <= begin + 910 && started == 0; ++now) {
    for (auto it = ends.begin(); it != ends.end();) {
      if (it->second > now) {
        ++it;
        continue;
      }
      w.cluster.remove_job(it->first);
      it = ends.erase(it);
    }
    for (const Decision& d : plan(w.cluster, Time{now * 1000}).decisions) {
      ASSERT_EQ(d.kind, Kind::kStart);
      if (d.job == "a/gang") started = now;
      ends[d.job] = now + 240;
    }
    const auto small_running = static_cast<std::int64_t>(ends.size()) - (started != 0 ? 1 : 0);
    if (now < begin + 600) {
      ASSERT_EQ(small_running, 72) << now - begin;
    }
    ASSERT_GE(small_running, 8) << now - begin;  // the ninth node, and backfill
  }
  ASSERT_NE(started, 0);
  EXPECT_LE(started, begin + 900);
}

TEST(EstimateTest, ByWhatEndsAndWhoIsBefore) {
  Two w;
  w.cluster.upsert_queue(project("a", "top", {8}));
  w.runs(w.fixed("a/1", 1, 0, 30), "n1", {0});
  w.runs(w.fixed("a/2", 1, 0, 20), "n1", {1});
  w.runs(w.fixed("b/3", 1, 0, 60), "n2", {0});
  w.runs(w.fixed("b/4", 1, 0), "n2", {1});
  for (const char* id : {"a/w1", "a/w2", "a/w3", "a/w4"}) w.cluster.upsert_job(job(id, 1, 1, 2 * kMinute));
  w.at(3);
  EXPECT_EQ(w.cluster.pending_reason("a/w1")->estimated_start, Time{21 * kMinute});
  EXPECT_EQ(w.cluster.pending_reason("a/w2")->estimated_start, Time{31 * kMinute});
  EXPECT_EQ(w.cluster.pending_reason("a/w3")->estimated_start, Time{61 * kMinute});
  EXPECT_FALSE(w.cluster.pending_reason("a/w4")->estimated_start);
  EXPECT_THAT(w.at(4).pending_reasons, IsEmpty());  // the estimates stand
}

TEST(EstimateTest, WhoIsLateIsAboutToGo) {
  Two w;
  w.runs(w.fixed("a/1", 2, 0, 1), "n1", {0, 1}, 1);
  w.runs(w.fixed("a/2", 2, 0), "n2", {0, 1}, 1);
  w.cluster.upsert_job(job("a/w", 1, 1, 2 * kMinute));
  w.at(5);
  EXPECT_EQ(w.cluster.pending_reason("a/w")->estimated_start, Time{6 * kMinute});
}

}  // namespace
}  // namespace muster::placement
