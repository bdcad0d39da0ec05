// Backup without a tool: what `kubectl get -o yaml` prints brings the state back in an empty cluster.
// docs/operations.md
// ("Backup") has the same commands.
#include <fmt/format.h>
#include <gmock/gmock.h>

#include <fstream>
#include <set>
#include <thread>

#include "delivery.h"
#include "muster/crds/time.h"

namespace muster::test {
namespace {

namespace fs = std::filesystem;
using testing::HasSubstr;
using testing::IsEmpty;

const std::string kApi = "/apis/muster.dev/v1alpha1/";
const std::vector<std::string> kFiles = {"namespaces.yaml", "tree.yaml", "work.yaml"};

class Backup : public testing::Test {
 protected:
  // A cluster with something in every state, backed up after it has run for a while. It is gone afterwards.
  static void SetUpTestSuite() {
    folder_ = fs::path(testing::TempDir()) / fmt::format("muster-backup-{}", getpid());
    fs::create_directories(folder_);
    auto cluster = Cluster::start(2, 8);
    auto muster = cluster->muster();
    fill(*cluster);
    std::this_thread::sleep_for(6s);  // of work; nor what comes until the restore is work of the new cluster
    save(*cluster, {"namespaces", "-l", "muster.dev/project"}, kFiles[0]);
    save(*cluster, {"queues,projects,nodepools"}, kFiles[1]);
    save(*cluster, {"trainingjobs,inferenceservices", "-A"}, kFiles[2]);
    const json jobs = cluster->get(kApi + "trainingjobs");
    for (const auto& job : jobs["items"]) before_[job["metadata"]["name"]] = job;
    team_before_ = cluster->get(kApi + "projects/team");
    pool_before_ = cluster->get(kApi + "nodepools/default");
  }
  static void TearDownTestSuite() { fs::remove_all(folder_); }

  static void fill(Cluster& cluster) {
    cluster.apply(R"(
apiVersion: muster.dev/v1alpha1
kind: Project
metadata: {name: nlp}
spec: {queue: root, quota: {gpu: "8"}}
)");
    ASSERT_TRUE(cluster.wait(
        30s, [&] { return !cluster.get("/api/v1/namespaces/nlp/serviceaccounts/muster-job").is_null(); }));
    add_jobs_at_rest(cluster);
    start(cluster, {.name = "train", .gpus = 8, .spec = {{"checkpoint", {{"gracePeriod", "20s"}}}}},
          "Running");
    start(cluster, {.name = "slow", .gpus = 0, .pod_annotations = {{"test.muster.dev/start-after", "5s"}}},
          "Starting");
    start(cluster, {.name = "text", .ns = "nlp", .gpus = 2}, "Running");
    add_sharer_and_service(cluster);
    cluster.create(job_object({.name = "waits", .replicas = 2, .gpus = 8}));
    ASSERT_TRUE(cluster.wait(30s, [&] { return !cluster.reason("waits").empty(); }));
    const std::string pod = cluster.pods("train")[0]["metadata"]["name"];
    cluster.patch("/api/v1/namespaces/team/pods/" + pod,
                  {{"metadata",
                    {{"annotations",
                      {{"muster.dev/checkpoint", R"({"checkpoint":{"step":700,"uri":"/ckpt/700"}})"}}}}}});
    ASSERT_TRUE(cluster.wait(30s, [&] { return step_of(cluster.job("train")) == 700; }));
  }
  static int step_of(const json& job) { return job.value("/status/checkpoint/step"_json_pointer, 0); }
  static void save(Cluster& cluster, const std::vector<std::string>& what, const std::string& file) {
    std::vector<std::string> command = {"get", "-o", "yaml"};
    command.insert(command.end(), what.begin(), what.end());
    const auto said = cluster.real().kubectl(command);
    ASSERT_TRUE(said && said->ok());
    std::ofstream(folder_ / file) << said->out;
  }

