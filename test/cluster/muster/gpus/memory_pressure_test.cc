// Shared GPUs whose memory fills up, live: the test plays the DCGM exporters of simulated nodes, which name
// the pod that holds a shared GPU.
#include <gmock/gmock.h>

#include <atomic>
#include <mutex>
#include <set>
#include <thread>

#include "fixture.h"
#include "metrics_servers.h"

namespace muster::test {
namespace {

using testing::HasSubstr;

constexpr int kNodes = 2;
const std::string kPool = "/apis/muster.dev/v1alpha1/nodepools/default";

// One GPU a node, of 81559 MiB. Two jobs that share it ask for just half of it each, so that packing them
// leaves nothing.
class Exporters {
 public:
  int port() const { return servers_.port(); }
  // So much of its GPU's memory is used, in per cent; nullopt: it does not answer.
  void set(int node, std::optional<int> percent) {
    const std::lock_guard lock(mutex_);
    used_[node] = percent;
  }
  bool let_it_read(const Cluster& cluster, int rounds) const {
    const int before = asked_;
    return cluster.wait(60s, [&] { return asked_ >= before + rounds * kNodes; });
  }

 private:
  controller::HttpAnswer answer(int node) {
    const std::lock_guard lock(mutex_);
    ++asked_;
    if (!used_[node]) return {503, "not now\n"};
    const std::string name = "node-" + std::to_string(node);
    // As the exporter has it: whoever asked the device plugin for the GPU, under the kubelet's own number.
    const std::string labels =
        R"({gpu="5",Hostname=")" + name + R"(",namespace="muster-system",pod="gpu-0-)" + name + "\"} ";
    const int used = (81920 * *used_[node] + 99) / 100;
    return {200, "DCGM_FI_DEV_GPU_UTIL" + labels + "93\nDCGM_FI_DEV_FB_USED" + labels + std::to_string(used) +
                     "\nDCGM_FI_DEV_FB_FREE" + labels + std::to_string(81920 - used) + "\n"};
  }

  std::mutex mutex_;
  std::map<int, std::optional<int>> used_;
  std::atomic<int> asked_ = 0;
  // Last: it uses the others.
  MetricsServers servers_{kNodes, [this](int i) { return answer(i); }};
};

class MemoryPressure : public OneCluster {
 protected:
  static void SetUpTestSuite() {
    cluster_ = Cluster::start(kNodes, 1);
    exporters_ = std::make_unique<Exporters>();
    for (int i = 0; i < kNodes; ++i) {
      cluster_->patch(
          "/api/v1/nodes/node-" + std::to_string(i) + "/status",
          {{"status", {{"addresses", {{{"type", "InternalIP"}, {"address", MetricsServers::address(i)}}}}}}});
    }
    cluster_->patch(
        kPool,
        {{"spec",
          {{"gpuMetrics", {{"port", exporters_->port()}, {"interval", "1s"}, {"memoryPressureAt", 90}}}}}});
    cluster_->apply(R"(
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: low}, value: 10}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 100}
)");
    muster_ = cluster_->muster();
  }
  static void TearDownTestSuite() {
    muster_.reset();
    exporters_.reset();
    cluster_.reset();
  }

  // `node`: there and nowhere else; -1: anywhere.
  static void start(const std::string& name, const std::string& priority, int node = -1) {
    json job = job_object({.name = name, .gpus = 0, .spec = {{"priorityClassName", priority}}});
    job["spec"]["roles"][0]["gpus"] = {{"memory", "40779Mi"}, {"onMemoryPressure", "Priority"}};
    if (node >= 0)
      job["spec"]["roles"][0]["template"]["spec"]["nodeSelector"] = {
          {"kubernetes.io/hostname", "node-" + std::to_string(node)}};
    cluster_->create(job);
    ASSERT_TRUE(cluster_->wait_phase(name, "Running")) << cluster_->job(name).dump(2);
  }
  static int node_of(const std::string& job) {
    const std::string node = cluster_->job(job)["status"]["assignment"]["pods"][0]["node"];
    return node.back() - '0';
  }
  static int attempt_of(const std::string& job) { return cluster_->job(job)["status"].value("attempt", 0); }

  static inline std::unique_ptr<Exporters> exporters_;
};

TEST_F(MemoryPressure, TheOneOfLowerPriorityGoesElsewhereAndThatIsAccounted) {
  start("low", "low");
  start("high", "high");
  const int shared = node_of("low"), other = 1 - shared;
  ASSERT_EQ(node_of("high"), shared) << "packed onto one GPU";
  const json pod = cluster_->pods("low")[0];
  EXPECT_THAT(pod["spec"]["containers"][0]["env"].dump(), HasSubstr("MUSTER_ON_MEMORY_PRESSURE"));
  // Nobody answers, then the GPU is not full: nobody goes.
  ASSERT_TRUE(exporters_->let_it_read(*cluster_, 3));
  exporters_->set(shared, 89);
  exporters_->set(other, 0);
  ASSERT_TRUE(exporters_->let_it_read(*cluster_, 4));
  EXPECT_EQ(attempt_of("low"), 1) << cluster_->job("low").dump(2);
  std::this_thread::sleep_for(3s);  // it has done something that it loses

  exporters_->set(shared, 97);
  ASSERT_TRUE(cluster_->wait(40s, [] {
    return attempt_of("low") == 2 && cluster_->phase("low") == "Running";
  })) << cluster_->job("low").dump(2);
  EXPECT_EQ(node_of("low"), other);
  EXPECT_EQ(attempt_of("high"), 1);
  const json status = cluster_->job("low")["status"];
  EXPECT_EQ(status["nodeRefusals"][0]["reason"], "MemoryPressure");
  EXPECT_EQ(status["nodeRefusals"][0]["node"], "node-" + std::to_string(shared));
  const json line = status["disruptions"][0];
  EXPECT_EQ(line["reason"], "MemoryPressure");
  EXPECT_THAT(line["message"].get<std::string>(), HasSubstr("is 97 % full, and 2 jobs share it"));
  EXPECT_GT(line.value("cost", 0), 0) << line.dump();
  EXPECT_EQ(status["disruption"].value("lostOwed", 0), line.value("cost", 0));
  EXPECT_EQ(status.value("preemptions", 0), 0);
  EXPECT_TRUE(cluster_->wait(10s, [] {
    const json events = cluster_->get("/apis/events.k8s.io/v1/namespaces/team/events");
    return std::ranges::any_of(events["items"], [](const json& e) {
      return e["regarding"]["name"] == "low" && e["reason"] == "MemoryPressure" && e["action"] == "Evict";
    });
  }));
  EXPECT_TRUE(cluster_->wait(20s, [] {
    const json project = cluster_->get("/apis/muster.dev/v1alpha1/projects/team");
    return project.value("/status/usage/total/lost"_json_pointer, 0) > 0;
  })) << cluster_->get("/apis/muster.dev/v1alpha1/projects/team").dump(2);

  // The GPU stays full, whoever comes: the next one does not go before its time.
  start("later", "low", shared);
  ASSERT_TRUE(exporters_->let_it_read(*cluster_, 8));
  EXPECT_EQ(attempt_of("later"), 1);
  EXPECT_EQ(attempt_of("low"), 2);
  EXPECT_EQ(cluster_->audit_gpus(), "");
}

}  // namespace
}  // namespace muster::test
