// What is kept of the disturbances of jobs that are gone.
#include "muster/reconcilers/usage/disruption_history.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::reconcilers {
namespace {

using namespace std::chrono_literals;
using testing::HasSubstr;
using testing::UnorderedElementsAre;

constexpr crds::Time kBegin{std::chrono::sys_days{std::chrono::year{2026} / 3 / 4}};

PastDisruption taken(const std::string& job, std::chrono::seconds at, std::int64_t cost = 60) {
  return {job,
          "ann",
          {.at = kBegin + at,
           .reason = "Reclaimed",
           .message = "for cv/x, \"which\" has a right\nto it",
           .gave = crds::MilliGpu{4500},
           .cost = cost,
           .owed = true}};
}

// Another process goes on from what this one has written.
DisruptionHistory next_process(const DisruptionHistory& history) {
  DisruptionHistory next;
  for (std::size_t file = 0; file < DisruptionHistory::kFiles; ++file) next.load(file, history.text_of(file));
  return next;
}

TEST(DisruptionHistory, ALineIsReadAsItWasWritten) {
  const auto one = taken("llama", 5s);
  EXPECT_EQ(parse_disruption(line_of(one)), one);
  EXPECT_EQ(line_of(one).find('\n'), std::string::npos);
  EXPECT_EQ(parse_disruptions(line_of(one) + "\n\nnot a line\n{\"at\":1}\n" + line_of(one)).size(), 2U);
  auto absurd = taken("x", 1s);
  absurd.what.message = "\xff\xfe";
  EXPECT_TRUE(parse_disruption(line_of(absurd)));
}

TEST(DisruptionHistory, WhatIsToldAgainChangesNothing) {
  DisruptionHistory history;
  history.note(taken("a", 1s));
  EXPECT_THAT(history.changed(), UnorderedElementsAre(0));
  auto next = next_process(history);
  next.note(taken("a", 1s));
  EXPECT_TRUE(next.changed().empty());
  EXPECT_EQ(next.size(), 1U);
}

// What an eviction has lost is known when the job has left.
TEST(DisruptionHistory, ACostThatIsKnownLaterCorrectsTheLine) {
  DisruptionHistory history;
  history.note(taken("a", 1s, 60));
  history.changed().clear();
  history.note(taken("a", 1s, 500));
  EXPECT_THAT(history.changed(), UnorderedElementsAre(0));
  EXPECT_EQ(history.size(), 1U);
  EXPECT_THAT(history.text_of(0), HasSubstr("\"cost\":500"));
}

TEST(DisruptionHistory, KeepsTheLatestThousandAndWritesOneFileForEach) {
  DisruptionHistory history;
  for (int i = 0; i < 5000; ++i) {
    history.changed().clear();
    history.note(taken("job", std::chrono::seconds{i}));
    ASSERT_EQ(history.changed().size(), 1U);
    ASSERT_GE(history.size(), std::min(i + 1, 1000));
    ASSERT_LE(history.size(), DisruptionHistory::kFiles * DisruptionHistory::kMaxLines);
    if (i % 700 == 0) history = next_process(history);
  }
  const auto all = next_process(history);
  std::vector<std::string> found;
  for (std::size_t file = 0; file < DisruptionHistory::kFiles; ++file) {
    for (const auto& one : parse_disruptions(all.text_of(file)))
      found.push_back(crds::to_string(one.what.at));
  }
  for (int i = 4000; i < 5000; ++i)
    EXPECT_EQ(std::ranges::count(found, crds::to_string(kBegin + std::chrono::seconds{i})), 1) << i;
}

// A job that is still there tells of what was dropped because others are later.
TEST(DisruptionHistory, WhatWasDroppedIsNotTakenUpAgain) {
  DisruptionHistory history;
  for (int i = 1; i <= 1500; ++i) history.note(taken("job", std::chrono::seconds{i}));
  auto next = next_process(history);
  const auto before = next.size();
  next.note(taken("old", 0s));
  EXPECT_TRUE(next.changed().empty());
  EXPECT_EQ(next.size(), before);
}

TEST(DisruptionHistory, IsBoundedInBytes) {
  DisruptionHistory history;
  for (int i = 0; i < 2000; ++i) {
    auto one = taken("job", std::chrono::seconds{i});
    one.what.message = std::string(512, '\x01');  // six bytes each, as JSON writes it
    history.note(std::move(one));
  }
  for (std::size_t file = 0; file < DisruptionHistory::kFiles; ++file) {
    EXPECT_LE(history.text_of(file).size(), DisruptionHistory::kMaxBytes);
    EXPECT_GT(history.text_of(file).size(), 0U);
  }
}

}  // namespace
}  // namespace muster::reconcilers
