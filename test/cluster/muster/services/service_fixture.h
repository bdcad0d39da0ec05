// InferenceServices in a cluster: one of their own, or one that several tests share.
#pragma once

#include <iostream>
#include <map>
#include <set>
#include <string>
#include <vector>

#include "fixture.h"

namespace muster::test {

// Kubernetes' garbage collector looks for new kinds every 30 s: in a young cluster pods of a removed replica
// stay so long.
inline constexpr Milliseconds kCollected = 60s;

// One cluster and the service in it.
struct Stage {
  std::unique_ptr<Cluster> cluster;
  std::unique_ptr<MusterProcess> muster;

  json status(const std::string& name) const {
    return cluster->get(path_of_service(name)).value("status", json::object());
  }
  std::vector<json> pods(const std::string& name) const {
    const json list =
        cluster->get("/api/v1/namespaces/team/pods?labelSelector=muster.dev%2Fservice%3D" + name);
    return list.is_null() ? std::vector<json>{} : list["items"].get<std::vector<json>>();
  }
  std::set<std::string> uids(const std::string& name) const {
    std::set<std::string> all;
    for (const auto& p : pods(name)) all.insert(p["metadata"]["uid"]);
    return all;
  }
  bool wait_ready(const std::string& name, int replicas, Milliseconds timeout = 30s) const {
    return cluster->wait(timeout, [&] { return status(name).value("readyReplicas", 0) == replicas; });
  }
  bool wait_pods(const std::string& name, std::size_t n) const {
    return cluster->wait(kCollected, [&] { return pods(name).size() == n; });
  }
  json condition(const std::string& name, const std::string& type) const {
    const json c = cluster->condition_of(path_of_service(name), type);
    return c.is_null() ? json{{"status", ""}, {"reason", ""}, {"message", ""}} : c;
  }
  std::string say(const std::string& name) const { return status(name).dump(2) + "\n" + muster->log(); }
  void scale(const std::string& name, int replicas) const {
    const auto done = cluster->real().kubectl(
        {"scale", "-n", "team", "isvc/" + name, "--replicas=" + std::to_string(replicas)});
    ASSERT_TRUE(done && done->ok()) << (done ? done->err : done.error());
  }
  std::set<std::string> images(const std::string& name) const {
    std::set<std::string> all;
    for (const auto& p : pods(name)) all.insert(p["spec"]["containers"][0]["image"]);
    return all;
  }
  void roll(const std::string& name, const std::string& image) const {
    json containers = cluster->get(path_of_service(name))["spec"]["template"]["spec"]["containers"];
    containers[0]["image"] = image;
    cluster->patch(path_of_service(name),
                   {{"spec", {{"template", {{"spec", {{"containers", containers}}}}}}}});
  }
  // Addresses that the Service leads to.
  std::size_t endpoints(const std::string& name) const {
    const json slices = cluster->get(
        "/apis/discovery.k8s.io/v1/namespaces/team/"
        "endpointslices?labelSelector=kubernetes.io%2Fservice-name%3D" +
        name);
    std::size_t n = 0;
    for (const auto& slice : slices["items"]) {
      for (const auto& e : slice.value("endpoints", json::array())) {
        if (e["conditions"].value("ready", false)) ++n;
      }
    }
    return n;
  }
  std::set<std::string> events(const std::string& name) const {
    const json list = cluster->get("/apis/events.k8s.io/v1/namespaces/team/events");
    std::set<std::string> reasons;
    for (const auto& e : list["items"]) {
      if (e["regarding"]["name"] == name) reasons.insert(e["reason"]);
    }
    return reasons;
  }
};

// One control plane and one Muster for all tests with it.
class Served : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    s_.cluster = Cluster::start(2, 4);
    s_.muster = s_.cluster->muster();
  }
  static void TearDownTestSuite() { s_ = {}; }
  void TearDown() override {
    if (HasFailure() && s_.muster) std::cerr << s_.muster->log().substr(0, 20000);
    const json list = s_.cluster->get("/apis/muster.dev/v1alpha1/inferenceservices");
    for (const auto& i : list["items"]) s_.cluster->remove(path_of_service(i["metadata"]["name"]));
    EXPECT_TRUE(s_.cluster->wait(kCollected, [] {
      return s_.cluster->get("/apis/muster.dev/v1alpha1/trainingjobs")["items"].empty();
    })) << "replicas outlive their service";
    s_.cluster->remove_all_jobs();
    EXPECT_TRUE(s_.muster->alive());
  }
  static inline Stage s_;
};

}  // namespace muster::test
