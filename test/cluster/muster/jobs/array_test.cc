// Arrays on a real API server: what their indexes are, how they end, and what an operator that is killed
// again and again makes of them.
#include <gmock/gmock.h>

#include <algorithm>
#include <iostream>
#include <random>

#include "fixture.h"
#include "history.h"
#include "write_log.h"

namespace muster::test {
namespace {

using testing::IsEmpty;

constexpr const char* kArrayLabel = "muster.dev/array";
constexpr const char* kIndexLabel = "muster.dev/array-index";

json array_object(const std::string& name, const json& array, const std::string& runs_for,
                  const json& spec = json::object()) {
  json object = job_object({.name = name, .pod_annotations = {{"test.muster.dev/runs-for", runs_for}}});
  object["spec"]["array"] = array;
  object["spec"].merge_patch(spec);
  return object;
}

json array_of(const Cluster& cluster, const std::string& name) {
  return cluster.job(name).value("/status/array"_json_pointer, json::object());
}

// How many indexes a text of ranges has.
int count_of(const std::string& ranges) {
  int count = 0;
  std::istringstream list(ranges);
  for (std::string range; std::getline(list, range, ',');) {
    const auto dash = range.find('-');
    count += dash == std::string::npos ? 1 : std::stoi(range.substr(dash + 1)) - std::stoi(range) + 1;
  }
  return count;
}
bool has_index(const std::string& ranges, int index) {
  std::istringstream list(ranges);
  for (std::string range; std::getline(list, range, ',');) {
    const auto dash = range.find('-');
    const int first = std::stoi(range),
              last = dash == std::string::npos ? first : std::stoi(range.substr(dash + 1));
    if (index >= first && index <= last) return true;
  }
  return false;
}

bool is_true(const json& object, const char* type) {
  const json conditions = object.value("/status/conditions"_json_pointer, json::array());
  return std::ranges::any_of(conditions,
                             [&](const json& c) { return c["type"] == type && c["status"] == "True"; });
}

// What must hold of an array after every write.
class ArrayAudit {
 public:
  explicit ArrayAudit(std::size_t parallelism) : parallelism_(parallelism) {}

  void see(const Change& change) {
    const json& meta = change.object["metadata"];
    const json labels = meta.value("labels", json::object());
    const bool is_job = change.object["kind"] == "TrainingJob";
    if (!labels.contains(kIndexLabel)) {
      if (is_job && !change.is_gone && change.object["spec"].contains("array")) see_array(change.object);
      return;
    }
    const int index = std::stoi(labels[kIndexLabel].get<std::string>());
    const std::string uid = meta["uid"];
    if (!is_job) {
      if (change.object["status"].value("phase", "") == "Succeeded") succeeded_pods_[index].insert(uid);
      return;
    }
    jobs_of_[index].insert(uid);
    const bool has_ended = is_true(change.object, "Complete") || is_true(change.object, "Failed");
    if (has_ended) ends_[index].insert(uid);
    if (change.is_gone || has_ended) {
      open_.erase(uid);
    } else {
      open_.insert(uid);
    }
    most_ = std::max(most_, open_.size());
    if (open_.size() > parallelism_) wrong("too many indexes wait or run at once");
    if (change.is_gone && has_ended && !has_index(recorded_, index))
      wrong("the job of index " + std::to_string(index) + " was deleted before its end was recorded");
  }

  void judge(int count) {
    for (int i = 0; i < count; ++i) {
      const std::string who = "index " + std::to_string(i);
      if (ends_[i].size() != 1) wrong(who + " ended " + std::to_string(ends_[i].size()) + " times");
      if (succeeded_pods_[i].size() != 1)
        wrong(who + " has " + std::to_string(succeeded_pods_[i].size()) + " pods that have succeeded");
      jobs_made_ += jobs_of_[i].size();
    }
  }
  const std::vector<std::string>& problems() const { return problems_; }
  std::size_t most_open() const { return most_; }
  std::size_t jobs_made() const { return jobs_made_; }
  int array_writes() const { return array_writes_; }

