// Informer against a simulated collection: after random faults the store holds what the server holds, and
// handlers heard a consistent story.
#include "muster/client/informer.h"

#include <gtest/gtest.h>

#include <chrono>
#include <cstdlib>

#include "muster/client/testing/virtual_world.h"
#include "watch/fake_collection.h"

namespace muster::client {
namespace {

using namespace std::chrono_literals;
using namespace testing;

struct Scene {
  VirtualWorld world;
  FakeTransport transport{world.env()};
  FakeCollection server{transport};
  ApiClient api{world.env(), transport};
  Informer<Thing> informer;
  HandlerJudge judge{server};

  explicit Scene(std::uint64_t seed, WatcherOptions options = {})
      : world(seed), informer(api, kThings, decode_thing, options) {
    informer.store().add_handler([this](const StoreEvent<Thing>& e) { judge.hear(e); });
  }

  // Empty: the store holds what the server holds.
  std::string difference() const {
    std::string out;
    for (const auto& [name, thing] : server.things()) {
      const auto mine = informer.store().find(thing.meta.key());
      if (!mine) {
        out += "missing " + name + "; ";
      } else if (mine->meta.uid != thing.meta.uid ||
                 mine->meta.resource_version != thing.meta.resource_version || mine->value != thing.value) {
        out += "differs " + name + "; ";
      }
    }
    if (informer.store().size() != server.things().size()) out += "sizes differ";
    return out;
  }
};

TEST(Informer, FollowsTheServerWithStreamsOrPages) {
  for (const bool streaming : {true, false}) {
    Scene scene(1);
    scene.server.streaming = streaming;
    for (int i = 0; i < 1234; ++i) scene.server.set("t" + std::to_string(i), i);
    scene.world.start(scene.informer.run());
    scene.world.settle();
    EXPECT_TRUE(scene.informer.store().synced());
    EXPECT_EQ(scene.difference(), "");
    scene.server.erase("t7");
    scene.server.set("t8", 88);
    scene.server.set("new", 1);
    scene.world.settle();
    EXPECT_EQ(scene.difference(), "");
    EXPECT_EQ(scene.judge.complaints(), std::vector<std::string>{});
    EXPECT_EQ(scene.informer.watcher().stats().paged_lists, streaming ? 0u : 1u);
  }
}

TEST(Informer, AnObjectThatCannotBeDecodedIsAbsentAndCounted) {
  Scene scene(1);
  scene.server.set("a", 1);
  scene.world.start(scene.informer.run());
  scene.world.settle();
  ASSERT_EQ(scene.informer.store().size(), 1u);
  scene.server.send_to_all(event_line(
      "MODIFIED", R"({"metadata":{"name":"a","namespace":"ns","uid":"uid-1","resourceVersion":"9"}})"));
  scene.world.settle();
  EXPECT_EQ(scene.informer.store().size(), 0u);
  EXPECT_EQ(scene.informer.decode_errors(), 1u);
}

TEST(Informer, DeletedAndMadeAnewBetweenTwoViewsIsDeletedThenAdded) {
  Scene scene(1);
  scene.server.set("a", 1);
  scene.world.start(scene.informer.run());
  scene.world.settle();
  for (auto& watch : scene.server.watches()) watch.silent = true;
  scene.server.erase("a");
  scene.server.set("a", 2);
  scene.server.compact();
  scene.world.run_for(5min);
  EXPECT_EQ(scene.judge.log(), "+ns/a uid-1 2\nsynced\n-ns/a uid-1 2\n+ns/a uid-2 4\n");
  EXPECT_EQ(scene.judge.complaints(), std::vector<std::string>{});
}

// Deals faults to requests and streams until `quiet` is set.
struct Trouble {
  Scene& scene;
  bool quiet = false;
  int dealt = 0;

  std::uint64_t die(std::uint64_t n) { return scene.world.random().below(n); }

