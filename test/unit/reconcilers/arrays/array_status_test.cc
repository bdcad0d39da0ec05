#include "muster/reconcilers/arrays/array_status.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/crds/codec.h"
#include "muster/reconcilers/arrays/array_objects.h"
#include "muster/reconcilers/arrays/array_parameters.h"
#include "muster/reconcilers/pods/names.h"
#include "sample_jobs.h"

namespace muster::reconcilers {
namespace {

using testing::HasSubstr;

constexpr crds::Time kNow{std::chrono::seconds{5'000}};

crds::TrainingJob sample_array(std::int32_t count, std::int32_t parallelism) {
  crds::TrainingJob array = sample_job();
  array.metadata.name = "sweep";
  array.metadata.generation = 3;
  array.status = {};
  array.spec.roles.front().replicas = 1;
  array.spec.array = crds::JobArray{.count = count, .parallelism = parallelism};
  return array;
}

crds::ArrayStatus recorded(const std::string& succeeded, const std::string& failed,
                           const std::string& held = {}) {
  crds::ArrayStatus status;
  status.succeeded_indexes = succeeded;
  status.failed_indexes = failed;
  status.held_indexes = held;
  return status;
}

struct Seen {
  std::vector<crds::TrainingJob> jobs;

  crds::TrainingJobStatus status(const crds::TrainingJob& array, const ArrayRefusal& refused = {}) const {
    std::vector<const crds::TrainingJob*> pointers;
    std::vector<IndexJob> indexes;
    for (const auto& job : jobs) {
      pointers.push_back(&job);
      indexes.push_back(seen_as_index(job, *index_in(array, job)));
    }
    const auto plan = plan_array(*array.spec.array, array.spec.suspend, ended_as(array.status),
                                 record_of(*array.spec.array, array.status), indexes);
    return array_status(array, plan, pointers, refused, kNow);
  }
};

crds::TrainingJob running(const crds::TrainingJob& array, std::int32_t index) {
  auto job = index_job(array, index);
  job.status.attempt = job.status.assignment.attempt = 1;
  job.status.ready_replicas = 1;
  job.status.allocated.gpu = crds::MilliGpu{2000};
  return job;
}
crds::TrainingJob waiting(const crds::TrainingJob& array, std::int32_t index, std::int32_t position) {
  auto job = index_job(array, index);
  job.status.queue.position = position;
  job.status.queue.reason = "InsufficientCapacity";
  job.status.queue.message = "no room";
  return job;
}
crds::TrainingJob ended(const crds::TrainingJob& array, std::int32_t index, const char* how) {
  auto job = index_job(array, index);
  job.status.attempt = 1;
  job.status.finished_at = kNow;
  crds::set_condition(job.status.conditions, {how, crds::ConditionStatus::kTrue, 1, kNow, "R", "m"});
  return job;
}

TEST(ArrayObjects, AnIndexRunsWhatTheArrayStatesAndSaysWhichItIs) {
  auto array = sample_array(3, 2);
  array.metadata.labels["muster.dev/user"] = "rosa";
  array.spec.suspend = true;
  array.spec.ttl_after_finished = std::chrono::hours{1};
  array.spec.array->parameters = {"a", "b", "c"};
  array.spec.depends_on = {{.name = "prep"}};
  const auto object = IndexJobs(array, {}).json(1);
  const Json labels = {
      {"muster.dev/array", "sweep"}, {"muster.dev/array-index", "1"}, {"muster.dev/user", "rosa"}};
  EXPECT_EQ(object["metadata"]["labels"], labels) << "and none of GitOps tools";
  EXPECT_EQ(object["metadata"]["annotations"], Json({{"muster.dev/array-parameter", "b"}}));
  EXPECT_EQ(object["metadata"]["name"], "sweep-1");
  EXPECT_EQ(object["metadata"]["ownerReferences"][0]["uid"], "uid-1");
  EXPECT_EQ(object["metadata"]["ownerReferences"][0]["controller"], true);
  EXPECT_EQ(object["spec"], crds::to_json(index_job(array, 1))["spec"]);
  for (const char* field : {"array", "ttlAfterFinished", "dependsOn"})
    EXPECT_FALSE(object["spec"].contains(field)) << field;
  EXPECT_FALSE(object["spec"].value("suspend", false));
  EXPECT_FALSE(object.contains("status"));
  auto index = index_job(array, 1);
  EXPECT_EQ(index_in(array, index), 1);
  index.metadata.name = "sweep-2";
  EXPECT_EQ(index_in(array, index), std::nullopt) << "its label and its name do not agree";
}

TEST(ArrayObjects, AnIndexIsSuspendedByItsArray) {
  auto array = sample_array(5, 2);
  EXPECT_FALSE(is_suspended_by(array, 1));
  array.status.array = recorded("", "", "1-2");
  EXPECT_TRUE(is_suspended_by(array, 1));
  EXPECT_FALSE(is_suspended_by(array, 3));
  array.spec.suspend = true;
  EXPECT_TRUE(is_suspended_by(array, 3));
}

TEST(ArrayStatus, CountsIndexesByWhatTheyAreAt) {
  auto array = sample_array(10, 3);
  array.status.array = recorded("0-1", "2");
  const Seen seen{{running(array, 3), running(array, 5), waiting(array, 4, 7), ended(array, 2, "Failed")}};
  const auto status = seen.status(array);
  const auto& a = *status.array;
  EXPECT_EQ(std::tuple(a.pending, a.waiting, a.running, a.succeeded, a.failed, a.stopped),
            std::tuple(4, 1, 2, 2, 1, 0));
  EXPECT_EQ(a.running_indexes, "3,5");
  EXPECT_EQ(status.pods, "4/10");
  EXPECT_EQ(status.allocated.gpu, crds::MilliGpu{4000});
  EXPECT_EQ(status.phase, crds::Phase::kRunning);
  EXPECT_EQ(status.queue.reason, "InsufficientCapacity");
  EXPECT_EQ(status.queue.message, "1 of 3 indexes wait, the first of them sweep-4: no room");
  EXPECT_TRUE(crds::is_true(status.conditions, "Accepted"));
  EXPECT_TRUE(crds::is_true(status.conditions, "Admitted"));
  EXPECT_EQ(status.observed_generation, 3);
}

TEST(ArrayStatus, SaysTheNewestCheckpointOfEachIndexThatRuns) {
  auto array = sample_array(300, 300);
  Seen seen;
  for (std::int32_t i = 200; i > 0; --i) {
    seen.jobs.push_back(running(array, i));
    if (i == 1) continue;  // it has saved nothing yet
    seen.jobs.back().status.checkpoint.step = 100 * i;
    seen.jobs.back().status.checkpoint.saved_at = kNow;
  }
  seen.jobs.push_back(waiting(array, 0, 7));
  seen.jobs.back().status.checkpoint.step = 5;
  const auto before = seen.status(array);
  const auto& saved = before.array->checkpoints;
  ASSERT_EQ(saved.size(), crds::kMaxIndexCheckpoints) << "the status stays small";
  EXPECT_EQ(saved[0], (crds::IndexCheckpoint{2, 200, kNow})) << "0 does not run";
  EXPECT_EQ(saved.back().index, 101);
  // A step is a number that can wait.
  seen.jobs[100].status.checkpoint.step = 1'000'000;
  EXPECT_EQ(compare(before, seen.status(array)), ArrayNews::kCounters);
  array.spec.array->success.policy = crds::ArraySuccess::kAny;
  seen.jobs[0] = ended(array, 200, "Complete");
  EXPECT_TRUE(seen.status(array).array->checkpoints.empty()) << "it has ended";
}

TEST(ArrayStatus, AnEndIsWrittenWithItsReasonAndHoldsNothing) {
  auto array = sample_array(3, 3);
  array.spec.array->failures = crds::ArrayFailures::kStop;
  const auto status = Seen{{running(array, 0), ended(array, 1, "Failed")}}.status(array);
  EXPECT_EQ(status.phase, crds::Phase::kFailed);
  EXPECT_EQ(crds::find_condition(status.conditions, "Failed")->reason, "IndexFailed");
  EXPECT_TRUE(crds::is_true(status.conditions, "Stalled"));
  EXPECT_EQ(status.finished_at, kNow);
  EXPECT_EQ(status.array->stopped, 2);
  EXPECT_EQ(status.array->running, 0);
  EXPECT_FALSE(status.allocated.gpu);
}

TEST(ArrayStatus, TheFirstResultStaysWhenItsJobIsGone) {
  auto array = sample_array(4, 2);
  auto first = ended(array, 1, "Complete");
  first.status.result = R"({"loss":"0.5"})";
  array.status = Seen{{first, running(array, 0)}}.status(array);
  EXPECT_EQ(array.status.result, first.status.result);
  EXPECT_EQ(array.status.array->result_index, 1);
  auto later = ended(array, 0, "Complete");
  later.status.result = "7";
  array.status = Seen{{later}}.status(array);
  EXPECT_EQ(array.status.result, first.status.result) << "read from its own record";
  EXPECT_EQ(array.status.array->succeeded, 2);
}

TEST(ArrayStatus, WhatIsWrongWithOneIndexIsWrongWithTheArray) {
  auto array = sample_array(3, 3);
  auto bad = waiting(array, 0, 0);
  crds::set_condition(bad.status.conditions,
                      {"Accepted", crds::ConditionStatus::kFalse, 1, kNow, "PolicyViolation", "too many"});
  const auto status = Seen{{bad}}.status(array);
  const auto* accepted = crds::find_condition(status.conditions, "Accepted");
  EXPECT_EQ(accepted->reason, "PolicyViolation");
  EXPECT_EQ(accepted->message, "sweep-0: too many");
  EXPECT_TRUE(crds::is_true(status.conditions, "Stalled"));
  const auto forbidden = Seen{}.status(array, {"Forbidden", "by somebody", false});
  EXPECT_EQ(forbidden.queue.reason, "Forbidden");
  EXPECT_FALSE(crds::is_true(forbidden.conditions, "Stalled")) << "that may change without it";
}

TEST(ArrayStatus, SuspendedItSavesFirst) {
  auto array = sample_array(3, 3);
  array.spec.suspend = true;
  EXPECT_EQ(Seen{{running(array, 0)}}.status(array).phase, crds::Phase::kCheckpointing);
  auto saved = waiting(array, 0, 0);
  saved.status.attempt = 1;
  const auto status = Seen{{saved}}.status(array);
  EXPECT_EQ(status.phase, crds::Phase::kSuspended);
  EXPECT_EQ(status.queue.reason, "");
}

TEST(ArrayStatus, WhatIsRunAgainIsNewsAndAnArrayThatHasFailedGoesOn) {
  auto array = sample_array(3, 3);
  array.status =
      Seen{{ended(array, 0, "Complete"), ended(array, 1, "Failed"), ended(array, 2, "Complete")}}.status(
          array);
  ASSERT_EQ(array.status.phase, crds::Phase::kFailed);
  array.spec.array->retry_failed = 1;
  const auto status = Seen{{ended(array, 1, "Failed")}}.status(array);
  EXPECT_EQ(status.phase, crds::Phase::kQueued);
  EXPECT_EQ(crds::find_condition(status.conditions, "Failed")->reason, "Retried");
  EXPECT_FALSE(crds::is_true(status.conditions, "Stalled"));
  EXPECT_FALSE(status.finished_at);
  EXPECT_EQ(status.array->retry_indexes, "1");
  EXPECT_EQ(status.array->pending, 1);
  EXPECT_EQ(compare(array.status, status), ArrayNews::kUrgent);
  array.status = status;
  const auto index = index_job(array, 1);
  EXPECT_EQ(seen_as_index(index, 1).retry, 1) << "its new job says so";
}

TEST(ArrayStatus, WhatItWaitsForBeforeItsFirstIndexIsNotWrong) {
  auto array = sample_array(3, 3);
  array.spec.depends_on = {{.name = "prep"}};
  const auto verdict = judge_dependencies(array, [](const std::string&) { return nullptr; });
  const auto status = Seen{}.status(array, refusal_of(verdict));
  EXPECT_EQ(status.queue.reason, "DependencyNotFound");
  EXPECT_EQ(crds::find_condition(status.conditions, "Admitted")->reason, "DependencyNotFound");
  EXPECT_TRUE(crds::is_true(status.conditions, "Accepted"));
  EXPECT_FALSE(crds::is_true(status.conditions, "Stalled"));
  array.status.array.emplace().waiting = 1;
  EXPECT_EQ(judge_dependencies(array, [](const std::string&) { return nullptr; }).reason, "")
      << "it has begun";
}

TEST(ArrayParameters, AreTheFirstLinesOfAFile) {
  EXPECT_EQ(parameter_lines("a\nb\r\n\n", 3), (ParameterLines{"a", "b", ""}));
  EXPECT_EQ(parameter_lines("a\nb", 2), (ParameterLines{"a", "b"}));
  EXPECT_EQ(parameter_lines("a\nb\nc\n", 2), (ParameterLines{"a", "b"})) << "there may be more";
  EXPECT_THAT(parameter_lines("a\nb\n", 3).error(), HasSubstr("has 2 lines, and spec.array.count is 3"));
  EXPECT_THAT(parameter_lines("", 1).error(), HasSubstr("has 0 lines"));
  EXPECT_THAT(parameter_lines("a\n" + std::string(1025, 'x'), 2).error(),
              HasSubstr("has 1025 bytes in line 2 (of index 1)"));
}

TEST(ArrayParameters, TheCopyHasThemAsTheyWereTaken) {
  const auto array = sample_array(3, 3);
  const ParameterLines lines = {"LR=1 \t", "", ""};
  const auto copy = Json::parse(parameters_json(array, lines));
  EXPECT_EQ(copy["metadata"]["name"], "sweep-parameters");
  EXPECT_EQ(copy["metadata"]["ownerReferences"][0]["uid"], "uid-1");
  EXPECT_EQ(copy["immutable"], true);
  EXPECT_EQ(parameter_lines(copy["data"]["parameters"].get<std::string>(), 3), lines);
  EXPECT_EQ(IndexJobs(array, lines).json(0)["metadata"]["annotations"]["muster.dev/array-parameter"],
            "LR=1 \t");
}

TEST(ArrayStatus, NumbersCanWaitLongerThanEnds) {
  auto array = sample_array(5, 2);
  const auto empty = Seen{}.status(array);
  EXPECT_EQ(compare(array.status, empty), ArrayNews::kUrgent) << "the first word";
  EXPECT_EQ(compare(empty, empty), ArrayNews::kNone);
  array.status = empty;
  const auto waits = Seen{{waiting(array, 0, 1)}}.status(array);
  EXPECT_EQ(compare(empty, waits), ArrayNews::kCounters);
  const auto runs = Seen{{running(array, 0)}}.status(array);
  EXPECT_EQ(compare(waits, runs), ArrayNews::kRecord) << "its phase is another";
  const auto one = Seen{{ended(array, 0, "Complete"), running(array, 1)}}.status(array);
  EXPECT_EQ(compare(runs, one), ArrayNews::kRecord);
  array.spec.array->success.policy = crds::ArraySuccess::kAny;
  EXPECT_EQ(compare(one, Seen{{ended(array, 0, "Complete")}}.status(array)), ArrayNews::kUrgent);
}

TEST(ArrayStatus, OfTheLargestArrayFitsAnObject) {
  auto array = sample_array(10'000, 10'000);
  std::string succeeded, failed;
  IndexSet a(10'000), b(10'000);
  for (std::int32_t i = 0; i < 10'000; ++i) (i % 2 == 0 ? a : b).insert(i);
  array.status.array = recorded(a.to_text(), b.to_text());
  const auto size = crds::status_to_json(array).dump().size();
  EXPECT_LT(size, 256u * 1024);
}

}  // namespace
}  // namespace muster::reconcilers
