// The test cluster itself: does it start, do simulated nodes and pods do what stages.yaml promises, is
// nothing left?
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <unistd.h>

#include <chrono>
#include <cstdlib>
#include <fstream>
#include <iostream>
#include <nlohmann/json.hpp>
#include <optional>
#include <sstream>

#include "muster/testcluster/testcluster.h"

namespace muster::testcluster {
namespace {

using nlohmann::json;
using std::chrono::steady_clock;
using namespace std::chrono_literals;

Milliseconds since(steady_clock::time_point start) {
  return std::chrono::duration_cast<Milliseconds>(steady_clock::now() - start);
}

class HarnessTest : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    const auto start = steady_clock::now();
    auto started = TestCluster::start({});
    ASSERT_TRUE(started) << started.error();
    std::cout << "cluster ready after " << since(start).count() << " ms\n";
    cluster_ = std::make_unique<TestCluster>(std::move(*started));
    NodeTemplate nodes;
    nodes.count = 3;
    const auto names = cluster_->add_nodes(nodes);
    ASSERT_TRUE(names) << names.error();
    ASSERT_THAT(*names, testing::ElementsAre("node-0", "node-1", "node-2"));
  }
  static void TearDownTestSuite() { cluster_.reset(); }

  static json get(const std::string& path) {
    const auto answer = cluster_->request("GET", path);
    return answer && answer->ok() ? json::parse(answer->body) : json();
  }
  static json pod(const std::string& name) { return get("/api/v1/namespaces/default/pods/" + name); }
  static std::string phase(const std::string& name) {
    const json object = pod(name);
    return object.is_null() ? "" : object.at("status").value("phase", "");
  }
  static void create_pod(const std::string& name, const json& annotations,
                         const std::string& node = "node-0") {
    const json object = {
        {"apiVersion", "v1"},
        {"kind", "Pod"},
        {"metadata", {{"name", name}, {"annotations", annotations}}},
        {"spec",
         {{"nodeName", node},
          {"restartPolicy", "Never"},
          {"containers",
           {{{"name", "a"}, {"image", "x"}, {"resources", {{"limits", {{"nvidia.com/gpu", "1"}}}}}},
            {{"name", "b"}, {"image", "y"}}}}}}};
    const auto answer = cluster_->request("POST", "/api/v1/namespaces/default/pods", object.dump());
    ASSERT_TRUE(answer) << answer.error();
    ASSERT_EQ(answer->status, 201) << answer->body;
  }
  static void annotate(const std::string& path, const json& annotations) {
    const json patch = {{"metadata", {{"annotations", annotations}}}};
    const auto answer = cluster_->request("PATCH", path, patch.dump(), "application/merge-patch+json");
    ASSERT_TRUE(answer) << answer.error();
    ASSERT_EQ(answer->status, 200) << answer->body;
  }
  static void delete_pod(const std::string& name, int grace_seconds) {
    const auto answer =
        cluster_->request("DELETE", "/api/v1/namespaces/default/pods/" + name +
                                        "?gracePeriodSeconds=" + std::to_string(grace_seconds));
    ASSERT_TRUE(answer) << answer.error();
    ASSERT_EQ(answer->status, 200) << answer->body;
  }
  static bool await_phase(const std::string& name, const std::string& wanted, Milliseconds timeout = 10s) {
    return wait_until(timeout, [&] { return phase(name) == wanted; });
  }
  // The pod as the watch showed it last. What a pod shows in its last moment must be taken from a watch.
  static json last_modified_event(const std::string& name, const std::string& resource_version, int seconds) {
    const auto answer = cluster_->request(
        "GET", "/api/v1/namespaces/default/pods?watch=true&fieldSelector=metadata.name=" + name +
                   "&resourceVersion=" + resource_version + "&timeoutSeconds=" + std::to_string(seconds));
    json last;
    if (!answer) return last;
    std::istringstream lines(answer->body);
    for (std::string line; std::getline(lines, line);) {
      const json event = json::parse(line);
      if (event.at("type") == "MODIFIED") last = event.at("object");
    }
    return last;
  }
  static json terminated(const json& object, std::size_t container = 0) {
    return object.at("status").at("containerStatuses").at(container).at("state").value("terminated", json());
  }

