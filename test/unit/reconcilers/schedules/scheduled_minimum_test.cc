#include "muster/reconcilers/schedules/scheduled_minimum.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>

#include "muster/reconcilers/schedules/effective_spec.h"

namespace muster::reconcilers {
namespace {

using std::chrono::hours;
using testing::ElementsAre;
using testing::HasSubstr;

constexpr crds::Time kMonday{std::chrono::sys_days{std::chrono::year{2024} / 1 / 1}};

crds::Autoscaling by_day() {
  crds::Autoscaling rule;
  rule.min_replicas = 1;
  rule.max_replicas = 8;
  rule.schedules = {{"0 8 * * 1-5", hours{12}, "Europe/Paris", 4}, {"0 11 * * *", hours{1}, "UTC", 6}};
  return rule;
}

TEST(ScheduledMinimum, TheHighestThatHoldsCounts) {
  const auto rule = by_day();
  EXPECT_EQ(minimum_now(rule, kMonday + hours{6}).replicas, 1);
  EXPECT_EQ(minimum_now(rule, kMonday + hours{6}).in_force, "");
  const auto morning = minimum_now(rule, kMonday + hours{7});
  EXPECT_EQ(morning.replicas, 4) << "8:00 in Paris";
  EXPECT_EQ(morning.in_force, "at least 4 by spec.autoscaling.schedules[0]");
  EXPECT_EQ(morning.changes_at, kMonday + hours{11});
  EXPECT_EQ(minimum_now(rule, kMonday + hours{11}).replicas, 6);
  EXPECT_EQ(minimum_now(rule, kMonday + hours{12}).replicas, 4);
  EXPECT_EQ(minimum_now(rule, kMonday + hours{19}).replicas, 1);
  EXPECT_EQ(minimum_now(rule, kMonday + hours{5 * 24 + 7}).replicas, 1) << "Saturday";
}

TEST(ScheduledMinimum, NeverLowersTheMinimum) {
  auto rule = by_day();
  rule.min_replicas = 5;
  EXPECT_EQ(minimum_now(rule, kMonday + hours{8}).replicas, 5);
}

TEST(ScheduledMinimum, WhatIsNotWellFormedDoesNotCountAndIsTold) {
  auto rule = by_day();
  rule.schedules[0].time_zone = "Europe/Pariss";
  rule.schedules[1].start = "0 0 31 2 *";
  const auto bad = minimum_now(rule, kMonday + hours{11});
  EXPECT_EQ(bad.replicas, 1);
  EXPECT_THAT(bad.problems, ElementsAre(HasSubstr("spec.autoscaling.schedules[0].timeZone: "),
                                        HasSubstr("spec.autoscaling.schedules[1].start: ")));
  EXPECT_FALSE(bad.changes_at);
  const crds::Json object = {{"apiVersion", crds::kApiVersion},
                             {"kind", "InferenceService"},
                             {"metadata", {{"name", "a"}}},
                             {"spec",
                              {{"template", crds::Json::object()},
                               {"autoscaling",
                                {{"maxReplicas", 2},
                                 {"schedules",
                                  {{{"start", "0 8 * * *"},
                                    {"duration", "1h"},
                                    {"timeZone", "Mars/Base"},
                                    {"minReplicas", 2}}}}}}}}};
  ASSERT_EQ(schedule_errors(object).size(), 1U);
  EXPECT_EQ(schedule_errors(object)[0].field, "spec.autoscaling.schedules[0].timeZone");
}

}  // namespace
}  // namespace muster::reconcilers
