// InferenceServices live: replicas that are placed like gangs, take back what their project lent, outlive a
// lost node, a dead controller and a new image, and say what they lack.
#include <gmock/gmock.h>

#include <algorithm>
#include <sstream>
#include <thread>

#include "history.h"
#include "service_fixture.h"

namespace muster::test {
namespace {

using testing::HasSubstr;

// How many rollouts found no place for their surge, and said so.
int gave_way(const std::string& log) {
  int lines = 0;
  std::istringstream in(log);
  for (std::string line; std::getline(in, line);) {
    if (line.find("maxUnavailable 1") != std::string::npos &&
        line.find("reason=SurgeNotPlaced") != std::string::npos)
      ++lines;
  }
  return lines;
}

// Two nodes of one GPU, both lent to guests when the service comes. The service takes them back one by one,
// asks for a third in vain, and outlives its controller and a node.
TEST(InferenceServices, TakeWhatIsTheirsAndOutliveControllerNodeAndImage) {
  Stage s{Cluster::start(2, 1, {}, 3), nullptr};
  s.muster = s.cluster->muster({"--node-grace", "4"});
  s.cluster->make_namespace("guests", "guests");
  s.cluster->apply(
      "apiVersion: muster.dev/v1alpha1\nkind: Project\nmetadata: {name: guests}\nspec: {queue: root}\n");
  ASSERT_TRUE(s.cluster->wait_namespace("guests", 15s));
  for (const char* name : {"loan-a", "loan-b"}) s.cluster->create(job_object({.name = name, .ns = "guests"}));
  ASSERT_TRUE(s.cluster->wait_phase("loan-a", "Running", 30s, "guests"));
  ASSERT_TRUE(s.cluster->wait_phase("loan-b", "Running", 30s, "guests"));

  // S23, replica by replica.
  s.cluster->create(service_object("chat", 1));
  ASSERT_TRUE(s.wait_ready("chat", 1)) << s.say("chat");
  EXPECT_EQ((s.cluster->phase("loan-a", "guests") == "Running") +
                (s.cluster->phase("loan-b", "guests") == "Running"),
            1)
      << "one of the two has gone, not both";
  s.scale("chat", 2);
  ASSERT_TRUE(s.wait_ready("chat", 2)) << s.say("chat");
  EXPECT_NE(s.cluster->phase("loan-a", "guests"), "Running");
  EXPECT_NE(s.cluster->phase("loan-b", "guests"), "Running");
  EXPECT_EQ(s.status("chat")["pods"], "2/2");
  EXPECT_EQ(s.status("chat")["allocated"]["gpu"], "2");
  EXPECT_EQ(s.status("chat")["url"], "http://chat.team.svc:8000");
  EXPECT_EQ(s.condition("chat", "RolledOut")["status"], "True");
  EXPECT_TRUE(s.cluster->wait(20s, [&] { return s.endpoints("chat") == 2; })) << s.endpoints("chat");
  EXPECT_EQ(s.cluster->audit_gpus(), "");

  // A third finds no place: it says so, and the two serve on.
  s.scale("chat", 3);
  ASSERT_TRUE(s.cluster->wait(20s, [&] {
    return s.status("chat").value("/queue/reason"_json_pointer, std::string()) == "InsufficientCapacity";
  })) << s.say("chat");
  const json waiting = s.status("chat");
  EXPECT_EQ(waiting["readyReplicas"], 2);
  EXPECT_EQ(waiting["replicas"], 3);
  EXPECT_THAT(waiting["queue"]["message"].get<std::string>(), HasSubstr("1 of 3 replicas wait"));
  EXPECT_EQ(waiting["queue"]["blocking"][0]["need"], "1");
  EXPECT_EQ(waiting["queue"]["blocking"][0]["have"], "0");
  EXPECT_EQ(s.condition("chat", "Ready")["status"], "True");
  EXPECT_THAT(s.condition("chat", "Ready")["message"].get<std::string>(),
              HasSubstr("2 of 3 replicas are ready"));
  const auto table = s.cluster->real().kubectl({"get", "isvc", "-n", "team"});
  EXPECT_THAT(table->out,
              testing::ContainsRegex("chat +True +2/3 +2 +InsufficientCapacity +http://chat.team.svc:8000"));
  const auto pods = s.uids("chat");
  ASSERT_EQ(pods.size(), 2u);

  // Nobody is there to scale it down; who comes next finds the same pods and does it.
  History history(*s.cluster, {});
  s.muster->kill();
  s.scale("chat", 2);
  s.muster = s.cluster->muster({"--node-grace", "4"});
  ASSERT_TRUE(s.cluster->wait(20s, [&] { return s.status("chat").value("replicas", 0) == 2; }))
      << s.say("chat");
  EXPECT_TRUE(s.cluster->wait(10s, [&] { return !s.status("chat").contains("queue"); })) << s.say("chat");
  s.cluster->catch_up();
  EXPECT_EQ(s.uids("chat"), pods) << "adopted, not made anew";
  EXPECT_EQ(pods_ever(history, "muster.dev/service", "chat"), pods);

  // A node dies; the replica that was there goes to a new one, the other stays.
  testcluster::NodeTemplate node;
  node.prefix = "spare";
  node.count = 1;
  node.gpus = 1;
  for (const char* name : {"loan-a", "loan-b"}) s.cluster->remove(path_of_job(name, "guests"));
  ASSERT_TRUE(s.cluster->real().add_nodes(node));
  const json victim = s.pods("chat")[0];
  const std::string lost = victim["spec"]["nodeName"];
  s.cluster->patch("/api/v1/nodes/" + lost,
                   {{"metadata", {{"annotations", {{"test.muster.dev/down", "true"}}}}}});
  ASSERT_TRUE(s.cluster->wait(60s, [&] {
    std::set<std::string> nodes;
    for (const auto& p : s.pods("chat")) {
      if (!p["metadata"].contains("deletionTimestamp")) nodes.insert(p["spec"]["nodeName"]);
    }
    return nodes.size() == 2 && !nodes.contains(lost) && s.status("chat").value("readyReplicas", 0) == 2;
  })) << s.say("chat");
  s.cluster->remove("/api/v1/nodes/" + lost);

  // A new image, and no room for a surge: one at a time, and said so. One always serves. The same while one
  // more is asked for than there is room for.
  for (const int asked : {2, 3}) {
    const std::string image = "registry.example/serve:" + std::to_string(asked);
    s.scale("chat", asked);
    s.roll("chat", image);
    int fewest = 2;
    ASSERT_TRUE(s.cluster->wait(180s, [&] {
      fewest = std::min(fewest, s.status("chat").value("readyReplicas", 0));
      const json c = s.condition("chat", "RolledOut");
      return c["status"] == "True" && s.images("chat") == std::set<std::string>{image};
    })) << s.say("chat");
    EXPECT_GE(fewest, 1);
    EXPECT_TRUE(s.wait_ready("chat", 2)) << s.say("chat");
    ASSERT_TRUE(s.wait_pods("chat", 2));
    EXPECT_EQ(s.images("chat"), std::set<std::string>{image});
    EXPECT_EQ(s.status("chat")["replicas"], asked);
    // The condition may have said so for some milliseconds only; the log keeps it.
    EXPECT_EQ(gave_way(s.muster->log()), asked - 1) << s.say("chat");
  }
  EXPECT_EQ(s.cluster->audit_gpus(), "");
}

// Many replicas at once cost the control plane a few writes each, and the service's own status few in all.
TEST(InferenceServices, OfManyReplicasStartTogether) {
  Stage s{Cluster::start(25, 8), nullptr};
  s.muster = s.cluster->muster();
  s.cluster->create(service_object("crowd", 200));
  ASSERT_TRUE(s.wait_ready("crowd", 200, 60s)) << s.status("crowd").dump(2);
  EXPECT_EQ(s.cluster->audit_gpus(), "");
  const json managed = s.cluster->get(path_of_service("crowd"));
  EXPECT_EQ(managed["status"]["pods"], "200/200");
  s.roll("crowd", "registry.example/serve:2");
  s.cluster->patch(path_of_service("crowd"),
                   {{"spec", {{"rollout", {{"maxSurge", 0}, {"maxUnavailable", 50}}}}}});
  EXPECT_TRUE(s.cluster->wait(120s, [&] {
    return s.condition("crowd", "RolledOut")["status"] == "True" &&
           s.status("crowd").value("updatedReplicas", 0) == 200;
  })) << s.status("crowd").dump(2);
  EXPECT_EQ(s.cluster->audit_gpus(), "");
}

TEST_F(Served, AReplicaOfSeveralPodsIsOneGangBehindOneAddress) {
  s_.cluster->create(service_object("wide", 2, {{"groupSize", 2}, {"gpus", {{"count", 2}}}, {"port", 9000}}));
  ASSERT_TRUE(s_.wait_ready("wide", 2)) << s_.say("wide");
  std::map<std::string, std::set<std::string>> nodes;  // by replica
  for (const auto& p : s_.pods("wide"))
    nodes[p["metadata"]["labels"]["muster.dev/job"]].insert(p["spec"]["nodeName"]);
  ASSERT_EQ(nodes.size(), 2u);
  for (const auto& [replica, where] : nodes) {
    EXPECT_EQ(where.size(), 1u) << "packed on a node of their own";
    const json names = s_.cluster->get("/api/v1/namespaces/team/services/" + replica);
    EXPECT_EQ(names["spec"]["clusterIP"], "None");
  }
  EXPECT_EQ(s_.status("wide")["pods"], "4/4");
  const json service = s_.cluster->get("/api/v1/namespaces/team/services/wide");
  EXPECT_EQ(service["spec"]["ports"][0]["port"], 9000);
  EXPECT_TRUE(s_.cluster->wait(20s, [&] { return s_.endpoints("wide") == 2; })) << "the first pod of each";
  const json budget = s_.cluster->get("/apis/policy/v1/namespaces/team/poddisruptionbudgets/wide");
  EXPECT_EQ(budget["spec"]["minAvailable"], 3) << "with two, one of each group could go";
  EXPECT_TRUE(s_.cluster->wait(20s, [&] {
    return s_.cluster->get("/apis/policy/v1/namespaces/team/poddisruptionbudgets/wide")["status"].value(
               "disruptionsAllowed", 0) == 1;
  }));
}

// `kubectl drain` cordons, and then evicts what it may, again and again.
TEST_F(Served, TheOnlyReplicaIsElsewhereBeforeADrainGetsIt) {
  s_.cluster->create(service_object("single", 1, json::object(), {{"test.muster.dev/start-after", "3s"}}));
  ASSERT_TRUE(s_.wait_ready("single", 1)) << s_.say("single");
  const json pod = s_.pods("single").at(0);
  const std::string name = pod["metadata"]["name"], node = pod["spec"]["nodeName"];
  const json eviction = {{"apiVersion", "policy/v1"},
                         {"kind", "Eviction"},
                         {"metadata", {{"name", name}, {"namespace", "team"}}}};
  const auto evict = [&] {
    const auto said = s_.cluster->real().request("POST", "/api/v1/namespaces/team/pods/" + name + "/eviction",
                                                 eviction.dump());
    return said ? static_cast<int>(said->status) : 0;
  };
  // The budget is counted by a controller of Kubernetes.
  ASSERT_TRUE(s_.cluster->wait(20s, [&] {
    return s_.cluster->get("/apis/policy/v1/namespaces/team/poddisruptionbudgets/single")
               .value("/status/currentHealthy"_json_pointer, 0) == 1;
  }));
  EXPECT_EQ(evict(), 429);
  History history(*s_.cluster, {});
  s_.cluster->patch("/api/v1/nodes/" + node, {{"spec", {{"unschedulable", true}}}});
  EXPECT_TRUE(s_.cluster->wait(60s, [&] {
    const int said = evict();
    return said == 404 || said == 201;
  })) << s_.say("single");
  EXPECT_TRUE(s_.cluster->wait(30s, [&] {
    const auto pods = s_.pods("single");
    return pods.size() == 1 && pods[0]["spec"]["nodeName"] != node &&
           s_.status("single").value("replicas", 0) == 1;
  })) << s_.say("single");
  std::set<std::string> ready;
  bool began = false;
  history.replay([&](const Change& change) {
    const std::string uid = change.object["metadata"]["uid"];
    const json conditions = change.object.value("/status/conditions"_json_pointer, json::array());
    const bool serves = !change.is_gone && !change.object["metadata"].contains("deletionTimestamp") &&
                        std::ranges::any_of(conditions, [](const json& c) {
                          return c["type"] == "Ready" && c["status"] == "True";
                        });
    serves ? (void)ready.insert(uid) : (void)ready.erase(uid);
    began = began || serves;
    if (began) EXPECT_FALSE(ready.empty()) << "nobody serves after " << change.version;
  });
  EXPECT_TRUE(began);
  EXPECT_EQ(s_.condition("single", "RolledOut")["status"], "True");
  s_.cluster->patch("/api/v1/nodes/" + node, {{"spec", {{"unschedulable", false}}}});
}

// What a kubelet says of the only container of this pod.
void say_of(Cluster& cluster, const json& pod, const char* phase, const json& state) {
  const json container = {{"name", "main"}, {"image", "i"},      {"imageID", ""},
                          {"ready", false}, {"restartCount", 0}, {"state", state}};
  const std::string name = pod["metadata"]["name"];
  cluster.patch("/api/v1/namespaces/team/pods/" + name + "/status",
                {{"status", {{"phase", phase}, {"containerStatuses", {container}}}}});
}

// Two replicas whose program never comes up. They do not keep their GPUs for ever, and one look says why.
TEST_F(Served, ThatCannotStartSaysWhyAtOnceAndGivesItsGpusBack) {
  s_.cluster->create(
      service_object("bad", 2, {{"startTimeout", "30s"}}, {{"test.muster.dev/start-after", "1h"}}));
  ASSERT_TRUE(s_.wait_pods("bad", 2)) << s_.say("bad");
  for (const auto& pod : s_.pods("bad")) {
    EXPECT_EQ(pod["spec"]["containers"][0]["terminationMessagePolicy"], "FallbackToLogsOnError");
    say_of(*s_.cluster, pod, "Pending",
           {{"waiting", {{"reason", "ErrImagePull"}, {"message", "serve:1: manifest unknown"}}}});
  }
  const auto ready = [&] { return s_.condition("bad", "Ready"); };
  EXPECT_TRUE(s_.cluster->wait(10s, [&] { return ready()["reason"] == "ImageNotPulled"; })) << s_.say("bad");
  const std::string said = ready()["message"];
  EXPECT_THAT(said,
              testing::ContainsRegex("0 of 2 replicas are ready; replica bad-[0-9a-f]+-[01] starts since "));
  EXPECT_THAT(said, HasSubstr("at most (startTimeout 30s): ImageNotPulled: pod bad-"));
  EXPECT_THAT(said, HasSubstr("ErrImagePull: serve:1: manifest unknown"));
  const auto back_off = [&] {
    return s_.status("bad").value("/queue/reason"_json_pointer, std::string()) == "BackingOff" &&
           !s_.status("bad").contains("/allocated/gpu"_json_pointer);
  };
  EXPECT_TRUE(s_.cluster->wait(60s, back_off)) << s_.say("bad");
  EXPECT_EQ(ready()["reason"], "ImageNotPulled") << s_.say("bad");

  // The image is there now, and each try ends for want of memory.
  std::set<std::string> tries;
  const auto crash = [&] {
    for (const auto& pod : s_.pods("bad")) {
      if (pod["metadata"].contains("deletionTimestamp") || pod["status"]["phase"] != "Pending") continue;
      if (!tries.insert(pod["metadata"]["uid"]).second) continue;
      say_of(*s_.cluster, pod, "Failed",
             {{"terminated",
               {{"exitCode", 1},
                {"reason", "Error"},
                {"message", "loading\ntorch.OutOfMemoryError: CUDA out of memory. Tried 2 GiB\n"}}}});
    }
  };
  EXPECT_TRUE(s_.cluster->wait(90s, [&] {
    crash();
    return ready()["reason"] == "OutOfGPUMemory" && back_off();
  })) << s_.say("bad");
  EXPECT_GE(tries.size(), 4u) << "two of each at least";
  EXPECT_THAT(ready()["message"].get<std::string>(), HasSubstr("CUDA out of memory. Tried 2 GiB"));
  EXPECT_TRUE(s_.cluster->wait(20s, [&] { return s_.events("bad").contains("OutOfGPUMemory"); }));
  EXPECT_EQ(s_.cluster->audit_gpus(), "");
}

// It stands alone on its node, and a pod of four GPUs is owed that node. It is made elsewhere before it goes.
TEST_F(Served, AReplicaThatIsInTheWayIsMadeElsewhereBeforeItGoes) {
  History history(*s_.cluster, {"trainingjobs"});
  s_.cluster->create(service_object("roams", 1));
  ASSERT_TRUE(s_.wait_ready("roams", 1)) << s_.say("roams");
  const json first = s_.pods("roams").at(0);
  const std::string its_node = first["spec"]["nodeName"];
  json beside = job_object({.name = "beside", .spec = {{"preemptible", false}}});
  beside["spec"]["roles"][0]["template"]["spec"]["affinity"]["nodeAffinity"]
        ["requiredDuringSchedulingIgnoredDuringExecution"]["nodeSelectorTerms"] = {
            {{"matchFields", {{{"key", "metadata.name"}, {"operator", "NotIn"}, {"values", {its_node}}}}}}};
  s_.cluster->create(beside);
  ASSERT_TRUE(s_.cluster->wait_phase("beside", "Running")) << s_.cluster->job("beside").dump(2);
  s_.cluster->create(job_object({.name = "large", .gpus = 4}));
  ASSERT_TRUE(s_.cluster->wait_phase("large", "Running", 60s))
      << s_.cluster->job("large").dump(2) << s_.say("roams");
  ASSERT_TRUE(s_.wait_ready("roams", 1)) << s_.say("roams");
  EXPECT_EQ(s_.cluster->job("large")["status"]["assignment"]["pods"][0]["node"], its_node);
  ASSERT_TRUE(s_.wait_pods("roams", 1));
  EXPECT_NE(s_.pods("roams").at(0)["spec"]["nodeName"], its_node);
  // From the first one on, a pod was ready that nobody had told to go.
  std::map<std::string, bool> serves;
  bool has_begun = false;
  int gaps = 0;
  Auditor auditor;
  history.replay([&](const Change& change) {
    auditor.see(change);
    const json& meta = change.object["metadata"];
    if (change.object["kind"] != "Pod" ||
        meta.value("labels", json::object()).value("muster.dev/service", "") != "roams")
      return;
    bool is_ready = false;
    for (const auto& c : change.object["status"].value("conditions", json::array()))
      is_ready = is_ready || (c["type"] == "Ready" && c["status"] == "True");
    serves[meta["uid"]] = is_ready && !change.is_gone && !meta.contains("deletionTimestamp");
    const bool any = std::ranges::any_of(serves, [](const auto& one) { return one.second; });
    has_begun = has_begun || any;
    gaps += has_begun && !any ? 1 : 0;
  });
  EXPECT_TRUE(has_begun);
  EXPECT_EQ(gaps, 0) << s_.say("roams");
  EXPECT_EQ(serves.size(), 2u);
  EXPECT_THAT(auditor.problems(), testing::IsEmpty());
  EXPECT_EQ(s_.cluster->audit_gpus(), "");
  for (const char* name : {"beside", "large"}) s_.cluster->remove(path_of_job(name));
}

TEST_F(Served, ItsServiceFollowsItsPort) {
  s_.cluster->create(service_object("moves", 1));
  ASSERT_TRUE(s_.wait_ready("moves", 1)) << s_.say("moves");
  const auto pods = s_.uids("moves");
  const std::string path = "/api/v1/namespaces/team/services/moves";
  const json before = s_.cluster->get(path);
  s_.cluster->patch(path_of_service("moves"), {{"spec", {{"port", 9000}}}});
  ASSERT_TRUE(s_.cluster->wait(20s,
                               [&] {
                                 const json ports = s_.cluster->get(path)["spec"]["ports"];
                                 return ports.size() == 1 && ports[0]["port"] == 9000 &&
                                        ports[0]["targetPort"] == 9000;
                               }))
      << s_.cluster->get(path).dump(2) << s_.say("moves");
  const json after = s_.cluster->get(path);
  EXPECT_EQ(after["metadata"]["uid"], before["metadata"]["uid"]);
  EXPECT_EQ(after["spec"]["clusterIP"], before["spec"]["clusterIP"]);
  s_.scale("moves", 2);
  ASSERT_TRUE(s_.wait_ready("moves", 2)) << s_.say("moves");
  EXPECT_EQ(s_.status("moves")["url"], "http://moves.team.svc:9000");
  EXPECT_EQ(s_.condition("moves", "Accepted")["status"], "True");
  const auto now = s_.uids("moves");
  EXPECT_TRUE(std::ranges::includes(now, pods)) << "a port is no new revision";
}

TEST_F(Served, ABadEditCostsNoReplica) {
  s_.cluster->create(service_object("alone", 1));
  ASSERT_TRUE(s_.wait_ready("alone", 1)) << s_.say("alone");
  const auto pods = s_.uids("alone");
  s_.cluster->patch(path_of_service("alone"), {{"spec", {{"pools", {"nowhere"}}}}});
  ASSERT_TRUE(s_.cluster->wait(20s, [] { return s_.status("alone").value("updatedReplicas", 0) == 1; }))
      << s_.say("alone");
  std::this_thread::sleep_for(35s);  // longer than a surge is waited for
  EXPECT_EQ(s_.uids("alone"), pods) << s_.say("alone");
  EXPECT_EQ(s_.status("alone")["readyReplicas"], 1);
  EXPECT_EQ(s_.condition("alone", "RolledOut")["reason"], "RollingOut");
  s_.cluster->patch(path_of_service("alone"), {{"spec", {{"pools", nullptr}}}});
  EXPECT_TRUE(s_.cluster->wait(20s, [] {
    const json status = s_.status("alone");
    return status.value("replicas", 0) == 1 && status.value("readyReplicas", 0) == 1;
  })) << s_.say("alone");
  EXPECT_EQ(s_.uids("alone"), pods) << "and taking it back costs none either";
}

TEST_F(Served, AServerThatEndsIsStartedAgainInItsPlace) {
  s_.cluster->create(service_object("falls", 1));
  ASSERT_TRUE(s_.wait_ready("falls", 1)) << s_.say("falls");
  json poses = job_object({.name = "poses"});  // somebody's job that would like to get the requests
  poses["metadata"]["labels"] = {{"muster.dev/service", "falls"}};
  s_.cluster->create(poses);
  ASSERT_TRUE(s_.cluster->wait_phase("poses", "Running"));
  EXPECT_EQ(s_.pods("falls").size(), 1u);
  s_.cluster->remove(path_of_job("poses"));
  for (const char* code : {"3", "0"}) {  // a server is not meant to end well either
    const json before = s_.pods("falls")[0];
    s_.cluster->patch("/api/v1/namespaces/team/pods/" + before["metadata"]["name"].get<std::string>(),
                      {{"metadata", {{"annotations", {{"test.muster.dev/exit-now", code}}}}}});
    ASSERT_TRUE(s_.cluster->wait(40s, [&] {
      const auto pods = s_.pods("falls");
      return pods.size() == 1 && pods[0]["metadata"]["uid"] != before["metadata"]["uid"] &&
             s_.status("falls").value("readyReplicas", 0) == 1;
    })) << s_.say("falls");
    EXPECT_EQ(s_.pods("falls")[0]["spec"]["nodeName"], before["spec"]["nodeName"]);
  }
  const json replicas = s_.cluster->get(
      "/apis/muster.dev/v1alpha1/namespaces/team/trainingjobs?labelSelector=muster.dev%2Frevision")["items"];
  ASSERT_EQ(replicas.size(), 1u);
  EXPECT_EQ(replicas[0]["status"]["restarts"]["count"], 2);
  EXPECT_TRUE(replicas[0]["status"].contains("retryAt")) << "the second time with a delay";
}

TEST_F(Served, ARolloutWithRoomNeverServesWithFewer) {
  s_.cluster->create(service_object("rolls", 3));
  ASSERT_TRUE(s_.wait_ready("rolls", 3)) << s_.say("rolls");
  const std::string first = s_.status("rolls")["revision"];
  s_.roll("rolls", "registry.example/serve:2");
  int fewest = 3;
  ASSERT_TRUE(s_.cluster->wait(120s, [&] {
    int ready = 0;
    for (const auto& p : s_.pods("rolls")) {
      if (p["metadata"].contains("deletionTimestamp")) continue;
      for (const auto& c : p["status"].value("conditions", json::array()))
        ready += c["type"] == "Ready" && c["status"] == "True" ? 1 : 0;
    }
    fewest = std::min(fewest, ready);
    const json status = s_.status("rolls");
    return status["revision"] != first && s_.condition("rolls", "RolledOut")["status"] == "True";
  })) << s_.say("rolls");
  EXPECT_EQ(fewest, 3);
  ASSERT_TRUE(s_.wait_pods("rolls", 3));
  EXPECT_EQ(s_.images("rolls"), std::set<std::string>{"registry.example/serve:2"});
  EXPECT_TRUE(s_.cluster->wait(10s, [&] {
    const auto events = s_.events("rolls");
    return events.contains("RollingOut") && events.contains("RolledOut") && events.contains("ReplicasMade") &&
           events.contains("ReplicasRemoved") && events.contains("Serving");
  })) << testing::PrintToString(s_.events("rolls"));
}

TEST_F(Served, ADeadControllerLeavesARolloutThatTheNextOneFinishes) {
  s_.cluster->create(service_object("half", 3));
  ASSERT_TRUE(s_.wait_ready("half", 3)) << s_.say("half");
  s_.roll("half", "registry.example/serve:2");
  ASSERT_TRUE(s_.cluster->wait(10s, [] { return s_.images("half").size() == 2; })) << s_.say("half");
  s_.muster->kill();
  s_.muster = s_.cluster->muster();
  ASSERT_TRUE(s_.cluster->wait(60s, [] {
    const json status = s_.status("half");
    return status.value("updatedReplicas", 0) == 3 && status.value("replicas", 0) == 3 &&
           s_.condition("half", "RolledOut")["status"] == "True";
  })) << s_.say("half");
  ASSERT_TRUE(s_.wait_pods("half", 3));
  EXPECT_EQ(s_.images("half"), std::set<std::string>{"registry.example/serve:2"});
  EXPECT_EQ(s_.cluster->audit_gpus(), "");
}

TEST_F(Served, WhatIsNotPreemptibleStaysWithinTheQuota) {
  History history(*s_.cluster, {});
  const std::string project = "/apis/muster.dev/v1alpha1/projects/team";
  s_.cluster->patch(project, {{"spec", {{"quota", {{"gpu", 2}}}}}});
  s_.cluster->create(service_object("tight", 3));
  ASSERT_TRUE(s_.cluster->wait(20s, [] {
    const json status = s_.status("tight");
    return status.value("readyReplicas", 0) == 2 &&
           status.value("/queue/reason"_json_pointer, std::string()) == "QuotaExceeded";
  })) << s_.say("tight");
  s_.cluster->catch_up();
  EXPECT_EQ(s_.pods("tight").size(), 2u) << "though six GPUs are idle";
  EXPECT_EQ(pods_ever(history, "muster.dev/service", "tight").size(), 2u) << "and there never was a third";
  s_.cluster->patch(project, {{"spec", {{"quota", {{"gpu", 1000}}}}}});
  EXPECT_TRUE(s_.wait_ready("tight", 3)) << s_.say("tight");
}

// Two of eight replicas are guaranteed. Guests claim six GPUs: the six that borrow go, and the two serve on.
TEST_F(Served, GuaranteedReplicasStayAndTheOthersAreGivenBack) {
  const std::string project = "/apis/muster.dev/v1alpha1/projects/team";
  s_.cluster->patch(project, {{"spec", {{"quota", {{"gpu", 2}}}}}});
  s_.cluster->make_namespace("guests", "guests");
  s_.cluster->apply(
      "apiVersion: muster.dev/v1alpha1\nkind: Project\nmetadata: {name: guests}\n"
      "spec: {queue: root, quota: {gpu: 6}}\n");
  s_.cluster->create(service_object("chat", 8, {{"preemptible", true}, {"guaranteedReplicas", 2}}));
  ASSERT_TRUE(s_.wait_ready("chat", 8)) << s_.say("chat");
  const auto guaranteed = [] {
    std::set<std::string> names;
    for (const auto& job :
         s_.cluster->get("/apis/muster.dev/v1alpha1/namespaces/team/trainingjobs")["items"]) {
      if (!job["spec"].value("preemptible", true)) names.insert(job["metadata"]["name"]);
    }
    return names;
  };
  const auto names = guaranteed();
  EXPECT_EQ(names.size(), 2u);
  json claims = job_object({.name = "claims", .ns = "guests"});
  claims["spec"]["roles"][0]["replicas"] = 6;
  s_.cluster->create(claims);
  ASSERT_TRUE(s_.cluster->wait_phase("claims", "Running", 60s, "guests"))
      << s_.cluster->job("claims", "guests").dump(2) << s_.say("chat");
  std::set<std::string> serving;
  for (const auto& pod : s_.pods("chat")) {
    if (!pod["metadata"].contains("deletionTimestamp"))
      serving.insert(pod["metadata"]["labels"]["muster.dev/job"]);
  }
  EXPECT_EQ(serving, names);
  EXPECT_EQ(s_.status("chat")["readyReplicas"], 2) << s_.say("chat");
  // There are six too many: those that wait go, and nobody who serves.
  s_.scale("chat", 2);
  ASSERT_TRUE(s_.cluster->wait(20s, [] { return s_.status("chat").value("replicas", 0) == 2; }));
  EXPECT_EQ(guaranteed(), names);
  s_.cluster->remove(path_of_job("claims", "guests"));
  s_.cluster->patch(project, {{"spec", {{"quota", {{"gpu", 1000}}}}}});
}

TEST_F(Served, ItsProjectsPolicyHoldsForEachReplica) {
  const std::string project = "/apis/muster.dev/v1alpha1/projects/team";
  s_.cluster->patch(project, {{"spec", {{"policy", {{"maxGPUsPerJob", 1}}}}}});
  // The API server hears of it as everybody does; from then on it refuses a job like this one.
  const json too_big = job_object({.name = "too-big", .gpus = 2});
  ASSERT_TRUE(s_.cluster->wait(30s, [&] {
    const auto answer = s_.cluster->real().request(
        "POST", "/apis/muster.dev/v1alpha1/namespaces/team/trainingjobs?dryRun=All", too_big.dump());
    return answer && !answer->ok();
  }));
  const json big = service_object("big", 1, {{"gpus", {{"count", 2}}}});
  const auto refused = s_.cluster->try_create(big);
  EXPECT_FALSE(refused.ok());
  EXPECT_THAT(refused.body, HasSubstr("spec.groupSize: asks for 2 GPUs in all, more than the 1 that Project "
                                      "team allows a job (policy.maxGPUsPerJob)"));
  s_.cluster->patch(project, {{"spec", {{"policy", nullptr}}}});
  ASSERT_TRUE(s_.cluster->wait(30s, [&] { return s_.cluster->try_create(big).ok(); }));
  EXPECT_TRUE(s_.wait_ready("big", 1, 40s)) << s_.say("big");
}

TEST_F(Served, ADrainTakesOneReplicaAtATime) {
  s_.cluster->create(service_object("drained", 2));
  ASSERT_TRUE(s_.wait_ready("drained", 2)) << s_.say("drained");
  ASSERT_TRUE(s_.cluster->wait(20s, [] {
    const json budget = s_.cluster->get("/apis/policy/v1/namespaces/team/poddisruptionbudgets/drained");
    return budget["status"].value("disruptionsAllowed", 0) == 1;
  }));
  std::vector<long> answers;
  for (const auto& pod : s_.pods("drained")) {
    const std::string name = pod["metadata"]["name"];
    const json eviction = {{"apiVersion", "policy/v1"},
                           {"kind", "Eviction"},
                           {"metadata", {{"name", name}, {"namespace", "team"}}}};
    const auto answer = s_.cluster->real().request(
        "POST", "/api/v1/namespaces/team/pods/" + name + "/eviction", eviction.dump());
    ASSERT_TRUE(answer);
    answers.push_back(answer->status);
  }
  EXPECT_EQ(answers, (std::vector<long>{201, 429}));
  EXPECT_TRUE(s_.cluster->wait(30s, [] {
    return s_.pods("drained").size() == 2 && s_.status("drained").value("readyReplicas", 0) == 2;
  })) << s_.say("drained");
}

// Without metrics it still keeps its bounds, and through /scale only.
TEST_F(Served, AHorizontalPodAutoscalerDrivesIt) {
  s_.cluster->create(service_object("auto", 1));
  ASSERT_TRUE(s_.wait_ready("auto", 1)) << s_.say("auto");
  s_.cluster->apply(R"(
apiVersion: autoscaling/v2
kind: HorizontalPodAutoscaler
metadata: {name: auto, namespace: team}
spec:
  scaleTargetRef: {apiVersion: muster.dev/v1alpha1, kind: InferenceService, name: auto}
  minReplicas: 3
  maxReplicas: 5
  metrics: [{type: Resource, resource: {name: cpu, target: {type: Utilization, averageUtilization: 50}}}]
)");
  EXPECT_TRUE(s_.wait_ready("auto", 3, 90s)) << s_.say("auto");
  EXPECT_EQ(s_.cluster->get(path_of_service("auto"))["spec"]["replicas"], 3);
  s_.cluster->remove("/apis/autoscaling/v2/namespaces/team/horizontalpodautoscalers/auto");
  s_.scale("auto", 0);
  EXPECT_TRUE(s_.wait_pods("auto", 0));
  EXPECT_TRUE(s_.cluster->wait(10s, [&] { return s_.condition("auto", "Ready")["reason"] == "NoReplicas"; }));
}

TEST_F(Served, WhatCannotRunIsSaid) {
  s_.cluster->create(service_object(
      "part", 1, {{"gpus", {{"count", nullptr}, {"mig", "3g.40gb"}}}, {"pools", {"nowhere"}}}));
  s_.cluster->create(service_object("odd", 1, {{"priorityClassName", "no-such-class"}}));
  ASSERT_TRUE(s_.cluster->wait(20s, [&] {
    return s_.condition("odd", "Accepted")["reason"] == "InvalidSpec";
  })) << s_.say("odd");
  EXPECT_THAT(s_.condition("odd", "Accepted")["message"].get<std::string>(), HasSubstr("no-such-class"));
  EXPECT_EQ(s_.condition("odd", "Ready")["status"], "False");
  ASSERT_TRUE(s_.cluster->wait(20s, [&] {
    return !s_.status("part").value("/queue/reason"_json_pointer, std::string()).empty();
  })) << s_.say("part");
  EXPECT_TRUE(s_.pods("part").empty());
  EXPECT_EQ(s_.condition("part", "Ready")["status"], "False");

  const json mine = {{"apiVersion", "v1"},
                     {"kind", "Service"},
                     {"metadata", {{"name", "taken"}}},
                     {"spec", {{"ports", {{{"port", 80}}}}}}};
  const auto made = s_.cluster->real().request("POST", "/api/v1/namespaces/team/services", mine.dump());
  ASSERT_TRUE(made && made->ok());
  s_.cluster->create(service_object("taken", 1));
  ASSERT_TRUE(s_.cluster->wait(20s, [&] {
    return s_.condition("taken", "Accepted")["reason"] == "NameTaken";
  })) << s_.say("taken");
  EXPECT_TRUE(s_.pods("taken").empty());
  EXPECT_EQ(s_.condition("taken", "Ready")["reason"], "NameTaken") << s_.say("taken");
  const auto table = s_.cluster->real().kubectl({"get", "isvc", "-n", "team"});
  EXPECT_THAT(table->out, testing::ContainsRegex("taken +False +0/1 +NameTaken"));
  s_.cluster->remove("/api/v1/namespaces/team/services/taken");
  EXPECT_TRUE(s_.wait_ready("taken", 1, 30s)) << s_.say("taken");
}

}  // namespace
}  // namespace muster::test
