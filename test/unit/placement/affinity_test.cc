// RULES.md 4.5, pods by pods: affinity, anti-affinity and spread as Kubernetes has them.
#include "place/affinity.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "pool/topology.h"
#include "small_cluster.h"

namespace muster::placement {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::job;
using testing::node;
using testing::role;
using testing::SmallCluster;
using NodeCounts = std::map<std::string, int>;

const std::string kHost(kHostLevel);
const std::string kZone = "topology.kubernetes.io/zone";

PodTerm term(const std::string& app, const std::string& key = kHost,
             std::vector<std::string> namespaces = {}) {
  return {{{"app", Operator::kIn, {app}}}, std::move(namespaces), key};
}

// Nodes "x1", "x2", "y1" …: the zone is the first letter.
struct Zones : SmallCluster {
  explicit Zones(const std::vector<std::string>& names, std::int32_t gpus = 8) {
    for (const std::string& name : names) {
      NodeSpec n = node(name, gpus);
      n.labels[kZone] = name.substr(0, 1);
      cluster.upsert_node(n);
    }
  }
  // "ns/pod" of somebody else.
  void other(const std::string& key, const std::string& at, const std::string& app) {
    OtherPod p;
    p.key = key;
    p.node = at;
    p.labels = {{"app", app}};
    p.amounts = role("", 1, 0).per_pod;
    cluster.upsert_other_pod(p);
  }
  template <class Change>
  void submit(const std::string& id, int replicas, const std::string& app, Change&& change,
              std::int64_t at = 0) {
    JobSpec j = job(id, replicas, 1, at);
    j.roles[0].labels = {{"app", app}};
    change(j.roles[0], j);
    cluster.upsert_job(j);
  }
};

void nothing(RoleSpec&, JobSpec&) {}

TEST(AffinityTest, ASelectorWithNothingSelectsNothing) {
  EXPECT_FALSE(selects({}, {{"app", "db"}}));
  EXPECT_TRUE(selects({{"app", Operator::kExists, {}}}, {{"app", "db"}}));
}

TEST(AffinityTest, GoesWhereThePodsAreThatItLooksFor) {
  Zones w({"x1", "y1", "z1"});
  w.other("a/db", "y1", "db");
  w.other("other/db", "z1", "db");  // of another namespace
  w.submit("a/j", 1, "web", [](RoleSpec& r, JobSpec&) { r.pod_affinity = {term("db")}; });
  w.submit("a/named", 1, "web",
           [](RoleSpec& r, JobSpec&) { r.pod_affinity = {term("db", kHost, {"other"})}; });
  w.plan();
  EXPECT_EQ(w.nodes_of("a/j"), (NodeCounts{{"y1", 1}}));
  EXPECT_EQ(w.nodes_of("a/named"), (NodeCounts{{"z1", 1}}));
}

TEST(AffinityTest, WaitsUntilTheyHaveCome) {
  Zones w({"x1", "y1"});
  w.submit("a/j", 1, "web", [](RoleSpec& r, JobSpec&) { r.pod_affinity = {term("db")}; });
  EXPECT_THAT(w.starts(), IsEmpty());
  EXPECT_EQ(w.reason("a/j"), Reason::kFragmented);
  EXPECT_THAT(w.message("a/j"), HasSubstr("affinity"));
  w.submit("a/db", 1, "db", nothing, 1);  // takes no room from it, and yet helps
  w.plan();
  w.plan();
  EXPECT_EQ(w.nodes_of("a/j"), w.nodes_of("a/db"));
}

TEST(AffinityTest, AllTermsMustHoldForOnePod) {
  Zones w({"x1", "x2", "y1"});
  w.other("a/db", "x1", "db");
  w.other("a/cache", "y1", "cache");
  w.submit("a/j", 1, "web",
           [](RoleSpec& r, JobSpec&) { r.pod_affinity = {term("db", kZone), term("cache", kZone)}; });
  EXPECT_THAT(w.starts(), IsEmpty()) << "no pod is both";
}

TEST(AffinityTest, AGangThatLooksForItselfShareOneDomain) {
  Zones w({"x1", "y1", "y2"}, 2);
  w.submit("a/j", 4, "web", [](RoleSpec& r, JobSpec&) { r.pod_affinity = {term("web", kZone)}; });
  w.plan();  // zone x would take the first two
  EXPECT_EQ(w.nodes_of("a/j"), (NodeCounts{{"y1", 2}, {"y2", 2}})) << w.message("a/j");
}

TEST(AffinityTest, AGangThatLooksForItselfInALevelOfThePool) {
  Zones w({"x1", "y1", "y2", "z1"}, 2);
  PoolSpec p = testing::pool("default");
  p.topology = {kZone};
  w.cluster.upsert_pool(p);
  w.submit("a/j", 4, "web", [](RoleSpec& r, JobSpec&) { r.pod_affinity = {term("web", kZone)}; });
  w.plan();
  EXPECT_EQ(w.nodes_of("a/j"), (NodeCounts{{"y1", 2}, {"y2", 2}})) << w.message("a/j");
}

TEST(AffinityTest, ARoleFollowsAnother) {
  Zones w({"x1", "y1", "z1"}, 4);
  JobSpec j = job("a/j", 0, 0);
  j.roles = {role("worker", 2, 2), role("server", 1, 1)};
  j.roles[0].pod_affinity = {term("server")};
  j.roles[1].labels = {{"app", "server"}};
  w.cluster.upsert_job(j);
  EXPECT_THAT(w.starts(), IsEmpty()) << "five GPUs on one node of four";
  j.roles[0].replicas = 1;
  w.cluster.upsert_job(j);
  w.plan();
  EXPECT_EQ(w.nodes_of("a/j").size(), 1u) << w.message("a/j");
}

TEST(AffinityTest, AntiAffinityKeepsAway) {
  Zones w({"x1", "x2", "y1"});
  w.other("a/db", "x1", "db");
  w.submit("a/host", 1, "web", [](RoleSpec& r, JobSpec&) {
    r.pod_anti_affinity = {term("db")};
    r.node_selector = {{kZone, "x"}};
  });
  w.submit("a/zone", 1, "web", [](RoleSpec& r, JobSpec&) { r.pod_anti_affinity = {term("db", kZone)}; });
  w.plan();
  EXPECT_EQ(w.nodes_of("a/host"), (NodeCounts{{"x2", 1}}));
  EXPECT_EQ(w.nodes_of("a/zone"), (NodeCounts{{"y1", 1}}));
}

TEST(AffinityTest, OnePodForEachNode) {
  Zones w({"x1", "x2", "y1"});
  w.submit("a/j", 3, "web", [](RoleSpec& r, JobSpec&) { r.pod_anti_affinity = {term("web")}; });
  w.submit("a/more", 1, "web", [](RoleSpec& r, JobSpec&) { r.pod_anti_affinity = {term("web")}; }, 1);
  w.plan();
  EXPECT_EQ(w.nodes_of("a/j"), (NodeCounts{{"x1", 1}, {"x2", 1}, {"y1", 1}}));
  EXPECT_THAT(w.nodes_of("a/more"), IsEmpty());
  EXPECT_EQ(w.reason("a/more"), Reason::kFragmented);
  w.cluster.remove_job("a/j");
  EXPECT_THAT(w.starts(), ElementsAre("a/more"));
}

TEST(AffinityTest, WhoIsThereMayKeepOthersAway) {
  Zones w({"x1", "y1"});
  w.submit("a/shy", 1, "shy", [](RoleSpec& r, JobSpec&) {
    r.pod_anti_affinity = {term("web", kZone)};
    r.node_selector = {{kZone, "x"}};
  });
  w.plan();
  w.submit("a/web", 1, "web", nothing, 1);
  w.submit("a/free", 1, "free", [](RoleSpec& r, JobSpec&) { r.node_selector = {{kZone, "x"}}; }, 2);
  w.submit("b/web", 1, "web", [](RoleSpec& r, JobSpec&) { r.node_selector = {{kZone, "x"}}; }, 3);
  w.submit("a/stuck", 1, "web", [](RoleSpec& r, JobSpec&) { r.node_selector = {{kZone, "x"}}; }, 4);
  w.plan();
  EXPECT_EQ(w.nodes_of("a/web"), (NodeCounts{{"y1", 1}}));
  EXPECT_EQ(w.nodes_of("a/free"), (NodeCounts{{"x1", 1}}));
  EXPECT_EQ(w.nodes_of("b/web"), (NodeCounts{{"x1", 1}})) << "the term means its own namespace";
  EXPECT_THAT(w.nodes_of("a/stuck"), IsEmpty());
  EXPECT_THAT(w.message("a/stuck"), HasSubstr("anti-affinity of other pods"));
}

TEST(AffinityTest, RolesOfOneGangKeepApart) {
  Zones w({"x1", "y1"});
  JobSpec j = job("a/j", 0, 0);
  j.roles = {role("big", 2, 1), role("shy", 1, 1)};
  j.roles[0].labels = {{"app", "big"}};
  j.roles[1].pod_anti_affinity = {term("big")};
  w.cluster.upsert_job(j);
  w.plan();
  const auto nodes = w.nodes_of("a/j");
  EXPECT_EQ(nodes.size(), 2u) << w.message("a/j");
}

TEST(AffinityTest, PreferredPodsAttractAndRepel) {
  Zones w({"x1", "x2", "y1"});
  w.other("a/db", "x2", "db");
  w.submit("a/near", 1, "web", [](RoleSpec& r, JobSpec&) { r.preferred_pods = {{50, term("db")}}; });
  w.submit("a/far", 1, "web", [](RoleSpec& r, JobSpec&) { r.preferred_pods = {{-50, term("db", kZone)}}; });
  w.submit("a/full", 8, "web", [](RoleSpec& r, JobSpec&) { r.preferred_pods = {{50, term("db")}}; }, 1);
  w.plan();
  EXPECT_EQ(w.nodes_of("a/near"), (NodeCounts{{"x2", 1}}));
  EXPECT_EQ(w.nodes_of("a/far"), (NodeCounts{{"y1", 1}}));
  EXPECT_EQ(w.nodes_of("a/full")["x2"], 7) << "as many as find room there";
}

TEST(AffinityTest, SpreadKeepsTheSkew) {
  Zones w({"x1", "x2", "y1", "z1"});
  w.other("a/there", "x1", "web");
  w.submit("a/j", 5, "web", [](RoleSpec& r, JobSpec&) {
    r.spread = {{1, kZone, true, {{"app", Operator::kIn, {"web"}}}, 0}};
  });
  w.plan();
  const auto nodes = w.nodes_of("a/j");
  std::map<char, int> zones;
  for (const auto& [name, pods] : nodes) zones[name[0]] += pods;
  EXPECT_EQ(zones, (std::map<char, int>{{'x', 1}, {'y', 2}, {'z', 2}})) << w.message("a/j");
}

TEST(AffinityTest, SpreadThatCannotBeKeptWaits) {
  Zones w({"x1", "y1"}, 2);
  NodeSpec bare = node("bare");  // without a zone: not for this pod
  w.cluster.upsert_node(bare);
  w.other("a/y", "y1", "filler");
  OtherPod full;
  full.key = "x/full";
  full.node = "y1";
  full.amounts = role("", 1, 2).per_pod;
  full.gpu_count = 2;
  w.cluster.upsert_other_pod(full);
  const auto spread = [](std::int32_t skew, bool required, std::int32_t domains) {
    return [=](RoleSpec& r, JobSpec&) {
      r.spread = {{skew, kZone, required, {{"app", Operator::kIn, {"web"}}}, domains}};
    };
  };
  w.submit("a/hard", 2, "web", spread(1, true, 0));
  EXPECT_THAT(w.starts(), IsEmpty());
  EXPECT_THAT(w.message("a/hard"), HasSubstr("spread"));
  w.submit("a/hard", 2, "web", spread(2, true, 0));
  EXPECT_THAT(w.starts(), ElementsAre("a/hard"));
  EXPECT_EQ(w.nodes_of("a/hard"), (NodeCounts{{"x1", 2}}));
  w.cluster.remove_job("a/hard");
  w.submit("a/soft", 2, "web", spread(1, false, 0));
  EXPECT_THAT(w.starts(), ElementsAre("a/soft"));
}

TEST(AffinityTest, TooFewDomainsCountAsEmptyOnes) {
  Zones w({"x1", "y1"});
  w.submit("a/j", 4, "web", [](RoleSpec& r, JobSpec&) {
    r.spread = {{1, kZone, true, {{"app", Operator::kIn, {"web"}}}, 3}};
  });
  EXPECT_THAT(w.starts(), IsEmpty()) << "with less than three zones each takes one";
  NodeSpec n = node("z1");
  n.labels[kZone] = "z";
  w.cluster.upsert_node(n);
  EXPECT_THAT(w.starts(), ElementsAre("a/j"));
}

TEST(AffinityTest, OnlyNodesThatThePodAcceptsAreDomains) {
  Zones w({"x1", "y1", "z1"});
  w.submit("a/j", 4, "web", [](RoleSpec& r, JobSpec&) {
    r.spread = {{1, kZone, true, {{"app", Operator::kIn, {"web"}}}, 0}};
    r.required = {{{{{kZone, Operator::kIn, {"x", "y"}}}, {}}}};
  });
  w.plan();
  EXPECT_EQ(w.nodes_of("a/j"), (NodeCounts{{"x1", 2}, {"y1", 2}})) << w.message("a/j");
}

TEST(AffinityTest, SpreadThatMayBeBrokenStillSpreads) {
  Zones w({"x1", "x2", "y1", "y2"});
  w.submit("a/j", 4, "web", [](RoleSpec& r, JobSpec&) {
    r.spread = {{1, kZone, false, {{"app", Operator::kIn, {"web"}}}, 0}};
  });
  w.plan();
  std::map<char, int> zones;
  for (const auto& [name, pods] : w.nodes_of("a/j")) zones[name[0]] += pods;
  EXPECT_EQ(zones, (std::map<char, int>{{'x', 2}, {'y', 2}}));
}

}  // namespace
}  // namespace muster::placement
