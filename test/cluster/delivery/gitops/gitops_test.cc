// What GitOps tools make of the kinds in the states that each has, and what their actions do. States of work
// that takes more to bring about are in gitops_states_test.cc.
#include "states.h"

namespace muster::test {
namespace {

using testing::HasSubstr;
using testing::Not;

TEST_F(GitOps, TheTreeIsFineWhenItsPartsAreThere) {
  const auto accepted = condition("Accepted", "True");
  expect("accepted", kApi + "queues/root", kFine, accepted);
  expect("accepted, its namespace is ready", kApi + "projects/team", kFine,
         condition("NamespaceReady", "True"));
  expect("accepted", kApi + "nodepools/default", kFine, accepted);

  // A parent may be applied after its child.
  cluster_->apply(R"(
apiVersion: muster.dev/v1alpha1
kind: Queue
metadata: {name: child}
spec: {parent: later}
---
apiVersion: muster.dev/v1alpha1
kind: Project
metadata: {name: early}
spec: {queue: child}
---
apiVersion: muster.dev/v1alpha1
kind: Project
metadata: {name: taken}
spec: {queue: root, namespace: {name: default}}
)");
  expect("its parent is missing", kApi + "queues/child", kOnItsWay,
         condition("Accepted", "False", "InvalidParent"));
  expect("its queue, or one above, is missing", kApi + "projects/early", kOnItsWay,
         condition("Accepted", "False", "InvalidQueue"));
  expect("its namespace is somebody else's", kApi + "projects/taken", kFailed,
         condition("Accepted", "False", "NamespaceTaken"));
  cluster_->apply("{apiVersion: muster.dev/v1alpha1, kind: Queue, metadata: {name: later}}");
  EXPECT_TRUE(cluster_->wait(30s, [&] {
    return verdict(cluster_->get(kApi + "queues/child")) == kFine &&
           verdict(cluster_->get(kApi + "projects/early")) == kFine;
  }));
  cluster_->remove("/api/v1/namespaces/early");
  expect("its namespace is being deleted", kApi + "projects/early", kOnItsWay,
         condition("NamespaceReady", "False"));

  cluster_->apply(
      "{apiVersion: muster.dev/v1alpha1, kind: NodePool, metadata: {name: second}, "
      "spec: {default: true, nodeSelector: {matchLabels: {pool: second}}}}");
  expect("there are two default pools", kApi + "nodepools/second", kFailed, condition("Accepted", "False"));
  cluster_->remove(kApi + "nodepools/second");
  EXPECT_TRUE(
      cluster_->wait(30s, [&] { return verdict(cluster_->get(kApi + "nodepools/default")) == kFine; }));
}

TEST_F(GitOps, AJobIsFineWhetherItRunsOrWaits) {
  cluster_->create(job_object(
      {.name = "runs", .replicas = 2, .gpus = 8, .pod_annotations = {{"test.muster.dev/save-for", "4s"}}}));
  expect("running", path_of_job("runs"), kFine, phase("Running"));
  cluster_->create(job_object({.name = "waits", .gpus = 8}));
  expect("waiting for GPUs", path_of_job("waits"), kFine, phase("Queued", "InsufficientCapacity"));
  cluster_->create(job_object({.name = "homeless", .ns = "default", .gpus = 0}));
  expect("waiting for a Project", path_of_job("homeless", "default"), kFine,
         phase("Queued", "ProjectNotFound"));
  cluster_->remove(path_of_job("homeless", "default"));
  cluster_->create(
      job_object({.name = "slow", .gpus = 0, .pod_annotations = {{"test.muster.dev/start-after", "10m"}}}));
  expect("starting", path_of_job("slow"), kFine, phase("Starting"));
  cluster_->create(
      job_object({.name = "ends", .gpus = 0, .pod_annotations = {{"test.muster.dev/runs-for", "1s"}}}));
  expect("succeeded", path_of_job("ends"), kFine, phase("Succeeded"));
  cluster_->create(
      job_object({.name = "breaks",
                  .gpus = 0,
                  .pod_annotations = {{"test.muster.dev/runs-for", "1s"}, {"test.muster.dev/exit-code", "1"}},
                  .spec = {{"restart", {{"limit", 0}}}}}));
  expect("failed", path_of_job("breaks"), kFailed, phase("Failed"));
  cluster_->create(job_object({.name = "odd", .spec = {{"priorityClassName", "no-such-class"}}}));
  expect("can never run as it is", path_of_job("odd"), kFailed, phase("Queued", "InvalidSpec"));
  cluster_->create(job_object({.name = "paused", .spec = {{"suspend", true}}}));
  expect("suspended", path_of_job("paused"), kFine, phase("Suspended"));

  cluster_->patch(path_of_job("runs"), {{"spec", {{"suspend", true}}}});
  expect("suspended, and saving", path_of_job("runs"), kFine, phase("Checkpointing"));
  cluster_->remove_all_jobs();
}

TEST_F(GitOps, AServiceIsOnItsWayUntilItIsRolledOut) {
  const auto path = [](const std::string& name) { return path_of_service(name); };
  cluster_->create(service_object("chat", 2, json::object(), {{"test.muster.dev/start-after", "5s"}}));
  expect("rolling out", path("chat"), kOnItsWay, condition("RolledOut", "False", "RollingOut"));
  expect("rolled out", path("chat"), kFine, condition("RolledOut", "True"));
  cluster_->create(service_object("none", 0));
  expect("no replicas are wanted", path("none"), kFine, condition("Ready", "True", "NoReplicas"));
  cluster_->create(service_object("wide", 1, {{"gpus", {{"count", 8}}}, {"groupSize", 3}}));
  expect("none of its replicas has room", path("wide"), kOnItsWay, condition("Ready", "False"));
  cluster_->create(service_object("many", 30));
  expect("rolled out, and some replicas wait for room", path("many"), kFine, condition("RolledOut", "True"));
  cluster_->apply(
      "{apiVersion: v1, kind: Service, metadata: {name: mine, namespace: team}, spec: {ports: [{port: "
      "80}]}}");
  cluster_->create(service_object("mine", 1));
  expect("refused: the name of its Service is taken", path("mine"), kFailed,
         condition("Accepted", "False", "NameTaken"));
  for (const char* name : {"chat", "none", "wide", "many", "mine"}) cluster_->remove(path(name));
  cluster_->remove_all_jobs();
}

TEST_F(GitOps, WhatMusterHasNotLookedAtIsNotDone) {
  cluster_->create(job_object({.name = "before", .gpus = 0}));
  ASSERT_TRUE(cluster_->wait_phase("before", "Running"));
  muster_->stop();
  cluster_->patch(path_of_job("before"), {{"spec", {{"maxRuntime", "1h"}}}});
  const auto any = [](const json&) { return true; };
  expect("edited, and not looked at since", path_of_job("before"), kOnItsWay, any);
  cluster_->create(job_object({.name = "unseen", .gpus = 0}));
  expect("applied, and not looked at yet", path_of_job("unseen"), kUnseen, any);
  cluster_->create(service_object("unseen", 1));
  expect("applied, and not looked at yet", path_of_service("unseen"), kUnseen, any);
  cluster_->apply(
      "{apiVersion: muster.dev/v1alpha1, kind: Project, metadata: {name: unseen}, spec: {queue: root}}");
  expect("applied, and not looked at yet", kApi + "projects/unseen", kUnseen, any);
  muster_ = cluster_->muster();
  EXPECT_TRUE(cluster_->wait_phase("unseen", "Running"));
  cluster_->remove(path_of_service("unseen"));
  cluster_->remove_all_jobs();
}

// What an action makes is applied as Argo CD does it: the fields that differ, as a merge patch.
TEST_F(GitOps, ActionsOfArgoCDDoWhatTheySay) {
  const auto act = [](const std::string& path, const std::string& action) {
    const json object = cluster_->get(path);
    const json actions = judged(object)["actions"];
    ASSERT_TRUE(actions.contains(action)) << actions.dump();
    json patch = {{"spec", actions[action]["spec"]}};
    cluster_->patch(path, patch);
  };
  const auto offered = [](const std::string& path) {
    std::vector<std::string> names;
    const json all = judged(cluster_->get(path))["actions"];
    for (const auto& [name, object] : all.items()) names.push_back(name);
    return names;
  };
  cluster_->create(job_object({.name = "acted", .gpus = 1}));
  ASSERT_TRUE(cluster_->wait_phase("acted", "Running"));
  EXPECT_EQ(offered(path_of_job("acted")), (std::vector<std::string>{"restart", "suspend"}));
  act(path_of_job("acted"), "suspend");
  EXPECT_TRUE(cluster_->wait_phase("acted", "Suspended"));
  EXPECT_EQ(offered(path_of_job("acted")), std::vector<std::string>{"resume"});
  act(path_of_job("acted"), "resume");
  ASSERT_TRUE(cluster_->wait_phase("acted", "Running"));
  const int attempt = cluster_->job("acted")["status"]["attempt"];
  act(path_of_job("acted"), "restart");
  EXPECT_TRUE(cluster_->wait(30s, [&] {
    return cluster_->phase("acted") == "Running" && cluster_->job("acted")["status"]["attempt"] > attempt;
  })) << cluster_->job("acted").dump(1);

  cluster_->create(service_object("acted", 1));
  const auto rolled_out = [] {
    return cluster_->condition_of(path_of_service("acted"), "RolledOut")["status"] == "True";
  };
  ASSERT_TRUE(cluster_->wait(30s, rolled_out));
  const std::string revision = cluster_->get(path_of_service("acted"))["status"]["revision"];
  act(path_of_service("acted"), "restart");
  EXPECT_TRUE(cluster_->wait(30s, [&] {
    return rolled_out() && cluster_->get(path_of_service("acted"))["status"]["revision"] != revision;
  }));
  cluster_->remove(path_of_service("acted"));
  cluster_->remove_all_jobs();
}

// What somebody sets beside git is no difference, so that self-healing leaves it; what git alone decides is
// one.
TEST_F(GitOps, WhatPeopleAndAutoscalersWriteIsNoDifferenceToArgoCD) {
  const auto ignores = [](json object, const json& written) {
    const json before = judged(object)["compared"];
    object.merge_patch({{"spec", written}});
    return judged(object)["compared"] == before;
  };
  json job = job_object(
      {.name = "job", .spec = {{"suspend", false}, {"elastic", {{"resize", "InPlace"}, {"replicas", 2}}}}});
  EXPECT_TRUE(ignores(job, {{"suspend", true}}));
  EXPECT_TRUE(ignores(job, {{"elastic", {{"replicas", 3}}}})) << "kubectl scale";
  EXPECT_FALSE(ignores(job, {{"elastic", {{"resize", "Restart"}}}}));
  EXPECT_FALSE(ignores(job, {{"maxRuntime", "1h"}}));
  job["spec"]["array"] = {{"count", 8}, {"parallelism", 4}};
  EXPECT_TRUE(ignores(job, {{"array", {{"parallelism", 2}}}})) << "kubectl muster scale";
  EXPECT_TRUE(ignores(job, {{"array", {{"retryFailed", 1}}}})) << "kubectl muster retry";
  EXPECT_FALSE(ignores(job, {{"array", {{"failures", "Stop"}}}}));

  const json service =
      service_object("chat", 2, {{"rollout", {{"maxSurge", 1}, {"canary", {{"percent", 25}}}}}});
  EXPECT_TRUE(ignores(service, {{"replicas", 5}}));
  EXPECT_TRUE(ignores(service, {{"rollout", {{"toRevision", "f00"}}}})) << "kubectl muster rollout undo";
  EXPECT_TRUE(ignores(service, {{"rollout", {{"canary", {{"promotedRevision", "f00"}}}}}})) << "… promote";
  EXPECT_TRUE(ignores(service, {{"rollout", {{"canary", {{"abortedRevision", "f00"}}}}}})) << "… abort";
  EXPECT_FALSE(ignores(service, {{"rollout", {{"canary", {{"percent", 50}}}}}}));
}

// Else Argo CD would take them for its own, and prune them because git has none.
TEST_F(GitOps, WhatMusterMakesCarriesNobodysTracking) {
  const json tracking = {
      {"labels",
       {{"app.kubernetes.io/instance", "gpu-work"}, {"kustomize.toolkit.fluxcd.io/name", "gpu-work"}}},
      {"annotations", {{"argocd.argoproj.io/tracking-id", "gpu-work:muster.dev/TrainingJob:team/tracked"}}}};
  json job = job_object({.name = "tracked", .replicas = 2, .gpus = 1});
  job["metadata"].merge_patch(tracking);
  cluster_->create(job);
  json service = service_object("served", 1);
  service["metadata"].merge_patch(tracking);
  cluster_->create(service);
  ASSERT_TRUE(cluster_->wait_phase("tracked", "Running")) << cluster_->job("tracked").dump(1);
  ASSERT_TRUE(cluster_->wait(30s, [] {
    return cluster_->get(path_of_service("served")).value("/status/readyReplicas"_json_pointer, 0) == 1;
  }));
  int made = 0;
  for (const std::string& list :
       {std::string("/api/v1/namespaces/team/pods"), std::string("/api/v1/namespaces/team/services"),
        std::string("/api/v1/namespaces/team/configmaps"), kApi + "namespaces/team/trainingjobs",
        std::string("/apis/policy/v1/namespaces/team/poddisruptionbudgets"),
        std::string("/apis/apps/v1/namespaces/team/controllerrevisions")}) {
    const json all = cluster_->get(list);
    for (const auto& item : all["items"]) {
      if (!item["metadata"].contains("ownerReferences")) continue;
      ++made;
      const std::string text = item["metadata"].value("labels", json()).dump() +
                               item["metadata"].value("annotations", json()).dump();
      EXPECT_THAT(text, Not(HasSubstr("gpu-work"))) << list << " " << item["metadata"]["name"];
    }
  }
  EXPECT_GE(made, 6);
  cluster_->remove(path_of_service("served"));
  cluster_->remove_all_jobs();
}

// The samples are for copying: the API server takes them, and the waves come to their end.
TEST_F(GitOps, TheSamplesAreApplied) {
  const auto dry = [](const std::string& folder) {
    const auto result = cluster_->real().kubectl(
        {"apply", "--server-side", "--dry-run=server", "-k", manifests("gitops/samples/" + folder)});
    EXPECT_TRUE(result && result->ok()) << (result ? result->err : result.error());
  };
  dry("tree");
  cluster_->make_namespace("nlp", "nlp");
  dry("jobs");
}

}  // namespace
}  // namespace muster::test
