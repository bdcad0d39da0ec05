// Pods that look for other pods or avoid them, and replicas that are kept apart: by labels of jobs and of
// others, as pods come, change and go, and over a restart of Muster.
#include <gmock/gmock.h>

#include <algorithm>
#include <iostream>
#include <map>
#include <set>

#include "service_fixture.h"

namespace muster::test {
namespace {

using testing::HasSubstr;
using testing::UnorderedElementsAre;

constexpr const char* kHost = "kubernetes.io/hostname";
constexpr const char* kZone = "topology.kubernetes.io/zone";
constexpr const char* kRack = "muster.dev/rack";

json term(const json& labels, const std::string& key) {
  return {{"labelSelector", {{"matchLabels", labels}}}, {"topologyKey", key}};
}
json required(const char* kind, const json& term) {
  return {{kind, {{"requiredDuringSchedulingIgnoredDuringExecution", {term}}}}};
}

// `more` is merged into the pod spec.
json labelled_job(const SimpleJob& job, const json& labels, const json& more = json::object()) {
  json object = job_object(job);
  json& pod = object["spec"]["roles"][0]["template"];
  pod["metadata"]["labels"] = labels;
  pod["spec"].merge_patch(more);
  return object;
}

std::multiset<std::string> nodes_of(const std::vector<json>& pods) {
  std::multiset<std::string> nodes;
  for (const auto& p : pods) {
    if (!p["metadata"].contains("deletionTimestamp")) nodes.insert(p["spec"]["nodeName"]);
  }
  return nodes;
}

// Zone and rack a: a-0, a-1; zone and rack b: b-0, b-1. Two GPUs each.
class Affinity : public testing::Test {
 protected:
  static void SetUpTestSuite() {
    s_.cluster = Cluster::start(0, 0);
    for (const std::string zone : {"a", "b"}) {
      testcluster::NodeTemplate node;
      node.prefix = zone;
      node.count = 2;
      node.gpus = 2;
      node.zone = zone;
      node.labels = {{kRack, zone}};
      ASSERT_TRUE(s_.cluster->real().add_nodes(node));
    }
    start_muster();
  }
  static void TearDownTestSuite() { s_ = {}; }
  void TearDown() override {
    if (HasFailure() && s_.muster) std::cerr << s_.muster->log().substr(0, 20000);
    const json list = s_.cluster->get("/apis/muster.dev/v1alpha1/inferenceservices");
    for (const auto& i : list["items"]) s_.cluster->remove(path_of_service(i["metadata"]["name"]));
    EXPECT_TRUE(s_.cluster->wait(kCollected, [] {
      return s_.cluster
          ->get("/apis/muster.dev/v1alpha1/trainingjobs?labelSelector=muster.dev%2Fservice")["items"]
          .empty();
    }));
    s_.cluster->remove_all_jobs();
  }
  static void start_muster() { s_.muster = s_.cluster->muster({"--node-grace", "4"}); }
  // Who comes next finds everything as it is.
  static void restart_muster() {
    for (int i = 0; i < 2; ++i) {
      s_.muster->kill();
      start_muster();
    }
    s_.cluster->catch_up();
  }
  static std::set<std::string> uids_of_all() {
    std::set<std::string> uids;
    for (const auto& p : s_.cluster->all_pods()) {
      const bool is_of_catch_up = p["metadata"]["name"].get<std::string>().starts_with("catch-up");
      if (!is_of_catch_up) uids.insert(p["metadata"]["uid"]);
    }
    return uids;
  }
  static bool wait_reason(const std::string& job, const std::string& reason) {
    return s_.cluster->wait(15s, [&] { return s_.cluster->reason(job) == reason; });
  }
  static std::string message_of(const std::string& job) {
    return s_.cluster->job(job).value("/status/queue/message"_json_pointer, std::string());
  }
  static std::string say(const std::string& job) { return s_.cluster->job(job).dump(2); }
  static void down(const std::string& node, bool is_down) {
    s_.cluster->patch(
        "/api/v1/nodes/" + node,
        {{"metadata", {{"annotations", {{"test.muster.dev/down", is_down ? json("true") : json()}}}}}});
  }
  static inline Stage s_;
};

TEST_F(Affinity, AJobAvoidsThePodsOfAnotherAndIsAvoidedByThem) {
  Cluster& c = *s_.cluster;
  c.create(labelled_job({.name = "noisy"}, {{"app", "noisy"}}));
  ASSERT_TRUE(c.wait_phase("noisy", "Running")) << say("noisy");
  const std::string there = *nodes_of(c.pods("noisy")).begin();
  const json apart = {{"affinity", required("podAntiAffinity", term({{"app", "noisy"}}, kHost))}};
  c.create(labelled_job({.name = "quiet", .replicas = 6}, {{"app", "quiet"}}, apart));
  ASSERT_TRUE(c.wait_phase("quiet", "Running")) << say("quiet");
  EXPECT_FALSE(nodes_of(c.pods("quiet")).contains(there));
  EXPECT_EQ(c.pods("quiet")[0]["spec"]["affinity"], apart["affinity"]) << "the pod says what was asked for";
  // One GPU is free, beside `noisy`.
  c.create(labelled_job({.name = "late"}, {{"app", "quiet"}}, apart));
  ASSERT_TRUE(wait_reason("late", "Fragmented")) << say("late");
  EXPECT_THAT(message_of("late"), HasSubstr("anti-affinity"));

  const auto before = uids_of_all();
  restart_muster();
  EXPECT_EQ(uids_of_all(), before);
  EXPECT_EQ(c.reason("late"), "Fragmented") << say("late");

  // What runs repels as well: another noisy one finds its place beside the first, and nowhere else.
  c.create(labelled_job({.name = "noisy-too"}, {{"app", "noisy"}}));
  ASSERT_TRUE(c.wait_phase("noisy-too", "Running")) << say("noisy-too");
  EXPECT_THAT(nodes_of(c.pods("noisy-too")), UnorderedElementsAre(there));
  c.remove(path_of_job("noisy"));
  c.remove(path_of_job("noisy-too"));
  EXPECT_TRUE(c.wait_phase("late", "Running", kCollected)) << say("late");
  EXPECT_EQ(c.audit_gpus(), "");
}

// A pod of others comes, gets another label, and goes.
TEST_F(Affinity, AJobMustBeWithAPodOfOthers) {
  Cluster& c = *s_.cluster;
  const json beside = {{"affinity", required("podAffinity", term({{"app", "cache"}}, kHost))}};
  c.create(labelled_job({.name = "reader"}, json::object(), beside));
  ASSERT_TRUE(c.wait(15s, [&] { return !c.reason("reader").empty(); })) << say("reader");
  EXPECT_THAT(message_of("reader"), HasSubstr("affinity")) << say("reader");

  const std::string pods = "/api/v1/namespaces/team/pods";
  const json cache = {
      {"apiVersion", "v1"},
      {"kind", "Pod"},
      {"metadata", {{"name", "cache"}, {"labels", {{"app", "other"}}}}},
      {"spec", {{"nodeName", "b-1"}, {"containers", {{{"name", "main"}, {"image", "cache"}}}}}}};
  const auto made = c.real().request("POST", pods, cache.dump());
  ASSERT_TRUE(made && made->ok()) << (made ? made->body : made.error());
  c.catch_up();
  EXPECT_TRUE(c.pods("reader").empty()) << "it has another label";
  c.patch(pods + "/cache", {{"metadata", {{"labels", {{"app", "cache"}}}}}});
  ASSERT_TRUE(c.wait_phase("reader", "Running")) << say("reader");
  EXPECT_THAT(nodes_of(c.pods("reader")), UnorderedElementsAre("b-1"));
  const auto before = uids_of_all();
  restart_muster();
  EXPECT_EQ(uids_of_all(), before);

  // It goes: who is there stays, and who comes waits.
  c.remove(pods + "/cache?gracePeriodSeconds=0");
  ASSERT_TRUE(c.wait(30s, [&] { return c.get(pods + "/cache").is_null(); }));
  c.catch_up();
  EXPECT_EQ(c.phase("reader"), "Running");
  c.create(labelled_job({.name = "reader-too"}, json::object(), beside));
  ASSERT_TRUE(c.wait(15s, [&] { return !c.reason("reader-too").empty(); })) << say("reader-too");
  EXPECT_THAT(message_of("reader-too"), HasSubstr("affinity")) << say("reader-too");
}

TEST_F(Affinity, AGangSpreadsOverZones) {
  Cluster& c = *s_.cluster;
  const json spread = {{"topologySpreadConstraints",
                        {{{"maxSkew", 1},
                          {"topologyKey", kZone},
                          {"whenUnsatisfiable", "DoNotSchedule"},
                          {"labelSelector", {{"matchLabels", {{"app", "gang"}}}}},
                          {"matchLabelKeys", {"muster.dev/job"}}}}}};
  const auto by_zone = [&](const std::string& job) {
    std::map<char, int> zones;
    for (const auto& node : nodes_of(c.pods(job))) ++zones[node[0]];
    return zones;
  };
  // Three of the four GPUs of zone b: only 1 + 2 pods could be spread.
  c.create(
      labelled_job({.name = "blocker", .replicas = 3}, json::object(), {{"nodeSelector", {{kZone, "b"}}}}));
  ASSERT_TRUE(c.wait_phase("blocker", "Running")) << say("blocker");
  c.create(labelled_job({.name = "gang", .replicas = 4}, {{"app", "gang"}}, spread));
  ASSERT_TRUE(wait_reason("gang", "Fragmented")) << say("gang");
  EXPECT_THAT(message_of("gang"), HasSubstr("spread"));
  c.create(labelled_job({.name = "small", .replicas = 3}, {{"app", "gang"}}, spread));
  ASSERT_TRUE(c.wait_phase("small", "Running")) << say("small");
  EXPECT_EQ(by_zone("small"), (std::map<char, int>{{'a', 2}, {'b', 1}})) << "those of its own job count";
  c.remove(path_of_job("small"));
  c.remove(path_of_job("blocker"));
  ASSERT_TRUE(c.wait_phase("gang", "Running", kCollected)) << say("gang");
  EXPECT_EQ(by_zone("gang"), (std::map<char, int>{{'a', 2}, {'b', 2}}));
}

TEST_F(Affinity, TermsThatAreNotKnownAreRefusedByName) {
  Cluster& c = *s_.cluster;
  json some = term({{"app", "a"}}, kHost);
  some["namespaceSelector"] = json::object();
  c.create(labelled_job({.name = "odd"}, json::object(), {{"affinity", required("podAffinity", some)}}));
  ASSERT_TRUE(wait_reason("odd", "InvalidSpec")) << say("odd");
  EXPECT_THAT(message_of("odd"), HasSubstr(".podAffinity.requiredDuringSchedulingIgnoredDuringExecution[0]."
                                           "namespaceSelector: must be left out"));
}

// Three replicas on four nodes. A node dies, and one replica with it; another dies, and no node is left.
TEST_F(Affinity, ANodeTakesOneReplica) {
  Cluster& c = *s_.cluster;
  c.create(service_object("apart", 3, {{"placement", {{"spread", "Required"}}}}));
  ASSERT_TRUE(s_.wait_ready("apart", 3)) << s_.say("apart");
  const auto first = nodes_of(s_.pods("apart"));
  EXPECT_EQ(std::set<std::string>(first.begin(), first.end()).size(), 3u);
  const auto uids = s_.uids("apart");
  restart_muster();
  EXPECT_EQ(s_.uids("apart"), uids);

  const std::string lost = *first.begin();
  down(lost, true);
  ASSERT_TRUE(c.wait(60s, [&] {
    const auto now = nodes_of(s_.pods("apart"));
    return now.size() == 3 && !now.contains(lost) && s_.status("apart").value("readyReplicas", 0) == 3;
  })) << s_.say("apart");
  const auto second = nodes_of(s_.pods("apart"));
  EXPECT_EQ(std::set<std::string>(second.begin(), second.end()).size(), 3u);
  const auto now = s_.uids("apart");
  EXPECT_EQ(std::ranges::count_if(uids, [&](const auto& uid) { return now.contains(uid); }), 2)
      << "one was lost";

  const std::string lost_too = *second.begin();
  down(lost_too, true);
  ASSERT_TRUE(c.wait(60s, [&] {
    return s_.status("apart").value("/queue/reason"_json_pointer, std::string()) == "Fragmented";
  })) << s_.say("apart");
  EXPECT_EQ(s_.status("apart")["readyReplicas"], 2);
  EXPECT_THAT(s_.status("apart")["queue"]["message"].get<std::string>(), HasSubstr("anti-affinity"));
  down(lost_too, false);
  down(lost, false);
  ASSERT_TRUE(s_.wait_ready("apart", 3, 60s)) << s_.say("apart");
  EXPECT_EQ(c.audit_gpus(), "");
}

TEST_F(Affinity, ReplicasStandInDifferentRacks) {
  Cluster& c = *s_.cluster;
  c.create(service_object("racks", 3, {{"placement", {{"spread", "Required"}, {"topology", kRack}}}}));
  ASSERT_TRUE(s_.wait_ready("racks", 2)) << s_.say("racks");
  ASSERT_TRUE(c.wait(15s, [&] {
    return s_.status("racks").value("/queue/reason"_json_pointer, std::string()) == "Fragmented";
  })) << s_.say("racks");
  std::set<char> racks;
  for (const auto& node : nodes_of(s_.pods("racks"))) racks.insert(node[0]);
  EXPECT_EQ(racks, (std::set<char>{'a', 'b'}));
  testcluster::NodeTemplate node;
  node.prefix = "c";
  node.count = 2;
  node.gpus = 2;
  node.labels = {{kRack, "c"}};
  ASSERT_TRUE(c.real().add_nodes(node));
  ASSERT_TRUE(s_.wait_ready("racks", 3)) << s_.say("racks");

  // A node dies: its rack has another, and the replicas in the other racks do not notice.
  const auto uids = s_.uids("racks");
  const std::string lost = nodes_of(s_.pods("racks")).contains("c-0") ? "c-0" : "c-1";
  const std::string other = lost == "c-0" ? "c-1" : "c-0";
  down(lost, true);
  ASSERT_TRUE(c.wait(60s, [&] {
    const auto now = nodes_of(s_.pods("racks"));
    return now.size() == 3 && now.contains(other) && s_.status("racks").value("readyReplicas", 0) == 3;
  })) << s_.say("racks");
  const auto now = s_.uids("racks");
  EXPECT_EQ(std::ranges::count_if(uids, [&](const auto& uid) { return now.contains(uid); }), 2)
      << "one was lost";
  down(lost, false);
  // First its pod: of a node that is gone, only the collector of pods takes it away, a minute later.
  c.remove(path_of_service("racks"));
  EXPECT_TRUE(c.wait(kCollected, [&] { return c.all_pods().empty(); }));
  for (const char* gone : {"c-0", "c-1"}) c.remove(std::string("/api/v1/nodes/") + gone);
}

// As many nodes as replicas. A replica of the new revision stands beside one of the old, and nobody is
// missing.
TEST_F(Affinity, ARolloutNeedsNoFreeNode) {
  Cluster& c = *s_.cluster;
  c.create(service_object("roll", 4, {{"placement", {{"spread", "Required"}}}}));
  ASSERT_TRUE(s_.wait_ready("roll", 4)) << s_.say("roll");
  const std::string image = "registry.example/serve:2";
  s_.roll("roll", image);
  int fewest = 4;
  ASSERT_TRUE(c.wait(180s, [&] {
    fewest = std::min(fewest, s_.status("roll").value("readyReplicas", 0));
    return s_.condition("roll", "RolledOut")["status"] == "True" &&
           s_.images("roll") == std::set<std::string>{image};
  })) << s_.say("roll");
  EXPECT_EQ(fewest, 4);
  EXPECT_THAT(nodes_of(s_.pods("roll")), UnorderedElementsAre("a-0", "a-1", "b-0", "b-1"));
}

}  // namespace
}  // namespace muster::test
