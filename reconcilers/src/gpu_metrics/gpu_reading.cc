#include "muster/reconcilers/gpu_metrics/gpu_reading.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>

#include "muster/client/object.h"
#include "muster/reconcilers/gpu_metrics/idle_rule.h"
#include "muster/reconcilers/gpu_metrics/memory_reading.h"

namespace muster::reconcilers {
namespace {

constexpr std::chrono::seconds kOldestSample{60};
constexpr std::int32_t kMaxGpus = 1024;  // of a node; an index beyond is not believed
// A count beyond is none: DCGM writes its blank values (not supported, not permitted) from 2^63 - 16 on.
constexpr double kMaxErrors = 1e15;
constexpr double kMaxWatts = 100'000;  // the same: no GPU draws more
constexpr double kMaxMemory = 1e15;    // the same, in whatever unit

// Names of the labels that say the pod. The second pair is that of DCGM's exporter. Prometheus renames it to
// the first. The third is that of older exporters.
constexpr std::array<std::pair<std::string_view, std::string_view>, 3> kPodLabels = {
    {{"exported_namespace", "exported_pod"}, {"namespace", "pod"}, {"pod_namespace", "pod_name"}}};

// "": it says none.
std::string pod_of(const client::Sample& sample) {
  for (const auto& [ns, name] : kPodLabels) {
    const std::string* pod = sample.label(name);
    const std::string* space = sample.label(ns);
    if (pod != nullptr && space != nullptr && !pod->empty() && !space->empty())
      return client::make_key(*space, *pod);
  }
  return {};
}

std::optional<std::int32_t> index_of(std::string_view text) {
  std::int32_t n = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), n);
  const bool is_index = error == std::errc() && end == text.data() + text.size() && n >= 0 && n < kMaxGpus;
  return is_index ? std::optional(n) : std::nullopt;
}

template <class N>
void raise(N& most, N value) {
  most = std::max(most, value);
}

// What was sampled before is too old; in milliseconds of Unix time.
std::int64_t oldest_of(const crds::GpuMetrics& where, client::WallTime now) {
  const std::chrono::milliseconds age =
      std::max<std::chrono::milliseconds>(kOldestSample, where.interval * kMissedReadings);
  return std::chrono::floor<std::chrono::milliseconds>(now.time_since_epoch() - age).count();
}

bool is_of_memory(const crds::GpuMetrics& where, std::string_view name) {
  return name == where.memory_used || name == where.memory_free;
}

}  // namespace

bool is_wanted(const crds::GpuMetrics& where, std::string_view name) {
  return name == where.utilization || name == where.double_bit_errors || name == where.power ||
         is_of_memory(where, name);
}

std::expected<GpuReading, std::string> reading_of(const crds::GpuMetrics& where,
                                                  const std::vector<client::Sample>& samples,
                                                  client::WallTime now) {
  const auto oldest = oldest_of(where, now);
  GpuReading reading;
  bool says_anything = false;
  for (const client::Sample& sample : samples) {
    if (!is_wanted(where, sample.name) || is_of_memory(where, sample.name)) continue;
    says_anything = true;
    const std::string* gpu = sample.label(where.index_label);
    if (gpu == nullptr || (sample.timestamp_ms && *sample.timestamp_ms < oldest)) continue;
    const auto index = index_of(*gpu);
    if (sample.name == where.utilization && sample.value >= 0 && sample.value <= 100) {
      const auto percent = static_cast<std::int32_t>(std::floor(sample.value));
      if (index) raise(reading.by_index[*index], percent);
      if (const auto pod = pod_of(sample); !pod.empty()) raise(reading.by_pod[pod][*gpu], percent);
    }
    if (sample.name == where.power && sample.value >= 0 && sample.value <= kMaxWatts) {
      const auto milliwatts = static_cast<std::int64_t>(std::llround(sample.value * 1000));
      if (index) raise(reading.milliwatts_by_index[*index], milliwatts);
      if (const auto pod = pod_of(sample); !pod.empty())
        raise(reading.milliwatts_by_pod[pod][*gpu], milliwatts);
    }
    if (sample.name == where.double_bit_errors && index && sample.value >= 0 && sample.value < kMaxErrors) {
      reading.spoken_of.insert(*index);
      if (sample.value > 0) reading.failing.insert(*index);
    }
  }
  if (!says_anything)
    return std::unexpected(fmt::format("it answers with none of {}, {}, {}", where.utilization,
                                       where.double_bit_errors, where.power));
  return reading;
}

MemoryReading memory_reading_of(const crds::GpuMetrics& where, const std::vector<client::Sample>& samples,
                                client::WallTime now) {
  struct Said {
    std::optional<double> used, free;
  };
  const auto oldest = oldest_of(where, now);
  std::map<std::pair<std::string, std::string>, Said> said;  // by index label and pod
  for (const client::Sample& sample : samples) {
    if (!is_of_memory(where, sample.name)) continue;
    const std::string* gpu = sample.label(where.index_label);
    const bool is_credible = sample.value >= 0 && sample.value < kMaxMemory;
    if (gpu == nullptr || !is_credible || (sample.timestamp_ms && *sample.timestamp_ms < oldest)) continue;
    Said& mine = said[{*gpu, pod_of(sample)}];
    (sample.name == where.memory_used ? mine.used : mine.free) = sample.value;
  }
  MemoryReading reading;
  for (const auto& [of, amounts] : said) {
    if (!amounts.used || !amounts.free || *amounts.used + *amounts.free <= 0) continue;
    const auto percent =
        static_cast<std::int32_t>(std::floor(100 * *amounts.used / (*amounts.used + *amounts.free)));
    if (const auto index = index_of(of.first)) raise(reading.by_index[*index], percent);
    if (!of.second.empty()) raise(reading.by_pod[of.second], percent);
  }
  return reading;
}

std::optional<std::int32_t> memory_used(const MemoryReading& reading, const std::string& pod,
                                        std::int32_t index) {
  if (!reading.by_pod.empty()) {
    const auto mine = reading.by_pod.find(pod);
    return mine == reading.by_pod.end() ? std::nullopt : std::optional(mine->second);
  }
  const auto mine = reading.by_index.find(index);
  return mine == reading.by_index.end() ? std::nullopt : std::optional(mine->second);
}

}  // namespace muster::reconcilers
