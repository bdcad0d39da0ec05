// Rule 1: shares.
#include "shares.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "world.h"

namespace muster::placement {
namespace {

using ::testing::ElementsAre;

constexpr std::int64_t kNoLimit = std::int64_t{1} << 60;

struct Case {
  const char* name;
  std::int64_t capacity;
  std::vector<Claim> claims;  // quota, limit, demand, weight, priority
  std::vector<std::int64_t> expect;
};
class ShareOut : public ::testing::TestWithParam<Case> {};
TEST_P(ShareOut, Gives) {
  EXPECT_EQ(share_out(GetParam().capacity, 1000, GetParam().claims), GetParam().expect);
}

INSTANTIATE_TEST_SUITE_P(
    Table, ShareOut,
    ::testing::Values(
        Case{"quota_only_as_far_as_wanted",
             8000,
             {{4000, kNoLimit, 1000}, {4000, kNoLimit, 4000}},
             {1000, 4000}},
        Case{"rest_in_equal_parts", 8000, {{0, kNoLimit, 9000}, {0, kNoLimit, 9000}}, {4000, 4000}},
        Case{"weights_1_to_3", 8000, {{0, kNoLimit, 9000, 1}, {0, kNoLimit, 9000, 3}}, {2000, 6000}},
        Case{"who_wants_little_leaves_the_rest",
             9000,
             {{0, kNoLimit, 1000}, {0, kNoLimit, 9000}, {0, kNoLimit, 9000}},
             {1000, 4000, 4000}},
        Case{"limit_caps", 8000, {{2000, 3000, 9000}, {2000, kNoLimit, 9000}}, {3000, 5000}},
        Case{"limit_below_quota", 8000, {{4000, 1000, 9000}, {0, kNoLimit, 9000}}, {1000, 7000}},
        Case{"weight_0_has_no_part", 8000, {{2000, kNoLimit, 9000, 0}, {0, kNoLimit, 9000, 1}}, {2000, 6000}},
        Case{"priority_first", 8000, {{0, kNoLimit, 5000, 1, 1}, {0, kNoLimit, 9000, 1, 2}}, {0, 8000}},
        Case{"whole_gpus_remainder_to_the_older",
             7000,
             {{0, kNoLimit, 9000}, {0, kNoLimit, 9000}},
             {4000, 3000}},
        Case{"whole_gpus_largest_fraction",
             8000,
             {{0, kNoLimit, 9000, 1}, {0, kNoLimit, 9000, 2}},
             {3000, 5000}},
        Case{"quotas_keep_their_fraction",
             8000,
             {{2500, kNoLimit, 9000}, {2500, kNoLimit, 9000}},
             {4500, 3500}},
        Case{"too_much_promised_in_proportion",
             6000,
             {{8000, kNoLimit, 8000}, {4000, kNoLimit, 4000}},
             {4000, 2000}},
        Case{"too_much_promised_by_priority",
             6000,
             {{8000, kNoLimit, 5000, 1, 1}, {4000, kNoLimit, 4000, 1, 2}},
             {2000, 4000}},
        Case{"nothing_there", 0, {{8000, kNoLimit, 8000}}, {0}}, Case{"nobody", 8000, {}, {}},
        Case{"less_than_nothing", -5, {{1, kNoLimit, 1}}, {0}}),
    [](const auto& param) { return std::string(param.param.name); });

TEST(FairSharesTest, GoesDownTheTree) {
  testing::World w({testing::node("n1")});
  w.cluster.upsert_queue(testing::queue("d1", "", {4}));
  w.cluster.upsert_queue(testing::queue("d2", "", {4}));
  w.cluster.upsert_queue(testing::project("a", "d1", {3}));
  w.cluster.upsert_queue(testing::project("b", "d1", {1}));
  w.cluster.upsert_queue(testing::project("c", "d2", {4}));
  for (const char* id : {"a/j", "b/j"}) w.cluster.upsert_job(testing::job(id, 9, 1));
  w.cluster.upsert_job(testing::job("c/j", 2, 1));
  State& s = w.cluster.state();
  s.settle();
  const auto fair = fair_shares(s, s.find_pool("default"));
  const auto of = [&](const char* name, bool is_project) {
    return fair[static_cast<std::size_t>(s.find_leaf(name, is_project))].gpu.value;
  };
  EXPECT_EQ(of("d1", false), 6000);
  EXPECT_EQ(of("d2", false), 2000);
  EXPECT_EQ(of("a", true), 4000);
  EXPECT_EQ(of("b", true), 2000);
  EXPECT_EQ(of("c", true), 2000);
}

}  // namespace
}  // namespace muster::placement
