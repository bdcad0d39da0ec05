// A Project's namespace and what is in it, whatever happens on the way; and what its policy does to work that
// is there.
#include <gmock/gmock.h>
#include <spdlog/spdlog.h>

#include "virtual_cluster.h"

namespace muster::test {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::IsEmpty;

const std::string kProjects = kMuster + "projects";
const std::string kNamespaces = "/api/v1/namespaces";
const std::string kAccounts = "/api/v1/serviceaccounts";
const std::string kBindings = "/apis/rbac.authorization.k8s.io/v1/rolebindings";
const std::string kIsolations = "/apis/networking.k8s.io/v1/networkpolicies";

json member(const std::string& name, const std::string& role) {
  return {{"kind", "User"}, {"name", name}, {"role", role}};
}
const json kMembers = json::array({member("anna", "Admin"), member("ben", "Researcher")});

class Projects : public testing::Test {
 protected:
  Projects() { spdlog::set_level(spdlog::level::off); }

  static void edit(VirtualCluster& cluster, const json& spec) {
    json project = cluster.server.object(kProjects, "team");
    project["spec"].merge_patch(spec);
    cluster.server.put(kProjects, std::move(project));
  }
  static json condition(VirtualCluster& cluster, const std::string& type) {
    const json all =
        cluster.server.object(kProjects, "team").value("/status/conditions"_json_pointer, json::array());
    for (const auto& c : all) {
      if (c["type"] == type) return c;
    }
    return {{"status", "Unknown"}, {"reason", ""}};
  }
  static json ready(VirtualCluster& cluster) { return condition(cluster, "NamespaceReady"); }
  static bool is_ready(VirtualCluster& cluster) { return ready(cluster)["status"] == "True"; }
  static bool runs(VirtualCluster& cluster, const std::string& name) {
    return cluster.phase(name) == "Running";
  }
  static bool has(VirtualCluster& cluster, const std::string& collection, const std::string& name) {
    return cluster.server.objects(collection).contains(name);
  }
  // All that belongs to Project team, and nothing else of that kind.
  static bool is_whole(VirtualCluster& cluster) {
    return has(cluster, kNamespaces, "team") && has(cluster, kAccounts, "team/muster-job") &&
           has(cluster, kBindings, "team/muster-admin") &&
           has(cluster, kBindings, "team/muster-researcher") &&
           cluster.server.objects(kBindings).size() == 2 &&
           has(cluster, kIsolations, "team/muster-isolation");
  }
  static std::size_t writes(const VirtualCluster& cluster) {
    std::size_t n = 0;
    for (const auto& e : cluster.server.executed())
      n += e.method != Method::kGet && e.path.find("/leases") == std::string::npos ? 1 : 0;
    return n;
  }
  // A job's pods leave at once.
  static void set_up(VirtualCluster& cluster) {
    cluster.set_up(1, 8);
    edit(cluster, {{"members", kMembers}, {"namespace", {{"name", "team"}, {"isolateNetwork", true}}}});
    cluster.pods_end([](const json&) { return LastWords{.takes = seconds{1}}; });
  }
};

// A policy is no reason to believe that GPUs are free which a job from before it holds.
TEST_F(Projects, ATighterPolicyTakesNothingFromWhatRunsAndGivesItsGpusToNobody) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    VirtualCluster cluster(seed);
    set_up(cluster);
    cluster.add_job("runs", 6);
    auto& first = cluster.start("first");
    ASSERT_TRUE(cluster.world.run_until([&] { return runs(cluster, "runs"); }, minutes{1}));
    edit(cluster, {{"policy", {{"maxGPUsPerJob", 4}}}});
    cluster.world.run_for(seconds{10});
    cluster.add_job("next", 4);
    cluster.world.run_for(seconds{20});
    EXPECT_EQ(cluster.phase("next"), "Queued");
    ASSERT_TRUE(cluster.stop(first));
    cluster.start("second");
    cluster.world.run_for(seconds{30});
    EXPECT_TRUE(runs(cluster, "runs"));
    EXPECT_EQ(cluster.job("runs")["status"]["attempt"], 1);
    EXPECT_EQ(cluster.phase("next"), "Queued");
    EXPECT_THAT(cluster.complaints, IsEmpty());
    cluster.remove_job("runs");
    EXPECT_TRUE(cluster.world.run_until([&] { return runs(cluster, "next"); }, minutes{1}));
    EXPECT_THAT(cluster.complaints, IsEmpty());
    if (HasFailure()) return;
  }
}

