// The operator as a whole in virtual time: what it writes, in which order, and what becomes of it when
// requests fail.
#include <gmock/gmock.h>
#include <spdlog/spdlog.h>

#include "virtual_cluster.h"

namespace muster::test {
namespace {

using controller::Ended;
using std::chrono::minutes;
using std::chrono::seconds;

class VirtualTime : public testing::Test {
 protected:
  VirtualTime() { spdlog::set_level(spdlog::level::off); }
};

bool assigns(const MemoryApiServer::Executed& e) {
  return e.body.value("/status/assignment/attempt"_json_pointer, 0) > 0;
}

// What must hold of a job of four pods once it runs, whatever happened before.
void expect_one_whole_gang(VirtualCluster& cluster, const std::string& name) {
  const auto pods = cluster.pods_of(name);
  ASSERT_EQ(pods.size(), 4u);
  std::set<std::string> indexes;
  for (const auto& pod : pods) {
    EXPECT_EQ(pod["metadata"]["labels"]["muster.dev/attempt"], "1");
    indexes.insert(pod["metadata"]["labels"]["muster.dev/index"]);
  }
  EXPECT_EQ(indexes.size(), 4u);
  EXPECT_EQ(cluster.job(name)["status"]["assignment"]["attempt"], 1);
  EXPECT_EQ(cluster.executed(Method::kPost, "/pods").size(), 4u) << "a pod was made twice";
  const json& service = cluster.server.object("/api/v1/services", "team/" + name);
  EXPECT_EQ(service["spec"]["selector"]["muster.dev/attempt"], "1") << "its pods do not find each other";
  EXPECT_THAT(cluster.complaints, testing::IsEmpty());
}

// The assignment is committed, by one write, before the first pod is made.
void expect_commit_before_pods(const VirtualCluster& cluster) {
  int assignments = 0;
  for (const auto& e : cluster.server.executed()) {
    if (e.status >= 300) continue;
    if (is_job_status(e.path) && assigns(e)) ++assignments;
    if (e.method == Method::kPost && e.path.ends_with("/pods")) {
      EXPECT_EQ(assignments, 1);
      return;
    }
  }
  ADD_FAILURE() << "no pod was made";
}

TEST_F(VirtualTime, AJobIsCommittedThenMadeThenReady) {
  VirtualCluster cluster;
  cluster.set_up(1, 8);
  cluster.add_job("train", 4);
  auto& op = cluster.start();
  EXPECT_FALSE(op.controller->acting());
  ASSERT_TRUE(cluster.world.run_until([&] { return op.controller->acting(); }, seconds{10}));
  EXPECT_TRUE(op.controller->synced());
  ASSERT_TRUE(cluster.world.run_until([&] { return cluster.condition("train", "PodsReady"); }, minutes{1}));
  EXPECT_EQ(cluster.phase("train"), "Running");
  expect_one_whole_gang(cluster, "train");
  expect_commit_before_pods(cluster);
  EXPECT_EQ(cluster.executed(Method::kPost, "/services").size(), 1u);
  EXPECT_EQ(cluster.executed(Method::kPost, "/configmaps").size(), 1u);

  // Nothing is left to say: no write without a cause.
  cluster.world.run_for(minutes{1});
  const auto quiet_since = cluster.now();
  cluster.world.run_for(minutes{10});
  EXPECT_LE(op.last_write_sent, quiet_since);

  ASSERT_TRUE(cluster.stop(op));
  EXPECT_EQ(*op.ended, Ended::kAsked);
  EXPECT_EQ(cluster.pods_of("train").size(), 4u) << "stopping the operator stopped the job";
}

TEST_F(VirtualTime, StoppedBeforeTheCachesAreSyncedItEnds) {
  VirtualCluster cluster;
  cluster.faults = [](const HttpRequest&) { return Fault{.kind = FaultKind::kHangBefore}; };
  auto& op = cluster.start();
  cluster.world.run_for(seconds{5});
  EXPECT_FALSE(op.controller->synced());
  ASSERT_TRUE(cluster.stop(op));
  EXPECT_EQ(*op.ended, Ended::kAsked);
  EXPECT_THAT(cluster.server.executed(), testing::IsEmpty());
}

// What befalls writes in the first minute, by lot; and for a while nobody is there at all.
class Misfortune {
 public:
  explicit Misfortune(VirtualCluster& cluster) : cluster_(cluster) {
    down_from_ = cluster.dice.between(Duration{0}, Duration{4000});
    down_until_ = down_from_ + cluster.dice.between(Duration{0}, Duration{20'000});
  }

  Fault operator()(const HttpRequest& request) {
    if (cluster_.now() >= down_from_ && cluster_.now() < down_until_) return {.kind = FaultKind::kNotSent};
    if (request.method == Method::kGet || cluster_.now() > minutes{1}) return {};
    switch (cluster_.dice.below(14)) {
      case 0:
      case 1:
        return {.kind = FaultKind::kLostAfter};
      case 2:
        return {.kind = FaultKind::kLostBefore};
      case 3:
        return {.kind = FaultKind::kHangAfter};
      case 4:
        return {.kind = FaultKind::kAnswer,
                .answer = MemoryApiServer::failure(500, "InternalError", "etcdserver: request timed out")};
      case 5:
        // A conflict is an answer to guarded writes alone.
        if (request.method != Method::kPatch) return {};
        return {.kind = FaultKind::kAnswer,
                .answer = MemoryApiServer::failure(409, "Conflict", "the object has been modified")};
      case 6:
        return {.kind = FaultKind::kAnswer,
                .answer = MemoryApiServer::failure(429, "TooManyRequests", "later")};
      case 7:
        distort_next_ = true;
        return {};
      default:
        return {};
    }
  }

  // Executed, and the server says 500 all the same.
  std::optional<client::HttpResponse> distort(const MemoryApiServer::Executed& e) {
    if (e.method == Method::kGet || !std::exchange(distort_next_, false)) return std::nullopt;
    return MemoryApiServer::failure(500, "InternalError", "etcdserver: request timed out");
  }

 private:
  VirtualCluster& cluster_;
  Duration down_from_, down_until_;
  bool distort_next_ = false;
};

// A history with faults to its end; the log of all requests.
std::string history(std::uint64_t seed) {
  VirtualCluster cluster(seed);
  Misfortune misfortune(cluster);
  cluster.faults = std::ref(misfortune);
  cluster.server.distort = [&](const MemoryApiServer::Executed& e) { return misfortune.distort(e); };
  cluster.set_up(1, 8);
  cluster.add_job("train", 4);
  auto& op = cluster.start();
  cluster.world.run_for(cluster.dice.between(Duration{0}, seconds{20}));
  cluster.server.break_watches();
  EXPECT_TRUE(cluster.world.run_until([&] { return cluster.condition("train", "PodsReady"); }, minutes{10}))
      << cluster.log;
  cluster.world.run_for(minutes{2});
  expect_one_whole_gang(cluster, "train");
  expect_commit_before_pods(cluster);
  EXPECT_EQ(cluster.phase("train"), "Running");
  EXPECT_TRUE(cluster.stop(op));
  EXPECT_EQ(op.ended, Ended::kAsked);
  return std::move(cluster.log);
}

TEST_F(VirtualTime, WhateverBefallsItsWritesAGangIsMadeOnce) {
  for (std::uint64_t seed = 1; seed <= 60; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    history(seed);
    if (HasFailure()) return;
  }
}

TEST_F(VirtualTime, OneSeedIsOneHistory) {
  std::set<std::string> histories;
  for (std::uint64_t seed = 101; seed <= 105; ++seed) {
    const std::string once = history(seed);
    EXPECT_TRUE(once == history(seed)) << "seed " << seed;
    histories.insert(once);
  }
  EXPECT_EQ(histories.size(), 5u) << "the seed means nothing";
}

// Half of the gangs must wait: what one does not get, for whatever reason, another gets, and never both. Some
// writes arrive long after the operator has given them up.
TEST_F(VirtualTime, GangsThatContendNeverShareAGpu) {
  for (std::uint64_t seed = 1; seed <= 15; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    VirtualCluster cluster(seed);
    Misfortune misfortune(cluster);
    cluster.faults = [&](const HttpRequest& request) {
      const bool late =
          request.method == Method::kPatch && cluster.now() < minutes{1} && cluster.dice.below(6) == 0;
      if (late) return Fault{.delay = cluster.dice.between(seconds{20}, seconds{60})};
      return misfortune(request);
    };
    cluster.server.distort = [&](const MemoryApiServer::Executed& e) { return misfortune.distort(e); };
    cluster.set_up(2, 16);
    cluster.start();
    for (int i = 0; i < 8; ++i) {
      cluster.add_job("train-" + std::to_string(i), 4);
      cluster.world.run_for(cluster.dice.between(Duration{0}, seconds{5}));
    }
    const auto running = [&] {
      int n = 0;
      for (int i = 0; i < 8; ++i) n += cluster.phase("train-" + std::to_string(i)) == "Running" ? 1 : 0;
      return n;
    };
    EXPECT_TRUE(cluster.world.run_until([&] { return running() == 4; }, minutes{15})) << running() << " run";
    cluster.world.run_for(minutes{5});
    EXPECT_EQ(running(), 4);
    EXPECT_THAT(cluster.complaints, testing::IsEmpty());
    for (int i = 0; i < 8; ++i) {
      const std::string name = "train-" + std::to_string(i);
      EXPECT_EQ(cluster.pods_of(name).size(), cluster.phase(name) == "Running" ? 4u : 0u) << name;
    }
    if (HasFailure()) return;
  }
}

struct Lease {
  std::string holder;
  Duration renewed{};  // when the last renewal that succeeded was sent, at the earliest
};

Lease lease_of(VirtualCluster& cluster) {
  const json& lease = cluster.server.object(kLeases, "muster-system/muster-controller");
  Lease out{lease["spec"]["holderIdentity"], {}};
  for (const auto& e : cluster.executed(Method::kPut, "/leases/")) out.renewed = e.at.time_since_epoch();
  return out;
}

TEST_F(VirtualTime, AskedToStopItWritesItsEventsAndGivesTheLeaseBack) {
  VirtualCluster cluster;
  cluster.options.leader_elect = true;
  // Events are slow: the one of the admission is still on its way when the operator is asked to stop.
  cluster.faults = [](const HttpRequest& request) {
    return request.target.find("/events") == std::string::npos ? Fault{} : Fault{.delay = Duration{700}};
  };
  cluster.set_up(1, 8);
  cluster.add_job("train", 4);
  auto& op = cluster.start();
  ASSERT_TRUE(cluster.world.run_until(
      [&] { return cluster.job("train").contains("/status/assignment"_json_pointer); }, minutes{1}));
  EXPECT_EQ(lease_of(cluster).holder, "first");
  ASSERT_THAT(cluster.executed(Method::kPost, "/events"), testing::IsEmpty());
  ASSERT_TRUE(cluster.stop(op));
  EXPECT_EQ(op.ended, Ended::kAsked);
  EXPECT_EQ(lease_of(cluster).holder, "");
  const auto events = cluster.executed(Method::kPost, "/events");
  ASSERT_FALSE(events.empty());
  EXPECT_EQ(events[0].body["regarding"]["name"], "train");
  // The lease goes last: whoever gets it finds no write of ours on its way.
  const auto& all = cluster.server.executed();
  const auto last_write =
      std::find_if(all.rbegin(), all.rend(), [](const auto& e) { return e.method != Method::kGet; });
  ASSERT_NE(last_write, all.rend());
  EXPECT_THAT(last_write->path, testing::HasSubstr("/leases/"));
}

// Nobody answers any more: what is under way is let go in time, and nothing of it touches what is gone.
TEST_F(VirtualTime, AskedToStopWhileNobodyAnswersItEndsInTime) {
  for (std::uint64_t seed = 1; seed <= 10; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    VirtualCluster cluster(seed);
    cluster.options.leader_elect = seed % 2 == 0;
    cluster.set_up(1, 8);
    cluster.add_job("train", 4);
    auto& op = cluster.start();
    ASSERT_TRUE(cluster.world.run_until([&] { return op.controller->acting(); }, minutes{1}));
    cluster.world.run_for(cluster.dice.between(Duration{0}, Duration{60}));
    op.cut_off = true;
    cluster.add_job("more", 4);
    cluster.world.run_for(cluster.dice.between(Duration{0}, Duration{2000}));
    EXPECT_TRUE(cluster.stop(op));
    if (HasFailure()) return;
  }
}

// The process dies at any moment, with requests on their way, and another one takes over: what it
// finds is enough.
TEST_F(VirtualTime, WhereverAProcessDiesTheNextGoesOn) {
  for (std::uint64_t seed = 1; seed <= 24; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    VirtualCluster cluster(seed);
    cluster.options.leader_elect = seed % 4 == 0;
    cluster.set_up(1, 4);
    cluster.add_job("train", 4);
    cluster.add_job("waits", 4);
    for (int life = 0; life < 4; ++life) {
      auto& op = cluster.start("life-" + std::to_string(life));
      cluster.world.run_until([&] { return op.controller->acting(); }, minutes{1});
      cluster.world.run_for(cluster.dice.between(Duration{0}, Duration{60}));
      op.cut_off = true;
      cluster.world.run_for(Duration{10});  // what it had sent has arrived before another process is up
    }
    auto& last = cluster.start("last");
    ASSERT_TRUE(cluster.world.run_until([&] { return last.controller->acting(); }, minutes{2}));
    const auto one_runs = [&] {
      return cluster.condition("train", "PodsReady") || cluster.condition("waits", "PodsReady");
    };
    EXPECT_TRUE(cluster.world.run_until(one_runs, minutes{5}));
    cluster.world.run_for(minutes{1});
    const bool first = cluster.condition("train", "PodsReady");
    expect_one_whole_gang(cluster, first ? "train" : "waits");
    EXPECT_THAT(cluster.pods_of(first ? "waits" : "train"), testing::IsEmpty());
    EXPECT_EQ(cluster.phase(first ? "waits" : "train"), "Queued");
    if (HasFailure()) return;
  }
}

// A job in foreground deletion is there until its pods are: what they hold is nobody else's, whoever looks.
TEST_F(VirtualTime, PodsOfAJobThatGoesHoldTheirGpusOverARestart) {
  VirtualCluster cluster;
  cluster.set_up(1, 8);
  cluster.add_job("goes", 8);
  auto& first = cluster.start("first");
  ASSERT_TRUE(cluster.world.run_until([&] { return cluster.condition("goes", "PodsReady"); }, minutes{1}));
  ASSERT_TRUE(cluster.stop(first));
  json going = cluster.job("goes");
  going["metadata"]["deletionTimestamp"] = "2023-11-14T22:20:00Z";
  going["metadata"]["finalizers"] = {"foregroundDeletion"};
  cluster.server.put(kJobs, going);
  cluster.pods_end([](const json&) { return LastWords{.message = "", .stuck = true}; });  // they are told to go, and do not
  cluster.add_job("next", 4);
  cluster.start("second");
  ASSERT_TRUE(cluster.world.run_until([&] { return cluster.phase("next") == "Queued"; }, minutes{1}));
  cluster.world.run_for(minutes{1});
  EXPECT_THAT(cluster.pods_of("next"), testing::IsEmpty());
  EXPECT_THAT(cluster.complaints, testing::IsEmpty());
  ASSERT_THAT(cluster.pods_of("goes"), testing::SizeIs(8));
  for (const auto& pod : cluster.pods_of("goes"))
    cluster.server.erase(kPods, "team/" + pod["metadata"]["name"].get<std::string>());
  cluster.server.erase(kJobs, "team/goes");
  EXPECT_TRUE(cluster.world.run_until([&] { return cluster.condition("next", "PodsReady"); }, minutes{1}));
}

// Two replicas: the leader is cut off, the other takes over when the lease has run out, and never before the
// first has stopped.
TEST_F(VirtualTime, TheSecondReplicaActsOnlyAfterTheFirstHasStopped) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    VirtualCluster cluster(seed);
    cluster.options.leader_elect = true;
    cluster.set_up(1, 8);
    auto& first = cluster.start("first");
    ASSERT_TRUE(cluster.world.run_until([&] { return first.controller->acting(); }, minutes{1}));
    auto& second = cluster.start("second");
    cluster.add_job("train", 4);
    cluster.world.run_for(cluster.dice.between(Duration{0}, Duration{100}));
    EXPECT_FALSE(second.controller->acting());
    first.cut_off = true;
    ASSERT_TRUE(cluster.world.run_until([&] { return second.controller->acting(); }, minutes{1}));
    const Duration taken_over = cluster.now();
    EXPECT_FALSE(first.controller->acting());
    ASSERT_TRUE(cluster.world.run_until([&] { return cluster.condition("train", "PodsReady"); }, minutes{1}));
    cluster.world.run_for(minutes{2});
    EXPECT_LT(first.last_write_sent, taken_over);
    EXPECT_EQ(first.ended, Ended::kLostLease);
    expect_one_whole_gang(cluster, "train");
    if (HasFailure()) return;
  }
}

// The API server falls silent to requests, while watches still bring work: nothing is written after the
// renew deadline.
TEST_F(VirtualTime, WithoutItsLeaseItWritesNothing) {
  for (std::uint64_t seed = 1; seed <= 12; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    VirtualCluster cluster(seed);
    cluster.options.leader_elect = true;
    cluster.set_up(1, 8);
    cluster.add_job("train", 4);
    auto& op = cluster.start();
    ASSERT_TRUE(cluster.world.run_until([&] { return cluster.condition("train", "PodsReady"); }, minutes{1}));
    cluster.world.run_for(cluster.dice.between(Duration{0}, seconds{10}));
    const bool refused = seed % 2 == 0;
    cluster.faults = [refused](const HttpRequest&) {
      return Fault{.kind = refused ? FaultKind::kNotSent : FaultKind::kHangBefore};
    };
    const Duration silent_since = cluster.now();
    for (int i = 0; i < 20; ++i) {
      if (i < 8) cluster.add_job("more-" + std::to_string(i), 1);
      cluster.server.set_status(kPods, "team/train-worker-0-1",
                                {{"phase", i % 2 == 0 ? "Failed" : "Running"}});
      cluster.world.run_for(seconds{1});
    }
    const Duration deadline = lease_of(cluster).renewed + seconds{10};
    EXPECT_GT(op.last_write_sent, silent_since) << "nothing was tried";
    EXPECT_LE(op.last_write_sent, deadline);
    EXPECT_FALSE(op.controller->acting());
    EXPECT_TRUE(cluster.world.run_until([&] { return op.ended.has_value(); }, minutes{1}));
    EXPECT_EQ(op.ended, Ended::kLostLease);
    EXPECT_LE(op.last_write_sent, deadline);
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace muster::test
