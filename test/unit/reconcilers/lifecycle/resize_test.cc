// Gangs that change their size or their pods while they run.
#include "life.h"
#include "muster/reconcilers/pods/elastic.h"

namespace muster::reconcilers {
namespace {

using ::testing::Not;
using ::testing::UnorderedElementsAre;

const auto kShrink = JobDecision::Kind::kShrink;
const auto kGrow = JobDecision::Kind::kGrow;

TEST(Resize, MembersLeaveInPlaceAndTheOthersRunOn) {
  Elastic life(2, 4);
  life.run_with({0, 1, 2, 3});
  const Step step =
      life.decide(life.size(kShrink, {0, 1}, "Reclaimed", "reclaimed for b/x, which has a right to more"));
  EXPECT_THAT(life.indexes(), ElementsAre(0, 1));
  EXPECT_THAT(removed(step), ElementsAre("llama-worker-2-1", "llama-worker-3-1"));
  EXPECT_TRUE(step.settles);
  EXPECT_EQ(life.job.status.attempt, 1);
  EXPECT_EQ(life.job.status.preemptions, 0) << "who goes on was not preempted";
  EXPECT_EQ(life.job.status.assignment.resized_at, life.now);
  ASSERT_THAT(step.notes, SizeIs(1));
  EXPECT_EQ(step.notes[0].reason, "Reclaimed");
  EXPECT_EQ(
      step.notes[0].text,
      "shrinks from 4 to 2 pods: reclaimed for b/x, which has a right to more; worker-2 to worker-3 with 4 "
      "GPUs leave");
  life.turn();
  EXPECT_EQ(life.phase(), Phase::kRunning);
  EXPECT_EQ(life.job.status.pods, "2/2-4");
  EXPECT_EQ(life.job.status.replicas, 2);
  EXPECT_EQ(life.message("PodsReady"), "all 2 pods are ready");
  expect_quiet(life, "after it has shrunk");
}

TEST(Resize, ItIsResizingAsLongAsMembersSave) {
  Elastic life(2, 4);
  life.run_with({0, 1, 2, 3});
  life.decision = life.size(kShrink, {0, 1, 2}, "Preempted", "for x");
  life.commit(life.look());
  life.change("llama-worker-3-1", [](client::Pod& p) { p.deleting = true; });
  life.commit(life.look());
  EXPECT_EQ(life.phase(), Phase::kResizing);
  life.drop("llama-worker-3-1");
  life.turn();
  EXPECT_EQ(life.phase(), Phase::kRunning);
}

// The decision names the whole gang as it was. Since then a member was lost, and its pod still has its GPUs.
TEST(Resize, GrowthThatIsOlderThanALossTakesNoGpusBack) {
  Elastic life(1, 4);
  life.run_with({0, 1});
  const auto grow = life.size(kGrow, {0, 1, 2});
  life.change("llama-worker-1-1", [](client::Pod& p) {
    p.annotations = {{std::string(kGpusAnnotation), "0,1"}};
    p.deleting = true;  // somebody drains its node
  });
  life.turn();
  ASSERT_THAT(life.indexes(), ElementsAre(0));
  const Step step = life.decide(grow);
  EXPECT_THAT(life.indexes(), ElementsAre(0));
  EXPECT_THAT(step.create, IsEmpty());
  EXPECT_TRUE(step.settles) << "placement is told";
}

// Placement has given the place back that a kubelet refused, and others may have it.
TEST(Resize, NoAttemptBeginsWhereAPlaceIsGivenBack) {
  Elastic life(2, 4, crds::Resize::kRestart);
  life.turn();
  life.decision = life.size(JobDecision::Kind::kStart, {0, 1});
  life.turn();
  life.refuse("llama-worker-0-1", "OutOfcpu");
  EXPECT_THAT(life.turn().displaced, ElementsAre(0));
  const Step step = life.decide(life.size(kGrow, {0, 1, 2}));
  EXPECT_EQ(life.job.status.attempt, 1);
  EXPECT_THAT(life.indexes(), ElementsAre(0, 1));
  EXPECT_THAT(step.displaced, ElementsAre(0)) << "it is still to be replaced";
  life.job.spec.roles.front().pod_template.value =
      std::make_shared<const crds::Json>(crds::Json::parse(R"({"spec": {"containers": []}})"));
  life.edit();
  life.turn();
  EXPECT_EQ(life.job.status.assignment.attempt, 0) << "an edit takes it back as well";
}

// Placement found no other places for them.
TEST(Resize, MembersOnALostNodeLeaveByADecision) {
  Elastic life(2, 4);
  life.run_with({0, 1, 2, 3});
  life.health["node-3"] = {.lost = "node node-3 is gone", .ready = false};
  EXPECT_THAT(life.turn().displaced, ElementsAre(3));
  life.decide(life.size(kShrink, {0, 1, 2}, "PlacesLost", "there is no room for them"));
  EXPECT_THAT(life.indexes(), ElementsAre(0, 1, 2));
  EXPECT_EQ(life.job.status.attempt, 1);
}

TEST(Resize, MembersJoinInPlaceUnderNamesThatWereNeverUsed) {
  Elastic life(2, 4);
  life.run_with({0, 1, 2, 3});
  life.decision = life.size(kShrink, {0, 1, 2}, "Reclaimed", "for x");
  life.commit(life.look());
  life.change("llama-worker-3-1", [](client::Pod& p) { p.deleting = true; });
  const Step step = life.decide(life.size(kGrow, {0, 1, 2, 3}));
  EXPECT_THAT(step.create, ElementsAre(3));
  EXPECT_THAT(life.names(), testing::Contains("llama-worker-3-1-r1")) << "worker-3 still saves";
  EXPECT_EQ(life.phase(), Phase::kResizing);
  EXPECT_EQ(life.job.status.attempt, 1);
  EXPECT_THAT(life.indexes(), ElementsAre(0, 1, 2, 3));
  ASSERT_THAT(step.notes, SizeIs(1));
  EXPECT_EQ(step.notes[0].reason, "Grown");
  life.drop("llama-worker-3-1");
  life.ready("llama-worker-3-1-r1");
  life.turn();
  EXPECT_EQ(life.phase(), Phase::kRunning);
  EXPECT_FALSE(life.job.status.assignment.pods[3].joining);
  EXPECT_EQ(life.message("PodsReady"), "all 4 pods are ready");
  expect_quiet(life, "after it has grown");
}

TEST(Resize, ACrashBetweenTheCommitAndThePodsOfAGrowthLosesNothing) {
  Elastic life(2, 4);
  life.run_with({0, 1});
  life.decision = life.size(kGrow, {0, 1, 2, 3});
  life.commit(life.look());
  const Step step = life.turn();
  EXPECT_THAT(step.create, ElementsAre(2, 3));
  EXPECT_THAT(step.notes, IsEmpty());
  EXPECT_THAT(removed(step), IsEmpty());
}

TEST(Resize, WhoDoesNotGetReadyInTimeIsDoneWithout) {
  Elastic life(2, 4);
  life.run_with({0, 1});
  life.decide(life.size(kGrow, {0, 1, 2, 3}));
  life.ready("llama-worker-2-1");
  const Step step = life.after(life.job.spec.start_timeout);
  EXPECT_THAT(life.indexes(), ElementsAre(0, 1, 2));
  EXPECT_THAT(removed(step), ElementsAre("llama-worker-3-1"));
  EXPECT_EQ(step.notes.at(0).reason, "MemberLost");
}

TEST(Resize, AKubeletThatRefusesAMemberIsRemembered) {
  Elastic life(2, 4);
  life.run_with({0, 1});
  life.decide(life.size(kGrow, {0, 1, 2}));
  life.refuse("llama-worker-2-1", "OutOfcpu");
  life.turn();
  EXPECT_THAT(life.indexes(), ElementsAre(0, 1));
  ASSERT_THAT(life.job.status.node_refusals, SizeIs(1));
  EXPECT_EQ(life.job.status.node_refusals[0].node, "node-2");
  EXPECT_EQ(life.job.status.attempt, 1);
}

TEST(Resize, RestartSavesAndStartsAgainAtTheNewSize) {
  Elastic life(2, 4, crds::Resize::kRestart);
  life.run_with({0, 1, 2, 3});
  life.decision = life.size(kShrink, {0, 3}, "Reclaimed", "for b/x");
  const Step step = life.look();
  life.commit(step);
  EXPECT_EQ(life.job.status.attempt, 2);
  EXPECT_THAT(life.indexes(), ElementsAre(0, 1)) << "without a gap";
  EXPECT_EQ(life.job.status.assignment.pods[1].node, "node-3");
  EXPECT_THAT(step.remove, SizeIs(4));
  EXPECT_THAT(step.create, IsEmpty()) << "not before they have saved";
  ASSERT_THAT(step.notes, SizeIs(1));
  EXPECT_EQ(step.notes[0].reason, "Reclaimed");
  life.reports = {{.attempt = 1,
                   .saved = {700, "/ckpt/700"},
                   .at = life.now,
                   .pod = "llama-worker-0-1",
                   .reporters = 4,
                   .save_seconds = 3}};
  life.pods.clear();
  const Step made = life.turn();
  EXPECT_THAT(made.create, ElementsAre(0, 1));
  EXPECT_EQ(life.job.status.assignment.resume.step, 700);
  life.all_ready();
  life.turn();
  EXPECT_EQ(life.phase(), Phase::kRunning);
  life.decide(life.size(kGrow, {0, 1, 2}));
  EXPECT_EQ(life.job.status.attempt, 3);
  EXPECT_THAT(life.indexes(), ElementsAre(0, 1, 2));
}

TEST(Resize, ADecisionOfAnEarlierAttemptMeansNothing) {
  Elastic life(2, 4);
  life.run_with({0, 1, 2, 3});
  auto late = life.size(kShrink, {0, 1}, "Reclaimed", "for x");
  late.attempt = 7;
  const Step step = life.decide(late);
  EXPECT_THAT(life.indexes(), ElementsAre(0, 1, 2, 3));
  EXPECT_TRUE(step.settles);
}

TEST(Resize, AShrinkThatWouldBreakTheMinimumTakesTheGangBack) {
  Elastic life(2, 4);
  life.run_with({0, 1});
  life.decide(life.size(kShrink, {0}, "Reclaimed", "for b/x"));
  EXPECT_EQ(life.job.status.assignment.attempt, 0);
  EXPECT_EQ(life.reason("Evicted"), "Reclaimed");
}

TEST(Resize, ALostMemberIsDoneWithout) {
  Elastic life(2, 4);
  life.run_with({0, 1, 2, 3});
  life.change("llama-worker-1-1", [](client::Pod& p) { p.deleting = true; });
  Step step = life.turn();
  EXPECT_THAT(life.indexes(), ElementsAre(0, 2, 3));
  EXPECT_EQ(life.job.status.attempt, 1);
  EXPECT_EQ(step.notes.at(0).reason, "MemberLost");
  EXPECT_THAT(removed(step), IsEmpty()) << "it goes already";
  life.drop("llama-worker-1-1");
  life.drop("llama-worker-2-1");
  life.turn();
  EXPECT_THAT(life.indexes(), ElementsAre(0, 3));
  life.drop("llama-worker-3-1");
  life.turn();
  EXPECT_EQ(life.reason("Evicted"), "PodLost") << "below its minimum";
  EXPECT_EQ(life.job.status.assignment.attempt, 0);
}

TEST(Resize, WithoutItsLeaderAGangCannotGoOn) {
  Elastic life(2, 4);
  life.job.spec.framework = crds::Framework::kPyTorch;
  life.run_with({0, 1, 2, 3});
  life.drop("llama-worker-0-1");
  life.turn();
  EXPECT_EQ(life.reason("Evicted"), "PodLost");
}

TEST(Resize, MembersOnLostGroundGetOtherPlacesAndTheOthersRunOn) {
  Elastic life(2, 4);
  life.run_with({0, 1, 2});
  life.health["node-1"] = {.lost = "node node-1 is gone", .ready = false};
  const Step lost = life.turn();
  EXPECT_THAT(lost.displaced, ElementsAre(1));
  auto replace = life.size(JobDecision::Kind::kReplace, {1});
  replace.places[0].node = "node-9";
  const Step step = life.decide(replace);
  EXPECT_EQ(life.job.status.attempt, 1);
  EXPECT_EQ(life.job.status.assignment.pods[1].node, "node-9");
  EXPECT_THAT(removed(step), ElementsAre("llama-worker-1-1"));
  EXPECT_THAT(step.create, ElementsAre(1));
  EXPECT_THAT(life.names(),
              UnorderedElementsAre("llama-worker-0-1", "llama-worker-2-1", "llama-worker-1-1-r1"));
  EXPECT_EQ(step.notes.at(0).reason, "Replaced");
}

// Scenario S27: it has neither more nor fewer pods at any time, and says that its members may come and go.
TEST(Resize, AGangOfAFixedSizeGetsALostMemberBackAloneIfItSaysSo) {
  for (const bool says_so : {true, false}) {
    Elastic life(3, 3);
    if (!says_so) life.job.spec.elastic.reset();
    life.run_with({0, 1, 2});
    life.health["node-1"] = {.lost = "node node-1 is gone", .ready = false};
    life.turn();
    auto replace = life.size(JobDecision::Kind::kReplace, {1});
    replace.places[0].node = "node-9";
    const Step step = life.decide(replace);
    EXPECT_EQ(life.job.status.attempt, says_so ? 1 : 2);
    EXPECT_EQ(life.job.status.assignment.pods[1].node, "node-9");
    if (says_so) {
      EXPECT_THAT(removed(step), ElementsAre("llama-worker-1-1"));
    }
  }
}

TEST(Resize, WhoCannotBeDoneWithoutAndNeverStartsTakesTheGangBack) {
  Elastic life(2, 4);
  life.run_with({0, 1});
  life.health["node-1"] = {.lost = "node node-1 is gone", .ready = false};
  life.turn();
  auto replace = life.size(JobDecision::Kind::kReplace, {1});
  replace.places[0].node = "node-9";
  life.decide(replace);
  EXPECT_EQ(life.phase(), Phase::kResizing);
  const Step waits = life.turn();
  ASSERT_TRUE(waits.wake_at);
  EXPECT_EQ(*waits.wake_at, life.now + life.job.spec.start_timeout);
  life.after(std::chrono::duration_cast<seconds>(life.job.spec.start_timeout));
  EXPECT_EQ(life.job.status.assignment.attempt, 0);
  EXPECT_EQ(life.reason("Evicted"), "StartTimeout");
  EXPECT_THAT(life.message("Evicted"), HasSubstr("was not ready after startTimeout"));
}

TEST(Resize, IndexesHaveNoGapsWhenItStartsAnew) {
  Elastic life(2, 4);
  life.run_with({0, 1, 3});
  life.fail("llama-worker-1-1");
  life.turn();
  EXPECT_EQ(life.job.status.attempt, 2);
  EXPECT_THAT(life.indexes(), ElementsAre(0, 1, 2));
}

TEST(Resize, OfAGangOfGroupsNoMemberIsDoneWithout) {
  Elastic life(2, 4);
  life.job.spec.topology.groups = {{2, {}, {}}};
  life.run_with({0, 1, 2, 3});
  life.drop("llama-worker-3-1");
  life.turn();
  EXPECT_EQ(life.job.status.assignment.attempt, 0);
  EXPECT_EQ(life.reason("Evicted"), "PodLost");
}

TEST(Resize, AWishIsCutToWholeGroups) {
  Elastic life(2, 8);
  life.job.spec.topology.groups = {{2, {}, {}}};
  life.job.spec.elastic->replicas = 5;
  EXPECT_THAT(most_by_role(life.job.spec), ElementsAre(4));
}

// A decision about the roles that there are says nothing of the one that an edit has removed.
TEST(Resize, AShrinkLeavesPodsOfARemovedRoleAlone) {
  Elastic life(1, 4);
  life.run_with({0, 1, 2});
  life.job.status.assignment.pods.push_back({"saver", 0, "node-7", {}, 0});
  life.make(life.job.status.assignment.pods.back());
  life.ready("llama-saver-0-1");
  life.invalid = "spec.roles: more GPUs than Project nlp allows a job";
  life.edit();
  life.decide(life.size(kShrink, {0, 1}, "Reclaimed", "for x"));
  ASSERT_THAT(life.job.status.assignment.pods, SizeIs(3));
  EXPECT_EQ(life.job.status.assignment.pods[2].role, "saver");
}

TEST(Resize, AWishBelowTheSizeLetsTheHighestGo) {
  Elastic life(2, 6);
  life.run_with({0, 1, 2, 3, 4, 5});
  life.job.spec.elastic->replicas = 3;
  life.edit();
  const Step step = life.turn();
  EXPECT_THAT(life.indexes(), ElementsAre(0, 1, 2));
  EXPECT_THAT(step.remove, SizeIs(3));
  EXPECT_EQ(step.notes.at(0).reason, "Scaled");
  EXPECT_EQ(life.job.status.desired_replicas, 3);
  life.turn();
  expect_quiet(life, "at the size wished for");
}

TEST(Resize, AnEditThatNeedsOtherPodsRestartsWhereItStands) {
  Life life;
  life.run();
  life.job.spec.framework = crds::Framework::kJax;
  ++life.job.metadata.generation;
  const Step step = life.look();
  life.commit(step);
  EXPECT_EQ(life.job.status.attempt, 2);
  EXPECT_EQ(life.job.status.assignment.pods[1].node, "node-1");
  EXPECT_THAT(step.remove, SizeIs(2));
  EXPECT_EQ(step.notes.at(0).reason, "SpecChanged");
  EXPECT_EQ(life.job.status.restarts.count, 0);
  life.pods.clear();
  EXPECT_THAT(life.turn().create, ElementsAre(0, 1));
}

// What runs on a cordoned node runs on, but nothing begins there.
TEST(Resize, AnEditThatNeedsOtherPodsDoesNotRestartOnACordonedNode) {
  Life life;
  life.run();
  life.unusable_nodes = {"node-1"};
  ++life.job.metadata.generation;
  life.turn();
  EXPECT_EQ(life.job.status.assignment.attempt, 1) << "the same pods";
  life.job.spec.framework = crds::Framework::kJax;
  ++life.job.metadata.generation;
  life.turn();
  EXPECT_EQ(life.job.status.assignment.attempt, 0);
  EXPECT_EQ(life.reason("Evicted"), "SpecChanged");
  EXPECT_EQ(life.job.status.preemptions, 0);
}

// Else what it has borrowed could never be taken back.
TEST(Resize, WhatWasStartedAsPreemptibleStaysSoUntilItsNextStart) {
  Life life;
  life.run();
  EXPECT_EQ(life.job.status.assignment.preemptible, true);
  life.job.spec.preemptible = false;
  ++life.job.metadata.generation;
  const Step step = life.turn();
  EXPECT_EQ(step.notes.at(0).reason, "PreemptibleYet");
  EXPECT_TRUE(crds::counts_as_preemptible(life.job.spec, life.job.status.assignment, false));
  expect_quiet(life, "it runs on");
  life.decision = Life::give_back(JobDecision::Kind::kEvict, "Reclaimed", "others need it");
  life.turn();
  EXPECT_EQ(life.job.status.assignment.attempt, 0);
  EXPECT_FALSE(crds::counts_as_preemptible(life.job.spec, life.job.status.assignment, false));
}

// Else quota that was lent for half an hour would be gone for days.
TEST(Resize, WhoRunsLongerThanItSaidCountsAsPreemptibleWhereQuotaIsLent) {
  Life life;
  life.job.spec.preemptible = false;
  life.job.spec.max_runtime = std::chrono::minutes{30};
  life.run();
  EXPECT_EQ(life.job.status.assignment.max_runtime, std::chrono::minutes{30});
  const auto counts = [&](bool lends) {
    return crds::counts_as_preemptible(life.job.spec, life.job.status.assignment, lends);
  };
  life.job.spec.max_runtime = std::chrono::minutes{20};
  EXPECT_FALSE(counts(true)) << "a shorter one acts at once";
  life.job.spec.max_runtime = std::chrono::hours{300};
  ++life.job.metadata.generation;
  EXPECT_EQ(life.turn().notes.at(0).reason, "MaxRuntimeLengthened");
  EXPECT_TRUE(counts(true));
  EXPECT_FALSE(counts(false)) << "nobody lends";
}

TEST(Resize, AnEditThatNeedsOtherPlacesQueuesAgain) {
  Life life;
  life.run();
  life.job.spec.roles[0].gpus = crds::Gpus{.count = 4, .models = {}};
  ++life.job.metadata.generation;
  life.turn();
  EXPECT_EQ(life.job.status.assignment.attempt, 0);
  EXPECT_EQ(life.reason("Evicted"), "SpecChanged");
  EXPECT_EQ(life.job.status.preemptions, 0);
}

TEST(Resize, AMinimumOutOfReachQueuesAgainOneWithinReachDoesNothing) {
  Elastic life(2, 6);
  life.run_with({0, 1, 2, 3});
  life.job.spec.roles[0].min_replicas = 4;
  life.edit();
  life.turn();
  EXPECT_EQ(life.job.status.attempt, 1);
  EXPECT_EQ(life.phase(), Phase::kRunning);
  life.job.spec.roles[0].min_replicas = 5;
  life.edit();
  life.turn();
  EXPECT_EQ(life.reason("Evicted"), "SpecChanged");
}

TEST(Resize, AnEditOfTimesAndPriorityLeavesThePodsAlone) {
  Life life;
  life.run();
  life.job.spec.max_runtime = hours{5};
  life.job.spec.priority_class_name = "training";
  life.job.spec.checkpoint = crds::Checkpoint{.grace_period = seconds{9}, .claim_name = "", .mount_path = ""};
  ++life.job.metadata.generation;
  const Step step = life.turn();
  EXPECT_EQ(life.job.status.attempt, 1);
  EXPECT_THAT(step.remove, IsEmpty());
  EXPECT_THAT(step.notes, IsEmpty());
  EXPECT_EQ(life.phase(), Phase::kRunning);
}

// What an older version has admitted did not note what it was made from.
TEST(Resize, AnAssignmentThatDoesNotSayWhatItWasMadeFromIsTakenAsItIs) {
  Life life;
  life.run();
  life.job.status.assignment.made_from.clear();
  life.job.status.assignment.generation = 0;
  const Step step = life.turn();
  EXPECT_THAT(step.remove, IsEmpty());
  EXPECT_THAT(life.job.status.assignment.made_from, Not(IsEmpty()));
}

TEST(ElasticSizes, AWishIsSharedByRolesInProportionToTheirMinimums) {
  crds::TrainingJobSpec spec;
  for (const auto& [name, least, most] : {std::tuple{"a", 1, 8}, std::tuple{"b", 2, 8}}) {
    crds::Role role;
    role.name = name;
    role.min_replicas = least;
    role.max_replicas = most;
    spec.roles.push_back(role);
  }
  EXPECT_THAT(most_by_role(spec), ElementsAre(8, 8));
  spec.elastic = crds::Elastic{.replicas = 9};
  EXPECT_THAT(most_by_role(spec), ElementsAre(3, 6));
  spec.elastic->replicas = 3;
  EXPECT_THAT(most_by_role(spec), ElementsAre(1, 2));
  spec.roles[1].colocate_with = "a";
  spec.elastic->replicas = 8;
  EXPECT_THAT(most_by_role(spec), ElementsAre(4, 4)) << "b stands beside a";
}

TEST(ElasticSizes, RanksStayWhereMembersComeAndGoAndCloseUpWhereTheyDoNot) {
  crds::TrainingJob job;
  for (const auto& [name, least, most] :
       {std::tuple{"chief", 1, 1}, std::tuple{"worker", 2, 6}, std::tuple{"ps", 1, 1}}) {
    crds::Role role;
    role.name = name;
    role.min_replicas = least;
    role.max_replicas = most;
    job.spec.roles.push_back(role);
  }
  job.status.assignment.pods = {{"chief", 0, "n", {}, 0},
                                {"worker", 0, "n", {}, 0},
                                {"worker", 1, "n", {}, 0},
                                {"worker", 3, "n", {}, 0},
                                {"ps", 0, "n", {}, 0}};
  EXPECT_EQ(first_rank(job, "worker"), 1);
  EXPECT_EQ(size_of(job, job.spec.roles[1]), 3);
  EXPECT_EQ(first_rank(job, "ps"), 7);
  job.spec.elastic = crds::Elastic{.resize = crds::Resize::kRestart};
  EXPECT_EQ(first_rank(job, "ps"), 4);
}

}  // namespace
}  // namespace muster::reconcilers
