// Who has to go, goes with time to save; whoever it is for gets the place, and nobody else, whatever
// happens meanwhile.
#include <gmock/gmock.h>
#include <spdlog/spdlog.h>

#include "virtual_cluster.h"

namespace muster::test {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::IsEmpty;

const json kLow = {{"priorityClassName", "low"}, {"checkpoint", {{"gracePeriod", "60s"}}}};
const json kHigh = {{"priorityClassName", "high"}};

class Evictions : public testing::Test {
 protected:
  Evictions() { spdlog::set_level(spdlog::level::off); }

  static void set_up(VirtualCluster& cluster, int nodes, Duration saving) {
    cluster.set_up(nodes, 8 * nodes);
    cluster.add_priority_class("low", 10);
    cluster.add_priority_class("high", 100);
    cluster.pods_end([saving](const json&) {
      return LastWords{.takes = saving, .message = R"({"checkpoint":{"step":1200,"uri":"/ckpt/1200"}})"};
    });
  }
  static bool runs(VirtualCluster& cluster, const std::string& name) {
    return cluster.phase(name) == "Running";
  }
  static std::string reason(VirtualCluster& cluster, const std::string& name) {
    return cluster.job(name).value("/status/queue/reason"_json_pointer, std::string());
  }
  static std::string message(VirtualCluster& cluster, const std::string& name) {
    return cluster.job(name).value("/status/queue/message"_json_pointer, std::string());
  }
  static std::vector<std::string> events(VirtualCluster& cluster, const std::string& job,
                                         const std::string& reason) {
    std::vector<std::string> notes;
    for (const auto& e : cluster.executed(Method::kPost, "/events")) {
      if (e.body["regarding"]["name"] == job && e.body["reason"] == reason) notes.push_back(e.body["note"]);
    }
    return notes;
  }
};

TEST_F(Evictions, APreemptedJobSavesAndTheOtherStartsInItsPlace) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    VirtualCluster cluster(seed);
    set_up(cluster, 1, seconds{20});
    cluster.add_job("low", 8, 1, kLow);
    auto& op = cluster.start();
    ASSERT_TRUE(cluster.world.run_until([&] { return runs(cluster, "low"); }, minutes{1}));
    cluster.world.run_for(seconds{30});
    cluster.add_job("high", 2, 4, kHigh);
    cluster.world.run_for(seconds{10});
    EXPECT_EQ(cluster.phase("low"), "Checkpointing");
    EXPECT_EQ(cluster.pods_of("low").size(), 8u);
    EXPECT_EQ(reason(cluster, "high"), "WaitingForVictims");
    EXPECT_THAT(message(cluster, "high"), HasSubstr("the last to go is pod low-worker-"));
    EXPECT_THAT(message(cluster, "high"), HasSubstr("to save"));
    const json nominated = cluster.job("high")["status"]["nominated"];
    EXPECT_EQ(nominated["pods"].size(), 2u) << cluster.job("high").dump(1);
    EXPECT_THAT(cluster.pods_of("high"), IsEmpty());
    ASSERT_TRUE(cluster.world.run_until([&] { return runs(cluster, "high"); }, minutes{1}));
    EXPECT_FALSE(cluster.job("high")["status"].contains("nominated"));
    EXPECT_EQ(cluster.phase("low"), "Queued");
    EXPECT_EQ(cluster.job("low")["status"]["preemptions"], 1);
    EXPECT_EQ(cluster.executed(Method::kDelete, "/pods/").size(), 8u) << "each is told once";
    cluster.world.run_for(seconds{10});
    ASSERT_EQ(events(cluster, "low", "Preempted").size(), 1u);
    EXPECT_THAT(events(cluster, "low", "Preempted")[0], HasSubstr("team/high"));
    EXPECT_THAT(events(cluster, "low", "Preempted")[0], HasSubstr("8 pods with 8 GPUs"));
    ASSERT_EQ(events(cluster, "high", "Nominated").size(), 1u);
    EXPECT_THAT(events(cluster, "high", "Nominated")[0], HasSubstr("team/low"));
    cluster.remove_job("high");
    ASSERT_TRUE(cluster.world.run_until([&] { return runs(cluster, "low"); }, minutes{1}));
    EXPECT_EQ(cluster.job("low")["status"]["assignment"]["resume"]["step"], 1200);
    EXPECT_THAT(cluster.complaints, IsEmpty());
    EXPECT_TRUE(cluster.stop(op));
    if (HasFailure()) return;
  }
}

