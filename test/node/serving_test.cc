// An InferenceService of real servers under load.
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>

#include "fixture.h"

namespace muster::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kService = "/apis/muster.dev/v1alpha1/namespaces/owner/inferenceservices/chat";
constexpr const char* kSlices =
    "/apis/discovery.k8s.io/v1/namespaces/owner/"
    "endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dchat";

// load.py against the service, as long as this is there.
class Load {
 public:
  Load(Cluster& cluster, const std::string& name, int workers, int tokens = 15)
      : cluster_(cluster), summary_(cluster.real().directory() / (name + ".json")) {
    auto& real = cluster.real();
    testcluster::ProcessSpec spec;
    spec.arguments = {"/usr/bin/python3",
                      std::string(MUSTER_SOURCE_DIR) + "/test/node/load.py",
                      real.server_url() + kSlices,
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

class Serving : public Node {
 protected:
  // As docs/operations.md advises.
  static json pod(const std::string& model) {
    json main = NodeCluster::container("serve.py", {{"MODEL", model}, {"START_SECONDS", "1"}});
    main["readinessProbe"] = {{"httpGet", {{"path", "/health"}, {"port", 8000}}}, {"periodSeconds", 1}};
    main["lifecycle"]["preStop"]["exec"]["command"] = {"/bin/busybox", "sleep", "3"};
    return {{"terminationGracePeriodSeconds", 30},
            {"containers", json::array({main})},
            {"volumes", NodeCluster::volumes()}};
  }
  static json service(int replicas, const std::string& model) {
    return {
        {"apiVersion", "muster.dev/v1alpha1"},
        {"kind", "InferenceService"},
        {"metadata", {{"name", "chat"}, {"namespace", "owner"}}},
        {"spec", {{"replicas", replicas}, {"gpus", {{"count", 1}}}, {"template", {{"spec", pod(model)}}}}}};
  }
  static std::vector<json> pods() {
    return cluster().get("/api/v1/namespaces/owner/pods?labelSelector=muster.dev%2Fservice%3Dchat")["items"];
  }
  static json status() { return cluster().get(kService)["status"]; }
  // So many serve, of the revision in force, and nobody else is left.
  static bool wait_rolled_out(int replicas) {
    return cluster().wait(90s, [&] {
      const json now = cluster().condition_of(kService, "RolledOut");
      const json generation = cluster().get(kService)["metadata"]["generation"];
      return !now.is_null() && now["status"] == "True" && now["observedGeneration"] == generation &&
             status().value("readyReplicas", 0) == replicas &&
             pods().size() == static_cast<std::size_t>(replicas);
    });
  }

  static std::string metrics_of(const json& pod) {
    const std::string name = pod["metadata"]["name"];
    return nodes_->kubectl({"get", "--raw", "/api/v1/namespaces/owner/pods/" + name + ":8000/proxy/metrics"});
  }
};

TEST_F(Serving, ARollingUpdateAndAScaleDownLoseNoRequest) {
  cluster().create(service(2, "first"));
  ASSERT_TRUE(wait_rolled_out(2)) << status().dump(2);
  Load load(cluster(), "load", 6);
  ASSERT_TRUE(load.wait_requests(50)) << load.summary();
  EXPECT_THAT(metrics_of(pods()[0]), HasSubstr("vllm:num_requests_running{model_name=\"first\"}"));

  json changed = service(2, "second")["spec"]["template"];
  cluster().patch(kService, {{"spec", {{"template", changed}}}});
  ASSERT_TRUE(wait_rolled_out(2)) << status().dump(2);
  ASSERT_TRUE(load.wait_requests(50)) << load.summary();
  nodes_->kubectl({"-n", "owner", "scale", "isvc/chat", "--replicas=1"});
  ASSERT_TRUE(wait_rolled_out(1)) << status().dump(2);
  ASSERT_TRUE(load.wait_requests(20)) << load.summary();

  load.end();
  const json summary = load.summary();
  EXPECT_THAT(summary["lost"], IsEmpty()) << summary.dump(2);
  EXPECT_GT(summary["by_model"].value("first", 0), 50);
  EXPECT_GT(summary["by_model"].value("second", 0), 50);
}

// A replica is to have five requests. One is always on its way, at the peak twelve and then fifteen; of
// these three take long, and follow on one another, so that replicas have to answer after they have been
// told to end.
TEST_F(Serving, LoadScalesItFromOneToThreeAndBackAndNoRequestIsLost) {
  json chat = service(1, "chat");
  chat["spec"]["autoscaling"] = {{"maxReplicas", 4}, {"metric", "RequestsRunning"}, {"target", "5"},
                                 {"window", "3s"},   {"panicWindow", "2s"},         {"scaleDownDelay", "3s"}};
  json& environment = chat["spec"]["template"]["spec"]["containers"][0]["env"];
  environment.push_back({{"name", "TOKEN_SECONDS"}, {"value", "0.2"}});
  cluster().create(chat);
  ASSERT_TRUE(wait_rolled_out(1)) << status().dump(2);
  Load always(cluster(), "always", 1);
  ASSERT_TRUE(always.wait_requests(1)) << always.summary();
  EXPECT_EQ(status()["desiredReplicas"], 1);

  Load peak(cluster(), "peak", 11);
  ASSERT_TRUE(wait_rolled_out(3)) << status().dump(2);
  ASSERT_TRUE(cluster().wait(60s, [] {
    return std::ranges::none_of(pods(), [](const json& pod) {
      return metrics_of(pod).find("vllm:request_success_total{model_name=\"chat\"} 0\n") != std::string::npos;
    });
  })) << "a replica has answered nothing";
  EXPECT_EQ(status()["desiredReplicas"], 3);
  EXPECT_EQ(cluster().condition_of(kService, "ScalingActive")["status"], "True") << status().dump(2);

  Load slow(cluster(), "slow", 3, 75);
  ASSERT_TRUE(slow.wait_asked(3)) << slow.summary();
  peak.end();
  ASSERT_TRUE(cluster().wait(60s, [] {
    return std::ranges::any_of(pods(),
                               [](const json& pod) { return pod["metadata"].contains("deletionTimestamp"); });
  })) << status().dump(2);
  slow.end();
  ASSERT_TRUE(wait_rolled_out(1)) << status().dump(2);
  EXPECT_EQ(status()["desiredReplicas"], 1);
  ASSERT_TRUE(always.wait_requests(1)) << always.summary();
  always.end();
  for (const Load* load : {&always, &peak, &slow}) {
    EXPECT_THAT(load->summary()["lost"], IsEmpty());
    EXPECT_GT(load->summary()["requests"], 0);
  }
}

}  // namespace
}  // namespace muster::test