  static std::unique_ptr<TestCluster> cluster_;
};
std::unique_ptr<TestCluster> HarnessTest::cluster_;

TEST_F(HarnessTest, NodesAreReadyWithWhatTheyWereMadeWith) {
  NodeTemplate nodes;
  nodes.prefix = "big";
  nodes.first = 6;
  nodes.count = 3;
  nodes.gpus = 4;
  nodes.model = "NVIDIA-A100-SXM4-40GB";
  nodes.gpu_memory_mib = 40960;
  nodes.nodes_per_rack = 4;
  nodes.racks_per_block = 2;
  nodes.labels["team"] = "x";
  nodes.taints = {{"gpu", "only", "NoSchedule"}};
  ASSERT_TRUE(cluster_->add_nodes(nodes));
  const json node = get("/api/v1/nodes/big-8");
  EXPECT_EQ(node["status"]["allocatable"],
            (json{{"cpu", "128"}, {"memory", "1Ti"}, {"nvidia.com/gpu", "4"}, {"pods", "110"}}));
  EXPECT_EQ(node["status"]["capacity"], node["status"]["allocatable"]);
  const json& labels = node["metadata"]["labels"];
  EXPECT_EQ(labels["nvidia.com/gpu.product"], "NVIDIA-A100-SXM4-40GB");
  EXPECT_EQ(labels["nvidia.com/gpu.memory"], "40960");
  EXPECT_EQ(labels["kubernetes.io/hostname"], "big-8");
  EXPECT_EQ(labels["muster.dev/rack"], "rack-2");
  EXPECT_EQ(labels["muster.dev/block"], "block-1");
  EXPECT_EQ(labels["team"], "x");
  EXPECT_EQ(node["spec"]["taints"], (json{{{"key", "gpu"}, {"value", "only"}, {"effect", "NoSchedule"}}}));
}

TEST_F(HarnessTest, NodeGoesDownAndComesBack) {
  const auto ready = [] {
    const json node = get("/api/v1/nodes/node-2");
    for (const json& condition : node["status"]["conditions"])
      if (condition["type"] == "Ready") return condition["status"].get<std::string>();
    return std::string();
  };
  annotate("/api/v1/nodes/node-2", {{"test.muster.dev/down", "true"}});
  EXPECT_TRUE(wait_until(10s, [&] { return ready() == "Unknown"; }));
  annotate("/api/v1/nodes/node-2", {{"test.muster.dev/down", nullptr}});
  EXPECT_TRUE(wait_until(10s, [&] { return ready() == "True"; }));
}

TEST_F(HarnessTest, PodRunsUntilDeletedAndGoesAtOnce) {
  create_pod("plain", json::object());
  ASSERT_TRUE(await_phase("plain", "Running"));
  const json object = pod("plain");
  EXPECT_EQ(object["status"]["containerStatuses"].size(), 2u);
  EXPECT_FALSE(object["status"].value("podIP", "").empty());
  // One that was made later has come to its end by itself; this one has not.
  create_pod("ends", {{"test.muster.dev/runs-for", "1s"}});
  ASSERT_TRUE(await_phase("ends", "Succeeded", 30s));
  EXPECT_EQ(phase("plain"), "Running");
  delete_pod("plain", 30);
  EXPECT_TRUE(wait_until(5s, [] { return pod("plain").is_null(); }));
}

