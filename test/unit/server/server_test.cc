// A listener over real sockets on the loopback, asked by the client; and reviews, asked of a scripted server.
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

#include "http/tls_server.h"
#include "muster/client/curl_transport.h"
#include "muster/client/testing/fake_transport.h"
#include "muster/server/gate.h"
#include "muster/server/listener.h"
#include "muster/server/reviews.h"
#include "muster/server/target.h"

namespace muster::server {
namespace {

using client::testing::FakeTransport;
using client::testing::make_certificate;
using nlohmann::json;
using testing::AllOf;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::SizeIs;
using namespace std::chrono_literals;

// Certificate and key in files of a folder of its own.
class Files {
 public:
  Files() : folder_(std::filesystem::temp_directory_path() / ("server_test-" + std::to_string(getpid()))) {
    std::filesystem::create_directories(folder_);
  }
  ~Files() { std::filesystem::remove_all(folder_); }
  Files(const Files&) = delete;
  Files& operator=(const Files&) = delete;

  CertificateFiles names() const { return {(folder_ / "tls.crt").string(), (folder_ / "tls.key").string()}; }
  // As a Secret's volume does it: another file takes the name.
  static void put(const std::string& name, const std::string& text) {
    std::ofstream(name + ".new") << text;
    std::filesystem::rename(name + ".new", name);
  }
  void put(const client::testing::Certificate& pair) const {
    put(names().certificate, pair.certificate_pem);
    put(names().key, pair.key_pem);
  }

 private:
  std::filesystem::path folder_;
};

class AListener : public testing::Test {
 protected:
  void listen(std::optional<CertificateFiles> certificate, Handler handler) {
    ListenOptions options;
    options.certificate = std::move(certificate);
    options.warn = [this](const std::string& what) { warnings_.push_back(what); };
    auto listening =
        Listener::listen(loop_.get_executor(), "127.0.0.1:0", std::move(options), std::move(handler));
    ASSERT_TRUE(listening) << listening.error();
    listener_ = std::move(*listening);
  }
  // A GET by somebody who trusts `ca`; each time a new connection. What went wrong is the body.
  client::HttpResponse get(const std::string& scheme, const std::string& ca = {}) {
    client::ClientConfig config;
    config.server = scheme + "://127.0.0.1:" + std::to_string(listener_->port());
    config.ca.data = client::Secret(ca);
    client::CurlTransport transport(env_, config);
    client::HttpResponse got;
    client::spawn(env_.executor, ask(transport, got, loop_));
    loop_.restart();
    loop_.run();
    return got;
  }

  boost::asio::io_context loop_{1};
  client::RealClock clock_;
  client::RandomSource random_{1};
  client::Environment env_{loop_.get_executor(), clock_, random_};
  std::unique_ptr<Listener> listener_;
  std::vector<std::string> warnings_;
  Files files_;

