#include "muster/reconcilers/services/autoscaler.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "muster/reconcilers/common/endpoint_problem.h"
#include "muster/reconcilers/common/fan_out.h"
#include "muster/reconcilers/common/log.h"

namespace muster::reconcilers {
namespace {

using client::Duration;
using client::Key;
using client::Task;
using client::TimePoint;

// A verdict that says the same but for its numbers is said again only so often: it is written to the status.
constexpr Duration kSayAgain = std::chrono::seconds{30};

using Reading = std::expected<crds::MilliLoad, std::string>;

// Of one service.
struct Known {
  crds::ServingMetric metric{};
  std::uint64_t life = 0;  // another one after forget(); 0: none yet
  bool is_reading = false;
  TimePoint due{};
  std::optional<LoadRound> round;  // not judged yet
  ScalingHistory history;
  std::optional<ScalingVerdict> verdict;
  TimePoint said{};
};

void keep(Known& service, ScalingVerdict verdict, TimePoint now) {
  const auto& before = service.verdict;
  const bool is_news = !before || before->size != verdict.size || before->is_active != verdict.is_active ||
                       before->reason != verdict.reason;
  if (!is_news && now - service.said < kSayAgain) return;
  service.said = now;
  service.verdict = std::move(verdict);
}

}  // namespace

Duration reading_interval(const crds::Autoscaling& rule) {
  const Duration half = Duration(std::min(rule.window, rule.panic_window)) / 2;
  return std::clamp<Duration>(half, std::chrono::seconds{1}, std::chrono::seconds{15});
}

struct Autoscaler::State {
  State(client::Environment e, client::Transport& t, std::function<void(const Key&)> c, AutoscalerOptions o)
      : env(e), changed(std::move(c)), options(o), reader(e, t, o.timeout, o.in_all), readings(e.executor) {}

  static Task<Reading> read(State& state, const std::string& url, crds::ServingMetric metric);
  static Task<void> read_all(std::shared_ptr<State> state, Key key, std::uint64_t life,
                             crds::ServingMetric metric, std::vector<MetricsEndpoint> serving);

  client::Environment env;
  std::function<void(const Key&)> changed;
  AutoscalerOptions options;
  EndpointReader reader;
  std::map<Key, Known> services;
  std::uint64_t lives = 0;
  client::TaskGroup readings;  // a task is a round
};

Task<Reading> Autoscaler::State::read(State& state, const std::string& url, crds::ServingMetric metric) {
  Reading reading = std::unexpected("its pod has no address");
  if (url.empty()) co_return reading;
  client::WantedMetric wanted = [metric](std::string_view name) { return is_name_of(metric, name); };
  const auto samples = co_await state.reader.read(url, std::move(wanted));
  if (!samples) {
    reading = std::unexpected(samples.error());
    co_return reading;
  }
  reading = load_of(metric, *samples, state.env.clock.wall());
  if (!reading) reading = std::unexpected(fmt::format("{}: {}", url, reading.error()));
  co_return reading;
}

Task<void> Autoscaler::State::read_all(std::shared_ptr<State> state, Key key, std::uint64_t life,
                                       crds::ServingMetric metric, std::vector<MetricsEndpoint> serving) {
  LoadRound round;
  round.serving = static_cast<std::int32_t>(serving.size());
  const std::function<Task<bool>(std::size_t)> one = [&](std::size_t i) {
    struct One {
      static Task<bool> run(State& all, const MetricsEndpoint& endpoint, crds::ServingMetric what,
                            LoadRound& sum) {
        const Reading reading = co_await read(all, endpoint.url, what);
        if (reading) {
          ++sum.read;
          sum.load += *reading;
        } else if (sum.problem.empty()) {
          sum.problem = fmt::format("{}: {}", endpoint.replica, told(reading.error()));
        }
        co_return !all.reader.stopped();
      }
    };
    return One::run(*state, serving[i], metric, round);
  };
  try {
    co_await fan_out(state->env.executor, serving.size(), state->options.of_one_service, one);
  } catch (const std::exception& e) {
    // What replicas say comes from outside: what nobody expected of it costs this round and nothing else.
    round.problem = e.what();
    log_error("reading replicas threw", {{"service", key}, {"error", e.what()}});
  }
  const auto found = state->services.find(key);
  if (state->reader.stopped() || found == state->services.end() || found->second.life != life) co_return;
  if (round.read < round.serving)
    log_debug("replicas not read", {{"service", key}, {"problem", round.problem}});
  round.at = state->env.clock.now();
  found->second.is_reading = false;
  found->second.round = std::move(round);
  state->changed(key);
}

Autoscaler::Autoscaler(client::Environment env, client::Transport& pods,
                       std::function<void(const Key&)> changed, AutoscalerOptions options)
    : state_(std::make_shared<State>(env, pods, std::move(changed), options)) {}
Autoscaler::~Autoscaler() {
  stop();
}

Autoscaler::Look Autoscaler::look(const Key& key, const crds::Autoscaling& rule, std::int32_t size,
                                  std::vector<MetricsEndpoint> serving) {
  State& state = *state_;
  const TimePoint now = state.env.clock.now();
  auto& service = state.services[key];
  if (service.life == 0 || service.metric != rule.metric) {
    service = {};
    service.life = ++state.lives;
    service.metric = rule.metric;
  }
  if (service.round) {
    keep(service, judge(rule, size, *service.round, service.history, now), now);
    service.round.reset();
  }
  if (!service.is_reading && now >= service.due && !state.reader.stopped()) {
    service.is_reading = true;
    service.due = now + reading_interval(rule);
    state.readings.spawn(State::read_all(state_, key, service.life, rule.metric, std::move(serving)));
  }
  // A reading that takes longer says itself when it is over.
  return {service.verdict, service.due > now ? service.due - now : reading_interval(rule)};
}

void Autoscaler::forget(const Key& key) {
  state_->services.erase(key);
}
void Autoscaler::stop() {
  state_->reader.stop();
}
client::TaskGroup& Autoscaler::readings() {
  return state_->readings;
}
const EndpointCounts& Autoscaler::counts() const {
  return state_->reader.counts();
}

}  // namespace muster::reconcilers
