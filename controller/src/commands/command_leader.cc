#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <cstdio>
#include <nlohmann/json.hpp>

#include "commands/commands.h"
#include "muster/client/api.h"
#include "muster/client/config.h"
#include "muster/client/curl_transport.h"

namespace muster::controller {
namespace {

// Who holds the lease, and when it was renewed last.
struct Held {
  std::string by;
  std::string renewed;
};

Held read(const std::string& lease) {
  const auto spec = nlohmann::json::parse(lease).value("spec", nlohmann::json::object());
  return {spec.value("holderIdentity", ""), spec.value("renewTime", "")};
}

// Only what this process sees itself counts, because clocks may differ: that the lease is renewed while it
// looks.
client::Task<void> look(client::Environment env, client::ApiClient& api, const LeaderOptions& o, int& status,
                        boost::asio::io_context& loop) {
  const auto until = env.clock.now() + std::chrono::seconds{o.timeout};
  const client::ObjectRef lease{o.ns, o.lease};
  std::string problem = "nobody holds it";
  for (std::string first; env.clock.now() < until; co_await env.clock.sleep_for(std::chrono::seconds{1})) {
    const auto answer = co_await api.get(client::resources::kLeases, lease);
    if (!answer) {
      problem = client::to_string(answer.error());
      continue;
    }
    const Held held = read(*answer);
    if (held.by.empty()) continue;
    if (!first.empty() && held.renewed != first) {
      fmt::print("{} leads\n", held.by);
      status = 0;
      break;
    }
    first = held.renewed;
    problem = held.by + " holds it and does not renew it";
  }
  if (status != 0) fmt::print(stderr, "no process leads: lease {}/{}: {}\n", o.ns, o.lease, problem);
  loop.stop();
}

}  // namespace

int run_leader(const LeaderOptions& options) {
  auto config = client::load_config({.path = options.kubeconfig, .context = {}});
  if (!config) {
    fmt::print(stderr, "no way to an API server: {}\n", client::to_string(config.error()));
    return 2;
  }
  boost::asio::io_context loop(1);
  client::RealClock clock;
  client::RandomSource random(client::RandomSource::seed_from_system());
  const client::Environment env{loop.get_executor(), clock, random};
  client::CurlTransport transport(env, std::move(*config));
  client::ApiClient api(env, transport);
  int status = 1;
  client::spawn(loop.get_executor(), look(env, api, options, status, loop));
  loop.run();
  return status;
}

}  // namespace muster::controller
