#include "muster/reconcilers/services/activators.h"

#include <fmt/format.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <map>
#include <nlohmann/json.hpp>

#include "muster/reconcilers/common/endpoint_problem.h"
#include "muster/reconcilers/common/endpoint_reader.h"
#include "muster/reconcilers/common/json_reader.h"
#include "muster/reconcilers/common/log.h"
#include "muster/reconcilers/common/owner.h"
#include "muster/reconcilers/pods/names.h"

namespace muster::reconcilers {
namespace {

using client::Key;
using client::Task;

// An activator that has nothing new to say answers after 10 s.
constexpr client::Duration kQuestionTimeout = std::chrono::seconds{20};
constexpr client::Duration kAskAgain = std::chrono::seconds{2};  // one that did not answer
constexpr std::size_t kQuestions = 64;                           // at once

struct Line {
  std::int32_t port = 0;
  std::int64_t held = 0;
  bool operator==(const Line&) const = default;
};
using Lines = std::map<Key, Line>;

struct Known {
  std::string uid, ip;
  bool is_ready = false;
  std::uint64_t asked_by = 0;  // the coroutine that does; 0: none
  bool answers = false;
  bool refuses = false;  // it has answered, and not with what was asked for
  std::string problem{};

  bool is_silent() const { return is_ready && !answers && !refuses; }
  std::int64_t version = 0;
  Lines lines{};
};

std::int32_t number_of(const std::string* text) {
  std::int32_t n = 0;
  if (text != nullptr) std::from_chars(text->data(), text->data() + text->size(), n);
  return n;
}

bool is_v6(const std::string& address) {
  return address.find(':') != std::string::npos;
}

// Sorted, each once, of one family: a slice has no other.
std::vector<std::string> of_one_family(std::vector<std::string> all) {
  std::ranges::sort(all);
  all.erase(std::ranges::unique(all).begin(), all.end());
  if (!all.empty()) {
    const bool v6 = is_v6(all.front());
    std::erase_if(all, [v6](const std::string& address) { return is_v6(address) != v6; });
  }
  return all;
}

}  // namespace

std::int32_t choose_port(const Key& service, const std::set<std::int32_t>& taken,
                         const ActivatorOptions& options) {
  const std::int64_t n = std::int64_t{options.last_port} - options.first_port + 1;
  if (n <= 0) return 0;
  const auto start = static_cast<std::int64_t>(std::stoul(hash_of(service, 7), nullptr, 16)) % n;
  for (std::int64_t i = 0; i < n; ++i) {
    const auto port = static_cast<std::int32_t>(options.first_port + (start + i) % n);
    if (!taken.contains(port)) return port;
  }
  return 0;
}

std::string activation_slice_name(const crds::InferenceService& service) {
  return service.metadata.name + "-activator";
}

crds::Json activation_slice_json(const crds::InferenceService& service,
                                 const std::vector<std::string>& addresses) {
  using crds::Json;
  Json endpoints = Json::array();
  for (const std::string& address : addresses) {
    Json endpoint = Json::object();
    endpoint["addresses"] = Json::array({address});
    endpoint["conditions"]["ready"] = true;
    endpoints.push_back(std::move(endpoint));
  }
  Json port = {{"name", "http"}, {"port", service.status.activator_port}, {"protocol", "TCP"}};
  Json slice = {{"apiVersion", "discovery.k8s.io/v1"}, {"kind", "EndpointSlice"}};
  slice["metadata"] = {{"name", activation_slice_name(service)},
                       {"namespace", service.metadata.ns},
                       {"labels",
                        {{std::string(kServiceLabel), service.metadata.name},
                         {"kubernetes.io/service-name", service.metadata.name},
                         {"endpointslice.kubernetes.io/managed-by", "muster.dev"}}},
                       {"ownerReferences", owner_references(service)}};
  slice["addressType"] = is_v6(addresses.front()) ? "IPv6" : "IPv4";
  slice["endpoints"] = std::move(endpoints);
  slice["ports"] = Json::array();
  slice["ports"].push_back(std::move(port));
  return slice;
}

std::vector<std::string> addresses_of_slice(const crds::Json& slice, std::int32_t port) {
  std::vector<std::string> all;
  bool is_same_port = false;
  for (const crds::Json& one : items(find(slice, "ports"))) {
    const crds::Json* number = find(&one, "port");
    is_same_port = is_same_port || (number != nullptr && number->is_number_integer() && *number == port);
  }
  if (!is_same_port) return all;
  for (const crds::Json& endpoint : items(find(slice, "endpoints"))) {
    for (const crds::Json& address : items(find(&endpoint, "addresses"))) all.push_back(text(&address));
  }
  return all;
}

struct Activators::State {
  State(client::Environment e, client::Transport& t, std::function<void(const Key&)> c, ActivatorOptions o)
      : env(e),
        changed(std::move(c)),
        options(o),
        reader(e, t, kQuestionTimeout, kQuestions),
        questions(e.executor) {}

