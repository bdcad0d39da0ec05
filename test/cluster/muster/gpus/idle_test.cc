// Idle jobs and failing GPUs, live: the test plays the DCGM exporters. Simulated nodes get addresses of this
// machine, and what answers there says how busy their GPUs are.
#include <gmock/gmock.h>

#include <atomic>
#include <ctime>
#include <mutex>
#include <set>
#include <thread>

#include "fixture.h"
#include "metrics_servers.h"

namespace muster::test {
namespace {

using testing::HasSubstr;

constexpr int kNodes = 3, kGpus = 2;
const std::string kPool = "/apis/muster.dev/v1alpha1/nodepools/default";

using Gpu = std::pair<std::string, int>;  // node, index

// Those of all nodes.
class Exporters {
 public:
  int port() const { return servers_.port(); }

  // Whoever is busy, fails, or does not answer.
  template <class Change>
  void set(Change change) {
    const std::lock_guard lock(mutex_);
    change(*this);
  }
  // So often that what is there would show.
  bool let_it_read(const Cluster& cluster, int rounds) const {
    const int before = asked;
    return cluster.wait(60s, [&] { return asked >= before + rounds * kNodes; });
  }

  std::set<Gpu> busy, failing;
  std::set<std::string> down;
  std::map<std::string, std::map<int, std::string>> pods;  // by node and GPU: "namespace/name"
  std::atomic<int> asked = 0;

 private:
  controller::HttpAnswer answer(const std::string& node) {
    const std::lock_guard lock(mutex_);
    ++asked;
    if (down.contains(node)) return {503, "not now\n"};
    std::string text =
        "# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).\n# TYPE DCGM_FI_DEV_GPU_UTIL gauge\n";
    for (int gpu = 0; gpu < kGpus; ++gpu) {
      std::string labels = "gpu=\"" + std::to_string(gpu) + "\",Hostname=\"" + node + "\"";
      if (const auto known = pods.find(node); known != pods.end() && known->second.contains(gpu)) {
        const std::string& pod = known->second[gpu];
        labels += ",namespace=\"" + pod.substr(0, pod.find('/')) + "\",pod=\"" +
                  pod.substr(pod.find('/') + 1) + "\"";
      }
      text += "DCGM_FI_DEV_GPU_UTIL{" + labels + "} " + (busy.contains({node, gpu}) ? "93" : "0") + "\n";
      text += "DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{" + labels + "} " + (failing.contains({node, gpu}) ? "1" : "0") +
              "\n";
    }
    return {200, text};
  }

  std::mutex mutex_;
  // Last: it uses the others.
  MetricsServers servers_{kNodes, [this](int i) { return answer("node-" + std::to_string(i)); }};
};

class Idleness : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    cluster_ = Cluster::start(kNodes, kGpus);
    exporters_ = std::make_unique<Exporters>();
    for (int i = 0; i < kNodes; ++i) {
      cluster_->patch(
          "/api/v1/nodes/node-" + std::to_string(i) + "/status",
          {{"status", {{"addresses", {{{"type", "InternalIP"}, {"address", MetricsServers::address(i)}}}}}}});
    }
    muster_ = cluster_->muster();
  }
  static void TearDownTestSuite() {
    muster_.reset();
    exporters_.reset();
    cluster_.reset();
  }
  void TearDown() override {
    if (HasFailure() && muster_) std::cerr << muster_->log().substr(0, 20000);
    cluster_->remove_all_jobs();
    exporters_->set([](Exporters& e) {
      e.busy.clear();
      e.failing.clear();
      e.down.clear();
      e.pods.clear();
    });
    EXPECT_TRUE(muster_->alive());
  }

