// Elastic jobs live: members that leave and join, restarts at another size, wishes, losses and edits.
#include <gmock/gmock.h>

#include <algorithm>
#include <random>
#include <set>
#include <thread>

#include "fixture.h"

namespace muster::test {
namespace {

using testing::HasSubstr;

constexpr const char* kReport = R"({"checkpoint":{"step":1200,"uri":"/ckpt/step-1200"}})";

// Two projects share 16 GPUs, 8 each.
class Elastic : public OneCluster {
 protected:
  static void SetUpTestSuite() {
    cluster_ = Cluster::start(2, 8, {}, 8);
    cluster_->make_namespace("other", "other");
    cluster_->apply(R"(
{apiVersion: muster.dev/v1alpha1, kind: Queue, metadata: {name: root}, spec: {quota: {gpu: 16}, disruption: {maxOverhead: 100}}}
---
{apiVersion: muster.dev/v1alpha1, kind: Project, metadata: {name: other}, spec: {queue: root, quota: {gpu: 8}}}
---
{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: doomed}, value: 10}
)");
    muster_ = cluster_->muster();
  }

  static json elastic(int least, int most, const std::string& resize = "InPlace",
                      const std::string& saving = "1s") {
    json job = job_object({.name = "e",
                           .pod_annotations = {{"test.muster.dev/save-for", saving},
                                               {"test.muster.dev/termination-message", kReport}},
                           .spec = {{"checkpoint", {{"gracePeriod", "60s"}}},
                                    {"framework", "PyTorch"},
                                    {"elastic", {{"resize", resize}, {"growAfter", "3s"}}}}});
    json& role = job["spec"]["roles"][0];
    role.erase("replicas");
    role["minReplicas"] = least;
    role["maxReplicas"] = most;
    return job;
  }
  static json status() { return cluster_->job("e").value("status", json::object()); }
  static bool wait_size(int pods, Milliseconds timeout = 30s) {
    return cluster_->wait(timeout, [&] {
      const json s = status();
      return s.value("phase", "") == "Running" && s.value("readyReplicas", 0) == pods &&
             s.value("replicas", 0) == pods && cluster_->pods("e").size() == static_cast<std::size_t>(pods);
    });
  }
  static std::map<int, std::string> uids() {
    std::map<int, std::string> all;
    for (const auto& p : cluster_->pods("e"))
      all[std::stoi(p["metadata"]["labels"]["muster.dev/index"].get<std::string>())] = p["metadata"]["uid"];
    return all;
  }
  // Of the first `n` indexes.
  static std::map<int, std::string> first(std::map<int, std::string> of, int n) {
    std::erase_if(of, [&](const auto& p) { return p.first >= n; });
    return of;
  }
  static std::string file(const std::string& name) {
    return cluster_->get("/api/v1/namespaces/team/configmaps/e-hosts")["data"].value(name, std::string());
  }
  static std::string hosts(int n) {
    std::string lines;
    for (int i = 0; i < n; ++i) lines += "worker-" + std::to_string(i) + ".e.team.svc\n";
    return lines;
  }
  static std::vector<std::string> events(const std::string& job, const std::string& ns,
                                         const std::string& reason) {
    std::vector<std::string> notes;
    const std::string uid =
        cluster_->job(job, ns)["metadata"]["uid"];  // jobs of earlier tests have the same name
    const json all = cluster_->get("/apis/events.k8s.io/v1/namespaces/" + ns + "/events");
    for (const auto& e : all["items"]) {
      if (e["regarding"]["uid"] == uid && e["reason"] == reason) notes.push_back(e["note"]);
    }
    return notes;
  }
  static json claim(int gpus) { return job_object({.name = "claim", .ns = "other", .replicas = gpus}); }
  static void scale(int to, bool taken) {
    const auto answer = cluster_->real().kubectl(
        {"scale", "trainingjob/e", "-n", "team", "--replicas=" + std::to_string(to)});
    EXPECT_EQ(answer && answer->ok(), taken) << (answer ? answer->out + answer->err : answer.error());
  }
};

TEST_F(Elastic, MembersLeaveForWhoHasARightAndJoinAgainWhenThereIsRoom) {
  cluster_->create(elastic(4, 16));
  ASSERT_TRUE(wait_size(16)) << status().dump(2);
  EXPECT_EQ(status()["pods"], "16/4-16");
  EXPECT_EQ(file("hosts"), hosts(16));
  const auto before = uids();
  cluster_->create(claim(4));
  ASSERT_TRUE(cluster_->wait_phase("claim", "Running", 30s, "other"))
      << cluster_->job("claim", "other").dump(2);
  ASSERT_TRUE(wait_size(12)) << status().dump(2);
  EXPECT_EQ(uids(), first(before, 12)) << "the highest indexes leave, the others run on";
  EXPECT_EQ(file("hosts"), hosts(12));
  EXPECT_EQ(file("size"), "12\n");
  EXPECT_EQ(status()["attempt"], 1);
  EXPECT_FALSE(status().contains("preemptions"));
  const auto said = events("e", "team", "Reclaimed");
  ASSERT_EQ(said.size(), 1u);
  EXPECT_THAT(said[0], HasSubstr("from 16 to 12 pods"));
  EXPECT_THAT(said[0], HasSubstr("other/claim"));
  EXPECT_THAT(said[0], HasSubstr("worker-12 to worker-15 with 4 GPUs"));
  const auto promised = events("claim", "other", "Nominated");
  ASSERT_EQ(promised.size(), 1u);
  EXPECT_THAT(promised[0], HasSubstr("team/e"));
  EXPECT_EQ(cluster_->audit_gpus(), "");

  cluster_->remove(path_of_job("claim", "other"));
  ASSERT_TRUE(cluster_->wait(90s, [&] { return cluster_->pods("claim", "other").empty(); }));
  std::this_thread::sleep_for(1s);
  EXPECT_EQ(cluster_->pods("e").size(), 12u) << "not before the quiet time is over";
  ASSERT_TRUE(wait_size(16)) << status().dump(2);
  EXPECT_EQ(first(uids(), 12), first(before, 12));
  EXPECT_EQ(file("hosts"), hosts(16));
  EXPECT_EQ(status()["attempt"], 1);
  EXPECT_EQ(events("e", "team", "Grown").size(), 1u);
  EXPECT_EQ(cluster_->audit_gpus(), "");
}

TEST_F(Elastic, RestartSavesAndGoesOnAtTheNewSize) {
  cluster_->create(elastic(4, 16, "Restart"));
  ASSERT_TRUE(wait_size(16)) << status().dump(2);
  cluster_->create(claim(4));
  ASSERT_TRUE(cluster_->wait_phase("claim", "Running", 30s, "other"))
      << cluster_->job("claim", "other").dump(2);
  ASSERT_TRUE(wait_size(12)) << status().dump(2);
  EXPECT_EQ(status()["attempt"], 2);
  EXPECT_EQ(status()["assignment"]["resume"]["step"], 1200);
  EXPECT_EQ(status().value("/restarts/count"_json_pointer, 0), 0);
  EXPECT_EQ(file("hosts"), hosts(12));
  for (const auto& p : cluster_->pods("e")) {
    for (const auto& v : p["spec"]["containers"][0]["env"]) {
      if (v["name"] == "WORLD_SIZE") {
        EXPECT_EQ(v["value"], "12");
      }
    }
  }
  EXPECT_EQ(events("e", "team", "Reclaimed").size(), 1u);
  EXPECT_EQ(cluster_->audit_gpus(), "");

  // Room that comes bit by bit costs one restart.
  const auto claims = cluster_->pods("claim", "other");
  ASSERT_EQ(claims.size(), 4u);
  cluster_->remove(path_of_job("claim", "other"));
  for (const auto& p : claims) {
    cluster_->remove("/api/v1/namespaces/other/pods/" + p["metadata"]["name"].get<std::string>());
    std::this_thread::sleep_for(500ms);
  }
  ASSERT_TRUE(wait_size(16)) << status().dump(2);
  EXPECT_EQ(status()["attempt"], 3);
  std::this_thread::sleep_for(5s);
  EXPECT_EQ(status()["attempt"], 3);
  EXPECT_EQ(cluster_->audit_gpus(), "");
}

TEST_F(Elastic, KubectlScaleSetsTheWishWithinTheBounds) {
  cluster_->create(elastic(2, 8));
  ASSERT_TRUE(wait_size(8)) << status().dump(2);
  const auto before = uids();
  scale(3, true);
  ASSERT_TRUE(wait_size(3)) << status().dump(2);
  EXPECT_EQ(uids(), first(before, 3));
  const json seen = cluster_->get(path_of_job("e") + "/scale");
  EXPECT_EQ(seen["spec"]["replicas"], 3);
  EXPECT_EQ(seen["status"]["replicas"], 3);
  EXPECT_EQ(seen["status"]["selector"], "muster.dev/job=e");
  scale(9, false);
  scale(1, false);
  scale(6, true);
  ASSERT_TRUE(wait_size(6)) << status().dump(2);
  std::this_thread::sleep_for(5s);  // longer than a gang that grows waits for more room
  EXPECT_EQ(cluster_->pods("e").size(), 6u) << "no more than wished for";
  EXPECT_EQ(first(uids(), 3), first(before, 3));
  EXPECT_EQ(status()["attempt"], 1);
}

TEST_F(Elastic, ALostMemberIsDoneWithoutAndComesBack) {
  cluster_->create(elastic(4, 8));
  ASSERT_TRUE(wait_size(8)) << status().dump(2);
  auto before = uids();
  for (const auto& p : cluster_->pods("e")) {
    if (p["metadata"]["labels"]["muster.dev/index"] == "2")
      cluster_->remove("/api/v1/namespaces/team/pods/" + p["metadata"]["name"].get<std::string>());
  }
  ASSERT_TRUE(cluster_->wait(20s, [&] {
    return status().value("replicas", 0) == 7 && std::ranges::count(file("hosts"), '\n') == 7;
  })) << status().dump(2);
  ASSERT_TRUE(wait_size(8)) << status().dump(2);
  auto after = uids();
  EXPECT_EQ(events("e", "team", "MemberLost").size(), 1u);
  EXPECT_NE(after[2], before[2]);
  after.erase(2);
  before.erase(2);
  EXPECT_EQ(after, before) << "the others never stopped";
  EXPECT_EQ(status()["attempt"], 1);
  EXPECT_EQ(cluster_->audit_gpus(), "");
}

TEST_F(Elastic, AnEditRestartsTheGangOnlyWhereItNeedsOtherPods) {
  cluster_->create(elastic(4, 8));
  ASSERT_TRUE(wait_size(8)) << status().dump(2);
  const auto before = uids();
  cluster_->patch(path_of_job("e"), {{"spec", {{"maxRuntime", "5h"}, {"priorityClassName", "training"}}}});
  ASSERT_TRUE(cluster_->wait(
      10s, [&] { return status()["observedGeneration"] == cluster_->job("e")["metadata"]["generation"]; }));
  cluster_->catch_up();
  EXPECT_EQ(uids(), before);
  json roles = cluster_->job("e")["spec"]["roles"];
  roles[0]["template"]["spec"]["containers"][0]["image"] = "registry.example/train:2";
  const json places = status()["assignment"]["pods"];
  cluster_->patch(path_of_job("e"), {{"spec", {{"roles", roles}}}});
  ASSERT_TRUE(cluster_->wait(10s, [&] { return status()["attempt"] == 2; })) << status().dump(2);
  ASSERT_TRUE(wait_size(8)) << status().dump(2);
  EXPECT_EQ(status()["attempt"], 2);
  EXPECT_EQ(status()["assignment"]["pods"], places);
  EXPECT_EQ(status()["assignment"]["resume"]["step"], 1200);
  EXPECT_EQ(status().value("/restarts/count"_json_pointer, 0), 0);
  for (const auto& p : cluster_->pods("e"))
    EXPECT_EQ(p["spec"]["containers"][0]["image"], "registry.example/train:2");
  EXPECT_EQ(events("e", "team", "SpecChanged").size(), 1u);
  EXPECT_EQ(cluster_->audit_gpus(), "");
}

TEST_F(Elastic, KilledInTheMiddleOfAShrinkItEndsTheSame) {
  const unsigned seed = seed_of_run();
  std::mt19937 random(seed);
  for (int round = 0; round < 4; ++round) {
    SCOPED_TRACE("round " + std::to_string(round));
    const std::string resize = round % 2 == 0 ? "InPlace" : "Restart";
    cluster_->create(elastic(4, 16, resize, "2s"));
    ASSERT_TRUE(wait_size(16)) << status().dump(2);
    const auto before = uids();
    cluster_->create(claim(4));
    if (round < 2) {
      ASSERT_TRUE(cluster_->wait(20s, [&] { return status().value("replicas", 0) == 12; }));
    } else {
      std::this_thread::sleep_for(Milliseconds(random() % 200));
    }
    muster_->kill();
    muster_ = cluster_->muster();
    ASSERT_TRUE(cluster_->wait_phase("claim", "Running", 30s, "other"))
        << cluster_->job("claim", "other").dump(2) << status().dump(2);
    ASSERT_TRUE(wait_size(12)) << status().dump(2);
    EXPECT_EQ(status()["attempt"], round % 2 == 0 ? 1 : 2);
    if (round % 2 == 0) {
      EXPECT_EQ(uids(), first(before, 12));
    }
    EXPECT_EQ(file("hosts"), hosts(12));
    EXPECT_EQ(cluster_->audit_gpus(), "");
    cluster_->remove_all_jobs();
  }
}

// What runs holds what it holds, whatever becomes of the class that it names.
TEST_F(Elastic, APriorityClassThatIsDeletedFreesNothing) {
  const auto fixed = [](const char* name, const char* ns, const char* priority) {
    json job = job_object({.name = name, .ns = ns, .replicas = 8, .spec = {{"preemptible", false}}});
    if (*priority != '\0') job["spec"]["priorityClassName"] = priority;
    return job;
  };
  cluster_->create(fixed("e", "team", "doomed"));
  cluster_->create(fixed("claim", "other", ""));
  ASSERT_TRUE(cluster_->wait_phase("e", "Running") && cluster_->wait_phase("claim", "Running", 30s, "other"));
  cluster_->remove("/apis/scheduling.k8s.io/v1/priorityclasses/doomed");
  for (int round = 0; round < 2; ++round) {
    cluster_->patch(path_of_job("e"), {{"metadata", {{"labels", {{"touched", std::to_string(round)}}}}}});
    cluster_->create(job_object({.name = "late-" + std::to_string(round)}));
    cluster_->catch_up();
    EXPECT_EQ(cluster_->phase("late-" + std::to_string(round)), "Queued");
    EXPECT_EQ(cluster_->phase("e"), "Running");
    EXPECT_EQ(cluster_->audit_gpus(), "");
    if (round > 0) break;
    muster_->kill();
    muster_ = cluster_->muster();
  }
}

// Half of the members lose their node, and there is no room elsewhere: the other half runs on, and is whole
// again when the node is back.
TEST(ElasticNodes, ALostNodeCostsOnlyItsOwnMembers) {
  const auto cluster = Cluster::start(2, 4);
  // It grows again at once, and not when that has paid several times over.
  cluster->patch("/apis/muster.dev/v1alpha1/queues/root",
                 {{"spec", {{"disruption", {{"maxOverhead", 100}}}}}});
  const auto muster = cluster->muster({"--node-grace", "4"});
  json job = job_object({.name = "e", .spec = {{"elastic", {{"growAfter", "3s"}}}}});
  json& role = job["spec"]["roles"][0];
  role.erase("replicas");
  role["minReplicas"] = 2;
  role["maxReplicas"] = 8;
  cluster->create(job);
  const auto is_whole = [&](std::size_t pods) {
    const json s = cluster->job("e").value("status", json::object());
    return s.value("phase", "") == "Running" && s.value("replicas", 0U) == pods &&
           cluster->pods("e").size() == pods;
  };
  ASSERT_TRUE(cluster->wait(30s, [&] { return is_whole(8); })) << cluster->job("e").dump(2) << muster->log();
  std::map<std::string, std::string> kept;  // by uid
  std::string lost;
  for (const auto& p : cluster->pods("e")) {
    if (p["metadata"]["labels"]["muster.dev/index"] == "7") lost = p["spec"]["nodeName"];
  }
  for (const auto& p : cluster->pods("e")) {
    if (p["spec"]["nodeName"] != lost) kept[p["metadata"]["uid"]] = p["metadata"]["name"];
  }
  ASSERT_EQ(kept.size(), 4u);
  const auto node = "/api/v1/nodes/" + lost;
  cluster->patch(node, {{"metadata", {{"annotations", {{"test.muster.dev/down", "true"}}}}}});
  ASSERT_TRUE(cluster->wait(60s, [&] { return is_whole(4); })) << cluster->job("e").dump(2) << muster->log();
  for (const auto& p : cluster->pods("e"))
    EXPECT_TRUE(kept.contains(p["metadata"]["uid"].get<std::string>()));
  cluster->patch(node, {{"metadata", {{"annotations", {{"test.muster.dev/down", nullptr}}}}}});
  ASSERT_TRUE(cluster->wait(60s, [&] { return is_whole(8); })) << cluster->job("e").dump(2) << muster->log();
  std::size_t still = 0;
  for (const auto& p : cluster->pods("e")) still += kept.count(p["metadata"]["uid"].get<std::string>());
  EXPECT_EQ(still, 4u) << "they never stopped";
  EXPECT_EQ(cluster->job("e")["status"]["attempt"], 1);
  EXPECT_EQ(cluster->audit_gpus(), "");
}

}  // namespace
}  // namespace muster::test
