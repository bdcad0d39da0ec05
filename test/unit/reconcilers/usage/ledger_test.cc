// Accounts of time: by day, across restarts, and up the tree of Queues.
#include "muster/reconcilers/usage/ledger.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <limits>
#include <string>

namespace muster::reconcilers {
namespace {

using std::chrono::days;
using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::Field;
using ::testing::IsEmpty;
using ::testing::SizeIs;

constexpr crds::Time kNoon{std::chrono::sys_days{std::chrono::year{2026} / 1 / 31} + hours{12}};

Held gpus(Doing doing, std::int64_t count) {
  Held held;
  held.gpus(doing) = count * 1000;
  return held;
}

// --- one account

TEST(Account, ADayEndsAtMidnightUtc) {
  Account account{crds::UsageStatus{}};
  account.count({"ann", "a100", ""}, gpus(Doing::kRunning, 2), {}, kNoon + hours{11}, kNoon + hours{13});
  const auto status = account.status(kNoon + hours{13});
  ASSERT_THAT(status.days, SizeIs(2));
  EXPECT_EQ(status.days[0].date, "2026-02-01");
  EXPECT_EQ(status.days[0].sum.gpu_seconds, 7200);
  EXPECT_EQ(status.days[1].date, "2026-01-31");
  EXPECT_EQ(status.days[1].sum.gpu_seconds, 7200);
  EXPECT_THAT(status.days[1].users, ElementsAre(crds::UsagePart{"ann", 7200}));
  EXPECT_THAT(status.days[1].pools, ElementsAre(crds::UsagePart{"a100", 7200}));
  EXPECT_EQ(status.total.gpu_seconds, 14400);
  EXPECT_EQ(status.last_7_days.gpu_seconds, 14400);
  EXPECT_EQ(status.until, kNoon + hours{13});
}

TEST(Account, WhatItDoesIsKeptApart) {
  Account account{crds::UsageStatus{}};
  Held held = gpus(Doing::kStarting, 1);
  held.gpus(Doing::kSaving) = 500;
  held.gpus(Doing::kIdle) = 2000;
  held.milli_cpus = 1500;
  held.memory_mib = 512;
  account.count({"", "", ""}, held, {}, kNoon, kNoon + seconds{10});
  account.lose({}, 7, kNoon);
  const auto total = account.status(kNoon + seconds{10}).total;
  EXPECT_EQ(total, (crds::Usage{.gpu_seconds = 35,
                                .starting = 10,
                                .saving = 5,
                                .idle = 20,
                                .lost = 7,
                                .cpu_seconds = 15,
                                .memory_gib_seconds = 5}));
}

TEST(Account, EachPartSaysWhatItDidAcrossRestarts) {
  Account first{crds::UsageStatus{}};
  Held held = gpus(Doing::kStarting, 1);
  held.gpus(Doing::kSaving) = 2000;
  held.gpus(Doing::kIdle) = 3000;
  held.gpus(Doing::kRunning) = 4000;
  first.count({"ann", "a100", "A100"}, held, {}, kNoon, kNoon + seconds{10});
  first.lose({"ann", "a100", "A100"}, 5, kNoon);
  const auto written = first.status(kNoon + seconds{10});
  Account next{written};
  next.lose({"ann", "a100", ""}, 2, kNoon);
  const auto day = next.status(kNoon + seconds{10}).days.at(0);
  crds::UsagePart part{"ann", 100, std::nullopt, 0, 10, 20, 30, 7};
  EXPECT_THAT(day.users, ElementsAre(part));
  part.name = "a100";
  EXPECT_THAT(day.pools, ElementsAre(part));
  part.name = "A100", part.lost = 5;
  EXPECT_THAT(day.models, ElementsAre(part));
}

TEST(Account, WaitsAreOfTheDayOfTheStart) {
  Account first{crds::UsageStatus{}};
  first.note_start(60, kNoon);
  first.note_start(600, kNoon + hours{1});
  first.note_start(-5, kNoon + hours{13});  // somebody's clock was set
  const auto written = first.status(kNoon + hours{13});
  const auto days = Account{written}.status(kNoon + hours{13}).days;
  ASSERT_THAT(days, SizeIs(2));
  EXPECT_EQ(days[0].waits, (crds::Waits{1, 0, 0}));
  EXPECT_EQ(days[1].waits, (crds::Waits{2, 660, 600}));
  // Of a day that is not kept any more.
  Account full{crds::UsageStatus{}};
  for (int day = 0; day < 40; ++day) full.note_start(1, kNoon + hours{24 * day});
  full.note_start(1, kNoon);
  EXPECT_THAT(full.status(kNoon + hours{24 * 39}).days, SizeIs(crds::UsageStatus::kMostDays));
}

TEST(Account, CostAndEnergyByPartAndAcrossRestarts) {
  Account first{crds::UsageStatus{}};
  const Rates rates{.price = crds::MilliCost{2500}, .watts = 700};
  Held held = gpus(Doing::kRunning, 4);
  first.count({"ann", "a100", "A100"}, held, rates, kNoon, kNoon + hours{2});
  held.read_milliwatts = 300'000;  // of two of the four
  held.read_milli_gpus = 2000;
  first.count({"ann", "a100", "A100"}, held, rates, kNoon + hours{2}, kNoon + hours{3});
  const auto written = first.status(kNoon + hours{3});
  EXPECT_EQ(written.total.cost, crds::MilliCost{30'000}) << "12 GPU-hours";
  EXPECT_EQ(written.total.watt_hours, 8 * 700 + 2 * 700 + 300);
  const crds::UsagePart part{"A100", 12 * 3600, crds::MilliCost{30'000}, 7300};
  EXPECT_THAT(written.days.at(0).models, ElementsAre(part));
  Account next{written};
  EXPECT_EQ(next.status(kNoon + hours{3}), written);
  next.count({"ann", "a100", "A100"}, gpus(Doing::kIdle, 1), rates, kNoon + hours{3}, kNoon + hours{4});
  const auto status = next.status(kNoon + hours{4});
  EXPECT_EQ(status.total.cost, crds::MilliCost{32'500});
  EXPECT_EQ(status.days.at(0).users.at(0).watt_hours, 8000);
}

TEST(Account, WithoutAPriceNothingIsSaidOfCost) {
  Account account{crds::UsageStatus{}};
  account.count({"ann", "a100", "A100"}, gpus(Doing::kRunning, 4), {}, kNoon, kNoon + hours{1});
  const auto total = account.status(kNoon + hours{1}).total;
  EXPECT_EQ(total.cost, std::nullopt);
  EXPECT_EQ(total.watt_hours, 0);
}

TEST(Account, GoesOnFromWhatWasWritten) {
  Account first{crds::UsageStatus{}};
  first.count({"ann", "a100", ""}, gpus(Doing::kRunning, 3), {}, kNoon, kNoon + minutes{1});
  first.lose({}, 9, kNoon);
  const auto written = first.status(kNoon + minutes{1});
  Account next{written};
  EXPECT_EQ(next.counted_until(), kNoon + minutes{1});
  EXPECT_EQ(next.status(kNoon + minutes{2}), written) << "nothing is new";
  next.count({"ann", "a100", ""}, gpus(Doing::kRunning, 3), {}, kNoon + minutes{1}, kNoon + minutes{2});
  const auto status = next.status(kNoon + minutes{2});
  EXPECT_EQ(status.total.gpu_seconds, 360);
  EXPECT_EQ(status.total.lost, 9);
  EXPECT_THAT(status.days.at(0).users, ElementsAre(crds::UsagePart{"ann", 360}));
  EXPECT_EQ(next.since_start().milli_gpu_seconds(), 180'000) << "of this process";
}

TEST(Account, SumsOfTheLastDaysFollowTheCalendar) {
  Account account{crds::UsageStatus{}};
  account.count({"", "", ""}, gpus(Doing::kRunning, 1), {}, kNoon, kNoon + seconds{10});
  EXPECT_EQ(account.status(kNoon + hours{1}).last_7_days.gpu_seconds, 10);
  const auto later = account.status(kNoon + days{7});
  EXPECT_EQ(later.last_7_days.gpu_seconds, 0);
  EXPECT_EQ(later.last_30_days.gpu_seconds, 10);
  EXPECT_EQ(account.status(kNoon + days{30}).last_30_days.gpu_seconds, 0);
}

TEST(Account, KeepsAMonthOfDays) {
  Account account{crds::UsageStatus{}};
  account.count({"", "", ""}, gpus(Doing::kRunning, 1), {}, kNoon, kNoon + days{400});
  const auto status = account.status(kNoon + days{400});
  EXPECT_THAT(status.days, SizeIs(crds::UsageStatus::kMostDays));
  EXPECT_EQ(status.total.gpu_seconds, 400 * 86400);
}

TEST(Account, OfManyUsersThoseWithMostAreNamed) {
  Account account{crds::UsageStatus{}};
  for (int i = 0; i < 100; ++i)
    account.count({"user-" + std::to_string(i), "", ""}, gpus(Doing::kRunning, 1), {}, kNoon,
                  kNoon + seconds{1 + i});
  const auto users = account.status(kNoon + hours{1}).days.at(0).users;
  ASSERT_THAT(users, SizeIs(crds::UsageStatus::kMostUsers));
  EXPECT_EQ(users.front(), (crds::UsagePart{"user-99", 100}));
  EXPECT_EQ(users.back().name, "others");
  std::int64_t sum = 0;
  for (const auto& user : users) sum += user.gpu_seconds;
  EXPECT_EQ(sum, 5050);
}

TEST(Account, AbsurdAmountsStopAtTheLargest) {
  Account account{crds::UsageStatus{}};
  Held held;
  held.milli_cpus = std::numeric_limits<std::int64_t>::max();
  account.count({"", "", ""}, held, {}, kNoon, kNoon + hours{1});
  account.count({"", "", ""}, held, {}, kNoon, kNoon + hours{1});
  EXPECT_EQ(account.status(kNoon + hours{1}).total.cpu_seconds,
            std::numeric_limits<std::int64_t>::max() / 1000);
}

// --- the tree

struct LedgerTest : testing::Test {
  ObjectStore<crds::Queue> queues;
  ObjectStore<crds::Project> projects;
  ObjectStore<crds::NodePool> pools;

  LedgerTest() {
    queue("root", "");
    queue("research", "root");
    project("nlp", "research");
    project("vision", "root");
  }

  template <class Kind>
  void put(ObjectStore<Kind>& store, Kind value, const std::string& uid = "uid") {
    Object<Kind> object;
    object.meta = {"", value.metadata.name, uid, std::to_string(++version_)};
    object.value = std::move(value);
    store.apply(std::move(object));
  }
  void queue(const std::string& name, const std::string& parent, crds::UsageStatus usage = {}) {
    crds::Queue q;
    q.metadata.name = name;
    q.spec.parent = parent;
    q.status.usage = std::move(usage);
    put(queues, std::move(q));
  }
  void project(const std::string& name, const std::string& queue, crds::UsageStatus usage = {},
               const std::string& uid = "uid") {
    crds::Project p;
    p.metadata.name = name;
    p.spec.queue = queue;
    p.status.usage = std::move(usage);
    put(projects, std::move(p), uid);
  }
  void pool(const std::string& name, std::int64_t milli_price, std::int32_t watts,
            crds::NodePoolStatus status = {}) {
    crds::NodePool p;
    p.metadata.name = name;
    p.spec.price_per_gpu_hour = crds::MilliCost{milli_price};
    p.spec.watts_per_gpu = watts;
    p.status = std::move(status);
    put(pools, std::move(p));
  }
  // What a process that ends now has written.
  void write(Ledger& ledger, crds::Time now) {
    for (const auto* name : {"root", "research"})
      queue(name, std::string(name) == "root" ? "" : "root", ledger.of_queue(name, now));
    project("nlp", "research", ledger.of_project("nlp", now));
    project("vision", "root", ledger.of_project("vision", now));
  }

 private:
  int version_ = 0;
};

JobUse runs(const std::string& project, std::int64_t count, Doing doing = Doing::kRunning) {
  JobUse use;
  use.project = project;
  use.user = "ann";
  use.pool = "a100";
  use.held = gpus(doing, count);
  return use;
}

TEST_F(LedgerTest, AProjectAndAllQueuesAboveAreCharged) {
  Ledger ledger(queues, projects, pools);
  ledger.update("nlp/a", runs("nlp", 2), kNoon);
  ledger.update("vision/b", runs("vision", 1), kNoon + seconds{5});
  ledger.update("nlp/a", runs("nlp", 0), kNoon + seconds{10});
  const auto now = kNoon + seconds{25};
  EXPECT_EQ(ledger.of_project("nlp", now).total.gpu_seconds, 20);
  EXPECT_EQ(ledger.of_project("vision", now).total.gpu_seconds, 20);
  EXPECT_EQ(ledger.of_queue("research", now).total.gpu_seconds, 20);
  EXPECT_EQ(ledger.of_queue("root", now).total.gpu_seconds, 40);
}

TEST_F(LedgerTest, JobsOfOneUserAndPoolAreSummedUp) {
  Ledger ledger(queues, projects, pools);
  ledger.update("nlp/a", runs("nlp", 2, Doing::kStarting), kNoon);
  ledger.update("nlp/b", runs("nlp", 4), kNoon);
  ledger.update("nlp/a", runs("nlp", 2), kNoon + seconds{3});
  ledger.forget("nlp/b", kNoon + seconds{5});
  const auto status = ledger.of_project("nlp", kNoon + seconds{10});
  EXPECT_EQ(status.total.gpu_seconds, 2 * 10 + 4 * 5);
  EXPECT_EQ(status.total.starting, 6);
  EXPECT_THAT(status.days.at(0).users, ElementsAre(crds::UsagePart{"ann", 40, std::nullopt, 0, 6}));
}

TEST_F(LedgerTest, WhatIdlesIsNotWrittenAgain) {
  Ledger ledger(queues, projects, pools);
  EXPECT_EQ(ledger.of_project("nlp", kNoon), crds::UsageStatus{});
  ledger.update("nlp/a", runs("nlp", 1), kNoon);
  ledger.forget("nlp/a", kNoon + seconds{10});
  const auto status = ledger.of_project("nlp", kNoon + seconds{12});
  EXPECT_EQ(ledger.of_project("nlp", kNoon + hours{1}), status);
}

// --- restarts

TEST_F(LedgerTest, ARestartNeitherLosesNorCountsTwice) {
  JobUse job = runs("nlp", 2);
  job.begin = kNoon;
  job.whole = kNoon + seconds{30};
  {
    Ledger ledger(queues, projects, pools);
    JobUse starting = runs("nlp", 2, Doing::kStarting);
    starting.begin = kNoon;
    ledger.update("nlp/a", starting, kNoon);
    ledger.update("nlp/a", job, kNoon + seconds{30});
    write(ledger, kNoon + seconds{50});
    ledger.of_project("nlp", kNoon + seconds{70});  // counted, and not written
  }
  Ledger next(queues, projects, pools);
  next.update("nlp/a", job, kNoon + seconds{100});
  for (const auto& status :
       {next.of_project("nlp", kNoon + seconds{110}), next.of_queue("research", kNoon + seconds{110})}) {
    EXPECT_EQ(status.total.gpu_seconds, 220);
    EXPECT_EQ(status.total.starting, 60);
    EXPECT_EQ(status.until, kNoon + seconds{110});
  }
}

TEST_F(LedgerTest, AnEndThatNobodyWroteIsCountedFromItsStatus) {
  crds::UsageStatus usage;
  usage.until = kNoon + seconds{10};
  project("nlp", "research", usage);
  Ledger ledger(queues, projects, pools);
  JobUse ended;
  ended.project = "nlp";
  ended.whole = kNoon;
  ended.end = kNoon + seconds{25};
  ended.until_end = gpus(Doing::kRunning, 4);
  ledger.update("nlp/a", ended, kNoon + seconds{60});
  EXPECT_EQ(ledger.of_project("nlp", kNoon + seconds{60}).total.gpu_seconds, 4 * 15);
  EXPECT_EQ(ledger.of_queue("research", kNoon + seconds{60}).total.gpu_seconds, 4 * 25)
      << "it was never written";
}

TEST_F(LedgerTest, AnEndIsToBeWrittenSoon) {
  Ledger ledger(queues, projects, pools);
  ledger.update("nlp/a", runs("nlp", 4), kNoon);
  EXPECT_FALSE(ledger.project_has_ended("nlp"));
  ledger.update("nlp/a", runs("nlp", 3), kNoon + seconds{5});
  EXPECT_TRUE(ledger.project_has_ended("nlp"));
  EXPECT_TRUE(ledger.queue_has_ended("root"));
  ledger.of_project("nlp", kNoon + seconds{6});
  EXPECT_FALSE(ledger.project_has_ended("nlp"));
  EXPECT_FALSE(ledger.project_has_ended("nobody"));
}

TEST_F(LedgerTest, AStartThatNobodySawIsCountedFromItsStatus) {
  Ledger ledger(queues, projects, pools);
  JobUse job = runs("nlp", 2);
  job.begin = kNoon;
  job.whole = kNoon + seconds{30};
  ledger.update("nlp/a", job, kNoon + seconds{40});
  const auto total = ledger.of_project("nlp", kNoon + seconds{40}).total;
  EXPECT_EQ(total.gpu_seconds, 80);
  EXPECT_EQ(total.starting, 60);
}

TEST_F(LedgerTest, AnotherProjectOfTheSameNameBeginsAtNothing) {
  Ledger ledger(queues, projects, pools);
  ledger.update("nlp/a", runs("nlp", 1), kNoon);
  EXPECT_EQ(ledger.of_project("nlp", kNoon + seconds{10}).total.gpu_seconds, 10);
  project("nlp", "research", {}, "uid-2");
  EXPECT_EQ(ledger.of_project("nlp", kNoon + seconds{10}).total.gpu_seconds, 0);
}

TEST_F(LedgerTest, ACircleOfQueuesHarmsNobody) {
  queue("root", "research");
  Ledger ledger(queues, projects, pools);
  ledger.update("nlp/a", runs("nlp", 1), kNoon);
  EXPECT_EQ(ledger.of_project("nlp", kNoon + seconds{10}).total.gpu_seconds, 10);
}

TEST_F(LedgerTest, AJobWithoutAProjectChargesNobody) {
  Ledger ledger(queues, projects, pools);
  ledger.update("other/a", runs("", 1), kNoon);
  ledger.update("other/a", runs("nlp", 1), kNoon + seconds{10});
  EXPECT_EQ(ledger.of_project("nlp", kNoon + seconds{15}).total.gpu_seconds, 5);
}

// A start is counted once, whichever process sees it.
TEST_F(LedgerTest, AFirstStartIsCountedOnce) {
  Ledger first(queues, projects, pools);
  JobUse waits, starts = runs("nlp", 1);
  waits.project = "nlp";
  first.update("nlp/a", waits, kNoon);
  starts.first_start = kNoon + seconds{40};
  starts.waited_seconds = 90;
  first.update("nlp/a", starts, kNoon + seconds{40});
  first.update("nlp/a", starts, kNoon + seconds{50});
  const auto written = first.of_project("nlp", kNoon + seconds{50});
  ASSERT_THAT(written.days, SizeIs(1));
  EXPECT_EQ(written.days[0].waits, (crds::Waits{1, 90, 90}));
  EXPECT_EQ(first.of_queue("root", kNoon + seconds{50}).days.at(0).waits, (crds::Waits{1, 90, 90}));
  // The next process learns of it, and of one that started after the last write.
  project("nlp", "research", written);
  Ledger next(queues, projects, pools);
  next.update("nlp/a", starts, kNoon + seconds{70});
  JobUse later = runs("nlp", 1);
  later.first_start = kNoon + seconds{60};
  later.waited_seconds = 10;
  next.update("nlp/b", later, kNoon + seconds{70});
  EXPECT_EQ(next.of_project("nlp", kNoon + seconds{70}).days.at(0).waits, (crds::Waits{2, 100, 90}));
}

// What a job loses when its pods are gone is its user's and its pool's.
TEST_F(LedgerTest, WhatIsLostAtTheEndOfAnEvictionHasItsPool) {
  Ledger ledger(queues, projects, pools);
  JobUse use = runs("nlp", 1);
  use.user = "ann", use.pool = "a100", use.model = "A100";
  ledger.update("nlp/a", use, kNoon);
  JobUse leaves;
  leaves.project = "nlp", leaves.user = "ann";
  leaves.held = gpus(Doing::kSaving, 1);
  ledger.update("nlp/a", leaves, kNoon + seconds{10});
  ledger.lose("nlp/a", "nlp", 8, kNoon + seconds{15});
  const auto day = ledger.of_project("nlp", kNoon + seconds{15}).days.at(0);
  crds::UsagePart part{"ann", 15, std::nullopt, 0, 0, 5, 0, 8};
  EXPECT_THAT(day.users, ElementsAre(part));
  part.name = "a100";
  EXPECT_THAT(day.pools, ElementsAre(part));
  part.name = "A100";
  EXPECT_THAT(day.models, ElementsAre(part));
}

TEST_F(LedgerTest, CountersAreOfThisProcess) {
  crds::UsageStatus before;
  before.until = kNoon;
  before.total.gpu_seconds = 1000;
  project("nlp", "research", before);
  Ledger ledger(queues, projects, pools);
  ledger.update("nlp/a", runs("nlp", 1), kNoon);
  ledger.lose("nlp/a", "nlp", 3, kNoon + seconds{10});
  std::map<std::string, Used> told;
  ledger.for_each_project(kNoon + seconds{10},
                          [&](const std::string& name, const Used& used) { told[name] = used; });
  ASSERT_TRUE(told.contains("nlp"));
  EXPECT_EQ(told["nlp"].milli_gpu_seconds(), 10'000);
  EXPECT_EQ(told["nlp"].lost_milli, 3'000);
}

TEST_F(LedgerTest, CountersDoNotTellAgainWhatTheProcessBeforeHasTold) {
  crds::UsageStatus written;
  written.until = kNoon;
  project("nlp", "research", written);
  Ledger ledger(queues, projects, pools);
  JobUse job = runs("nlp", 2);
  job.begin = job.whole = kNoon - hours{3};
  const auto begins = kNoon + minutes{50};
  ledger.update("nlp/a", job, begins);
  ledger.update("nlp/b", job, begins + seconds{5});  // this process was 5 s late for it
  std::map<std::string, Used> told;
  ledger.for_each_project(begins + seconds{10},
                          [&](const std::string& name, const Used& used) { told[name] = used; });
  EXPECT_EQ(told["nlp"].milli_gpu_seconds(), 2 * 2 * 10'000);
  EXPECT_EQ(ledger.of_project("nlp", begins + seconds{10}).total.gpu_seconds, 2 * 2 * (50 * 60 + 10));
}

TEST_F(LedgerTest, WhatWasIdleWhileNobodyWroteStaysIdle) {
  crds::UsageStatus written;
  written.until = kNoon;
  project("nlp", "research", written);
  Ledger ledger(queues, projects, pools);
  JobUse job = runs("nlp", 2, Doing::kIdle);
  job.begin = job.whole = kNoon - hours{3};
  job.idle_since = kNoon + minutes{10};
  ledger.update("nlp/a", job, kNoon + minutes{50});
  JobUse ended;
  ended.project = "nlp";
  ended.whole = kNoon - hours{1};
  ended.idle_since = kNoon - minutes{30};
  ended.end = kNoon + minutes{5};
  ended.until_end = gpus(Doing::kRunning, 1);
  ledger.update("nlp/b", ended, kNoon + minutes{50});
  const auto total = ledger.of_project("nlp", kNoon + minutes{51}).total;
  EXPECT_EQ(total.gpu_seconds, 2 * 51 * 60 + 5 * 60);
  EXPECT_EQ(total.idle, 2 * 41 * 60 + 5 * 60);
}

// --- prices and power

TEST_F(LedgerTest, WhatNobodyWroteOfThePowerIsTheAverageBefore) {
  pool("a100", 0, 0);
  JobUse job = runs("nlp", 2);
  job.begin = job.whole = kNoon;
  {
    Ledger ledger(queues, projects, pools);
    ledger.update("nlp/a", job, kNoon);
    ledger.note_power("nlp/a", 600'000, kNoon);
    write(ledger, kNoon + hours{1});
  }
  Ledger next(queues, projects, pools);
  next.update("nlp/a", job, kNoon + hours{2});
  EXPECT_EQ(next.of_project("nlp", kNoon + hours{2}).total.watt_hours, 1200);
  EXPECT_EQ(next.of_queue("root", kNoon + hours{2}).total.watt_hours, 1200);
}

TEST_F(LedgerTest, AnotherPriceCountsFromThenOn) {
  pool("a100", 2000, 500);
  Ledger ledger(queues, projects, pools);
  ledger.update("nlp/j", runs("nlp", 1), kNoon);
  pool("a100", 4000, 500);
  ledger.pool_changed("a100", kNoon + hours{1});
  const auto total = ledger.of_project("nlp", kNoon + hours{2}).total;
  EXPECT_EQ(total.cost, crds::MilliCost{6000});
  EXPECT_EQ(total.watt_hours, 1000);
  EXPECT_EQ(ledger.of_queue("root", kNoon + hours{2}).total.cost, crds::MilliCost{6000});
}

TEST_F(LedgerTest, AReadingCountsInsteadOfThePoolsWatts) {
  pool("a100", 0, 700);
  Ledger ledger(queues, projects, pools);
  ledger.update("nlp/j", runs("nlp", 2, Doing::kStarting), kNoon);
  ledger.of_project("nlp", kNoon);
  ledger.note_power("nlp/j", 100'000, kNoon + hours{1});
  EXPECT_FALSE(ledger.project_has_ended("nlp")) << "no write is due for it";
  ledger.update("nlp/j", runs("nlp", 2), kNoon + hours{2});
  ledger.note_power("nlp/j", std::nullopt, kNoon + hours{3});
  EXPECT_EQ(ledger.of_project("nlp", kNoon + hours{4}).total.watt_hours, 1400 + 100 + 100 + 1400);
}

TEST_F(LedgerTest, OfAPoolWhatNobodyHeldIsCountedAcrossRestarts) {
  const auto amounts = [](std::int64_t n) { return crds::Amounts{crds::MilliGpu{1000 * n}, {}, {}}; };
  crds::NodePoolStatus status;
  status.capacity = amounts(8);
  status.free = amounts(6);
  pool("a100", 0, 0);
  {
    Ledger ledger(queues, projects, pools);
    ledger.note_capacity("a100", status.capacity, status.free, kNoon);
    ledger.note_capacity("a100", status.capacity, status.free, kNoon + seconds{10});
    status.usage = ledger.of_pool("a100");
    EXPECT_EQ(status.usage.gpu_seconds, 80);
    EXPECT_EQ(status.usage.unallocated, 60);
    EXPECT_EQ(ledger.of_pool("a100"), status.usage);
  }
  pool("a100", 0, 0, status);
  Ledger ledger(queues, projects, pools);
  ledger.note_capacity("a100", status.capacity, amounts(0), kNoon + seconds{110});
  ledger.note_capacity("a100", status.capacity, amounts(0), kNoon + hours{12});
  const auto usage = ledger.of_pool("a100");
  EXPECT_EQ(usage.until, kNoon + hours{12});
  EXPECT_EQ(usage.gpu_seconds, 8 * 12 * 3600);
  EXPECT_EQ(usage.unallocated, 6 * 110) << "while nobody looked it was as it had been written";
  ASSERT_THAT(usage.days, SizeIs(1));
  EXPECT_EQ(usage.days[0].date, "2026-01-31");
}

TEST_F(LedgerTest, OfAPoolWithoutGpusNothingIsWritten) {
  pool("cpu", 0, 0);
  Ledger ledger(queues, projects, pools);
  ledger.note_capacity("cpu", {}, {}, kNoon);
  ledger.note_capacity("cpu", {}, {}, kNoon + hours{2});
  EXPECT_EQ(ledger.of_pool("cpu"), crds::CapacityUsage{});
}

// --- run times

JobUse succeeded(const std::string& project, std::int64_t run_seconds, crds::Time end) {
  JobUse use;
  use.project = project;
  use.user = "ann";
  use.pool = "a100";
  use.end = end;
  use.whole = end - seconds{run_seconds};
  use.until_end = gpus(Doing::kRunning, 4);
  use.size = crds::MilliGpu{4000};
  use.run_seconds = run_seconds;
  return use;
}

TEST_F(LedgerTest, LearnsHowLongJobsRunOnceAlsoAcrossRestarts) {
  {
    Ledger ledger(queues, projects, pools);
    for (const auto n : {100, 200, 300}) {
      const std::string job = "nlp/" + std::to_string(n);
      ledger.update(job, runs("nlp", 4), kNoon);
      const auto end = kNoon + seconds{n};
      ledger.update(job, succeeded("nlp", n, end), end);
      ledger.update(job, succeeded("nlp", n, end), end);
    }
    EXPECT_EQ(ledger.usual_run_time("nlp", "ann", crds::MilliGpu{4000}),
              (UsualRunTime{seconds{200}, seconds{300}}));
    EXPECT_EQ(ledger.usual_run_time("nlp", "ann", crds::MilliGpu{8000}), std::nullopt);
    EXPECT_EQ(ledger.usual_run_time("vision", "ann", crds::MilliGpu{4000}), std::nullopt);
    crds::Project p;
    p.metadata.name = "nlp";
    p.spec.queue = "research";
    p.status.usage = ledger.of_project("nlp", kNoon + seconds{300});
    p.status.run_times = ledger.run_times_of("nlp");
    put(projects, std::move(p));
  }
  Ledger next(queues, projects, pools);
  const auto later = kNoon + seconds{1000};
  next.update("nlp/300", succeeded("nlp", 300, kNoon + seconds{300}), later);
  next.update("nlp/900", succeeded("nlp", 900, kNoon + seconds{900}), later);
  const auto known = next.run_times_of("nlp");
  ASSERT_THAT(known, SizeIs(1));
  EXPECT_THAT(known[0].seconds, ElementsAre(900, 300, 200, 100)) << "the one that ended meanwhile is new";
  EXPECT_EQ(next.of_project("nlp", later).until, later) << "it is written with the sums";
}

}  // namespace
}  // namespace muster::reconcilers