TEST_F(HarnessTest, PodCompletesAfterRunsFor) {
  const auto start = steady_clock::now();
  create_pod("done", {{"test.muster.dev/runs-for", "1500ms"},
                      {"test.muster.dev/termination-message", R"({"step":7})"}});
  ASSERT_TRUE(await_phase("done", "Running"));
  // Changes to the pod do not start its clock anew: it would never end while they go on.
  int change = 0;
  ASSERT_TRUE(wait_until(
      30s,
      [&] {
        annotate("/api/v1/namespaces/default/pods/done", {{"change", std::to_string(change++)}});
        return phase("done") == "Succeeded";
      },
      200ms));
  EXPECT_GE(since(start), 1500ms);
  const json end = terminated(pod("done"), 1);
  EXPECT_EQ(end["exitCode"], 0);
  EXPECT_EQ(end["reason"], "Completed");
  EXPECT_EQ(end["message"], R"({"step":7})");
  EXPECT_TRUE(end["startedAt"].is_string());
  EXPECT_TRUE(end["finishedAt"].is_string());
  delete_pod("done", 30);
  EXPECT_TRUE(wait_until(5s, [] { return pod("done").is_null(); }));
}

TEST_F(HarnessTest, PodFailsWithExitCode) {
  create_pod("bad", {{"test.muster.dev/runs-for", "100ms"}, {"test.muster.dev/exit-code", "3"}});
  ASSERT_TRUE(await_phase("bad", "Failed"));
  const json end = terminated(pod("bad"));
  EXPECT_EQ(end["exitCode"], 3);
  EXPECT_EQ(end["reason"], "Error");
}

TEST_F(HarnessTest, PodEndsAtOnceWhenTold) {
  create_pod("told", json::object());
  ASSERT_TRUE(await_phase("told", "Running"));
  annotate("/api/v1/namespaces/default/pods/told", {{"test.muster.dev/exit-now", "42"}});
  ASSERT_TRUE(await_phase("told", "Failed"));
  EXPECT_EQ(terminated(pod("told"))["exitCode"], 42);
}

TEST_F(HarnessTest, PodStartsAfter) {
  const auto start = steady_clock::now();
  create_pod("late", {{"test.muster.dev/start-after", "1500ms"}});
  ASSERT_TRUE(await_phase("late", "Running", 30s));
  EXPECT_GE(since(start), 1500ms);
}

TEST_F(HarnessTest, PodSavesAfterDeletion) {
  create_pod("saver",
             {{"test.muster.dev/save-for", "1200ms"}, {"test.muster.dev/termination-message", "saved at 9"}});
  ASSERT_TRUE(await_phase("saver", "Running"));
  const std::string version = pod("saver")["metadata"]["resourceVersion"];
  const auto start = steady_clock::now();
  delete_pod("saver", 30);
  ASSERT_TRUE(wait_until(30s, [] { return pod("saver").is_null(); }));
  EXPECT_GE(since(start), 1200ms);
  const json end = terminated(last_modified_event("saver", version, 1));
  ASSERT_FALSE(end.is_null());
  EXPECT_EQ(end["exitCode"], 0);
  EXPECT_EQ(end["message"], "saved at 9");
}

TEST_F(HarnessTest, PodThatSavesTooLongIsKilled) {
  create_pod("slow", {{"test.muster.dev/save-for", "60s"}, {"test.muster.dev/termination-message", "saved"}});
  ASSERT_TRUE(await_phase("slow", "Running"));
  const std::string version = pod("slow")["metadata"]["resourceVersion"];
  const auto start = steady_clock::now();
  delete_pod("slow", 2);
  ASSERT_TRUE(wait_until(30s, [] { return pod("slow").is_null(); })) << "long before it has saved";
  EXPECT_GT(since(start), 900ms);  // Grace periods end on whole seconds.
  const json object = last_modified_event("slow", version, 1);
  EXPECT_EQ(object["status"]["phase"], "Failed");
  EXPECT_EQ(terminated(object)["exitCode"], 137);
  EXPECT_FALSE(terminated(object).contains("message"));
}

