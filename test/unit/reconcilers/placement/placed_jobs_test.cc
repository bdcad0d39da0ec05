// What placement decides, as the lives of jobs are told of it.
#include "muster/reconcilers/placement/placed_jobs.h"

#include <gtest/gtest.h>

#include "muster/placement/cluster.h"
#include "muster/reconcilers/placement/other_pods.h"

namespace muster::reconcilers {
namespace {

namespace pl = placement;

TEST(PlacedJobs, ADecisionKeepsWhatItCosts) {
  pl::Cluster cluster;
  OtherPods others(cluster, [] {});
  PlacedJobs jobs(cluster, others, [] {}, {});
  crds::TrainingJob job;
  job.metadata.ns = "nlp";
  job.metadata.name = "a";
  job.spec.roles.emplace_back().name = "worker";
  Translation wish;
  wish.needs.emplace_back().gpus = 1;
  Step step;
  step.wants_place = true;
  jobs.update("nlp/a", job, wish, step, {});
  pl::Decision decided;
  decided.kind = pl::Decision::Kind::kEvict;
  decided.job = "nlp/a";
  decided.reason = pl::EvictReason::kReclaimed;
  decided.cost = {7'000'001};
  decided.owed = false;
  const JobDecision* noted = jobs.note(decided);
  ASSERT_NE(noted, nullptr);
  EXPECT_EQ(noted->reason, "Reclaimed");
  EXPECT_EQ(noted->cost_seconds, 8) << "rounded up";
  EXPECT_FALSE(noted->owed);
  decided.cost = {};
  decided.owed = true;
  noted = jobs.note(decided);
  EXPECT_EQ(noted->cost_seconds, 0);
  EXPECT_TRUE(noted->owed);
}

}  // namespace
}  // namespace muster::reconcilers