// The verdict comes before the victims are told, and counters are written seldom: neither keeps the words
// back.
TEST_F(Evictions, TheMessageNamesWhoGoesLastWithinFiveSecondsAndIsWrittenOnce) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    VirtualCluster cluster(seed);
    cluster.options.status_interval = 3600;
    set_up(cluster, 1, seconds{50});
    cluster.add_job("low", 8, 1, kLow);
    auto& op = cluster.start();
    ASSERT_TRUE(cluster.world.run_until([&] { return runs(cluster, "low"); }, minutes{1}));
    cluster.world.run_for(seconds{30});
    cluster.add_job("high", 2, 4, kHigh);
    const auto is_told = [&] { return cluster.executed(Method::kDelete, "/pods/").size() == 8; };
    ASSERT_TRUE(cluster.world.run_until(is_told, minutes{1}));
    cluster.world.run_for(Duration{5500});  // and as long as the writes take
    EXPECT_THAT(message(cluster, "high"),
                HasSubstr("team/low has left them; the last to go is pod low-worker-"));
    EXPECT_THAT(message(cluster, "high"), HasSubstr(", which has until "));
    const auto version = cluster.job("high")["metadata"]["resourceVersion"];
    cluster.world.run_for(seconds{30});
    ASSERT_EQ(cluster.phase("low"), "Checkpointing");
    EXPECT_EQ(cluster.job("high")["metadata"]["resourceVersion"], version) << message(cluster, "high");
    EXPECT_THAT(cluster.complaints, IsEmpty());
    EXPECT_TRUE(cluster.stop(op));
    if (HasFailure()) return;
  }
}

// Thousands may go at once, and each write about one of them keeps another from being told.
TEST_F(Evictions, OneWriteSaysAllThatThereIsToSayWhileAJobSaves) {
  VirtualCluster cluster;
  set_up(cluster, 1, seconds{50});
  cluster.add_job("low", 1, 8, kLow);
  auto& op = cluster.start();
  ASSERT_TRUE(cluster.world.run_until([&] { return runs(cluster, "low"); }, minutes{1}));
  cluster.world.run_for(seconds{30});
  const auto writes = [&] { return cluster.executed(Method::kPatch, "/trainingjobs/low/status").size(); };
  const auto before = writes();
  cluster.add_job("high", 1, 8, kHigh);
  cluster.world.run_for(seconds{40});
  ASSERT_EQ(cluster.phase("low"), "Checkpointing");
  EXPECT_THAT(message(cluster, "low"),
              HasSubstr("have not ended yet, among them low-worker-0-1 on node node-0; "
                        "they get 60 s to save; attempt 1 was withdrawn: "));
  EXPECT_EQ(writes() - before, 1u) << message(cluster, "low");
  EXPECT_TRUE(cluster.stop(op));
}

// Somebody with a better turn comes while the promise is only in the status: it is kept all the same.
TEST_F(Evictions, APromiseOutlivesTheProcessThatGaveIt) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    VirtualCluster cluster(seed);
    set_up(cluster, 1, seconds{40});
    cluster.add_job("older", 8, 1, {{"priorityClassName", "high"}, {"suspend", true}});
    cluster.add_job("low", 8, 1, kLow);
    auto& first = cluster.start("first");
    ASSERT_TRUE(cluster.world.run_until([&] { return runs(cluster, "low"); }, minutes{1}));
    cluster.world.run_for(seconds{30});
    cluster.add_job("high", 2, 4, kHigh);
    cluster.world.run_for(seconds{3});
    ASSERT_EQ(reason(cluster, "high"), "WaitingForVictims");
    first.cut_off = true;
    cluster.world.run_for(cluster.dice.between(Duration{0}, Duration{3000}));
    json older = cluster.job("older");
    older["spec"]["suspend"] = false;
    cluster.server.put(kJobs, std::move(older));
    cluster.start("second");
    ASSERT_TRUE(cluster.world.run_until([&] { return runs(cluster, "high"); }, minutes{2}))
        << cluster.job("high").dump(1);
    EXPECT_EQ(cluster.phase("older"), "Queued");
    EXPECT_EQ(cluster.job("low")["status"]["attempt"], 1);
    EXPECT_THAT(cluster.complaints, IsEmpty());
    if (HasFailure()) return;
  }
}

