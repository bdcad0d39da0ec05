#include "live/audit.h"

#include <charconv>
#include <nlohmann/json.hpp>
#include <set>
#include <sstream>

namespace muster::bench {
namespace {

using nlohmann::json;

constexpr std::size_t kMaxProblems = 20;

bool is_device(const std::string& text, std::int64_t capacity) {
  std::int64_t index = -1;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), index);
  return error == std::errc() && end == text.data() + text.size() && index >= 0 && index < capacity;
}

}  // namespace

AuditPod audit_pod(const json& pod) {
  AuditPod out;
  const json& meta = pod.at("metadata");
  out.name = meta.at("name");
  const json labels = meta.value("labels", json::object());
  out.job = labels.value("muster.dev/job", "");
  out.attempt = labels.value("muster.dev/attempt", "");
  out.node = pod.at("spec").value("nodeName", "");
  out.phase = pod.at("status").value("phase", "");
  for (const json& container : pod.at("spec").at("containers")) {
    out.gpus +=
        std::stoll(container.value("/resources/limits/nvidia.com~1gpu"_json_pointer, std::string("0")));
  }
  std::istringstream list(meta.value("/annotations/muster.dev~1gpus"_json_pointer, std::string()));
  for (std::string device; std::getline(list, device, ',');) out.held.push_back(device);
  return out;
}

std::vector<std::string> audit(const std::vector<AuditPod>& pods, const Expected& expected) {
  std::vector<std::string> problems;
  const auto wrong = [&](std::string sentence) {
    if (problems.size() < kMaxProblems) problems.push_back(std::move(sentence));
  };
  if (pods.size() != static_cast<std::size_t>(expected.pods)) {
    wrong("there are " + std::to_string(pods.size()) + " pods, not " + std::to_string(expected.pods));
  }
  std::map<std::string, int> gangs;
  std::map<std::string, std::set<std::string>> attempts;
  std::map<std::string, std::int64_t> used;
  std::map<std::pair<std::string, std::string>, std::string> holder;
  for (const AuditPod& pod : pods) {
    ++gangs[pod.job];
    attempts[pod.job].insert(pod.attempt);
    if (pod.phase != "Running") wrong("pod " + pod.name + " is " + pod.phase + ", not Running");
    const auto node = expected.node_gpus.find(pod.node);
    if (node == expected.node_gpus.end()) {
      wrong("pod " + pod.name + " is on node '" + pod.node + "', which does not exist");
      continue;
    }
    used[pod.node] += pod.gpus;
    if (std::cmp_not_equal(pod.held.size(), pod.gpus)) {
      wrong("pod " + pod.name + " asks for " + std::to_string(pod.gpus) + " GPUs and was given " +
            std::to_string(pod.held.size()));
    }
    for (const std::string& device : pod.held) {
      if (!is_device(device, node->second))
        wrong("pod " + pod.name + " was given GPU '" + device + "', which " + pod.node + " has not");
      const auto [other, is_free] = holder.emplace(std::pair(pod.node, device), pod.name);
      if (!is_free)
        wrong("GPU " + device + " of " + pod.node + " is given to " + other->second + " and " + pod.name);
    }
  }
  for (const auto& [job, n] : gangs) {
    if (n != expected.gang)
      wrong("job " + job + " has " + std::to_string(n) + " pods, not " + std::to_string(expected.gang));
    if (attempts[job].size() != 1)
      wrong("job " + job + " has pods of " + std::to_string(attempts[job].size()) + " attempts");
  }
  for (const auto& [node, n] : used) {
    const auto capacity = expected.node_gpus.at(node);
    if (n > capacity)
      wrong(node + " has " + std::to_string(capacity) + " GPUs, and " + std::to_string(n) + " are given out");
  }
  return problems;
}

}  // namespace muster::bench
