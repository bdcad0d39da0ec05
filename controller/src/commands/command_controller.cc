#include <fmt/format.h>
#include <unistd.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/signal_set.hpp>
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "commands/api_server.h"
#include "commands/commands.h"
#include "controller.h"
#include "muster/client/curl_transport.h"
#include "muster/client/exposition.h"
#include "muster/reconcilers/common/log.h"
#include "process/http_server.h"

namespace muster::controller {
namespace {

using reconcilers::log_error;
using reconcilers::log_info;

std::string default_identity(client::RandomSource& random) {
  char host[256] = "unknown";
  gethostname(host, sizeof host - 1);
  return fmt::format("{}_{:08x}", host, random.below(std::uint64_t{1} << 32));
}

// nullptr with a logged reason: the address cannot be had. `address` empty: nothing is served.
bool serve(boost::asio::any_io_executor executor, const std::string& address, const char* what,
           std::unique_ptr<HttpServer>& server, std::optional<server::CertificateFiles> certificate = {}) {
  if (address.empty()) return true;
  auto listening = HttpServer::listen(std::move(executor), address, std::move(certificate));
  if (!listening) {
    log_error("cannot serve", {{"what", what}, {"error", listening.error()}});
    return false;
  }
  server = std::move(*listening);
  const auto port = std::to_string(server->port());
  log_info("serving", {{"what", what}, {"port", port}});
  return true;
}

// Pods are near, or are not there.
client::CurlOptions to_pods() {
  client::CurlOptions o;
  o.connect_timeout = std::chrono::seconds{1};
  o.max_response = client::kMaxExposition;
  o.http2 = false;
  return o;
}

// A process that only stands by is scraped as well, and a flood of scrapes must not take the operator's turn.
client::ApiOptions for_reviews() {
  client::ApiOptions o;
  o.timeout = std::chrono::seconds{5};
  o.max_repeats = 1;
  o.max_in_flight = 4;
  return o;
}

// What answers probes and scrapes, which ask the controller.
struct Servers {
  std::unique_ptr<HttpServer> health, metrics;

  // False with a logged reason: an address cannot be had.
  bool start(const boost::asio::any_io_executor& executor, const Options& options) {
    return serve(executor, options.health_address, "health", health) &&
           serve(executor, options.metrics_address, "metrics", metrics, certificate_of(options));
  }
  static std::optional<server::CertificateFiles> certificate_of(const Options& options) {
    if (options.metrics_certificate.empty()) return std::nullopt;
    return server::CertificateFiles{options.metrics_certificate, options.metrics_key};
  }
  void answer_for(Controller& controller, Metrics& numbers) const {
    if (health) {
      health->handle("/healthz", [] { return HttpAnswer{200, "ok\n"}; });
      health->handle("/readyz", [&controller] {
        return controller.synced() ? HttpAnswer{200, "ok\n"}
                                   : HttpAnswer{503, "caches are not synced yet\n" + controller.unsynced()};
      });
    }
    if (metrics) {
      metrics->handle("/metrics", [&controller, &numbers] {
        controller.sample_metrics();
        return HttpAnswer{200, numbers.text(), "text/plain; version=0.0.4; charset=utf-8"};
      });
    }
  }
  client::Task<void> stop() {
    for (HttpServer* server : {health.get(), metrics.get()}) {
      if (server == nullptr) continue;
      server->stop();
      co_await server->join();
    }
  }
};

// Returns when nothing that was started here runs any more.
client::Task<void> run_to_end(Controller& controller, Servers& servers, std::optional<Ended>& ended,
                              boost::asio::io_context& loop) {
  ended = co_await controller.run();
  co_await servers.stop();
  loop.stop();
}

}  // namespace

int run_controller(const Options& given) {
  Options options = given;
  set_up_logging(options.log_format, options.log_level);
  auto config = find_api_server(options.kubeconfig, options.context);
  if (!config) return 2;

  boost::asio::io_context loop(1);
  client::RealClock clock;
  client::RandomSource random(client::RandomSource::seed_from_system());
  const client::Environment env{loop.get_executor(), clock, random};
  if (const char* pod = std::getenv("POD_NAME"); pod != nullptr) options.own_pod = pod;
  if (options.identity.empty()) options.identity = default_identity(random);
  log_info("starting", {{"version", MUSTER_VERSION},
                        {"server", config->server},
                        {"config", config->origin},
                        {"identity", options.identity}});

  Metrics metrics;
  client::CurlTransport transport(env, std::move(*config));
  client::CurlTransport pods(env, client::ClientConfig{}, to_pods());
  Controller controller(env, transport, pods, options, metrics);

  client::ApiClient reviews(env, transport, for_reviews());
  server::Gate gate(reviews);
  Servers servers;
  if (!servers.start(loop.get_executor(), options)) return 2;
  servers.answer_for(controller, metrics);
  if (servers.metrics && options.metrics_authorize) servers.metrics->guard(gate);

  boost::asio::signal_set signals(loop, SIGTERM, SIGINT);
  signals.async_wait([&](const boost::system::error_code& error, int number) {
    if (error) return;
    log_info("asked to stop", {{"signal", number == SIGTERM ? "SIGTERM" : "SIGINT"}});
    controller.request_stop();
    // A second signal ends the process at once.
    signals.clear();
    std::signal(SIGTERM, SIG_DFL);
    std::signal(SIGINT, SIG_DFL);
  });

  std::optional<Ended> ended;
  client::spawn(loop.get_executor(), run_to_end(controller, servers, ended, loop));
  loop.run();
  if (ended == Ended::kLostLease) {
    // A process that may have been replaced must not go on with what it has in memory.
    log_error("lost the lease, ending", {});
    return 1;
  }
  log_info("stopped", {});
  return 0;
}

}  // namespace muster::controller
