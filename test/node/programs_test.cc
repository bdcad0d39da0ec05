// Real programs in real containers: what KWOK can only pretend.
#include <gmock/gmock.h>

#include <set>

#include "fixture.h"

namespace muster::test {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;

// What train.py comes to after 60 steps.
constexpr const char* kHashOf60 = "873414c1169727e6f2e8da3e1b9ad647d4474bcad936f5ab22806c523907f925";

class Programs : public Node {
 protected:
  static std::vector<std::string> values(const std::string& job, const std::string& what) {
    std::vector<std::string> result;
    for (const TrainEvent& event : nodes_->events(job, what)) result.push_back(event.value);
    return result;
  }
  static int last_step(const std::string& job) {
    const auto steps = nodes_->events(job, "step");
    return steps.empty() ? 0 : steps.back().step();
  }
  // Is in that attempt, has computed something there, and all its pods hear a signal.
  static bool wait_steps(const std::string& job, int attempt, int steps = 5) {
    return cluster().wait(60s, [&] {
      const auto all = nodes_->events(job, "step");
      return std::ranges::count(all, attempt, &TrainEvent::attempt) >= steps &&
             cluster().phase(job) == "Running";
    });
  }
  // A job of who is guaranteed these GPUs.
  static void claim(const std::string& name, int gpus,
                    const std::map<std::string, std::string>& environment) {
    cluster().create(nodes_->train_job({.name = name, .ns = "owner", .gpus = gpus}, environment));
  }
  static bool wait_claim(const std::string& name) {
    return cluster().wait_phase(name, "Succeeded", 60s, "owner");
  }
  static std::string say(const std::string& job) { return cluster().job(job).dump(2); }
};

TEST_F(Programs, OneRunsToItsKnownEndOnTheGpusThatMusterCounted) {
  cluster().create(nodes_->train_job({.name = "train", .replicas = 2, .gpus = 2}, {{"STEPS", "60"}}));
  ASSERT_TRUE(cluster().wait_phase("train", "Succeeded", 60s)) << say("train");
  EXPECT_THAT(values("train", "done"), ElementsAre(kHashOf60));
  // The kubelet has picked them, and no GPU twice.
  std::set<std::string> gpus;
  for (const TrainEvent& event : nodes_->events("train", "gpus")) {
    std::istringstream list(event.value);
    for (std::string id; std::getline(list, id, ',');) gpus.insert(id);
  }
  EXPECT_THAT(gpus, ElementsAre("GPU-real-0-0", "GPU-real-0-1", "GPU-real-0-2", "GPU-real-0-3"));
  EXPECT_EQ(cluster().job("train")["status"]["attempt"], 1);
}

// Its owner takes the node back, then half of it, then all again: three ways out by SIGTERM, and each time
// the job goes on from what it has saved then.
TEST_F(Programs, OneThatIsReclaimedTwiceAndShrunkOnceComesToTheSameEnd) {
  json job =
      nodes_->train_job({.name = "long", .spec = {{"elastic", {{"resize", "Restart"}, {"growAfter", "1s"}}}}},
                        {{"STEPS", "350"}, {"SAVE_EVERY", "70"}});
  json& role = job["spec"]["roles"][0];
  role.erase("replicas");
  role["minReplicas"] = 2;
  role["maxReplicas"] = 4;
  cluster().create(job);
  const auto size = [] { return cluster().job("long")["status"].value("replicas", 0); };

  ASSERT_TRUE(wait_steps("long", 1)) << say("long");
  EXPECT_EQ(size(), 4);
  claim("takes-all", 4, {{"STEPS", "10"}});
  ASSERT_TRUE(wait_claim("takes-all")) << say("long");

  ASSERT_TRUE(wait_steps("long", 2)) << say("long");
  EXPECT_EQ(size(), 4);
  claim("takes-half", 2, {{"STEPS", "400"}});
  ASSERT_TRUE(wait_steps("long", 3)) << say("long");
  EXPECT_EQ(size(), 2);
  EXPECT_TRUE(cluster().wait_phase("takes-half", "Running", 30s, "owner"));
  EXPECT_EQ(cluster().job("long")["status"]["preemptions"], 1) << "it shrank, and kept its place in line";
  cluster().remove(path_of_job("takes-half", "owner"));

  // It grows again at once, and not when that has paid several times over.
  const auto overhead = [](const json& most) {
    cluster().patch("/apis/muster.dev/v1alpha1/queues/root",
                    {{"spec", {{"disruption", {{"maxOverhead", most}}}}}});
  };
  overhead(100);
  ASSERT_TRUE(wait_steps("long", 4)) << say("long");
  EXPECT_EQ(size(), 4) << "grown again";
  overhead(nullptr);
  // An undisturbed run of as many steps.
  claim("undisturbed", 4, {{"STEPS", "350"}, {"STEP_SECONDS", "0"}, {"SAVE_EVERY", "1000"}});
  ASSERT_TRUE(wait_claim("undisturbed")) << say("long");

  ASSERT_TRUE(cluster().wait_phase("long", "Succeeded", 90s)) << say("long");
  EXPECT_EQ(values("long", "done"), values("undisturbed", "done"));
  EXPECT_EQ(lost_work(nodes_->events("long")), "");
  EXPECT_EQ(values("long", "step").size(), 350u) << "each step once: every time it was told in time";
  const json status = cluster().job("long")["status"];
  EXPECT_EQ(status["attempt"], 5);
  EXPECT_EQ(status["preemptions"], 2);
  EXPECT_EQ(status.value("/restarts/count"_json_pointer, 0), 0) << "nothing of it was the program's fault";
}

TEST_F(Programs, AGangIsRunningOnceItIsReadyNotOnceItHasStarted) {
  cluster().create(nodes_->train_job({.name = "slow"}, {{"STEPS", "3"}, {"START_SECONDS", "2"}}));
  ASSERT_TRUE(cluster().wait(30s, [&] {
    const auto pods = cluster().pods("slow");
    return !pods.empty() && pods[0]["status"].value("phase", "") == "Running";
  }));
  EXPECT_EQ(cluster().phase("slow"), "Starting");
  ASSERT_TRUE(cluster().wait_phase("slow", "Succeeded")) << say("slow");
}

// Four in one node that its owner takes back while three of them run; what each loses is its own fault, and
// no more than that.
TEST_F(Programs, WhatTheyDoWrongCostsThemNoMoreThanItMust) {
  const auto checkpoint = [](int grace) {
    return json{{"checkpoint", {{"gracePeriod", std::to_string(grace) + "s"}}},
                {"restart", {{"limit", 1}, {"window", "1h"}}}};
  };
  cluster().create(nodes_->train_job({.name = "crashes", .spec = checkpoint(5)},
                                     {{"STEPS", "60"}, {"CRASH_AT", "30"}, {"CRASH_TIMES", "9"}}));
  cluster().create(nodes_->train_job({.name = "deaf", .spec = checkpoint(3)},
                                     {{"STEPS", "300"}, {"SAVE_EVERY", "10"}, {"IGNORE_TERM", "1"}}));
  // It has saved once, in its own time, and then has a second less than it needs.
  cluster().create(nodes_->train_job({.name = "tardy", .spec = checkpoint(2)},
                                     {{"STEPS", "150"}, {"SAVE_EVERY", "100"}, {"SAVE_SECONDS", "3"}}));
  cluster().create(
      nodes_->train_job({.name = "stumbles", .spec = checkpoint(5)}, {{"STEPS", "60"}, {"CRASH_AT", "30"}}));
  ASSERT_TRUE(cluster().wait_phase("crashes", "Failed", 60s)) << say("crashes");
  EXPECT_EQ(cluster().job("crashes")["status"]["attempt"], 2);
  EXPECT_THAT(cluster().condition("crashes", "Failed")["message"].get<std::string>(),
              HasSubstr("exit code 3"));
  EXPECT_EQ(lost_work(nodes_->events("crashes")), "");
  ASSERT_TRUE(cluster().wait_phase("stumbles", "Succeeded", 60s)) << say("stumbles");
  EXPECT_THAT(values("stumbles", "start"), ElementsAre("0", "20"));
  EXPECT_THAT(values("stumbles", "done"), ElementsAre(kHashOf60));

  ASSERT_TRUE(cluster().wait(60s, [] { return last_step("tardy") > 100; })) << say("tardy");
  claim("takes-back", 4, {{"STEPS", "10"}});
  ASSERT_TRUE(cluster().wait(60s, [] {
    const json warning = cluster().condition("tardy", "GracePeriodTooShort");
    return !warning.is_null() && warning["status"] == "True";
  })) << say("tardy");
  const std::string warned = cluster().condition("tardy", "GracePeriodTooShort")["message"];
  EXPECT_THAT(warned, HasSubstr("pods get 2 s"));
  EXPECT_THAT(warned, HasSubstr("took 3 s or more"));
  // Done as it says.
  cluster().patch(path_of_job("tardy"), {{"spec", {{"checkpoint", {{"gracePeriod", "6s"}}}}}});
  EXPECT_TRUE(cluster().wait(
      10s, [] { return cluster().condition("tardy", "GracePeriodTooShort")["status"] == "False"; }));
  ASSERT_TRUE(wait_claim("takes-back"));

  ASSERT_TRUE(cluster().wait_phase("tardy", "Succeeded", 60s)) << say("tardy");
  EXPECT_THAT(values("tardy", "start"), ElementsAre("0", "100"));
  EXPECT_EQ(lost_work(nodes_->events("tardy")), "");
  ASSERT_TRUE(cluster().wait_phase("deaf", "Succeeded", 60s)) << say("deaf");
  EXPECT_EQ(lost_work(nodes_->events("deaf")), "");
  const int resumed = std::stoi(values("deaf", "start").back());
  EXPECT_GT(resumed, 0) << "it had saved, though not when told to";
  EXPECT_EQ(resumed % 10, 0);
  for (const char* job : {"deaf", "tardy"}) {
    const json status = cluster().job(job)["status"];
    EXPECT_EQ(status["attempt"], 2) << status.dump(2);
    EXPECT_EQ(status["preemptions"], 1);
    EXPECT_EQ(status.value("/restarts/count"_json_pointer, 0), 0)
        << "killed by the kubelet is no fault of the program";
  }
}

// The kubelet gives one GPU to the pod that holds it, and that pod tells which: so who shares it sees that
// one, and who has whole ones the others.
TEST_F(Programs, ThoseWhoShareAGpuSeeTheOneThatIsHeldForThem) {
  for (const char* name : {"half-a", "half-b"}) {
    json job = nodes_->train_job({.name = name, .gpus = 0}, {{"STEPS", "1000000"}});
    job["spec"]["roles"][0]["gpus"] = {{"fraction", "500m"}};
    cluster().create(job);
  }
  for (const char* name : {"half-a", "half-b"})
    ASSERT_TRUE(cluster().wait_phase(name, "Running", 60s)) << say(name);
  cluster().create(nodes_->train_job({.name = "rest", .gpus = 3}, {{"STEPS", "5"}}));
  ASSERT_TRUE(cluster().wait_phase("rest", "Succeeded", 60s)) << say("rest");
  const auto shared = values("half-a", "gpus");
  ASSERT_THAT(shared, testing::SizeIs(1));
  EXPECT_THAT(values("half-b", "gpus"), shared);
  EXPECT_THAT(shared[0], testing::StartsWith("GPU-real-0-"));
  EXPECT_THAT(values("rest", "gpus"), ElementsAre(testing::Not(HasSubstr(shared[0]))));
  EXPECT_EQ(cluster().audit_gpus(), "");
  nodes_->stop_jobs();
  const std::string held = "/api/v1/namespaces/muster-system/pods?labelSelector=muster.dev%2Fgpu-reservation";
  EXPECT_TRUE(cluster().wait(30s, [&] { return cluster().get(held)["items"].empty(); }));
}

}  // namespace
}  // namespace muster::test
