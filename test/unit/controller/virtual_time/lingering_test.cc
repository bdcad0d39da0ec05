// Pods that are told to go hold their GPUs until they have ended, whatever has become of their job: it is
// finished, suspended, invalid, edited, deleted or made anew. Nobody is started in their place before that.
#include <gmock/gmock.h>
#include <spdlog/spdlog.h>

#include "virtual_cluster.h"

namespace muster::test {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::IsEmpty;

constexpr int kPodsOfAJob = 8;

// How a job `ends` comes to an end while its pods still run.
struct Way {
  const char* name;
  json spec;                                   // of the job
  std::function<void(VirtualCluster&)> begin;  // makes it end
};

std::vector<std::string> keys_of_pods(VirtualCluster& cluster, const std::string& job) {
  std::vector<std::string> keys;
  for (const auto& pod : cluster.pods_of(job))
    keys.push_back("team/" + pod["metadata"]["name"].get<std::string>());
  return keys;
}

std::vector<Way> ways() {
  const json spare = json::object();
  return {
      {"MaxRuntime",
       {{"maxRuntime", "60s"}},
       [](VirtualCluster& c) { c.world.run_until([&] { return c.phase("ends") == "Failed"; }, minutes{2}); }},
      {"CompletionFirst",
       {{"completion", {{"policy", "First"}}}},
       [](VirtualCluster& c) {
         c.server.set_status(kPods, keys_of_pods(c, "ends")[0], {{"phase", "Succeeded"}});
       }},
      {"Suspended", spare, [](VirtualCluster& c) { c.edit_job("ends", {{"suspend", true}}); }},
      {"EditedForOtherPlaces", spare,
       [](VirtualCluster& c) {
         json roles = c.job("ends")["spec"]["roles"];
         roles[0]["gpus"]["count"] = 8;  // two nodes, and there is one
         roles[0]["replicas"] = 2;
         c.edit_job("ends", {{"roles", roles}});
       }},
      {"InvalidAndLost", spare,
       [](VirtualCluster& c) {
         c.edit_job("ends", {{"priorityClassName", "no-such-class"}});
         c.world.run_for(seconds{1});
         c.server.remove_pod(keys_of_pods(c, "ends")[0]);
       }},
      {"Deleted", spare,
       [](VirtualCluster& c) {
         c.delete_job("ends");
         c.world.run_for(c.dice.between(Duration{0}, Duration{200}));
         c.collect();
       }},
      {"MadeAnew", spare,
       [](VirtualCluster& c) {
         c.delete_job("ends");
         c.add_job("ends", 1, 1, {{"suspend", true}});
         c.world.run_for(c.dice.between(Duration{0}, Duration{200}));
         c.collect();
       }},
  };
}

class Lingering : public testing::Test {
 protected:
  Lingering() { spdlog::set_level(spdlog::level::off); }

