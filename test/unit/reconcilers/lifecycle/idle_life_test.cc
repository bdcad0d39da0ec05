// How a job ends that nobody uses, and what it says before.
#include "life.h"

namespace muster::reconcilers {
namespace {

struct IdleLife : testing::Test {
  IdleLife() {
    life.job.spec.mode = crds::Mode::kInteractive;
    life.job.spec.max_runtime = hours{12};
    life.job.spec.idle = crds::Idle{.timeout = hours{1}};
    life.run();
  }
  Step read(seconds idle) {
    life.idleness = {.is_known = true, .idle = idle};
    return life.after(seconds{30});
  }
  const crds::Condition* idle() const { return crds::find_condition(life.job.status.conditions, "Idle"); }

  Life life;
};

TEST_F(IdleLife, EndsAfterItsTimeoutAskedToSave) {
  EXPECT_EQ(idle(), nullptr) << "nothing was read yet";
  EXPECT_THAT(read(seconds{0}).notes, IsEmpty());
  EXPECT_EQ(life.is("Idle"), kFalse);
  EXPECT_EQ(life.reason("Idle"), "GPUsInUse");
  EXPECT_TRUE(read(minutes{29}).status.conditions == life.job.status.conditions);
  const Step half = read(minutes{30});
  ASSERT_THAT(half.notes, SizeIs(1));
  EXPECT_EQ(half.notes[0].reason, "Idle");
  EXPECT_THAT(half.notes[0].text, HasSubstr("below 5 % for half of idle.timeout 1h"));
  EXPECT_EQ(life.is("Idle"), kTrue);
  EXPECT_EQ(life.reason("Idle"), "HalfOfTimeout");
  EXPECT_THAT(read(minutes{54}).notes, IsEmpty()) << "told once";
  EXPECT_THAT(read(minutes{55}).notes, SizeIs(1)) << "and again before the end";
  EXPECT_EQ(life.reason("Idle"), "Within5Minutes");
  EXPECT_THAT(life.message("Idle"), HasSubstr("for all but the last 5m of idle.timeout 1h"));
  EXPECT_THAT(read(minutes{59}).notes, IsEmpty());
  EXPECT_EQ(life.phase(), Phase::kRunning);
  const Step last = read(minutes{60});
  EXPECT_EQ(life.phase(), Phase::kFailed);
  EXPECT_EQ(life.reason("Failed"), "IdleTimeout");
  EXPECT_THAT(life.message("Failed"), HasSubstr("all its GPUs were used below 5 % for idle.timeout 1h"));
  EXPECT_EQ(life.reason("Idle"), "IdleTimeout");
  EXPECT_THAT(last.remove, SizeIs(2)) << "with their grace period";
  EXPECT_FALSE(last.remove[0].grace_seconds == 0);
  EXPECT_EQ(last.notes.back().reason, "IdleTimeout");
  EXPECT_EQ(life.job.status.assignment.attempt, 0);
  expect_quiet(life, "idle");
}

TEST_F(IdleLife, WorkTakesTheWarningBack) {
  read(minutes{40});
  ASSERT_EQ(life.is("Idle"), kTrue);
  read(seconds{0});
  EXPECT_EQ(life.is("Idle"), kFalse);
  expect_quiet(life, "busy again");
}

TEST_F(IdleLife, WhatIsNotKnownIsNeverTakenForIdle) {
  read(minutes{59});
  life.idleness = {.is_known = false, .idle = hours{9}, .problem = "node node-0: refused"};
  life.after(hours{2});
  EXPECT_EQ(life.phase(), Phase::kRunning);
  EXPECT_EQ(life.is("Idle"), kUnknown);
  EXPECT_EQ(life.reason("Idle"), "NoReading");
  EXPECT_EQ(life.message("Idle"), "node node-0: refused");
  life.idleness.problem = "node node-1: refused";
  EXPECT_TRUE(life.look().status == life.job.status) << "in other words it is not written again";
}

TEST_F(IdleLife, OnlyARunningAttemptIsJudged) {
  read(minutes{40});
  life.fail("llama-worker-0-1");
  life.idleness = {};
  life.turn();
  EXPECT_EQ(life.job.status.attempt, 2);
  EXPECT_EQ(life.is("Idle"), kUnknown);
  EXPECT_EQ(life.reason("Idle"), "NotRunning");
  life.idleness = {.is_known = true, .idle = hours{3}};
  life.turn();
  EXPECT_EQ(life.job.status.attempt, 2);
  EXPECT_NE(life.phase(), Phase::kFailed) << "it starts";
}

TEST_F(IdleLife, WithoutATimeoutNothingEndsIt) {
  read(minutes{40});
  life.job.spec.idle->timeout.reset();
  life.idleness = {};
  life.turn();
  EXPECT_EQ(life.reason("Idle"), "NoTimeout");
  life.job.spec.idle.reset();
  EXPECT_THAT(read(hours{11}).notes, IsEmpty());
  EXPECT_EQ(life.phase(), Phase::kRunning);
  expect_quiet(life, "no timeout");
}

// The ledger and the page see it by the condition.
TEST(Lifecycle, IdlenessIsToldAlsoOfAJobThatStatesNoTimeout) {
  Life life;
  life.run();
  const auto read = [&](seconds idle) {
    life.idleness = {.is_known = true, .idle = idle};
    return life.after(seconds{30});
  };
  EXPECT_TRUE(read(minutes{4}).status.conditions == life.job.status.conditions);
  EXPECT_EQ(crds::find_condition(life.job.status.conditions, "Idle"), nullptr)
      << "it was never idle for long";
  EXPECT_THAT(read(minutes{5}).notes, IsEmpty()) << "nothing is about to end";
  EXPECT_EQ(life.is("Idle"), kTrue);
  EXPECT_EQ(life.reason("Idle"), "NotUsed");
  EXPECT_THAT(life.message("Idle"), HasSubstr("below 5 % for 5m or longer"));
  read(hours{40});
  EXPECT_EQ(life.phase(), Phase::kRunning);
  life.idleness = {.problem = "node node-0: refused"};
  life.turn();
  EXPECT_EQ(life.is("Idle"), kUnknown);
  EXPECT_EQ(life.message("Idle"), "node node-0: refused");
  read(seconds{0});
  EXPECT_EQ(life.is("Idle"), kFalse);
  EXPECT_EQ(life.reason("Idle"), "GPUsInUse");
  expect_quiet(life, "busy");
}

TEST(Lifecycle, AGpuWithDoubleBitErrorsIsLostGround) {
  Life life(2);
  life.run();
  life.health["node-1"].failing_gpus = {7};
  EXPECT_THAT(life.turn().displaced, IsEmpty()) << "somebody else's";
  life.health["node-1"].failing_gpus = {1, 7};
  EXPECT_THAT(life.turn().displaced, ElementsAre(1U));
  JobDecision replace = life.place(JobDecision::Kind::kReplace);
  replace.places = {{"worker", 1, "node-3", {0, 1}}};
  life.decision = replace;
  const Step step = life.turn();
  EXPECT_EQ(life.job.status.attempt, 2);
  ASSERT_FALSE(step.notes.empty());
  EXPECT_EQ(step.notes[0].reason, "Reformed");
  EXPECT_THAT(step.notes[0].text, HasSubstr("GPU 1 of node node-1 has double-bit errors"));
}

TEST_F(IdleLife, WhoseProgramTellsOfItsUseSaysSo) {
  life.job.spec.idle->activity_path = "/api/status?token=s3cret";
  const auto read_both = [&](seconds idle, bool with_gpus) {
    life.idleness = {.is_known = true, .idle = idle, .of_gpus = with_gpus, .of_use = true};
    return life.after(seconds{30});
  };
  read_both(seconds{0}, false);
  EXPECT_EQ(life.reason("Idle"), "InUse");
  read_both(minutes{30}, false);
  EXPECT_EQ(
      life.message("Idle"),
      "nobody has used it, as /api/status says, for half of idle.timeout 1h: it ends unless it is used");
  read_both(minutes{55}, true);
  EXPECT_EQ(
      life.message("Idle"),
      "all its GPUs have been used below 5 % and nobody has used it, as /api/status says, for all but the "
      "last 5m of idle.timeout 1h: it ends unless it is used");
  read_both(minutes{60}, true);
  EXPECT_EQ(life.message("Failed"),
            "all its GPUs were used below 5 % and nobody used it, as /api/status says, for idle.timeout 1h");
}

TEST_F(IdleLife, AnEndThatIsFarIsToldHalfAnHourAndFiveMinutesBefore) {
  life.job.spec.idle->timeout = hours{4};
  std::vector<std::string> reasons;
  for (const int idle : {100, 120, 180, 209, 210, 234, 235, 239}) {
    if (!read(minutes{idle}).notes.empty()) reasons.push_back(life.reason("Idle"));
  }
  EXPECT_THAT(reasons, ElementsAre("HalfOfTimeout", "Within30Minutes", "Within5Minutes"));
}

}  // namespace
}  // namespace muster::reconcilers