 private:
  static client::Task<void> ask(client::Transport& transport, client::HttpResponse& got,
                                boost::asio::io_context& loop) {
    client::HttpRequest request;
    request.target = "/x?y=1";
    request.headers = {{"Authorization", "Bearer t"}};
    const auto answer = co_await transport.round_trip(std::move(request), 10s);
    if (answer)
      got = *answer;
    else
      got.body = client::to_string(answer.error());
    loop.stop();
  }
};

client::Task<void> echo(Connection& connection) {
  const Request& r = connection.request();
  co_await connection.answer({200, r.method + " " + r.target + " " + r.authorization});
}

TEST_F(AListener, SpeaksPlainHttpWithoutACertificate) {
  listen({}, echo);
  EXPECT_THAT(get("http").body, "GET /x?y=1 Bearer t");
}

TEST_F(AListener, SpeaksTlsWithOne) {
  const auto pair = make_certificate("x", "IP:127.0.0.1");
  files_.put(pair);
  listen(files_.names(), echo);
  EXPECT_EQ(get("https", pair.certificate_pem).body, "GET /x?y=1 Bearer t");
  EXPECT_EQ(get("http").status, 0);
  EXPECT_EQ(get("https", make_certificate("y", "IP:127.0.0.1").certificate_pem).status, 0);
}

TEST_F(AListener, ShowsANewCertificateToTheNextWhoComes) {
  files_.put(make_certificate("x", "IP:127.0.0.1"));
  listen(files_.names(), echo);
  const auto next = make_certificate("x", "IP:127.0.0.1");
  EXPECT_EQ(get("https", next.certificate_pem).status, 0);
  files_.put(next);
  EXPECT_EQ(get("https", next.certificate_pem).status, 200);
}

TEST_F(AListener, KeepsTheLastGoodPairAndWarnsOnce) {
  const auto pair = make_certificate("x", "IP:127.0.0.1");
  files_.put(pair);
  listen(files_.names(), echo);
  Files::put(files_.names().key, make_certificate("z", "IP:127.0.0.1").key_pem);
  EXPECT_EQ(get("https", pair.certificate_pem).status, 200);
  EXPECT_EQ(get("https", pair.certificate_pem).status, 200);
  EXPECT_THAT(warnings_, ElementsAre(AllOf(HasSubstr("stays in use"), HasSubstr(files_.names().key))));
}

TEST_F(AListener, SaysWhichFileIsNoCertificate) {
  ListenOptions options;
  options.certificate = files_.names();
  const auto none = Listener::listen(loop_.get_executor(), "127.0.0.1:0", options, echo);
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error(), HasSubstr(files_.names().certificate + ": cannot be read"));
  files_.put({"no PEM", "no PEM"});
  const auto bad = Listener::listen(loop_.get_executor(), "127.0.0.1:0", options, echo);
  ASSERT_FALSE(bad);
  EXPECT_THAT(bad.error(), HasSubstr(files_.names().certificate + ": no certificate in PEM"));
}

TEST_F(AListener, SendsAStreamAndItsEnd) {
  listen({}, [](Connection& connection) -> client::Task<void> {
    co_await connection.begin({200, "", "text/event-stream"});
    co_await connection.send("one ");
    co_await connection.send("two");
  });
  EXPECT_EQ(get("http").body, "one two");
}

TEST_F(AListener, AnswersABugWith500) {
  listen({}, [](Connection&) -> client::Task<void> {
    throw std::runtime_error("oh");
    co_return;
  });
  EXPECT_THAT(get("http").body, HasSubstr("oh"));
  EXPECT_THAT(warnings_, SizeIs(1));
}

TEST(Loopback, IsWhatOnlyThisMachineReaches) {
  for (const char* own : {"127.0.0.1:1", "127.9.9.9:0", "[::1]:8080"}) EXPECT_TRUE(is_loopback(own)) << own;
  for (const char* open : {":8080", "0.0.0.0:1", "[::]:1", "10.0.0.1:1", "x", "localhost:1"})
    EXPECT_FALSE(is_loopback(open)) << open;
}

TEST(Target, IsTakenApart) {
  const Target target = parse_target("/api/job?namespace=nlp&name=a%2Fb%20c&x");
  EXPECT_EQ(target.path, "/api/job");
  EXPECT_EQ(target.value("namespace"), "nlp");
  EXPECT_EQ(target.value("name"), "a/b c");
  EXPECT_EQ(target.value("x"), "");
  EXPECT_EQ(target.value("y"), "");
  EXPECT_EQ(parse_target("/%2").path, "/%2");
  EXPECT_EQ(parse_target("/%zz?a=%4").value("a"), "%4");
  EXPECT_EQ(parse_target("").path, "");
}

TEST(Token, IsWhatStandsBehindBearer) {
  EXPECT_EQ(bearer_token("Bearer abc"), "abc");
  for (const char* none : {"", "Bearer ", "bearer abc", "Basic abc", "abc"})
    EXPECT_EQ(bearer_token(none), "") << none;
  EXPECT_EQ(fingerprint("abc"), "ba7816bf8f01cfea414140de5dae2223b00361a396177a9cb410ff61f20015ad");
}

TEST(Users, HaveOneFingerprintOnlyIfNothingDiffers) {
  const User anna{"anna", "1", {"a", "b"}, {{"k", {"v"}}}};
  EXPECT_EQ(fingerprint(anna), fingerprint(User(anna)));
  for (const User& other :
       {User{"anna", "2", {"a", "b"}, {{"k", {"v"}}}}, User{"anna", "1", {"a"}, {{"k", {"v"}}}},
        User{"anna", "1", {"a", "b"}, {}}, User{"ann", "1", {"a", "b"}, {{"k", {"v"}}}}})
    EXPECT_NE(fingerprint(anna), fingerprint(other));
}

TEST(ACache, ForgetsAtItsEndAndNeverHoldsMoreThanItsBound) {
  const client::TimePoint start{};
  Cache<int> cache(3);
  cache.put("a", 1, start + 10s);
  cache.put("b", 2, start + 5s);
  cache.put("c", 3, start + 20s);
  ASSERT_NE(cache.find("b", start + 4s), nullptr);
  EXPECT_EQ(*cache.find("b", start + 4s), 2);
  EXPECT_EQ(cache.find("b", start + 5s), nullptr);
  cache.put("a", 4, start + 30s);  // in its own place
  EXPECT_EQ(cache.size(), 3u);
  cache.put("d", 5, start + 20s);  // in that of b, whose end is nearest
  EXPECT_EQ(cache.size(), 3u);
  EXPECT_EQ(cache.find("b", start), nullptr);
  EXPECT_EQ(*cache.find("a", start), 4);
  EXPECT_EQ(*cache.find("c", start), 3);
  EXPECT_EQ(*cache.find("d", start), 5);
  for (int i = 0; i < 100; ++i) cache.put(std::to_string(i), i, start + 40s);
  EXPECT_EQ(cache.size(), 3u);
}

class AGate : public testing::Test {
 protected:
  AGate() {
    transport_.set_handler([this](const client::HttpRequest& request) {
      const json review = json::parse(request.body);
      json said = review;
      if (request.target.ends_with("/tokenreviews")) {
        const std::string token = review["spec"]["token"];
        said["status"]["authenticated"] = token != "unknown";
        said["status"]["user"] = {{"username", token}, {"groups", {"g"}}, {"extra", {{"k", {"v"}}}}};
      } else {
        asked_.push_back(review["spec"]);
        said["status"]["allowed"] = may_;
      }
      client::HttpResponse response;
      response.status = status_;
      response.body = said.dump();
      return response;
    });
  }
  // What somebody with this header is told; status 0: they are let in.
  Answer ask(const std::string& authorization) {
    Answer told{0, ""};
    bool is_done = false;
    client::spawn(env_.executor, ask(gate_, authorization, told, is_done));
    while (!is_done) {
      loop_.restart();
      while (loop_.poll() > 0) {
      }
      if (!is_done) clock_.advance_to_next();
    }
    return told;
  }

