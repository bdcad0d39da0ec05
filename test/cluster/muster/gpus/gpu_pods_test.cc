// GPUs in a Project's namespace are Muster's to give out: whatever else would make a pod with GPUs there is
// refused at once, whoever asks.
#include <gmock/gmock.h>

#include "fixture.h"

namespace muster::test {
namespace {

using testing::HasSubstr;

const std::string kWhy =
    "asks for nvidia.com/gpu, and namespace team belongs to Project team, whose GPUs are given out by "
    "Muster: make a "
    "TrainingJob with roles[].gpus instead";

class GpuPods : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    cluster_ = Cluster::start(1, 8);
    muster_ = cluster_->muster();
    cluster_->make_namespace("elsewhere");
    // A policy is in force some time after it was made.
    ASSERT_TRUE(cluster_->wait(30s, [] {
      const auto refused = create("team", pod("probe", true), "--dry-run=server");
      return refused.err.find(kWhy) != std::string::npos;
    }));
  }
  static void TearDownTestSuite() {
    muster_.reset();
    cluster_.reset();
  }

  static json containers(bool gpu, const std::string& resource = "nvidia.com/gpu") {
    json container = {{"name", "main"}, {"image", "registry.example/x"}};
    if (gpu) container["resources"]["limits"][resource] = "1";
    return json::array({container});
  }
  static json pod(const std::string& name, bool gpu, const std::string& resource = "nvidia.com/gpu") {
    return {{"apiVersion", "v1"},
            {"kind", "Pod"},
            {"metadata", {{"name", name}}},
            {"spec", {{"containers", containers(gpu, resource)}}}};
  }
  static json workload(const std::string& api, const std::string& kind, bool gpu) {
    json object = {{"apiVersion", api}, {"kind", kind}, {"metadata", {{"name", "w"}}}};
    json& spec = object["spec"];
    const json of_pod = {{"metadata", {{"labels", {{"app", "w"}}}}},
                         {"spec", {{"containers", containers(gpu)}}}};
    if (kind == "CronJob") {
      spec["schedule"] = "0 3 * * *";
      spec["jobTemplate"]["spec"]["template"] = of_pod;
      spec["jobTemplate"]["spec"]["template"]["spec"]["restartPolicy"] = "Never";
      return object;
    }
    spec["template"] = of_pod;
    if (kind == "Job") {
      spec["template"]["spec"]["restartPolicy"] = "Never";
    } else {
      spec["selector"]["matchLabels"]["app"] = "w";
    }
    if (kind == "StatefulSet") spec["serviceName"] = "w";
    return object;
  }

  static testcluster::CommandResult create(const std::string& ns, const json& object,
                                           const std::string& flag = {}) {
    std::vector<std::string> arguments = {"create", "-n", ns, "-f", "-"};
    if (!flag.empty()) arguments.push_back(flag);
    const auto result = cluster_->real().kubectl(arguments, object.dump());
    if (!result) throw std::runtime_error(result.error());
    return *result;
  }
  static void expect_refused(const json& object) {
    const auto refused = create("team", object);
    EXPECT_FALSE(refused.ok()) << object["kind"];
    EXPECT_THAT(refused.err, HasSubstr(kWhy)) << object["kind"];
  }

  static inline std::unique_ptr<Cluster> cluster_;
  static inline std::unique_ptr<MusterProcess> muster_;
};

TEST_F(GpuPods, ABarePodIsRefusedAlsoWithItsNodeChosenByHand) {
  expect_refused(pod("bare", true));
  json placed = pod("placed", true);
  placed["spec"]["nodeName"] = "node-0";
  expect_refused(placed);
  json hidden = pod("hidden", false);
  hidden["spec"]["initContainers"] = containers(true);
  hidden["spec"]["initContainers"][0]["name"] = "first";
  expect_refused(hidden);
}

TEST_F(GpuPods, WhatWouldMakeSuchPodsIsRefusedToo) {
  for (const auto& [api, kind] : std::vector<std::pair<std::string, std::string>>{{"batch/v1", "Job"},
                                                                                  {"batch/v1", "CronJob"},
                                                                                  {"apps/v1", "Deployment"},
                                                                                  {"apps/v1", "ReplicaSet"},
                                                                                  {"apps/v1", "StatefulSet"},
                                                                                  {"apps/v1", "DaemonSet"}}) {
    expect_refused(workload(api, kind, true));
    const auto taken = create("team", workload(api, kind, false), "--dry-run=server");
    EXPECT_TRUE(taken.ok()) << kind << ": " << taken.err;
  }
}

// A Deployment that is taken without GPUs does not get them by an edit.
TEST_F(GpuPods, AnEditDoesNotBringThemIn) {
  ASSERT_TRUE(create("team", workload("apps/v1", "Deployment", false)).ok());
  const auto edited = cluster_->real().request(
      "PATCH", "/apis/apps/v1/namespaces/team/deployments/w",
      json{{"spec", {{"template", {{"spec", {{"containers", containers(true)}}}}}}}}.dump(),
      "application/strategic-merge-patch+json");
  ASSERT_TRUE(edited);
  EXPECT_EQ(edited->status, 403) << edited->body;
  EXPECT_THAT(edited->body, HasSubstr(kWhy));
  cluster_->remove("/apis/apps/v1/namespaces/team/deployments/w");
}

