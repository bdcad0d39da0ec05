// How a job waits, and how it gets its places.
#include "life.h"
#include "muster/reconcilers/lifecycle/lifecycle.h"

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
  life.decision = Life::give_back(JobDecision::Kind::kEvict, "PlacesLost", "node-1 is gone");
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

}  // namespace
}  // namespace muster::reconcilers
