// Nodes that say how busy their GPUs are, and which fail, to the whole operator in virtual time.
#include <gmock/gmock.h>
#include <spdlog/spdlog.h>

#include "virtual_cluster.h"

namespace muster::test {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;
using testing::IsEmpty;

class GpuMetrics : public testing::Test {
 protected:
  GpuMetrics() {
    spdlog::set_level(spdlog::level::off);
    cluster.set_up(3, 24);
    cluster.pods_end([](const json&) {
      return LastWords{.takes = seconds{5}, .message = R"({"checkpoint":{"step":1200}})"};
    });
    cluster.exporters = [this](const std::string& url) {
      const std::string node = "node-" + url.substr(std::string("http://10.0.0.").size(), 1);
      if (down.contains(node)) return client::HttpResponse{503, {}, ""};
      std::string text;
      for (int gpu = 0; gpu < 8; ++gpu) {
        const bool works = busy.contains({node, gpu}), is_bad = failing.contains({node, gpu});
        text += fmt::format("DCGM_FI_DEV_GPU_UTIL{{gpu=\"{}\"}} {}\n", gpu, works ? 90 : 0);
        text += fmt::format("DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{{gpu=\"{}\"}} {}\n", gpu, is_bad ? 1 : 0);
        text += fmt::format("DCGM_FI_DEV_FB_USED{{gpu=\"{}\"}} {}\n", gpu, memory_used);
        text += fmt::format("DCGM_FI_DEV_FB_FREE{{gpu=\"{}\"}} {}\n", gpu, 100 - memory_used);
      }
      return client::HttpResponse{200, {}, text};
    };
  }
  void read_gpus() {
    json pool = cluster.server.object(kMuster + "nodepools", "default");
    pool["spec"]["gpuMetrics"] = json::object();
    cluster.server.put(kMuster + "nodepools", pool);
  }
  void interactive(const std::string& name) {
    cluster.add_job(name, 1, 1,
                    {{"mode", "Interactive"}, {"maxRuntime", "48h"}, {"idle", {{"timeout", "1h"}}}});
  }
  // (node, GPU) of a pod of one GPU.
  std::pair<std::string, int> gpu_of(const std::string& job) {
    const json place = cluster.job(job)["status"]["assignment"]["pods"][0];
    return {place["node"], place["gpus"][0]};
  }
  bool until(const std::string& job, const std::string& phase, Duration limit) {
    return cluster.world.run_until([&] { return cluster.phase(job) == phase; }, limit);
  }
  json condition(const json& object, const std::string& type) {
    for (const auto& c : object["status"]["conditions"]) {
      if (c["type"] == type) return c;
    }
    return {{"status", ""}, {"reason", ""}, {"message", ""}};
  }
  json pool_condition(const std::string& type) {
    return condition(cluster.server.object(kMuster + "nodepools", "default"), type);
  }

