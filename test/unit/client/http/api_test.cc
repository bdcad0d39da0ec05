// The verbs over the in-memory transport, in virtual time.
#include "muster/client/api.h"

#include <gtest/gtest.h>

#include "muster/client/testing/fake_transport.h"
#include "muster/client/testing/virtual_world.h"

namespace muster::client {
namespace {

using namespace std::chrono_literals;
using testing::FakeTransport;
using testing::Fault;
using testing::FaultKind;
using testing::VirtualWorld;

struct ApiTest : ::testing::Test {
  VirtualWorld world;
  FakeTransport transport{world.env()};
  ApiClient api{world.env(), transport};
  const ObjectRef ref{"ns", "x"};

  const HttpRequest& last() const { return transport.requests().back(); }
  Duration elapsed() const { return world_now() - TimePoint{}; }
  TimePoint world_now() const { return const_cast<VirtualWorld&>(world).clock().now(); }
  void fail_with(FaultKind kind) {
    transport.set_fault_hook([kind](const HttpRequest&) {
      Fault fault;
      fault.kind = kind;
      return fault;
    });
  }
  static std::string status(const char* reason) {
    return std::string{R"({"kind":"Status","reason":")"} + reason + "\"}";
  }
};

TEST_F(ApiTest, PathsAndQueriesAreEncoded) {
  EXPECT_EQ(resources::kPods.path("ns", "p", "status"), "/api/v1/namespaces/ns/pods/p/status");
  EXPECT_EQ(resources::kNodes.path("", "n"), "/api/v1/nodes/n");
  EXPECT_EQ(resources::kLeases.path("a b"), "/apis/coordination.k8s.io/v1/namespaces/a%20b/leases");
  EXPECT_EQ(resources::kPods.path("../x", "a/b?c"), "/api/v1/namespaces/..%2Fx/pods/a%2Fb%3Fc");
  transport.enqueue_json(
      200, R"({"kind":"PodList","metadata":{"resourceVersion":"7","continue":"t\/\"k"},"items":[]})");
  ListOptions options;
  options.label_selector = "a in (b,c),d=é";
  options.field_selector = "spec.nodeName=n";
  options.resource_version = "0";
  const auto page = world.run(api.list(resources::kPods, "", options));
  ASSERT_TRUE(page) << to_string(page.error());
  EXPECT_EQ(last().target,
            "/api/v1/"
            "pods?labelSelector=a%20in%20%28b%2Cc%29%2Cd%3D%C3%A9&fieldSelector=spec.nodeName%3Dn&limit=500&"
            "resourceVersion=0");
  EXPECT_EQ(page->resource_version, "7");
  EXPECT_EQ(page->continue_token, "t/\"k");
  options.continue_token = "t&";
  transport.enqueue_json(
      200, R"({"items":[{"metadata":{"resourceVersion":"1"}}],"metadata":{"resourceVersion":"8"}})");
  const auto next = world.run(api.list(resources::kPods, "ns", options));
  ASSERT_TRUE(next);
  EXPECT_EQ(next->resource_version, "8");
  EXPECT_EQ(next->continue_token, "");
  EXPECT_TRUE(last().target.ends_with("&limit=500&continue=t%26")) << last().target;
  transport.enqueue_json(200, "<html>");
  EXPECT_EQ(world.run(api.list(resources::kPods, "", options)).error().code, ErrorCode::kDecode);
}

