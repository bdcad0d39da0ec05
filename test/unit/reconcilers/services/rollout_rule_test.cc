#include "muster/reconcilers/services/rollout_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <set>

namespace muster::reconcilers {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::HasSubstr;

constexpr crds::Time kStart{std::chrono::sys_days{std::chrono::year{2026} / 1 / 2}};

// A service whose status is written after each look, as its reconciler does. `a` has been rolled out.
struct Played {
  crds::InferenceService service;
  std::string own = "a";
  std::set<std::string> kept{"a"};
  std::map<std::string, std::int32_t> ready;
  crds::Time now = kStart;
  CanaryVerdict said;

  Played() {
    service.spec.replicas = 10;
    service.status.revision = service.status.stable_revision = "a";
  }
  crds::Canary& canary() {
    if (!service.spec.rollout.canary) service.spec.rollout.canary.emplace();
    return *service.spec.rollout.canary;
  }
  RolloutDecision look() {
    const RolloutView view{own, [this](const std::string& r) { return kept.contains(r); },
                           [this](const std::string& r) { return ready[r]; }, said};
    auto d = decide_rollout(service, view, now);
    kept.insert(d.target);
    service.status.revision = d.target;
    service.status.stable_revision = d.stable;
    service.status.canary = d.canary;
    service.status.aborted_canary = d.aborted;
    return d;
  }
};

TEST(RolloutRule, ACanaryHasAtMostItsPartAndAtLeastOne) {
  const auto share = [](std::int32_t replicas, std::int32_t percent, std::int32_t surge = 1) {
    return canary_share({replicas, surge}, percent);
  };
  EXPECT_EQ(share(10, 25), (CanaryShare{2, 0}));
  EXPECT_EQ(share(10, 100), (CanaryShare{10, 0}));
  EXPECT_EQ(share(3, 10), (CanaryShare{1, 0}));
  EXPECT_EQ(share(0, 50), (CanaryShare{0, 0}));
  EXPECT_EQ(share(0, 100), (CanaryShare{0, 0}));
  EXPECT_EQ(share(1000, 100), (CanaryShare{1000, 0}));
  // The only one stays what it is.
  EXPECT_EQ(share(1, 1), (CanaryShare{1, 1}));
  EXPECT_EQ(share(1, 99), (CanaryShare{1, 1}));
  EXPECT_EQ(share(1, 99, 0), (CanaryShare{0, 0}));
  EXPECT_EQ(share(1, 100, 0), (CanaryShare{1, 0}));
}

TEST(RolloutRule, AServiceOfOneReplicaDoesNotGiveItToACanary) {
  Played p;
  p.service.spec.replicas = 1;
  p.canary().percent = 50;
  p.own = "b";
  auto d = p.look();
  ASSERT_TRUE(d.canary);
  EXPECT_EQ(d.canary->replicas, 1);
  EXPECT_EQ(d.beside, 1);
  EXPECT_EQ(d.why_no_canary, "");
  p.service.spec.rollout.to_revision = "f00";
  EXPECT_EQ(p.look().beside, 1) << "what is refused changes nothing";
  p.canary().percent = 100;
  EXPECT_EQ(p.look().beside, 0) << "it has the place of the only one";
  p.canary().percent = 50;
  p.service.spec.rollout.to_revision = "";
  p.service.spec.rollout.max_surge = 0;
  p.service.spec.rollout.max_unavailable = 1;
  d = p.look();
  EXPECT_EQ(d.canary->replicas, 0);
  EXPECT_EQ(d.beside, 0);
  EXPECT_THAT(d.why_no_canary, HasSubstr("maxSurge 0"));
  p.service.spec.replicas = 4;
  d = p.look();
  EXPECT_EQ(d.canary->replicas, 2);
  EXPECT_EQ(d.beside, 0);
  p.canary().percent = 100;
  p.service.spec.replicas = 1;
  d = p.look();
  EXPECT_EQ(d.canary->replicas, 1) << "that is all";
  EXPECT_EQ(d.beside, 0);
}

TEST(RolloutRule, AtZeroNoStepPassesAndNoTimeGoesBy) {
  Played p;
  p.canary().steps = {{10, minutes{10}}, {50, {}}};
  p.own = "b";
  p.ready["b"] = 1;
  p.look();
  p.now += minutes{9};
  p.service.spec.replicas = 0;
  p.ready["b"] = 0;
  auto d = p.look();
  EXPECT_THAT(d.why_no_canary, HasSubstr("at size 0 there is no canary"));
  EXPECT_FALSE(d.wake_at);
  p.now += minutes{600};
  p.service.spec.replicas = 10;
  p.ready["b"] = 1;
  d = p.look();
  EXPECT_EQ(d.canary->step, 0) << "it has served for 9 minutes before, and nobody knows how it serves now";
  EXPECT_EQ(d.wake_at, p.now + minutes{10});
}

TEST(RolloutRule, WithoutACanaryTheSpecIsInForceAndWhatIsStableChangesWhenItHasAllReplicas) {
  Played p;
  p.own = "b";
  const auto d = p.look();
  EXPECT_EQ(d.target, "b");
  EXPECT_EQ(d.stable, "a") << "the status says when b has all";
  EXPECT_FALSE(d.canary);
  EXPECT_EQ(d.why_not_own, "");
}

TEST(RolloutRule, ACanaryStaysUntilItIsPromoted) {
  Played p;
  p.canary().percent = 20;
  EXPECT_FALSE(p.look().canary) << "nothing is new";
  p.own = "b";
  p.ready["b"] = 2;
  for (int i = 0; i < 3; ++i, p.now += std::chrono::hours{100}) {
    const auto d = p.look();
    EXPECT_EQ(d.target, "b");
    EXPECT_EQ(d.stable, "a");
    ASSERT_TRUE(d.canary);
    EXPECT_EQ(d.canary->replicas, 2);
    EXPECT_FALSE(d.wake_at);
  }
  p.canary().promoted_revision = "c";
  EXPECT_TRUE(p.look().canary) << "it is another that was promoted";
  p.canary().promoted_revision = "b";
  const auto d = p.look();
  EXPECT_FALSE(d.canary);
  EXPECT_EQ(d.target, "b");
  EXPECT_EQ(d.stable, "b");
  p.canary().promoted_revision = "";
  EXPECT_FALSE(p.look().canary) << "it was promoted";
  p.own = "c";
  EXPECT_EQ(p.look().stable, "b");
}

TEST(RolloutRule, AnAbortedCanaryGivesBackAndTheNextSpecIsACanaryAgain) {
  Played p;
  p.canary().percent = 20;
  p.own = "b";
  p.look();
  p.canary().aborted_revision = "b";
  p.canary().promoted_revision = "b";  // the schema refuses this; aborting is the safe side
  auto d = p.look();
  EXPECT_EQ(d.target, "a");
  EXPECT_EQ(d.stable, "a");
  EXPECT_FALSE(d.canary);
  EXPECT_TRUE(d.is_aborted);
  EXPECT_THAT(d.why_not_own, HasSubstr("revision b"));
  p.own = "c";
  d = p.look();
  EXPECT_EQ(d.target, "c");
  EXPECT_FALSE(d.is_aborted);
  ASSERT_TRUE(d.canary);
  EXPECT_EQ(d.canary->revision, "c");
}

TEST(RolloutRule, StepsFollowEachOtherWhenTheirReplicasHaveBeenReadyForSoLong) {
  Played p;
  p.canary().steps = {{10, minutes{5}}, {50, minutes{10}}};
  p.own = "b";
  auto d = p.look();
  ASSERT_TRUE(d.canary);
  EXPECT_EQ(d.canary->replicas, 1);
  EXPECT_FALSE(d.canary->ready_since) << "it does not serve yet";
  EXPECT_FALSE(d.wake_at);
  p.now += minutes{60};
  EXPECT_EQ(p.look().canary->step, 0);
  p.ready["b"] = 1;
  d = p.look();
  EXPECT_EQ(d.canary->ready_since, p.now);
  EXPECT_EQ(d.wake_at, p.now + minutes{5});
  p.now += minutes{5};
  p.ready["b"] = 0;
  EXPECT_EQ(p.look().canary->step, 0) << "nothing goes on while it does not serve";
  p.ready["b"] = 1;
  d = p.look();
  EXPECT_EQ(d.canary->step, 1);
  EXPECT_EQ(d.canary->replicas, 5);
  EXPECT_FALSE(d.canary->ready_since);
  p.ready["b"] = 5;
  p.look();
  p.now += minutes{10} - seconds{1};
  EXPECT_TRUE(p.look().canary);
  p.now += seconds{1};
  d = p.look();
  EXPECT_FALSE(d.canary) << "after the last step it is promoted";
  EXPECT_EQ(d.stable, "b");
}

TEST(RolloutRule, AStepWithoutADurationWaitsToBePromotedAndNoneGoesOnWithoutReplicas) {
  Played p;
  p.canary().steps = {{10, minutes{1}}, {50, {}}};
  p.service.spec.replicas = 0;
  p.own = "b";
  p.look();
  p.now += minutes{60};
  EXPECT_EQ(p.look().canary->step, 0) << "there is none of which one could tell";
  p.service.spec.replicas = 10;
  p.ready["b"] = 5;
  p.look();
  p.now += minutes{1};
  EXPECT_EQ(p.look().canary->step, 1);
  p.now += std::chrono::hours{1000};
  EXPECT_EQ(p.look().canary->step, 1);
  p.canary().promoted_revision = "b";
  EXPECT_EQ(p.look().stable, "b");
  p.own = "c";
  p.look();
  p.canary().steps.pop_back();
  EXPECT_EQ(p.look().canary->replicas, 1);
}

TEST(RolloutRule, GoingBackIsNoCanaryAndHoldsWhateverTheSpecSays) {
  Played p;
  p.canary().percent = 10;
  p.kept.insert("z");
  p.own = "b";
  p.look();
  p.service.spec.rollout.to_revision = "z";
  auto d = p.look();
  EXPECT_EQ(d.target, "z");
  EXPECT_FALSE(d.canary);
  EXPECT_THAT(d.why_not_own, HasSubstr("spec.rollout.toRevision"));
  p.own = "c";
  EXPECT_EQ(p.look().target, "z");
  p.service.spec.rollout.to_revision = "c";
  d = p.look();
  EXPECT_EQ(d.target, "c") << "the spec's own need not be kept";
  EXPECT_EQ(d.why_not_own, "");
}

TEST(RolloutRule, ARevisionThatNobodyKeepsIsRefusedAndWhatWasInForceStays) {
  Played p;
  p.canary().percent = 10;
  p.own = "b";
  p.look();
  p.service.spec.rollout.to_revision = "f00";
  const auto d = p.look();
  EXPECT_THAT(d.refusal, HasSubstr("spec.rollout.toRevision: there is no revision \"f00\""));
  EXPECT_EQ(d.target, "b");
  EXPECT_EQ(d.stable, "a");
  ASSERT_TRUE(d.canary);
}

TEST(RolloutRule, WhatWasNeverRolledOutWholeIsNothingToGoBackTo) {
  Played p;
  p.canary().percent = 10;
  p.service.status = {};
  EXPECT_EQ(p.look().stable, "");
  p.own = "b";
  EXPECT_FALSE(p.look().canary) << "a mended first spec has all replicas";
  // A status of a version that wrote no stable revision.
  p.service.status = {};
  p.service.status.revision = "a";
  p.service.status.conditions = {{"RolledOut", crds::ConditionStatus::kTrue, 1, kStart, "RolledOut", ""}};
  EXPECT_EQ(p.look().stable, "a");
}

// --- analysis

Played analysed() {
  Played p;
  p.canary().steps = {{10, minutes{10}}, {50, minutes{10}}};
  p.canary().analysis.emplace();
  p.own = "b";
  p.ready["b"] = 10;
  p.look();
  p.look();
  return p;
}

TEST(RolloutRule, NoStepPassesUntilAnalysisLetsIt) {
  Played p = analysed();
  p.said = {false, false, "it was not read"};
  p.now += minutes{11};
  auto d = p.look();
  EXPECT_EQ(d.canary->step, 0);
  EXPECT_EQ(d.why_no_step, "it was not read");
  p.said = {.may_go_on = true};
  d = p.look();
  EXPECT_EQ(d.canary->step, 1);
  EXPECT_EQ(d.why_no_step, "");
  p.now += minutes{10};
  EXPECT_FALSE(p.look().canary) << "it is promoted";
  EXPECT_EQ(p.service.status.stable_revision, "b");
}

TEST(RolloutRule, WhatAnalysisHasAbortedStaysSoUntilTheSpecIsAnother) {
  Played p = analysed();
  p.said = {false, true, "ErrorRate is 0.5"};
  auto d = p.look();
  EXPECT_TRUE(d.is_aborted);
  EXPECT_EQ(d.target, "a");
  EXPECT_THAT(d.why_not_own, HasSubstr("was aborted by spec.rollout.canary.analysis: ErrorRate is 0.5"));
  EXPECT_EQ(d.aborted->at, kStart);
  p.said = {.may_go_on = true};
  p.now += minutes{60};
  d = p.look();
  EXPECT_EQ(d.target, "a");
  EXPECT_EQ(d.aborted->at, kStart);
  p.own = "c";
  d = p.look();
  EXPECT_EQ(d.target, "c");
  EXPECT_FALSE(d.aborted);
  p.own = "b";
  EXPECT_EQ(p.look().target, "b") << "somebody wants it tried again";
}

TEST(RolloutRule, WhoPromotesIsStrongerThanAnalysisAndWhoAbortsIsStrongerThanBoth) {
  Played p = analysed();
  p.said = {false, true, "ErrorRate is 0.5"};
  p.look();
  p.canary().promoted_revision = "b";
  EXPECT_EQ(p.look().target, "b");
  EXPECT_FALSE(p.service.status.aborted_canary);
  Played q = analysed();
  q.said = {false, true, "ErrorRate is 0.5"};
  q.look();
  q.canary().analysis.reset();
  EXPECT_EQ(q.look().target, "b") << "nobody analyses any more";
}

TEST(RolloutRule, AVerdictThatCameBeforeTheCanaryAbortsNothing) {
  Played p;
  p.canary().percent = 10;
  p.canary().analysis.emplace();
  p.said = {false, true, "of an earlier canary"};
  p.own = "b";
  EXPECT_FALSE(p.look().is_aborted);
}

}  // namespace
}  // namespace muster::reconcilers
