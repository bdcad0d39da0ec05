// Quantities, durations, times and texts.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdint>
#include <limits>
#include <random>

#include "muster/crds/duration.h"
#include "muster/crds/gpu_labels.h"
#include "muster/crds/quantity.h"
#include "muster/crds/text.h"
#include "muster/crds/time.h"

namespace muster::crds {
namespace {

constexpr std::int64_t kMax = std::numeric_limits<std::int64_t>::max();

TEST(Quantity, EachHasItsUnitAndNoneIsNegative) {
  EXPECT_EQ(parse_gpu("2.5")->value, 2500);
  EXPECT_EQ(parse_cpu("1500m")->value, 1500);
  EXPECT_EQ(parse_load("0.5")->value, 500);
  EXPECT_EQ(parse_memory("4Ti")->value, std::int64_t{4} << 40);
  EXPECT_EQ(parse_memory("9223372036854775807")->value, kMax);
  EXPECT_EQ(parse_gpu("9223372036854775807m")->value, kMax);
  EXPECT_EQ(parse_gpu("9223372036854775807").error(),
            "must be a quantity below 2^63 in its smallest unit, is \"9223372036854775807\"");
  EXPECT_THAT(parse_gpu("-1").error(), testing::StartsWith("must be a quantity of 0 or more"));
  EXPECT_THAT(parse_memory("many").error(), testing::StartsWith("must be a quantity such as"));
}

TEST(Quantity, CanonicalForm) {
  EXPECT_EQ(to_string(MilliGpu{2500}), "2500m");
  EXPECT_EQ(to_string(MilliGpu{3000}), "3");
  EXPECT_EQ(to_string(MilliCpu{0}), "0");
  EXPECT_EQ(to_string(Bytes{std::int64_t{4} << 40}), "4Ti");
  EXPECT_EQ(to_string(Bytes{1536}), "1536");
  EXPECT_EQ(to_string(Bytes{3 << 20}), "3Mi");
  EXPECT_EQ(to_string(Bytes{0}), "0");
}

TEST(Quantity, PrintingAndReadingAreInverse) {
  std::mt19937_64 random(1);
  for (int i = 0; i < 20'000; ++i) {
    const auto value = static_cast<std::int64_t>(random() >> (1 + random() % 63));
    ASSERT_EQ(parse_gpu(to_string(MilliGpu{value}))->value, value);
    ASSERT_EQ(parse_memory(to_string(Bytes{value}))->value, value);
  }
}

TEST(Quantity, NoTextCrashes) {
  std::mt19937 random(2);
  constexpr std::string_view kAlphabet = "0123456789.+-eEmnukKMGTPi ";
  for (int i = 0; i < 50'000; ++i) {
    std::string text;
    for (auto n = random() % 24; n > 0; --n) text += kAlphabet[random() % kAlphabet.size()];
    if (const auto value = parse_gpu(text)) {
      ASSERT_GE(value->value, 0) << text;
    }
    if (const auto value = parse_duration(text)) {
      ASSERT_GE(value->count(), 0) << text;
    }
  }
}

TEST(Amount, SumsStopAtTheEnds) {
  EXPECT_EQ((Bytes{kMax} + Bytes{1}).value, kMax);
  EXPECT_EQ((Bytes{-kMax} - Bytes{kMax}).value, std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ((Bytes{kMax / 2} * 3).value, kMax);
  EXPECT_EQ((Bytes{-kMax / 2} * 3).value, std::numeric_limits<std::int64_t>::min());
  EXPECT_EQ((MilliGpu{1500} + MilliGpu{500}).value, 2000);
  EXPECT_LT(MilliGpu{1}, MilliGpu{2});
}

TEST(DurationText, ReadsAndPrints) {
  using namespace std::chrono_literals;
  EXPECT_EQ(*parse_duration("120s"), 120s);
  EXPECT_EQ(*parse_duration("10m"), 10min);
  EXPECT_EQ(*parse_duration("48h"), 48h);
  EXPECT_EQ(*parse_duration("14d"), 14 * 24h);
  EXPECT_EQ(*parse_duration("1h30m"), 90min);
  EXPECT_EQ(*parse_duration("1d2h3m4s"), 26h + 3min + 4s);
  EXPECT_EQ(*parse_duration("0s"), 0s);
  EXPECT_EQ(to_string(Duration{90min}), "1h30m");
  EXPECT_EQ(to_string(Duration{48h}), "2d");
  EXPECT_EQ(to_string(Duration{0}), "0s");
  for (const char* text :
       {"", "10", "m", "1.5h", "-1s", "30m1h", "1h1h", "1w", "10 m", "1000000000s", "100000d"}) {
    const auto result = parse_duration(text);
    ASSERT_FALSE(result) << text;
    EXPECT_THAT(result.error(), testing::HasSubstr("must be a duration")) << text;
  }
  std::mt19937 random(3);
  for (int i = 0; i < 10'000; ++i) {
    const Duration duration{random() % 8'000'000'000U};
    ASSERT_EQ(*parse_duration(to_string(duration)), duration);
  }
}

TEST(TimeText, HasSeconds) {
  const Time time{std::chrono::seconds{1'767'323'045}};
  EXPECT_EQ(to_string(time), "2026-01-02T03:04:05Z");
  EXPECT_EQ(*parse_time("2026-01-02T03:04:05Z"), time);
  EXPECT_EQ(*parse_time("2026-01-02T03:04:05.999999Z"), time);
  EXPECT_FALSE(parse_time("2026-01-02"));
}

TEST(Cut, TakesNoMoreThanIsAskedForAndCutsBetweenCharacters) {
  EXPECT_EQ(cut("four", 4), "four");
  EXPECT_EQ(cut("", 3), "");
  EXPECT_EQ(cut("12345", 4), "1...");
  EXPECT_EQ(cut("1234", 3), "...");
  EXPECT_EQ(cut("ab\u20accd", 7), "ab\u20accd");
  EXPECT_EQ(cut("ab\u20accde", 7), "ab...");  // the sign's bytes are 2 to 4
  EXPECT_EQ(cut("ab\u20accdef", 8), "ab\u20ac...");
}

// What one GPU has, in MiB, by a node with such labels.
std::int64_t mib(const GpuLabels& labels, const StringMap& node) {
  const auto value = [&](const std::string& label) {
    const auto found = node.find(label);
    return found == node.end() ? nullptr : &found->second;
  };
  return gpus_of_node(labels, value).memory.value >> 20;
}
std::int64_t mib(const std::string& text, UnitOfMemory unit = UnitOfMemory::kMiB) {
  return mib(GpuLabels{.model = {}, .memory = "m", .memory_unit = unit, .memory_sum_of = {}}, {{"m", text}});
}

TEST(GpuLabels, MemoryIsReadAsVendorsWriteIt) {
  EXPECT_EQ(mib("81920"), 81920) << "NVIDIA's feature discovery";
  EXPECT_EQ(mib("64G"), 65536) << "AMD's node labeller, Ascend's device plugin";
  EXPECT_EQ(mib("64Gi"), 65536);
  EXPECT_EQ(mib("64GiB"), 65536);
  EXPECT_EQ(mib("64GB"), 65536);
  EXPECT_EQ(mib("512M"), 512);
  EXPECT_EQ(mib("1T"), 1 << 20);
  EXPECT_EQ(mib("192", UnitOfMemory::kGiB), 196608);
  EXPECT_EQ(mib("68719476736", UnitOfMemory::kB), 65536);
  for (const char* text :
       {"", "G", "-1", "0", "64X", "64 G", "6.4G", "64GG", "9999999999999T", "99999999999999999999"})
    EXPECT_EQ(mib(text), 0) << text;
}

// Intel's GPU plugin: bytes of all GPUs together.
TEST(GpuLabels, ASumIsDivided) {
  const GpuLabels labels{.model = "gpu.intel.com/product",
                         .memory = "gpu.intel.com/memory.max",
                         .memory_unit = UnitOfMemory::kB,
                         .memory_sum_of = "gpu.intel.com/device.count"};
  StringMap node = {{"gpu.intel.com/memory.max", "137438953472"}};
  EXPECT_EQ(mib(labels, node), 0) << "of how many?";
  node["gpu.intel.com/device.count"] = "2";
  EXPECT_EQ(mib(labels, node), 65536);
  node["gpu.intel.com/device.count"] = "0";
  EXPECT_EQ(mib(labels, node), 0);
}

TEST(GpuLabels, AreNvidiasWhereThePoolStatesNone) {
  NodePool amd;
  amd.spec.node_selector.match_labels = {{"vendor", "amd"}};
  amd.spec.gpu_labels.emplace().model = "amd.com/gpu.product-name";
  EXPECT_EQ(gpu_labels_of({amd}, {{"vendor", "amd"}}).model, "amd.com/gpu.product-name");
  EXPECT_EQ(gpu_labels_of({amd}, {{"vendor", "amd"}}).memory, "");
  EXPECT_EQ(gpu_labels_of({amd}, {}).model, "nvidia.com/gpu.product");
  EXPECT_EQ(gpu_labels_of(std::vector<NodePool>{}, {}).memory, "nvidia.com/gpu.memory");
}

}  // namespace
}  // namespace muster::crds
