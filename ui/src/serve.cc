#include "muster/ui/serve.h"

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

namespace muster::ui {
namespace asio = boost::asio;
namespace {

client::ApiOptions api_options() {
  client::ApiOptions options;
  options.timeout = std::chrono::seconds{20};
  options.max_repeats = 2;  // people wait
  options.user_agent = "kubectl-muster";
  return options;
}

struct Page {
  explicit Page(ServeOptions options)
      : random(client::RandomSource::seed_from_system()),
        env{io.get_executor(), clock, random},
        transport(env, std::move(options.config)),
        api(env, transport, api_options()),
        cluster(api, model, std::move(options.namespaces)),
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

}  // namespace

int serve(ServeOptions options) {
  const int port = options.port;
  auto what_helps = std::move(options.what_helps);
  Page page(std::move(options));
  auto server = Server::listen(page.api, page.model, port, std::move(what_helps));
  if (!server) {
    std::cerr << "error: " << server.error() << '\n';
    return 1;
  }
  page.cluster.start(page.watches);
  client::spawn(page.env.executor, run(page, **server));
  std::cout << (*server)->url() << std::endl;  // whoever reads our output through a pipe waits for it
  page.io.run();
  return 0;
}

}  // namespace muster::ui