  Fault on_request() {
    Fault fault;
    if (quiet || die(3) != 0) return fault;
    ++dealt;
    switch (die(12)) {
      case 0:
        fault.kind = FaultKind::kNotSent;
        break;
      case 1:
        fault.kind = FaultKind::kLostBefore;
        break;
      case 2:
        fault.kind = FaultKind::kLostAfter;
        break;
      case 3:
        fault.kind = FaultKind::kHangBefore;
        break;
      case 4:
        fault.kind = FaultKind::kHangAfter;
        break;
      case 5:
        return answer(429, "TooManyRequests");
      case 6:
        return answer(410, "Expired");
      case 7:
        return answer(500, "InternalError");
      case 8:
        return answer(503, "ServiceUnavailable");
      case 9:
        return answer(504, "Timeout");
      case 10:
        return answer(401, "Unauthorized");
      default:
        fault.delay = Duration{static_cast<std::int64_t>(die(20'000))};
        break;
    }
    return fault;
  }
  static Fault answer(int status, std::string_view reason) {
    Fault fault;
    fault.kind = FaultKind::kAnswer;
    fault.answer = json_answer(status, status_json(status, reason));
    return fault;
  }

  void on_streams() {
    scene.server.forget_gone();
    for (auto& watch : scene.server.watches()) {
      if (watch.silent) continue;
      if (die(6) != 0) continue;
      ++dealt;
      switch (die(9)) {
        case 0:
          watch.stream->push(event_line("ERROR", status_json(410, "Expired")));
          break;
        case 1:
          watch.stream->push(event_line("ERROR", status_json(504, "Timeout")));
          break;
        case 2:
          watch.stream->push("garbage\n");
          break;
        case 3:
          watch.stream->push(R"({"type":"ADDED","object":{"metadata":{"name":"half)");
          watch.stream->finish();
          break;
        case 4:
          watch.stream->push(
              R"({"type":"DELETED","object":{"metadata":{"name":"t1","namespace":"ns","uid":"uid-)");
          watch.stream->fail(Error{ErrorCode::kUnknownOutcome});
          break;
        case 5:
          watch.stream->finish();
          break;
        case 6:
          watch.stream->fail(Error{ErrorCode::kUnknownOutcome});
          break;
        case 7:
          watch.silent = true;
          break;
        default:
          watch.stream->push(
              event_line("STRANGE", R"({"metadata":{"name":"t1","resourceVersion":"999999"}})"));
          break;
      }
    }
  }

  void change_something() {
    const std::string name = "t" + std::to_string(die(8));
    if (die(3) == 0)
      scene.server.erase(name);
    else
      scene.server.set(name, static_cast<std::int64_t>(die(1000)));
    if (die(10) == 0) scene.server.compact();
    if (die(10) == 0) scene.server.send_bookmarks();
  }
};

struct Story {
  std::string log;
  int faults = 0;
};

Story play(std::uint64_t seed) {
  WatcherOptions options;
  options.page_size = 1 + static_cast<int>(seed % 4);
  Scene scene(seed, options);
  Trouble trouble{scene};
  scene.server.streaming = seed % 3 != 0;
  scene.transport.set_latency(0ms, 30ms);
  scene.transport.set_fault_hook([&](const HttpRequest&) { return trouble.on_request(); });
  scene.world.start(scene.informer.run());
  for (int i = 0; i < 60; ++i) {
    const int changes = static_cast<int>(trouble.die(4));
    for (int c = 0; c < changes; ++c) trouble.change_something();
    trouble.on_streams();
    scene.world.run_for(Duration{static_cast<std::int64_t>(trouble.die(8'000))});
  }
  trouble.quiet = true;
  // The longest that recovery may take: one silent connection, one hanging request, one back-off.
  scene.world.run_for(4min);
  EXPECT_EQ(scene.difference(), "") << "seed " << seed << " in state "
                                    << to_string(scene.informer.watcher().state());
  EXPECT_EQ(scene.judge.complaints(), std::vector<std::string>{}) << "seed " << seed;
  EXPECT_EQ(scene.judge.known(), scene.informer.store().all()) << "seed " << seed;
  return {scene.judge.log(), trouble.dealt};
}

TEST(Informer, ConvergesAfterRandomFaults) {
  const auto start = std::chrono::steady_clock::now();
  const char* wanted = std::getenv("MUSTER_SEEDS");
  const std::uint64_t seeds = wanted ? std::strtoull(wanted, nullptr, 10) : 500;
  int faults = 0;
  for (std::uint64_t seed = 0; seed < seeds; ++seed) {
    faults += play(seed).faults;
    if (HasFailure()) break;
  }
  EXPECT_GT(faults, static_cast<int>(seeds) * 5);
  const std::chrono::duration<double> took = std::chrono::steady_clock::now() - start;
  std::printf("%llu seeds, %d faults, %.1f s\n", static_cast<unsigned long long>(seeds), faults,
              took.count());
}

TEST(Informer, OneSeedTellsOneStory) {
  for (std::uint64_t seed = 1000; seed < 1010; ++seed) {
    const Story once = play(seed);
    const Story again = play(seed);
    EXPECT_FALSE(once.log.empty());
    EXPECT_EQ(once.log, again.log);
  }
}

}  // namespace
}  // namespace muster::client