  boost::asio::io_context loop_{1};
  client::VirtualClock clock_;
  client::RandomSource random_{1};
  client::Environment env_{loop_.get_executor(), clock_, random_};
  FakeTransport transport_{env_};
  client::ApiClient api_{env_, transport_, {.max_repeats = 0}};
  Gate gate_{api_};
  bool may_ = true;
  int status_ = 201;
  std::vector<json> asked_;

 private:
  static client::Task<void> ask(Gate& gate, std::string authorization, Answer& told, bool& is_done) {
    auto refusal = co_await gate.refuses(std::move(authorization), "/metrics");
    if (refusal) told = std::move(*refusal);
    is_done = true;
  }
};

TEST_F(AGate, AsksNobodyAboutWhoHasNoToken) {
  EXPECT_EQ(ask("").status, 401);
  EXPECT_EQ(ask("Basic x").status, 401);
  EXPECT_THAT(transport_.requests(), IsEmpty());
}

TEST_F(AGate, LetsInWhoMayAndAsksAgainAfterAMinute) {
  EXPECT_EQ(ask("Bearer anna").status, 0);
  EXPECT_THAT(asked_, ElementsAre(json{{"user", "anna"},
                                       {"groups", {"g"}},
                                       {"extra", {{"k", {"v"}}}},
                                       {"nonResourceAttributes", {{"path", "/metrics"}, {"verb", "get"}}}}));
  EXPECT_EQ(ask("Bearer anna").status, 0);
  EXPECT_THAT(transport_.requests(), SizeIs(2));
  may_ = false;
  clock_.advance_to(clock_.now() + 61s);
  EXPECT_EQ(ask("Bearer anna").status, 403);
  EXPECT_THAT(transport_.requests(), SizeIs(4));
}

TEST_F(AGate, RefusesForTenSeconds) {
  may_ = false;
  EXPECT_THAT(ask("Bearer ben").body, HasSubstr("user \"ben\" may not get path \"/metrics\""));
  may_ = true;
  EXPECT_EQ(ask("Bearer ben").status, 403);
  clock_.advance_to(clock_.now() + 11s);
  EXPECT_EQ(ask("Bearer ben").status, 0);
  EXPECT_EQ(ask("Bearer unknown").status, 401);
}

TEST_F(AGate, LetsNobodyInWhereTheApiServerCannotBeAsked) {
  status_ = 500;
  EXPECT_EQ(ask("Bearer anna").status, 503);
  status_ = 201;
  EXPECT_EQ(ask("Bearer anna").status, 0);
}

}  // namespace
}  // namespace muster::server
