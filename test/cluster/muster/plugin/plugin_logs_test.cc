// `kubectl muster logs` on a real API server. kubelet_logs.py plays the kubelet that it asks for the lines.
#include <gmock/gmock.h>

#include <fstream>
#include <future>

#include "muster/testcluster/loopback.h"
#include "plugin_fixture.h"

namespace muster::test {
namespace {

using testing::HasSubstr;

class PluginLogs : public OneCluster {
 protected:
  static void SetUpTestSuite() {
    folder_ = std::filesystem::temp_directory_path() / ("muster-plugin-logs-" + std::to_string(getpid()));
    std::filesystem::create_directories(folder_);
    cluster_ = Cluster::start(1, 8);
    const int port = testcluster::free_port();
    start_kubelet(port);
    // Where the API server finds it.
    const json status = {{"addresses", {{{"type", "InternalIP"}, {"address", "127.0.0.1"}}}},
                         {"daemonEndpoints", {{"kubeletEndpoint", {{"Port", port}}}}}};
    const auto told =
        cluster_->real().request("PATCH", "/api/v1/nodes/node-0/status", json{{"status", status}}.dump(),
                                 "application/merge-patch+json");
    ASSERT_TRUE(told && told->ok()) << (told ? told->body : told.error());
    muster_ = cluster_->muster();
  }
  static void TearDownTestSuite() {
    testcluster::end_process(kubelet_, 1s);
    OneCluster::TearDownTestSuite();
    std::filesystem::remove_all(folder_);
  }

  static void start_kubelet(int port) {
    const std::string key = (folder_ / "key.pem").string(), certificate = (folder_ / "cert.pem").string();
    const auto made = testcluster::run_command(
        {.arguments = {"openssl", "req", "-x509", "-newkey", "rsa:2048", "-nodes", "-days", "1", "-subj",
                       "/CN=kubelet", "-keyout", key, "-out", certificate},
         .environment = {},
         .log = {}});
    ASSERT_TRUE(made && made->ok());
    const auto kubelet =
        testcluster::spawn({.arguments = {"python3", MUSTER_KUBELET_LOGS, std::to_string(port),
                                          folder_.string(), certificate, key},
                            .environment = {},
                            .log = folder_ / "kubelet.log"});
    ASSERT_TRUE(kubelet) << kubelet.error();
    kubelet_ = *kubelet;
  }
  static std::string pod(int index) { return "gang-worker-" + std::to_string(index) + "-1"; }
  static void write(int index, const std::string& second, const std::string& text) {
    std::ofstream(folder_ / pod(index), std::ios::app)
        << "2026-03-04T12:00:" << second << "Z " << text << '\n';
  }

  static void start_gang() {
    cluster_->create(job_object({.name = "gang", .replicas = 2}));
    ASSERT_TRUE(cluster_->wait_phase("gang", "Running"));
  }
  static CommandResult ask(std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), {"logs", "-n", "team", "gang"});
    return ask_plugin(std::move(arguments), cluster_->real().kubeconfig());
  }

  static inline std::filesystem::path folder_;
  static inline testcluster::ProcessId kubelet_;
};

TEST_F(PluginLogs, AreOfAllRanksInTheOrderOfTheirTimes) {
  write(0, "00.5", "step 1");
  write(0, "02", "step 2");
  write(1, "01.25", "hello");
  start_gang();
  ASSERT_TRUE(cluster_->wait(20s, [] { return ask({}).exit_code == 0; })) << ask({}).err;  // it listens now
  const auto all = ask({});
  EXPECT_EQ(all.out, "[0] step 1\n[1] hello\n[0] step 2\n") << all.err;
  EXPECT_EQ(ask({"--tail", "1"}).out, "[1] hello\n[0] step 2\n");
  EXPECT_EQ(ask({"--rank", "1"}).out, "[1] hello\n");
  const auto beyond = ask({"--rank", "2"});
  EXPECT_EQ(beyond.exit_code, 1);
  EXPECT_THAT(beyond.err, HasSubstr("team/gang has no rank 2: its ranks are 0 to 1"));
  const auto container = ask({"--container", "side"});
  EXPECT_EQ(container.exit_code, 1);
  EXPECT_THAT(container.err, HasSubstr("[0] error: container side is not valid for pod gang-worker-0-1"));
}

TEST_F(PluginLogs, AreFollowedUntilTheJobHasEnded) {
  start_gang();
  auto followed = std::async(std::launch::async, [] { return ask({"-f", "--tail", "0"}); });
  // It says what is written after it has begun. When that is, nobody tells: so it is written until it ends.
  bool is_ending = false;
  for (int i = 0; followed.wait_for(500ms) != std::future_status::ready && i < 100; ++i) {
    write(1, "10", "later");
    if (i < 6 || is_ending) continue;
    is_ending = true;
    for (const int index : {0, 1}) {
      cluster_->patch("/api/v1/namespaces/team/pods/" + pod(index),
                      {{"metadata", {{"annotations", {{"test.muster.dev/exit-now", "0"}}}}}});
      std::ofstream(folder_ / (pod(index) + ".ended")) << '\n';
    }
  }
  ASSERT_EQ(followed.wait_for(0s), std::future_status::ready);
  const auto result = followed.get();
  EXPECT_EQ(result.exit_code, 0) << result.err;
  EXPECT_THAT(result.out, HasSubstr("[1] later\n")) << result.err;
}

TEST_F(PluginLogs, OfAJobWithoutPodsSayWhereToLook) {
  cluster_->create(job_object({.name = "gang", .replicas = 2, .gpus = 8}));
  ASSERT_TRUE(cluster_->wait(20s, [] { return !cluster_->reason("gang").empty(); }));
  const auto none = ask({});
  EXPECT_EQ(none.exit_code, 1);
  EXPECT_THAT(none.err, HasSubstr("team/gang has no pods; `kubectl muster why` says what it does"));
}

}  // namespace
}  // namespace muster::test
