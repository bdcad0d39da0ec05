// What kubectl-muster reads from statuses: usage and disruptions. No operator runs beside it, so the statuses
// stay as the test has written them.
#include <gmock/gmock.h>

#include <algorithm>

#include "plugin_fixture.h"

namespace muster::test {
namespace {

using testing::HasSubstr;

class PluginRecords : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    cluster_ = Cluster::start(0, 0);
    write("/apis/muster.dev/v1alpha1/projects/team/status", usage_status());
    write("/apis/muster.dev/v1alpha1/queues/root/status", usage_status());
    cluster_->create(job_object({.name = "first", .gpus = 4}));
    write(path_of_job("first") + "/status", job_status());
    const auto rosa = viewer_of_team(*cluster_, "rosa");
    ASSERT_TRUE(rosa) << rosa.error();
    rosa_ = *rosa;
  }
  static void TearDownTestSuite() { cluster_.reset(); }

  static void write(const std::string& path, const json& status) {
    const auto answer = cluster_->real().request("PATCH", path, json{{"status", status}}.dump(),
                                                 "application/merge-patch+json");
    ASSERT_TRUE(answer && answer->ok()) << (answer ? answer->body : answer.error());
  }
  static json usage_status() {
    const json month = {{"gpuSeconds", 360000}, {"starting", 3600}, {"lost", 36000}};
    return {{"usage",
             {{"until", "2026-03-04T11:58:00Z"},
              {"total", month},
              {"last30Days", month},
              {"last7Days", {{"gpuSeconds", 7200}}},
              {"days",
               {{{"date", "2026-03-04"},
                 {"sum", {{"gpuSeconds", 7200}}},
                 {"users", {{{"name", "ann"}, {"gpuSeconds", 7200}, {"starting", 1800}, {"idle", 3600}}}},
                 {"pools", {{{"name", "default"}, {"gpuSeconds", 7200}}}}}}}}}};
  }
  static json job_status() {
    return {{"phase", "Queued"},
            {"disruption", {{"ran", 36000}, {"lostOwed", 3600}}},
            {"disruptions",
             {{{"at", "2026-03-04T11:00:00Z"},
               {"reason", "Reclaimed"},
               {"message", "for cv/x, which has a right to it"},
               {"gave", "4"},
               {"cost", 3600},
               {"owed", true}},
              {{"at", "2026-03-04T10:00:00Z"}, {"reason", "Drained"}, {"message", "n1"}, {"gave", "2"}}}}};
  }
  static CommandResult ask(std::vector<std::string> arguments) {
    return ask_plugin(std::move(arguments), cluster_->real().kubeconfig());
  }

  static inline std::unique_ptr<Cluster> cluster_;
  static inline std::filesystem::path rosa_;
};

TEST_F(PluginRecords, TellsWhatWasUsed) {
  const auto projects = ask({"usage"});
  EXPECT_EQ(line_of(projects.out, "team"), "team 100.0 89% 1.0 0.0 0.0 10.0") << projects.out << projects.err;
  EXPECT_THAT(projects.out, HasSubstr("\nGPU-hours, until 2026-03-04T11:58:00Z ("));
  EXPECT_EQ(line_of(ask({"usage", "--by", "queue", "--since", "7d"}).out, "root"),
            "root 2.0 100% 0.0 0.0 0.0 0.0");
  EXPECT_EQ(line_of(ask({"usage", "--by", "user", "--since", "1d"}).out, "ann"),
            "ann 2.0 25% 0.5 0.0 1.0 0.0");
  EXPECT_EQ(line_of(ask({"usage", "--by", "pool"}).out, "default"), "default 2.0 100% 0.0 0.0 0.0 0.0");
  const auto data = json::parse(ask({"usage", "-o", "json"}).out);
  EXPECT_EQ(data["until"], "2026-03-04T11:58:00Z");
  EXPECT_EQ(data["items"][0]["gpuHours"], 100.0);
  EXPECT_THAT(ask({"usage", "-o", "csv"}).out, HasSubstr("\nteam,100.0,89,1.0,0.0,0.0,10.0,"));
}

TEST_F(PluginRecords, TellsWhatAJobHadToGive) {
  const auto all = ask({"disruptions", "-A"});
  EXPECT_THAT(line_of(all.out, "2026-03-04T11:00:00Z"),
              HasSubstr("team first Reclaimed 4 1h yes for cv/x, which has a right to it"))
      << all.out << all.err;
  EXPECT_THAT(line_of(all.out, "2026-03-04T10:00:00Z"), HasSubstr("team first Drained 2 0s no n1"));
  EXPECT_EQ(json::parse(ask({"disruptions", "-n", "team", "first", "-o", "json"}).out)["items"].size(), 2U);
  EXPECT_EQ(ask({"disruptions", "-n", "default"}).out,
            "No disruption of a job in namespace default is remembered.\n");
  EXPECT_EQ(ask({"disruptions", "-n", "team", "nobody"}).exit_code, 1);
}