TEST_F(ApiTest, WritesSayWhatTheyShould) {
  transport.set_handler([](const HttpRequest&) {
    HttpResponse ok;
    ok.status = 200;
    ok.body = "{}";
    return ok;
  });
  ASSERT_TRUE(world.run(api.create(resources::kPods, "ns", "{1}", "me", true)));
  EXPECT_EQ(last().method, Method::kPost);
  EXPECT_EQ(last().target, "/api/v1/namespaces/ns/pods?fieldManager=me&dryRun=All");
  EXPECT_EQ(last().body, "{1}");
  EXPECT_EQ(*find_header(last().headers, "content-type"), "application/json");
  ASSERT_TRUE(world.run(api.update(resources::kPods, ref, "{2}", "status")));
  EXPECT_EQ(last().method, Method::kPut);
  EXPECT_EQ(last().target, "/api/v1/namespaces/ns/pods/x/status");
  PatchOptions apply;
  apply.type = PatchType::kApply;
  apply.field_manager = "me";
  apply.force = true;
  ASSERT_TRUE(world.run(api.patch(resources::kPods, ref, "{3}", apply)));
  EXPECT_EQ(last().target, "/api/v1/namespaces/ns/pods/x?fieldManager=me&force=true");
  EXPECT_EQ(*find_header(last().headers, "content-type"), "application/apply-patch+yaml");
  PatchOptions json;
  json.type = PatchType::kJson;
  json.subresource = "scale";
  ASSERT_TRUE(world.run(api.patch(resources::kPods, ref, "[]", json)));
  EXPECT_EQ(last().target, "/api/v1/namespaces/ns/pods/x/scale");
  EXPECT_EQ(*find_header(last().headers, "content-type"), "application/json-patch+json");
  DeleteOptions remove;
  remove.uid = "u";
  remove.resource_version = "9";
  remove.grace_period_seconds = 0;
  remove.propagation_policy = "Foreground";
  ASSERT_TRUE(world.run(api.remove(resources::kPods, ref, remove)));
  EXPECT_EQ(last().method, Method::kDelete);
  EXPECT_EQ(
      last().body,
      R"({"apiVersion":"v1","gracePeriodSeconds":0,"kind":"DeleteOptions","preconditions":{"resourceVersion":"9","uid":"u"},"propagationPolicy":"Foreground"})");
  ListOptions selector;
  selector.label_selector = "a=b";
  ASSERT_TRUE(world.run(api.remove_collection(resources::kPods, "ns", selector)));
  EXPECT_EQ(last().target, "/api/v1/namespaces/ns/pods?labelSelector=a%3Db");
  EXPECT_FALSE(last().body.empty());
}

