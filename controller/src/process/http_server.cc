#include "process/http_server.h"

#include <boost/asio/awaitable.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>

#include "muster/reconcilers/common/log.h"

namespace muster::controller {
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

struct HttpServer::State {
  explicit State(const asio::any_io_executor& executor)
      : acceptor(executor), pause(executor), tasks(executor) {}
  tcp::acceptor acceptor;
  asio::steady_timer pause;  // before the next try to accept
  client::TaskGroup tasks;   // that accepts, and one for each connection
  std::map<std::string, Handler> handlers;
};

namespace {

// A probe has no body and few headers; a peer that says nothing for 10 s is let go.
constexpr std::size_t kMaxHeaderBytes = 8192;
constexpr auto kPatience = std::chrono::seconds{10};
// Without file descriptors every accept fails at once; the loop has other work to do.
constexpr auto kAcceptPause = std::chrono::milliseconds{100};

http::response<http::string_body> answer(const std::map<std::string, HttpServer::Handler>& handlers,
                                         const http::request<http::empty_body>& request) {
  const std::string target(request.target());
  const auto found = handlers.find(target.substr(0, target.find('?')));
  HttpAnswer a;
  if (request.method() != http::verb::get) {
    a = {405, "only GET\n"};
  } else if (found == handlers.end()) {
    a = {404, "no such path\n"};
  } else {
    try {
      a = found->second();
    } catch (const std::exception& e) {
      a = {500, std::string("internal error: ") + e.what() + "\n"};
    }
  }
  http::response<http::string_body> response(static_cast<http::status>(a.status), request.version());
  response.set(http::field::content_type, a.content_type);
  response.keep_alive(request.keep_alive());
  response.body() = std::move(a.body);
  response.prepare_payload();
  return response;
}

client::Task<void> talk(HttpServer::State& state, tcp::socket socket) {
  beast::tcp_stream stream(std::move(socket));
  beast::flat_buffer buffer;
  boost::system::error_code error;
  while (true) {
    http::request_parser<http::empty_body> parser;
    parser.header_limit(kMaxHeaderBytes);
    stream.expires_after(kPatience);
    co_await http::async_read(stream, buffer, parser, asio::redirect_error(asio::use_awaitable, error));
    if (error) break;
    auto response = answer(state.handlers, parser.get());
    co_await http::async_write(stream, response, asio::redirect_error(asio::use_awaitable, error));
    if (error || !response.keep_alive()) break;
  }
  stream.socket().shutdown(tcp::socket::shutdown_both, error);
}

// What one connection makes us throw ends that connection only.
client::Task<void> serve(std::shared_ptr<HttpServer::State> state, tcp::socket socket) {
  try {
    co_await talk(*state, std::move(socket));
  } catch (const std::exception& e) {
    reconcilers::log_error("a connection ended", {{"error", e.what()}});
  }
}

client::Task<void> accept(std::shared_ptr<HttpServer::State> state) {
  boost::system::error_code error;
  while (state->acceptor.is_open()) {
    tcp::socket socket =
        co_await state->acceptor.async_accept(asio::redirect_error(asio::use_awaitable, error));
    if (error == asio::error::operation_aborted) break;
    if (error) {
      state->pause.expires_after(kAcceptPause);
      co_await state->pause.async_wait(asio::redirect_error(asio::use_awaitable, error));
      continue;
    }
    state->tasks.spawn(serve(state, std::move(socket)));
  }
}

}  // namespace

std::expected<std::unique_ptr<HttpServer>, std::string> HttpServer::listen(asio::any_io_executor executor,
                                                                           const std::string& address) {
  const auto colon = address.rfind(':');
  const std::string allowed = "address \"" + address + "\": expected HOST:PORT or :PORT, port 0 to 65535";
  if (colon == std::string::npos) return std::unexpected(allowed);
  std::string host = address.substr(0, colon);
  if (host.size() > 1 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  const std::string port_text = address.substr(colon + 1);
  if (port_text.empty() || port_text.size() > 5 ||
      port_text.find_first_not_of("0123456789") != std::string::npos || std::stoi(port_text) > 65535) {
    return std::unexpected(allowed);
  }
  boost::system::error_code error;
  const auto ip =
      host.empty() ? asio::ip::address(asio::ip::address_v4::any()) : asio::ip::make_address(host, error);
  if (error) return std::unexpected(allowed);
  auto state = std::make_shared<State>(executor);
  const tcp::endpoint endpoint(ip, static_cast<std::uint16_t>(std::stoi(port_text)));
  state->acceptor.open(endpoint.protocol(), error);
  if (!error) state->acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) state->acceptor.bind(endpoint, error);
  if (!error) state->acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return std::unexpected("cannot listen on " + address + ": " + error.message());
  state->tasks.spawn(accept(state));
  return std::unique_ptr<HttpServer>(new HttpServer(std::move(state)));
}

HttpServer::HttpServer(std::shared_ptr<State> state) : state_(std::move(state)) {}
HttpServer::~HttpServer() {
  stop();
}
void HttpServer::handle(std::string path, Handler handler) {
  state_->handlers[std::move(path)] = std::move(handler);
}
int HttpServer::port() const {
  return state_->acceptor.local_endpoint().port();
}
void HttpServer::stop() {
  boost::system::error_code ignored;
  state_->acceptor.close(ignored);
  state_->pause.cancel();
  state_->tasks.cancel();
}
client::Task<void> HttpServer::join() {
  const auto state = state_;
  co_await state->tasks.join();
}

}  // namespace muster::controller
