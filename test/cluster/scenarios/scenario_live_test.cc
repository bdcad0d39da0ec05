// Scenarios of test/scenarios on a real control plane: the same events in the same order as in simulation,
// and the same end. MUSTER_FULL_SIZE plays every one that can be; otherwise a part.
#include <gmock/gmock.h>

#include <algorithm>
#include <iostream>

#include "fixture.h"
#include "live.h"

namespace muster::test {
namespace {

using testing::IsEmpty;

// One of each kind of thing that happens.
const std::vector<std::string> kPart = {
    "s03-reclaim-within-guarantee",   // reclaim, with a save that takes time
    "s05b-evicted-only-when-needed",  // several in turn, and back when others end
    "s09-preempt-and-resume",         // preempted, goes on from its checkpoint
    "s10-consolidate",                // moved
    "s13-grow-back",                  // shrinks and grows
    "s15-straddling-gang",            // a gang goes whole
    "s17-best-rack-has-three",        // no rack is free enough, beside pods of others
    "s22-elastic-rack",               // a node fails
    "s23-inference-scales",           // a service takes its quota
    "s24-eighth-mig-slice",           // slices
    "s25-memory-overcommit",          // shares of memory
    "s26-the-aligned-node",           // NUMA nodes
    "s41-five-pods-on-three-nodes",   // a gang on as few nodes as suffice
};

// Files that are not of the design's scenarios, and have cluster tests of their own as well.
const std::vector<std::string> kOthers = {
    "r4-30-affinity-to-a-running-job",
    "r4-32-topology-spread",
    "r4-210-a-session-that-is-suspended-comes-back",
    "r4-211-sessions-share-their-quota",
    "r7-60-waits-until-another-job-is-complete",
};

std::vector<std::string> chosen() {
  if (!full_size()) return kPart;
  std::vector<std::string> all = kOthers;
  for (const auto& entry : std::filesystem::directory_iterator(MUSTER_SCENARIOS)) {
    const auto& path = entry.path();
    if (!path.filename().string().starts_with("s") || path.extension() != ".yaml") continue;
    if (why_not_live(read_scenario(path)).empty()) all.push_back(path.stem().string());
  }
  std::ranges::sort(all);
  return all;
}

// Of a proportional scenario nobody is expected to leave before his end.
std::string leaving(const std::vector<Event>& events) {
  std::string all;
  for (const Event& e : events) {
    if (e.type == "Evicted" || e.type == "Moved" || e.type == "Shrunk") all += to_string(e) + "\n";
  }
  return all;
}

class Live : public testing::TestWithParam<std::string> {};

TEST_P(Live, EndsAsInSimulation) {
  const Documents documents = read_scenario(std::filesystem::path(MUSTER_SCENARIOS) / (GetParam() + ".yaml"));
  const Simulated original = simulate(documents);
  ASSERT_THAT(original.failures, IsEmpty());
  // Where this test itself came late to an instant, the machine is busy with something else and the run says
  // nothing: it is repeated once, with more time between the instants. Any other difference is a failure.
  for (const seconds gap : {seconds{number_from_environment("MUSTER_SCENARIO_GAP", 3)}, seconds{9}}) {
    const Compressed hurried = compress(documents, original.events, gap);
    const Simulated expected = simulate(hurried.documents, hurried.fault_after);
    ASSERT_THAT(expected.failures, IsEmpty());
    const LiveRun run = play(hurried, expected);
    const auto instants = by_instant(expected.events);
    auto wrong = difference(instants, run.events);
    if (hurried.is_proportional) wrong = leaving(run.events);
    std::cout << "simulated:\n";
    for (const auto& e : expected.events)
      std::cout << "  " << e.at.count() << "s " << to_string(e.event) << "\n";
    std::cout << "live" << (is_single_threaded(instants) ? "" : ", order within an instant open") << ":\n";
    for (const auto& e : run.events) std::cout << "  " << to_string(e) << "\n";
    if (wrong.empty() && run.differences.empty()) return;
    std::cout << "expected, and there:\n" << wrong;
    for (const auto& line : run.differences) std::cout << line << "\n";
    if (gap < seconds{9} && run.behind > gap / 2) {
      std::cout << "REPEATED: the test was " << run.behind.count() << " ms late, with " << gap.count()
                << " s between the instants\n";
      RecordProperty("repeated", static_cast<int>(run.behind.count()));
      continue;
    }
    std::cout << run.log.substr(0, 20000);
    FAIL() << "differs from its simulation; the test was at most " << run.behind.count() << " ms late";
  }
}
INSTANTIATE_TEST_SUITE_P(Scenario, Live, testing::ValuesIn(chosen()), [](const auto& name) {
  std::string text = name.param;
  std::ranges::replace(text, '-', '_');
  return text;
});

}  // namespace
}  // namespace muster::test
