#include "process/http_server.h"

#include <map>
#include <utility>

#include "muster/reconcilers/common/log.h"

namespace muster::controller {

// What is served; also held by the requests under way.
struct HttpServer::Paths {
  std::map<std::string, Handler> handlers;
  server::Gate* gate = nullptr;

  static client::Task<HttpAnswer> answer(Paths& paths, const server::Request& request) {
    const std::string path = request.target.substr(0, request.target.find('?'));
    const auto found = paths.handlers.find(path);
    if (request.method != "GET") co_return HttpAnswer{405, "only GET\n"};
    if (found == paths.handlers.end()) co_return HttpAnswer{404, "no such path\n"};
    if (paths.gate != nullptr) {
      auto refusal = co_await paths.gate->refuses(request.authorization, path);
      if (refusal) co_return std::move(*refusal);
    }
    co_return found->second();
  }

  static client::Task<void> serve(std::shared_ptr<Paths> paths, server::Connection& connection) {
    auto said = co_await answer(*paths, connection.request());
    co_await connection.answer(std::move(said));
  }
};

std::expected<std::unique_ptr<HttpServer>, std::string> HttpServer::listen(
    client::Executor executor, const std::string& address,
    std::optional<server::CertificateFiles> certificate) {
  auto paths = std::make_shared<Paths>();
  server::ListenOptions options;
  options.certificate = std::move(certificate);
  options.warn = [](const std::string& what) { reconcilers::log_warn("serving", {{"problem", what}}); };
  auto listener = server::Listener::listen(
      std::move(executor), address, std::move(options),
      [paths](server::Connection& connection) { return Paths::serve(paths, connection); });
  if (!listener) return std::unexpected(listener.error());
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(paths), std::move(*listener)));
}

HttpServer::HttpServer(std::shared_ptr<Paths> paths, std::unique_ptr<server::Listener> listener)
    : paths_(std::move(paths)), listener_(std::move(listener)) {}
HttpServer::~HttpServer() = default;
void HttpServer::handle(std::string path, Handler handler) {
  paths_->handlers[std::move(path)] = std::move(handler);
}
void HttpServer::guard(server::Gate& gate) {
  paths_->gate = &gate;
}
int HttpServer::port() const {
  return listener_->port();
}
void HttpServer::stop() {
  listener_->stop();
}
client::Task<void> HttpServer::join() {
  return listener_->join();
}

}  // namespace muster::controller
