// Quotas of GPUs of a model: who is charged with them, and when they are counted.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "small_cluster.h"

namespace muster::placement {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;
using testing::job;
using testing::node;
using testing::project;
using testing::queue;
using testing::SmallCluster;

const std::string kH100 = "gpu/H100";

QueueSpec with_models(QueueSpec q, const NamedAmounts& models) {
  for (const auto& [model, gpus] : models) q.in_default_pool.quota.named[model] = gpus * testing::kMilli;
  return q;
}
JobSpec of(JobSpec j, std::vector<std::string> models) {
  for (RoleSpec& r : j.roles) r.models = models;
  return j;
}

struct TwoModels : SmallCluster {
  TwoModels() : SmallCluster({node("h"), node("a", 8, "A100")}) {
    cluster.upsert_queue(with_models(queue("top", "", {.quota = 16}), {{kH100, 8}}));
    cluster.upsert_queue(with_models(project("a", "top", {.quota = 8}), {{kH100, 8}}));
    cluster.upsert_queue(with_models(project("b", "top", {.quota = 8}), {{kH100, 0}}));
  }
  NamedAmounts charged(const std::string& leaf) const {
    return cluster.accounted(cluster.usage(leaf, true, "default").allocated);
  }
  NamedAmounts asked(const std::string& leaf) const {
    return cluster.accounted(cluster.usage(leaf, true, "default").pending);
  }
};

TEST(ModelsTest, WhoeverGetsThemIsCharged) {
  TwoModels c;
  c.cluster.upsert_job(job("b/any", 1, 8));
  EXPECT_THAT(c.starts(), ElementsAre("b/any"));
  EXPECT_EQ(c.nodes_of("b/any"), (std::map<std::string, int>{{"a", 1}}))
      << "of which there is no quota to lack";
  c.cluster.upsert_job(of(job("b/either", 1, 2), {"H100", "A100"}));
  EXPECT_THAT(c.starts(), ElementsAre("b/either"));
  EXPECT_EQ(c.charged("b"), (NamedAmounts{{kH100, 2000}}));
  c.cluster.upsert_job(of(job("a/must", 1, 8), {"H100"}));
  EXPECT_EQ(c.asked("a"), (NamedAmounts{{kH100, 8000}}));
  EXPECT_THAT(c.of_kind(Decision::Kind::kEvict), ElementsAre("b/either"));
  EXPECT_THAT(c.cluster.audit(), IsEmpty());
}

TEST(ModelsTest, AModelIsCountedWhileAQuotaNamesItAndSomeNodeHasIt) {
  SmallCluster c({node("h"), node("a", 8, "A100")});
  c.cluster.upsert_job(job("b/old", 1, 8));
  EXPECT_THAT(c.starts(), ElementsAre("b/old"));
  const auto charged = [&] { return c.cluster.accounted(c.cluster.usage("b", true, "default").allocated); };
  EXPECT_THAT(charged(), IsEmpty());
  c.cluster.upsert_queue(with_models(project("a", "top", {.quota = 8}), {{kH100, 8}, {"gpu/B200", 8}}));
  const std::int64_t here = c.nodes_of("b/old").contains("h") ? 8000 : 0;
  EXPECT_EQ(charged(), (NamedAmounts{{kH100, here}})) << "what runs is charged anew";
  EXPECT_THAT(c.cluster.audit(), IsEmpty());
  c.cluster.upsert_node(node("b", 8, "B200"));
  EXPECT_EQ(charged(), (NamedAmounts{{"gpu/B200", 0}, {kH100, here}}));
  // The other node turns out to be of that model as well.
  c.cluster.upsert_node(node(c.nodes_of("b/old").begin()->first, 8, "B200"));
  EXPECT_EQ(charged(), (NamedAmounts{{"gpu/B200", 8000}, {kH100, 0}}));
  EXPECT_THAT(c.cluster.audit(), IsEmpty());
  c.cluster.upsert_queue(project("a", "top", {.quota = 8}));
  EXPECT_THAT(charged(), IsEmpty());
  EXPECT_THAT(c.cluster.audit(), IsEmpty());
}

// Six places in all: a seventh resource takes that of a model which no quota names any more, though its GPUs
// are held.
TEST(ModelsTest, ItsPlaceGoesToAnotherResourceWhenNoQuotaNamesIt) {
  NodeSpec big = node("h");
  for (const char* name : {"x/1", "x/2", "x/3", "x/4", "x/5", "x/6"}) big.named[name] = 8;
  SmallCluster c({big});
  c.cluster.upsert_queue(with_models(project("a", "top", {.quota = 8}), {{kH100, 8}}));
  c.cluster.upsert_job(job("b/gpu", 1, 2));
  for (int i = 1; i <= 5; ++i) {
    JobSpec j = job("b/j" + std::to_string(i), 1, 0);
    j.roles[0].named = {{"x/" + std::to_string(i), 1}};
    c.cluster.upsert_job(j);
  }
  EXPECT_EQ(c.starts().size(), 6U);
  JobSpec seventh = job("b/j6", 1, 0);
  seventh.roles[0].named = {{"x/6", 3}};
  c.cluster.upsert_job(seventh);
  EXPECT_THAT(c.starts(), IsEmpty());
  EXPECT_THAT(c.message("b/j6"), HasSubstr("gpu/H100"));
  c.cluster.upsert_queue(project("a", "top", {.quota = 8}));
  EXPECT_THAT(c.starts(), ElementsAre("b/j6"));
  EXPECT_THAT(c.cluster.audit(), IsEmpty());
  QueueSpec bound = project("a", "top", {.quota = 8});
  bound.in_default_pool.quota.named = {{"x/6", 8}};
  c.cluster.upsert_queue(bound);
  EXPECT_EQ(c.cluster.accounted(c.cluster.usage("b", true, "default").allocated), (NamedAmounts{{"x/6", 3}}))
      << "and no GPU is counted there";
}

TEST(ModelsTest, PodsOutsideJobsCountInTheirProject) {
  TwoModels c;
  OtherPod pod;
  pod.key = "b/foreign";
  pod.node = "h";
  pod.project = "b";
  pod.amounts.pods = 1;
  pod.amounts.gpu = MilliGpu{3000};
  pod.gpu_count = 3;
  c.cluster.upsert_other_pod(pod);
  EXPECT_EQ(c.charged("b"), (NamedAmounts{{kH100, 3000}}));
  EXPECT_THAT(c.cluster.audit(), IsEmpty());
  c.cluster.remove_other_pod("b/foreign");
  EXPECT_EQ(c.charged("b"), (NamedAmounts{{kH100, 0}}));
  EXPECT_THAT(c.cluster.audit(), IsEmpty());
}

}  // namespace
}  // namespace muster::placement
