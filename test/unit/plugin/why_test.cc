// What kubectl-muster says of objects. That it finds them is tried on a control plane
// (test/cluster/muster/plugin).
#include "show/why.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "objects.h"
#include "output/text.h"

namespace muster::plugin {
namespace {

using testing::HasSubstr;
using testing::Not;
TEST(Text, TellsDurationsInTwoUnits) {
  EXPECT_EQ(for_people(0s), "0s");
  EXPECT_EQ(for_people(-3s), "0s");
  EXPECT_EQ(for_people(59s), "59s");
  EXPECT_EQ(for_people(5min), "5m");
  EXPECT_EQ(for_people(5min + 3s), "5m3s");
  EXPECT_EQ(for_people(2h + 3s), "2h");
  EXPECT_EQ(for_people(49h + 5min), "2d1h");
}

TEST(Text, BreaksLinesBetweenWords) {
  EXPECT_EQ(wrapped("", 5), "");
  EXPECT_EQ(wrapped("one two three", 7), "one two\nthree");
  EXPECT_EQ(wrapped("a verylongword b", 4), "a\nverylongword\nb");
  EXPECT_EQ(wrapped("one two\nthree four", 9), "one two\nthree\nfour");
}

TEST(Text, OfARefusalSaysWhatWouldHelp) {
  client::Error error{.code = client::ErrorCode::kForbidden, .message = "no"};
  EXPECT_EQ(said(error, "Ask somebody"), "no\nAsk somebody.");
  EXPECT_EQ(said(error), "no");
  error.code = client::ErrorCode::kNotFound;
  EXPECT_EQ(said(error, "Ask somebody"), "no");
}

TEST(Why, OfAJobThatWaitsSaysWhatBindsWhoIsAheadWhenAndWhatHelps) {
  auto j = waiting("second", 3);
  j.status.queue.estimated_start = kNow + 62min;
  EXPECT_EQ(
      why(j, kNow),
      "nlp/second waits since 2026-03-04T11:55:00Z (5m): InsufficientCapacity. Needs 24 nvidia.com/gpu in "
      "pool "
      "a100, 8 free of 32; held by nlp/first (24). It is number 3 in the order of its pool, and number 1 of "
      "its "
      "project. It is likely to start by 2026-03-04T13:02:00Z, in 1h2m, if what runs ends when it says. What "
      "would help: to wait, a smaller gang, or more nodes.");
}

TEST(Why, OfAJobThatWaitsNamesTheFirstAheadWithTheirGpus) {
  std::vector<crds::TrainingJob> jobs;
  for (const int position : {4, 2, 1, 9, 3}) {
    auto j = waiting("j" + std::to_string(position), position);
    j.spec.roles.resize(1);
    j.spec.roles[0].gpus.emplace().count = position;
    jobs.push_back(std::move(j));
  }
  auto elsewhere = waiting("elsewhere", 1);
  elsewhere.spec.pools = {"zeta"};
  jobs.push_back(elsewhere);
  const auto mine = waiting("mine", 6);
  const auto ahead = ahead_of(mine, jobs);
  ASSERT_EQ(ahead.size(), 4U);
  EXPECT_THAT(why(mine, kNow, ahead), HasSubstr("of its project. Ahead of it wait nlp/j1 (1 GPU), nlp/j2 (2 "
                                                "GPUs), nlp/j3 (3 GPUs) and 2 others. "));
  const Data data = why_data(Workload(mine), kNow, ahead);
  EXPECT_EQ(data["ahead"][3], Data::parse(R"({"job": "nlp/j4", "gpus": "4"})"));
  const auto second = waiting("second", 2);
  EXPECT_THAT(why(second, kNow, ahead_of(second, jobs)), HasSubstr("Ahead of it waits nlp/j1 (1 GPU). "));
  const auto third = waiting("third", 3);
  EXPECT_THAT(why(third, kNow, ahead_of(third, jobs)),
              HasSubstr("wait nlp/j1 (1 GPU) and nlp/j2 (2 GPUs). "));
}

TEST(Why, OfAJobThatWaitsSaysNothingThatNobodyKnows) {
  auto j = waiting("second", 0);
  j.status.queue.reason = "SomethingNew";
  const auto text = why(j, kNow);
  EXPECT_THAT(text, Not(HasSubstr("number")));
  EXPECT_THAT(text, Not(HasSubstr("likely")));
  EXPECT_THAT(text, Not(HasSubstr("help")));
}

TEST(Why, OfAJobThatWasPreemptedTellsItsPast) {
  auto j = waiting("victim", 1);
  j.status.conditions.push_back({"Evicted", crds::ConditionStatus::kTrue, 1, kNow - 5min, "Preempted",
                                 "for nlp/urgent, which has a higher priority"});
  j.status.preemptions = 2;
  j.status.attempt = 2;
  EXPECT_THAT(why(j, kNow),
              HasSubstr("\nIt had to give its place back since 2026-03-04T11:55:00Z (5m): Preempted: for "
                        "nlp/urgent, which has a higher priority. It has yielded to other jobs 2 times. "
                        "No checkpoint of it is known: it begins anew."));
  j.status.checkpoint.step = 1200;
  j.status.checkpoint.saved_at = kNow - 6min;
  EXPECT_THAT(why(j, kNow), HasSubstr("Its last checkpoint is step 1200, saved 6m ago."));
}

TEST(Why, OfOtherPhasesSaysWhatItDoes) {
  auto j = job("first", crds::Phase::kRunning);
  j.status.started_at = kNow - 2h;
  j.status.allocated = gpu(24);
  j.status.assignment.pool = "a100";
  j.status.attempt = 1;
  EXPECT_EQ(why(j, kNow),
            "nlp/first runs since 2026-03-04T10:00:00Z (2h) with 24 GPUs in pool a100, attempt 1.");
  j.status.phase = crds::Phase::kFailed;
  j.status.finished_at = kNow - 1min;
  j.status.conditions = {
      {"Failed", crds::ConditionStatus::kTrue, 1, kNow, "RestartLimit", "it failed 4 times"}};
  EXPECT_EQ(why(j, kNow),
            "nlp/first has failed since 2026-03-04T11:59:00Z (1m). RestartLimit: it failed 4 times.");
  EXPECT_THAT(why(job("s", crds::Phase::kSuspended), kNow), HasSubstr("spec.suspend: false"));
  crds::TrainingJob fresh;
  fresh.metadata.ns = "nlp";
  fresh.metadata.name = "fresh";
  EXPECT_EQ(why(fresh, kNow), "nlp/fresh was not looked at yet. Is the operator running?");
}

TEST(Why, OfAServiceTellsOfTheReplicaThatWaits) {
  crds::InferenceService s;
  s.metadata.ns = "nlp";
  s.metadata.name = "chat";
  s.status.desired_replicas = 3;
  s.status.replicas = 3;
  s.status.ready_replicas = 2;
  s.status.allocated = gpu(2);
  s.status.queue.reason = "LimitReached";
  s.status.queue.message = "limit of Project nlp is 2";
  s.status.conditions = {
      {"RolledOut", crds::ConditionStatus::kFalse, 1, kNow, "Waiting", "1 replica lacks room"}};
  EXPECT_EQ(why(s, kNow),
            "nlp/chat has 2 of 3 replicas ready, with 2 GPUs. A replica of it waits: LimitReached. Limit of "
            "Project nlp "
            "is 2. What would help: that other jobs of yours end, or a higher limit. RolledOut is False: "
            "Waiting: 1 "
            "replica lacks room.");
}

TEST(Why, ForProgramsHasTheWaitingItself) {
  const Data data = why_data(waiting("second", 3), kNow);
  EXPECT_EQ(data["kind"], "TrainingJob");
  EXPECT_EQ(data["phase"], "Queued");
  EXPECT_EQ(data["waiting"]["reason"], "InsufficientCapacity");
  EXPECT_EQ(data["waiting"]["position"], 3);
  EXPECT_EQ(data["helps"], "to wait, a smaller gang, or more nodes");
  EXPECT_THAT(data["text"].get<std::string>(), HasSubstr("nlp/second waits since"));
  EXPECT_FALSE(why_data(job("runs", crds::Phase::kRunning), kNow).contains("waiting"));
}

crds::TrainingJob array(crds::Phase phase) {
  auto j = job("sweep", phase);
  j.spec.array = crds::JobArray{.count = 100, .parallelism = 10};
  j.status.allocated = gpu(8);
  auto& a = j.status.array.emplace();
  a.pending = 49;
  a.waiting = 2;
  a.running = 8;
  a.succeeded = 40;
  a.failed = 1;
  a.succeeded_indexes = "0-39";
  a.failed_indexes = "40";
  a.running_indexes = "41-48";
  return j;
}

TEST(Why, OfAnArraySaysWhatItsIndexesAreAt) {
  EXPECT_EQ(why(array(crds::Phase::kRunning), kNow),
            "nlp/sweep is an array of 100 indexes: 8 run with 8 GPUs, 2 wait, 49 have not begun. 40 have "
            "succeeded, 1 "
            "have failed. Failed: 40.");
  auto failed = array(crds::Phase::kFailed);
  failed.status.finished_at = kNow - 5min;
  failed.status.conditions = {
      {"Failed", crds::ConditionStatus::kTrue, 1, kNow, "IndexFailed", "index 40 has failed"}};
  EXPECT_THAT(why(failed, kNow),
              HasSubstr("has failed since 2026-03-04T11:55:00Z (5m). IndexFailed: index 40"));
}

TEST(Why, SaysWhatAProgramHasFoundOutOnce) {
  auto one = job("one", crds::Phase::kSucceeded);
  one.status.result = R"({"loss":"0.5"})";
  EXPECT_THAT(why(one, kNow), HasSubstr(R"(Its result: {"loss":"0.5"}.)"));
  EXPECT_EQ(why_data(one, kNow)["result"], R"({"loss":"0.5"})");
  auto sweep = array(crds::Phase::kRunning);
  sweep.status.array->result_index = 7;
  sweep.status.result = "3";
  EXPECT_THAT(why(sweep, kNow), HasSubstr("The first result is that of index 7: 3."));
  sweep.status.phase = crds::Phase::kSucceeded;
  sweep.status.conditions = {
      {"Complete", crds::ConditionStatus::kTrue, 1, kNow, "ResultFound", "index 7 has a result: 3"}};
  EXPECT_THAT(why(sweep, kNow), HasSubstr("ResultFound: index 7 has a result: 3."));
  EXPECT_THAT(why(sweep, kNow), Not(HasSubstr("The first result")));
}

TEST(Why, OfAnIndexWithoutAJobSaysWhatHasBecomeOfIt) {
  const auto sweep = array(crds::Phase::kRunning);
  EXPECT_EQ(say_index_without_job(sweep, 7), "Index 7 of nlp/sweep has succeeded. Its job is deleted.");
  EXPECT_EQ(say_index_without_job(sweep, 40), "Index 40 of nlp/sweep has failed. Its job is deleted.");
  EXPECT_EQ(say_index_without_job(sweep, 60),
            "Index 60 of nlp/sweep has not begun: 10 indexes run or wait, and spec.array.parallelism is 10.");
  auto ended = sweep;
  ended.status.finished_at = kNow;
  EXPECT_THAT(say_index_without_job(ended, 60), HasSubstr("was not run to its end"));
  EXPECT_EQ(say_index_without_job(sweep, 100), "") << "it has no such index";
  EXPECT_EQ(say_index_without_job(job("plain", crds::Phase::kRunning), 0), "");
}

TEST(Workload, AnIndexIsNamedInBrackets) {
  const auto seven = parse_workload_name("sweep[7]");
  ASSERT_TRUE(seven);
  EXPECT_EQ(seven->name, "sweep");
  EXPECT_EQ(seven->index, 7);
  EXPECT_EQ(parse_workload_name("tj/sweep[0]")->index, 0);
  EXPECT_EQ(parse_workload_name("sweep-7")->index, std::nullopt) << "it may be any job's name";
  for (const char* bad : {"sweep[]", "sweep[x]", "[7]", "sweep]", "isvc/chat[1]", "sweep[1][2]", "sweep[-1]"})
    EXPECT_FALSE(parse_workload_name(bad)) << bad;
}

}  // namespace
}  // namespace muster::plugin