  static bool runs(VirtualCluster& cluster, const std::string& name) {
    return cluster.phase(name) == "Running";
  }
  // One node of eight GPUs, which the job `ends` has. Its pods take two seconds to end.
  static void set_up(VirtualCluster& cluster, const json& spec = json::object()) {
    cluster.set_up(1, 16);
    cluster.pods_end([](const json&) { return LastWords{.takes = seconds{2}}; });
    cluster.add_job("ends", kPodsOfAJob, 1, spec);
  }
  static bool makes_pod_of_ends(const HttpRequest& request) {
    return request.method == Method::kPost && request.target.contains("/pods") &&
           request.body.contains("ends-worker");
  }
  // One node of eight GPUs, which may be shared. The job `ends` asks for half of one.
  static void set_up_sharing(VirtualCluster& cluster) {
    cluster.set_up(1, 16);
    cluster.pods_end([](const json&) { return LastWords{.takes = seconds{2}}; });
    json pool = cluster.server.object(kMuster + "nodepools", "default");
    pool["spec"]["sharing"]["mode"] = "Fraction";
    cluster.server.put(kMuster + "nodepools", std::move(pool));
    cluster.add_job("ends", 1);
    json roles = cluster.job("ends")["spec"]["roles"];
    roles[0]["gpus"] = {{"fraction", "500m"}};
    cluster.edit_job("ends", {{"roles", roles}});
  }
  static bool makes_holder_pod(const HttpRequest& request) {
    return request.method == Method::kPost && request.target.contains("/pods") &&
           request.body.contains("muster.dev/gpu-reservation");
  }
  static std::set<std::string> holder_pods(VirtualCluster& cluster) {
    std::set<std::string> uids;
    for (const auto& [key, pod] : cluster.server.objects(kPods)) {
      if (is_holder_pod(pod)) uids.insert(pod["metadata"]["uid"]);
    }
    return uids;
  }
  // Each pod's deletion takes its own time to arrive, so that plans are made between them.
  static void delay_deletions(VirtualCluster& cluster) {
    cluster.faults = [&cluster](const HttpRequest& request) {
      if (request.method != Method::kDelete) return Fault{};
      return Fault{.delay = cluster.dice.between(Duration{0}, Duration{500})};
    };
  }
};

TEST_F(Lingering, WhoeverWaitsStartsOnlyWhenTheLastPodHasEnded) {
  for (const Way& way : ways()) {
    for (std::uint64_t seed = 1; seed <= 6; ++seed) {
      SCOPED_TRACE(std::string(way.name) + ", seed " + std::to_string(seed));
      VirtualCluster cluster(seed);
      set_up(cluster, way.spec);
      delay_deletions(cluster);
      auto& op = cluster.start();
      ASSERT_TRUE(cluster.world.run_until([&] { return runs(cluster, "ends"); }, minutes{1}));
      cluster.add_job("next", 1);  // any GPU will do
      cluster.world.run_for(seconds{10});
      way.begin(cluster);
      EXPECT_TRUE(cluster.world.run_until([&] { return runs(cluster, "next"); }, minutes{2}))
          << cluster.job("next").dump(1);
      EXPECT_THAT(cluster.complaints, IsEmpty());
      EXPECT_TRUE(cluster.stop(op));
      if (HasFailure()) break;
    }
  }
}

// A new process has not come to look at the job yet when it is deleted, and the garbage collector is slow.
TEST_F(Lingering, PodsOfAJobThatGoesBeforeItWasLookedAtHoldTheirGpus) {
  VirtualCluster cluster;
  set_up(cluster);
  auto& first = cluster.start("first");
  ASSERT_TRUE(cluster.world.run_until([&] { return runs(cluster, "ends"); }, minutes{1}));
  cluster.add_job("busy", 8);
  cluster.add_job("next", 4, 2);
  cluster.world.run_for(seconds{5});
  ASSERT_TRUE(cluster.stop(first));
  cluster.edit_job("busy", {{"suspend", true}});
  cluster.options.workers = 1;
  cluster.faults = [](const HttpRequest& request) {
    return request.target.find("/busy/status") == std::string::npos ? Fault{} : Fault{.delay = seconds{5}};
  };
  auto& second = cluster.start("second");
  ASSERT_TRUE(cluster.world.run_until([&] { return second.controller->acting(); }, minutes{1}));
  cluster.delete_job("ends");
  cluster.world.run_for(seconds{10});
  EXPECT_EQ(cluster.pods_of("ends").size(), 8u);
  EXPECT_THAT(cluster.pods_of("next"), IsEmpty());
  cluster.collect();
  EXPECT_TRUE(cluster.world.run_until([&] { return runs(cluster, "next"); }, minutes{1}));
  EXPECT_THAT(cluster.complaints, IsEmpty());
}

// Its node counts as lost and another place is decided; before that is written down the node is back.
TEST_F(Lingering, APodOnALostNodeThatComesBackHoldsItsGpu) {
  VirtualCluster cluster;
  cluster.options.node_grace = 4;
  cluster.set_up(2, 16);
  cluster.pods_end([](const json&) { return LastWords{.takes = seconds{2}}; });
  cluster.add_job("ends", 1, 8);
  cluster.start();
  ASSERT_TRUE(cluster.world.run_until([&] { return runs(cluster, "ends"); }, minutes{1}));
  const std::string node = cluster.pods_of("ends")[0]["spec"]["nodeName"];
  bool is_written = false;
  cluster.faults = [&](const HttpRequest& request) {
    if (request.target.find("/ends/status") == std::string::npos) return Fault{};
    is_written = true;
    return Fault{.delay = seconds{5}};
  };
  cluster.set_node_ready(node, false);
  ASSERT_TRUE(cluster.world.run_until([&] { return is_written; }, minutes{1})) << "another place was decided";
  cluster.set_node_ready(node, true);
  cluster.add_job("next", 1, 8);
  EXPECT_TRUE(
      cluster.world.run_until([&] { return runs(cluster, "next") && runs(cluster, "ends"); }, minutes{2}))
      << cluster.job("next").dump(1) << cluster.job("ends").dump(1);
  EXPECT_THAT(cluster.complaints, IsEmpty());
}

// A pod has a part of a GPU and outlives its job and the process. The next process gives nobody all of that
// GPU.
TEST_F(Lingering, APodThatSharesAGpuHoldsItsPartInTheNextProcess) {
  VirtualCluster cluster;
  set_up_sharing(cluster);
  auto& first = cluster.start("first");
  ASSERT_TRUE(cluster.world.run_until([&] { return runs(cluster, "ends"); }, minutes{1}));
  ASSERT_TRUE(cluster.stop(first));
  cluster.delete_job("ends");
  cluster.start("second");
  cluster.add_job("next", 8);
  cluster.world.run_for(seconds{40});
  EXPECT_FALSE(cluster.condition("next", "Admitted"));
  cluster.collect();
  EXPECT_TRUE(cluster.world.run_until([&] { return runs(cluster, "next"); }, minutes{1}));
  EXPECT_THAT(cluster.complaints, IsEmpty());
}

// A job is deleted, and made anew under its name, while the requests that make its pods are on their way. The
// pods come to be, and hold their GPUs all the time.
TEST_F(Lingering, PodsThatAreOnTheirWayWhenTheirJobIsMadeAnewHoldTheirGpus) {
  VirtualCluster cluster;
  set_up(cluster);
  int sent = 0;
  cluster.faults = [&](const HttpRequest& request) {
    if (!makes_pod_of_ends(request)) return Fault{};
    ++sent;
    return Fault{.delay = seconds{2}};
  };
  cluster.start();
  ASSERT_TRUE(cluster.world.run_until([&] { return sent == kPodsOfAJob; }, minutes{1}));
  cluster.delete_job("ends");
  cluster.add_job("ends", 1, 1, {{"suspend", true}});
  cluster.add_job("next", 4, 2);
  cluster.world.run_for(seconds{10});
  EXPECT_EQ(cluster.pods_of("ends").size(), std::size_t{kPodsOfAJob});
  EXPECT_THAT(cluster.pods_of("next"), IsEmpty());
  cluster.collect();
  EXPECT_TRUE(cluster.world.run_until([&] { return runs(cluster, "next"); }, minutes{1}));
  EXPECT_THAT(cluster.complaints, IsEmpty());
}

// The same, and none of them comes to be. Then they hold nothing.
TEST_F(Lingering, PodsThatWereOnTheirWayAndAreNotMadeHoldNothing) {
  VirtualCluster cluster;
  set_up(cluster);
  int sent = 0;
  cluster.faults = [&](const HttpRequest& request) {
    if (!makes_pod_of_ends(request)) return Fault{};
    ++sent;
    return Fault{.kind = FaultKind::kLostBefore, .delay = seconds{2}};
  };
  cluster.start();
  ASSERT_TRUE(cluster.world.run_until([&] { return sent == kPodsOfAJob; }, minutes{1}));
  cluster.delete_job("ends");
  cluster.add_job("ends", 1, 1, {{"suspend", true}});
  cluster.add_job("next", 4, 2);
  EXPECT_TRUE(cluster.world.run_until([&] { return runs(cluster, "next"); }, minutes{1}));
  EXPECT_THAT(cluster.pods_of("ends"), IsEmpty());
  EXPECT_THAT(cluster.complaints, IsEmpty());
}

// The answers to the requests that make its pods are lost, so are reads of them for a while, and the watch is
// late.
TEST_F(Lingering, PodsOfWhichNobodyKnowsHoldTheirGpus) {
  VirtualCluster cluster;
  set_up(cluster);
  int sent = 0;
  bool is_read = false;
  cluster.faults = [&](const HttpRequest& request) {
    if (makes_pod_of_ends(request)) {
      ++sent;
      cluster.server.set_watch_lag(minutes{10}, minutes{10});
      return Fault{.kind = FaultKind::kLostAfter};
    }
    const bool reads = request.method == Method::kGet && request.target.contains("/pods/ends-worker");
    return Fault{.kind = reads && !is_read ? FaultKind::kLostBefore : FaultKind::kNone};
  };
  cluster.start();
  ASSERT_TRUE(cluster.world.run_until([&] { return sent == kPodsOfAJob; }, minutes{1}));
  cluster.world.run_for(Duration{100});
  ASSERT_EQ(cluster.pods_of("ends").size(), std::size_t{kPodsOfAJob});
  cluster.server.set_watch_lag(Duration{0}, Duration{0});
  cluster.edit_job("ends", {{"suspend", true}});
  cluster.add_job("next", 4, 2);
  cluster.world.run_for(minutes{2});  // the client itself repeats reads for a while
  EXPECT_THAT(cluster.pods_of("next"), IsEmpty());
  is_read = true;
  EXPECT_TRUE(cluster.world.run_until([&] { return runs(cluster, "next"); }, minutes{1}));
  EXPECT_THAT(cluster.complaints, IsEmpty());
}

// The same, and the job is gone when a look at it throws.
TEST_F(Lingering, PodsOfWhichNobodyKnowsHoldTheirGpusWhenTheirJobIsSetAside) {
  VirtualCluster cluster;
  set_up(cluster);
  int sent = 0;
  bool is_read = false;
  cluster.faults = [&](const HttpRequest& request) {
    if (makes_pod_of_ends(request)) {
      ++sent;
      cluster.server.set_watch_lag(minutes{2}, minutes{2});
      return Fault{.kind = FaultKind::kLostAfter};
    }
    const bool reads = request.method == Method::kGet && request.target.contains("/pods/ends-worker");
    return Fault{.kind = reads && !is_read ? FaultKind::kLostBefore : FaultKind::kNone};
  };
  auto& op = cluster.start();
  bool throws = false;
  int thrown = 0;
  op.controller->set_probe([&](std::string_view controller, const std::string& key) {
    if (!throws || controller != "trainingjob" || key != "team/ends") return;
    ++thrown;
    throw std::runtime_error("a test");
  });
  ASSERT_TRUE(cluster.world.run_until([&] { return sent == kPodsOfAJob; }, minutes{1}));
  cluster.world.run_for(Duration{100});
  cluster.server.set_watch_lag(Duration{0}, Duration{0});
  throws = true;
  cluster.delete_job("ends");
  cluster.add_job("next", 4, 2);
  EXPECT_TRUE(cluster.world.run_until([&] { return thrown > 0; }, minutes{1}));
  cluster.world.run_for(seconds{3});
  EXPECT_THAT(cluster.pods_of("next"), IsEmpty());
  throws = false;
  is_read = true;
  cluster.world.run_for(minutes{3});
  EXPECT_THAT(cluster.pods_of("next"), IsEmpty());
  cluster.collect();
  EXPECT_TRUE(cluster.world.run_until([&] { return runs(cluster, "next"); }, minutes{1}));
  EXPECT_THAT(cluster.complaints, IsEmpty());
}

// The job that shares a GPU is deleted while the request for its holder pod is on its way. The pod comes to
// be, and nobody has all of the GPU before it is gone.
TEST_F(Lingering, AHolderPodThatIsOnItsWayKeepsTheWholeGpuFromOthers) {
  for (const auto kind : {FaultKind::kNone, FaultKind::kLostAfter, FaultKind::kLostBefore}) {
    SCOPED_TRACE(static_cast<int>(kind));
    VirtualCluster cluster;
    set_up_sharing(cluster);
    bool is_sent = false;
    cluster.faults = [&](const HttpRequest& request) {
      if (!makes_holder_pod(request)) return Fault{};
      is_sent = true;
      return Fault{.kind = kind, .delay = seconds{2}};
    };
    cluster.start();
    ASSERT_TRUE(cluster.world.run_until([&] { return is_sent; }, minutes{1}));
    cluster.delete_job("ends");
    cluster.add_job("next", 8);
    cluster.world.run_for(seconds{5});
    EXPECT_TRUE(cluster.world.run_until([&] { return runs(cluster, "next"); }, minutes{1}));
    EXPECT_THAT(cluster.complaints, IsEmpty());
  }
}

// Nor is it known for a while whether it was made.
TEST_F(Lingering, AHolderPodOfWhichNobodyKnowsKeepsTheWholeGpuFromOthers) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    for (const auto kind : {FaultKind::kLostAfter, FaultKind::kLostBefore}) {
      SCOPED_TRACE(std::to_string(static_cast<int>(kind)) + ", seed " + std::to_string(seed));
      VirtualCluster cluster(seed);
      set_up_sharing(cluster);
      bool is_sent = false, is_read = false;
      cluster.faults = [&](const HttpRequest& request) {
        if (makes_holder_pod(request)) {
          is_sent = true;
          cluster.server.set_watch_lag(minutes{10}, minutes{10});
          return Fault{.kind = kind};
        }
        const bool reads = request.method == Method::kGet && request.target.contains("/pods/gpu-");
        return Fault{.kind = reads && !is_read ? FaultKind::kLostBefore : FaultKind::kNone};
      };
      cluster.start();
      ASSERT_TRUE(cluster.world.run_until([&] { return is_sent; }, minutes{1}));
      cluster.world.run_for(Duration{100});
      cluster.server.set_watch_lag(Duration{0}, Duration{0});
      cluster.delete_job("ends");
      cluster.add_job("next", 8);
      // No longer: a watch that has been silent for 100 s is opened again, and then the pod is known.
      cluster.world.run_for(minutes{1});
      EXPECT_EQ(holder_pods(cluster).size(), kind == FaultKind::kLostAfter ? 1u : 0u);
      EXPECT_THAT(cluster.pods_of("next"), IsEmpty());
      is_read = true;
      EXPECT_TRUE(cluster.world.run_until([&] { return holder_pods(cluster).empty(); }, minutes{5}));
      if (kind == FaultKind::kLostBefore)
        EXPECT_TRUE(cluster.world.run_until([&] { return runs(cluster, "next"); }, minutes{5}));
      EXPECT_THAT(cluster.complaints, IsEmpty());
    }
  }
}

