// An InferenceService of real servers under load.
#include <gmock/gmock.h>

#include <fstream>
#include <thread>

#include "fixture.h"

namespace muster::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;

constexpr const char* kService = "/apis/muster.dev/v1alpha1/namespaces/owner/inferenceservices/chat";
constexpr const char* kSlices =
    "/apis/discovery.k8s.io/v1/namespaces/owner/"
    "endpointslices?labelSelector=kubernetes.io%2Fservice-name%3Dchat";

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

  void start_load() {
    auto& real = cluster().real();
    summary_ = real.directory() / "load.json";
    testcluster::ProcessSpec spec;
    spec.arguments = {"/usr/bin/python3",
                      MUSTER_SOURCE_DIR "/test/node/load.py",
                      real.server_url() + kSlices,
                      real.ca_certificate(),
                      real.admin_certificate(),
                      real.admin_key(),
                      summary_};
    spec.log = real.directory() / "logs/load.log";
    const auto id = testcluster::spawn(spec);
    if (!id) throw std::runtime_error(id.error());
    load_ = *id;
  }
  json load() const {
    std::ifstream in(summary_);
    const json summary = json::parse(in, nullptr, false);
    return summary.is_object() ? summary : json{{"requests", 0}};
  }
  bool wait_requests(int more) const {
    const int before = load()["requests"];
    return cluster().wait(60s, [&] { return load()["requests"].get<int>() >= before + more; });
  }
  void TearDown() override {
    testcluster::end_process(load_, 30s);
    Node::TearDown();
  }

  testcluster::ProcessId load_;
  std::filesystem::path summary_;
};

TEST_F(Serving, ARollingUpdateAndAScaleDownLoseNoRequest) {
  cluster().create(service(2, "first"));
  ASSERT_TRUE(wait_rolled_out(2)) << status().dump(2);
  start_load();
  ASSERT_TRUE(wait_requests(50)) << load();
  const std::string name = pods()[0]["metadata"]["name"];
  EXPECT_THAT(
      nodes_->kubectl({"get", "--raw", "/api/v1/namespaces/owner/pods/" + name + ":8000/proxy/metrics"}),
      HasSubstr("vllm:num_requests_running{model_name=\"first\"}"));

  json changed = service(2, "second")["spec"]["template"];
  cluster().patch(kService, {{"spec", {{"template", changed}}}});
  ASSERT_TRUE(wait_rolled_out(2)) << status().dump(2);
  ASSERT_TRUE(wait_requests(50)) << load();
  nodes_->kubectl({"-n", "owner", "scale", "isvc/chat", "--replicas=1"});
  ASSERT_TRUE(wait_rolled_out(1)) << status().dump(2);
  ASSERT_TRUE(wait_requests(20)) << load();

  testcluster::end_process(load_, 30s);
  const json summary = load();
  EXPECT_THAT(summary["lost"], IsEmpty()) << summary.dump(2);
  EXPECT_GT(summary["by_model"].value("first", 0), 50);
  EXPECT_GT(summary["by_model"].value("second", 0), 50);
}

}  // namespace
}  // namespace muster::test
