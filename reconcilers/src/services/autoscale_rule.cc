#include "muster/reconcilers/services/autoscale_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <span>

namespace muster::reconcilers {
namespace {

using client::Duration;
using client::TimePoint;
using crds::MilliLoad;
using crds::ServingMetric;

// What one kind of server calls it.
struct SourceName {
  std::string_view name;
  std::string_view label, value;  // only series that have this; "": all
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

std::span<const SourceName> names_for(ServingMetric metric) {
  switch (metric) {
    case ServingMetric::kRequestsWaiting:
      return kWaiting;
    case ServingMetric::kRequestsRunning:
      return kRunning;
    case ServingMetric::kKVCacheUtilization:
    case ServingMetric::kTimeToFirstToken:
      break;
  }
  return kCache;
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

ServingMetric metric_of(const crds::Autoscaling& rule) {
  return crds::metrics_of(rule).front().metric.value_or(ServingMetric::kRequestsRunning);
}
MilliLoad target_of(const crds::Autoscaling& rule) {
  return crds::metrics_of(rule).front().target;
}

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

// Replicas that this load needs, `size` where that is about right.
std::int64_t needed(std::int64_t load, const crds::Autoscaling& rule, std::int32_t size) {
  const MilliLoad right = target_of(rule) * size;
  const MilliLoad slack{right.value / 100 * kTolerancePercent + right.value % 100 * kTolerancePercent / 100};
  if (load <= (right + slack).value && load >= (right - slack).value) return size;
  return ceil_divide(load, std::max<std::int64_t>(1, target_of(rule).value));
}

void add_need(ScalingHistory& history, TimePoint at, std::int64_t replicas, Duration delay) {
  auto& needs = history.needs;
  const auto n = static_cast<std::int32_t>(replicas);
  while (!needs.empty() && needs.back().replicas <= n) needs.pop_back();
  needs.push_back({at, n});
  while (needs.size() > 1 && needs.front().at <= at - delay) needs.pop_front();
}

ScalingVerdict held(std::int32_t size, std::string reason, std::string message) {
  return {size, false, std::move(reason), std::move(message)};
}

std::string text_of(ServingMetric metric) {
  return std::string(crds::to_string(metric));
}

bool counts_requests(ServingMetric metric) {
  return metric != ServingMetric::kKVCacheUtilization;
}

// Follows how long all replicas have been idle. A reading that does not say so, for whatever reason, ends it.
void note_idleness(ScalingHistory& history, const LoadRound& round, const Activation& activation) {
  const bool is_idle = round.is_idle && round.read >= round.serving && activation.held == 0 &&
                       round.answered == history.answered;
  history.answered = round.answered;
  if (!is_idle)
    history.idle_since.reset();
  else if (!history.idle_since)
    history.idle_since = round.at;
}

bool is_long_idle(const crds::Autoscaling& rule, const ScalingHistory& history, TimePoint now) {
  return rule.min_replicas == 0 && history.idle_since &&
         now - *history.idle_since >= Duration(crds::scale_to_zero_after_of(rule));
}

// The last word, where minReplicas is 0.
void to_zero(const crds::Autoscaling& rule, const LoadRound& round, const Activation& activation,
             bool is_long_idle, ScalingVerdict& verdict) {
  if (!activation.missing.empty()) {
    verdict.message += "; it does not go to zero: " + activation.missing;
    if (!is_long_idle) return;
    verdict.is_active = false;
    verdict.reason = "NoActivator";
  } else if (!round.idle_problem.empty()) {
    verdict.message += "; it does not go to zero: " + round.idle_problem;
  } else if (is_long_idle) {
    verdict = {0, true, "ScaledToZero",
               fmt::format("no request has run or waited in {} replicas for {}: 0 wanted", round.serving,
                           crds::to_string(crds::scale_to_zero_after_of(rule)))};
  }
}

ScalingVerdict at_zero(const Activation& activation) {
  if (!activation.missing.empty())
    return held(0, "NoActivator",
                fmt::format("it is at zero, and requests are not held: {}", activation.missing));
  return {0, true, "ScaledToZero", "it is at zero: the first request makes a replica"};
}

std::string unread(const LoadRound& round) {
  return fmt::format("{} of {} replicas that serve were not read ({})", round.serving - round.read,
                     round.serving, round.problem);
}

}  // namespace

bool is_name_of(ServingMetric metric, std::string_view name) {
  return std::ranges::any_of(names_for(metric), [&](const SourceName& s) { return s.name == name; });
}

std::expected<MilliLoad, std::string> load_of(ServingMetric metric,
                                              const std::vector<client::Sample>& samples,
                                              client::WallTime now) {
  constexpr double kMost = 1e12;  // of anything a server counts; far from the end of int64 in thousandths
  const std::int64_t oldest =
      std::chrono::floor<std::chrono::milliseconds>(now - kOldestSample).time_since_epoch().count();
  for (const SourceName& source : names_for(metric)) {
    MilliLoad sum{};
    std::int64_t n = 0;
    for (const client::Sample& sample : samples) {
      if (!is_of(source, sample)) continue;
      if (!(sample.value >= 0 && sample.value <= kMost))
        return std::unexpected(fmt::format("{} is {}", source.name, sample.value));
      if (sample.timestamp_ms && *sample.timestamp_ms < oldest)
        return std::unexpected(fmt::format("{} is older than {} s", source.name, kOldestSample.count()));
      sum += MilliLoad{std::llround(sample.value * 1000)};
      ++n;
    }
    if (n == 0) continue;
    return metric == ServingMetric::kKVCacheUtilization ? MilliLoad{sum.value / n} : sum;
  }
  std::string names;
  for (const SourceName& source : names_for(metric))
    names += (names.empty() ? "" : ", ") + std::string(source.name);
  return std::unexpected(fmt::format("it answers with none of {}", names));
}

bool is_name_of_activity(std::string_view name) {
  return is_name_of(ServingMetric::kRequestsWaiting, name) ||
         is_name_of(ServingMetric::kRequestsRunning, name) ||
         std::ranges::any_of(kAnswered, [&](const SourceName& s) { return s.name == name; });
}

std::expected<Activity, std::string> activity_of(const std::vector<client::Sample>& samples,
                                                 client::WallTime now) {
  constexpr double kMost = 9e15;  // counters beyond count as if they stood still there
  const auto running = load_of(ServingMetric::kRequestsRunning, samples, now);
  const auto waiting = load_of(ServingMetric::kRequestsWaiting, samples, now);
  if (!running) return std::unexpected(running.error());
  if (!waiting) return std::unexpected(waiting.error());
  Activity activity;
  activity.is_idle = running->value == 0 && waiting->value == 0;
  for (const client::Sample& sample : samples) {
    const bool is_count =
        std::ranges::any_of(kAnswered, [&](const SourceName& s) { return is_of(s, sample); });
    if (is_count && sample.value >= 0 && sample.value <= kMost)
      activity.answered += std::llround(sample.value);
  }
  return activity;
}

void RollingMean::add(TimePoint at, std::int64_t value, Duration window) {
  constexpr int kBuckets = 100;
  if (buckets_.empty() || at - buckets_.back().begin >= std::max(window / kBuckets, Duration{1}))
    buckets_.push_back({at});
  Bucket& last = buckets_.back();
  if (__builtin_add_overflow(last.sum, value, &last.sum)) last.sum = std::numeric_limits<std::int64_t>::max();
  ++last.n;
  while (buckets_.size() > 1 && buckets_.front().begin <= at - window) buckets_.pop_front();
}

std::int64_t RollingMean::mean() const {
  MilliLoad sum{};
  std::int64_t n = 0;
  for (const Bucket& b : buckets_) {
    sum += MilliLoad{b.sum};
    n += b.n;
  }
  return n == 0 ? 0 : sum.value / n;
}

ScalingVerdict judge(const crds::Autoscaling& rule, std::int32_t in_force, const LoadRound& round,
                     ScalingHistory& history, TimePoint now, const Activation& activation) {
  const std::int32_t most = std::max(rule.min_replicas, rule.max_replicas);
  const std::int32_t size = std::clamp(in_force, rule.min_replicas, most);
  if (size == 0) {
    history = {};  // what was before it was at zero says nothing about what comes after
    return at_zero(activation);
  }
  const std::int32_t least = std::max(1, rule.min_replicas);
  const Duration delay = rule.scale_down_delay;
  if (history.needs.empty()) add_need(history, round.at, size, delay);
  const auto hold = [&](std::string reason, std::string message) {
    add_need(history, round.at, size, delay);
    history.idle_since.reset();
    return held(size, std::move(reason), std::move(message));
  };
  if (now - round.at > kOldestRound)
    return hold("ReadingsStale",
                fmt::format("{} was last read {} s ago: the size is held", text_of(metric_of(rule)),
                            std::chrono::floor<std::chrono::seconds>(now - round.at).count()));
  if (round.serving == 0)
    return hold("NoReplicaServes", "no replica is ready, so there is nothing to read: the size is held");
  if (round.read == 0) return hold("ReadingsFailed", unread(round) + ": the size is held");

  note_idleness(history, round, activation);
  MilliLoad load = round.load;
  if (counts_requests(metric_of(rule))) load += MilliLoad{1000} * activation.held;
  history.load.add(round.at, load.value, rule.window);
  history.recent_load.add(round.at, load.value, std::min(rule.window, rule.panic_window));
  const std::int64_t mean = history.load.mean(), recent = history.recent_load.mean();
  const bool is_whole = round.read >= round.serving;

  std::int64_t need = needed(mean, rule, size);
  const std::int64_t in_panic = needed(recent, rule, size);
  if (in_panic >= std::int64_t{2} * size) need = std::max(need, in_panic);
  if (!is_whole) need = std::max<std::int64_t>(need, size);
  if (metric_of(rule) == ServingMetric::kRequestsWaiting) need = std::max<std::int64_t>(need, size - 1);
  const std::int64_t asked = need;
  need = std::clamp<std::int64_t>(need, least, most);
  add_need(history, round.at, need, delay);

  ScalingVerdict verdict;
  verdict.size =
      need > size ? static_cast<std::int32_t>(need) : std::min(size, history.needs.front().replicas);
  verdict.is_active = is_whole;
  verdict.reason = is_whole ? "ValidMetricFound" : "ReadingsPartial";
  verdict.message = fmt::format("{} is {} in {} replicas over {}, target {} for each: {} wanted",
                                text_of(metric_of(rule)), crds::to_string(MilliLoad{mean}), round.serving,
                                crds::to_string(rule.window), crds::to_string(target_of(rule)), verdict.size);
  if (asked > most) verdict.message += fmt::format(" (maxReplicas; {} would be right)", asked);
  if (!is_whole) verdict.message += "; " + unread(round) + ", so none is taken away";
  if (rule.min_replicas == 0) to_zero(rule, round, activation, is_long_idle(rule, history, now), verdict);
  return verdict;
}

std::optional<ScalingVerdict> size_for_held(const crds::Autoscaling& rule, std::int32_t size,
                                            std::int64_t requests) {
  if (requests <= 0) return std::nullopt;
  const std::int64_t most = std::max(1, rule.max_replicas);
  std::int64_t need = 1;
  if (counts_requests(metric_of(rule)))
    need = ceil_divide((MilliLoad{1000} * requests).value, std::max<std::int64_t>(1, target_of(rule).value));
  need = std::clamp<std::int64_t>(need, 1, most);
  if (need <= size) return std::nullopt;
  return ScalingVerdict{static_cast<std::int32_t>(need), true, "RequestsHeld",
                        fmt::format("activators hold {} requests, target {} for each: {} wanted", requests,
                                    crds::to_string(target_of(rule)), need)};
}

}  // namespace muster::reconcilers
