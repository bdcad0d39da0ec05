// Who gets a permit when: in the order of coming, never more units at once than there are, and none lost when
// somebody who waits goes away.
#include "muster/client/semaphore.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "muster/client/testing/virtual_world.h"

namespace muster::client {
namespace {

using ::testing::ElementsAre;

struct SemaphoreTest : ::testing::Test {
  testing::VirtualWorld world;
  Semaphore semaphore{world.env().executor, 10};
  std::vector<std::string> heard;  // "a": has its permit; "-a": turned away
  std::map<std::string, Semaphore::Permit> held;

  static Task<void> acquire(SemaphoreTest* self, std::string name, std::size_t units) {
    auto permit = co_await self->semaphore.acquire(units);
    self->heard.push_back(permit ? name : "-" + name);
    if (permit) self->held[name] = std::move(permit);
  }
  // Starts one who asks for `units`; the handle cancels it.
  std::shared_ptr<boost::asio::cancellation_signal> come(std::string name, std::size_t units) {
    auto handle = world.start(acquire(this, std::move(name), units));
    world.settle();
    return handle;
  }
  void leave(const std::string& name) {
    held.erase(name);
    world.settle();
  }
  void cancel(boost::asio::cancellation_signal& handle) {
    handle.emit(boost::asio::cancellation_type::terminal);
    world.settle();
  }
};

TEST_F(SemaphoreTest, AsManyAtOnceAsThereIsRoom) {
  come("a", 6);
  come("b", 4);
  come("c", 1);
  EXPECT_THAT(heard, ElementsAre("a", "b"));
  leave("b");
  EXPECT_THAT(heard, ElementsAre("a", "b", "c"));
}

TEST_F(SemaphoreTest, NobodyOvertakesThoughThereWouldBeRoom) {
  come("a", 6);
  come("big", 8);
  come("small", 1);
  EXPECT_THAT(heard, ElementsAre("a")) << "small fits, but big came first";
  leave("a");
  EXPECT_THAT(heard, ElementsAre("a", "big", "small"));
}

TEST_F(SemaphoreTest, AllThatFitGoAtOnceInTheOrderOfComing) {
  come("a", 10);
  come("b", 3);
  come("c", 3);
  come("d", 5);
  come("e", 1);
  leave("a");
  EXPECT_THAT(heard, ElementsAre("a", "b", "c")) << "6 of 10 are taken; d wants 5, e waits behind it";
  leave("b");
  EXPECT_THAT(heard, ElementsAre("a", "b", "c", "d", "e"));
}

TEST_F(SemaphoreTest, WhatIsMoreThanTheRoomTakesAllOfIt) {
  come("huge", 1000);
  come("next", 1);
  EXPECT_THAT(heard, ElementsAre("huge"));
  leave("huge");
  EXPECT_THAT(heard, ElementsAre("huge", "next"));
  come("rest", 9);
  EXPECT_THAT(heard, ElementsAre("huge", "next", "rest")) << "huge gave back what it had taken and no more";
  come("more", 1);
  EXPECT_THAT(heard, ElementsAre("huge", "next", "rest"));
}

TEST_F(SemaphoreTest, WhoIsCancelledWhileWaitingTakesNothing) {
  come("a", 10);
  const auto b = come("b", 10);
  come("c", 10);
  cancel(*b);
  EXPECT_THAT(heard, ElementsAre("a", "-b"));
  leave("a");
  EXPECT_THAT(heard, ElementsAre("a", "-b", "c"));
}

// The one at the head wanted more than was free; those behind it need not.
TEST_F(SemaphoreTest, WhoWaitsBehindACancelledOneGoesAtOnceIfItFits) {
  come("a", 6);
  const auto big = come("big", 8);
  come("b", 2);
  come("c", 2);
  come("d", 1);
  cancel(*big);
  EXPECT_THAT(heard, ElementsAre("a", "-big", "b", "c"));
  leave("a");
  EXPECT_THAT(heard, ElementsAre("a", "-big", "b", "c", "d"));
}

// Room that was given to it in the very moment of its cancellation is handed on, or the semaphore would
// shut for ever.
TEST_F(SemaphoreTest, RoomGivenToACancelledOneIsNotLost) {
  come("a", 10);
  const auto b = come("b", 10);
  come("c", 10);
  held.erase("a");  // b has it, and has not run yet
  cancel(*b);
  if (heard.back() == "b") leave("b");
  EXPECT_EQ(heard.back(), "c");
}

TEST_F(SemaphoreTest, WhoIsCancelledBeforeItAskedGoesAwayEmptyHanded) {
  come("a", 10);
  auto handle = world.start(acquire(this, "b", 1));
  handle->emit(boost::asio::cancellation_type::terminal);
  world.settle();
  EXPECT_THAT(heard, ElementsAre("a", "-b"));
  leave("a");
  come("c", 10);
  EXPECT_THAT(heard, ElementsAre("a", "-b", "c"));
}

TEST_F(SemaphoreTest, FewerUnitsLetNobodyInUntilEnoughAreBackAndMoreLetThoseWhoWaitIn) {
  come("a", 6);
  come("b", 4);
  semaphore.set_capacity(5);
  come("c", 2);
  leave("b");
  EXPECT_THAT(heard, ElementsAre("a", "b")) << "a alone has more than there are now";
  leave("a");
  EXPECT_THAT(heard, ElementsAre("a", "b", "c"));
  come("huge", 9);
  semaphore.set_capacity(11);
  world.settle();
  EXPECT_THAT(heard, ElementsAre("a", "b", "c", "huge"));
}

TEST_F(SemaphoreTest, WhoWaitsForMoreThanIsLeftOfTheCapacityTakesAllOfIt) {
  come("a", 10);
  come("big", 8);
  come("next", 1);
  semaphore.set_capacity(5);
  leave("a");
  EXPECT_THAT(heard, ElementsAre("a", "big"));
  leave("big");
  EXPECT_THAT(heard, ElementsAre("a", "big", "next"));
}

TEST_F(SemaphoreTest, APermitMayOutliveItsSemaphore) {
  auto other = std::make_unique<Semaphore>(world.env().executor, 1);
  Semaphore::Permit permit = world.run(other->acquire());
  EXPECT_TRUE(permit);
  other.reset();
  permit.release();
  EXPECT_FALSE(permit);
}

}  // namespace
}  // namespace muster::client
