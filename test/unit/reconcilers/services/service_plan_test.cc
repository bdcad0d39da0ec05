#include "muster/reconcilers/services/service_plan.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>

namespace muster::reconcilers {
namespace {

using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::IsEmpty;

constexpr crds::Time kStart{std::chrono::sys_days{std::chrono::year{2026} / 1 / 2}};

constexpr Replica kServing{.is_current = true, .is_placed = true, .is_ready = true, .created = kStart};
constexpr Replica kStarting{.is_current = true, .is_placed = true, .created = kStart};
constexpr Replica kWaiting{.is_current = true, .lacks_room = true, .created = kStart};
crds::Rollout rollout(std::int32_t max_surge, std::int32_t max_unavailable) {
  crds::Rollout r;
  r.max_surge = max_surge;
  r.max_unavailable = max_unavailable;
  return r;
}
constexpr Replica old(Replica r) {
  r.is_current = false;
  return r;
}
constexpr Replica numbered(Replica r, std::int32_t ordinal) {
  r.ordinal = ordinal;
  return r;
}
ServicePlan plan(std::int32_t desired, const std::vector<Replica>& replicas, crds::Rollout rollout = {},
                 bool gave_way = false, crds::Time now = kStart, crds::Time room_since = {},
                 std::int32_t guaranteed = 0) {
  const auto placed = std::ranges::count_if(replicas, [](const Replica& r) { return r.is_placed; });
  const RolloutMemory before{std::min(desired, static_cast<std::int32_t>(placed)), gave_way};
  return plan_replicas({desired, guaranteed}, rollout, replicas, before, room_since, now);
}

TEST(ServicePlan, MakesWhatIsMissingAndLeavesWhatIsEnough) {
  EXPECT_EQ(plan(3, {}).create, 3);
  EXPECT_EQ(plan(3, {kServing, kWaiting}).create, 1);
  const auto enough = plan(2, {kServing, kWaiting});
  EXPECT_EQ(enough.create, 0);
  EXPECT_THAT(enough.remove, IsEmpty());
  EXPECT_FALSE(enough.wake_at) << "a replica that waits is no stuck surge while nothing is rolled out";
}

TEST(ServicePlan, OfThoseTooManyWhoHoldsNothingGoesFirstThenWhoDoesNotServeThenTheYoungest) {
  const std::vector<Replica> five = {numbered(kServing, 0), numbered(kStarting, 1), numbered(kServing, 2),
                                     numbered(kWaiting, 3), numbered(kServing, 4)};
  EXPECT_THAT(plan(4, five).remove, ElementsAre(3));
  EXPECT_THAT(plan(3, five).remove, ElementsAre(3, 1));
  EXPECT_THAT(plan(1, five).remove, ElementsAre(3, 1, 4, 2));
  EXPECT_EQ(plan(0, five).remove.size(), 5u);
}

TEST(ServicePlan, ASurgeComesBeforeAnOldOneGoes) {
  const auto first = plan(2, {old(kServing), old(kServing)});
  EXPECT_EQ(first.create, 1);
  EXPECT_THAT(first.remove, IsEmpty());
  const auto starting = plan(2, {old(kServing), old(kServing), kStarting});
  EXPECT_EQ(starting.create, 0);
  EXPECT_THAT(starting.remove, IsEmpty());
  const auto ready = plan(2, {old(kServing), old(kServing), kServing});
  EXPECT_EQ(ready.create, 1) << "in the place of the one that goes";
  EXPECT_EQ(ready.remove.size(), 1u);
  const auto last = plan(2, {old(kServing), kServing, kServing});
  EXPECT_EQ(last.create, 0);
  EXPECT_THAT(last.remove, ElementsAre(0));
}

TEST(ServicePlan, AnOldOneThatHoldsNothingGoesAtOnceAndOneThatDoesNotServeGoesFirst) {
  const auto waiting = plan(2, {old(kServing), old(kWaiting)});
  EXPECT_THAT(waiting.remove, ElementsAre(1));
  EXPECT_EQ(waiting.create, 2);
  // It may be ready again in a moment: it goes when its successor serves.
  const auto away = plan(2, {old(kServing), old(kStarting)});
  EXPECT_THAT(away.remove, IsEmpty());
  EXPECT_EQ(away.create, 1);
  EXPECT_THAT(plan(2, {old(kServing), old(kStarting), kServing}).remove, ElementsAre(1));
}

TEST(ServicePlan, ARevisionThatNeverServedIsReplacedToo) {
  const std::vector<Replica> broken = {old(kStarting), old(kStarting)};
  EXPECT_EQ(plan(2, broken).create, 1);
  EXPECT_EQ(plan(2, {old(kStarting), old(kStarting), kServing}).remove.size(), 1u);
  const auto full = plan(2, {old(kStarting), old(kStarting), kWaiting}, {}, false, kStart + kSurgePatience);
  EXPECT_EQ(full.remove.size(), 1u);
}

TEST(ServicePlan, WithoutSurgeAsManyGoAsMayBeMissing) {
  const crds::Rollout two = rollout(0, 2);
  const auto p = plan(3, {old(kServing), old(kServing), old(kServing)}, two);
  EXPECT_EQ(p.remove.size(), 2u);
  EXPECT_EQ(p.create, 2);
  const auto between = plan(3, {old(kServing), kStarting, kStarting}, two);
  EXPECT_EQ(between.create, 0);
  EXPECT_THAT(between.remove, IsEmpty());
}

TEST(ServicePlan, ASurgeWithoutAPlaceGivesWay) {
  const std::vector<Replica> stuck = {old(kServing), old(kServing), kWaiting};
  const auto early = plan(2, stuck, {}, false, kStart + seconds{29});
  EXPECT_FALSE(early.rollout.gives_way);
  EXPECT_THAT(early.remove, IsEmpty());
  EXPECT_EQ(early.wake_at, kStart + kSurgePatience);
  const auto late = plan(2, stuck, {}, false, kStart + kSurgePatience);
  EXPECT_TRUE(late.rollout.gives_way);
  EXPECT_EQ(late.remove.size(), 1u);
  EXPECT_EQ(late.create, 0);
}

TEST(ServicePlan, WhoWaitsForOtherReasonsThanRoomTakesNobodysPlace) {
  constexpr Replica kRefused{.is_current = true, .created = kStart};
  const auto p = plan(1, {old(kServing), kRefused}, {}, false, kStart + std::chrono::hours{1});
  EXPECT_FALSE(p.rollout.gives_way);
  EXPECT_THAT(p.remove, IsEmpty());
  EXPECT_EQ(p.create, 0);
  EXPECT_FALSE(p.wake_at);
}

TEST(ServicePlan, PatienceBeginsWhenItWaitsForRoomAndNobodyIsOnTheWayOut) {
  auto evicted = kWaiting;
  evicted.waits_since = kStart + seconds{100};
  const auto at = [&](int second, crds::Time room_since) {
    return plan(1, {old(kServing), evicted}, {}, false, kStart + seconds{second}, room_since);
  };
  EXPECT_FALSE(at(129, {}).rollout.gives_way) << "made long ago, it had a place until now";
  EXPECT_EQ(at(129, {}).wake_at, kStart + seconds{130});
  EXPECT_TRUE(at(130, {}).rollout.gives_way);
  EXPECT_FALSE(at(149, kStart + seconds{120}).rollout.gives_way);
  EXPECT_THAT(at(149, kStart + seconds{120}).remove, IsEmpty());
  EXPECT_EQ(at(149, kStart + seconds{120}).wake_at, kStart + seconds{150});
  EXPECT_TRUE(at(150, kStart + seconds{120}).rollout.gives_way);
}

TEST(ServicePlan, NobodyGivesWayWhileASuccessorStarts) {
  const crds::Rollout two = rollout(2, 0);
  const auto late = kStart + std::chrono::hours{1};
  const auto starting = plan(2, {old(kServing), old(kServing), kStarting, kWaiting}, two, false, late);
  EXPECT_FALSE(starting.rollout.gives_way);
  EXPECT_THAT(starting.remove, IsEmpty());
  const auto ready = plan(2, {old(kServing), old(kServing), kServing, kWaiting}, two, false, late);
  EXPECT_FALSE(ready.remove.empty()) << "one of the old ones makes room now";
}

constexpr Replica guaranteed(Replica r) {
  r.is_guaranteed = true;
  return r;
}

ServicePlan plan_with(std::int32_t desired, std::int32_t guaranteed, const std::vector<Replica>& replicas) {
  return plan(desired, replicas, {}, false, kStart, {}, guaranteed);
}

TEST(ServicePlan, AsManyAreGuaranteedAsAreAskedForAndTheOthersGoFirst) {
  EXPECT_EQ(plan_with(4, 2, {}).create_guaranteed, 2);
  EXPECT_EQ(plan_with(1, 2, {}).create_guaranteed, 1);
  EXPECT_EQ(plan_with(4, 0, {}).create_guaranteed, 0);
  EXPECT_EQ(plan_with(4, 2, {guaranteed(kServing), kServing}).create_guaranteed, 1);
  const std::vector<Replica> three = {guaranteed(kWaiting), kServing, guaranteed(kServing)};
  EXPECT_THAT(plan_with(2, 2, three).remove, ElementsAre(1)) << "what is guaranteed gets its place by right";
  EXPECT_THAT(plan_with(1, 2, three).remove, ElementsAre(1, 0));
  EXPECT_EQ(plan_with(3, 2, {guaranteed(kServing)}).create_guaranteed, 1);
  EXPECT_EQ(plan_with(2, 3, {kServing, kServing}).create, 0) << "none is stopped to be made anew";
}

TEST(ServicePlan, InARolloutTheGuaranteedComeLast) {
  const Replica old_one = old(kServing), old_guaranteed = old(guaranteed(kServing));
  const auto first = plan_with(3, 2, {old_guaranteed, old_guaranteed, old_one});
  EXPECT_EQ(first.create, 1);
  EXPECT_EQ(first.create_guaranteed, 0);
  const auto second = plan_with(3, 2, {old_guaranteed, old_guaranteed, old_one, kServing});
  EXPECT_THAT(second.remove, ElementsAre(2)) << "the quota of the others is still in use";
  EXPECT_EQ(second.create, 1);
  EXPECT_EQ(second.create_guaranteed, 1);
  const auto last = plan_with(3, 2, {old_guaranteed, kServing, guaranteed(kServing), guaranteed(kServing)});
  EXPECT_THAT(last.remove, ElementsAre(0));
  EXPECT_EQ(last.create, 0);
}

TEST(Room, IsThereSinceTheLastPodWasSeenGone) {
  Room room;
  EXPECT_EQ(room.look(false, kStart), crds::Time{}) << "nobody has left";
  EXPECT_EQ(room.look(true, kStart + seconds{1}), kStart + seconds{1});
  EXPECT_EQ(room.look(true, kStart + seconds{5}), kStart + seconds{5});
  EXPECT_EQ(room.look(false, kStart + seconds{31}), kStart + seconds{31}) << "it was there until just now";
  EXPECT_EQ(room.look(false, kStart + seconds{60}), kStart + seconds{31});
}

TEST(ServicePlan, HavingGivenWayItGoesOnSoUntilTheRolloutIsOver) {
  // The one that waited serves now: the next old one goes, and only then is its successor made.
  const auto next = plan(2, {old(kServing), kServing}, {}, true);
  EXPECT_TRUE(next.rollout.gives_way);
  EXPECT_THAT(next.remove, ElementsAre(0));
  EXPECT_EQ(next.create, 1);
  const auto between = plan_replicas({2, 0}, {}, {old(kServing), kStarting}, {2, true}, {}, kStart);
  EXPECT_THAT(between.remove, IsEmpty()) << "one serves, and one has to";
  EXPECT_EQ(between.create, 0);
  EXPECT_FALSE(plan(2, {kServing, kServing}, {}, true).rollout.gives_way);
}

TEST(ServicePlan, OfAReplicaAloneTheOldOneGoesWhenItsSuccessorHasNoPlace) {
  const auto p = plan(1, {old(kServing), kWaiting}, {}, false, kStart + kSurgePatience);
  EXPECT_THAT(p.remove, ElementsAre(0));
}

TEST(ServicePlan, NoneGoesBeforeItIsWrittenDownHowManyHadPlaces) {
  const std::vector<Replica> two = {old(kServing), old(kServing), old(kWaiting)};
  const crds::Rollout one = rollout(0, 1);
  const auto first = plan_replicas({3, 0}, one, two, {}, {}, kStart);
  EXPECT_THAT(first.remove, ElementsAre(2)) << "who holds nothing is none of them";
  EXPECT_EQ(first.rollout.places, 2);
  EXPECT_EQ(first.wake_at, kStart);
  const auto next =
      plan_replicas({3, 0}, one, {old(kServing), old(kServing), kWaiting}, first.rollout, {}, kStart);
  EXPECT_EQ(next.remove.size(), 1u);
  EXPECT_EQ(next.rollout.places, 2) << "as it began";
  // After a crash that followed the removal, and when the next edit overtakes the rollout.
  const auto later =
      plan_replicas({3, 0}, one, {old(kServing), kWaiting, kWaiting}, next.rollout, {}, kStart);
  EXPECT_THAT(later.remove, IsEmpty());
}

// From every start, with places for `room` replicas, a rollout ends, and never with fewer than it may: also
// where there is room for fewer than are asked for.
TEST(ServicePlan, EveryRolloutEnds) {
  for (std::int32_t desired = 0; desired <= 4; ++desired) {
    for (const auto& way : {rollout(1, 0), rollout(0, 1), rollout(2, 1), rollout(4, 0)}) {
      for (std::int32_t room = 1; room <= desired + 3; ++room) {
        const std::int32_t most = std::min(room, desired);
        std::vector<Replica> replicas(static_cast<std::size_t>(most), old(kServing));
        replicas.resize(static_cast<std::size_t>(desired), old(kWaiting));
        RolloutMemory memory;
        bool ever = false;
        crds::Time now = kStart;
        int turns = 0;
        for (; turns < 100; ++turns, now += seconds{10}) {
          const auto p = plan_replicas({desired, 0}, way, replicas, memory, {}, now);
          memory = p.rollout;
          ever = ever || memory.gives_way;
          auto leaving = p.remove;
          std::ranges::sort(leaving, std::greater<>());
          for (const auto i : leaving) replicas.erase(replicas.begin() + static_cast<std::ptrdiff_t>(i));
          for (std::int32_t i = 0; i < p.create; ++i) {
            replicas.push_back(kWaiting);
            replicas.back().created = now;
          }
          std::int32_t placed = 0, ready = 0;
          for (const auto& r : replicas) placed += r.is_placed ? 1 : 0;
          for (const auto& r : replicas) ready += r.is_ready ? 1 : 0;
          ASSERT_GE(ready, most - std::max(ever ? 1 : 0, way.max_unavailable));
          ASSERT_LE(static_cast<std::int32_t>(replicas.size()), desired + way.max_surge);
          for (auto& r : replicas) {
            if (r.is_placed) {
              r.is_ready = true;
            } else if (placed < room) {
              r.is_placed = true;
              ++placed;
            }
          }
          const auto serve =
              std::ranges::count_if(replicas, [](const auto& r) { return r.is_current && r.is_ready; });
          if (serve == most && static_cast<std::int32_t>(replicas.size()) == desired) break;
        }
        EXPECT_LT(turns, 100) << desired << " replicas, room for " << room << ", surge " << way.max_surge;
      }
    }
  }
}

constexpr Replica cordoned(Replica r) {
  r.is_cordoned = true;
  return r;
}

// As RULES.md 5.12 has it for a replica that is in the way: made elsewhere before it goes.
TEST(ServicePlan, AReplicaOnACordonedNodeGoesWhenAnotherIsReady) {
  const auto here = cordoned(kServing);
  auto p = plan(1, {here});
  EXPECT_EQ(p.create, 1);
  EXPECT_THAT(p.remove, IsEmpty());
  p = plan(1, {here, kStarting});
  EXPECT_EQ(p.create, 0);
  EXPECT_THAT(p.remove, IsEmpty());
  p = plan(1, {here, kServing});
  EXPECT_EQ(p.create, 0);
  EXPECT_THAT(p.remove, ElementsAre(0));
  EXPECT_EQ(plan(1, {kServing}).rollout, RolloutMemory{});
  // As many at once as the surge allows, also where the owner would miss one.
  p = plan(3, {here, here, kServing}, rollout(1, 1));
  EXPECT_EQ(p.create, 1);
  EXPECT_THAT(p.remove, IsEmpty());
  // One that does not serve is not moved so, and nobody moves in a rollout or without a surge.
  EXPECT_EQ(plan(1, {cordoned(kStarting)}).create, 0);
  EXPECT_EQ(plan(1, {here}, rollout(0, 1)).create, 0);
  EXPECT_THAT(plan(2, {here, old(kServing)}).remove, IsEmpty());
  EXPECT_EQ(plan(2, {here, old(kServing)}).create, 1) << "of the rollout";
}

TEST(ServicePlan, AReplicaThatHasNoOtherPlaceServesOnWhereItIsCordoned) {
  const std::vector<Replica> both = {cordoned(kServing), kWaiting};
  auto p = plan(1, both, {}, false, kStart + kSurgePatience - seconds{1});
  EXPECT_FALSE(p.cannot_move);
  EXPECT_EQ(p.wake_at, kStart + kSurgePatience);
  p = plan(1, both, {}, false, kStart + kSurgePatience);
  EXPECT_TRUE(p.cannot_move);
  EXPECT_THAT(p.remove, IsEmpty());
  EXPECT_FALSE(p.rollout.gives_way);
  p = plan(1, {kServing, kWaiting});
  EXPECT_FALSE(p.cannot_move);
  EXPECT_THAT(p.remove, ElementsAre(1)) << "the node is used again: it stays";
}

constexpr Replica stable(Replica r) {
  r.is_current = false;
  r.is_stable = true;
  return r;
}

TEST(CanaryPlan, TakesItsPartOneByOneAndStays) {
  const WantedReplicas wanted{4, 4, WantedReplicas::OfCanary{1, 1}};
  const auto s = stable(kServing);
  RolloutMemory memory;
  const auto first = plan_replicas(wanted, {}, {s, s, s, s}, memory, {}, kStart);
  EXPECT_EQ(first.create, 1);
  EXPECT_EQ(first.create_guaranteed, 1);
  EXPECT_EQ(first.create_stable, 0);
  EXPECT_THAT(first.remove, IsEmpty());
  EXPECT_EQ(first.rollout.places, 4);
  const auto starts = plan_replicas(wanted, {}, {s, s, s, s, kStarting}, first.rollout, {}, kStart);
  EXPECT_EQ(starts.create, 0);
  EXPECT_THAT(starts.remove, IsEmpty());
  const auto serves = plan_replicas(wanted, {}, {s, s, s, s, kServing}, first.rollout, {}, kStart);
  EXPECT_EQ(serves.remove.size(), 1u);
  EXPECT_EQ(serves.create + serves.create_stable, 0);
  const auto stays = plan_replicas(wanted, {}, {s, s, s, kServing}, serves.rollout, {}, kStart);
  EXPECT_THAT(stays.remove, IsEmpty());
  EXPECT_EQ(stays.create + stays.create_stable, 0);
  EXPECT_EQ(stays.rollout, RolloutMemory{}) << "nothing is under way";
}

TEST(CanaryPlan, WhatIsLostIsMadeAnewOfItsOwnRevision) {
  const WantedReplicas wanted{4, 1, WantedReplicas::OfCanary{2, 0}};
  const auto s = stable(kServing);
  const auto p = plan_replicas(wanted, {}, {s, kServing}, {}, {}, kStart);
  EXPECT_EQ(p.create, 1);
  EXPECT_EQ(p.create_guaranteed, 0);
  EXPECT_EQ(p.create_stable, 1);
  EXPECT_EQ(p.create_stable_guaranteed, 1);
}

TEST(CanaryPlan, ASmallerPartIsGivenBackOnlyAsOthersServe) {
  const WantedReplicas wanted{4, 4, WantedReplicas::OfCanary{1, 1}};
  const auto s = stable(kServing);
  const auto p = plan_replicas(wanted, {}, {s, s, kServing, kServing}, {4, false}, {}, kStart);
  EXPECT_THAT(p.remove, IsEmpty());
  EXPECT_EQ(p.create_stable, 1);
  EXPECT_EQ(p.create, 0);
}

TEST(CanaryPlan, FromZeroTheFirstIsOfTheStableRevision) {
  const WantedReplicas wanted{4, 4, WantedReplicas::OfCanary{2, 2}};
  auto p = plan_replicas(wanted, {}, {}, {}, {}, kStart);
  EXPECT_EQ(p.create_stable, 2);
  EXPECT_EQ(p.create, 0) << "its first request would go to what nobody has tried";
  p = plan_replicas(wanted, {}, {stable(kStarting), stable(kStarting)}, {}, {}, kStart);
  EXPECT_EQ(p.create, 0);
  p = plan_replicas(wanted, {}, {stable(kServing), stable(kStarting)}, {}, {}, kStart);
  EXPECT_EQ(p.create, 2);
  const WantedReplicas all{2, 0, WantedReplicas::OfCanary{2, 2}};
  EXPECT_EQ(plan_replicas(all, {}, {}, {}, {}, kStart).create, 2) << "none is to be stable";
}

// From any mixture of three revisions, with room for one more: it ends in the wanted parts, never with fewer
// that serve than at the beginning or than are wanted, and never with a replica too many.
TEST(CanaryPlan, EveryMixtureEndsInItsParts) {
  for (int n = 0; n < 4 * 4 * 4; ++n) {
    const int of_old = n % 4, of_stable = n / 4 % 4, of_new = n / 16;
    for (std::int32_t desired = 0; desired <= 4; ++desired) {
      for (std::int32_t share = 0; share <= desired; ++share) {
        std::vector<Replica> replicas(static_cast<std::size_t>(of_old), old(kServing));
        replicas.resize(replicas.size() + static_cast<std::size_t>(of_stable), stable(kServing));
        replicas.resize(replicas.size() + static_cast<std::size_t>(of_new), kServing);
        const auto before = static_cast<std::int32_t>(replicas.size());
        const WantedReplicas wanted{desired, desired - share, WantedReplicas::OfCanary{share, share}};
        RolloutMemory memory;
        std::int32_t are_new = 0, are_stable = 0;
        int turns = 0;
        for (; turns < 50; ++turns) {
          const auto p = plan_replicas(wanted, {}, replicas, memory, {}, kStart);
          memory = p.rollout;
          auto leaving = p.remove;
          std::ranges::sort(leaving, std::greater<>());
          for (const auto i : leaving) replicas.erase(replicas.begin() + static_cast<std::ptrdiff_t>(i));
          const auto serve = std::ranges::count_if(replicas, &Replica::is_ready);
          ASSERT_GE(serve, std::min(before, desired));
          for (auto& r : replicas) r.is_ready = true;
          for (std::int32_t i = 0; i < p.create; ++i) replicas.push_back(kStarting);
          for (std::int32_t i = 0; i < p.create_stable; ++i) replicas.push_back(stable(kStarting));
          ASSERT_LE(static_cast<std::int32_t>(replicas.size()), std::max(before, desired + 1));
          are_new = static_cast<std::int32_t>(std::ranges::count_if(replicas, &Replica::is_current));
          are_stable = static_cast<std::int32_t>(std::ranges::count_if(replicas, &Replica::is_stable));
          if (are_new == share && are_stable == desired - share &&
              static_cast<std::int32_t>(replicas.size()) == desired && p.create + p.create_stable == 0)
            break;
        }
        EXPECT_LT(turns, 50) << of_old << " old, " << of_stable << " stable, " << of_new << " new to "
                             << desired << " with " << share << " new: " << are_stable << " " << are_new;
      }
    }
  }
}

}  // namespace
}  // namespace muster::reconcilers
