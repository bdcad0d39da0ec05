// A real notebook server as a session: reached by what its status says, and ended when nobody has used it.
#include <gmock/gmock.h>

#include <atomic>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <thread>

#include "fixture.h"
#include "muster/testcluster/process.h"

namespace muster::test {
namespace {

using testing::HasSubstr;

const std::string kClaim = "/api/v1/namespaces/owner/persistentvolumeclaims/ckpts";
constexpr const char* kBrowser = "/usr/bin/chromium";
constexpr const char* kToken = "s3cret";

// METHOD URL [BODY]; the answer's body.
constexpr const char* kAsk = R"(
import sys, urllib.request
request = urllib.request.Request(sys.argv[2], method=sys.argv[1], headers={"Authorization": "token s3cret"},
                                 data=sys.argv[3].encode() if len(sys.argv) > 3 else None)
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
sys.stdout.write(opener.open(request, timeout=5).read().decode())
)";

class Notebook : public Node {
 protected:
  void SetUp() override {
    Node::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    const auto where =
        testcluster::run_command({.arguments = {MUSTER_SOURCE_DIR "/scripts/install-jupyter.sh", "--where"},
                                  .environment = {},
                                  .log = {}},
                                 {}, 10s);
    ASSERT_TRUE(where && where->ok());
    server_ = where->out.substr(0, where->out.find('\n'));
    if (!std::filesystem::exists(server_))
      GTEST_SKIP() << "no notebook server: scripts/install-deps.sh --node gets it from PyPI";
    const auto folder = cluster().real().directory() / "kubectl-of-session";
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "kubectl")
        << "#!/bin/sh\nexec " << cluster().real().controlplane().string() << " kubectl \"$@\"\n";
    std::filesystem::permissions(folder / "kubectl", std::filesystem::perms::all);
    const char* path = std::getenv("PATH");
    path_ = folder.string() + ":" + (path == nullptr ? "/usr/bin:/bin" : path);
  }

  json session(const std::string& name, const std::string& timeout) const {
    json job = job_object(
        {.name = name,
         .ns = "owner",
         .spec = {{"mode", "Interactive"},
                  {"checkpoint", {{"claimName", "ckpts"}, {"mountPath", "/ckpt"}}},
                  {"expose", {{{"name", "jupyter"}, {"port", 8888}, {"path", "/api"}}}},
                  {"idle",
                   {{"timeout", timeout}, {"activityPath", std::string("/api/status?token=") + kToken}}}}});
    json main = NodeCluster::container("", {{"PYTHONPATH", "/jupyter"}, {"HOME", "/tmp"}});
    main["command"] = {"python3",
                       "-m",
                       "jupyter_server",
                       "--allow-root",
                       "--ip=0.0.0.0",
                       "--port=8888",
                       "--ServerApp.root_dir=/ckpt",
                       std::string("--IdentityProvider.token=") + kToken};
    main["resources"] = {{"requests", {{"cpu", "10m"}, {"memory", "256Mi"}}}};
    main["readinessProbe"] = {{"httpGet", {{"path", "/api"}, {"port", 8888}}}, {"periodSeconds", 1}};
    main["volumeMounts"].push_back({{"name", "jupyter"}, {"mountPath", "/jupyter"}, {"readOnly", true}});
    json& pod = job["spec"]["roles"][0]["template"]["spec"];
    pod["containers"] = json::array({main});
    pod["volumes"] = NodeCluster::volumes();
    pod["volumes"].push_back({{"name", "jupyter"}, {"hostPath", {{"path", server_}}}});
    return job;
  }
  // null: no answer, or none of JSON.
  static json ask(const std::string& method, const std::string& path, const json& body = nullptr) {
    std::vector<std::string> arguments = {"/usr/bin/python3", "-c", kAsk, method,
                                          "http://127.0.0.1:8888" + path};
    if (!body.is_null()) arguments.push_back(body.dump());
    const auto said =
        testcluster::run_command({.arguments = std::move(arguments), .environment = {}, .log = {}}, {}, 20s);
    return said && said->ok() ? json::parse(said->out, nullptr, false) : json();
  }
  static std::string say(const std::string& job) { return cluster().job(job, "owner").dump(2); }
  static void start(const json& job) {
    const std::string name = job["metadata"]["name"];
    cluster().create(job);
    ASSERT_TRUE(cluster().wait_phase(name, "Running", 90s, "owner")) << say(name);
    ASSERT_TRUE(cluster().wait(20s, [&] {
      return cluster().job(name, "owner")["status"].contains("endpoints");
    })) << say(name);
  }
  // Runs what its status says, as a shell would, until it answers.
  testcluster::ProcessId reach(const std::string& name) const {
    const json endpoint = cluster().job(name, "owner")["status"]["endpoints"][0];
    const std::string command = endpoint["portForward"];
    EXPECT_EQ(command, "kubectl -n owner port-forward svc/" + name + "-expose 8888:8888");
    const auto forward = testcluster::spawn(
        {.arguments = {"/bin/sh", "-c", "exec " + command},
         .environment = {{"PATH", path_}, {"KUBECONFIG", cluster().real().kubeconfig().string()}},
         .log = cluster().real().directory() / "logs/port-forward-session.log"});
    EXPECT_TRUE(forward) << forward.error();
    json version;
    EXPECT_TRUE(cluster().wait(30s, [&] {
      version = ask("GET", "/api");
      return version.is_object() && version.contains("version");
    })) << version.dump();
    return forward.value_or(testcluster::ProcessId{});
  }
  // What a browser makes of it.
  static std::string browse(const std::string& url) {
    const auto profile = cluster().real().directory() / "browser";
    const auto said = testcluster::run_command(
        {.arguments = {kBrowser, "--headless", "--no-sandbox", "--disable-gpu", "--no-proxy-server",
                       "--user-data-dir=" + profile.string(), "--dump-dom", url},
         .environment = {},
         .log = {}},
        {}, 90s);
    return said ? said->out : said.error();
  }
  static std::string idle(const std::string& job) {
    const json c = cluster().condition(job, "Idle", "owner");
    return c.is_null() ? "" : c["reason"].get<std::string>();
  }

