// A small HTTP server on the event loop for probes and metrics: GET of a few fixed paths, nothing else.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "muster/client/task_group.h"

namespace muster::controller {

struct HttpAnswer {
  int status = 200;
  std::string body;
  std::string content_type = "text/plain; charset=utf-8";
};

class HttpServer {
 public:
  using Handler = std::function<HttpAnswer()>;
  struct State;

  // `address`: "127.0.0.1:8080", ":8080" (all addresses), port 0 picks a free one. The error names
  // the address.
  static std::expected<std::unique_ptr<HttpServer>, std::string> listen(boost::asio::any_io_executor executor,
                                                                        const std::string& address);
  ~HttpServer();
  // Before the first request arrives. Handlers run on the event loop and must not block. One that throws
  // costs its request an answer of 500.
  void handle(std::string path, Handler handler);
  int port() const;
  // Accepts nothing more and drops all connections. A request that has been read already is still answered.
  void stop();
  // Waits, after stop(), until nothing of the server runs any more.
  client::Task<void> join();

 private:
  explicit HttpServer(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace muster::controller