TEST_F(GpuPods, AnEphemeralContainerIsRefusedWithGpusAndTakenWithout) {
  cluster_->create(job_object({.name = "host"}));
  ASSERT_TRUE(cluster_->wait_phase("host", "Running"));
  const std::string path = "/api/v1/namespaces/team/pods/" +
                           cluster_->pods("host")[0]["metadata"]["name"].get<std::string>() +
                           "/ephemeralcontainers";
  const auto add = [&](bool gpu) {
    json container = containers(gpu)[0];
    container["name"] = "debug";
    return *cluster_->real().request("PATCH", path,
                                     json{{"spec", {{"ephemeralContainers", {container}}}}}.dump(),
                                     "application/strategic-merge-patch+json");
  };
  const auto with = add(true);
  EXPECT_EQ(with.status, 422) << with.body;
  EXPECT_THAT(with.body, HasSubstr("resources: Forbidden: cannot be set for an Ephemeral Container"));
  const auto without = add(false);
  EXPECT_EQ(without.status, 200) << "debugging one of Muster's pods is not asking for GPUs: " << without.body;
  cluster_->remove_all_jobs();
}

TEST_F(GpuPods, SlicesAndSharedFormsAndClaimsAreGpusToo) {
  for (const char* resource : {"nvidia.com/mig-1g.10gb", "nvidia.com/gpu.shared"}) {
    const auto refused = create("team", pod("slice", true, resource));
    EXPECT_FALSE(refused.ok()) << resource;
    EXPECT_THAT(refused.err, HasSubstr(std::string("asks for ") + resource));
  }
  json claims = pod("claims", false);
  claims["spec"]["resourceClaims"] = {{{"name", "gpu"}, {"resourceClaimTemplateName", "gpus"}}};
  const auto refused = create("team", claims);
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(refused.err,
              HasSubstr("asks for devices by resourceClaims, and namespace team belongs to Project team"));
}

TEST_F(GpuPods, ElsewhereAndWithoutGpusPodsAreNotMustersBusiness) {
  EXPECT_TRUE(create("elsewhere", pod("free", true)).ok());
  EXPECT_TRUE(create("team", pod("cpu", false)).ok());
  cluster_->remove("/api/v1/namespaces/team/pods/cpu");
  cluster_->remove("/api/v1/namespaces/elsewhere/pods/free");
}

// What a pool calls a GPU is one, of whoever holds it: foreign pods, and jobs that are on their way out.
TEST_F(GpuPods, GpusOfAnotherVendorAreNotGivenOutTwice) {
  cluster_->patch(
      "/apis/muster.dev/v1alpha1/nodepools/default",
      {{"spec",
        {{"nodeSelector", {{"matchExpressions", {{{"key", "vendor"}, {"operator", "DoesNotExist"}}}}}}}}});
  testcluster::NodeTemplate node;
  node.prefix = "amd";
  node.gpus = 0;
  node.labels = {{"vendor", "amd"}};
  node.resources = {{"amd.com/gpu", "8"}};
  ASSERT_TRUE(cluster_->real().add_nodes(node));
  json foreign = pod("foreign", true, "amd.com/gpu");
  foreign["spec"]["nodeName"] = "amd-0";
  foreign["spec"]["containers"][0]["resources"]["limits"]["amd.com/gpu"] = "4";
  ASSERT_TRUE(create("elsewhere", foreign).ok());
  // The pool comes last: what pods hold is counted anew.
  cluster_->apply(R"(
apiVersion: muster.dev/v1alpha1
kind: NodePool
metadata: {name: amd}
spec: {gpuResource: amd.com/gpu, nodeSelector: {matchLabels: {vendor: amd}}}
)");
  EXPECT_TRUE(cluster_->wait(30s, [] {
    const auto pool = cluster_->get("/apis/muster.dev/v1alpha1/nodepools/amd");
    return pool.value("/status/free/gpu"_json_pointer, std::string()) == "4";
  })) << cluster_->get("/apis/muster.dev/v1alpha1/nodepools/amd");

  cluster_->create(job_object({.name = "leaves",
                               .gpus = 4,
                               .pod_annotations = {{"test.muster.dev/save-for", "4s"}},
                               .spec = {{"pools", {"amd"}}, {"checkpoint", {{"gracePeriod", "60s"}}}}}));
  ASSERT_TRUE(cluster_->wait_phase("leaves", "Running"));
  cluster_->patch(path_of_job("leaves"), {{"spec", {{"suspend", true}}}});
  cluster_->create(job_object({.name = "next", .gpus = 4, .spec = {{"pools", {"amd"}}}}));
  ASSERT_TRUE(cluster_->wait_phase("next", "Running"));
  EXPECT_TRUE(cluster_->pods("leaves").empty()) << "its GPUs were given out before it had left";
  cluster_->remove("/api/v1/namespaces/elsewhere/pods/foreign");
  cluster_->remove_all_jobs();
}

}  // namespace
}  // namespace muster::test
