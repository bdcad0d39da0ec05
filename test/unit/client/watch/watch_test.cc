// The watcher's transitions, one fault at a time.
#include "muster/client/watch.h"

#include <gmock/gmock.h>
#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <sstream>

#include "muster/client/testing/virtual_world.h"
#include "watch/fake_collection.h"

namespace muster::client {
namespace {

using namespace std::chrono_literals;
using namespace testing;

// A Watcher against scripted answers; what it says is written down.
struct Rig {
  VirtualWorld world;
  FakeTransport transport{world.env()};
  ApiClient api;
  std::string said;
  Watcher watcher;

  explicit Rig(WatcherOptions options = {}, ApiOptions api_options = no_repeats())
      : api(world.env(), transport, api_options),
        watcher(api, kThings, options, [this](const WatchEvent& e) { note(e); }) {}

  static ApiOptions no_repeats() {
    ApiOptions o;
    o.max_repeats = 0;
    return o;
  }
  void note(const WatchEvent& e) {
    const auto name = [](std::string_view json) {
      return decode_meta(json)->name + "@" + decode_meta(json)->resource_version;
    };
    if (std::holds_alternative<InitBegin>(e)) said += "{ ";
    if (const auto* i = std::get_if<InitApply>(&e)) said += name(i->json) + " ";
    if (const auto* d = std::get_if<InitDone>(&e)) said += "}" + std::string{d->resource_version} + " ";
    if (const auto* a = std::get_if<Applied>(&e)) said += "+" + name(a->json) + " ";
    if (const auto* r = std::get_if<Removed>(&e)) said += "-" + name(r->json) + " ";
    if (const auto* b = std::get_if<Bookmark>(&e)) said += "b" + std::string{b->resource_version} + " ";
  }
  std::string take() { return std::exchange(said, {}); }
  Duration step() { return world.run(watcher.step()); }
  const std::string& last_target() const { return transport.requests().back().target; }
  // Through the streaming list to kWatching at version 10.
  std::shared_ptr<FakeStream> watching() {
    auto stream = transport.enqueue_stream();
    stream->push(event_line("ADDED", object("a", 5)) + bookmark_line(10, true));
    step();
    step();
    EXPECT_EQ(watcher.state(), WatchState::kWatching);
    EXPECT_EQ(take(), "{ a@5 }10 ");
    return stream;
  }
  static std::string object(const std::string& name, int version) {
    Meta meta{"ns", name, "u-" + name, std::to_string(version)};
    return thing_json(meta, 1);
  }
};

// What is logged while it lives, one line a message: level and text.
class Log {
 public:
  Log() : before_(spdlog::default_logger()) {
    auto logger =
        std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_st>(text_));
    logger->set_pattern("%l %v");
    spdlog::set_default_logger(std::move(logger));
  }
  ~Log() { spdlog::set_default_logger(before_); }
  Log(const Log&) = delete;
  Log& operator=(const Log&) = delete;

  std::vector<std::string> lines() const {
    std::vector<std::string> out;
    std::istringstream in(text_.str());
    for (std::string line; std::getline(in, line);) out.push_back(line);
    return out;
  }