TEST_F(HarnessTest, PodLeavesMessageWithoutSaving) {
  create_pod("brief", {{"test.muster.dev/termination-message", "bye"}});
  ASSERT_TRUE(await_phase("brief", "Running"));
  const std::string version = pod("brief")["metadata"]["resourceVersion"];
  delete_pod("brief", 30);
  ASSERT_TRUE(wait_until(5s, [] { return pod("brief").is_null(); }));
  EXPECT_EQ(terminated(last_modified_event("brief", version, 1))["message"], "bye");
}

TEST_F(HarnessTest, PodIsRefused) {
  create_pod("refused", {{"test.muster.dev/refuse", "OutOfcpu"}});
  ASSERT_TRUE(await_phase("refused", "Failed"));
  const json status = pod("refused")["status"];
  EXPECT_EQ(status["reason"], "OutOfcpu");
  EXPECT_FALSE(status.contains("containerStatuses"));

  const json only_there = {{"test.muster.dev/refuse", "UnexpectedAdmissionError"},
                           {"test.muster.dev/refuse-on", "node-1"}};
  create_pod("refused-there", only_there, "node-1");
  create_pod("taken-here", only_there, "node-0");
  EXPECT_TRUE(await_phase("refused-there", "Failed"));
  EXPECT_TRUE(await_phase("taken-here", "Running"));
}

TEST_F(HarnessTest, ServiceAccountHasOnlyItsRights) {
  const auto kubeconfig = cluster_->service_account_kubeconfig("default", "default");
  ASSERT_TRUE(kubeconfig) << kubeconfig.error();
  const auto who =
      cluster_->kubectl({"--kubeconfig=" + kubeconfig->string(), "auth", "whoami", "-o", "json"});
  ASSERT_TRUE(who && who->ok()) << who->err;
  EXPECT_EQ(json::parse(who->out)["status"]["userInfo"]["username"], "system:serviceaccount:default:default");
  const auto pods = cluster_->kubectl({"--kubeconfig=" + kubeconfig->string(), "get", "pods"});
  ASSERT_TRUE(pods);
  EXPECT_EQ(pods->exit_code, 1);
  EXPECT_THAT(pods->err, testing::HasSubstr("Forbidden"));
  EXPECT_FALSE(cluster_->service_account_kubeconfig("default", "nobody"));
}

// Also of a node that was deleted and is made again, whatever was done to them while it was away.
TEST_F(HarnessTest, NodesTakeUpPodsThatWereThereBeforeThem) {
  NodeTemplate nodes;
  nodes.prefix = "late";
  nodes.count = 10;
  const auto all = [&](const auto& holds) {
    int n = 0;
    for (int i = 0; i < nodes.count; ++i) n += holds("early-" + std::to_string(i)) ? 1 : 0;
    return n;
  };
  for (int i = 0; i < nodes.count; ++i)
    create_pod("early-" + std::to_string(i), json::object(), "late-" + std::to_string(i));
  ASSERT_TRUE(cluster_->add_nodes(nodes));
  const auto run = [&] { return all([](const std::string& name) { return phase(name) == "Running"; }); };
  EXPECT_TRUE(wait_until(60s, [&] { return run() == nodes.count; })) << run();

  for (int i = 0; i < nodes.count; ++i)
    ASSERT_TRUE(cluster_->request("DELETE", "/api/v1/nodes/late-" + std::to_string(i)));
  for (int i = 0; i < nodes.count; ++i) delete_pod("early-" + std::to_string(i), 5);
  ASSERT_TRUE(cluster_->add_nodes(nodes));
  const auto gone = [&] { return all([](const std::string& name) { return pod(name).is_null(); }); };
  EXPECT_TRUE(wait_until(60s, [&] { return gone() == nodes.count; })) << gone();
}
TEST_F(HarnessTest, KubectlTakesInputAndTellsErrors) {
  const auto applied =
      cluster_->kubectl({"apply", "-f", "-"},
                        R"({"apiVersion":"v1","kind":"ConfigMap","metadata":{"name":"c"},"data":{"k":"v"}})");
  ASSERT_TRUE(applied);
  EXPECT_EQ(applied->exit_code, 0) << applied->err;
  EXPECT_EQ(get("/api/v1/namespaces/default/configmaps/c")["data"]["k"], "v");
  const auto missing = cluster_->kubectl({"get", "configmap", "none"});
  ASSERT_TRUE(missing);
  EXPECT_EQ(missing->exit_code, 1);
  EXPECT_THAT(missing->err, testing::HasSubstr("NotFound"));
}

