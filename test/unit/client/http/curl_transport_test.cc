// The real transport against a small TLS server that misbehaves.
#include "muster/client/curl_transport.h"

#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/io_context.hpp>
#include <fstream>
#include <mutex>
#include <optional>
#include <thread>

#include "http/tls_server.h"

namespace muster::client {
namespace {

using namespace std::chrono_literals;
using testing::Certificate;
using testing::chunk;
using testing::chunked_head;
using testing::make_certificate;
using testing::plain_answer;
using testing::TlsServer;

const Certificate& ca() {
  static const Certificate made = make_certificate("ca", "");
  return made;
}
const Certificate& server_certificate() {
  static const Certificate made = make_certificate("server", "IP:127.0.0.1,DNS:api.test", &ca());
  return made;
}

struct CurlTransportTest : ::testing::Test {
  boost::asio::io_context io{1};
  RealClock clock;
  RandomSource random{1};
  Environment env{io.get_executor(), clock, random};
  std::mutex mutex;
  std::vector<TlsServer::Request> seen;
  std::atomic<std::size_t> pushed{0};
  std::atomic<int> released{0};
  std::unique_ptr<TlsServer> server;

  void SetUp() override { server = start(server_certificate()); }

  std::unique_ptr<TlsServer> start(const Certificate& certificate, const std::string& client_ca = {}) {
    return std::make_unique<TlsServer>(
        certificate, [this](const TlsServer::Request& r, const TlsServer::Write& w) { return answer(r, w); },
        client_ca);
  }

  bool answer(const TlsServer::Request& request, const TlsServer::Write& write) {
    {
      const std::lock_guard lock(mutex);
      seen.push_back(request);
    }
    const std::string& target = request.target;
    if (target == "/echo")
      return write(plain_answer(200, request.method + " " + request.authorization + " " + request.body));
    if (target == "/missing") return write(plain_answer(404, "no"));
    if (target == "/token") return write(plain_answer(request.authorization == "Bearer new" ? 200 : 401, ""));
    if (target == "/drip") {
      write(chunked_head());
      for (int i = 0; i < 3; ++i) {
        while (released < i && write("")) std::this_thread::sleep_for(1ms);
        write(chunk(std::to_string(i)));
      }
      return write("0\r\n\r\n");
    }
    if (target == "/cut") return write("HTTP/1.1 200 OK\r\nContent-Length: 100\r\n\r\nhalf"), false;
    if (target == "/cut-stream") return write(chunked_head() + chunk("half")), false;
    if (target == "/close") return false;
    if (target == "/close-reused") return request.on_connection == 0 ? write(plain_answer(200, "")) : false;
    if (target == "/first-bytes-only") write(chunked_head() + chunk("first"));
    if (target == "/flood") {
      write(chunked_head());
      const std::string block = chunk(std::string(64 << 10, 'x'));
      for (int i = 0; i < 1024 && write(block); ++i) pushed += 64 << 10;
      return write("0\r\n\r\n");
    }
    if (target == "/gate") {
      while (released == 0 && write("")) std::this_thread::sleep_for(1ms);
      return write(plain_answer(200, ""));
    }
    // Silence, until the client or the test goes.
    while (write("")) std::this_thread::sleep_for(5ms);
    return false;
  }