  static void read_gpus(bool is_read) {
    json metrics;
    if (is_read) metrics = {{"port", exporters_->port()}, {"interval", "1s"}};
    cluster_->patch(kPool, {{"spec", {{"gpuMetrics", metrics}}}});
  }
  static void interactive(const std::string& name, const std::string& timeout) {
    cluster_->create(job_object(
        {.name = name,
         .pod_annotations = {{"test.muster.dev/save-for", "500ms"},
                             {"test.muster.dev/termination-message", R"({"checkpoint":{"step":7}})"}},
         .spec = {{"mode", "Interactive"}, {"maxRuntime", "12h"}, {"idle", {{"timeout", timeout}}}}}));
    ASSERT_TRUE(cluster_->wait_phase(name, "Running")) << cluster_->job(name).dump(2);
  }
  static Gpu gpu_of(const std::string& job) {
    const json place = cluster_->job(job)["status"]["assignment"]["pods"][0];
    return {place["node"], place["gpus"][0]};
  }
  static std::string idle_reason(const std::string& job) {
    const json c = cluster_->condition(job, "Idle");
    return c.is_null() ? "" : c["reason"].get<std::string>();
  }
  static bool wait_idle_reason(const std::string& job, const std::string& reason) {
    return cluster_->wait(30s, [&] { return idle_reason(job) == reason; });
  }
  static std::string pool_condition(const std::string& type, const char* field) {
    const json c = cluster_->condition_of(kPool, type);
    return c.is_null() ? "" : c.value(field, "");
  }

  static inline std::unique_ptr<Cluster> cluster_;
  static inline std::unique_ptr<Exporters> exporters_;
  static inline std::unique_ptr<MusterProcess> muster_;
};

TEST_F(Idleness, AJobThatNobodyUsesEndsAndOneThatWorksOrCannotBeReadDoesNot) {
  exporters_->set([](Exporters& e) { e.down = {"node-0", "node-1", "node-2"}; });
  read_gpus(true);
  interactive("works", "6s");
  interactive("forgotten", "6s");
  interactive("unseen", "6s");
  // Nobody answers: nobody ends, in this process or the next.
  ASSERT_TRUE(wait_idle_reason("forgotten", "NoReading")) << cluster_->job("forgotten").dump(2);
  EXPECT_THAT(cluster_->condition("forgotten", "Idle")["message"].get<std::string>(),
              HasSubstr("/metrics answers with 503"));
  ASSERT_TRUE(exporters_->let_it_read(*cluster_, 4));
  muster_->kill();
  muster_ = cluster_->muster();
  ASSERT_TRUE(exporters_->let_it_read(*cluster_, 8));
  for (const char* job : {"works", "forgotten", "unseen"}) EXPECT_EQ(cluster_->phase(job), "Running") << job;
  ASSERT_TRUE(cluster_->wait(20s, [] { return pool_condition("MetricsRead", "reason") == "NodesNotRead"; }))
      << cluster_->get(kPool).dump(2);

  // Now all answer. The exporter of one node names another pod at the GPU: of that job nothing is known.
  const Gpu works = gpu_of("works"), forgotten = gpu_of("forgotten"), unseen = gpu_of("unseen");
  const auto pod_at = [](const std::string& job) { return "team/" + job + "-worker-0-1"; };
  ASSERT_EQ(cluster_->pods("works")[0]["metadata"]["name"], "works-worker-0-1");
  exporters_->set([&](Exporters& e) {
    e.down.clear();
    // kubelet chose otherwise than placement counted: the work of `works` shows at an index that is
    // not its own.
    e.pods[works.first][1 - works.second] = pod_at("works");
    e.busy.insert({works.first, 1 - works.second});
    e.pods[forgotten.first][forgotten.first == works.first ? works.second : forgotten.second] =
        pod_at("forgotten");
    e.pods[unseen.first].try_emplace(unseen.second, "team/somebody-else");
  });
  ASSERT_TRUE(cluster_->wait_phase("forgotten", "Failed", 40s)) << cluster_->job("forgotten").dump(2);
  const json failed = cluster_->condition("forgotten", "Failed");
  EXPECT_EQ(failed["reason"], "IdleTimeout");
  EXPECT_THAT(failed["message"].get<std::string>(), HasSubstr("below 5 % for idle.timeout 6s"));
  EXPECT_TRUE(cluster_->wait(20s, [] {
    return cluster_->pods("forgotten").empty() &&
           cluster_->job("forgotten").value("/status/checkpoint/step"_json_pointer, 0) == 7;
  })) << cluster_->job("forgotten").dump(2);
  ASSERT_TRUE(exporters_->let_it_read(*cluster_, 10));
  EXPECT_EQ(cluster_->phase("works"), "Running");
  EXPECT_EQ(idle_reason("works"), "GPUsInUse");
  EXPECT_EQ(cluster_->phase("unseen"), "Running");
  EXPECT_EQ(idle_reason("unseen"), "NoReading");
  EXPECT_TRUE(cluster_->wait(10s, [] {
    std::set<std::string> reasons;
    const json events = cluster_->get("/apis/events.k8s.io/v1/namespaces/team/events");
    for (const auto& e : events["items"]) {
      if (e["regarding"]["name"] == "forgotten") reasons.insert(e["reason"]);
    }
    return reasons.contains("Idle") && reasons.contains("IdleTimeout");
  }));

  // Where nobody says anything, nobody is idle.
  exporters_->set([](Exporters& e) { e.busy.clear(), e.pods.clear(); });
  read_gpus(false);
  ASSERT_TRUE(wait_idle_reason("works", "NoReading")) << cluster_->job("works").dump(2);
  EXPECT_THAT(cluster_->condition("works", "Idle")["message"].get<std::string>(), HasSubstr("no gpuMetrics"));
  EXPECT_EQ(cluster_->phase("works"), "Running");
}

