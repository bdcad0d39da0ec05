// The terms under which a pod may go to a node, as Kubernetes means them, and which nodes would do.
#include <gtest/gtest.h>

#include "pool/request.h"
#include "small_cluster.h"

namespace muster::placement {
namespace {

struct Case {
  const char* name;
  Requirement requirement;
  bool matches;
};
class Match : public ::testing::TestWithParam<Case> {};
TEST_P(Match, Labels) {
  const Labels labels = {{"zone", "z1"}, {"gen", "7"}, {"empty", ""}};
  EXPECT_EQ(matches(GetParam().requirement, labels), GetParam().matches);
}
INSTANTIATE_TEST_SUITE_P(
    Table, Match,
    ::testing::Values(Case{"in", {"zone", Operator::kIn, {"z0", "z1"}}, true},
                      Case{"in_other", {"zone", Operator::kIn, {"z0"}}, false},
                      Case{"in_absent", {"rack", Operator::kIn, {"r"}}, false},
                      Case{"not_in", {"zone", Operator::kNotIn, {"z0"}}, true},
                      Case{"not_in_same", {"zone", Operator::kNotIn, {"z1"}}, false},
                      Case{"not_in_absent", {"rack", Operator::kNotIn, {"r"}}, true},
                      Case{"exists", {"empty", Operator::kExists, {}}, true},
                      Case{"exists_not", {"rack", Operator::kExists, {}}, false},
                      Case{"does_not_exist", {"rack", Operator::kDoesNotExist, {}}, true},
                      Case{"does_not_exist_but_does", {"zone", Operator::kDoesNotExist, {}}, false},
                      Case{"gt", {"gen", Operator::kGt, {"6"}}, true},
                      Case{"gt_equal", {"gen", Operator::kGt, {"7"}}, false},
                      Case{"lt", {"gen", Operator::kLt, {"8"}}, true},
                      Case{"gt_no_number", {"zone", Operator::kGt, {"1"}}, false},
                      Case{"gt_no_bound", {"gen", Operator::kGt, {}}, false},
                      Case{"lt_absent", {"rack", Operator::kLt, {"8"}}, false}),
    [](const auto& param) { return std::string(param.param.name); });

TEST(MatchTest, TermsAreAlternativesAndAnEmptyTermMatchesNothing) {
  const NodeSpec n = testing::node("n1");
  const Term here{{}, {{"metadata.name", Operator::kIn, {"n1"}}}},
      elsewhere{{}, {{"metadata.name", Operator::kIn, {"n2"}}}};
  EXPECT_TRUE(matches(AnyOf{}, n));
  EXPECT_TRUE(matches(AnyOf{elsewhere, here}, n));
  EXPECT_FALSE(matches(AnyOf{elsewhere}, n));
  EXPECT_FALSE(matches(AnyOf{Term{}}, n));
}

TEST(MatchTest, Tolerations) {
  NodeSpec n = testing::node("n1");
  n.taints = {{"soft", "", "PreferNoSchedule"}, {"team", "x", "NoSchedule"}};
  const auto ok = [&](const Toleration& t) { return untolerated(n, {t}) == nullptr; };
  EXPECT_EQ(untolerated(n, {}), &n.taints[1]);
  EXPECT_TRUE(ok({"team", false, "x", ""}));
  EXPECT_TRUE(ok({"team", true, "", "NoSchedule"}));
  EXPECT_TRUE(ok({"", true, "", ""}));
  EXPECT_FALSE(ok({"team", false, "y", ""}));
  EXPECT_FALSE(ok({"team", false, "x", "NoExecute"}));
  EXPECT_FALSE(ok({"", false, "", ""}));
}

// The table judges kinds of nodes and amounts apart; it must come to what a look at each node says.
TEST(NodeTableTest, SaysTheSameAsALookAtEachNode) {
  struct Known {
    NodeSpec spec;
  };
  std::vector<Known> nodes;
  Requests requests;
  const auto put = [&](std::size_t i, NodeSpec n) {
    if (nodes.size() <= i) nodes.resize(i + 1);
    nodes[i].spec = n;
    requests.node_changed(static_cast<NodeId>(i), n);
  };
  for (std::size_t i = 0; i < 48; ++i) {
    NodeSpec n = testing::node("n" + std::to_string(i), i % 3 == 0 ? 0 : 8, i % 2 == 0 ? "H100" : "A100",
                               static_cast<std::int64_t>(4 + i % 5));
    n.labels["zone"] = i % 4 == 0 ? "z1" : "z2";
    if (i % 7 == 0) n.taints = {{"team", "x", "NoSchedule"}};
    if (i % 5 == 0 && n.gpus > 0) n.unhealthy = {0, 1};
    n.gpu_memory = Bytes{(i % 2 == 0 ? 80 : 40) * testing::kGi};
    if (i % 11 == 0) n.mig = {{"1g.10gb", 4}};
    put(i, n);
  }
  put(5, testing::node("n5", 2));  // it has changed
  put(6, nodes[7].spec);           // and is of another's kind now
  nodes[9].spec = {};
  requests.node_gone(static_cast<NodeId>(9));
  nodes.resize(50);  // two that are only named so far

  std::vector<JobSpec> jobs;
  for (std::int32_t gpus : {0, 1, 7, 8}) {
    for (std::int64_t cpus : {1, 6, 9}) {
      JobSpec j = testing::job("a/j", 1, gpus);
      j.roles[0].per_pod.cpu.value = cpus * 1000;
      jobs.push_back(j);
      j.roles[0].models = {"A100"};
      jobs.push_back(j);
      j.roles[0].node_selector = {{"zone", "z1"}};
      j.roles[0].tolerations = {{"team", true, "", ""}};
      jobs.push_back(j);
      j.avoid_nodes = {"n4", "n8"};
      jobs.push_back(j);
    }
  }
  JobSpec share = testing::job("a/share", 1, 1);
  share.roles[0].share = {GpuShare::Kind::kMemory, {}, Bytes{60 * testing::kGi}, {}, false, ""};
  jobs.push_back(share);
  share.roles[0].share = {GpuShare::Kind::kMig, {}, {}, {}, false, "1g.10gb"};
  jobs.push_back(share);
  int would = 0;
  for (const JobSpec& j : jobs) {
    Request& request = requests.at(requests.acquire(j, {}));
    requests.fill_eligible(request, nodes);
    for (std::size_t i = 0; i < nodes.size(); ++i) {
      EXPECT_EQ(request.eligible[0][i], would_do(nodes[i].spec, request.roles[0], request.avoid))
          << "node " << i << ", role of " << j.roles[0].gpus << " GPUs";
      would += request.eligible[0][i];
    }
  }
  EXPECT_GT(would, 100);
}

}  // namespace
}  // namespace muster::placement
