#include "muster/reconcilers/gpu_metrics/gpu_monitor.h"

#include <fmt/format.h>

#include <map>
#include <utility>

#include "muster/reconcilers/common/endpoint_problem.h"
#include "muster/reconcilers/common/fan_out.h"
#include "muster/reconcilers/common/log.h"
#include "muster/reconcilers/gpu_metrics/memory_reading.h"

namespace muster::reconcilers {
namespace {

using client::Duration;
using client::Key;
using client::Task;
using client::TimePoint;

// What one round has read.
struct Round {
  GpuReadings gpus;
  std::map<std::string, MemoryReading> memory;  // by node; of those that were read
};

struct Pool {
  crds::GpuMetrics where;
  std::uint64_t life = 0;  // another one when it is read otherwise
  bool is_reading = false;
  TimePoint due{};
  std::optional<PoolReading> last;
  Round readings;  // the last one
};

enum class Stage : std::uint8_t { kUnknown, kBusy, kHalf, kEndsSoon, kEndsVerySoon, kOver };

struct Watched {
  GangWatch what{};
  IdleClock clock{};
  Stage stage = Stage::kUnknown;
  std::string problem{};
};

Stage stage_of(const Watched& job, TimePoint now, Duration interval) {
  if (!job.clock.is_known(now, interval)) return Stage::kUnknown;
  if (!job.what.timeout) return job.clock.idle() >= kLongIdle ? Stage::kHalf : Stage::kBusy;
  if (job.clock.idle() >= *job.what.timeout) return Stage::kOver;
  if (job.clock.idle() < *job.what.timeout / 2) return Stage::kBusy;
  const auto left = *job.what.timeout - job.clock.idle();
  if (left <= kLastEndWarning) return Stage::kEndsVerySoon;
  return left <= kFirstEndWarning ? Stage::kEndsSoon : Stage::kHalf;
}

struct Failing {
  std::string pool;
  std::set<std::int32_t> gpus;
};

}  // namespace

struct GpuMonitor::State {
  State(client::Environment e, client::Transport& t, Callbacks c, GpuMonitorOptions o)
      : env(e), tell(std::move(c)), options(o), reader(e, t, o.timeout, o.in_all), rounds(e.executor) {}

  static Task<void> read_one(State& state, const crds::GpuMetrics& where, const GpuEndpoint& node,
                             Round& round);
  static Task<void> read_all(std::shared_ptr<State> state, std::string pool, std::uint64_t life,
                             crds::GpuMetrics where, std::vector<GpuEndpoint> nodes);
  void note_uses(const std::string& pool, Duration interval, const GpuReadings& readings);
  void note_failing(const std::string& pool, const GpuReadings& readings);
  void sum_up(const std::string& pool, Pool& known, const GpuReadings& readings) const;

