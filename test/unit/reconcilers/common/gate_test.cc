// Who may go when: in the order of coming, never more at once than there is room, and nothing lost when one
// who waits goes away.
#include "muster/reconcilers/common/gate.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "muster/client/testing/virtual_world.h"

namespace muster::reconcilers {
namespace {

using ::testing::ElementsAre;

struct GateTest : testing::Test {
  client::testing::VirtualWorld world;
  Gate gate{world.env().executor, 10};
  std::vector<std::string> heard;  // "a": entered; "-a": turned away

  static client::Task<void> enter(GateTest* self, std::string name, std::size_t n) {
    const bool entered = co_await self->gate.enter(n);
    self->heard.push_back(entered ? name : "-" + name);
  }
  // Starts one who asks for `n`; the handle cancels it.
  std::shared_ptr<boost::asio::cancellation_signal> come(std::string name, std::size_t n) {
    auto handle = world.start(enter(this, std::move(name), n));
    world.settle();
    return handle;
  }
  void leave(std::size_t n) {
    gate.leave(n);
    world.settle();
  }
  void cancel(boost::asio::cancellation_signal& handle) {
    handle.emit(boost::asio::cancellation_type::terminal);
    world.settle();
  }
};

TEST_F(GateTest, AsManyAtOnceAsThereIsRoom) {
  come("a", 6);
  come("b", 4);
  come("c", 1);
  EXPECT_THAT(heard, ElementsAre("a", "b"));
  leave(4);
  EXPECT_THAT(heard, ElementsAre("a", "b", "c"));
}

TEST_F(GateTest, NobodyOvertakesThoughThereWouldBeRoom) {
  come("a", 6);
  come("big", 8);
  come("small", 1);
  EXPECT_THAT(heard, ElementsAre("a")) << "small fits, but big came first";
  leave(6);
  EXPECT_THAT(heard, ElementsAre("a", "big", "small"));
}

TEST_F(GateTest, AllThatFitGoAtOnceInTheOrderOfComing) {
  come("a", 10);
  come("b", 3);
  come("c", 3);
  come("d", 5);
  come("e", 1);
  leave(10);
  EXPECT_THAT(heard, ElementsAre("a", "b", "c")) << "6 of 10 are taken; d wants 5, e waits behind it";
  leave(3);
  EXPECT_THAT(heard, ElementsAre("a", "b", "c", "d", "e"));
}

TEST_F(GateTest, WhatIsMoreThanTheRoomTakesAllOfIt) {
  come("huge", 1000);
  come("next", 1);
  EXPECT_THAT(heard, ElementsAre("huge"));
  leave(1000);
  EXPECT_THAT(heard, ElementsAre("huge", "next"));
  come("rest", 9);
  EXPECT_THAT(heard, ElementsAre("huge", "next", "rest")) << "huge gave back what it had taken and no more";
  come("more", 1);
  EXPECT_THAT(heard, ElementsAre("huge", "next", "rest"));
}

TEST_F(GateTest, WhoIsCancelledWhileWaitingTakesNothing) {
  come("a", 10);
  const auto b = come("b", 10);
  come("c", 10);
  cancel(*b);
  EXPECT_THAT(heard, ElementsAre("a", "-b"));
  leave(10);
  EXPECT_THAT(heard, ElementsAre("a", "-b", "c"));
}

// The one at the head wanted more than was free; those behind it need not.
TEST_F(GateTest, WhoWaitsBehindACancelledOneGoesAtOnceIfItFits) {
  come("a", 6);
  const auto big = come("big", 8);
  come("b", 2);
  come("c", 2);
  come("d", 1);
  cancel(*big);
  EXPECT_THAT(heard, ElementsAre("a", "-big", "b", "c"));
  leave(6);
  EXPECT_THAT(heard, ElementsAre("a", "-big", "b", "c", "d"));
}

// Room that was given to it in the very moment of its cancellation is handed on, or the gate would
// shut for ever.
TEST_F(GateTest, RoomGivenToACancelledOneIsNotLost) {
  come("a", 10);
  const auto b = come("b", 10);
  come("c", 10);
  gate.leave(10);  // b has it, and has not run yet
  cancel(*b);
  leave(heard.back() == "b" ? 10 : 0);
  EXPECT_EQ(heard.back(), "c");
}

TEST_F(GateTest, WhoIsCancelledBeforeItAskedGoesAwayEmptyHanded) {
  come("a", 10);
  auto handle = world.start(enter(this, "b", 1));
  handle->emit(boost::asio::cancellation_type::terminal);
  world.settle();
  EXPECT_THAT(heard, ElementsAre("a", "-b"));
  leave(10);
  come("c", 10);
  EXPECT_THAT(heard, ElementsAre("a", "-b", "c"));
}

}  // namespace
}  // namespace muster::reconcilers