TEST_F(Projects, MembersComeGoAndComeBack) {
  VirtualCluster cluster;
  set_up(cluster);
  cluster.start();
  ASSERT_TRUE(cluster.world.run_until([&] { return is_ready(cluster); }, minutes{1}));
  EXPECT_TRUE(is_whole(cluster));
  for (const json& none : {json::array(), json()}) {  // emptied, and left out
    edit(cluster, {{"members", none}});
    cluster.world.run_for(seconds{10});
    EXPECT_THAT(cluster.server.objects(kBindings), IsEmpty());
    EXPECT_TRUE(has(cluster, kAccounts, "team/muster-job"));
    EXPECT_TRUE(is_ready(cluster));
    edit(cluster, {{"members", kMembers}});
    cluster.world.run_for(seconds{10});
    EXPECT_TRUE(is_whole(cluster));
  }
}

// As `kubectl replace --force` does it: at no instant is there a namespace less, and in the end
// nothing lacks.
TEST_F(Projects, AProjectThatIsDeletedAndMadeAgainHasItsNamespaceAndItsJobs) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    VirtualCluster cluster(seed);
    set_up(cluster);
    cluster.add_job("work", 4);
    cluster.start();
    ASSERT_TRUE(cluster.world.run_until([&] { return runs(cluster, "work"); }, minutes{1}));
    json again = cluster.server.object(kProjects, "team");
    again.erase("status");
    cluster.server.erase(kProjects, "team");
    cluster.world.run_for(cluster.dice.between(Duration{0}, Duration{200}));
    cluster.server.put(kProjects, std::move(again));
    cluster.world.run_for(minutes{1});
    EXPECT_TRUE(is_ready(cluster)) << ready(cluster).dump();
    EXPECT_TRUE(is_whole(cluster));
    EXPECT_TRUE(runs(cluster, "work")) << cluster.job("work").dump(1);
    EXPECT_THAT(cluster.complaints, IsEmpty());
    EXPECT_THAT(cluster.executed(Method::kDelete, kNamespaces + "/team"),
                testing::Each(testing::Field(&MemoryApiServer::Executed::path, testing::HasSubstr("team/"))));
    if (HasFailure()) return;
  }
}

// The namespace was there before its Project: who waits in it reads what the Project says is to be done.
TEST_F(Projects, AJobInANamespaceThatWasThereBeforeSaysHowItsProjectGetsIt) {
  VirtualCluster cluster;
  cluster.server.put(kNamespaces, {{"metadata", {{"name", "team"}}}});
  cluster.add_job("work", 4);
  cluster.start();
  cluster.world.run_for(seconds{10});
  const auto queue = [&] { return cluster.job("work")["status"]["queue"]; };
  EXPECT_EQ(queue()["message"], "no Project owns the namespace: make one whose spec.namespace.name it is");
  set_up(cluster);
  cluster.world.run_for(seconds{10});
  ASSERT_EQ(ready(cluster)["reason"], "NamespaceTaken");
  EXPECT_EQ(condition(cluster, "Stalled")["reason"], "NamespaceTaken") << "somebody has to do something";
  EXPECT_EQ(condition(cluster, "Reconciling")["status"], "False");
  EXPECT_EQ(queue()["reason"], "ProjectNotFound");
  EXPECT_EQ(queue()["message"],
            "Project team does not have its namespace: " + ready(cluster)["message"].get<std::string>());
  json ours = cluster.server.object(kNamespaces, "team");
  ours["metadata"]["labels"]["muster.dev/project"] = "team";
  cluster.server.put(kNamespaces, std::move(ours));
  EXPECT_TRUE(cluster.world.run_until([&] { return runs(cluster, "work"); }, minutes{1}));
}

TEST_F(Projects, ANamespaceThatGoesIsMadeAnewWhenItHasGone) {
  VirtualCluster cluster;
  set_up(cluster);
  cluster.start();
  ASSERT_TRUE(cluster.world.run_until([&] { return is_ready(cluster); }, minutes{1}));
  json going = cluster.server.object(kNamespaces, "team");
  going["metadata"]["deletionTimestamp"] = client::format_time(cluster.world.clock().wall());
  cluster.server.put(kNamespaces, std::move(going));
  cluster.world.run_for(seconds{5});
  EXPECT_EQ(ready(cluster)["reason"], "NamespaceTerminating");
  EXPECT_EQ(condition(cluster, "Reconciling")["reason"], "NamespaceTerminating") << "it will have one";
  EXPECT_EQ(condition(cluster, "Stalled")["status"], "False");
  const auto before = writes(cluster);
  // As the namespace controller does: what is in it first.
  cluster.server.erase(kAccounts, "team/muster-job");
  cluster.server.erase(kBindings, "team/muster-admin");
  cluster.world.run_for(seconds{10});
  EXPECT_EQ(writes(cluster), before) << "nothing is made in a namespace that goes";
  cluster.server.erase(kBindings, "team/muster-researcher");
  cluster.server.erase(kIsolations, "team/muster-isolation");
  cluster.server.erase(kNamespaces, "team");
  cluster.world.run_for(seconds{10});
  EXPECT_TRUE(is_ready(cluster)) << ready(cluster).dump();
  EXPECT_TRUE(is_whole(cluster));
  EXPECT_EQ(cluster.server.object(kProjects, "team")["status"]["namespaceUID"],
            cluster.server.object(kNamespaces, "team")["metadata"]["uid"]);
}