// Wherever the process dies between the decision and the last pod's end, it comes out the same.
TEST_F(Evictions, WhereverTheProcessDiesWhoeverMayStartDoes) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    VirtualCluster cluster(seed);
    set_up(cluster, 1, seconds{5});
    cluster.add_job("low", 4, 2, kLow);
    auto* op = &cluster.start("life-0");
    ASSERT_TRUE(cluster.world.run_until([&] { return runs(cluster, "low"); }, minutes{1}));
    cluster.world.run_for(seconds{30});
    cluster.add_job("high", 2, 4, kHigh);
    for (int life = 1; life < 5; ++life) {
      cluster.world.run_for(cluster.dice.between(Duration{0}, Duration{life == 1 ? 60 : 4000}));
      op->cut_off = true;
      cluster.world.run_for(Duration{10});
      op = &cluster.start("life-" + std::to_string(life));
      cluster.world.run_until([&] { return op->controller->acting(); }, minutes{1});
    }
    EXPECT_TRUE(cluster.world.run_until([&] { return runs(cluster, "high"); }, minutes{3}))
        << cluster.job("high").dump(1) << cluster.job("low").dump(1);
    EXPECT_THAT(cluster.pods_of("low"), IsEmpty());
    EXPECT_THAT(cluster.complaints, IsEmpty());
    cluster.remove_job("high");
    EXPECT_TRUE(cluster.world.run_until([&] { return runs(cluster, "low"); }, minutes{3}));
    EXPECT_THAT(cluster.complaints, IsEmpty());
    if (HasFailure()) return;
  }
}

// Many make room for one, and the API server is slow: a new process finds those who have gone in the queue
// long before it has looked at all of them. None of them starts where others have just been sent away, and
// nobody is asked beyond those whose places are needed.
TEST_F(Evictions, WhoHasMadeRoomIsNotStartedAgainByTheNextProcess) {
  constexpr int kVictims = 32;
  const auto victim = [](int i) { return "a-low-" + std::to_string(i); };
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    const int needed = seed % 2 == 0 ? kVictims : kVictims / 2;
    VirtualCluster cluster(seed);
    cluster.options.workers = 4;
    set_up(cluster, kVictims / 8, seconds{1});
    for (int i = 0; i < kVictims; ++i) cluster.add_job(victim(i), 1, 1, kLow);
    auto* op = &cluster.start("life-0");
    ASSERT_TRUE(cluster.world.run_until([&] { return runs(cluster, victim(kVictims - 1)); }, minutes{1}));
    cluster.world.run_for(seconds{30});
    cluster.faults = [](const HttpRequest& request) {
      return request.method == Method::kGet ? Fault{} : Fault{.delay = Duration{100}};
    };
    cluster.add_job("high", needed / 8, 8, kHigh);
    for (int life = 1; life < 4; ++life) {
      cluster.world.run_for(cluster.dice.between(Duration{0}, Duration{2000}));
      op->cut_off = true;
      cluster.world.run_for(Duration{10});
      op = &cluster.start("life-" + std::to_string(life));
      cluster.world.run_until([&] { return op->controller->acting(); }, minutes{1});
    }
    EXPECT_TRUE(cluster.world.run_until([&] { return runs(cluster, "high"); }, minutes{3}))
        << cluster.job("high").dump(1);
    int evictions = 0;
    for (int i = 0; i < kVictims; ++i) {
      const json& status = cluster.job(victim(i))["status"];
      EXPECT_EQ(status["attempt"], 1) << victim(i);
      evictions += status.value("preemptions", 0);
    }
    EXPECT_EQ(evictions, needed);
    EXPECT_THAT(cluster.complaints, IsEmpty());
    if (HasFailure()) return;
  }
}

