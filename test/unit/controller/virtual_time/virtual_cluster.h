// The whole operator against an API server in memory, on one thread, in virtual time: nodes, kubelets
// that start what is bound to them, faults on the way, and what must hold whatever happens. One seed is
// one history.
#pragma once

#include <fmt/format.h>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "controller.h"
#include "memory_api_server.h"
#include "muster/client/object.h"
#include "muster/client/testing/virtual_world.h"

namespace muster::test {

using client::Duration;
using client::HttpRequest;
using client::Method;
using client::testing::Fault;
using client::testing::FaultKind;

inline const std::string kPods = "/api/v1/pods";
inline const std::string kNodes = "/api/v1/nodes";
inline const std::string kMuster = "/apis/muster.dev/v1alpha1/";
inline const std::string kJobs = kMuster + "trainingjobs";
inline const std::string kLeases = "/apis/coordination.k8s.io/v1/leases";
inline const std::string kPriorityClasses = "/apis/scheduling.k8s.io/v1/priorityclasses";
inline const std::string kEvents = "/apis/events.k8s.io/v1/events";

inline bool is_holder_pod(const json& pod) {
  return pod["metadata"].value("labels", json::object()).contains("muster.dev/gpu-reservation");
}

inline bool is_job_status(const std::string& path) {
  return path.find("/trainingjobs/") != std::string::npos && path.ends_with("/status");
}

// One process of the operator with its own way to the API server.
struct Operator {
  explicit Operator(client::Environment env) : transport(env), endpoints(env) {
    transport.set_latency(Duration{1}, Duration{9});
    endpoints.set_latency(Duration{1}, Duration{9});
  }

  client::testing::FakeTransport transport;
  client::testing::FakeTransport endpoints;  // of metrics
  controller::Metrics metrics;
  bool cut_off = false;        // nothing that it sends from now on arrives or is answered
  Duration last_write_sent{};  // a lease's renewal is one
  std::optional<controller::Ended> ended;
  std::unique_ptr<controller::Controller> controller;
};

// How a pod that is told to go ends.
struct LastWords {
  Duration takes{};       // to end; the pod is killed when its grace period is over
  std::string message{};  // its termination log
  bool stuck = false;     // it never ends
};

class VirtualCluster {
 public:
  explicit VirtualCluster(std::uint64_t seed = 1) : world(seed), server(world.env()), dice(seed * 7919 + 1) {
    server.set_watch_lag(Duration{0}, Duration{30});
    server.on_change = [this](const std::string& type, const std::string& collection, const json& object) {
      if (collection != kPods) return;
      if (type == "ADDED")
        client::spawn(world.env().executor,
                      kubelet_starts(*this, text(object, "namespace"), text(object, "name")));
      const bool told_to_go = object["metadata"].contains("deletionTimestamp");
      if (type == "MODIFIED" && told_to_go && going_.insert(text(object, "uid")).second)
        client::spawn(world.env().executor, kubelet_ends(*this, object));
      audit();
    };
    options.status_interval = 1;
  }

  Duration now() { return world.clock().now().time_since_epoch(); }

  // One queue and one project "team" of `quota` GPUs and no more, the default pool, nodes of 8 GPUs.
  void set_up(int nodes, int quota) {
    const json share = {{"gpu", quota}};
    server.put(kMuster + "queues", muster_object("Queue", "root", {{"quota", share}, {"limit", share}}));
    server.put(kMuster + "nodepools",
               muster_object("NodePool", "default", {{"nodeSelector", json::object()}, {"default", true}}));
    server.put(kMuster + "projects",
               muster_object("Project", "team", {{"queue", "root"}, {"quota", share}, {"limit", share}}));
    for (int i = 0; i < nodes; ++i) {
      json node = {{"apiVersion", "v1"}, {"kind", "Node"}};
      node["metadata"]["name"] = "node-" + std::to_string(i);
      node["status"]["addresses"] =
          json::array({{{"type", "InternalIP"}, {"address", "10.0.0." + std::to_string(i)}}});
      node["status"]["allocatable"] = {
          {"cpu", "64"}, {"memory", "512Gi"}, {"pods", "110"}, {"nvidia.com/gpu", "8"}};
      node["status"]["conditions"] = json::array(
          {{{"type", "Ready"}, {"status", "True"}, {"lastTransitionTime", "2023-01-01T00:00:00Z"}}});
      server.put(kNodes, std::move(node));
    }
  }

  void add_job(const std::string& name, int replicas, int gpus = 1, const json& spec = json::object()) {
    json container = {{"name", "main"}, {"image", "registry.example/train:1"}};
    container["resources"]["requests"] = {{"cpu", "1"}, {"memory", "1Gi"}};
    json role = {{"name", "worker"}, {"replicas", replicas}, {"gpus", {{"count", gpus}}}};
    role["template"]["spec"]["containers"] = json::array({container});
    json job = muster_object("TrainingJob", name, {{"roles", json::array({role})}});
    job["metadata"]["namespace"] = "team";
    job["spec"].merge_patch(spec);
    server.put(kJobs, std::move(job));
  }

