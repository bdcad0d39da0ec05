// What kubectl-muster makes of a command line, and of the pods of a job.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "act/session.h"
#include "act/submission.h"
#include "command_line.h"
#include "completion.h"
#include "muster/crds/validate.h"
#include "objects.h"
#include "pods/lines.h"
#include "pods/pods.h"
#include "pods/ranks.h"

namespace muster::plugin {
namespace {

using testing::Contains;
using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Not;

std::vector<std::string> words_of(const std::vector<std::string>& typed, std::string* asked_in = nullptr) {
  CommandLine line;
  const auto app = make_app(line);
  std::vector<std::string> words;
  const auto found = complete(*app, typed, [&](const Options& options) {
    if (asked_in != nullptr) *asked_in = options.ns;
    return std::vector<std::string>{"llama", "lora", "isvc/chat"};
  });
  for (const auto& [word, description] : found.words) words.push_back(word);
  return words;
}

TEST(Completion, KnowsCommandsOptionsAndTheirValues) {
  EXPECT_THAT(words_of({"s"}), ElementsAre("submit", "session", "suspend", "scale"));
  EXPECT_THAT(words_of({"queue", "--all"}), ElementsAre("--all-namespaces"));
  EXPECT_THAT(words_of({"queue", "--"}), Contains("--namespace"));
  EXPECT_THAT(words_of({"usage", "--by", ""}),
              ElementsAre("job", "model", "pool", "project", "queue", "user"));
  EXPECT_THAT(words_of({"tree", "-o", "j"}), ElementsAre("json"));
  EXPECT_THAT(words_of({"session", ""}), ElementsAre("start", "list", "stop"));
  EXPECT_THAT(words_of({"session", "start", "--cl"}), ElementsAre("--claim"));
  EXPECT_THAT(words_of({"session", "stop", "l"}), ElementsAre("llama", "lora"));
  EXPECT_THAT(words_of({"completion", ""}), ElementsAre("bash", "fish", "zsh"));
}

TEST(Completion, AsksForNamesInTheNamespaceThatIsMeant) {
  std::string ns;
  EXPECT_THAT(words_of({"-n", "nlp", "why", "l"}, &ns), ElementsAre("llama", "lora"));
  EXPECT_EQ(ns, "nlp");
  EXPECT_THAT(words_of({"logs", "--namespace=cv", "--tail", "5", ""}, &ns),
              ElementsAre("llama", "lora", "isvc/chat"));
  EXPECT_EQ(ns, "cv");
  EXPECT_THAT(words_of({"why", "llama", ""}), IsEmpty());
  EXPECT_THAT(words_of({"exec", "llama", "--", ""}), IsEmpty());
  EXPECT_THAT(words_of({"nonsense", ""}), IsEmpty());
  CommandLine line;
  const auto app = make_app(line);
  EXPECT_TRUE(complete(*app, {"whatif", "-f", ""}, {}).files);
}

TEST(Commands, AllHaveHelp) {
  CommandLine line;
  const auto app = make_app(line);
  for (const CLI::App* command : app->get_subcommands({})) {
    EXPECT_FALSE(command->get_description().empty()) << command->get_name();
    for (const CLI::Option* option : command->get_options({}))
      EXPECT_FALSE(option->get_description().empty()) << command->get_name() << " " << option->get_name();
  }
}

TEST(Commands, SayWhatIsWrongWithThem) {
  EXPECT_EQ(run_command_line({}), 2);
  EXPECT_EQ(run_command_line({"nonsense"}), 2);
  EXPECT_EQ(run_command_line({"why", "pod/x"}), 2);
  EXPECT_EQ(run_command_line({"why", "tj/"}), 2);
  EXPECT_EQ(run_command_line({"why", "x", "--", "y"}), 2);
  EXPECT_EQ(run_command_line({"tree", "-o", "xml"}), 2);
  EXPECT_EQ(run_command_line({"usage", "--by", "job", "--since", "7d"}), 2);
  EXPECT_EQ(run_command_line({"usage", "--by", "user", "--since", "all"}), 2);
  EXPECT_EQ(run_command_line({"submit"}), 2);
  EXPECT_EQ(run_command_line({"exec", "x"}), 2);
  EXPECT_EQ(run_command_line({"session"}), 2);
  EXPECT_EQ(run_command_line({"session", "start"}), 2);
  EXPECT_EQ(run_command_line({"session", "start", "i:1", "--claim", "home"}), 2);
  EXPECT_EQ(run_command_line({"session", "start", "i:1", "--path", "lab"}), 2);
  EXPECT_EQ(run_command_line({"logs", "x", "--tail", "-1"}), 2);
}

TEST(Submission, IsAJobThatTheSchemaTakes) {
  Submission s;
  s.image = "ghcr.io/org/PyTorch:2.4";
  s.command = {"torchrun", "train.py", "--lr=1e-3"};
  s.gpus = 8;
  s.replicas = 2;
  s.name = "llama";
  s.interactive = true;
  s.max_runtime = "2h";
  s.priority = "training";
  s.pool = "a100";
  s.framework = "PyTorch";
  s.cpu = "8";
  s.memory = "64Gi";
  const Data job = job_of(s, "nlp");
  const auto errors = crds::validate(crds::Json::parse(job.dump()));
  EXPECT_TRUE(errors.empty()) << crds::to_string(errors.front());
  const auto read = crds::from_json<crds::TrainingJob>(crds::Json::parse(job.dump()));
  ASSERT_TRUE(read);
  EXPECT_EQ(read->spec.mode, crds::Mode::kInteractive);
  EXPECT_EQ(read->spec.roles.front().replicas, 2);
  EXPECT_EQ(read->spec.roles.front().gpus->count, 8);
  EXPECT_EQ(read->spec.max_runtime, 2h);
  EXPECT_EQ(job["spec"]["roles"][0]["template"]["spec"]["containers"][0]["command"][2], "--lr=1e-3");
}

TEST(Submission, LeavesOutWhatIsNotSaid) {
  Submission s;
  s.image = "busybox";
  s.gpus = 0;
  const Data job = job_of(s, "nlp");
  EXPECT_EQ(job["metadata"], Data::parse(R"({"generateName": "busybox-", "namespace": "nlp"})"));
  EXPECT_EQ(job["spec"], Data::parse(R"({"roles": [{"name": "worker", "replicas": 1,
      "template": {"spec": {"containers": [{"name": "main", "image": "busybox"}]}}}]})"));
}

