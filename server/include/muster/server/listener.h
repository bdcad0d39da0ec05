// HTTP/1.1 on the event loop: one accept loop for all who serve something, with or without TLS.
#pragma once

#include <cstddef>
#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

#include "muster/client/task_group.h"
#include "muster/client/transport.h"

namespace muster::server {

// What of a request decides. A header that was not sent is "".
struct Request {
  std::string method, target, host, origin, authorization;
};

struct Answer {
  int status = 200;
  std::string body;
  std::string content_type = "text/plain; charset=utf-8";
  client::Headers headers{};  // more of them
};

// One request that is to be answered: once by answer(), or by begin() and any number of send().
class Connection {
 public:
  virtual ~Connection() = default;
  const Request& request() const { return request_; }
  // False: the other side has gone, or takes nothing for longer than the listener's patience.
  virtual client::Task<bool> answer(Answer answer) = 0;
  // A stream: `head.body` is not sent. The connection ends when the handler returns.
  virtual client::Task<bool> begin(Answer head) = 0;
  virtual client::Task<bool> send(std::string bytes) = 0;

 protected:
  Request request_;
};

// Runs on the event loop and must not block. What it throws costs its request an answer of 500, or its
// connection if the answer has begun.
using Handler = std::function<client::Task<void>(Connection&)>;

// PEM files. They may be replaced at any time: the next connection has what is in them, if both fit together.
struct CertificateFiles {
  std::string certificate;  // with its chain
  std::string key;
};

struct ListenOptions {
  std::optional<CertificateFiles> certificate{};         // without one it speaks plain HTTP
  std::size_t max_connections = 512;                     // what exceeds them is dropped at once
  client::Duration patience = std::chrono::seconds{10};  // with a peer that says or takes nothing
  std::function<void(const std::string&)> warn{};        // what an operator should know, as a sentence
};

// Thread: the executor's only.
class Listener {
 public:
  struct State;

  // `address`: "127.0.0.1:8080", "[::1]:8080", ":8080" (all addresses); port 0 picks a free one. The error
  // names the address, or the file that is no certificate.
  static std::expected<std::unique_ptr<Listener>, std::string> listen(client::Executor executor,
                                                                      const std::string& address,
                                                                      ListenOptions options, Handler handler);
  ~Listener();
  int port() const;
  // Accepts nothing more and drops all connections. A request that has been read already is still answered.
  void stop();
  // Waits, after stop(), until nothing of the listener runs any more.
  client::Task<void> join();

 private:
  explicit Listener(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

// True: nobody but this machine reaches it. False also for what is no address.
bool is_loopback(const std::string& address);

}  // namespace muster::server