  static void expect_ok(Cluster& cluster, std::vector<std::string> arguments, const std::string& input = {}) {
    SCOPED_TRACE(testing::PrintToString(arguments));
    const auto result = cluster.real().kubectl(std::move(arguments), input);
    ASSERT_TRUE(result);
    EXPECT_TRUE(result->ok()) << result->err << result->out;
  }
  // The objects. Statuses are not among what `kubectl create` writes.
  static void restore_objects(Cluster& cluster) {
    for (const auto& file : kFiles) expect_ok(cluster, {"create", "-f", folder_ / file});
  }
  // As Muster would write them. Without that, its later writes could not take anything out of them.
  static void restore_statuses(Cluster& cluster) {
    for (const auto& file : {kFiles[1], kFiles[2]}) {
      const std::string text = run({"sed", "/^    \\(uid\\|resourceVersion\\):/d", folder_ / file});
      expect_ok(cluster,
                {"apply", "--server-side", "--force-conflicts", "--field-manager=muster",
                 "--subresource=status", "-f", "-"},
                text);
    }
  }
  static std::string pods_of(Cluster& cluster) {
    std::string all;
    for (const auto& pod : cluster.all_pods())
      all += fmt::format("{} on {}: {}\n", pod["metadata"]["name"].get<std::string>(),
                         pod["spec"].value("nodeName", ""), pod["status"].dump());
    return all;
  }
  // No job says that it holds places unless the pods are there.
  static std::vector<std::string> lies(Cluster& cluster) {
    std::vector<std::string> found;
    const json jobs = cluster.get(kApi + "trainingjobs");
    for (const auto& job : jobs["items"]) {
      const std::string name = job["metadata"]["name"];
      std::set<std::string> places, pods;
      for (const auto& pod : job.value("/status/assignment/pods"_json_pointer, json::array()))
        places.insert(pod["node"]);
      for (const auto& pod : cluster.pods(name, job["metadata"]["namespace"]))
        if (pod["metadata"]["ownerReferences"][0]["uid"] == job["metadata"]["uid"] &&
            pod["status"]["phase"] != "Succeeded" && pod["status"]["phase"] != "Failed")
          pods.insert(pod["spec"]["nodeName"]);
      if (places != pods) found.push_back(fmt::format("{}: {}", name, job.value("status", json()).dump(1)));
    }
    return found;
  }
  static void expect_at_work(Cluster& cluster, const MusterProcess& muster) {
    for (const char* name : {"train", "half"})
      EXPECT_TRUE(cluster.wait_phase(name, "Running", 60s)) << cluster.job(name).dump(1) << muster.log();
    EXPECT_TRUE(cluster.wait_phase("slow", "Running", 60s)) << cluster.job("slow").dump(1);
    EXPECT_TRUE(cluster.wait_phase("text", "Running", 60s, "nlp")) << cluster.job("text", "nlp").dump(1);
    EXPECT_TRUE(cluster.wait(60s, [&] { return serves(cluster); })) << muster.log();
    EXPECT_TRUE(cluster.wait_phase("waits", "Queued"));
    // The namespace is made ready after the objects have come.
    EXPECT_TRUE(cluster.wait(30s, [&] { return cluster.reason("waits") == "InsufficientCapacity"; }))
        << cluster.reason("waits");
    EXPECT_TRUE(cluster.wait_phase("paused", "Suspended"));
    EXPECT_TRUE(cluster.wait(30s, [&] { return cluster.reason("later", "held") == "QueueHeld"; }));
    EXPECT_TRUE(cluster.wait(30s, [&] { return lies(cluster).empty(); }))
        << testing::PrintToString(lies(cluster));
    EXPECT_EQ(cluster.audit_gpus(), "") << pods_of(cluster);
    // Replicas of the service are those that Muster has made for it here.
    const json service = cluster.get(path_of_service("chat"));
    int replicas = 0;
    const json jobs = cluster.get(kApi + "trainingjobs");
    for (const auto& job : jobs["items"]) {
      if (!job["metadata"].contains("ownerReferences")) continue;
      ++replicas;
      EXPECT_EQ(job["metadata"]["ownerReferences"][0]["uid"], service["metadata"]["uid"]);
    }
    EXPECT_EQ(replicas, 2);
    for (const auto& [name, job] : before_) {
      if (!job["metadata"].contains("ownerReferences"))
        EXPECT_FALSE(cluster.job(name, job["metadata"]["namespace"]).is_null()) << name << " is lost";
    }
  }
  static std::int64_t seconds_between(const json& from, const json& to) {
    const auto at = [](const json& text) { return *crds::parse_time(text.get<std::string>()); };
    return (at(to) - at(from)).count();
  }