TEST(Session, IsAnInteractiveJobWithAPortThatTheSchemaTakes) {
  Session s;
  s.job.image = "quay.io/jupyter/pytorch-notebook:1";
  s.job.name = default_session_name(s.job.image, "Anna.Meier");
  EXPECT_EQ(s.job.name, "pytorch-notebook-anna-meier");
  s.port = 8888;
  s.path = "/lab";
  s.claims = {"home:/home/me", "data:/data"};
  s.activity_path = "/api/status";
  ASSERT_EQ(wrong_in(s), "");
  s.port = 0;
  EXPECT_THAT(wrong_in(s), HasSubstr("--activity-path needs a port"));
  s.port = 8888;
  const Data job = session_job(s, "nlp");
  EXPECT_EQ(job["spec"]["idle"]["activityPath"], "/api/status");
  const auto errors = crds::validate(crds::Json::parse(job.dump()));
  EXPECT_TRUE(errors.empty()) << crds::to_string(errors.front());
  auto read = crds::from_json<crds::TrainingJob>(crds::Json::parse(job.dump())).value();
  EXPECT_EQ(read.spec.mode, crds::Mode::kInteractive);
  ASSERT_EQ(read.spec.expose.size(), 1U);
  EXPECT_EQ(read.spec.expose[0], (crds::ExposedPort{"http", 8888, "/lab"}));
  const Data& pod = job["spec"]["roles"][0]["template"]["spec"];
  EXPECT_EQ(pod["volumes"][1]["persistentVolumeClaim"]["claimName"], "data");
  EXPECT_EQ(pod["containers"][0]["volumeMounts"][0]["mountPath"], "/home/me");
  EXPECT_EQ(why_another(read, s), "");
  read.status.endpoints = {{"http", "x-expose", "http://x-expose.nlp.svc:8888/lab",
                            "kubectl -n nlp port-forward svc/x-expose 8888:8888"}};
  EXPECT_EQ(how_to_reach(read),
            "kubectl -n nlp port-forward svc/x-expose 8888:8888\n"
            "  then open http://localhost:8888/lab\n");
  read.status.endpoints[0].external_url = "https://x-http-0.example.org/lab";
  EXPECT_THAT(how_to_reach(read), HasSubstr("/lab\n  or open https://x-http-0.example.org/lab\n"));
  s.job.image = "other:1";
  EXPECT_THAT(why_another(read, s), HasSubstr("with another image, quay.io/jupyter/pytorch-notebook:1"));
  read.spec.mode = crds::Mode::kBatch;
  EXPECT_THAT(why_another(read, s), HasSubstr("is a batch job"));
}

