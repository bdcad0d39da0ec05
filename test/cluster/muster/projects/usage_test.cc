// The ledger, live: what Projects and Queues say they have used, recounted from everything that their jobs
// have ever said.
#include <gmock/gmock.h>

#include <algorithm>
#include <chrono>
#include <cmath>
#include <cstdint>
#include <iostream>
#include <map>
#include <random>
#include <string>

#include "fixture.h"
#include "history.h"
#include "muster/crds/quantity.h"
#include "muster/crds/time.h"

namespace muster::test {
namespace {

using testing::HasSubstr;

std::int64_t seconds_of(const json& text) {
  const auto time =
      text.is_string() ? crds::parse_time(text.get<std::string>()) : std::unexpected<std::string>("no time");
  return time ? std::chrono::floor<std::chrono::seconds>(*time).time_since_epoch().count() : 0;
}

std::int64_t gpus_of(const json& status) {
  std::int64_t gpus = 0;
  for (const auto& pod : status.value("/assignment/pods"_json_pointer, json::array()))
    gpus += static_cast<std::int64_t>(pod.value("gpus", json::array()).size());
  return gpus;
}

// GPU-seconds that assignments of jobs held, by namespace: from the instants that the statuses name.
class Recount {
 public:
  void see(const Change& change) {
    if (change.object.value("kind", "") != "TrainingJob") return;
    const json status = change.object.value("status", json::object());
    const std::string uid = change.object["metadata"]["uid"];
    Held& held = jobs_[uid];
    const int attempt = status.value("/assignment/attempt"_json_pointer, 0);
    if (held.attempt == attempt && attempt != 0) return;
    if (held.attempt != 0)
      sum_[change.object["metadata"]["namespace"]] += held.gpus * (end_of(status) - held.begin);
    held = {attempt, gpus_of(status),
            seconds_of(status.value("/assignment/admittedAt"_json_pointer, json()))};
  }
  std::int64_t of(const std::string& ns) { return sum_[ns]; }

 private:
  struct Held {
    int attempt = 0;
    std::int64_t gpus = 0, begin = 0;
  };
  // When what it held was given back: it has ended, or waits again.
  static std::int64_t end_of(const json& status) {
    if (status.contains("finishedAt")) return seconds_of(status["finishedAt"]);
    const json next = status.value("/assignment/admittedAt"_json_pointer, json());
    if (next.is_string()) return seconds_of(next);
    for (const auto& c : status.value("conditions", json::array())) {
      if (c["type"] == "Admitted") return seconds_of(c["lastTransitionTime"]);
    }
    return 0;
  }

  std::map<std::string, Held> jobs_;  // by uid
  std::map<std::string, std::int64_t> sum_;
};

class Usage : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    cluster_ = Cluster::start(4, 8, {}, 16);
    cluster_->make_namespace("lender", "lender");
    cluster_->apply(R"(
{apiVersion: muster.dev/v1alpha1, kind: Project, metadata: {name: lender}, spec: {queue: root, quota: {gpu: 0}}}
)");
  }
  static void TearDownTestSuite() { cluster_.reset(); }
  void TearDown() override {
    if (HasFailure() && muster_) std::cout << muster_->log();
    muster_.reset();
  }

  static json usage_of(const std::string& plural, const std::string& name) {
    return cluster_->get("/apis/muster.dev/v1alpha1/" + plural + "/" + name)
        .value("/status/usage"_json_pointer, json::object());
  }
  static std::int64_t total(const std::string& plural, const std::string& name, const char* what) {
    return usage_of(plural, name).value("/total"_json_pointer, json::object()).value(what, std::int64_t{0});
  }
  static json job(const std::string& ns, const std::string& name, int gpus, const std::string& runs_for) {
    json one = job_object(
        {.name = name,
         .ns = ns,
         .gpus = gpus,
         .pod_annotations = {{"test.muster.dev/runs-for", runs_for}, {"test.muster.dev/save-for", "1s"}}});
    one["metadata"]["labels"]["muster.dev/user"] = "ann";
    return one;
  }