  // From now on pods take their time to go.
  void pods_end(std::function<LastWords(const json& pod)> how) {
    server.graceful_pods = true;
    last_words_ = std::move(how);
  }
  void annotate_pod(const std::string& name, const std::string& key, const std::string& value) {
    json pod = server.object(kPods, "team/" + name);
    pod["metadata"]["annotations"][key] = value;
    server.put(kPods, std::move(pod));
  }

  void add_priority_class(const std::string& name, int value) {
    server.put(kPriorityClasses, {{"metadata", {{"name", name}}}, {"value", value}});
  }
  // The job, and its pods at once.
  void remove_job(const std::string& name) {
    server.erase(kJobs, "team/" + name);
    for (const auto& pod : pods_of(name)) server.erase(kPods, "team/" + text(pod, "name"));
  }
  // The spec is edited.
  void edit_job(const std::string& name, const json& spec) {
    json edited = job(name);
    edited["spec"].merge_patch(spec);
    server.put(kJobs, std::move(edited));
  }
  // The job alone, as with background deletion. Its pods stay until the garbage collector comes by:
  // collect().
  void delete_job(const std::string& name) { server.erase(kJobs, "team/" + name); }
  // Deletes what belongs to a job that is not there any more, or is another one of the same name.
  void collect() {
    for (const std::string collection : {"/api/v1/pods", "/api/v1/services", "/api/v1/configmaps"}) {
      std::vector<std::string> orphans;
      for (const auto& [key, object] : server.objects(collection)) {
        const json owners = object["metadata"].value("ownerReferences", json::array());
        if (!owners.empty() && is_gone(owners[0])) orphans.push_back(key);
      }
      for (const auto& key : orphans)
        collection == kPods ? server.remove_pod(key) : server.erase(collection, key);
    }
  }
  void set_node_ready(const std::string& name, bool ready) {
    json status = server.object(kNodes, name)["status"];
    status["conditions"][0]["status"] = ready ? "True" : "Unknown";
    status["conditions"][0]["lastTransitionTime"] = client::format_time(world.clock().wall());
    server.set_status(kNodes, name, status);
  }

  // One more process; those before it go on.
  Operator& start(const std::string& identity = "first") {
    Operator& one = *operators_.emplace_back(std::make_unique<Operator>(world.env()));
    server.serve(one.transport);
    one.transport.set_fault_hook([this, &one](const HttpRequest& request) { return befall(one, request); });
    options.identity = identity;
    one.controller = std::make_unique<controller::Controller>(world.env(), one.transport, one.endpoints,
                                                              options, one.metrics);
    one.endpoints.set_handler([this](const HttpRequest& request) {
      return exporters ? exporters(request.target) : client::HttpResponse{404, {}, ""};
    });
    client::spawn(world.env().executor, run_to_end(one));
    world.settle();
    return one;
  }
  // False: it did not end within the time that it promises.
  bool stop(Operator& one) {
    one.controller->request_stop();
    return world.run_until([&] { return one.ended.has_value(); }, std::chrono::seconds{30});
  }

  const json& job(const std::string& name) { return server.object(kJobs, "team/" + name); }
  std::string phase(const std::string& name) {
    return job(name).value("/status/phase"_json_pointer, std::string());
  }
  bool condition(const std::string& name, const std::string& type) {
    const json all = job(name).value("/status/conditions"_json_pointer, json::array());
    for (const auto& c : all) {
      if (c["type"] == type) return c["status"] == "True";
    }
    return false;
  }
  std::vector<json> pods_of(const std::string& job) {
    std::vector<json> pods;
    for (const auto& [key, pod] : server.objects(kPods)) {
      // A pod that holds a GPU for others has no such label.
      if (pod.value(json::json_pointer("/metadata/labels/muster.dev~1job"), "") == job) pods.push_back(pod);
    }
    return pods;
  }
  // Successful requests of this kind whose path contains `part`.
  std::vector<MemoryApiServer::Executed> executed(Method method, const std::string& part) const {
    std::vector<MemoryApiServer::Executed> some;
    for (const auto& e : server.executed()) {
      if (e.method == method && e.status < 300 && e.path.find(part) != std::string::npos) some.push_back(e);
    }
    return some;
  }

  client::testing::VirtualWorld world;
  MemoryApiServer server;
  client::RandomSource dice;    // for faults, apart from what the operator draws
  controller::Options options;  // of the operators to be started
  std::function<Fault(const HttpRequest&)> faults;
  std::function<client::HttpResponse(const std::string& url)> exporters;  // what metrics endpoints answer
  std::string log;                      // every request that was made: time, method, target, fault, body
  std::vector<std::string> complaints;  // of audit()

 private:
  static json muster_object(const std::string& kind, const std::string& name, const json& spec) {
    return {{"apiVersion", "muster.dev/v1alpha1"},
            {"kind", kind},
            {"metadata", {{"name", name}}},
            {"spec", spec}};
  }
  static std::string text(const json& object, const char* field) {
    return object["metadata"].value(field, "");
  }

