// status.disruption: what a job has run, what disturbances have cost it, and what is known of the next one.
#include <limits>

#include "life.h"

namespace muster::reconcilers {
namespace {

constexpr auto kEvict = JobDecision::Kind::kEvict;
constexpr auto kMost = std::numeric_limits<std::int64_t>::max();

const crds::DisruptionStatus& of(const Life& life) {
  return life.job.status.disruption;
}
JobDecision costs(JobDecision decision, std::int64_t seconds, bool owed) {
  decision.cost_seconds = seconds;
  decision.owed = owed;
  return decision;
}
GangReport saved(std::int32_t attempt, std::int64_t step, std::int32_t reporters = 1) {
  return {.attempt = attempt,
          .saved = {step, ""},
          .at = kStart,
          .pod = "llama-worker-0-1",
          .reporters = reporters,
          .save_seconds = 5,
          .saved_when_told = reporters};
}
void evict(Life& life, const char* reason = "Reclaimed") {
  life.decision = Life::give_back(kEvict, reason, "others need it");
  life.turn();
}

// --- what it has run

TEST(Disruption, WhatAnAttemptHasHeldIsCountedWhenItEnds) {
  Life life;  // two pods of two GPUs
  life.admit();
  life.after(seconds{40});
  life.all_ready();
  life.after(seconds{60});
  EXPECT_EQ(of(life).ran, 0) << "the attempt goes on";
  evict(life);
  EXPECT_EQ(of(life).ran, 400) << "from its admission";
  life.after(minutes{5});
  EXPECT_EQ(of(life).ran, 400) << "while it waits nothing is added";
  life.decision = life.place();
  life.turn();
  life.all_ready();
  life.after(seconds{10});
  life.fail("llama-worker-0-2");
  life.turn();
  EXPECT_EQ(life.job.status.assignment.attempt, 3);
  EXPECT_EQ(of(life).ran, 440) << "the next attempt in the same places";
  expect_quiet(life, "counted");
  life.turn();
  life.all_ready();
  life.after(seconds{5});
  for (const auto& name : life.names()) life.succeed(name);
  life.turn();
  EXPECT_EQ(life.phase(), Phase::kSucceeded);
  EXPECT_EQ(of(life).ran, 460);
  life.after(minutes{1});
  EXPECT_EQ(of(life).ran, 460);
}

TEST(Disruption, EachSizeIsCountedWithItsTime) {
  Elastic life(2, 4);
  life.run_with({0, 1, 2, 3});
  life.now += seconds{10};
  life.decide(life.size(JobDecision::Kind::kShrink, {0, 1}, "Reclaimed", "for x"));
  EXPECT_EQ(of(life).ran, 80);
  life.now += seconds{10};
  life.decide(life.size(JobDecision::Kind::kGrow, {0, 1, 2}));
  EXPECT_EQ(of(life).ran, 80 + 40);
  life.now += seconds{10};
  evict(life);
  EXPECT_EQ(of(life).ran, 80 + 40 + 60);
}

TEST(Disruption, AResizeByRestartCountsOnce) {
  Elastic life(2, 4, crds::Resize::kRestart);
  life.run_with({0, 1, 2, 3});
  life.now += seconds{10};
  life.decide(life.size(JobDecision::Kind::kShrink, {0, 1}, "Reclaimed", "for x"));
  EXPECT_EQ(life.job.status.assignment.attempt, 2);
  EXPECT_EQ(of(life).ran, 80);
  life.turn();
  life.all_ready();
  life.after(seconds{10});
  life.decide(life.size(JobDecision::Kind::kGrow, {0, 1, 2}));
  EXPECT_EQ(life.job.status.assignment.attempt, 3);
  EXPECT_EQ(of(life).ran, 80 + 40);
}

TEST(Disruption, PartsOfGpusCountAsParts) {
  Life life;
  life.charge = [](const crds::PodAssignment&) { return crds::MilliGpu{250}; };
  life.run();
  life.now += seconds{9};
  evict(life);
  EXPECT_EQ(of(life).ran, 4) << "4.5, rounded down";
}

TEST(Disruption, AJobWithoutGpusCountsCpus) {
  Life life;
  life.cpus = [](const crds::PodAssignment&) { return crds::MilliCpu{1500}; };
  life.run();
  life.now += seconds{10};
  life.decision = costs(Life::give_back(kEvict, "Reclaimed", ""), 7, false);
  const Step step = life.turn();
  EXPECT_EQ(of(life).ran, 30);
  EXPECT_EQ(of(life).lost_optional, 7);
  ASSERT_THAT(step.lost, SizeIs(1));
  EXPECT_FALSE(step.lost[0].is_of_gpus);
}

TEST(Disruption, AbsurdNumbersStopAtTheLargest) {
  Life life;
  life.cpus = [](const crds::PodAssignment&) { return crds::MilliCpu{kMost}; };
  life.run();
  life.now += seconds{10};
  life.job.status.disruption.ran = kMost - 5;
  life.job.status.disruption.lost_optional = kMost;
  life.decision = costs(Life::give_back(kEvict, "Reclaimed", ""), 7, false);
  life.turn();
  EXPECT_EQ(of(life).ran, kMost);
  EXPECT_EQ(of(life).lost_optional, kMost);
}

// --- what it has lost

TEST(Disruption, WhatADecisionCostsIsWrittenWithIt) {
  Life life;
  life.run();
  life.decision = costs(Life::give_back(kEvict, "Reclaimed", "others need it"), 120, false);
  const Step step = life.look();
  EXPECT_EQ(step.status.assignment.attempt, 0);
  EXPECT_EQ(step.status.disruption.lost_optional, 120) << "the same write";
  EXPECT_EQ(step.status.disruption.lost_owed, 0);
  ASSERT_THAT(step.lost, SizeIs(1));
  EXPECT_EQ(step.lost[0].cause, "Reclaimed");
  EXPECT_EQ(step.lost[0].seconds, 120);
  EXPECT_FALSE(step.lost[0].is_owed);
  EXPECT_TRUE(step.lost[0].is_of_gpus);
  life.commit(step);
  life.apply(step);
  EXPECT_THAT(life.turn().lost, IsEmpty());

  life.decision = life.place();
  life.turn();
  life.all_ready();
  life.turn();
  JobDecision move = life.place(JobDecision::Kind::kMove);
  move.reason = "Consolidated";
  life.decision = costs(move, 30, true);
  EXPECT_EQ(life.turn().lost.at(0).cause, "Consolidated");
  EXPECT_EQ(of(life).lost_optional, 120);
  EXPECT_EQ(of(life).lost_owed, 30);
}

TEST(Disruption, ResizesCostToo) {
  Elastic life(2, 4);
  life.run_with({0, 1, 2, 3});
  const auto shrink = life.size(JobDecision::Kind::kShrink, {0, 1, 2}, "Preempted", "for x");
  EXPECT_EQ(life.decide(costs(shrink, 10, true)).lost.at(0).cause, "Preempted");
  EXPECT_EQ(of(life).lost_owed, 10);
  const auto grow = life.size(JobDecision::Kind::kGrow, {0, 1, 2, 3});
  EXPECT_EQ(life.decide(costs(grow, 20, false)).lost.at(0).cause, "Resized");
  EXPECT_EQ(of(life).lost_optional, 20);
  EXPECT_THAT(life.decide(costs(life.size(JobDecision::Kind::kGrow, {0, 1, 2, 3}), 20, false)).lost,
              IsEmpty())
      << "nothing is left to be done";
  EXPECT_EQ(of(life).lost_optional, 20);
}

TEST(Disruption, ALostNodeCostsWhatWasNotSavedAndAStart) {
  Life life;
  life.admit();
  life.all_ready();
  life.after(seconds{20});  // a start of 20 s
  life.now += seconds{100};
  life.reports = {
      {.attempt = 1, .saved = {7, ""}, .at = life.now, .pod = "llama-worker-0-1", .reporters = 1}};
  life.turn();
  life.now += seconds{50};
  life.health["node-1"] = {.lost = "node node-1 is gone", .ready = false};
  JobDecision replace = life.place(JobDecision::Kind::kReplace);
  replace.places = {{"worker", 1, "node-7", {0, 1}}};
  life.decision = replace;
  const Step step = life.turn();
  ASSERT_EQ(life.job.status.assignment.attempt, 2);
  EXPECT_EQ(of(life).lost_owed, 4 * (50 + 20));
  EXPECT_EQ(of(life).lost_optional, 0);
  EXPECT_EQ(step.lost.at(0).cause, "NodeFailed");
  EXPECT_EQ(of(life).saves_when_asked, std::nullopt) << "nobody has asked it";
}

TEST(Disruption, ALostPodCostsAtMostAnIntervalAndAStart) {
  Life life;
  life.job.spec.checkpoint.emplace().interval = seconds{60};
  life.run();
  life.now += hours{1};
  life.drop("llama-worker-1-1");
  EXPECT_EQ(life.turn().lost.at(0).cause, "PodLost");
  EXPECT_EQ(of(life).lost_owed, 4 * 60);
}

TEST(Disruption, AnEvictionFromALostNodeCostsAsMuch) {
  Life life;
  life.run();
  life.now += seconds{100};
  evict(life, "NodeFailed");
  EXPECT_EQ(of(life).lost_owed, 400);
  EXPECT_EQ(of(life).saves_when_asked, std::nullopt);
}

TEST(Disruption, WhatTheUserDoesAndWhatTheProgramDoesIsNoDisturbance) {
  Life life;
  life.run();
  life.now += seconds{100};
  life.fail("llama-worker-0-1");
  const Step step = life.turn();
  ASSERT_THAT(step.lost, SizeIs(1)) << "but its work is lost";
  EXPECT_EQ(step.lost[0].cause, "ProgramFault");
  EXPECT_EQ(step.lost[0].work_seconds, 400);
  EXPECT_EQ(step.lost[0].seconds, 0);
  EXPECT_THAT(life.job.status.disruptions, IsEmpty());
  life.turn();
  life.all_ready();
  life.after(seconds{10});
  life.job.spec.suspend = true;
  EXPECT_THAT(life.turn().lost, IsEmpty());
  EXPECT_EQ(of(life).lost_owed, 0);
  EXPECT_EQ(of(life).lost_optional, 0);
}

// --- work that is thrown away, and the lines

TEST(Disruption, WorkIsThrownAwayByWhoDoesNotSaveWhenAsked) {
  Life life;
  life.run();
  life.now += seconds{100};
  life.decision = costs(Life::give_back(kEvict, "Reclaimed", "others need it"), 900, true);
  const Step step = life.look();
  ASSERT_THAT(step.lost, SizeIs(1));
  EXPECT_EQ(step.lost[0].seconds, 900);
  EXPECT_EQ(step.lost[0].work_seconds, 400) << "since it began to run";

  life.job.spec.checkpoint.emplace();
  EXPECT_EQ(life.look().lost.at(0).work_seconds, 0) << "it says that it saves";
  life.job.status.disruption.saves_when_asked = false;
  EXPECT_EQ(life.look().lost.at(0).work_seconds, 400) << "it did not when it was asked";
}

TEST(Disruption, AProgramThatFailsLosesWhatItHasNotSaved) {
  Life life;
  life.run();
  life.now += seconds{100};
  life.reports = {saved(1, 7)};
  life.reports[0].at = life.now;
  life.turn();
  life.now += seconds{30};
  life.fail("llama-worker-0-1");
  EXPECT_EQ(life.turn().lost.at(0).work_seconds, 4 * 30);
  life.turn();
  EXPECT_THAT(life.turn().lost, IsEmpty()) << "once";
}

// One that states that it saves, asked after it ran for 100 s; its pods need a while to go.
struct StatesThatItSaves : testing::Test {
  StatesThatItSaves() {
    life.job.spec.checkpoint.emplace();
    life.run();
    life.now += seconds{100};
    life.decision = costs(Life::give_back(kEvict, "Reclaimed", "others need it"), 20, true);
    asked = life.look();
    life.commit(asked);
    life.now += seconds{30};
  }
  Life life;
  Step asked;
};

TEST_F(StatesThatItSaves, AndDoesNotLosesItsWorkWhenItsPodsHaveGone) {
  EXPECT_EQ(asked.lost.at(0).work_seconds, 0) << "so far it counts as saved";
  EXPECT_THAT(life.turn().lost, IsEmpty()) << "its pods are still there, and may report";
  const Step over = life.turn();
  ASSERT_THAT(over.lost, SizeIs(1));
  EXPECT_EQ(over.lost[0].work_seconds, 400) << "until it was asked";
  EXPECT_EQ(over.lost[0].cause, "Reclaimed");
  EXPECT_TRUE(over.lost[0].is_owed);
  EXPECT_EQ(of(life).lost_owed, 420);
  EXPECT_EQ(life.job.status.disruptions.at(0).cost, 420);
  EXPECT_THAT(life.turn().lost, IsEmpty()) << "once";
  life.decision = life.place();
  life.turn();
  life.all_ready();
  life.turn();
  life.now += seconds{50};
  life.decision = costs(Life::give_back(kEvict, "Reclaimed", "others need it"), 300, true);
  EXPECT_EQ(life.turn().lost.at(0).work_seconds, 200) << "known by now: counted at once";
  life.turn();
  EXPECT_EQ(of(life).lost_owed, 720);
}

TEST_F(StatesThatItSaves, AndDoesLosesNothing) {
  life.turn();
  life.reports = {saved(1, 120)};
  EXPECT_THAT(life.turn().lost, IsEmpty());
  EXPECT_EQ(of(life).lost_owed, 20);
  EXPECT_EQ(life.job.status.started_at, std::nullopt);
  expect_quiet(life, "judged");
}

TEST_F(StatesThatItSaves, OnlyWhatItDidAfterItsLastCheckpointIsLost) {
  auto early = saved(1, 120);
  early.at = kStart + seconds{60};
  early.saved_when_told = 0;
  life.reports = {early};
  life.turn();
  EXPECT_EQ(life.turn().lost.at(0).work_seconds, 4 * 40);
}

TEST(Disruption, WhoseLastPodHadGoneWhenItWasEvictedIsJudgedAtOnce) {
  Life life;
  life.job.spec.checkpoint.emplace();
  life.run();
  life.now += seconds{100};
  life.pods.clear();
  life.decision = costs(Life::give_back(kEvict, "Reclaimed", "others need it"), 20, true);
  life.turn();
  EXPECT_EQ(of(life).lost_owed, 420);
  EXPECT_EQ(life.job.status.started_at, std::nullopt);
}

TEST_F(StatesThatItSaves, WhoSuspendsItMeanwhileChangesNothing) {
  life.job.spec.suspend = true;
  life.turn();
  EXPECT_EQ(life.turn().lost.at(0).work_seconds, 400);
  EXPECT_EQ(life.job.status.started_at, std::nullopt);
}

TEST(Disruption, AResizeInPlaceThrowsNoWorkAway) {
  Elastic life(2, 4);
  life.run_with({0, 1, 2, 3});
  life.now += seconds{100};
  const auto step =
      life.decide(costs(life.size(JobDecision::Kind::kShrink, {0, 1, 2}, "Preempted", "for x"), 10, true));
  EXPECT_EQ(step.lost.at(0).work_seconds, 0);
}

TEST(Disruption, EachHasALine) {
  Life life;
  life.run();
  life.now += seconds{100};
  life.decision = costs(Life::give_back(kEvict, "Reclaimed", "others need it"), 120, true);
  life.turn();
  const auto& lines = life.job.status.disruptions;
  ASSERT_THAT(lines, SizeIs(1));
  EXPECT_EQ(lines[0], (crds::Disruption{.at = life.now,
                                        .reason = "Reclaimed",
                                        .message = "others need it",
                                        .gave = crds::MilliGpu{4000},
                                        .cost = 120,
                                        .owed = true}));
}

TEST(Disruption, WhoShrinksGivesAPart) {
  Elastic life(2, 4);
  life.run_with({0, 1, 2, 3});
  life.decide(costs(life.size(JobDecision::Kind::kShrink, {0, 1, 2}, "Preempted", "for x"), 10, true));
  ASSERT_THAT(life.job.status.disruptions, SizeIs(1));
  EXPECT_EQ(life.job.status.disruptions[0].gave, crds::MilliGpu{2000});
  life.decide(costs(life.size(JobDecision::Kind::kGrow, {0, 1, 2, 3}), 20, false));
  EXPECT_THAT(life.job.status.disruptions, SizeIs(1)) << "its own growth takes nothing from it";
}

TEST(Disruption, TheLatestLinesStay) {
  Life life;
  for (int i = 0; i < 15; ++i) {
    life.decision = life.place();
    life.turn();
    life.all_ready();
    life.turn();
    life.now += seconds{10};
    evict(life, i == 14 ? "Preempted" : "Reclaimed");
    life.turn();
  }
  const auto& lines = life.job.status.disruptions;
  ASSERT_THAT(lines, SizeIs(crds::kMostDisruptions));
  EXPECT_EQ(lines.front().reason, "Preempted");
  EXPECT_GT(lines.front().at, lines.back().at);
}

TEST(Disruption, AFaultOfTheClusterHasALineToo) {
  Life life;
  life.run();
  life.now += seconds{100};
  life.drop("llama-worker-1-1");
  life.turn();
  ASSERT_THAT(life.job.status.disruptions, SizeIs(1));
  EXPECT_EQ(life.job.status.disruptions[0].reason, "PodLost");
  EXPECT_THAT(life.job.status.disruptions[0].message, HasSubstr("worker-1"));
}

// --- how long things take

TEST(Disruption, TheLastStartIsKept) {
  Life life;
  life.admit();
  EXPECT_EQ(of(life).start_seconds, std::nullopt);
  life.all_ready();
  life.after(seconds{40});
  EXPECT_EQ(of(life).start_seconds, 40);
  life.after(minutes{1});
  EXPECT_EQ(of(life).start_seconds, 40);
  evict(life);
  EXPECT_EQ(of(life).start_seconds, 40) << "kept over attempts";
  life.decision = life.place();
  life.after(minutes{1});
  life.all_ready();
  life.after(seconds{25});
  EXPECT_EQ(of(life).start_seconds, 25);
}

TEST(Disruption, AStartInPlaceBeginsWhenThePodsBeforeItHaveGone) {
  Life life;
  life.run();
  life.now += minutes{1};
  life.fail("llama-worker-0-1");
  const Step step = life.look();
  life.commit(step);
  life.now += seconds{30};  // so long one of them takes to end
  life.apply(step);
  life.turn();
  life.all_ready();
  life.after(seconds{15});
  EXPECT_EQ(of(life).start_seconds, 15);
}

TEST(Disruption, AServersDelayIsNoPartOfItsStart) {
  Life life(1);
  life.serves = true;
  life.run();
  life.fail("llama-worker-0-1");
  life.turn();
  life.turn();
  life.all_ready();
  life.turn();
  life.fail("llama-worker-0-2");  // the second time it has to wait
  life.turn();
  ASSERT_TRUE(life.job.status.retry_at);
  life.now = *life.job.status.retry_at;
  life.turn();
  life.all_ready();
  life.after(seconds{3});
  ASSERT_TRUE(life.job.status.started_at);
  EXPECT_EQ(of(life).start_seconds, 3);
  EXPECT_EQ(of(life).saves_when_asked, std::nullopt);
}

TEST(Disruption, TheLastGrowthInPlaceIsTimed) {
  Elastic life(2, 5);
  life.run_with({0, 1});
  life.now += minutes{1};
  life.decide(life.size(JobDecision::Kind::kGrow, {0, 1, 2, 3}));
  life.ready("llama-worker-2-1");
  life.after(seconds{12});
  EXPECT_EQ(of(life).resize_seconds, std::nullopt) << "one is not there yet";
  life.ready("llama-worker-3-1");
  life.after(seconds{8});
  EXPECT_EQ(of(life).resize_seconds, 20);
  // A member that replaces a lost one says nothing about growth.
  life.now += minutes{1};
  life.health["node-3"] = {.lost = "node node-3 is gone", .ready = false};
  JobDecision replace = life.size(JobDecision::Kind::kReplace, {});
  replace.places = {{"worker", 3, "node-7", {0, 1}}};
  life.decide(replace);
  life.health.clear();
  life.turn();
  life.all_ready();
  life.after(seconds{5});
  ASSERT_FALSE(life.job.status.assignment.pods[3].joining);
  EXPECT_EQ(of(life).resize_seconds, 20);
}

// --- whether it saves when asked

TEST(Disruption, AnEvictionShowsWhetherItSaves) {
  Life life;
  life.run();
  EXPECT_EQ(of(life).saves_when_asked, std::nullopt);
  evict(life);
  EXPECT_EQ(of(life).saves_when_asked, false) << "until it has said so";
  life.reports = {saved(1, 120)};
  life.turn();
  EXPECT_EQ(of(life).saves_when_asked, true);
  life.decision = life.place();
  life.turn();
  life.all_ready();
  life.turn();
  EXPECT_EQ(of(life).saves_when_asked, true);
  expect_quiet(life, "it runs again");
  evict(life);
  life.turn();
  EXPECT_EQ(of(life).saves_when_asked, false) << "what it said at the end of attempt 1 is over";
  auto late = saved(2, 200);
  late.saved_when_told = 0;  // what it had said before it was told
  life.reports.push_back(late);
  life.turn();
  EXPECT_EQ(of(life).saves_when_asked, false);
}

TEST(Disruption, AllWhoReportHaveToSave) {
  Life life(4);
  life.run();
  auto three = saved(1, 100, 4);
  three.saved_when_told = 0;
  life.reports = {three};
  life.turn();
  evict(life);
  three.saved_when_told = 3;
  life.reports = {three};
  life.turn();
  EXPECT_EQ(of(life).saves_when_asked, false) << "one has not ended yet, or was killed";
  life.reports = {saved(1, 120, 3)};
  life.turn();
  EXPECT_EQ(of(life).saves_when_asked, false) << "nothing is known of the fourth";
  life.reports = {saved(1, 120, 4)};
  life.turn();
  EXPECT_EQ(of(life).saves_when_asked, true);
}

TEST(Disruption, ARestartForAnotherSizeAsksToo) {
  Elastic life(2, 4, crds::Resize::kRestart);
  life.run_with({0, 1});
  life.now += minutes{1};
  life.decision = life.size(JobDecision::Kind::kGrow, {0, 1, 2});
  const Step step = life.look();
  life.commit(step);
  EXPECT_EQ(of(life).saves_when_asked, false);
  life.reports = {saved(1, 100)};
  life.apply(step);
  life.turn();
  EXPECT_EQ(of(life).saves_when_asked, true);
}

TEST(Disruption, WhoDoesNotRunYetIsNotAsked) {
  Life life;
  life.admit();
  evict(life);
  EXPECT_EQ(of(life).saves_when_asked, std::nullopt);
}

TEST(Disruption, ItIsNoReasonForAWriteOfItsOwn) {
  crds::TrainingJobStatus before, after;
  after.disruption.saves_when_asked = true;
  EXPECT_TRUE(differs_in_counters_only(before, after));
}

// A GPU that it shares was full. Placement has not decided that, so nobody has weighed it.
TEST(Disruption, AFullGpuCostsAnotherStartAndTheWork) {
  Life life;  // two pods of two GPUs
  life.admit();
  life.after(seconds{30});
  life.all_ready();
  life.turn();
  life.now += seconds{60};
  JobDecision full =
      Life::give_back(kEvict, "MemoryPressure", "the memory of GPU 0 of node node-1 is 97 % full");
  full.places = {{"worker", 1, "node-1", {0, 1}}};
  life.decision = full;
  life.turn();
  const auto& status = life.job.status;
  EXPECT_EQ(of(life).lost_owed, 4 * 30 + 4 * 60);
  EXPECT_EQ(of(life).lost_optional, 0) << "it has said itself that it may go";
  ASSERT_THAT(status.disruptions, SizeIs(1));
  EXPECT_EQ(status.disruptions[0].reason, "MemoryPressure");
  EXPECT_EQ(status.disruptions[0].cost, 4 * 30 + 4 * 60);
  EXPECT_EQ(status.disruptions[0].gave.value, 4000);
  EXPECT_EQ(life.reason("Evicted"), "MemoryPressure");
  EXPECT_EQ(status.preemptions, 0);
  ASSERT_THAT(status.node_refusals, SizeIs(1)) << "elsewhere";
  EXPECT_EQ(status.node_refusals[0].node, "node-1");
  EXPECT_EQ(status.node_refusals[0].reason, "MemoryPressure");
  life.after(minutes{5});
  EXPECT_THAT(life.job.status.node_refusals, IsEmpty()) << "but not for ever";
}

TEST(Disruption, WhoSavesLosesNoWorkToAFullGpu) {
  Life life;
  life.job.spec.checkpoint.emplace();
  life.run();
  life.now += seconds{60};
  evict(life, "MemoryPressure");
  EXPECT_EQ(of(life).lost_owed, 0) << "it was ready at once, and is asked to save";
}

}  // namespace
}  // namespace muster::reconcilers
