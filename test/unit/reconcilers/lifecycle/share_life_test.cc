// A gang whose GPUs somebody holds for it: it waits for them, is placed elsewhere where they cannot be had,
// and leaves them when they are lost.
#include "life.h"

namespace muster::reconcilers {
namespace {

// What is known about the GPUs of each node; all that is not named is held.
struct SharedLife : Life {
  std::map<std::string, Holding> nodes;

  Step look() const {
    Observed seen{.job = job, .pods = pods, .now = now};
    seen.decision = decision ? &*decision : nullptr;
    seen.holding = [this](const crds::PodAssignment& place, const client::Pod* pod) {
      const auto found = nodes.find(place.node);
      if (found == nodes.end()) return Holding{};
      Holding known = found->second;
      if (pod == nullptr) known.lost.clear();
      return known;
    };
    seen.charge = [](const crds::PodAssignment&) { return crds::MilliGpu{250}; };
    return advance(seen);
  }
  Step turn() {
    Step step = look();
    commit(step);
    apply(step);
    return step;
  }
  void admit() {
    turn();
    decision = place();
    turn();
  }
};

TEST(SharedGang, IsMadeWholeWhenAllItsGpusAreHeld) {
  SharedLife life;
  life.nodes["node-1"] = {
      .ready = false, .message = "pod gpu-0-node-1: ErrImagePull", .again = kStart + seconds{9}};
  life.admit();
  EXPECT_THAT(life.pods, IsEmpty());
  EXPECT_EQ(life.reason("PodsReady"), "WaitingForGPUs");
  EXPECT_THAT(life.message("PodsReady"), HasSubstr("ErrImagePull"));
  EXPECT_EQ(life.job.status.allocated.gpu, crds::MilliGpu{500});
  const Step waits = life.turn();
  EXPECT_THAT(waits.create, IsEmpty());
  EXPECT_EQ(waits.wake_at, kStart + seconds{9});
  life.nodes.clear();
  EXPECT_THAT(life.turn().create, SizeIs(2));
  EXPECT_EQ(life.reason("PodsReady"), "Starting");
  for (const auto& name : life.names()) life.ready(name);
  life.turn();
  EXPECT_EQ(life.phase(), Phase::kRunning);
  EXPECT_EQ(life.job.status.attempt, 1);
}

TEST(SharedGang, WhatItGivesBackIsSaidAsItIsCharged) {
  const auto withdrawn = [](std::int32_t replicas) {
    SharedLife life;
    life.job.spec.roles[0].replicas = replicas;
    life.turn();
    life.decision = life.place();
    life.decision->places.resize(static_cast<std::size_t>(replicas));
    life.turn();
    life.decision = Life::give_back(JobDecision::Kind::kEvict, "Reclaimed", "for b/own");
    std::string text;
    for (const auto& note : life.turn().notes) text += note.text;
    return text;
  };
  EXPECT_THAT(withdrawn(2), HasSubstr("; 2 pods with 500m GPU"));
  EXPECT_THAT(withdrawn(1), HasSubstr("; 1 pod with 250m GPU"));
}

TEST(SharedGang, TheTimeToStartCountsWhileItWaitsForItsGpus) {
  SharedLife life;
  life.nodes["node-0"] = {.ready = false};
  life.admit();
  life.now += life.job.spec.start_timeout;
  life.turn();
  EXPECT_EQ(life.job.status.assignment.attempt, 0);
  EXPECT_EQ(life.reason("Evicted"), "StartTimeout");
}

TEST(SharedGang, WhoCannotHaveItsGpusIsPlacedElsewhere) {
  SharedLife life;
  life.nodes["node-1"] = {.ready = false, .refused = "UnexpectedAdmissionError", .message = "no GPU is left"};
  life.admit();
  const Step step = life.turn();
  EXPECT_THAT(step.displaced, ElementsAre(1));
  EXPECT_THAT(life.names(), ElementsAre("llama-worker-0-1"));
  ASSERT_THAT(life.job.status.node_refusals, SizeIs(1));
  EXPECT_EQ(life.job.status.node_refusals[0].node, "node-1");
  EXPECT_EQ(life.job.status.node_refusals[0].reason, "UnexpectedAdmissionError");
  // The reservation has gone; the refusal is not forgotten.
  life.nodes.clear();
  EXPECT_THAT(life.turn().displaced, ElementsAre(1));
  JobDecision elsewhere;
  elsewhere.kind = JobDecision::Kind::kReplace;
  elsewhere.generation = 1;
  elsewhere.pool = "a100";
  elsewhere.places = {{"worker", 1, "node-7", {0}}};
  life.decision = elsewhere;
  life.turn();
  EXPECT_EQ(life.pods.back()->node_name, "node-7");
  EXPECT_EQ(life.job.status.attempt, 1);
}

TEST(SharedGang, WhoseGpuIsLostIsQueuedAgainAndNotBlamed) {
  SharedLife life;
  life.admit();
  for (const auto& name : life.names()) life.ready(name);
  life.turn();
  ASSERT_EQ(life.phase(), Phase::kRunning);
  life.nodes["node-1"] = {.lost = "GPU 0 of node node-1 is not held for it"};
  const Step step = life.turn();
  EXPECT_THAT(step.remove, SizeIs(2));
  EXPECT_EQ(life.reason("Evicted"), "PodLost");
  EXPECT_THAT(life.message("Evicted"), HasSubstr("not held"));
  EXPECT_EQ(life.job.status.restarts.count, 0);
}

}  // namespace
}  // namespace muster::reconcilers
