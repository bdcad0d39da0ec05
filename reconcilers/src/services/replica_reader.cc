#include "muster/reconcilers/services/replica_reader.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>
#include <utility>

#include "muster/reconcilers/common/endpoint_problem.h"
#include "muster/reconcilers/common/fan_out.h"
#include "muster/reconcilers/common/log.h"

namespace muster::reconcilers {
namespace {

using client::Duration;
using client::Key;
using client::Task;
using client::TimePoint;

struct Said {
  std::vector<MetricLoad> loads{};                  // of each metric
  std::expected<Activity, std::string> activity{};  // where it was asked for
};
using Reading = std::expected<Said, std::string>;

using AskedOf = std::shared_ptr<const Question>;

// Of one service.
struct Known {
  std::vector<MetricSource> metrics;
  std::uint64_t life = 0;  // another one after forget(); 0: none yet
  bool is_reading = false;
  TimePoint due{};
  std::optional<LoadRound> round;  // that nobody was given yet
  // What each endpoint said last, by URL: of counters only what has come since then counts.
  std::map<std::string, std::vector<MetricLoad>> said_before;
};

// Of counters leaves what has come since the endpoint was read before; nothing where it was not.
void take_differences(Known& service, const std::vector<MetricsEndpoint>& serving,
                      std::vector<Reading>& readings) {
  std::map<std::string, std::vector<MetricLoad>> now;
  for (std::size_t i = 0; i < serving.size(); ++i) {
    const auto before = service.said_before.find(serving[i].url);
    if (!readings[i]) {
      if (before != service.said_before.end()) now.insert(*before);
      continue;
    }
    now[serving[i].url] = readings[i]->loads;
    for (std::size_t m = 0; m < service.metrics.size(); ++m) {
      if (!service.metrics[m].is_share_of_requests()) continue;
      MetricLoad& load = readings[i]->loads[m];
      load = before == service.said_before.end() ? MetricLoad{} : since(before->second[m], load);
    }
  }
  service.said_before = std::move(now);
}

// The loads of one replica, of `read` endpoints together. Of the cache, of which a full one is 1 in each, it
// is their mean.
void add_replica(LoadRound& sum, const Question& question, const std::vector<MetricLoad>& loads,
                 std::int64_t read) {
  ++sum.read;
  for (std::size_t m = 0; m < loads.size(); ++m) {
    const bool is_cache = question.metrics[m].kind == MetricSource::Kind::kKVCacheUtilization;
    sum.loads[m] += is_cache ? MetricLoad{crds::MilliLoad{loads[m].load.value / read}, {}} : loads[m];
  }
}

// What all replicas say together. A replica is read when all its endpoints are.
LoadRound add_up(const Question& question, const std::vector<MetricsEndpoint>& serving,
                 const std::vector<Reading>& readings) {
  LoadRound sum;
  sum.is_idle = question.with_activity;
  sum.loads.resize(question.metrics.size());
  for (std::size_t begin = 0, end = 0; begin < serving.size(); begin = end) {
    const std::string& replica = serving[begin].replica;
    std::vector<MetricLoad> loads(question.metrics.size());
    std::int64_t read = 0;
    for (; end < serving.size() && serving[end].replica == replica; ++end) {
      const Reading& said = readings[end];
      if (!said) {
        if (sum.problem.empty()) sum.problem = fmt::format("{}: {}", replica, told(said.error()));
        continue;
      }
      ++read;
      for (std::size_t m = 0; m < loads.size(); ++m) loads[m] += said->loads[m];
      sum.is_idle = sum.is_idle && said->activity && said->activity->is_idle;
      if (said->activity)
        sum.answered += said->activity->answered;
      else if (sum.idle_problem.empty())
        sum.idle_problem = fmt::format("{}: {}", replica, told(said->activity.error()));
    }
    ++sum.serving;
    if (read == static_cast<std::int64_t>(end - begin)) add_replica(sum, question, loads, read);
  }
  return sum;
}

}  // namespace

struct ReplicaReader::State {
  State(client::Environment e, client::Transport& t, std::function<void(const Key&)> c, ReaderOptions o)
      : env(e), changed(std::move(c)), options(o), reader(e, t, o.timeout, o.in_all), readings(e.executor) {}

