#include "muster/reconcilers/pods/checkpoint.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <nlohmann/json.hpp>
#include <random>

#include "muster/reconcilers/pods/names.h"

namespace muster::reconcilers {
namespace {

using std::chrono::seconds;

constexpr crds::Time kNow{std::chrono::sys_days{std::chrono::year{2026} / 1 / 2}};
constexpr std::int64_t kNowUnix = 1'767'312'000;

std::string report(std::int64_t step, const std::string& uri = "") {
  crds::Json checkpoint = {{"step", step}};
  if (!uri.empty()) checkpoint["uri"] = uri;
  return crds::Json{{"checkpoint", checkpoint}}.dump();
}

client::Pod pod(int index, int attempt = 1) {
  client::Pod p;
  p.meta.name = "llama-worker-" + std::to_string(index) + "-" + std::to_string(attempt);
  p.meta.uid = "uid of " + p.meta.name;
  p.labels = {{std::string(kAttemptLabel), std::to_string(attempt)},
              {std::string(kIndexLabel), std::to_string(index)},
              {std::string(kJobLabel), "llama"},
              {std::string(kRoleLabel), "worker"},
              {std::string(kTryLabel), "0"}};
  return p;
}
client::Pod running(int index, const std::string& annotation, int attempt = 1) {
  client::Pod p = pod(index, attempt);
  p.annotations = {{std::string(kCheckpointAnnotation), annotation}};
  return p;
}
// Told to go `took` seconds before it ended, with so many seconds to do it.
client::Pod ended(int index, const std::string& message, int took = 5, int grace = 30, int code = 0) {
  client::Pod p = pod(index);
  p.deleting = true;
  p.grace_seconds = grace;
  p.deleted_at = kNowUnix + grace;
  p.ended = {{"main", code, code == 0 ? "Completed" : "Error", message, kNowUnix + took}};
  return p;
}

// What is seen of it when it is told.
client::Pod told(int index, int grace = 30) {
  client::Pod p = ended(index, "", 0, grace);
  p.ended.clear();
  p.ready = true;
  return p;
}

TEST(CheckpointReport, IsALineOfJson) {
  const auto saved = parse_report(R"({"checkpoint":{"step":1200,"uri":"/ckpt/step-1200"}})");
  ASSERT_TRUE(saved);
  EXPECT_EQ(saved->step, 1200);
  EXPECT_EQ(saved->uri, "/ckpt/step-1200");
  EXPECT_EQ(parse_report(report(0))->step, 0);
  EXPECT_EQ(parse_report("loss 0.3\n" + report(7) + "\nbye\n")->step, 7) << "among other words";
  EXPECT_EQ(parse_report(report(7) + "\n" + report(9))->step, 9) << "the last one";
  EXPECT_EQ(parse_report(report(7) + "\r\n")->step, 7);
  EXPECT_EQ(parse_report(R"({"checkpoint":{"step":3,"more":[1]},"loss":0.1})")->step, 3);
}

class BadReport : public testing::TestWithParam<std::string> {};
TEST_P(BadReport, IsAsIfItWereNotThere) {
  EXPECT_FALSE(parse_report(GetParam()));
  EXPECT_EQ(parse_report(report(7) + "\n" + GetParam())->step, 7) << "the one before it counts";
}
INSTANTIATE_TEST_SUITE_P(
    All, BadReport,
    testing::Values(
        "", "{", "null", "[]", "{}", R"({"checkpoint":7})", R"({"checkpoint":{}})",
        R"({"checkpoint":{"step":"7"}})", R"({"checkpoint":{"step":-1}})", R"({"checkpoint":{"step":1.5}})",
        R"({"checkpoint":{"step":9223372036854775808}})", R"({"checkpoint":{"step":1e400}})",
        R"({"checkpoint":{"step":1,"uri":7}})", R"({"checkpoint":{"step":1,"uri":"a\u0000b"}})",
        R"({"checkpoint":{"step":1,"uri":"a\nb"}})", "{\"checkpoint\":{\"step\":1,\"uri\":\"\xff\"}}",
        R"({"checkpoint":{"step":1,"uri":")" + std::string(1025, 'x') + "\"}}", std::string(2000, '[')));

TEST(CheckpointReport, LongerTextThanKubeletsKeepIsNotRead) {
  EXPECT_TRUE(parse_report(std::string(4000, '\n') + report(7)));
  EXPECT_FALSE(parse_report(std::string(4096, '\n') + report(7)));
}

// Whatever bytes come: no crash, and what is taken is within bounds.
TEST(CheckpointReport, SurvivesAnything) {
  std::mt19937 random(7);
  const std::string seed = report(1200, "/ckpt/step-1200");
  for (int i = 0; i < 20'000; ++i) {
    std::string text = seed;
    for (unsigned n = 1 + random() % 4; n > 0; --n) {
      const std::size_t at = random() % text.size();
      switch (random() % 4) {
        case 0:
          text[at] = static_cast<char>(random());
          break;
        case 1:
          text.erase(at, 1 + random() % 5);
          break;
        case 2:
          text.insert(at, text.substr(random() % text.size(), random() % 60));
          break;
        default:
          text.insert(at, 1, "{}[]\",:\n\\0"[random() % 10]);
      }
      if (text.empty()) text = "{";
    }
    client::Pod p = running(0, text);
    p.ended = {{"main", 1, "Error", text, 0}};
    CheckpointReports reports;
    reports.note(p, kNow);
    for (const GangReport& gang : reports.gangs()) {
      ASSERT_GE(gang.saved.step.value_or(0), 0) << text;
      ASSERT_LE(gang.saved.uri.size(), 1024U);
    }
  }
}

TEST(GangReport, IsTheSmallestStepThatAllWhoReportHaveSaved) {
  CheckpointReports reports;
  EXPECT_TRUE(reports.gangs().empty());
  reports.note(running(0, report(1300, "/a")), kNow);
  reports.note(running(1, report(1200, "/b")), kNow + seconds{5});
  reports.note(pod(2), kNow);  // says nothing
  ASSERT_EQ(reports.gangs().size(), 1U);
  const GangReport gang = reports.gangs()[0];
  EXPECT_EQ(gang.saved.step, 1200);
  EXPECT_EQ(gang.saved.uri, "/b");
  EXPECT_EQ(gang.pod, "llama-worker-1-1");
  EXPECT_EQ(gang.at, kNow + seconds{5});
  EXPECT_EQ(gang.reporters, 2);
}

TEST(GangReport, LastWordsCountMoreThanTheAnnotation) {
  CheckpointReports reports;
  client::Pod p = ended(0, report(20));
  p.annotations = {{std::string(kCheckpointAnnotation), report(10)}};
  reports.note(p, kNow);
  EXPECT_EQ(reports.gangs()[0].saved.step, 20);
  p.ended.push_back({"sidecar", 0, "", report(15), 0});
  reports.note(p, kNow);
  EXPECT_EQ(reports.gangs()[0].saved.step, 15) << "of its containers the one that has saved least";
}

// A member that left would hold its gang at the step at which it went.
TEST(GangReport, WhoHasLeftDoesNotCount) {
  CheckpointReports reports;
  auto left = running(1, report(100));
  left.meta.uid = "uid-1";
  auto stays = running(0, report(120));
  stays.meta.uid = "uid-0";
  reports.note(stays, kNow);
  reports.note(left, kNow);
  EXPECT_EQ(reports.gangs().at(0).saved.step, 100);
  reports.depart(left);
  EXPECT_EQ(reports.gangs().at(0).saved.step, 120);
  EXPECT_EQ(reports.gangs().at(0).reporters, 1);
  reports.note(left, kNow + seconds{5});  // its last words
  EXPECT_EQ(reports.gangs().at(0).saved.step, 120);
  left.meta.uid = "uid-2";  // another has joined in its place
  reports.note(left, kNow + seconds{9});
  EXPECT_EQ(reports.gangs().at(0).reporters, 2);
}

// As for one who has only heard of it: that the pod left was never seen.
TEST(GangReport, OnlyPodsOfTheGangAsItIsCount) {
  CheckpointReports reports;
  reports.note(running(0, report(120)), kNow);
  reports.note(running(1, report(100)), kNow);
  crds::Assignment gang;
  gang.attempt = 1;
  gang.pods.resize(1);
  gang.pods[0].role = "worker";
  reports.keep_members("llama", gang);
  EXPECT_EQ(reports.gangs().at(0).saved.step, 120);
  EXPECT_EQ(reports.gangs().at(0).reporters, 1);
  gang.pods[0].tries = 1;  // another pod in its place, which has said nothing yet
  reports.keep_members("llama", gang);
  EXPECT_FALSE(reports.gangs().at(0).saved.step);
  gang.attempt = 2;
  reports.note(running(0, report(130)), kNow);
  reports.keep_members("llama", gang);
  EXPECT_EQ(reports.gangs().at(0).saved.step, 130) << "of another attempt";
}

TEST(GangReport, TheSameWordAgainIsNotNewer) {
  CheckpointReports reports;
  reports.note(running(0, report(10)), kNow);
  reports.note(running(0, report(10)), kNow + seconds{60});
  EXPECT_EQ(reports.gangs()[0].at, kNow);
  client::Pod nonsense = running(0, "nonsense");
  reports.note(nonsense, kNow + seconds{90});
  EXPECT_EQ(reports.gangs()[0].saved.step, 10) << "what was said well once stands";
}

TEST(GangReport, WhoSavesWhenToldReportsAtItsEndAndInTime) {
  const auto told_of = [](std::initializer_list<client::Pod> pods) {
    CheckpointReports reports;
    for (const auto& p : pods) reports.note(p, kNow);
    return reports.gangs().at(0).saved_when_told;
  };
  EXPECT_EQ(told_of({running(0, report(10))}), 0) << "nobody has told it to go";
  EXPECT_EQ(told_of({ended(0, report(10), 12)}), 1);
  EXPECT_EQ(told_of({running(0, report(10)), ended(0, report(20), 12)}), 1);
  EXPECT_EQ(told_of({ended(0, report(10), 12), ended(1, report(10), 20)}), 2);
  EXPECT_EQ(told_of({told(0), ended(0, report(10), 30, 30, 137)}), 0) << "it was killed";
  EXPECT_EQ(told_of({running(0, report(10)), ended(0, "", 12)}), 0) << "it ends without a word";
}

TEST(GangReport, AllWhoReportHaveToSave) {
  GangReport report;
  crds::CheckpointStatus known;
  EXPECT_FALSE(saved_when_told(known, report, 4)) << "nobody has reported";
  report.reporters = 2;
  report.saved_when_told = 1;
  EXPECT_FALSE(saved_when_told(known, report, 4));
  report.saved_when_told = 2;
  EXPECT_TRUE(saved_when_told(known, report, 4));
  known.reporters = 3;
  EXPECT_FALSE(saved_when_told(known, report, 4)) << "one that has reported before is missing";
  EXPECT_TRUE(saved_when_told(known, report, 2)) << "the gang is smaller now";
}

TEST(GangReport, SavingIsMeasuredFromSigterm) {
  CheckpointReports reports;
  reports.note(ended(0, report(10), 12), kNow);
  reports.note(ended(1, report(10), 45, 60), kNow);
  EXPECT_EQ(reports.gangs()[0].save_seconds, 45);
  client::Pod killed = ended(2, "", 90, 90, 137);
  reports.note(told(2, 90), kNow);
  reports.note(killed, kNow);
  EXPECT_EQ(reports.gangs()[0].save_seconds, 91) << "it would have needed longer than it had";
  CheckpointReports at_intervals;
  at_intervals.note(told(0), kNow);
  at_intervals.note(ended(0, report(10), 30, 30, 137), kNow);
  EXPECT_EQ(at_intervals.gangs()[0].saved.step, 10);
  EXPECT_EQ(at_intervals.gangs()[0].save_seconds, 31) << "the report is of an earlier save";
  CheckpointReports other;
  other.note(told(0, 90), kNow);
  client::Pod oom = ended(0, "", 90, 90, 137);
  oom.ended[0].reason = "OOMKilled";
  other.note(oom, kNow);
  client::Pod quick = ended(1, "", 1);  // went without a report: nothing is learned
  other.note(quick, kNow);
  EXPECT_TRUE(other.gangs().empty());
}

// Its handler was not there yet: nothing is learned about how long it saves.
TEST(GangReport, WhoIsKilledWhileItStartsWasNotSaving) {
  CheckpointReports reports;
  client::Pod starting = told(0);
  starting.ready = false;
  reports.note(starting, kNow);
  reports.note(ended(0, "", 30, 30, 137), kNow);
  EXPECT_TRUE(reports.gangs().empty());
  reports.note(told(1), kNow);
  reports.note(ended(1, "", 30, 30, 137), kNow);
  EXPECT_EQ(reports.gangs().at(0).save_seconds, 31);
}

TEST(TakeOver, ANewAttemptCountsWhenAsManyHaveReported) {
  crds::CheckpointStatus known;
  take_over(known, {1, {100, "/a"}, kNow, "p-1", 2, 0}, 2);
  EXPECT_EQ(known.step, 100);
  EXPECT_EQ(known.saved_at, kNow);
  EXPECT_EQ(known.reported_by, "p-1");
  take_over(known, {2, {200, "/b"}, kNow, "p-2", 1, 0}, 2);
  EXPECT_EQ(known.step, 100) << "the other may not have saved step 200";
  take_over(known, {2, {200, "/b"}, kNow, "p-2", 2, 0}, 2);
  EXPECT_EQ(known.step, 200);
  take_over(known, {1, {300, "/a"}, kNow, "p-1", 2, 0}, 2);
  EXPECT_EQ(known.step, 200) << "an attempt before";
  take_over(known, {2, {250, "/b"}, kNow, "p-2", 1, 0}, 2);
  EXPECT_EQ(known.step, 200) << "some of the attempt's pods are gone, and their words with them";
  take_over(known, {3, {300, "/c"}, kNow, "p-3", 1, 0}, 1);
  EXPECT_EQ(known.step, 300) << "the gang is smaller now";
  take_over(known, {3, {}, kNow, "", 0, 40}, 1);
  EXPECT_EQ(known.step, 300);
  EXPECT_EQ(known.save_seconds, 40);
}

TEST(TakeOver, TheSameAgainLeavesTheTime) {
  crds::CheckpointStatus known;
  take_over(known, {1, {100, "/a"}, kNow, "p-1", 1, 0}, 2);
  take_over(known, {1, {100, "/a"}, kNow + seconds{9}, "p-0", 2, 0}, 2);
  EXPECT_EQ(known.saved_at, kNow);
  EXPECT_EQ(known.reporters, 2);
  take_over(known, {1, {90, "/z"}, kNow + seconds{9}, "p-2", 3, 0}, 3);
  EXPECT_EQ(known.step, 90) << "one more reports, and has saved less";
}

TEST(GraceSeconds, AreTheCheckpointsTheTemplatesOrKubernetesOwn) {
  crds::TrainingJobSpec spec;
  EXPECT_EQ(grace_seconds(spec), 30);
  crds::Role role;
  role.pod_template.value =
      std::make_shared<const crds::Json>(crds::Json{{"spec", {{"terminationGracePeriodSeconds", 7}}}});
  spec.roles.push_back(role);
  EXPECT_EQ(grace_seconds(spec), 7);
  spec.checkpoint = crds::Checkpoint{};
  spec.checkpoint->grace_period = seconds{120};
  EXPECT_EQ(grace_seconds(spec), 120);
}

}  // namespace
}  // namespace muster::reconcilers
