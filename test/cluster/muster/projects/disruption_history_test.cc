// Who took a job's GPUs is known when the job is gone: after the operator was killed, by Project and by
// Queue, and to those who may read the namespace.
#include <gmock/gmock.h>

#include "plugin_fixture.h"

namespace muster::test {
namespace {

using testing::HasSubstr;
using testing::Not;

class DisruptionHistory : public OneCluster {
 protected:
  // `team` has a quota of 8 of 8 GPUs; `borrower` has none.
  static void SetUpTestSuite() {
    cluster_ = Cluster::start(1, 8, {}, 8);
    cluster_->make_namespace("borrower", "borrower");
    cluster_->apply(R"(
{apiVersion: muster.dev/v1alpha1, kind: Project, metadata: {name: borrower}, spec: {queue: root, quota: {gpu: 0}}}
)");
    muster_ = cluster_->muster();
  }

  static CommandResult ask(std::vector<std::string> arguments) {
    return ask_plugin(std::move(arguments), cluster_->real().kubeconfig());
  }
  static std::string lines_of(const std::string& ns) {
    const json file = cluster_->get("/api/v1/namespaces/" + ns + "/configmaps/muster-disruptions-0");
    return file.is_null() ? std::string() : file.value("/data/lines"_json_pointer, std::string());
  }
  // A job of `borrower` runs, has to go for one of `team`, and is deleted by its user.
  static void take_from(const std::string& victim, const std::string& by) {
    json one = job_object({.name = victim, .ns = "borrower", .gpus = 8});
    one["metadata"]["labels"]["muster.dev/user"] = "ann";
    cluster_->create(one);
    ASSERT_TRUE(cluster_->wait_phase(victim, "Running", 60s, "borrower"))
        << cluster_->job(victim, "borrower").dump(2);
    cluster_->create(job_object({.name = by, .gpus = 8}));
    ASSERT_TRUE(cluster_->wait_phase(by, "Running", 60s)) << cluster_->job(by).dump(2);
    EXPECT_TRUE(cluster_->wait(30s, [&] {
      return lines_of("borrower").find('"' + victim + '"') != std::string::npos;
    })) << lines_of("borrower");
    for (const auto& [name, ns] : {std::pair{victim, std::string("borrower")}, {by, std::string("team")}}) {
      cluster_->remove(path_of_job(name, ns));
      ASSERT_TRUE(cluster_->wait(30s, [&] { return cluster_->job(name, ns).is_null(); }));
    }
  }
};

TEST_F(DisruptionHistory, OutlivesJobsAndOperators) {
  take_from("first", "taker");
  muster_->kill();
  muster_ = cluster_->muster();
  cluster_->catch_up();
  take_from("second", "other");

  for (const std::vector<std::string>& question :
       {std::vector<std::string>{"--project", "borrower"}, {"--queue", "root"}, {"-A"}, {"-n", "borrower"}}) {
    auto asked = question;
    asked.insert(asked.begin(), "disruptions");
    const auto all = ask(asked);
    EXPECT_EQ(all.exit_code, 0) << all.err;
    EXPECT_THAT(all.out, HasSubstr("first (gone)"));
    EXPECT_THAT(all.out, HasSubstr("second (gone)"));
    EXPECT_THAT(all.out, HasSubstr("team/taker"));
  }
  const auto items = [](std::vector<std::string> question) {
    question.insert(question.begin(), "disruptions");
    question.insert(question.end(), {"-o", "json"});
    return json::parse(ask(question).out)["items"];
  };
  const json of_first = items({"-n", "borrower", "first"});
  ASSERT_EQ(of_first.size(), 1U) << of_first;
  EXPECT_EQ(of_first[0]["user"], "ann");
  EXPECT_EQ(of_first[0]["gave"], "8");
  EXPECT_EQ(of_first[0]["gone"], true);
  EXPECT_EQ(items({"--project", "borrower", "--since", "1h"}).size(), 2U);
  EXPECT_EQ(items({"--project", "team"}).size(), 0U);
  EXPECT_THAT(ask({"disruptions", "--project", "nobody"}).err, HasSubstr("there is no Project \"nobody\""));
  EXPECT_THAT(ask({"disruptions", "--queue", "nobody"}).err, HasSubstr("there is no Queue \"nobody\""));
  EXPECT_EQ(ask({"disruptions", "--since", "yesterday"}).exit_code, 2);

  // Who may read `team` is told nothing of what `borrower` lost.
  const auto rosa = viewer_of_team(*cluster_, "rosa");
  ASSERT_TRUE(rosa) << rosa.error();
  const auto refused = ask_plugin({"disruptions", "--project", "borrower"}, *rosa);
  EXPECT_EQ(refused.exit_code, 1);
  EXPECT_EQ(refused.out, "");
}

}  // namespace
}  // namespace muster::test
