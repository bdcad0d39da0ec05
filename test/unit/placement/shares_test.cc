// RULES.md 1: shares.
#include "shares/shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "shares/past.h"
#include "small_cluster.h"

namespace muster::placement {
namespace {

using ::testing::ElementsAre;

constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;

struct Case {
  const char* name;
  std::int64_t capacity;
  std::vector<ShareClaim> claims;  // quota, limit, demand, weight, priority, reserved
  std::vector<std::int64_t> expect;
};
class ShareOut : public ::testing::TestWithParam<Case> {};
TEST_P(ShareOut, Gives) {
  EXPECT_EQ(share_out(GetParam().capacity, 1000, GetParam().claims), GetParam().expect);
}

INSTANTIATE_TEST_SUITE_P(
    Table, ShareOut,
    ::testing::Values(
        Case{"quota_only_as_far_as_wanted",
             8000,
             {{4000, kNoLimit, 1000}, {4000, kNoLimit, 4000}},
             {1000, 4000}},
        Case{"rest_in_equal_parts", 8000, {{0, kNoLimit, 9000}, {0, kNoLimit, 9000}}, {4000, 4000}},
        Case{"weights_1_to_3", 8000, {{0, kNoLimit, 9000, 1}, {0, kNoLimit, 9000, 3}}, {2000, 6000}},
        Case{"who_wants_little_leaves_the_rest",
             9000,
             {{0, kNoLimit, 1000}, {0, kNoLimit, 9000}, {0, kNoLimit, 9000}},
             {1000, 4000, 4000}},
        Case{"limit_caps", 8000, {{2000, 3000, 9000}, {2000, kNoLimit, 9000}}, {3000, 5000}},
        Case{"limit_below_quota", 8000, {{4000, 1000, 9000}, {0, kNoLimit, 9000}}, {1000, 7000}},
        Case{"weight_0_has_no_part", 8000, {{2000, kNoLimit, 9000, 0}, {0, kNoLimit, 9000, 1}}, {2000, 6000}},
        Case{"priority_first", 8000, {{0, kNoLimit, 5000, 1, 1}, {0, kNoLimit, 9000, 1, 2}}, {0, 8000}},
        Case{"whole_gpus_remainder_to_the_older",
             7000,
             {{0, kNoLimit, 9000}, {0, kNoLimit, 9000}},
             {4000, 3000}},
        Case{"whole_gpus_largest_fraction",
             8000,
             {{0, kNoLimit, 9000, 1}, {0, kNoLimit, 9000, 2}},
             {3000, 5000}},
        Case{"quotas_keep_their_fraction",
             8000,
             {{2500, kNoLimit, 9000}, {2500, kNoLimit, 9000}},
             {4500, 3500}},
        Case{"too_much_promised_in_proportion",
             6000,
             {{8000, kNoLimit, 8000}, {4000, kNoLimit, 4000}},
             {4000, 2000}},
        Case{"too_much_promised_and_one_wants_little",
             8000,
             {{8000, kNoLimit, 9000}, {8000, kNoLimit, 1000}},
             {7000, 1000}},
        Case{"too_much_promised_in_whole_gpus",
             8000,
             {{8000, kNoLimit, 8000}, {8000, kNoLimit, 8000}, {8000, kNoLimit, 8000}},
             {3000, 3000, 2000}},
        Case{"too_much_promised_in_parts",
             2000,
             {{1500, kNoLimit, 9000}, {1500, kNoLimit, 9000}},
             {1000, 1000}},
        Case{"too_much_promised_by_priority",
             6000,
             {{8000, kNoLimit, 5000, 1, 1}, {4000, kNoLimit, 4000, 1, 2}},
             {2000, 4000}},
        Case{"reserved_is_there_without_demand",
             8000,
             {{2000, kNoLimit, 0, 1, 0, 2000}, {2000, kNoLimit, 9000}},
             {2000, 6000}},
        Case{"reserved_is_no_addition",
             8000,
             {{4000, kNoLimit, 9000, 1, 0, 2000}, {4000, kNoLimit, 9000}},
             {4000, 4000}},
        Case{"reserved_serves_the_wanted_part_first",
             8000,
             {{4000, kNoLimit, 1000, 1, 0, 3000}, {0, kNoLimit, 9000}},
             {3000, 5000}},
        Case{"reserved_up_to_the_limit",
             8000,
             {{4000, 1000, 0, 1, 0, 4000}, {0, kNoLimit, 9000}},
             {1000, 7000}},
        Case{"too_much_promised_reserved_first",
             6000,
             {{4000, kNoLimit, 4000, 1, 0, 2000}, {8000, kNoLimit, 8000, 1, 5}},
             {2000, 4000}},
        Case{"too_much_reserved_by_priority",
             6000,
             {{4000, kNoLimit, 4000, 1, 0, 4000}, {4000, kNoLimit, 4000, 1, 5, 4000}},
             {2000, 4000}},
        Case{"too_much_reserved_in_proportion",
             6000,
             {{8000, kNoLimit, 0, 1, 0, 8000}, {4000, kNoLimit, 4000, 1, 0, 4000}},
             {4000, 2000}},
        Case{"large_weights",
             8000,
             {{0, kNoLimit, 9000, 1'000'000'000}, {0, kNoLimit, 9000, 3'000'000'000}},
             {2000, 6000}},
        Case{"remainder_passes_to_the_lower_priority",
             8000,
             {{0, kNoLimit, 3000, 1, 1}, {0, kNoLimit, 9000, 1, 0}, {0, kNoLimit, 9000, 3, 0}},
             {3000, 1000, 4000}},
        Case{"nothing_there", 0, {{8000, kNoLimit, 8000}}, {0}}, Case{"nobody", 8000, {}, {}},
        Case{"less_than_nothing", -5, {{1, kNoLimit, 1}}, {0}}),
    [](const auto& param) { return std::string(param.param.name); });

TEST(FairSharesTest, GoesDownTheTree) {
  testing::SmallCluster w({testing::node("n1")});
  w.cluster.upsert_queue(testing::queue("d1", "", {4}));
  w.cluster.upsert_queue(testing::queue("d2", "", {4}));
  w.cluster.upsert_queue(testing::project("a", "d1", {3}));
  w.cluster.upsert_queue(testing::project("b", "d1", {1}));
  w.cluster.upsert_queue(testing::project("c", "d2", {4}));
  for (const char* id : {"a/j", "b/j"}) w.cluster.upsert_job(testing::job(id, 9, 1));
  w.cluster.upsert_job(testing::job("c/j", 2, 1));
  ClusterModel& s = w.cluster.state();
  s.settle();
  const auto fair = fair_shares(s, s.find_pool("default"));
  const auto of = [&](const char* name, bool is_project) {
    return fair[static_cast<std::size_t>(s.tree().find_queue(name, is_project))].gpu.value;
  };
  EXPECT_EQ(of("d1", false), 6000);
  EXPECT_EQ(of("d2", false), 2000);
  EXPECT_EQ(of("a", true), 4000);
  EXPECT_EQ(of("b", true), 2000);
  EXPECT_EQ(of("c", true), 2000);
}

TEST(FairSharesTest, ReservedAtAnyDepthReachesUpwards) {
  testing::SmallCluster w({testing::node("n1")});
  w.cluster.upsert_queue(testing::queue("d1", "", {4}));
  w.cluster.upsert_queue(testing::queue("d2", "", {0}));
  w.cluster.upsert_queue(testing::project("a", "d1", {2, -1, 1, 0, 2}));
  w.cluster.upsert_queue(testing::project("b", "d1", {2}));
  w.cluster.upsert_queue(testing::project("c", "d2", {0}));
  w.cluster.upsert_job(testing::job("b/j", 8, 1));
  w.cluster.upsert_job(testing::job("c/j", 8, 1));
  ClusterModel& s = w.cluster.state();
  s.settle();
  const auto fair = fair_shares(s, s.find_pool("default"));
  const auto of = [&](const char* name, bool is_project) {
    return fair[static_cast<std::size_t>(s.tree().find_queue(name, is_project))].gpu.value;
  };
  EXPECT_EQ(of("d1", false), 6000);  // quota 4, and half of the rest
  EXPECT_EQ(of("a", true), 2000);
  EXPECT_EQ(of("b", true), 4000);
  EXPECT_EQ(of("c", true), 2000);
}

// --- past use

TEST(PastUseTest, WeightsFallWithUseBeyondTheOwnPart) {
  const auto discounted = [](std::vector<std::int64_t> weights, const std::vector<std::int64_t>& beyond) {
    std::vector<ShareClaim> claims;
    for (const auto w : weights) claims.push_back({0, kNoLimit, 0, w});
    discount(claims, beyond);
    for (std::size_t i = 0; i < weights.size(); ++i) weights[i] = claims[i].weight;
    return weights;
  };
  EXPECT_THAT(discounted({1, 1}, {0, 0}), ElementsAre(10000, 10000));
  EXPECT_THAT(discounted({1, 1}, {-5, -5}), ElementsAre(10000, 10000));
  EXPECT_THAT(discounted({1, 1}, {4000, 4000}), ElementsAre(10000, 10000));
  EXPECT_THAT(discounted({1, 1}, {8000, 0}), ElementsAre(5000, 10000));
  EXPECT_THAT(discounted({1, 3}, {8000, 0}), ElementsAre(2500, 30000));
  EXPECT_THAT(discounted({1, 3}, {2000, 6000}), ElementsAre(10000, 30000));
  EXPECT_THAT(discounted({0, 1}, {8000, 1000}), ElementsAre(0, 10000));  // weight 0 has no part in it
}

TEST(PastUseTest, HalvesWithEachHalfLife) {
  constexpr std::uint64_t kOne = std::uint64_t{1} << 32;
  EXPECT_EQ(decay(seconds(0), seconds(10)), kOne);
  EXPECT_EQ(decay(seconds(10), seconds(10)), kOne / 2);
  EXPECT_EQ(decay(seconds(30), seconds(10)), kOne / 8);
  EXPECT_EQ(decay(seconds(10'000), seconds(10)), 0u);
  EXPECT_NEAR(static_cast<double>(decay(seconds(5), seconds(10))) / kOne, 0.70710678, 1e-8);
  EXPECT_NEAR(static_cast<double>(decay({1}, seconds(604'800))) / kOne, 1 - 1.146e-9, 2e-9);
}

// d has a half-life of an hour; a and b below it have no quota and equal weights; 9 GPUs.
struct PastUseWorld : testing::SmallCluster {
  PastUseWorld() : SmallCluster({testing::node("n1", 9)}) {
    QueueSpec d = testing::queue("d", "");
    d.half_life = seconds(3600);
    cluster.upsert_queue(d);
    for (const char* name : {"a", "b"}) cluster.upsert_queue(testing::project(name, "d"));
  }
  void at(std::int64_t second) { muster::placement::plan(cluster, Time{second * 1000}); }
  void run(const std::string& id, int gpus) {
    cluster.upsert_job(testing::job(id, 1, gpus));
    PodPlace place{0, 0, "n1", {}};
    for (int i = 0; i < gpus; ++i) place.gpus.push_back(i);
    cluster.set_assignment(id, {"default", Time{}, {place}});
  }
  std::int64_t average(const std::string& name) const {
    for (const PastUse& p : cluster.past_use()) {
      if (p.queue == name) return p.average.gpu.value;
    }
    return -1;
  }
};

TEST(PastUseTest, AveragesWhatWasHeldBetweenPlans) {
  PastUseWorld w;
  w.at(0);
  w.run("a/j", 8);
  w.at(0);
  w.at(3600);
  EXPECT_EQ(w.average("a"), 4000);
  EXPECT_EQ(w.average("b"), 0);
  w.cluster.remove_job("a/j");  // it held its GPUs until this plan
  w.at(7200);
  EXPECT_EQ(w.average("a"), 6000);
  w.at(10800);
  EXPECT_EQ(w.average("a"), 3000);
}

TEST(PastUseTest, ManySmallStepsAreAsGoodAsOne) {
  PastUseWorld w;
  w.run("a/j", 8);
  for (int second = 0; second <= 3600; ++second) w.at(second);
  EXPECT_NEAR(static_cast<double>(w.average("a")), 4000, 30);  // the last step is not folded in yet
}

TEST(PastUseTest, WhoHadMoreYieldsForAWhile) {
  PastUseWorld w;
  w.run("a/j", 8);
  w.at(0);
  w.at(36000);
  w.cluster.remove_job("a/j");
  for (const char* id : {"a/wants", "b/wants"}) w.cluster.upsert_job(testing::job(id, 20, 1));
  ClusterModel& s = w.cluster.state();
  s.settle();
  const auto fair = [&](const char* name) {
    return fair_shares(s, s.find_pool("default"))[static_cast<std::size_t>(s.tree().find_queue(name, true))]
        .gpu.value;
  };
  EXPECT_EQ(fair("a"), 3000);  // weights 1/2 and 1
  EXPECT_EQ(fair("b"), 6000);
}

TEST(PastUseTest, IsKeptOverARestart) {
  PastUseWorld w;
  w.run("a/j", 8);
  w.at(0);
  w.at(3600);
  PastUseWorld next;
  next.run("a/j", 8);
  for (const PastUse& p : w.cluster.past_use()) next.cluster.set_past_use(p);
  w.at(7200);
  next.at(7200);
  EXPECT_EQ(next.average("a"), 6000);
  EXPECT_EQ(next.cluster.past_use(), w.cluster.past_use());
}

TEST(PastUseTest, IsNotKeptWhereNobodyAsksForIt) {
  testing::SmallCluster w({testing::node("n1")});
  w.cluster.upsert_job(testing::job("a/j", 1, 1));
  w.plan();
  EXPECT_TRUE(w.cluster.past_use().empty());
}

}  // namespace
}  // namespace muster::placement
