// A kubelet that pins CPUs and aligns (CPU manager static, topology manager single-numa-node), and containers
// beside the program: what KWOK can only pretend.
#include <gmock/gmock.h>

#include <filesystem>
#include <fstream>
#include <thread>

#include "../fixture.h"

namespace muster::test {
namespace {

using testing::HasSubstr;
using testing::Not;

// Writes the CPUs on which it may run and its GPUs, and goes on until it is told to go.
constexpr const char* kTell =
    "while read key value; do [ \"$key\" = Cpus_allowed_list: ] && echo $value >/ckpt/$NAME.new; done "
    "</proc/self/status; echo $NVIDIA_VISIBLE_DEVICES >>/ckpt/$NAME.new; /bin/busybox mv /ckpt/$NAME.new "
    "/ckpt/$NAME; "
    "trap 'exit 0' TERM; while :; do /bin/busybox sleep 0.2; done";

class Kubelet : public Node {
 protected:
  struct Told {
    std::string cpus, gpus;
  };
  static Told told(const std::string& name) {
    const auto file = nodes_->state() / name;
    EXPECT_TRUE(cluster().wait(30s, [&] { return std::filesystem::exists(file); })) << name;
    Told result;
    std::ifstream in(file);
    std::getline(in, result.cpus);
    std::getline(in, result.gpus);
    return result;
  }
  // A job of one pod that tells its CPUs.
  static json telling(const std::string& name, const json& resources, const json& gpus) {
    json job = nodes_->train_job({.name = name}, {{"NAME", name}});
    json& role = job["spec"]["roles"][0];
    role["gpus"] = gpus;
    json& pod = role["template"]["spec"];
    pod["containers"][0]["command"] = {"/bin/sh", "-c", kTell};
    pod["containers"][0]["resources"] = resources;
    pod["containers"][0].erase("readinessProbe");
    return job;
  }
  static std::string say(const std::string& job) { return cluster().job(job).dump(2); }
};

// Kept for the system: CPU 0. Of the GPUs 2 and 3 the plugin does not say on which NUMA node they are.
TEST_F(Kubelet, PinsCpusOfAlignedPodsAndTurnsAwayWhatItCannotAlign) {
  if (std::thread::hardware_concurrency() < 2) GTEST_SKIP() << "one CPU for the system, and one to be pinned";
  testcluster::RealNodeOptions options;
  options.numa = {0, 0};
  options.kubelet =
      R"({"cpuManagerPolicy": "static", "cpuManagerReconcilePeriod": "1s", "reservedSystemCPUs": "0",
                        "topologyManagerPolicy": "single-numa-node", "topologyManagerScope": "pod"})";
  auto aligning = nodes_->start_real_node(1, options);
  cluster().patch("/api/v1/nodes/real-1",
                  {{"metadata", {{"annotations", {{"muster.dev/gpu-numa", "0,0,1,1"}}}}}});

  json pinned = telling("pinned", {{"limits", {{"cpu", "1"}, {"memory", "64Mi"}}}},
                        {{"count", 2}, {"numaAligned", true}});
  cluster().create(pinned);
  ASSERT_TRUE(cluster().wait_phase("pinned", "Running", 60s)) << say("pinned");
  const json pod = cluster().pods("pinned").at(0);
  EXPECT_EQ(pod["spec"]["nodeName"], "real-1") << "nobody says what the other nodes' NUMA nodes have";
  EXPECT_EQ(pod["status"]["qosClass"], "Guaranteed");
  const auto [cpus, gpus] = told("pinned");
  EXPECT_THAT(gpus, testing::AnyOf("GPU-real-1-0,GPU-real-1-1", "GPU-real-1-1,GPU-real-1-0"));
  EXPECT_THAT(cpus, Not(HasSubstr("0"))) << "a CPU of its own";
  EXPECT_THAT(cpus, testing::MatchesRegex("[0-9]+"));

  // Two GPUs are free there, which no NUMA node has for the kubelet: it turns the pod away.
  json crossing = telling("crossing", {{"requests", {{"memory", "64Mi"}}}}, {{"count", 2}});
  crossing["spec"]["roles"][0]["template"]["spec"]["affinity"]["nodeAffinity"] = {
      {"preferredDuringSchedulingIgnoredDuringExecution",
       {{{"weight", 1},
         {"preference",
          {{"matchExpressions",
            {{{"key", "kubernetes.io/hostname"}, {"operator", "In"}, {"values", {"real-1"}}}}}}}}}}};
  cluster().create(crossing);
  ASSERT_TRUE(cluster().wait_phase("crossing", "Running", 60s)) << say("crossing");
  const json status = cluster().job("crossing")["status"];
  ASSERT_EQ(status.value("nodeRefusals", json::array()).size(), 1u) << status.dump(2);
  EXPECT_EQ(status["nodeRefusals"][0]["node"], "real-1");
  EXPECT_EQ(status["nodeRefusals"][0]["reason"], "TopologyAffinityError");
  EXPECT_EQ(status["assignment"]["pods"][0]["node"], "real-0");
  EXPECT_EQ(status.value("/restarts/count"_json_pointer, 0), 0) << "no fault of the program";

  // Who is not pinned runs on the CPUs that are left.
  json shares = telling("shares", {{"requests", {{"memory", "64Mi"}}}}, {{"count", 1}});
  shares["spec"]["roles"][0].erase("gpus");
  shares["spec"]["roles"][0]["template"]["spec"]["nodeSelector"] = {{"kubernetes.io/hostname", "real-1"}};
  cluster().create(shares);
  ASSERT_TRUE(cluster().wait_phase("shares", "Running", 60s)) << say("shares");
  EXPECT_NE(told("shares").cpus, cpus);
  EXPECT_THAT(told("shares").cpus, testing::StartsWith("0"));

  nodes_->stop_jobs();
  EXPECT_TRUE(aligning.stop());
  cluster().remove("/api/v1/nodes/real-1");
}

// It runs as long as the program, and is told to go when that has ended.
TEST_F(Kubelet, AJobIsCompleteThoughItsSidecarRuns) {
  json job = nodes_->train_job({.name = "accompanied"}, {{"STEPS", "30"}});
  json& pod = job["spec"]["roles"][0]["template"]["spec"];
  json sidecar = {{"name", "beside"}, {"image", pod["containers"][0]["image"]}, {"restartPolicy", "Always"}};
  sidecar["command"] = {"/bin/sh", "-c",
                        "trap 'echo told >>/ckpt/beside; exit 0' TERM; "
                        "while :; do echo runs >>/ckpt/beside; /bin/busybox sleep 0.1; done"};
  pod["initContainers"] = json::array({sidecar});
  cluster().create(job);
  ASSERT_TRUE(cluster().wait_phase("accompanied", "Succeeded", 60s)) << say("accompanied");
  EXPECT_EQ(cluster().condition("accompanied", "Complete")["status"], "True");
  EXPECT_EQ(cluster().job("accompanied")["status"]["attempt"], 1);
  EXPECT_THAT(nodes_->events("accompanied", "done"), testing::SizeIs(1));
  std::vector<std::string> lines;
  std::ifstream in(nodes_->state() / "beside");
  for (std::string line; std::getline(in, line);) lines.push_back(line);
  EXPECT_GE(std::ranges::count(lines, "runs"), 3) << "it ran beside the program";
  EXPECT_EQ(std::ranges::count(lines, "told"), 1) << "and was not started again";
}

}  // namespace
}  // namespace muster::test
