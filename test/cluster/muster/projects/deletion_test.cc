// deletionPolicy: Delete. A Project that is deleted lets its work save, and takes it along.
#include <gmock/gmock.h>

#include <random>
#include <thread>

#include "fixture.h"

namespace muster::test {
namespace {

using testing::HasSubstr;

const std::string kProjects = "/apis/muster.dev/v1alpha1/projects/";
const std::string kFinalizer = "muster.dev/save-and-delete";

class Deletion : public OneCluster {
 protected:
  static void SetUpTestSuite() {
    cluster_ = Cluster::start(2, 8);
    muster_ = cluster_->muster();
  }

  static void project(const std::string& name, const std::string& policy = "Delete") {
    cluster_->apply("apiVersion: muster.dev/v1alpha1\nkind: Project\nmetadata: {name: " + name +
                    "}\nspec:\n  queue: root\n  quota: {gpu: 8}\n  namespace: {name: " + name +
                    ", deletionPolicy: " + policy + "}\n");
    ASSERT_TRUE(cluster_->wait_namespace(name)) << cluster_->get(kProjects + name).dump(2);
  }
  static json finalizers(const std::string& name) {
    const json object = cluster_->get(kProjects + name);
    return object.is_null() ? json::array() : object["metadata"].value("finalizers", json::array());
  }
  static bool is_gone(const std::string& path) { return cluster_->get(path).is_null(); }
  // A namespace goes when a controller has emptied it, which this control plane does not run.
  static bool is_going(const std::string& ns) {
    const json object = cluster_->get("/api/v1/namespaces/" + ns);
    return object.is_null() || object["metadata"].contains("deletionTimestamp");
  }
  static json saving_job(const std::string& name, const std::string& ns, const std::string& seconds) {
    return job_object({.name = name,
                       .ns = ns,
                       .pod_annotations = {{"test.muster.dev/save-for", seconds}},
                       .spec = {{"checkpoint", {{"gracePeriod", "60s"}}}}});
  }
  static json ready(const std::string& name) {
    const json c = cluster_->condition_of(kProjects + name, "NamespaceReady");
    return c.is_null() ? json{{"reason", ""}, {"message", ""}} : c;
  }
};

TEST_F(Deletion, WorkSavesAndGoesAndThenTheProjectDoes) {
  project("along");
  ASSERT_TRUE(cluster_->wait(20s, [] { return finalizers("along") == json::array({kFinalizer}); }))
      << finalizers("along");
  cluster_->create(saving_job("train", "along", "6s"));
  cluster_->create(job_object({.name = "waits", .ns = "along", .gpus = 64}));
  json service = service_object("chat", 1);
  service["metadata"]["namespace"] = "along";
  cluster_->create(service);
  ASSERT_TRUE(cluster_->wait_phase("train", "Running", 30s, "along"));
  cluster_->remove(kProjects + "along");
  ASSERT_TRUE(cluster_->wait(20s, [] { return ready("along")["reason"] == "Saving"; }))
      << cluster_->get(kProjects + "along").dump(2);
  EXPECT_THAT(ready("along")["message"].get<std::string>(), HasSubstr("train"));
  EXPECT_FALSE(cluster_->pods("train", "along").empty()) << "it has still to save";
  EXPECT_FALSE(is_gone(path_of_job("train", "along"))) << "it goes when it has saved";
  EXPECT_EQ(cluster_->condition("train", "Evicted", "along")["reason"], "ProjectNotFound");
  ASSERT_TRUE(cluster_->wait(60s, [] { return is_gone(kProjects + "along"); }))
      << cluster_->get(kProjects + "along").dump(2);
  EXPECT_TRUE(is_gone(path_of_job("train", "along")));
  EXPECT_TRUE(is_gone(path_of_job("waits", "along")));
  EXPECT_TRUE(is_gone("/apis/muster.dev/v1alpha1/namespaces/along/inferenceservices/chat"));
  EXPECT_TRUE(cluster_->wait(20s, [] { return is_going("along"); }));
  EXPECT_TRUE(muster_->alive());
}

TEST_F(Deletion, WhatMusterDidNotMakeAndWhatHoldsCheckpointsStays) {
  cluster_->make_namespace("older", "older");
  project("older");
  project("claims");
  const json claim = {
      {"apiVersion", "v1"},
      {"kind", "PersistentVolumeClaim"},
      {"metadata", {{"name", "checkpoints"}, {"namespace", "claims"}}},
      {"spec", {{"accessModes", {"ReadWriteMany"}}, {"resources", {{"requests", {{"storage", "1Gi"}}}}}}}};
  const auto made = cluster_->real().kubectl({"create", "-f", "-"}, claim.dump());
  ASSERT_TRUE(made && made->ok()) << made->err;
  cluster_->create(job_object({.name = "work", .ns = "older"}));
  ASSERT_TRUE(cluster_->wait_phase("work", "Running", 30s, "older"));
  for (const char* name : {"older", "claims"}) {
    ASSERT_TRUE(cluster_->wait(20s, [&] { return finalizers(name) == json::array({kFinalizer}); }));
    cluster_->remove(kProjects + name);
    ASSERT_TRUE(cluster_->wait(60s, [&] { return is_gone(kProjects + name); }))
        << cluster_->get(kProjects + name).dump(2);
    EXPECT_FALSE(is_going(name)) << name;
  }
  EXPECT_TRUE(is_gone(path_of_job("work", "older")));
  EXPECT_FALSE(is_gone("/api/v1/namespaces/claims/persistentvolumeclaims/checkpoints"));
  EXPECT_TRUE(cluster_->wait(20s, [] {
    const auto got = cluster_->real().kubectl({"get", "events.events.k8s.io", "-A", "-o", "json"});
    return got->out.find("namespace claims stays, because these claims are in it: checkpoints") !=
           std::string::npos;
  }));
}

TEST_F(Deletion, RetainTakesTheFinalizerOffAlsoWhileItWaits) {
  project("stays");
  ASSERT_TRUE(cluster_->wait(20s, [] { return finalizers("stays") == json::array({kFinalizer}); }));
  cluster_->patch(kProjects + "stays", {{"metadata", {{"finalizers", {kFinalizer, "example.com/theirs"}}}},
                                        {"spec", {{"namespace", {{"deletionPolicy", "Retain"}}}}}});
  EXPECT_TRUE(cluster_->wait(20s, [] { return finalizers("stays") == json::array({"example.com/theirs"}); }))
      << finalizers("stays");
  cluster_->patch(kProjects + "stays", {{"metadata", {{"finalizers", nullptr}}},
                                        {"spec", {{"namespace", {{"deletionPolicy", "Delete"}}}}}});
  ASSERT_TRUE(cluster_->wait(20s, [] { return finalizers("stays") == json::array({kFinalizer}); }));
  cluster_->create(saving_job("slow", "stays", "30s"));
  ASSERT_TRUE(cluster_->wait_phase("slow", "Running", 30s, "stays"));
  cluster_->remove(kProjects + "stays");
  ASSERT_TRUE(cluster_->wait(20s, [] { return ready("stays")["reason"] == "Saving"; }));
  cluster_->patch(kProjects + "stays", {{"spec", {{"namespace", {{"deletionPolicy", "Retain"}}}}}});
  EXPECT_TRUE(cluster_->wait(15s, [] { return is_gone(kProjects + "stays"); }));
  EXPECT_FALSE(is_gone(path_of_job("slow", "stays")));
  EXPECT_FALSE(is_going("stays"));
}

// Killed at any moment of it, the next process goes on: nothing goes before it has saved, and all goes.
TEST_F(Deletion, KilledWhileItDeletesTheNextProcessGoesOn) {
  std::mt19937 random(seed_of_run());
  project("killed");
  ASSERT_TRUE(cluster_->wait(20s, [] { return finalizers("killed") == json::array({kFinalizer}); }));
  for (int i = 0; i < 6; ++i) {
    cluster_->create(saving_job("j" + std::to_string(i), "killed", std::to_string(2 + 2 * i) + "s"));
  }
  for (int i = 0; i < 6; ++i)
    ASSERT_TRUE(cluster_->wait_phase("j" + std::to_string(i), "Running", 60s, "killed"));
  cluster_->remove(kProjects + "killed");
  int kills = 0;
  const auto deadline = std::chrono::steady_clock::now() + 150s;
  while (!is_gone(kProjects + "killed") && std::chrono::steady_clock::now() < deadline) {
    for (int i = 0; i < 6; ++i) {
      const std::string name = "j" + std::to_string(i);
      const auto pods = cluster_->pods(name, "killed");
      // A job goes only when no pod of it runs any more.
      if (is_gone(path_of_job(name, "killed"))) {
        for (const json& pod : pods) {
          const std::string phase = pod["status"].value("phase", "");
          EXPECT_TRUE(phase == "Succeeded" || phase == "Failed" || !pod["metadata"].contains("uid"))
              << name << " went while its pod was " << phase;
        }
      }
    }
    if (kills < 8) {
      std::this_thread::sleep_for(std::chrono::milliseconds(200 + random() % 2500));
      muster_->kill();
      ++kills;
      muster_ = cluster_->muster();
    } else {
      std::this_thread::sleep_for(500ms);
    }
  }
  EXPECT_GE(kills, 3);
  EXPECT_TRUE(is_gone(kProjects + "killed")) << cluster_->get(kProjects + "killed").dump(2);
  for (int i = 0; i < 6; ++i) EXPECT_TRUE(is_gone(path_of_job("j" + std::to_string(i), "killed")));
  EXPECT_TRUE(is_going("killed"));
}

}  // namespace
}  // namespace muster::test