// A new process knows nothing of the idle time before it; half of it passes anew before anybody is warned.
TEST_F(Idleness, AKilledControllerEndsNobodyForWhatItDidNotSee) {
  read_gpus(true);
  interactive("note", "20s");
  ASSERT_TRUE(wait_idle_reason("note", "HalfOfTimeout")) << cluster_->job("note").dump(2);
  muster_->kill();
  muster_ = cluster_->muster();
  ASSERT_TRUE(wait_idle_reason("note", "GPUsInUse")) << cluster_->job("note").dump(2);
  EXPECT_EQ(cluster_->phase("note"), "Running");
  ASSERT_TRUE(cluster_->wait_phase("note", "Failed", 60s)) << cluster_->job("note").dump(2);
  EXPECT_EQ(cluster_->condition("note", "Failed")["reason"], "IdleTimeout");
}

// Plays the program of a session, which says when somebody last used it.
class Program {
 public:
  int port() const { return server_.port(); }
  void used_now() { used_ = -1; }  // whenever it is asked
  void used_last() { used_ = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now()); }

 private:
  controller::HttpAnswer answer() const {
    std::time_t at = used_;
    if (at < 0) at = std::chrono::system_clock::to_time_t(std::chrono::system_clock::now());
    std::string text(sizeof "2026-01-02T03:04:05Z", '\0');
    std::tm utc{};
    text.resize(std::strftime(text.data(), text.size(), "%Y-%m-%dT%H:%M:%SZ", gmtime_r(&at, &utc)));
    return {200, R"({"last_activity": ")" + text + R"("})"};
  }

  std::atomic<std::time_t> used_ = -1;
  MetricsServers server_{1, [this](int) { return answer(); }};  // last: it uses the others
};

