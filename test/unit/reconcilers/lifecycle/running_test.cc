// A gang that runs, and how it completes.
#include "life.h"
#include "muster/reconcilers/lifecycle/lifecycle.h"

namespace muster::reconcilers {
namespace {

// --- running

TEST(Lifecycle, RunningOnceAllPodsAreReady) {
  Life life;
  life.admit();
  life.ready("llama-worker-0-1");
  life.after(seconds{5});
  EXPECT_EQ(life.job.status.pods, "1/2");
  EXPECT_EQ(life.is("PodsReady"), kFalse);
  life.ready("llama-worker-1-1");
  life.after(seconds{5});
  EXPECT_EQ(life.phase(), Phase::kRunning);
  EXPECT_EQ(life.is("PodsReady"), kTrue);
  EXPECT_EQ(life.condition("PodsReady").last_transition_time, kStart + seconds{10});
  EXPECT_EQ(life.job.status.started_at, kStart + seconds{10});
  EXPECT_EQ(life.job.status.pods, "2/2");
  expect_quiet(life, "running");
}

TEST(Lifecycle, FlappingReadinessIsACounterOnly) {
  Life life;
  life.run();
  for (int i = 0; i < 4; ++i) {
    const auto before = life.job.status;
    life.ready("llama-worker-0-1", i % 2 != 0);
    const Step step = life.after(seconds{10});
    EXPECT_TRUE(differs_in_counters_only(before, step.status));
    EXPECT_EQ(step.status.ready_replicas, 1 + i % 2);
    EXPECT_EQ(life.is("PodsReady"), kTrue);
    EXPECT_EQ(life.job.status.started_at, kStart);
  }
}

TEST(Lifecycle, APodThatSucceededCountsAsThere) {
  Life life;
  life.admit();
  life.succeed("llama-worker-0-1");
  life.ready("llama-worker-1-1");
  life.turn();
  EXPECT_EQ(life.phase(), Phase::kRunning);
  EXPECT_EQ(life.job.status.ready_replicas, 1);
}

TEST(Lifecycle, PodsAreCountedAsReadyOrSucceeded) {
  Life life{3};
  life.admit();
  EXPECT_EQ(life.job.status.pods, "0/3");
  life.all_ready();
  life.turn();
  EXPECT_EQ(life.job.status.pods, "3/3");
  const auto before = life.job.status;
  life.succeed("llama-worker-0-1");
  life.ready("llama-worker-2-1", false);
  const Step step = life.turn();
  EXPECT_TRUE(differs_in_counters_only(before, step.status)) << "a write that may wait";
  EXPECT_EQ(life.job.status.pods, "2/3");
  EXPECT_EQ(life.job.status.ready_replicas, 1);
  EXPECT_EQ(life.job.status.succeeded_replicas, 1);
  life.job.spec.suspend = true;
  life.turn();
  EXPECT_EQ(life.job.status.pods, "0/3") << "a new attempt does all of it again";
  EXPECT_EQ(life.job.status.succeeded_replicas, 0);
}

TEST(Lifecycle, AFailedJobSaysHowManyPodsHadSucceeded) {
  Life life;
  life.job.spec.restart.limit = 0;
  life.run();
  life.succeed("llama-worker-0-1");
  life.fail("llama-worker-1-1");
  life.turn();
  ASSERT_EQ(life.phase(), Phase::kFailed);
  EXPECT_EQ(life.job.status.pods, "1/2");
  EXPECT_EQ(life.job.status.succeeded_replicas, 1);
}

TEST(Lifecycle, EditOfARunningJobIsSeen) {
  Life life;
  life.run();
  life.job.metadata.generation = 2;
  life.turn();
  EXPECT_EQ(life.job.status.observed_generation, 2);
  EXPECT_EQ(life.condition("Accepted").observed_generation, 2);
  EXPECT_EQ(life.phase(), Phase::kRunning);
}

// --- completion

struct CompletionCase {
  const char* name;
  crds::CompletionPolicy policy;
  const char* role;
  std::vector<std::string> succeeded;
  bool complete;
};
class LifecycleCompletion : public ::testing::TestWithParam<CompletionCase> {};

TEST_P(LifecycleCompletion, ByPolicyAndRole) {
  const auto& c = GetParam();
  Life life;
  life.add_role("ps", 1);
  life.job.spec.completion = {c.role, c.policy};
  life.run();
  for (const auto& name : c.succeeded) life.succeed(name);
  const Step step = life.turn();
  EXPECT_EQ(life.is("Complete") == kTrue, c.complete);
  EXPECT_EQ(life.phase(), c.complete ? Phase::kSucceeded : Phase::kRunning);
  if (!c.complete) return;
  EXPECT_THAT(step.remove, SizeIs(3 - c.succeeded.size()))
      << "what still runs is ended, what has ended stays for its logs";
  EXPECT_EQ(life.job.status.finished_at, kStart);
  EXPECT_EQ(life.job.status.assignment, crds::Assignment{});
  EXPECT_EQ(life.job.status.allocated, crds::Amounts{});
  EXPECT_EQ(life.is("Admitted"), kFalse);
  EXPECT_EQ(life.is("PodsReady"), kFalse);
  EXPECT_EQ(life.job.status.pods, std::to_string(c.succeeded.size()) + "/3") << "of all pods, what succeeded";
  EXPECT_EQ(life.job.status.succeeded_replicas, static_cast<std::int32_t>(c.succeeded.size()));
  EXPECT_EQ(life.job.status.ready_replicas, 0);
  expect_quiet(life, "complete");
}

INSTANTIATE_TEST_SUITE_P(
    Policies, LifecycleCompletion,
    ::testing::Values(
        CompletionCase{"AllOfAll",
                       crds::CompletionPolicy::kAll,
                       "",
                       {"llama-worker-0-1", "llama-worker-1-1", "llama-ps-0-1"},
                       true},
        CompletionCase{
            "AllButOne", crds::CompletionPolicy::kAll, "", {"llama-worker-0-1", "llama-worker-1-1"}, false},
        CompletionCase{"AllOfRole",
                       crds::CompletionPolicy::kAll,
                       "worker",
                       {"llama-worker-0-1", "llama-worker-1-1"},
                       true},
        CompletionCase{
            "RoleHalf", crds::CompletionPolicy::kAll, "worker", {"llama-worker-0-1", "llama-ps-0-1"}, false},
        CompletionCase{"First", crds::CompletionPolicy::kFirst, "", {"llama-ps-0-1"}, true},
        CompletionCase{"FirstOfRole", crds::CompletionPolicy::kFirst, "worker", {"llama-worker-1-1"}, true},
        CompletionCase{"FirstOfOtherRole", crds::CompletionPolicy::kFirst, "worker", {"llama-ps-0-1"}, false},
        CompletionCase{"RoleWithoutPods", crds::CompletionPolicy::kAll, "chief", {}, false}),
    [](const auto& tested) { return std::string(tested.param.name); });

TEST(Lifecycle, CompletionBeatsSuspensionAndEviction) {
  for (const bool suspend : {true, false}) {
    Life life;
    life.run();
    life.succeed("llama-worker-0-1");
    life.succeed("llama-worker-1-1");
    life.job.spec.suspend = suspend;
    if (!suspend) life.decision = Life::give_back(JobDecision::Kind::kEvict, "PlacesLost", "node-1 is gone");
    life.turn();
    EXPECT_EQ(life.phase(), Phase::kSucceeded) << "work that is done is not done again";
  }
}

TEST(Lifecycle, FinishedJobsNeverChangeAgain) {
  Life life;
  life.run();
  life.succeed("llama-worker-0-1");
  life.succeed("llama-worker-1-1");
  life.turn();
  const auto finished = life.job.status;
  life.job.spec.suspend = true;
  EXPECT_TRUE(life.after(hours{1}).status == finished);
  life.job.spec.suspend = false;
  life.invalid = "spec.roles: broken";
  life.decision = life.place();
  EXPECT_TRUE(life.turn().status == finished);
  life.drop("llama-worker-0-1");
  const Step step = life.turn();
  EXPECT_TRUE(step.status == finished);
  EXPECT_FALSE(step.wants_place || step.remove_job);
  EXPECT_THAT(step.create, IsEmpty());
  EXPECT_EQ(step.wake_at, std::nullopt);
}

TEST(Lifecycle, TtlAfterFinishedRemovesTheJob) {
  Life life;
  life.job.spec.ttl_after_finished = hours{24};
  life.job.spec.restart.limit = 0;
  life.run();
  life.fail("llama-worker-0-1");
  life.turn();
  ASSERT_EQ(life.phase(), Phase::kFailed);
  Step step = life.look();
  EXPECT_FALSE(step.remove_job);
  EXPECT_EQ(step.wake_at, kStart + hours{24});
  life.now = kStart + hours{24};
  step = life.look();
  EXPECT_TRUE(step.remove_job);
  EXPECT_TRUE(step.status == life.job.status);
}

// Its end is written first, so that who watches it sees how it ended.
TEST(Lifecycle, TtlOfNothingRemovesTheJobAfterItsEndIsWritten) {
  Life life;
  life.job.spec.ttl_after_finished = hours{0};
  life.job.spec.restart.limit = 0;
  life.run();
  life.fail("llama-worker-0-1");
  Step step = life.look();
  EXPECT_EQ(step.status.phase, Phase::kFailed);
  EXPECT_FALSE(step.remove_job);
  life.turn();
  EXPECT_TRUE(life.look().remove_job);
}

TEST(Lifecycle, WhatItHoldsOfResourcesByNameIsInItsStatus) {
  Life life;
  life.named = [](const crds::PodAssignment& place) {
    return place.index == 0 ? crds::NamedAmounts{{"rdma/hca", 8}, {"hugepages-2Mi", 1 << 30}}
                            : crds::NamedAmounts{{"rdma/hca", 4}};
  };
  life.turn();
  EXPECT_EQ(life.job.status.allocated, crds::Amounts{}) << "it waits";
  life.run();
  EXPECT_EQ(life.job.status.allocated.resources,
            (crds::NamedAmounts{{"hugepages-2Mi", 1 << 30}, {"rdma/hca", 12}}));
}

TEST(Lifecycle, WhatRunsIsToldThatItsProjectDoesNotAllowItAnyMoreAndRunsOn) {
  Life life;
  life.run();
  EXPECT_EQ(crds::find_condition(life.job.status.conditions, "PolicyViolation"), nullptr);
  life.invalid = "spec.roles: ask for 2 pods in all, more than the 1 that Project nlp allows a job";
  life.invalid_reason = "PolicyViolation";
  const Step told = life.turn();
  EXPECT_EQ(life.phase(), Phase::kRunning);
  EXPECT_EQ(life.job.status.assignment.attempt, 1);
  EXPECT_EQ(life.reason("PolicyViolation"), "PolicyViolation");
  EXPECT_TRUE(crds::is_true(life.job.status.conditions, "PolicyViolation"));
  EXPECT_THAT(life.message("PolicyViolation"),
              HasSubstr("more than the 1 that Project nlp allows a job; what"));
  ASSERT_THAT(told.notes, SizeIs(1));
  EXPECT_EQ(told.notes[0].reason, "PolicyViolation");
  expect_quiet(life, "told once");
  life.invalid.reset();
  life.turn();
  EXPECT_EQ(life.reason("PolicyViolation"), "Allowed");
  life.invalid = "another rule";
  life.turn();
  life.job.spec.suspend = true;
  life.turn();
  EXPECT_EQ(life.reason("PolicyViolation"), "NotRunning") << "Accepted says it now";
  EXPECT_EQ(life.reason("Accepted"), "PolicyViolation");
}

TEST(Lifecycle, SaysWhereItsPortsAreReachedAndWhatStandsInTheWay) {
  Life life;
  life.job.spec.expose = {{"jupyter", 8888, ""}};
  life.run();
  EXPECT_TRUE(life.job.status.endpoints.empty()) << "nobody has made the Service";
  EXPECT_EQ(crds::find_condition(life.job.status.conditions, "Exposed"), nullptr);
  life.exposure = Exposure{"NameTaken", "services nlp/llama-expose exists"};
  const Step told = life.turn();
  ASSERT_THAT(told.notes, SizeIs(1));
  EXPECT_EQ(life.reason("Exposed"), "NameTaken");
  EXPECT_TRUE(life.job.status.endpoints.empty());
  EXPECT_EQ(life.phase(), Phase::kRunning);
  expect_quiet(life, "told once");
  life.exposure = Exposure{};
  life.turn();
  EXPECT_TRUE(crds::is_true(life.job.status.conditions, "Exposed"));
  ASSERT_THAT(life.job.status.endpoints, SizeIs(1));
  EXPECT_EQ(life.job.status.endpoints[0].service, "llama-expose");
  life.exposure.reset();  // it was not looked at, or could not be
  expect_quiet(life, "not known");
  life.exposure = Exposure{};
  life.job.spec.suspend = true;
  life.turn();
  EXPECT_THAT(life.job.status.endpoints, SizeIs(1)) << "it keeps its address";
  life.job.spec.expose.clear();
  life.turn();
  EXPECT_TRUE(life.job.status.endpoints.empty());
  EXPECT_EQ(life.reason("Exposed"), "NothingExposed");
}

TEST(Lifecycle, SaysWhatLeadsToItsPortsFromOutsideUntilItHasEnded) {
  Life life;
  life.job.spec.expose = {{"jupyter", 8888, ""}, {"board", 6006, ""}};
  life.run();
  const auto url = [&](std::size_t i) { return life.job.status.endpoints.at(i).external_url; };
  life.exposure = Exposure{.published = Publication{}};
  life.turn();
  EXPECT_EQ(crds::find_condition(life.job.status.conditions, "Published"), nullptr) << "nobody asks for it";
  life.exposure->published = Publication{.reason = "APIMissing", .problem = "this cluster has no httproutes"};
  const Step told = life.turn();
  ASSERT_THAT(told.notes, SizeIs(1));
  EXPECT_EQ(life.reason("Published"), "APIMissing");
  EXPECT_TRUE(crds::is_true(life.job.status.conditions, "Exposed")) << "the Service is there";
  expect_quiet(life, "told once");
  life.exposure->published =
      Publication{.urls = {"https://a.org", "https://b.org"}, .reason = "HTTPRouteReady"};
  life.turn();
  EXPECT_TRUE(crds::is_true(life.job.status.conditions, "Published"));
  EXPECT_EQ(url(1), "https://b.org");
  life.exposure->published.reset();  // it is not known now
  life.job.spec.expose.erase(life.job.spec.expose.begin());
  life.turn();
  EXPECT_EQ(url(0), "https://b.org") << "that of the port of this name";
  EXPECT_EQ(life.reason("Published"), "HTTPRouteReady");
  for (const auto& pod : life.names()) life.succeed(pod);
  life.turn();
  ASSERT_EQ(life.phase(), Phase::kSucceeded);
  life.exposure = Exposure{.published = Publication{}};
  life.turn();
  EXPECT_EQ(life.reason("Published"), "JobEnded");
  EXPECT_EQ(url(0), "");
  expect_quiet(life, "ended");
}

}  // namespace
}  // namespace muster::reconcilers
