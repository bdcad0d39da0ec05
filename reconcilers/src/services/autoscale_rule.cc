#include "muster/reconcilers/services/autoscale_rule.h"

#include <fmt/format.h>

#include <algorithm>
#include <limits>
#include <utility>

namespace muster::reconcilers {
namespace {

using client::Duration;
using client::TimePoint;
using crds::MilliLoad;

std::int64_t ceil_divide(std::int64_t a, std::int64_t b) {
  return a / b + (a % b != 0 ? 1 : 0);
}

// Replicas that this load needs, `size` where that is about right.
std::int64_t needed(std::int64_t load, MilliLoad target, std::int32_t size) {
  const MilliLoad right = target * size;
  const MilliLoad slack{right.value / 100 * kTolerancePercent + right.value % 100 * kTolerancePercent / 100};
  if (load <= (right + slack).value && load >= (right - slack).value) return size;
  return ceil_divide(load, std::max<std::int64_t>(1, target.value));
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

// Says that there are enough replicas, and not how many are too many.
bool says_only_enough(const MetricSource& source) {
  return source.kind == MetricSource::Kind::kRequestsWaiting || source.is_share_of_requests();
}

// What one metric asks for, and why.
struct Wish {
  std::int64_t need = 0;
  std::int64_t mean = 0;  // over window
  MetricSource source{};
  MilliLoad target{};
};

// The mean of all replicas together. Of a share of requests it is that of the requests, and was kept as if
// each replica that served then had said so: replicas that have come since share it.
std::int64_t mean_of(const RollingMean& load, const RollingMean& requests, bool is_share) {
  if (!is_share) return load.mean();
  const std::int64_t n = requests.sum();
  if (n == 0) return 0;
  return static_cast<std::int64_t>(static_cast<__int128>(load.sum()) * 1000 / n);
}

Wish wish_of(const crds::Autoscaling& rule, const crds::ScalingMetric& metric, const LoadRound& round,
             MetricLoad said, std::int32_t size, std::int64_t requests_held, ScalingHistory::Metric& past) {
  Wish wish{.source = source_of(metric), .target = metric.target};
  const bool is_share = wish.source.is_share_of_requests();
  if (wish.source.counts_requests()) said.load += MilliLoad{1000} * requests_held;
  const Duration panic = std::min(rule.window, rule.panic_window);
  if (is_share) said.load = said.load * round.serving;
  past.load.add(round.at, said.load.value, rule.window);
  past.recent_load.add(round.at, said.load.value, panic);
  past.requests.add(round.at, said.requests.value, rule.window);
  past.recent_requests.add(round.at, said.requests.value, panic);
  wish.mean = mean_of(past.load, past.requests, is_share);
  wish.need = needed(wish.mean, metric.target, size);
  const std::int64_t recent = mean_of(past.recent_load, past.recent_requests, is_share);
  const std::int64_t in_panic = needed(recent, metric.target, size);
  if (in_panic >= std::int64_t{2} * size) wish.need = std::max(wish.need, in_panic);
  if (says_only_enough(wish.source)) wish.need = std::max<std::int64_t>(wish.need, size - 1);
  return wish;
}

std::string text_of(const Wish& wish, const crds::Autoscaling& rule, const LoadRound& round) {
  const std::string in =
      fmt::format("in {} replicas over {}, target", round.serving, crds::to_string(rule.window));
  if (wish.source.is_share_of_requests())
    return fmt::format("{} is {} s {} {}", wish.source.name,
                       decimal(MilliLoad{wish.mean / std::max(1, round.serving)}), in, decimal(wish.target));
  return fmt::format("{} is {} {} {} for each", wish.source.name, crds::to_string(MilliLoad{wish.mean}), in,
                     crds::to_string(wish.target));
}

// --- limits

Duration period_of(const std::optional<crds::ScalingLimit>& limit) {
  return limit ? Duration(limit->period) : Duration{0};
}

// From now on this size is in force.
void note_size(ScalingHistory& history, const crds::Autoscaling& rule, TimePoint at, std::int32_t size) {
  constexpr std::size_t kMax = 1000;  // more changes than these in one period are not remembered
  auto& sizes = history.sizes;
  if (sizes.empty() || sizes.back().replicas != size) sizes.push_back({at, size});
  const Duration longest = std::max(period_of(rule.scale_up_limit), period_of(rule.scale_down_limit));
  while (sizes.size() > 1 && (sizes[1].at <= at - longest || sizes.size() > kMax)) sizes.pop_front();
}

// The smallest and the largest size that was in force at any time of the last `period`.
std::pair<std::int32_t, std::int32_t> sizes_within(const ScalingHistory& history, TimePoint at,
                                                   Duration period) {
  std::int32_t least = history.sizes.back().replicas, most = least;
  for (auto one = history.sizes.rbegin() + 1; one != history.sizes.rend(); ++one) {
    if ((one - 1)->at <= at - period) break;
    least = std::min(least, one->replicas);
    most = std::max(most, one->replicas);
  }
  return {least, most};
}

// `wanted` as far as the limits allow. `limited` is told by which.
std::int32_t within_limits(const crds::Autoscaling& rule, const ScalingHistory& history, TimePoint at,
                           std::int32_t size, std::int32_t wanted, std::string& limited) {
  const bool is_up = wanted > size;
  const auto& limit = is_up ? rule.scale_up_limit : rule.scale_down_limit;
  if (wanted == size || !limit) return wanted;
  const auto [least, most] = sizes_within(history, at, limit->period);
  const std::int32_t allowed = is_up ? std::clamp(least + limit->replicas, size, wanted)
                                     : std::clamp(most - limit->replicas, wanted, size);
  if (allowed != wanted)
    limited = fmt::format(" ({}: {} in {}; {} would be right)", is_up ? "scaleUpLimit" : "scaleDownLimit",
                          limit->replicas, crds::to_string(limit->period), wanted);
  return allowed;
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

std::int64_t RollingMean::sum() const {
  MilliLoad sum{};
  for (const Bucket& b : buckets_) sum += MilliLoad{b.sum};
  return sum.value;
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
  note_size(history, rule, round.at, size);
  if (history.needs.empty()) add_need(history, round.at, size, delay);
  const auto hold = [&](std::string reason, std::string message) {
    add_need(history, round.at, size, delay);
    history.idle_since.reset();
    return held(size, std::move(reason), std::move(message));
  };
  const std::vector<crds::ScalingMetric> metrics = crds::metrics_of(rule);
  if (now - round.at > kOldestRound)
    return hold("ReadingsStale",
                fmt::format("{} was last read {} s ago: the size is held", source_of(metrics.front()).name,
                            std::chrono::floor<std::chrono::seconds>(now - round.at).count()));
  if (round.serving == 0)
    return hold("NoReplicaServes", "no replica is ready, so there is nothing to read: the size is held");
  if (round.read == 0) return hold("ReadingsFailed", unread(round) + ": the size is held");

  note_idleness(history, round, activation);
  history.metrics.resize(metrics.size());
  Wish wish;
  for (std::size_t i = 0; i < metrics.size(); ++i) {
    const MetricLoad said = i < round.loads.size() ? round.loads[i] : MetricLoad{};
    const Wish one = wish_of(rule, metrics[i], round, said, size, activation.held, history.metrics[i]);
    if (i == 0 || one.need > wish.need) wish = one;
  }
  const bool is_whole = round.read >= round.serving;
  const std::int64_t asked = is_whole ? wish.need : std::max<std::int64_t>(wish.need, size);
  const auto need = static_cast<std::int32_t>(std::clamp<std::int64_t>(asked, least, most));
  add_need(history, round.at, need, delay);

  ScalingVerdict verdict;
  std::string limited;
  const std::int32_t wanted = need > size ? need : std::min(size, history.needs.front().replicas);
  verdict.size = within_limits(rule, history, round.at, size, wanted, limited);
  verdict.is_active = is_whole;
  verdict.reason = is_whole ? "ValidMetricFound" : "ReadingsPartial";
  verdict.message = fmt::format("{}: {} wanted", text_of(wish, rule, round), verdict.size);
  if (asked > most) verdict.message += fmt::format(" (maxReplicas; {} would be right)", asked);
  verdict.message += limited;
  if (!is_whole) verdict.message += "; " + unread(round) + ", so none is taken away";
  if (rule.min_replicas == 0) to_zero(rule, round, activation, is_long_idle(rule, history, now), verdict);
  if (verdict.size == 0) {
    limited.clear();
    verdict.size = within_limits(rule, history, round.at, size, 0, limited);
    if (verdict.size > 0) verdict.message += fmt::format("; {} for now{}", verdict.size, limited);
  }
  return verdict;
}

std::optional<ScalingVerdict> size_for_held(const crds::Autoscaling& rule, std::int32_t size,
                                            std::int64_t requests) {
  if (requests <= 0) return std::nullopt;
  const std::int64_t most = std::max(1, rule.max_replicas);
  const auto metrics = crds::metrics_of(rule);
  const auto counted =
      std::ranges::find_if(metrics, [](const auto& m) { return source_of(m).counts_requests(); });
  std::int64_t need = 1;
  if (counted != metrics.end())
    need = ceil_divide((MilliLoad{1000} * requests).value, std::max<std::int64_t>(1, counted->target.value));
  need = std::clamp<std::int64_t>(need, 1, most);
  if (rule.scale_up_limit) need = std::min<std::int64_t>(need, rule.scale_up_limit->replicas);
  if (need <= size) return std::nullopt;
  return ScalingVerdict{
      static_cast<std::int32_t>(need), true, "RequestsHeld",
      fmt::format("activators hold {} requests, target {} for each: {} wanted", requests,
                  crds::to_string(counted == metrics.end() ? metrics.front().target : counted->target),
                  need)};
}

}  // namespace muster::reconcilers
