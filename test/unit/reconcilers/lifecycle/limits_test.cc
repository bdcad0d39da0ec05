// Limits of time, and suspension.
#include "life.h"
#include "muster/reconcilers/lifecycle/lifecycle.h"

namespace muster::reconcilers {
namespace {

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
  EXPECT_EQ(step.wake_at, life.now + minutes{35}) << "it is warned five minutes before the end";
  life.after(minutes{10});
  life.decision = Life::give_back(JobDecision::Kind::kEvict, "PlacesLost", "node-1 is gone");
  life.turn();
  EXPECT_EQ(life.job.status.run_seconds, 30 * 60);
  life.after(hours{3});  // waiting does not count
  life.run();
  life.after(minutes{30} - seconds{1});
  EXPECT_EQ(life.phase(), Phase::kRunning);
  const Step last = life.after(seconds{1});
  EXPECT_EQ(life.phase(), Phase::kFailed);
  EXPECT_EQ(life.reason("Failed"), "MaxRuntimeExceeded");
  EXPECT_EQ(life.is("Stalled"), kTrue) << "what other tools take for a failure";
  EXPECT_EQ(life.reason("Stalled"), "MaxRuntimeExceeded");
  EXPECT_THAT(last.remove, SizeIs(2));
  EXPECT_EQ(life.job.status.run_seconds, 3600);
  expect_quiet(life, "maxRuntime");
}

TEST(Lifecycle, IsWarnedBeforeMaxRuntimeEndsIt) {
  Life life;
  life.job.spec.max_runtime = hours{2};
  life.run();
  EXPECT_EQ(crds::find_condition(life.job.status.conditions, "EndsSoon"), nullptr);
  EXPECT_EQ(life.after(minutes{89}).wake_at, life.now + minutes{1});
  const Step first = life.after(minutes{1});
  ASSERT_THAT(first.notes, SizeIs(1));
  EXPECT_EQ(first.notes[0].reason, "EndsSoon");
  EXPECT_THAT(first.notes[0].text, HasSubstr("after maxRuntime 2h; a longer maxRuntime keeps it"));
  EXPECT_EQ(life.reason("EndsSoon"), "Within30Minutes");
  EXPECT_EQ(first.wake_at, life.now + minutes{25});
  expect_quiet(life, "warned once");
  EXPECT_THAT(life.after(minutes{25}).notes, SizeIs(1));
  EXPECT_EQ(life.reason("EndsSoon"), "Within5Minutes");
  life.job.spec.max_runtime = hours{3};
  EXPECT_THAT(life.turn().notes, IsEmpty());
  EXPECT_EQ(life.is("EndsSoon"), kFalse);
  EXPECT_EQ(life.reason("EndsSoon"), "TimeLeft");
  EXPECT_THAT(life.after(minutes{36}).notes, SizeIs(1)) << "and is warned again";
  life.after(minutes{29});
  EXPECT_EQ(life.phase(), Phase::kFailed);
  EXPECT_EQ(life.is("EndsSoon"), kFalse);
  EXPECT_EQ(life.reason("EndsSoon"), "NotRunning");
  expect_quiet(life, "ended");
}

TEST(Lifecycle, AShortJobIsNotWarnedAtItsStart) {
  for (const int limit : {10, 60}) {
    Life life;
    life.job.spec.max_runtime = minutes{limit};
    life.run();
    EXPECT_EQ(crds::find_condition(life.job.status.conditions, "EndsSoon"), nullptr) << limit;
    const Step late = life.after(minutes{limit} - minutes{4});
    EXPECT_EQ(late.notes.size(), limit == 60 ? 1U : 0U) << limit;
  }
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

}  // namespace
}  // namespace muster::reconcilers