TEST(Session, OfAShellAloneStays) {
  Session s;
  s.job.image = "ubuntu:24.04";
  s.shell = true;
  const Data job = session_job(s, "nlp");
  EXPECT_FALSE(job["spec"].contains("expose"));
  EXPECT_EQ(job["spec"]["roles"][0]["template"]["spec"]["containers"][0]["command"][0], "sh");
  EXPECT_EQ(default_session_name("ubuntu:24.04", ""), "ubuntu");
  EXPECT_LE(default_session_name("a-very-long-name-of-an-image", "a-very-long-name-of-somebody").size(), 40U);
}

TEST(Submission, IsCalledAsItsImage) {
  EXPECT_EQ(name_of_image("ghcr.io/org/PyTorch:2.4"), "pytorch");
  EXPECT_EQ(name_of_image("host:5000/a_b@sha256:00"), "a-b");
  EXPECT_EQ(name_of_image("42"), "job");
  EXPECT_EQ(name_of_image("x/nvidia.cuda-with-a-very-long-name"), "nvidia-cuda-with-a-v");
}

crds::Json pod(const std::string& name, const std::string& role, int index, int attempt,
               const std::string& phase = "Running", const std::string& of = "llama") {
  return {{"metadata",
           {{"name", name},
            {"labels",
             {{"muster.dev/job", of},
              {"muster.dev/role", role},
              {"muster.dev/index", std::to_string(index)},
              {"muster.dev/attempt", std::to_string(attempt)}}}}},
          {"spec", {{"containers", {{{"name", "main"}}, {{"name", "side"}}}}}},
          {"status", {{"phase", phase}}}};
}

TEST(Ranks, AreInTheOrderOfRolesThenIndexes) {
  crds::TrainingJob j = job("llama", crds::Phase::kRunning);
  j.spec.roles.resize(2);
  j.spec.roles[0].name = "worker";
  j.spec.roles[1].name = "actor";
  const auto pods =
      ranked(Workload(j), {pod("actor-0", "actor", 0, 2), pod("worker-10", "worker", 10, 2),
                           pod("worker-9", "worker", 9, 2, "Pending"), pod("old", "worker", 9, 1)});
  ASSERT_EQ(pods.size(), 3U);
  EXPECT_EQ(pods[0].name, "worker-9");
  EXPECT_FALSE(pods[0].has_started);
  EXPECT_EQ(pods[1].name, "worker-10");
  EXPECT_EQ(pods[1].rank, 1);
  EXPECT_EQ(pods[1].container, "main");
  EXPECT_EQ(pods[2].name, "actor-0");
  EXPECT_EQ(selector_of(Workload(j)), "muster.dev/job=llama");
}

