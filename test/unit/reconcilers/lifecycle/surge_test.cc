// RULES.md 5.12: a replica of a service moves, and its pods serve until those elsewhere are ready.
#include "life.h"
#include "muster/reconcilers/lifecycle/job_status.h"
#include "muster/reconcilers/lifecycle/lifecycle.h"

namespace muster::reconcilers {
namespace {

struct Moving : Life {
  Moving() : Life(1) {
    serves = true;
    job.spec.start_timeout = minutes{4};
    run();
    old = names().at(0);
    decision = place(JobDecision::Kind::kMove);
    decision->places[0].node = "other";
    decision->attempt = job.status.assignment.attempt;
    decision->reason = "Consolidated";
    decision->message = "moved to make room";
    decision->surges = true;
  }
  std::string fresh() const {
    for (const auto& name : names()) {
      if (name != old) return name;
    }
    return "";
  }
  std::string old;
};

TEST(Surge, ThePodsServeUntilThoseElsewhereAreReady) {
  Moving life;
  const Step step = life.turn();
  EXPECT_THAT(step.remove, IsEmpty());
  EXPECT_THAT(step.create, SizeIs(1));
  const auto& a = life.job.status.assignment;
  EXPECT_EQ(a.attempt, 2);
  EXPECT_EQ(a.pods.at(0).node, "other");
  EXPECT_EQ(a.replaces.attempt, 1);
  EXPECT_EQ(serving_attempt(a), 1);
  EXPECT_EQ(life.is("Admitted"), ConditionStatus::kTrue);
  EXPECT_EQ(life.is("Evicted"), ConditionStatus::kFalse);
  EXPECT_THAT(life.pods, SizeIs(2));
  life.after(seconds{30});
  EXPECT_THAT(life.pods, SizeIs(2)) << "a new process does the same: all is in the status";
  life.ready(life.fresh());
  life.turn();
  life.turn();
  EXPECT_THAT(life.names(), ElementsAre(::testing::Not(life.old)));
  EXPECT_EQ(life.job.status.assignment.replaces, crds::ReplacedAttempt{});
  EXPECT_EQ(life.phase(), Phase::kRunning);
  EXPECT_EQ(life.job.status.preemptions, 0);
}

TEST(Surge, WhatDoesNotStartElsewhereServesOnWhereItWas) {
  const std::vector<std::function<void(Moving&)>> kTroubles = {
      [](Moving& life) { life.fail(life.fresh()); },
      [](Moving& life) { life.refuse(life.fresh(), "OutOfcpu"); },
      [](Moving& life) { life.health["other"].lost = "node other is gone"; },
      [](Moving& life) { life.now += minutes{4}; },
      [](Moving& life) { life.decision = Life::give_back(JobDecision::Kind::kEvict, "NodeFailed", "gone"); },
      [](Moving& life) { life.change(life.fresh(), [](client::Pod& p) { p.deleting = true; }); }};
  for (std::size_t i = 0; i < kTroubles.size(); ++i) {
    Moving life;
    life.turn();
    kTroubles[i](life);
    const Step step = life.turn();
    EXPECT_TRUE(step.serves_on) << i;
    const auto& a = life.job.status.assignment;
    EXPECT_EQ(a.attempt, 1) << i;
    EXPECT_EQ(a.pods.at(0).node, "node-0") << i;
    EXPECT_EQ(a.moved_in_vain, true) << i;
    EXPECT_EQ(life.phase(), Phase::kRunning) << i;
    life.turn();
    EXPECT_THAT(life.names(), ::testing::Contains(life.old)) << i;
    EXPECT_EQ(life.is("PodsReady"), ConditionStatus::kTrue) << i;
    // The next attempt has another number than the one that came to nothing.
    life.fail(life.old);
    life.turn();
    EXPECT_EQ(life.job.status.assignment.attempt, 3) << i;
    EXPECT_EQ(life.job.status.assignment.moved_in_vain, std::nullopt) << i;
  }
}

TEST(Surge, WhereNobodyServesAnyMoreItIsAStartLikeOthers) {
  Moving life;
  life.turn();
  life.drop(life.old);
  life.turn();
  EXPECT_EQ(life.job.status.assignment.replaces, crds::ReplacedAttempt{});
  EXPECT_EQ(life.job.status.assignment.attempt, 2);
  life.ready(life.fresh());
  life.turn();
  EXPECT_EQ(life.phase(), Phase::kRunning);
}

TEST(Surge, OfAReplicaThatIsEditedOrDoesNotRunIsAMoveLikeOthers) {
  for (const bool edited : {false, true}) {
    Moving life;
    if (edited) life.decision->generation = 7;
    if (!edited) life.fail(life.old);
    life.turn();
    EXPECT_EQ(life.job.status.assignment.attempt, 0) << edited;
    EXPECT_EQ(life.reason("Evicted"), "Consolidated");
  }
}

TEST(Surge, ADrainTakesBoth) {
  Moving life;
  life.turn();
  life.decision = Life::give_back(JobDecision::Kind::kEvict, "Drained", "its Queue is drained");
  life.turn();
  EXPECT_EQ(life.job.status.assignment, crds::Assignment{});
  EXPECT_THAT(life.pods, IsEmpty());
}

}  // namespace
}  // namespace muster::reconcilers