TEST_F(HarnessTest, RestartsKeepDataAndPodsGoOn) {
  create_pod("survivor", {{"test.muster.dev/runs-for", "4s"}});
  ASSERT_TRUE(await_phase("survivor", "Running"));
  for (const Component component : {Component::kApiServer, Component::kEtcd}) {
    ASSERT_TRUE(cluster_->kill(component));
    EXPECT_FALSE(cluster_->running(component));
    EXPECT_FALSE(cluster_->kill(component));
    const auto start = steady_clock::now();
    const auto restarted = cluster_->restart(component);
    ASSERT_TRUE(restarted) << restarted.error();
    std::cout << name_of(component) << " ready again after " << since(start).count() << " ms\n";
    EXPECT_EQ(pod("survivor")["metadata"].value("name", ""), "survivor");
  }
  EXPECT_TRUE(await_phase("survivor", "Succeeded", 60s));  // KWOK came back as well.
  create_pod("newcomer", json::object());
  EXPECT_TRUE(await_phase("newcomer", "Running", 30s));
  // Stopped, it hangs; continued, it answers.
  ASSERT_TRUE(cluster_->kill(Component::kApiServer, SIGSTOP));
  EXPECT_FALSE(cluster_->request("GET", "/readyz", {}, "application/json", 500ms));
  ASSERT_TRUE(cluster_->kill(Component::kApiServer, SIGCONT));
  EXPECT_TRUE(cluster_->wait_ready(10s));
  // A graceful restart.
  const auto restarted = cluster_->restart(Component::kControllerManager);
  EXPECT_TRUE(restarted) << restarted.error();
}

TEST(HarnessEndTest, NothingIsLeftAndErrorsNameTheLog) {
  Options options;
  options.with_controller_manager = options.with_kwok = false;
  std::vector<ProcessId> processes;
  std::filesystem::path directory;
  {
    auto cluster = TestCluster::start(options);
    ASSERT_TRUE(cluster) << cluster.error();
    for (const Component component : {Component::kEtcd, Component::kApiServer}) {
      processes.push_back(cluster->process(component).value());
      EXPECT_TRUE(is_alive(processes.back()));
    }
    directory = cluster->directory();
    EXPECT_TRUE(std::filesystem::exists(directory));
    // One cluster to a directory.
    Options second = options;
    second.directory = directory;
    const auto refused = TestCluster::start(second);
    ASSERT_FALSE(refused);
    EXPECT_THAT(refused.error(), testing::HasSubstr("runs in"));
  }
  for (const ProcessId& process : processes) EXPECT_FALSE(is_alive(process));
  EXPECT_FALSE(std::filesystem::exists(directory));

  options.apiserver_flags = {"--no-such-flag"};
  const auto failed = TestCluster::start(options);
  ASSERT_FALSE(failed);
  EXPECT_THAT(failed.error(), testing::HasSubstr("kube-apiserver"));
  EXPECT_THAT(failed.error(), testing::HasSubstr("unknown flag: --no-such-flag"));
}

