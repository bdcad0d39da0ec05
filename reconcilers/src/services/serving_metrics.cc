#include "muster/reconcilers/services/serving_metrics.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <span>

namespace muster::reconcilers {
namespace {

using crds::MilliLoad;
using Kind = MetricSource::Kind;

// What one kind of server calls it.
struct SourceName {
  std::string_view name;
  std::string_view label, value;  // only series that have this; "": all
};
// A share of requests: two counters of one kind of server.
struct SharePair {
  SourceName of, requests;
};

// vLLM (before and since its version 1); SGLang; trtllm-serve; Triton with TensorRT-LLM; Triton. The first
// that is there counts.
constexpr SourceName kWaiting[] = {{"vllm:num_requests_waiting", "", ""},
                                   {"sglang:num_queue_reqs", "", ""},
                                   {"trtllm_num_requests_waiting", "", ""},
                                   {"nv_trt_llm_request_metrics", "request_type", "waiting"},
                                   {"nv_inference_pending_request_count", "", ""}};
constexpr SourceName kRunning[] = {{"vllm:num_requests_running", "", ""},
                                   {"sglang:num_running_reqs", "", ""},
                                   {"trtllm_num_requests_running", "", ""},
                                   {"nv_trt_llm_request_metrics", "request_type", "scheduled"}};
constexpr SourceName kCache[] = {{"vllm:kv_cache_usage_perc", "", ""},
                                 {"vllm:gpu_cache_usage_perc", "", ""},
                                 {"sglang:token_usage", "", ""},
                                 {"trtllm_kv_cache_utilization", "", ""},
                                 {"nv_trt_llm_kv_cache_block_metrics", "kv_cache_block_type", "fraction"}};

// Requests answered since the server began, by the same servers.
constexpr SourceName kAnswered[] = {{"vllm:request_success_total", "", ""},
                                    {"sglang:num_requests_total", "", ""},
                                    {"trtllm_request_success_total", "", ""},
                                    {"nv_inference_request_success", "", ""}};

// Triton has no such histogram.
constexpr SharePair kFirstToken[] = {
    {{"vllm:time_to_first_token_seconds_sum", "", ""}, {"vllm:time_to_first_token_seconds_count", "", ""}},
    {{"sglang:time_to_first_token_seconds_sum", "", ""},
     {"sglang:time_to_first_token_seconds_count", "", ""}},
    {{"trtllm_time_to_first_token_seconds_sum", "", ""},
     {"trtllm_time_to_first_token_seconds_count", "", ""}}};

// Of answers over HTTP by their status ("5xx" or "503"), as servers in Python count them that use FastAPI's
// instrumentator, vLLM among them.
constexpr std::string_view kHttpRequests = "http_requests_total";
constexpr std::string_view kFailure = "nv_inference_request_failure",
                           kSuccess = "nv_inference_request_success";  // Triton

std::span<const SourceName> names_for(Kind kind) {
  switch (kind) {
    case Kind::kRequestsWaiting:
      return kWaiting;
    case Kind::kRequestsRunning:
      return kRunning;
    case Kind::kKVCacheUtilization:
      return kCache;
    default:
      return {};
  }
}

bool is_of(const SourceName& source, const client::Sample& sample) {
  if (sample.name != source.name) return false;
  // SGLang counts requests in all, and once more for each priority where it knows priorities.
  const std::string* priority = sample.label("priority");
  if (priority != nullptr && !priority->empty()) return false;
  if (source.label.empty()) return true;
  const std::string* value = sample.label(source.label);
  return value != nullptr && *value == source.value;
}

struct Sum {
  MilliLoad load{};
  std::int64_t n = 0;  // series
};
// Of the samples that `is_wanted` takes.
template <class IsWanted>
std::expected<Sum, std::string> add_up(const std::vector<client::Sample>& samples, client::WallTime now,
                                       IsWanted is_wanted) {
  constexpr double kMost = 1e12;  // of anything a server counts; far from the end of int64 in thousandths
  const std::int64_t oldest =
      std::chrono::floor<std::chrono::milliseconds>(now - kOldestSample).time_since_epoch().count();
  Sum sum;
  for (const client::Sample& sample : samples) {
    if (!is_wanted(sample)) continue;
    if (!(sample.value >= 0 && sample.value <= kMost))
      return std::unexpected(fmt::format("{} is {}", sample.name, sample.value));
    if (sample.timestamp_ms && *sample.timestamp_ms < oldest)
      return std::unexpected(fmt::format("{} is older than {} s", sample.name, kOldestSample.count()));
    sum.load += MilliLoad{std::llround(sample.value * 1000)};
    ++sum.n;
  }
  return sum;
}

std::expected<MetricLoad, std::string> amount_of(Kind kind, const std::vector<client::Sample>& samples,
                                                 client::WallTime now) {
  std::string names;
  for (const SourceName& source : names_for(kind)) {
    const auto sum = add_up(samples, now, [&](const auto& sample) { return is_of(source, sample); });
    if (!sum) return std::unexpected(sum.error());
    if (sum->n > 0)
      return MetricLoad{kind == Kind::kKVCacheUtilization ? MilliLoad{sum->load.value / sum->n} : sum->load,
                        {}};
    names += (names.empty() ? "" : ", ") + std::string(source.name);
  }
  return std::unexpected(fmt::format("it answers with none of {}", names));
}

std::expected<MetricLoad, std::string> time_to_first_token(const std::vector<client::Sample>& samples,
                                                           client::WallTime now) {
  std::string names;
  for (const SharePair& pair : kFirstToken) {
    const auto seconds = add_up(samples, now, [&](const auto& s) { return is_of(pair.of, s); });
    const auto requests = add_up(samples, now, [&](const auto& s) { return is_of(pair.requests, s); });
    if (!seconds) return std::unexpected(seconds.error());
    if (!requests) return std::unexpected(requests.error());
    if (seconds->n > 0 && requests->n > 0) return MetricLoad{seconds->load, requests->load};
    names += (names.empty() ? "" : ", ") + std::string(pair.requests.name);
  }
  return std::unexpected(fmt::format("it answers with none of {}", names));
}

bool is_error(const client::Sample& sample) {
  if (sample.name == kFailure) return true;
  const std::string* status = sample.label("status");
  return sample.name == kHttpRequests && status != nullptr && status->starts_with('5');
}

// A server that has answered nobody yet has no series.
std::expected<MetricLoad, std::string> error_rate(const std::vector<client::Sample>& samples,
                                                  client::WallTime now) {
  const auto errors = add_up(samples, now, is_error);
  const auto requests = add_up(samples, now, [](const auto& s) {
    return s.name == kFailure || s.name == kSuccess ||
           (s.name == kHttpRequests && s.label("status") != nullptr);
  });
  if (!errors) return std::unexpected(errors.error());
  if (!requests) return std::unexpected(requests.error());
  return MetricLoad{errors->load, requests->load};
}

std::expected<MetricLoad, std::string> named(const std::string& name, const crds::StringMap& labels,
                                             const std::vector<client::Sample>& samples,
                                             client::WallTime now) {
  const auto sum = add_up(samples, now, [&](const client::Sample& sample) {
    return sample.name == name && std::ranges::all_of(labels, [&](const auto& wanted) {
             const std::string* value = sample.label(wanted.first);
             return value != nullptr && *value == wanted.second;
           });
  });
  if (!sum) return std::unexpected(sum.error());
  if (sum->n == 0)
    return std::unexpected(fmt::format("it answers with no {}{}", name,
                                       labels.empty() ? "" : " that has the labels that are asked for"));
  return MetricLoad{sum->load, {}};
}

bool is_name_of_first_token(std::string_view name) {
  return std::ranges::any_of(
      kFirstToken, [&](const SharePair& p) { return p.of.name == name || p.requests.name == name; });
}

bool is_name_of_amount(Kind kind, std::string_view name) {
  return std::ranges::any_of(names_for(kind), [&](const SourceName& s) { return s.name == name; });
}

}  // namespace

MetricLoad& operator+=(MetricLoad& sum, const MetricLoad& one) {
  sum.load += one.load;
  sum.requests += one.requests;
  return sum;
}

MetricLoad since(const MetricLoad& before, const MetricLoad& now) {
  if (now.requests < before.requests || now.load < before.load) return now;
  return {now.load - before.load, now.requests - before.requests};
}

std::string decimal(MilliLoad amount) {
  return fmt::format("{:.4g}", static_cast<double>(amount.value) / 1000);
}

MetricSource source_of(const crds::ScalingMetric& metric) {
  if (!metric.metric) return {Kind::kNamed, metric.name, metric.labels};
  // In the order of the enumeration.
  constexpr std::array kKinds = {Kind::kRequestsWaiting, Kind::kRequestsRunning, Kind::kKVCacheUtilization,
                                 Kind::kTimeToFirstToken};
  static_assert(kKinds.size() == crds::names_of(crds::ServingMetric{}).size());
  return {
      kKinds.at(static_cast<std::size_t>(*metric.metric)), std::string(crds::to_string(*metric.metric)), {}};
}

MetricSource source_of(const crds::CanaryCheck& check) {
  if (!check.metric) return {Kind::kNamed, check.name, check.labels};
  const bool is_rate = *check.metric == crds::CanaryMetric::kErrorRate;
  return {
      is_rate ? Kind::kErrorRate : Kind::kTimeToFirstToken, std::string(crds::to_string(*check.metric)), {}};
}

std::vector<MetricSource> sources_of(const crds::Autoscaling& rule) {
  std::vector<MetricSource> all;
  for (const auto& metric : crds::metrics_of(rule)) all.push_back(source_of(metric));
  return all;
}

bool is_name_of(const MetricSource& source, std::string_view name) {
  switch (source.kind) {
    case Kind::kNamed:
      return name == source.name;
    case Kind::kTimeToFirstToken:
      return is_name_of_first_token(name);
    case Kind::kErrorRate:
      return name == kHttpRequests || name == kFailure || name == kSuccess;
    default:
      return is_name_of_amount(source.kind, name);
  }
}

std::expected<MetricLoad, std::string> reading_of(const MetricSource& source,
                                                  const std::vector<client::Sample>& samples,
                                                  client::WallTime now) {
  switch (source.kind) {
    case Kind::kNamed:
      return named(source.name, source.labels, samples, now);
    case Kind::kTimeToFirstToken:
      return time_to_first_token(samples, now);
    case Kind::kErrorRate:
      return error_rate(samples, now);
    default:
      return amount_of(source.kind, samples, now);
  }
}

bool is_name_of_activity(std::string_view name) {
  return is_name_of_amount(Kind::kRequestsWaiting, name) || is_name_of_amount(Kind::kRequestsRunning, name) ||
         std::ranges::any_of(kAnswered, [&](const SourceName& s) { return s.name == name; });
}

std::expected<Activity, std::string> activity_of(const std::vector<client::Sample>& samples,
                                                 client::WallTime now) {
  constexpr double kMost = 9e15;  // counters beyond count as if they stood still there
  const auto running = amount_of(Kind::kRequestsRunning, samples, now);
  const auto waiting = amount_of(Kind::kRequestsWaiting, samples, now);
  if (!running) return std::unexpected(running.error());
  if (!waiting) return std::unexpected(waiting.error());
  Activity activity;
  activity.is_idle = running->load.value == 0 && waiting->load.value == 0;
  for (const client::Sample& sample : samples) {
    const bool is_count =
        std::ranges::any_of(kAnswered, [&](const SourceName& s) { return is_of(s, sample); });
    if (is_count && sample.value >= 0 && sample.value <= kMost)
      activity.answered += std::llround(sample.value);
  }
  return activity;
}

}  // namespace muster::reconcilers
