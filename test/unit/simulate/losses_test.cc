// What it takes to start, to stop and to be resized, and what that costs.
#include <gmock/gmock.h>

#include "scenario.h"

namespace muster::simulate {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;

json lost(std::int64_t work, std::int64_t stopping, std::int64_t starting, std::int64_t restarting,
          std::int64_t resizing) {
  return {{"work", work},
          {"stopping", stopping},
          {"starting", starting},
          {"restarting", restarting},
          {"resizing", resizing}};
}

// Allocated is what was useful, and what was lost.
void expect_all_is_told(const json& report) {
  const json& metrics = report.at("metrics");
  std::int64_t sum = metrics.at("gpuSecondsUseful").get<std::int64_t>();
  for (const json& part : metrics.at("gpuSecondsLost")) sum += part.get<std::int64_t>();
  EXPECT_EQ(sum, metrics.at("gpuSecondsAllocated"));
}

TEST(Losses, AStartIsNoWork) {
  const json r = run(cluster() + job("a", "runs-for: 100s, starts-in: 30s", "gpus: {count: 2}"));
  const json a = job_of(r, "a");
  EXPECT_EQ(a["firstStarted"], "30s");
  EXPECT_EQ(a["finished"], "130s");
  EXPECT_EQ(a["waitedSeconds"], 0);
  EXPECT_EQ(a["gpuSecondsUseful"], 200);
  EXPECT_EQ(a["gpuSecondsLost"], lost(0, 0, 60, 0, 0));
  EXPECT_EQ(r["metrics"]["gpuSecondsLost"], lost(0, 0, 60, 0, 0));
  EXPECT_EQ(r["metrics"]["waitP99Seconds"], 0);
  expect_all_is_told(r);
}

// Its parts are told while they last.
TEST(Losses, AStartThatIsNotOverCounts) {
  const json r = run(cluster() + job("a", "runs-for: 100s, starts-in: 30s", "gpus: {count: 2}"), seconds(10));
  EXPECT_EQ(job_of(r, "a")["phase"], "Starting");
  EXPECT_EQ(job_of(r, "a")["gpuSecondsLost"], lost(0, 0, 20, 0, 0));
  expect_all_is_told(r);
}

// 20 s of work are lost, and it starts once more.
TEST(Losses, AProgramThatFailsStartsAgain) {
  const json r =
      run(cluster() + job("a", "runs-for: 100s, starts-in: 30s, program-fails-at: 50s", "gpus: {count: 1}"));
  EXPECT_THAT(events_of(r),
              ElementsAre("0s Admitted team/a", "50s Restarted team/a ProgramFault", "180s Finished team/a"));
  EXPECT_EQ(job_of(r, "a")["gpuSecondsLost"], lost(20, 0, 30, 30, 0));
  expect_all_is_told(r);
}

// One that fails before its gang works fails nothing.
TEST(Losses, AFaultBeforeItWorksIsNone) {
  const json r =
      run(cluster() + job("a", "runs-for: 100s, starts-in: 30s, program-fails-at: 10s", "gpus: {count: 1}"));
  EXPECT_EQ(job_of(r, "a")["finished"], "130s");
  EXPECT_EQ(job_of(r, "a")["attempt"], 1);
}

TEST(Losses, AStartThatTakesTooLongIsGivenUp) {
  const json r =
      run(cluster() + job("a", "runs-for: 100s, starts-in: 2m", "gpus: {count: 1}", "startTimeout: 1m, "),
          seconds(61));
  EXPECT_EQ(job_of(r, "a")["phase"], "Queued");
  EXPECT_EQ(job_of(r, "a")["firstStarted"], nullptr);
  EXPECT_EQ(job_of(r, "a")["gpuSecondsLost"], lost(0, 0, 60, 0, 0));
}

TEST(Losses, WhatRunsFromTheBeginningHasStarted) {
  const json r = run(cluster() + job("a", "runs-for: 100s, starts-in: 30s, age: 10s", "gpus: {count: 1}", "",
                                     "assignment: {attempt: 1, pods: [{role: worker, index: 0, node: n1, "
                                     "gpus: [0]}]}"));
  EXPECT_EQ(job_of(r, "a")["finished"], "90s");
  EXPECT_EQ(job_of(r, "a")["gpuSecondsLost"], lost(0, 0, 0, 0, 0));
}

// Each of two edits stops the work of 4 s: once with 2 GPUs, once with 1.
TEST(Losses, AGangStandsStillWhileItShrinks) {
  const auto of = [](const std::string& at, int replicas) {
    return job("a", at + "runs-for: 100s, resizes-in: 4s", "minReplicas: 1, maxReplicas: 4, gpus: {count: 1}",
               "elastic: {resize: InPlace, replicas: " + std::to_string(replicas) + "}, ");
  };
  const json r = run(cluster() + of("", 3) + of("at: 10s, ", 2) + of("at: 20s, ", 1), seconds(30));
  EXPECT_THAT(events_of(r),
              ElementsAre("0s Admitted team/a", "10s Shrunk team/a Scaled", "20s Shrunk team/a Scaled"));
  EXPECT_EQ(job_of(r, "a")["gpuSecondsUseful"], 3 * 10 + 2 * 6 + 6);
  EXPECT_EQ(job_of(r, "a")["gpuSecondsLost"], lost(0, 0, 0, 0, 2 * 4 + 4));
  expect_all_is_told(r);
}

TEST(Losses, AResizeThatIsCutShortEndsWithTheAttempt) {
  const auto of = [](const std::string& at, int replicas, const std::string& spec = "") {
    return job("a", at + "runs-for: 100s, resizes-in: 1h", "minReplicas: 1, maxReplicas: 4, gpus: {count: 1}",
               spec + "elastic: {resize: InPlace, replicas: " + std::to_string(replicas) + "}, ");
  };
  const json r = run(
      cluster() + of("", 2) + of("at: 10s, ", 1) + of("at: 20s, ", 1, "suspend: true, ") + of("at: 30s, ", 1),
      seconds(35));
  EXPECT_EQ(job_of(r, "a")["phase"], "Running");
  EXPECT_EQ(job_of(r, "a")["gpuSecondsUseful"], 2 * 10 + 5);
  EXPECT_EQ(job_of(r, "a")["gpuSecondsLost"], lost(0, 0, 0, 0, 10));
}

// A gang that waits for a node to come back is not resized, and does not start.
TEST(Losses, WhatAFaultCostsIsNotCountedAsADisturbance) {
  const json r = run(
      "{apiVersion: v1, kind: Node, metadata: {name: n1, annotations: {simulate.muster.dev/fail-at: 10s, "
      "simulate.muster.dev/recover-at: 40s}}, status: {capacity: {cpu: 64, memory: 512Gi, nvidia.com/gpu: "
      "4}}}\n"
      "---\n{apiVersion: muster.dev/v1alpha1, kind: Queue, metadata: {name: all}, spec: {quota: {gpu: 4}}}\n"
      "---\n{apiVersion: muster.dev/v1alpha1, kind: Project, metadata: {name: team}, spec: {queue: all, "
      "quota: {gpu: 4}}}\n" +
      job("a", "runs-for: 100s", "gpus: {count: 2}"));
  EXPECT_EQ(job_of(r, "a")["finished"], "130s");
  EXPECT_EQ(job_of(r, "a")["gpuSecondsLost"], lost(0, 0, 0, 0, 0));
  EXPECT_EQ(r["metrics"]["gpuSecondsAllocated"], 260);
}

}  // namespace
}  // namespace muster::simulate
