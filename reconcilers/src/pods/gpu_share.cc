#include "muster/reconcilers/pods/gpu_share.h"

#include <fmt/format.h>

#include <algorithm>

#include "muster/crds/quantity.h"
#include "muster/reconcilers/pods/names.h"

namespace muster::reconcilers {
namespace {

constexpr std::int64_t kMiB = std::int64_t{1} << 20;

// "500m" of "fraction=500m"; nullopt: another key.
std::optional<std::string_view> value_of(std::string_view word, std::string_view key) {
  if (!word.starts_with(key)) return std::nullopt;
  return word.substr(key.size());
}

// By the number that each GPU has in the container.
std::string memory_limits(std::int64_t bytes_each, std::int32_t devices) {
  std::string list;
  for (std::int32_t i = 0; i < devices; ++i)
    list += fmt::format("{}{}={}M", i == 0 ? "" : ",", i, std::max<std::int64_t>(1, bytes_each / kMiB));
  return list;
}

}  // namespace

std::string key_of(const NodeGpu& gpu) {
  return gpu.node + "/" + std::to_string(gpu.index);
}
std::optional<NodeGpu> gpu_of_key(std::string_view key) {
  const auto slash = key.rfind('/');
  if (slash == std::string_view::npos) return std::nullopt;
  const auto index = parse_gpu_list(key.substr(slash + 1));
  if (index.size() != 1) return std::nullopt;
  return NodeGpu{std::string(key.substr(0, slash)), index.front()};
}

bool is_shared(const crds::Gpus& gpus) {
  return gpus.fraction.has_value() || gpus.memory.has_value();
}
bool has_shares(const crds::TrainingJobSpec& spec) {
  return std::ranges::any_of(spec.roles, [](const crds::Role& r) { return r.gpus && is_shared(*r.gpus); });
}

bool shares_gpus(const crds::TrainingJobSpec& spec, const crds::PodAssignment& place) {
  const auto role = std::ranges::find(spec.roles, place.role, &crds::Role::name);
  return role != spec.roles.end() && role->gpus && is_shared(*role->gpus);
}

std::string resource_of(const crds::Gpus& gpus, std::string_view gpu_resource) {
  if (is_shared(gpus)) return {};
  return gpus.mig.empty() ? std::string(gpu_resource) : std::string(kMigPrefix) + gpus.mig;
}

std::string share_text(const crds::Gpus& gpus) {
  if (gpus.fraction) return "fraction=" + crds::to_string(*gpus.fraction);
  if (gpus.memory) {
    const bool overcommit = gpus.overcommit || gpus.on_memory_pressure;
    return "memory=" + crds::to_string(*gpus.memory) + (overcommit ? ",overcommit" : "");
  }
  return gpus.mig.empty() ? std::string() : fmt::format("mig={},count={}", gpus.mig, crds::devices_of(gpus));
}

ShareRead read_share(std::string_view text) {
  using Kind = placement::GpuShare::Kind;
  ShareRead read;
  while (!text.empty()) {
    const auto word = text.substr(0, text.find(','));
    text.remove_prefix(std::min(text.size(), word.size() + 1));
    if (const auto fraction = value_of(word, "fraction=")) {
      const auto amount = crds::parse_gpu(*fraction);
      if (!amount || amount->value <= 0 || amount->value > 1000) return {};
      read.share.kind = Kind::kFraction;
      read.share.milli = placement::MilliGpu{amount->value};
    } else if (const auto memory = value_of(word, "memory=")) {
      const auto amount = crds::parse_memory(*memory);
      if (!amount || amount->value <= 0) return {};
      read.share.kind = Kind::kMemory;
      read.share.memory = placement::Bytes{amount->value};
    } else if (const auto profile = value_of(word, "mig=")) {
      read.share.kind = Kind::kMig;
      read.share.profile = *profile;
      read.count = std::max(1, read.count);
    } else if (const auto count = value_of(word, "count=")) {
      const auto n = parse_gpu_list(*count);
      if (n.size() != 1) return {};
      read.count = n.front();
    } else if (word == "overcommit") {
      read.share.overcommit = true;
    }
  }
  return read;
}

const std::string* share_of(const client::Pod& pod) {
  const bool of_job = client::find_value(pod.labels, kJobLabel) != nullptr && !pod.owner_uid.empty();
  return of_job ? client::find_value(pod.annotations, kShareAnnotation) : nullptr;
}

std::vector<std::int32_t> gpus_of(const client::Pod& pod) {
  const auto* text = client::find_value(pod.annotations, kGpusAnnotation);
  return text == nullptr ? std::vector<std::int32_t>{} : parse_gpu_list(*text);
}

std::vector<std::string> gpus_shared_by(const client::Pod& pod) {
  using Kind = placement::GpuShare::Kind;
  const auto* text = share_of(pod);
  const bool lives = pod.phase != client::PodPhase::kSucceeded && pod.phase != client::PodPhase::kFailed;
  if (text == nullptr || !lives || pod.node_name.empty()) return {};
  const auto kind = read_share(*text).share.kind;
  if (kind != Kind::kFraction && kind != Kind::kMemory) return {};
  std::vector<std::string> keys;
  for (const auto gpu : gpus_of(pod)) keys.push_back(key_of({pod.node_name, gpu}));
  return keys;
}

std::string memory_limits(const crds::Gpus& gpus, crds::Bytes gpu_memory) {
  if (!gpus.fraction || gpu_memory.value <= 0) return {};
  const std::int64_t mib = gpu_memory.value / kMiB;
  return memory_limits(mib * gpus.fraction->value / 1000 * kMiB, crds::devices_of(gpus));
}

std::vector<EnvVar> share_environment(const crds::Gpus& gpus, std::string devices, bool mps,
                                      std::string limits) {
  std::vector<EnvVar> env = {{std::string(kVisibleDevices), std::move(devices)}};
  if (gpus.on_memory_pressure)
    env.push_back({"MUSTER_ON_MEMORY_PRESSURE", std::string(crds::to_string(*gpus.on_memory_pressure))});
  if (!mps) return env;
  if (gpus.fraction) {
    const auto percent = std::max<std::int64_t>(1, gpus.fraction->value / 10);
    env.push_back({"CUDA_MPS_ACTIVE_THREAD_PERCENTAGE", std::to_string(percent)});
  } else if (gpus.memory) {
    limits = memory_limits(gpus.memory_limit.value_or(*gpus.memory).value, crds::devices_of(gpus));
  }
  if (!limits.empty()) env.push_back({"CUDA_MPS_PINNED_DEVICE_MEM_LIMIT", std::move(limits)});
  return env;
}

}  // namespace muster::reconcilers
