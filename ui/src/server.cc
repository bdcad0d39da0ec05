#include "server.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <utility>

#include "assets.h"
#include "muster/client/waiter.h"
#include "muster/server/target.h"

namespace muster::ui {
namespace {

using server::Answer;
using server::Connection;

constexpr auto kBetweenChanges = std::chrono::seconds{1};      // at least
constexpr auto kWhileItLoads = std::chrono::milliseconds{50};  // the first view waits for every kind
constexpr auto kHeartbeat = std::chrono::seconds{15};          // shows that a browser has gone

// What every answer needs of the world.
struct Site {
  client::Environment& env;
  Model& model;
  Door& door;
};

client::Headers safe_headers() {
  return {{"Cache-Control", "no-store"},
          {"Content-Security-Policy",
           "default-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"},
          {"X-Content-Type-Options", "nosniff"},
          {"Referrer-Policy", "no-referrer"},
          {"Cross-Origin-Opener-Policy", "same-origin"},
          {"Cross-Origin-Resource-Policy", "same-origin"}};
}

Answer answer(int status, std::string_view type, std::string body) {
  return {status, std::move(body), std::string(type), safe_headers()};
}

Answer json_answer(int status, std::string body) {
  return answer(status, "application/json", std::move(body));
}

Answer problem(int status, const std::string& message, bool asks_token = false) {
  nlohmann::json body{{"message", message}};
  if (asks_token) body["asksToken"] = true;
  return json_answer(status, body.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
}
Answer problem(const Refusal& refusal) {
  return problem(refusal.status, refusal.message, refusal.asks_token);
}

Answer answer_of(const client::Result<std::string>& said) {
  if (said) return json_answer(200, *said);
  const auto& error = said.error();
  const bool is_clear =
      error.code == client::ErrorCode::kNotFound || error.code == client::ErrorCode::kForbidden;
  return problem(is_clear ? error.http_status : 502,
                 error.message.empty() ? client::to_string(error) : error.message);
}

client::Task<Answer> job(Visitor& visitor, const server::Target& target) {
  const client::ObjectRef ref{target.value("namespace"), target.value("name")};
  if (ref.ns.empty() || ref.name.empty())
    co_return problem(400, "namespace and name of the job must be given.");
  co_return answer_of(co_await visitor.job_details(ref));
}

client::Task<Answer> disruptions(Visitor& visitor, const server::Target& target) {
  const std::string ns = target.value("namespace");
  if (ns.empty()) co_return problem(400, "the namespace must be given.");
  co_return answer_of(co_await visitor.disruptions_of(ns));
}

Answer service(const Site& site, const Visitor& visitor, const server::Target& target) {
  const std::string ns = target.value("namespace"), key = ns + "/" + target.value("name");
  if (ns.empty() || key.ends_with('/'))
    return problem(400, "namespace and name of the service must be given.");
  if (!visitor.rights()->sees(Table::kServices, key)) return problem(403, "You may not list services there.");
  return json_answer(200, fmt::format("{{\"samples\":{}}}", site.model.service_past().text_of(key)));
}

// One event of the stream: neither has the name a line break, nor has JSON text any.
std::string event(std::string_view name, const std::string& json) {
  return fmt::format("event: {}\ndata: {}\n\n", name, json);
}

// Goes on until the browser has gone, or may not stay. A browser that is slow is told less often, and never
// more at once than all there is.
client::Task<void> tell_changes(Site& site, Visitor& visitor, Connection& connection) {
  client::Clock& clock = site.env.clock;
  client::Waiter news(site.env.executor);
  Model::Reader reader(site.model, [&news] { news.notify(); }, visitor.rights());
  bool goes_on = co_await connection.begin(answer(200, "text/event-stream", "")) &&
                 co_await connection.send(event("snapshot", reader.snapshot()));
  while (goes_on) {
    const client::Duration pause =
        site.model.is_loading() ? kWhileItLoads : client::Duration{kBetweenChanges};
    if (!co_await clock.sleep_for(pause)) break;
    if (!reader.has_changes() &&
        co_await news.wait_until(clock, clock.now() + kHeartbeat) == client::Wake::kCancelled)
      break;
    if (co_await visitor.look_again()) break;  // the page asks again, and is told why
    reader.set_rights(visitor.rights());
    goes_on = co_await connection.send(reader.has_changes() ? event("change", reader.changes()) : ":\n\n");
  }
}

client::Task<void> serve_data(Site& site, const Asked& asked, const server::Target& target,
                              Connection& connection) {
  const auto visitor = co_await site.door.admit(asked);
  if (!visitor) {
    co_await connection.answer(problem(visitor.error()));
  } else if (target.path == "/api/changes") {
    co_await tell_changes(site, **visitor, connection);
  } else if (target.path == "/api/job") {
    auto said = co_await job(**visitor, target);
    co_await connection.answer(std::move(said));
  } else if (target.path == "/api/service") {
    // What they may see is known when they have looked.
    const auto refusal = co_await (*visitor)->look_again();
    co_await connection.answer(refusal ? problem(*refusal) : service(site, **visitor, target));
  } else if (target.path == "/api/disruptions") {
    auto said = co_await disruptions(**visitor, target);
    co_await connection.answer(std::move(said));
  } else {
    co_await connection.answer(problem(404, "There is no such page."));
  }
}

client::Task<void> serve(std::shared_ptr<Site> site, Connection& connection) {
  const server::Request& request = connection.request();
  const Asked asked{request.method, request.host, request.origin, request.authorization};
  const server::Target target = server::parse_target(request.target);
  if (target.path.starts_with("/api/")) {
    co_await serve_data(*site, asked, target, connection);
  } else if (target.path == "/healthz") {
    co_await connection.answer({200, "ok\n"});
  } else if (const auto refusal = site->door.refuses(asked)) {
    co_await connection.answer(problem(*refusal));
  } else if (target.path == "/door") {
    co_await connection.answer(
        json_answer(200, nlohmann::json{{"asksToken", site->door.asks_token()}}.dump()));
  } else if (const Asset* asset = find_asset(target.path)) {
    co_await connection.answer(answer(200, content_type(asset->name), std::string(asset->content)));
  } else {
    co_await connection.answer(problem(404, "There is no such page."));
  }
}

}  // namespace

std::expected<std::unique_ptr<Server>, std::string> Server::listen(client::Environment& env, Model& model,
                                                                   Door& door, const std::string& address,
                                                                   server::ListenOptions options) {
  options.patience = std::chrono::seconds{30};
  auto site = std::make_shared<Site>(env, model, door);
  auto listener =
      server::Listener::listen(env.executor, address, std::move(options),
                               [site](Connection& connection) { return serve(site, connection); });
  if (!listener) return std::unexpected(listener.error());
  return std::unique_ptr<Server>(new Server(std::move(*listener)));
}

}  // namespace muster::ui
