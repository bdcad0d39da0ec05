// What the commands of kubectl-muster that list something print.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "capacity/nodes.h"
#include "capacity/pools.h"
#include "capacity/tree.h"
#include "objects.h"
#include "output/missing.h"
#include "show/disruptions.h"
#include "show/queue.h"
#include "show/usage.h"

namespace muster::plugin {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string table_of(const Listing& listing) {
  return print(listing, Format::kTable, false);
}
Data items_of(const Listing& listing) {
  return Data::parse(print(listing, Format::kJson, false))["items"];
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

crds::NodePool a_pool(const std::string& name) {
  crds::NodePool pool;
  pool.metadata.name = name;
  return pool;
}

TEST(Tree, HasEachLevelBelowItsParent) {
  auto cv = a_project("cv", "research", 8, 4);
  cv.status.pending = gpu(2);
  const auto text = table_of(*tree({a_queue("company", "", 24, 18), a_queue("research", "company", 16, 18)},
                                   {a_project("nlp", "research", 8, 12), cv}));
  EXPECT_EQ(
      text,
      "NAME        QUOTA  FAIR SHARE  ALLOCATED  BORROWED  PENDING  RUNNING  WAITING\n"
      "company     24     24          18         0         0        0        0        "
      "[##################-----|]\n"
      "  research  16     16          18         0         0        0        0        "
      "[###############|++......]\n"
      "    cv      8      0           4          0         2        0        0        "
      "[####~~--................]\n"
      "    nlp     8      0           12         4         0        0        0        "
      "[########++++............]\n"
      "\nGPUs of the default pool. # used, + borrowed, ~ waited for, - quota that is idle, | fair share.\n");
}

TEST(Tree, TellsOfTheOtherPoolsAndShowsOneOfThem) {
  auto queue = a_queue("research", "", 24, 18);
  queue.spec.pools = {{.name = "h100", .quota = gpu(16), .reserved = {}, .limit = {}, .weight = 3}};
  queue.status.running = 7;
  auto project = a_project("nlp", "research", 8, 12);
  project.status.pools = {{"h100", gpu(12), gpu(4), gpu(8), gpu(16)}, {"l4", gpu(1), {}, {}, {}}};
  queue.status.pools = project.status.pools;
  const auto all = tree({queue}, {project});
  EXPECT_THAT(table_of(*all), HasSubstr("Pool h100: 12 allocated, 8 pending; --pool h100 shows it.\n"
                                        "Pool l4: 1 allocated, 0 pending; --pool l4 shows it.\n"));
  const auto one = tree({queue}, {project}, "h100");
  EXPECT_EQ(table_of(*one),
            "NAME      QUOTA  FAIR SHARE  ALLOCATED  BORROWED  PENDING\n"
            "research  16     16          12         4         8        [##################~~~~~|]\n"
            "  nlp     0      16          12         4         8        [++++++++++++++++++~~~~~|]\n"
            "\nGPUs of pool h100. # used, + borrowed, ~ waited for, - quota that is idle, | fair share.\n"
            "Pool l4: 1 allocated, 0 pending; --pool l4 shows it.\n");
  const auto data = Data::parse(print(*one, Format::kJson, false));
  EXPECT_EQ(data["pool"], "h100");
  EXPECT_EQ(data["items"][0]["weight"], 3);
  EXPECT_FALSE(data["items"][0].contains("running"));
  const auto none = tree({queue}, {project}, "v100");
  ASSERT_FALSE(none);
  EXPECT_THAT(none.error(), HasSubstr("in a pool v100 beside the default pool (they do in h100, l4)"));
}

TEST(Tree, LosesNobodyWhoseParentIsMissingOrInACircle) {
  const auto text =
      table_of(*tree({a_queue("a", "b", 1, 0), a_queue("b", "a", 1, 0), a_queue("lost", "gone", 1, 0)},
                     {a_project("stray", "nowhere", 1, 0), a_project("in-a", "a", 1, 0)}));
  EXPECT_THAT(text, HasSubstr("gone (missing)\n  lost "));
  EXPECT_THAT(text, HasSubstr("nowhere (missing)\n  stray "));
  EXPECT_THAT(text, HasSubstr("\na "));
  EXPECT_THAT(text, HasSubstr("\n  b "));
  EXPECT_THAT(text, HasSubstr("\n  in-a "));
  EXPECT_EQ(table_of(*tree({}, {})), "There are no Queues and no Projects.\n");
}

TEST(Tree, ForProgramsSaysWhoIsBelowWhom) {
  const auto items =
      items_of(*tree({a_queue("research", "company", 16, 18)}, {a_project("nlp", "research", 8, 12)}));
  ASSERT_EQ(items.size(), 3U);
  EXPECT_FALSE(items[0].contains("kind"));  // the Queue that is missing
  EXPECT_EQ(items[1]["name"], "research");
  EXPECT_EQ(items[1]["parent"], "company");
  EXPECT_EQ(items[2]["kind"], "Project");
  EXPECT_EQ(items[2]["borrowed"], "4");
}

TEST(Tree, WideItShowsResourcesKnownByName) {
  auto queue = a_queue("company", "", 8, 4);
  queue.spec.quota.resources = {{"hugepages-2Mi", std::int64_t{1} << 30}, {"rdma/hca", 64}};
  queue.status.allocated.resources = {{"rdma/hca", 24}, {"vendor/nic", 2}};
  EXPECT_THAT(print(*tree({queue}, {}), Format::kWide, false),
              HasSubstr("hugepages-2Mi 0/1Gi, rdma/hca 24/64, vendor/nic 2"));
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
  auto idle = gang("b", {{"worker", 0, "n1", {0, 1}, 0}, {"worker", 1, "n2", {1}, 0}});
  crds::Condition is_idle;
  is_idle.type = "Idle";
  is_idle.status = crds::ConditionStatus::kTrue;
  idle.status.conditions = {is_idle};
  const std::vector<crds::TrainingJob> jobs = {
      idle, gang("a", {{"worker", 0, "n3", {3}, 0}}), gang("c", {{"worker", 0, "n3", {3}, 0}}),
      gang("gone", {{"worker", 0, "n9", {0}, 0}, {"worker", 1, "n1", {7}, 0}})};
  const auto listing =
      nodes(node_uses({node("n1", 4), away, cordoned, node("cpu", 0)}, jobs, {a_pool("default")}));
  EXPECT_EQ(table_of(listing),
            "NODE  STATE     GPUS\n"
            "n1    Ready     BB..\n"
            "n2    NotReady  .B\n"
            "n3    Cordoned  ...*\n"
            "\n"
            "A  nlp/a (1)\n"
            "B  nlp/b (3, idle)\n"
            "C  nlp/c (1)\n");
  const auto items = items_of(listing);
  EXPECT_EQ(items[2]["gpus"], Data::parse(R"([[], [], [], ["nlp/a", "nlp/c"]])"));
  EXPECT_EQ(items[0]["free"], 2);
  EXPECT_EQ(items[0]["idle"], 2);
  EXPECT_EQ(items[2]["idle"], 0);
  EXPECT_EQ(table_of(nodes(node_uses({node("n1", 1)}, {}, {a_pool("default")}))),
            "NODE  STATE  GPUS\nn1    Ready  .\n");
  EXPECT_TRUE(node_uses({node("n1", 1)}, {}, {}).empty());
}

TEST(Nodes, ShowWhatFailsAndWhatPodsOfOthersHave) {
  client::Node node;
  node.meta.name = "n1";
  node.ready = true;
  node.extended = {{"nvidia.com/gpu", 6}};
  node.annotations = {{"muster.dev/gpu-unhealthy", "1,9"}};
  auto pool = a_pool("default");
  pool.status.failing_gpus = {{"n1", {5}}, {"gone", {0}}};
  auto j = job("a", crds::Phase::kRunning);
  j.status.assignment.pods = {{"worker", 0, "n1", {0, 1}, 0}};
  const auto other = [](const std::string& on, client::PodPhase phase) {
    client::Pod pod;
    pod.node_name = on;
    pod.phase = phase;
    pod.extended = {{"nvidia.com/gpu", 2}, {"vendor/nic", 1}};
    return pod;
  };
  const auto listing =
      nodes(node_uses({node}, {j}, {pool},
                      {other("n1", client::PodPhase::kRunning), other("n1", client::PodPhase::kFailed),
                       other("", client::PodPhase::kPending)}));
  EXPECT_EQ(table_of(listing),
            "NODE  STATE  GPUS\n"
            "n1    Ready  A!++.!\n"
            "\n"
            "A  nlp/a (2)\n"
            "+  pods that are not Muster's (2)\n"
            "!  failing (2)\n");
  const auto items = items_of(listing);
  EXPECT_EQ(items[0]["free"], 1);
  EXPECT_EQ(items[0]["others"], 2);
  EXPECT_EQ(items[0]["failing"], Data::parse("[1, 5]"));
}

TEST(Nodes, HaveQuestionMarksWhereThereAreMoreJobsThanLetters) {
  NodeUse node{"n1", "Ready", "", {}};
  for (int i = 0; i < 63; ++i) node.gpus.push_back({"j" + std::to_string(100 + i)});
  const std::string text = table_of(nodes({node}));
  EXPECT_THAT(text, HasSubstr("XYZabc"));
  EXPECT_THAT(text, HasSubstr("9?\n"));
  EXPECT_THAT(text, HasSubstr("\n?  j162 (1)\n"));
}

TEST(Queue, IsInTheOrderOfService) {
  auto last = waiting("held", 0);
  last.status.queue.reason = "QueueHeld";
  auto first = waiting("b", 1);
  first.status.queue.estimated_start = kNow + 90s;
  auto other = waiting("elsewhere", 1);
  other.spec.pools = {"zeta"};
  const auto listing = queue({last, waiting("a", 2), other, first, job("runs", crds::Phase::kRunning)}, kNow);
  EXPECT_EQ(table_of(listing),
            "POOL       POSITION  IN PROJECT  NAMESPACE  NAME       REASON                ETA    AGE\n"
            "(default)  1         1           nlp        b          InsufficientCapacity  1m30s  1h\n"
            "(default)  2         1           nlp        a          InsufficientCapacity         1h\n"
            "zeta       1         1           nlp        elsewhere  InsufficientCapacity         1h\n"
            "(default)            1           nlp        held       QueueHeld                    1h\n");
  EXPECT_THAT(print(listing, Format::kWide, false), HasSubstr("needs 24 nvidia.com/gpu"));
  const auto items = items_of(listing);
  EXPECT_EQ(items[0]["estimatedStart"], "2026-03-04T12:01:30Z");
  EXPECT_FALSE(items[3].contains("position"));
  EXPECT_TRUE(queue({}, kNow).rows.empty());
}

TEST(Pools, HaveTheSumsOfTheirNodes) {
  crds::NodePool pool;
  pool.metadata.name = "a100";
  pool.status.nodes = 4;
  pool.status.capacity = gpu(32);
  pool.status.free = gpu(8);
  pool.status.largest_gang = crds::MilliGpu{6000};
  EXPECT_EQ(table_of(pools({pool})),
            "POOL  NODES  GPUS  USED  FREE  LARGEST GANG\n"
            "a100  4      32    24    8     6             [##################......]\n");
}

crds::Usage hours(std::int64_t held, std::int64_t lost) {
  crds::Usage usage;
  usage.gpu_seconds = held * 3600;
  usage.lost = lost * 3600;
  return usage;
}

crds::Project used_project(const std::string& name) {
  crds::Project p = a_project(name, "research", 8, 0);
  auto& u = p.status.usage;
  u.until = kNow - 2min;
  u.total = hours(1000, 500);
  u.last_30_days = hours(100, 10);
  u.last_30_days.starting = 5 * 3600;
  u.last_30_days.saving = 1800;
  u.last_30_days.idle = 4 * 3600;
  u.last_7_days = hours(10, 0);
  const std::vector<crds::UsagePart> models = {{"A100-80GB", 10800, crds::MilliCost{7505}, 2100}};
  u.days = {{"2026-03-04", hours(3, 0), {{"ann", 7200}, {"bob", 3600}}, {{"a100", 10800}}, models},
            {"2026-02-26", hours(7, 0), {{"bob", 25200}}, {{"a100", 25200}}, {}},
            {"2026-02-25", hours(90, 0), {{"ann", 324000}}, {{"h100", 324000}}, {}}};
  return p;
}

TEST(Usage, OfAProjectHasItsPartsAndTheTimeUntilWhichItIsCounted) {
  const auto listing = usage(usage_by_project({used_project("nlp")}, Since::kMonth), "PROJECT", kNow);
  EXPECT_EQ(table_of(listing),
            "PROJECT  GPU-HOURS  USEFUL  STARTING  SAVING  IDLE  LOST\n"
            "nlp      100.0      80%     5.0       0.5     4.0   10.0\n"
            "\nGPU-hours, until 2026-03-04T11:58:00Z (2m ago).\n");
  const auto data = Data::parse(print(listing, Format::kJson, false));
  EXPECT_EQ(data["until"], "2026-03-04T11:58:00Z");
  EXPECT_EQ(data["items"][0]["savingHours"], 0.5);
  EXPECT_EQ(data["items"][0]["usefulPercent"], 80);
  EXPECT_THAT(print(listing, Format::kCsv, false),
              HasSubstr("project,gpuHours,usefulPercent,startingHours,savingHours,idleHours,lostHours"));
}

TEST(Usage, GoesBackAsFarAsAsked) {
  const auto held = [](Since since) {
    return usage_by_project({used_project("nlp")}, since).front().used.gpu_seconds / 3600;
  };
  EXPECT_EQ(held(Since::kDay), 3);
  EXPECT_EQ(held(Since::kWeek), 10);
  EXPECT_EQ(held(Since::kMonth), 100);
  EXPECT_EQ(held(Since::kAll), 1000);
  auto idle_today = used_project("nlp");
  idle_today.status.usage.days.erase(idle_today.status.usage.days.begin());
  EXPECT_EQ(usage_by_project({idle_today}, Since::kDay).front().used.gpu_seconds, 0);
}

TEST(Usage, OfUsersAndPoolsIsSummedOverProjects) {
  const std::vector<crds::Project> projects = {used_project("nlp"), used_project("cv")};
  const auto week = usage_by_user(projects, Since::kWeek);
  ASSERT_EQ(week.size(), 2U);
  EXPECT_EQ(week[0].name, "bob");  // seven days: the 26th counts, the 25th does not
  EXPECT_EQ(week[0].used.gpu_seconds, 2 * 28800);
  EXPECT_EQ(week[1].used.gpu_seconds, 2 * 7200);
  EXPECT_THAT(table_of(usage(week, "USER", kNow)),
              HasSubstr("bob   16.0       100%    0.0       0.0     0.0   0.0\n"));
  const auto month = usage_by_pool(projects, Since::kMonth);
  EXPECT_EQ(month[0].name, "h100");
  EXPECT_EQ(month[1].used.gpu_seconds, 2 * 36000);
}

TEST(Usage, OfUsersSaysWhatTheirGpusDid) {
  auto nlp = used_project("nlp"), cv = used_project("cv");
  for (auto* project : {&nlp, &cv}) {
    auto& bob = project->status.usage.days.front().users;
    bob = {{"bob", 36000, std::nullopt, 0, 1800, 360, 7200, 3600}};
  }
  const auto items = items_of(usage(usage_by_user({nlp, cv}, Since::kDay), "USER", kNow));
  ASSERT_EQ(items.size(), 1U);
  EXPECT_EQ(items[0]["startingHours"], 1.0);
  EXPECT_EQ(items[0]["savingHours"], 0.2);
  EXPECT_EQ(items[0]["idleHours"], 4.0);
  EXPECT_EQ(items[0]["lostHours"], 2.0);
  EXPECT_EQ(items[0]["usefulPercent"], 64);
  EXPECT_FALSE(items[0].contains("cpuHours"));
}

TEST(Usage, OfPoolsSaysWhatNobodyHeld) {
  auto pool = a_pool("h100");
  auto idle = a_pool("zeta");
  for (auto* one : {&pool, &idle}) {
    one->status.usage.until = kNow;
    one->status.usage.days = {{"2026-03-04", 90000, 7200}, {"2026-02-01", 9000, 9000}};
  }
  const auto listing = usage(usage_by_pool({used_project("nlp")}, Since::kMonth, {pool, idle}), "POOL", kNow);
  EXPECT_THAT(table_of(listing), HasSubstr("UNALLOCATED"));
  const auto items = items_of(listing);
  for (const auto& item : items) {
    if (item["pool"] != "h100" && item["pool"] != "zeta") continue;
    EXPECT_EQ(item["unallocatedHours"], 2.0) << "not what is older than a month";
    if (item["pool"] == "zeta") EXPECT_EQ(item["gpuHours"], 0.0) << "nobody used it";
  }
  EXPECT_EQ(items.back()["pool"], "zeta");
}

TEST(Usage, CostAndEnergyAreThereWhereSomePoolTellsThem) {
  const std::vector<crds::Project> projects = {used_project("nlp"), used_project("cv")};
  const auto listing = usage(usage_by_model(projects, Since::kWeek), "MODEL", kNow);
  EXPECT_EQ(table_of(listing),
            "MODEL      GPU-HOURS  USEFUL  STARTING  SAVING  IDLE  LOST  COST   KWH\n"
            "A100-80GB  6.0        100%    0.0       0.0     0.0   0.0   15.01  4.2\n"
            "\nGPU-hours, until 2026-03-04T11:58:00Z (2m ago).\n");
  EXPECT_EQ(items_of(listing)[0]["cost"], 15.01);
  EXPECT_EQ(items_of(listing)[0]["kilowattHours"], 4.2);
}

TEST(Usage, OfAJobIsWhatItRanBeforeAndWhatItHoldsNow) {
  auto j = job("first", crds::Phase::kRunning);
  j.spec.roles.resize(1);
  j.status.allocated = gpu(4);
  j.status.assignment.attempt = 2;
  j.status.assignment.admitted_at = kNow - 2h;
  j.status.assignment.resized_at = kNow - 1h;
  j.status.disruption.ran = 6 * 3600;
  j.status.disruption.lost_owed = 1800;
  j.status.disruption.lost_optional = 1800;
  auto without = job("cpus", crds::Phase::kRunning);
  without.status.disruption.ran = 100'000;  // CPU-seconds
  EXPECT_EQ(table_of(usage(usage_by_job({without, j}, kNow), "JOB", kNow)),
            "JOB        GPU-HOURS  USEFUL  STARTING  SAVING  IDLE  LOST\n"
            "nlp/first  10.0       90%                             1.0\n"
            "\nGPU-hours, until 2026-03-04T12:00:00Z (0s ago).\n");
}

TEST(Usage, SaysWhenNothingIsCounted) {
  EXPECT_EQ(table_of(usage({}, "PROJECT", kNow)), "Nothing is counted yet.\n");
  EXPECT_THAT(table_of(usage(usage_by_project({a_project("new", "q", 1, 0)}, Since::kDay), "PROJECT", kNow)),
              HasSubstr("\nNothing is counted yet.\n"));
}

TEST(Disruptions, AreNewestFirst) {
  auto a = job("a", crds::Phase::kRunning), b = job("b", crds::Phase::kQueued);
  a.status.disruptions = {
      {kNow - 1min, "Reclaimed", "for nlp/x, which has a right to it", crds::MilliGpu{4000}, 130, true},
      {kNow - 2h, "Consolidated", "m", crds::MilliGpu{500}, 0, false}};
  b.status.disruptions = {{kNow - 1h, "Preempted", "n", crds::MilliGpu{8000}, 7200, true}};
  const auto listing = disruptions(taken_from({a, b}, {}), kNow);
  EXPECT_THAT(table_of(listing), HasSubstr("2026-03-04T11:59:00Z  1m   nlp        a    Reclaimed     4       "
                                           "    2m10s  yes   for nlp/x, which"));
  const auto items = items_of(listing);
  ASSERT_EQ(items.size(), 3U);
  EXPECT_EQ(items[1]["job"], "b");
  EXPECT_EQ(items[1]["costSeconds"], 7200);
  EXPECT_EQ(items[2]["owed"], false);
  EXPECT_EQ(items[2]["gave"], "500m");
  EXPECT_FALSE(items[0].contains(""));
  EXPECT_EQ(items[0]["gone"], false);
}

// Of a job that is gone, of an older one of that name, and of one that remembers only its latest.
TEST(Disruptions, OutliveTheirJobs) {
  auto there = job("there", crds::Phase::kRunning);
  there.metadata.creation_timestamp = kNow - 2h;
  there.status.disruptions = {{kNow - 1min, "Reclaimed", "m", crds::MilliGpu{4000}, 130, true}};
  const auto kept = [](const std::string& name, std::chrono::seconds ago) {
    return Taken{"nlp", {name, "ann", {kNow - ago, "Reclaimed", "m", crds::MilliGpu{4000}, 7, true}}};
  };
  const auto taken =
      taken_from({there}, {kept("there", 1min), kept("there", 1h), kept("there", 3h), kept("gone", 26h)});
  const auto items = items_of(disruptions(taken, kNow));
  ASSERT_EQ(items.size(), 4U);
  EXPECT_EQ(items[0]["costSeconds"], 130) << "the job's own status knows best";
  EXPECT_EQ(items[1]["gone"], false);
  EXPECT_EQ(items[2]["gone"], true) << "another job had this name";
  EXPECT_EQ(items[3]["job"], "gone");
  EXPECT_EQ(items[3]["user"], "ann");
  EXPECT_THAT(table_of(disruptions(taken, kNow)), HasSubstr("gone (gone)"));
}

TEST(Disruptions, AreOfAllProjectsBelowAQueue) {
  const std::vector<crds::Queue> queues = {a_queue("company", "", 8, 0), a_queue("research", "company", 8, 0),
                                           a_queue("other", "", 8, 0)};
  const std::vector<crds::Project> projects = {
      a_project("nlp", "research", 1, 0), a_project("cv", "company", 1, 0), a_project("x", "other", 1, 0)};
  const auto below = projects_below("company", queues, projects);
  ASSERT_TRUE(below);
  ASSERT_EQ(below->size(), 2U);
  EXPECT_EQ((*below)[0].metadata.name, "cv");
  EXPECT_EQ((*below)[1].metadata.name, "nlp");
  EXPECT_FALSE(projects_below("nobody", queues, projects));
}

// Whoever may read one namespace is told what it has.
TEST(OwnNamespace, HasALineInPlaceOfTheTree) {
  auto runs = job("runs", crds::Phase::kRunning), waits = waiting("waits", 1);
  runs.status.assignment.attempt = 1;
  runs.status.assignment.pool = "a100";
  runs.status.allocated = gpu(4);
  auto& role = waits.spec.roles.emplace_back();
  role.replicas = 2;
  role.gpus = crds::Gpus{.count = 3};
  const auto text = table_of(tree_of_namespace("nlp", {runs, waits}, ""));
  EXPECT_EQ(text,
            "NAMESPACE  ALLOCATED  PENDING  RUNNING  WAITING\n"
            "nlp        4          6        1        1\n");
  EXPECT_THAT(table_of(tree_of_namespace("nlp", {runs, waits}, "a100")),
              HasSubstr("nlp        4          0"));
}

TEST(OwnNamespace, ShowsItsGpusAndNotWhatOthersHave) {
  auto runs = job("runs", crds::Phase::kRunning);
  runs.status.assignment.attempt = 1;
  runs.status.assignment.pool = "a100";
  runs.status.assignment.pods = {{"worker", 0, "n1", {1, 3}}};
  const auto uses = node_uses_of({runs});
  ASSERT_EQ(uses.size(), 1U);
  auto listing = nodes(uses);
  note_missing(listing, "You may not list nodes.");
  EXPECT_THAT(table_of(listing), HasSubstr("_A_A\n"));
  EXPECT_THAT(table_of(listing), HasSubstr("\nYou may not list nodes.\n"));
  EXPECT_EQ(Data::parse(print(listing, Format::kJson, false))["missing"][0], "You may not list nodes.");
}

}  // namespace
}  // namespace muster::plugin
