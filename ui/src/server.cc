#include "server.h"

#include <fmt/format.h>

#include <algorithm>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <boost/asio/write.hpp>
#include <boost/beast/core.hpp>
#include <boost/beast/http.hpp>
#include <iostream>
#include <nlohmann/json.hpp>
#include <utility>

#include "assets.h"
#include "muster/client/waiter.h"

namespace muster::ui {
namespace asio = boost::asio;
namespace beast = boost::beast;
namespace http = boost::beast::http;
using asio::ip::tcp;

struct Server::State {
  State(client::ApiClient& client, Model& tables, WhatHelps helps)
      : api(client),
        model(tables),
        what_helps(std::move(helps)),
        acceptor(client.environment().executor),
        pause(client.environment().executor),
        tasks(client.environment().executor) {}
  client::ApiClient& api;
  Model& model;
  WhatHelps what_helps;
  tcp::acceptor acceptor;
  asio::steady_timer pause;  // before the next try to accept
  client::TaskGroup tasks;   // that accepts, and one for each connection
  Guard guard{"", 0};
  std::size_t connections = 0;
};

namespace {

using Request = http::request<http::empty_body>;
using Response = http::response<http::string_body>;

constexpr std::size_t kMaxHeaderBytes = 8192;
constexpr std::size_t kMaxConnections = 64;
constexpr auto kPatience = std::chrono::seconds{30};  // with a browser that says or takes nothing
constexpr auto kAcceptPause = std::chrono::milliseconds{100};
constexpr auto kBetweenChanges = std::chrono::seconds{1};  // at least
constexpr auto kHeartbeat = std::chrono::seconds{15};      // shows that a browser has gone

template <class Message>
void set_headers(Message& message) {
  message.set(http::field::cache_control, "no-store");
  message.set("Content-Security-Policy",
              "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'");
  message.set("X-Content-Type-Options", "nosniff");
  message.set("Referrer-Policy", "no-referrer");
  message.set("Cross-Origin-Opener-Policy", "same-origin");
  message.set("Cross-Origin-Resource-Policy", "same-origin");
}

Response answer(const Request& request, int status, std::string_view type, std::string body) {
  Response response(static_cast<http::status>(status), request.version());
  set_headers(response);
  response.set(http::field::content_type, std::string(type));
  response.keep_alive(request.keep_alive());
  response.body() = std::move(body);
  response.prepare_payload();
  return response;
}

Response json_answer(const Request& request, int status, std::string body) {
  return answer(request, status, "application/json", std::move(body));
}

Response problem(const Request& request, int status, const std::string& message) {
  return json_answer(
      request, status,
      nlohmann::json{{"message", message}}.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}

Asked asked_of(const Request& request) {
  const auto view = [](auto text) { return std::string_view(text.data(), text.size()); };
  return {view(request.method_string()), view(request[http::field::host]), view(request[http::field::origin]),
          view(request[http::field::authorization])};
}

client::Task<Response> job(Server::State& state, const Request& request, const Target& target) {
  const client::ObjectRef ref{target.value("namespace"), target.value("name")};
  if (ref.ns.empty() || ref.name.empty())
    co_return problem(request, 400, "namespace and name of the job must be given.");
  const auto details = co_await job_details(state.api, ref, state.what_helps);
  if (details) co_return json_answer(request, 200, *details);
  const auto& error = details.error();
  const bool is_clear =
      error.code == client::ErrorCode::kNotFound || error.code == client::ErrorCode::kForbidden;
  co_return problem(request, is_clear ? error.http_status : 502,
                    error.message.empty() ? client::to_string(error) : error.message);
}

// One event of the stream: neither has the name a line break, nor has JSON text any.
std::string event(std::string_view name, const std::string& json) {
  return fmt::format("event: {}\ndata: {}\n\n", name, json);
}

client::Task<bool> send(beast::tcp_stream& stream, std::string text) {
  boost::system::error_code error;
  stream.expires_after(kPatience);
  co_await asio::async_write(stream, http::make_chunk(asio::buffer(text)),
                             asio::redirect_error(asio::use_awaitable, error));
  co_return !error;
}

// Goes on until the browser has gone. A browser that is slow is told less often, and never more at once than
// all there is.
client::Task<void> tell_changes(Server::State& state, beast::tcp_stream& stream, const Request& request) {
  http::response<http::empty_body> head(http::status::ok, request.version());
  set_headers(head);
  head.set(http::field::content_type, "text/event-stream");
  head.keep_alive(false);
  head.chunked(true);
  http::response_serializer<http::empty_body> serializer(head);
  boost::system::error_code error;
  stream.expires_after(kPatience);
  co_await http::async_write_header(stream, serializer, asio::redirect_error(asio::use_awaitable, error));
  if (error) co_return;
  client::Clock& clock = state.api.environment().clock;
  client::Waiter news(state.api.environment().executor);
  Model::Reader reader(state.model, [&news] { news.notify(); });
  bool goes_on = co_await send(stream, event("snapshot", reader.snapshot()));
  while (goes_on) {
    if (!co_await clock.sleep_for(kBetweenChanges)) break;
    if (!reader.has_changes() &&
        co_await news.wait_until(clock, clock.now() + kHeartbeat) == client::Wake::kCancelled)
      break;
    goes_on = co_await send(stream, reader.has_changes() ? event("change", reader.changes()) : ":\n\n");
  }
}

client::Task<Response> answer(Server::State& state, const Request& request, const Target& target) {
  const bool is_data = target.path.starts_with("/api/");
  const Asked asked = asked_of(request);
  if (const auto refusal = is_data ? state.guard.refuses_data(asked) : state.guard.refuses(asked))
    co_return problem(request, refusal->status, refusal->message);
  if (target.path == "/api/job") co_return co_await job(state, request, target);
  if (const Asset* asset = find_asset(target.path))
    co_return answer(request, 200, content_type(asset->name), std::string(asset->content));
  co_return problem(request, 404, "There is no such page.");
}

client::Task<void> talk(Server::State& state, tcp::socket socket) {
  beast::tcp_stream stream(std::move(socket));
  beast::flat_buffer buffer;
  boost::system::error_code error;
  while (true) {
    http::request_parser<http::empty_body> parser;
    parser.header_limit(kMaxHeaderBytes);
    stream.expires_after(kPatience);
    co_await http::async_read(stream, buffer, parser, asio::redirect_error(asio::use_awaitable, error));
    if (error) break;
    const Request& request = parser.get();
    const Target target = parse_target({request.target().data(), request.target().size()});
    if (target.path == "/api/changes" && !state.guard.refuses_data(asked_of(request))) {
      co_await tell_changes(state, stream, request);
      break;
    }
    stream.expires_never();  // while the API server is asked, which has a deadline of its own
    const Response response = co_await answer(state, request, target);
    stream.expires_after(kPatience);
    co_await http::async_write(stream, response, asio::redirect_error(asio::use_awaitable, error));
    if (error || !response.keep_alive()) break;
  }
  stream.socket().shutdown(tcp::socket::shutdown_both, error);
}

// What one connection makes us throw ends that connection only.
client::Task<void> serve(std::shared_ptr<Server::State> state, tcp::socket socket) {
  ++state->connections;
  try {
    co_await talk(*state, std::move(socket));
  } catch (const std::exception& e) {
    std::cerr << "warning: a connection ended: " << e.what() << '\n';
  }
  --state->connections;
}

client::Task<void> accept(std::shared_ptr<Server::State> state) {
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
    if (state->connections < kMaxConnections) state->tasks.spawn(serve(state, std::move(socket)));
  }
}

}  // namespace

std::expected<std::unique_ptr<Server>, std::string> Server::listen(client::ApiClient& api, Model& model,
                                                                   int port, WhatHelps what_helps) {
  auto state = std::make_shared<State>(api, model, std::move(what_helps));
  const tcp::endpoint endpoint(asio::ip::address_v4::loopback(), static_cast<std::uint16_t>(port));
  boost::system::error_code error;
  state->acceptor.open(endpoint.protocol(), error);
  if (!error) state->acceptor.set_option(tcp::acceptor::reuse_address(true), error);
  if (!error) state->acceptor.bind(endpoint, error);
  if (!error) state->acceptor.listen(asio::socket_base::max_listen_connections, error);
  if (error)
    return std::unexpected(fmt::format("cannot listen on port {} of 127.0.0.1: {}", port, error.message()));
  state->guard = Guard(new_token(), state->acceptor.local_endpoint().port());
  state->tasks.spawn(accept(state));
  return std::unique_ptr<Server>(new Server(std::move(state)));
}

Server::Server(std::shared_ptr<State> state) : state_(std::move(state)) {}
Server::~Server() {
  stop();
}
std::string Server::url() const {
  return state_->guard.url();
}
void Server::stop() {
  boost::system::error_code ignored;
  state_->acceptor.close(ignored);
  state_->pause.cancel();
  state_->tasks.cancel();
}
client::Task<void> Server::join() {
  const auto state = state_;
  co_await state->tasks.join();
}

}  // namespace muster::ui
