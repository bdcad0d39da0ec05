// An InferenceService with roles live: a replica is a set of prefill and decode pods that starts whole in one
// rack, is rolled out whole, and is mended whole, whoever dies on the way.
#include <gmock/gmock.h>

#include <algorithm>
#include <random>

#include "history.h"
#include "service_fixture.h"
#include "write_log.h"

namespace muster::test {
namespace {

using testing::HasSubstr;
using testing::IsEmpty;

constexpr std::size_t kPodsOfSet = 7;

json role_of(const std::string& name, int replicas, int group_size, const std::string& image) {
  const json main = {
      {"name", "main"}, {"image", image}, {"resources", {{"requests", {{"cpu", "1"}, {"memory", "1Gi"}}}}}};
  return {{"name", name},
          {"replicas", replicas},
          {"groupSize", group_size},
          {"gpus", {{"count", 1}}},
          {"template", {{"spec", {{"containers", {main}}}}}}};
}

json roles_of(const std::string& image) {
  json decode = role_of("decode", 2, 2, image);
  decode["traffic"] = true;
  return {role_of("prefill", 3, 1, image), decode};
}

json set_of_roles(const std::string& name, int replicas) {
  return {{"apiVersion", "muster.dev/v1alpha1"},
          {"kind", "InferenceService"},
          {"metadata", {{"name", name}, {"namespace", "team"}}},
          {"spec",
           {{"replicas", replicas},
            {"topology", {{"required", "muster.dev/rack"}}},
            {"roles", roles_of("registry.example/serve:1")}}}};
}

const std::string& label(const json& pod, const std::string& key) {
  static const std::string kNone = "-";
  const json& labels = pod["metadata"]["labels"];
  const auto found = labels.find("muster.dev/" + key);
  return found == labels.end() ? kNone : found->get_ref<const std::string&>();
}

std::string variable(const json& pod, const std::string& name) {
  for (const auto& v : pod["spec"]["containers"][0]["env"]) {
    if (v["name"] == name) return v.value("value", "");
  }
  return "-";
}

// Two racks of four nodes with two GPUs each: room for a set in each.
Stage two_racks() {
  Stage s{Cluster::start(0, 0), nullptr};
  testcluster::NodeTemplate node;
  node.count = 8;
  node.gpus = 2;
  node.nodes_per_rack = 4;
  const auto added = s.cluster->real().add_nodes(node);
  if (!added) throw std::runtime_error(added.error());
  s.cluster->patch("/apis/muster.dev/v1alpha1/nodepools/default",
                   {{"spec", {{"topology", {"muster.dev/rack", "kubernetes.io/hostname"}}}}});
  s.muster = s.cluster->muster({"--node-grace", "4"});
  return s;
}

// Of the pods of each replica that stay, the racks that they are in.
std::map<std::string, std::set<std::string>> racks_of_sets(const Stage& s, const std::string& name) {
  std::map<std::string, std::set<std::string>> racks;
  for (const auto& p : s.pods(name)) {
    if (p["metadata"].contains("deletionTimestamp")) continue;
    const json node = s.cluster->get("/api/v1/nodes/" + p["spec"]["nodeName"].get<std::string>());
    racks[label(p, "job")].insert(node["metadata"]["labels"]["muster.dev/rack"]);
  }
  return racks;
}

// Of the replicas of a service: those all of whose pods are ready, after each write.
class Sets {
 public:
  void see(const Change& change) {
    const json& meta = change.object["metadata"];
    if (change.object["kind"] != "Pod" ||
        !meta.value("labels", json::object()).contains("muster.dev/service"))
      return;
    const json conditions = change.object["status"].value("conditions", json::array());
    const bool ready = !change.is_gone && !meta.contains("deletionTimestamp") &&
                       std::ranges::any_of(conditions, [](const json& c) {
                         return c["type"] == "Ready" && c["status"] == "True";
                       });
    auto& pods = serving_[meta["labels"]["muster.dev/job"]];
    if (ready) {
      pods.insert(meta["uid"]);
    } else {
      pods.erase(meta["uid"]);
    }
    const auto whole =
        std::ranges::count_if(serving_, [](const auto& set) { return set.second.size() == kPodsOfSet; });
    began_ = began_ || whole > 0;
    if (began_) fewest_ = std::min(fewest_, whole);
  }
  std::ptrdiff_t fewest() const { return fewest_; }