TEST(HarnessEndTest, ProgramStartsDetachedAndTakesDown) {
  const std::filesystem::path directory =
      std::filesystem::temp_directory_path() / ("muster-up-" + std::to_string(::getpid()));
  const auto program = [&](std::vector<std::string> arguments) {
    arguments.insert(arguments.begin(), MUSTER_TESTCLUSTER_PROGRAM);
    ProcessSpec spec;
    spec.arguments = std::move(arguments);
    return run_command(spec).value();
  };
  const auto up = program({"up", directory.string(), "--detach", "--no-controller-manager", "--audit"});
  ASSERT_TRUE(up.ok()) << up.err;
  EXPECT_THAT(up.out, testing::HasSubstr("export KUBECONFIG=" + (directory / "admin.kubeconfig").string()));
  EXPECT_TRUE(program({"up", directory.string(), "--detach"}).ok());  // Once more changes nothing.
  std::vector<ProcessId> processes;
  {
    auto cluster = TestCluster::attach(directory);
    ASSERT_TRUE(cluster) << cluster.error();
    for (const Component component : {Component::kEtcd, Component::kApiServer, Component::kKwok})
      processes.push_back(cluster->process(component).value());
    EXPECT_FALSE(cluster->running(Component::kControllerManager));
    EXPECT_FALSE(cluster->restart(Component::kEtcd));
  }
  // Without the controller manager nobody would take the taint from the nodes, so none are added here.
  const auto namespaces = program({"kubectl", directory.string(), "get", "namespaces", "-o", "name"});
  EXPECT_THAT(namespaces.out, testing::HasSubstr("namespace/default"));
  std::ifstream audit(directory / "audit.log");
  const std::string audited{std::istreambuf_iterator<char>(audit), {}};
  EXPECT_THAT(audited, testing::HasSubstr(R"("username":"admin")"));
  for (const ProcessId& process : processes) EXPECT_TRUE(is_alive(process));
  EXPECT_TRUE(program({"down", directory.string(), "--remove"}).ok());
  for (const ProcessId& process : processes) EXPECT_FALSE(is_alive(process));
  EXPECT_FALSE(std::filesystem::exists(directory));
  EXPECT_TRUE(program({"down", directory.string()}).ok());  // Nothing there is no error.
}

// A test that is killed leaves no control plane behind.
TEST(HarnessEndTest, ClusterEndsWithItsParent) {
  const std::filesystem::path directory =
      std::filesystem::temp_directory_path() / ("muster-child-" + std::to_string(::getpid()));
  ProcessSpec spec;
  spec.arguments = {MUSTER_TESTCLUSTER_PROGRAM, "up", directory.string(), "--no-controller-manager",
                    "--no-kwok"};
  const auto parent = spawn(spec);
  ASSERT_TRUE(parent) << parent.error();
  std::optional<ProcessId> server;
  EXPECT_TRUE(wait_until(30s, [&] {
    auto cluster = TestCluster::attach(directory);
    if (cluster && cluster->wait_ready(0ms)) server = cluster->process(Component::kApiServer);
    return server.has_value();
  }));
  EXPECT_TRUE(end_process(*parent, 0ms));
  ASSERT_TRUE(server);
  EXPECT_TRUE(wait_until(10s, [&] { return !is_alive(*server); }));
  EXPECT_TRUE(TestCluster::stop_detached(directory));
  std::filesystem::remove_all(directory);
}

TEST(ProcessTest, CommandsAreRunToTheirEnd) {
  ProcessSpec spec;
  spec.arguments = {"sh", "-c", "cat; echo problem >&2; exit 3"};
  const std::string input(1'000'000, 'x');
  const auto result = run_command(spec, input);
  ASSERT_TRUE(result) << result.error();
  EXPECT_EQ(result->exit_code, 3);
  EXPECT_EQ(result->out, input);
  EXPECT_EQ(result->err, "problem\n");

  spec.arguments = {"sleep", "30"};
  const auto late = run_command(spec, {}, 100ms);
  ASSERT_TRUE(late);
  EXPECT_EQ(late->exit_code, 124);

  spec.arguments = {"/no/such/program"};
  const auto missing = run_command(spec);
  ASSERT_FALSE(missing);
  EXPECT_EQ(missing.error(), "cannot run /no/such/program: No such file or directory");
}

}  // namespace
}  // namespace muster::testcluster
