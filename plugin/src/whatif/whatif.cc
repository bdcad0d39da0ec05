#include "whatif/whatif.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <iostream>
#include <sstream>

#include "muster/crds/documents.h"
#include "muster/crds/validate.h"
#include "muster/simulate/report.h"
#include "muster/simulate/simulation.h"
#include "show/why.h"

namespace muster::plugin {
namespace {

using crds::Json;

// The cluster as it is comes to rest first. Then the job is added, so that what happens then is its doing.
constexpr simulate::Instant kSubmitted{1};
constexpr const char* kSubmittedText = "1s";
constexpr const char* kAtAnnotation = "simulate.muster.dev/at";
constexpr int kMaxRetries = 20;
constexpr std::size_t kMaxErrors = 5;

std::string lines_of(const std::vector<crds::FieldError>& errors) {
  std::string text;
  for (std::size_t i = 0; i < std::min(errors.size(), kMaxErrors); ++i)
    text += (i == 0 ? "" : "\n") + crds::to_string(errors[i]);
  if (errors.size() > kMaxErrors) text += fmt::format("\nand {} more", errors.size() - kMaxErrors);
  return text;
}

void leave_out(std::vector<Json>& objects, const std::string& name) {
  std::erase_if(objects, [&](const Json& object) { return crds::object_name(object) == name; });
}

// The report of the simulation, or what is wrong with its input.
std::expected<Json, std::vector<crds::FieldError>> play(const std::vector<Json>& objects) {
  const Json list = {{"apiVersion", "v1"}, {"kind", "List"}, {"items", objects}};
  const simulate::Input input = simulate::read_text(list.dump(), "the copy of the cluster");
  if (!input.errors.empty()) return std::unexpected(input.errors);
  simulate::Options options;
  options.until = kSubmitted;
  simulate::Simulation simulation(input, options);
  if (auto errors = simulation.run(); !errors.empty()) return std::unexpected(std::move(errors));
  std::ostringstream out;
  simulate::report(simulation, simulate::Format::kJson, out);
  return Json::parse(out.str());
}

std::string place_of(const Json& pod) {
  const auto gpus = pod.at("gpus").get<std::vector<std::int32_t>>();
  return fmt::format("{}-{} on {}{}", pod.at("role").get<std::string>(), pod.at("index").get<std::int32_t>(),
                     pod.at("node").get<std::string>(),
                     gpus.empty() ? "" : fmt::format(", GPUs {}", fmt::join(gpus, ",")));
}

std::string verb_of(const std::string& event) {
  if (event == "Shrunk") return "shrinks";
  if (event == "Moved") return "is moved";
  return event == "Evicted" ? "is evicted" : "";
}

// The job itself, or an index of it.
bool is_of(const std::string& object, const Forecast& forecast) {
  if (object == forecast.who || forecast.indexes == 0) return object == forecast.who;
  if (!object.starts_with(forecast.who + "-")) return false;
  const std::string index = object.substr(forecast.who.size() + 1);
  return !index.empty() && index.size() <= 4 && index.find_first_not_of("0123456789") == std::string::npos &&
         std::stoi(index) < forecast.indexes;
}

void read_events(const Json& report, Forecast& forecast) {
  for (const Json& event : report.at("events")) {
    if (event.at("at") != kSubmittedText) continue;
    const auto type = event.at("type").get<std::string>();
    const auto object = event.at("object").get<std::string>();
    if (is_of(object, forecast) && type == "Admitted") {
      forecast.starts = true;
      ++forecast.started;
      if (object == forecast.who) forecast.places.clear();  // each event has all that it holds
      const std::string index = object == forecast.who ? "" : object.substr(object.find('/') + 1) + ": ";
      for (const Json& pod : event.at("pods")) forecast.places.push_back(index + place_of(pod));
    }
    const std::string verb = verb_of(type);
    if (!is_of(event.at("for").get<std::string>(), forecast) || verb.empty()) continue;
    forecast.give_way.push_back(fmt::format("{} {} ({})", event.at("object").get<std::string>(), verb,
                                            event.at("reason").get<std::string>()));
  }
}

void read_waiting(const Json& entry, Forecast& forecast, crds::Time now) {
  crds::Waiting& w = forecast.waiting;
  w.reason = entry.at("reason").get<std::string>();
  w.message = entry.at("message").get<std::string>();
  w.position = entry.at("position").get<std::int32_t>();
  const Json& start = entry.at("estimatedStart");
  if (!start.is_string()) return;
  if (const auto in = crds::parse_duration(start.get<std::string>())) w.estimated_start = now + *in;
  w.estimated_start_from = entry.at("estimatedStartFrom") == crds::to_string(crds::EstimateSource::kHistory)
                               ? crds::EstimateSource::kHistory
                               : crds::EstimateSource::kDeclaredRunTimes;
}

// How many indexes of the array run at once, or replicas the service has.
std::int32_t wanted_of(const Json& job) {
  const auto value = [&](const char* path, std::int32_t otherwise) {
    return job.value(Json::json_pointer(path), otherwise);
  };
  if (job.at("kind") == crds::InferenceService::kKind)
    return value("/spec/autoscaling/minReplicas", value("/spec/replicas", 1));
  const auto count = value("/spec/array/count", 1);
  return std::min(count, value("/spec/array/parallelism", count));
}

Forecast read_report(const Json& report, const Json& job, crds::Time now) {
  Forecast forecast;
  const Json& meta = job.at("metadata");
  forecast.who = meta.at("namespace").get<std::string>() + "/" + meta.at("name").get<std::string>();
  forecast.indexes = job.value(Json::json_pointer("/spec/array/count"), 0);
  forecast.wanted = wanted_of(job);
  read_events(report, forecast);
  const bool is_job = job.at("kind") == crds::TrainingJob::kKind;
  for (const Json& entry : report.at(is_job ? "jobs" : "services")) {
    if (entry.at("namespace") != meta.at("namespace") || entry.at("name") != meta.at("name")) continue;
    read_waiting(entry, forecast, now);
  }
  return forecast;
}

// The one object of the file, well formed and in a namespace.
std::expected<Json, std::string> read_file(const std::string& file, const std::string& ns) {
  auto loaded = crds::load_file(file, std::cin);
  if (!loaded.errors.empty()) return std::unexpected(lines_of(loaded.errors));
  if (loaded.documents.size() != 1)
    return std::unexpected(fmt::format("{}: must have one TrainingJob or InferenceService, has {} objects",
                                       file, loaded.documents.size()));
  const crds::Document& document = loaded.documents.front();
  Json object = *document.object;
  const std::string kind = object.value("kind", "");
  if (kind != crds::TrainingJob::kKind && kind != crds::InferenceService::kKind)
    return std::unexpected(fmt::format("{}: kind: must be TrainingJob or InferenceService, is \"{}\"",
                                       document.location("kind"), kind));
  if (object.contains("metadata") && object["metadata"].is_object()) {
    Json& meta = object["metadata"];
    if (!meta.contains("namespace")) meta["namespace"] = ns;
    if (!meta.contains("name") && meta.contains("generateName"))
      meta["name"] = meta.value("generateName", "") + "new";
    *document.object = object;
  }
  if (const auto errors = crds::validate(document); !errors.empty()) return std::unexpected(lines_of(errors));
  object.erase("status");
  return object;
}

std::string say_waiting(const Forecast& f, const std::string& who, crds::Time now) {
  std::string text = who + " would wait: " + f.waiting.reason;
  if (!f.waiting.message.empty()) text += ": " + f.waiting.message;
  text += ".";
  if (f.waiting.position > 0)
    text += fmt::format(" It would be number {} in the order of its pool.", f.waiting.position);
  if (f.waiting.estimated_start)
    text += fmt::format(" It is likely to start in {}, {}.", for_people(*f.waiting.estimated_start - now),
                        premise_of(f.waiting));
  if (const auto helps = what_helps(f.waiting.reason); !helps.empty())
    text += fmt::format(" What would help: {}.", helps);
  return wrapped(text) + '\n';
}

bool is_partly(const Forecast& f) {
  return f.starts && f.started < f.wanted;
}

}  // namespace

std::expected<Forecast, std::string> forecast(ClusterCopy copy, Json job, crds::Time now) {
  const std::string name = crds::object_name(job);
  const std::size_t before = copy.objects.size();
  leave_out(copy.objects, name);
  if (copy.objects.size() != before)
    copy.unknown.push_back(name + " exists. It is played as if it were not there and submitted anew.");
  job["metadata"]["annotations"][kAtAnnotation] = kSubmittedText;
  for (int retry = 0;; ++retry) {
    auto objects = copy.objects;
    objects.push_back(job);
    const auto report = play(objects);
    if (report) {
      Forecast result = read_report(*report, job, now);
      result.unknown = std::move(copy.unknown);
      return result;
    }
    // A job may change its places while the objects are read, one kind after the other.
    const auto& error = report.error().front();
    if (retry == kMaxRetries || error.object == name || error.object.empty())
      return std::unexpected(lines_of(report.error()));
    copy.unknown.push_back(
        fmt::format("{} is left out of the copy: {}: {}", error.object, error.field, error.message));
    leave_out(copy.objects, error.object);
  }
}

std::string to_text(const Forecast& f, crds::Time now) {
  std::string text;
  if (f.starts) {
    const auto who = is_partly(f) ? fmt::format("{} of {} {} of {}", f.started, f.wanted,
                                                f.indexes > 0 ? "indexes" : "replicas", f.who)
                                  : f.who;
    text = who + (f.give_way.empty() ? " would start now.\n" : " would start when these have made room.\n");
    for (const auto& place : f.places) text += "  " + place + '\n';
    if (is_partly(f) && !f.waiting.reason.empty()) text += say_waiting(f, "The next", now);
  } else if (f.wanted == 0) {
    text = f.who + " would have no replica yet: the first one starts when requests come.\n";
  } else {
    text = say_waiting(f, f.who, now);
  }
  if (!f.give_way.empty()) text += "These would make room for it:\n";
  for (const auto& one : f.give_way) text += "  " + one + '\n';
  if (!f.unknown.empty()) text += "What this does not know:\n";
  for (const auto& one : f.unknown) text += "  " + one + '\n';
  return text;
}

Data to_data(const Forecast& f) {
  Data data = {{"job", f.who},       {"starts", f.starts}, {"started", f.started},
               {"wanted", f.wanted}, {"places", f.places}, {"makeRoom", f.give_way}};
  if (!f.starts || is_partly(f)) {
    data["reason"] = f.waiting.reason;
    data["message"] = f.waiting.message;
    data["position"] = f.waiting.position;
    if (f.waiting.estimated_start) {
      data["estimatedStart"] = crds::to_string(*f.waiting.estimated_start);
      data["estimatedStartFrom"] = crds::to_string(*f.waiting.estimated_start_from);
    }
  }
  data["unknown"] = f.unknown;
  return data;
}

int run_whatif(const Options& options, const std::string& file) {
  return with_reader(options, [&](Reader& reader, const std::string& ns) {
    const auto job = read_file(file, ns);
    if (!job) return wrong_use(job.error());
    auto copy = copy_cluster(reader, (*job)["metadata"]["namespace"].get<std::string>());
    if (!copy) return fail(copy.error());
    const auto found = forecast(std::move(*copy), *job, reader.now());
    if (!found) return fail(found.error());
    if (options.format == Format::kTable) {
      std::cout << to_text(*found, reader.now());
    } else {
      std::cout << (options.format == Format::kYaml ? to_yaml(to_data(*found))
                                                    : to_data(*found).dump(2) + '\n');
    }
    return 0;
  });
}

}  // namespace muster::plugin
