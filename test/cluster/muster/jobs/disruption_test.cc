// What a disturbance may cost, live (RULES.md 5.11): nobody without a right to it is served at once.
#include <gmock/gmock.h>

#include <chrono>

#include "fixture.h"
#include "muster/crds/time.h"

namespace muster::test {
namespace {

using testing::HasSubstr;

// Two nodes of 8 GPUs. `team` has a quota of 16; `lender` and `borrower` have none.
class Disruption : public OneCluster {
 protected:
  static void SetUpTestSuite() {
    cluster_ = Cluster::start(2, 8, {}, 16);
    cluster_->make_namespace("lender", "lender");
    cluster_->make_namespace("borrower", "borrower");
    cluster_->apply(R"(
{apiVersion: muster.dev/v1alpha1, kind: Queue, metadata: {name: root},
 spec: {quota: {gpu: 16}, disruption: {maxOverhead: 50, patience: 15s}}}
---
{apiVersion: muster.dev/v1alpha1, kind: Project, metadata: {name: lender}, spec: {queue: root, quota: {gpu: 0}}}
---
{apiVersion: muster.dev/v1alpha1, kind: Project, metadata: {name: borrower}, spec: {queue: root, quota: {gpu: 0}}}
)");
    muster_ = cluster_->muster();
  }

  // It states that it saves. `report`: what it says of it at its end.
  static json job(const std::string& ns, const std::string& name, int gpus, const char* report = "") {
    return job_object({.name = name,
                       .ns = ns,
                       .gpus = gpus,
                       .pod_annotations = {{"test.muster.dev/save-for", "1s"},
                                           {"test.muster.dev/termination-message", report}},
                       .spec = {{"checkpoint", {{"gracePeriod", "2s"}}}}});
  }
  static json disruption(const std::string& name, const std::string& ns) {
    return cluster_->job(name, ns).value("/status/disruption"_json_pointer, json::object());
  }
  static std::string message(const std::string& name, const std::string& ns) {
    return cluster_->job(name, ns).value("/status/queue/message"_json_pointer, std::string());
  }
};

// `borrower` is within its fair share, and beyond its quota: it waits for as long as the Queue says, and is
// told. Who gives way says that it saves, and does not: when its pods have gone, its work counts as lost.
TEST_F(Disruption, AFairShareIsOwedAfterPatience) {
  for (const char* name : {"x", "y"}) cluster_->create(job("lender", name, 8));
  for (const char* name : {"x", "y"}) ASSERT_TRUE(cluster_->wait_phase(name, "Running", 30s, "lender"));
  cluster_->create(job("borrower", "next", 8));
  ASSERT_TRUE(cluster_->wait(10s, [] { return !message("next", "borrower").empty(); }));
  EXPECT_THAT(message("next", "borrower"), HasSubstr("its fair share is owed to it from"));
  ASSERT_TRUE(cluster_->wait_phase("next", "Running", 60s, "borrower"))
      << cluster_->job("next", "borrower").dump(2);
  const json next = cluster_->job("next", "borrower");
  const auto seconds = [](const json& text) {
    const auto time = crds::parse_time(text.get<std::string>());
    return time ? std::chrono::floor<std::chrono::seconds>(*time).time_since_epoch().count() : 0;
  };
  EXPECT_GE(
      seconds(next["status"]["assignment"]["admittedAt"]) - seconds(next["metadata"]["creationTimestamp"]),
      15);
  const std::string victim = cluster_->phase("x", "lender") == "Queued" ? "x" : "y";
  const json price = disruption(victim, "lender");
  EXPECT_EQ(price.value("savesWhenAsked", true), false) << price;
  EXPECT_GE(price.value("lostOwed", 0), 8 * 15) << price << ": since it began to run";
  const json status = cluster_->job(victim, "lender")["status"];
  EXPECT_EQ(status["disruptions"][0]["cost"], price["lostOwed"]) << status;
  EXPECT_FALSE(status.contains("startedAt")) << status;
  EXPECT_EQ(disruption(victim, "lender").value("lostOptional", 0), 0);
  EXPECT_EQ(cluster_->audit_gpus(), "");
}

// What is free stands in two pieces, and nobody has a right to have `small` moved: it is moved when the room
// has idled for as long as that costs, and its status has the price. Another process goes on from there.
TEST_F(Disruption, AMoveForABorrowerHappensWhenItPays) {
  const auto on = [](const std::string& node, json one) {
    one["spec"]["preemptible"] = false;
    one["spec"]["roles"][0]["template"]["spec"]["nodeSelector"] = {{"kubernetes.io/hostname", node}};
    return one;
  };
  for (const json& one :
       {on("node-0", job("team", "f1", 6)), on("node-0", job("team", "gone", 2)),
        on("node-1", job("team", "f2", 4)), job("team", "small", 2, R"({"checkpoint":{"step":7}})")}) {
    cluster_->create(one);
    ASSERT_TRUE(cluster_->wait_phase(one["metadata"]["name"], "Running", 30s));
  }
  cluster_->remove(path_of_job("gone"));
  ASSERT_TRUE(cluster_->wait(30s, [] { return cluster_->pods("gone").empty(); }));
  const json before = cluster_->job("small")["status"]["assignment"]["pods"][0];
  ASSERT_EQ(before["node"], "node-1");
  cluster_->create(job("borrower", "next", 4));
  ASSERT_TRUE(cluster_->wait_phase("next", "Running", 60s, "borrower"))
      << cluster_->job("next", "borrower").dump(2);
  ASSERT_TRUE(cluster_->wait_phase("small", "Running", 30s));
  EXPECT_NE(cluster_->job("small")["status"]["assignment"]["pods"][0]["node"], before["node"]);
  const json price = disruption("small", "team");
  EXPECT_GT(price.value("lostOptional", 0), 0) << price;
  EXPECT_GE(price.value("ran", 0) * 50, price.value("lostOptional", 0) * 100 - 100) << price << ": the bound";
  muster_->kill();
  muster_ = cluster_->muster();
  cluster_->catch_up();
  EXPECT_EQ(disruption("small", "team"), price);
  EXPECT_EQ(cluster_->phase("small"), "Running");
  EXPECT_EQ(cluster_->audit_gpus(), "");
}

}  // namespace
}  // namespace muster::test
