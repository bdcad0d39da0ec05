// What the sharing benchmark makes up, and judges by.
#include <gmock/gmock.h>

#include <cmath>
#include <functional>
#include <numeric>

#include "replay/metrics.h"
#include "sharing/figures.h"

namespace muster::bench {
namespace {

using nlohmann::json;

// --- days

TEST(RandomDay, IsTheSameForTheSameSeed) {
  const DayOptions options{.hours = 3, .load = 1.2, .seed = 7};
  const Day a = random_day(options), b = random_day(options);
  for (const Sharing policy : {Sharing::kMuster, Sharing::kFifo})
    EXPECT_EQ(simulation_input(a, policy), simulation_input(b, policy));
  EXPECT_NE(simulation_input(a, Sharing::kMuster),
            simulation_input(random_day({.hours = 3, .seed = 8}), Sharing::kMuster));
}

TEST(RandomDay, AsksForItsLoad) {
  for (const double load : {0.9, 1.6}) {
    const Day day = random_day({.gpus = 256, .hours = 24, .load = load, .seed = 3});
    double asked = 0;
    for (const DayJob& job : day.jobs) asked += static_cast<double>(job.full() * job.runs);
    const double capacity = 256.0 * 24 * 3600;
    EXPECT_GE(asked, load * capacity);
    EXPECT_LT(asked, load * capacity + 64 * 12 * 3600);  // the last job goes beyond it
  }
}

TEST(RandomDay, HasAllKindsOfJobs) {
  const Day day = random_day({.gpus = 1024, .hours = 24, .load = 1.2, .seed = 1});
  EXPECT_EQ(day.gpus(), 1024);
  std::int64_t quotas = 0;
  for (const DayProject& p : day.projects) quotas += p.quota;
  EXPECT_EQ(quotas, 1024);
  const auto part = [&](const std::function<bool(const DayJob&)>& is) {
    return static_cast<double>(std::ranges::count_if(day.jobs, is)) / static_cast<double>(day.jobs.size());
  };
  EXPECT_NEAR(part([](const DayJob& j) { return !j.saves_when_asked; }), 0.4, 0.05);
  EXPECT_NEAR(part([](const DayJob& j) { return j.is_interactive; }), 0.08, 0.03);
  EXPECT_NEAR(part([](const DayJob& j) { return j.resizing == Resizing::kInPlace; }), 0.07, 0.03);
  EXPECT_NEAR(part([](const DayJob& j) { return j.resizing == Resizing::kRestart; }), 0.04, 0.02);
  EXPECT_NEAR(part([](const DayJob& j) { return j.priority_class == "batch-low"; }), 0.2 * 0.92, 0.05);
  EXPECT_GT(part([](const DayJob& j) { return j.full() == 64; }), 0);
  EXPECT_TRUE(std::ranges::is_sorted(day.jobs, {}, &DayJob::arrives));
  for (const DayJob& job : day.jobs) {
    EXPECT_LT(job.arrives, day.window);
    EXPECT_GT(job.runs, 0);
    EXPECT_LE(job.least_pods, job.pods);
  }
}

TEST(RandomDay, SaysWhatItCannotMake) {
  EXPECT_THROW(random_day({.gpus = 100}), std::runtime_error);
  EXPECT_THROW(random_day({.gpus = 32}), std::runtime_error);
}

// --- a small day, and what may come of it

// n0 of 4 GPUs; projects a and b with a quota of 2 each; a window of 1000 s.
Day small_day(std::vector<DayJob> jobs) {
  Day day;
  day.window = 1000;
  day.nodes = {TraceNode{"n0", "H100", 1000, 1000, 4}};
  day.projects = {DayProject{"a", 2}, DayProject{"b", 2}};
  day.jobs = std::move(jobs);
  return day;
}
DayJob small_job(const std::string& name, std::size_t project, std::int64_t arrives, std::int32_t pods = 1) {
  DayJob job;
  job.name = name;
  job.project = project;
  job.pods = job.least_pods = pods;
  job.arrives = arrives;
  job.runs = 100;
  return job;
}

json place(const std::vector<int>& gpus, const char* node = "n0") {
  json pods = json::array();
  for (const int gpu : gpus)
    pods.push_back({{"role", "worker"}, {"index", 0}, {"node", node}, {"gpus", {gpu}}});
  return pods;
}
json event(int at, const char* type, const std::string& object, json pods = json::array(),
           const std::string& beneficiary = "", const std::string& reason = "") {
  return {{"at", std::to_string(at) + "s"},
          {"type", type},
          {"object", object},
          {"reason", reason},
          {"for", beneficiary},
          {"pods", std::move(pods)}};
}
struct Told {
  std::string name;
  int useful = 0, starting = 0, waited = 0;
};
json report(std::vector<json> events, int allocated, const std::vector<Told>& jobs) {
  const auto lost = [](int starting) {
    return json{{"work", 0}, {"stopping", 0}, {"starting", starting}, {"restarting", 0}, {"resizing", 0}};
  };
  int useful = 0, starting = 0;
  json list = json::array();
  for (const Told& job : jobs) {
    useful += job.useful;
    starting += job.starting;
    list.push_back({{"name", job.name},
                    {"attempt", 1},
                    {"gpuSecondsUseful", job.useful},
                    {"gpuSecondsLost", lost(job.starting)},
                    {"waitedSeconds", job.waited}});
  }
  return {{"events", std::move(events)},
          {"jobs", list},
          {"metrics",
           {{"gpuSecondsCapacity", 4000},
            {"gpuSecondsAllocated", allocated},
            {"gpuSecondsUseful", useful},
            {"gpuSecondsLost", lost(starting)}}}};
}

TEST(DayOutcome, CountsWaitsByClassAndWhatIdles) {
  auto notebook = small_job("notebook", 1, 0);
  notebook.is_interactive = true;
  // x is within a's quota of 2, y is not.
  const Day day = small_day({small_job("x", 0, 0, 2), notebook, small_job("y", 0, 10, 2)});
  const json told =
      report({event(0, "Admitted", "a/x", place({0, 1})), event(0, "Admitted", "b/notebook", place({2})),
              event(10, "Waiting", "a/y", json::array(), "", "InsufficientCapacity"),
              event(280, "Finished", "a/x"), event(280, "Finished", "b/notebook"),
              event(290, "Admitted", "a/y", place({0, 1})), event(570, "Finished", "a/y")},
             2 * 280 + 280 + 2 * 280, {{"x", 200, 360, 0}, {"notebook", 100, 180, 0}, {"y", 200, 360, 280}});
  const DayOutcome out = day_outcome(told, day, Sharing::kMuster);
  EXPECT_THAT(out.violations, testing::ElementsAre());
  EXPECT_THAT(out.waits.entitled, testing::ElementsAre(0));
  EXPECT_THAT(out.waits.interactive, testing::ElementsAre(0));
  EXPECT_THAT(out.waits.beyond_quota, testing::ElementsAre(280));
  EXPECT_THAT(out.waits.beyond_grace, testing::ElementsAre(0, 0));
  // One GPU is too few for y until 280 s; then it would fit for 10 s.
  EXPECT_EQ(out.idle[static_cast<std::size_t>(IdleCause::kGangs)], 270);
  EXPECT_EQ(out.idle[static_cast<std::size_t>(IdleCause::kUndecided)], 20);
  EXPECT_THAT(out.useful_of, testing::ElementsAre(200 + 360 + 200 + 360, 280));
}

// It has waited for 100 s, 20 of them for its victim to save.
TEST(DayOutcome, WhatVictimsNeedIsNotTheClaimantsWait) {
  const Day day = small_day({small_job("v", 0, 0, 4), small_job("c", 1, 50, 2)});
  const json told =
      report({event(0, "Admitted", "a/v", place({0, 1, 2, 3})),
              event(130, "Evicted", "a/v", json::array(), "b/c", "Reclaimed"), event(150, "Released", "a/v"),
              event(150, "Admitted", "b/c", place({0, 1})), event(430, "Finished", "b/c")},
             600 + 560, {{"v", 600, 0, 0}, {"c", 200, 360, 100}});
  const DayOutcome out = day_outcome(told, day, Sharing::kMuster);
  EXPECT_THAT(out.violations, testing::ElementsAre());
  EXPECT_THAT(out.waits.entitled, testing::ElementsAre(100));
  EXPECT_THAT(out.waits.beyond_grace, testing::ElementsAre(80));
  EXPECT_EQ(out.preemptions, 1U);
}

// low is within a's quota of 2 until high comes, which goes first; then it is not.
TEST(DayOutcome, WhoIsEntitledDependsOnPriorities) {
  auto high = small_job("high", 0, 20, 2);
  high.priority = 60;
  const Day day = small_day({small_job("w", 1, 0, 4), small_job("low", 0, 10, 2), high});
  const json told = report({event(0, "Admitted", "b/w", place({0, 1, 2, 3}))}, 4000,
                           {{"w", 4000, 0, 0}, {"low", 0, 0, 990}, {"high", 0, 0, 980}});
  const DayOutcome out = day_outcome(told, day, Sharing::kMuster);
  EXPECT_THAT(out.violations, testing::ElementsAre());
  EXPECT_THAT(out.waits.entitled, testing::ElementsAre(980));
  EXPECT_THAT(out.waits.beyond_quota, testing::ElementsAre(0, 990));
}

TEST(DayOutcome, SaysWhatIsBroken) {
  const auto broken = [](const Day& day, std::vector<json> events, Sharing policy = Sharing::kMuster) {
    std::string all;
    for (const auto& line : day_outcome(report(std::move(events), 0, {}), day, policy).violations)
      all += line + "\n";
    return all;
  };
  const Day day = small_day({small_job("x", 0, 0, 2), small_job("y", 1, 5, 2)});
  const auto x = event(5, "Admitted", "a/x", place({0, 1}));
  using testing::HasSubstr;
  EXPECT_THAT(broken(day, {x, event(5, "Admitted", "b/y", place({1, 2}))}),
              HasSubstr("at 5s: a GPU is given twice, to y"));
  EXPECT_THAT(broken(day, {event(5, "Admitted", "a/x", place({0}))}), HasSubstr("x has 1 pods"));
  EXPECT_THAT(broken(day, {event(5, "Admitted", "a/x", place({0, 4}))}),
              HasSubstr("x has a GPU that there is not"));
  EXPECT_THAT(broken(day, {event(0, "Admitted", "b/y", place({0, 1}))}),
              HasSubstr("y starts before it is submitted"));
  EXPECT_THAT(broken(day, {x, x}), HasSubstr("x starts while it still has a place"));
  EXPECT_THAT(broken(day, {x, event(6, "Evicted", "a/x")}), HasSubstr("x has to give way for nobody"));
  EXPECT_THAT(broken(day, {x, event(6, "Shrunk", "a/x", place({0}), "b/y")}),
              HasSubstr("x is resized and not elastic"));
  EXPECT_THAT(broken(day, {event(6, "Moved", "a/x", place({0, 1}), "b/y")}),
              HasSubstr("x is asked to go and does not run"));
  EXPECT_THAT(broken(day, {x}), HasSubstr("gpuSecondsAllocated is 0"));
  const Day large = small_day({small_job("x", 0, 0, 4)});
  const auto all = event(0, "Admitted", "a/x", place({0, 1, 2, 3}));
  EXPECT_THAT(broken(large, {all}, Sharing::kStaticQuotas), HasSubstr("a is above its limit"));
  Day firm = large;
  firm.jobs[0].is_interactive = true;
  EXPECT_THAT(broken(firm, {all}), HasSubstr("a is above its quota with jobs that are not preemptible"));
  EXPECT_THAT(broken(firm, {all, event(9, "Evicted", "a/x", json::array(), "b/y")}),
              HasSubstr("x is not preemptible and has to give way"));
}

// Pods that a gang has given up hold their GPUs while they save: 20 s.
TEST(DayOutcome, WhatLeavesAfterAShrinkIsFreeWhenItHasSaved) {
  auto elastic = small_job("e", 0, 0, 4);
  elastic.least_pods = 1;
  elastic.resizing = Resizing::kInPlace;
  const Day day = small_day({elastic, small_job("w", 1, 100, 4)});
  const json told = report({event(0, "Admitted", "a/e", place({0, 1, 2, 3})),
                            event(200, "Shrunk", "a/e", place({0, 1}), "b/w", "Reclaimed")},
                           800 + 2 * 800 + 2 * 20, {{"e", 2440, 0, 0}, {"w", 0, 0, 900}});
  const DayOutcome out = day_outcome(told, day, Sharing::kMuster);
  EXPECT_THAT(out.violations, testing::ElementsAre());
  EXPECT_EQ(out.idle[static_cast<std::size_t>(IdleCause::kGrowth)], 2 * 780);
  EXPECT_EQ(out.not_started, 1U);
}

// A resize that restarts it has taken GPUs 2 and 3, and its former pods save for 20 s on 0 and 1. Evicted
// after 10 s, it has no pods on 2 and 3 to wait for.
TEST(DayOutcome, WhereNoPodWasMadeYetNobodyHasToLeave) {
  auto elastic = small_job("e", 0, 0, 4);
  elastic.least_pods = 2;
  elastic.resizing = Resizing::kRestart;
  const Day day = small_day({elastic, small_job("w", 1, 200, 2)});
  const json told =
      report({event(0, "Admitted", "a/e", place({0, 1})), event(200, "Grown", "a/e", place({0, 1, 2, 3})),
              event(210, "Evicted", "a/e", json::array(), "b/w", "Reclaimed"),
              event(210, "Admitted", "b/w", place({2, 3})), event(220, "Released", "a/e")},
             2 * 220 + 2 * 10 + 2 * 790, {{"e", 460, 0, 0}, {"w", 1580, 0, 10}});
  EXPECT_THAT(day_outcome(told, day, Sharing::kMuster).violations, testing::ElementsAre());
}

// --- figures

TEST(IdleRoom, EachGpuHasOneCause) {
  const auto of = [](IdleCause cause, const IdleRoom& room) { return room[static_cast<std::size_t>(cause)]; };
  // Two nodes with 2 free GPUs, one with 3: 7.
  const std::vector<std::int64_t> nodes = {0, 0, 2, 1};
  const IdleRoom some = idle_room(nodes, {{{1, 2, "QuotaExceeded"}, 1}, {{2, 3, ""}, 1}, {{9, 1, ""}, 2}}, 5);
  EXPECT_EQ(of(IdleCause::kLimits, some), 2);
  EXPECT_EQ(of(IdleCause::kFragments, some), 5);  // it asks for 6
  EXPECT_EQ(of(IdleCause::kGangs, some), 0);
  EXPECT_EQ(of(IdleCause::kGrowth, some), 0);
  const IdleRoom beside_a_gang = idle_room(nodes, {{{8, 1, ""}, 1}}, 3);
  EXPECT_EQ(of(IdleCause::kGrowth, beside_a_gang), 3);
  EXPECT_EQ(of(IdleCause::kGangs, beside_a_gang), 4);
  const IdleRoom growth = idle_room(nodes, {}, 5);
  EXPECT_EQ(of(IdleCause::kGrowth, growth), 5);
  EXPECT_EQ(std::accumulate(growth.begin(), growth.end(), 0.0), 5);
  const IdleRoom full = idle_room({3, 0, 0}, {{{1, 1, ""}, 9}}, 9);
  EXPECT_EQ(std::accumulate(full.begin(), full.end(), 0.0), 0);
}

// Both jobs start when they arrive; the second has 400 of its 460 s in the window.
TEST(DayFigures, TheBoundKnowsThatEveryJobStartsOnce) {
  auto late = small_job("late", 1, 600, 1);
  late.runs = 280;
  const Day day = small_day({small_job("x", 0, 0, 2), late});
  EXPECT_DOUBLE_EQ(day_bound(day), 2 * (kStartSeconds + 100) + 400);
}

TEST(DayFigures, AreMeansOverDays) {
  const auto row = [](std::string name, double value) {
    return Row{std::move(name), value, "s", std::nullopt};
  };
  const auto mean = mean_of({{row("a", 1), row("b, largest", 7)},
                             {row("a", 3), row("b, largest", 2)},
                             {row("a", std::nan("")), row("b, largest", 3)}});
  EXPECT_EQ(mean[0].value, 2);
  EXPECT_EQ(mean[1].value, 7);
}

}  // namespace
}  // namespace muster::bench