  static inline std::unique_ptr<Cluster> cluster_;
  std::unique_ptr<MusterProcess> muster_;
};

// Jobs come and go, those of `lender` make way for those of `team`, and the operator is killed again and
// again. Each account is as it was recounted from the history. MUSTER_KILLS: how often. MUSTER_MINUTES: for
// so long, with jobs that take ten times as long; then the sums must agree to the hundredth.
TEST_F(Usage, IsWhatTheHistorySaysHoweverOftenTheOperatorIsKilled) {
  const unsigned seed = seed_of_run();
  const int kills = number_from_environment("MUSTER_KILLS", 6);
  const int minutes = number_from_environment("MUSTER_MINUTES", 0);
  const bool is_long = minutes > 0;
  std::cout << "MUSTER_KILLS=" << kills << " MUSTER_MINUTES=" << minutes << "\n";
  std::mt19937 dice(seed);
  const auto dice_of = [&](int n) { return static_cast<int>(dice() % static_cast<unsigned>(n)); };
  History history(*cluster_, {"trainingjobs"});
  muster_ = cluster_->muster();
  int made = 0;
  std::vector<std::pair<std::string, std::string>> jobs;
  const auto make_jobs = [&](int count) {
    for (int i = 0; i < count; ++i) {
      const std::string ns = dice_of(2) == 0 ? "team" : "lender";
      const std::string name = "j" + std::to_string(made++);
      const int seconds = (2 + dice_of(8)) * (is_long ? 10 : 1);
      cluster_->create(job(ns, name, 1 << dice_of(4), std::to_string(seconds) + "s"));
      jobs.emplace_back(ns, name);
    }
  };
  for (int kill = 0; kill <= kills; ++kill) {
    const auto next_kill =
        std::chrono::steady_clock::now() + std::chrono::seconds(minutes * 60 / (kills + 1));
    while (is_long && std::chrono::steady_clock::now() < next_kill) {
      make_jobs(2);
      std::this_thread::sleep_for(std::chrono::seconds(10 + dice_of(20)));
    }
    if (!is_long) make_jobs(4);
    std::this_thread::sleep_for(std::chrono::milliseconds(1000 + dice_of(4000)));
    if (kill == kills) break;
    muster_->kill();
    muster_ = cluster_->muster();
  }
  for (const auto& [ns, name] : jobs) ASSERT_TRUE(cluster_->wait_phase(name, "Succeeded", 90s, ns)) << name;
  // The status follows within seconds. Then nothing is left to count.
  ASSERT_TRUE(cluster_->wait(30s, [&] {
    for (const char* name : {"team", "lender"}) {
      const auto project = cluster_->get("/apis/muster.dev/v1alpha1/projects/" + std::string(name));
      if (project.value("/status/running"_json_pointer, 0) != 0) return false;
    }
    return true;
  }));
  cluster_->catch_up();
  std::this_thread::sleep_for(4s);  // longer than two writes of mere numbers are apart

  Recount recount;
  history.replay([&](const Change& change) { recount.see(change); });
  std::int64_t sum = 0;
  for (const char* name : {"team", "lender"}) {
    const auto held = total("projects", name, "gpuSeconds") - total("projects", name, "saving");
    const auto truth = recount.of(name);
    std::cout << name << ": " << held << " GPU-seconds, recounted " << truth << "; "
              << usage_of("projects", name)["total"] << "\n";
    EXPECT_GT(truth, 50) << "else this shows nothing";
    // An instant is a second: each job may be one off for each GPU.
    const double off = is_long ? 0.01 * static_cast<double>(truth) : 0.03 * static_cast<double>(truth) + 8;
    EXPECT_NEAR(static_cast<double>(held), static_cast<double>(truth), off) << name;
    sum += total("projects", name, "gpuSeconds");
    const json day = usage_of("projects", name)["days"][0];
    EXPECT_EQ(day["users"][0]["name"], "ann");
    EXPECT_EQ(day["pools"][0]["name"], "default");
  }
  EXPECT_NEAR(static_cast<double>(total("queues", "root", "gpuSeconds")), static_cast<double>(sum),
              0.03 * static_cast<double>(sum) + 8);
}