// The job is deleted while the request for its pod is on its way. Its holder pod stays as long as the pod may
// come to be: without it the node would give the GPU to another.
TEST_F(Lingering, AHolderPodStaysForASharerThatIsOnItsWay) {
  VirtualCluster cluster;
  set_up_sharing(cluster);
  bool is_sent = false;
  cluster.faults = [&](const HttpRequest& request) {
    if (!makes_pod_of_ends(request)) return Fault{};
    is_sent = true;
    return Fault{.delay = seconds{2}};
  };
  cluster.start();
  ASSERT_TRUE(cluster.world.run_until([&] { return is_sent; }, minutes{1}));
  const auto holders = holder_pods(cluster);
  ASSERT_EQ(holders.size(), 1u);
  cluster.delete_job("ends");
  cluster.world.run_for(seconds{10});
  EXPECT_EQ(cluster.pods_of("ends").size(), 1u);
  EXPECT_EQ(holder_pods(cluster), holders);
  cluster.collect();
  EXPECT_TRUE(cluster.world.run_until([&] { return holder_pods(cluster).empty(); }, minutes{1}));
  EXPECT_THAT(cluster.complaints, IsEmpty());
}

// And when it is not made, the holder pod goes.
TEST_F(Lingering, AHolderPodGoesWhenItsSharerIsNotMade) {
  VirtualCluster cluster;
  set_up_sharing(cluster);
  bool is_sent = false;
  cluster.faults = [&](const HttpRequest& request) {
    if (!makes_pod_of_ends(request)) return Fault{};
    is_sent = true;
    return Fault{.kind = FaultKind::kLostBefore, .delay = seconds{2}};
  };
  cluster.start();
  ASSERT_TRUE(cluster.world.run_until([&] { return is_sent; }, minutes{1}));
  cluster.delete_job("ends");
  EXPECT_TRUE(cluster.world.run_until([&] { return holder_pods(cluster).empty(); }, minutes{1}));
  EXPECT_THAT(cluster.complaints, IsEmpty());
}

