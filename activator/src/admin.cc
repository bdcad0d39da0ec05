#include "admin.h"

#include <fmt/format.h>

#include <charconv>
#include <utility>

#include "muster/server/target.h"

namespace muster::activator {
namespace {

constexpr client::Duration kPatience = std::chrono::seconds{10};  // of one who waits for news
constexpr client::Duration kStep{50};
constexpr client::Duration kSmallNews = std::chrono::seconds{1};  // counts alone are told so often

std::string demand_text(const Doors& doors) {
  std::string text =
      "# HELP muster_activator_requests_held Requests that wait for a replica, of each service it listens "
      "for.\n"
      "# TYPE muster_activator_requests_held gauge\n";
  for (const auto& [key, demand] : doors.demand()) {
    const auto [ns, name] = client::split_key(key);
    text += fmt::format("muster_activator_requests_held{{namespace=\"{}\",service=\"{}\",port=\"{}\"}} {}\n",
                        ns, name, demand.port, demand.held);
  }
  return text;
}

std::string metrics_text(const Doors& doors) {
  const Counts& counts = doors.counts();
  std::string text = demand_text(doors) +
                     "# HELP muster_activator_requests_total Requests that came, by what became of them.\n"
                     "# TYPE muster_activator_requests_total counter\n";
  for (const auto& [outcome, n] :
       {std::pair{"passed", counts.passed}, std::pair{"full", counts.full},
        std::pair{"crowded", counts.crowded}, std::pair{"late", counts.late},
        std::pair{"closed", counts.closed}, std::pair{"gone", counts.gone}, std::pair{"wrong", counts.wrong}})
    text += fmt::format("muster_activator_requests_total{{outcome=\"{}\"}} {}\n", outcome, n);
  return text;
}

struct Admin {
  client::Environment env;
  Doors& doors;
  DemandBoard& board;
  std::function<bool()> is_ready;

  static client::Task<void> answer(const Admin& self, server::Connection& connection) {
    const server::Target target = server::parse_target(connection.request().target);
    constexpr const char* kExposition = "text/plain; version=0.0.4; charset=utf-8";
    server::Answer answer{404, "there is /healthz, /readyz, /metrics and /demand\n"};
    if (connection.request().method != "GET") {
      answer = {405, "GET only\n"};
    } else if (target.path == "/healthz") {
      answer = {200, "ok\n"};
    } else if (target.path == "/readyz") {
      answer = self.is_ready() ? server::Answer{200, "ok\n"} : server::Answer{503, "not ready\n"};
    } else if (target.path == "/metrics") {
      answer = {200, metrics_text(self.doors), kExposition};
    } else if (target.path == "/demand" && !self.is_ready()) {
      answer = {503, "not ready\n"};
    } else if (target.path == "/demand") {
      const std::string text = target.value("after");
      std::int64_t after = 0;
      std::from_chars(text.data(), text.data() + text.size(), after);
      const std::int64_t version = co_await self.board.wait(after);
      answer = {503, "it ends\n"};
      if (self.is_ready())
        answer = {200, fmt::format("{}muster_activator_version {}\n", demand_text(self.doors), version),
                  kExposition};
    }
    co_await connection.answer(std::move(answer));
  }
};

}  // namespace

DemandBoard::DemandBoard(client::Environment env)
    : env_(env),
      version_(std::chrono::floor<std::chrono::milliseconds>(env.clock.wall().time_since_epoch()).count()) {}

void DemandBoard::changed(bool is_news) {
  if (!is_news) {
    is_untold_ = true;
    return;
  }
  ++version_;
  is_untold_ = false;
  told_at_ = env_.clock.now();
}

client::Task<std::int64_t> DemandBoard::wait(std::int64_t after) {
  const client::TimePoint deadline = env_.clock.now() + kPatience;
  while (true) {
    const client::TimePoint now = env_.clock.now();
    if (is_untold_ && now - told_at_ >= kSmallNews) changed(true);
    if (version_ != after || now >= deadline) break;
    if (!co_await env_.clock.sleep_for(kStep)) break;
  }
  co_return version_;
}

std::expected<std::unique_ptr<server::Listener>, std::string> listen_for_questions(
    client::Environment env, const ActivatorOptions& options, Doors& doors, DemandBoard& board,
    std::function<bool()> is_ready) {
  server::ListenOptions listen;
  listen.warn = options.warn;
  auto admin = std::make_shared<Admin>(env, doors, board, std::move(is_ready));
  return server::Listener::listen(
      env.executor, options.admin_address, std::move(listen),
      [admin](server::Connection& connection) { return Admin::answer(*admin, connection); });
}

}  // namespace muster::activator
