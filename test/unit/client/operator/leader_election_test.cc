// Candidates on one Lease, in virtual time.
#include "muster/client/leader_election.h"

#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/client/testing/virtual_world.h"
#include "watch/fake_collection.h"

namespace muster::client {
namespace {

using namespace std::chrono_literals;
using namespace testing;
using nlohmann::json;

// One Lease with the API server's rules about versions.
struct LeaseServer {
  std::optional<json> lease;
  std::uint64_t version = 0;
  std::vector<std::string> holders;  // as written, without repetition

  HttpResponse answer(const HttpRequest& request) {
    if (request.method == Method::kGet) {
      return lease ? json_answer(200, lease->dump()) : json_answer(404, status_json(404, "NotFound"));
    }
    json body = json::parse(request.body);
    if (request.method == Method::kPost) {
      if (lease) return json_answer(409, status_json(409, "AlreadyExists"));
    } else {
      if (!lease) return json_answer(404, status_json(404, "NotFound"));
      if ((*lease)["metadata"]["resourceVersion"] != body["metadata"].value("resourceVersion", "")) {
        return json_answer(409, status_json(409, "Conflict"));
      }
    }
    body["metadata"]["resourceVersion"] = std::to_string(++version);
    lease = body;
    const std::string holder = body["spec"]["holderIdentity"];
    if (holders.empty() || holders.back() != holder) holders.push_back(holder);
    return json_answer(200, body.dump());
  }
};

// A candidate with its own connection, so that faults can befall it alone.
struct Candidate {
  VirtualWorld& world;
  FakeTransport transport;
  ApiClient api;
  LeaderElection election;
  std::vector<std::pair<std::string, Duration>> events;
  std::optional<bool> result;
  std::shared_ptr<boost::asio::cancellation_signal> signal;
  Fault fault;
  std::optional<TimePoint> write_deadline;

