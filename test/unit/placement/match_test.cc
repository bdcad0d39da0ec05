// The terms under which a pod may go to a node, as Kubernetes means them.
#include <gtest/gtest.h>

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

}  // namespace
}  // namespace muster::placement
