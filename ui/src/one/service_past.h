// What services had and were asked for, since this process watches them: in no object there is more than the
// present.
#pragma once

#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <optional>
#include <string>

#include "muster/crds/inference_service.h"

namespace muster::ui {

struct ServiceSample {
  std::int64_t at = 0;  // seconds since 1970
  std::int64_t ready = 0, wanted = 0;
  std::int64_t milli_gpus = 0;
  // Thousandths of the metric by which it scales, in all its replicas; nullopt: there is none, or it was not
  // read.
  std::optional<std::int64_t> load{};

  bool is_same_but_for_time(const ServiceSample& other) const;
};
ServiceSample sample_of(const crds::InferenceService& service);

class ServicePast {
 public:
  static constexpr std::size_t kMost = 500;  // of a service, the latest

  // One that differs only in time from the last one adds nothing. `key`: "namespace/name".
  void note(const std::string& key, ServiceSample sample);
  void forget(const std::string& key) { samples_.erase(key); }
  // [[at, ready, wanted, milli-GPUs, load or null], …], oldest first.
  std::string text_of(const std::string& key) const;

 private:
  std::map<std::string, std::deque<ServiceSample>> samples_;
};

}  // namespace muster::ui
