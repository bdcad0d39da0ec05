// What servers say of themselves, under the names that vLLM, SGLang, TensorRT-LLM and Triton have for it.
// Pure: samples and time come in, amounts come out.
#pragma once

#include <cstdint>
#include <expected>
#include <string>
#include <string_view>
#include <vector>

#include "muster/client/environment.h"
#include "muster/client/exposition.h"
#include "muster/crds/inference_service.h"

namespace muster::reconcilers {

// A sample may carry a time of its own. If that is longer ago than this, the sample is refused.
inline constexpr std::chrono::seconds kOldestSample{60};

// One metric, as servers say it together. Of one that is a share of requests (TimeToFirstToken: seconds;
// ErrorRate: those with an error) both are sums over requests since the servers began; else requests is 0.
struct MetricLoad {
  crds::MilliLoad load{};
  crds::MilliLoad requests{};

  bool operator==(const MetricLoad&) const = default;
};
MetricLoad& operator+=(MetricLoad& sum, const MetricLoad& one);
// What came between two readings of one server. One that counts from 0 again has begun anew.
MetricLoad since(const MetricLoad& before, const MetricLoad& now);

// "0.05", for people: of seconds and of shares thousandths are no unit.
std::string decimal(crds::MilliLoad amount);

// One metric, whoever asks for it.
struct MetricSource {
  enum class Kind : std::uint8_t {
    kRequestsWaiting,
    kRequestsRunning,
    kKVCacheUtilization,
    kTimeToFirstToken,
    kErrorRate,
    kNamed
  };
  Kind kind = Kind::kNamed;
  std::string name;        // for messages too: "RequestsRunning"
  crds::StringMap labels;  // of kNamed

  bool is_share_of_requests() const { return kind == Kind::kTimeToFirstToken || kind == Kind::kErrorRate; }
  bool counts_requests() const { return kind == Kind::kRequestsWaiting || kind == Kind::kRequestsRunning; }
  bool operator==(const MetricSource&) const = default;
};
MetricSource source_of(const crds::ScalingMetric& metric);
MetricSource source_of(const crds::CanaryCheck& check);
// Of all that the size follows: see metrics_of().
std::vector<MetricSource> sources_of(const crds::Autoscaling& rule);

// Whether reading_of() may look at it; for parse_exposition().
bool is_name_of(const MetricSource& source, std::string_view name);
// What one server says. One with several engines or models has several series: they are added up, and of
// KVCacheUtilization the mean is taken. The error is a sentence: none of the names is there, a value is no
// amount, or it is older than kOldestSample.
std::expected<MetricLoad, std::string> reading_of(const MetricSource& source,
                                                  const std::vector<client::Sample>& samples,
                                                  client::WallTime now);

// What a server does at all, whatever metrics its size follows: asked of services that may be at zero.
struct Activity {
  bool is_idle = false;       // no request runs in it, and none waits
  std::int64_t answered = 0;  // requests that it has counted so far; 0 also where it does not count them
};
// Every name that activity_of() may look at; for parse_exposition().
bool is_name_of_activity(std::string_view name);
// The error is a sentence: it does not say whether requests run, or whether they wait.
std::expected<Activity, std::string> activity_of(const std::vector<client::Sample>& samples,
                                                 client::WallTime now);

}  // namespace muster::reconcilers
