// What a job that depends on others waits for, and what it remembers.
#include "muster/reconcilers/lifecycle/dependencies.h"

#include "life.h"

namespace muster::reconcilers {
namespace {

using crds::Dependency;
using crds::DependencyCondition;

// The jobs of one namespace.
struct Jobs {
  std::map<std::string, crds::TrainingJob> all;

  crds::TrainingJob& add(const std::string& name, std::vector<std::string> depends_on = {}) {
    auto& job = all[name];
    job.metadata.name = name;
    job.metadata.ns = "nlp";
    job.status.phase = Phase::kQueued;
    for (auto& other : depends_on) job.spec.depends_on.push_back({std::move(other)});
    return job;
  }
  void end(const std::string& name, const std::string& condition, const std::string& reason) {
    auto& job = all.at(name);
    job.status.phase = condition == "Failed" ? Phase::kFailed : Phase::kSucceeded;
    crds::set_condition(job.status.conditions, {condition, ConditionStatus::kTrue, 1, kStart, reason, ""});
  }
  DependencyVerdict judge(const std::string& name) const {
    return judge_dependencies(all.at(name), [this](const std::string& other) {
      const auto found = all.find(other);
      return found == all.end() ? nullptr : &found->second;
    });
  }
  // As its reconciler does.
  DependencyVerdict look(const std::string& name) {
    auto verdict = judge(name);
    all.at(name).status.met_dependencies = verdict.met;
    return verdict;
  }
};

TEST(Dependencies, AJobWithoutWaitsForNothing) {
  Jobs jobs;
  jobs.add("train");
  EXPECT_EQ(jobs.judge("train").reason, "");
  EXPECT_THAT(jobs.judge("train").met, IsEmpty());
}

TEST(Dependencies, TheMessageNamesTheJobAndWhereItStands) {
  Jobs jobs;
  jobs.add("train", {"prep"});
  EXPECT_EQ(jobs.judge("train").reason, "DependencyNotFound");
  EXPECT_THAT(jobs.judge("train").message,
              HasSubstr("TrainingJob prep has to be Complete, and does not exist in namespace nlp: make it"));
  auto& prep = jobs.add("prep");
  prep.status.queue.reason = "LimitReached";
  EXPECT_EQ(jobs.judge("train").reason, "DependencyNotComplete");
  EXPECT_EQ(jobs.judge("train").message, "TrainingJob prep has to be Complete, and is Queued (LimitReached)");
  prep.status.phase = Phase::kRunning;
  EXPECT_EQ(jobs.judge("train").message, "TrainingJob prep has to be Complete, and is Running");
  jobs.end("prep", "Failed", "RestartLimitExceeded");
  EXPECT_EQ(jobs.judge("train").reason, "DependencyFailed");
  EXPECT_THAT(jobs.judge("train").message,
              HasSubstr("has Failed (RestartLimitExceeded): delete it and make it anew"));
}

TEST(Dependencies, TheWorstOfThemGivesTheReasonAndAllAreNamed) {
  Jobs jobs;
  jobs.add("train", {"a", "b", "c"});
  jobs.add("a").status.phase = Phase::kRunning;
  jobs.add("b");
  jobs.end("b", "Failed", "ProgramFault");
  EXPECT_EQ(jobs.judge("train").reason, "DependencyFailed");
  for (const char* name : {"TrainingJob a ", "TrainingJob b ", "TrainingJob c "})
    EXPECT_THAT(jobs.judge("train").message, HasSubstr(name));
}

TEST(Dependencies, ManyAreCounted) {
  Jobs jobs;
  jobs.add("train", {"a", "b", "c", "d", "e", "f", "g"});
  EXPECT_THAT(jobs.judge("train").message, HasSubstr("; and 2 more"));
}

TEST(Dependencies, FinishedIsAlsoMetByFailure) {
  Jobs jobs;
  jobs.add("tidy").spec.depends_on = {{"first", DependencyCondition::kFinished}};
  jobs.add("first").status.phase = Phase::kRunning;
  EXPECT_THAT(jobs.judge("tidy").message, HasSubstr("has to be Complete or Failed, and is Running"));
  jobs.end("first", "Failed", "MaxRuntimeExceeded");
  EXPECT_EQ(jobs.judge("tidy").reason, "");
}

TEST(Dependencies, WhatWasSeenStaysMetWhenItIsDeleted) {
  Jobs jobs;
  jobs.add("train", {"a", "b"});
  jobs.add("a");
  jobs.add("b");
  jobs.end("a", "Complete", "Completed");
  EXPECT_EQ(jobs.look("train").reason, "DependencyNotComplete");
  EXPECT_THAT(jobs.all.at("train").status.met_dependencies, ElementsAre(Dependency{"a"}));
  jobs.all.erase("a");
  jobs.end("b", "Complete", "Completed");
  EXPECT_EQ(jobs.look("train").reason, "");
  // What is not wanted any more is not remembered.
  jobs.all.at("train").spec.depends_on = {{"b"}};
  EXPECT_THAT(jobs.look("train").met, ElementsAre(Dependency{"b"}));
}

TEST(Dependencies, AnEditThatWantsMoreLooksAgain) {
  Jobs jobs;
  jobs.add("tidy").spec.depends_on = {{"first", DependencyCondition::kFinished}};
  jobs.add("first");
  jobs.end("first", "Failed", "ProgramFault");
  EXPECT_EQ(jobs.look("tidy").reason, "");
  jobs.all.at("tidy").spec.depends_on = {{"first", DependencyCondition::kComplete}};
  EXPECT_EQ(jobs.look("tidy").reason, "DependencyFailed");
}

TEST(Dependencies, AdmittedOnceItLooksNoMore) {
  Jobs jobs;
  auto& train = jobs.add("train", {"prep"});
  train.status.attempt = 1;
  EXPECT_EQ(jobs.judge("train").reason, "");
  EXPECT_THAT(jobs.judge("train").met, IsEmpty());
  EXPECT_THAT(awaited_by(train), IsEmpty());
}

TEST(Dependencies, ACircleIsNamedByAllInItAndByNobodyElse) {
  Jobs jobs;
  jobs.add("a", {"b"});
  jobs.add("b", {"c"});
  jobs.add("c", {"x", "a"});
  jobs.add("d", {"a"});
  jobs.add("x");
  EXPECT_TRUE(jobs.judge("a").is_circle);
  EXPECT_EQ(jobs.judge("a").reason, "DependencyCycle");
  EXPECT_THAT(jobs.judge("a").message, HasSubstr("a -> b -> c -> a"));
  EXPECT_THAT(jobs.judge("c").message, HasSubstr("c -> a -> b -> c"));
  EXPECT_FALSE(jobs.judge("d").is_circle);
  EXPECT_FALSE(jobs.judge("x").is_circle);
  // One of them was admitted before: it waits for nobody, so there is no circle.
  jobs.all.at("c").status.attempt = 1;
  EXPECT_FALSE(jobs.judge("a").is_circle);
  EXPECT_EQ(jobs.judge("b").reason, "DependencyNotComplete");
}

TEST(Dependencies, ALongCircleIsCut) {
  Jobs jobs;
  for (char c = 'a'; c < 'z'; ++c) jobs.add({c}, {std::string(1, static_cast<char>(c + 1))});
  jobs.add("z", {"a"});
  EXPECT_TRUE(jobs.judge("a").is_circle);
  EXPECT_THAT(jobs.judge("a").message, HasSubstr("a -> b -> "));
  EXPECT_THAT(jobs.judge("a").message, HasSubstr("… -> a;"));
}

// --- in the life of a job

TEST(Dependencies, TheJobAsksForNothingUntilTheyAreMet) {
  Life life;
  life.job.spec.depends_on = {{"prep"}, {"data"}};
  life.dependencies = {.met = {{"data"}}, .reason = "DependencyNotComplete", .message = "prep is Running"};
  life.decision = life.place();
  const Step step = life.turn();
  EXPECT_FALSE(step.wants_place);
  EXPECT_EQ(life.job.status.assignment.attempt, 0);
  EXPECT_EQ(life.job.status.queue.reason, "DependencyNotComplete");
  EXPECT_EQ(life.job.status.queue.message, "prep is Running");
  EXPECT_EQ(life.is("Stalled"), kFalse) << "waiting is healthy";
  EXPECT_EQ(life.reason("Admitted"), "DependencyNotComplete");
  EXPECT_THAT(life.job.status.met_dependencies, ElementsAre(Dependency{"data"}));
  expect_quiet(life, "waits for another job");

  life.dependencies = {.met = {{"prep"}, {"data"}}};
  EXPECT_TRUE(life.turn().wants_place);
  EXPECT_THAT(life.job.status.met_dependencies, SizeIs(2));
  life.decision = life.place();
  life.turn();
  EXPECT_EQ(life.phase(), Phase::kStarting);
  EXPECT_THAT(life.job.status.met_dependencies, IsEmpty()) << "it looks no more";
}

TEST(Dependencies, ACircleStalls) {
  Life life;
  life.job.spec.depends_on = {{"b"}};
  life.dependencies = {.reason = "DependencyCycle", .message = "a -> b -> a", .is_circle = true};
  EXPECT_FALSE(life.turn().wants_place);
  EXPECT_EQ(life.is("Stalled"), kTrue);
  EXPECT_EQ(life.reason("Stalled"), "DependencyCycle");
  EXPECT_EQ(life.is("Accepted"), kFalse);
  EXPECT_EQ(life.job.status.queue.reason, "DependencyCycle");
  life.dependencies = {};
  EXPECT_TRUE(life.turn().wants_place);
  EXPECT_EQ(life.is("Stalled"), kFalse);
}

TEST(Dependencies, ASuspendedJobRemembersWhatItSees) {
  Life life;
  life.job.spec.depends_on = {{"prep"}};
  life.job.spec.suspend = true;
  life.dependencies = {.met = {{"prep"}}};
  life.turn();
  EXPECT_EQ(life.phase(), Phase::kSuspended);
  EXPECT_THAT(life.job.status.met_dependencies, ElementsAre(Dependency{"prep"}));
}

}  // namespace
}  // namespace muster::reconcilers
