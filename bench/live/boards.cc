#include "live/boards.h"

#include <nlohmann/json.hpp>

namespace muster::bench {
namespace {

using client::Pod;
using nlohmann::json;

constexpr const char* kJobLabel = "muster.dev/job";
const client::Resource kTrainingJobs{"muster.dev", "v1alpha1", "trainingjobs"};

client::WatcherOptions within(const std::string& ns) {
  client::WatcherOptions options;
  options.ns = ns;
  return options;
}

client::Result<Pod> decode_labelled_pod(std::string_view text) {
  static const client::PodFields fields{{kJobLabel}, {}};
  return client::decode_pod(text, fields);
}

client::Result<JobSeen> decode_job(std::string_view text) {
  auto meta = client::decode_meta(text);
  if (!meta) return std::unexpected(std::move(meta.error()));
  JobSeen job{std::move(*meta), false, {}};
  const json object = json::parse(text, nullptr, false);
  if (object.is_discarded()) return std::unexpected(client::Error{client::ErrorCode::kDecode});
  if (!object.contains("status")) return job;
  const json& status = object["status"];
  job.phase = status.value("phase", "");
  for (const json& condition : status.value("conditions", json::array())) {
    if (condition.value("type", "") == "Admitted") job.admitted = condition.value("status", "") == "True";
  }
  return job;
}

bool runs(const Pod& pod) {
  return pod.phase == client::PodPhase::kRunning;
}
bool has_succeeded(const Pod& pod) {
  return pod.phase == client::PodPhase::kSucceeded;
}

}  // namespace

PodBoard::PodBoard(client::ApiClient& api, const std::string& ns)
    : informer_(api, client::resources::kPods, decode_labelled_pod, within(ns)) {
  informer_.store().add_handler([this](const client::StoreEvent<Pod>& event) { on_event(event); });
}

void PodBoard::on_event(const client::StoreEvent<Pod>& event) {
  if (const auto* e = std::get_if<client::Added<Pod>>(&event)) count(nullptr, *e->now);
  if (const auto* e = std::get_if<client::Updated<Pod>>(&event)) count(e->before.get(), *e->now);
}

void PodBoard::count(const Pod* before, const Pod& now) {
  const bool came = before == nullptr;
  const bool started = runs(now) && (came || !runs(*before));
  const bool ended = has_succeeded(now) && (came || !has_succeeded(*before));
  if (!came && !started && !ended) return;
  const auto at = std::chrono::steady_clock::now();
  const std::string* job = client::find_value(now.labels, kJobLabel);
  Group& group = groups_[job ? *job : std::string()];
  if (came && ++group.created == 1) group.first_created = at;
  if (started) {
    ++group.running;
    ++running_;
    group.last_running = last_running_ = at;
  }
  if (!ended) return;
  ++group.succeeded;
  ++succeeded_;
  last_succeeded_ = at;
  if (on_success) on_success(now);
}

JobBoard::JobBoard(client::ApiClient& api, const std::string& ns)
    : informer_(api, kTrainingJobs, decode_job, within(ns)) {
  informer_.store().add_handler([this](const client::StoreEvent<JobSeen>& event) { on_event(event); });
}

void JobBoard::on_event(const client::StoreEvent<JobSeen>& event) {
  const auto note = [this](const JobSeen& job) {
    if (job.admitted) admitted_.try_emplace(job.meta.name, std::chrono::steady_clock::now());
  };
  if (const auto* e = std::get_if<client::Added<JobSeen>>(&event)) note(*e->now);
  if (const auto* e = std::get_if<client::Updated<JobSeen>>(&event)) note(*e->now);
}

std::size_t JobBoard::in_phase(std::string_view phase) const {
  std::size_t n = 0;
  for (const auto& [key, job] : informer_.store().all()) n += job->phase == phase ? 1 : 0;
  return n;
}

std::string JobBoard::phase_of(const client::Key& key) const {
  const auto job = informer_.store().find(key);
  return job ? job->phase : "";
}

std::optional<SteadyTime> JobBoard::admitted(const std::string& name) const {
  const auto it = admitted_.find(name);
  if (it == admitted_.end()) return std::nullopt;
  return it->second;
}

}  // namespace muster::bench
