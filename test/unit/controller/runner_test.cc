// The frame around a reconcile function.
#include "process/runner.h"

#include <gmock/gmock.h>

#include <map>
#include <set>
#include <stdexcept>
#include <string>
#include <vector>

#include "muster/client/testing/virtual_world.h"

namespace muster::controller {
namespace {

using client::Duration;
using client::Key;
using reconcilers::Outcome;
using std::chrono::hours;
using std::chrono::seconds;

// Objects that want to be looked at again in two weeks, as a job with a long maxRuntime does.
struct RunnerTest : testing::Test {
  client::testing::VirtualWorld world;
  Metrics metrics;
  std::set<Key> objects;
  std::vector<Key> reconciled;
  Outcome of_gone = Outcome::done();
  client::TaskGroup workers{world.env().executor};
  Runner runner{world.env(), metrics, "thing", [this](Key key) { return reconcile(*this, std::move(key)); },
                [this](const Key& key) { return objects.contains(key); }};

  ~RunnerTest() override {
    runner.stop();
    world.settle();
  }
  static client::Task<Outcome> reconcile(RunnerTest& self, Key key) {
    self.reconciled.push_back(key);
    if (self.objects.contains(key)) co_return Outcome::again(hours{14 * 24});
    co_return self.of_gone;
  }
  void change(const Key& key) {
    runner.add(key);
    world.settle();
  }
};

TEST_F(RunnerTest, WhatAnObjectThatIsGoneWaitedForIsDropped) {
  runner.start(workers, 2);
  objects = {"kept", "gone"};
  change("kept");
  change("gone");
  objects.erase("gone");
  change("gone");
  EXPECT_EQ(reconciled, (std::vector<Key>{"kept", "gone", "gone"}));
  world.run_for(hours{15 * 24});
  EXPECT_EQ(reconciled, (std::vector<Key>{"kept", "gone", "gone", "kept"}));
}

TEST_F(RunnerTest, WhatIsStillToBeDoneForOneThatIsGoneIsWaitedFor) {
  runner.start(workers, 1);
  objects = {"gone"};
  change("gone");
  objects.clear();
  of_gone = Outcome::again(seconds{30});
  change("gone");
  of_gone = Outcome::done();
  world.run_for(hours{15 * 24});
  EXPECT_EQ(reconciled.size(), 3u);
}

// What a reconcile throws costs its object an error, and the others nothing.
struct ThrowingTest : testing::Test {
  client::testing::VirtualWorld world;
  Metrics metrics;
  client::TaskGroup workers{world.env().executor};
  std::map<Key, int> tries;
  std::vector<std::string> said;  // "key: what was thrown"
  Runner runner{
      world.env(),
      metrics,
      "thing",
      [this](Key key) { return reconcile(*this, std::move(key)); },
      [](const Key&) { return true; },
      [this](Key key, std::string thrown) { return say(*this, std::move(key), std::move(thrown)); }};

  ~ThrowingTest() override {
    runner.stop();
    world.settle();
    EXPECT_TRUE(workers.empty());
  }
  static client::Task<Outcome> reconcile(ThrowingTest& self, Key key) {
    const int tried = ++self.tries[key];
    if (key == "odd") throw 7;
    if (key == "bad" && tried <= 3) {
      co_await self.world.clock().sleep_for(client::Duration{1});
      throw std::runtime_error("no such thing");
    }
    co_return Outcome::done();
  }
  static client::Task<void> say(ThrowingTest& self, Key key, std::string thrown) {
    co_await self.world.clock().sleep_for(client::Duration{1});
    self.said.push_back(key + ": " + thrown);
    if (key == "mute") throw std::runtime_error("cannot even say so");
  }
};

TEST_F(ThrowingTest, TheObjectIsTriedAgainAfterItsBackOffAndTheOthersGoOn) {
  runner.start(workers, 1);
  for (const char* key : {"bad", "good"}) runner.add(key);
  world.run_for(seconds{1});
  EXPECT_EQ(said, (std::vector<std::string>{"bad: no such thing", "good: ", "bad: no such thing",
                                            "bad: no such thing", "bad: "}));
  EXPECT_EQ(tries["bad"], 4);
  EXPECT_THAT(metrics.text(),
              testing::HasSubstr("controller_runtime_reconcile_panics_total{controller=\"thing\"} 3"));
}

TEST_F(ThrowingTest, WhateverIsThrownAndWhereverItIsThrown) {
  runner.start(workers, 2);
  for (const char* key : {"odd", "mute", "good"}) runner.add(key);
  world.run_for(Duration{4});
  EXPECT_EQ(tries, (std::map<Key, int>{{"odd", 1}, {"mute", 1}, {"good", 1}}));
  EXPECT_EQ(workers.size(), 2u);
}

TEST_F(ThrowingTest, WhatCouldNotBeTakenInIsTakenInBeforeTheNextReconcile) {
  runner.start(workers, 1);
  int taken_in = 0;
  runner.take_in_again("good", [&] {
    if (++taken_in < 3) throw std::runtime_error("cannot be taken in");
  });
  world.run_for(seconds{1});
  EXPECT_EQ(said,
            (std::vector<std::string>{"good: cannot be taken in", "good: cannot be taken in", "good: "}));
  EXPECT_EQ(taken_in, 3);
  EXPECT_EQ(tries["good"], 1) << "only when others know it as it is";
  EXPECT_TRUE(runner.is_taken_in("good"));
  runner.add("good");
  world.run_for(seconds{1});
  EXPECT_EQ(taken_in, 3);
  EXPECT_EQ(tries["good"], 2);
}

TEST_F(ThrowingTest, WhatAHandlerHasTakenInMeanwhileIsNotTakenInAgain) {
  runner.start(workers, 1);
  runner.take_in_again("good", [] { throw std::runtime_error("cannot be taken in"); });
  world.run_for(Duration{3});
  EXPECT_FALSE(runner.is_taken_in("good"));
  runner.taken_in("good");
  world.run_for(seconds{1});
  EXPECT_EQ(tries["good"], 1);
  EXPECT_EQ(said.back(), "good: ");
}

TEST_F(ThrowingTest, AnObjectThatMakesAPlanThrowIsLeftAloneLongerEachTime) {
  runner.start(workers, 1);
  runner.threw("good", "no place");
  world.run_for(seconds{4});
  runner.add("good");  // a change of it
  world.run_for(Duration{500});
  EXPECT_EQ(tries["good"], 0);
  EXPECT_EQ(said.front(), "good: no place");
  world.run_for(seconds{1});
  EXPECT_EQ(tries["good"], 1) << "after 5 s, without a change";
  EXPECT_EQ(said.back(), "good: ");
  runner.threw("good", "no place");
  world.run_for(seconds{9});
  EXPECT_EQ(tries["good"], 1);
  world.run_for(seconds{2});
  EXPECT_EQ(tries["good"], 2) << "after 10 s";
  EXPECT_THAT(metrics.text(),
              testing::HasSubstr("controller_runtime_reconcile_panics_total{controller=\"thing\"} 2"));
}

}  // namespace
}  // namespace muster::controller
