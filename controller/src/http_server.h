// A small HTTP server on the event loop for probes and metrics: GET of a few fixed paths, nothing else.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <expected>
#include <functional>
#include <map>
#include <memory>
#include <string>

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
  // Before the first request arrives; handlers run on the event loop and must not block.
  void handle(std::string path, Handler handler);
  int port() const;
  void stop();

 private:
  explicit HttpServer(std::shared_ptr<State> state);
  std::shared_ptr<State> state_;
};

}  // namespace muster::controller
