#include "muster/reconcilers/lifecycle/lifecycle.h"

#include "life.h"

namespace muster::reconcilers {
namespace {

// --- queued

TEST(Lifecycle, NewJobAsksForAPlaceAndDoesNothingElse) {
  Life life;
  const Step step = life.look();
  EXPECT_TRUE(step.wants_place);
  EXPECT_THAT(step.create, IsEmpty());
  EXPECT_THAT(step.remove, IsEmpty());
  EXPECT_THAT(step.notes, IsEmpty());
  EXPECT_EQ(step.status.queue.reason, "") << "an unjudged job has no reason yet: the write waits for one";
  EXPECT_EQ(step.status.assignment.attempt, 0);
}

TEST(Lifecycle, AllConditionsAreThereFromTheFirstWrite) {
  Life life;
  life.turn();
  for (const char* type : {"Accepted", "Admitted", "PodsReady", "Evicted", "Suspended", "Complete", "Failed",
                           "Stalled", "GracePeriodTooShort"}) {
    const auto& c = life.condition(type);
    EXPECT_FALSE(c.reason.empty()) << type;
    EXPECT_EQ(c.observed_generation, 1) << type;
    EXPECT_EQ(c.last_transition_time, kStart) << type;
  }
  EXPECT_EQ(life.is("Accepted"), kTrue);
  EXPECT_EQ(life.is("Complete"), kUnknown);
  EXPECT_EQ(life.is("Suspended"), kFalse);
  EXPECT_EQ(life.phase(), Phase::kQueued);
  expect_quiet(life, "new");
}

TEST(Lifecycle, VerdictIsTheReasonToWait) {
  Life life;
  life.verdict = crds::Waiting{.position = 3,
                               .project_position = 1,
                               .reason = "InsufficientCapacity",
                               .message = "need 6, have 2",
                               .blocking = {}};
  const Step step = life.turn();
  EXPECT_TRUE(step.wants_place);
  EXPECT_EQ(life.job.status.queue, *life.verdict);
  EXPECT_EQ(life.is("Admitted"), kFalse);
  EXPECT_EQ(life.reason("Admitted"), "InsufficientCapacity");
  EXPECT_EQ(life.message("Admitted"), "need 6, have 2");
  expect_quiet(life, "judged");

  const auto before = life.job.status;
  life.verdict->position = 2;
  life.verdict->message = "need 6, have 3";
  EXPECT_TRUE(differs_in_counters_only(before, life.look().status));
  life.verdict->reason = "LimitReached";
  EXPECT_FALSE(differs_in_counters_only(before, life.look().status));
}

TEST(Lifecycle, WhoGoesLastIsWrittenAtOnceAndOnlyWhenThatChanges) {
  Life life;
  life.verdict =
      crds::Waiting{.reason = "WaitingForVictims", .message = "when pa/a has left them", .blocking = {}};
  life.turn();
  life.verdict->message += "; the last to go is pod a-0 on node n, which has until 10:00 to save";
  EXPECT_FALSE(differs_in_counters_only(life.job.status, life.look().status));
  life.turn();
  life.verdict->message = "when pa/b has left them" + life.verdict->message.substr(23);
  EXPECT_TRUE(differs_in_counters_only(life.job.status, life.look().status)) << life.verdict->message;
  life.verdict->message.replace(life.verdict->message.find("10:00"), 5, "10:01");
  EXPECT_FALSE(differs_in_counters_only(life.job.status, life.look().status));
}

TEST(Lifecycle, BlockedJobWaitsWithoutAskingForAPlace) {
  Life life;
  life.blocked = "claim nlp/data is not bound";
  life.decision = life.place();
  const Step step = life.turn();
  EXPECT_FALSE(step.wants_place);
  EXPECT_EQ(life.job.status.assignment.attempt, 0) << "a decision for a blocked job is not acted on";
  EXPECT_EQ(life.job.status.queue.reason, "NoMatchingNodes");
  EXPECT_EQ(life.job.status.queue.message, *life.blocked);
  life.blocked.reset();
  EXPECT_TRUE(life.turn().wants_place);
}

TEST(Lifecycle, InvalidSpecIsSaidAndMended) {
  Life life;
  life.invalid = "spec.roles[0].template: " + std::string(6000, 'x');
  Step step = life.turn();
  EXPECT_FALSE(step.wants_place);
  EXPECT_EQ(life.is("Accepted"), kFalse);
  EXPECT_EQ(life.is("Stalled"), kTrue);
  EXPECT_EQ(life.job.status.queue.reason, "InvalidSpec");
  EXPECT_LE(life.job.status.queue.message.size(), 4096U) << "what the schema takes";
  expect_quiet(life, "invalid");

  life.invalid.reset();
  life.job.metadata.generation = 2;
  step = life.turn();
  EXPECT_TRUE(step.wants_place);
  EXPECT_EQ(life.is("Accepted"), kTrue);
  EXPECT_EQ(life.is("Stalled"), kFalse);
  EXPECT_EQ(life.condition("Accepted").observed_generation, 2);
  EXPECT_EQ(life.job.status.observed_generation, 2);
  life.decision = life.place();
  life.turn();
  EXPECT_EQ(life.phase(), Phase::kStarting);
}

// --- checkpoints

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
  life.decision = life.give_back(Decision::Kind::kEvict, "Reclaimed", "others need it");
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
  Decision replace = life.place(Decision::Kind::kReplace);
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

// --- admission

TEST(Lifecycle, StartDecisionBecomesTheAssignment) {
  Life life;
  life.verdict = crds::Waiting{.reason = "InsufficientCapacity", .message = "need 6, have 2", .blocking = {}};
  life.turn();
  life.verdict.reset();
  life.decision = life.place();
  const Step step = life.look();
  const auto& a = step.status.assignment;
  EXPECT_EQ(a.attempt, 1);
  EXPECT_EQ(a.pool, "a100");
  EXPECT_EQ(a.admitted_at, kStart);
  ASSERT_THAT(a.pods, SizeIs(2));
  EXPECT_EQ(a.pods[1].role, "worker");
  EXPECT_EQ(a.pods[1].index, 1);
  EXPECT_EQ(a.pods[1].node, "node-1");
  EXPECT_THAT(a.pods[1].gpus, ElementsAre(0, 1));
  EXPECT_THAT(step.create, ElementsAre(0U, 1U));
  EXPECT_EQ(step.wake_at, kStart + minutes{10}) << "startTimeout";
  life.turn();
  EXPECT_EQ(life.is("Admitted"), kTrue);
  EXPECT_EQ(life.is("PodsReady"), kFalse);
  EXPECT_EQ(life.reason("PodsReady"), "Starting");
  EXPECT_EQ(life.job.status.queue, crds::Waiting{}) << "it does not wait any more";
  EXPECT_EQ(life.job.status.allocated.gpu, crds::MilliGpu{4000});
  EXPECT_EQ(life.job.status.pods, "0/2");
  EXPECT_EQ(life.phase(), Phase::kStarting);
  EXPECT_THAT(life.names(), ElementsAre("llama-worker-0-1", "llama-worker-1-1"));
  expect_quiet(life, "admitted");
}

TEST(Lifecycle, PodsAreMadeKnownByNameWhenAllHaveStarted) {
  Life life;
  life.admit();
  EXPECT_FALSE(life.look().publish) << "its pods have been made this very second";
  EXPECT_EQ(life.look().wake_at, life.now + seconds{1});
  life.ready("llama-worker-0-1", false);
  EXPECT_FALSE(life.look().publish) << "one has not started";
  life.ready("llama-worker-1-1", false);
  EXPECT_TRUE(life.look().publish) << "not when they are ready: they may have to meet before";
  life.all_ready();
  EXPECT_TRUE(life.turn().publish);
  EXPECT_FALSE(life.look().publish) << "it runs: that has been done";
}

TEST(Lifecycle, PodsAreMadeKnownByNameAMomentAfterTheLastWasMade) {
  Life life(3);
  life.admit();
  life.drop("llama-worker-2-1");
  EXPECT_FALSE(life.after(seconds{10}).publish) << "one has yet to be made";
  EXPECT_THAT(life.pods, SizeIs(3));
  EXPECT_FALSE(life.look().publish);
  EXPECT_TRUE(life.after(seconds{1}).publish) << "however long the images take";
}

TEST(Lifecycle, AProgramThatHasNobodyToFindIsNotMadeKnownByName) {
  const auto is_published = [](std::int32_t pods, const std::function<void(crds::TrainingJobSpec&)>& edit) {
    Life life(pods);
    edit(life.job.spec);
    life.admit();
    life.all_ready();
    return life.turn().publish;
  };
  const auto as_it_is = [](crds::TrainingJobSpec&) {};
  EXPECT_FALSE(is_published(1, as_it_is));
  EXPECT_TRUE(is_published(2, as_it_is));
  EXPECT_TRUE(is_published(1, [](crds::TrainingJobSpec& spec) {
    spec.framework = crds::Framework::kPyTorch;
  })) << "it is told its own name as MASTER_ADDR";
  EXPECT_TRUE(is_published(1, [](crds::TrainingJobSpec& spec) { spec.mode = crds::Mode::kInteractive; }))
      << "others come to it";
  EXPECT_TRUE(is_published(1, [](crds::TrainingJobSpec& spec) { spec.roles[0].max_replicas = 4; }))
      << "it will grow";
}

TEST(Lifecycle, DecisionForAnotherGenerationIsDropped) {
  Life life;
  life.turn();
  life.decision = life.place();
  life.job.metadata.generation = 2;
  const Step step = life.turn();
  EXPECT_EQ(life.job.status.assignment.attempt, 0);
  EXPECT_THAT(step.create, IsEmpty());
  EXPECT_TRUE(step.wants_place);
}

TEST(Lifecycle, CrashAfterTheCommitMakesTheMissingPods) {
  Life life(3);
  life.turn();
  life.decision = life.place();
  const Step step = life.look();
  life.commit(step);
  life.make(life.job.status.assignment.pods[1]);  // then the process died
  EXPECT_THAT(life.look().create, ElementsAre(0U, 2U));
  expect_quiet(life, "half created");
}

TEST(Lifecycle, NotStartedAgainBeforeEarlierPodsEnded) {
  Life life;
  life.run();
  life.decision = Life::give_back(Decision::Kind::kEvict, "PlacesLost", "node-1 is gone");
  Step step = life.look();
  EXPECT_THAT(step.remove, SizeIs(2));
  life.commit(step);
  life.change("llama-worker-0-1", [](client::Pod& p) { p.deleting = true; });
  life.drop("llama-worker-1-1");
  life.decision = life.place();
  step = life.turn();
  EXPECT_FALSE(step.wants_place);
  EXPECT_THAT(step.remove, IsEmpty()) << "it goes already";
  EXPECT_EQ(life.job.status.assignment.attempt, 0);
  EXPECT_EQ(life.job.status.queue.reason, "BackingOff");
  EXPECT_THAT(life.job.status.queue.message, HasSubstr("llama-worker-0-1 on node node-0"));
  life.drop("llama-worker-0-1");
  EXPECT_TRUE(life.turn().wants_place);
  life.decision = life.place();
  life.turn();
  EXPECT_EQ(life.job.status.assignment.attempt, 2);
  EXPECT_EQ(life.is("Evicted"), kFalse);
}

// --- running

TEST(Lifecycle, RunningOnceAllPodsAreReady) {
  Life life;
  life.admit();
  life.ready("llama-worker-0-1");
  life.after(seconds{5});
  EXPECT_EQ(life.job.status.pods, "1/2");
  EXPECT_EQ(life.is("PodsReady"), kFalse);
  life.ready("llama-worker-1-1");
  life.after(seconds{5});
  EXPECT_EQ(life.phase(), Phase::kRunning);
  EXPECT_EQ(life.is("PodsReady"), kTrue);
  EXPECT_EQ(life.condition("PodsReady").last_transition_time, kStart + seconds{10});
  EXPECT_EQ(life.job.status.started_at, kStart + seconds{10});
  EXPECT_EQ(life.job.status.pods, "2/2");
  expect_quiet(life, "running");
}

TEST(Lifecycle, FlappingReadinessIsACounterOnly) {
  Life life;
  life.run();
  for (int i = 0; i < 4; ++i) {
    const auto before = life.job.status;
    life.ready("llama-worker-0-1", i % 2 != 0);
    const Step step = life.after(seconds{10});
    EXPECT_TRUE(differs_in_counters_only(before, step.status));
    EXPECT_EQ(step.status.ready_replicas, 1 + i % 2);
    EXPECT_EQ(life.is("PodsReady"), kTrue);
    EXPECT_EQ(life.job.status.started_at, kStart);
  }
}

TEST(Lifecycle, APodThatSucceededCountsAsThere) {
  Life life;
  life.admit();
  life.succeed("llama-worker-0-1");
  life.ready("llama-worker-1-1");
  life.turn();
  EXPECT_EQ(life.phase(), Phase::kRunning);
  EXPECT_EQ(life.job.status.ready_replicas, 1);
}

TEST(Lifecycle, PodsAreCountedAsReadyOrSucceeded) {
  Life life{3};
  life.admit();
  EXPECT_EQ(life.job.status.pods, "0/3");
  life.all_ready();
  life.turn();
  EXPECT_EQ(life.job.status.pods, "3/3");
  const auto before = life.job.status;
  life.succeed("llama-worker-0-1");
  life.ready("llama-worker-2-1", false);
  const Step step = life.turn();
  EXPECT_TRUE(differs_in_counters_only(before, step.status)) << "a write that may wait";
  EXPECT_EQ(life.job.status.pods, "2/3");
  EXPECT_EQ(life.job.status.ready_replicas, 1);
  EXPECT_EQ(life.job.status.succeeded_replicas, 1);
  life.job.spec.suspend = true;
  life.turn();
  EXPECT_EQ(life.job.status.pods, "0/3") << "a new attempt does all of it again";
  EXPECT_EQ(life.job.status.succeeded_replicas, 0);
}

TEST(Lifecycle, AFailedJobSaysHowManyPodsHadSucceeded) {
  Life life;
  life.job.spec.restart.limit = 0;
  life.run();
  life.succeed("llama-worker-0-1");
  life.fail("llama-worker-1-1");
  life.turn();
  ASSERT_EQ(life.phase(), Phase::kFailed);
  EXPECT_EQ(life.job.status.pods, "1/2");
  EXPECT_EQ(life.job.status.succeeded_replicas, 1);
}

TEST(Lifecycle, EditOfARunningJobIsSeen) {
  Life life;
  life.run();
  life.job.metadata.generation = 2;
  life.turn();
  EXPECT_EQ(life.job.status.observed_generation, 2);
  EXPECT_EQ(life.condition("Accepted").observed_generation, 2);
  EXPECT_EQ(life.phase(), Phase::kRunning);
}

// --- completion

struct CompletionCase {
  const char* name;
  crds::CompletionPolicy policy;
  const char* role;
  std::vector<std::string> succeeded;
  bool complete;
};
class LifecycleCompletion : public ::testing::TestWithParam<CompletionCase> {};

TEST_P(LifecycleCompletion, ByPolicyAndRole) {
  const auto& c = GetParam();
  Life life;
  life.add_role("ps", 1);
  life.job.spec.completion = {c.role, c.policy};
  life.run();
  for (const auto& name : c.succeeded) life.succeed(name);
  const Step step = life.turn();
  EXPECT_EQ(life.is("Complete") == kTrue, c.complete);
  EXPECT_EQ(life.phase(), c.complete ? Phase::kSucceeded : Phase::kRunning);
  if (!c.complete) return;
  EXPECT_THAT(step.remove, SizeIs(3 - c.succeeded.size()))
      << "what still runs is ended, what has ended stays for its logs";
  EXPECT_EQ(life.job.status.finished_at, kStart);
  EXPECT_EQ(life.job.status.assignment, crds::Assignment{});
  EXPECT_EQ(life.job.status.allocated, crds::Amounts{});
  EXPECT_EQ(life.is("Admitted"), kFalse);
  EXPECT_EQ(life.is("PodsReady"), kFalse);
  EXPECT_EQ(life.job.status.pods, std::to_string(c.succeeded.size()) + "/3") << "of all pods, what succeeded";
  EXPECT_EQ(life.job.status.succeeded_replicas, static_cast<std::int32_t>(c.succeeded.size()));
  EXPECT_EQ(life.job.status.ready_replicas, 0);
  expect_quiet(life, "complete");
}

INSTANTIATE_TEST_SUITE_P(
    Policies, LifecycleCompletion,
    ::testing::Values(
        CompletionCase{"AllOfAll",
                       crds::CompletionPolicy::kAll,
                       "",
                       {"llama-worker-0-1", "llama-worker-1-1", "llama-ps-0-1"},
                       true},
        CompletionCase{
            "AllButOne", crds::CompletionPolicy::kAll, "", {"llama-worker-0-1", "llama-worker-1-1"}, false},
        CompletionCase{"AllOfRole",
                       crds::CompletionPolicy::kAll,
                       "worker",
                       {"llama-worker-0-1", "llama-worker-1-1"},
                       true},
        CompletionCase{
            "RoleHalf", crds::CompletionPolicy::kAll, "worker", {"llama-worker-0-1", "llama-ps-0-1"}, false},
        CompletionCase{"First", crds::CompletionPolicy::kFirst, "", {"llama-ps-0-1"}, true},
        CompletionCase{"FirstOfRole", crds::CompletionPolicy::kFirst, "worker", {"llama-worker-1-1"}, true},
        CompletionCase{"FirstOfOtherRole", crds::CompletionPolicy::kFirst, "worker", {"llama-ps-0-1"}, false},
        CompletionCase{"RoleWithoutPods", crds::CompletionPolicy::kAll, "chief", {}, false}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST(Lifecycle, CompletionBeatsSuspensionAndEviction) {
  for (const bool suspend : {true, false}) {
    Life life;
    life.run();
    life.succeed("llama-worker-0-1");
    life.succeed("llama-worker-1-1");
    life.job.spec.suspend = suspend;
    if (!suspend) life.decision = Life::give_back(Decision::Kind::kEvict, "PlacesLost", "node-1 is gone");
    life.turn();
    EXPECT_EQ(life.phase(), Phase::kSucceeded) << "work that is done is not done again";
  }
}

TEST(Lifecycle, FinishedJobsNeverChangeAgain) {
  Life life;
  life.run();
  life.succeed("llama-worker-0-1");
  life.succeed("llama-worker-1-1");
  life.turn();
  const auto finished = life.job.status;
  life.job.spec.suspend = true;
  EXPECT_TRUE(life.after(hours{1}).status == finished);
  life.job.spec.suspend = false;
  life.invalid = "spec.roles: broken";
  life.decision = life.place();
  EXPECT_TRUE(life.turn().status == finished);
  life.drop("llama-worker-0-1");
  const Step step = life.turn();
  EXPECT_TRUE(step.status == finished);
  EXPECT_FALSE(step.wants_place || step.remove_job);
  EXPECT_THAT(step.create, IsEmpty());
  EXPECT_EQ(step.wake_at, std::nullopt);
}

TEST(Lifecycle, TtlAfterFinishedRemovesTheJob) {
  Life life;
  life.job.spec.ttl_after_finished = hours{24};
  life.job.spec.restart.limit = 0;
  life.run();
  life.fail("llama-worker-0-1");
  life.turn();
  ASSERT_EQ(life.phase(), Phase::kFailed);
  Step step = life.look();
  EXPECT_FALSE(step.remove_job);
  EXPECT_EQ(step.wake_at, kStart + hours{24});
  life.now = kStart + hours{24};
  step = life.look();
  EXPECT_TRUE(step.remove_job);
  EXPECT_TRUE(step.status == life.job.status);
}

// --- program faults

TEST(Lifecycle, ProgramFaultRestartsInPlace) {
  Life life;
  life.run();
  const auto places = life.job.status.assignment.pods;
  life.fail("llama-worker-1-1", 3);
  life.now += seconds{100};
  Step step = life.look();
  EXPECT_EQ(step.status.restarts.count, 1);
  EXPECT_THAT(step.status.restarts.recent, ElementsAre(life.now));
  EXPECT_EQ(step.status.assignment.attempt, 2);
  EXPECT_EQ(step.status.assignment.pods, places) << "the same places";
  EXPECT_EQ(step.status.run_seconds, 100);
  EXPECT_EQ(step.status.started_at, std::nullopt);
  EXPECT_THAT(step.create, IsEmpty());
  EXPECT_THAT(step.remove, SizeIs(2));
  ASSERT_THAT(step.notes, SizeIs(1));
  EXPECT_THAT(step.notes[0].text, HasSubstr("llama-worker-1-1: container main ended with exit code 3"));

  life.commit(step);
  EXPECT_EQ(life.is("Admitted"), kTrue) << "it keeps its place";
  EXPECT_EQ(life.reason("PodsReady"), "Restarting");
  for (int i = 0; i < 3; ++i) {
    expect_quiet(life, "restarting");
    step = life.look();
    EXPECT_EQ(step.status.restarts.count, 1) << "counted once however often it is seen";
    EXPECT_THAT(step.create, IsEmpty()) << "attempt 1 still holds the GPUs";
    EXPECT_THAT(step.remove, SizeIs(2)) << "asked again until they are gone";
  }
  life.drop("llama-worker-1-1");  // the failed one; the other is being terminated
  life.change("llama-worker-0-1", [](client::Pod& p) { p.deleting = true; });
  step = life.look();
  EXPECT_THAT(step.create, IsEmpty());
  EXPECT_THAT(step.remove, IsEmpty());
  life.drop("llama-worker-0-1");
  EXPECT_THAT(life.turn().create, ElementsAre(0U, 1U));
  EXPECT_THAT(life.names(), ElementsAre("llama-worker-0-2", "llama-worker-1-2"));
}

// Somebody else's finalizer, a kubelet that hangs: the next attempt needs its GPUs.
TEST(Lifecycle, ARestartThatAPodOfBeforeHoldsUpSaysWhichPod) {
  Life life;
  life.run();
  life.fail("llama-worker-1-1");
  life.commit(life.look());
  life.drop("llama-worker-1-1");
  life.change("llama-worker-0-1", [&](client::Pod& p) {
    p.deleting = true;
    p.grace_seconds = 30;
    p.deleted_at = (life.now + seconds{30}).time_since_epoch().count();
  });
  life.after(seconds{30});
  EXPECT_EQ(life.reason("PodsReady"), "Restarting") << "it may still be ending";
  const Step step = life.after(seconds{6});
  EXPECT_EQ(life.reason("PodsReady"), "WaitingForEarlierPods");
  EXPECT_THAT(life.message("PodsReady"), HasSubstr("llama-worker-0-1"));
  EXPECT_THAT(step.create, IsEmpty());
  life.drop("llama-worker-0-1");
  life.turn();
  EXPECT_EQ(life.reason("PodsReady"), "Starting");
  EXPECT_THAT(life.names(), ElementsAre("llama-worker-0-2", "llama-worker-1-2"));
}

TEST(Lifecycle, ProgramFaultRestartsElsewhereWhereANodeIsNotToBeUsed) {
  Life life;
  life.run();
  life.unusable_nodes = {"node-0"};  // not Ready, cordoned or gone; its pod may run on
  expect_quiet(life, "cordoned: what runs is left alone");
  life.fail("llama-worker-1-1", 3);
  Step step = life.look();
  EXPECT_EQ(step.status.assignment.attempt, 0) << "not in place";
  EXPECT_EQ(step.status.restarts.count, 1) << "the program's fault all the same";
  EXPECT_THAT(removed(step), ElementsAre("llama-worker-0-1", "llama-worker-1-1"));
  life.commit(step);
  EXPECT_EQ(life.reason("Evicted"), "ProgramFault");
  EXPECT_THAT(life.message("Evicted"), HasSubstr("exit code 3"));
  EXPECT_THAT(life.message("Evicted"), HasSubstr("node node-0 is not to be used"));
  EXPECT_FALSE(life.look().wants_place) << "its pods still hold their GPUs";
  life.pods.clear();
  EXPECT_TRUE(life.turn().wants_place) << "without a delay";
  life.decision = life.place();
  for (auto& p : life.decision->places) p.node = "other-" + p.node;
  life.turn();
  EXPECT_EQ(life.job.status.assignment.attempt, 2);
  EXPECT_THAT(life.names(), ElementsAre("llama-worker-0-2", "llama-worker-1-2"));
  EXPECT_EQ(life.pods[0]->node_name, "other-node-0");
}

TEST(Lifecycle, ProgramFaultRestartsInPlaceWhateverOtherNodesDo) {
  Life life;
  life.run();
  life.unusable_nodes = {"node-7"};
  life.fail("llama-worker-1-1");
  life.turn();
  EXPECT_EQ(life.job.status.assignment.attempt, 2);
}

TEST(Lifecycle, PodsThatEndedHoldNothingAndNeedNotBeGone) {
  Life life;
  life.run();
  life.fail("llama-worker-0-1");
  life.fail("llama-worker-1-1");
  life.commit(life.look());
  EXPECT_THAT(life.look().create, ElementsAre(0U, 1U));
}

TEST(Lifecycle, RestartLimitWithinTheWindow) {
  Life life;
  life.job.spec.restart = {.limit = 2, .window = hours{1}};
  life.run();
  const auto fault = [&](seconds after) {
    life.now += after;
    life.fail(life.names().front(), 7);
    life.turn();
    if (is_finished(life.job.status)) return;
    life.turn();
    life.all_ready();
    life.turn();
  };
  fault(minutes{0});
  fault(minutes{40});
  EXPECT_THAT(life.job.status.restarts.recent, SizeIs(2));
  fault(minutes{20});  // the first is an hour old: out of the window
  EXPECT_EQ(life.phase(), Phase::kRunning);
  EXPECT_EQ(life.job.status.restarts.count, 3);
  EXPECT_THAT(life.job.status.restarts.recent, SizeIs(2));
  fault(minutes{39});
  EXPECT_EQ(life.phase(), Phase::kFailed);
  EXPECT_EQ(life.reason("Failed"), "RestartLimitExceeded");
  EXPECT_THAT(life.message("Failed"), HasSubstr("exit code 7"));
  EXPECT_THAT(life.message("Failed"), HasSubstr("restart.limit 2 in 1h"));
  EXPECT_EQ(life.job.status.restarts.count, 4);
  EXPECT_THAT(life.job.status.restarts.recent, SizeIs(3)) << "the one too many is of the window, too";
  expect_quiet(life, "failed");
}

TEST(Lifecycle, RestartLimitZeroFailsAtOnce) {
  Life life;
  life.job.spec.restart.limit = 0;
  life.run();
  life.fail("llama-worker-0-1");
  const Step step = life.turn();
  EXPECT_EQ(life.phase(), Phase::kFailed);
  EXPECT_EQ(life.job.status.attempt, 1);
  EXPECT_EQ(life.job.status.assignment.attempt, 0);
  EXPECT_THAT(removed(step), ElementsAre("llama-worker-1-1")) << "the failed one stays for its logs";
}

TEST(Lifecycle, FaultWhileStartingIsAFaultToo) {
  Life life;
  life.admit();
  life.fail("llama-worker-0-1");
  life.turn();
  EXPECT_EQ(life.job.status.restarts.count, 1);
  EXPECT_EQ(life.job.status.assignment.attempt, 2);
}

TEST(Lifecycle, LongMessagesAreCutAtACharacter) {
  Life life;
  life.run();
  std::string text;
  while (text.size() < 300) text += "\xC3\xA9";  // two bytes each: byte 253 is inside of one
  life.fail("llama-worker-0-1");
  life.change("llama-worker-0-1", [&](client::Pod& p) { p.ended[0].message = text; });
  life.turn();
  const std::string& said = life.message("PodsReady");
  EXPECT_LT(said.size(), 400U);
  EXPECT_THAT(said, HasSubstr("\xC3\xA9..."));
}

// --- faults of the cluster

class LifecycleClusterFault : public ::testing::TestWithParam<const char*> {};
TEST_P(LifecycleClusterFault, WithdrawsAndIsNotCounted) {
  Life life;
  life.run();
  life.end("llama-worker-0-1", PodPhase::kFailed, 137, GetParam());
  life.now += seconds{60};
  const Step step = life.turn();
  EXPECT_EQ(life.job.status.assignment.attempt, 0);
  EXPECT_EQ(life.job.status.restarts.count, 0);
  EXPECT_EQ(life.job.status.run_seconds, 60);
  EXPECT_THAT(step.remove, SizeIs(2));
  EXPECT_EQ(life.is("Evicted"), kTrue);
  EXPECT_EQ(life.reason("Evicted"), "PodLost");
  EXPECT_THAT(life.message("Evicted"), HasSubstr(GetParam()));
  EXPECT_THAT(life.message("Evicted"), HasSubstr("node-0"));
  EXPECT_EQ(life.is("Admitted"), kFalse);
  EXPECT_EQ(life.is("PodsReady"), kFalse);
  EXPECT_EQ(life.phase(), Phase::kCheckpointing) << "its pods are told to go";
  EXPECT_NE(life.job.status.queue.reason, "");
  EXPECT_TRUE(life.turn().wants_place) << "queued again at once";
  EXPECT_EQ(life.phase(), Phase::kQueued);
}
INSTANTIATE_TEST_SUITE_P(Reasons, LifecycleClusterFault,
                         ::testing::Values("Evicted", "NodeLost", "Shutdown", "Terminated", "Preempting",
                                           "OutOfcpu", "UnexpectedAdmissionError"));

// Found live: the pod garbage collector fails the pods of a deleted node before it removes them, without
// a status.reason.
TEST(Lifecycle, DisruptionTargetIsNoFaultOfTheProgram) {
  Life life;
  life.run();
  life.fail("llama-worker-0-1", 137);
  life.change("llama-worker-0-1", [](client::Pod& p) { p.disrupted = true; });
  life.turn();
  EXPECT_EQ(life.job.status.assignment.attempt, 0);
  EXPECT_EQ(life.job.status.restarts.count, 0);
  EXPECT_EQ(life.reason("Evicted"), "PodLost");
}

TEST(Lifecycle, DeletedPodWithdrawsTheGang) {
  for (const bool program_fell_with_it : {false, true}) {
    Life life;
    life.run();
    if (program_fell_with_it) {
      life.fail("llama-worker-0-1", 143);  // SIGTERM
      life.fail("llama-worker-1-1", 1);    // its peer is gone
    }
    life.change("llama-worker-0-1", [](client::Pod& p) { p.deleting = true; });
    life.turn();
    EXPECT_EQ(life.job.status.assignment.attempt, 0);
    EXPECT_EQ(life.job.status.restarts.count, 0);
    EXPECT_THAT(life.message("Evicted"), HasSubstr("pod llama-worker-0-1 on node node-0 was deleted"));
  }
}

TEST(Lifecycle, PodThatVanishedWhileRunningWithdrawsTheGang) {
  Life life;
  life.run();
  life.drop("llama-worker-1-1");
  life.turn();
  EXPECT_EQ(life.job.status.assignment.attempt, 0);
  EXPECT_EQ(life.job.status.restarts.count, 0);
  EXPECT_THAT(life.message("Evicted"), HasSubstr("worker-1"));
}

// The node of a pod that had succeeded is taken away by an autoscaler, say, and Kubernetes collects the pod.
TEST(Lifecycle, PodThatSucceededMayBeCollectedWhileItsPeersWork) {
  Life life;
  life.run();
  life.succeed("llama-worker-0-1");
  life.turn();
  EXPECT_THAT(life.job.status.assignment.succeeded, ElementsAre(0));
  life.change("llama-worker-0-1", [](client::Pod& p) { p.deleting = true; });
  expect_quiet(life, "being collected");
  life.drop("llama-worker-0-1");
  const Step step = life.turn();
  EXPECT_EQ(life.phase(), Phase::kRunning);
  EXPECT_EQ(life.job.status.pods, "2/2");
  EXPECT_THAT(step.create, IsEmpty());
  EXPECT_THAT(step.displaced, IsEmpty());
  expect_quiet(life, "collected");
  life.succeed("llama-worker-1-1");
  life.turn();
  EXPECT_EQ(life.phase(), Phase::kSucceeded);
  EXPECT_EQ(life.job.status.attempt, 1);
  EXPECT_EQ(life.job.status.pods, "2/2");
}

TEST(Lifecycle, PodThatSucceededBeforeTheStartAndIsCollectedIsNotMadeAgain) {
  Life life;
  life.admit();
  life.succeed("llama-worker-0-1");
  life.turn();
  life.drop("llama-worker-0-1");
  Step step = life.turn();
  EXPECT_THAT(step.create, IsEmpty());
  EXPECT_EQ(life.phase(), Phase::kStarting);
  life.ready("llama-worker-1-1");
  life.turn();
  EXPECT_EQ(life.phase(), Phase::kRunning) << "ready or succeeded is whole";
}

TEST(Lifecycle, ARestartRunsPodsThatHadSucceededAgain) {
  Life life;
  life.run();
  life.succeed("llama-worker-0-1");
  life.turn();
  life.drop("llama-worker-0-1");
  life.fail("llama-worker-1-1");
  life.turn();
  EXPECT_EQ(life.job.status.assignment.attempt, 2);
  EXPECT_THAT(life.job.status.assignment.succeeded, IsEmpty());
  EXPECT_EQ(life.job.status.pods, "0/2");
  EXPECT_THAT(life.turn().create, ElementsAre(0U, 1U));
}

TEST(Lifecycle, PodThatVanishedBeforeTheStartIsMadeAgain) {
  Life life;
  life.admit();
  life.drop("llama-worker-1-1");
  EXPECT_THAT(life.turn().create, ElementsAre(1U));
  EXPECT_EQ(life.job.status.assignment.attempt, 1);
  EXPECT_THAT(life.pods, SizeIs(2));
}

TEST(Lifecycle, PodsLostBeforeTheStartAreNotMadeAtFullSpeedForever) {
  Life life;
  life.admit();
  life.change("llama-worker-0-1", [](client::Pod& p) { p.deleting = true; });
  life.turn();
  EXPECT_EQ(life.job.status.assignment.attempt, 0);
  EXPECT_EQ(life.job.status.retry_at, life.now + seconds{10});
}

// --- refusals

class LifecycleRefusal : public ::testing::TestWithParam<const char*> {};
TEST_P(LifecycleRefusal, IsPlacedElsewhere) {
  Life life;
  life.admit();
  life.refuse("llama-worker-1-1", GetParam());
  Step step = life.look();
  EXPECT_THAT(step.displaced, ElementsAre(1U));
  EXPECT_THAT(step.remove, IsEmpty()) << "not before it has another place";
  ASSERT_THAT(step.notes, SizeIs(1));
  life.commit(step);
  ASSERT_THAT(life.job.status.node_refusals, SizeIs(1));
  EXPECT_EQ(life.job.status.node_refusals[0].node, "node-1");
  EXPECT_EQ(life.job.status.node_refusals[0].reason, GetParam());
  expect_quiet(life, "refused");
  EXPECT_THAT(life.look().displaced, ElementsAre(1U)) << "said until there is another place";

  life.decision = life.place(Decision::Kind::kReplace);
  life.decision->places = {{"worker", 1, "node-7", {4, 5}}};
  step = life.turn();
  EXPECT_THAT(step.create, ElementsAre(1U));
  EXPECT_THAT(removed(step), ElementsAre("llama-worker-1-1"));
  EXPECT_EQ(life.job.status.assignment.pods[1].node, "node-7");
  EXPECT_EQ(life.job.status.assignment.pods[1].tries, 1);
  EXPECT_EQ(life.job.status.assignment.attempt, 1);
  EXPECT_EQ(life.job.status.restarts.count, 0);
  EXPECT_THAT(life.names(), ElementsAre("llama-worker-0-1", "llama-worker-1-1-r1"));
  expect_quiet(life, "replaced");
  life.all_ready();
  life.turn();
  EXPECT_EQ(life.phase(), Phase::kRunning);
}
INSTANTIATE_TEST_SUITE_P(Reasons, LifecycleRefusal,
                         ::testing::Values("OutOfcpu", "OutOfnvidia.com/gpu", "UnexpectedAdmissionError",
                                           "NodeAffinity"));

// Placement gives a refused place back at once: others may have it by the time this job does anything else.
TEST(Lifecycle, RefusedPlaceIsNeverUsedAgain) {
  Life life;
  life.admit();
  life.refuse("llama-worker-0-1", "OutOfcpu");
  life.turn();
  life.drop("llama-worker-0-1");
  for (const auto passed : {seconds{1}, seconds{minutes{6}}}) {
    const Step step = life.after(passed);
    EXPECT_THAT(step.create, IsEmpty()) << "the refused pod is gone, its place as well";
    EXPECT_THAT(step.displaced, ElementsAre(0U));
  }
  life.fail("llama-worker-1-1");
  life.turn();
  EXPECT_EQ(life.job.status.assignment.attempt, 0) << "not again in place";
  EXPECT_EQ(life.job.status.restarts.count, 1);
  EXPECT_EQ(life.reason("Evicted"), "ProgramFault");
  EXPECT_THAT(life.message("Evicted"), HasSubstr("node-0"));
}

TEST(Lifecycle, RefusalsAreRememberedForFiveMinutes) {
  Life life;
  life.admit();
  life.refuse("llama-worker-0-1", "OutOfcpu");
  life.turn();
  life.decision = life.place(Decision::Kind::kReplace);
  life.decision->places = {{"worker", 0, "node-8", {0}}};
  Step step = life.turn();
  EXPECT_EQ(step.wake_at, kStart + minutes{5}) << "the node is free to be chosen again then";
  life.after(minutes{5} - seconds{1});
  EXPECT_THAT(life.job.status.node_refusals, SizeIs(1));
  life.after(seconds{1});
  EXPECT_THAT(life.job.status.node_refusals, IsEmpty());
}

TEST(Lifecycle, RefusalsAreForgottenWhileWaitingToo) {
  Life life;
  life.admit();
  life.refuse("llama-worker-0-1", "OutOfcpu");
  life.turn();
  life.decision = Life::give_back(Decision::Kind::kEvict, "PlacesLost", "no node for worker-0");
  life.turn();
  const Step step = life.turn();
  ASSERT_TRUE(step.wants_place);
  EXPECT_THAT(step.status.node_refusals, SizeIs(1));
  EXPECT_EQ(step.wake_at, kStart + minutes{5});
  life.after(minutes{5});
  EXPECT_THAT(life.job.status.node_refusals, IsEmpty());
}

TEST(Lifecycle, RefusalsDoNotGrowWithoutBound) {
  Life life(100);
  life.admit();
  for (const auto& name : life.names()) life.refuse(name, "OutOfpods");
  life.turn();
  EXPECT_THAT(life.job.status.node_refusals, SizeIs(32)) << "what the schema takes";
}

// --- time

TEST(Lifecycle, StartTimeoutWithdrawsWithGrowingDelay) {
  Life life;
  life.job.spec.start_timeout = minutes{2};
  const std::vector<seconds> delays = {seconds{10},  seconds{20},  seconds{40},  seconds{80},
                                       seconds{160}, seconds{320}, seconds{600}, seconds{600}};
  std::int32_t attempt = 0;
  for (const auto delay : delays) {
    life.admit();
    ASSERT_EQ(life.job.status.assignment.attempt, ++attempt);
    life.ready(life.names()[0]);
    life.change(life.names()[1], [](client::Pod& p) { p.waiting_reason = "ImagePullBackOff"; });
    life.after(minutes{2} - seconds{1});
    ASSERT_EQ(life.phase(), Phase::kStarting);
    life.after(seconds{1});
    EXPECT_EQ(life.job.status.assignment.attempt, 0);
    EXPECT_EQ(life.reason("Evicted"), "StartTimeout");
    EXPECT_THAT(life.message("Evicted"), HasSubstr("1 of 2 pods were ready after startTimeout 2m"));
    EXPECT_THAT(life.message("Evicted"), HasSubstr("ImagePullBackOff"));
    EXPECT_EQ(life.job.status.retry_at, life.now + delay);
    const Step step = life.turn();
    EXPECT_FALSE(step.wants_place);
    EXPECT_EQ(step.wake_at, life.job.status.retry_at);
    EXPECT_EQ(life.job.status.queue.reason, "BackingOff");
    EXPECT_THAT(life.job.status.queue.message, HasSubstr("ImagePullBackOff"))
        << "why, not only that it waits";
    expect_quiet(life, "backing off");
    EXPECT_FALSE(life.after(delay - seconds{1}).wants_place);
    EXPECT_TRUE(life.after(seconds{1}).wants_place);
  }
  EXPECT_EQ(life.job.status.restarts.count, 0);
  life.run();
  EXPECT_EQ(life.job.status.start_failures, 0) << "forgotten once it ran whole";
}

TEST(Lifecycle, GangThatBecameWholeWhileNobodyLookedIsNotWithdrawn) {
  Life life;
  life.admit();
  life.all_ready();
  life.after(hours{1});
  EXPECT_EQ(life.phase(), Phase::kRunning);
  EXPECT_EQ(life.job.status.attempt, 1);
}

TEST(Lifecycle, StartTimeoutNamesThePodsThatDoNotEnd) {
  Life life;
  life.run();
  life.fail("llama-worker-0-1");
  life.commit(life.look());
  life.change("llama-worker-1-1", [](client::Pod& p) { p.deleting = true; });
  life.after(minutes{10});
  EXPECT_EQ(life.reason("Evicted"), "StartTimeout");
  EXPECT_THAT(life.message("Evicted"), HasSubstr("llama-worker-1-1 on node node-1"));
}

TEST(Lifecycle, MaxRuntimeCountsOverAttempts) {
  Life life;
  life.job.spec.max_runtime = hours{1};
  life.run();
  life.now += minutes{20};
  life.fail("llama-worker-0-1");
  life.turn();
  life.turn();
  life.now += minutes{5};  // starting does not count
  life.all_ready();
  const Step step = life.turn();
  EXPECT_EQ(step.wake_at, life.now + minutes{40});
  life.after(minutes{10});
  life.decision = Life::give_back(Decision::Kind::kEvict, "PlacesLost", "node-1 is gone");
  life.turn();
  EXPECT_EQ(life.job.status.run_seconds, 30 * 60);
  life.after(hours{3});  // waiting does not count
  life.run();
  life.after(minutes{30} - seconds{1});
  EXPECT_EQ(life.phase(), Phase::kRunning);
  const Step last = life.after(seconds{1});
  EXPECT_EQ(life.phase(), Phase::kFailed);
  EXPECT_EQ(life.reason("Failed"), "MaxRuntimeExceeded");
  EXPECT_THAT(last.remove, SizeIs(2));
  EXPECT_EQ(life.job.status.run_seconds, 3600);
  expect_quiet(life, "maxRuntime");
}

// --- suspension

TEST(Lifecycle, SuspendAndResumeInEveryState) {
  struct State {
    const char* name;
    void (*reach)(Life&);
    bool held;
  };
  const State states[] = {
      {"new", [](Life&) {}, false},
      {"queued",
       [](Life& l) {
         l.verdict = crds::Waiting{.reason = "LimitReached", .message = "m", .blocking = {}};
         l.turn();
       },
       false},
      {"starting", [](Life& l) { l.admit(); }, true},
      {"running", [](Life& l) { l.run(); }, true},
      {"restarting",
       [](Life& l) {
         l.run();
         l.fail("llama-worker-0-1");
         l.commit(l.look());
       },
       true},
      {"refused",
       [](Life& l) {
         l.admit();
         l.refuse("llama-worker-0-1", "OutOfcpu");
         l.turn();
       },
       true},
      {"backing off",
       [](Life& l) {
         l.admit();
         l.after(minutes{10});
       },
       false},
      {"invalid",
       [](Life& l) {
         l.invalid = "spec.x: bad";
         l.turn();
         l.invalid.reset();
       },
       false},
  };
  for (const auto& state : states) {
    SCOPED_TRACE(state.name);
    Life life;
    state.reach(life);
    const auto pods = life.pods.size();
    life.job.spec.suspend = true;
    life.decision = life.place();  // whatever placement decided meanwhile
    Step step = life.turn();
    EXPECT_THAT(step.remove, SizeIs(pods));
    EXPECT_THAT(step.create, IsEmpty());
    EXPECT_FALSE(step.wants_place);
    EXPECT_EQ(life.job.status.assignment, crds::Assignment{});
    EXPECT_EQ(life.phase(), pods == 0 ? Phase::kSuspended : Phase::kCheckpointing);
    life.turn();
    EXPECT_EQ(life.phase(), Phase::kSuspended);
    EXPECT_EQ(life.is("Suspended"), kTrue);
    EXPECT_EQ(life.is("Admitted"), kFalse);
    EXPECT_EQ(life.job.status.queue, crds::Waiting{});
    EXPECT_EQ(life.is("Evicted") == kTrue && life.reason("Evicted") == "Suspended", state.held);
    expect_quiet(life, "suspended");
    EXPECT_EQ(life.look().wake_at, std::nullopt);

    life.job.spec.suspend = false;
    life.verdict.reset();
    step = life.after(hours{1});
    EXPECT_TRUE(step.wants_place);
    EXPECT_EQ(life.is("Suspended"), kFalse);
    life.decision = life.place();
    life.turn();
    EXPECT_EQ(life.phase(), Phase::kStarting);
    life.all_ready();
    life.turn();
    EXPECT_EQ(life.phase(), Phase::kRunning);
  }
}

// --- decisions from outside

TEST(Lifecycle, EvictDecisionGivesEverythingBack) {
  Life life;
  life.run();
  life.decision = Life::give_back(Decision::Kind::kEvict, "PlacesLost", "node-1 is gone");
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
  Decision move = life.place(Decision::Kind::kMove);
  for (auto& place : move.places) place.node = "other-" + std::to_string(place.index);
  move.reason = "Consolidated";
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
  life.decision->kind = Decision::Kind::kStart;
  life.turn();
  EXPECT_THAT(life.job.status.nominated.pods, IsEmpty());
  EXPECT_EQ(life.job.status.assignment.pods[0].node, "other-0");
}

TEST(Lifecycle, APromiseIsOfTheSpecThatWasPlaced) {
  Life life;
  life.run();
  Decision move = life.place(Decision::Kind::kMove);
  move.reason = "Consolidated";
  life.decision = move;
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
  Decision replace = life.place(Decision::Kind::kReplace);
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
  life.decision = Life::give_back(Decision::Kind::kEvict, "PlacesLost", "node-1 is gone");
  life.commit(life.look());
  expect_quiet(life, "withdrawn");
  EXPECT_THAT(life.job.status.queue.message, HasSubstr("node-1 is gone"));
}

TEST(Lifecycle, InvalidSpecFoundByTheApiServerStallsTheJob) {
  Life life;
  life.admit();
  life.invalid = "the API server refuses its pods: spec.containers[0].image: Required";
  life.decision =
      Life::give_back(Decision::Kind::kEvict, "InvalidSpec", "spec.containers[0].image: Required");
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
  life.decision = Life::give_back(Decision::Kind::kBackOff, "PodsForbidden", "exceeded quota: compute");
  life.turn();
  EXPECT_EQ(life.job.status.retry_at, kStart + seconds{10});
  EXPECT_EQ(life.reason("Evicted"), "PodsForbidden");
  EXPECT_THAT(life.job.status.queue.message, HasSubstr("exceeded quota: compute"));
  EXPECT_FALSE(life.turn().wants_place);
  EXPECT_TRUE(life.after(seconds{10}).wants_place);
}

TEST(Lifecycle, GiveBackDecisionsMeanNothingToAJobThatHoldsNothing) {
  for (const auto kind : {Decision::Kind::kEvict, Decision::Kind::kBackOff, Decision::Kind::kReplace}) {
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

// --- how pods end

TEST(PodEnds, WhoseFault) {
  client::Pod pod;
  pod.phase = PodPhase::kFailed;
  EXPECT_TRUE(is_terminal(pod));
  const auto verdict = [&](std::string reason, bool ran, std::string message = "") {
    pod.reason = std::move(reason);
    pod.message = std::move(message);
    pod.ended.clear();
    if (ran) pod.ended.push_back({"main", 137, "Error", "", 0});
    EXPECT_FALSE(is_refusal(pod) && is_cluster_fault(pod)) << pod.reason;
    return is_refusal(pod) ? "refusal" : is_cluster_fault(pod) ? "cluster" : "program";
  };
  EXPECT_STREQ(verdict("", true), "program");
  EXPECT_STREQ(verdict("", false), "program");
  EXPECT_STREQ(verdict("DeadlineExceeded", true), "program");
  EXPECT_STREQ(verdict("Evicted", true, "The node was low on resource: memory"), "cluster");
  EXPECT_STREQ(verdict("Evicted", false, "The node had condition: [DiskPressure]."), "refusal");
  EXPECT_STREQ(verdict("OutOfcpu", false), "refusal");
  EXPECT_STREQ(verdict("OutOfcpu", true), "cluster");
  EXPECT_STREQ(verdict("NodeAffinity", true), "cluster");
}

// --- replicas of services

TEST(Server, ThatEndsIsStartedAgainInItsPlacesFirstAtOnceThenWithAGrowingDelay) {
  Life life(1);
  life.serves = true;
  life.job.spec.restart.limit = 0;
  life.admit();
  const auto node = life.job.status.assignment.pods[0].node;
  std::vector<std::int64_t> delays;
  for (int n = 0; n < 9; ++n) {
    life.all_ready();
    life.turn();
    const auto name = life.names().at(0);
    if (n % 2 == 0) {
      life.fail(name, 3);
    } else {
      life.succeed(name);  // a server is not meant to end well either
    }
    const auto step = life.turn();
    EXPECT_EQ(life.job.status.attempt, n + 2);
    EXPECT_EQ(life.job.status.assignment.pods.at(0).node, node);
    life.turn();
    std::int64_t waited = 0;
    for (; life.pods.empty() && waited <= 600; ++waited) life.after(seconds{1});
    delays.push_back(waited);
    ASSERT_FALSE(life.pods.empty()) << n;
    EXPECT_FALSE(is_finished(life.job.status));
  }
  EXPECT_THAT(delays, ElementsAre(0, 10, 20, 40, 80, 160, 300, 300, 300));
  EXPECT_EQ(life.job.status.restarts.count, 9);
  // Well for long enough, it is started at once again.
  life.all_ready();
  life.turn();
  life.after(minutes{11});
  life.fail(life.names().at(0));
  life.turn();
  life.turn();
  EXPECT_THAT(life.pods, SizeIs(1));
}

TEST(Server, OfSeveralPodsLivesAndDiesTogether) {
  Life life(2);
  life.serves = true;
  life.admit();
  life.all_ready();
  life.turn();
  const auto before = life.names();
  life.succeed(before.at(1));
  life.turn();
  life.turn();
  ASSERT_THAT(life.pods, SizeIs(2));
  for (const auto& name : life.names()) EXPECT_THAT(before, ::testing::Not(::testing::Contains(name)));
  EXPECT_FALSE(is_finished(life.job.status));
}

TEST(Server, OnlyAGroupIsPublishedByNameSinceTheServiceHasAnAddress) {
  for (const std::int32_t pods : {1, 2}) {
    Life life(pods);
    life.serves = true;
    life.admit();
    for (const auto& name : life.names())
      life.change(name, [](client::Pod& p) { p.phase = PodPhase::kRunning; });
    EXPECT_EQ(life.turn().publish, pods > 1);
  }
}

TEST(Server, ThatKeepsEndingIsNotWithdrawnForTheTimeThatItWaited) {
  Life life(1);
  life.serves = true;
  life.job.spec.start_timeout = minutes{4};
  life.admit();
  for (int n = 0; n < 7; ++n) {
    life.all_ready();
    life.turn();
    life.fail(life.names().at(0));
    life.turn();
    for (int i = 0; life.pods.empty() && i < 600; ++i) life.after(seconds{1});
  }
  EXPECT_EQ(life.job.status.start_failures, 0);
  EXPECT_EQ(life.job.status.attempt, 8);
  EXPECT_NE(life.job.status.assignment.attempt, 0);
}

}  // namespace
}  // namespace muster::reconcilers
