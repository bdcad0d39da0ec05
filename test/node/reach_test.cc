// `kubectl muster logs`, `exec` and `port-forward` reach real containers, each by its rank.
#include <gmock/gmock.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "fixture.h"
#include "muster/testcluster/loopback.h"
#include "muster/testcluster/process.h"

namespace muster::test {
namespace {

using testing::HasSubstr;

// Says who it is, and answers so on its own loopback: nothing but a forwarded port gets there.
constexpr const char* kSayWho = R"(
import http.server, os, signal, sys
who = "index " + os.environ["MUSTER_INDEX"] + "\n"
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        self.send_response(200)
        self.end_headers()
        self.wfile.write(who.encode())
    def log_message(self, *words):
        pass
server = http.server.HTTPServer(("127.0.0.1", 8000), Handler)
signal.signal(signal.SIGTERM, lambda *a: sys.exit(0))
print(who, end="", flush=True)
server.serve_forever()
)";

constexpr const char* kAsk = R"(
import sys, urllib.request
opener = urllib.request.build_opener(urllib.request.ProxyHandler({}))
sys.stdout.write(opener.open("http://127.0.0.1:" + sys.argv[1], timeout=2).read().decode())
)";

class Reach : public Node {
 protected:
  void SetUp() override {
    Node::SetUp();
    if (IsSkipped() || HasFatalFailure()) return;
    // The plugin hands over to the kubectl of the PATH.
    const auto folder = cluster().real().directory() / "kubectl-of-path";
    std::filesystem::create_directories(folder);
    std::ofstream(folder / "kubectl")
        << "#!/bin/sh\nexec " << cluster().real().controlplane().string() << " kubectl \"$@\"\n";
    std::filesystem::permissions(folder / "kubectl", std::filesystem::perms::all);
    const char* path = std::getenv("PATH");
    path_ = folder.string() + ":" + (path == nullptr ? "/usr/bin:/bin" : path);
  }

  testcluster::ProcessSpec plugin(std::vector<std::string> arguments) const {
    arguments.insert(arguments.begin(), {MUSTER_PLUGIN, "--kubeconfig",
                                         cluster().real().kubeconfig().string(), "--namespace", "team"});
    return {.arguments = std::move(arguments), .environment = {{"PATH", path_}}, .log = {}};
  }
  testcluster::CommandResult ask(std::vector<std::string> arguments) const {
    return testcluster::run_command(plugin(std::move(arguments)), {}, 60s)
        .value_or(testcluster::CommandResult{-1, "", "it could not be run"});
  }
  // What answers at that port of ours; "": nobody.
  static std::string answer_at(int port) {
    const auto said = testcluster::run_command(
        {.arguments = {"/usr/bin/python3", "-c", kAsk, std::to_string(port)}, .environment = {}, .log = {}},
        {}, 10s);
    return said && said->ok() ? said->out : "";
  }

  static json gang() {
    json job = job_object({.name = "gang", .replicas = 2, .gpus = 1});
    json main = NodeCluster::container("", {});
    main["command"] = {"python3", "-c", kSayWho};
    json& pod = job["spec"]["roles"][0]["template"]["spec"];
    pod["containers"] = json::array({main});
    pod["volumes"] = NodeCluster::volumes();
    return job;
  }

  std::string path_;
};

TEST_F(Reach, EachRankIsReachedInItsContainer) {
  cluster().create(gang());
  ASSERT_TRUE(cluster().wait_phase("gang", "Running")) << cluster().job("gang").dump(2);

  EXPECT_TRUE(cluster().wait(20s,
                             [&] {
                               const auto said = ask({"logs", "gang"});
                               return said.out == "[0] index 0\n[1] index 1\n" ||
                                      said.out == "[1] index 1\n[0] index 0\n";
                             }))
      << ask({"logs", "gang"}).out << ask({"logs", "gang"}).err;
  EXPECT_EQ(ask({"logs", "gang", "--rank", "1"}).out, "[1] index 1\n");

  for (const char* rank : {"0", "1"}) {
    const auto ran =
        ask({"exec", "gang", "--rank", rank, "--", "/bin/sh", "-c", "echo $MUSTER_INDEX; exit 3"});
    EXPECT_EQ(ran.out, std::string(rank) + "\n") << ran.err;
    EXPECT_EQ(ran.exit_code, 3) << "that of the command";

    const int port = testcluster::free_port();
    auto spec = plugin({"port-forward", "gang", "--rank", rank, std::to_string(port) + ":8000"});
    spec.log = cluster().real().directory() / "logs/port-forward.log";
    const auto forward = testcluster::spawn(spec);
    ASSERT_TRUE(forward) << forward.error();
    std::string answer;
    cluster().wait(20s, [&] { return !(answer = answer_at(port)).empty(); });
    EXPECT_EQ(answer, std::string("index ") + rank + "\n");
    testcluster::end_process(*forward, 5s);
  }
  EXPECT_THAT(ask({"exec", "gang", "--rank", "2", "--", "/bin/true"}).err, HasSubstr("its ranks are 0 to 1"));
}

}  // namespace
}  // namespace muster::test
