#include "muster/activator/serve.h"

#include <boost/asio/io_context.hpp>
#include <boost/asio/redirect_error.hpp>
#include <boost/asio/signal_set.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <csignal>
#include <utility>

#include "admin.h"
#include "cluster.h"
#include "doors.h"
#include "muster/client/curl_transport.h"

namespace muster::activator {
namespace asio = boost::asio;
namespace {

// After SIGTERM it serves on until nobody is led here any more.
constexpr client::Duration kStillLed = std::chrono::seconds{5};

client::ApiOptions api_options() {
  client::ApiOptions options;
  options.user_agent = "muster-activator";
  return options;
}

struct Activator {
  explicit Activator(ActivatorOptions& options)
      : random(client::RandomSource::seed_from_system()),
        env{io.get_executor(), clock, random},
        transport(env, std::move(options.config)),
        api(env, transport, api_options()),
        board(env),
        doors(env, options, [this](bool is_news) { board.changed(is_news); }),
        cluster(api, doors),
        watches(env.executor),
        signals(io, SIGINT, SIGTERM) {}

  asio::io_context io{1};
  client::RealClock clock;
  client::RandomSource random;
  client::Environment env;
  client::CurlTransport transport;
  client::ApiClient api;
  DemandBoard board;
  Doors doors;
  ClusterView cluster;
  client::TaskGroup watches;
  asio::signal_set signals;
  bool is_ending = false;
};

client::Task<void> run(Activator& self, server::Listener& admin, client::Duration drain) {
  boost::system::error_code error;
  co_await self.signals.async_wait(asio::redirect_error(asio::use_awaitable, error));
  // A second signal ends the process at once.
  self.signals.clear(error);
  std::signal(SIGTERM, SIG_DFL);
  std::signal(SIGINT, SIG_DFL);
  self.is_ending = true;
  self.board.changed(true);  // the operator leads nobody here any more
  const bool somebody_is_led = !self.doors.demand().empty();
  if (somebody_is_led) co_await self.clock.sleep_for(kStillLed);
  self.doors.close();
  co_await self.doors.join(self.clock.now() + drain);
  admin.stop();
  self.watches.cancel();
  co_await admin.join();
  co_await self.watches.join();
  self.io.stop();
}

}  // namespace

std::expected<void, std::string> serve(ActivatorOptions options) {
  Activator self(options);
  auto admin = listen_for_questions(self.env, options, self.doors, self.board,
                                    [&self] { return self.cluster.is_synced() && !self.is_ending; });
  if (!admin) return std::unexpected(admin.error());
  if (options.inform) options.inform("listening for questions at port " + std::to_string((*admin)->port()));
  self.cluster.start(self.watches);
  client::spawn(self.env.executor, run(self, **admin, options.drain));
  self.io.run();
  return {};
}

}  // namespace muster::activator
