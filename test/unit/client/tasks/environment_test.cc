// Clocks, randomness, waiters and the in-memory transport: the ground the other tests stand on.
#include "muster/client/environment.h"

#include <gtest/gtest.h>

#include "muster/client/testing/fake_transport.h"
#include "muster/client/testing/virtual_world.h"
#include "muster/client/waiter.h"

namespace muster::client {
namespace {

using namespace std::chrono_literals;
using testing::FakeTransport;
using testing::Fault;
using testing::FaultKind;
using testing::VirtualWorld;

Task<void> note_after(Clock& clock, Duration d, int id, std::vector<int>& order) {
  const bool slept = co_await clock.sleep_for(d);
  order.push_back(slept ? id : -id);
}

TEST(VirtualClock, SleepersWakeInOrderOfTimeThenOfGoingToSleep) {
  VirtualWorld world;
  std::vector<int> order;
  world.start(note_after(world.clock(), 20ms, 1, order));
  world.start(note_after(world.clock(), 10ms, 2, order));
  world.start(note_after(world.clock(), 10ms, 3, order));
  world.run_for(9ms);
  EXPECT_TRUE(order.empty());
  world.run_for(1ms);
  EXPECT_EQ(order, (std::vector{2, 3}));
  world.run_for(1h);
  EXPECT_EQ(order, (std::vector{2, 3, 1}));
  EXPECT_EQ(world.clock().now(), TimePoint{} + 10ms + 1h);
  EXPECT_FALSE(world.clock().advance_to_next());
}

TEST(VirtualClock, CancelledSleepReturnsFalseAtOnceAndLaterSleepsToo) {
  VirtualWorld world;
  std::vector<int> order;
  auto task = [](Clock& clock, std::vector<int>& out) -> Task<void> {
    co_await note_after(clock, 1h, 1, out);
    co_await note_after(clock, 1h, 2, out);
    co_await boost::asio::this_coro::reset_cancellation_state();
    co_await note_after(clock, 5ms, 3, out);
  };
  auto signal = world.start(task(world.clock(), order));
  world.run_for(1ms);
  signal->emit(boost::asio::cancellation_type::terminal);
  world.settle();
  EXPECT_EQ(order, (std::vector{-1, -2}));
  EXPECT_EQ(world.clock().now(), TimePoint{} + 1ms);
  world.run_for(5ms);
  EXPECT_EQ(order, (std::vector{-1, -2, 3}));
}

TEST(VirtualClock, WorldMayEndWithSleepers) {
  std::vector<int> order;
  {
    VirtualWorld world;
    world.start(note_after(world.clock(), 1h, 1, order));
    world.settle();
  }
  EXPECT_TRUE(order.empty());
}

TEST(RealClock, SleepsAtLeastAsLongAsAsked) {
  boost::asio::io_context io;
  RealClock clock;
  const TimePoint start = clock.now();
  bool slept = false;
  auto task = [](RealClock& c, bool& out) -> Task<void> { out = co_await c.sleep_for(20ms); };
  spawn(io.get_executor(), task(clock, slept));
  io.run();
  EXPECT_TRUE(slept);
  EXPECT_GE(clock.now() - start, 20ms);
}

TEST(RealClock, CancelledSleepReturnsFalse) {
  boost::asio::io_context io;
  RealClock clock;
  boost::asio::cancellation_signal signal;
  int woke = -1;
  auto task = [](RealClock& c, int& out) -> Task<void> {
    const bool slept = co_await c.sleep_until(TimePoint::max());
    out = slept ? 1 : 0;
  };
  spawn(io.get_executor(), task(clock, woke), &signal);
  io.poll();
  signal.emit(boost::asio::cancellation_type::terminal);
  io.restart();
  io.poll();
  EXPECT_EQ(woke, 0);
}

TEST(RandomSource, RepeatsForASeedAndKeepsItsBounds) {
  RandomSource a(7), b(7), c(8);
  bool differs = false;
  for (int i = 0; i < 1000; ++i) {
    const auto x = a.below(10);
    EXPECT_EQ(x, b.below(10));
    EXPECT_LT(x, 10u);
    differs |= x != c.below(10);
  }
  EXPECT_TRUE(differs);
  bool low = false, high = false;
  for (int i = 0; i < 1000; ++i) {
    const Duration d = a.between(3ms, 5ms);
    EXPECT_GE(d, 3ms);
    EXPECT_LE(d, 5ms);
    low |= d == 3ms;
    high |= d == 5ms;
    const Duration j = a.jittered(100ms, 20);
    EXPECT_GE(j, 100ms);
    EXPECT_LE(j, 120ms);
  }
  EXPECT_TRUE(low && high);
}

TEST(Waiter, NotificationBeforeDeadlineOrCancellation) {
  VirtualWorld world;
  Waiter waiter(world.env().executor);
  std::vector<Wake> woken;
  auto task = [](Waiter& w, Clock& clock, std::vector<Wake>& out) -> Task<void> {
    for (int i = 0; i < 3; ++i) out.push_back(co_await w.wait_until(clock, clock.now() + 10ms));
  };
  auto signal = world.start(task(waiter, world.clock(), woken));
  world.run_for(10ms);
  EXPECT_EQ(woken, (std::vector{Wake::kTimeout}));
  waiter.notify();
  waiter.notify();
  world.settle();
  EXPECT_EQ(woken, (std::vector{Wake::kTimeout, Wake::kNotified}));
  signal->emit(boost::asio::cancellation_type::terminal);
  world.settle();
  EXPECT_EQ(woken, (std::vector{Wake::kTimeout, Wake::kNotified, Wake::kCancelled}));
  EXPECT_FALSE(waiter.notified());
}

HttpRequest get_of(std::string target) {
  HttpRequest request;
  request.target = std::move(target);
  return request;
}

TEST(FakeTransport, ScriptThenHandlerWithLatencyInVirtualTime) {
  VirtualWorld world;
  FakeTransport transport(world.env());
  transport.set_latency(10ms, 10ms);
  transport.enqueue_json(201, "scripted");
  transport.set_handler([](const HttpRequest& request) {
    HttpResponse response;
    response.status = 200;
    response.body = "handled " + request.target;
    return response;
  });
  auto first = world.run(transport.round_trip(get_of("/a"), 1s));
  ASSERT_TRUE(first);
  EXPECT_EQ(first->body, "scripted");
  EXPECT_EQ(world.clock().now(), TimePoint{} + 10ms);
  auto second = world.run(transport.round_trip(get_of("/b"), 1s));
  ASSERT_TRUE(second);
  EXPECT_EQ(second->body, "handled /b");
  EXPECT_EQ(transport.requests().size(), 2u);
  EXPECT_EQ(transport.in_flight(), 0u);
}

TEST(FakeTransport, FaultsSayWhetherTheServerExecuted) {
  struct Case {
    FaultKind kind;
    bool executed;
    ErrorCode code;
  };
  for (const Case c : {Case{FaultKind::kNotSent, false, ErrorCode::kNotSent},
                       Case{FaultKind::kLostBefore, false, ErrorCode::kUnknownOutcome},
                       Case{FaultKind::kLostAfter, true, ErrorCode::kUnknownOutcome},
                       Case{FaultKind::kHangBefore, false, ErrorCode::kDeadline},
                       Case{FaultKind::kHangAfter, true, ErrorCode::kDeadline}}) {
    VirtualWorld world;
    FakeTransport transport(world.env());
    int executed = 0;
    transport.set_handler([&](const HttpRequest&) { return ++executed, HttpResponse{}; });
    transport.set_fault_hook([&](const HttpRequest&) {
      Fault fault;
      fault.kind = c.kind;
      return fault;
    });
    auto result = world.run(transport.round_trip(get_of("/"), 1s));
    ASSERT_FALSE(result);
    EXPECT_EQ(result.error().code, c.code);
    EXPECT_EQ(executed, c.executed ? 1 : 0);
  }
}

TEST(FakeTransport, StreamsPieceByPieceIdleDeadlineAndEnd) {
  VirtualWorld world;
  FakeTransport transport(world.env());
  auto server = transport.enqueue_stream();
  auto opened = world.run(transport.open(get_of("/watch"), 1s));
  ASSERT_TRUE(opened);
  EXPECT_EQ(opened->status, 200);
  EXPECT_EQ(transport.open_streams(), 1u);
  server->push("one");
  server->push("two");
  EXPECT_EQ(world.run(opened->body->next(1s)).value(), "one");
  EXPECT_EQ(world.run(opened->body->next(1s)).value(), "two");
  EXPECT_EQ(world.run(opened->body->next(1s)).error().code, ErrorCode::kDeadline);
  EXPECT_EQ(world.clock().now(), TimePoint{} + 1s);
  server->finish();
  EXPECT_EQ(world.run(opened->body->next(1s)).value(), "");
  EXPECT_FALSE(server->client_gone());
  opened->body.reset();
  EXPECT_TRUE(server->client_gone());
  EXPECT_EQ(transport.open_streams(), 0u);
}

}  // namespace
}  // namespace muster::client
