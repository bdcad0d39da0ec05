// What GitOps tools make of arrays, elastic jobs, jobs that others keep from running, and of services with
// roles, canaries and none at all.
#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>
#include <boost/asio/post.hpp>
#include <thread>

#include "muster/testcluster/loopback.h"
#include "process/http_server.h"
#include "states.h"

namespace muster::test {
namespace {

std::function<bool(const json&)> in_phase(const std::string& wanted) {
  return [=](const json& job) { return job.value("/status/phase"_json_pointer, "") == wanted; };
}
std::function<bool(const json&)> seen() {
  return [](const json& object) {
    return object.value("/status/observedGeneration"_json_pointer, 0) == object["metadata"]["generation"];
  };
}

json array_object(const std::string& name, const SimpleJob& like, json array) {
  SimpleJob job = like;
  job.name = name;
  job.spec["array"] = std::move(array);
  return job_object(job);
}

TEST_F(GitOps, AnArrayIsFineUntilItHasFailed) {
  const json three = {{"count", 3}, {"parallelism", 2}};
  cluster_->create(array_object("sweep", {.name = {}, .gpus = 8}, three));
  expect("array, running", path_of_job("sweep"), kFine, in_phase("Running"));
  cluster_->create(array_object("later", {.name = {}, .gpus = 8}, three));
  expect("array, waiting for GPUs", path_of_job("later"), kFine, phase("Queued", "InsufficientCapacity"));
  cluster_->patch(path_of_job("later"), {{"spec", {{"suspend", true}}}});
  expect("array, suspended", path_of_job("later"), kFine, in_phase("Suspended"));
  const std::map<std::string, std::string> brief = {{"test.muster.dev/runs-for", "1s"}};
  cluster_->create(array_object("ends", {.name = {}, .gpus = 0, .pod_annotations = brief}, three));
  expect("array, succeeded", path_of_job("ends"), kFine, in_phase("Succeeded"));
  auto fails = brief;
  fails["test.muster.dev/exit-code"] = "1";
  cluster_->create(array_object(
      "breaks", {.name = {}, .gpus = 0, .pod_annotations = fails, .spec = {{"restart", {{"limit", 0}}}}},
      three));
  expect("array, failed", path_of_job("breaks"), kFailed, in_phase("Failed"));

  // The API server refuses another template of an array: no action leads there.
  EXPECT_EQ(judged(cluster_->job("sweep"))["actions"].size(), 1u);
  EXPECT_TRUE(judged(cluster_->job("sweep"))["actions"].contains("suspend"));
  EXPECT_TRUE(judged(cluster_->job("later"))["actions"].contains("resume"));
  cluster_->remove_all_jobs();
}

TEST_F(GitOps, AJobThatChangesItsSizeIsFine) {
  json job = job_object({.name = "grows",
                         .pod_annotations = {{"test.muster.dev/save-for", "10s"}},
                         .spec = {{"checkpoint", {{"gracePeriod", "60s"}}}, {"elastic", {{"replicas", 4}}}}});
  json& role = job["spec"]["roles"][0];
  role.erase("replicas");
  role["minReplicas"] = 2;
  role["maxReplicas"] = 4;
  cluster_->create(job);
  ASSERT_TRUE(cluster_->wait_phase("grows", "Running")) << cluster_->job("grows").dump(1);
  cluster_->patch(path_of_job("grows"), {{"spec", {{"elastic", {{"replicas", 2}}}}}});
  expect("elastic, changing its size", path_of_job("grows"), kFine, in_phase("Resizing"));
  cluster_->remove_all_jobs();
}

TEST_F(GitOps, AJobThatWaitsForAnotherIsFineAndACircleIsNot) {
  const auto after = [](const std::string& name, const std::string& other) {
    json depends_on = json::array({{{"name", other}}});
    cluster_->create(job_object({.name = name, .gpus = 0, .spec = {{"dependsOn", std::move(depends_on)}}}));
  };
  after("next", "first");
  expect("waiting for another job", path_of_job("next"), kFine, phase("Queued", "DependencyNotFound"));
  cluster_->create(
      job_object({.name = "first",
                  .gpus = 0,
                  .pod_annotations = {{"test.muster.dev/runs-for", "1s"}, {"test.muster.dev/exit-code", "1"}},
                  .spec = {{"restart", {{"limit", 0}}}}}));
  expect("waiting for another job, which has failed", path_of_job("next"), kFine,
         phase("Queued", "DependencyFailed"));
  after("hen", "egg");
  after("egg", "hen");
  expect("waiting for itself, by way of others", path_of_job("hen"), kFailed,
         phase("Queued", "DependencyCycle"));
  cluster_->remove_all_jobs();
}

TEST_F(GitOps, WhatIsNotAllowedIsAFailureUnlessItRuns) {
  cluster_->create(job_object({.name = "runs", .replicas = 2, .gpus = 8}));
  ASSERT_TRUE(cluster_->wait_phase("runs", "Running"));
  cluster_->create(job_object({.name = "waits", .gpus = 8}));
  ASSERT_TRUE(cluster_->wait_phase("waits", "Queued"));
  const std::string project = kApi + "projects/team";
  cluster_->patch(project, {{"spec", {{"policy", {{"requiredLabels", {"cost-centre"}}}}}}});
  expect("its Project does not allow it", path_of_job("waits"), kFailed, phase("Queued", "PolicyViolation"));
  expect("running, and its Project does not allow it any more", path_of_job("runs"), kFine,
         condition("PolicyViolation", "True"));
  cluster_->patch(project, {{"spec", {{"policy", nullptr}}}});
  EXPECT_TRUE(cluster_->wait(20s, [] { return verdict(cluster_->job("waits")) == kFine; }));
  json odd = job_object({.name = "odd", .gpus = 0});
  odd["spec"]["roles"][0]["gpus"] = {{"fraction", "500m"}, {"devices", 2}, {"numaAligned", true}};
  cluster_->create(odd);
  expect("asks for what no kubelet can do", path_of_job("odd"), kFailed, phase("Queued", "InvalidSpec"));
  cluster_->remove_all_jobs();
}

TEST_F(GitOps, AQueueThatIsClosedIsFineAndSoIsWhatWaitsForIt) {
  cluster_->apply(R"(
apiVersion: muster.dev/v1alpha1
kind: Queue
metadata: {name: gate}
spec: {quota: {gpu: "8"}, admission: Hold}
---
apiVersion: muster.dev/v1alpha1
kind: Project
metadata: {name: gated}
spec: {queue: gate, quota: {gpu: "8"}}
)");
  ASSERT_TRUE(cluster_->wait_namespace("gated"));
  const std::string queue = kApi + "queues/gate", job = path_of_job("held", "gated");
  expect("admission: Hold", queue, kFine, seen());
  cluster_->create(
      job_object({.name = "held", .ns = "gated", .pod_annotations = {{"test.muster.dev/save-for", "5s"}}}));
  expect("waiting, because a queue above is held", job, kFine, phase("Queued", "QueueHeld"));
  cluster_->patch(queue, {{"spec", {{"admission", "Open"}}}});
  ASSERT_TRUE(cluster_->wait_phase("held", "Running", 30s, "gated"));
  cluster_->patch(queue, {{"spec", {{"admission", "Drain"}}}});
  expect("admission: Drain", queue, kFine, seen());
  expect("drained, and saving", job, kFine, in_phase("Checkpointing"));
  expect("drained", job, kFine, [](const json& drained) {
    return phase("Queued", "QueueHeld")(drained) && condition("Evicted", "True", "Drained")(drained);
  });
  cluster_->remove(job);
  cluster_->remove(kApi + "projects/gated");
  cluster_->remove(queue);
}

json with_roles(const std::string& name) {
  json service = service_object(name, 1);
  const json one = {{"gpus", {{"count", 1}}}, {"template", service["spec"]["template"]}};
  json prefill = one, decode = one;
  prefill["name"] = "prefill";
  prefill["template"]["metadata"]["annotations"]["test.muster.dev/start-after"] = "5s";
  decode["name"] = "decode";
  decode["traffic"] = true;
  service["spec"] = {{"replicas", 1}, {"roles", {prefill, decode}}};
  return service;
}

TEST_F(GitOps, AServiceWithRolesOrACanaryIsFineWhenItStands) {
  cluster_->create(with_roles("split"));
  expect("with roles, rolling out", path_of_service("split"), kOnItsWay, condition("RolledOut", "False"));
  expect("with roles, rolled out", path_of_service("split"), kFine, condition("RolledOut", "True"));

  const std::string chat = path_of_service("chat");
  cluster_->create(service_object("chat", 4, {{"rollout", {{"canary", {{"percent", 25}}}}}}));
  ASSERT_TRUE(
      cluster_->wait(30s, [&] { return cluster_->condition_of(chat, "RolledOut")["status"] == "True"; }));
  json containers = cluster_->get(chat)["spec"]["template"]["spec"]["containers"];
  containers[0]["image"] = "registry.example/serve:2";
  cluster_->patch(chat, {{"spec", {{"template", {{"spec", {{"containers", containers}}}}}}}});
  expect("a canary serves, and waits to be promoted", chat, kFine,
         condition("RolledOut", "False", "CanaryServes"));
  const std::string canary = cluster_->get(chat)["status"]["canary"]["revision"];
  cluster_->patch(chat, {{"spec", {{"rollout", {{"canary", {{"abortedRevision", canary}}}}}}}});
  expect("its canary was aborted", chat, kFine, condition("RolledOut", "True", "RolledBack"));
  for (const char* name : {"split", "chat"}) cluster_->remove(path_of_service(name));
  cluster_->remove_all_jobs();
}

// Every address of a simulated pod is this machine: here an activator's, and that of a replica's metrics.
class Idle {
 public:
  Idle() : port_(testcluster::free_port()) {
    auto listening = controller::HttpServer::listen(io_.get_executor(), "0.0.0.0:" + std::to_string(port_));
    if (!listening) throw std::runtime_error(listening.error());
    server_ = std::move(*listening);
    server_->handle("/metrics", [] {
      return controller::HttpAnswer{.body = "vllm:num_requests_running 0\nvllm:num_requests_waiting 0\n"};
    });
    thread_ = std::thread([this] { io_.run(); });
  }
  ~Idle() {
    boost::asio::post(io_, [this] { server_.reset(); });
    work_.reset();
    io_.stop();
    thread_.join();
  }
  Idle(const Idle&) = delete;
  Idle& operator=(const Idle&) = delete;
  int port() const { return port_; }