TEST_F(Idleness, ASessionThatTellsOfItsUseEndsWhenItsGpusAndItsProgramSaySo) {
  Program program;
  const auto session = [&](const std::string& name) {
    cluster_->create(
        job_object({.name = name,
                    .spec = {{"mode", "Interactive"},
                             {"expose", {{{"name", "jupyter"}, {"port", program.port()}}}},
                             {"idle", {{"timeout", "8s"}, {"activityPath", "/metrics?token=s3cret"}}}}}));
    ASSERT_TRUE(cluster_->wait_phase(name, "Running")) << cluster_->job(name).dump(2);
    const std::string address = MetricsServers::address(0);
    cluster_->patch("/api/v1/namespaces/team/pods/" + name + "-worker-0-1/status",
                    {{"status", {{"podIP", address}, {"podIPs", {{{"ip", address}}}}}}});
  };
  // Where no GPU is read its program alone decides, in the next process too.
  read_gpus(false);
  session("alone");
  ASSERT_TRUE(wait_idle_reason("alone", "InUse")) << cluster_->job("alone").dump(2);
  std::this_thread::sleep_for(9s);
  EXPECT_EQ(cluster_->phase("alone"), "Running");
  program.used_last();
  ASSERT_TRUE(wait_idle_reason("alone", "HalfOfTimeout")) << cluster_->job("alone").dump(2);
  muster_->kill();
  muster_ = cluster_->muster();
  ASSERT_TRUE(cluster_->wait_phase("alone", "Failed", 40s)) << cluster_->job("alone").dump(2);
  EXPECT_EQ(cluster_->condition("alone", "Failed")["message"],
            "nobody used it, as /metrics says, for idle.timeout 8s");

  // Where they are read, both have to say so.
  read_gpus(true);
  program.used_last();
  session("both");
  const Gpu gpu = gpu_of("both");
  exporters_->set([&](Exporters& e) { e.busy = {gpu}; });
  ASSERT_TRUE(wait_idle_reason("both", "InUse")) << cluster_->job("both").dump(2);
  ASSERT_TRUE(exporters_->let_it_read(*cluster_, 12));
  EXPECT_EQ(cluster_->phase("both"), "Running") << "its GPU works";
  program.used_now();
  std::this_thread::sleep_for(2s);
  exporters_->set([](Exporters& e) { e.busy.clear(); });
  ASSERT_TRUE(exporters_->let_it_read(*cluster_, 12));
  EXPECT_EQ(cluster_->phase("both"), "Running") << "somebody types";
  program.used_last();
  ASSERT_TRUE(cluster_->wait_phase("both", "Failed", 40s)) << cluster_->job("both").dump(2);
  EXPECT_EQ(cluster_->condition("both", "Failed")["message"],
            "all its GPUs were used below 5 % and nobody used it, as /metrics says, for idle.timeout 8s");
}

TEST_F(Idleness, AGangIsFormedAnewWithoutAGpuThatHasDoubleBitErrors) {
  read_gpus(true);
  cluster_->create(job_object(
      {.name = "train",
       .replicas = 2,
       .gpus = kGpus,
       .pod_annotations = {{"test.muster.dev/termination-message", R"({"checkpoint":{"step":1200}})"}},
       .spec = {{"restart", {{"limit", 0}}}}}));
  ASSERT_TRUE(cluster_->wait_phase("train", "Running"));
  const json before = cluster_->job("train")["status"]["assignment"]["pods"];
  const std::string bad = before[1]["node"];
  exporters_->set([&](Exporters& e) { e.failing = {{bad, 1}}; });
  ASSERT_TRUE(cluster_->wait(40s, [] {
    const json status = cluster_->job("train")["status"];
    return status["attempt"] == 2 && status["phase"] == "Running";
  })) << cluster_->job("train").dump(2);
  const json status = cluster_->job("train")["status"];
  EXPECT_EQ(status["assignment"]["pods"][0]["node"], before[0]["node"]) << "healthy places are kept";
  EXPECT_NE(status["assignment"]["pods"][1]["node"], bad);
  EXPECT_EQ(status["assignment"]["resume"]["step"], 1200);
  EXPECT_EQ(status.value("/restarts/count"_json_pointer, 0), 0);
  EXPECT_TRUE(cluster_->wait(20s, [&] {
    return pool_condition("GPUsFailing", "message").find("GPU 1 of " + bad) != std::string::npos;
  })) << cluster_->get(kPool).dump(2);
  // The next process knows it from the start, though the node is silent: nothing new goes there.
  exporters_->set([&](Exporters& e) { e.down = {bad}; });
  muster_->kill();
  cluster_->create(job_object({.name = "other", .gpus = kGpus}));
  muster_ = cluster_->muster();
  ASSERT_TRUE(exporters_->let_it_read(*cluster_, 4));
  EXPECT_EQ(cluster_->phase("other"), "Queued") << cluster_->job("other").dump(2);
  EXPECT_EQ(cluster_->job("other")["status"].value("attempt", 0), 0);
  exporters_->set([](Exporters& e) { e.down.clear(), e.failing.clear(); });
  EXPECT_TRUE(cluster_->wait_phase("other", "Running")) << "the driver was loaded anew";
  EXPECT_EQ(cluster_->audit_gpus(), "");
}

}  // namespace
}  // namespace muster::test