TEST_F(Evictions, APodThatDoesNotDieIsNamedAndNeverForcedWhileItsNodeMayRunIt) {
  VirtualCluster cluster;
  set_up(cluster, 1, seconds{5});
  cluster.pods_end([](const json& pod) {
    const bool last = pod["metadata"]["labels"]["muster.dev/index"] == "3";
    return LastWords{.takes = seconds{5}, .message = "", .stuck = last};
  });
  cluster.add_job("low", 4, 2, kLow);
  cluster.start();
  ASSERT_TRUE(cluster.world.run_until([&] { return runs(cluster, "low"); }, minutes{1}));
  cluster.world.run_for(seconds{30});
  cluster.add_job("high", 2, 4, kHigh);
  cluster.world.run_for(minutes{2});
  EXPECT_EQ(cluster.pods_of("low").size(), 1u);
  EXPECT_EQ(cluster.phase("low"), "Checkpointing");
  EXPECT_THAT(message(cluster, "low"),
              HasSubstr("low-worker-3-1 on node node-0, which should have ended by"));
  EXPECT_EQ(reason(cluster, "high"), "WaitingForVictims");
  EXPECT_THAT(message(cluster, "high"),
              HasSubstr("low-worker-3-1 on node node-0, which should have ended by"));
  cluster.set_node_ready("node-0", false);
  cluster.world.run_for(minutes{30});
  EXPECT_EQ(cluster.pods_of("low").size(), 1u) << "a node that is not Ready may still run it";
  EXPECT_THAT(cluster.pods_of("high"), IsEmpty());
  json node = cluster.server.object(kNodes, "node-0");
  node["spec"]["taints"] = json::array(
      {{{"key", "node.kubernetes.io/out-of-service"}, {"value", "nodeshutdown"}, {"effect", "NoExecute"}}});
  cluster.server.put(kNodes, node);
  EXPECT_TRUE(cluster.world.run_until([&] { return cluster.pods_of("low").empty(); }, minutes{1}));
  node["spec"].erase("taints");
  cluster.server.put(kNodes, node);
  cluster.set_node_ready("node-0", true);
  EXPECT_TRUE(cluster.world.run_until([&] { return runs(cluster, "high"); }, minutes{1}))
      << cluster.job("high").dump(1);
  EXPECT_THAT(cluster.complaints, IsEmpty());
}

// Two nodes half free: who is moved to make one whole gets the promised half, and not who comes meanwhile.
TEST_F(Evictions, AMovedJobFindsItsNewPlaceKept) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    VirtualCluster cluster(seed);
    set_up(cluster, 2, seconds{20});
    const bool dies = seed % 2 == 0;
    auto* op = &cluster.start();
    for (const char* name : {"a", "filler-a", "b", "filler-b"}) {
      cluster.add_job(name, 1, 4, kLow);
      ASSERT_TRUE(cluster.world.run_until([&] { return runs(cluster, name); }, minutes{1}));
    }
    cluster.remove_job("filler-a");
    cluster.remove_job("filler-b");
    cluster.world.run_for(seconds{30});
    cluster.add_job("big", 1, 8, kLow);
    const auto moved = [&]() -> std::string {
      for (const char* name : {"a", "b"}) {
        if (cluster.job(name)["status"].contains("nominated")) return name;
      }
      return "";
    };
    ASSERT_TRUE(cluster.world.run_until([&] { return !moved().empty(); }, minutes{1}));
    const std::string who = moved();
    cluster.world.run_for(seconds{2});
    if (dies) {
      op->cut_off = true;
      cluster.start("second");
    }
    cluster.add_job("late", 1, 4, kLow);
    ASSERT_TRUE(
        cluster.world.run_until([&] { return runs(cluster, who) && runs(cluster, "big"); }, minutes{2}))
        << cluster.job(who).dump(1) << cluster.job("big").dump(1);
    EXPECT_EQ(cluster.job(who)["status"]["attempt"], 2);
    EXPECT_EQ(cluster.job(who)["status"]["assignment"]["resume"]["step"], 1200);
    EXPECT_THAT(cluster.complaints, IsEmpty());
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace muster::test