// Who had to give what, for whom, and what work was thrown away, stands where its owner can read it.
TEST_F(Usage, ADisturbanceHasALineAndItsWorkIsLost) {
  muster_ = cluster_->muster();
  const auto lost_before = total("projects", "lender", "lost");
  for (int i = 0; i < 4; ++i) cluster_->create(job("lender", "b" + std::to_string(i), 8, "1h"));
  for (int i = 0; i < 4; ++i)
    ASSERT_TRUE(cluster_->wait_phase("b" + std::to_string(i), "Running", 30s, "lender"));
  std::this_thread::sleep_for(3s);  // the work that will be lost
  cluster_->create(job("team", "owner", 8, "1h"));
  ASSERT_TRUE(cluster_->wait_phase("owner", "Running", 60s));
  json line;
  for (int i = 0; i < 4; ++i) {
    const json lines = cluster_->job("b" + std::to_string(i), "lender")
                           .value("/status/disruptions"_json_pointer, json::array());
    if (!lines.empty()) line = lines[0];
  }
  ASSERT_TRUE(line.is_object()) << "nobody made way";
  EXPECT_EQ(line["reason"], "Reclaimed");
  EXPECT_EQ(line["gave"], "8");
  EXPECT_EQ(line["owed"], true);
  EXPECT_THAT(line["message"].get<std::string>(), HasSubstr("owner"));
  EXPECT_GT(line["cost"], 0);
  EXPECT_TRUE(cluster_->wait(20s, [&] { return total("projects", "lender", "lost") > lost_before; }))
      << usage_of("projects", "lender");
  cluster_->remove_all_jobs();
}

// manifests/users: who applies a job stands in its label, and nobody can write another name there.
TEST_F(Usage, TheUserIsWhoAppliedTheObject) {
  const auto applied = cluster_->real().kubectl({"apply", "-k", MUSTER_SOURCE_DIR "/manifests/users"});
  ASSERT_TRUE(applied) << applied.error();
  cluster_->apply(R"(
{apiVersion: rbac.authorization.k8s.io/v1, kind: ClusterRoleBinding, metadata: {name: everybody},
 roleRef: {apiGroup: rbac.authorization.k8s.io, kind: ClusterRole, name: cluster-admin},
 subjects: [{kind: Group, name: "system:authenticated", apiGroup: rbac.authorization.k8s.io}]}
)");
  const auto user_of = [](const std::string& name) {
    return cluster_->job(name)["metadata"].value("labels", json::object()).value("muster.dev/user", "");
  };
  const auto apply_as = [](const std::string& user, const json& object) {
    return cluster_->real().kubectl({"apply", "--as=" + user, "--as-group=system:authenticated", "-f", "-"},
                                    object.dump());
  };
  json mine = job_object({.name = "mine", .spec = {{"suspend", true}}});
  // The policy acts a moment after it is there.
  ASSERT_TRUE(cluster_->wait(30s, [&] {
    cluster_->remove(path_of_job("mine"));
    const auto done = apply_as("ann@example.com", mine);
    EXPECT_TRUE(done) << done.error();
    return user_of("mine") == "ann_example.com";
  })) << cluster_->job("mine").dump(2);
  mine["metadata"]["labels"]["muster.dev/user"] = "somebody-else";
  mine["metadata"]["labels"]["team"] = "x";
  const auto edited = apply_as("bob", mine);
  EXPECT_TRUE(edited) << edited.error();
  EXPECT_EQ(user_of("mine"), "ann_example.com") << "who made it, not who edits it";
  EXPECT_EQ(cluster_->job("mine")["metadata"]["labels"]["team"], "x");
  json other = job_object({.name = "other", .spec = {{"suspend", true}}});
  other["metadata"]["labels"]["muster.dev/user"] = "ann_example.com";
  EXPECT_TRUE(apply_as("system:serviceaccount:team:ci", other));
  EXPECT_EQ(user_of("other"), "system_serviceaccount_team_ci");
  cluster_->remove_all_jobs();
}