  Candidate(VirtualWorld& w, LeaseServer& server, const std::string& identity)
      : world(w), transport(w.env()), api(w.env(), transport), election(api, options(identity), callbacks()) {
    transport.set_handler([&server](const HttpRequest& r) { return server.answer(r); });
    transport.set_fault_hook([this](const HttpRequest&) { return fault; });
    transport.set_latency(5ms, 5ms);
  }
  static LeaderElectionOptions options(const std::string& identity) {
    LeaderElectionOptions o;
    o.lease.ns = "system";
    o.lease.name = "muster";
    o.identity = identity;
    return o;
  }
  LeaderElection::Callbacks callbacks() {
    LeaderElection::Callbacks c;
    c.on_started = [this] { note("started"); };
    c.on_renewed = [this](TimePoint deadline) { write_deadline = deadline; };
    c.on_stopped = [this] { note("stopped"); };
    c.on_new_leader = [this](const std::string& who) { note("leader " + who); };
    return c;
  }
  void note(std::string what) { events.emplace_back(std::move(what), world.clock().now() - TimePoint{}); }
  static Task<void> work(Candidate& self) { self.result = co_await self.election.run(); }
  void start() { signal = world.start(work(*this)); }
  void cancel() { signal->emit(boost::asio::cancellation_type::terminal); }
  std::optional<Duration> when(const std::string& what) const {
    for (const auto& [name, at] : events) {
      if (name == what) return at;
    }
    return std::nullopt;
  }
};

Fault of(FaultKind kind) {
  Fault fault;
  fault.kind = kind;
  return fault;
}

TEST(LeaderElection, EachRenewalMovesTheWriteDeadlineOn) {
  VirtualWorld world;
  LeaseServer server;
  Candidate a(world, server, "a");
  a.start();
  world.settle();
  EXPECT_FALSE(a.write_deadline);
  world.run_for(20ms);
  EXPECT_EQ(a.write_deadline, TimePoint{} + 10s) << "since the claim was begun, not since its answer";
  world.run_for(1min);
  EXPECT_GT(*a.write_deadline, world.clock().now() + 7s);
  EXPECT_LE(*a.write_deadline, world.clock().now() + 10s);
  a.fault = of(FaultKind::kHangBefore);
  const TimePoint last = *a.write_deadline;
  world.run_for(20s);
  EXPECT_LE(*a.write_deadline, last + 2s);
  EXPECT_EQ(a.when("stopped"), *a.write_deadline - TimePoint{});
}

// The event loop stands still, as where a plan takes long or the process is stopped. When it goes on, the
// write stands in front of the timer that would have stopped it.
TEST(LeaderElection, AWriteIsJudgedByTheClockAndNotByATimerThatIsLate) {
  struct Writing {
    static Task<void> run(ApiClient& api, std::optional<ErrorCode>& error) {
      const auto answer = co_await api.create(resources::kPods, "ns", "{}", "me");
      if (!answer) error = answer.error().code;
    }
  };
  VirtualWorld world;
  LeaseServer server;
  Candidate a(world, server, "a");
  FakeTransport transport(world.env());
  ApiClient api(world.env(), transport);
  a.start();
  world.run_for(1s);
  ASSERT_TRUE(a.election.is_leader());
  api.set_write_deadline(*a.write_deadline);
  std::optional<ErrorCode> error;
  spawn(world.env().executor, Writing::run(api, error));
  world.clock().advance_to(*a.write_deadline);
  EXPECT_TRUE(a.election.is_leader()) << "nobody has told it yet";
  world.settle();
  EXPECT_EQ(error, ErrorCode::kCancelled);
  EXPECT_TRUE(transport.requests().empty());
}

TEST(LeaderElection, OneOfTwoLeadsAndRenews) {
  VirtualWorld world;
  LeaseServer server;
  Candidate a(world, server, "a"), b(world, server, "b");
  a.start();
  world.run_for(100ms);
  b.start();
  world.run_for(10min);
  EXPECT_TRUE(a.election.is_leader());
  EXPECT_FALSE(b.election.is_leader());
  EXPECT_EQ(b.election.observed_leader(), "a");
  EXPECT_EQ(server.holders, std::vector<std::string>{"a"});
  const json& spec = (*server.lease)["spec"];
  EXPECT_EQ(spec["leaseDurationSeconds"], 15);
  EXPECT_EQ(spec["leaseTransitions"], 0);
  WallTime acquired, renewed;
  ASSERT_TRUE(parse_time(spec["acquireTime"].get<std::string>(), acquired));
  ASSERT_TRUE(parse_time(spec["renewTime"].get<std::string>(), renewed));
  EXPECT_GT(renewed - acquired, 9min);
  EXPECT_EQ(spec["renewTime"].get<std::string>().size(), std::string("2026-01-02T03:04:05.000006Z").size());
  // A renewal is one request; the holder need not read.
  std::size_t reads = 0;
  for (const auto& request : a.transport.requests()) reads += request.method == Method::kGet;
  EXPECT_EQ(reads, 1u);
}

TEST(LeaderElection, CancelledLeaderStopsFirstAndReleases) {
  VirtualWorld world;
  LeaseServer server;
  Candidate a(world, server, "a"), b(world, server, "b");
  a.start();
  world.run_for(5s);
  b.start();
  world.run_for(10s);
  a.cancel();
  const Duration cancelled_at = world.clock().now() - TimePoint{};
  world.run_for(5s);
  EXPECT_EQ(a.result, true);
  EXPECT_EQ(a.when("stopped"), cancelled_at);
  EXPECT_TRUE(b.election.is_leader());
  EXPECT_LE(*b.when("started"), cancelled_at + 3s);  // a free lease need not run out
  EXPECT_EQ(server.holders, (std::vector<std::string>{"a", "", "b"}));
  EXPECT_EQ((*server.lease)["spec"]["leaseTransitions"], 1);
}

TEST(LeaderElection, SilentServerStopsTheLeaderAtTheRenewDeadlineThoughTheRequestHangs) {
  for (const FaultKind silence : {FaultKind::kHangBefore, FaultKind::kHangAfter, FaultKind::kNotSent}) {
    VirtualWorld world;
    LeaseServer server;
    Candidate a(world, server, "a"), b(world, server, "b");
    a.start();
    world.run_for(60s);
    b.start();
    world.run_for(30s);
    const std::string last_renewal = (*server.lease)["spec"]["renewTime"];
    a.fault = of(silence);
    const Duration from = world.clock().now() - TimePoint{};
    world.run_for(2min);
    EXPECT_EQ(a.result, false);
    ASSERT_TRUE(a.when("stopped"));
    EXPECT_GT(*a.when("stopped"), from + 7s);
    EXPECT_LE(*a.when("stopped"), from + 10s);
    ASSERT_TRUE(b.when("started"));
    // Between the two nobody leads: at least lease duration minus renew deadline.
    EXPECT_GE(*b.when("started") - *a.when("stopped"), 4900ms);
    EXPECT_EQ((*server.lease)["spec"]["leaseTransitions"], 1);
    EXPECT_EQ((*server.lease)["spec"]["holderIdentity"], "b");
    EXPECT_NE((*server.lease)["spec"]["renewTime"], last_renewal);
  }
}

TEST(LeaderElection, OneLostRequestDoesNotCostTheLease) {
  VirtualWorld world;
  LeaseServer server;
  Candidate a(world, server, "a");
  a.start();
  world.run_for(10s);
  for (const FaultKind kind :
       {FaultKind::kHangAfter, FaultKind::kHangBefore, FaultKind::kLostAfter, FaultKind::kLostBefore}) {
    a.fault = of(kind);
    world.run_for(3s);
    a.fault = Fault{};
    world.run_for(30s);
    EXPECT_TRUE(a.election.is_leader());
  }
  EXPECT_FALSE(a.when("stopped"));
}

TEST(LeaderElection, ClocksOfCandidatesNeedNotAgree) {
  VirtualWorld world;
  LeaseServer server;
  Candidate b(world, server, "b");
  // Written by one whose clock is a day behind, and another whose clock is a day ahead: only that it
  // changes counts.
  for (const char* odd : {"2023-11-13T22:13:20.000000Z", "2023-11-15T22:13:20.000000Z", "nonsense"}) {
    json lease;
    lease["metadata"]["name"] = "muster";
    lease["metadata"]["resourceVersion"] = std::to_string(++server.version);
    lease["metadata"]["labels"]["kept"] = "yes";
    lease["spec"] = {{"holderIdentity", "other"},
                     {"leaseDurationSeconds", 15},
                     {"renewTime", odd},
                     {"leaseTransitions", 4}};
    server.lease = lease;
    if (!b.signal) b.start();
    world.run_for(14s);
    EXPECT_FALSE(b.election.is_leader()) << odd;
  }
  world.run_for(5s);
  EXPECT_TRUE(b.election.is_leader());
  EXPECT_EQ((*server.lease)["spec"]["leaseTransitions"], 5);
  EXPECT_EQ((*server.lease)["metadata"]["labels"]["kept"], "yes");
}

TEST(LeaderElection, ALeaderThatSeesAnotherHolderStopsAtOnce) {
  VirtualWorld world;
  LeaseServer server;
  Candidate a(world, server, "a");
  a.start();
  world.run_for(10s);
  (*server.lease)["spec"]["holderIdentity"] = "thief";
  (*server.lease)["metadata"]["resourceVersion"] = std::to_string(++server.version);
  world.run_for(5s);
  EXPECT_EQ(a.result, false);
  EXPECT_TRUE(a.when("stopped"));
  EXPECT_EQ((*server.lease)["spec"]["holderIdentity"], "thief");
}

TEST(LeaderElection, CancelledBeforeAnAnswerGivesBackWhatItMayHaveTaken) {
  VirtualWorld world;
  LeaseServer server;
  Candidate a(world, server, "a");
  a.transport.set_latency(200ms, 200ms);
  a.start();
  world.run_for(350ms);  // the create is executed, its answer under way
  ASSERT_TRUE(server.lease);
  a.cancel();
  world.run_for(5s);
  EXPECT_EQ(a.result, true);
  EXPECT_FALSE(a.when("started"));
  EXPECT_EQ((*server.lease)["spec"]["holderIdentity"], "");
}

TEST(LeaderElection, CancelledInSilenceEndsWithinSeconds) {
  VirtualWorld world;
  LeaseServer server;
  Candidate a(world, server, "a");
  a.start();
  world.run_for(10s);
  a.fault = of(FaultKind::kHangBefore);
  world.run_for(3s);
  a.cancel();
  world.run_for(2001ms);
  EXPECT_EQ(a.result, true);
}

// Whatever befalls three candidates, never two lead at once.
TEST(LeaderElection, NeverTwoLeadersUnderRandomFaults) {
  int changes = 0;
  for (std::uint64_t seed = 0; seed < 100; ++seed) {
    VirtualWorld world(seed);
    LeaseServer server;
    std::vector<std::unique_ptr<Candidate>> all;
    for (const char* name : {"a", "b", "c"}) all.push_back(std::make_unique<Candidate>(world, server, name));
    for (auto& c : all) {
      c->transport.set_latency(0ms, 500ms);
      c->start();
    }
    for (int i = 0; i < 300; ++i) {
      for (auto& c : all) {
        if (world.random().below(20) == 0) c->fault = of(static_cast<FaultKind>(world.random().below(6)));
        if (world.random().below(20) == 0) c->fault = Fault{};
        if (c->result && world.random().below(10) == 0) {
          c->result.reset();
          c->start();
        }
      }
      world.run_for(500ms);
      int leaders = 0;
      for (auto& c : all) leaders += c->election.is_leader();
      ASSERT_LE(leaders, 1) << "seed " << seed;
    }
    changes += static_cast<int>(server.holders.size());
  }
  EXPECT_GT(changes, 200);
}

}  // namespace
}  // namespace muster::client
