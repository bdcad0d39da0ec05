#include "one/service_past.h"

#include <nlohmann/json.hpp>
#include <string_view>
#include <utility>

namespace muster::ui {
namespace {

// The condition ScalingActive says "RequestsRunning is 12 in 3 replicas over 1m, …".
std::optional<std::int64_t> load_in(std::string_view message) {
  constexpr std::string_view kIs = " is ", kIn = " in ";
  const auto begin = message.find(kIs);
  if (begin == std::string_view::npos) return std::nullopt;
  message.remove_prefix(begin + kIs.size());
  const auto load = crds::parse_load(message.substr(0, message.find(kIn)));
  return load ? std::optional(load->value) : std::nullopt;
}

}  // namespace

bool ServiceSample::is_same_but_for_time(const ServiceSample& other) const {
  return ready == other.ready && wanted == other.wanted && milli_gpus == other.milli_gpus &&
         load == other.load;
}

ServiceSample sample_of(const crds::InferenceService& service) {
  const auto& s = service.status;
  ServiceSample sample;
  sample.ready = s.ready_replicas;
  sample.wanted = crds::size_of(service);
  sample.milli_gpus = s.allocated.gpu ? s.allocated.gpu->value : 0;
  const auto* scaling = crds::find_condition(s.conditions, "ScalingActive");
  if (scaling != nullptr && service.spec.autoscaling) sample.load = load_in(scaling->message);
  return sample;
}

void ServicePast::note(const std::string& key, ServiceSample sample) {
  auto& samples = samples_[key];
  if (!samples.empty() && samples.back().is_same_but_for_time(sample)) return;
  samples.push_back(sample);
  if (samples.size() > kMost) samples.pop_front();
}

std::string ServicePast::text_of(const std::string& key) const {
  auto list = nlohmann::json::array();
  if (const auto found = samples_.find(key); found != samples_.end()) {
    for (const auto& s : found->second) {
      list.push_back({s.at, s.ready, s.wanted, s.milli_gpus, nullptr});
      if (s.load) list.back().back() = *s.load;
    }
  }
  return list.dump();
}

}  // namespace muster::ui
