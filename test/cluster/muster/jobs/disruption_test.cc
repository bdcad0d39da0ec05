// What a disturbance may cost, live (RULES.md 5.11): nobody without a right to it is served at once.
#include <gmock/gmock.h>

#include <chrono>
#include <cstdlib>
#include <set>

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
  static json on(const std::string& node, json one) {
    one["spec"]["preemptible"] = false;
    one["spec"]["roles"][0]["template"]["spec"]["nodeSelector"] = {{"kubernetes.io/hostname", node}};
    return one;
  }
};

std::int64_t seconds_of(const json& text) {
  const auto time = crds::parse_time(text.is_string() ? text.get<std::string>() : std::string());
  return time ? std::chrono::floor<std::chrono::seconds>(*time).time_since_epoch().count() : 0;
}

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
  EXPECT_GE(seconds_of(next["status"]["assignment"]["admittedAt"]) -
                seconds_of(next["metadata"]["creationTimestamp"]),
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

// A gang of one could grow by the 6 GPUs that come free. A change of its size takes it 30 s, as far as is
// known, and has to pay four times over: 4 x 1 GPU x 30 s are 6 GPUs for 20 s. Then it takes all of them in
// one change.
TEST_F(Disruption, AGangGrowsWhenThatPaysAndInOneChange) {
  json grows = job("team", "grows", 1);
  grows["spec"]["elastic"] = {{"resize", "InPlace"}, {"growAfter", "1s"}};
  json& role = grows["spec"]["roles"][0];
  role.erase("replicas");
  role["minReplicas"] = 1;
  role["maxReplicas"] = 7;
  for (const json& one : {on("node-0", job("team", "f1", 1)), on("node-0", job("team", "gone", 6)),
                          on("node-1", job("team", "f2", 8)), grows}) {
    cluster_->create(one);
    ASSERT_TRUE(cluster_->wait_phase(one["metadata"]["name"], "Running", 30s));
  }
  const auto size = [] { return cluster_->pods("grows").size(); };
  ASSERT_EQ(size(), 1U);
  cluster_->remove(path_of_job("gone"));
  ASSERT_TRUE(cluster_->wait(30s, [] { return cluster_->pods("gone").empty(); }));
  const auto free_since = std::chrono::steady_clock::now();
  std::set<std::size_t> sizes;
  ASSERT_TRUE(cluster_->wait(60s, [&] {
    sizes.insert(static_cast<std::size_t>(
        cluster_->job("grows")["status"]["assignment"].value("pods", json::array()).size()));
    return size() == 7;
  })) << cluster_->job("grows").dump(2);
  // What was seen of the removal came a little later than the room.
  EXPECT_GE(std::chrono::steady_clock::now() - free_since, 17s);
  EXPECT_TRUE(sizes.contains(1) && sizes.size() <= 2) << sizes.size() << " sizes";
  EXPECT_EQ(cluster_->audit_gpus(), "");
}

// S40. `lender` lends its quota to what ends within a minute, though that is not preemptible. It has it back
// at the end that the borrower has stated, and its estimate says so; what runs for longer never gets it.
TEST_F(Disruption, WhatIsLentComesBackAtTheEndThatWasStated) {
  const auto quota = [](const char* project, const std::string& spec) {
    cluster_->apply(R"({apiVersion: muster.dev/v1alpha1, kind: Project, metadata: {name: )" +
                    std::string(project) + "}, spec: {queue: root, " + spec + "}}");
  };
  quota("team", "quota: {gpu: 8}");
  quota("lender", "quota: {gpu: 8}, lending: {nonPreemptible: {maxRuntime: 1m}}");
  const auto ends_after = [](const char* name, const char* limit) {
    json one = on("node-1", job("team", name, 8));
    one["spec"]["maxRuntime"] = limit;
    return one;
  };
  cluster_->create(on("node-0", job("team", "own", 8)));
  ASSERT_TRUE(cluster_->wait_phase("own", "Running", 30s));
  cluster_->create(ends_after("long", "2m"));
  ASSERT_TRUE(cluster_->wait(30s, [] { return cluster_->reason("long") == "QuotaExceeded"; }))
      << cluster_->job("long").dump(2);
  cluster_->create(ends_after("short", "30s"));
  ASSERT_TRUE(cluster_->wait_phase("short", "Running", 30s)) << cluster_->job("short").dump(2);
  cluster_->create(job("lender", "back", 8));
  ASSERT_TRUE(cluster_->wait(20s, [] {
    return cluster_->job("back", "lender").contains("/status/queue/estimatedStart"_json_pointer);
  })) << cluster_->job("back", "lender").dump(2);
  const std::int64_t end = seconds_of(cluster_->job("short")["status"]["assignment"]["admittedAt"]) + 30;
  const std::int64_t told = seconds_of(cluster_->job("back", "lender")["status"]["queue"]["estimatedStart"]);
  EXPECT_LE(std::abs(told - (end + 59) / 60 * 60), 60) << "it is told to the minute";
  ASSERT_TRUE(cluster_->wait_phase("back", "Running", 60s, "lender"));
  EXPECT_EQ(cluster_->phase("short"), "Failed");
  EXPECT_GE(seconds_of(cluster_->job("back", "lender")["status"]["assignment"]["admittedAt"]), end);
  EXPECT_EQ(cluster_->phase("long"), "Queued");
  EXPECT_EQ(cluster_->audit_gpus(), "");
  quota("lender", "quota: {gpu: 0}");
  quota("team", "quota: {gpu: 16}");
}

}  // namespace
}  // namespace muster::test