  static inline fs::path folder_;
  static inline std::map<std::string, json> before_;
  static inline json team_before_, pool_before_;
};

TEST_F(Backup, WithStatusesJobsGoOnFromTheirCheckpointsAndWhatHasEndedStaysSo) {
  const auto cluster = Cluster::start_empty();
  testcluster::NodeTemplate nodes;
  nodes.prefix = "new";  // no node of the assignments is there
  nodes.count = 2;
  ASSERT_TRUE(cluster->real().add_nodes(nodes));
  restore_objects(*cluster);
  restore_statuses(*cluster);
  for (const auto& [name, job] : before_) {
    if (job["metadata"].contains("ownerReferences")) continue;
    EXPECT_EQ(cluster->job(name, job["metadata"]["namespace"])["status"], job["status"]) << name;
  }
  auto muster = cluster->muster();
  expect_at_work(*cluster, *muster);

  for (const char* name : {"ended", "broke"}) {
    EXPECT_EQ(cluster->job(name)["status"], before_[name]["status"]);
    EXPECT_THAT(cluster->pods(name), IsEmpty()) << "it has run again";
  }
  const json train = cluster->job("train");
  EXPECT_EQ(train["status"]["attempt"], 2);
  EXPECT_EQ(train["status"]["assignment"]["resume"], json({{"step", 700}, {"uri", "/ckpt/700"}}));
  // Nothing is counted of the time when there was no cluster.
  const json made = train["metadata"]["creationTimestamp"];
  const json placed = train["status"]["assignment"]["admittedAt"];
  const std::int64_t since = seconds_between(made, placed) + 1;
  EXPECT_LE(train["status"].value("runSeconds", 0), since);
  EXPECT_LE(train["status"]["disruption"].value("lostOwed", 0), 8 * (since + 5)) << train["status"].dump(1);
  const auto used = [](const json& project) {
    return project.value("/status/usage/total/gpuSeconds"_json_pointer, std::int64_t{0});
  };
  json team;
  EXPECT_TRUE(cluster->wait(30s, [&] {
    team = cluster->get(kApi + "projects/team");
    return used(team) > used(team_before_);
  }));
  EXPECT_LE(used(team) - used(team_before_),
            11 * (seconds_between(made, team["status"]["usage"]["until"]) + 1));
  const auto had = [](const json& pool) {
    return pool.value("/status/usage/gpuSeconds"_json_pointer, std::int64_t{0});
  };
  json pool;
  EXPECT_TRUE(cluster->wait(30s, [&] {
    pool = cluster->get(kApi + "nodepools/default");
    return had(pool) > had(pool_before_);
  })) << pool.dump(1);
  EXPECT_LE(
      had(pool) - had(pool_before_),
      16 * (seconds_between(pool["metadata"]["creationTimestamp"], pool["status"]["usage"]["until"]) + 1));
  EXPECT_EQ(team["status"]["namespaceUID"], cluster->get("/api/v1/namespaces/team")["metadata"]["uid"]);

  // What was restored goes like what Muster has written.
  cluster->patch(path_of_job("train"), {{"spec", {{"suspend", true}}}});
  ASSERT_TRUE(cluster->wait_phase("train", "Suspended"));
  EXPECT_FALSE(cluster->job("train")["status"].contains("assignment"));
  std::set<std::string> writers;
  const json shown = cluster->job("train");
  for (const auto& entry : shown["metadata"]["managedFields"])
    if (entry.value("subresource", "") == "status") writers.insert(entry["manager"]);
  EXPECT_EQ(writers, std::set<std::string>{"muster"});
}

// The short way, into a cluster where Muster runs. It suits what describes work, and not what records it.
TEST_F(Backup, WithoutStatusesAllBeginsAnew) {
  const auto cluster = Cluster::start_empty();
  testcluster::NodeTemplate nodes;
  nodes.count = 2;
  ASSERT_TRUE(cluster->real().add_nodes(nodes));
  auto muster = cluster->muster();
  restore_objects(*cluster);
  expect_at_work(*cluster, *muster);
  EXPECT_EQ(cluster->job("train")["status"]["attempt"], 1);
  EXPECT_FALSE(cluster->job("train")["status"].contains("checkpoint"));
  EXPECT_TRUE(cluster->wait_phase("ended", "Succeeded"));
  EXPECT_EQ(cluster->pods("ended").size(), 1u) << "without its status nobody knows that it has run";
}

}  // namespace
}  // namespace muster::test
