#include "holding.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::activator {
namespace {

using client::TimePoint;
using std::chrono::seconds;
using testing::ElementsAre;
using testing::IsEmpty;

constexpr TimePoint kNow{seconds{100}};
const client::Key kWeb = "team/web";

Bounds bounds(std::size_t requests, std::size_t bytes = 1000, std::size_t per_replica = 100) {
  Bounds b;
  b.requests = requests;
  b.bytes = bytes;
  b.per_replica = per_replica;
  return b;
}

TEST(Holding, HoldsUpToItsBoundOfRequestsForEachService) {
  Holding h(bounds(2));
  EXPECT_TRUE(h.take(kWeb, 1));
  const auto second = h.take(kWeb, 1);
  ASSERT_TRUE(second);
  EXPECT_FALSE(h.take(kWeb, 1));
  EXPECT_TRUE(h.take("team/other", 1)) << "another service has a bound of its own";
  EXPECT_EQ(h.held(kWeb), 2U);
  h.end(*second);
  EXPECT_TRUE(h.take(kWeb, 1));
}

TEST(Holding, HoldsUpToItsBoundOfBytesInAll) {
  Holding h(bounds(100, 1000));
  const auto first = h.take(kWeb, 600);
  ASSERT_TRUE(first);
  EXPECT_FALSE(h.take("team/other", 500));
  EXPECT_TRUE(h.grow(*first, 400));
  EXPECT_FALSE(h.grow(*first, 1));
  EXPECT_EQ(h.held_bytes(), 1000U);
  h.end(*first);
  EXPECT_EQ(h.held_bytes(), 0U);
  EXPECT_TRUE(h.take("team/other", 500));
}

TEST(Holding, HeadsThatStillComeCountAndThoseOfOneServiceLeaveRoomForOthers) {
  Holding h(bounds(100, 1000));
  EXPECT_TRUE(h.take_head(kWeb, 200));
  EXPECT_FALSE(h.take_head(kWeb, 51)) << "a quarter";
  EXPECT_TRUE(h.take_head(kWeb, 50));
  EXPECT_TRUE(h.take_head("team/other", 250));
  EXPECT_EQ(h.held_bytes(), 500U);
  EXPECT_FALSE(h.take(kWeb, 501));
  EXPECT_TRUE(h.take(kWeb, 500));
  EXPECT_FALSE(h.take_head("team/third", 1)) << "the bound of all";
  h.forget_head(kWeb, 250);
  EXPECT_TRUE(h.take_head("team/third", 250));
  h.forget_head("team/nobody", 7);
  EXPECT_EQ(h.held_bytes(), 1000U);
}

TEST(Holding, PassesOnInTheOrderInWhichTheyCame) {
  Holding h(bounds(100, 1000, 2));
  const auto a = *h.take(kWeb, 1), b = *h.take(kWeb, 1), c = *h.take(kWeb, 1);
  EXPECT_THAT(h.pass_on(kWeb, kNow), IsEmpty()) << "no replica is ready";
  h.set_replicas(kWeb, {"r1"});
  EXPECT_THAT(h.pass_on(kWeb, kNow), ElementsAre(Passed{a, "r1"}, Passed{b, "r1"}));
  EXPECT_EQ(h.held(kWeb), 1U) << "the replica has as many as it may have";
  h.end(b);
  EXPECT_THAT(h.pass_on(kWeb, kNow), ElementsAre(Passed{c, "r1"}));
  EXPECT_EQ(h.held_bytes(), 0U) << "what was passed on is not held";
}

TEST(Holding, SpreadsOverTheReplicasThatBecomeReady) {
  Holding h(bounds(100, 1000, 3));
  for (int i = 0; i < 8; ++i) h.take(kWeb, 1);
  h.set_replicas(kWeb, {"r1"});
  EXPECT_EQ(h.pass_on(kWeb, kNow).size(), 3U);
  h.set_replicas(kWeb, {"r1", "r2", "r3"});
  std::map<std::string, int> got;
  for (const auto& p : h.pass_on(kWeb, kNow)) ++got[p.replica];
  EXPECT_EQ(got["r1"], 0);
  EXPECT_EQ(got["r2"] + got["r3"], 5);
  EXPECT_LE(std::abs(got["r2"] - got["r3"]), 1);
}

TEST(Holding, EqualReplicasHaveTheirTurns) {
  Holding h(bounds(100));
  h.set_replicas(kWeb, {"r1", "r2"});
  std::vector<std::string> to;
  for (int i = 0; i < 4; ++i) {
    const auto ticket = *h.take(kWeb, 1);
    to.push_back(h.pass_on(kWeb, kNow).at(0).replica);
    h.end(ticket);
  }
  EXPECT_THAT(to, ElementsAre("r1", "r2", "r1", "r2"));
}

TEST(Holding, OneThatWasRefusedKeepsItsPlaceAndTheReplicaIsAvoidedForAWhile) {
  Holding h(bounds(100, 1000, 1));
  const auto a = *h.take(kWeb, 1), b = *h.take(kWeb, 1);
  h.set_replicas(kWeb, {"r1"});
  EXPECT_THAT(h.pass_on(kWeb, kNow), ElementsAre(Passed{a, "r1"}));
  h.refused(a, kNow + seconds{1});
  EXPECT_EQ(h.held(kWeb), 2U);
  EXPECT_THAT(h.pass_on(kWeb, kNow), IsEmpty());
  h.set_replicas(kWeb, {"r1", "r2"});
  EXPECT_THAT(h.pass_on(kWeb, kNow), ElementsAre(Passed{a, "r2"}));
  EXPECT_THAT(h.pass_on(kWeb, kNow + seconds{1}), ElementsAre(Passed{b, "r1"}));
}

TEST(Holding, AReplicaThatIsNotReadyGetsNothingNew) {
  Holding h(bounds(100));
  h.set_replicas(kWeb, {"r1"});
  const auto a = *h.take(kWeb, 1);
  EXPECT_EQ(h.pass_on(kWeb, kNow).size(), 1U);
  h.set_replicas(kWeb, {});
  EXPECT_FALSE(h.has_replica(kWeb));
  h.take(kWeb, 1);
  EXPECT_THAT(h.pass_on(kWeb, kNow), IsEmpty());
  h.end(a);
  h.set_replicas(kWeb, {"r1"});
  EXPECT_EQ(h.pass_on(kWeb, kNow).size(), 1U);
}

}  // namespace
}  // namespace muster::activator
