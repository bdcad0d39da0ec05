// The hurried form of a scenario is the same scenario.
#include "compressed.h"

#include <gmock/gmock.h>

#include <algorithm>

namespace muster::test {
namespace {

using testing::IsEmpty;

std::vector<std::filesystem::path> files() {
  std::vector<std::filesystem::path> all;
  for (const auto& entry : std::filesystem::directory_iterator(MUSTER_SCENARIOS)) {
    if (entry.path().filename().string().starts_with("s") && entry.path().extension() == ".yaml")
      all.push_back(entry.path());
  }
  std::ranges::sort(all);
  return all;
}

std::vector<Event> without_times(const std::vector<TimedEvent>& events) {
  std::vector<Event> all;
  for (const TimedEvent& e : events) all.push_back(e.event);
  return all;
}

class Hurried : public testing::TestWithParam<std::filesystem::path> {};

TEST_P(Hurried, HasTheSameEventsAndKeepsItsExpectations) {
  const Documents documents = read_scenario(GetParam());
  if (const auto why = why_not_live(documents); !why.empty()) GTEST_SKIP() << why;
  const Simulated slow = simulate(documents);
  ASSERT_THAT(slow.failures, IsEmpty());
  const Compressed hurried = compress(documents, slow.events, seconds{3});
  const Simulated fast = simulate(hurried.documents, hurried.fault_after);
  EXPECT_THAT(fast.failures, IsEmpty());
  if (!hurried.is_proportional) {
    EXPECT_EQ(difference(by_instant(slow.events), without_times(fast.events)), "");
  }
}
INSTANTIATE_TEST_SUITE_P(Scenario, Hurried, testing::ValuesIn(files()), [](const auto& file) {
  std::string name = file.param.stem().string();
  std::ranges::replace(name, '-', '_');
  return name;
});

TEST(NotLive, IsNoScenarioOfTheDesign) {
  for (const auto& file : files()) EXPECT_EQ(why_not_live(read_scenario(file)), "") << file.stem().string();
}

TEST(Compressed, InstantsAreAGapApartAndDurationsFollow) {
  const Documents documents = {
      json::parse(R"({"apiVersion":"v1","kind":"Node","metadata":{"name":"n1"},
        "status":{"allocatable":{"cpu":"8","memory":"8Gi","pods":"110","nvidia.com/gpu":"1"}}})"),
      json::parse(R"({"apiVersion":"muster.dev/v1alpha1","kind":"Queue","metadata":{"name":"all"},
        "spec":{"quota":{"gpu":1}}})"),
      json::parse(R"({"apiVersion":"muster.dev/v1alpha1","kind":"Project","metadata":{"name":"team"},
        "spec":{"queue":"all","quota":{"gpu":1}}})"),
      json::parse(R"({"apiVersion":"muster.dev/v1alpha1","kind":"TrainingJob","metadata":{"name":"j",
        "namespace":"team","annotations":{"simulate.muster.dev/at":"1m",
        "simulate.muster.dev/runs-for":"2h"}},"spec":{"roles":[{"name":"worker","gpus":{"count":1},
        "template":{"spec":{"containers":[{"name":"main","image":"img"}]}}}]}})"),
      json::parse(R"({"apiVersion":"simulate.muster.dev/v1","kind":"Expectation","at":"1h",
        "jobs":{"team/j":{"phase":"Running"}}})")};
  const Simulated slow = simulate(documents);
  ASSERT_EQ(slow.events.size(), 2U);
  const Compressed hurried = compress(documents, slow.events, seconds{3});
  EXPECT_EQ(hurried.instants, (std::vector{seconds{0}, seconds{3}, seconds{6}, seconds{9}}));
  EXPECT_EQ(annotation(hurried.documents[3], "at"), seconds{3});
  EXPECT_EQ(annotation(hurried.documents[3], "runs-for"), seconds{6});
  EXPECT_EQ(hurried.documents[4]["at"], "6s");
}

}  // namespace
}  // namespace muster::test
