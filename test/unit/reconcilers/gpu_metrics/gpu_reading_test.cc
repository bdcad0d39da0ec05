#include "muster/reconcilers/gpu_metrics/gpu_reading.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "muster/reconcilers/gpu_metrics/memory_reading.h"

namespace muster::reconcilers {
namespace {

using testing::ElementsAre;
using testing::HasSubstr;
using testing::IsEmpty;
using testing::Pair;
using testing::UnorderedElementsAre;

constexpr client::WallTime kNow{std::chrono::sys_days{std::chrono::year{2026} / 1 / 2}};

std::expected<GpuReading, std::string> read(const std::string& text, const crds::GpuMetrics& where = {}) {
  const auto samples =
      client::parse_exposition(text, [&](std::string_view name) { return is_wanted(where, name); });
  if (!samples) return std::unexpected(samples.error().message);
  return reading_of(where, *samples, kNow);
}

// As dcgm-exporter 3 answers, shortened.
const std::string kExporter = R"(# HELP DCGM_FI_DEV_SM_CLOCK SM clock frequency (in MHz).
# TYPE DCGM_FI_DEV_SM_CLOCK gauge
DCGM_FI_DEV_SM_CLOCK{gpu="0",UUID="GPU-1",pci_bus_id="00000000:07:00.0",device="nvidia0",modelName="NVIDIA A100-SXM4-80GB",Hostname="dgx"} 1410
# HELP DCGM_FI_DEV_GPU_UTIL GPU utilization (in %).
# TYPE DCGM_FI_DEV_GPU_UTIL gauge
DCGM_FI_DEV_GPU_UTIL{gpu="0",UUID="GPU-1",device="nvidia0",Hostname="dgx",container="main",namespace="nlp",pod="note-worker-0-1"} 97
DCGM_FI_DEV_GPU_UTIL{gpu="1",UUID="GPU-2",device="nvidia1",Hostname="dgx",container="main",namespace="nlp",pod="note-worker-0-1"} 4.9
DCGM_FI_DEV_GPU_UTIL{gpu="2",UUID="GPU-3",device="nvidia2",Hostname="dgx",container="",namespace="",pod=""} 0
DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{gpu="0",UUID="GPU-1",device="nvidia0",Hostname="dgx"} 0
DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{gpu="2",UUID="GPU-3",device="nvidia2",Hostname="dgx"} 3
DCGM_FI_DEV_POWER_USAGE{gpu="0",UUID="GPU-1",device="nvidia0",Hostname="dgx",container="main",namespace="nlp",pod="note-worker-0-1"} 389.0625
DCGM_FI_DEV_POWER_USAGE{gpu="2",UUID="GPU-3",device="nvidia2",Hostname="dgx",container="",namespace="",pod=""} 61.2
)";

TEST(GpuReading, IsWhatTheDcgmExporterSays) {
  const auto reading = read(kExporter);
  ASSERT_TRUE(reading) << reading.error();
  EXPECT_THAT(reading->by_index, ElementsAre(Pair(0, 97), Pair(1, 4), Pair(2, 0)));
  EXPECT_THAT(reading->by_pod,
              ElementsAre(Pair("nlp/note-worker-0-1", ElementsAre(Pair("0", 97), Pair("1", 4)))));
  EXPECT_THAT(reading->milliwatts_by_index, ElementsAre(Pair(0, 389'063), Pair(2, 61'200)));
  EXPECT_THAT(reading->milliwatts_by_pod,
              ElementsAre(Pair("nlp/note-worker-0-1", ElementsAre(Pair("0", 389'063)))));
  EXPECT_THAT(reading->failing, ElementsAre(2));
  EXPECT_THAT(reading->spoken_of, ElementsAre(0, 2));
}

// DCGM's blank values, and what is no percentage or no number of a GPU.
TEST(GpuReading, NothingIsMadeOfWhatIsNotCredible) {
  const auto reading = read(R"(DCGM_FI_DEV_GPU_UTIL{gpu="0"} 9223372036854775794
DCGM_FI_DEV_GPU_UTIL{gpu="1"} NaN
DCGM_FI_DEV_GPU_UTIL{gpu="2"} -1
DCGM_FI_DEV_GPU_UTIL{gpu="3"} 101
DCGM_FI_DEV_GPU_UTIL{gpu="x"} 1
DCGM_FI_DEV_GPU_UTIL{gpu="-4"} 1
DCGM_FI_DEV_GPU_UTIL{gpu="99999999999"} 1
DCGM_FI_DEV_GPU_UTIL 1
DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{gpu="0"} 9223372036854775794
DCGM_FI_DEV_ECC_DBE_VOL_TOTAL{gpu="1"} NaN
DCGM_FI_DEV_POWER_USAGE{gpu="0"} 9223372036854775794
DCGM_FI_DEV_POWER_USAGE{gpu="1"} -1
)");
  ASSERT_TRUE(reading) << reading.error();
  EXPECT_THAT(reading->by_index, IsEmpty());
  EXPECT_THAT(reading->milliwatts_by_index, IsEmpty());
  EXPECT_THAT(reading->spoken_of, IsEmpty());
  EXPECT_THAT(reading->failing, IsEmpty());
  EXPECT_FALSE(read("DCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} 0"));  // cut short
}

TEST(GpuReading, AnOldSampleIsNone) {
  const auto at = [](std::chrono::seconds ago) {
    return std::to_string(
        std::chrono::duration_cast<std::chrono::milliseconds>(kNow.time_since_epoch() - ago).count());
  };
  const auto text = [&](std::chrono::seconds ago) {
    return "DCGM_FI_DEV_GPU_UTIL{gpu=\"0\"} 0 " + at(ago) + "\n";
  };
  crds::GpuMetrics where;
  EXPECT_THAT(read(text(std::chrono::seconds{90}), where)->by_index, ElementsAre(Pair(0, 0)));
  EXPECT_THAT(read(text(std::chrono::seconds{91}), where)->by_index, IsEmpty());
  where.interval = std::chrono::seconds{1};
  EXPECT_THAT(read(text(std::chrono::seconds{60}), where)->by_index, ElementsAre(Pair(0, 0)));
  EXPECT_THAT(read(text(std::chrono::seconds{61}), where)->by_index, IsEmpty());
}

TEST(GpuReading, OtherEndpointsNameOtherMetricsAndPods) {
  crds::GpuMetrics where;
  where.utilization = "npu_util";
  where.double_bit_errors = "npu_ecc";
  where.index_label = "id";
  const auto reading =
      read(R"(npu_util{id="3",exported_namespace="nlp",exported_pod="a",namespace="ops",pod="exporter-x"} 7
npu_util{id="4",pod_namespace="nlp",pod_name="b"} 8
npu_util{id="4",pod_namespace="nlp",pod_name="b"} 2
npu_ecc{id="4"} 1
DCGM_FI_DEV_GPU_UTIL{gpu="0"} 50
)",
           where);
  ASSERT_TRUE(reading) << reading.error();
  EXPECT_THAT(reading->by_index, ElementsAre(Pair(3, 7), Pair(4, 8)));
  EXPECT_THAT(reading->by_pod, UnorderedElementsAre(Pair("nlp/a", ElementsAre(Pair("3", 7))),
                                                    Pair("nlp/b", ElementsAre(Pair("4", 8)))));
  EXPECT_THAT(reading->failing, ElementsAre(4));
  EXPECT_THAT(read("up 1\n", where).error(), HasSubstr("none of npu_util, npu_ecc"));
}

MemoryReading memory(const std::string& text, const crds::GpuMetrics& where = {}) {
  const auto samples =
      client::parse_exposition(text, [&](std::string_view name) { return is_wanted(where, name); });
  return samples ? memory_reading_of(where, *samples, kNow) : MemoryReading{};
}

TEST(MemoryReading, IsWhatIsUsedOfUsedAndFree) {
  const auto reading = memory(R"(DCGM_FI_DEV_FB_FREE{gpu="0",namespace="muster-system",pod="gpu-0-n1"} 1631
DCGM_FI_DEV_FB_USED{gpu="0",namespace="muster-system",pod="gpu-0-n1"} 79928
DCGM_FI_DEV_FB_FREE{gpu="1",namespace="",pod=""} 81559
DCGM_FI_DEV_FB_USED{gpu="1",namespace="",pod=""} 0
)");
  EXPECT_THAT(reading.by_index, ElementsAre(Pair(0, 98), Pair(1, 0)));
  EXPECT_THAT(reading.by_pod, ElementsAre(Pair("muster-system/gpu-0-n1", 98)));
  EXPECT_EQ(memory_used(reading, "muster-system/gpu-0-n1", 7), 98) << "the kubelet has an order of its own";
  EXPECT_EQ(memory_used(reading, "muster-system/gpu-1-n1", 1), std::nullopt);
}

TEST(MemoryReading, NothingIsMadeOfHalfAReading) {
  const auto reading = memory(R"(DCGM_FI_DEV_FB_USED{gpu="0"} 9
DCGM_FI_DEV_FB_FREE{gpu="1"} 9
DCGM_FI_DEV_FB_USED{gpu="2"} 9223372036854775794
DCGM_FI_DEV_FB_FREE{gpu="2"} 9
DCGM_FI_DEV_FB_USED{gpu="3"} 0
DCGM_FI_DEV_FB_FREE{gpu="3"} 0
DCGM_FI_DEV_FB_USED{gpu="4"} 9 1000
DCGM_FI_DEV_FB_FREE{gpu="4"} 1 1000
DCGM_FI_DEV_FB_USED{gpu="5"} 9
DCGM_FI_DEV_FB_FREE{gpu="5"} 1
)");
  EXPECT_THAT(reading.by_index, ElementsAre(Pair(5, 90)));
  EXPECT_EQ(memory_used(reading, "nlp/a", 5), 90) << "no pod is named";
  EXPECT_EQ(memory_used(reading, "nlp/a", 0), std::nullopt);
}

TEST(MemoryReading, TheMetricsMayHaveOtherNames) {
  crds::GpuMetrics where;
  where.memory_used = "gpu_used_vram";
  where.memory_free = "gpu_free_vram";
  where.index_label = "gpu_id";
  EXPECT_THAT(memory("gpu_used_vram{gpu_id=\"2\"} 3\ngpu_free_vram{gpu_id=\"2\"} 1\n", where).by_index,
              ElementsAre(Pair(2, 75)));
  EXPECT_THAT(memory("DCGM_FI_DEV_FB_USED{gpu_id=\"2\"} 3\n", where).by_index, IsEmpty());
}

}  // namespace
}  // namespace muster::reconcilers
