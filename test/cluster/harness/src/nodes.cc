// Simulated nodes.
#include <chrono>
#include <nlohmann/json.hpp>
#include <set>
#include <thread>
#include <tuple>

#include "muster/common/time.h"
#include "state.h"

namespace muster::testcluster {
namespace {

using nlohmann::json;

// As KWOK would set them (stage node-ready). Set at creation they save three writes for each node.
json make_conditions() {
  const std::string now =
      common::format_time(std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now()));
  json result = json::array();
  for (const auto& [type, status, reason] : {std::tuple{"Ready", "True", "KubeletReady"},
                                             {"MemoryPressure", "False", "KubeletHasSufficientMemory"},
                                             {"DiskPressure", "False", "KubeletHasNoDiskPressure"},
                                             {"PIDPressure", "False", "KubeletHasSufficientPID"},
                                             {"NetworkUnavailable", "False", "RouteCreated"}})
    result.push_back({{"type", type},
                      {"status", status},
                      {"reason", reason},
                      {"lastHeartbeatTime", now},
                      {"lastTransitionTime", now}});
  return result;
}

json make_node(const NodeTemplate& nodes, int index) {
  const std::string name = nodes.prefix + "-" + std::to_string(index);
  json capacity = {{"cpu", nodes.cpu}, {"memory", nodes.memory}, {"pods", nodes.pods}};
  json labels = {{"kubernetes.io/hostname", name},
                 {"kubernetes.io/os", "linux"},
                 {"kubernetes.io/arch", "amd64"},
                 {"beta.kubernetes.io/os", "linux"},  // The node controller would add these two.
                 {"beta.kubernetes.io/arch", "amd64"},
                 {"topology.kubernetes.io/zone", nodes.zone}};
  if (nodes.gpus > 0) {
    capacity["nvidia.com/gpu"] = std::to_string(nodes.gpus);
    labels["nvidia.com/gpu.present"] = "true";
    labels["nvidia.com/gpu.count"] = std::to_string(nodes.gpus);
    labels["nvidia.com/gpu.product"] = nodes.model;
    labels["nvidia.com/gpu.memory"] = std::to_string(nodes.gpu_memory_mib);
  }
  if (nodes.nodes_per_rack > 0) {
    const int rack = index / nodes.nodes_per_rack;
    labels["muster.dev/rack"] = "rack-" + std::to_string(rack);
    if (nodes.racks_per_block > 0)
      labels["muster.dev/block"] = "block-" + std::to_string(rack / nodes.racks_per_block);
  }
  json annotations = {{"kwok.x-k8s.io/node", "fake"}};
  for (const auto& [key, value] : nodes.labels) labels[key] = value;
  for (const auto& [key, value] : nodes.annotations) annotations[key] = value;
  for (const auto& [key, value] : nodes.resources) capacity[key] = value;
  json taints = json::array();
  for (const Taint& taint : nodes.taints)
    taints.push_back({{"key", taint.key}, {"value", taint.value}, {"effect", taint.effect}});
  return {
      {"apiVersion", "v1"},
      {"kind", "Node"},
      {"metadata", {{"name", name}, {"labels", labels}, {"annotations", annotations}}},
      {"spec", {{"taints", taints}}},
      {"status",
       {{"capacity", capacity},
        {"allocatable", capacity},
        {"phase", "Running"},
        {"conditions", make_conditions()},
        {"addresses",
         {{{"type", "InternalIP"}, {"address", "10.0.0.1"}}, {{"type", "Hostname"}, {"address", name}}}}}}};
}

// Ready, and without the taint that admission puts on a new node and the node controller takes away.
bool is_usable(const json& node) {
  for (const json& taint : node.at("spec").value("taints", json::array()))
    if (taint.value("key", "") == "node.kubernetes.io/not-ready") return false;
  for (const json& condition : node.at("status").value("conditions", json::array()))
    if (condition.value("type", "") == "Ready") return condition.value("status", "") == "True";
  return false;
}

// KWOK looks at the pods that were there before a node when it has taken the node's lease, passes over them if it has
// not seen yet that the lease is its own, and then never looks again. A change to a pod makes it look. We cannot ask
// KWOK what it has seen, so this is done a few times.
void touch_pods_on(const TestCluster& cluster, const std::set<std::string>& nodes) {
  for (int round = 0; round < 3; ++round) {
    const auto answer = cluster.request("GET", "/api/v1/pods?resourceVersion=0");
    if (!answer || !answer->ok()) return;
    const json patch = {{"metadata", {{"annotations", {{"test.muster.dev/touched", std::to_string(round)}}}}}};
    bool found = false;
    const json list = json::parse(answer->body);
    for (const json& pod : list.at("items")) {
      if (!nodes.contains(pod.at("spec").value("nodeName", ""))) continue;
      found = true;
      const json& metadata = pod.at("metadata");
      cluster.request("PATCH",
                      "/api/v1/namespaces/" + metadata.at("namespace").get<std::string>() + "/pods/" +
                          metadata.at("name").get<std::string>(),
                      patch.dump(), "application/merge-patch+json");
    }
    if (!found) return;
    std::this_thread::sleep_for(Milliseconds(300));
  }
}

}  // namespace

Result<std::vector<std::string>> TestCluster::add_nodes(const NodeTemplate& nodes, Milliseconds timeout) {
  const auto deadline = std::chrono::steady_clock::now() + timeout;
  std::vector<std::string> names;
  for (int index = nodes.first; index < nodes.first + nodes.count; ++index) {
    const json node = make_node(nodes, index);
    names.push_back(node["metadata"]["name"]);
    const auto answer = request("POST", "/api/v1/nodes", node.dump());
    if (!answer) return std::unexpected(answer.error());
    if (!answer->ok()) return std::unexpected("creating node " + names.back() + ": " + answer->body);
  }
  if (!state_->options.with_kwok && !state_->attached) return names;
  std::set<std::string> waiting(names.begin(), names.end());
  const auto left = std::chrono::duration_cast<Milliseconds>(deadline - std::chrono::steady_clock::now());
  // Removes from `waiting` what is in the list at `path` and passes `good`; true when nothing is left.
  const auto check = [&](const std::string& path, bool (*good)(const json&)) {
    const auto answer = request("GET", path);
    if (!answer || !answer->ok()) return false;
    const json list = json::parse(answer->body, nullptr, false);
    if (!list.is_object()) return false;
    for (const json& object : list.value("items", json::array()))
      if (good(object)) waiting.erase(object.at("metadata").value("name", ""));
    return waiting.empty();
  };
  const auto all_usable = [&] { return check("/api/v1/nodes?resourceVersion=0", is_usable); };
  // A lease says that KWOK has taken a node over and will run its pods.
  const auto all_leased = [&] {
    return check("/apis/coordination.k8s.io/v1/namespaces/kube-node-lease/leases?resourceVersion=0",
                 [](const json&) { return true; });
  };
  if (wait_until(left, all_usable, Milliseconds(100))) {
    waiting.insert(names.begin(), names.end());
    if (wait_until(left, all_leased, Milliseconds(100))) {
      touch_pods_on(*this, {names.begin(), names.end()});
      return names;
    }
  }
  return std::unexpected(std::to_string(waiting.size()) + " of " + std::to_string(names.size()) +
                         " nodes are not Ready, " + *waiting.begin() + " for one; the end of KWOK's log:\n" +
                         tail(log(Component::kKwok), 10));
}

}  // namespace muster::testcluster
