#include "act/rollout.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/reconcilers/services/service_objects.h"

namespace muster::plugin {
namespace {

using testing::HasSubstr;

constexpr crds::Time kNow{std::chrono::sys_days{std::chrono::year{2026} / 3 / 4}};

crds::ServiceRevision kept(std::string name, std::int64_t number) {
  crds::ServiceRevision one;
  one.name = std::move(name);
  one.number = number;
  one.created_at = kNow - std::chrono::hours{number};
  one.images = {"serve:" + std::to_string(number)};
  return one;
}

// Revision 3, that of its spec, is in force.
crds::InferenceService sample() {
  crds::InferenceService service;
  service.metadata.name = "chat";
  service.metadata.ns = "nlp";
  service.status.revision = service.status.stable_revision = reconcilers::revision_of(service);
  service.status.revisions = {kept(service.status.revision, 3), kept("bbbbb", 2), kept("aaaaa", 1)};
  return service;
}
crds::InferenceService with_canary() {
  auto service = sample();
  service.spec.rollout.canary.emplace().percent = 10;
  service.status.canary.emplace().revision = service.status.revision;
  service.status.stable_revision = "bbbbb";
  return service;
}

TEST(Rollout, UndoGoesToTheOneBeforeOrToAnyThatIsKept) {
  EXPECT_EQ(undo(sample(), "")->patch, Data::parse(R"({"spec": {"rollout": {"toRevision": "bbbbb"}}})"));
  for (const char* to : {"1", "aaaaa"})
    EXPECT_EQ(undo(sample(), to)->patch["spec"]["rollout"]["toRevision"], "aaaaa");
  EXPECT_THAT(undo(sample(), "7").error(), HasSubstr("there is no revision 7"));
  EXPECT_THAT(undo(sample(), "3").error(), HasSubstr("is in force already"));
  auto first = sample();
  first.status.revisions.resize(1);
  EXPECT_THAT(undo(first, "").error(), HasSubstr("there is no revision before"));
  EXPECT_THAT(undo(with_canary(), "").error(), HasSubstr("kubectl muster rollout abort chat"));
}

TEST(Rollout, UndoToWhatTheSpecSaysRemovesWhatKeptItFromIt) {
  auto service = sample();
  const std::string own = service.status.revision;
  service.status.revision = "bbbbb";
  service.spec.rollout.to_revision = "bbbbb";
  EXPECT_EQ(undo(service, "")->patch, Data::parse(R"({"spec": {"rollout": {"toRevision": null}}})"));
  service.spec.rollout.canary.emplace().aborted_revision = own;
  EXPECT_EQ(
      undo(service, "3")->patch,
      Data::parse(R"({"spec": {"rollout": {"toRevision": null, "canary": {"abortedRevision": null}}}})"));
}

TEST(Rollout, PromoteAndAbortNameTheCanary) {
  auto service = with_canary();
  const std::string canary = service.status.canary->revision;
  Data fields = promote(service)->patch["spec"]["rollout"]["canary"];
  EXPECT_EQ(fields, Data({{"promotedRevision", canary}}));
  service.spec.rollout.canary->promoted_revision = canary;
  fields = abort_canary(service)->patch["spec"]["rollout"]["canary"];
  EXPECT_EQ(fields, Data({{"abortedRevision", canary}, {"promotedRevision", nullptr}})) << "never both";
  EXPECT_THAT(promote(sample()).error(), HasSubstr("no canary is under way"));
  EXPECT_THAT(abort_canary(sample()).error(), HasSubstr("no canary is under way"));
}

TEST(Rollout, HistorySaysWhichIsWhich) {
  const auto table = print(revisions(with_canary(), kNow), Format::kTable, false);
  EXPECT_THAT(table, testing::ContainsRegex("3 +[0-9a-f]+ +canary +0 +0 +3h +serve:3"));
  EXPECT_THAT(table, testing::ContainsRegex("2 +bbbbb +stable"));
  EXPECT_THAT(print(revisions(sample(), kNow), Format::kTable, false),
              testing::ContainsRegex("3 +[0-9a-f]+ +in force"));
  EXPECT_EQ(print(revisions({}, kNow), Format::kTable, false), "No revision of / is kept yet.\n");
}

TEST(Rollout, StatusIsWhatTheConditionSays) {
  auto service = sample();
  EXPECT_THAT(rollout_status(service), HasSubstr("nothing has looked"));
  service.status.conditions = {
      {"RolledOut", crds::ConditionStatus::kFalse, 1, kNow, "RollingOut", "1 is left"}};
  service.metadata.generation = 2;
  service.status.observed_generation = 2;
  EXPECT_EQ(rollout_status(service), "RollingOut: 1 is left\n");
  service.metadata.generation = 3;
  EXPECT_THAT(rollout_status(service), HasSubstr("was not looked at yet"));
}

}  // namespace
}  // namespace muster::plugin
