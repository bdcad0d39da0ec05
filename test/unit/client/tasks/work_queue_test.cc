#include "muster/client/work_queue.h"

#include <gtest/gtest.h>

#include <map>

#include "muster/client/testing/virtual_world.h"

namespace muster::client {
namespace {

using namespace std::chrono_literals;
using testing::VirtualWorld;

// Takes keys and works on each for a while, as a runner does.
struct Workshop {
  explicit Workshop(VirtualWorld& w) : world(w), queue(w.env()) {}

  static Task<void> work(Workshop& self, Duration each) {
    while (true) {
      const std::optional<Key> key = co_await self.queue.take();
      if (!key) break;
      EXPECT_EQ(++self.at_once[*key], 1) << *key << " runs twice at the same time";
      self.taken.emplace_back(*key, self.world.clock().now() - TimePoint{});
      if (each.count() > 0) co_await self.world.clock().sleep_for(each);
      --self.at_once[*key];
      self.queue.done(*key);
    }
    ++self.ended;
  }

  std::vector<Key> keys() const {
    std::vector<Key> out;
    for (const auto& [key, when] : taken) out.push_back(key);
    return out;
  }

  VirtualWorld& world;
  WorkQueue queue;
  std::vector<std::pair<Key, Duration>> taken;
  std::map<Key, int> at_once;
  int ended = 0;
};

TEST(WorkQueue, KeysAreQueuedOnceAndInOrder) {
  VirtualWorld world;
  Workshop shop(world);
  for (const char* key : {"a", "b", "a", "c", "b"}) shop.queue.add(key);
  EXPECT_EQ(shop.queue.depth(), 3u);
  world.start(Workshop::work(shop, 0ms));
  world.settle();
  EXPECT_EQ(shop.keys(), (std::vector<Key>{"a", "b", "c"}));
  EXPECT_EQ(shop.queue.depth(), 0u);
}

TEST(WorkQueue, AddedWhileWorkedOnRunsAgainAfterwardsAndNeverAtOnce) {
  VirtualWorld world;
  Workshop shop(world);
  for (int i = 0; i < 4; ++i) world.start(Workshop::work(shop, 10ms));
  shop.queue.add("a");
  world.run_for(1ms);
  EXPECT_EQ(shop.queue.in_work(), 1u);
  shop.queue.add("a");
  shop.queue.add("a");
  EXPECT_EQ(shop.queue.depth(), 0u);
  world.run_for(1s);
  ASSERT_EQ(shop.taken.size(), 2u);
  EXPECT_EQ(shop.taken[1].second, 10ms);
  EXPECT_EQ(shop.queue.in_work(), 0u);
}

TEST(WorkQueue, DelayedKeysTheEarliestWins) {
  VirtualWorld world;
  Workshop shop(world);
  for (int i = 0; i < 3; ++i) world.start(Workshop::work(shop, 0ms));
  world.settle();
  shop.queue.add_after("late", 50ms);
  shop.queue.add_after("a", 30ms);
  shop.queue.add_after("a", 10ms);
  shop.queue.add_after("a", 20ms);
  shop.queue.add_after("now", 0ms);
  world.run_for(1s);
  using P = std::pair<Key, Duration>;
  EXPECT_EQ(shop.taken, (std::vector<P>{{"now", 0ms}, {"a", 10ms}, {"late", 50ms}}));
}

TEST(WorkQueue, WhatIsDelayedCanBeDroppedAndWhatIsReadyStays) {
  VirtualWorld world;
  Workshop shop(world);
  world.start(Workshop::work(shop, 0ms));
  world.settle();
  for (const char* key : {"a", "b"}) shop.queue.add_after(key, 10ms);
  shop.queue.drop_delayed("a");
  shop.queue.drop_delayed("a");
  shop.queue.drop_delayed("unknown");
  shop.queue.add("c");
  shop.queue.drop_delayed("c");
  world.run_for(1s);
  EXPECT_EQ(shop.keys(), (std::vector<Key>{"c", "b"}));
  shop.queue.add_after("a", 10ms);
  world.run_for(1s);
  EXPECT_EQ(shop.keys(), (std::vector<Key>{"c", "b", "a"}));
}

TEST(WorkQueue, BacksOffPerKeyFrom5MsDoublingTo1000s) {
  VirtualWorld world;
  Workshop shop(world);
  world.start(Workshop::work(shop, 0ms));
  std::vector<Duration> waits;
  for (int i = 0; i < 22; ++i) {
    const TimePoint start = world.clock().now();
    const std::size_t before = shop.taken.size();
    shop.queue.add_rate_limited("a");
    ASSERT_TRUE(world.run_until([&] { return shop.taken.size() > before; }));
    waits.push_back(world.clock().now() - start);
  }
  EXPECT_EQ(waits[0], 5ms);
  EXPECT_EQ(waits[1], 10ms);
  EXPECT_EQ(waits[10], 5120ms);
  EXPECT_EQ(waits[17], 655360ms);
  EXPECT_EQ(waits[18], 1000s);
  EXPECT_EQ(waits[21], 1000s);
  shop.queue.forget("a");
  shop.queue.add_rate_limited("a");
  const TimePoint start = world.clock().now();
  ASSERT_TRUE(world.run_until([&] { return shop.taken.size() == 23; }));
  EXPECT_EQ(world.clock().now() - start, 5ms);
}

TEST(WorkQueue, EveryWorkerHasWorkAndCancellationLosesNoKey) {
  VirtualWorld world;
  Workshop shop(world);
  std::vector<std::shared_ptr<boost::asio::cancellation_signal>> signals;
  for (int i = 0; i < 4; ++i) signals.push_back(world.start(Workshop::work(shop, 100ms)));
  world.settle();
  for (int i = 0; i < 4; ++i) shop.queue.add(std::to_string(i));
  world.run_for(1ms);
  EXPECT_EQ(shop.taken.size(), 4u);
  world.run_for(1s);
  // The worker that is woken for a key is cancelled in the same moment: another takes it.
  shop.queue.add("x");
  signals[0]->emit(boost::asio::cancellation_type::terminal);
  world.run_for(1s);
  EXPECT_EQ(shop.taken.size(), 5u);
  EXPECT_EQ(shop.ended, 1);
  // The one who keeps the time for a delayed key is cancelled.
  shop.queue.add_after("y", 5s);
  world.run_for(1s);
  signals[1]->emit(boost::asio::cancellation_type::terminal);
  signals[2]->emit(boost::asio::cancellation_type::terminal);
  world.run_for(10s);
  EXPECT_EQ(shop.taken.size(), 6u);
  EXPECT_EQ(shop.ended, 3);
}

TEST(WorkQueue, ShutDownEndsAllWorkersAndTakesNothingMore) {
  VirtualWorld world;
  Workshop shop(world);
  for (int i = 0; i < 3; ++i) world.start(Workshop::work(shop, 10ms));
  world.settle();
  shop.queue.add_after("later", 1s);
  shop.queue.shut_down();
  shop.queue.add("a");
  world.run_for(10s);
  EXPECT_EQ(shop.ended, 3);
  EXPECT_TRUE(shop.taken.empty());
}

// Against a model: a key added is worked on after its last addition, by one worker at a time.
TEST(WorkQueue, RandomUseNeverLosesOrDoublesAKey) {
  for (std::uint64_t seed = 0; seed < 50; ++seed) {
    VirtualWorld world(seed);
    Workshop shop(world);
    for (int i = 0; i < 3; ++i) world.start(Workshop::work(shop, 7ms));
    std::map<Key, Duration> due;
    for (int i = 0; i < 200; ++i) {
      const Key key = "k" + std::to_string(world.random().below(5));
      const Duration delay{static_cast<std::int64_t>(world.random().below(3) * 10)};
      const Duration at = world.clock().now() - TimePoint{} + delay;
      due[key] = std::max(due[key], at);
      shop.queue.add_after(key, delay);
      world.run_for(Duration{static_cast<std::int64_t>(world.random().below(10))});
    }
    world.run_for(10s);
    std::map<Key, Duration> last;
    for (const auto& [key, when] : shop.taken) last[key] = when;
    for (const auto& [key, at] : due) {
      // Of several delayed additions the earliest wins, so the last run may come before the latest `at`, but
      // never before the addition that asked for it; 20 ms is the longest delay.
      EXPECT_GE(last[key] + 20ms, at) << key << " seed " << seed;
    }
    EXPECT_EQ(shop.queue.depth(), 0u);
    EXPECT_EQ(shop.queue.in_work(), 0u);
  }
}

}  // namespace
}  // namespace muster::client
