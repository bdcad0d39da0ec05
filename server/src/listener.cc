#include "muster/server/listener.h"

#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <utility>

#include "certificate.h"
#include "connection.h"

namespace muster::server {
namespace asio = boost::asio;
using asio::ip::tcp;

struct Listener::State {
  State(const client::Executor& executor, ListenOptions given, Handler answers)
      : acceptor(executor),
        pause(executor),
        tasks(executor),
        options(std::move(given)),
        handler(std::move(answers)) {}
  tcp::acceptor acceptor;
  asio::steady_timer pause;  // before the next try to accept
  client::TaskGroup tasks;   // that accepts, and one for each connection
  ListenOptions options;
  Handler handler;
  std::optional<Certificate> certificate;
  std::size_t connections = 0;
};

namespace {

// Without file descriptors every accept fails at once; the loop has other work to do.
constexpr auto kAcceptPause = std::chrono::milliseconds{100};

// What one connection makes us throw ends that connection only.
client::Task<void> serve(std::shared_ptr<Listener::State> state, tcp::socket socket) {
  ++state->connections;
  try {
    const auto tls = state->certificate ? state->certificate->current() : nullptr;
    co_await talk(std::move(socket), tls, state->options, state->handler);
  } catch (const std::exception& e) {
    if (state->options.warn) state->options.warn(std::string("a connection ended: ") + e.what());
  }
  --state->connections;
}

client::Task<void> accept(std::shared_ptr<Listener::State> state) {
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
    if (state->connections < state->options.max_connections)
      state->tasks.spawn(serve(state, std::move(socket)));
  }
}

std::optional<tcp::endpoint> endpoint_of(const std::string& address) {
  const auto colon = address.rfind(':');
  if (colon == std::string::npos) return std::nullopt;
  std::string host = address.substr(0, colon);
  if (host.size() > 1 && host.front() == '[' && host.back() == ']') host = host.substr(1, host.size() - 2);
  const std::string port = address.substr(colon + 1);
  if (port.empty() || port.size() > 5 || port.find_first_not_of("0123456789") != std::string::npos ||
      std::stoi(port) > 65535)
    return std::nullopt;
  boost::system::error_code error;
  const auto ip =
      host.empty() ? asio::ip::address(asio::ip::address_v4::any()) : asio::ip::make_address(host, error);
  if (error) return std::nullopt;
  return tcp::endpoint(ip, static_cast<std::uint16_t>(std::stoi(port)));
}

}  // namespace

bool is_loopback(const std::string& address) {
  const auto endpoint = endpoint_of(address);
  return endpoint && endpoint->address().is_loopback();
}

std::expected<std::unique_ptr<Listener>, std::string> Listener::listen(client::Executor executor,
                                                                       const std::string& address,
                                                                       ListenOptions options,
                                                                       Handler handler) {
  const auto endpoint = endpoint_of(address);
  if (!endpoint)
    return std::unexpected("address \"" + address + "\": expected HOST:PORT or :PORT, port 0 to 65535");
  auto state = std::make_shared<State>(executor, std::move(options), std::move(handler));
  if (state->options.certificate) {
    auto certificate = Certificate::load(*state->options.certificate, state->options.warn);
    if (!certificate) return std::unexpected(certificate.error());
    state->certificate = std::move(*certificate);
  }
  boost::system::error_code error;
  state->acceptor.open(endpoint->protocol(), error);
  if (!error) state->acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) state->acceptor.bind(*endpoint, error);
  if (!error) state->acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error) return std::unexpected("cannot listen on " + address + ": " + error.message());
  state->tasks.spawn(accept(state));
  return std::unique_ptr<Listener>(new Listener(std::move(state)));
}

Listener::Listener(std::shared_ptr<State> state) : state_(std::move(state)) {}
Listener::~Listener() {
  stop();
}
int Listener::port() const {
  return state_->acceptor.local_endpoint().port();
}
void Listener::stop() {
  boost::system::error_code ignored;
  state_->acceptor.close(ignored);
  state_->pause.cancel();
  state_->tasks.cancel();
}
client::Task<void> Listener::join() {
  const auto state = state_;
  co_await state->tasks.join();
}

}  // namespace muster::server
