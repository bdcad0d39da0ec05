// One true slice, live: what a user applies becomes whole gangs on the right nodes, and status tells the
// story. One node of 8 GPUs serves most tests; jobs are removed between them.
#include <gmock/gmock.h>

#include <algorithm>
#include <set>

#include "fixture.h"

namespace muster::test {
namespace {

using testing::HasSubstr;

// Kubernetes' garbage collector looks for new kinds every 30 s: in a young cluster pods of a deleted job stay
// so long.
constexpr Milliseconds kCollected = 60s;

class Slice : public OneCluster {
 protected:
  static void SetUpTestSuite() {
    cluster_ = Cluster::start(1, 8);
    muster_ = cluster_->muster();
  }
};

// Two gangs of 6 GPUs on 8: one runs, the other holds nothing and says why, and starts by itself.
TEST_F(Slice, OfTwoGangsThatDoNotFitTogetherOneRunsAndTheOtherSaysWhy) {
  cluster_->create(
      job_object({.name = "first", .replicas = 6, .pod_annotations = {{"test.muster.dev/runs-for", "6s"}}}));
  ASSERT_TRUE(cluster_->wait_phase("first", "Running"));
  cluster_->create(
      job_object({.name = "second", .replicas = 6, .pod_annotations = {{"test.muster.dev/runs-for", "1s"}}}));
  ASSERT_TRUE(cluster_->wait(10s, [&] { return cluster_->reason("second") == "InsufficientCapacity"; }));
  const json second = cluster_->job("second");
  EXPECT_EQ(second["status"]["phase"], "Queued");
  EXPECT_TRUE(cluster_->pods("second").empty());
  ASSERT_FALSE(second["status"]["queue"]["blocking"].empty()) << second["status"].dump(2);
  const json blocking = second["status"]["queue"]["blocking"][0];
  EXPECT_EQ(blocking["resource"], "gpu");
  EXPECT_EQ(blocking["need"], "6");
  EXPECT_EQ(blocking["have"], "2");
  EXPECT_THAT(blocking["by"].dump(), HasSubstr("team/first"));
  EXPECT_EQ(second["status"]["queue"]["position"], 1);
  EXPECT_EQ(cluster_->audit_gpus(), "");
  ASSERT_TRUE(cluster_->wait_phase("first", "Succeeded"));
  EXPECT_TRUE(cluster_->wait_phase("second", "Succeeded", 20s)) << cluster_->job("second").dump(2);
}

TEST_F(Slice, EveryConditionIsThereFromTheFirstWrite) {
  cluster_->create(job_object({.name = "big", .replicas = 9}));
  ASSERT_TRUE(cluster_->wait_phase("big", "Queued"));
  std::set<std::string> types;
  const json conditions = cluster_->job("big")["status"]["conditions"];
  for (const auto& c : conditions) types.insert(c["type"]);
  EXPECT_THAT(types,
              testing::UnorderedElementsAre("Accepted", "Admitted", "PodsReady", "Evicted", "Suspended",
                                            "Complete", "Failed", "Stalled", "GracePeriodTooShort"));
  EXPECT_EQ(cluster_->condition("big", "Accepted")["status"], "True");
  EXPECT_EQ(cluster_->condition("big", "Admitted")["status"], "False");
}

TEST_F(Slice, AWorkerKnowsWhoItIsAndWhereItsPeersAre) {
  cluster_->create(
      job_object({.name = "train", .replicas = 2, .gpus = 4, .spec = {{"framework", "PyTorch"}}}));
  ASSERT_TRUE(cluster_->wait_phase("train", "Running"));
  const auto pods = cluster_->pods("train");
  ASSERT_EQ(pods.size(), 2u);
  for (const auto& p : pods) {
    EXPECT_EQ(p["spec"]["nodeName"], "node-0");
    EXPECT_EQ(p["spec"]["subdomain"], "train");
    EXPECT_EQ(p["spec"]["containers"][0]["resources"]["limits"]["nvidia.com/gpu"], "4");
    std::map<std::string, std::string> env;
    for (const auto& e : p["spec"]["containers"][0]["env"]) env[e["name"]] = e.value("value", "");
    EXPECT_EQ(env["MUSTER_JOB"], "train");
    EXPECT_EQ(env["MASTER_ADDR"], "worker-0.train.team.svc");
    EXPECT_EQ(env["PET_NNODES"], "2");
    EXPECT_EQ(p["spec"]["hostname"], "worker-" + env["MUSTER_INDEX"]);
  }
  const json service = cluster_->get("/api/v1/namespaces/team/services/train");
  EXPECT_EQ(service["spec"]["clusterIP"], "None");
  EXPECT_EQ(service["spec"]["publishNotReadyAddresses"], true);
  const json hosts = cluster_->get("/api/v1/namespaces/team/configmaps/train-hosts");
  EXPECT_EQ(hosts["data"]["hosts"], "worker-0.train.team.svc\nworker-1.train.team.svc\n");
}

TEST_F(Slice, AProgramThatFailsIsRestartedWithinItsLimitAndThenFailed) {
  cluster_->create(
      job_object({.name = "crash",
                  .replicas = 2,
                  .pod_annotations = {{"test.muster.dev/runs-for", "1s"}, {"test.muster.dev/exit-code", "3"}},
                  .spec = {{"restart", {{"limit", 2}, {"window", "1h"}}}}}));
  ASSERT_TRUE(cluster_->wait_phase("crash", "Failed", 60s)) << cluster_->job("crash").dump(2);
  const json job = cluster_->job("crash");
  EXPECT_EQ(job["status"]["attempt"], 3);
  EXPECT_EQ(job["status"]["restarts"]["count"], 3);
  const json failed = cluster_->condition("crash", "Failed");
  EXPECT_EQ(failed["reason"], "RestartLimitExceeded");
  EXPECT_THAT(failed["message"].get<std::string>(), HasSubstr("exit code 3"));
}

TEST_F(Slice, SuspendReleasesAndResumeStartsAgain) {
  cluster_->create(job_object({.name = "pause", .replicas = 2}));
  ASSERT_TRUE(cluster_->wait_phase("pause", "Running"));
  cluster_->patch(path_of_job("pause"), {{"spec", {{"suspend", true}}}});
  ASSERT_TRUE(cluster_->wait_phase("pause", "Suspended"));
  ASSERT_TRUE(cluster_->wait(10s, [&] { return cluster_->pods("pause").empty(); }));
  EXPECT_EQ(cluster_->condition("pause", "Suspended")["status"], "True");
  cluster_->patch(path_of_job("pause"), {{"spec", {{"suspend", false}}}});
  ASSERT_TRUE(cluster_->wait_phase("pause", "Running"));
  EXPECT_EQ(cluster_->job("pause")["status"]["attempt"], 2);
}

std::string env_of(const json& pod, const std::string& name) {
  for (const auto& e : pod["spec"]["containers"][0]["env"]) {
    if (e["name"] == name) return e.value("value", "");
  }
  return {};
}

// The pods save for two seconds when they are told to go, and leave a report; the next attempt is told.
TEST_F(Slice, WhatAGangHasSavedIsWhereItsNextAttemptStarts) {
  cluster_->create(
      job_object({.name = "saves",
                  .replicas = 2,
                  .pod_annotations = {{"test.muster.dev/save-for", "2s"},
                                      {"test.muster.dev/termination-message",
                                       R"({"checkpoint":{"step":1200,"uri":"/ckpt/step-1200"}})"}},
                  .spec = {{"checkpoint", {{"gracePeriod", "20s"}}}}}));
  ASSERT_TRUE(cluster_->wait_phase("saves", "Running"));
  const std::string first = cluster_->pods("saves")[0]["metadata"]["name"];
  cluster_->patch(
      "/api/v1/namespaces/team/pods/" + first,
      {{"metadata", {{"annotations", {{"muster.dev/checkpoint", R"({"checkpoint":{"step":7}})"}}}}}});
  const auto step = [&] {
    return cluster_->job("saves")["status"].value("/checkpoint/step"_json_pointer, 0);
  };
  EXPECT_TRUE(cluster_->wait(10s, [&] { return step() == 7; })) << cluster_->job("saves").dump(2);
  cluster_->patch(path_of_job("saves"), {{"spec", {{"suspend", true}}}});
  ASSERT_TRUE(cluster_->wait(20s, [&] { return cluster_->pods("saves").empty(); }));
  const auto reporters = [&] {
    return cluster_->job("saves")["status"].value("/checkpoint/reporters"_json_pointer, 0);
  };
  ASSERT_TRUE(cluster_->wait(10s, [&] { return step() == 1200 && reporters() == 2; }))
      << cluster_->job("saves").dump(2);
  const json saved = cluster_->job("saves")["status"]["checkpoint"];
  EXPECT_EQ(saved["uri"], "/ckpt/step-1200");
  EXPECT_GE(saved["saveSeconds"], 1);
  EXPECT_LE(saved["saveSeconds"], 5);
  cluster_->patch(path_of_job("saves"), {{"spec", {{"suspend", false}}}});
  ASSERT_TRUE(cluster_->wait_phase("saves", "Running"));
  EXPECT_THAT(cluster_->condition("saves", "Admitted")["message"].get<std::string>(),
              HasSubstr("from step 1200 (/ckpt/step-1200)"));
  for (const auto& pod : cluster_->pods("saves")) {
    EXPECT_EQ(env_of(pod, "MUSTER_ATTEMPT"), "2");
    EXPECT_EQ(env_of(pod, "MUSTER_RESUME_STEP"), "1200");
    EXPECT_EQ(env_of(pod, "MUSTER_RESUME_URI"), "/ckpt/step-1200");
  }
}

TEST_F(Slice, ACompletedJobIsRemovedAfterItsTime) {
  cluster_->create(job_object({.name = "brief",
                               .pod_annotations = {{"test.muster.dev/runs-for", "1s"}},
                               .spec = {{"ttlAfterFinished", "2s"}}}));
  ASSERT_TRUE(cluster_->wait_phase("brief", "Succeeded"));
  EXPECT_TRUE(cluster_->wait(20s, [&] { return cluster_->job("brief").is_null(); }));
}

TEST_F(Slice, PolicyFirstEndsTheOthers) {
  json object = job_object({.name = "search",
                            .replicas = 1,
                            .gpus = 1,
                            .spec = {{"completion", {{"role", "worker"}, {"policy", "First"}}}}});
  object["spec"]["roles"][0]["template"]["metadata"]["annotations"] = {{"test.muster.dev/runs-for", "2s"}};
  json other = object["spec"]["roles"][0];
  other["name"] = "server";
  other["template"]["metadata"].erase("annotations");
  object["spec"]["roles"].push_back(other);
  cluster_->create(object);
  ASSERT_TRUE(cluster_->wait_phase("search", "Succeeded"));
  EXPECT_EQ(cluster_->job("search")["status"]["pods"], "1/2");
  EXPECT_TRUE(cluster_->wait(10s, [&] {
    for (const auto& p : cluster_->pods("search")) {
      if (p["status"]["phase"] == "Running") return false;
    }
    return true;
  }));
}

TEST_F(Slice, MaxRuntimeEndsAJob) {
  cluster_->create(job_object({.name = "long", .spec = {{"maxRuntime", "2s"}}}));
  ASSERT_TRUE(cluster_->wait_phase("long", "Failed", 20s));
  EXPECT_EQ(cluster_->condition("long", "Failed")["reason"], "MaxRuntimeExceeded");
}

TEST_F(Slice, AGangThatDoesNotStartInTimeIsWithdrawnWholeAndTriedAgain) {
  cluster_->create(job_object({.name = "slow",
                               .replicas = 2,
                               .pod_annotations = {{"test.muster.dev/start-after", "1h"}},
                               .spec = {{"startTimeout", "2s"}}}));
  ASSERT_TRUE(cluster_->wait(20s, [&] { return cluster_->reason("slow") == "BackingOff"; }));
  EXPECT_TRUE(cluster_->wait(10s, [&] { return cluster_->pods("slow").empty(); }));
  EXPECT_EQ(cluster_->condition("slow", "Evicted")["reason"], "StartTimeout");
  EXPECT_TRUE(cluster_->wait(30s, [&] { return cluster_->job("slow")["status"].value("attempt", 0) == 2; }));
}

TEST_F(Slice, AnObjectThatCanNeverRunSaysSoAndRecoversWhenMended) {
  cluster_->create(job_object({.name = "odd", .spec = {{"priorityClassName", "no-such-class"}}}));
  ASSERT_TRUE(cluster_->wait(10s, [&] { return cluster_->reason("odd") == "InvalidSpec"; }));
  EXPECT_THAT(cluster_->condition("odd", "Accepted")["message"].get<std::string>(),
              HasSubstr("no-such-class"));
  cluster_->patch(path_of_job("odd"), {{"spec", {{"priorityClassName", "training"}}}});
  EXPECT_TRUE(cluster_->wait_phase("odd", "Running"));
}

TEST_F(Slice, APodThatTheApiServerRefusesIsToldToItsOwner) {
  json object = job_object({.name = "refused"});
  object["spec"]["roles"][0]["template"]["spec"]["containers"][0]["volumeMounts"] = {
      {{"name", "nowhere"}, {"mountPath", "/x"}}};
  cluster_->create(object);
  ASSERT_TRUE(cluster_->wait(20s, [&] { return cluster_->reason("refused") == "InvalidSpec"; }))
      << cluster_->job("refused").dump(2);
  EXPECT_THAT(cluster_->condition("refused", "Stalled")["message"].get<std::string>(),
              HasSubstr("volumeMounts"));
  EXPECT_TRUE(cluster_->pods("refused").empty());
}

TEST_F(Slice, DeletingAJobTakesItsPodsAndTheirRoomBack) {
  cluster_->create(job_object({.name = "old", .replicas = 8}));
  ASSERT_TRUE(cluster_->wait_phase("old", "Running"));
  cluster_->create(job_object({.name = "new", .replicas = 8}));
  ASSERT_TRUE(cluster_->wait(10s, [&] { return cluster_->reason("new") == "InsufficientCapacity"; }));
  cluster_->remove(path_of_job("old"));
  EXPECT_TRUE(cluster_->wait_phase("new", "Running", kCollected));
  EXPECT_EQ(cluster_->audit_gpus(), "");
}

// kubectl delete and apply, while the program of before saves.
TEST_F(Slice, AJobMadeAnewWaitsForThePodsOfBefore) {
  const SimpleJob again = {.name = "again",
                           .replicas = 2,
                           .pod_annotations = {{"test.muster.dev/save-for", "4s"}},
                           .spec = {{"checkpoint", {{"gracePeriod", "20s"}}}}};
  cluster_->create(job_object(again));
  ASSERT_TRUE(cluster_->wait_phase("again", "Running"));
  cluster_->remove(path_of_job("again"));
  ASSERT_TRUE(cluster_->wait(10s, [&] { return cluster_->job("again").is_null(); }));
  cluster_->create(job_object(again));
  EXPECT_TRUE(cluster_->wait(kCollected, [&] { return cluster_->reason("again") == "BackingOff"; }))
      << cluster_->job("again").dump(2);
  EXPECT_THAT(cluster_->job("again")["status"]["queue"].value("message", ""),
              HasSubstr(" of a job that had this name before has not ended yet"));
  EXPECT_TRUE(cluster_->wait_phase("again", "Running", kCollected)) << cluster_->job("again").dump(2);
  EXPECT_EQ(cluster_->job("again")["status"]["attempt"], 1);
  EXPECT_EQ(cluster_->audit_gpus(), "");
}

TEST_F(Slice, ADeletedPodBringsTheGangBackWhole) {
  cluster_->create(job_object({.name = "loss", .replicas = 3}));
  ASSERT_TRUE(cluster_->wait_phase("loss", "Running"));
  const std::string victim = cluster_->pods("loss")[1]["metadata"]["name"];
  cluster_->remove("/api/v1/namespaces/team/pods/" + victim);
  ASSERT_TRUE(cluster_->wait(30s, [&] {
    const json j = cluster_->job("loss");
    return j["status"]["attempt"] == 2 && j["status"]["phase"] == "Running";
  })) << cluster_->job("loss").dump(2);
  EXPECT_EQ(cluster_->job("loss")["status"].value("/restarts/count"_json_pointer, 0), 0);
  EXPECT_EQ(cluster_->pods("loss").size(), 3u);
}

// Somebody's finalizer keeps the object. Its GPUs are free all the same.
TEST_F(Slice, AJobThatIsDeletedGivesItsPlacesBackWhoeverHoldsIt) {
  cluster_->create(job_object({.name = "held", .replicas = 2}));
  ASSERT_TRUE(cluster_->wait_phase("held", "Running")) << cluster_->job("held").dump(2);
  cluster_->patch(path_of_job("held"), {{"metadata", {{"finalizers", {"example.com/hold"}}}}});
  cluster_->remove(path_of_job("held"));
  EXPECT_TRUE(cluster_->wait(kCollected, [&] { return cluster_->pods("held").empty(); }));
  EXPECT_TRUE(cluster_->job("held")["metadata"].contains("deletionTimestamp"));
  cluster_->patch(path_of_job("held"), {{"metadata", {{"finalizers", nullptr}}}});
  EXPECT_TRUE(cluster_->wait(10s, [&] { return cluster_->job("held").is_null(); }));
}

// Nobody would ever end them, nor could take their GPUs.
TEST_F(Slice, PodsThatTheirJobLeavesBehindGo) {
  cluster_->create(job_object({.name = "leaver", .replicas = 2}));
  ASSERT_TRUE(cluster_->wait_phase("leaver", "Running")) << cluster_->job("leaver").dump(2);
  // Nobody sees it go.
  muster_->kill();
  cluster_->remove(path_of_job("leaver") + "?propagationPolicy=Orphan");
  ASSERT_TRUE(cluster_->wait(kCollected, [&] { return cluster_->job("leaver").is_null(); }));
  ASSERT_EQ(cluster_->pods("leaver").size(), 2u);
  EXPECT_FALSE(cluster_->pods("leaver")[0]["metadata"].contains("ownerReferences"));
  muster_ = cluster_->muster();
  EXPECT_TRUE(cluster_->wait(kCollected, [&] { return cluster_->pods("leaver").empty(); }));
  cluster_->create(job_object({.name = "leaver", .replicas = 2}));
  EXPECT_TRUE(cluster_->wait_phase("leaver", "Running")) << cluster_->job("leaver").dump(2);
}

TEST_F(Slice, QuotaAndLimitHoldAtEveryLevel) {
  cluster_->make_namespace("small", "small");
  cluster_->apply(R"(
apiVersion: muster.dev/v1alpha1
kind: Queue
metadata: {name: dept}
spec: {parent: root, quota: {gpu: 2}, limit: {gpu: 4}}
---
apiVersion: muster.dev/v1alpha1
kind: Project
metadata: {name: small}
spec: {queue: dept, quota: {gpu: 2}}
)");
  // Said, and not in the way: root's children are Project team with its 1000 GPUs, and dept.
  EXPECT_TRUE(cluster_->wait(10s, [&] {
    const json conditions = cluster_->get("/apis/muster.dev/v1alpha1/queues/root")
                                .value("/status/conditions"_json_pointer, json::array());
    return std::any_of(conditions.begin(), conditions.end(), [](const json& c) {
      return c["type"] == "QuotaOvercommitted" && c["status"] == "True" &&
             c["message"] == "children of Queue root have 1002 GPUs of quota, it has 1000";
    });
  })) << cluster_->get("/apis/muster.dev/v1alpha1/queues/root").dump(2);
  cluster_->create(
      job_object({.name = "a", .ns = "small", .replicas = 4}));  // over quota, within the limit: borrowed
  ASSERT_TRUE(cluster_->wait_phase("a", "Running", 20s, "small")) << cluster_->job("a", "small").dump(2);
  cluster_->create(job_object({.name = "b", .ns = "small"}));
  ASSERT_TRUE(cluster_->wait(10s, [&] { return cluster_->reason("b", "small") == "LimitReached"; }));
  cluster_->remove(path_of_job("a", "small"));
  ASSERT_TRUE(cluster_->wait_phase("b", "Running", kCollected, "small"));
  // Not preemptible: within quota only, though the limit and the node have room.
  cluster_->create(job_object({.name = "c", .ns = "small", .replicas = 3, .spec = {{"preemptible", false}}}));
  ASSERT_TRUE(cluster_->wait(10s, [&] { return cluster_->reason("c", "small") == "QuotaExceeded"; }))
      << cluster_->job("c", "small").dump(2);
  ASSERT_TRUE(cluster_->wait(10s, [&] {
    return cluster_->get("/apis/muster.dev/v1alpha1/queues/dept")
               .value("/status/allocated/gpu"_json_pointer, std::string()) == "1";
  }));
  // Written on its own, and not before the numbers are due again.
  EXPECT_TRUE(cluster_->wait(10s, [&] {
    return cluster_->get("/apis/muster.dev/v1alpha1/projects/small")
               .value("/status/pending/gpu"_json_pointer, std::string()) == "3";
  }));
}

TEST_F(Slice, WorkWithoutAProjectWaitsAndStartsWhenThereIsOne) {
  cluster_->make_namespace("late", "late");
  cluster_->create(job_object({.name = "early", .ns = "late"}));
  ASSERT_TRUE(cluster_->wait(10s, [&] { return cluster_->reason("early", "late") == "ProjectNotFound"; }));
  cluster_->apply(
      "{apiVersion: muster.dev/v1alpha1, kind: Project, metadata: {name: late}, spec: {queue: root, quota: "
      "{gpu: 1}}}");
  EXPECT_TRUE(cluster_->wait_phase("early", "Running", 20s, "late"));
  // A second Project for the same namespace is told so; the first keeps it.
  cluster_->apply(
      "{apiVersion: muster.dev/v1alpha1, kind: Project, metadata: {name: usurper}, spec: {queue: root, "
      "namespace: {name: late}}}");
  const auto reason = [&] {
    const json conditions = cluster_->get("/apis/muster.dev/v1alpha1/projects/usurper")
                                .value("/status/conditions"_json_pointer, json::array());
    for (const auto& c : conditions) {
      if (c["type"] == "Accepted") return c.value("reason", "");
    }
    return std::string();
  };
  EXPECT_TRUE(cluster_->wait(10s, [&] { return reason() == "NamespaceTaken"; }));
  EXPECT_EQ(cluster_->phase("early", "late"), "Running");
}

TEST_F(Slice, AHeldQueueStartsNothingNew) {
  cluster_->apply(
      "{apiVersion: muster.dev/v1alpha1, kind: Queue, metadata: {name: root}, spec: {quota: {gpu: 1000}, "
      "admission: Hold}}");
  cluster_->create(job_object({.name = "held"}));
  EXPECT_TRUE(cluster_->wait(10s, [&] { return cluster_->reason("held") == "QueueHeld"; }));
  cluster_->apply(
      "{apiVersion: muster.dev/v1alpha1, kind: Queue, metadata: {name: root}, spec: {quota: {gpu: 1000}, "
      "admission: Open}}");
  EXPECT_TRUE(cluster_->wait_phase("held", "Running"));
}

TEST_F(Slice, AStoppedMusterLeavesPodsAloneAndTheNextGoesOn) {
  cluster_->create(job_object({.name = "through", .replicas = 2}));
  ASSERT_TRUE(cluster_->wait_phase("through", "Running"));
  EXPECT_EQ(muster_->stop(), 0);
  EXPECT_EQ(cluster_->pods("through").size(), 2u);
  muster_ = cluster_->muster();
  cluster_->create(job_object({.name = "after"}));
  EXPECT_TRUE(cluster_->wait_phase("after", "Running"));
  EXPECT_EQ(cluster_->job("through")["status"]["attempt"], 1);
}

}  // namespace
}  // namespace muster::test
