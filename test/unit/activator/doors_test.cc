// Doors over real sockets of the loopback: clients that block, and replicas that the test plays, are in
// threads of their own; the doors have theirs.
#include "doors.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <atomic>
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/read.hpp>
#include <boost/asio/read_until.hpp>
#include <boost/asio/write.hpp>
#include <future>
#include <thread>

namespace muster::activator {
namespace {

namespace asio = boost::asio;
using asio::ip::tcp;
using boost::system::error_code;
using testing::HasSubstr;
using testing::StartsWith;
using namespace std::chrono_literals;

const client::Key kWeb = "team/web";

tcp::endpoint at(int port) {
  return {asio::ip::address_v4::loopback(), static_cast<std::uint16_t>(port)};
}

int free_port() {
  asio::io_context io;
  tcp::acceptor acceptor(io, at(0));
  return acceptor.local_endpoint().port();
}

// A client that blocks.
class Client {
 public:
  explicit Client(int port) { socket_.connect(at(port)); }
  Client& send(const std::string& text) {
    asio::write(socket_, asio::buffer(text));
    return *this;
  }
  std::string some() {
    std::string piece(4096, '\0');
    error_code error;
    piece.resize(socket_.read_some(asio::buffer(piece), error));
    return piece;
  }
  std::string all() {
    std::string text;
    error_code error;
    asio::read(socket_, asio::dynamic_buffer(text), error);
    ended_well = error == asio::error::eof;
    return text;
  }
  void leave() { socket_.close(); }
  bool ended_well = false;

 private:
  asio::io_context io_;
  tcp::socket socket_{io_};
};

// A replica: one connection after the other is handed to the function.
class Replica {
 public:
  explicit Replica(std::function<void(tcp::socket&, const std::string& head)> serve) {
    thread_ = std::thread([this, serve] {
      while (true) {
        tcp::socket socket(io_);
        error_code error;
        acceptor_.accept(socket, error);
        if (error || stopping_) return;
        std::string head;
        asio::read_until(socket, asio::dynamic_buffer(head), "\r\n\r\n", error);
        ++served;
        serve(socket, head);
      }
    });
  }
  ~Replica() {
    stopping_ = true;
    error_code error;
    tcp::socket last(io_);
    last.connect(acceptor_.local_endpoint(), error);
    thread_.join();
  }
  std::string address() const { return "127.0.0.1:" + std::to_string(acceptor_.local_endpoint().port()); }
  std::atomic<int> served = 0;

 private:
  asio::io_context io_;
  tcp::acceptor acceptor_{io_, at(0)};
  std::atomic<bool> stopping_ = false;
  std::thread thread_;
};

std::string answer_of(const std::string& body) {
  return "HTTP/1.1 200 OK\r\nConnection: close\r\nContent-Length: " + std::to_string(body.size()) +
         "\r\n\r\n" + body;
}

class ADoor : public testing::Test {
 protected:
  void open(Bounds bounds) {
    options_.address = "127.0.0.1";
    options_.bounds = bounds;
    run([this] {
      doors_ = std::make_unique<Doors>(env_, options_, [this](bool is_news) { news_ += is_news ? 1 : 0; });
      doors_->set_service(kWeb, {port_, "FairShareReached"});
    });
  }
  void TearDown() override {
    run([this] { doors_->close(); });
    std::promise<void> joined;
    asio::post(io_, [&] { client::spawn(env_.executor, join(*doors_, clock_.now() + 1s, joined)); });
    joined.get_future().wait();
    work_.reset();
    io_.stop();
    thread_.join();
    doors_.reset();
  }
  // On the doors' thread.
  template <class F>
  void run(F f) {
    std::promise<void> done;
    asio::post(io_, [&] {
      f();
      done.set_value();
    });
    done.get_future().wait();
  }
  void ready(std::vector<std::string> replicas) {
    run([&] { doors_->set_replicas(kWeb, replicas); });
  }
  std::size_t held() {
    std::size_t n = 0;
    run([&] { n = doors_->demand()[kWeb].held; });
    return n;
  }
  bool wait_held(std::size_t n) {
    for (int i = 0; i < 500; ++i) {
      if (held() == n) return true;
      std::this_thread::sleep_for(10ms);
    }
    return false;
  }
  static client::Task<void> join(Doors& doors, client::TimePoint deadline, std::promise<void>& done) {
    co_await doors.join(deadline);
    done.set_value();
  }