// Each command gives what it can, and says in a sentence which right is missing.
TEST_F(PluginRecords, NeedNoRightBeyondTheNamespace) {
  const auto jobs = ask_plugin({"usage", "--by", "job", "-n", "team"}, rosa_);
  EXPECT_EQ(line_of(jobs.out, "team/first"), "team/first 10.0 90% 1.0") << jobs.err;
  EXPECT_EQ(ask_plugin({"disruptions", "-n", "team"}, rosa_).exit_code, 0);
  const std::string viewer = "Ask an administrator to bind you to the ClusterRole muster-viewer.\n";
  const struct {
    std::vector<std::string> question;
    std::string line, missing;
  } answers[] = {
      {{"usage", "--by", "job", "-A"},
       "team/first 10.0",
       "You may not list trainingjobs of all namespaces: "},
      {{"disruptions", "-A"}, "2026-03-04T11:00:00Z", "You may not list trainingjobs of all namespaces: "},
      {{"queue", "-A"}, "(default)", "You may not list trainingjobs of all namespaces: "},
      {{"disruptions", "--project", "team"}, "2026-03-04T11:00:00Z", "You may not list projects: "},
      {{"usage"}, "team/first 10.0", "You may not list projects: "},
      {{"usage", "--by", "queue"}, "team/first 10.0", "You may not list queues: "},
      {{"usage", "--by", "user"}, "team/first 10.0", "You may not list projects: "},
      {{"usage", "--by", "pool"}, "team/first 10.0", "You may not list projects: "},
      {{"tree"}, "team 0 4 0 1", "You may not list queues, projects: "},
      {{"top"}, "team 0 4 0 1", "You may not list nodepools: "},
      {{"nodes"}, "No job in namespace team has GPUs.", "You may not list nodes, nodepools, "}};
  for (const auto& [question, line, missing] : answers) {
    auto asked = question;
    asked.insert(asked.end(), {"-n", "team"});
    const auto told = ask_plugin(asked, rosa_);
    EXPECT_EQ(told.exit_code, 0) << testing::PrintToString(question) << told.err;
    EXPECT_EQ(told.err, "");
    EXPECT_NE(line_of(told.out, line), "") << testing::PrintToString(question) << told.out;
    EXPECT_NE(line_of(told.out, missing), "") << testing::PrintToString(question) << told.out;
    EXPECT_THAT(told.out, testing::Not(HasSubstr("forbidden")));
  }
  const auto csv = ask_plugin({"usage", "-n", "team", "-o", "csv"}, rosa_);
  EXPECT_THAT(csv.err, HasSubstr(viewer));
  EXPECT_THAT(json::parse(ask_plugin({"tree", "-n", "team", "-o", "json"}, rosa_).out)["missing"][0],
              HasSubstr("You may not list queues, projects: "));
  // Of another namespace nothing is told.
  for (const char* command : {"tree", "nodes", "queue", "disruptions", "usage"}) {
    const auto refused = ask_plugin({command, "-n", "default"}, rosa_);
    EXPECT_EQ(refused.exit_code, 1) << command;
    EXPECT_EQ(refused.out, "");
    EXPECT_EQ(std::ranges::count(refused.err.substr(0, refused.err.find("Ask an")), '\n'), 1) << refused.err;
    EXPECT_THAT(refused.err, HasSubstr("forbidden"));
  }
}

// script(1) gives it a terminal.
TEST_F(PluginRecords, KnowsATerminal) {
  const auto on_terminal = [](const std::string& command, const std::string& keys,
                              const std::string& no_color) {
    const std::string whole = std::string(MUSTER_PLUGIN) + " --kubeconfig " +
                              cluster_->real().kubeconfig().string() + " " + command;
    return testcluster::run_command({.arguments = {"script", "-qec", whole, "/dev/null"},
                                     .environment = {{"TERM", "xterm"}, {"NO_COLOR", no_color}},
                                     .log = {}},
                                    keys)
        .value_or(CommandResult{-1, "", "it could not be run"});
  };
  EXPECT_THAT(on_terminal("tree", "", "").out, HasSubstr("\033[1mNAME"));
  EXPECT_THAT(on_terminal("tree", "", "1").out, testing::Not(HasSubstr("\033[")));
  EXPECT_THAT(ask({"tree"}).out, testing::Not(HasSubstr("\033[")));
  const auto top = on_terminal("top", "q", "1");
  EXPECT_EQ(top.exit_code, 0) << top.out << top.err;
  EXPECT_THAT(top.out, HasSubstr("\033[?1049h"));
  EXPECT_THAT(top.out, HasSubstr("every 2 s, q ends"));
  EXPECT_THAT(top.out, HasSubstr("\033[?1049l"));  // the terminal is as it was
}

