// Quotas by model of the GPUs, in one pool of two models.
#include <gmock/gmock.h>

#include "fixture.h"

namespace muster::test {
namespace {

using testing::HasSubstr;

constexpr const char* kHopper = "NVIDIA-H100-80GB-HBM3";
constexpr const char* kAmpere = "NVIDIA-A100-SXM4-80GB";
constexpr const char* kTeam = "/apis/muster.dev/v1alpha1/projects/team";
constexpr const char* kRoot = "/apis/muster.dev/v1alpha1/queues/root";
constexpr const char* kOwner = "/apis/muster.dev/v1alpha1/projects/owner";

class Models : public OneCluster {
 protected:
  static void SetUpTestSuite() {
    cluster_ = Cluster::start(2, 8, {}, 8);
    const char* models[] = {kHopper, kAmpere};
    for (int i = 0; i < 2; ++i) {
      cluster_->patch("/api/v1/nodes/node-" + std::to_string(i),
                      {{"metadata", {{"labels", {{"nvidia.com/gpu.product", models[i]}}}}}});
    }
    cluster_->make_namespace("owner", "owner");
    cluster_->apply(R"(
apiVersion: muster.dev/v1alpha1
kind: Project
metadata: {name: owner}
spec: {queue: root, quota: {gpu: 8, models: {NVIDIA-H100-80GB-HBM3: 8}}}
)");
    cluster_->patch(kTeam, {{"spec", {{"quota", {{"models", {{kHopper, 0}}}}}}}});
    cluster_->patch(kRoot, {{"spec", {{"quota", {{"gpu", 16}, {"models", {{kHopper, 8}}}}}}}});
    muster_ = cluster_->muster();
  }