  VirtualCluster cluster;
  std::set<std::pair<std::string, int>> busy, failing;
  std::set<std::string> down;
  int memory_used = 0;  // of each GPU, in per cent
};

TEST_F(GpuMetrics, WhoIsIdleForHisTimeoutEndsAndWhoWorksGoesOn) {
  read_gpus();
  interactive("idle");
  interactive("works");
  cluster.start();
  ASSERT_TRUE(until("works", "Running", minutes{1}) && until("idle", "Running", minutes{1}));
  busy.insert(gpu_of("works"));
  cluster.world.run_for(minutes{58});
  EXPECT_EQ(cluster.phase("idle"), "Running");
  EXPECT_EQ(condition(cluster.job("idle"), "Idle")["status"], "True") << "it is warned";
  EXPECT_EQ(condition(cluster.job("works"), "Idle")["status"], "False");
  ASSERT_TRUE(until("idle", "Failed", minutes{4}));
  const json failed = condition(cluster.job("idle"), "Failed");
  EXPECT_EQ(failed["reason"], "IdleTimeout");
  EXPECT_TRUE(cluster.world.run_until(
      [&] {
        return cluster.pods_of("idle").empty() &&
               cluster.job("idle").value("/status/checkpoint/step"_json_pointer, 0) == 1200;
      },
      minutes{1}))
      << "it was asked to save: " << cluster.job("idle").dump(1);
  cluster.world.run_for(hours{5});
  EXPECT_EQ(cluster.phase("works"), "Running");
  EXPECT_THAT(cluster.complaints, IsEmpty());
}

TEST_F(GpuMetrics, WithoutAReadingNobodyEnds) {
  interactive("note");
  auto& first = cluster.start();
  ASSERT_TRUE(until("note", "Running", minutes{1}));
  cluster.world.run_for(hours{3});
  EXPECT_EQ(cluster.phase("note"), "Running");
  EXPECT_THAT(first.endpoints.requests(), IsEmpty()) << "nobody said where";
  EXPECT_THAT(condition(cluster.job("note"), "Idle")["message"].get<std::string>(),
              HasSubstr("NodePool default has no gpuMetrics"));
  EXPECT_EQ(pool_condition("MetricsRead")["reason"], "NoGPUMetrics");

  down = {"node-0", "node-1", "node-2"};
  read_gpus();
  cluster.world.run_for(hours{3});
  EXPECT_EQ(cluster.phase("note"), "Running");
  EXPECT_EQ(condition(cluster.job("note"), "Idle")["reason"], "NoReading");
  EXPECT_EQ(pool_condition("MetricsRead")["status"], "False");
  EXPECT_THAT(pool_condition("MetricsRead")["message"].get<std::string>(),
              HasSubstr("3 of 3 nodes were not read"));
  EXPECT_THAT(first.metrics.text(), testing::Not(HasSubstr("of=\"gpus\",result=\"success\"} 1")));

  down.clear();
  ASSERT_TRUE(until("note", "Failed", minutes{62}));
  EXPECT_EQ(pool_condition("MetricsRead")["status"], "True");
}

// A new process has itself seen nothing.
TEST_F(GpuMetrics, AKilledControllerBeginsAnew) {
  read_gpus();
  interactive("note");
  auto& first = cluster.start();
  ASSERT_TRUE(until("note", "Running", minutes{1}));
  cluster.world.run_for(minutes{50});
  first.cut_off = true;
  cluster.world.run_for(minutes{20});
  EXPECT_EQ(cluster.phase("note"), "Running");
  cluster.start("second");
  cluster.world.run_for(minutes{55});
  EXPECT_EQ(cluster.phase("note"), "Running");
  EXPECT_TRUE(until("note", "Failed", minutes{10}));
  EXPECT_EQ(condition(cluster.job("note"), "Failed")["reason"], "IdleTimeout");
}

TEST_F(GpuMetrics, AGangIsFormedAnewWithoutAGpuThatHasDoubleBitErrors) {
  read_gpus();
  cluster.add_job("train", 2, 8);
  auto& first = cluster.start();
  ASSERT_TRUE(until("train", "Running", minutes{1}));
  const json before = cluster.job("train")["status"]["assignment"]["pods"];
  const std::string bad = before[1]["node"];
  failing = {{bad, 5}};
  ASSERT_TRUE(cluster.world.run_until(
      [&] { return cluster.job("train")["status"]["attempt"] == 2 && cluster.phase("train") == "Running"; },
      minutes{2}));
  const json& status = cluster.job("train")["status"];
  EXPECT_EQ(status["assignment"]["pods"][0]["node"], before[0]["node"]);
  EXPECT_NE(status["assignment"]["pods"][1]["node"], bad);
  EXPECT_EQ(status["assignment"]["resume"]["step"], 1200);
  EXPECT_EQ(status.value("/restarts/count"_json_pointer, 0), 0);
  EXPECT_THAT(pool_condition("GPUsFailing")["message"].get<std::string>(), HasSubstr("GPU 5 of " + bad));
  cluster.add_job("other", 1, 8);
  cluster.world.run_for(minutes{5});
  EXPECT_EQ(cluster.phase("other"), "Queued") << "seven of eight are left there";
  // A new process takes it from the one before, though the node does not answer.
  const json known = json::array({{{"node", bad}, {"gpus", {5}}}});
  EXPECT_EQ(cluster.server.object(kMuster + "nodepools", "default")["status"]["failingGPUs"], known);
  first.cut_off = true;
  down = {bad};
  cluster.start("second");
  cluster.world.run_for(minutes{5});
  EXPECT_EQ(cluster.phase("other"), "Queued");
  EXPECT_EQ(cluster.server.object(kMuster + "nodepools", "default")["status"]["failingGPUs"], known);
  down.clear();
  failing.clear();
  EXPECT_TRUE(until("other", "Running", minutes{2})) << "the driver was reset";
  EXPECT_EQ(cluster.job("train")["status"]["attempt"], 2);
  EXPECT_THAT(cluster.complaints, IsEmpty());
}

// As the GPU operator runs the exporter: in the pod network.
TEST_F(GpuMetrics, OfADaemonSetItsPodOnEachNodeIsRead) {
  json pool = cluster.server.object(kMuster + "nodepools", "default");
  pool["spec"]["gpuMetrics"]["daemonSet"] = {{"namespace", "ops"}, {"name", "dcgm"}};
  cluster.server.put(kMuster + "nodepools", pool);
  const auto pod = [&](const std::string& name, const std::string& node, const std::string& ip) {
    json object = {{"apiVersion", "v1"}, {"kind", "Pod"}};
    object["metadata"] = {{"name", name}, {"namespace", "ops"}};
    object["spec"] = {{"nodeName", node}};
    cluster.server.put(kPods, object);
    cluster.world.run_for(seconds{3});
    cluster.server.set_status(kPods, "ops/" + name,
                              {{"phase", ip.empty() ? "Pending" : "Running"}, {"podIP", ip}});
  };
  pod("dcgm-abcde", "node-0", "10.0.1.0");
  pod("dcgm-12345", "node-1", "10.0.1.1");
  pod("dcgm-fghij", "node-2", "");
  pod("dcgm-old-abcde", "node-2", "10.0.1.2");
  pod("dcgm-abcdef", "node-2", "10.0.1.2");
  auto& op = cluster.start();
  cluster.world.run_for(minutes{1});
  std::set<std::string> asked;
  for (const auto& request : op.endpoints.requests()) asked.insert(request.target);
  EXPECT_THAT(asked, testing::ElementsAre("http://10.0.1.0:9400/metrics", "http://10.0.1.1:9400/metrics"));
  EXPECT_THAT(
      pool_condition("MetricsRead")["message"].get<std::string>(),
      HasSubstr("1 of 3 nodes were not read, so nothing on them counts as idle: node node-2: no pod"));
}

// One node, so that it comes back to the same GPU: as soon as the node is not avoided any more.
TEST_F(GpuMetrics, WhoHasLeftAFullGpuLeavesItAgainAfterAnHourAndNobodyInItsPlace) {
  for (int i = 0; i < 3; ++i) {
    json node = cluster.server.object(kNodes, "node-" + std::to_string(i));
    node["metadata"]["labels"]["nvidia.com/gpu.memory"] = "81920";
    node["spec"]["unschedulable"] = i > 0;
    node["status"]["allocatable"]["nvidia.com/gpu"] = "1";
    cluster.server.put(kNodes, node);
  }
  read_gpus();
  cluster.add_priority_class("low", 10);
  cluster.add_priority_class("high", 100);
  for (const char* name : {"low", "high"}) {
    cluster.add_job(name, 1, 1, {{"priorityClassName", name}});
    json roles = cluster.job(name)["spec"]["roles"];
    roles[0]["gpus"] = {{"memory", "39Gi"}, {"onMemoryPressure", "Priority"}};
    cluster.edit_job(name, {{"roles", roles}});
  }
  cluster.start();
  ASSERT_TRUE(until("low", "Running", minutes{2}) && until("high", "Running", minutes{2}));
  ASSERT_EQ(gpu_of("low"), gpu_of("high"));
  busy.insert(gpu_of("low"));  // else the one that is idle goes
  cluster.world.run_for(minutes{10});
  const auto attempt = [&](const char* job) { return cluster.job(job)["status"].value("attempt", 0); };
  EXPECT_EQ(attempt("low"), 1) << "there is room";
  memory_used = 97;
  ASSERT_TRUE(cluster.world.run_until([&] { return cluster.phase("low") == "Queued"; }, minutes{2}));
  EXPECT_EQ(condition(cluster.job("low"), "Evicted")["reason"], "MemoryPressure");
  cluster.world.run_for(minutes{1});
  EXPECT_EQ(cluster.job("low")["status"]["queue"]["reason"], "NoMatchingNodes")
      << "elsewhere, and nowhere is";
  cluster.world.run_for(minutes{3});
  EXPECT_EQ(cluster.phase("low"), "Queued");
  ASSERT_TRUE(until("low", "Running", minutes{3}));
  ASSERT_EQ(gpu_of("low"), gpu_of("high"));
  cluster.world.run_for(minutes{50});
  EXPECT_EQ(attempt("low"), 2) << "full all the time, but it has just been asked to go";
  cluster.world.run_for(minutes{15});
  EXPECT_EQ(attempt("low"), 3);
  EXPECT_EQ(attempt("high"), 1);
  EXPECT_THAT(cluster.complaints, IsEmpty());
}

}  // namespace
}  // namespace muster::test
