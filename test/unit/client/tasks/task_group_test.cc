// Who owns what runs: its end is waited for, not hoped for.
#include "muster/client/task_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <memory>
#include <stdexcept>
#include <string>
#include <vector>

#include "muster/client/testing/virtual_world.h"

namespace muster::client {
namespace {

using namespace std::chrono_literals;
using ::testing::ElementsAre;

struct TaskGroupTest : ::testing::Test {
  testing::VirtualWorld world;
  TaskGroup group{world.env().executor};
  std::vector<std::string> heard;

  static Task<void> work(TaskGroupTest* self, std::string name, Duration takes) {
    const bool slept = co_await self->world.clock().sleep_for(takes);
    self->heard.push_back(slept ? name : "-" + name);
  }
  static Task<void> join(TaskGroupTest* self) {
    const bool joined = co_await self->group.join();
    self->heard.push_back(joined ? "joined" : "-joined");
  }
  static Task<void> work_then_start_more(TaskGroupTest* self) {
    co_await self->world.clock().sleep_for(1s);
    self->group.spawn(work(self, "more", 1s));
  }
  static Task<void> fail() {
    throw std::runtime_error("a bug");
    co_return;
  }
};

TEST_F(TaskGroupTest, JoinReturnsWhenTheLastTaskHasEnded) {
  group.spawn(work(this, "a", 2s));
  group.spawn(work(this, "b", 1s));
  world.start(join(this));
  world.run_for(1500ms);
  EXPECT_THAT(heard, ElementsAre("b"));
  EXPECT_EQ(group.size(), 1u);
  world.run_for(1s);
  EXPECT_THAT(heard, ElementsAre("b", "a", "joined"));
  EXPECT_TRUE(group.empty());
}

TEST_F(TaskGroupTest, AnEmptyGroupIsJoinedAtOnceAlsoAfterItHadTasks) {
  EXPECT_TRUE(world.run(group.join()));
  group.spawn(work(this, "a", 1s));
  world.run_for(1s);
  EXPECT_TRUE(world.run(group.join()));
  group.spawn(work(this, "b", 1s));
  EXPECT_TRUE(world.run(group.join()));
  EXPECT_THAT(heard, ElementsAre("a", "b"));
}

TEST_F(TaskGroupTest, WhatATaskStartsInItsGroupIsJoinedToo) {
  group.spawn(work_then_start_more(this));
  EXPECT_TRUE(world.run(group.join()));
  EXPECT_THAT(heard, ElementsAre("more"));
}

TEST_F(TaskGroupTest, CancelEndsTheWaitsOfAllTasksThatRun) {
  group.spawn(work(this, "a", 1h));
  group.spawn(work(this, "b", 1h));
  world.settle();
  group.cancel();
  group.spawn(work(this, "c", 1s));
  EXPECT_TRUE(world.run(group.join(), 2s));
  EXPECT_THAT(heard, ElementsAre("-a", "-b", "c"));
}

TEST_F(TaskGroupTest, JoiningGivesUpAtItsDeadlineAndTheTasksRunOn) {
  group.spawn(work(this, "a", 10s));
  EXPECT_FALSE(world.run(group.join_until(world.clock(), world.clock().now() + 3s)));
  EXPECT_EQ(world.clock().now(), TimePoint{} + 3s);
  EXPECT_EQ(group.size(), 1u);
  EXPECT_TRUE(world.run(group.join_until(world.clock(), world.clock().now() + 30s)));
  EXPECT_EQ(world.clock().now(), TimePoint{} + 10s) << "not at the deadline, when the last has ended";
}

TEST_F(TaskGroupTest, WhoWaitsMayBeCancelledItself) {
  group.spawn(work(this, "a", 10s));
  const auto handle = world.start(join(this));
  world.run_for(1s);
  handle->emit(boost::asio::cancellation_type::terminal);
  world.settle();
  EXPECT_THAT(heard, ElementsAre("-joined"));
  EXPECT_EQ(group.size(), 1u);
}

TEST_F(TaskGroupTest, AnExceptionThatLeavesATaskEndsTheLoopsRunAndTheTask) {
  group.spawn(fail());
  EXPECT_THROW(world.settle(), std::runtime_error);
  EXPECT_TRUE(group.empty());
}

// As where an event loop ends with work left in it.
TEST_F(TaskGroupTest, TasksMayOutliveTheGroup) {
  auto other = std::make_unique<TaskGroup>(world.env().executor);
  other->spawn(work(this, "a", 1s));
  world.settle();
  other.reset();
  world.run_for(1s);
  EXPECT_THAT(heard, ElementsAre("a"));
}

}  // namespace
}  // namespace muster::client
