#include "muster/ui/serve.h"

#include <fmt/format.h>

#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <iostream>
#include <utility>

#include "cluster.h"
#include "muster/client/curl_transport.h"
#include "server.h"
#include "who/access.h"
#include "who/guard.h"

namespace muster::ui {
namespace asio = boost::asio;
namespace {

client::ApiOptions api_options(const char* user_agent) {
  client::ApiOptions options;
  options.timeout = std::chrono::seconds{20};
  options.max_repeats = 2;  // people wait
  options.user_agent = user_agent;
  return options;
}

struct Page {
  Page(client::ClientConfig config, std::vector<std::string> namespaces, const char* user_agent)
      : random(client::RandomSource::seed_from_system()),
        env{io.get_executor(), clock, random},
        transport(env, std::move(config)),
        api(env, transport, api_options(user_agent)),
        cluster(api, model, std::move(namespaces)),
        watches(env.executor),
        signals(io, SIGINT, SIGTERM) {}

  asio::io_context io{1};
  client::RealClock clock;
  client::RandomSource random;
  client::Environment env;
  client::CurlTransport transport;
  client::ApiClient api;
  Model model;
  ClusterView cluster;
  client::TaskGroup watches;
  asio::signal_set signals;
};

// Until a signal comes. Then everything that runs is ended before what it uses is destroyed.
client::Task<void> run(Page& page, Server& server) {
  boost::system::error_code error;
  co_await page.signals.async_wait(asio::redirect_error(asio::use_awaitable, error));
  server.stop();
  page.watches.cancel();
  co_await server.join();
  co_await page.watches.join();
  page.io.stop();
}

void run_to_end(Page& page, Server& server) {
  page.cluster.start(page.watches);
  client::spawn(page.env.executor, run(page, server));
  page.io.run();
}

}  // namespace

int serve(ServeOptions options) {
  Page page(std::move(options.config), std::move(options.namespaces), "kubectl-muster");
  LocalDoor door(page.api);
  server::ListenOptions listen;
  listen.max_connections = 64;
  listen.warn = [](const std::string& what) { std::cerr << "warning: " << what << '\n'; };
  auto server = Server::listen(page.env, page.model, door, fmt::format("127.0.0.1:{}", options.port), listen);
  if (!server) {
    std::cerr << "error: " << server.error() << '\n';
    return 1;
  }
  door.listens_at((*server)->port());
  std::cout << door.url() << std::endl;  // whoever reads our output through a pipe waits for it
  run_to_end(page, **server);
  return 0;
}

std::expected<void, std::string> serve(ClusterOptions options) {
  const client::ClientConfig config = options.config;
  Page page(std::move(options.config), {}, "muster-ui");
  // What users ask must not hold up what is watched, nor the other way round.
  client::ApiOptions for_reviews = api_options("muster-ui");
  for_reviews.timeout = std::chrono::seconds{5};
  for_reviews.max_in_flight = 32;
  client::ApiClient reviews(page.env, page.transport, for_reviews);
  ClusterDoor door(reviews, page.model, config);
  auto server = Server::listen(page.env, page.model, door, options.address, std::move(options.listen));
  if (!server) return std::unexpected(server.error());
  options.listens((*server)->port());
  run_to_end(page, **server);
  return {};
}

}  // namespace muster::ui