  client::Environment env;
  Callbacks tell;
  GpuMonitorOptions options;
  EndpointReader reader;
  std::map<std::string, Pool> pools;
  std::map<Key, Watched> jobs;
  std::map<std::string, Failing> failing;  // by node; those that have any
  std::uint64_t lives = 0;
  client::TaskGroup rounds;
};

Task<void> GpuMonitor::State::read_one(State& state, const crds::GpuMetrics& where, const GpuEndpoint& node,
                                       Round& round) {
  auto& mine = round.gpus.at(node.node);
  if (node.url.empty()) co_return;
  client::WantedMetric wanted = [&where](std::string_view name) { return is_wanted(where, name); };
  const auto samples = co_await state.reader.read(node.url, std::move(wanted));
  if (!samples) {
    mine = std::unexpected(samples.error());
    co_return;
  }
  const auto now = state.env.clock.wall();
  mine = reading_of(where, *samples, now);
  round.memory[node.node] = memory_reading_of(where, *samples, now);
  if (!mine) mine = std::unexpected(fmt::format("{}: {}", node.url, mine.error()));
}

Task<void> GpuMonitor::State::read_all(std::shared_ptr<State> state, std::string pool, std::uint64_t life,
                                       crds::GpuMetrics where, std::vector<GpuEndpoint> nodes) {
  Round round;
  GpuReadings& readings = round.gpus;
  for (const auto& node : nodes)
    readings.emplace(node.node,
                     std::unexpected(where.daemon_set ? "no pod of the exporter's DaemonSet runs there"
                                                      : "it has no InternalIP"));
  const std::function<Task<bool>(std::size_t)> one = [&](std::size_t i) {
    struct One {
      static Task<bool> run(State& all, const crds::GpuMetrics& how, const GpuEndpoint& node, Round& into) {
        co_await read_one(all, how, node, into);
        co_return !all.reader.stopped();
      }
    };
    return One::run(*state, where, nodes[i], round);
  };
  try {
    co_await fan_out(state->env.executor, nodes.size(), state->options.in_all, one);
  } catch (const std::exception& e) {
    // What nodes say comes from outside: what nobody expected of it costs this round and nothing else.
    log_error("reading nodes threw", {{"pool", pool}, {"error", e.what()}});
  }
  const auto found = state->pools.find(pool);
  if (state->reader.stopped() || found == state->pools.end() || found->second.life != life) co_return;
  found->second.is_reading = false;
  state->note_failing(pool, readings);
  state->note_uses(pool, where.interval, readings);
  state->sum_up(pool, found->second, readings);
  found->second.readings = std::move(round);
  state->tell.pool(pool);
}

void GpuMonitor::State::note_uses(const std::string& pool, Duration interval, const GpuReadings& readings) {
  const TimePoint now = env.clock.now();
  std::vector<Key> news;
  for (auto& [key, job] : jobs) {
    if (job.what.pool != pool) continue;
    GangUse gang = use_of(job.what.gpus, job.what.below, readings);
    const bool is_first = job.problem.empty() && !gang.problem.empty();
    job.clock.add(now, gang.use, interval);
    job.problem = std::move(gang.problem);
    const Stage stage = stage_of(job, now, interval);
    if (std::exchange(job.stage, stage) != stage || stage == Stage::kOver || is_first) news.push_back(key);
  }
  for (const Key& key : news) tell.job(key);
}

void GpuMonitor::State::note_failing(const std::string& pool, const GpuReadings& readings) {
  std::vector<std::string> news;
  for (const auto& [node, reading] : readings) {
    if (!reading) continue;
    const auto known = failing.find(node);
    std::set<std::int32_t> now = known == failing.end() ? std::set<std::int32_t>{} : known->second.gpus;
    for (const auto gpu : reading->spoken_of) now.erase(gpu);
    now.insert(reading->failing.begin(), reading->failing.end());
    if (now == (known == failing.end() ? std::set<std::int32_t>{} : known->second.gpus)) continue;
    log_warn(now.empty() ? "no GPU has double-bit errors any more" : "GPUs have double-bit errors",
             {{"node", node}, {"gpus", fmt::format("{}", fmt::join(now, ","))}});
    news.push_back(node);
    if (now.empty())
      failing.erase(known);
    else
      failing[node] = {pool, std::move(now)};
  }
  for (auto it = failing.begin(); it != failing.end();) {  // of nodes that have gone
    const bool stays = it->second.pool != pool || readings.contains(it->first);
    if (!stays) news.push_back(it->first);
    it = stays ? std::next(it) : failing.erase(it);
  }
  for (const std::string& node : news) tell.node(node);
}

void GpuMonitor::State::sum_up(const std::string& pool, Pool& known, const GpuReadings& readings) const {
  PoolReading sum{.nodes = readings.size()};
  for (const auto& [node, reading] : readings) {
    if (reading) {
      ++sum.read;
    } else if (sum.problem.empty()) {
      sum.problem = fmt::format("node {}: {}", node, told(reading.error()));
    }
  }
  for (const auto& [node, bad] : failing) {
    if (bad.pool != pool) continue;
    sum.failing.push_back({node, {bad.gpus.begin(), bad.gpus.end()}});
  }
  if (sum.read < sum.nodes) log_debug("nodes not read", {{"pool", pool}, {"problem", sum.problem}});
  known.last = std::move(sum);
}

GpuMonitor::GpuMonitor(client::Environment env, client::Transport& nodes, Callbacks callbacks,
                       GpuMonitorOptions options)
    : state_(std::make_shared<State>(env, nodes, std::move(callbacks), options)) {}
GpuMonitor::~GpuMonitor() {
  stop();
}

Duration GpuMonitor::look(const std::string& pool, const crds::GpuMetrics& where,
                          const std::function<std::vector<GpuEndpoint>()>& nodes) {
  State& state = *state_;
  const TimePoint now = state.env.clock.now();
  auto& known = state.pools[pool];
  if (known.life == 0 || known.where != where) {
    known = {};
    known.life = ++state.lives;
    known.where = where;
    for (auto& [key, job] : state.jobs) {
      if (job.what.pool == pool) job.clock = {};  // what was read otherwise is not compared
    }
  }
  if (!known.is_reading && now >= known.due && !state.reader.stopped()) {
    known.is_reading = true;
    known.due = now + where.interval;
    state.rounds.spawn(State::read_all(state_, pool, known.life, where, nodes()));
  }
  // If the round takes longer than the interval, it calls back itself when it is over.
  return known.due > now ? known.due - now : Duration{where.interval};
}

void GpuMonitor::restore(const std::string& pool, const std::vector<crds::FailingGpus>& failing) {
  if (last_reading(pool)) return;
  for (const auto& [node, gpus] : failing) {
    if (gpus.empty() || state_->failing.contains(node)) continue;
    state_->failing[node] = {pool, {gpus.begin(), gpus.end()}};
    state_->tell.node(node);
  }
}

void GpuMonitor::forget_pool(const std::string& pool) {
  State& state = *state_;
  if (state.pools.erase(pool) == 0) return;
  std::vector<Key> jobs;
  for (auto& [key, job] : state.jobs) {
    if (job.what.pool != pool) continue;
    job = {.what = std::move(job.what)};
    jobs.push_back(key);
  }
  state.note_failing(pool, {});
  for (const Key& key : jobs) state.tell.job(key);
}

std::optional<PoolReading> GpuMonitor::last_reading(const std::string& pool) const {
  const auto found = state_->pools.find(pool);
  return found == state_->pools.end() ? std::nullopt : found->second.last;
}

Idleness GpuMonitor::watch(const Key& key, GangWatch what) {
  State& state = *state_;
  auto& job = state.jobs[key];
  if (job.what.attempt != what.attempt || job.what.below != what.below || job.what.pool != what.pool)
    job = {};
  job.what = std::move(what);
  const auto pool = state.pools.find(job.what.pool);
  if (pool == state.pools.end())
    return {.problem = fmt::format("NodePool {} has no gpuMetrics", job.what.pool)};
  Idleness told{.is_known = job.clock.is_known(state.env.clock.now(), pool->second.where.interval)};
  told.idle = std::chrono::floor<crds::Duration>(job.clock.idle());
  told.problem = job.problem;
  return told;
}

bool GpuMonitor::watches(const Key& job) const {
  return state_->jobs.contains(job);
}

bool GpuMonitor::reads(const std::string& pool) const {
  return state_->pools.contains(pool);
}

void GpuMonitor::forget(const Key& job) {
  state_->jobs.erase(job);
}

std::set<std::int32_t> GpuMonitor::failing_gpus(const std::string& node) const {
  const auto found = state_->failing.find(node);
  return found == state_->failing.end() ? std::set<std::int32_t>{} : found->second.gpus;
}

std::optional<std::int64_t> GpuMonitor::milliwatts(const std::string& pool,
                                                   const std::vector<PodGpus>& gpus) const {
  const auto found = state_->pools.find(pool);
  return found == state_->pools.end() ? std::nullopt : milliwatts_of(gpus, found->second.readings.gpus);
}

std::optional<std::int32_t> GpuMonitor::memory_used(const std::string& pool, const PodGpus& gpus) const {
  const auto found = state_->pools.find(pool);
  if (found == state_->pools.end() || gpus.gpus.empty()) return std::nullopt;
  const auto node = found->second.readings.memory.find(gpus.node);
  if (node == found->second.readings.memory.end()) return std::nullopt;
  return reconcilers::memory_used(node->second, gpus.pod, gpus.gpus.front());
}

void GpuMonitor::stop() {
  state_->reader.stop();
}
client::TaskGroup& GpuMonitor::readings() {
  return state_->rounds;
}
const EndpointCounts& GpuMonitor::counts() const {
  return state_->reader.counts();
}

}  // namespace muster::reconcilers
