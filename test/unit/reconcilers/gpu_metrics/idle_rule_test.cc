#include "muster/reconcilers/gpu_metrics/idle_rule.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace muster::reconcilers {
namespace {

using std::chrono::minutes;
using std::chrono::seconds;
using testing::HasSubstr;

constexpr std::int32_t kBelow = 5;
constexpr client::Duration kEvery = seconds{30};

GpuReading indexes(std::map<std::int32_t, std::int32_t> percent) {
  GpuReading r;
  r.by_index = std::move(percent);
  return r;
}

const std::vector<PodGpus> kGang = {{"node-0", "nlp/a-worker-0-1", {0, 1}},
                                    {"node-1", "nlp/a-worker-1-1", {3}}};

TEST(GangUse, IsIdleOnlyWhereEveryGpuIs) {
  const GpuReadings idle = {{"node-0", indexes({{0, 0}, {1, 4}, {2, 100}})}, {"node-1", indexes({{3, 0}})}};
  EXPECT_EQ(use_of(kGang, kBelow, idle).use, Use::kIdle) << "GPU 2 is somebody else's";
  EXPECT_EQ(use_of(kGang, 4, idle).use, Use::kBusy);
  const GpuReadings one_works = {{"node-0", indexes({{0, 0}, {1, 5}})}, {"node-1", indexes({{3, 0}})}};
  EXPECT_EQ(use_of(kGang, kBelow, one_works).use, Use::kBusy);
}

TEST(GangUse, IsUnknownWhereOneGpuWasNotReadUnlessAnotherIsBusy) {
  const auto problem = [](const GpuReadings& readings) {
    const auto gang = use_of(kGang, kBelow, readings);
    EXPECT_EQ(gang.use, Use::kUnknown);
    return gang.problem;
  };
  const GpuReadings failed = {{"node-0", indexes({{0, 0}, {1, 0}})},
                              {"node-1", std::unexpected("http://10.0.0.2:9400/metrics answers with 503")}};
  EXPECT_THAT(problem(failed), HasSubstr("node node-1: http://10.0.0.2:9400/metrics answers with 503"));
  EXPECT_THAT(problem({{"node-0", indexes({{0, 0}, {1, 0}})}}), HasSubstr("node node-1 is not read"));
  EXPECT_THAT(problem({{"node-0", indexes({{1, 0}})}, {"node-1", indexes({{3, 0}})}}),
              HasSubstr("nothing is said of GPU 0"));
  const GpuReadings busy = {{"node-0", std::unexpected("x")}, {"node-1", indexes({{3, 80}})}};
  EXPECT_EQ(use_of(kGang, kBelow, busy).use, Use::kBusy);
  const auto none = use_of({}, kBelow, busy);
  EXPECT_EQ(none.use, Use::kUnknown);
  EXPECT_EQ(none.problem, "it has no GPUs");
}

// kubelet chooses the devices: where the exporter knows the pods, the index that placement counted with
// says nothing.
TEST(GangUse, IsFoundByPodWhereTheExporterKnowsPods) {
  GpuReading zero = indexes({{0, 0}, {1, 0}, {2, 99}, {3, 0}});
  zero.by_pod["nlp/a-worker-0-1"] = {{"0", 0}, {"2", 99}};
  EXPECT_EQ(use_of(kGang, kBelow, {{"node-0", zero}, {"node-1", indexes({{3, 0}})}}).use, Use::kBusy);
  zero.by_pod["nlp/a-worker-0-1"] = {{"0", 0}};
  const auto half = use_of(kGang, kBelow, {{"node-0", zero}, {"node-1", indexes({{3, 0}})}});
  EXPECT_EQ(half.use, Use::kUnknown);
  EXPECT_THAT(half.problem, HasSubstr("of the 2 GPUs of pod nlp/a-worker-0-1 only 1 are spoken of"));
  zero.by_pod = {{"nlp/b", {{"3", 50}}}};
  EXPECT_EQ(use_of(kGang, kBelow, {{"node-0", zero}, {"node-1", indexes({{3, 0}})}}).use, Use::kUnknown);
}

struct Clocked {
  IdleClock clock;
  client::TimePoint now{};
  void read(Use use, client::Duration after = kEvery) {
    now += after;
    clock.add(now, use, kEvery);
  }
  void read(int times, Use use) {
    for (int i = 0; i < times; ++i) read(use);
  }
  bool known() const { return clock.is_known(now, kEvery); }
};

TEST(IdleClock, AddsUpTheTimeBetweenReadings) {
  Clocked c;
  EXPECT_FALSE(c.known());
  c.read(Use::kIdle);
  EXPECT_TRUE(c.known());
  EXPECT_EQ(c.clock.idle(), seconds{0}) << "before the first reading nothing is known";
  c.read(20, Use::kIdle);
  EXPECT_EQ(c.clock.idle(), minutes{10});
  c.read(Use::kBusy);
  EXPECT_EQ(c.clock.idle(), seconds{0});
  c.read(Use::kIdle);
  EXPECT_EQ(c.clock.idle(), seconds{0}) << "it was busy until now";
  c.read(Use::kIdle);
  EXPECT_EQ(c.clock.idle(), kEvery);
}

TEST(IdleClock, AMissingReadingHoldsItAndThreeBeginAnew) {
  Clocked c;
  c.read(11, Use::kIdle);
  ASSERT_EQ(c.clock.idle(), minutes{5});
  c.read(2, Use::kUnknown);
  EXPECT_TRUE(c.known());
  EXPECT_EQ(c.clock.idle(), minutes{5});
  c.read(Use::kIdle);
  EXPECT_EQ(c.clock.idle(), minutes{5}) << "the time without a reading counts for nothing";
  c.read(Use::kIdle);
  EXPECT_EQ(c.clock.idle(), minutes{5} + kEvery);
  c.read(4, Use::kUnknown);
  EXPECT_FALSE(c.known());
  c.read(Use::kIdle);
  EXPECT_EQ(c.clock.idle(), seconds{0}) << "what was in between nobody knows";
}

TEST(IdleClock, AProcessThatStoodStillKnowsNothing) {
  Clocked c;
  c.read(11, Use::kIdle);
  c.now += 4 * kEvery;
  EXPECT_FALSE(c.known());
  c.clock.add(c.now, Use::kIdle, kEvery);
  EXPECT_EQ(c.clock.idle(), seconds{0});
}

TEST(IdleClock, WithOnlyFailedReadingsNothingIsEverIdle) {
  Clocked c;
  c.read(10'000, Use::kUnknown);
  EXPECT_FALSE(c.known());
  EXPECT_EQ(c.clock.idle(), seconds{0});
}

TEST(PowerOfAGang, IsThatOfAllItsGpusOrNotKnown) {
  GpuReading reading;
  reading.milliwatts_by_index = {{0, 300'000}, {1, 50'000}, {2, 700'000}};
  const std::vector<PodGpus> gang = {{"n", "nlp/a", {0, 1}}};
  EXPECT_EQ(milliwatts_of(gang, {{"n", reading}}), 350'000);
  EXPECT_EQ(milliwatts_of({{"n", "nlp/a", {0, 3}}}, {{"n", reading}}), std::nullopt) << "3 was not read";
  EXPECT_EQ(milliwatts_of(gang, {{"n", std::unexpected("down")}}), std::nullopt);
  EXPECT_EQ(milliwatts_of({}, {{"n", reading}}), std::nullopt);
  reading.milliwatts_by_pod["nlp/a"] = {{"5", 1000}, {"6", 2000}};
  EXPECT_EQ(milliwatts_of(gang, {{"n", reading}}), 3000) << "the pod's own, whatever their numbers";
}

}  // namespace
}  // namespace muster::reconcilers
