// A small HTTP server on the event loop for probes and metrics: GET of a few fixed paths, nothing else.
#pragma once

#include <expected>
#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "muster/client/task_group.h"
#include "muster/server/gate.h"
#include "muster/server/listener.h"

namespace muster::controller {

using HttpAnswer = server::Answer;

class HttpServer {
 public:
  using Handler = std::function<HttpAnswer()>;
  // `address` and errors as server::Listener::listen().
  static std::expected<std::unique_ptr<HttpServer>, std::string> listen(
      client::Executor executor, const std::string& address,
      std::optional<server::CertificateFiles> certificate = {});
  ~HttpServer();
  // Before the first request arrives. Handlers run on the event loop and must not block. One that throws
  // costs its request an answer of 500.
  void handle(std::string path, Handler handler);
  // Only those whom the gate lets in are answered. It outlives the server.
  void guard(server::Gate& gate);
  int port() const;
  // Accepts nothing more and drops all connections. A request that has been read already is still answered.
  void stop();
  // Waits, after stop(), until nothing of the server runs any more.
  client::Task<void> join();

 private:
  struct Paths;
  HttpServer(std::shared_ptr<Paths> paths, std::unique_ptr<server::Listener> listener);
  std::shared_ptr<Paths> paths_;
  std::unique_ptr<server::Listener> listener_;
};

}  // namespace muster::controller
