// kubectl-muster as people use it: the real program, with a kubeconfig of its own, on a real control plane.
// And the numbers that it shows: fair shares, the largest gang, and when a job is likely to start.
#include <gmock/gmock.h>

#include <algorithm>
#include <fstream>

#include "plugin_fixture.h"

namespace muster::test {
namespace {

using testing::ContainsRegex;
using testing::HasSubstr;
using testing::MatchesRegex;

class Plugin : public OneCluster {
 protected:
  static void SetUpTestSuite() {
    cluster_ = Cluster::start(2, 8, {}, 8);
    muster_ = cluster_->muster();
  }

  static CommandResult ask(std::vector<std::string> arguments) {
    return ask_plugin(std::move(arguments), cluster_->real().kubeconfig());
  }
  static std::string pod_of(const std::string& job, int index) {
    return job + "-worker-" + std::to_string(index) + "-1";
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
  EXPECT_THAT(line_of(queue.out, "(default) 1 1 team second"),
              ContainsRegex("InsufficientCapacity (2h|1h59m) "))
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
  EXPECT_TRUE(cluster_->wait(90s, [&] { return line_of(ask({"tree"}).out, "team 8 16 3 0 14 1 1") != ""; }))
      << ask({"tree"}).out;
  EXPECT_THAT(line_of(ask({"tree"}).out, "root"), HasSubstr("[###"));
  const auto columns = cluster_->real().kubectl({"get", "npool,proj"});
  ASSERT_TRUE(columns && columns->ok());
  EXPECT_NE(line_of(columns->out, "nodepool.muster.dev/default 2 16 13 8"), "") << columns->out;
  EXPECT_NE(line_of(columns->out, "project.muster.dev/team root team 8 16 3"), "") << columns->out;
}

TEST_F(Plugin, NeedsNoRightBeyondOnesOwnNamespace) {
  const auto rosa = viewer_of_team(*cluster_, "rosa");
  ASSERT_TRUE(rosa) << rosa.error();
  cluster_->create(job_object({.name = "mine"}));
  ASSERT_TRUE(cluster_->wait_phase("mine", "Running"));
  EXPECT_EQ(ask_plugin({"why", "-n", "team", "mine"}, *rosa).exit_code, 0);
  const auto other = ask_plugin({"why", "-n", "default", "theirs"}, *rosa);
  EXPECT_EQ(other.exit_code, 1);
  EXPECT_THAT(other.err, HasSubstr("forbidden"));
  EXPECT_EQ(other.out, "");
  const auto suspend = ask_plugin({"suspend", "-n", "team", "mine"}, *rosa);
  EXPECT_EQ(suspend.exit_code, 1);
  EXPECT_THAT(suspend.err, HasSubstr("cannot patch resource \"trainingjobs\""));
  const auto refused = ask_plugin({"submit", "-n", "team", "--", "img"}, *rosa);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_THAT(refused.err, HasSubstr("cannot create resource \"trainingjobs\""));
}

TEST_F(Plugin, SuspendsResumesAndScales) {
  cluster_->create(job_object({.name = "job"}));
  ASSERT_TRUE(cluster_->wait_phase("job", "Running"));
  const auto stopped = ask({"suspend", "-n", "team", "job"});
  EXPECT_EQ(stopped.out, "trainingjob.muster.dev/job suspended: it saves, and gives its place back\n")
      << stopped.err;
  EXPECT_TRUE(cluster_->wait_phase("job", "Suspended"));
  EXPECT_EQ(ask({"suspend", "-n", "team", "job"}).out, "trainingjob.muster.dev/job is suspended already\n");
  EXPECT_EQ(ask({"resume", "-n", "team", "job"}).exit_code, 0);
  EXPECT_TRUE(cluster_->wait_phase("job", "Running"));
  const auto fixed = ask({"scale", "-n", "team", "job", "2"});
  EXPECT_EQ(fixed.exit_code, 1);
  EXPECT_THAT(fixed.err, HasSubstr("team/job is not elastic"));

  json elastic = job_object({.name = "wide"});
  auto& role = elastic["spec"]["roles"][0];
  role.erase("replicas");
  role["minReplicas"] = 1, role["maxReplicas"] = 4;
  cluster_->create(elastic);
  const auto pods_of_wide = [] {
    return cluster_->job("wide").value("/status/readyReplicas"_json_pointer, 0);
  };
  ASSERT_TRUE(cluster_->wait(30s, [&] { return pods_of_wide() == 4; })) << cluster_->job("wide").dump(2);
  EXPECT_EQ(ask({"scale", "-n", "team", "wide", "2"}).out, "trainingjob.muster.dev/wide scaled to 2\n");
  EXPECT_TRUE(cluster_->wait(30s, [&] { return pods_of_wide() == 2; })) << cluster_->job("wide").dump(2);
  const auto beyond = ask({"scale", "-n", "team", "wide", "9"});
  EXPECT_EQ(beyond.exit_code, 1);
  EXPECT_THAT(beyond.err, HasSubstr("is invalid: spec.elastic: Invalid value: must have replicas from"));
}

// Whatever its gangs are: kubectl scale, which cannot mean the indexes, is refused with the command that
// does.
TEST_F(Plugin, ScalesHowManyIndexesOfAnArrayRun) {
  json many = job_object({.name = "many", .spec = {{"array", {{"count", 4}, {"parallelism", 1}}}}});
  auto& role = many["spec"]["roles"][0];
  role.erase("replicas");
  role["minReplicas"] = 1, role["maxReplicas"] = 2;
  cluster_->create(many);
  const auto runs = [](const char* indexes) {
    return cluster_->wait(30s, [&] {
      return cluster_->job("many").value("/status/array/runningIndexes"_json_pointer, "") == indexes;
    });
  };
  ASSERT_TRUE(runs("0")) << cluster_->job("many").dump(2);
  EXPECT_EQ(ask({"scale", "-n", "team", "many", "3"}).out,
            "trainingjob.muster.dev/many: at most 3 of its indexes wait or run at once\n");
  EXPECT_TRUE(runs("0-2")) << cluster_->job("many").dump(2);
  const auto beyond = ask({"scale", "-n", "team", "many", "5"});
  EXPECT_EQ(beyond.exit_code, 1);
  EXPECT_THAT(beyond.err, HasSubstr("spec.array")) << beyond.out;
  const auto refused =
      cluster_->real().kubectl({"scale", "-n", "team", "trainingjob", "many", "--replicas=2"}).value();
  EXPECT_NE(refused.exit_code, 0) << refused.out;
  EXPECT_THAT(refused.err, HasSubstr("`kubectl muster scale NAME N`"));
  cluster_->remove(path_of_job("many"));
}

TEST_F(Plugin, RunsTheIndexesOfAnArrayAgainThatHaveFailed) {
  cluster_->create(job_object({.name = "plain"}));
  EXPECT_THAT(ask({"retry", "-n", "team", "plain"}).err, HasSubstr("team/plain is no array"));
  json sweep = job_object({.name = "sweep", .spec = {{"array", {{"count", 2}}}, {"maxRuntime", "1s"}}});
  cluster_->create(sweep);
  ASSERT_TRUE(cluster_->wait_phase("sweep", "Failed", 60s)) << cluster_->job("sweep").dump(2);
  const auto retried = ask({"retry", "-n", "team", "sweep"});
  EXPECT_EQ(retried.out, "trainingjob.muster.dev/sweep: indexes 0-1 are run again\n") << retried.err;
  EXPECT_TRUE(cluster_->wait(30s, [] {
    return cluster_->job("sweep").value("/status/array/retried"_json_pointer, 0) == 1;
  })) << cluster_->job("sweep").dump(2);
}

TEST_F(Plugin, ScalesAServiceAndDoesNotSuspendIt) {
  cluster_->create(service_object("chat", 1));
  EXPECT_EQ(ask({"scale", "-n", "team", "chat", "2"}).out, "inferenceservice.muster.dev/chat scaled to 2\n");
  EXPECT_EQ(cluster_->get(path_of_service("chat"))["spec"]["replicas"], 2);
  const auto no = ask({"suspend", "-n", "team", "isvc/chat"});
  EXPECT_EQ(no.exit_code, 1);
  EXPECT_THAT(no.err, HasSubstr("kubectl muster scale chat 0"));
  const auto disruptions = ask({"disruptions", "-n", "team", "isvc/chat"});
  EXPECT_EQ(disruptions.exit_code, 1);
  EXPECT_THAT(json::parse(ask({"why", "-n", "team", "chat", "-o", "json"}).out)["text"].get<std::string>(),
              HasSubstr("team/chat has "));
  cluster_->remove(path_of_service("chat"));
}

TEST_F(Plugin, SubmitsAJobOfAnImage) {
  const auto made = ask({"submit", "-n", "team", "--gpus", "2", "--replicas", "2", "--name", "mine",
                         "--max-runtime", "1h", "--", "registry.example/train:1", "sh", "-c", "train -n 3"});
  EXPECT_THAT(made.out, HasSubstr("trainingjob.muster.dev/mine created\n")) << made.err;
  EXPECT_TRUE(cluster_->wait_phase("mine", "Running"));
  const json job = cluster_->job("mine");
  EXPECT_EQ(job["spec"]["maxRuntime"], "1h");
  EXPECT_EQ(job["spec"]["roles"][0]["template"]["spec"]["containers"][0]["command"],
            json({"sh", "-c", "train -n 3"}));
  EXPECT_EQ(job["status"]["allocated"]["gpu"], "4");
  const auto named = ask({"submit", "-n", "team", "-o", "json", "--", "registry.example/train:1"});
  EXPECT_THAT(json::parse(named.out)["metadata"]["name"].get<std::string>(), testing::StartsWith("train-"));
  // What the API server says of it is said as it is.
  const auto bad = ask({"submit", "-n", "team", "--max-runtime", "soon", "--name", "bad", "--", "img"});
  EXPECT_EQ(bad.exit_code, 1);
  EXPECT_THAT(bad.err,
              HasSubstr("TrainingJob.muster.dev \"bad\" is invalid: [spec.maxRuntime: Invalid value"));
  // What is printed is what would be made.
  const auto printed =
      ask({"submit", "-n", "team", "--name", "later", "--dry-run", "-o", "yaml", "--", "img"});
  EXPECT_TRUE(cluster_->job("later").is_null());
  EXPECT_TRUE(cluster_->real().kubectl({"apply", "--server-side", "-f", "-"}, printed.out)->ok())
      << printed.out;
  EXPECT_FALSE(cluster_->job("later").is_null());
}

TEST_F(Plugin, TellsWhatWouldBecomeOfAJob) {
  cluster_->create(job_object({.name = "first", .replicas = 2, .gpus = 6, .spec = {{"maxRuntime", "2h"}}}));
  ASSERT_TRUE(cluster_->wait_phase("first", "Running"));
  const auto whatif = [](const json& job) {
    return ask_plugin({"whatif", "-n", "team", "-f", "-"}, cluster_->real().kubeconfig(), job.dump());
  };
  const auto fits = whatif(job_object({.name = "small", .gpus = 2}));
  EXPECT_THAT(fits.out, MatchesRegex("team/small would start now.\n  worker-0 on node-[01], GPUs 6,7\n"))
      << fits.err;
  const auto waits = whatif(job_object({.name = "large", .gpus = 4}));
  EXPECT_THAT(waits.out, HasSubstr("team/large would wait: ")) << waits.err;
  EXPECT_THAT(waits.out, HasSubstr("What would help: "));
  EXPECT_TRUE(cluster_->job("small").is_null());
  const auto invalid = whatif(job_object({.name = "none", .spec = {{"maxRuntime", "soon"}}}));
  EXPECT_EQ(invalid.exit_code, 2);
  EXPECT_THAT(invalid.err, HasSubstr("spec.maxRuntime"));
}

// The numbers of a forecast are those of the operator.
TEST_F(Plugin, TellsTheSameAsTheOperatorDoesLater) {
  cluster_->create(job_object({.name = "first", .replicas = 2, .gpus = 6}));
  ASSERT_TRUE(cluster_->wait_phase("first", "Running"));
  const json job = job_object({.name = "large", .gpus = 4});
  const auto before =
      ask_plugin({"whatif", "-o", "json", "-f", "-"}, cluster_->real().kubeconfig(), job.dump());
  cluster_->create(job);
  ASSERT_TRUE(cluster_->wait(20s, [] { return !cluster_->reason("large").empty(); }));
  const json forecast = json::parse(before.out);
  EXPECT_EQ(forecast["reason"], cluster_->reason("large"));
  EXPECT_EQ(forecast["message"], cluster_->job("large")["status"]["queue"]["message"]);
}

TEST_F(Plugin, HandsOverToKubectl) {
  cluster_->create(job_object({.name = "gang", .replicas = 2}));
  ASSERT_TRUE(cluster_->wait_phase("gang", "Running"));
  // A kubectl that says what it was told.
  const auto folder = cluster_->real().directory() / "kubectl-for-test";
  std::filesystem::create_directories(folder);
  std::ofstream(folder / "kubectl") << "#!/bin/sh\nprintf '%s\\n' \"$@\"\n";
  std::filesystem::permissions(folder / "kubectl", std::filesystem::perms::all);
  const auto hand_over = [&](std::vector<std::string> arguments) {
    return ask_plugin(std::move(arguments), cluster_->real().kubeconfig(), {},
                      {{"PATH", folder.string() + ":/usr/bin:/bin"}});
  };
  const std::string cluster =
      "--kubeconfig=" + cluster_->real().kubeconfig().string() + "\n--namespace=team\n";
  const auto exec = hand_over({"exec", "-n", "team", "gang", "--rank", "1", "--", "ls", "-l"});
  EXPECT_EQ(exec.out, cluster + "exec\n" + pod_of("gang", 1) + "\n--container=main\n--\nls\n-l\n")
      << exec.err;
  const auto forward = hand_over({"port-forward", "-n", "team", "gang", "8888", "1:2"});
  EXPECT_EQ(forward.out, cluster + "port-forward\npod/" + pod_of("gang", 0) + "\n8888\n1:2\n") << forward.err;
  const auto beyond = hand_over({"exec", "-n", "team", "gang", "--rank", "2", "--", "ls"});
  EXPECT_EQ(beyond.exit_code, 1);
  EXPECT_THAT(beyond.err, HasSubstr("team/gang has no rank 2: its ranks are 0 to 1"));
}

TEST_F(Plugin, CompletesNames) {
  cluster_->create(job_object({.name = "llama"}));
  EXPECT_EQ(ask_plugin({}, cluster_->real().kubeconfig()).exit_code, 2);
  const auto names = testcluster::run_command(
      {.arguments = {MUSTER_PLUGIN, "__complete", "--kubeconfig", cluster_->real().kubeconfig().string(),
                     "-n", "team", "why", "l"},
       .environment = {},
       .log = {}});
  ASSERT_TRUE(names);
  EXPECT_EQ(names->out, "llama\n:4\n");
  for (const char* shell : {"bash", "zsh", "fish"})
    EXPECT_THAT(ask({"completion", shell}).out, HasSubstr("kubectl-muster __complete"));
}

TEST_F(Plugin, TopIsShownOnceWhereThereIsNoTerminal) {
  // The numbers follow within seconds.
  ASSERT_TRUE(cluster_->wait(20s, [] { return line_of(ask({"top"}).out, "default 2 16 0") != ""; }));
  const auto top = ask({"top"});
  EXPECT_EQ(line_of(top.out, "default 2 16"), "default 2 16 0 16 16 [........................]")
      << top.out << top.err;
  EXPECT_NE(line_of(top.out, "root"), "");
  EXPECT_THAT(top.out, testing::Not(HasSubstr("\033")));
}

TEST_F(Plugin, SaysWhatIsWrongWithAQuestion) {
  const auto nobody = ask({"why", "-n", "team", "nobody"});
  EXPECT_EQ(nobody.exit_code, 1);
  EXPECT_EQ(nobody.err,
            "error: there is neither a TrainingJob nor an InferenceService \"nobody\" in namespace team\n");
  EXPECT_EQ(ask({"why", "-n", "team", "pod/x"}).exit_code, 2);
  EXPECT_EQ(ask({"why"}).exit_code, 2);
  EXPECT_EQ(ask({"tree", "-o", "xml"}).exit_code, 2);
  EXPECT_EQ(ask({"--help"}).exit_code, 0);
  const auto unreachable = cluster_->real().directory() / "nowhere.kubeconfig";
  std::ofstream(unreachable)
      << R"({apiVersion: v1, kind: Config, current-context: c, contexts: [{name: c, context: {cluster: c}}],
 clusters: [{name: c, cluster: {server: "http://127.0.0.1:1"}}]})";
  const auto gone = ask_plugin({"tree"}, unreachable);
  EXPECT_EQ(gone.exit_code, 1);
  EXPECT_THAT(gone.err, HasSubstr("error: "));
}

}  // namespace
}  // namespace muster::test