  static Task<Reading> read(State& state, const std::string& url, AskedOf question);
  static Task<void> read_all(std::shared_ptr<State> state, Key key, std::uint64_t life, AskedOf question,
                             std::vector<MetricsEndpoint> serving);

  client::Environment env;
  std::function<void(const Key&)> changed;
  ReaderOptions options;
  EndpointReader reader;
  std::map<Key, Known> services;
  std::uint64_t lives = 0;
  client::TaskGroup readings;  // a task is a round
};

Task<Reading> ReplicaReader::State::read(State& state, const std::string& url, AskedOf question) {
  Reading reading = std::unexpected("its pod has no address");
  if (url.empty()) co_return reading;
  client::WantedMetric wanted = [question](std::string_view name) {
    return std::ranges::any_of(question->metrics, [&](const auto& m) { return is_name_of(m, name); }) ||
           (question->with_activity && is_name_of_activity(name));
  };
  const auto samples = co_await state.reader.read(url, std::move(wanted));
  if (!samples) {
    reading = std::unexpected(samples.error());
    co_return reading;
  }
  const auto now = state.env.clock.wall();
  Said said;
  for (const MetricSource& metric : question->metrics) {
    const auto load = reading_of(metric, *samples, now);
    if (!load) {
      reading = std::unexpected(fmt::format("{}: {}", url, load.error()));
      co_return reading;
    }
    said.loads.push_back(*load);
  }
  reading = std::move(said);
  if (question->with_activity) reading->activity = activity_of(*samples, now);
  if (!reading->activity)
    reading->activity = std::unexpected(fmt::format("{}: {}", url, reading->activity.error()));
  co_return reading;
}

Task<void> ReplicaReader::State::read_all(std::shared_ptr<State> state, Key key, std::uint64_t life,
                                          AskedOf question, std::vector<MetricsEndpoint> serving) {
  LoadRound round;
  std::vector<Reading> readings(serving.size(), std::unexpected("it was not read"));
  const std::function<Task<bool>(std::size_t)> one = [&](std::size_t i) {
    struct One {
      static Task<bool> run(State& all, const MetricsEndpoint& endpoint, AskedOf what, Reading& said) {
        said = co_await read(all, endpoint.url, what);
        co_return !all.reader.stopped();
      }
    };
    return One::run(*state, serving[i], question, readings[i]);
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
  if (round.problem.empty()) {
    take_differences(found->second, serving, readings);
    round = add_up(*question, serving, readings);
  }
  if (round.read < round.serving)
    log_debug("replicas not read", {{"service", key}, {"problem", round.problem}});
  round.at = state->env.clock.now();
  found->second.is_reading = false;
  found->second.round = std::move(round);
  state->changed(key);
}

ReplicaReader::ReplicaReader(client::Environment env, client::Transport& pods,
                             std::function<void(const Key&)> changed, ReaderOptions options)
    : state_(std::make_shared<State>(env, pods, std::move(changed), options)) {}
ReplicaReader::~ReplicaReader() {
  stop();
}

ReplicaReader::Look ReplicaReader::look(const Key& key, Question question, Duration interval,
                                        std::vector<MetricsEndpoint> serving) {
  State& state = *state_;
  const TimePoint now = state.env.clock.now();
  auto& service = state.services[key];
  if (service.life == 0 || service.metrics != question.metrics) {
    service = {};
    service.life = ++state.lives;
    service.metrics = question.metrics;
  }
  Look look{std::exchange(service.round, std::nullopt)};
  if (!service.is_reading && now >= service.due && !state.reader.stopped()) {
    service.is_reading = true;
    service.due = now + interval;
    state.readings.spawn(State::read_all(state_, key, service.life,
                                         std::make_shared<const Question>(std::move(question)),
                                         std::move(serving)));
  }
  // A reading that takes longer says itself when it is over.
  look.again = service.due > now ? service.due - now : interval;
  return look;
}

void ReplicaReader::forget(const Key& key) {
  state_->services.erase(key);
}
void ReplicaReader::stop() {
  state_->reader.stop();
}
client::TaskGroup& ReplicaReader::readings() {
  return state_->readings;
}
const EndpointCounts& ReplicaReader::counts() const {
  return state_->reader.counts();
}

}  // namespace muster::reconcilers
