// What a simulated job's status says of disturbances, as a cluster's would.
#include "scenario.h"
#include "world/world.h"

namespace muster::simulate {
namespace {

using std::chrono::seconds;

// As `low` stands at 200 s: it ran on all 8 GPUs for 100 s, and then made room for a job of 50 s.
crds::TrainingJobStatus evicted(const std::string& notes) {
  const std::string asks = "replicas: 2, gpus: {count: 4}";
  const std::string text =
      "---\n{apiVersion: scheduling.k8s.io/v1, kind: PriorityClass, metadata: {name: high}, value: 90}\n" +
      cluster() + job("low", "runs-for: 1h" + notes, asks) +
      job("high", "at: 100s, runs-for: 50s", asks, "priorityClassName: high, ");
  const Input input = read_text(text, "test.yaml");
  EXPECT_TRUE(input.errors.empty());
  Simulation simulation(input, {seconds(200)});
  EXPECT_TRUE(simulation.run().empty());
  const Gang* low = simulation.world().gang_of("team/low");
  EXPECT_NE(low, nullptr);
  return low == nullptr ? crds::TrainingJobStatus{} : low->job.status;
}

TEST(Disruption, AProgramThatSavesInTimeIsSeenToSave) {
  const auto status = evicted(", saves-in: 10s");
  EXPECT_EQ(status.attempt, 2);
  EXPECT_EQ(status.disruption.ran, 800);
  EXPECT_EQ(status.disruption.saves_when_asked, true);
  EXPECT_EQ(status.checkpoint.save_seconds, 10);
  EXPECT_EQ(status.checkpoint.attempt, 1);
  EXPECT_EQ(status.assignment.resume.step, 200) << "pods x seconds";
  EXPECT_EQ(evicted("").checkpoint.save_seconds, 1) << "it takes a second at least";
}

TEST(Disruption, AProgramThatNeedsLongerThanItHasIsSeenNotToSave) {
  const auto status = evicted(", saves-in: 60s");
  EXPECT_EQ(status.disruption.ran, 800);
  EXPECT_EQ(status.disruption.saves_when_asked, false);
  EXPECT_FALSE(status.checkpoint.step);
}

}  // namespace
}  // namespace muster::simulate
