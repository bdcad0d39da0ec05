// Pods and places that the cluster takes away.
#include "life.h"
#include "muster/reconcilers/lifecycle/lifecycle.h"

namespace muster::reconcilers {
namespace {

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
// Its object was made anew from a backup, an hour after the backup; there are no pods.
TEST(Lifecycle, ARestoredJobQueuesAgainAndCountsNothingOfTheTimeWithoutACluster) {
  Life life;
  life.job.spec.max_runtime = minutes{30};
  life.run();
  life.now += minutes{10};
  const std::int64_t run_before = life.job.status.run_seconds;
  const auto disruption_before = life.job.status.disruption;
  life.pods.clear();
  life.job.metadata.creation_timestamp = life.now + hours{1};
  life.now += hours{1} + seconds{5};
  life.turn();
  EXPECT_EQ(life.job.status.assignment.attempt, 0);
  EXPECT_EQ(life.reason("Evicted"), "PodLost");
  EXPECT_EQ(life.phase(), Phase::kQueued) << "its maxRuntime has not passed";
  EXPECT_EQ(life.job.status.run_seconds, run_before + 5);
  EXPECT_LE(life.job.status.disruption.lost_owed, disruption_before.lost_owed + 4 * 5);
  EXPECT_LE(life.job.status.disruption.ran, disruption_before.ran + 4 * 5);
}

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

  life.decision = life.place(JobDecision::Kind::kReplace);
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
  life.decision = life.place(JobDecision::Kind::kReplace);
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
  life.decision = Life::give_back(JobDecision::Kind::kEvict, "PlacesLost", "no node for worker-0");
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

}  // namespace
}  // namespace muster::reconcilers