 private:
  std::ostringstream text_;
  std::shared_ptr<spdlog::logger> before_;
};

void expect_back_off(Duration d, Duration low) {
  EXPECT_GE(d, low);
  EXPECT_LE(d, low * 3 / 2);
}

TEST(Watcher, StreamingListThenWatchOnTheSameStream) {
  Rig rig;
  auto stream = rig.transport.enqueue_stream();
  EXPECT_EQ(rig.watcher.state(), WatchState::kEmpty);
  EXPECT_EQ(rig.step(), 0ms);
  EXPECT_EQ(rig.watcher.state(), WatchState::kInitialWatch);
  const std::string& target = rig.last_target();
  for (const char* part : {"watch=true", "sendInitialEvents=true", "resourceVersionMatch=NotOlderThan",
                           "allowWatchBookmarks=true", "timeoutSeconds="}) {
    EXPECT_NE(target.find(part), std::string::npos) << part;
  }
  const int seconds = std::stoi(FakeCollection::parameter(target, "timeoutSeconds"));
  EXPECT_GE(seconds, 300);
  EXPECT_LE(seconds, 600);
  stream->push(event_line("ADDED", Rig::object("a", 3)) + event_line("ADDED", Rig::object("b", 4)));
  stream->push(event_line("MODIFIED", Rig::object("b", 6)) + event_line("DELETED", Rig::object("a", 7)) +
               bookmark_line(5, false));
  stream->push(bookmark_line(10, true) + event_line("ADDED", Rig::object("c", 11)));
  rig.step();
  rig.step();
  rig.step();
  EXPECT_EQ(rig.watcher.state(), WatchState::kWatching);
  EXPECT_EQ(rig.take(), "{ a@3 b@4 b@6 -a@7 }10 ");
  EXPECT_EQ(rig.watcher.resource_version(), "10");
  rig.step();  // what came in one piece with the bookmark
  EXPECT_EQ(rig.take(), "+c@11 ");
  stream->push(event_line("DELETED", Rig::object("c", 12)) + bookmark_line(20, false));
  rig.step();
  EXPECT_EQ(rig.take(), "-c@12 b20 ");
  EXPECT_EQ(rig.watcher.resource_version(), "20");
  EXPECT_EQ(rig.transport.requests().size(), 1u);
  EXPECT_EQ(rig.watcher.stats().errors, 0u);
}

TEST(Watcher, PagedListOf500WhereStreamingIsRefused) {
  for (const int refusal : {400, 422}) {
    Rig rig;
    rig.transport.enqueue_json(refusal, status_json(refusal, refusal == 400 ? "BadRequest" : "Invalid"));
    EXPECT_EQ(rig.step(), 0ms);
    EXPECT_EQ(rig.watcher.state(), WatchState::kEmpty);
    rig.step();
    EXPECT_EQ(rig.watcher.state(), WatchState::kListing);
    rig.transport.enqueue_json(200, R"({"metadata":{"resourceVersion":"8","continue":"t"},"items":[)" +
                                        Rig::object("a", 1) + "," + Rig::object("b", 2) + "]}");
    rig.step();
    EXPECT_EQ(FakeCollection::parameter(rig.last_target(), "limit"), "500");
    EXPECT_EQ(rig.watcher.state(), WatchState::kListing);
    rig.transport.enqueue_json(
        200, R"({"metadata":{"resourceVersion":"8"},"items":[)" + Rig::object("c", 3) + "]}");
    rig.step();
    EXPECT_EQ(FakeCollection::parameter(rig.last_target(), "continue"), "t");
    EXPECT_EQ(rig.watcher.state(), WatchState::kListed);
    EXPECT_EQ(rig.take(), "{ a@1 b@2 c@3 }8 ");
    auto stream = rig.transport.enqueue_stream();
    rig.step();
    EXPECT_EQ(rig.watcher.state(), WatchState::kWatching);
    EXPECT_EQ(FakeCollection::parameter(rig.last_target(), "resourceVersion"), "8");
    EXPECT_EQ(FakeCollection::parameter(rig.last_target(), "sendInitialEvents"), "");
    // Once refused, not asked for again.
    stream->push(event_line("ERROR", status_json(410, "Expired")));
    rig.step();
    rig.step();
    EXPECT_EQ(rig.watcher.state(), WatchState::kListing);
    EXPECT_EQ(rig.watcher.stats().streaming_lists, 1u);
  }
}

TEST(Watcher, AnEmptyListMayHaveNoItemsAtAll) {
  WatcherOptions options;
  options.streaming_list = false;
  for (const char* items : {R"("items":null)", R"("items":[])"}) {
    Rig rig(options);
    rig.transport.enqueue_json(200, std::string{R"({"metadata":{"resourceVersion":"8"},)"} + items + "}");
    rig.step();
    rig.step();
    EXPECT_EQ(rig.take(), "{ }8 ");
  }
}

TEST(Watcher, StreamingListThatTimesOutTwiceGivesWayToPagesOnce) {
  Rig rig;
  auto one = rig.transport.enqueue_stream();
  one->push(event_line("ADDED", Rig::object("a", 3)));
  rig.step();
  rig.step();
  expect_back_off(rig.step(), 800ms);  // silence in the middle of the view
  EXPECT_EQ(rig.watcher.state(), WatchState::kEmpty);
  rig.transport.enqueue_json(504, status_json(504, "Timeout"));
  expect_back_off(rig.step(), 1600ms);
  rig.step();
  EXPECT_EQ(rig.watcher.state(), WatchState::kListing);
  rig.transport.enqueue_json(200, R"({"metadata":{"resourceVersion":"8"},"items":[]})");
  rig.step();
  EXPECT_EQ(rig.take(), "{ a@3 { }8 ");
  rig.transport.enqueue_json(410, status_json(410, "Gone"));
  rig.step();
  EXPECT_EQ(rig.watcher.state(), WatchState::kEmpty);
  rig.transport.enqueue_stream();
  rig.step();
  EXPECT_EQ(rig.watcher.state(), WatchState::kInitialWatch);  // streaming again
}

TEST(Watcher, GoneOnOpen) {
  Rig rig;
  rig.watching()->finish();
  rig.world.run_for(2s);
  rig.step();
  EXPECT_EQ(rig.watcher.state(), WatchState::kListed);
  rig.transport.enqueue_json(410, status_json(410, "Expired"));
  expect_back_off(rig.step(), 800ms);
  EXPECT_EQ(rig.watcher.state(), WatchState::kEmpty);
  EXPECT_EQ(rig.watcher.stats().gone, 1u);
}

TEST(Watcher, GoneAsAnErrorInTheStream) {
  Rig rig;
  auto stream = rig.watching();
  stream->push(event_line("ADDED", Rig::object("b", 11)) +
               event_line("ERROR", status_json(410, "Expired", "too old")) +
               event_line("ADDED", Rig::object("c", 12)));
  rig.step();
  EXPECT_EQ(rig.take(), "+b@11 ");
  EXPECT_EQ(rig.watcher.state(), WatchState::kEmpty);
  EXPECT_EQ(rig.watcher.last_error()->code, ErrorCode::kGone);
  EXPECT_TRUE(stream->client_gone());
}

TEST(Watcher, GoneBetweenPagesListsAnewInOne) {
  WatcherOptions options;
  options.streaming_list = false;
  Rig rig(options);
  rig.step();
  rig.transport.enqueue_json(
      200, R"({"metadata":{"resourceVersion":"8","continue":"t"},"items":[)" + Rig::object("a", 1) + "]}");
  rig.step();
  rig.transport.enqueue_json(
      410,
      R"({"kind":"Status","metadata":{"continue":"inconsistent"},"status":"Failure","reason":"Expired","code":410})");
  expect_back_off(rig.step(), 800ms);
  EXPECT_EQ(rig.watcher.state(), WatchState::kEmpty);
  rig.step();
  rig.transport.enqueue_json(200,
                             R"({"metadata":{"resourceVersion":"9"},"items":[)" + Rig::object("b", 2) + "]}");
  rig.step();
  EXPECT_EQ(FakeCollection::parameter(rig.last_target(), "continue"), "");
  EXPECT_EQ(FakeCollection::parameter(rig.last_target(), "limit"), "");
  EXPECT_EQ(rig.take(), "{ a@1 { b@2 }9 ");
}

TEST(Watcher, PagesOfTwoVersionsAreNotMixed) {
  WatcherOptions options;
  options.streaming_list = false;
  Rig rig(options);
  rig.step();
  rig.transport.enqueue_json(200, R"({"metadata":{"resourceVersion":"8","continue":"t"},"items":[]})");
  rig.step();
  rig.transport.enqueue_json(200,
                             R"({"metadata":{"resourceVersion":"9"},"items":[)" + Rig::object("b", 2) + "]}");
  rig.step();
  EXPECT_EQ(rig.watcher.state(), WatchState::kEmpty);
  EXPECT_EQ(rig.take(), "{ ");
}

TEST(Watcher, BacksOffDoublingTo30sAndStartsAnewAfterTwoGoodMinutes) {
  Rig rig;
  rig.watching()->finish();
  rig.world.run_for(2s);
  rig.step();
  Duration expected = 800ms;
  for (int i = 0; i < 8; ++i) {
    rig.transport.enqueue_json(429, status_json(429, "TooManyRequests"));
    expect_back_off(rig.step(), expected);
    EXPECT_EQ(rig.watcher.state(), WatchState::kListed);  // and again at the same version
    EXPECT_EQ(FakeCollection::parameter(rig.last_target(), "resourceVersion"), "10");
    expected = std::min<Duration>(expected * 2, 30s);
  }
  EXPECT_EQ(expected, 30s);
  auto stream = rig.transport.enqueue_stream();
  rig.step();
  rig.world.run_for(2min + 1s);
  stream->fail(Error{ErrorCode::kUnknownOutcome});
  expect_back_off(rig.step(), 800ms);
  EXPECT_EQ(rig.watcher.state(), WatchState::kListed);
}

TEST(Watcher, OfErrorsInARowThe1st2nd4thAnd8thAreWarnings) {
  const Log log;
  Rig rig;
  rig.transport.set_handler([](const HttpRequest&) {
    return json_answer(403, status_json(403, "Forbidden", "things is forbidden: User ann"));
  });
  const auto refuse_ten_times = [&] {
    const auto until = rig.watcher.stats().errors + 10;
    while (rig.watcher.stats().errors < until) rig.world.run_for(rig.step());
  };
  refuse_ten_times();
  const auto lines = log.lines();
  ASSERT_EQ(lines.size(), 4u);
  for (std::size_t i = 0; i < 4; ++i) {
    EXPECT_THAT(
        lines[i],
        ::testing::StartsWith(
            "warning watch things: Forbidden (HTTP 403): things is forbidden: User ann (error number " +
            std::to_string(1 << i) + " in a row); again in "));
  }
  rig.world.run_for(3min);  // with this between them they are no more in a row
  refuse_ten_times();
  EXPECT_EQ(log.lines().size(), 8u);
}

TEST(Watcher, LastErrorIsWhatTheLastTryEndedWith) {
  Rig rig;
  EXPECT_FALSE(rig.watcher.last_error());
  rig.transport.enqueue_json(403, status_json(403, "Forbidden"));
  rig.step();
  ASSERT_TRUE(rig.watcher.last_error());
  EXPECT_EQ(rig.watcher.last_error()->code, ErrorCode::kForbidden);
  // The list opens, and ends before it is complete.
  rig.transport.enqueue_stream()->finish();
  rig.step();
  rig.world.run_for(2s);
  rig.step();
  ASSERT_TRUE(rig.watcher.last_error());
  EXPECT_THAT(rig.watcher.last_error()->message, ::testing::HasSubstr("before the list was complete"));
  rig.transport.enqueue_json(200, R"({"metadata":{"resourceVersion":"8"},"items":[]})");
  rig.step();
  rig.step();
  EXPECT_EQ(rig.watcher.state(), WatchState::kListed);
  EXPECT_FALSE(rig.watcher.last_error());
}

TEST(Watcher, AStopIsNoWarning) {
  const Log log;
  Rig rig;
  rig.transport.set_latency(40ms, 80ms);
  FakeCollection server(rig.transport);
  auto signal = rig.world.start(rig.watcher.run());
  rig.world.run_for(10ms);
  signal->emit(boost::asio::cancellation_type::terminal);
  rig.world.run_for(1s);
  EXPECT_THAT(log.lines(), ::testing::IsEmpty());
}

TEST(Watcher, RetryAfterIsALowerBound) {
  Rig rig;
  HttpResponse busy;
  busy.status = 429;
  busy.headers.emplace_back("retry-after", "17");
  rig.transport.enqueue(busy);
  EXPECT_EQ(rig.step(), 17s);
}

TEST(Watcher, RetryAfterIsFollowedForAMinuteAtMost) {
  Rig rig;
  HttpResponse busy;
  busy.status = 503;
  busy.headers.emplace_back("retry-after", "86400");
  rig.transport.enqueue(busy);
  EXPECT_EQ(rig.step(), 60s);
}

TEST(Watcher, StreamCutInTheMiddleOfAnObjectGoesOnFromTheLastVersionSeen) {
  Rig rig;
  auto stream = rig.watching();
  const std::string line = event_line("ADDED", Rig::object("b", 11));
  const std::string cut = event_line("ADDED", Rig::object("c", 12));
  stream->push(line + cut.substr(0, cut.size() / 2));
  stream->finish();
  rig.step();
  expect_back_off(rig.step(), 800ms);
  EXPECT_EQ(rig.take(), "+b@11 ");
  EXPECT_EQ(rig.watcher.state(), WatchState::kListed);
  rig.transport.enqueue_stream()->push(cut);
  rig.step();
  EXPECT_EQ(FakeCollection::parameter(rig.last_target(), "resourceVersion"), "11");
  rig.step();
  EXPECT_EQ(rig.take(), "+c@12 ");
}

TEST(Watcher, GarbageLineReopensAndThriceAtOneVersionListsAnew) {
  Rig rig;
  auto stream = rig.watching();
  for (int i = 0; i < 3; ++i) {
    stream->push("<html>not an event</html>\n");
    rig.step();
    if (i == 2) break;
    EXPECT_EQ(rig.watcher.state(), WatchState::kListed);
    stream = rig.transport.enqueue_stream();
    rig.step();
    EXPECT_EQ(FakeCollection::parameter(rig.last_target(), "resourceVersion"), "10");
  }
  EXPECT_EQ(rig.watcher.state(), WatchState::kEmpty);
}

TEST(Watcher, WhatALineHoldsIsNeverPartOfItsError) {
  const Log log;
  Rig rig;
  auto stream = rig.watching();
  stream->push(R"({"type":"ADDED","object":{"kind":"Secret","data":{"password":"aHVudGVyMg=="},)"
               "\n");
  rig.step();
  ASSERT_TRUE(rig.watcher.last_error());
  EXPECT_THAT(rig.watcher.last_error()->message, ::testing::StartsWith("watch: a line of "));
  EXPECT_THAT(rig.watcher.last_error()->message, ::testing::Not(::testing::HasSubstr("password")));
  for (const auto& line : log.lines()) EXPECT_THAT(line, ::testing::Not(::testing::HasSubstr("aHVudGVy")));
}

TEST(Watcher, WhatAnErrorHoldsInPlaceOfAStatusIsNotSaid) {
  const Log log;
  Rig rig;
  auto stream = rig.watching();
  stream->push(R"({"type":"ERROR","object":{"kind":"Secret","data":{"password":"aHVudGVyMg=="}}})"
               "\n");
  rig.step();
  ASSERT_TRUE(rig.watcher.last_error());
  EXPECT_EQ(rig.watcher.last_error()->message, "an event of type ERROR without a Status");
  for (const auto& line : log.lines()) EXPECT_THAT(line, ::testing::Not(::testing::HasSubstr("aHVudGVy")));
}

// One object is at most a few MiB: etcd takes no more, and the API server no longer request.
TEST(Watcher, ALineThatNeverEndsIsGivenUp) {
  Rig rig;
  auto stream = rig.watching();
  const std::string piece(1 << 20, 'x');
  int pushed = 0;
  for (; pushed < 64 && rig.watcher.state() == WatchState::kWatching; ++pushed) {
    stream->push(piece);
    rig.step();
  }
  EXPECT_EQ(pushed, 17);
  EXPECT_EQ(rig.watcher.last_error()->message, "watch: a line longer than 16 MiB");
}

TEST(Watcher, UnknownEventTypesAndEmptyLinesArePassedOver) {
  Rig rig;
  auto stream = rig.watching();
  stream->push("\n" + event_line("SPLIT", Rig::object("z", 99)) + event_line("SPLIT", "[7]") + "\n" +
               event_line("ADDED", Rig::object("b", 11)));
  EXPECT_EQ(rig.step(), 0ms);
  EXPECT_EQ(rig.take(), "+b@11 ");
  EXPECT_EQ(rig.watcher.resource_version(), "11");
}

TEST(Watcher, ServerEndsTheWatchNormally) {
  Rig rig;
  auto stream = rig.watching();
  rig.world.run_for(5min);
  stream->finish();
  EXPECT_EQ(rig.step(), 0ms);
  EXPECT_EQ(rig.watcher.state(), WatchState::kListed);
  EXPECT_EQ(rig.watcher.stats().errors, 0u);
  // One that ends every watch at once is not asked in a tight loop.
  rig.transport.enqueue_stream()->finish();
  rig.step();
  expect_back_off(rig.step(), 800ms);
}

TEST(Watcher, SilenceBeyondTheIdleDeadlineOpensAnew) {
  Rig rig;
  auto stream = rig.watching();
  const TimePoint start = rig.world.clock().now();
  EXPECT_EQ(rig.step(), 0ms);
  EXPECT_EQ(rig.world.clock().now() - start, 100s);
  EXPECT_EQ(rig.watcher.state(), WatchState::kListed);
  EXPECT_TRUE(stream->client_gone());
}

TEST(Watcher, OtherErrorsInTheStreamWatchOnFromTheSameVersion) {
  for (const int code : {429, 500, 504}) {
    Rig rig;
    rig.watching()->push(event_line("ERROR", status_json(code, "Timeout")));
    expect_back_off(rig.step(), 800ms);
    EXPECT_EQ(rig.watcher.state(), WatchState::kListed) << code;
    EXPECT_EQ(rig.watcher.resource_version(), "10");
  }
}

TEST(Watcher, AServerRestoredToThePastIsListedAnew) {
  Rig rig;
  rig.watching()->finish();
  rig.world.run_for(2s);
  rig.step();
  rig.transport.enqueue_json(
      504,
      R"({"kind":"Status","status":"Failure","message":"Timeout: Too large resource version: 10, current: 4",)"
      R"("reason":"Timeout","details":{"causes":[{"reason":"ResourceVersionTooLarge",)"
      R"("message":"Too large resource version"}],"retryAfterSeconds":1},"code":504})");
  rig.step();
  EXPECT_EQ(rig.watcher.state(), WatchState::kEmpty);
}

TEST(Watcher, RunEndsWhenCancelledWhereverItIs) {
  for (const Duration after : {0ms, 50ms, 1000ms, 150'000ms}) {
    Rig rig;
    rig.transport.set_latency(40ms, 80ms);
    FakeCollection server(rig.transport);
    server.set("a", 1);
    bool ended = false;
    auto task = [](Watcher& w, bool& out) -> Task<void> {
      co_await w.run();
      out = true;
    };
    auto signal = rig.world.start(task(rig.watcher, ended));
    rig.world.run_for(after);
    EXPECT_FALSE(ended);
    signal->emit(boost::asio::cancellation_type::terminal);
    rig.world.settle();
    EXPECT_TRUE(ended);
    rig.world.run_for(1s);
    EXPECT_EQ(rig.transport.open_streams(), 0u);
  }
}

}  // namespace
}  // namespace muster::client