  static json job(const std::string& name, const std::string& ns, int gpus, const char* model = nullptr) {
    json object = job_object({.name = name, .ns = ns, .gpus = gpus});
    if (model != nullptr) object["spec"]["roles"][0]["gpus"]["models"] = {model};
    return object;
  }
  static std::string node_of(const std::string& name, const std::string& ns) {
    const auto pods = cluster_->pods(name, ns);
    return pods.empty() ? std::string() : pods[0]["spec"].value("nodeName", "");
  }
  static bool wait_models(const char* project, const char* what, const json& wanted) {
    return cluster_->wait(20s, [&] {
      const json status = cluster_->get(project)["status"];
      return status.value(what, json::object()).value("models", json()) == wanted;
    });
  }
};

TEST_F(Models, AQuotaByModelIsKeptLentChargedAndTakenBack) {
  // What takes any model leaves the H100 alone while there are others.
  cluster_->create(job("any", "team", 8));
  ASSERT_TRUE(cluster_->wait_phase("any", "Running", 40s)) << cluster_->job("any").dump(2);
  EXPECT_EQ(node_of("any", "team"), "node-1");
  EXPECT_TRUE(wait_models(kTeam, "allocated", {{kHopper, "0"}})) << cluster_->get(kTeam).dump(2);
  // Then it borrows them, and is charged with what it got.
  cluster_->create(job("more", "team", 6));
  ASSERT_TRUE(cluster_->wait_phase("more", "Running", 40s)) << cluster_->job("more").dump(2);
  EXPECT_EQ(node_of("more", "team"), "node-0");
  EXPECT_TRUE(wait_models(kTeam, "allocated", {{kHopper, "6"}})) << cluster_->get(kTeam).dump(2);
  EXPECT_TRUE(wait_models(kTeam, "borrowed", {{kHopper, "6"}})) << cluster_->get(kTeam).dump(2);
  // Fixed work that must have them stays within the quota, and says so with its numbers.
  json fixed = job("fixed", "team", 2, kHopper);
  fixed["spec"]["preemptible"] = false;
  cluster_->create(fixed);
  ASSERT_TRUE(cluster_->wait(20s, [] { return cluster_->reason("fixed") == "QuotaExceeded"; }))
      << cluster_->job("fixed").dump(2);
  const json waiting = cluster_->job("fixed")["status"]["queue"];
  EXPECT_THAT(waiting["message"].get<std::string>(), HasSubstr("Project team has 0 left of its quota of 0"));
  EXPECT_EQ(waiting["blocking"][0]["resource"], std::string("gpu/") + kHopper);
  // The owner asks for its own, also where a node selector says it.
  json mine = job("mine", "owner", 8);
  mine["spec"]["roles"][0]["template"]["spec"]["nodeSelector"] = {{"nvidia.com/gpu.product", kHopper}};
  cluster_->create(mine);
  ASSERT_TRUE(cluster_->wait_phase("mine", "Running", 60s, "owner"))
      << cluster_->job("mine", "owner").dump(2);
  EXPECT_EQ(cluster_->condition("more", "Evicted")["reason"], "Reclaimed");
  EXPECT_EQ(cluster_->phase("any"), "Running");
  EXPECT_TRUE(wait_models(kOwner, "allocated", {{kHopper, "8"}})) << cluster_->get(kOwner).dump(2);
  EXPECT_TRUE(wait_models(kTeam, "borrowed", {{kHopper, "0"}})) << cluster_->get(kTeam).dump(2);
  EXPECT_EQ(cluster_->audit_gpus(), "");
}

// The charge follows from what runs and where it runs: a process that comes later finds the same.
TEST_F(Models, TheChargeSurvivesAKillAndAModelThatNobodyHasIsTold) {
  cluster_->create(job("mine", "owner", 4, kHopper));
  cluster_->create(job("lent", "team", 8));
  ASSERT_TRUE(cluster_->wait_phase("mine", "Running", 40s, "owner"));
  ASSERT_TRUE(cluster_->wait_phase("lent", "Running", 40s));
  ASSERT_TRUE(wait_models(kOwner, "allocated", {{kHopper, "4"}})) << cluster_->get(kOwner).dump(2);
  muster_->kill();
  muster_ = cluster_->muster();
  cluster_->patch(kTeam, {{"spec", {{"quota", {{"models", {{"NVIDIA-H10O", 1}}}}}}}});
  ASSERT_TRUE(cluster_->wait(20s, [] {
    const json c = cluster_->condition_of(kTeam, "ResourcesUnknown");
    return !c.is_null() && c["status"] == "True";
  })) << cluster_->get(kTeam).dump(2);
  EXPECT_THAT(
      cluster_->condition_of(kTeam, "ResourcesUnknown")["message"].get<std::string>(),
      HasSubstr("nobody can use GPUs of model NVIDIA-H10O, which a quota or limit names: no node has any"));
  EXPECT_TRUE(wait_models(kOwner, "allocated", {{kHopper, "4"}})) << cluster_->get(kOwner).dump(2);
  cluster_->patch(kTeam, {{"spec", {{"quota", {{"models", {{"NVIDIA-H10O", nullptr}}}}}}}});
  EXPECT_TRUE(cluster_->wait(
      20s, [] { return cluster_->condition_of(kTeam, "ResourcesUnknown")["status"] == "False"; }));
}

// Children that are promised more of a model than their Queue has.
TEST_F(Models, TheQueueSaysWhereChildrenExceedItsQuotaByModel) {
  cluster_->patch(kRoot, {{"spec", {{"quota", {{"models", {{kHopper, 4}}}}}}}});
  ASSERT_TRUE(cluster_->wait(20s, [] {
    const json c = cluster_->condition_of(kRoot, "QuotaOvercommitted");
    return !c.is_null() && c["status"] == "True";
  })) << cluster_->get(kRoot).dump(2);
  EXPECT_THAT(
      cluster_->condition_of(kRoot, "QuotaOvercommitted")["message"].get<std::string>(),
      HasSubstr("children of Queue root have 8 GPUs of model NVIDIA-H100-80GB-HBM3 of quota, it has 4"));
  cluster_->patch(kRoot, {{"spec", {{"quota", {{"models", {{kHopper, 8}}}}}}}});
  EXPECT_TRUE(cluster_->wait(
      20s, [] { return cluster_->condition_of(kRoot, "QuotaOvercommitted")["status"] == "False"; }));
}

}  // namespace
}  // namespace muster::test
