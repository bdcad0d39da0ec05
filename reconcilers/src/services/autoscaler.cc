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

struct Said {
  crds::MilliLoad load{};
  std::expected<Activity, std::string> activity{};  // where it was asked for
};
using Reading = std::expected<Said, std::string>;

// What is asked of a replica.
struct Question {
  crds::ServingMetric metric{};
  bool with_activity = false;
};

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

// What all replicas say together. A replica is read when all its endpoints are. Its load is theirs together,
// but of the cache, of which a full one is 1 in each, their mean.
LoadRound add_up(const Question& question, const std::vector<MetricsEndpoint>& serving,
                 const std::vector<Reading>& readings) {
  LoadRound sum;
  sum.is_idle = question.with_activity;
  for (std::size_t begin = 0, end = 0; begin < serving.size(); begin = end) {
    const std::string& replica = serving[begin].replica;
    crds::MilliLoad load{};
    std::int64_t read = 0;
    for (; end < serving.size() && serving[end].replica == replica; ++end) {
      const Reading& said = readings[end];
      if (!said) {
        if (sum.problem.empty()) sum.problem = fmt::format("{}: {}", replica, told(said.error()));
        continue;
      }
      ++read;
      load += said->load;
      sum.is_idle = sum.is_idle && said->activity && said->activity->is_idle;
      if (said->activity)
        sum.answered += said->activity->answered;
      else if (sum.idle_problem.empty())
        sum.idle_problem = fmt::format("{}: {}", replica, told(said->activity.error()));
    }
    ++sum.serving;
    if (read < static_cast<std::int64_t>(end - begin)) continue;
    ++sum.read;
    const bool is_share = question.metric == crds::ServingMetric::kKVCacheUtilization;
    sum.load += is_share ? crds::MilliLoad{load.value / read} : load;
  }
  return sum;
}

}  // namespace

Duration reading_interval(const crds::Autoscaling& rule) {
  const Duration half = Duration(std::min(rule.window, rule.panic_window)) / 2;
  return std::clamp<Duration>(half, std::chrono::seconds{1}, std::chrono::seconds{15});
}

struct Autoscaler::State {
  State(client::Environment e, client::Transport& t, std::function<void(const Key&)> c, AutoscalerOptions o)
      : env(e), changed(std::move(c)), options(o), reader(e, t, o.timeout, o.in_all), readings(e.executor) {}

  static Task<Reading> read(State& state, const std::string& url, Question question);
  static Task<void> read_all(std::shared_ptr<State> state, Key key, std::uint64_t life, Question question,
                             std::vector<MetricsEndpoint> serving);

  client::Environment env;
  std::function<void(const Key&)> changed;
  AutoscalerOptions options;
  EndpointReader reader;
  std::map<Key, Known> services;
  std::uint64_t lives = 0;
  client::TaskGroup readings;  // a task is a round
};

Task<Reading> Autoscaler::State::read(State& state, const std::string& url, Question question) {
  Reading reading = std::unexpected("its pod has no address");
  if (url.empty()) co_return reading;
  client::WantedMetric wanted = [question](std::string_view name) {
    return is_name_of(question.metric, name) || (question.with_activity && is_name_of_activity(name));
  };
  const auto samples = co_await state.reader.read(url, std::move(wanted));
  if (!samples) {
    reading = std::unexpected(samples.error());
    co_return reading;
  }
  const auto now = state.env.clock.wall();
  const auto load = load_of(question.metric, *samples, now);
  if (!load) {
    reading = std::unexpected(fmt::format("{}: {}", url, load.error()));
    co_return reading;
  }
  reading = Said{.load = *load};
  if (question.with_activity) reading->activity = activity_of(*samples, now);
  if (!reading->activity)
    reading->activity = std::unexpected(fmt::format("{}: {}", url, reading->activity.error()));
  co_return reading;
}

Task<void> Autoscaler::State::read_all(std::shared_ptr<State> state, Key key, std::uint64_t life,
                                       Question question, std::vector<MetricsEndpoint> serving) {
  LoadRound round;
  std::vector<Reading> readings(serving.size(), std::unexpected("it was not read"));
  const std::function<Task<bool>(std::size_t)> one = [&](std::size_t i) {
    struct One {
      static Task<bool> run(State& all, const MetricsEndpoint& endpoint, Question what, Reading& said) {
        said = co_await read(all, endpoint.url, what);
        co_return !all.reader.stopped();
      }
    };
    return One::run(*state, serving[i], question, readings[i]);
  };
  try {
    co_await fan_out(state->env.executor, serving.size(), state->options.of_one_service, one);
    round = add_up(question, serving, readings);
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
                                  std::vector<MetricsEndpoint> serving, const Activation& activation) {
  State& state = *state_;
  const TimePoint now = state.env.clock.now();
  auto& service = state.services[key];
  if (service.life == 0 || service.metric != rule.metric.value_or(crds::ServingMetric{})) {
    service = {};
    service.life = ++state.lives;
    service.metric = rule.metric.value_or(crds::ServingMetric{});
  }
  if (service.round) {
    keep(service, judge(rule, size, *service.round, service.history, now, activation), now);
    service.round.reset();
  }
  // A request that is held waits for nothing but a replica: no reading is waited for.
  if (serving.empty() && rule.min_replicas == 0) {
    if (auto more =
            size_for_held(rule, std::max(size, service.verdict ? service.verdict->size : 0), activation.held))
      keep(service, std::move(*more), now);
  }
  if (!service.is_reading && now >= service.due && !state.reader.stopped()) {
    service.is_reading = true;
    service.due = now + reading_interval(rule);
    state.readings.spawn(State::read_all(
        state_, key, service.life, {rule.metric.value_or(crds::ServingMetric{}), rule.min_replicas == 0},
        std::move(serving)));
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
