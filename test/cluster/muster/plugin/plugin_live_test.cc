// kubectl-muster as people use it: the real program, with a kubeconfig of its own, on a real control plane.
// And the numbers that it shows: fair shares, the largest gang, and when a job is likely to start.
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>
#include <sstream>

#include "fixture.h"
#include "muster/testcluster/process.h"

namespace muster::test {
namespace {

using testcluster::CommandResult;
using testing::ContainsRegex;
using testing::HasSubstr;
using testing::MatchesRegex;

class Plugin : public OneCluster {
 protected:
  static void SetUpTestSuite() {
    cluster_ = Cluster::start(2, 8, {}, 8);
    muster_ = cluster_->muster();
  }

  static CommandResult ask(std::vector<std::string> arguments, const std::filesystem::path& kubeconfig) {
    arguments.insert(arguments.begin(), {MUSTER_PLUGIN, "--kubeconfig", kubeconfig.string()});
    return testcluster::run_command({.arguments = std::move(arguments), .environment = {}, .log = {}})
        .value_or(CommandResult{-1, "", "it could not be run"});
  }
  static CommandResult ask(std::vector<std::string> arguments) {
    return ask(std::move(arguments), cluster_->real().kubeconfig());
  }
  // The words of the line that begins so, with one space between them; "": there is none.
  static std::string line(const std::string& text, const std::string& begins) {
    std::istringstream in(text);
    for (std::string l; std::getline(in, l);) {
      std::istringstream words(l);
      std::string all;
      for (std::string word; words >> word;) all += (all.empty() ? "" : " ") + word;
      if (all.starts_with(begins)) return all;
    }
    return {};
  }
};

TEST_F(Plugin, TellsWhyAJobWaitsAndWhenItMayStart) {
  cluster_->create(job_object({.name = "first", .replicas = 2, .gpus = 8, .spec = {{"maxRuntime", "2h"}}}));
  ASSERT_TRUE(cluster_->wait_phase("first", "Running"));
  cluster_->create(job_object({.name = "second", .replicas = 2, .gpus = 8}));
  ASSERT_TRUE(cluster_->wait(20s, [&] {
    return cluster_->job("second").value("/status/queue/estimatedStart"_json_pointer, "") != "";
  })) << cluster_->job("second").dump(2);
  const auto why = ask({"why", "-n", "team", "second"});
  EXPECT_EQ(why.exit_code, 0) << why.err;
  std::string text = why.out;
  std::ranges::replace(text, '\n', ' ');
  EXPECT_THAT(text, HasSubstr("team/second waits since 20"));
  EXPECT_THAT(text, HasSubstr("InsufficientCapacity. Needs 16 nvidia.com/gpu"));
  EXPECT_THAT(text, HasSubstr("held by team/first (16)"));
  EXPECT_THAT(text, HasSubstr("It is number 1 in the order of its pool"));
  EXPECT_THAT(text, ContainsRegex(", in (2h|1h59m[0-9]*s?), if what runs ends"));
  EXPECT_THAT(text, HasSubstr("What would help: to wait"));
  const auto runs = ask({"why", "-n", "team", "tj/first"});
  EXPECT_THAT(
      runs.out,
      MatchesRegex("team/first runs since [^ ]+ \\([0-9]+s\\) with 16 GPUs in pool default, attempt 1.\n"));

  const auto nodes = ask({"nodes"});
  EXPECT_THAT(nodes.out, HasSubstr("Ready  AAAAAAAA\n")) << nodes.err;
  EXPECT_THAT(nodes.out, HasSubstr("\nA  team/first (16)\n"));
  const auto queue = ask({"queue", "-A"});
  EXPECT_THAT(line(queue.out, "(default) 1 1 team second"), ContainsRegex("InsufficientCapacity (2h|1h59m) "))
      << queue.out << queue.err;
  EXPECT_EQ(ask({"queue", "-n", "default"}).out, "Nothing waits in namespace default.\n");
}

TEST_F(Plugin, ShowsTheTreeAndTheLargestGang) {
  const auto gang = [&] {
    return cluster_->get("/apis/muster.dev/v1alpha1/nodepools/default")["status"]["largestGang"];
  };
  EXPECT_TRUE(cluster_->wait(20s, [&] { return gang() == "16"; })) << gang();
  cluster_->create(job_object({.name = "one", .replicas = 1, .gpus = 3}));
  ASSERT_TRUE(cluster_->wait_phase("one", "Running"));
  EXPECT_TRUE(cluster_->wait(20s, [&] { return gang() == "8"; })) << gang();
  cluster_->create(job_object({.name = "wide", .replicas = 2, .gpus = 7}));
  // It asks for 17 of 16, which are all its own: nobody else asks.
  EXPECT_TRUE(cluster_->wait(90s, [&] { return line(ask({"tree"}).out, "team 8 16 3 0 14 1 1") != ""; }))
      << ask({"tree"}).out;
  EXPECT_THAT(line(ask({"tree"}).out, "root"), HasSubstr("[###"));
  const auto columns = cluster_->real().kubectl({"get", "npool,proj"});
  ASSERT_TRUE(columns && columns->ok());
  EXPECT_NE(line(columns->out, "nodepool.muster.dev/default 2 16 13 8"), "") << columns->out;
  EXPECT_NE(line(columns->out, "project.muster.dev/team root team 8 16 3"), "") << columns->out;
}

TEST_F(Plugin, NeedsNoRightBeyondOnesOwnNamespace) {
  cluster_->apply(R"(
apiVersion: rbac.authorization.k8s.io/v1
kind: RoleBinding
metadata: {name: rosa, namespace: team}
roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: view}
subjects: [{kind: User, name: rosa, apiGroup: rbac.authorization.k8s.io}]
)");
  const auto rosa = cluster_->real().certificate_kubeconfig("rosa.kubeconfig", "rosa", {});
  ASSERT_TRUE(rosa) << rosa.error();
  cluster_->create(job_object({.name = "mine"}));
  ASSERT_TRUE(cluster_->wait_phase("mine", "Running"));
  // Kubernetes puts the roles that are added to `view` together a moment later.
  EXPECT_TRUE(cluster_->wait(20s, [&] { return ask({"why", "-n", "team", "mine"}, *rosa).exit_code == 0; }))
      << ask({"why", "-n", "team", "mine"}, *rosa).err;
  const auto other = ask({"why", "-n", "default", "theirs"}, *rosa);
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.err, HasSubstr("forbidden"));
  EXPECT_EQ(other.out, "");
  const auto tree = ask({"tree"}, *rosa);
  EXPECT_EQ(tree.exit_code, 1);
  EXPECT_THAT(tree.err, HasSubstr("forbidden"));
}

TEST_F(Plugin, SaysWhatIsWrongWithAQuestion) {
  const auto nobody = ask({"why", "-n", "team", "nobody"});
  EXPECT_EQ(nobody.exit_code, 1);
  EXPECT_EQ(nobody.err,
            "error: there is neither a TrainingJob nor an InferenceService \"nobody\" in namespace team\n");
  EXPECT_EQ(ask({"why", "-n", "team", "pod/x"}).exit_code, 2);
  EXPECT_EQ(ask({"why"}).exit_code, 2);
  EXPECT_EQ(ask({"--help"}).exit_code, 0);
  const auto unreachable = cluster_->real().directory() / "nowhere.kubeconfig";
  std::ofstream(unreachable)
      << R"({apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}],
 clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]})";
  const auto gone = ask({"tree"}, unreachable);
  EXPECT_EQ(gone.exit_code, 1);
  EXPECT_THAT(gone.err, HasSubstr("error: "));
}

}  // namespace
}  // namespace muster::test