  bool is_gone(const json& owner) {
    const auto& jobs = server.objects(kJobs);
    const auto job = jobs.find("team/" + owner["name"].get<std::string>());
    return job == jobs.end() || job->second["metadata"]["uid"] != owner["uid"];
  }

  static client::Task<void> run_to_end(Operator& one) { one.ended = co_await one.controller->run(); }

  Fault befall(Operator& one, const HttpRequest& request) {
    Fault fault = faults ? faults(request) : Fault{};
    if (one.cut_off) fault = {.kind = FaultKind::kHangBefore};
    log += fmt::format("{} {} {} {} +{} {}\n", now().count(), static_cast<int>(request.method),
                       request.target, static_cast<int>(fault.kind), fault.delay.count(), request.body);
    if (request.method != Method::kGet) one.last_write_sent = now();
    return fault;
  }

  static client::Task<void> kubelet_starts(VirtualCluster& self, std::string ns, std::string name) {
    const Duration takes = self.dice.between(Duration{20}, Duration{2000});
    co_await self.world.clock().sleep_for(takes);
    json status = {{"phase", "Running"}};
    status["conditions"] = json::array({{{"type", "Ready"}, {"status", "True"}}});
    const std::string key = client::make_key(ns, name);
    const auto found = self.server.objects(kPods).find(key);
    if (found == self.server.objects(kPods).end() ||
        found->second.value("/status/phase"_json_pointer, std::string("Pending")) != "Pending")
      co_return;
    if (is_holder_pod(found->second)) {
      json reported = {{"exitCode", 0}, {"reason", "Completed"}};
      reported["message"] = "GPU-" + text(found->second, "uid");
      status["initContainerStatuses"] =
          json::array({{{"name", "report"}, {"state", {{"terminated", reported}}}}});
    }
    self.server.set_status(kPods, key, status);
  }

  static client::Task<void> kubelet_ends(VirtualCluster& self, json pod) {
    const LastWords last = self.last_words_(pod);
    if (last.stuck) co_return;
    const Duration grace = std::chrono::seconds{pod["metadata"]["deletionGracePeriodSeconds"].get<int>()};
    const bool killed = last.takes > grace;
    const Duration takes = std::min(last.takes, grace);
    co_await self.world.clock().sleep_for(takes);
    json end = {{"exitCode", killed ? 137 : 0}, {"reason", killed ? "Error" : "Completed"}};
    end["finishedAt"] = client::format_time(self.world.clock().wall());
    if (!killed) end["message"] = last.message;
    json status = {{"phase", killed ? "Failed" : "Succeeded"}};
    status["containerStatuses"] = json::array({{{"name", "main"}, {"state", {{"terminated", end}}}}});
    const std::string key = client::make_key(text(pod, "namespace"), text(pod, "name"));
    self.server.set_status(kPods, key, status);
    const Duration soon = Duration{1};
    co_await self.world.clock().sleep_for(soon);
    self.server.erase(kPods, key);
  }

  // Who has how much of a GPU.
  struct GivenOut {
    std::string first;  // who has some of it
    int whole = 0, holders = 0, milli = 0;
  };
  // At no instant do two pods that have not ended hold one GPU, unless they share it: parts of a GPU add up
  // to one at most. While its holder pod is there, nobody has all of it.
  void audit() {
    std::map<std::string, GivenOut> given;
    for (const auto& [key, pod] : server.objects(kPods)) {
      const std::string phase = pod.value("/status/phase"_json_pointer, std::string());
      if (phase == "Succeeded" || phase == "Failed") continue;
      const json notes = pod["metadata"].value("annotations", json::object());
      const std::string gpus = notes.value("muster.dev/gpus", "");
      const std::string share = notes.value("muster.dev/gpu-share", "");
      for (std::size_t at = 0; at < gpus.size();) {
        const auto comma = std::min(gpus.find(',', at), gpus.size());
        const std::string gpu =
            pod["spec"]["nodeName"].get<std::string>() + "/" + gpus.substr(at, comma - at);
        GivenOut& out = given[gpu];
        if (out.first.empty()) out.first = key;
        if (is_holder_pod(pod)) {
          ++out.holders;
        } else if (share.empty()) {
          ++out.whole;
        } else {
          out.milli += std::stoi(share.substr(share.find('=') + 1));  // "fraction=500m"
        }
        if (out.whole > 1 || out.holders > 1 || out.milli > 1000 ||
            (out.whole > 0 && out.holders + out.milli > 0)) {
          complaints.push_back(
              fmt::format("{} ms: GPU {} is held by {} and {}", now().count(), gpu, out.first, key));
        }
        at = comma + 1;
      }
    }
  }

  std::function<LastWords(const json& pod)> last_words_;
  std::set<std::string> going_;                       // uids of pods that were told to go
  std::vector<std::unique_ptr<Operator>> operators_;  // they go before the world does
};

}  // namespace muster::test
