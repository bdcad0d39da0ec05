// What holds of a Queue or Project at an instant, also on days on which clocks are set.
#include "muster/reconcilers/schedules/effective_spec.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/reconcilers/placement/scheduled_queues.h"
#include "muster/reconcilers/schedules/time_zone.h"

namespace muster::reconcilers {
namespace {

using std::chrono::hours;
using std::chrono::minutes;
using std::chrono::seconds;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::IsEmpty;

crds::Time at(std::string_view text) {
  const auto time = crds::parse_time(text);
  EXPECT_TRUE(time) << text;
  return time.value_or(crds::Time{});
}

crds::Amounts gpus(std::int64_t n) {
  crds::Amounts amounts;
  amounts.gpu = crds::MilliGpu{n * 1000};
  return amounts;
}

crds::ScheduledSet limit_of(std::int64_t n) {
  crds::ScheduledSet set;
  set.limit = gpus(n);
  return set;
}
crds::ScheduledSet quota_of(std::int64_t n) {
  crds::ScheduledSet set;
  set.quota = gpus(n);
  return set;
}

// The limit is 2, and 8 while the entry holds.
crds::QueueSpec scheduled(const std::string& start, crds::Duration duration,
                          const std::string& zone = "UTC") {
  crds::QueueSpec spec;
  spec.limit = gpus(2);
  spec.schedules.push_back({start, duration, zone, limit_of(8)});
  return spec;
}

bool holds(const crds::QueueSpec& spec, std::string_view when) {
  return effective_spec(spec, at(when)).spec.limit == gpus(8);
}

// The next changes, as UTC.
std::vector<std::string> changes(const crds::QueueSpec& spec, std::string_view from, int n) {
  std::vector<std::string> all;
  crds::Time now = at(from);
  for (int i = 0; i < n; ++i) {
    const auto next = effective_spec(spec, now).next_change;
    if (!next) break;
    EXPECT_GT(next->at, now);
    now = next->at;
    all.push_back(crds::to_string(now));
  }
  return all;
}

TEST(TimeZone, SkippedAndRepeatedTimes) {
  const auto paris = TimeZone::find("Europe/Paris");
  ASSERT_TRUE(paris) << paris.error();
  const auto local = [](std::string_view text) { return LocalTime{at(text).time_since_epoch()}; };
  EXPECT_EQ(paris->to_sys(local("2026-01-05T20:00:00Z")), at("2026-01-05T19:00:00Z"));
  EXPECT_EQ(paris->to_sys(local("2026-03-29T02:30:00Z")), at("2026-03-29T01:00:00Z")) << "after the gap";
  EXPECT_EQ(paris->to_sys(local("2026-10-25T02:30:00Z")), at("2026-10-25T00:30:00Z")) << "the first";
  EXPECT_EQ(paris->to_local(at("2026-07-01T12:00:00Z")), local("2026-07-01T14:00:00Z"));
  EXPECT_EQ(paris->to_local(at("2036-07-01T12:00:00Z")), local("2036-07-01T14:00:00Z"))
      << "the files of the database reach that far: see decisions/0065";
}

TEST(TimeZone, UnknownNamesAreRefused) {
  for (const char* name : {"Europe/Pariss", "CEST", "../etc/passwd", "", "europe/paris"}) {
    const auto zone = TimeZone::find(name);
    ASSERT_FALSE(zone) << name;
    EXPECT_THAT(zone.error(), HasSubstr("must be a name of the IANA time zone database"));
  }
  EXPECT_TRUE(TimeZone::find("UTC"));
  EXPECT_TRUE(TimeZone::find("Etc/UTC"));
}

TEST(EffectiveSpec, WithoutSchedulesItIsTheSpec) {
  crds::QueueSpec spec;
  spec.limit = gpus(3);
  const auto effective = effective_spec(spec, at("2026-01-05T00:00:00Z"));
  EXPECT_EQ(effective.spec, spec);
  EXPECT_FALSE(effective.next_change);
  EXPECT_EQ(effective.in_force, "");
  EXPECT_THAT(effective.problems, IsEmpty());
}

TEST(EffectiveSpec, NightsOfTheWeek) {
  const auto spec = scheduled("0 20 * * 1-5", hours{10}, "Europe/Paris");
  EXPECT_FALSE(holds(spec, "2026-01-05T18:59:59Z"));
  EXPECT_TRUE(holds(spec, "2026-01-05T19:00:00Z"));
  EXPECT_TRUE(holds(spec, "2026-01-06T04:59:59Z"));
  EXPECT_FALSE(holds(spec, "2026-01-06T05:00:00Z"));
  EXPECT_TRUE(holds(spec, "2026-01-10T04:00:00Z")) << "Friday's night ends on Saturday";
  EXPECT_FALSE(holds(spec, "2026-01-10T20:00:00Z"));
  EXPECT_THAT(changes(spec, "2026-01-09T12:00:00Z", 3),
              ElementsAre("2026-01-09T19:00:00Z", "2026-01-10T05:00:00Z", "2026-01-12T19:00:00Z"));
  // In summer it begins an hour earlier in UTC.
  EXPECT_THAT(changes(spec, "2026-07-06T12:00:00Z", 1), ElementsAre("2026-07-06T18:00:00Z"));
}

TEST(EffectiveSpec, TheMessagesSayWhatChanges) {
  const auto spec = scheduled("0 20 * * *", hours{10});
  const auto by_day = effective_spec(spec, at("2026-01-05T12:00:00Z"));
  ASSERT_TRUE(by_day.next_change);
  EXPECT_EQ(by_day.next_change->message, "limit.gpu 8 (now 2)");
  EXPECT_EQ(by_day.in_force, "");
  const auto by_night = effective_spec(spec, at("2026-01-05T22:00:00Z"));
  EXPECT_EQ(by_night.next_change->message, "limit.gpu 2 (now 8)");
  EXPECT_EQ(by_night.in_force, "spec.schedules[0]: limit.gpu 8 (otherwise 2)");
}

TEST(EffectiveSpec, AStartThatClocksSkipBeginsAfterTheGap) {
  EXPECT_THAT(changes(scheduled("30 2 * * *", hours{1}, "Europe/Paris"), "2026-03-28T12:00:00Z", 4),
              ElementsAre("2026-03-29T01:00:00Z", "2026-03-29T02:00:00Z", "2026-03-30T00:30:00Z",
                          "2026-03-30T01:30:00Z"));
  EXPECT_THAT(changes(scheduled("30 2 * * *", hours{1}, "America/New_York"), "2026-03-08T00:00:00Z", 3),
              ElementsAre("2026-03-08T07:00:00Z", "2026-03-08T08:00:00Z", "2026-03-09T06:30:00Z"));
  // By half an hour: from 2:00 to 2:30.
  EXPECT_THAT(changes(scheduled("10 2 * * *", hours{1}, "Australia/Lord_Howe"), "2026-10-03T12:00:00Z", 3),
              ElementsAre("2026-10-03T15:30:00Z", "2026-10-03T16:30:00Z", "2026-10-04T15:10:00Z"));
}

TEST(EffectiveSpec, AStartThatClocksShowTwiceComesOnceAtTheFirst) {
  const auto paris = scheduled("30 2 * * *", minutes{30}, "Europe/Paris");
  EXPECT_THAT(changes(paris, "2026-10-24T12:00:00Z", 3),
              ElementsAre("2026-10-25T00:30:00Z", "2026-10-25T01:00:00Z", "2026-10-26T01:30:00Z"));
  EXPECT_FALSE(holds(paris, "2026-10-25T01:30:00Z")) << "2:30 once more";
  EXPECT_THAT(changes(scheduled("30 1 * * *", minutes{30}, "America/New_York"), "2026-11-01T00:00:00Z", 3),
              ElementsAre("2026-11-01T05:30:00Z", "2026-11-01T06:00:00Z", "2026-11-02T06:30:00Z"));
  EXPECT_THAT(changes(scheduled("45 1 * * *", minutes{15}, "Australia/Lord_Howe"), "2026-04-04T12:00:00Z", 3),
              ElementsAre("2026-04-04T14:45:00Z", "2026-04-04T15:00:00Z", "2026-04-05T15:15:00Z"));
  // 2:50 for 2 hours began before clocks were put back, and holds although they show 2:10 again.
  EXPECT_TRUE(holds(scheduled("50 2 * * *", hours{2}, "Europe/Paris"), "2026-10-25T01:10:00Z"));
}

TEST(EffectiveSpec, HourlyStartsSkipTheHourThatIsRepeated) {
  EXPECT_THAT(changes(scheduled("0 * * * *", minutes{30}, "Europe/Paris"), "2026-10-24T23:40:00Z", 4),
              ElementsAre("2026-10-25T00:00:00Z", "2026-10-25T00:30:00Z", "2026-10-25T02:00:00Z",
                          "2026-10-25T02:30:00Z"));
}

TEST(EffectiveSpec, TheDurationIsTimeThatPasses) {
  EXPECT_THAT(changes(scheduled("0 20 * * *", hours{10}, "Europe/Paris"), "2026-10-24T12:00:00Z", 2),
              ElementsAre("2026-10-24T18:00:00Z", "2026-10-25T04:00:00Z"));
}

TEST(EffectiveSpec, AZoneOfHalfAnHour) {
  EXPECT_THAT(changes(scheduled("0 20 * * *", hours{1}, "Asia/Kolkata"), "2026-01-05T00:00:00Z", 2),
              ElementsAre("2026-01-05T14:30:00Z", "2026-01-05T15:30:00Z"));
}

TEST(EffectiveSpec, StartsThatComeBeforeTheLastIsOverLetItGoOn) {
  const auto twice = scheduled("0 0,6 * * *", hours{8});
  EXPECT_THAT(changes(twice, "2026-01-05T01:00:00Z", 2),
              ElementsAre("2026-01-05T14:00:00Z", "2026-01-06T00:00:00Z"));
  // One that is never over changes nothing; it is only looked at again.
  const auto always = effective_spec(scheduled("* * * * *", hours{1}), at("2026-01-05T00:00:00Z"));
  EXPECT_EQ(always.spec.limit, gpus(8));
  ASSERT_TRUE(always.next_change);
  EXPECT_EQ(always.next_change->message, "");
}

TEST(EffectiveSpec, SeldomDays) {
  EXPECT_THAT(changes(scheduled("0 0 29 2 *", hours{24}), "2026-01-05T00:00:00Z", 2),
              ElementsAre("2028-02-29T00:00:00Z", "2028-03-01T00:00:00Z"));
  EXPECT_TRUE(holds(scheduled("0 0 1 * *", hours{24 * 31}), "2026-01-31T12:00:00Z"));
}

TEST(EffectiveSpec, TheLaterEntryWinsFieldByField) {
  crds::QueueSpec spec;
  spec.quota = gpus(1);
  spec.limit = gpus(2);
  spec.limit.cpu = crds::MilliCpu{100'000};
  crds::ScheduledSet night = limit_of(8), weekend = limit_of(6);
  night.quota = gpus(4);
  night.weight = 3;
  weekend.admission = crds::Admission::kHold;
  spec.schedules = {{"0 20 * * *", hours{10}, "UTC", night}, {"0 0 * * sat", hours{48}, "UTC", weekend}};
  const auto both = effective_spec(spec, at("2026-01-10T21:00:00Z"));  // a Saturday
  EXPECT_EQ(both.spec.quota, crds::AmountsByModel(gpus(4)));
  EXPECT_EQ(both.spec.limit.gpu, crds::MilliGpu{6000});
  EXPECT_EQ(both.spec.limit.cpu, crds::MilliCpu{100'000}) << "of no entry: it stays";
  EXPECT_EQ(both.spec.weight, 3);
  EXPECT_EQ(both.spec.admission, crds::Admission::kHold);
  EXPECT_EQ(
      both.in_force,
      "spec.schedules[0], spec.schedules[1]: quota.gpu 4 (otherwise 1), limit.gpu 6 (otherwise 2), weight 3 "
      "(otherwise 1), admission Hold (otherwise Open)");
  std::swap(spec.schedules[0], spec.schedules[1]);
  EXPECT_EQ(effective_spec(spec, at("2026-01-10T21:00:00Z")).spec.limit.gpu, crds::MilliGpu{8000});
}

TEST(EffectiveSpec, OfResourcesKnownByNameThoseChangeThatAreNamed) {
  crds::QueueSpec spec = scheduled("0 20 * * *", hours{10});
  spec.limit.resources = {{"rdma/hca", 8}, {"hugepages-2Mi", 1 << 30}};
  spec.schedules[0].set.limit.resources = {{"rdma/hca", 64}};
  const auto night = effective_spec(spec, at("2026-01-05T21:00:00Z"));
  EXPECT_EQ(night.spec.limit.resources, (crds::NamedAmounts{{"hugepages-2Mi", 1 << 30}, {"rdma/hca", 64}}));
  EXPECT_THAT(night.in_force, HasSubstr("limit.rdma/hca 64"));
  EXPECT_EQ(effective_spec(spec, at("2026-01-05T19:00:00Z")).spec.limit.resources, spec.limit.resources);
}

TEST(EffectiveSpec, EntriesThatCannotBeReadAreNamedAndAllElseCounts) {
  auto spec = scheduled("0 20 * * *", hours{10});
  spec.schedules.push_back({"0 20 * * *", hours{10}, "Europe/Pariss", limit_of(100)});
  spec.schedules.push_back({"0 20 30 feb *", seconds{0}, "UTC", limit_of(100)});
  spec.schedules.push_back({"0 20 * * *", hours{24 * 367}, "UTC", limit_of(100)});
  const auto effective = effective_spec(spec, at("2026-01-05T21:00:00Z"));
  EXPECT_EQ(effective.spec.limit, gpus(8));
  EXPECT_THAT(effective.problems,
              ElementsAre(HasSubstr("spec.schedules[1].timeZone: must be a name of the IANA"),
                          HasSubstr("spec.schedules[2].start: must name a day that comes"),
                          HasSubstr("spec.schedules[2].duration: must be longer than 0s and at most 366d"),
                          HasSubstr("spec.schedules[3].duration")));
}

TEST(EffectiveSpec, ProjectsToo) {
  crds::ProjectSpec spec;
  spec.queue = "all";
  spec.quota = gpus(4);
  spec.schedules.push_back({"0 20 * * *", hours{10}, "UTC", quota_of(0)});
  const auto effective = effective_spec(spec, at("2026-01-05T21:00:00Z"));
  EXPECT_EQ(effective.spec.quota, crds::AmountsByModel(gpus(0)));
  EXPECT_EQ(effective.spec.queue, "all");
  EXPECT_EQ(effective.next_change->message, "quota.gpu 4 (now 0)");
}

// --- as placement takes them

TEST(ScheduledQueues, WhatHasChangedIsDueAtItsInstant) {
  ScheduledQueues queues;
  crds::Queue lab;
  lab.metadata.name = "lab";
  lab.spec = scheduled("0 20 * * *", hours{10});
  crds::Project team;
  team.metadata.name = "team";
  team.spec.quota = gpus(1);
  EXPECT_EQ(queues.take(lab, at("2026-01-05T12:00:00Z")).in_default_pool.limit.gpu->value, 2000);
  queues.take(team, at("2026-01-05T12:00:00Z"));
  EXPECT_EQ(queues.next(), at("2026-01-05T20:00:00Z"));
  EXPECT_THAT(queues.due(at("2026-01-05T19:59:59Z")), IsEmpty());
  const auto due = queues.due(at("2026-01-05T20:00:00Z"));
  ASSERT_EQ(due.size(), 1U);
  EXPECT_EQ(due[0].name, "lab");
  EXPECT_EQ(due[0].in_default_pool.limit.gpu->value, 8000);
  EXPECT_EQ(queues.next(), at("2026-01-06T06:00:00Z"));
  // An edit while it holds, and the end of it all.
  lab.spec.limit = gpus(3);
  EXPECT_EQ(queues.take(lab, at("2026-01-05T21:00:00Z")).in_default_pool.limit.gpu->value, 8000);
  EXPECT_EQ(queues.due(at("2026-01-06T06:00:00Z"))[0].in_default_pool.limit.gpu->value, 3000);
  queues.forget("lab", false);
  EXPECT_EQ(queues.next(), std::nullopt);
}

TEST(ScheduledQueues, AQueueAndAProjectOfOneNameAreTwo) {
  ScheduledQueues queues;
  crds::Queue queue;
  queue.metadata.name = "a";
  queue.spec = scheduled("0 20 * * *", hours{10});
  crds::Project project;
  project.metadata.name = "a";
  project.spec.schedules.push_back({"0 20 * * *", hours{10}, "UTC", quota_of(5)});
  queues.take(queue, at("2026-01-05T12:00:00Z"));
  queues.take(project, at("2026-01-05T12:00:00Z"));
  const auto due = queues.due(at("2026-01-05T20:00:00Z"));
  ASSERT_EQ(due.size(), 2U);
  EXPECT_NE(due[0].is_project, due[1].is_project);
  queues.forget("a", true);
  EXPECT_EQ(queues.due(at("2026-01-06T06:00:00Z")).size(), 1U);
}

// Another entry changes the limit each minute; it does not hide the drain.
TEST(EffectiveSpec, SaysWhenTheNextDrainIs) {
  crds::QueueSpec spec = scheduled("* * * * *", seconds(30));
  crds::ScheduledSet drain;
  drain.admission = crds::Admission::kDrain;
  spec.schedules.push_back({"0 8 * * *", hours(2), "UTC", drain});
  const auto before = effective_spec(spec, at("2026-03-02T06:00:00Z")).coming_drain;
  ASSERT_TRUE(before);
  EXPECT_EQ(before->begin, at("2026-03-02T08:00:00Z"));
  EXPECT_EQ(before->end, at("2026-03-02T10:00:00Z"));
  EXPECT_EQ(before->open_after, hours(22));
  EXPECT_FALSE(effective_spec(spec, at("2026-03-02T09:00:00Z")).coming_drain) << "it is drained now";
  EXPECT_FALSE(effective_spec(scheduled("0 8 * * *", hours(2)), at("2026-03-02T06:00:00Z")).coming_drain);
}

TEST(EffectiveSpec, SaysWhenAHeldQueueOpens) {
  crds::QueueSpec spec = scheduled("* * * * *", seconds(30));
  spec.admission = crds::Admission::kHold;
  EXPECT_FALSE(effective_spec(spec, at("2026-03-02T06:00:00Z")).opens) << "nothing opens it";
  crds::ScheduledSet open;
  open.admission = crds::Admission::kOpen;
  spec.schedules.push_back({"0 20 * * *", hours(10), "UTC", open});
  EXPECT_EQ(effective_spec(spec, at("2026-03-02T06:00:00Z")).opens, at("2026-03-02T20:00:00Z"));
  EXPECT_FALSE(effective_spec(spec, at("2026-03-02T21:00:00Z")).opens) << "it is open";
}

TEST(EffectiveSpec, SaysWhichBoundsComeNext) {
  crds::ProjectSpec spec;
  spec.quota = gpus(2);
  crds::ScheduledSet heavier;
  heavier.weight = 3;
  spec.schedules = {{"0 8 * * *", hours(1), "UTC", heavier}, {"0 20 * * *", hours(10), "UTC", quota_of(6)}};
  const auto day = effective_spec(spec, at("2026-03-02T06:00:00Z")).coming_bounds;
  ASSERT_TRUE(day);
  EXPECT_EQ(day->first, at("2026-03-02T20:00:00Z")) << "another weight is no bound";
  EXPECT_EQ(day->second.quota, crds::AmountsByModel(gpus(6)));
  const auto night = effective_spec(spec, at("2026-03-02T21:00:00Z")).coming_bounds;
  ASSERT_TRUE(night);
  EXPECT_EQ(night->first, at("2026-03-03T06:00:00Z"));
  EXPECT_EQ(night->second.quota, crds::AmountsByModel(gpus(2)));
}

TEST(ScheduleErrors, AFileIsToldWhatTheOperatorWouldSay) {
  const auto errors_of = [](const std::string& kind, const std::string& zone) {
    std::string text;
    for (const auto& e : schedule_errors({{"apiVersion", "muster.dev/v1alpha1"},
                                          {"kind", kind},
                                          {"metadata", {{"name", "lab"}}},
                                          {"spec",
                                           {{"queue", "all"},
                                            {"schedules",
                                             {{{"start", "0 20 * * *"},
                                               {"duration", "10h"},
                                               {"timeZone", zone},
                                               {"set", {{"limit", {{"gpu", 8}}}}}}}}}}}))
      text += to_string(e);
    return text;
  };
  EXPECT_EQ(errors_of("Project", "Europe/Paris"), "");
  EXPECT_THAT(errors_of("Project", "Europe/Prais"),
              HasSubstr("Project lab: spec.schedules[0].timeZone: must be a name of the IANA"));
  EXPECT_EQ(errors_of("TrainingJob", "Europe/Prais"), "");
}

}  // namespace
}  // namespace muster::reconcilers