  static Task<void> ask(std::shared_ptr<State> state, std::string name, std::uint64_t self);
  void take(Known& known, const std::vector<client::Sample>& samples);
  void put(Known& known, Lines lines);

  client::Environment env;
  std::function<void(const Key&)> changed;
  ActivatorOptions options;
  EndpointReader reader;
  std::map<std::string, Known> pods;  // by name
  std::uint64_t askers = 0;
  client::TaskGroup questions;  // a task asks one activator, again and again
};

// Whoever is concerned by the difference hears of it.
void Activators::State::put(Known& known, Lines lines) {
  const Lines before = std::exchange(known.lines, std::move(lines));
  const Lines now = known.lines;
  for (const auto& [service, line] : now) {
    const auto was = before.find(service);
    if (was == before.end() || was->second != line) changed(service);
  }
  for (const auto& [service, line] : before) {
    if (!now.contains(service)) changed(service);
  }
}

void Activators::State::take(Known& known, const std::vector<client::Sample>& samples) {
  constexpr double kMost = 1e9;
  Lines lines;
  for (const client::Sample& sample : samples) {
    if (!(sample.value >= 0)) continue;
    if (sample.name == kVersionMetric) {
      known.version = std::llround(std::min(sample.value, 9e15));
      continue;
    }
    const std::string* ns = sample.label("namespace");
    const std::string* service = sample.label("service");
    if (ns == nullptr || service == nullptr) continue;
    lines[client::make_key(*ns, *service)] = {number_of(sample.label("port")),
                                              std::llround(std::min(sample.value, kMost))};
  }
  known.answers = true;
  known.refuses = false;
  known.problem.clear();
  put(known, std::move(lines));
}

// For as long as the pod is ready, and at this address.
Task<void> Activators::State::ask(std::shared_ptr<State> state, std::string name, std::uint64_t self) {
  const auto wanted = [](std::string_view metric) {
    return metric == kHeldMetric || metric == kVersionMetric;
  };
  const auto mine = [&]() -> Known* {
    const auto found = state->pods.find(name);
    const bool is_mine = found != state->pods.end() && found->second.asked_by == self;
    return is_mine && !state->reader.stopped() ? &found->second : nullptr;
  };
  while (Known* known = mine()) {
    std::string url =
        metrics_url(known->ip, state->options.admin_port, fmt::format("/demand?after={}", known->version));
    int status = 0;
    const auto samples = co_await state->reader.read(std::move(url), wanted, &status);
    known = mine();
    if (known == nullptr) co_return;
    if (samples) {
      state->take(*known, *samples);
      continue;
    }
    if (known->answers || known->problem.empty())
      log_warn("an activator does not answer", {{"pod", name}, {"problem", told(samples.error())}});
    known->answers = false;
    known->refuses = status != 0;
    known->version = 0;
    known->problem = told(samples.error());
    state->put(*known, {});
    if (!co_await state->env.clock.sleep_for(kAskAgain)) co_return;
  }
}

Activators::Activators(client::Environment env, client::Transport& transport,
                       std::function<void(const Key&)> changed, ActivatorOptions options)
    : state_(std::make_shared<State>(env, transport, std::move(changed), options)) {}
Activators::~Activators() {
  stop();
}

void Activators::note(const client::Pod& pod, bool is_gone) {
  State& state = *state_;
  if (state.reader.stopped()) return;
  auto& known = state.pods[pod.meta.name];
  if (is_gone && known.uid != pod.meta.uid && !known.uid.empty()) return;  // its successor is there already
  const bool is_ready =
      !is_gone && pod.ready && !pod.deleting && !pod.ip.empty() && pod.phase == client::PodPhase::kRunning;
  const bool is_other = known.uid != pod.meta.uid || known.ip != pod.ip;
  known.uid = pod.meta.uid;
  known.ip = pod.ip;
  known.is_ready = is_ready;
  if (!is_ready || is_other) {
    known.asked_by = 0;
    known.answers = known.refuses = false;
    known.version = 0;
    state.put(known, {});
  }
  if (is_gone) {
    state.pods.erase(pod.meta.name);
    return;
  }
  if (!is_ready || known.asked_by != 0) return;
  known.asked_by = ++state.askers;
  state.questions.spawn(State::ask(state_, pod.meta.name, known.asked_by));
}

Activation Activators::look(const Key& service, std::int32_t port) const {
  Activation activation;
  std::size_t ready = 0, answer = 0, listen = 0;
  std::string problem;
  for (const auto& [name, pod] : state_->pods) {
    ready += pod.is_ready ? 1 : 0;
    answer += pod.is_ready && pod.answers ? 1 : 0;
    if (pod.is_ready && problem.empty()) problem = pod.problem;
    const auto line = pod.lines.find(service);
    if (line == pod.lines.end() || line->second.port != port) continue;
    ++listen;
    activation.held += line->second.held;
  }
  if (listen > 0) return activation;
  if (state_->pods.empty())
    activation.missing =
        fmt::format("no activator runs (a pod with the label {} in Muster's namespace)", kActivatorLabel);
  else if (ready == 0)
    activation.missing = fmt::format("none of {} activators is ready", state_->pods.size());
  else if (answer == 0)
    activation.missing = fmt::format("none of {} activators has answered{}", ready,
                                     problem.empty() ? "" : " (" + problem + ")");
  else
    activation.missing = "no activator listens for it yet";
  return activation;
}

std::vector<std::string> Activators::addresses(const Key& service, std::int32_t port) const {
  std::vector<std::string> all;
  for (const auto& [name, pod] : state_->pods) {
    const auto line = pod.lines.find(service);
    if (pod.is_ready && line != pod.lines.end() && line->second.port == port) all.push_back(pod.ip);
  }
  return of_one_family(std::move(all));
}

bool Activators::is_silent() const {
  return std::ranges::any_of(state_->pods, [](const auto& pod) { return pod.second.is_silent(); });
}

std::vector<std::string> Activators::still_led(const Key& service, std::int32_t port,
                                               const std::vector<std::string>& led) const {
  std::vector<std::string> all = addresses(service, port);
  for (const auto& [name, pod] : state_->pods) {
    if (pod.is_silent() && std::ranges::find(led, pod.ip) != led.end()) all.push_back(pod.ip);
  }
  return of_one_family(std::move(all));
}

bool Activators::is_ignored(const Key& service, std::int32_t port) const {
  bool any = false;
  for (const auto& [name, pod] : state_->pods) {
    if (!pod.is_ready || !pod.answers) continue;
    const auto line = pod.lines.find(service);
    if (line != pod.lines.end() && line->second.port == port) return false;
    any = true;
  }
  return any;
}

const ActivatorOptions& Activators::options() const {
  return state_->options;
}
void Activators::stop() {
  state_->reader.stop();
  state_->questions.cancel();
}
client::TaskGroup& Activators::questions() {
  return state_->questions;
}

}  // namespace muster::reconcilers
