// Decisions from outside that take a job's places back.
#include "life.h"
#include "muster/reconcilers/lifecycle/lifecycle.h"

namespace muster::reconcilers {
namespace {

JobDecision move_elsewhere(const Life& life, const char* reason) {
  JobDecision move = life.place(JobDecision::Kind::kMove);
  for (auto& place : move.places) place.node = "other-" + std::to_string(place.index);
  move.reason = reason;
  return move;
}

TEST(Lifecycle, EvictDecisionGivesEverythingBack) {
  Life life;
  life.run();
  life.decision = Life::give_back(JobDecision::Kind::kEvict, "PlacesLost", "node-1 is gone");
  const Step step = life.turn();
  EXPECT_THAT(step.remove, SizeIs(2));
  EXPECT_EQ(life.job.status.assignment, crds::Assignment{});
  EXPECT_EQ(life.reason("Evicted"), "PlacesLost");
  EXPECT_EQ(life.message("Evicted"), "node-1 is gone");
  EXPECT_EQ(life.job.status.retry_at, std::nullopt);
  EXPECT_TRUE(life.turn().wants_place);
}

TEST(Lifecycle, AMovedJobKeepsThePromiseOfItsPlaceUntilItStarts) {
  Life life;
  life.run();
  JobDecision move = move_elsewhere(life, "Consolidated");
  move.message = "moved to make room";
  life.decision = move;
  life.turn();
  EXPECT_EQ(life.reason("Evicted"), "Consolidated");
  ASSERT_THAT(life.job.status.nominated.pods, SizeIs(2));
  EXPECT_EQ(life.job.status.nominated.pods[1].node, "other-1");
  EXPECT_EQ(life.job.status.preemptions, 0) << "it goes on at once";
  life.nomination = life.job.status.nominated;  // placement keeps it
  life.turn();
  EXPECT_THAT(life.job.status.nominated.pods, SizeIs(2));
  life.decision = move;
  life.decision->kind = JobDecision::Kind::kStart;
  life.turn();
  EXPECT_THAT(life.job.status.nominated.pods, IsEmpty());
  EXPECT_EQ(life.job.status.assignment.pods[0].node, "other-0");
}

TEST(Lifecycle, AMoveIsNoPreemptionWhoeverAskedForThePlaces) {
  for (const char* reason : {"Reclaimed", "Preempted"}) {
    Life life;
    life.run();
    life.decision = move_elsewhere(life, reason);
    life.turn();
    EXPECT_EQ(life.reason("Evicted"), reason);
    EXPECT_THAT(life.job.status.nominated.pods, SizeIs(2));
    EXPECT_EQ(life.job.status.preemptions, 0) << reason;
  }
}

TEST(Lifecycle, AMoveToPlacesOfAnotherSpecIsAPreemption) {
  Life life;
  life.run();
  life.decision = move_elsewhere(life, "Reclaimed");
  ++life.job.metadata.generation;
  life.turn();
  EXPECT_THAT(life.job.status.nominated.pods, IsEmpty());
  EXPECT_EQ(life.job.status.preemptions, 1) << "it waits in the queue for other places";
}

TEST(Lifecycle, APromiseIsOfTheSpecThatWasPlaced) {
  Life life;
  life.run();
  life.decision = move_elsewhere(life, "Consolidated");
  ++life.job.metadata.generation;
  life.turn();
  EXPECT_EQ(life.job.status.assignment.attempt, 0) << "others count with its place";
  EXPECT_THAT(life.job.status.nominated.pods, IsEmpty());
}

TEST(Lifecycle, APodIsRemovedByForceOnlyWhereNothingRunsAnyMore) {
  Life life;
  life.run();
  life.change("llama-worker-0-1", [](client::Pod& p) {
    p.deleting = true;
    p.grace_seconds = 30;
  });
  life.job.spec.suspend = true;
  Step step = life.look();
  EXPECT_THAT(removed(step), ElementsAre("llama-worker-1-1")) << "the other was told";
  life.lost_nodes = {"node-0"};
  step = life.look();
  ASSERT_THAT(removed(step), ElementsAre("llama-worker-1-1", "llama-worker-0-1"));
  EXPECT_FALSE(step.remove[0].grace_seconds);
  EXPECT_EQ(step.remove[1].grace_seconds, 0);
  EXPECT_EQ(step.remove[1].node, "node-0");
}

TEST(Lifecycle, LostGroundIsToldToPlacementWholeAndReplacedInOneAttempt) {
  Life life(3);
  life.run();
  life.health["node-0"].again = kStart + seconds{60};
  EXPECT_EQ(life.turn().wake_at, kStart + seconds{60});
  life.health["node-0"] = {.lost = "node node-0 has not been Ready since long", .ready = false};
  life.health["node-2"].bad_gpus = {1};
  const Step step = life.turn();
  EXPECT_THAT(step.displaced, ElementsAre(0U, 2U));
  EXPECT_EQ(life.job.status.attempt, 1) << "nothing is done before there are other places";
  JobDecision replace = life.place(JobDecision::Kind::kReplace);
  replace.places = {{"worker", 0, "node-3", {0, 1}}, {"worker", 2, "node-4", {0, 1}}};
  life.decision = replace;
  life.turn();
  const auto& a = life.job.status.assignment;
  EXPECT_EQ(a.attempt, 2);
  EXPECT_EQ(a.pods[0].node, "node-3");
  EXPECT_EQ(a.pods[1].node, "node-1") << "what is healthy stays";
  EXPECT_EQ(a.pods[2].node, "node-4");
  EXPECT_EQ(life.job.status.restarts.count, 0);
  EXPECT_THAT(life.turn().create, SizeIs(3));
  expect_quiet(life, "formed anew");
}

TEST(Lifecycle, WithdrawalIsOneWriteAsLongAsPodsStand) {
  Life life;
  life.run();
  life.decision = Life::give_back(JobDecision::Kind::kEvict, "PlacesLost", "node-1 is gone");
  life.commit(life.look());
  expect_quiet(life, "withdrawn");
  EXPECT_THAT(life.job.status.queue.message, HasSubstr("node-1 is gone"));
}

TEST(Lifecycle, InvalidSpecFoundByTheApiServerStallsTheJob) {
  Life life;
  life.admit();
  life.invalid = "the API server refuses its pods: spec.containers[0].image: Required";
  life.decision =
      Life::give_back(JobDecision::Kind::kEvict, "InvalidSpec", "spec.containers[0].image: Required");
  life.turn();
  EXPECT_EQ(life.job.status.assignment.attempt, 0);
  EXPECT_EQ(life.is("Stalled"), kTrue);
  EXPECT_EQ(life.job.status.queue.reason, "InvalidSpec");
  life.turn();
  expect_quiet(life, "stalled");
}

TEST(Lifecycle, BackOffDecisionDelaysTheNextTry) {
  Life life;
  life.admit();
  life.decision = Life::give_back(JobDecision::Kind::kBackOff, "PodsForbidden", "exceeded quota: compute");
  life.turn();
  EXPECT_EQ(life.job.status.retry_at, kStart + seconds{10});
  EXPECT_EQ(life.reason("Evicted"), "PodsForbidden");
  EXPECT_THAT(life.job.status.queue.message, HasSubstr("exceeded quota: compute"));
  EXPECT_FALSE(life.turn().wants_place);
  EXPECT_TRUE(life.after(seconds{10}).wants_place);
}

TEST(Lifecycle, GiveBackDecisionsMeanNothingToAJobThatHoldsNothing) {
  for (const auto kind :
       {JobDecision::Kind::kEvict, JobDecision::Kind::kBackOff, JobDecision::Kind::kReplace}) {
    Life life;
    life.turn();
    const auto before = life.job.status;
    life.decision = life.place(kind);
    EXPECT_TRUE(life.look().status == before);
  }
}

TEST(Lifecycle, PodsWithoutIdentityAreRemoved) {
  Life life;
  life.admit();
  life.change("llama-worker-0-1", [](client::Pod& p) { p.labels.clear(); });
  const Step step = life.look();
  EXPECT_THAT(removed(step), ElementsAre("llama-worker-0-1"));
  EXPECT_THAT(step.create, IsEmpty()) << "it may hold what the new one needs";
}

}  // namespace
}  // namespace muster::reconcilers
