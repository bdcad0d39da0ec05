#include "one/details.h"

#include <algorithm>
#include <map>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>
#include <utility>

#include "rows.h"

namespace muster::ui {
namespace {

using crds::Json;

constexpr std::string_view kRole = "muster.dev/role";
constexpr std::string_view kIndex = "muster.dev/index";
constexpr std::string_view kAttempt = "muster.dev/attempt";
constexpr std::size_t kMostEvents = 100;  // the newest

const client::Resource kJobs{std::string(crds::kGroup), std::string(crds::kVersion),
                             std::string(crds::TrainingJob::kPlural), true};
// The old group: its events can be asked for by the object that they are about.
const client::Resource kEvents{"", "v1", "events", true};

void put(Json& json, const char* name, const std::optional<crds::Time>& time) {
  if (time) json[name] = seconds_of(*time);
}

// Seconds since 1970, of a time as Kubernetes writes it; absent or wrong: 0.
std::int64_t seconds_in(const Json& json, const char* name) {
  const auto found = json.find(name);
  client::WallTime time;
  if (found == json.end() || !found->is_string() ||
      !client::parse_time(found->get_ref<const std::string&>(), time))
    return 0;
  return std::chrono::floor<std::chrono::seconds>(time).time_since_epoch().count();
}

std::string text_in(const Json& json, const char* name) {
  const auto found = json.find(name);
  return found != json.end() && found->is_string() ? found->get<std::string>() : std::string();
}

Json conditions_json(const crds::Conditions& conditions) {
  Json list = Json::array();
  for (const auto& c : conditions) {
    list.push_back({{"type", c.type},
                    {"status", crds::to_string(c.status)},
                    {"reason", c.reason},
                    {"message", c.message},
                    {"at", seconds_of(c.last_transition_time)}});
  }
  return list;
}

Json disruptions_json(const std::vector<crds::Disruption>& disruptions) {
  Json list = Json::array();
  for (const auto& d : disruptions) {
    list.push_back({{"at", seconds_of(d.at)},
                    {"reason", d.reason},
                    {"message", d.message},
                    {"gave", d.gave.value},
                    {"cost", d.cost},
                    {"owed", d.owed}});
  }
  return list;
}

Json places_json(const crds::TrainingJob& job) {
  Json list = Json::array();
  const auto rank = ranks(job);
  const auto& pods = job.status.assignment.pods;
  for (std::size_t i = 0; i < pods.size(); ++i) {
    list.push_back({{"role", pods[i].role},
                    {"index", pods[i].index},
                    {"rank", rank[i]},
                    {"node", pods[i].node},
                    {"gpus", pods[i].gpus}});
  }
  return list;
}

Json waiting_json(const crds::Waiting& w, const WhatHelps& what_helps) {
  Json json = {{"reason", w.reason},
               {"message", w.message},
               {"position", w.position},
               {"projectPosition", w.project_position},
               {"helps", std::string(what_helps(w.reason))}};
  put(json, "eta", w.estimated_start);
  if (w.estimated_start_from) json["etaFrom"] = crds::to_string(*w.estimated_start_from);
  Json blocking = Json::array();
  for (const auto& b : w.blocking)
    blocking.push_back(
        {{"resource", b.resource}, {"pool", b.pool}, {"need", b.need}, {"have", b.have}, {"by", b.by}});
  json["blocking"] = std::move(blocking);
  return json;
}

Json spec_json(const crds::TrainingJobSpec& spec) {
  Json json = {{"mode", crds::to_string(spec.mode)},
               {"framework", crds::to_string(spec.framework)},
               {"preemptible", crds::is_preemptible(spec)},
               {"priorityClass", spec.priority_class_name},
               {"pools", spec.pools}};
  if (spec.max_runtime) json["maxRuntime"] = crds::to_string(*spec.max_runtime);
  Json roles = Json::array();
  for (const auto& role : spec.roles) {
    roles.push_back(
        {{"name", role.name}, {"least", crds::least_replicas(role)}, {"most", crds::most_replicas(role)}});
  }
  json["roles"] = std::move(roles);
  return json;
}

// All objects of a list, page by page.
client::Task<client::Result<std::vector<Json>>> list_all(client::ApiClient& api, client::Resource resource,
                                                         std::string ns, client::ListOptions options) {
  std::vector<Json> all;
  options.resource_version = "0";
  do {
    auto page = co_await api.list(resource, ns, options);
    if (!page) co_return std::unexpected(page.error());
    const Json list = Json::parse(page->body, nullptr, false);
    if (!list.is_object())
      co_return std::unexpected(
          client::Error{.code = client::ErrorCode::kDecode, .message = "the list is no JSON"});
    for (const Json& item : list.value("items", Json::array())) all.push_back(item);
    options.continue_token = page->continue_token;
    options.resource_version.clear();  // the token says which
  } while (!options.continue_token.empty());
  co_return all;
}

std::string problem_of(const client::Error& error) {
  return error.message.empty() ? client::to_string(error) : error.message;
}

client::Task<void> add_pods(client::ApiClient& api, std::string ns, std::string selector, Json& details) {
  client::ListOptions options;
  options.label_selector = std::move(selector);
  const auto list = co_await list_all(api, client::resources::kPods, std::move(ns), options);
  if (!list) {
    details["podsProblem"] = problem_of(list.error());
    co_return;
  }
  const client::PodFields fields{{std::string(kRole), std::string(kIndex), std::string(kAttempt)}, {}};
  Json pods = Json::array();
  for (const Json& item : *list) {
    if (const auto pod = client::decode_pod(item.dump(), fields)) pods.push_back(pod_json(*pod));
  }
  details["pods"] = std::move(pods);
}

client::Task<void> add_events(client::ApiClient& api, client::ObjectRef job, Json& details) {
  client::ListOptions options;
  options.field_selector = "involvedObject.kind=TrainingJob,involvedObject.name=" + job.name;
  const auto list = co_await list_all(api, kEvents, job.ns, options);
  if (!list) {
    details["eventsProblem"] = problem_of(list.error());
    co_return;
  }
  std::vector<Json> events;
  for (const Json& item : *list) events.push_back(event_json(item));
  std::ranges::stable_sort(events, std::ranges::greater(),
                           [](const Json& e) { return e.value("at", std::int64_t{0}); });
  events.resize(std::min(events.size(), kMostEvents));
  details["events"] = std::move(events);
}

}  // namespace

std::vector<std::int64_t> ranks(const crds::TrainingJob& job) {
  const auto& pods = job.status.assignment.pods;
  std::vector<std::int64_t> list;
  if (!crds::resizes_in_place(job.spec)) {
    for (std::size_t i = 0; i < pods.size(); ++i) list.push_back(static_cast<std::int64_t>(i));
    return list;
  }
  std::map<std::string, std::int64_t> first;  // of each role; there is room for its largest size
  std::int64_t next = 0;
  for (const auto& role : job.spec.roles) {
    first[role.name] = next;
    next += crds::most_replicas(role);
  }
  for (const auto& pod : pods) list.push_back(first[pod.role] + pod.index);
  return list;
}

Json job_json(const crds::TrainingJob& job, const WhatHelps& what_helps) {
  const auto& s = job.status;
  Json json = spec_json(job.spec);
  json["version"] = job.metadata.resource_version;
  json["phase"] = s.phase ? std::string(crds::to_string(*s.phase)) : "";
  put(json, "created", job.metadata.creation_timestamp);
  put(json, "deleted", job.metadata.deletion_timestamp);
  put(json, "admitted", s.assignment.admitted_at);
  put(json, "resized", s.assignment.resized_at);
  put(json, "started", s.started_at);
  put(json, "finished", s.finished_at);
  put(json, "retryAt", s.retry_at);
  json["pool"] = s.assignment.pool;
  json["gpus"] = s.allocated.gpu ? s.allocated.gpu->value : 0;
  json["wants"] = wanted_gpus(job).value;
  json["attempt"] = s.attempt;
  json["preemptions"] = s.preemptions;
  json["restarts"] = s.restarts.count;
  json["podsReady"] = s.pods;
  Json failures = Json::array();
  for (const crds::Time time : s.restarts.recent) failures.push_back(seconds_of(time));
  json["failures"] = std::move(failures);
  json["conditions"] = conditions_json(s.conditions);
  json["disruptions"] = disruptions_json(s.disruptions);
  json["lost"] = s.disruption.lost_optional + s.disruption.lost_owed;
  json["places"] = places_json(job);
  if (s.checkpoint.step) {
    json["checkpoint"] = {{"step", *s.checkpoint.step}, {"uri", s.checkpoint.uri}};
    put(json["checkpoint"], "at", s.checkpoint.saved_at);
  }
  if (s.phase == crds::Phase::kQueued) json["queue"] = waiting_json(s.queue, what_helps);
  return json;
}

Json pod_json(const client::Pod& pod) {
  static constexpr std::array<std::string_view, 5> kPhases = {"Pending", "Running", "Succeeded", "Failed",
                                                              "Unknown"};
  const auto label = [&](std::string_view key) {
    const std::string* value = client::find_value(pod.labels, key);
    return value == nullptr ? std::string() : *value;
  };
  return {{"name", pod.meta.name},
          {"role", label(kRole)},
          {"index", label(kIndex)},
          {"attempt", label(kAttempt)},
          {"node", pod.node_name},
          {"phase", kPhases[static_cast<std::size_t>(pod.phase)]},
          {"ready", pod.ready},
          {"leaving", pod.deleting},
          {"restarts", pod.container_restarts},
          {"reason", pod.reason.empty() ? pod.waiting_reason : pod.reason},
          {"message", pod.message.empty() ? pod.waiting_message : pod.message}};
}

Json event_json(const Json& event) {
  std::int64_t at = seconds_in(event, "lastTimestamp");
  if (at == 0) at = seconds_in(event, "eventTime");
  std::int64_t count = 1;
  if (const auto series = event.find("series"); series != event.end() && series->is_object()) {
    if (const std::int64_t seen = seconds_in(*series, "lastObservedTime"); seen != 0) at = seen;
    if (const auto n = series->find("count"); n != series->end() && n->is_number_integer())
      count = n->get<std::int64_t>();
  } else if (const auto n = event.find("count"); n != event.end() && n->is_number_integer()) {
    count = std::max<std::int64_t>(1, n->get<std::int64_t>());
  }
  return {{"at", at},
          {"type", text_in(event, "type")},
          {"reason", text_in(event, "reason")},
          {"message", text_in(event, "message")},
          {"count", count}};
}

client::Task<client::Result<std::string>> job_details(client::ApiClient& api, client::ObjectRef ref,
                                                      WhatHelps what_helps) {
  const auto body = co_await api.get(kJobs, ref);
  if (!body) co_return std::unexpected(body.error());
  const auto job = crds::from_text<crds::TrainingJob>(*body);
  if (!job)
    co_return std::unexpected(
        client::Error{.code = client::ErrorCode::kDecode, .message = crds::to_string(job.error())});
  Json details = {{"job", job_json(*job, what_helps)}};
  if (job->status.selector.empty())
    details["pods"] = Json::array();
  else
    co_await add_pods(api, ref.ns, job->status.selector, details);
  co_await add_events(api, ref, details);
  co_return details.dump(-1, ' ', false, Json::error_handler_t::replace);
}

std::vector<Json> disruptions_in(const Json& config_map) {
  std::vector<Json> list;
  std::istringstream lines(config_map.value("/data/lines"_json_pointer, std::string()));
  for (std::string text; std::getline(lines, text);) {
    const Json line = Json::parse(text, nullptr, false);
    if (!line.is_object()) continue;
    const auto at = seconds_in(line, "at");
    const auto gave = crds::parse_gpu(text_in(line, "gave"));
    if (at == 0 || !gave) continue;
    const auto cost = line.find("cost"), owed = line.find("owed");
    list.push_back({{"at", at},
                    {"job", text_in(line, "job")},
                    {"user", text_in(line, "user")},
                    {"reason", text_in(line, "reason")},
                    {"message", text_in(line, "message")},
                    {"gave", gave->value},
                    {"cost", cost != line.end() && cost->is_number_integer() ? cost->get<std::int64_t>() : 0},
                    {"owed", owed != line.end() && *owed == true}});
  }
  return list;
}

client::Task<client::Result<std::string>> disruptions_of(client::ApiClient& api, std::string ns) {
  client::ListOptions options;
  options.label_selector = "muster.dev/disruptions=true";
  const auto files = co_await list_all(api, client::resources::kConfigMaps, std::move(ns), options);
  if (!files) co_return std::unexpected(files.error());
  std::vector<Json> all;
  for (const Json& file : *files) std::ranges::move(disruptions_in(file), std::back_inserter(all));
  std::ranges::stable_sort(all, std::ranges::greater(),
                           [](const Json& line) { return line.value("at", std::int64_t{0}); });
  const Json answer = {{"disruptions", std::move(all)}};
  co_return answer.dump(-1, ' ', false, Json::error_handler_t::replace);
}

}  // namespace muster::ui
