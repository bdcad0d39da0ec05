#include "compressed.h"

#include <algorithm>
#include <fstream>
#include <set>
#include <sstream>
#include <stdexcept>

#include "muster/crds/documents.h"
#include "muster/crds/duration.h"
#include "muster/simulate/report.h"
#include "muster/simulate/simulation.h"

namespace muster::test {
namespace {

constexpr const char* kPrefix = "simulate.muster.dev/";
const json::json_pointer kAnnotations("/metadata/annotations");

seconds parsed(const json& text) {
  const auto duration = crds::parse_duration(text.get<std::string>());
  if (!duration) throw std::runtime_error(text.dump() + ": " + duration.error());
  return *duration;
}
// "12s", "-60s", as reports write instants
seconds instant(const std::string& text) {
  return seconds{std::stoll(text)};
}
seconds at_of(const json& document) {
  if (is_kind(document, "Expectation")) return parsed(document["at"]);
  return annotation(document, "at").value_or(seconds{0});
}
void annotate(json& document, const std::string& name, seconds value) {
  document[kAnnotations][kPrefix + name] = crds::to_string(value);
}

// When instants of the scenario come in its hurried form.
class Clock {
 public:
  Clock(std::set<seconds> instants, seconds gap) : instants_(instants.begin(), instants.end()), gap_(gap) {}
  seconds operator()(seconds t) const {
    return gap_ * (std::ranges::lower_bound(instants_, t) - instants_.begin());
  }
  seconds between(seconds from, seconds to) const { return (*this)(to) - (*this)(from); }
  std::vector<seconds> all() const {
    std::vector<seconds> result;
    for (const seconds t : instants_) result.push_back((*this)(t));
    return result;
  }

