// The frame around a reconcile function.
#include "runner.h"

#include <gtest/gtest.h>

#include <set>
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
  runner.start(2);
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
  runner.start(1);
  objects = {"gone"};
  change("gone");
  objects.clear();
  of_gone = Outcome::again(seconds{30});
  change("gone");
  of_gone = Outcome::done();
  world.run_for(hours{15 * 24});
  EXPECT_EQ(reconciled.size(), 3u);
}

}  // namespace
}  // namespace muster::controller
