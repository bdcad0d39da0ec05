// What is made to yield, and what becomes of it: on a real API server, with pods that take their
// time to save.
#include <gmock/gmock.h>

#include <thread>

#include "fixture.h"
#include "history.h"

namespace muster::test {
namespace {

constexpr const char* kReport = R"({"checkpoint":{"step":1200,"uri":"/ckpt/step-1200"}})";

class Yield : public OneCluster {
 protected:
  static void SetUpTestSuite() {
    cluster_ = Cluster::start(2, 8);
    muster_ = cluster_->muster();
    cluster_->apply(R"(
apiVersion: scheduling.k8s.io/v1
kind: PriorityClass
metadata: {name: low}
value: 10
)");
  }

  static json low(const std::string& name, int replicas, int gpus, const std::string& saving) {
    return job_object({.name = name,
                       .replicas = replicas,
                       .gpus = gpus,
                       .pod_annotations = {{"test.muster.dev/save-for", saving},
                                           {"test.muster.dev/termination-message", kReport}},
                       .spec = {{"priorityClassName", "low"}, {"checkpoint", {{"gracePeriod", "60s"}}}}});
  }
  static std::string message(const std::string& name) {
    return cluster_->job(name).value("/status/queue/message"_json_pointer, std::string());
  }
  static json disruption(const std::string& name) {
    return cluster_->job(name).value("/status/disruption"_json_pointer, json::object());
  }
  static bool has_event(const std::string& job, const std::string& reason) {
    const json events = cluster_->get("/apis/events.k8s.io/v1/namespaces/team/events");
    for (const auto& e : events["items"]) {
      if (e["regarding"]["name"] == job && e["reason"] == reason) return true;
    }
    return false;
  }
};

// Lower priority saves and goes; the promise of its places outlives the process that gave it; it comes back.
TEST_F(Yield, APreemptedGangSavesGivesWayAndComesBackWhereItWas) {
  cluster_->create(low("low", 4, 4, "8s"));
  ASSERT_TRUE(cluster_->wait_phase("low", "Running"));
  EXPECT_TRUE(disruption("low").contains("startSeconds")) << disruption("low");
  EXPECT_FALSE(disruption("low").contains("savesWhenAsked")) << disruption("low");
  std::this_thread::sleep_for(2s);
  cluster_->create(
      job_object({.name = "high", .replicas = 2, .gpus = 8, .spec = {{"priorityClassName", "training"}}}));
  ASSERT_TRUE(cluster_->wait(10s,
                             [&] {
                               return cluster_->phase("low") == "Checkpointing" &&
                                      cluster_->reason("high") == "WaitingForVictims";
                             }))
      << cluster_->job("low").dump(2) << cluster_->job("high").dump(2);
  EXPECT_EQ(cluster_->pods("low").size(), 4u);
  EXPECT_TRUE(cluster_->wait(6s, [&] {
    return message("high").find("the last to go is pod low-worker-") != std::string::npos;
  })) << message("high");
  const json promised = cluster_->job("high")["status"]["nominated"];
  EXPECT_EQ(promised["pods"].size(), 2u);
  const json asked = disruption("low");
  EXPECT_GE(asked.value("ran", 0), 16) << asked << ": 16 GPUs for more than a second";
  EXPECT_EQ(asked.value("savesWhenAsked", true), false) << asked << ": it has not said so yet";
  muster_->kill();
  muster_ = cluster_->muster();
  ASSERT_TRUE(cluster_->wait_phase("high", "Running", 40s)) << cluster_->job("high").dump(2);
  EXPECT_FALSE(cluster_->job("high")["status"].contains("nominated"));
  EXPECT_EQ(cluster_->job("high")["status"]["assignment"]["pods"][0]["node"], promised["pods"][0]["node"]);
  EXPECT_EQ(cluster_->phase("low"), "Queued");
  EXPECT_EQ(cluster_->job("low")["status"]["preemptions"], 1);
  EXPECT_EQ(disruption("low").value("ran", 0), asked.value("ran", 0)) << "the eviction is counted once";
  EXPECT_TRUE(cluster_->wait(10s, [] { return disruption("low").value("savesWhenAsked", false); }))
      << disruption("low");
  EXPECT_TRUE(has_event("low", "Preempted"));
  EXPECT_TRUE(has_event("high", "Nominated"));
  EXPECT_EQ(cluster_->audit_gpus(), "");
  cluster_->remove(path_of_job("high"));
  ASSERT_TRUE(cluster_->wait_phase("low", "Running", 60s));
  EXPECT_EQ(cluster_->job("low")["status"]["assignment"]["resume"]["step"], 1200);
  EXPECT_EQ(cluster_->audit_gpus(), "");
}

// A finalizer keeps a pod that was told to go: its place is not given out, and everybody can see why.
TEST_F(Yield, APodThatDoesNotDieIsNamedAndItsPlaceIsNotGivenOut) {
  History history(*cluster_, {});
  cluster_->create(low("stuck", 4, 4, "1s"));
  ASSERT_TRUE(cluster_->wait_phase("stuck", "Running"));
  const std::string name = cluster_->pods("stuck")[3]["metadata"]["name"];
  const std::string path = "/api/v1/namespaces/team/pods/" + name;
  cluster_->patch(
      path,
      {{"metadata",
        {{"finalizers", {"test.muster.dev/stay"}}, {"annotations", {{"test.muster.dev/save-for", "1h"}}}}}});
  cluster_->patch(path_of_job("stuck"), {{"spec", {{"checkpoint", {{"gracePeriod", "300s"}}}}}});
  cluster_->create(
      job_object({.name = "high", .replicas = 2, .gpus = 8, .spec = {{"priorityClassName", "training"}}}));
  ASSERT_TRUE(cluster_->wait(20s, [&] { return cluster_->pods("stuck").size() == 1; }));
  EXPECT_EQ(cluster_->get(path)["metadata"]["deletionGracePeriodSeconds"], 300) << "as it is stated now";
  EXPECT_TRUE(cluster_->wait(10s, [&] { return message("high").find(name) != std::string::npos; }))
      << message("high");
  EXPECT_TRUE(cluster_->wait(10s, [&] { return message("stuck").find(name) != std::string::npos; }))
      << message("stuck");
  cluster_->catch_up();
  EXPECT_EQ(cluster_->phase("stuck"), "Checkpointing");
  EXPECT_THAT(pods_ever(history, "muster.dev/job", "high"), testing::IsEmpty());
  cluster_->patch(
      path,
      {{"metadata", {{"finalizers", nullptr}, {"annotations", {{"test.muster.dev/save-for", nullptr}}}}}});
  cluster_->remove(path + "?gracePeriodSeconds=0");
  EXPECT_TRUE(cluster_->wait_phase("high", "Running", 20s)) << cluster_->job("high").dump(2);
  EXPECT_EQ(cluster_->audit_gpus(), "");
}

// A queue that is drained lets go what runs, after a checkpoint, and starts nothing; open again, all goes on.
TEST_F(Yield, ADrainedQueueSavesAndReleasesWhatRuns) {
  const auto admission = [&](const std::string& word) {
    cluster_->apply(
        "{apiVersion: muster.dev/v1alpha1, kind: Queue, metadata: {name: root}, spec: {quota: {gpu: 1000}, "
        "admission: " +
        word + "}}");
  };
  cluster_->create(low("drained", 2, 1, "1s"));
  ASSERT_TRUE(cluster_->wait_phase("drained", "Running"));
  admission("Drain");
  ASSERT_TRUE(cluster_->wait(20s, [&] { return cluster_->reason("drained") == "QueueHeld"; }))
      << cluster_->job("drained").dump(2);
  EXPECT_TRUE(cluster_->pods("drained").empty());
  EXPECT_EQ(cluster_->condition("drained", "Evicted")["reason"], "Drained");
  admission("Open");
  ASSERT_TRUE(cluster_->wait_phase("drained", "Running"));
  EXPECT_EQ(cluster_->job("drained")["status"]["assignment"]["resume"]["step"], 1200);
}

// 4 GPUs save at a time. The next process counts those who still save, and goes on when some have gone.
TEST_F(Yield, ADrainInBatchesGoesOnAfterARestart) {
  const auto admission = [&](const std::string& word) {
    cluster_->apply(
        "{apiVersion: muster.dev/v1alpha1, kind: Queue, metadata: {name: root}, spec: {quota: {gpu: 1000}, "
        "drain: {maxGPUs: 4}, admission: " +
        word + "}}");
  };
  const auto save = [](const std::string& job) {
    for (const auto& pod : cluster_->pods(job)) {
      const std::string name = pod["metadata"]["name"];
      cluster_->remove("/api/v1/namespaces/team/pods/" + name + "?gracePeriodSeconds=0");
    }
  };
  const std::vector<std::string> names = {"d1", "d2", "d3"};
  for (const auto& name : names) cluster_->create(low(name, 1, 2, "1h"));
  for (const auto& name : names) ASSERT_TRUE(cluster_->wait_phase(name, "Running"));
  admission("Drain");
  for (const char* name : {"d2", "d3"})
    ASSERT_TRUE(cluster_->wait_phase(name, "Checkpointing")) << cluster_->job(name).dump(2);
  muster_->kill();
  muster_ = cluster_->muster();
  cluster_->create(low("new", 1, 1, "1s"));
  ASSERT_TRUE(cluster_->wait(30s, [] { return cluster_->reason("new") == "QueueHeld"; })) << "it plans";
  std::this_thread::sleep_for(2s);
  EXPECT_EQ(cluster_->phase("d1"), "Running");
  save("d3");
  EXPECT_TRUE(cluster_->wait_phase("d1", "Checkpointing")) << cluster_->job("d1").dump(2);
  EXPECT_EQ(cluster_->phase("d2"), "Checkpointing");
  for (const auto& name : names) save(name);
  for (const auto& name : names)
    EXPECT_TRUE(cluster_->wait(20s, [&] { return cluster_->reason(name) == "QueueHeld"; })) << name;
  admission("Open");
  for (const auto& name : names) EXPECT_TRUE(cluster_->wait_phase(name, "Running")) << name;
}

// At the end of its time a job may save as well; what it saved is kept.
TEST_F(Yield, MaxRuntimeLeavesTimeToSave) {
  json object = low("long", 2, 1, "2s");
  object["spec"]["maxRuntime"] = "2s";
  cluster_->create(object);
  ASSERT_TRUE(cluster_->wait_phase("long", "Failed", 20s));
  EXPECT_EQ(cluster_->pods("long").size(), 2u) << "they are saving";
  EXPECT_TRUE(cluster_->wait(10s, [&] {
    return cluster_->job("long")["status"].value("/checkpoint/step"_json_pointer, 0) == 1200;
  })) << cluster_->job("long").dump(2);
}

}  // namespace
}  // namespace muster::test