  std::string server_, path_;
};

TEST_F(Notebook, IsReachedAsItsStatusSaysAndEndsWhenNobodyHasUsedIt) {
  start(session("note", "15s"));
  const auto forward = reach("note");
  const json kernel = ask("POST", "/api/kernels", json::object());
  EXPECT_EQ(kernel.value("name", ""), "python3") << kernel.dump();

  if (std::filesystem::exists(kBrowser))  // scripts/install-page.sh
    EXPECT_THAT(browse(std::string("http://localhost:8888/?token=") + kToken),
                HasSubstr("A Jupyter Server is running."));

  // Somebody works in it for longer than its timeout.
  const auto until = std::chrono::steady_clock::now() + 20s;
  while (std::chrono::steady_clock::now() < until) {
    EXPECT_EQ(ask("GET", "/api/kernels").size(), 1U);
    std::this_thread::sleep_for(1s);
  }
  EXPECT_EQ(cluster().phase("note", "owner"), "Running");
  EXPECT_EQ(idle("note"), "InUse") << say("note");

  // Then nobody does. It is asked about that, and a question is no use of it.
  EXPECT_TRUE(cluster().wait(30s, [] { return idle("note") == "HalfOfTimeout"; })) << say("note");
  EXPECT_TRUE(cluster().wait_phase("note", "Failed", 40s, "owner")) << say("note");
  const json failed = cluster().condition("note", "Failed", "owner");
  EXPECT_EQ(failed.value("reason", ""), "IdleTimeout");
  EXPECT_EQ(failed.value("message", ""), "nobody used it, as /api/status says, for idle.timeout 15s");
  testcluster::end_process(forward, 5s);
}

TEST_F(Notebook, SuspendedItKeepsItsNameItsClaimAndItsAddress) {
  start(session("home", "1h"));
  auto forward = reach("home");
  const json file = {{"type", "file"}, {"format", "text"}, {"content", "what I wrote"}};
  EXPECT_EQ(ask("PUT", "/api/contents/note.txt", file).value("name", ""), "note.txt");
  const json before = cluster().job("home", "owner");
  testcluster::end_process(forward, 5s);

  cluster().patch(path_of_job("home", "owner"), {{"spec", {{"suspend", true}}}});
  ASSERT_TRUE(cluster().wait_phase("home", "Suspended", 60s, "owner")) << say("home");
  EXPECT_TRUE(cluster().job("home", "owner")["status"].value("allocated", json()).empty()) << say("home");
  EXPECT_EQ(cluster().get(kClaim)["status"]["phase"], "Bound");
  cluster().patch(path_of_job("home", "owner"), {{"spec", {{"suspend", false}}}});
  ASSERT_TRUE(cluster().wait_phase("home", "Running", 90s, "owner")) << say("home");
  const json after = cluster().job("home", "owner");
  EXPECT_EQ(after["metadata"]["uid"], before["metadata"]["uid"]);
  EXPECT_EQ(after["status"]["attempt"], 2);
  EXPECT_EQ(after["status"]["endpoints"], before["status"]["endpoints"]);
  forward = reach("home");
  EXPECT_EQ(ask("GET", "/api/contents/note.txt").value("content", ""), "what I wrote");
  testcluster::end_process(forward, 5s);
}

TEST_F(Notebook, WithoutItsTokenNobodyKnowsAndNobodyEndsIt) {
  json closed = session("closed", "4s");
  closed["spec"]["idle"]["activityPath"] = "/api/status";
  start(closed);
  ASSERT_TRUE(cluster().wait(20s, [] { return idle("closed") == "NoReading"; })) << say("closed");
  EXPECT_THAT(cluster().condition("closed", "Idle", "owner")["message"].get<std::string>(),
              HasSubstr(":8888/api/status answers with 403"));
  std::this_thread::sleep_for(8s);
  EXPECT_EQ(cluster().phase("closed", "owner"), "Running");
}

}  // namespace
}  // namespace muster::test