// Somebody keeps writing to what Muster keeps: what is read is outdated again and again, and that is
// nobody's fault.
TEST_F(Projects, AWriteThatSomebodyElseWasFasterThanIsNoFault) {
  for (std::uint64_t seed = 1; seed <= 8; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    VirtualCluster cluster(seed);
    cluster.server.set_watch_lag(Duration{0}, Duration{2000});
    set_up(cluster);
    cluster.start();
    ASSERT_TRUE(cluster.world.run_until([&] { return is_ready(cluster); }, minutes{1}));
    cluster.world.run_for(seconds{10});
    for (int i = 0; i < 10; ++i) {
      json account = cluster.server.object(kAccounts, "team/muster-job");
      account["automountServiceAccountToken"] = true;
      account["metadata"]["annotations"]["times"] = std::to_string(i);
      cluster.server.put(kAccounts, std::move(account));
      cluster.world.run_for(cluster.dice.between(Duration{0}, Duration{1500}));
    }
    cluster.world.run_for(minutes{1});
    EXPECT_EQ(cluster.server.object(kAccounts, "team/muster-job")["automountServiceAccountToken"], false);
    int conflicts = 0;
    for (const auto& e : cluster.server.executed()) conflicts += e.status == 409 ? 1 : 0;
    EXPECT_GT(conflicts, 0) << "else this shows nothing";
    EXPECT_TRUE(is_ready(cluster));
    for (const auto& e : cluster.executed(Method::kPatch, "/projects/team/status")) {
      for (const auto& c : e.body["status"]["conditions"]) EXPECT_NE(c["reason"], "WriteRefused") << c.dump();
    }
    if (HasFailure()) return;
  }
}

TEST_F(Projects, ANewProcessFindsAllAsItShouldBeAndWritesNothing) {
  VirtualCluster cluster;
  set_up(cluster);
  cluster.add_job("work", 4);
  auto& first = cluster.start("first");
  ASSERT_TRUE(cluster.world.run_until([&] { return runs(cluster, "work"); }, minutes{1}));
  cluster.world.run_for(minutes{1});
  ASSERT_TRUE(cluster.stop(first));
  const auto before = writes(cluster);
  cluster.start("second");
  cluster.world.run_for(minutes{5});
  EXPECT_EQ(writes(cluster), before);
  EXPECT_TRUE(is_whole(cluster));
}

// Whatever befalls the requests of the first minute, and wherever the process dies: nothing lacks in the end.
TEST_F(Projects, WhateverBefallsTheWritesNothingLacksInTheEnd) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    VirtualCluster cluster(seed);
    set_up(cluster);
    cluster.add_job("work", 4);
    cluster.faults = [&](const HttpRequest& request) {
      if (request.method == Method::kGet || cluster.now() > minutes{1}) return Fault{};
      constexpr FaultKind kinds[] = {FaultKind::kNotSent, FaultKind::kLostBefore, FaultKind::kLostAfter};
      const auto dice = cluster.dice.below(9);
      return dice < 3 ? Fault{.kind = kinds[dice]} : Fault{};
    };
    auto& first = cluster.start("first");
    cluster.world.run_for(cluster.dice.between(Duration{0}, seconds{40}));
    if (seed % 2 == 0) {
      first.cut_off = true;
      cluster.start("second");
    }
    EXPECT_TRUE(
        cluster.world.run_until([&] { return is_whole(cluster) && runs(cluster, "work"); }, minutes{5}))
        << ready(cluster).dump() << cluster.job("work").dump(1);
    cluster.world.run_for(minutes{2});
    EXPECT_TRUE(is_whole(cluster));
    EXPECT_TRUE(is_ready(cluster)) << ready(cluster).dump();
    EXPECT_THAT(cluster.complaints, IsEmpty());
    if (HasFailure()) return;
  }
}

}  // namespace
}  // namespace muster::test
