// What workloads do in virtual time.
#include <gmock/gmock.h>

#include "scenario.h"

namespace muster::simulate {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;

TEST(Simulation, AJobRunsForItsWork) {
  const json r = run(cluster() + job("a", "at: 5s, runs-for: 100s", "gpus: {count: 2}"));
  EXPECT_EQ(r["version"], 1);
  EXPECT_EQ(r["now"], "105s");
  const json a = job_of(r, "a");
  EXPECT_EQ(a["phase"], "Succeeded");
  EXPECT_EQ(a["submitted"], "5s");
  EXPECT_EQ(a["firstStarted"], "5s");
  EXPECT_EQ(a["finished"], "105s");
  EXPECT_EQ(a["attempt"], 1);
  EXPECT_EQ(a["waitedSeconds"], 0);
  EXPECT_EQ(a["pods"], json::array());
  EXPECT_EQ(r["metrics"]["gpuSecondsCapacity"], 8 * 105);
  EXPECT_EQ(r["metrics"]["gpuSecondsAllocated"], 200);
  EXPECT_EQ(r["metrics"]["gpuSecondsUseful"], 200);
  EXPECT_THAT(events_of(r), ElementsAre("5s Admitted team/a", "105s Finished team/a"));
}

TEST(Simulation, UntilEndsIt) {
  const std::string text = cluster() + job("a", "runs-for: 100s", "gpus: {count: 2}");
  const json r = run(text, seconds(40));
  EXPECT_EQ(r["now"], "40s");
  EXPECT_EQ(job_of(r, "a")["phase"], "Running");
  EXPECT_EQ(r["metrics"]["gpuSecondsUseful"], 80);
  EXPECT_EQ(
      r["nodes"][0]["gpus"][0]["usedMilli"].get<int>() + r["nodes"][1]["gpus"][0]["usedMilli"].get<int>(),
      1000);
}

TEST(Simulation, WhoWaitsSaysWhyAndIsServedInTurn) {
  const std::string text =
      cluster() + job("a", "runs-for: 100s", "replicas: 2, gpus: {count: 4}", "preemptible: false, ") +
      job("b", "at: 10s, runs-for: 10s", "gpus: {count: 1}");
  const json mid = run(text, seconds(50));
  EXPECT_EQ(job_of(mid, "b")["phase"], "Queued");
  EXPECT_EQ(job_of(mid, "b")["reason"], "InsufficientCapacity");
  EXPECT_EQ(job_of(mid, "b")["position"], 1);
  EXPECT_EQ(job_of(mid, "b")["waitedSeconds"], 40);
  const json end = run(text);
  EXPECT_EQ(job_of(end, "b")["waitedSeconds"], 90);
  EXPECT_EQ(end["metrics"]["waitP50Seconds"], 0);
  EXPECT_EQ(end["metrics"]["waitP99Seconds"], 90);
}

std::string two_priorities() {
  return "---\n{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 90}\n" +
         cluster();
}

// A save within the grace period keeps all work up to the eviction.
TEST(Simulation, WhatIsLackingIsThereAsNumbers) {
  const json r =
      run(cluster() + job("a", "", "gpus: {count: 5}") + job("b", "age: 1h", "gpus: {count: 4}"), seconds(1));
  const json blocking = {
      {{"resource", "pods"}, {"pool", "default"}, {"need", "1"}, {"have", "0"}, {"by", json::array()}}};
  EXPECT_EQ(job_of(r, "a")["blocking"], blocking);
  EXPECT_EQ(job_of(r, "b")["blocking"], json::array());
  // CPUs are not accounted here: there is no fair share of them.
  EXPECT_EQ(r["projects"][0]["fairShare"], json({{"gpu", "8"}}));
}

TEST(Simulation, WorkFromBeforeTheBeginningIsNotItsUse) {
  const json r = run(cluster() + job("a", "age: 1h, running-for: 50s, runs-for: 100s", "gpus: {count: 2}", "",
                                     "assignment: {attempt: 1, pods: [{role: worker, index: 0, node: n1, "
                                     "gpus: [0, 1]}]}"));
  EXPECT_EQ(r["now"], "50s");
  EXPECT_EQ(r["metrics"]["gpuSecondsAllocated"], 100);
  EXPECT_EQ(r["metrics"]["gpuSecondsUseful"], 100);
}

TEST(Simulation, AnEvictedJobKeepsWhatItSaved) {
  const json r = run(
      two_priorities() + job("low", "runs-for: 100s, saves-in: 5s", "replicas: 2, gpus: {count: 4}") +
      job("high", "at: 40s, runs-for: 10s", "replicas: 2, gpus: {count: 4}", "priorityClassName: high, "));
  EXPECT_THAT(events_of(r),
              ElementsAre("0s Admitted team/low", "40s Evicted team/low Preempted for team/high",
                          "45s Released team/low", "45s Admitted team/high", "55s Finished team/high",
                          "55s Admitted team/low", "115s Finished team/low"));
  const json low = job_of(r, "low");
  EXPECT_EQ(low["preemptions"], 1);
  EXPECT_EQ(low["attempt"], 2);
  EXPECT_EQ(low["lostWorkSeconds"], 0);
  EXPECT_EQ(r["metrics"]["preemptions"], 1);
}

// 1 GPU until it has saved at 61 s, 3 from then on.
TEST(Simulation, AnEditIsChargedWhenWhatWasHeldIsGone) {
  const json r = run(
      cluster() + job("a", "", "gpus: {count: 1}") + job("a", "at: 58s, saves-in: 3s", "gpus: {count: 3}"),
      seconds(200));
  EXPECT_THAT(events_of(r), ElementsAre("0s Admitted team/a", "58s Evicted team/a SpecChanged",
                                        "61s Released team/a", "61s Admitted team/a"));
  EXPECT_EQ(r["metrics"]["gpuSecondsAllocated"], 61 + 139 * 3);
  EXPECT_EQ(r["metrics"]["gpuSecondsUseful"], 58 + 139 * 3);
}

// n1 is no capacity from 100 s on, but what is charged there until it counts as lost.
TEST(Simulation, NoMoreIsAllocatedThanThereIs) {
  const json r = run(
      "{apiVersion: v1, kind: Node, metadata: {name: n1, annotations: {simulate.muster.dev/fail-at: 100s}}, "
      "status: {capacity: {cpu: 64, memory: 512Gi, nvidia.com/gpu: 4}}}\n"
      "---\n{apiVersion: muster.dev/v1alpha1, kind: Queue, metadata: {name: all}, spec: {quota: {gpu: 4}}}\n"
      "---\n{apiVersion: muster.dev/v1alpha1, kind: Project, metadata: {name: team}, spec: {queue: all, "
      "quota: "
      "{gpu: 4}}}\n" +
          job("a", "", "gpus: {count: 3}"),
      seconds(200));
  EXPECT_EQ(job_of(r, "a")["phase"], "Queued");
  EXPECT_EQ(r["metrics"]["gpuSecondsAllocated"], 160 * 3);
  EXPECT_EQ(r["metrics"]["gpuSecondsCapacity"], 100 * 4 + 60 * 3);
}

// GPUs that are cut into slices are no longer counted as GPUs.
TEST(Simulation, SlicesThatAreCutAreCapacity) {
  const json r = run(
      "{apiVersion: v1, kind: Node, metadata: {name: n1}, status: {capacity: {cpu: 64, memory: 512Gi, "
      "nvidia.com/mig-3g.40gb: 2}}}\n"
      "---\n{apiVersion: muster.dev/v1alpha1, kind: NodePool, metadata: {name: p}, spec: {default: true, "
      "sharing: {mode: MIG}}}\n"
      "---\n{apiVersion: muster.dev/v1alpha1, kind: Queue, metadata: {name: all}, spec: {quota: {gpu: 4}}}\n"
      "---\n{apiVersion: muster.dev/v1alpha1, kind: Project, metadata: {name: team}, spec: {queue: all, "
      "quota: "
      "{gpu: 4}}}\n" +
          job("a", "runs-for: 100s", "gpus: {mig: 3g.40gb}"),
      seconds(1000));
  EXPECT_EQ(job_of(r, "a")["phase"], "Succeeded");
  EXPECT_EQ(r["metrics"]["gpuSecondsAllocated"], 42);  // 429m for 100 s
  EXPECT_EQ(r["metrics"]["gpuSecondsCapacity"], 858);  // two of 429m for 1000 s
}

// What takes longer than the grace period is lost, and so is all work since the last checkpoint.
TEST(Simulation, ASaveThatTakesTooLongIsLost) {
  const auto with = [](const std::string& checkpoint) {
    return run(
        two_priorities() +
        job("low", "runs-for: 100s, saves-in: 1h", "replicas: 2, gpus: {count: 4}", checkpoint) +
        job("high", "at: 40s, runs-for: 10s", "replicas: 2, gpus: {count: 4}", "priorityClassName: high, "));
  };
  const json none = with("checkpoint: {gracePeriod: 20s}, ");
  EXPECT_EQ(job_of(none, "low")["lostWorkSeconds"], 40);
  EXPECT_EQ(job_of(none, "low")["finished"], "170s");  // gone at 60s, again from 70s
  EXPECT_EQ(none["metrics"]["gpuSecondsUseful"], 8 * 110);
  const json some = with("checkpoint: {gracePeriod: 20s, interval: 15s}, ");
  EXPECT_EQ(job_of(some, "low")["lostWorkSeconds"], 10);
  EXPECT_EQ(job_of(some, "low")["finished"], "140s");
}

// It has failed when its time is over; what it holds is free when it has saved.
TEST(Simulation, MaxRuntimeEndsAJob) {
  const json r = run(cluster() + job("a", "saves-in: 5s", "gpus: {count: 1}", "maxRuntime: 1m, "));
  EXPECT_THAT(events_of(r), ElementsAre("0s Admitted team/a", "60s Evicted team/a MaxRuntime",
                                        "60s Finished team/a MaxRuntimeExceeded", "65s Released team/a"));
  EXPECT_EQ(job_of(r, "a")["phase"], "Failed");
  EXPECT_EQ(job_of(r, "a")["finished"], "60s");
  EXPECT_EQ(r["metrics"]["gpuSecondsAllocated"], 65);
}

TEST(Simulation, SuspendedByAnEditAndResumed) {
  const std::string role = "gpus: {count: 1}";
  const json r = run(cluster() + job("a", "runs-for: 100s", role) +
                     job("a", "at: 30s, runs-for: 100s", role, "suspend: true, ") +
                     job("a", "at: 50s, runs-for: 100s", role));
  EXPECT_THAT(events_of(r),
              ElementsAre("0s Admitted team/a", "30s Evicted team/a Suspended", "30s Released team/a",
                          "50s Admitted team/a", "120s Finished team/a"));
  EXPECT_EQ(job_of(r, "a")["preemptions"], 0);
}

TEST(Simulation, DeletedObjectsAreGone) {
  const json r = run(cluster() + job("a", "delete-at: 30s", "replicas: 2, gpus: {count: 4}") +
                     job("b", "at: 10s", "gpus: {count: 1}"));
  EXPECT_EQ(r["jobs"].size(), 1U);
  EXPECT_EQ(job_of(r, "b")["firstStarted"], "30s");
}

TEST(Simulation, ADeadNodeCountsAfterAMinute) {
  const std::string text =
      "---\n{apiVersion: v1, kind: Node, metadata: {name: n1, annotations: {simulate.muster.dev/fail-at: "
      "100s, "
      "simulate.muster.dev/recover-at: 1h}}, status: {capacity: {cpu: 8, memory: 64Gi, pods: 110, "
      "nvidia.com/gpu: 1}}}\n"
      "---\n{apiVersion: v1, kind: Node, metadata: {name: n2}, status: {capacity: {cpu: 8, memory: 64Gi, "
      "pods: 110, "
      "nvidia.com/gpu: 1}}}\n"
      "---\n{apiVersion: muster.dev/v1alpha1, kind: Queue, metadata: {name: all}, spec: {quota: {gpu: 2}}}\n"
      "---\n{apiVersion: muster.dev/v1alpha1, kind: Project, metadata: {name: team}, spec: {queue: all, "
      "quota: {gpu: 2}}}\n" +
      job("a", "age: 0s, runs-for: 200s", "gpus: {count: 1}", "",
          "assignment: {attempt: 1, pods: [{role: worker, index: 0, node: n1, gpus: [0]}]}");
  EXPECT_EQ(job_of(run(text, seconds(159)), "a")["pods"][0]["node"], "n1");
  const json r = run(text);
  const json a = job_of(r, "a");
  EXPECT_THAT(events_of(r), ElementsAre("160s Restarted team/a NodeFailed", "360s Finished team/a"));
  EXPECT_EQ(a["lostWorkSeconds"], 100);  // it stood still from 100s on
  EXPECT_EQ(a["preemptions"], 0);
  EXPECT_EQ(a["attempt"], 2);
}

TEST(Simulation, ElasticWorkTakesLongerWithFewerPods) {
  // 8 of 8 for 10 s, then 4 of 8.
  std::string half_each = cluster();
  const std::string whole = "queue: all, quota: {gpu: 8}";
  half_each.replace(half_each.find(whole), whole.size(), "queue: all, quota: {gpu: 4}");
  const json r =
      run("---\n{apiVersion: muster.dev/v1alpha1, kind: Project, metadata: {name: other}, spec: {queue: all, "
          "quota: {gpu: 4}}}\n"
          "---\n{apiVersion: muster.dev/v1alpha1, kind: InferenceService, metadata: {name: web, namespace: "
          "other, annotations: "
          "{simulate.muster.dev/at: 10s}}, spec: {replicas: 2, groupSize: 2, gpus: {count: 1}, template: "
          "{spec: {containers: "
          "[{name: main, image: img}]}}}}\n" +
          half_each + job("e", "runs-for: 100s", "minReplicas: 2, maxReplicas: 8, gpus: {count: 1}"));
  EXPECT_EQ(job_of(r, "e")["finished"], "190s");
  EXPECT_EQ(job_of(r, "e")["lostWorkSeconds"], 0);
  const json web = job_of(r, "web");
  EXPECT_EQ(web["phase"], "Running");
  EXPECT_EQ(web["replicas"], (json{{"server", 4}}));
  EXPECT_EQ(web["pods"].size(), 4U);
  EXPECT_EQ(web["pods"][3]["index"], 3);
}

// By default a gang that resizes in place waits for a minute, one that restarts for ten.
TEST(Simulation, GrowthWaitsAsLongAsOnACluster) {
  const auto grown = [](const std::string& elastic) {
    const json r = run(cluster() + job("a", "runs-for: 100s, age: 1h", "replicas: 2, gpus: {count: 2}") +
                           job("e", "", "minReplicas: 4, maxReplicas: 8, gpus: {count: 1}", elastic),
                       seconds(4000));
    const auto events = events_of(r);
    const auto found = std::ranges::find_if(events, [](const auto& e) { return e.contains("Grown"); });
    return found == events.end() ? std::string("never") : *found;
  };
  // A change in place takes 30 s as far as anybody knows, and has to pay four times over.
  EXPECT_EQ(grown(""), "220s Grown team/e");
  EXPECT_EQ(grown("elastic: {growAfter: 5s}, "), "220s Grown team/e");
  EXPECT_EQ(grown("elastic: {growAfter: 3m}, "), "280s Grown team/e");
  // A restart sixteen times.
  EXPECT_EQ(grown("elastic: {resize: Restart}, checkpoint: {gracePeriod: 30s}, "), "2500s Grown team/e");
  // It would lose all that it has done.
  EXPECT_EQ(grown("elastic: {resize: Restart}, "), "never");
}

TEST(Simulation, AServiceIsScaledByAnEdit) {
  const auto service = [](int at, int replicas) {
    return fmt::format(
        "---\n{{apiVersion: muster.dev/v1alpha1, kind: InferenceService, metadata: {{name: web, namespace: "
        "team, "
        "annotations: {{simulate.muster.dev/at: {}s}}}}, spec: {{replicas: {}, gpus: {{count: 1}}, template: "
        "{{spec: "
        "{{containers: [{{name: main, image: img}}]}}}}}}}}\n",
        at, replicas);
  };
  const json r = run(cluster() + service(0, 1) + service(10, 3) + service(20, 0));
  EXPECT_THAT(events_of(r), ElementsAre("0s Admitted team/web", "10s Admitted team/web",
                                        "10s Admitted team/web", "20s Shrunk team/web Scaled",
                                        "20s Shrunk team/web Scaled", "20s Shrunk team/web Scaled"));
  EXPECT_EQ(job_of(r, "web")["pods"], json::array());
}

TEST(Simulation, WithoutAProjectNothingStartsAndWithOneItDoes) {
  const std::string project =
      "---\n{apiVersion: muster.dev/v1alpha1, kind: Project, metadata: {name: p, annotations: "
      "{simulate.muster.dev/at: "
      "10s}}, spec: {queue: all, quota: {gpu: 1}, namespace: {name: lab}}}\n";
  std::string in_lab = job("a", "runs-for: 5s", "gpus: {count: 1}");
  in_lab.replace(in_lab.find("namespace: team"), 15, "namespace: lab");
  const json r = run(cluster() + in_lab + project);
  EXPECT_EQ(r["events"][0]["type"], "Waiting");
  EXPECT_EQ(r["events"][0]["reason"], "ProjectNotFound");
  EXPECT_EQ(job_of(r, "a")["firstStarted"], "10s");
  EXPECT_EQ(job_of(r, "a")["project"], "p");
}

TEST(Simulation, AJobThatCanNeverRunSaysSo) {
  const json a = job_of(run(cluster() + job("a", "", "gpus: {count: 1}", "priorityClassName: none, ")), "a");
  EXPECT_EQ(a["phase"], "Queued");
  EXPECT_EQ(a["reason"], "InvalidSpec");
  EXPECT_THAT(a["message"].get<std::string>(), testing::HasSubstr("there is no PriorityClass \"none\""));
}

// Of two of the same age the one stated first is served first, whatever they are called.
TEST(Simulation, TiesOfAgeGoByFileOrder) {
  const std::string role = "replicas: 2, gpus: {count: 4}";
  const json r = run(cluster() + job("z", "runs-for: 10s", role) + job("a", "runs-for: 10s", role) +
                     job("m", "age: 1s, at: 1s, runs-for: 10s", role));
  EXPECT_EQ(job_of(r, "z")["firstStarted"], "0s");
  EXPECT_EQ(job_of(r, "a")["firstStarted"], "10s");
  EXPECT_EQ(job_of(r, "m")["firstStarted"], "20s");
}

TEST(Simulation, TheSameInputGivesTheSameBytes) {
  std::string text = cluster();
  for (int i = 0; i < 40; ++i)
    text += job(fmt::format("j{}", i * 7 % 40), fmt::format("at: {}s, runs-for: {}s", i % 9, 10 + i % 5),
                fmt::format("gpus: {{count: {}}}", 1 + i % 4));
  for (const Format f : {Format::kTable, Format::kJson, Format::kYaml, Format::kEvents})
    EXPECT_EQ(printed(text, f), printed(text, f));
}

TEST(Simulation, YamlSaysWhatJsonSays) {
  const std::string text = cluster() + job("a", "runs-for: 100s", "replicas: 2, gpus: {count: 2}") +
                           job("b", "at: 5s", "gpus: {count: 8}");
  const auto documents = crds::load_documents(printed(text, Format::kYaml, seconds(50)), "yaml");
  ASSERT_TRUE(documents) << crds::to_string(documents.error());
  ASSERT_EQ(documents->size(), 1U);
  EXPECT_EQ(*documents->front().object, run(text, seconds(50)));
}

TEST(Simulation, TablesAndEventsAreForPeople) {
  const std::string text =
      cluster() + job("a", "runs-for: 100s", "replicas: 2, gpus: {count: 4}", "preemptible: false, ") +
      job("b", "at: 5s", "gpus: {count: 4}");
  const std::string table = printed(text, Format::kTable, seconds(65));
  EXPECT_THAT(table, testing::HasSubstr("team/b  Queued   0     1         1m"));
  EXPECT_THAT(table, testing::HasSubstr("n1:0,1,2,3 n2:0,1,2,3"));
  EXPECT_THAT(table, testing::HasSubstr("at 65s: 100% of the GPU time allocated, 100% useful"));
  EXPECT_EQ(printed(text, Format::kEvents, seconds(65)),
            "       0s  Admitted   team/a  on n1:0,1,2,3 n2:0,1,2,3\n"
            "       5s  Waiting    team/b  InsufficientCapacity\n");
}

std::vector<std::string> failures(const std::string& text) {
  const Input input = read_text(text, "test.yaml");
  EXPECT_TRUE(input.errors.empty());
  Simulation simulation(input, {});
  EXPECT_TRUE(simulation.run().empty());
  return simulation.failures();
}

TEST(Expectations, DifferencesAreReadable) {
  const std::string text = cluster() + job("a", "", "gpus: {count: 2}") + job("b", "", "gpus: {count: 5}") +
                           R"(---
apiVersion: simulate.muster.dev/v1
kind: Expectation
at: 10s
jobs:
  team/a: {phase: Queued, gpus: 1500m, nodes: [n3], pods: [{index: 0, node: n9}], replicas: {worker: 2}, position: 4}
  team/b: {message: "no such text"}
  team/c: {phase: Running}
  "team/*": {running: 2, queued: 1}
events: {Admitted: 2, Evicted: 0}
queues: {team: {allocated: {gpu: 3}}, none: {quota: {gpu: 1}}}
)";
  const auto lines = failures(text);
  const auto at = [&](const char* part) {
    return std::ranges::count_if(lines,
                                 [&](const std::string& l) { return l.find(part) != std::string::npos; });
  };
  for (const char* part :
       {"at 10s: jobs.team/a.phase: expected Queued, is Running", "jobs.team/a.gpus: expected 1500m, is 2",
        "jobs.team/a.nodes: expected [\"n3\"]", "jobs.team/a.pods: expected",
        "jobs.team/a.replicas.worker: expected 2, is 1", "jobs.team/a.position: expected 4, is 0",
        "jobs.team/b.message: expected a text with \"no such text\"",
        "jobs.team/c: expected a TrainingJob or InferenceService of this name, is none",
        "jobs.team/*.running: expected 2, is 1", "events.Admitted: expected 2, is 1",
        "queues.team.allocated.gpu: expected 3, is 2", "queues.none: expected a Queue or Project"}) {
    EXPECT_EQ(at(part), 1) << part << "\n" << testing::PrintToString(lines);
  }
  EXPECT_EQ(lines.size(), 12U) << testing::PrintToString(lines);
  EXPECT_TRUE(lines[0].starts_with("test.yaml:")) << lines[0];
}

TEST(Expectations, WhatComesAfterTheEndIsNotCheckedAndSaysSo) {
  const Input input = read_text(
      cluster() + "---\n{apiVersion: simulate.muster.dev/v1, kind: Expectation, at: 1h}\n", "t.yaml");
  Simulation simulation(input, {seconds(60)});
  EXPECT_TRUE(simulation.run().empty());
  ASSERT_EQ(simulation.failures().size(), 1U);
  EXPECT_THAT(simulation.failures()[0],
              testing::HasSubstr("at 1h: was not checked: the simulation ends at 1m (--until)"));
}

}  // namespace
}  // namespace muster::simulate