  ClientConfig config() const {
    ClientConfig out;
    out.server = server->url();
    out.ca.data = Secret(ca().certificate_pem);
    return out;
  }
  static HttpRequest request(std::string target, Method method = Method::kGet, std::string body = {}) {
    HttpRequest out;
    out.method = method;
    out.target = std::move(target);
    out.body = std::move(body);
    return out;
  }
  template <class T>
  T run(Task<T> task) {
    std::optional<T> result;
    auto keep = [](Task<T> t, std::optional<T>& out) -> Task<void> {
      T value = co_await std::move(t);
      out.emplace(std::move(value));
    };
    spawn(env.executor, keep(std::move(task), result));
    const auto deadline = std::chrono::steady_clock::now() + 20s;
    io.restart();
    while (!result && std::chrono::steady_clock::now() < deadline) io.run_one_for(100ms);
    if (!result) throw std::runtime_error("the coroutine never ended");
    return std::move(*result);
  }
  std::size_t count(const std::string& target) {
    const std::lock_guard lock(mutex);
    return static_cast<std::size_t>(
        std::count_if(seen.begin(), seen.end(), [&](const auto& r) { return r.target == target; }));
  }
};

TEST_F(CurlTransportTest, RoundTripsReuseOneConnection) {
  CurlTransport transport(env, config());
  for (int i = 0; i < 3; ++i) {
    const auto got = run(transport.round_trip(request("/echo"), 5s));
    ASSERT_TRUE(got) << to_string(got.error());
    EXPECT_EQ(got->status, 200);
    EXPECT_EQ(got->body, "GET  ");
    EXPECT_EQ(*find_header(got->headers, "x-mixed-case"), "Value");
  }
  for (const auto& [method, name] :
       {std::pair(Method::kPost, "POST"), std::pair(Method::kPut, "PUT"), std::pair(Method::kPatch, "PATCH"),
        std::pair(Method::kDelete, "DELETE")}) {
    const std::string body(method == Method::kPut ? 900'000 : 3, 'b');
    const auto got = run(transport.round_trip(request("/echo", method, body), 5s));
    ASSERT_TRUE(got) << to_string(got.error());
    EXPECT_EQ(got->body, std::string(name) + "  " + body);
  }
  EXPECT_EQ(run(transport.round_trip(request("/missing"), 5s))->status, 404);
  EXPECT_EQ(server->connections(), 1);
  EXPECT_EQ(transport.stats().connections, 1u);
}

TEST_F(CurlTransportTest, ServerCertificateMustBeOfTheCaAndForTheHost) {
  const Certificate other_ca = make_certificate("other", "");
  ClientConfig wrong = config();
  wrong.ca.data = Secret(other_ca.certificate_pem);
  CurlTransport mistrusting(env, wrong);
  EXPECT_EQ(run(mistrusting.round_trip(request("/echo"), 5s)).error().code, ErrorCode::kConfig);

  // A CA of the same name with another key, as after its renewal.
  wrong.ca.data = Secret(make_certificate("ca", "").certificate_pem);
  CurlTransport outdated(env, wrong);
  EXPECT_EQ(run(outdated.round_trip(request("/echo"), 5s)).error().code, ErrorCode::kNotSent);

  ClientConfig system = config();
  system.ca = Material();
  CurlTransport system_only(env, system);
  EXPECT_EQ(run(system_only.round_trip(request("/echo"), 5s)).error().code, ErrorCode::kConfig);

  server = start(make_certificate("server", "DNS:elsewhere.test", &ca()));
  CurlTransport other_host(env, config());
  const auto refused = run(other_host.round_trip(request("/echo"), 5s));
  EXPECT_EQ(refused.error().code, ErrorCode::kConfig);
  EXPECT_EQ(count("/echo"), 0u);

  ClientConfig insecure = config();
  insecure.ca = Material();
  insecure.insecure_skip_tls_verify = true;
  CurlTransport trusting(env, insecure);
  EXPECT_TRUE(run(trusting.round_trip(request("/echo"), 5s)));
}

TEST_F(CurlTransportTest, TlsServerNameIsVerifiedInsteadOfTheHost) {
  ClientConfig named = config();
  named.tls_server_name = "api.test";
  CurlTransport transport(env, named);
  const auto got = run(transport.round_trip(request("/echo"), 5s));
  EXPECT_TRUE(got) << to_string(got.error());
  named.tls_server_name = "other.test";
  CurlTransport other(env, named);
  EXPECT_EQ(run(other.round_trip(request("/echo"), 5s)).error().code, ErrorCode::kConfig);
}

TEST_F(CurlTransportTest, ClientCertificateIsPresentedAndItsRotationOpensANewConnection) {
  server = start(server_certificate(), ca().certificate_pem);
  CurlTransport without(env, config());
  EXPECT_FALSE(run(without.round_trip(request("/echo"), 5s)));
  const Certificate client = make_certificate("client", "DNS:client", &ca());
  ClientConfig with = config();
  with.client_certificate.data = Secret(client.certificate_pem);
  with.client_key.data = Secret(client.key_pem);
  CurlTransport transport(env, with);
  const auto got = run(transport.round_trip(request("/echo"), 5s));
  EXPECT_TRUE(got) << to_string(got.error());
}

TEST_F(CurlTransportTest, RefusedConnectionWasNotSent) {
  ClientConfig nobody = config();
  nobody.server = "https://127.0.0.1:1";
  CurlTransport transport(env, nobody);
  EXPECT_EQ(run(transport.round_trip(request("/echo", Method::kPost, "{}"), 5s)).error().code,
            ErrorCode::kNotSent);
  EXPECT_EQ(run(transport.open(request("/echo"), 5s)).error().code, ErrorCode::kNotSent);
}

TEST_F(CurlTransportTest, LostAnswersHaveUnknownOutcome) {
  CurlTransport transport(env, config());
  EXPECT_EQ(run(transport.round_trip(request("/close", Method::kPost, "{}"), 5s)).error().code,
            ErrorCode::kUnknownOutcome);
  EXPECT_EQ(run(transport.round_trip(request("/cut", Method::kPost, "{}"), 5s)).error().code,
            ErrorCode::kUnknownOutcome);
  const auto silent = run(transport.round_trip(request("/silent", Method::kPost, "{}"), 200ms));
  EXPECT_EQ(silent.error().code, ErrorCode::kDeadline);
}

TEST_F(CurlTransportTest, LibcurlNeverSendsAWriteTwice) {
  for (const std::string& body : {std::string{"{}"}, std::string{}}) {
    for (const Method method : {Method::kPost, Method::kDelete, Method::kPatch}) {
      CurlTransport transport(env, config());
      ASSERT_TRUE(run(transport.round_trip(request("/close-reused"), 5s)));
      const auto before = count("/close-reused");
      // The server reads this one from the connection that libcurl reuses, and closes without a word.
      const auto lost = run(transport.round_trip(request("/close-reused", method, body), 5s));
      ASSERT_FALSE(lost);
      EXPECT_EQ(lost.error().code, ErrorCode::kUnknownOutcome);
      EXPECT_EQ(count("/close-reused"), before + 1);
    }
  }
}

TEST_F(CurlTransportTest, StreamsArePiecesAsTheyCome) {
  CurlTransport transport(env, config());
  auto opened = run(transport.open(request("/drip"), 5s));
  ASSERT_TRUE(opened) << to_string(opened.error());
  EXPECT_EQ(opened->status, 200);
  for (int i = 0; i < 3; ++i) {
    released = i;  // the server waits for it: each piece is delivered without the next
    EXPECT_EQ(run(opened->body->next(5s)).value(), std::to_string(i));
  }
  EXPECT_EQ(run(opened->body->next(5s)).value(), "");
}

TEST_F(CurlTransportTest, StreamCutIdleAndStatus) {
  CurlTransport transport(env, config());
  auto cut = run(transport.open(request("/cut-stream"), 5s));
  ASSERT_TRUE(cut);
  EXPECT_EQ(run(cut->body->next(5s)).value(), "half");
  EXPECT_EQ(run(cut->body->next(5s)).error().code, ErrorCode::kUnknownOutcome);
  auto idle = run(transport.open(request("/first-bytes-only"), 5s));
  ASSERT_TRUE(idle);
  EXPECT_EQ(run(idle->body->next(5s)).value(), "first");
  const TimePoint start = clock.now();
  EXPECT_EQ(run(idle->body->next(100ms)).error().code, ErrorCode::kDeadline);
  EXPECT_GE(clock.now() - start, 99ms);
  EXPECT_EQ(run(transport.open(request("/silent"), 100ms)).error().code, ErrorCode::kDeadline);
  EXPECT_EQ(run(transport.open(request("/missing"), 5s))->status, 404);
}

TEST_F(CurlTransportTest, UnreadStreamHoldsTheServerBackAndRequestsGoOn) {
  CurlOptions options;
  options.stream_buffer = 256 << 10;
  CurlTransport transport(env, config(), options);
  auto flood = run(transport.open(request("/flood"), 5s));
  ASSERT_TRUE(flood);
  io.restart();
  io.run_for(300ms);
  const std::size_t held = pushed;
  EXPECT_LT(held, 32u << 20);  // what we keep, and the kernel's socket buffers
  EXPECT_TRUE(run(transport.round_trip(request("/echo"), 5s)));
  EXPECT_LT(pushed, held + (1u << 20));
  std::size_t bytes = 0;
  while (true) {
    auto piece = run(flood->body->next(5s));
    ASSERT_TRUE(piece) << to_string(piece.error());
    if (piece->empty()) break;
    EXPECT_LE(piece->size(), options.stream_buffer);
    bytes += piece->size();
  }
  EXPECT_EQ(bytes, 64u << 20);
}

// Over HTTP/1.1 a stream has its connection for itself, and a controller opens more than a dozen for ever.
TEST_F(CurlTransportTest, WithHttp1StreamsAreNotBoundedByTheConnectionsOfRequests) {
  constexpr int kStreams = 12, kRequests = 10;
  CurlTransport transport(env, config());
  std::vector<StreamResponse> open;
  for (int i = 0; i < kStreams; ++i) {
    auto opened = run(transport.open(request("/first-bytes-only"), 5s));
    ASSERT_TRUE(opened) << i << ": " << to_string(opened.error());
    EXPECT_EQ(run(opened->body->next(5s)).value(), "first");
    open.push_back(std::move(*opened));
  }
  EXPECT_EQ(server->connections(), kStreams);
  EXPECT_TRUE(run(transport.round_trip(request("/echo"), 5s)));
  // Requests still are: none is answered before all were made.
  int answered = 0;
  auto trip = [](CurlTransport& t, HttpRequest r, int& n) -> Task<void> {
    const auto result = co_await t.round_trip(std::move(r), 15s);
    if (result) ++n;
  };
  for (int i = 0; i < kRequests; ++i) spawn(env.executor, trip(transport, request("/gate"), answered));
  const auto deadline = clock.now() + 15s;
  io.restart();
  while (count("/gate") < 4 && clock.now() < deadline) io.run_one_for(10ms);
  released = 1;
  while (answered < kRequests && clock.now() < deadline) io.run_one_for(10ms);
  EXPECT_EQ(answered, kRequests);
  EXPECT_EQ(server->connections(), kStreams + CurlOptions{}.max_connections);
}

TEST_F(CurlTransportTest, CancellationAbortsAtOnce) {
  CurlTransport transport(env, config());
  std::vector<ErrorCode> codes;
  auto trip = [](CurlTransport& t, HttpRequest r, std::vector<ErrorCode>& out) -> Task<void> {
    const auto result = co_await t.round_trip(std::move(r), 60s);
    out.push_back(result ? ErrorCode::kInternal : result.error().code);
  };
  auto stream = [](CurlTransport& t, HttpRequest r, std::vector<ErrorCode>& out) -> Task<void> {
    auto opened = co_await t.open(std::move(r), 60s);
    if (!opened) co_return;
    auto first = co_await opened->body->next(60s);
    auto second = co_await opened->body->next(60s);
    out.push_back(second ? ErrorCode::kInternal : second.error().code);
  };
  boost::asio::cancellation_signal stop_trip, stop_stream;
  spawn(env.executor, trip(transport, request("/silent"), codes), &stop_trip);
  spawn(env.executor, stream(transport, request("/first-bytes-only"), codes), &stop_stream);
  io.restart();
  io.run_for(200ms);
  EXPECT_TRUE(codes.empty());
  stop_trip.emit(boost::asio::cancellation_type::terminal);
  stop_stream.emit(boost::asio::cancellation_type::terminal);
  io.restart();
  io.poll();
  EXPECT_EQ(codes, (std::vector{ErrorCode::kCancelled, ErrorCode::kCancelled}));
}

TEST_F(CurlTransportTest, LoopMayEndWithRequestsUnderWay) {
  auto own = std::make_unique<boost::asio::io_context>(1);
  const Environment own_env{own->get_executor(), clock, random};
  auto transport = std::make_unique<CurlTransport>(own_env, config());
  auto trip = [](CurlTransport& t, HttpRequest r) -> Task<void> {
    auto unused = co_await t.round_trip(std::move(r), 60s);
    (void)unused;
  };
  spawn(own_env.executor, trip(*transport, request("/silent")));
  own->run_for(100ms);
  EXPECT_EQ(count("/silent"), 1u);
  transport.reset();
  own.reset();
}

TEST_F(CurlTransportTest, A401MakesANewTokenBeReadAndTheRequestRepeatedOnce) {
  const std::string path = ::testing::TempDir() + "muster-token-" + std::to_string(::getpid());
  std::ofstream(path) << "old";
  ClientConfig with = config();
  with.token.file = path;
  CurlTransport transport(env, with);
  EXPECT_EQ(run(transport.round_trip(request("/token"), 5s))->status, 401);
  EXPECT_EQ(count("/token"), 1u);  // the token is what it was: no use asking again
  std::ofstream(path) << "new";
  EXPECT_EQ(run(transport.round_trip(request("/token", Method::kPost, "{}"), 5s))->status, 200);
  EXPECT_EQ(count("/token"), 3u);
  EXPECT_EQ(transport.stats().refreshed_credentials, 1u);
  std::remove(path.c_str());
}

TEST_F(CurlTransportTest, WithoutAServerTargetsAreWholeUrlsAndNoProxyIsAsked) {
  setenv("HTTPS_PROXY", "http://127.0.0.1:1", 1);
  ClientConfig to_many = config();
  to_many.server.clear();
  CurlTransport transport(env, to_many);
  const auto other = start(server_certificate());
  for (const auto* each : {server.get(), other.get()}) {
    const auto got = run(transport.round_trip(request(each->url() + "/echo"), 5s));
    ASSERT_TRUE(got) << to_string(got.error());
    EXPECT_EQ(got->status, 200);
    EXPECT_EQ(each->connections(), 1);
  }
  EXPECT_EQ(run(transport.round_trip(request("https://127.0.0.1:1/"), 5s)).error().code, ErrorCode::kNotSent);
  EXPECT_EQ(run(transport.round_trip(request("no url"), 5s)).error().code, ErrorCode::kConfig);
  unsetenv("HTTPS_PROXY");
}

TEST_F(CurlTransportTest, WhatMayNotBeSentWhenItsConnectionIsThereIsNotSent) {
  CurlTransport transport(env, config());
  int asked = 0;
  const auto ask = [&](bool answer) {
    HttpRequest post = request("/echo", Method::kPost, "x");
    post.may_send = [&asked, answer] {
      ++asked;
      return answer;
    };
    return post;
  };
  EXPECT_EQ(run(transport.round_trip(ask(false), 5s)).error().code, ErrorCode::kNotSent);
  const auto sent = run(transport.round_trip(ask(true), 5s));
  ASSERT_TRUE(sent) << to_string(sent.error());
  EXPECT_EQ(sent->status, 200);
  EXPECT_EQ(asked, 2) << "also where the connection was there already";
}

TEST_F(CurlTransportTest, TooLongAnswersAreRefused) {
  CurlOptions options;
  options.max_response = 100;
  CurlTransport transport(env, config(), options);
  EXPECT_EQ(
      run(transport.round_trip(request("/echo", Method::kPost, std::string(200, 'x')), 5s)).error().code,
      ErrorCode::kDecode);
}

}  // namespace
}  // namespace muster::client