TEST(Ranks, AreThoseThatPodsAreToldAlsoWhereMembersAreMissing) {
  crds::TrainingJob j = job("llama", crds::Phase::kRunning);
  j.spec.roles.resize(2);
  j.spec.roles[0].name = "worker";
  j.spec.roles[0].min_replicas = 1;
  j.spec.roles[0].max_replicas = 4;
  j.spec.roles[1].name = "eval";
  j.spec.elastic.emplace().resize = crds::Resize::kInPlace;
  const auto pods =
      ranked(Workload(j), {pod("e0", "eval", 0, 2), pod("w0", "worker", 0, 2), pod("w2", "worker", 2, 2)});
  std::vector<std::int32_t> ranks;
  for (const auto& one : pods) ranks.push_back(one.rank);
  EXPECT_THAT(ranks, ElementsAre(0, 2, 4)) << "eval begins behind the four that worker may have";
  EXPECT_EQ(say_no_rank("nlp/llama", pods, 1), "nlp/llama has no rank 1: its ranks are 0, 2, 4");

  crds::TrainingJob fixed = job("fixed", crds::Phase::kRunning);
  fixed.spec.roles.resize(1);
  fixed.spec.roles[0].name = "worker";
  fixed.spec.roles[0].replicas = 3;
  fixed.status.assignment.pods = {
      {"worker", 0, "n", {}, 0}, {"worker", 1, "n", {}, 0}, {"worker", 2, "n", {}, 0}};
  const auto two = ranked(Workload(fixed), {pod("w1", "worker", 1, 2), pod("w2", "worker", 2, 2)});
  EXPECT_EQ(two.front().rank, 1) << "the first is not there yet";
  EXPECT_EQ(say_no_rank("nlp/fixed", two, 0), "nlp/fixed has no rank 0: its ranks are 1 to 2");
}

TEST(Ranks, OfAServiceGoOverItsReplicas) {
  crds::InferenceService s;
  s.metadata.name = "chat";
  const auto pods = ranked(Workload(s), {pod("r1-0", "server", 0, 1, "Running", "chat-a-1"),
                                         pod("r0-0", "server", 0, 7, "Running", "chat-a-0")});
  ASSERT_EQ(pods.size(), 2U);
  EXPECT_EQ(pods[0].name, "r0-0");
  EXPECT_EQ(pods[1].rank, 1);
  EXPECT_EQ(selector_of(Workload(s)), "muster.dev/service=chat");
}

TEST(Ranks, OfASetOfRolesAreInTheOrderOfItsRoles) {
  crds::InferenceService s;
  s.metadata.name = "chat";
  s.spec.roles.resize(2);
  s.spec.roles[0].name = "prefill";
  s.spec.roles[1].name = "decode";
  const auto pods = ranked(Workload(s), {pod("d0", "decode", 0, 1), pod("p1", "prefill", 1, 1),
                                         pod("d1", "decode", 1, 1), pod("p0", "prefill", 0, 1)});
  std::vector<std::string> names;
  for (const auto& one : pods) names.push_back(one.name);
  EXPECT_THAT(names, ElementsAre("p0", "p1", "d0", "d1"));
}

TEST(Lines, AreCutFromPieces) {
  LineCutter cutter;
  EXPECT_THAT(cutter.take("one\ntw"), ElementsAre("one"));
  EXPECT_THAT(cutter.take("o\n\nthr"), ElementsAre("two", ""));
  EXPECT_EQ(cutter.rest(), "thr");
  EXPECT_EQ(cutter.rest(), "");
}

TEST(Lines, AreInTheOrderOfTheirTimes) {
  std::vector<LogLine> lines = {
      split_time(0, "2026-03-04T12:00:00.5Z a"), split_time(0, "2026-03-04T12:00:01Z c d"),
      split_time(1, "2026-03-04T12:00:00.51Z b"), split_time(1, "2026-03-04T12:00:00Z first")};
  in_time_order(lines);
  std::vector<std::string> texts;
  for (const auto& line : lines) texts.push_back(line.text);
  EXPECT_THAT(texts, ElementsAre("first", "a", "b", "c d"));
}

TEST(HandOver, TellsKubectlWhichCluster) {
  Options options;
  EXPECT_THAT(kubectl_arguments(options, "nlp", {"exec", "p", "--", "ls", "-n"}),
              ElementsAre("kubectl", "--namespace=nlp", "exec", "p", "--", "ls", "-n"));
  options.kubeconfig = "/k";
  options.context = "c";
  EXPECT_THAT(kubectl_arguments(options, "nlp", {"exec"}),
              ElementsAre("kubectl", "--kubeconfig=/k", "--context=c", "--namespace=nlp", "exec"));
}

}  // namespace
}  // namespace muster::plugin