// Nobody knows what became of the write that admits the job. It is tried again, and refused because the first
// has come through meanwhile, which the watch says only later. The places are the job's all the time.
TEST_F(Lingering, AStartThatComesThroughAfterAllKeepsItsPlaces) {
  VirtualCluster cluster;
  cluster.set_up(1, 16);
  int writes = 0;
  cluster.faults = [&](const HttpRequest& request) {
    if (request.method != Method::kPatch || request.target.find("/unsure/status") == std::string::npos)
      return Fault{};
    ++writes;
    // The client gives the first up after 30 s.
    return Fault{.delay = writes == 1 ? Duration{30'400} : writes == 2 ? Duration{800} : Duration{0}};
  };
  auto& op = cluster.start();
  ASSERT_TRUE(cluster.world.run_until([&] { return op.controller->acting(); }, minutes{1}));
  cluster.server.set_watch_lag(seconds{3}, seconds{3});
  cluster.add_job("unsure", 8);
  cluster.world.run_for(seconds{10});
  cluster.add_job("next", 8);
  EXPECT_TRUE(cluster.world.run_until([&] { return runs(cluster, "unsure"); }, minutes{2}));
  EXPECT_GE(writes, 2);
  cluster.world.run_for(minutes{1});
  EXPECT_EQ(cluster.job("unsure")["status"]["attempt"], 1);
  EXPECT_THAT(cluster.pods_of("next"), IsEmpty());
  EXPECT_THAT(cluster.complaints, IsEmpty());
}

// Nobody knows what became of the write that admits the job, and the server does not have it yet when it is
// asked. It comes through later: until then the places are not given to another.
TEST_F(Lingering, AStartThatIsLateKeepsItsPlacesFromOthers) {
  VirtualCluster cluster;
  cluster.set_up(1, 16);
  cluster.add_priority_class("high", 100);
  int writes = 0;
  cluster.faults = [&](const HttpRequest& request) {
    if (request.method != Method::kPatch || request.target.find("/unsure/status") == std::string::npos)
      return Fault{};
    ++writes;
    if (writes > 2) return Fault{};
    return Fault{.delay = Duration{writes == 1 ? 30'400 : 2'000}};  // the client gives up after 30 s
  };
  auto& op = cluster.start();
  ASSERT_TRUE(cluster.world.run_until([&] { return op.controller->acting(); }, minutes{1}));
  cluster.add_job("unsure", 8);
  cluster.world.run_for(seconds{10});
  cluster.add_job("next", 8, 1, {{"priorityClassName", "high"}});
  cluster.world.run_for(minutes{3});
  EXPECT_GE(writes, 2);
  EXPECT_THAT(cluster.complaints, IsEmpty());
  EXPECT_TRUE(runs(cluster, "unsure") || runs(cluster, "next"));
  EXPECT_TRUE(cluster.stop(op));
}

}  // namespace
}  // namespace muster::test
