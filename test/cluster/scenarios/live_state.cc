// How a cluster differs from what a simulation says.
#include <fnmatch.h>

#include <algorithm>
#include <map>
#include <set>

#include "live_objects.h"

namespace muster::test {
namespace {

// What is compared of a job, or of all replicas of a service.
struct Standing {
  std::string phase, reason;
  std::multiset<std::string> nodes;
  std::size_t gpus = 0;
  int preemptions = 0, attempt = 0;

  std::string text() const {
    std::string all = phase;
    if (!reason.empty()) all += " (" + reason + ")";
    all += ", " + std::to_string(gpus) + " GPUs";
    for (const auto& node : nodes) all += " " + node;
    if (preemptions > 0) all += ", preempted " + std::to_string(preemptions) + " times";
    if (attempt > 0) all += ", attempt " + std::to_string(attempt);
    return all;
  }
  void take(const json& pods) {
    for (const json& p : pods) {
      nodes.insert(p["node"].get<std::string>());
      gpus += p.value("gpus", json::array()).size();
    }
  }
};

Standing simulated(const json& entry) {
  Standing s{entry["phase"], entry["reason"], {}, 0, entry["preemptions"]};
  // Afterwards it holds nothing; while it waits, and while it leaves, places may be kept for it.
  if (s.phase == "Running") s.reason.clear();
  s.attempt = entry["attempt"];
  s.take(entry["pods"]);
  return s;
}

Standing live(const json& job) {
  const json status = job.value("status", json::object());
  Standing s{status.value("phase", ""), "", {}, 0, status.value("preemptions", 0)};
  s.attempt = status.value("attempt", 0);
  if (s.phase == "Queued") s.reason = status.value("/queue/reason"_json_pointer, std::string());
  if (s.phase == "Failed") {
    for (const json& c : status["conditions"]) {
      if (c["type"] == "Failed") s.reason = c["reason"];
    }
  }
  s.take(status.value("/assignment/pods"_json_pointer, json::array()));
  return s;
}

// As a simulation sums the replicas of a service up.
void add(Standing& sum, const Standing& replica) {
  if (sum.phase.empty()) sum.phase = "Running";
  if (sum.phase != "Checkpointing" && replica.phase != "Running") sum.phase = replica.phase;
  if (sum.reason.empty()) sum.reason = replica.reason;
  sum.nodes.insert(replica.nodes.begin(), replica.nodes.end());
  sum.gpus += replica.gpus;
  sum.attempt = std::max(sum.attempt, replica.attempt);
  sum.preemptions += replica.preemptions;
}

std::map<std::string, Standing> standings(const Cluster& cluster) {
  std::map<std::string, Standing> there;
  const json services = cluster.get("/apis/muster.dev/v1alpha1/inferenceservices");
  const json jobs = cluster.get("/apis/muster.dev/v1alpha1/trainingjobs");
  for (const json& s : services["items"]) there[key_of(s)].phase = "Running";
  for (const json& j : jobs["items"]) {
    if (j["metadata"].contains("deletionTimestamp")) continue;
    const auto service = j.value("/metadata/labels/muster.dev~1service"_json_pointer, std::string());
    if (service.empty()) {
      there[key_of(j)] = live(j);
    } else {
      add(there[j["metadata"]["namespace"].get<std::string>() + "/" + service], live(j));
    }
  }
  return there;
}

// GPUs, and what is counted by name: "4, 8 rdma/hca".
std::string amount(const json& status, const char* what) {
  const auto text = [](const json& amount) {
    return amount.is_string() ? amount.get<std::string>() : amount.dump();
  };
  const json amounts = status.value(what, json::object());
  std::string all = text(amounts.value("gpu", json("0")));
  const json resources = amounts.value("resources", json::object());
  for (const auto& [name, value] : resources.items()) {
    if (text(value) != "0") all += ", " + text(value) + " " + name;
  }
  return all;
}

}  // namespace

std::vector<std::string> LiveObjects::differences(const json& report) const {
  std::vector<std::string> wrong;
  auto there = standings(cluster_);
  for (const char* kind : {"jobs", "services"}) {
    for (const json& entry : report[kind]) {
      const std::string key = entry["namespace"].get<std::string>() + "/" + entry["name"].get<std::string>();
      const std::string wanted = simulated(entry).text();
      const auto found = there.find(key);
      const std::string is = found == there.end() ? "not there" : found->second.text();
      if (is != wanted) wrong.push_back(key + ": " + is + "; simulated: " + wanted);
      if (found != there.end()) there.erase(found);
    }
  }
  for (const auto& [key, standing] : there) wrong.push_back(key + " is there: " + standing.text());
  for (const char* kind : {"queues", "projects"}) {
    for (const json& entry : report[kind]) {
      const std::string name = entry["name"];
      const json status = cluster_.get(std::string("/apis/muster.dev/v1alpha1/") + kind + "/" + name)
                              .value("status", json::object());
      for (const char* what : {"allocated", "borrowed"}) {
        const std::string is = amount(status, what), wanted = amount(entry, what);
        if (is != wanted) wrong.push_back(name + " " + what + ": " + is + "; simulated: " + wanted);
      }
    }
  }
  return wrong;
}

std::vector<std::string> LiveObjects::unmet(const json& expectation) const {
  static const std::map<std::string, std::string> kCounted = {
      {"running", "Running"}, {"queued", "Queued"}, {"succeeded", "Succeeded"}};
  std::vector<std::string> wrong;
  const auto there = standings(cluster_);
  const json jobs = expectation.value("jobs", json::object());
  for (const auto& [pattern, fields] : jobs.items()) {
    std::map<std::string, int> phases;
    for (const auto& [key, standing] : there) {
      if (fnmatch(pattern.c_str(), key.c_str(), 0) != 0) continue;
      // Others start all the time, and are as good as running.
      ++phases[standing.phase == "Starting" ? "Running" : standing.phase];
      if (fields.value("phase", standing.phase) != standing.phase ||
          fields.value("gpus", standing.gpus) != standing.gpus)
        wrong.push_back(key + ": " + standing.text() + "; expected: " + fields.dump());
    }
    for (const auto& [field, phase] : kCounted) {
      if (fields.value(field, phases[phase]) != phases[phase])
        wrong.push_back(pattern + ": " + std::to_string(phases[phase]) + " " + phase +
                        "; expected: " + fields.dump());
    }
  }
  return wrong;
}

}  // namespace muster::test
