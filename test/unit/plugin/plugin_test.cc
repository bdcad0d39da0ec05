// What kubectl-muster says of objects. That it finds them is tried on a control plane
// (test/cluster/muster/plugin).
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "nodes.h"
#include "queue.h"
#include "text.h"
#include "tree.h"
#include "why.h"

namespace muster::plugin {
namespace {

using testing::HasSubstr;
using testing::Not;
using namespace std::chrono_literals;

constexpr crds::Time kNow{std::chrono::sys_days{std::chrono::year{2026} / 3 / 4} + 12h};

crds::Amounts gpu(std::int64_t count) {
  crds::Amounts a;
  a.gpu = crds::MilliGpu{count * 1000};
  return a;
}

crds::TrainingJob job(const std::string& name, crds::Phase phase) {
  crds::TrainingJob j;
  j.metadata.ns = "nlp";
  j.metadata.name = name;
  j.metadata.creation_timestamp = kNow - 1h;
  j.status.phase = phase;
  return j;
}

crds::TrainingJob waiting(const std::string& name, std::int32_t position) {
  auto j = job(name, crds::Phase::kQueued);
  j.status.conditions = {
      {"Admitted", crds::ConditionStatus::kFalse, 1, kNow - 5min, "InsufficientCapacity", "m"}};
  j.status.queue.reason = "InsufficientCapacity";
  j.status.queue.message = "needs 24 nvidia.com/gpu in pool a100, 8 free of 32; held by nlp/first (24)";
  j.status.queue.position = position;
  j.status.queue.project_position = 1;
  return j;
}

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

crds::Queue a_queue(const std::string& name, const std::string& parent, std::int64_t quota,
                    std::int64_t held) {
  crds::Queue q;
  q.metadata.name = name;
  q.spec.parent = parent;
  q.spec.quota = gpu(quota);
  q.status.allocated = gpu(held);
  q.status.fair_share = gpu(quota);
  return q;
}
crds::Project a_project(const std::string& name, const std::string& of, std::int64_t quota,
                        std::int64_t held) {
  crds::Project p;
  p.metadata.name = name;
  p.spec.queue = of;
  p.spec.quota = gpu(quota);
  p.status.allocated = gpu(held);
  p.status.borrowed = gpu(std::max<std::int64_t>(0, held - quota));
  return p;
}

TEST(Tree, HasEachLevelBelowItsParent) {
  const auto text = tree({a_queue("company", "", 24, 18), a_queue("research", "company", 16, 18)},
                         {a_project("nlp", "research", 8, 12), a_project("cv", "research", 8, 6)});
  EXPECT_EQ(text,
            "NAME        QUOTA  FAIR SHARE  ALLOCATED  BORROWED  PENDING  RUNNING  WAITING\n"
            "company     24     24          18         0         0        0        0        "
            "[##################------]\n"
            "  research  16     16          18         0         0        0        0        "
            "[################++......]\n"
            "    cv      8      0           6          0         0        0        0        "
            "[######--................]\n"
            "    nlp     8      0           12         4         0        0        0        "
            "[########++++............]\n");
}

TEST(Tree, LosesNobodyWhoseParentIsMissingOrInACircle) {
  const auto text = tree({a_queue("a", "b", 1, 0), a_queue("b", "a", 1, 0), a_queue("lost", "gone", 1, 0)},
                         {a_project("stray", "nowhere", 1, 0), a_project("in-a", "a", 1, 0)});
  EXPECT_THAT(text, HasSubstr("gone (missing)\n  lost "));
  EXPECT_THAT(text, HasSubstr("nowhere (missing)\n  stray "));
  EXPECT_THAT(text, HasSubstr("\na "));
  EXPECT_THAT(text, HasSubstr("\n  b "));
  EXPECT_THAT(text, HasSubstr("\n  in-a "));
  EXPECT_EQ(tree({}, {}), "NAME  QUOTA  FAIR SHARE  ALLOCATED  BORROWED  PENDING  RUNNING  WAITING\n");
}

TEST(Nodes, HaveACellForEachGpu) {
  const auto node = [](const std::string& name, std::int64_t gpus) {
    client::Node n;
    n.meta.name = name;
    n.ready = true;
    n.extended = {{"nvidia.com/gpu", gpus}, {"vendor/nic", 9}};
    return n;
  };
  auto away = node("n2", 2);
  away.ready = false;
  auto cordoned = node("n3", 4);
  cordoned.unschedulable = true;
  const auto gang = [](const std::string& name, std::vector<crds::PodAssignment> pods) {
    auto j = job(name, crds::Phase::kRunning);
    j.status.assignment.pods = std::move(pods);
    return j;
  };
  const auto text = nodes({node("n1", 4), away, cordoned, node("cpu", 0)},
                          {gang("b", {{"worker", 0, "n1", {0, 1}, 0}, {"worker", 1, "n2", {1}, 0}}),
                           gang("a", {{"worker", 0, "n3", {3}, 0}}), gang("c", {{"worker", 0, "n3", {3}, 0}}),
                           gang("gone", {{"worker", 0, "n9", {0}, 0}, {"worker", 1, "n1", {7}, 0}})},
                          {"nvidia.com/gpu"});
  EXPECT_EQ(text,
            "NODE  STATE     GPUS\n"
            "n1    Ready     BB..\n"
            "n2    NotReady  .B\n"
            "n3    Cordoned  ...*\n"
            "\n"
            "A  nlp/a (1)\n"
            "B  nlp/b (3)\n"
            "C  nlp/c (1)\n"
            "D  nlp/gone (2)\n");
  EXPECT_EQ(nodes({node("n1", 1)}, {}, {"nvidia.com/gpu"}), "NODE  STATE  GPUS\nn1    Ready  .\n");
  EXPECT_EQ(nodes({node("n1", 1)}, {}, {}), "");
}

TEST(Queue, IsInTheOrderOfService) {
  auto last = waiting("held", 0);
  last.status.queue.reason = "QueueHeld";
  auto first = waiting("b", 1);
  first.status.queue.estimated_start = kNow + 90s;
  auto other = waiting("elsewhere", 1);
  other.spec.pools = {"zeta"};
  const auto text = queue({last, waiting("a", 2), other, first, job("runs", crds::Phase::kRunning)}, kNow);
  EXPECT_EQ(text,
            "POOL       POSITION  IN PROJECT  NAMESPACE  NAME       REASON                ETA    AGE\n"
            "(default)  1         1           nlp        b          InsufficientCapacity  1m30s  1h\n"
            "(default)  2         1           nlp        a          InsufficientCapacity         1h\n"
            "zeta       1         1           nlp        elsewhere  InsufficientCapacity         1h\n"
            "(default)            1           nlp        held       QueueHeld                    1h\n");
  EXPECT_EQ(queue({}, kNow), "");
}

}  // namespace
}  // namespace muster::plugin