 private:
  void see_array(const json& object) {
    ++array_writes_;
    const std::string now = object.value("/status/array/succeededIndexes"_json_pointer, std::string());
    if (count_of(now) < count_of(recorded_)) wrong("an index is not in the record any more");
    recorded_ = now;
  }
  void wrong(const std::string& sentence) {
    if (problems_.size() < 20) problems_.push_back(sentence);
  }

  std::size_t parallelism_;
  std::string recorded_;
  std::map<int, std::set<std::string>> ends_, succeeded_pods_, jobs_of_;  // uids
  std::set<std::string> open_;
  std::size_t most_ = 0, jobs_made_ = 0;
  int array_writes_ = 0;
  std::vector<std::string> problems_;
};

TEST(ArrayCrash, KilledAfterAnyWriteEachIndexIsRunToItsEndOnce) {
  const int count = full_size() ? 1000 : 60, parallelism = full_size() ? 100 : 10;
  const int kills = number_from_environment("MUSTER_KILLS", full_size() ? 20 : 8);
  const unsigned seed = seed_of_run();
  std::mt19937 random(seed);
  testcluster::Options options;
  options.audit = true;
  const auto cluster = full_size() ? Cluster::start(13, 8, options) : Cluster::start(3, 4, options);
  History history(*cluster, {"trainingjobs"});
  WriteLog writes(cluster->real().audit_log());
  auto muster = cluster->muster();
  cluster->create(array_object("sweep", {{"count", count}, {"parallelism", parallelism}}, "1s"));
  const auto began = std::chrono::steady_clock::now();
  int killed = 0;
  for (; killed < kills && cluster->phase("sweep") != "Succeeded"; ++killed) {
    const int fatal = writes.but_for_events() + 1 + static_cast<int>(random() % (full_size() ? 250 : 60));
    if (!testcluster::wait_until(120s, [&] { return writes.but_for_events() >= fatal; }, 1ms)) break;
    muster->kill();
    muster = cluster->muster();
  }
  EXPECT_TRUE(cluster->wait_phase("sweep", "Succeeded", full_size() ? 600s : 180s))
      << cluster->job("sweep").dump(2) << muster->log();
  const auto took = std::chrono::duration_cast<Milliseconds>(std::chrono::steady_clock::now() - began);
  const json array = array_of(*cluster, "sweep");
  EXPECT_EQ(array.value("succeededIndexes", ""), "0-" + std::to_string(count - 1));
  EXPECT_EQ(array.value("succeeded", 0), count);
  const auto jobs_left = [&] {
    return cluster
        ->get(
            "/apis/muster.dev/v1alpha1/namespaces/team/trainingjobs?labelSelector=muster.dev%2Farray"
            "%3Dsweep")["items"]
        .size();
  };
  EXPECT_TRUE(cluster->wait(60s, [&] { return jobs_left() == 0; }));

  Auditor auditor;
  ArrayAudit audit(parallelism);
  int changes = 0;
  history.replay([&](const Change& change) {
    ++changes;
    auditor.see(change);
    audit.see(change);
  });
  audit.judge(count);
  std::cout << "killed " << killed << " times; " << count << " indexes ended after " << took.count()
            << " ms, at most " << audit.most_open() << " at once, " << audit.jobs_made() << " jobs; "
            << changes << " states of the API server; " << audit.array_writes() << " of the array; "
            << writes.but_for_events() * 10 / count / 10.0 << " writes for each index, but for events:\n"
            << tell(writes.kinds());
  EXPECT_THAT(auditor.problems(), IsEmpty());
  EXPECT_THAT(audit.problems(), IsEmpty());
  EXPECT_GE(killed, std::min(kills, 3)) << "it was over too soon to be killed";
}

class ArrayLife : public OneCluster {
 protected:
  static void SetUpTestSuite() {
    cluster_ = Cluster::start(2, 4);
    muster_ = cluster_->muster();
  }
  static bool wait_array(const std::string& name, const std::string& field, const json& value) {
    const bool is_so =
        cluster_->wait(60s, [&] { return array_of(*cluster_, name).value(field, json()) == value; });
    EXPECT_TRUE(is_so) << cluster_->job(name).dump(2);
    return is_so;
  }
};

TEST_F(ArrayLife, AnIndexIsAJobThatKnowsWhichItIs) {
  json object =
      array_object("search", {{"count", 3}, {"parallelism", 2}, {"parameters", {"LR=1", "LR=2", "$(X)"}}},
                   "1h", {{"ttlAfterFinished", "1h"}});
  object["metadata"]["labels"] = {{"muster.dev/user", "rosa"}, {"argocd.argoproj.io/instance", "app"}};
  cluster_->create(object);
  ASSERT_TRUE(wait_array("search", "running", 2));
  EXPECT_EQ(array_of(*cluster_, "search").value("runningIndexes", ""), "0-1");
  EXPECT_EQ(cluster_->phase("search"), "Running");
  EXPECT_EQ(cluster_->job("search").value("/status/allocated/gpu"_json_pointer, json()), json("2"));
  EXPECT_TRUE(cluster_->job("search-2").is_null());
  const json index = cluster_->job("search-1");
  const json labels = {{kArrayLabel, "search"}, {kIndexLabel, "1"}, {"muster.dev/user", "rosa"}};
  EXPECT_EQ(index["metadata"]["labels"], labels);
  EXPECT_EQ(index["metadata"]["ownerReferences"][0]["name"], "search");
  EXPECT_FALSE(index["spec"].contains("array"));
  EXPECT_FALSE(index["spec"].contains("ttlAfterFinished"));
  const auto pods = cluster_->pods("search-1");
  ASSERT_EQ(pods.size(), 1u);
  std::map<std::string, std::string> env;
  for (const auto& e : pods[0]["spec"]["containers"][0]["env"]) env[e["name"]] = e.value("value", "");
  EXPECT_EQ(env["MUSTER_ARRAY_INDEX"], "1");
  EXPECT_EQ(env["MUSTER_ARRAY_PARAMETER"], "LR=2");
  EXPECT_EQ(pods[0]["metadata"]["labels"].value(kIndexLabel, ""), "1");
  // The garbage collector takes its indexes.
  cluster_->remove(path_of_job("search"));
  EXPECT_TRUE(cluster_->wait(90s, [&] { return cluster_->job("search-0").is_null(); }));
}

TEST_F(ArrayLife, LessParallelismAndSuspensionHoldIndexesThatGoOnLater) {
  cluster_->create(array_object("held", {{"count", 5}, {"parallelism", 3}}, "1h"));
  ASSERT_TRUE(wait_array("held", "running", 3));
  cluster_->patch(path_of_job("held"), {{"spec", {{"array", {{"parallelism", 1}}}}}});
  ASSERT_TRUE(wait_array("held", "heldIndexes", "1-2"));
  ASSERT_TRUE(cluster_->wait_phase("held-2", "Suspended"));
  EXPECT_FALSE(cluster_->job("held-2")["spec"].value("suspend", false)) << "no spec was written";
  ASSERT_TRUE(wait_array("held", "running", 1));
  EXPECT_EQ(cluster_->phase("held-0"), "Running");
  cluster_->patch(path_of_job("held"), {{"spec", {{"array", {{"parallelism", 4}}}}}});
  ASSERT_TRUE(wait_array("held", "runningIndexes", "0-3"));
  cluster_->patch(path_of_job("held"), {{"spec", {{"suspend", true}}}});
  ASSERT_TRUE(cluster_->wait_phase("held", "Suspended", 60s)) << cluster_->job("held").dump(2);
  EXPECT_TRUE(cluster_->wait(60s, [&] { return cluster_->all_pods().empty(); }));
  cluster_->patch(path_of_job("held"), {{"spec", {{"suspend", false}}}});
  ASSERT_TRUE(wait_array("held", "runningIndexes", "0-3"));
}

TEST_F(ArrayLife, ItsStatusSaysHowFarEachIndexHasSaved) {
  cluster_->create(array_object("saves", {{"count", 3}, {"parallelism", 2}}, "1h"));
  ASSERT_TRUE(wait_array("saves", "running", 2));
  const auto pods = cluster_->pods("saves-1");
  ASSERT_EQ(pods.size(), 1u);
  cluster_->patch(
      "/api/v1/namespaces/team/pods/" + pods[0]["metadata"]["name"].get<std::string>(),
      {{"metadata", {{"annotations", {{"muster.dev/checkpoint", R"({"checkpoint":{"step":700}})"}}}}}});
  const auto saved = [] { return array_of(*cluster_, "saves").value("checkpoints", json::array()); };
  ASSERT_TRUE(cluster_->wait(60s, [&] { return saved().size() == 1; })) << cluster_->job("saves").dump(2);
  EXPECT_EQ(saved()[0]["index"], 1);
  EXPECT_EQ(saved()[0]["step"], 700);
}

TEST_F(ArrayLife, ItStopsAtTheFirstFailureWhereItSaysSo) {
  cluster_->create(array_object("strict", {{"count", 5}, {"parallelism", 2}, {"failures", "Stop"}}, "1h",
                                {{"restart", {{"limit", 0}}}}));
  ASSERT_TRUE(wait_array("strict", "running", 2));
  ASSERT_TRUE(cluster_->wait(30s, [&] { return cluster_->pods("strict-1").size() == 1; }));
  const std::string pod = cluster_->pods("strict-1")[0]["metadata"]["name"];
  cluster_->patch("/api/v1/namespaces/team/pods/" + pod,
                  {{"metadata", {{"annotations", {{"test.muster.dev/exit-now", "3"}}}}}});
  ASSERT_TRUE(cluster_->wait_phase("strict", "Failed", 60s)) << cluster_->job("strict").dump(2);
  EXPECT_EQ(cluster_->condition("strict", "Failed")["reason"], "IndexFailed");
  EXPECT_EQ(cluster_->condition("strict", "Stalled")["status"], "True");
  const json array = array_of(*cluster_, "strict");
  EXPECT_EQ(array.value("failedIndexes", ""), "1");
  EXPECT_EQ(array.value("stopped", 0), 4);
  EXPECT_TRUE(cluster_->wait(30s, [&] { return cluster_->job("strict-0").is_null(); }));
  EXPECT_EQ(cluster_->phase("strict-1"), "Failed") << "it stays for its logs";
}

void end_with(Cluster& cluster, const std::string& job, int exit_code) {
  ASSERT_TRUE(
      cluster.wait(30s, [&] { return cluster.pods(job).size() == 1 && cluster.phase(job) == "Running"; }));
  const std::string pod = cluster.pods(job)[0]["metadata"]["name"];
  cluster.patch("/api/v1/namespaces/team/pods/" + pod,
                {{"metadata", {{"annotations", {{"test.muster.dev/exit-now", std::to_string(exit_code)}}}}}});
}

// By a number, which may be stated as often as one likes.
TEST_F(ArrayLife, WhatHasFailedIsRunAgainOnceForEachHigherNumber) {
  cluster_->create(
      array_object("flaky", {{"count", 3}, {"parallelism", 3}}, "1h", {{"restart", {{"limit", 0}}}}));
  ASSERT_TRUE(wait_array("flaky", "running", 3));
  end_with(*cluster_, "flaky-0", 0);
  end_with(*cluster_, "flaky-1", 3);
  ASSERT_TRUE(wait_array("flaky", "failedIndexes", "1"));
  const std::string first_uid = cluster_->job("flaky-1")["metadata"]["uid"];
  // While others run.
  cluster_->patch(path_of_job("flaky"), {{"spec", {{"array", {{"retryFailed", 1}}}}}});
  ASSERT_TRUE(wait_array("flaky", "runningIndexes", "1-2"));
  json array = array_of(*cluster_, "flaky");
  EXPECT_EQ(array.value("retried", 0), 1);
  EXPECT_EQ(array.value("failed", -1), 0) << array.dump();
  EXPECT_NE(cluster_->job("flaky-1")["metadata"]["uid"], first_uid);
  // It fails again, and the array in the end with it.
  end_with(*cluster_, "flaky-1", 3);
  end_with(*cluster_, "flaky-2", 0);
  ASSERT_TRUE(cluster_->wait_phase("flaky", "Failed", 60s)) << cluster_->job("flaky").dump(2);
  // The same number once more changes nothing, nor does a lower one.
  for (const int number : {1, 0})
    cluster_->patch(path_of_job("flaky"), {{"spec", {{"array", {{"retryFailed", number}}}}}});
  cluster_->catch_up();
  EXPECT_EQ(cluster_->phase("flaky"), "Failed");
  EXPECT_EQ(array_of(*cluster_, "flaky").value("failedIndexes", ""), "1");
  // A higher one does, whoever leads.
  muster_->kill();
  cluster_->patch(path_of_job("flaky"), {{"spec", {{"array", {{"retryFailed", 5}}}}}});
  muster_ = cluster_->muster();
  ASSERT_TRUE(wait_array("flaky", "runningIndexes", "1"));
  EXPECT_EQ(cluster_->phase("flaky"), "Running");
  EXPECT_EQ(cluster_->condition("flaky", "Failed")["status"], "False");
  EXPECT_EQ(cluster_->condition("flaky", "Stalled")["status"], "False");
  EXPECT_FALSE(cluster_->job("flaky")["status"].contains("finishedAt"));
  end_with(*cluster_, "flaky-1", 0);
  ASSERT_TRUE(cluster_->wait_phase("flaky", "Succeeded", 60s)) << cluster_->job("flaky").dump(2);
  EXPECT_EQ(array_of(*cluster_, "flaky").value("succeededIndexes", ""), "0-2");
}

std::string parameter_of(const Cluster& cluster, const std::string& job) {
  const auto pods = cluster.pods(job);
  if (pods.empty()) return "no pod";
  for (const auto& e : pods[0]["spec"]["containers"][0]["env"]) {
    if (e["name"] == "MUSTER_ARRAY_PARAMETER") return e.value("value", "");
  }
  return "none";
}

TEST_F(ArrayLife, ParametersAreLinesOfAConfigMapAsItWasWhenTheFirstIndexBegan) {
  const auto config_map = [](const std::string& lines) {
    const json object = {{"apiVersion", "v1"},
                         {"kind", "ConfigMap"},
                         {"metadata", {{"name", "rates"}, {"namespace", "team"}}},
                         {"data", {{"rates.txt", lines}}}};
    cluster_->apply(object.dump());
  };
  const auto waits_for = [](const std::string& reason) {
    return cluster_->wait(30s, [&] { return cluster_->reason("tuned") == reason; });
  };
  const json from = {{"configMapKeyRef", {{"name", "rates"}, {"key", "rates.txt"}}}};
  cluster_->create(array_object("tuned", {{"count", 3}, {"parallelism", 1}, {"parametersFrom", from}}, "1h"));
  ASSERT_TRUE(waits_for("ParametersNotFound")) << cluster_->job("tuned").dump(2);
  EXPECT_EQ(cluster_->condition("tuned", "Accepted")["status"], "True") << "nothing is wrong with it";
  config_map("LR=1\nLR=2\n");
  ASSERT_TRUE(waits_for("ParametersInvalid")) << cluster_->job("tuned").dump(2);
  EXPECT_THAT(cluster_->job("tuned")["status"]["queue"]["message"].get<std::string>(),
              testing::HasSubstr("has 2 lines, and spec.array.count is 3"));
  config_map("LR=1\nLR=2\nLR=3\nLR=4\n");
  ASSERT_TRUE(wait_array("tuned", "runningIndexes", "0"));
  EXPECT_EQ(parameter_of(*cluster_, "tuned-0"), "LR=1");
  // Whatever becomes of the ConfigMap, and of the operator.
  config_map("x\n");
  muster_->kill();
  muster_ = cluster_->muster();
  end_with(*cluster_, "tuned-0", 0);
  ASSERT_TRUE(wait_array("tuned", "runningIndexes", "1"));
  EXPECT_TRUE(cluster_->wait(20s, [] { return parameter_of(*cluster_, "tuned-1") == "LR=2"; }));
  cluster_->remove("/api/v1/namespaces/team/configmaps/rates");
  end_with(*cluster_, "tuned-1", 0);
  ASSERT_TRUE(wait_array("tuned", "runningIndexes", "2"));
  EXPECT_TRUE(cluster_->wait(20s, [] { return parameter_of(*cluster_, "tuned-2") == "LR=3"; }));
  end_with(*cluster_, "tuned-2", 0);
  EXPECT_TRUE(cluster_->wait_phase("tuned", "Succeeded", 60s));
}

TEST_F(ArrayLife, TheWholeArrayWaitsForOtherJobsBeforeItsFirstIndex) {
  json object = array_object("after", {{"count", 2}}, "1s");
  object["spec"]["dependsOn"] = {{{"name", "prep"}}};
  cluster_->create(object);
  const auto waits_for = [](const std::string& reason) {
    return cluster_->wait(30s, [&] { return cluster_->reason("after") == reason; });
  };
  ASSERT_TRUE(waits_for("DependencyNotFound")) << cluster_->job("after").dump(2);
  EXPECT_EQ(cluster_->condition("after", "Accepted")["status"], "True");
  cluster_->create(job_object({.name = "prep"}));
  ASSERT_TRUE(waits_for("DependencyNotComplete")) << cluster_->job("after").dump(2);
  EXPECT_TRUE(cluster_->job("after-0").is_null());
  end_with(*cluster_, "prep", 0);
  ASSERT_TRUE(cluster_->wait_phase("after", "Succeeded", 60s)) << cluster_->job("after").dump(2);
  EXPECT_FALSE(cluster_->job("after")["status"].contains("metDependencies"));
  // And others wait for it.
  cluster_->create(job_object({.name = "last", .spec = {{"dependsOn", {{{"name", "after"}}}}}}));
  EXPECT_TRUE(cluster_->wait_phase("last", "Running", 60s));
}

TEST_F(ArrayLife, TheFirstResultIsWhatASearchWaitsFor) {
  json object =
      array_object("find", {{"count", 8}, {"parallelism", 2}, {"success", {{"policy", "Result"}}}}, "1s");
  object["spec"]["roles"][0]["template"]["metadata"]["annotations"]["test.muster.dev/termination-message"] =
      R"({"result":{"loss":"0.5"}})";
  cluster_->create(object);
  ASSERT_TRUE(cluster_->wait_phase("find", "Succeeded", 60s)) << cluster_->job("find").dump(2);
  EXPECT_EQ(cluster_->condition("find", "Complete")["reason"], "ResultFound");
  const json array = array_of(*cluster_, "find");
  EXPECT_TRUE(has_index(array.value("succeededIndexes", ""), array.value("resultIndex", -1))) << array.dump();
  EXPECT_GT(array.value("stopped", 0), 0);
  // The job that said it goes, and what it said stays, whoever leads.
  const std::string winner = "find-" + std::to_string(array.value("resultIndex", -1));
  EXPECT_TRUE(cluster_->wait(30s, [&] { return cluster_->job(winner).is_null(); }));
  muster_->kill();
  muster_ = cluster_->muster();
  cluster_->catch_up();
  EXPECT_EQ(cluster_->job("find")["status"].value("result", ""), R"({"loss":"0.5"})");
  EXPECT_THAT(cluster_->condition("find", "Complete")["message"].get<std::string>(),
              testing::EndsWith(R"( has a result: {"loss":"0.5"})"));
}

TEST_F(ArrayLife, ANameThatIsTakenIsWaitedFor) {
  cluster_->create(job_object({.name = "mine-1"}));
  ASSERT_TRUE(cluster_->wait_phase("mine-1", "Running"));
  cluster_->create(array_object("mine", {{"count", 3}}, "1s"));
  ASSERT_TRUE(cluster_->wait(60s, [&] {
    const json accepted = cluster_->condition("mine", "Accepted");  // null before the first look
    return !accepted.is_null() && accepted["reason"] == "NameTaken";
  })) << cluster_->job("mine").dump(2);
  ASSERT_TRUE(wait_array("mine", "succeededIndexes", "0,2"));
  EXPECT_EQ(cluster_->phase("mine-1"), "Running") << "it was left alone";
  cluster_->remove(path_of_job("mine-1"));
  EXPECT_TRUE(cluster_->wait_phase("mine", "Succeeded", 120s)) << cluster_->job("mine").dump(2);
}

}  // namespace
}  // namespace muster::test