  asio::io_context io_{1};
  asio::executor_work_guard<asio::io_context::executor_type> work_{io_.get_executor()};
  client::RealClock clock_;
  client::RandomSource random_{1};
  client::Environment env_{io_.get_executor(), clock_, random_};
  ActivatorOptions options_;
  std::unique_ptr<Doors> doors_;
  int port_ = free_port();
  std::atomic<int> news_ = 0;
  std::thread thread_{[this] { io_.run(); }};
};

constexpr const char* kGet = "GET /a HTTP/1.1\r\nHost: web\r\n\r\n";

TEST_F(ADoor, HoldsARequestUntilAReplicaIsReady) {
  open({});
  Client client(port_);
  client.send(kGet);
  ASSERT_TRUE(wait_held(1));
  EXPECT_GE(news_, 2) << "the port, and the first request";
  Replica replica([](tcp::socket& socket, const std::string& head) {
    EXPECT_THAT(head, HasSubstr("Connection: close"));
    asio::write(socket, asio::buffer(answer_of("hello")));
  });
  ready({replica.address()});
  EXPECT_THAT(client.all(), testing::EndsWith("hello"));
  EXPECT_TRUE(client.ended_well);
  EXPECT_TRUE(wait_held(0));
  EXPECT_THAT(Client(port_).send(kGet).all(), testing::EndsWith("hello")) << "what still comes is passed on";
}

TEST_F(ADoor, ABodyThatComesLaterAndIsLargeIsPassedOnWhole) {
  open({});
  constexpr std::size_t kSize = 32 << 20;  // more than sockets keep
  Replica replica([](tcp::socket& socket, const std::string& head) {
    std::string body = head.substr(head.find("\r\n\r\n") + 4);
    error_code error;
    if (body.size() < kSize)
      asio::read(socket, asio::dynamic_buffer(body), asio::transfer_exactly(kSize - body.size()), error);
    asio::write(socket, asio::buffer(answer_of(std::to_string(std::hash<std::string>{}(body)))));
  });
  std::string body(kSize, 'x');
  for (std::size_t i = 0; i < kSize; i += 1000) body[i] = static_cast<char>('a' + i / 1000 % 26);
  Client client(port_);
  auto sent = std::async(std::launch::async, [&] {
    client.send("POST / HTTP/1.1\r\nHost: web\r\nContent-Length: " + std::to_string(kSize) + "\r\n\r\n")
        .send(body);
  });
  ASSERT_TRUE(wait_held(1));
  EXPECT_EQ(sent.wait_for(300ms), std::future_status::timeout) << "its client waits with what is not read";
  ready({replica.address()});
  sent.wait();
  EXPECT_THAT(client.all(), HasSubstr(std::to_string(std::hash<std::string>{}(body))));
}

TEST_F(ADoor, AStreamComesPieceByPiece) {
  open({});
  std::promise<void> go_on;
  Replica replica([&](tcp::socket& socket, const std::string&) {
    asio::write(socket, asio::buffer(std::string("HTTP/1.1 200 OK\r\nContent-Type: text/event-stream\r\n\r\n"
                                                 "data: one\n\n")));
    go_on.get_future().wait();
    asio::write(socket, asio::buffer(std::string("data: two\n\n")));
  });
  ready({replica.address()});
  Client client(port_);
  client.send(kGet);
  std::string came;
  while (came.find("data: one\n\n") == std::string::npos) {
    const std::string piece = client.some();
    ASSERT_FALSE(piece.empty());
    came += piece;
  }
  go_on.set_value();
  EXPECT_EQ(client.all(), "data: two\n\n");
}

TEST_F(ADoor, BeyondTheBoundItSaysTryAgain) {
  open({.requests = 1});
  Client first(port_);
  first.send(kGet);
  ASSERT_TRUE(wait_held(1));
  const std::string answer = Client(port_).send(kGet).all();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 429 Too Many Requests\r\n"));
  EXPECT_THAT(answer, HasSubstr("Retry-After: 10\r\n"));
  EXPECT_THAT(answer, HasSubstr("team/web: too many requests wait"));
  first.leave();
  EXPECT_TRUE(wait_held(0)) << "who leaves is not waited for";
}

// Who opens connections and says nothing takes neither all of them nor the memory from others.
TEST_F(ADoor, TooManyConnectionsOfOneServiceAreToldSoAndOthersComeIn) {
  open({.connections_of_service = 2});
  const int other_port = free_port();
  run([&] { doors_->set_service("team/other", {other_port}); });
  std::vector<std::unique_ptr<Client>> idle;
  for (int i = 0; i < 2; ++i) {
    idle.push_back(std::make_unique<Client>(port_));
    idle.back()->send("GET /a HTTP/1.1\r\n");
  }
  const std::string answer = Client(port_).send(kGet).all();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 503 Service Unavailable\r\n"));
  EXPECT_THAT(answer, HasSubstr("Retry-After: 10\r\n"));
  EXPECT_THAT(answer, HasSubstr("team/web: too many connections"));
  run([this] { EXPECT_EQ(doors_->counts().crowded, 1U); });
  Client elsewhere(other_port);
  elsewhere.send(kGet);
  std::size_t held_there = 0;
  for (int i = 0; i < 500 && held_there == 0; ++i) {
    run([&] { held_there = doors_->demand()["team/other"].held; });
    std::this_thread::sleep_for(10ms);
  }
  EXPECT_EQ(held_there, 1U);
  idle.clear();
  std::unique_ptr<Client> client;
  for (int i = 0; i < 100 && held() == 0; ++i) {
    client = std::make_unique<Client>(port_);
    client->send(kGet);
    std::this_thread::sleep_for(50ms);
  }
  EXPECT_EQ(held(), 1U) << "those that left make room";
}

TEST_F(ADoor, HeadsThatDoNotEndCountAgainstTheBoundOfBytes) {
  open({.bytes = 64 << 10});
  const std::string begun = "GET /a HTTP/1.1\r\nX: " + std::string(10 << 10, 'x');
  Client first(port_);
  first.send(begun);
  std::this_thread::sleep_for(200ms);
  const std::string answer = Client(port_).send(begun).all();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 429 Too Many Requests\r\n"));
  EXPECT_THAT(answer, HasSubstr("Retry-After: 10\r\n"));
  first.send("\r\n\r\n");
  EXPECT_TRUE(wait_held(1)) << "who came first is held";
  Client small(port_);
  small.send(kGet);
  EXPECT_TRUE(wait_held(2)) << "what is whole counts as held, and no more as a head that comes";
}

TEST_F(ADoor, WhenTheTimeIsOverItSaysWhy) {
  open({.time = 300ms});
  const std::string answer = Client(port_).send(kGet).all();
  EXPECT_THAT(answer, StartsWith("HTTP/1.1 504 Gateway Timeout\r\n"));
  EXPECT_THAT(answer, HasSubstr("team/web: no replica took this request within 0 s (FairShareReached)"));
}

TEST_F(ADoor, WhatIsGoneIsNotHeld) {
  open({});
  Client client(port_);
  client.send(kGet);
  ASSERT_TRUE(wait_held(1));
  run([this] { doors_->remove_service(kWeb); });
  EXPECT_THAT(client.all(), StartsWith("HTTP/1.1 503 Service Unavailable\r\n"));
}

TEST_F(ADoor, AReplicaThatCannotBeReachedCostsARequestNothing) {
  open({});
  Replica replica(
      [](tcp::socket& socket, const std::string&) { asio::write(socket, asio::buffer(answer_of("ok"))); });
  const std::string dead = "127.0.0.1:" + std::to_string(free_port());
  ready({dead, replica.address()});
  for (int i = 0; i < 4; ++i) EXPECT_THAT(Client(port_).send(kGet).all(), testing::EndsWith("ok"));
}

TEST_F(ADoor, AReplicaThatDiesInTheMiddleIsNoGoodEnd) {
  open({});
  Replica replica([](tcp::socket& socket, const std::string&) {
    asio::write(socket, asio::buffer(std::string("HTTP/1.1 200 OK\r\n\r\nhalf")));
    std::this_thread::sleep_for(100ms);
    socket.set_option(asio::socket_base::linger(true, 0));
    socket.close();
  });
  ready({replica.address()});
  Client client(port_);
  client.send(kGet).all();
  EXPECT_FALSE(client.ended_well);
}

TEST_F(ADoor, AReplicaThatSaysNothingIsABadGateway) {
  open({});
  Replica replica([](tcp::socket& socket, const std::string&) { socket.close(); });
  ready({replica.address()});
  EXPECT_THAT(Client(port_).send(kGet).all(), StartsWith("HTTP/1.1 502 Bad Gateway\r\n"));
}

TEST_F(ADoor, Http2PassesThroughAsItIs) {
  open({});
  const std::string preface = "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";
  Replica replica([&](tcp::socket& socket, const std::string& head) {
    std::string came = head;
    error_code error;
    while (came.size() < preface.size() + 4)
      asio::read(socket, asio::dynamic_buffer(came), asio::transfer_at_least(1), error);
    asio::write(socket, asio::buffer(came));
  });
  Client client(port_);
  client.send(preface + "abcd");
  ASSERT_TRUE(wait_held(1));
  ready({replica.address()});
  EXPECT_EQ(client.all(), preface + "abcd");
}

}  // namespace
}  // namespace muster::activator
