// Holder pods: what they are, what they have come to, and which must be there.
#include "muster/reconcilers/sharing/holder_pod.h"

#include <gmock/gmock.h>

#include <nlohmann/json.hpp>

#include "muster/reconcilers/pods/names.h"

namespace muster::reconcilers {
namespace {

using State = HolderPod::State;
using std::chrono::seconds;

constexpr crds::Time kMade{std::chrono::sys_days{std::chrono::year{2026} / 1 / 2}};

client::Pod reservation(client::PodPhase phase, std::string message = {}) {
  client::Pod pod;
  pod.meta = {"muster-system", "gpu-3-n1", "uid-1", "1"};
  pod.labels = {{std::string(kHolderPodLabel), "true"}};
  pod.annotations = {{std::string(kGpusAnnotation), "3"}};
  pod.node_name = "n1";
  pod.created_at = kMade.time_since_epoch().count();
  pod.phase = phase;
  pod.init_message = std::move(message);
  return pod;
}
HolderPod read(const client::Pod& pod, seconds age = seconds{1}) {
  return read_holder_pod(&pod, kMade + age);
}

TEST(ReservationPod, AsksForOneGpuInBothContainersAndForNoRights) {
  const auto pod = holder_pod_json({"n1", 3}, "amd.com/gpu", {"sys", "muster:1", {"registry"}});
  EXPECT_EQ(pod["metadata"]["name"], "gpu-3-n1");
  EXPECT_EQ(pod["metadata"]["namespace"], "sys");
  const auto& spec = pod["spec"];
  EXPECT_EQ(spec["nodeName"], "n1");
  EXPECT_EQ(spec["restartPolicy"], "Never");
  EXPECT_EQ(spec["automountServiceAccountToken"], false);
  EXPECT_EQ(spec["imagePullSecrets"][0]["name"], "registry");
  EXPECT_EQ(spec["tolerations"].dump(), R"([{"operator":"Exists"}])");
  for (const char* list : {"initContainers", "containers"}) {
    ASSERT_EQ(spec[list].size(), 1u);
    const auto& container = spec[list][0];
    EXPECT_EQ(container["image"], "muster:1");
    EXPECT_EQ(container["resources"]["requests"], container["resources"]["limits"]);
    EXPECT_EQ(container["resources"]["limits"]["amd.com/gpu"], "1");
    EXPECT_EQ(container["securityContext"]["capabilities"].dump(), R"({"drop":["ALL"]})");
  }
  EXPECT_EQ(spec["initContainers"][0]["args"].dump(), R"(["hold-gpu","--report"])");
  EXPECT_FALSE(holder_pod_json({"n1", 3}, "amd.com/gpu", {})["spec"].contains("imagePullSecrets"));
}

TEST(ReservationPod, IsKnownByItsLabelAndItsName) {
  client::Pod pod = reservation(client::PodPhase::kRunning);
  EXPECT_EQ(gpu_held_by(pod), (NodeGpu{"n1", 3}));
  pod.meta.name = "gpu-2-n1";
  EXPECT_FALSE(gpu_held_by(pod)) << "not the GPU that it says";
  pod = reservation(client::PodPhase::kRunning);
  pod.labels.clear();
  EXPECT_FALSE(gpu_held_by(pod));
}

TEST(ReadReservation, HoldsWhatItHasReportedOnceItRuns) {
  EXPECT_EQ(read_holder_pod(nullptr, kMade).state, State::kAbsent);
  EXPECT_EQ(read(reservation(client::PodPhase::kPending, "GPU-1")).state, State::kStarting);
  const auto holds = read(reservation(client::PodPhase::kRunning, "GPU-1"), seconds{9999});
  EXPECT_EQ(holds.state, State::kHolds);
  EXPECT_EQ(holds.device, "GPU-1");
  EXPECT_EQ(holds.uid, "uid-1");
}

TEST(ReadReservation, WordsThatNameNoDeviceAreNone) {
  for (const char* message : {"", "all", "none", "void", "GPU-1,GPU-2", "GPU 1", "\"", "GPU-1\n"}) {
    const auto there = read(reservation(client::PodPhase::kRunning, message));
    EXPECT_EQ(there.state, State::kFailed) << message;
    EXPECT_EQ(there.reason, "NoDeviceReported");
  }
}

TEST(ReadReservation, FailsWhenItReportsNothingInTime) {
  client::Pod pod = reservation(client::PodPhase::kPending);
  pod.waiting_reason = "ImagePullBackOff";
  pod.waiting_message = "no such image";
  auto there = read(pod, kReportWithin - seconds{1});
  EXPECT_EQ(there.state, State::kStarting);
  EXPECT_EQ(there.due, kMade + kReportWithin);
  EXPECT_EQ(there.message, "ImagePullBackOff: no such image");
  there = read(pod, kReportWithin);
  EXPECT_EQ(there.state, State::kFailed);
  EXPECT_EQ(there.reason, "ImagePullBackOff");
}

TEST(ReadReservation, OneThatEndsHasFailedOrHeldBefore) {
  client::Pod pod = reservation(client::PodPhase::kFailed);
  pod.reason = "UnexpectedAdmissionError";
  pod.message = "no GPU is left";
  EXPECT_EQ(read(pod).state, State::kFailed);
  EXPECT_EQ(read(pod).reason, "UnexpectedAdmissionError");
  EXPECT_EQ(read(pod).message, "no GPU is left");
  pod = reservation(client::PodPhase::kFailed);
  pod.ended = {{"report", 1, "Error", "the plugin does not tell", 0}};
  EXPECT_EQ(read(pod).message, "the plugin does not tell");
  EXPECT_EQ(read(reservation(client::PodPhase::kFailed, "GPU-1")).state, State::kEnded);
  pod.deleting = true;
  EXPECT_EQ(read(pod).state, State::kLeaving);
}

Duty duty_of(bool assigned, std::size_t sharers, State state) {
  HolderPod there;
  there.state = state;
  return duty(assigned, sharers, there);
}

TEST(DutyOf, OneIsMadeForAnAssignmentOnceThePodsOfAnEarlierOneAreGone) {
  EXPECT_EQ(duty_of(true, 0, State::kAbsent), Duty::kMake);
  EXPECT_EQ(duty_of(true, 1, State::kAbsent), Duty::kNothing);
  EXPECT_EQ(duty_of(false, 0, State::kAbsent), Duty::kNothing);
  EXPECT_EQ(duty_of(false, 1, State::kAbsent), Duty::kNothing);
}

TEST(DutyOf, ItGoesWithTheLastWhoNeedsIt) {
  for (const auto state : {State::kStarting, State::kHolds, State::kFailed}) {
    EXPECT_EQ(duty_of(false, 0, state), Duty::kRemove);
    EXPECT_EQ(duty_of(true, 0, state), Duty::kNothing);
    EXPECT_EQ(duty_of(false, 1, state), Duty::kNothing);
    EXPECT_EQ(duty_of(true, 2, state), Duty::kNothing);
  }
  for (const bool assigned : {false, true}) {
    EXPECT_EQ(duty_of(assigned, 0, State::kLeaving), Duty::kNothing);
    EXPECT_EQ(duty_of(assigned, 0, State::kEnded), Duty::kRemove) << "made anew where it is needed";
    EXPECT_EQ(duty_of(assigned, 1, State::kEnded), Duty::kNothing);
  }
}

}  // namespace
}  // namespace muster::reconcilers