TEST_F(ApiTest, RefusalsAreRepeatedWithGrowingBackoffThenReported) {
  fail_with(FaultKind::kNotSent);
  const auto result = world.run(api.create(resources::kPods, "ns", "{}", "me"));
  ASSERT_FALSE(result);
  EXPECT_EQ(result.error().code, ErrorCode::kNotSent);
  EXPECT_EQ(transport.requests().size(), 9u);  // once, and max_repeats
  // 100 + 200 + … + 6400 + 10000 ms, each up to half as long again.
  EXPECT_GE(elapsed(), 22'700ms);
  EXPECT_LE(elapsed(), 34'050ms);
}

TEST_F(ApiTest, WritesOfUnknownOutcomeAreNeverRepeatedReadsAre) {
  for (const FaultKind kind : {FaultKind::kLostBefore, FaultKind::kLostAfter}) {
    fail_with(kind);
    const auto before = transport.requests().size();
    EXPECT_EQ(world.run(api.update(resources::kPods, ref, "{}")).error().code, ErrorCode::kUnknownOutcome);
    EXPECT_EQ(transport.requests().size(), before + 1);
    EXPECT_EQ(world.run(api.get(resources::kPods, ref)).error().code, ErrorCode::kUnknownOutcome);
    EXPECT_EQ(transport.requests().size(), before + 1 + 9);
  }
  transport.set_fault_hook(nullptr);
  for (const char* reason : {"Timeout", "InternalError"}) {
    transport.enqueue_json(reason == std::string{"Timeout"} ? 504 : 500, status(reason));
    const auto before = transport.requests().size();
    EXPECT_TRUE(world.run(api.create(resources::kPods, "ns", "{}", "me")).error().outcome_unknown());
    EXPECT_EQ(transport.requests().size(), before + 1);
  }
}

// A gateway answers 503 also when the server behind it went away after it had acted.
TEST_F(ApiTest, A503IsRepeatedForAWriteOnlyIfTheApiServerItselfSaysIt) {
  transport.enqueue_json(503, "<html>upstream went away</html>");
  const auto by_gateway = world.run(api.create(resources::kPods, "ns", "{}", "me"));
  ASSERT_FALSE(by_gateway);
  EXPECT_TRUE(by_gateway.error().outcome_unknown());
  EXPECT_EQ(transport.requests().size(), 1u);

  transport.enqueue_json(503, "<html>upstream went away</html>");
  transport.enqueue_json(200, "{}");
  EXPECT_TRUE(world.run(api.get(resources::kPods, ref))) << "a read is repeated";
  EXPECT_EQ(transport.requests().size(), 3u);

  transport.enqueue_json(503, status("ServiceUnavailable"));
  transport.enqueue_json(200, "{}");
  EXPECT_TRUE(world.run(api.create(resources::kPods, "ns", "{}", "me")));
  EXPECT_EQ(transport.requests().size(), 5u);
}

TEST_F(ApiTest, DeadlineOfOneAttempt) {
  fail_with(FaultKind::kHangAfter);
  EXPECT_EQ(world.run(api.get(resources::kPods, ref)).error().code, ErrorCode::kDeadline);
  EXPECT_EQ(elapsed(), 30s);
  EXPECT_EQ(transport.requests().size(), 1u);
}

TEST_F(ApiTest, RetryAfterInSecondsAndAsADate) {
  HttpResponse busy;
  busy.status = 429;
  busy.headers.emplace_back("retry-after", "5");
  transport.enqueue(busy);
  transport.enqueue_json(200, "{}");
  ASSERT_TRUE(world.run(api.get(resources::kPods, ref)));
  EXPECT_GE(elapsed(), 5s);
  EXPECT_LE(elapsed(), 5500ms);
  const TimePoint start = world_now();
  // The virtual clock starts at 1 700 000 000 s: Tue, 14 Nov 2023 22:13:20 GMT.
  busy.headers[0].second = "Tue, 14 Nov 2023 22:13:35 GMT";
  transport.enqueue(busy);
  transport.enqueue_json(200, "{}");
  ASSERT_TRUE(world.run(api.get(resources::kPods, ref)));
  EXPECT_GE(world_now(), TimePoint{15s});
  EXPECT_LE(world_now() - start, 11s);
  busy.headers[0].second = "3600";
  transport.enqueue(busy);
  const auto late = world.run(api.get(resources::kPods, ref));
  EXPECT_EQ(late.error().code, ErrorCode::kTooManyRequests);
  EXPECT_EQ(late.error().retry_after, 3600s);
  // A gateway's page instead of a Status, and its header.
  busy.status = 503;
  busy.body = "<html>upstream went away</html>";
  transport.enqueue(busy);
  const auto by_gateway = world.run(api.create(resources::kPods, "ns", "{}", "me"));
  EXPECT_EQ(by_gateway.error().code, ErrorCode::kUnknownOutcome);
  EXPECT_EQ(by_gateway.error().retry_after, 3600s);
}

Task<void> create_one(ApiClient& api, int& done, int& failed) {
  const auto result = co_await api.create(resources::kPods, "ns", "{}", "me");
  ++(result ? done : failed);
}

TEST_F(ApiTest, LimitHalvesOncePerWaveOf429AndRecovers) {
  ApiOptions options;
  options.max_in_flight = 8;
  ApiClient small(world.env(), transport, options);
  transport.set_latency(10ms, 10ms);
  std::size_t most = 0;
  int refuse = 8;
  transport.set_handler([&](const HttpRequest&) {
    most = std::max(most, transport.in_flight());
    HttpResponse response;
    response.status = refuse-- > 0 ? 429 : 201;
    return response;
  });
  int done = 0, failed = 0;
  for (int i = 0; i < 20; ++i) world.start(create_one(small, done, failed));
  world.run_for(12ms);
  EXPECT_EQ(most, 8u);
  EXPECT_EQ(small.current_limit(), 4);  // eight refusals of one wave
  world.run_for(1min);
  EXPECT_EQ(done, 20);
  for (int i = 0; i < 100; ++i) world.start(create_one(small, done, failed));
  world.run_for(1min);
  EXPECT_EQ(done, 120);
  EXPECT_EQ(failed, 0);
  EXPECT_EQ(small.current_limit(), 8);
  EXPECT_EQ(most, 8u);
}

TEST_F(ApiTest, CancellationInFlightInQueueAndInBackoff) {
  ApiOptions options;
  options.max_in_flight = 1;
  ApiClient narrow(world.env(), transport, options);
  transport.set_latency(1s, 1s);
  transport.set_handler([](const HttpRequest&) {
    HttpResponse r;
    r.status = 429;
    return r;
  });
  std::vector<ErrorCode> codes;
  auto task = [](ApiClient& a, std::vector<ErrorCode>& out) -> Task<void> {
    const auto result = co_await a.create(resources::kPods, "ns", "{}", "me");
    out.push_back(result ? ErrorCode::kInternal : result.error().code);
  };
  auto flying = world.start(task(narrow, codes));
  auto queued = world.start(task(narrow, codes));
  world.run_for(100ms);
  EXPECT_EQ(transport.in_flight(), 1u);
  queued->emit(boost::asio::cancellation_type::terminal);
  world.settle();
  EXPECT_EQ(codes, (std::vector{ErrorCode::kCancelled}));
  flying->emit(boost::asio::cancellation_type::terminal);
  world.settle();
  EXPECT_EQ(codes.size(), 2u);
  EXPECT_EQ(transport.in_flight(), 0u);
  auto backing_off = world.start(task(narrow, codes));
  world.run_for(1010ms);
  EXPECT_EQ(transport.in_flight(), 0u);
  backing_off->emit(boost::asio::cancellation_type::terminal);
  world.settle();
  EXPECT_EQ(codes, (std::vector{ErrorCode::kCancelled, ErrorCode::kCancelled, ErrorCode::kCancelled}));
  EXPECT_EQ(transport.requests().size(), 2u);
  // Nothing holds the one place any more.
  transport.set_handler([](const HttpRequest&) {
    HttpResponse r;
    r.status = 200;
    return r;
  });
  EXPECT_TRUE(world.run(narrow.get(resources::kPods, ref)));
}

TEST_F(ApiTest, StoppedWritesNeverLeaveReadsDo) {
  transport.set_latency(1s, 1s);
  transport.set_handler([](const HttpRequest& r) {
    HttpResponse a;
    a.status = r.method == Method::kGet ? 200 : 429;
    return a;
  });
  int done = 0, failed = 0;
  world.start(create_one(api, done, failed));
  world.run_for(1001ms);  // now it backs off
  api.stop_writes();
  EXPECT_TRUE(api.writes_stopped());
  world.run_for(1min);
  EXPECT_EQ(failed, 1);
  EXPECT_EQ(transport.requests().size(), 1u);
  EXPECT_EQ(world.run(api.remove(resources::kPods, ref)).error().code, ErrorCode::kCancelled);
  EXPECT_TRUE(world.run(api.get(resources::kPods, ref)));
  EXPECT_EQ(transport.requests().size(), 2u);
}

TEST_F(ApiTest, AfterTheWriteDeadlineNoWriteIsSentAndReadsAre) {
  transport.set_handler([](const HttpRequest&) { return HttpResponse{200, {}, "{}"}; });
  api.set_write_deadline(world_now() + 10s);
  EXPECT_TRUE(world.run(api.create(resources::kPods, "ns", "{}", "me")));
  world.clock().advance_to(world_now() + 10s);
  EXPECT_TRUE(api.writes_stopped());
  EXPECT_EQ(world.run(api.create(resources::kPods, "ns", "{}", "me")).error().code, ErrorCode::kCancelled);
  EXPECT_TRUE(world.run(api.get(resources::kPods, ref)));
  EXPECT_EQ(transport.requests().size(), 2u);
  api.set_write_deadline(world_now() + 10s);
  EXPECT_FALSE(api.writes_stopped());
  EXPECT_TRUE(world.run(api.create(resources::kPods, "ns", "{}", "me")));
}

// A connection may take long to come; the deadline may have passed by then, or have been moved on.
TEST_F(ApiTest, AWriteIsJudgedWhenItIsSentAndNotWhenItIsMade) {
  int executed = 0;
  transport.set_handler([&](const HttpRequest&) {
    ++executed;
    return HttpResponse{200, {}, "{}"};
  });
  transport.set_fault_hook([](const HttpRequest&) { return Fault{.unsent_for = 12s}; });
  api.set_write_deadline(world_now() + 10s);
  EXPECT_EQ(world.run(api.create(resources::kPods, "ns", "{}", "me")).error().code, ErrorCode::kCancelled);
  EXPECT_EQ(executed, 0);
  api.set_write_deadline(world_now() + 20s);
  EXPECT_TRUE(world.run(api.create(resources::kPods, "ns", "{}", "me")));
  EXPECT_EQ(executed, 1);
}

TEST_F(ApiTest, ObserverHearsEveryAttempt) {
  std::vector<std::string> heard;
  api.set_observer([&](std::string_view verb, const Resource& resource, int code, Duration took) {
    heard.push_back(std::string{verb} + " " + resource.plural + " " + std::to_string(code) + " " +
                    std::to_string(took.count()));
  });
  transport.set_latency(3ms, 3ms);
  transport.enqueue_json(503, "");
  transport.enqueue_json(200, "{}");
  ASSERT_TRUE(world.run(api.get(resources::kNodes, ObjectRef{"", "n"})));
  fail_with(FaultKind::kLostAfter);
  EXPECT_FALSE(world.run(api.remove(resources::kNodes, ObjectRef{"", "n"})));
  EXPECT_EQ(heard, (std::vector<std::string>{"GET nodes 503 3", "GET nodes 200 3", "DELETE nodes 0 3"}));
}

TEST_F(ApiTest, WatchOpensAStreamOrSaysWhyNot) {
  auto server = transport.enqueue_stream();
  WatchOptions options;
  options.send_initial_events = true;
  options.server_timeout = 305s;
  auto stream = world.run(api.watch(resources::kPods, "ns", options));
  ASSERT_TRUE(stream);
  EXPECT_EQ(last().target,
            "/api/v1/namespaces/ns/"
            "pods?watch=true&allowWatchBookmarks=true&sendInitialEvents=true&resourceVersionMatch="
            "NotOlderThan&timeoutSeconds=305");
  server->push("{}\n");
  EXPECT_EQ(world.run((*stream)->next(1s)).value(), "{}\n");
  transport.enqueue_json(410, status("Expired"));
  options = WatchOptions();
  options.resource_version = "5";
  EXPECT_EQ(world.run(api.watch(resources::kPods, "ns", options)).error().code, ErrorCode::kGone);
  EXPECT_EQ(last().target,
            "/api/v1/namespaces/ns/pods?watch=true&allowWatchBookmarks=true&resourceVersion=5");
  EXPECT_EQ(transport.open_streams(), 1u);
}

TEST_F(ApiTest, RawGivesAnyStatus) {
  transport.enqueue_json(418, "teapot");
  HttpRequest request;
  request.target = "/readyz?verbose";
  const auto answer = world.run(api.raw(request));
  ASSERT_TRUE(answer);
  EXPECT_EQ(answer->status, 418);
  EXPECT_EQ(answer->body, "teapot");
}

}  // namespace
}  // namespace muster::client
