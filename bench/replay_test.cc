// What the replay benchmark makes of a trace, and judges by.
#include <gtest/gtest.h>

#include <cmath>

#include "replay/input.h"
#include "replay/metrics.h"
#include "replay/outcome.h"
#include "replay/workload.h"

namespace muster::bench {
namespace {

TracePod pod(const std::string& name, std::int64_t created, std::int64_t scheduled, std::int64_t deleted,
             std::int32_t gpus = 1, const std::string& qos = "BE") {
  TracePod made{name, 1000, 1024, gpus, 1000};
  made.qos = qos;
  made.created = created;
  made.scheduled = scheduled;
  made.deleted = deleted;
  return made;
}
ReplayJob job(std::int64_t arrives, std::int64_t runs, std::int32_t gpus = 1, std::size_t project = 0) {
  return {"job-" + std::to_string(arrives), project, pod("p", 0, 0, 0, gpus), arrives, runs, true};
}
std::vector<ReplayProject> two_projects() {
  return {{"project-00", 2000, 1}, {"project-01", 1000, 1}};
}

TEST(ReplayWorkload, QuotasAddUpToTheCluster) {
  for (const std::int64_t capacity : {146'000, 6'212'000, 7}) {
    const auto projects = replay_projects(20, capacity);
    ASSERT_EQ(projects.size(), 20U);
    std::int64_t sum = 0;
    for (const ReplayProject& p : projects) sum += p.quota_milli;
    EXPECT_EQ(sum, capacity);
  }
  const auto projects = replay_projects(20, 3'000'000);
  EXPECT_EQ(projects[0].quota_milli, 200'000);
  EXPECT_EQ(projects[1].quota_milli, 100'000);
  EXPECT_EQ(projects[7].demand, 3U);
}

TEST(ReplayWorkload, KeepsArrivalsAndRunTimes) {
  auto pending = pod("pending", 150, 0, 300);
  pending.scheduled.reset();
  const std::vector<TracePod> pods = {pod("late", 200, 230, 330), pending, pod("gone", 10, 10, 100),
                                      pod("running", 50, 60, 180, 1, "LS")};
  const auto made = replay_workload(pods, two_projects(), 100, 1, Preemptible::kByQos);
  EXPECT_EQ(made.never_ran, 1U);
  EXPECT_EQ(made.before, 1U);
  EXPECT_EQ(made.window, 230);
  ASSERT_EQ(made.jobs.size(), 2U);
  EXPECT_EQ(made.jobs[0].name, "running-0");
  EXPECT_EQ(made.jobs[0].arrives, 0);
  EXPECT_EQ(made.jobs[0].runs, 80);  // what is left of it
  EXPECT_FALSE(made.jobs[0].preemptible);
  EXPECT_EQ(made.jobs[1].arrives, 100);
  EXPECT_EQ(made.jobs[1].runs, 100);  // from when it was scheduled, not from its creation
  EXPECT_TRUE(made.jobs[1].preemptible);
  EXPECT_TRUE(replay_workload(pods, two_projects(), 100, 1, Preemptible::kAll).jobs[0].preemptible);
}

TEST(ReplayWorkload, ALoadIsThatManyCopiesAtTheirOwnTime) {
  const std::vector<TracePod> pods = {pod("a", 110, 110, 150), pod("b", 130, 130, 200, 2)};
  const auto made = replay_workload(pods, two_projects(), 100, 4, Preemptible::kByQos);
  ASSERT_EQ(made.jobs.size(), 8U);
  EXPECT_EQ(made.window, 100);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(made.jobs[i].arrives, i < 4 ? 10 : 30);
  for (std::size_t i = 4; i < 8; ++i) EXPECT_EQ(made.jobs[i].project, 0U);  // no other quota holds two GPUs
  const auto again = replay_workload(pods, two_projects(), 100, 4, Preemptible::kByQos);
  for (std::size_t i = 0; i < 8; ++i) EXPECT_EQ(made.jobs[i].project, again.jobs[i].project);
}

TEST(ReplayWorkload, SaysWhatItCannotReplay) {
  const auto says = [](const TracePod& bad, const std::string& what) {
    try {
      replay_workload({bad}, two_projects(), 0, 1, Preemptible::kByQos);
      ADD_FAILURE() << "taken: " << bad.name;
    } catch (const std::runtime_error& e) {
      EXPECT_NE(std::string(e.what()).find(what), std::string::npos) << e.what();
    }
  };
  auto endless = pod("endless", 1, 1, 1);
  endless.deleted.reset();
  says(endless, "endless has no creation_time or no deletion_time");
  says(pod("backwards", 1, 5, 3), "backwards is deleted before it is scheduled");
  says(pod("large", 1, 1, 9, 3), "no project's quota holds pod large");
}

TEST(ReplayMetrics, Jain) {
  EXPECT_DOUBLE_EQ(jain_index({2, 2, 2, 2}), 1);
  EXPECT_DOUBLE_EQ(jain_index({1, 0, 0, 0}), 0.25);
  EXPECT_DOUBLE_EQ(jain_index({1, 3}), 0.8);
  EXPECT_DOUBLE_EQ(jain_index({0, 0}), 1);
  EXPECT_TRUE(std::isnan(jain_index({})));
}

TEST(ReplayMetrics, MaxMinMeetsSmallDemandsAndSharesTheRestByWeight) {
  const auto shares = max_min(10, {1, 1, 2}, {1, 9, 9});
  EXPECT_NEAR(shares[0], 1, 1e-9);
  EXPECT_NEAR(shares[1], 3, 1e-9);
  EXPECT_NEAR(shares[2], 6, 1e-9);
  EXPECT_EQ(max_min(10, {1, 1}, {2, 3}), (std::vector<double>{2, 3}));  // all are met
}

TEST(ReplayMetrics, AskedForEndsWithTheWindow) {
  ReplayWorkload workload;
  workload.window = 100;
  workload.jobs = {job(0, 30, 2), job(90, 50, 1, 1)};
  EXPECT_EQ(asked_gpu_seconds(workload, 2), (std::vector<double>{60, 10}));
}

TEST(ReplayMetrics, BoundCountsIdleTimeThatNobodyCanUse) {
  ReplayWorkload workload;
  workload.window = 100;
  // One GPU-job until 50 on two GPUs; then more than there is room for. 50 and 100.
  workload.jobs = {job(0, 50), job(50, 50), job(50, 50), job(50, 50), job(50, 50)};
  EXPECT_DOUBLE_EQ(fluid_bound(workload, 2), 150);
  // A backlog is worked off later: four jobs of 50 at once fill two GPUs for 100.
  workload.jobs = {job(0, 50), job(0, 50), job(0, 50), job(0, 50)};
  EXPECT_DOUBLE_EQ(fluid_bound(workload, 2), 200);
  // What comes too late to be done counts as far as there is time.
  workload.jobs = {job(90, 50)};
  EXPECT_DOUBLE_EQ(fluid_bound(workload, 2), 10);
  workload.jobs = {};
  EXPECT_DOUBLE_EQ(fluid_bound(workload, 2), 0);
}

// --- what came out

class Outcome : public testing::Test {
 protected:
  Outcome() {
    workload_.window = 100;
    workload_.jobs = {job(0, 60, 1, 0), job(10, 30, 1, 1)};
  }
  static nlohmann::json event(int at, const std::string& type, int job, const std::string& for_whom = "",
                              const nlohmann::json& pods = nlohmann::json::array()) {
    return {{"at", std::to_string(at) + "s"},
            {"type", type},
            {"object", "ns/job-" + std::to_string(job)},
            {"reason", ""},
            {"for", for_whom},
            {"pods", pods}};
  }
  static nlohmann::json on(int gpu) {
    return nlohmann::json::array({{{"role", "worker"}, {"index", 0}, {"node", "n"}, {"gpus", {gpu}}}});
  }
  ReplayOutcome judged(const std::vector<nlohmann::json>& events, int allocated, int useful, int lost = 0,
                       Policy policy = Policy::kBorrowing) {
    const nlohmann::json report = {
        {"events", events},
        {"jobs",
         {{{"name", "job-0"}, {"waitedSeconds", 0}, {"lostWorkSeconds", lost}},
          {{"name", "job-10"}, {"waitedSeconds", 20}, {"lostWorkSeconds", 0}}}},
        {"metrics",
         {{"gpuSecondsCapacity", 200}, {"gpuSecondsAllocated", allocated}, {"gpuSecondsUseful", useful}}}};
    return replay_outcome(report, {{"n", "A", 64'000, 65'536, 2}}, projects_, workload_, policy);
  }
  ReplayWorkload workload_;
  std::vector<ReplayProject> projects_ = {{"project-00", 1000, 1}, {"project-01", 1000, 1}};
};

TEST_F(Outcome, CountsWorkHoldingAndLoss) {
  // Evicted after 20 s of which 5 were not saved, leaves for 10 s; runs again from 70 to the end.
  const auto out = judged(
      {event(0, "Admitted", 0, "", on(0)), event(20, "Evicted", 0, "ns/job-10"), event(30, "Released", 0),
       event(30, "Admitted", 10, "", on(0)), event(60, "Finished", 10), event(70, "Admitted", 0, "", on(1))},
      90, 75, 5);
  EXPECT_EQ(out.violations, std::vector<std::string>{});
  EXPECT_DOUBLE_EQ(out.held, 90);
  EXPECT_DOUBLE_EQ(out.lost, 5);
  EXPECT_DOUBLE_EQ(out.useful, 75);
  EXPECT_EQ(out.useful_of, (std::vector<double>{45, 30}));
  EXPECT_EQ(out.waits, (std::vector<double>{0, 20}));
  EXPECT_EQ(out.preemptions, 1U);
  EXPECT_EQ(out.not_started, 0U);
}

TEST_F(Outcome, WhoIsOutOfTimeGoesForNobody) {
  auto out_of_time = event(50, "Evicted", 0);
  out_of_time["reason"] = "MaxRuntime";
  const auto out = judged(
      {event(0, "Admitted", 0, "", on(0)), out_of_time, event(50, "Finished", 0), event(60, "Released", 0)},
      60, 50);
  EXPECT_EQ(out.violations, std::vector<std::string>{});
  EXPECT_DOUBLE_EQ(out.held, 60);
  EXPECT_EQ(out.out_of_time, 1U);
  EXPECT_EQ(out.preemptions, 0U);
}

TEST_F(Outcome, FindsWhatIsWrong) {
  const auto first = [](const ReplayOutcome& out) { return out.violations.empty() ? "" : out.violations[0]; };
  const auto has = [&](const ReplayOutcome& out, const std::string& what) {
    EXPECT_NE(first(out).find(what), std::string::npos) << "\"" << first(out) << "\" instead of " << what;
  };
  const auto start = event(0, "Admitted", 0, "", on(0));
  has(judged({start, event(10, "Admitted", 10, "", on(0))}, 190, 190), "given twice");
  has(judged({start, event(10, "Admitted", 0, "", on(1))}, 190, 190), "still has a place");
  has(judged({start}, 100, 90), "gpuSecondsUseful is 90");
  has(judged({event(0, "Admitted", 5, "", on(0))}, 0, 0), "never submitted");
  has(judged({start, event(50, "Evicted", 0), event(50, "Released", 0)}, 50, 50), "for nobody");
  has(judged({event(0, "Admitted", 0, "", on(2))}, 100, 100), "a GPU that there is not");
  workload_.jobs[1].pod.cpu_milli = 64'000;
  has(judged({start, event(10, "Admitted", 10, "", on(1))}, 190, 190), "more CPU in use");
  workload_.jobs[0].preemptible = false;
  has(judged({start, event(50, "Evicted", 0, "ns/job-10"), event(50, "Released", 0)}, 50, 50),
      "not preemptible and has to go");
  projects_[0].quota_milli = 500;
  has(judged({start}, 100, 100), "above its quota");
  EXPECT_EQ(first(judged({start}, 100, 100, 0, Policy::kFifo)), "");
  workload_.jobs[0].preemptible = true;
  EXPECT_EQ(first(judged({start}, 100, 100)), "");
  has(judged({start}, 100, 100, 0, Policy::kStaticQuotas), "above its limit");
}

TEST(ReplayInput, PoliciesDifferByQuotasAndLimits) {
  ReplayWorkload workload;
  workload.jobs = {job(5, 60)};
  workload.jobs[0].pod.gpu_milli = 460;
  const auto text = [&](Policy policy) {
    return simulation_input({{"n", "A", 64'000, 65'536, 2}}, two_projects(), workload, policy);
  };
  const auto has = [&](Policy policy, const char* what) {
    return text(policy).find(what) != std::string::npos;
  };
  EXPECT_TRUE(has(Policy::kBorrowing, R"("gpu":"2000m")"));
  EXPECT_FALSE(has(Policy::kBorrowing, R"("limit")"));
  EXPECT_TRUE(has(Policy::kStaticQuotas, R"("limit":{"gpu":"1000m"})"));
  EXPECT_TRUE(has(Policy::kFifo, R"("namespace":"everybody")"));
  EXPECT_TRUE(has(Policy::kFifo, R"("gpus":{"fraction":"460m"})"));
  EXPECT_TRUE(has(Policy::kFifo, R"("simulate.muster.dev/at":"5s")"));
}

}  // namespace
}  // namespace muster::bench