 private:
  std::vector<seconds> instants_;
  seconds gap_;
};

// What a workload does in its simulation.
struct Course {
  std::optional<seconds> since;                  // runs
  std::vector<std::pair<seconds, seconds>> ran;  // closed intervals
  std::optional<seconds> evicted, released, finished;
  std::optional<std::size_t> ran_at_limit;  // intervals until it was ended for its time
};
Course course_of(const json& document, const std::vector<TimedEvent>& events) {
  Course c;
  if (is_assigned(document)) c.since = at_of(document);
  for (const TimedEvent& e : events) {
    if (e.event.object != key_of(document)) continue;
    const std::string& type = e.event.type;
    if (type == "Admitted" || (type == "Restarted" && !c.since)) c.since = e.at;
    if ((type == "Evicted" || type == "Moved" || type == "Finished") && c.since) {
      c.ran.emplace_back(*c.since, e.at);
      c.since.reset();
    }
    if (type == "Evicted" || type == "Moved") {
      if (!c.evicted) c.evicted = e.at;
      if (e.event.reason == "MaxRuntime") c.ran_at_limit = c.ran.size();
    }
    if (type == "Released" && !c.released) c.released = e.at;
    if (type == "Finished") c.finished = e.at;
  }
  return c;
}

seconds grace_of(const json& document) {
  const auto text = document.value("/spec/checkpoint/gracePeriod"_json_pointer, std::string("30s"));
  return parsed(text);
}

// What each role, or the service, asks for.
std::vector<json> gpus_of(const json& document) {
  std::vector<json> all{document.value("/spec/gpus"_json_pointer, json::object())};
  for (const json& role : document.value("/spec/roles"_json_pointer, json::array()))
    all.push_back(role.value("gpus", json::object()));
  return all;
}

// The profiles of slices that the documents ask for.
std::set<std::string> profiles_in(const Documents& documents) {
  std::set<std::string> all;
  for (const json& d : documents) {
    for (const json& gpus : gpus_of(d)) {
      if (gpus.contains("mig")) all.insert(gpus["mig"]);
    }
  }
  return all;
}

// A simulation cuts the GPUs of a pool of mode MIG as it is asked to. On a cluster somebody has cut them, and
// the device plugin lists the slices in place of the GPUs (its strategy `mixed`): as many as a GPU has of
// this profile, seven compute slices by those of its name.
json with_slices(json node, const std::string& profile) {
  for (const char* list : {"capacity", "allocatable"}) {
    json& status = node["status"];
    if (!status.contains(list) || !status[list].contains("nvidia.com/gpu")) continue;
    const int gpus = std::stoi(status[list]["nvidia.com/gpu"].get<std::string>());
    status[list].erase("nvidia.com/gpu");
    status[list]["nvidia.com/mig-" + profile] = std::to_string(gpus * (7 / std::stoi(profile)));
  }
  return node;
}

bool is_elastic(const json& document) {
  const auto roles = document.value("/spec/roles"_json_pointer, json::array());
  return std::ranges::any_of(roles, [](const json& r) { return r.contains("maxReplicas"); });
}

void rewrite_workload(json& document, const Course& course, const Clock& clock) {
  seconds ran = ran_before(document);
  seconds ran_at_limit = ran;
  for (std::size_t i = 0; i < course.ran.size(); ++i) {
    ran += clock.between(course.ran[i].first, course.ran[i].second);
    if (course.ran_at_limit && i < *course.ran_at_limit) ran_at_limit = ran;
  }
  if (annotation(document, "runs-for") && course.finished && !course.ran_at_limit)
    annotate(document, "runs-for", ran);
  if (course.ran_at_limit) document["spec"]["maxRuntime"] = crds::to_string(ran_at_limit);
  if (const auto saves = annotation(document, "saves-in"); saves && course.evicted && course.released) {
    const seconds took = clock.between(*course.evicted, *course.released);
    const bool is_lost = *saves > grace_of(document);
    annotate(document, "saves-in", is_lost ? took + seconds{60} : took);
    if (is_lost)
      document["spec"]["checkpoint"]["gracePeriod"] = crds::to_string(took);
    else if (grace_of(document) < took + seconds{10})
      document["spec"]["checkpoint"]["gracePeriod"] = crds::to_string(took + seconds{10});
  }
  if (is_kind(document, "TrainingJob") && is_elastic(document) &&
      !document.contains("/spec/elastic/growAfter"_json_pointer))
    document["spec"]["elastic"]["growAfter"] = "1s";
}

bool weighs_durations(const Documents& documents) {
  return std::ranges::any_of(documents, [](const json& d) {
    return annotation(d, "runs-for") && d.contains("/spec/maxRuntime"_json_pointer);
  });
}

// At least a second, where it is anything.
json a_tenth(const json& duration) {
  return crds::to_string((parsed(duration) + seconds{9}) / 10);
}
Compressed shrink(const Documents& documents) {
  Compressed result;
  result.is_proportional = true;
  std::set<seconds> instants{seconds{0}};
  result.documents.push_back(json::parse(R"({"apiVersion": "muster.dev/v1alpha1", "kind": "NodePool",
    "metadata": {"name": "default"}, "spec": {"default": true, "reservation": {"after": "1m"}}})"));
  for (json d : documents) {
    if (is_kind(d, "Expectation")) d["at"] = a_tenth(d["at"]);
    if (d.contains(kAnnotations)) {
      for (auto& [key, value] : d[kAnnotations].items()) {
        if (key.starts_with(kPrefix)) value = a_tenth(value);
      }
    }
    if (d.contains("/spec/maxRuntime"_json_pointer))
      d["spec"]["maxRuntime"] = a_tenth(d["spec"]["maxRuntime"]);
    instants.insert(at_of(d));
    result.documents.push_back(std::move(d));
  }
  result.instants.assign(instants.begin(), instants.end());
  return result;
}

std::string text_of(const Documents& documents) {
  std::string text;
  for (const json& d : documents) text += "---\n" + d.dump() + "\n";
  return text;
}

}  // namespace

bool is_kind(const json& document, const char* kind) {
  return document.value("kind", "") == kind;
}
bool is_assigned(const json& document) {
  return document.contains("/status/assignment"_json_pointer);
}
std::string key_of(const json& document) {
  const json& meta = document["metadata"];
  const std::string ns = meta.value("namespace", "");
  return (ns.empty() ? "" : ns + "/") + meta["name"].get<std::string>();
}
std::optional<seconds> annotation(const json& document, const std::string& name) {
  const auto all = document.value(kAnnotations, json::object());
  const auto found = all.find(kPrefix + name);
  return found == all.end() ? std::nullopt : std::optional(parsed(*found));
}
seconds ran_before(const json& document) {
  if (!is_assigned(document)) return seconds{0};
  const auto age = annotation(document, "age").value_or(seconds{0});
  return annotation(document, "running-for").value_or(age);
}

Documents read_scenario(const std::filesystem::path& file) {
  std::istringstream nothing;
  const auto loaded = crds::load_file(file.string(), nothing, crds::Letters::kText);
  if (!loaded.errors.empty()) throw std::runtime_error(crds::to_string(loaded.errors.front()));
  Documents documents;
  for (const auto& d : loaded.documents) documents.push_back(*d.object);
  return documents;
}

Simulated simulate(const Documents& documents, seconds fault_after) {
  Simulated result;
  const auto input = simulate::read_text(text_of(documents), "scenario");
  for (const auto& e : input.errors) result.failures.push_back(crds::to_string(e));
  if (!input.errors.empty()) return result;
  simulate::Options options;
  options.fault_after = fault_after;
  simulate::Simulation simulation(input, options);
  const auto now = [&] {
    std::ostringstream out;
    simulate::report(simulation, simulate::Format::kJson, out);
    return json::parse(out.str());
  };
  std::set<seconds> expected;
  for (const auto& x : input.expectations) expected.insert(x.at);
  for (const seconds at : expected) {
    simulation.run_to(at);
    result.states[at] = now();
  }
  for (const auto& e : simulation.run()) result.failures.push_back(crds::to_string(e));
  result.failures.insert(result.failures.end(), simulation.failures().begin(), simulation.failures().end());
  const json end = now();
  for (const json& e : end["events"]) {
    if (e["type"] == "Waiting") continue;
    result.events.push_back(
        {instant(e["at"].get<std::string>()), {e["type"], e["object"], e["reason"], e["for"]}});
  }
  return result;
}

Compressed compress(const Documents& documents, const std::vector<TimedEvent>& events, seconds gap) {
  if (weighs_durations(documents)) return shrink(documents);
  std::set<seconds> instants{seconds{0}};
  for (const TimedEvent& e : events) instants.insert(e.at);
  for (const json& d : documents) {
    instants.insert(at_of(d));
    for (const char* name : {"delete-at", "fail-at", "recover-at"}) {
      if (const auto t = annotation(d, name)) instants.insert(*t);
    }
    const auto fails = annotation(d, "fail-at"), recovers = annotation(d, "recover-at");
    if (fails && (!recovers || *recovers > *fails + seconds{60})) instants.insert(*fails + seconds{60});
  }
  const bool is_cut = std::ranges::any_of(documents, [](const json& d) {
    return is_kind(d, "NodePool") && d.value("/spec/sharing/mode"_json_pointer, std::string()) == "MIG";
  });
  const auto profiles = profiles_in(documents);
  const Clock clock(instants, gap);
  Compressed result;
  result.instants = clock.all();
  for (const json& original : documents) {
    json d = original;
    if (is_kind(d, "Expectation")) {
      d["at"] = crds::to_string(clock(at_of(d)));
      result.documents.push_back(std::move(d));
      continue;
    }
    for (const char* name : {"at", "delete-at", "fail-at", "recover-at"}) {
      if (const auto t = annotation(original, name)) annotate(d, name, clock(*t));
    }
    if (const auto fails = annotation(original, "fail-at"); fails && instants.contains(*fails + seconds{60}))
      result.fault_after = clock.between(*fails, *fails + seconds{60});
    if (is_cut && is_kind(d, "Node") && !profiles.empty()) d = with_slices(std::move(d), *profiles.begin());
    if (is_kind(d, "TrainingJob") || is_kind(d, "InferenceService"))
      rewrite_workload(d, course_of(original, events), clock);
    result.documents.push_back(std::move(d));
  }
  return result;
}

std::string why_not_live(const Documents& documents) {
  static const std::set<std::string> kKinds = {"Node",    "PriorityClass", "NodePool",         "Queue",
                                               "Project", "TrainingJob",   "InferenceService", "Expectation",
                                               "Pod"};
  if (profiles_in(documents).size() > 1) return "slices of several profiles: how they are cut is left open";
  for (const json& d : documents) {
    if (!kKinds.contains(d.value("kind", ""))) return "kind " + d.value("kind", "");
    if (is_kind(d, "NodePool") && weighs_durations(documents)) return "a NodePool beside weighed durations";
    if (is_assigned(d) && at_of(d) != seconds{0}) return "a job that runs already when it comes later";
    for (const char* name : {"program-fails-at", "gpu-utilization", "load"}) {
      if (d.contains(kAnnotations / (std::string(kPrefix) + name))) return std::string("annotation ") + name;
    }
    if (d.contains("/spec/array"_json_pointer)) return "an array: what its indexes do is not told one by one";
    if (is_elastic(d) && annotation(d, "runs-for"))
      return "an elastic job with an end: programs on simulated nodes do not slow down";
  }
  return {};
}

}  // namespace muster::test