TEST_F(PluginRecords, ShowsWhichGpusFailAndWhatPodsOfOthersHave) {
  testcluster::NodeTemplate node;
  node.prefix = "gpu";
  node.gpus = 8;
  ASSERT_TRUE(cluster_->real().add_nodes(node));
  const auto patched = cluster_->real().request(
      "PATCH", "/api/v1/nodes/gpu-0",
      json{{"metadata", {{"annotations", {{"muster.dev/gpu-unhealthy", "2"}}}}}}.dump(),
      "application/merge-patch+json");
  ASSERT_TRUE(patched && patched->ok());
  cluster_->apply(R"(
{apiVersion: muster.dev/v1alpha1, kind: NodePool, metadata: {name: gpus}, spec: {}}
---
apiVersion: v1
kind: Pod
metadata: {name: foreign, namespace: default}
spec:
  nodeName: gpu-0
  containers: [{name: main, image: "img:1", resources: {limits: {nvidia.com/gpu: "3"}}}]
)");
  cluster_->wait(20s, [] { return line_of(ask({"nodes"}).out, "gpu-0 Ready") != ""; });
  const auto nodes = ask({"nodes"});
  EXPECT_EQ(line_of(nodes.out, "gpu-0 Ready"), "gpu-0 Ready ++!+....") << nodes.out << nodes.err;
  EXPECT_THAT(nodes.out, HasSubstr("+  pods that are not Muster's (3)\n!  failing (1)\n"));
  const auto data = json::parse(ask({"nodes", "-o", "json"}).out);
  EXPECT_EQ(data["items"][0]["free"], 4);
  const auto no_pool = ask({"tree", "--pool", "zeta"});
  EXPECT_EQ(no_pool.exit_code, 1);
  EXPECT_THAT(no_pool.err, HasSubstr("in a pool zeta"));
}

TEST_F(PluginRecords, SaysWhatWhatifMayNotSee) {
  const auto refused =
      ask_plugin({"whatif", "-n", "team", "-f", "-"}, rosa_, job_object({.name = "new"}).dump());
  EXPECT_EQ(refused.exit_code, 1);
  for (const char* kind : {"nodes", "nodepools", "queues", "projects"})
    EXPECT_THAT(refused.err, HasSubstr("cannot list resource \"" + std::string(kind) + "\"")) << refused.err;
  // Who may see the nodes and the tree is told what else is not known.
  cluster_->apply(R"(
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRole
metadata: {name: nodes}
rules: [{apiGroups: [""], resources: [nodes], verbs: [list]}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: rosa-nodes}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: nodes}
subjects: [{kind: User, name: rosa, apiGroup: rbac.authorization.k8s.io}]
---
apiVersion: rbac.authorization.k8s.io/v1
kind: ClusterRoleBinding
metadata: {name: rosa-tree}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: muster-viewer}
subjects: [{kind: User, name: rosa, apiGroup: rbac.authorization.k8s.io}]
)");
  const auto own = ask_plugin({"whatif", "-n", "team", "-f", "-"}, rosa_, job_object({.name = "new"}).dump());
  EXPECT_THAT(own.out, HasSubstr("team/new would wait: NoMatchingNodes: ")) << own.err;
  EXPECT_THAT(own.out, HasSubstr("What this does not know:\n"));
  EXPECT_THAT(own.out,
              HasSubstr("  You may not list trainingjobs outside of namespace team: what others hold"));
  EXPECT_THAT(
      own.out,
      HasSubstr("  You may not list pods outside of namespace team: what pods that are not Muster's"));
  const auto undo = cluster_->real().kubectl({"delete", "clusterrolebinding", "rosa-nodes", "rosa-tree"});
  EXPECT_TRUE(undo && undo->ok());
  const auto wrong = ask_plugin({"whatif", "-n", "team", "-f", "-"}, rosa_, "kind: Pod");
  EXPECT_EQ(wrong.exit_code, 2);
  EXPECT_THAT(wrong.err, HasSubstr("must be TrainingJob or InferenceService, is \"Pod\""));
}

}  // namespace
}  // namespace muster::test
