// Jobs that depend on others (spec.dependsOn), on a real API server.
#include <gmock/gmock.h>

#include "fixture.h"

namespace muster::test {
namespace {

using testing::HasSubstr;

class Dependencies : public OneCluster {
 protected:
  static void SetUpTestSuite() {
    cluster_ = Cluster::start(1, 8);
    muster_ = cluster_->muster();
  }

  static json after(const std::string& name, const json& depends_on, const std::string& runs_for = "1h",
                    json spec = json::object()) {
    if (!depends_on.empty()) spec["dependsOn"] = depends_on;
    return job_object(
        {.name = name, .pod_annotations = {{"test.muster.dev/runs-for", runs_for}}, .spec = std::move(spec)});
  }
  static json on(std::initializer_list<const char*> names) {
    json list = json::array();
    for (const char* name : names) list.push_back({{"name", name}});
    return list;
  }
  static bool waits_for(const std::string& name, const std::string& reason) {
    return cluster_->wait(15s, [&] { return cluster_->reason(name) == reason; });
  }
  static std::string message(const std::string& name) {
    return cluster_->job(name).value("/status/queue/message"_json_pointer, std::string());
  }
};

TEST_F(Dependencies, AJobWaitsUntilTheOtherIsCompleteAlsoIfThatIsDeletedAtOnce) {
  cluster_->create(after("train", on({"prep"})));
  ASSERT_TRUE(waits_for("train", "DependencyNotFound")) << cluster_->job("train").dump(2);
  EXPECT_THAT(message("train"), HasSubstr("TrainingJob prep has to be Complete, and does not exist"));
  EXPECT_EQ(cluster_->condition("train", "Stalled")["status"], "False");
  EXPECT_EQ(cluster_->job("train")["status"]["queue"].value("position", 0), 0);

  // Deleted as soon as it is Complete: but not before `train` has seen that.
  cluster_->create(after("prep", {}, "3s", {{"ttlAfterFinished", "0s"}}));
  ASSERT_TRUE(waits_for("train", "DependencyNotComplete"));
  EXPECT_TRUE(cluster_->pods("train").empty());
  ASSERT_TRUE(cluster_->wait_phase("train", "Running")) << cluster_->job("train").dump(2);
  EXPECT_TRUE(cluster_->wait(15s, [] { return cluster_->job("prep").is_null(); }));
  EXPECT_FALSE(cluster_->job("train")["status"].contains("metDependencies"));
  // Admitted once, it looks no more: not after a suspension either.
  cluster_->patch(path_of_job("train"), {{"spec", {{"suspend", true}}}});
  ASSERT_TRUE(cluster_->wait_phase("train", "Suspended"));
  cluster_->patch(path_of_job("train"), {{"spec", {{"suspend", false}}}});
  EXPECT_TRUE(cluster_->wait_phase("train", "Running"));
}

TEST_F(Dependencies, WhatWasSeenIsRememberedOverARestartOfMuster) {
  cluster_->create(after("slow", {}));
  cluster_->create(after("quick", {}, "1s"));
  cluster_->create(after("train", on({"quick", "slow"})));
  ASSERT_TRUE(cluster_->wait(20s, [] {
    return cluster_->job("train").value("/status/metDependencies"_json_pointer, json()) ==
           json::parse(R"([{"name": "quick", "condition": "Complete"}])");
  })) << cluster_->job("train").dump(2);
  cluster_->remove(path_of_job("quick"));
  muster_->kill();
  muster_ = cluster_->muster();
  cluster_->patch(path_of_job("train"), {{"spec", {{"dependsOn", on({"quick"})}}}});
  EXPECT_TRUE(cluster_->wait_phase("train", "Running")) << cluster_->job("train").dump(2);
}

TEST_F(Dependencies, AFailedOneIsWaitedForUntilItIsMadeAnew) {
  cluster_->create(after("prep", {}, "1h", {{"maxRuntime", "1s"}}));
  cluster_->create(after("train", on({"prep"})));
  cluster_->create(after("tidy", json::parse(R"([{"name": "prep", "condition": "Finished"}])")));
  ASSERT_TRUE(waits_for("train", "DependencyFailed")) << cluster_->job("train").dump(2);
  EXPECT_THAT(message("train"), HasSubstr("has Failed (MaxRuntimeExceeded): delete it and make it anew"));
  EXPECT_TRUE(cluster_->wait_phase("tidy", "Running")) << cluster_->job("tidy").dump(2);
  cluster_->remove(path_of_job("prep"));
  ASSERT_TRUE(waits_for("train", "DependencyNotFound"));
  cluster_->create(after("prep", {}, "1s"));
  EXPECT_TRUE(cluster_->wait_phase("train", "Running")) << cluster_->job("train").dump(2);
}

TEST_F(Dependencies, ACircleStallsAllInItUntilOneIsEdited) {
  EXPECT_EQ(cluster_->try_create(after("self", on({"self"}))).status, 422);
  cluster_->create(after("a", on({"b"}), "1s"));
  cluster_->create(after("b", on({"c"}), "1s"));
  cluster_->create(after("c", on({"a"}), "1s"));
  for (const char* name : {"a", "b", "c"}) {
    ASSERT_TRUE(waits_for(name, "DependencyCycle")) << cluster_->job(name).dump(2);
    EXPECT_EQ(cluster_->condition(name, "Stalled")["status"], "True");
  }
  EXPECT_THAT(message("a"), HasSubstr("a -> b -> c -> a"));
  cluster_->patch(path_of_job("c"), {{"spec", {{"dependsOn", nullptr}}}});
  EXPECT_TRUE(cluster_->wait_phase("a", "Succeeded", 40s)) << cluster_->job("a").dump(2);
  EXPECT_EQ(cluster_->condition("a", "Stalled")["status"], "False");
}

}  // namespace
}  // namespace muster::test