// Jobs of one user without maxRuntime have run before. What waits behind others of them is told when it
// starts, and that this rests on history. The pool's price and watts are in the sums.
TEST_F(Usage, EstimatesRestOnHistoryAndThePoolsPriceIsInTheSums) {
  cluster_->patch("/apis/muster.dev/v1alpha1/nodepools/default",
                  {{"spec", {{"pricePerGPUHour", "36"}, {"wattsPerGPU", 3600}}}});
  muster_ = cluster_->muster();
  const auto make = [](const std::string& name, const std::string& runs_for) {
    json one = job("team", name, 8, runs_for);
    one["metadata"]["labels"]["muster.dev/user"] = "bea";  // manifests/users may make another of it
    cluster_->create(one);
  };
  for (const std::string name : {"h1", "h2", "h3"}) make(name, "15s");
  for (const std::string name : {"h1", "h2", "h3"})
    ASSERT_TRUE(cluster_->wait_phase(name, "Succeeded", 60s)) << name;
  const auto runs = [] {
    return cluster_->get("/apis/muster.dev/v1alpha1/projects/team")
        .value("/status/runTimes"_json_pointer, json::array());
  };
  const json user = cluster_->job("h1")["metadata"]["labels"]["muster.dev/user"];
  const auto is_learned = [&] {
    return std::ranges::any_of(runs(), [&](const json& line) {
      return line["gpus"] == "8" && line["user"] == user && line["seconds"].size() == 3;
    });
  };
  ASSERT_TRUE(cluster_->wait(30s, is_learned)) << runs();
  // 360 GPU-seconds at least: 1 Wh each, and a hundredth of the currency.
  const json total = usage_of("projects", "team")["total"];
  EXPECT_GE(total.value("wattHours", 0), 340) << total;
  const auto cost = crds::parse_cost(total.value("cost", "0"));
  ASSERT_TRUE(cost) << total;
  EXPECT_NEAR(static_cast<double>(cost->value), 10.0 * total.value("wattHours", 0), 100.0) << total;
  EXPECT_TRUE(cluster_->wait(20s, [&] { return usage_of("queues", "root")["total"].contains("cost"); }))
      << usage_of("queues", "root");

  muster_->kill();  // what was learned survives
  muster_ = cluster_->muster();
  for (const std::string name : {"r1", "r2", "r3", "r4"}) make(name, "60s");
  for (const std::string name : {"r1", "r2", "r3", "r4"})
    ASSERT_TRUE(cluster_->wait_phase(name, "Running", 60s)) << name;
  make("waits", "1s");
  const auto queue = [] {
    return cluster_->job("waits").value("/status/queue"_json_pointer, json::object());
  };
  EXPECT_TRUE(cluster_->wait(30s, [&] { return queue().value("estimatedStartFrom", "") == "History"; }))
      << cluster_->job("waits").dump(2);
  EXPECT_NE(queue().value("estimatedStart", ""), "");
  EXPECT_TRUE(is_learned()) << "once: " << runs();
  const json pool = usage_of("nodepools", "default");
  EXPECT_GT(pool.value("unallocated", 0), 0) << pool;
  EXPECT_GT(pool.value("gpuSeconds", 0), pool.value("unallocated", 0)) << pool;
  cluster_->remove_all_jobs();
}

}  // namespace
}  // namespace muster::test
