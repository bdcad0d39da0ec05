// Services in virtual time: rollouts, and a size that follows the load.
#include <gmock/gmock.h>

#include "scenario.h"

namespace muster::simulate {
namespace {

using std::chrono::seconds;
using testing::ElementsAre;

// `notes` as for job(); `spec`: more of the spec, with a comma behind it.
std::string service(const std::string& notes, const std::string& spec, const std::string& image = "img") {
  return fmt::format(
      "---\n{{apiVersion: muster.dev/v1alpha1, kind: InferenceService, metadata: {{name: web, namespace: "
      "team, annotations: {{{}}}}}, spec: {{{}gpus: {{count: 4}}, template: {{spec: {{containers: [{{name: "
      "main, image: \"{}\"}}]}}}}}}}}\n",
      notes, spec, image);
}

std::string scaled_by(const std::string& load) {
  return service("simulate.muster.dev/load: \"" + load + "\"",
                 "autoscaling: {minReplicas: 1, maxReplicas: 2, metric: RequestsRunning, target: 2}, ");
}

TEST(Services, ARolloutGoesReplicaByReplica) {
  const json r = run(cluster(8) + service("", "replicas: 2, ") +
                     service("simulate.muster.dev/at: 10s", "replicas: 2, ", "img:2"));
  EXPECT_THAT(events_of(r), ElementsAre("0s Admitted team/web", "0s Admitted team/web",
                                        "10s Admitted team/web", "10s Shrunk team/web RolledOut",
                                        "10s Admitted team/web", "10s Shrunk team/web RolledOut"));
  EXPECT_EQ(job_of(r, "web")["pods"].size(), 2U);
}

TEST(Services, AnEditOfTheirNumberReplacesNone) {
  const json r = run(cluster() + service("", "replicas: 1, ") +
                     service("simulate.muster.dev/at: 10s", "replicas: 2, rollout: {maxSurge: 2}, "));
  EXPECT_THAT(events_of(r), ElementsAre("0s Admitted team/web", "10s Admitted team/web"));
}

TEST(Services, OneThatGoesKeepsItsPlaceWhileItSaves) {
  const json r =
      run(cluster() + service("simulate.muster.dev/saves-in: 20s", "replicas: 2, ") +
              service("simulate.muster.dev/at: 10s, simulate.muster.dev/saves-in: 20s", "replicas: 1, ") +
              job("j", "at: 11s", "gpus: {count: 4}"),
          seconds(60));
  EXPECT_THAT(events_of(r), ElementsAre("0s Admitted team/web", "0s Admitted team/web",
                                        "10s Shrunk team/web Scaled", "30s Admitted team/j"));
}

// Without an end it ends when nothing can change any more, although the load goes on.
TEST(Services, TheSizeFollowsTheLoad) {
  const json r = run(cluster() + scaled_by("0s: 1, 10m: 4, 20m: 1"));
  const auto events = events_of(r);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0], "0s Admitted team/web");
  EXPECT_THAT(events[1], testing::MatchesRegex("6[0-9][0-9]s Admitted team/web"));
  EXPECT_THAT(events[2], testing::MatchesRegex("15[0-9][0-9]s Shrunk team/web Scaled"));
}

TEST(Services, WithoutALoadTheSizeIsTheMinimum) {
  const json r =
      run(cluster() +
          service("", "autoscaling: {minReplicas: 1, maxReplicas: 2, metric: RequestsWaiting, target: 1}, "));
  EXPECT_THAT(events_of(r), ElementsAre("0s Admitted team/web"));
}

TEST(Services, ALoadByAnEditIsReadFromThenOn) {
  const json r = run(cluster() + scaled_by("0s: 1") +
                     service("simulate.muster.dev/at: 2h, simulate.muster.dev/load: \"0s: 4\"",
                             "autoscaling: {minReplicas: 1, maxReplicas: 2, metric: RequestsRunning, target: "
                             "2}, "));
  const auto events = events_of(r);
  ASSERT_EQ(events.size(), 2U);
  EXPECT_THAT(events[1], testing::MatchesRegex("72[0-9][0-9]s Admitted team/web"));
}

}  // namespace
}  // namespace muster::simulate
