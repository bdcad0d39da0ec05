#include "muster/reconcilers/sessions/activity_monitor.h"

#include <fmt/format.h>

#include <algorithm>
#include <map>

#include "muster/reconcilers/common/endpoint_problem.h"
#include "muster/reconcilers/common/log.h"

namespace muster::reconcilers {
namespace {

using client::Duration;
using client::Key;
using client::Task;
using client::TimePoint;

// A program may answer with anything.
constexpr std::size_t kMaxAnswer = 256 * 1024;

struct Known {
  ActivityWatch what;
  std::uint64_t life = 0;  // another one after forget(); 0: none yet
  bool is_reading = false;
  TimePoint due{};
  std::optional<crds::Time> last;    // used, as far as it was said
  std::optional<TimePoint> read_at;  // when that was said
  crds::Time asked{};                // the question to it, by the wall clock
  std::string problem;               // of the last question; "": it was answered
};

// Without what may be a secret.
std::string without_query(const std::string& url) {
  return url.substr(0, url.find('?'));
}

}  // namespace

Duration asking_interval(crds::Duration timeout) {
  return std::clamp<Duration>(Duration(timeout) / 20, std::chrono::seconds{1}, std::chrono::minutes{1});
}

struct ActivityMonitor::State {
  State(client::Environment e, client::Transport& t, std::function<void(const Key&)> c,
        ActivityMonitorOptions o)
      : env(e), changed(std::move(c)), reader(e, t, o.timeout, o.in_all), readings(e.executor) {}

  static Task<std::expected<crds::Time, std::string>> ask(State& state, std::string url);
  static Task<void> read(std::shared_ptr<State> state, Key key, std::uint64_t life, std::string url);

  client::Environment env;
  std::function<void(const Key&)> changed;
  EndpointReader reader;
  std::map<Key, Known> sessions;
  std::uint64_t lives = 0;
  client::TaskGroup readings;
};

Task<std::expected<crds::Time, std::string>> ActivityMonitor::State::ask(State& state, std::string url) {
  std::expected<crds::Time, std::string> said;
  const EndpointReader::TakeIn take_in = [&](const std::string& body) {
    if (body.size() > kMaxAnswer) return fmt::format("its answer has more than {} bytes", kMaxAnswer);
    said = last_activity_of(body);
    return said ? std::string() : said.error();
  };
  std::string shown = without_query(url);
  std::string problem =
      co_await state.reader.ask({std::move(url), "application/json", std::move(shown)}, take_in);
  if (!problem.empty()) said = std::unexpected(std::move(problem));
  co_return said;
}

Task<void> ActivityMonitor::State::read(std::shared_ptr<State> state, Key key, std::uint64_t life,
                                        std::string url) {
  const auto asked = std::chrono::floor<std::chrono::seconds>(state->env.clock.wall());
  const auto said = co_await ask(*state, std::move(url));
  const auto found = state->sessions.find(key);
  if (state->reader.stopped() || found == state->sessions.end() || found->second.life != life) co_return;
  Known& session = found->second;
  session.is_reading = false;
  session.problem = said ? std::string() : told(said.error());
  if (said) {
    session.last = session.last ? std::max(*session.last, *said) : *said;
    session.read_at = state->env.clock.now();
    session.asked = asked;
  } else {
    log_debug("session not asked", {{"job", key}, {"problem", session.problem}});
  }
  state->changed(key);
}

ActivityMonitor::ActivityMonitor(client::Environment env, client::Transport& pods,
                                 std::function<void(const Key&)> changed, ActivityMonitorOptions options)
    : state_(std::make_shared<State>(env, pods, std::move(changed), options)) {}
ActivityMonitor::~ActivityMonitor() {
  stop();
}

Idleness ActivityMonitor::look(const Key& key, ActivityWatch what) {
  State& state = *state_;
  const TimePoint now = state.env.clock.now();
  auto& session = state.sessions[key];
  if (session.life == 0 || session.what.attempt != what.attempt || session.what.url != what.url) {
    session = {};
    session.life = ++state.lives;
  }
  session.what = std::move(what);
  const Duration interval = asking_interval(session.what.timeout);
  const std::string& url = session.what.url;
  if (!session.is_reading && now >= session.due && !state.reader.stopped()) {
    session.due = now + interval;
    session.is_reading = !url.empty();
    if (!url.empty()) state.readings.spawn(State::read(state_, key, session.life, url));
  }
  Idleness told{
      .problem = url.empty() ? "its pod has no address" : session.problem, .of_gpus = false, .of_use = true};
  told.is_known = session.read_at && now - *session.read_at <= kMissedReadings * interval;
  if (!told.is_known) return told;
  // Not until now: since it was asked somebody may have come.
  told.idle =
      std::max<crds::Duration>(session.asked - std::max(*session.last, session.what.since), crds::Duration{});
  return told;
}

std::optional<Duration> ActivityMonitor::again(const Key& job) const {
  const auto found = state_->sessions.find(job);
  if (found == state_->sessions.end()) return std::nullopt;
  const Duration rest = found->second.due - state_->env.clock.now();
  return std::max<Duration>(rest, std::chrono::milliseconds{100});
}

void ActivityMonitor::forget(const Key& job) {
  state_->sessions.erase(job);
}
void ActivityMonitor::stop() {
  state_->reader.stop();
}
client::TaskGroup& ActivityMonitor::readings() {
  return state_->readings;
}
const EndpointCounts& ActivityMonitor::counts() const {
  return state_->reader.counts();
}

}  // namespace muster::reconcilers
