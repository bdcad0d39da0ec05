// From which checkpoint the next attempt starts.
#include "life.h"
#include "muster/reconcilers/lifecycle/lifecycle.h"

namespace muster::reconcilers {
namespace {

GangReport saved(std::int32_t attempt, std::int64_t step, std::int64_t took = 0) {
  return {attempt, {step, "/ckpt/" + std::to_string(step)}, kStart, "llama-worker-0-1", 1, took};
}

TEST(Lifecycle, TheNextAttemptStartsFromTheLastCheckpoint) {
  Life life;
  life.run();
  EXPECT_EQ(life.message("Admitted"), "attempt 1: 2 pods in pool a100");
  life.reports = {saved(1, 100)};
  life.turn();
  EXPECT_EQ(life.job.status.checkpoint.step, 100);
  EXPECT_EQ(life.job.status.checkpoint.uri, "/ckpt/100");
  EXPECT_FALSE(life.job.status.assignment.resume.step) << "what the pods of this attempt were told stays";
  expect_quiet(life, "saved");
  life.decision = life.give_back(JobDecision::Kind::kEvict, "Reclaimed", "others need it");
  life.turn();
  // What the pods say while they go counts.
  life.reports = {saved(1, 120)};
  life.turn();
  life.decision = life.place();
  life.turn();
  EXPECT_EQ(life.job.status.assignment.attempt, 2);
  EXPECT_EQ(life.job.status.assignment.resume.step, 120);
  EXPECT_EQ(life.job.status.assignment.resume.uri, "/ckpt/120");
  EXPECT_EQ(life.message("Admitted"), "attempt 2: 2 pods in pool a100, from step 120 (/ckpt/120)");
  expect_quiet(life, "resumed");
}

TEST(Lifecycle, ARestartInPlaceWaitsForTheLastWordsOfThePodsThatEnd) {
  Life life;
  life.run();
  life.reports = {saved(1, 100)};
  life.turn();
  life.fail("llama-worker-1-1");
  const Step step = life.look();  // the pods are still there when the next attempt is written down
  life.commit(step);
  EXPECT_EQ(life.job.status.assignment.attempt, 2);
  EXPECT_THAT(step.create, IsEmpty());
  life.reports = {saved(1, 130)};
  life.apply(step);
  const Step made = life.turn();
  EXPECT_THAT(made.create, SizeIs(2));
  EXPECT_EQ(life.job.status.assignment.resume.step, 130);
  EXPECT_THAT(life.message("Admitted"), HasSubstr("from step 130"));
  // A crash after the first pod: all are told the same, whatever has come since.
  life.pods.pop_back();
  life.reports.push_back(saved(2, 500));
  life.turn();
  EXPECT_EQ(life.job.status.assignment.resume.step, 130);
  EXPECT_EQ(life.job.status.checkpoint.step, 500);
}

// Nodes that are lost at once are heard of one after the other.
TEST(Lifecycle, PlacesLostBeforeTheNextAttemptIsMadeDoNotCostItItsCheckpoint) {
  Life life(3);
  life.run();
  life.health["node-0"] = {.lost = "node node-0 is gone", .ready = false};
  JobDecision replace = life.place(JobDecision::Kind::kReplace);
  replace.places = {{"worker", 0, "node-3", {0, 1}}};
  life.decision = replace;
  const Step reformed = life.look();
  life.commit(reformed);  // the pods that end now are still there
  ASSERT_EQ(life.job.status.assignment.attempt, 2);
  life.health["node-1"] = life.health["node-2"] = {.lost = "node is gone", .ready = false};
  replace.places = {{"worker", 1, "node-4", {0, 1}}};
  life.decision = replace;
  life.commit(life.look());
  life.reports = {saved(1, 130)};
  life.apply(reformed);
  EXPECT_THAT(life.turn().create, SizeIs(2)) << "worker 2 has no place yet";
  EXPECT_EQ(life.job.status.assignment.resume.step, 130);
  life.reports.push_back(saved(2, 500));
  replace.places = {{"worker", 2, "node-5", {0, 1}}};
  life.decision = replace;
  EXPECT_THAT(life.turn().create, SizeIs(1));
  EXPECT_EQ(life.job.status.attempt, 2);
  EXPECT_EQ(life.job.status.assignment.resume.step, 130) << "what its peers were told";
}

TEST(Lifecycle, WithoutAReportTheNextAttemptBeginsAnewAndSaysSo) {
  Life life;
  life.run();
  life.fail("llama-worker-1-1");
  life.turn();
  life.turn();
  EXPECT_FALSE(life.job.status.assignment.resume.step);
  EXPECT_EQ(life.message("Admitted"),
            "attempt 2: 2 pods in pool a100, from the beginning: no checkpoint was reported");
}

TEST(Lifecycle, AGracePeriodShorterThanSavingTakesIsSaidWithBothNumbers) {
  Life life;
  life.job.spec.checkpoint = crds::Checkpoint{};
  life.job.spec.checkpoint->grace_period = seconds{30};
  life.run();
  EXPECT_EQ(life.is("GracePeriodTooShort"), kUnknown);
  life.reports = {saved(1, 100, 20)};
  life.turn();
  EXPECT_EQ(life.is("GracePeriodTooShort"), kFalse);
  life.reports = {saved(1, 100, 45)};
  life.turn();
  EXPECT_EQ(life.is("GracePeriodTooShort"), kTrue);
  EXPECT_THAT(life.message("GracePeriodTooShort"), HasSubstr("30 s"));
  EXPECT_THAT(life.message("GracePeriodTooShort"), HasSubstr("45 s"));
  expect_quiet(life, "too short");
  life.job.spec.checkpoint->grace_period = seconds{60};
  ++life.job.metadata.generation;
  life.turn();
  EXPECT_EQ(life.is("GracePeriodTooShort"), kFalse);
}

TEST(Lifecycle, ProgramsThatNeverSpeakOfCheckpointsAreNotMeasured) {
  Life life;
  life.run();
  GangReport killed;
  killed.attempt = 1;
  killed.save_seconds = 31;
  life.reports = {killed};
  life.turn();
  EXPECT_EQ(life.is("GracePeriodTooShort"), kUnknown);
  EXPECT_EQ(life.job.status.checkpoint, crds::CheckpointStatus{});
}

}  // namespace
}  // namespace muster::reconcilers