 private:
  boost::asio::io_context io_{1};
  boost::asio::executor_work_guard<boost::asio::io_context::executor_type> work_{io_.get_executor()};
  int port_;
  std::unique_ptr<controller::HttpServer> server_;
  std::thread thread_;
};

// A pod of the activators' Deployment, and its process beside the cluster.
testcluster::ProcessId start_activator(Cluster& cluster) {
  const auto applied = cluster.real().apply_without_deployments(manifests("activator"));
  if (!applied) throw std::runtime_error(applied.error());
  cluster.apply(R"(
apiVersion: v1
kind: Pod
metadata:
  name: activator
  namespace: muster-system
  labels: {app.kubernetes.io/name: muster-activator, muster.dev/activator: "true"}
spec:
  nodeName: node-0
  serviceAccountName: muster-activator
  securityContext: {runAsNonRoot: true, runAsUser: 65532, seccompProfile: {type: RuntimeDefault}}
  containers:
  - name: activator
    image: muster
    securityContext: {allowPrivilegeEscalation: false, capabilities: {drop: [ALL]}}
)");
  std::string ip;
  cluster.wait(30s, [&] {
    ip = cluster.get("/api/v1/namespaces/muster-system/pods/activator")["status"].value("podIP", "");
    return !ip.empty();
  });
  const auto kubeconfig = cluster.real().service_account_kubeconfig("muster-system", "muster-activator");
  if (!kubeconfig) throw std::runtime_error(kubeconfig.error());
  testcluster::ProcessSpec spec;
  spec.arguments = {MUSTER_PROGRAM, "activator", "--kubeconfig",    kubeconfig->string(),
                    "--address",    ip,          "--admin-address", ip + ":8080"};
  spec.log = cluster.real().directory() / "activator.log";
  const auto id = testcluster::spawn(spec);
  if (!id) throw std::runtime_error(id.error());
  return *id;
}

TEST_F(GitOps, AServiceAtZeroIsFine) {
  if (!own_network_) GTEST_SKIP() << "needs root, and the program ip";
  Idle idle;
  const auto activator = start_activator(*cluster_);
  const json scaling = {{"minReplicas", 0},       {"maxReplicas", 2},        {"metric", "RequestsRunning"},
                        {"target", "4"},          {"window", "2s"},          {"panicWindow", "2s"},
                        {"scaleDownDelay", "2s"}, {"scaleToZeroAfter", "6s"}};
  cluster_->create(service_object("web", 1, {{"port", idle.port()}, {"autoscaling", scaling}}));
  expect("scaled to zero, because nobody asks it", path_of_service("web"), kFine,
         condition("Ready", "True", "ScaledToZero"));
  cluster_->remove(path_of_service("web"));
  cluster_->remove("/api/v1/namespaces/muster-system/pods/activator");
  testcluster::end_process(activator, 5s);
  cluster_->remove_all_jobs();
}

}  // namespace
}  // namespace muster::test
