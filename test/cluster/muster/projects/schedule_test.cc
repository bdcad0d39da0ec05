// Schedules of Queues and Projects, on a real API server and by the clock on the wall.
#include <gmock/gmock.h>

#include <chrono>
#include <ctime>

#include "fixture.h"

namespace muster::test {
namespace {

using testing::HasSubstr;

const std::string kLab = "/apis/muster.dev/v1alpha1/queues/lab";
const std::string kTeam = "/apis/muster.dev/v1alpha1/projects/lab-team";

class Schedules : public OneCluster {
 protected:
  static void SetUpTestSuite() {
    cluster_ = Cluster::start(1, 8);
    muster_ = cluster_->muster();
    cluster_->apply(R"(
apiVersion: muster.dev/v1alpha1
kind: Queue
metadata: {name: lab}
spec: {parent: root, quota: {gpu: 8}, limit: {gpu: 1}}
---
apiVersion: muster.dev/v1alpha1
kind: Project
metadata: {name: lab-team}
spec: {queue: lab, quota: {gpu: 1}}
)");
    ASSERT_TRUE(cluster_->wait_namespace("lab-team"));
  }

  // The cron expression of a minute that is at least 5 s ahead, and when it begins.
  struct Soon {
    std::string cron;
    std::time_t begins;
  };
  static Soon soon() {
    const std::time_t begins = (std::time(nullptr) + 5 + 59) / 60 * 60;
    std::tm utc{};
    gmtime_r(&begins, &utc);
    return {std::to_string(utc.tm_min) + " " + std::to_string(utc.tm_hour) + " * * *", begins};
  }
  static std::string written(std::time_t time) {
    std::tm utc{};
    gmtime_r(&time, &utc);
    char text[32];
    return {text, std::strftime(text, sizeof text, "%Y-%m-%dT%H:%M:%SZ", &utc)};
  }
  static void schedule(const std::string& path, const json& schedules) {
    cluster_->patch(path, {{"spec", {{"schedules", schedules}}}});
  }
  static std::string next_change(const std::string& path) {
    const json object = cluster_->get(path);
    return object.value("/status/nextChange/message"_json_pointer, std::string());
  }
  static std::string status_of(const std::string& path, const std::string& type) {
    const json condition = cluster_->condition_of(path, type);
    return condition.is_null() ? "" : condition["status"].get<std::string>();
  }
  static json in_lab(const std::string& name, int gpus) {
    return job_object({.name = name, .ns = "lab-team", .gpus = gpus});
  }
};

TEST_F(Schedules, ALimitHoldsForItsTimeAndIsTakenBack) {
  const Soon start = soon();
  schedule(kLab, {{{"start", start.cron}, {"duration", "20s"}, {"set", {{"limit", {{"gpu", 4}}}}}}});
  cluster_->create(in_lab("big", 4));
  ASSERT_TRUE(cluster_->wait(20s, [] { return cluster_->reason("big", "lab-team") == "LimitReached"; }))
      << cluster_->job("big", "lab-team").dump(2);
  ASSERT_TRUE(cluster_->wait(20s, [] { return next_change(kLab) == "limit.gpu 4 (now 1)"; }))
      << cluster_->get(kLab).dump(2);
  ASSERT_TRUE(cluster_->wait_phase("big", "Running", 90s, "lab-team"))
      << cluster_->job("big", "lab-team").dump(2);
  EXPECT_GE(std::time(nullptr), start.begins) << "not before its time";
  EXPECT_LE(std::time(nullptr), start.begins + 15) << "at its instant, not when something else happens";
  EXPECT_TRUE(cluster_->wait(15s, [] { return status_of(kLab, "ScheduleInForce") == "True"; }))
      << cluster_->get(kLab).dump(2);
  EXPECT_THAT(cluster_->condition_of(kLab, "ScheduleInForce")["message"].get<std::string>(),
              HasSubstr("spec.schedules[0]: limit.gpu 4 (otherwise 1)"));
  // When it is over, what runs stays, and what comes waits.
  ASSERT_TRUE(cluster_->wait(40s, [] { return status_of(kLab, "ScheduleInForce") == "False"; }))
      << cluster_->get(kLab).dump(2);
  cluster_->create(in_lab("next", 1));
  ASSERT_TRUE(cluster_->wait(20s, [] { return cluster_->reason("next", "lab-team") == "LimitReached"; }));
  EXPECT_EQ(cluster_->phase("big", "lab-team"), "Running");
  schedule(kLab, nullptr);
}

TEST_F(Schedules, DrainLetsGoOfWhatRunsAndGivesItBack) {
  schedule(kLab, nullptr);
  cluster_->create(in_lab("runs", 1));
  ASSERT_TRUE(cluster_->wait_phase("runs", "Running", 30s, "lab-team"));
  schedule(kLab, {{{"start", soon().cron}, {"duration", "15s"}, {"set", {{"admission", "Drain"}}}}});
  ASSERT_TRUE(cluster_->wait(90s, [] { return cluster_->reason("runs", "lab-team") == "QueueHeld"; }))
      << cluster_->job("runs", "lab-team").dump(2);
  EXPECT_EQ(cluster_->condition("runs", "Evicted", "lab-team")["reason"], "Drained");
  EXPECT_TRUE(cluster_->wait_phase("runs", "Running", 60s, "lab-team"))
      << cluster_->job("runs", "lab-team").dump(2);
  schedule(kLab, nullptr);
}

// By a schedule of its own; and people see how far it is.
TEST_F(Schedules, AProjectIsDrainedByItselfAndSaysHowFarItIs) {
  schedule(kLab, nullptr);
  cluster_->patch(kLab, {{"spec", {{"limit", {{"gpu", 8}}}}}});
  json saves = job_object(
      {.name = "saves",
       .ns = "lab-team",
       .gpus = 2,
       .pod_annotations = {{"test.muster.dev/save-for", "8s"},
                           {"test.muster.dev/termination-message", R"({"checkpoint":{"step":7}})"}},
       .spec = {{"checkpoint", {{"gracePeriod", "30s"}}}}});
  cluster_->create(saves);
  cluster_->create(in_lab("plain", 1));
  cluster_->create(job_object({.name = "beside"}));
  ASSERT_TRUE(cluster_->wait_phase("saves", "Running", 30s, "lab-team"));
  ASSERT_TRUE(cluster_->wait_phase("plain", "Running", 30s, "lab-team"));
  ASSERT_TRUE(cluster_->wait_phase("beside", "Running", 30s));
  const auto drain = [] { return cluster_->get(kTeam).value("/status/drain"_json_pointer, json::object()); };
  schedule(kTeam, {{{"start", soon().cron}, {"duration", "25s"}, {"set", {{"admission", "Drain"}}}}});
  ASSERT_TRUE(cluster_->wait(90s, [&] { return drain().value("saving", 0) > 0; }))
      << cluster_->get(kTeam).dump(2);
  EXPECT_EQ(drain().value("running", 0), 0) << drain();
  ASSERT_TRUE(cluster_->wait(30s, [&] {
    return drain().value("saved", 0) + drain().value("unsaved", 0) == 2;
  })) << cluster_->get(kTeam).dump(2);
  EXPECT_EQ(drain().value("saved", 0), 1) << drain();
  EXPECT_EQ(drain()["gpu"], "0");
  EXPECT_FALSE(drain().value("startedAt", "").empty());
  EXPECT_EQ(cluster_->condition("saves", "Evicted", "lab-team")["reason"], "Drained");
  EXPECT_EQ(cluster_->reason("saves", "lab-team"), "QueueHeld");
  EXPECT_EQ(cluster_->phase("beside"), "Running");
  const auto events = [] {
    const auto got = cluster_->real().kubectl({"get", "events.events.k8s.io", "-A", "-o", "json"});
    std::string all;
    for (const json& event : json::parse(got->out)["items"]) {
      if (event.value("/regarding/name"_json_pointer, "") == "lab-team")
        all += event["reason"].get<std::string>() + ": " + event.value("note", "") + "\n";
    }
    return all;
  };
  EXPECT_TRUE(cluster_->wait(20s, [&] { return events().find("Drained: ") != std::string::npos; }))
      << events();
  EXPECT_THAT(events(), HasSubstr("Draining: admission is Drain"));
  // When it is over nothing is said any more, and they run on.
  ASSERT_TRUE(cluster_->wait_phase("saves", "Running", 60s, "lab-team"))
      << cluster_->job("saves", "lab-team").dump(2);
  EXPECT_TRUE(cluster_->wait(20s, [&] { return drain().empty(); })) << drain();
  schedule(kTeam, nullptr);
}

TEST_F(Schedules, AJobThatWouldBeDrainedWaitsAndIsToldUntilWhen) {
  const Soon start = soon();
  schedule(kLab, {{{"start", start.cron}, {"duration", "15s"}, {"set", {{"admission", "Drain"}}}}});
  ASSERT_TRUE(cluster_->wait(20s, [] {
    return next_change(kLab).find("admission Drain") != std::string::npos;
  })) << cluster_->get(kLab).dump(2);
  json job = in_lab("long", 1);
  job["spec"]["maxRuntime"] = "10m";
  cluster_->create(job);
  ASSERT_TRUE(cluster_->wait(20s, [] { return cluster_->reason("long", "lab-team") == "Reserved"; }))
      << cluster_->job("long", "lab-team").dump(2);
  const std::time_t ends = start.begins + 15;
  const json queue = cluster_->job("long", "lab-team")["status"]["queue"];
  EXPECT_EQ(queue.value("estimatedStart", ""), written((ends + 59) / 60 * 60)) << "it is told to the minute";
  EXPECT_THAT(queue["message"].get<std::string>(),
              HasSubstr("Queue lab lets go of what runs from then until " + written(ends)));
  EXPECT_EQ(queue["blocking"][0]["by"], json({"Queue lab"}));
  ASSERT_TRUE(cluster_->wait_phase("long", "Running", 120s, "lab-team"))
      << cluster_->job("long", "lab-team").dump(2);
  EXPECT_GE(std::time(nullptr), ends);
  EXPECT_EQ(cluster_->job("long", "lab-team")["status"].value("attempt", 0), 1) << "it was never stopped";
  schedule(kLab, nullptr);
}

TEST_F(Schedules, AnEntryThatCannotCountIsNamedAndAllElseHolds) {
  schedule(kTeam, {{{"start", "* * * * *"}, {"duration", "1h"}, {"set", {{"quota", {{"gpu", 2}}}}}},
                   {{"start", "0 20 * * *"},
                    {"duration", "1h"},
                    {"timeZone", "Europe/Pariss"},
                    {"set", {{"quota", {{"gpu", 5}}}}}}});
  ASSERT_TRUE(cluster_->wait(30s, [] { return status_of(kTeam, "SchedulesValid") == "False"; }))
      << cluster_->get(kTeam).dump(2);
  EXPECT_THAT(cluster_->condition_of(kTeam, "SchedulesValid")["message"].get<std::string>(),
              HasSubstr("spec.schedules[1].timeZone: must be a name of the IANA time zone database"));
  EXPECT_EQ(status_of(kTeam, "ScheduleInForce"), "True");
  EXPECT_EQ(status_of(kTeam, "Accepted"), "True");
  schedule(kTeam, nullptr);
  EXPECT_TRUE(cluster_->wait(30s, [] { return status_of(kTeam, "SchedulesValid") == "True"; }));
}

}  // namespace
}  // namespace muster::test
