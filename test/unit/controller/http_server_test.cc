// Probes and metrics over real sockets on the loopback.
#include "process/http_server.h"

#include <gmock/gmock.h>
#include <sys/resource.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/write.hpp>
#include <string>
#include <thread>

namespace muster::controller {
namespace {

using boost::asio::ip::tcp;
using testing::AllOf;
using testing::HasSubstr;
using testing::StartsWith;

class HttpServerTest : public testing::Test {
 protected:
  void SetUp() override {
    auto listening = HttpServer::listen(loop_.get_executor(), "127.0.0.1:0");
    ASSERT_TRUE(listening) << listening.error();
    server_ = std::move(*listening);
    server_->handle("/healthz", [] { return HttpAnswer{200, "ok\n"}; });
    server_->handle("/readyz", [] { return HttpAnswer{503, "not yet\n"}; });
    server_->handle("/metrics", [this] {
      return HttpAnswer{200, "asked " + std::to_string(++asked_) + "\n", "text/plain; version=0.0.4"};
    });
    thread_ = std::thread([this] { loop_.run(); });
  }
  void TearDown() override {
    loop_.stop();
    if (thread_.joinable()) thread_.join();
  }

  // Sends `text` as it is and returns all that comes until the server closes the connection.
  std::string exchange(const std::string& text) const {
    boost::asio::io_context own;
    tcp::socket socket(own);
    socket.connect({boost::asio::ip::address_v4::loopback(), static_cast<std::uint16_t>(server_->port())});
    boost::system::error_code end;
    boost::asio::write(socket, boost::asio::buffer(text),
                       end);  // the server may have enough before all is sent
    std::string answer;
    boost::asio::read(socket, boost::asio::dynamic_buffer(answer), end);
    return answer;
  }
  std::string request(const std::string& method, const std::string& target) const {
    return exchange(method + " " + target + " HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  }

  boost::asio::io_context loop_;
  std::unique_ptr<HttpServer> server_;
  std::thread thread_;
  int asked_ = 0;
};

TEST_F(HttpServerTest, PortZeroPicksAFreePort) {
  EXPECT_GT(server_->port(), 0);
}

TEST_F(HttpServerTest, GetIsAnsweredByItsPathsHandler) {
  EXPECT_THAT(request("GET", "/healthz"),
              AllOf(StartsWith("HTTP/1.1 200 OK\r\n"), HasSubstr("\r\n\r\nok\n")));
  EXPECT_THAT(request("GET", "/readyz"), AllOf(StartsWith("HTTP/1.1 503 "), HasSubstr("not yet\n")));
  EXPECT_THAT(request("GET", "/metrics?name[]=x"),
              AllOf(StartsWith("HTTP/1.1 200 "), HasSubstr("asked 1\n"),
                    HasSubstr("Content-Type: text/plain; version=0.0.4\r\n")));
}

TEST_F(HttpServerTest, OtherPathsAre404AndOtherMethods405) {
  EXPECT_THAT(request("GET", "/"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(request("GET", "/healthz/"), StartsWith("HTTP/1.1 404 "));
  EXPECT_THAT(request("DELETE", "/healthz"), AllOf(StartsWith("HTTP/1.1 405 "), HasSubstr("only GET")));
  const std::string with_body =
      exchange("POST /metrics HTTP/1.1\r\nHost: x\r\nConnection: close\r\nContent-Length: 2\r\n\r\n{}");
  EXPECT_TRUE(with_body.starts_with("HTTP/1.1 405 ") || with_body.empty()) << with_body;
  EXPECT_EQ(asked_, 0);
}

TEST_F(HttpServerTest, OneConnectionCarriesSeveralRequests) {
  const std::string answers = exchange(
      "GET /healthz HTTP/1.1\r\nHost: x\r\n\r\nGET /readyz HTTP/1.1\r\nHost: x\r\nConnection: close\r\n\r\n");
  EXPECT_THAT(answers, AllOf(HasSubstr("200 OK"), HasSubstr("503 ")));
}

TEST_F(HttpServerTest, WhatIsNoHttpOrTooLongEndsTheConnectionAndTheServerLives) {
  exchange("what?\r\n\r\n");
  const std::string too_long =
      exchange("GET /healthz HTTP/1.1\r\nHost: x\r\nA: " + std::string(100'000, 'a') + "\r\n\r\n");
  EXPECT_THAT(too_long, testing::Not(HasSubstr("200 OK")));
  EXPECT_THAT(request("GET", "/healthz"), StartsWith("HTTP/1.1 200 "));
}

TEST_F(HttpServerTest, AnAddressInUseSaysWhich) {
  const std::string address = "127.0.0.1:" + std::to_string(server_->port());
  const auto second = HttpServer::listen(loop_.get_executor(), address);
  ASSERT_FALSE(second);
  EXPECT_THAT(second.error(), AllOf(HasSubstr(address), HasSubstr("in use")));
}

// Accepting fails at once for as long as the process has no file descriptor left.
TEST(HttpServerAccept, WithoutFileDescriptorsTheLoopDoesNotSpinAndGoesOnAfterwards) {
#if __has_feature(address_sanitizer)
  GTEST_SKIP() << "the sanitizers look at memory through a pipe, for which there is no descriptor here";
#endif
  boost::asio::io_context loop(1);
  auto server = HttpServer::listen(loop.get_executor(), "127.0.0.1:0");
  ASSERT_TRUE(server) << server.error();
  (*server)->handle("/healthz", [] { return HttpAnswer{200, "ok\n"}; });
  tcp::socket client(loop);
  client.connect({boost::asio::ip::address_v4::loopback(), static_cast<std::uint16_t>((*server)->port())});
  boost::asio::write(client,
                     boost::asio::buffer(std::string("GET /healthz HTTP/1.1\r\nConnection: close\r\n\r\n")));

  rlimit before{};
  ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &before), 0);
  rlimit none = before;
  none.rlim_cur = 3;  // those that are open stay
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &none), 0);
  const auto handlers = loop.run_for(std::chrono::milliseconds{500});
  ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &before), 0);
  EXPECT_LT(handlers, 100u);  // without a pause it is many thousands

  std::string answer;
  boost::asio::async_read(client, boost::asio::dynamic_buffer(answer),
                          [&loop](const boost::system::error_code&, std::size_t) { loop.stop(); });
  loop.restart();
  loop.run_for(std::chrono::seconds{20});
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 200 OK\r\n"));
}

TEST(HttpServerAddress, WhatIsNoneSaysWhatIsAllowed) {
  boost::asio::io_context loop;
  for (const char* bad : {"", "8080", "127.0.0.1", "127.0.0.1:", ":http", ":65536", ":-1", ":99999999999",
                          "no-such-host:80", "256.0.0.1:80", "[::1:80", ": 80"}) {
    const auto server = HttpServer::listen(loop.get_executor(), bad);
    ASSERT_FALSE(server) << bad;
    EXPECT_THAT(server.error(), AllOf(HasSubstr(std::string("\"") + bad + "\""), HasSubstr("HOST:PORT"),
                                      HasSubstr("0 to 65535")));
  }
}

TEST(HttpServerAddress, WithoutHostAllAddressesAreMeant) {
  boost::asio::io_context loop;
  const auto server = HttpServer::listen(loop.get_executor(), ":0");
  ASSERT_TRUE(server) << server.error();
  EXPECT_GT((*server)->port(), 0);
}

}  // namespace
}  // namespace muster::controller
