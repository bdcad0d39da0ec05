// Rules that simulations play, seen once on a control plane: minRuntime, colocateWith, the maintenance taint,
// the pool's Spread, and halfLife.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <set>
#include <thread>

#include "fixture.h"
#include "muster/crds/time.h"

namespace muster::test {
namespace {

constexpr const char* kPool = "/apis/muster.dev/v1alpha1/nodepools/default";

// Two nodes of 8 GPUs, and one without. `team` has a quota of 16, `borrower` has none.
class Rules : public OneCluster {
 protected:
  static void SetUpTestSuite() {
    cluster_ = Cluster::start(2, 8, {}, 16);
    testcluster::NodeTemplate plain;
    plain.prefix = "plain";
    plain.gpus = 0;
    ASSERT_TRUE(cluster_->real().add_nodes(plain));
    cluster_->make_namespace("borrower", "borrower");
    cluster_->apply(R"(
{apiVersion: muster.dev/v1alpha1, kind: Project, metadata: {name: borrower}, spec: {queue: root, quota: {gpu: 0}}}
)");
    muster_ = cluster_->muster({"--node-grace", "4"});
  }

  static std::string say(const std::string& job, const std::string& ns = "team") {
    return cluster_->job(job, ns).dump(2);
  }
  static std::string node_of(const std::string& job) {
    const auto place = cluster_->job(job).value("/status/assignment/pods/0/node"_json_pointer, json());
    return place.is_string() ? place.get<std::string>() : std::string();
  }
  static std::int64_t admitted_at(const std::string& job, const std::string& ns) {
    const auto text =
        cluster_->job(job, ns).value("/status/assignment/admittedAt"_json_pointer, std::string());
    const auto time = crds::parse_time(text);
    return time ? std::chrono::floor<std::chrono::seconds>(*time).time_since_epoch().count() : 0;
  }
};

TEST_F(Rules, WhoBorrowsIsSafeForItsMinRuntime) {
  const std::string root = "/apis/muster.dev/v1alpha1/queues/root";
  cluster_->patch(root, {{"spec", {{"reclaim", {{"minRuntime", "15s"}}}}}});
  cluster_->create(job_object({.name = "borrows", .ns = "borrower", .replicas = 2, .gpus = 8}));
  ASSERT_TRUE(cluster_->wait_phase("borrows", "Running", 30s, "borrower")) << say("borrows", "borrower");
  const std::int64_t began = admitted_at("borrows", "borrower");
  cluster_->create(job_object({.name = "claims", .gpus = 8}));
  ASSERT_TRUE(cluster_->wait_phase("claims", "Running", 60s)) << say("claims");
  EXPECT_GE(admitted_at("claims", "team") - began, 15);
  EXPECT_EQ(cluster_->condition("borrows", "Evicted", "borrower")["reason"], "Reclaimed");
  EXPECT_EQ(cluster_->audit_gpus(), "");
  cluster_->patch(root, {{"spec", {{"reclaim", nullptr}}}});
}

// Without colocateWith the helpers would be on the node that has no GPUs.
TEST_F(Rules, APodGoesToTheNodeOfItsPartner) {
  json job = job_object({.name = "pairs", .replicas = 2, .gpus = 8});
  json helper = job["spec"]["roles"][0];
  helper["name"] = "helper";
  helper.erase("gpus");
  job["spec"]["roles"].push_back(helper);
  cluster_->create(job);
  ASSERT_TRUE(cluster_->wait_phase("pairs", "Running", 60s)) << say("pairs");
  const auto nodes = [](const std::string& name) {
    std::map<std::string, std::string> by_pod;  // "worker-0"
    for (const auto& place : cluster_->job(name)["status"]["assignment"]["pods"])
      by_pod[place["role"].get<std::string>() + "-" + std::to_string(place["index"].get<int>())] =
          place["node"];
    return by_pod;
  };
  auto places = nodes("pairs");
  EXPECT_EQ(places["helper-0"], "plain-0");
  EXPECT_EQ(places["helper-1"], "plain-0");
  cluster_->remove_all_jobs();

  job["metadata"]["name"] = "beside";
  job["spec"]["roles"][1]["colocateWith"] = "worker";
  cluster_->create(job);
  ASSERT_TRUE(cluster_->wait_phase("beside", "Running", 60s)) << say("beside");
  places = nodes("beside");
  EXPECT_EQ(places["helper-0"], places["worker-0"]);
  EXPECT_EQ(places["helper-1"], places["worker-1"]);
  EXPECT_NE(places["worker-0"], places["worker-1"]);
  std::map<std::string, std::string> of_pods;
  for (const json& pod : cluster_->pods("beside"))
    of_pods[pod["metadata"]["labels"]["muster.dev/role"].get<std::string>() + "-" +
            pod["metadata"]["labels"]["muster.dev/index"].get<std::string>()] = pod["spec"]["nodeName"];
  EXPECT_EQ(of_pods, places);
}

TEST_F(Rules, ANodeInMaintenanceIsLeftAndGetsNothingNew) {
  cluster_->create(job_object({.name = "moves",
                               .gpus = 8,
                               .pod_annotations = {{"test.muster.dev/save-for", "1s"}},
                               .spec = {{"checkpoint", {{"gracePeriod", "5s"}}}}}));
  ASSERT_TRUE(cluster_->wait_phase("moves", "Running", 30s)) << say("moves");
  const std::string first = node_of("moves");
  const std::string other = first == "node-0" ? "node-1" : "node-0";
  cluster_->patch("/api/v1/nodes/" + first,
                  {{"spec", {{"taints", {{{"key", "muster.dev/maintenance"}, {"effect", "NoSchedule"}}}}}}});
  ASSERT_TRUE(cluster_->wait(60s, [&] {
    return node_of("moves") == other && cluster_->phase("moves") == "Running";
  })) << say("moves");
  cluster_->create(job_object({.name = "waits", .gpus = 1}));
  ASSERT_TRUE(cluster_->wait(20s, [] { return cluster_->reason("waits") == "InsufficientCapacity"; }))
      << say("waits");
  cluster_->patch("/api/v1/nodes/" + first, {{"spec", {{"taints", nullptr}}}});
  ASSERT_TRUE(cluster_->wait_phase("waits", "Running", 30s)) << say("waits");
  EXPECT_EQ(node_of("waits"), first);
  EXPECT_EQ(node_of("moves"), other);
  EXPECT_EQ(cluster_->audit_gpus(), "");
}

TEST_F(Rules, APoolThatSpreadsTakesTheEmptiestNode) {
  const auto two_jobs = [](const std::string& prefix) {
    std::set<std::string> nodes;
    for (const std::string n : {"0", "1"}) {
      cluster_->create(job_object({.name = prefix + n}));
      EXPECT_TRUE(cluster_->wait_phase(prefix + n, "Running", 30s)) << say(prefix + n);
      nodes.insert(node_of(prefix + n));
    }
    cluster_->remove_all_jobs();
    return nodes.size();
  };
  EXPECT_EQ(two_jobs("packed-"), 1U);
  cluster_->patch(kPool, {{"spec", {{"placement", {{"nodes", "Spread"}}}}}});
  cluster_->catch_up();
  EXPECT_EQ(two_jobs("spread-"), 2U);
  cluster_->patch(kPool, {{"spec", {{"placement", nullptr}}}});
}

// Both ask for the same, and neither has any quota. Without halfLife each would get 8.
TEST_F(Rules, WhoHasHeldMoreLatelyGetsLessOfWhatNobodyHasClaimed) {
  const std::string lately = "/apis/muster.dev/v1alpha1/queues/lately";
  for (const char* name : {"eager", "patient"}) cluster_->make_namespace(name, name);
  cluster_->apply(R"(
{apiVersion: muster.dev/v1alpha1, kind: Queue, metadata: {name: lately}, spec: {parent: root, fairness: {halfLife: 20s}}}
---
{apiVersion: muster.dev/v1alpha1, kind: Project, metadata: {name: eager}, spec: {queue: lately}}
---
{apiVersion: muster.dev/v1alpha1, kind: Project, metadata: {name: patient}, spec: {queue: lately}}
)");
  cluster_->create(job_object({.name = "past", .ns = "eager", .replicas = 16}));
  ASSERT_TRUE(cluster_->wait_phase("past", "Running", 60s, "eager")) << say("past", "eager");
  std::this_thread::sleep_for(40s);
  cluster_->patch(lately, {{"spec", {{"admission", "Hold"}}}});
  for (int i = 0; i < 16; ++i) {
    for (const char* ns : {"eager", "patient"})
      cluster_->create(job_object({.name = "j" + std::to_string(i), .ns = ns}));
  }
  cluster_->remove(path_of_job("past", "eager"));
  ASSERT_TRUE(cluster_->wait(60s, [] { return cluster_->pods("past", "eager").empty(); }));
  cluster_->patch(lately, {{"spec", {{"admission", nullptr}}}});
  const auto running = [](const std::string& ns) {
    const json jobs = cluster_->get("/apis/muster.dev/v1alpha1/namespaces/" + ns + "/trainingjobs");
    return std::ranges::count_if(
        jobs["items"], [](const json& j) { return j.contains("/status/assignment/attempt"_json_pointer); });
  };
  ASSERT_TRUE(cluster_->wait(60s, [&] { return running("eager") + running("patient") == 16; }))
      << running("eager") << " and " << running("patient");
  EXPECT_GT(running("patient"), running("eager"));
  EXPECT_GT(running("eager"), 0) << "no weight falls to 0";
  EXPECT_EQ(cluster_->audit_gpus(), "");
}

}  // namespace
}  // namespace muster::test
