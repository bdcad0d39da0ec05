#include "live/session.h"

#include "report.h"

namespace muster::bench {

using client::Task;
using std::chrono::steady_clock;

namespace {

constexpr client::Duration kStep{5};

client::ApiOptions api_options() {
  client::ApiOptions options;
  options.user_agent = "muster-bench";
  options.timeout = std::chrono::seconds(90);
  return options;
}

Task<void> remove_all(client::ApiClient& api, client::Resource resource, std::string ns,
                      std::shared_ptr<bool> answered) {
  client::DeleteOptions options;
  options.grace_period_seconds = 0;
  options.propagation_policy = "Background";
  client::ListOptions everything;
  everything.limit = 0;
  const auto removed = co_await api.remove_collection(resource, ns, everything, options);
  if (!removed) progress("removing " + resource.plural + ": " + client::to_string(removed.error()));
  *answered = true;
}

}  // namespace

Task<void> create_some(client::ApiClient& api, std::shared_ptr<Creation> work) {
  while (work->next < work->bodies.size() && !work->failed()) {
    const std::size_t index = work->next++;
    work->sent[index] = steady_clock::now();
    std::string body = std::move(work->bodies[index]);
    const auto made = co_await api.create(work->resource, work->ns, std::move(body), "bench");
    work->last_answer = steady_clock::now();
    ++work->answered;
    if (!made && !work->failed()) work->error = client::to_string(made.error());
  }
}

Outcome<std::unique_ptr<Session>> Session::open(const BenchCluster& cluster, const std::string& ns) {
  client::KubeconfigOptions where;
  where.path = cluster.real().kubeconfig();
  auto config = client::load_kubeconfig(where);
  if (!config) return std::unexpected(client::to_string(config.error()));
  auto session = std::make_unique<Session>(std::move(*config), ns);
  const auto synced = [&] { return session->pods().synced() && session->jobs().synced(); };
  if (!session->run_until(std::chrono::seconds(30), synced))
    return std::unexpected("the watches of the benchmark are not synced");
  return session;
}

Session::Session(client::ClientConfig config, const std::string& ns)
    : env_{loop_.get_executor(), clock_, random_},
      transport_(env_, std::move(config)),
      api_(env_, transport_, api_options()),
      ns_(ns),
      pods_(api_, ns),
      jobs_(api_, ns) {
  client::spawn(env_.executor, pods_.run(), &stop_pods_);
  client::spawn(env_.executor, jobs_.run(), &stop_jobs_);
}

Session::~Session() {
  stop_pods_.emit(boost::asio::cancellation_type::terminal);
  stop_jobs_.emit(boost::asio::cancellation_type::terminal);
  loop_.restart();
  loop_.run_for(std::chrono::seconds(2));
}

bool Session::run_until(milliseconds timeout, const std::function<bool()>& done) {
  const auto deadline = steady_clock::now() + timeout;
  while (!done()) {
    if (steady_clock::now() >= deadline) return false;
    loop_.restart();
    loop_.run_for(kStep);
  }
  return true;
}

void Session::start(const std::shared_ptr<Creation>& work, std::size_t in_flight) {
  work->sent.resize(work->bodies.size());
  for (std::size_t i = 0; i < in_flight; ++i) client::spawn(env_.executor, create_some(api_, work));
}

Outcome<void> Session::clear(const client::Resource& resource, const std::function<bool()>& gone) {
  for (int attempt = 0; attempt < 5; ++attempt) {
    const auto answered = std::make_shared<bool>(false);
    client::spawn(env_.executor, remove_all(api_, resource, ns_, answered));
    if (!run_until(std::chrono::seconds(120), [&] { return *answered; })) break;
    if (run_until(std::chrono::seconds(60), gone)) return {};
  }
  return std::unexpected(resource.plural + " in " + ns_ + " could not be removed");
}

}  // namespace muster::bench
