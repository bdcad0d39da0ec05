// Programs that fail, and servers that end.
#include "life.h"
#include "muster/reconcilers/lifecycle/lifecycle.h"

namespace muster::reconcilers {
namespace {

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

// It was admitted, and never came up: whoever waits for its GPUs does not wait for ever.
TEST(Server, ThatNeverComesUpGivesItsGpusBackAtItsStartTimeoutAndWaitsLongerEachTime) {
  Life life(1);
  life.serves = true;
  life.job.spec.start_timeout = minutes{10};
  std::vector<std::int64_t> held, waits;
  for (int n = 0; n < 3; ++n) {
    life.admit();
    const auto admitted = life.now;
    int tries = 0;
    for (; life.job.status.assignment.attempt != 0 && life.now < admitted + hours{2};
         life.after(seconds{1})) {
      if (life.pods.empty()) continue;
      ++tries;
      life.now += seconds{20};
      const auto name = life.names().at(0);
      life.end(name, PodPhase::kFailed, 1);
      life.change(name, [](client::Pod& p) { p.ended[0].message = "HTTPError: 401 Client Error"; });
    }
    EXPECT_GT(tries, 1) << n;
    held.push_back((life.now - admitted).count());
    EXPECT_EQ(life.reason("Evicted"), "StartTimeout");
    life.turn();
    EXPECT_EQ(life.reason("PodsReady"), "ModelNotAvailable") << "what is wrong, also while it waits";
    EXPECT_THAT(life.message("PodsReady"), HasSubstr("startTimeout 10m is used up"));
    EXPECT_THAT(life.message("PodsReady"), HasSubstr("pod llama-worker-0-"));
    EXPECT_EQ(life.job.status.queue.reason, "BackingOff");
    ASSERT_TRUE(life.job.status.retry_at);
    life.pods.clear();
    const auto since = life.now;
    while (!life.turn().wants_place && life.now < since + hours{1}) life.now += seconds{1};
    waits.push_back((life.now - since).count());
  }
  for (const auto seconds_held : held) EXPECT_LE(seconds_held, 600);
  EXPECT_GT(held[0], 300);
  EXPECT_LT(waits[0], waits[1]);
  EXPECT_LT(waits[1], waits[2]);
}

TEST(Server, ThatHasServedIsTriedForAWholeStartTimeoutAgain) {
  Life life(1);
  life.serves = true;
  life.job.spec.start_timeout = minutes{10};
  life.admit();
  life.all_ready();
  life.turn();
  life.after(hours{3});
  life.fail(life.names().at(0));
  life.turn();
  EXPECT_EQ(life.reason("PodsReady"), "Restarting");
  life.turn();
  life.after(minutes{9});
  life.fail(life.names().at(0));
  life.turn();
  EXPECT_NE(life.job.status.assignment.attempt, 0) << "9 of its 10 minutes";
  EXPECT_EQ(life.reason("PodsReady"), "ProgramFailsAtStart");
  life.after(minutes{1});
  EXPECT_EQ(life.job.status.assignment.attempt, 0);
}

TEST(Server, WhoseImageCannotBePulledSaysSoAtOnceAndOnlyOnce) {
  Life life(1);
  life.serves = true;
  life.admit();
  const auto name = life.names().at(0);
  const auto say = [&](const char* reason, const char* message) {
    life.change(name, [&](client::Pod& p) {
      p.waiting_reason = reason;
      p.waiting_message = message;
    });
    return life.turn();
  };
  say("ErrImagePull", "serve:2: not found");
  EXPECT_EQ(life.reason("PodsReady"), "ImageNotPulled");
  EXPECT_THAT(life.message("PodsReady"), HasSubstr("ErrImagePull: serve:2: not found"));
  const auto before = life.job.status;
  say("ImagePullBackOff", "Back-off pulling image");
  EXPECT_EQ(life.job.status, before) << "kubelet says it in two ways, in turns";
  say("", "");
  EXPECT_EQ(life.reason("PodsReady"), "Starting");
  say("ErrImagePull", "serve:2: not found");
  life.after(minutes{31});
  EXPECT_EQ(life.job.status.assignment.attempt, 0);
  EXPECT_EQ(life.reason("PodsReady"), "ImageNotPulled");
}

}  // namespace
}  // namespace muster::reconcilers