 private:
  std::map<std::string, std::set<std::string>> serving_;  // by replica: uids
  bool began_ = false;
  std::ptrdiff_t fewest_ = 1000;
};

TEST(ServiceRoles, ASetStartsWholeInOneRackAndItsPodsKnowTheirPlace) {
  Stage s = two_racks();
  History history(*s.cluster, {"trainingjobs"});
  // It takes two GPUs of one rack: six are left there, and a set needs seven.
  s.cluster->create(job_object({.name = "early", .gpus = 2, .spec = {{"preemptible", false}}}));
  ASSERT_TRUE(s.cluster->wait_phase("early", "Running"));
  s.cluster->create(set_of_roles("chat", 2));
  ASSERT_TRUE(s.wait_ready("chat", 1)) << s.say("chat");
  ASSERT_TRUE(s.cluster->wait(20s, [&] {
    return s.status("chat").value("/queue/reason"_json_pointer, std::string()) == "TopologyUnsatisfiable";
  })) << s.say("chat");
  EXPECT_THAT(s.status("chat")["queue"]["message"].get<std::string>(),
              HasSubstr("needs room for 7 pods in one rack"));
  s.cluster->catch_up();
  EXPECT_EQ(pods_ever(history, "muster.dev/service", "chat").size(), kPodsOfSet)
      << "of the second set no pod at all";
  EXPECT_EQ(s.status("chat")["pods"], "7/14");
  EXPECT_EQ(s.status("chat")["roles"], json::parse(R"([{"name": "prefill", "ready": 3, "desired": 6},
                                                       {"name": "decode", "ready": 2, "desired": 4}])"));

  s.cluster->remove(path_of_job("early"));
  ASSERT_TRUE(s.wait_ready("chat", 2, 60s)) << s.say("chat");
  const auto racks = racks_of_sets(s, "chat");
  ASSERT_EQ(racks.size(), 2u);
  for (const auto& [replica, of_set] : racks) EXPECT_EQ(of_set.size(), 1u) << replica;
  EXPECT_EQ(s.status("chat")["roles"][1], json::parse(R"({"name": "decode", "ready": 4, "desired": 4})"));

  std::map<std::string, std::set<std::string>> seen;  // by replica
  for (const auto& p : s.pods("chat")) {
    const std::string& job = label(p, "job");
    seen[job].insert(label(p, "role") + label(p, "index") + " " + label(p, "group-index") + " " +
                     label(p, "worker-index") + " " + label(p, "traffic"));
    const std::string leader =
        label(p, "role") + "-" +
        std::to_string(std::stoi(label(p, "index")) - std::stoi(label(p, "worker-index")));
    EXPECT_EQ(variable(p, "LWS_LEADER_ADDRESS"), leader + "." + job + ".team.svc");
    EXPECT_EQ(variable(p, "MUSTER_LEADER_ADDRESS"), variable(p, "LWS_LEADER_ADDRESS"));
    EXPECT_EQ(variable(p, "LWS_GROUP_SIZE"), label(p, "role") == "decode" ? "2" : "1");
    EXPECT_EQ(variable(p, "LWS_WORKER_INDEX"), label(p, "worker-index"));
    EXPECT_EQ(variable(p, "MUSTER_GROUP_INDEX"), label(p, "group-index"));
    EXPECT_EQ(variable(p, "MUSTER_ROLE"), label(p, "role"));
  }
  ASSERT_EQ(seen.size(), 2u);
  for (const auto& [replica, pods] : seen) {
    EXPECT_THAT(pods, testing::UnorderedElementsAre("prefill0 0 0 -", "prefill1 1 0 -", "prefill2 2 0 -",
                                                    "decode0 0 0 true", "decode1 0 1 false",
                                                    "decode2 1 0 true", "decode3 1 1 false"));
    EXPECT_EQ(s.cluster->get("/api/v1/namespaces/team/services/" + replica)["spec"]["clusterIP"], "None");
    const json files = s.cluster->get("/api/v1/namespaces/team/configmaps/" + replica + "-hosts")["data"];
    EXPECT_EQ(files["leaders-decode"],
              "decode-0." + replica + ".team.svc\ndecode-2." + replica + ".team.svc\n");
  }
  EXPECT_TRUE(s.cluster->wait(20s, [&] { return s.endpoints("chat") == 4; }))
      << "the leaders of decode in both sets: " << s.endpoints("chat");
  EXPECT_TRUE(s.cluster->wait(20s, [&] { return s.endpoints("chat-prefill") == 6; }))
      << s.endpoints("chat-prefill");
  EXPECT_EQ(s.cluster->get("/api/v1/namespaces/team/services/chat-prefill")["spec"]["clusterIP"], "None");
  EXPECT_EQ(
      s.cluster->get("/apis/policy/v1/namespaces/team/poddisruptionbudgets/chat")["spec"]["minAvailable"],
      13);

  // A set goes whole, and the other is not touched.
  s.scale("chat", 1);
  ASSERT_TRUE(s.wait_pods("chat", kPodsOfSet)) << s.say("chat");
  EXPECT_EQ(racks_of_sets(s, "chat").size(), 1u);
  EXPECT_EQ(s.status("chat")["readyReplicas"], 1);
  Auditor auditor;
  history.replay([&](const Change& change) { auditor.see(change); });
  EXPECT_THAT(auditor.problems(), IsEmpty());
  EXPECT_EQ(s.cluster->audit_gpus(), "");
}

// The controller is killed after writes at random: in a rollout by a surge of one set, and while a set is
// mended that has lost a node.
TEST(ServiceRoles, IsRolledOutAndMendedWholeByWhoeverComesNext) {
  std::mt19937 random(seed_of_run());
  testcluster::Options options;
  options.audit = true;
  Stage s{Cluster::start(0, 0, options), nullptr};
  testcluster::NodeTemplate node;
  node.count = 8;
  node.gpus = 2;
  node.nodes_per_rack = 4;
  ASSERT_TRUE(s.cluster->real().add_nodes(node));
  s.cluster->patch("/apis/muster.dev/v1alpha1/nodepools/default",
                   {{"spec", {{"topology", {"muster.dev/rack", "kubernetes.io/hostname"}}}}});
  History history(*s.cluster, {"trainingjobs"});
  const auto start = [&] { s.muster = s.cluster->muster({"--node-grace", "4"}); };
  start();
  const auto kill_after = [&](WriteLog& writes, int n) {
    ASSERT_TRUE(testcluster::wait_until(
        60s, [&] { return writes.but_for_events() >= n; }, 1ms))
        << "after " << n << " writes; it wrote only:\n"
        << tell(writes.kinds());
    s.muster->kill();
    start();
  };
  s.cluster->create(set_of_roles("chat", 1));
  ASSERT_TRUE(s.wait_ready("chat", 1)) << s.say("chat");
  const auto first = s.uids("chat");

  // Another image for all roles, and a role of another name.
  {
    WriteLog writes(s.cluster->real().audit_log());
    json roles = roles_of("registry.example/serve:2");
    roles[0]["name"] = "context";
    s.cluster->patch(path_of_service("chat"), {{"spec", {{"roles", roles}}}});
    std::vector<int> fatal;
    for (int i = 0; i < 4; ++i) fatal.push_back(1 + static_cast<int>(random() % 12));
    std::ranges::sort(fatal);
    for (const int n : fatal) ASSERT_NO_FATAL_FAILURE(kill_after(writes, n));
  }
  ASSERT_TRUE(s.cluster->wait(120s, [&] {
    return s.condition("chat", "RolledOut")["status"] == "True" &&
           s.status("chat").value("replicas", 0) == 1 && s.status("chat").value("observedGeneration", 0) == 2;
  })) << s.say("chat");
  ASSERT_TRUE(s.wait_pods("chat", kPodsOfSet)) << s.say("chat");
  EXPECT_EQ(s.images("chat"), std::set<std::string>{"registry.example/serve:2"});
  ASSERT_TRUE(s.cluster->wait(
      20s, [&] { return s.cluster->get("/api/v1/namespaces/team/services/chat-prefill").is_null(); }))
      << "nobody has this role any more\n"
      << s.say("chat");
  EXPECT_FALSE(s.cluster->get("/api/v1/namespaces/team/services/chat-context").is_null());
  EXPECT_EQ(s.status("chat")["roles"], json::parse(R"([{"name": "context", "ready": 3, "desired": 3},
                                                       {"name": "decode", "ready": 2, "desired": 2}])"))
      << s.say("chat");
  Sets rollout;
  history.replay([&](const Change& change) { rollout.see(change); });
  EXPECT_EQ(rollout.fewest(), 1) << "a whole set served all the time";

  // A node of the set dies. Its rack has one GPU left, so the whole set goes to the other rack.
  const json victim = s.pods("chat")[0];
  const std::string lost = victim["spec"]["nodeName"];
  const std::string rack = *racks_of_sets(s, "chat").begin()->second.begin();
  {
    WriteLog writes(s.cluster->real().audit_log());
    s.cluster->patch("/api/v1/nodes/" + lost,
                     {{"metadata", {{"annotations", {{"test.muster.dev/down", "true"}}}}}});
    for (const int n : {1, 4, 9}) ASSERT_NO_FATAL_FAILURE(kill_after(writes, n));
  }
  ASSERT_TRUE(s.cluster->wait(60s, [&] {
    const auto racks = racks_of_sets(s, "chat");
    return s.status("chat").value("readyReplicas", 0) == 1 && racks.size() == 1 &&
           racks.begin()->second.size() == 1 && !racks.begin()->second.contains(rack);
  })) << s.say("chat");
  Auditor auditor;
  history.replay([&](const Change& change) { auditor.see(change); });
  EXPECT_THAT(auditor.problems(), IsEmpty());
  EXPECT_EQ(s.cluster->audit_gpus(), "");
}

// What its Project allows a job holds for a set, and its words are the service's.
TEST(ServiceRoles, AProjectJudgesTheSetAsAWhole) {
  Stage s = two_racks();
  s.cluster->patch("/apis/muster.dev/v1alpha1/projects/team",
                   {{"spec", {{"policy", {{"maxGPUsPerJob", 6}, {"forbidPrivileged", true}}}}}});
  testcluster::HttpResponse refused;
  ASSERT_TRUE(s.cluster->wait(20s, [&] {
    refused = s.cluster->try_create(set_of_roles("large", 1));
    if (refused.status < 300) s.cluster->remove(path_of_service("large"));
    return refused.status >= 400;
  }));
  EXPECT_THAT(refused.body,
              HasSubstr("spec.roles: ask for 7 GPUs in all, more than the 6 that Project team"));
  json privileged = set_of_roles("root", 1);
  privileged["spec"]["roles"][0]["replicas"] = 1;
  privileged["spec"]["roles"][1]["template"]["spec"]["containers"][0]["securityContext"] = {
      {"privileged", true}};
  refused = s.cluster->try_create(privileged);
  EXPECT_GE(refused.status, 400);
  EXPECT_THAT(refused.body,
              HasSubstr("spec.roles[1].template.spec.containers[0].securityContext.privileged"));
}

}  // namespace
}  // namespace muster::test
