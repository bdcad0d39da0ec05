// An InferenceService of real servers under load.
#pragma once

#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <utility>
#include <vector>

#include "fixture.h"

namespace muster::test {

// load.py against the service `chat` of that namespace, as long as this is there.
class Load {
 public:
  Load(Cluster& cluster, const std::string& ns, const std::string& name, int workers, int tokens = 15)
      : cluster_(cluster), summary_(cluster.real().directory() / (name + ".json")) {
    auto& real = cluster.real();
    testcluster::ProcessSpec spec;
    spec.arguments = {"/usr/bin/python3",
                      std::string(MUSTER_SOURCE_DIR) + "/test/node/programs/load.py",
                      real.server_url() + "/apis/discovery.k8s.io/v1/namespaces/" + ns +
                          "/endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dchat",
                      real.ca_certificate(),
                      real.admin_certificate(),
                      real.admin_key(),
                      summary_};
    spec.environment = {{"WORKERS", std::to_string(workers)}, {"TOKENS", std::to_string(tokens)}};
    spec.log = real.directory() / "logs/load.log";
    const auto id = testcluster::spawn(spec);
    if (!id) throw std::runtime_error(id.error());
    id_ = *id;
  }
  ~Load() { end(); }
  Load(const Load&) = delete;
  Load& operator=(const Load&) = delete;

  // Returns when all that was on its way is answered, or lost.
  void end() { testcluster::end_process(id_, 30s); }
  json summary() const {
    std::ifstream in(summary_);
    json summary = json::parse(in, nullptr, false);
    return summary.is_object() ? summary : json{{"asked", 0}, {"requests", 0}};
  }
  bool wait_asked(int requests) const {
    return cluster_.wait(60s, [&] { return summary()["asked"] >= requests; });
  }
  bool wait_requests(int more) const {
    const int before = summary()["requests"];
    return cluster_.wait(60s, [&] { return summary()["requests"].get<int>() >= before + more; });
  }

 private:
  Cluster& cluster_;
  std::filesystem::path summary_;
  testcluster::ProcessId id_;
};

// The service `chat`, in the namespace that the suite says.
class Serving : public Node {
 protected:
  explicit Serving(std::string ns = "owner") : ns_(std::move(ns)) {}

  // As docs/operations.md advises.
  static json pod(const std::string& model) {
    json main = NodeCluster::container("serve.py", {{"MODEL", model}, {"START_SECONDS", "1"}});
    main["readinessProbe"] = {{"httpGet", {{"path", "/health"}, {"port", 8000}}}, {"periodSeconds", 1}};
    return {{"terminationGracePeriodSeconds", 30},
            {"containers", json::array({main})},
            {"volumes", NodeCluster::volumes()}};
  }
  json service(int replicas, const std::string& model) {
    return {{"apiVersion", "muster.dev/v1alpha1"},
            {"kind", "InferenceService"},
            {"metadata", {{"name", "chat"}, {"namespace", ns_}}},
            {"spec",
             {{"replicas", replicas},
              {"gpus", {{"count", 1}}},
              {"drainSeconds", 3},
              {"template", {{"spec", pod(model)}}}}}};
  }
  std::string path() const {
    return "/apis/muster.dev/v1alpha1/namespaces/" + ns_ + "/inferenceservices/chat";
  }
  std::vector<json> pods() const {
    return cluster().get("/api/v1/namespaces/" + ns_ +
                         "/pods?labelSelector=muster.dev%2Fservice%3Dchat")["items"];
  }
  json status() const { return cluster().get(path())["status"]; }
  // So many serve, of the revision in force, and nobody else is left.
  bool wait_rolled_out(int replicas) const {
    return cluster().wait(90s, [&] {
      const json now = cluster().condition_of(path(), "RolledOut");
      const json generation = cluster().get(path())["metadata"]["generation"];
      return !now.is_null() && now["status"] == "True" && now["observedGeneration"] == generation &&
             status().value("readyReplicas", 0) == replicas &&
             pods().size() == static_cast<std::size_t>(replicas);
    });
  }

  std::string metrics_of(const json& pod) const {
    const std::string name = pod["metadata"]["name"];
    return nodes_->kubectl(
        {"get", "--raw", "/api/v1/namespaces/" + ns_ + "/pods/" + name + ":8000/proxy/metrics"});
  }

 private:
  std::string ns_;
};

}  // namespace muster::test
