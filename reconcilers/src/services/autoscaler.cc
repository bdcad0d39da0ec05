#include "muster/reconcilers/services/autoscaler.h"

#include <algorithm>
#include <utility>

namespace muster::reconcilers {
namespace {

using client::Duration;
using client::TimePoint;

// A verdict that says the same but for its numbers is said again only so often: it is written to the status.
constexpr Duration kSayAgain = std::chrono::seconds{30};

}  // namespace

Duration reading_interval(const crds::Autoscaling& rule) {
  const Duration half = Duration(std::min(rule.window, rule.panic_window)) / 2;
  return std::clamp<Duration>(half, std::chrono::seconds{1}, std::chrono::seconds{15});
}

Autoscaler::Autoscaler(client::Environment env, client::Transport& pods,
                       std::function<void(const client::Key&)> changed, ReaderOptions options)
    : clock_(env.clock), reader_(env, pods, std::move(changed), options) {}

void Autoscaler::Known::keep(ScalingVerdict now_said, TimePoint now) {
  const bool is_news = !verdict || verdict->size != now_said.size ||
                       verdict->is_active != now_said.is_active || verdict->reason != now_said.reason;
  if (!is_news && now - said < kSayAgain) return;
  said = now;
  verdict = std::move(now_said);
}

Autoscaler::Look Autoscaler::look(const client::Key& key, const crds::Autoscaling& rule, std::int32_t size,
                                  std::vector<MetricsEndpoint> serving, const Activation& activation) {
  const TimePoint now = clock_.now();
  Question question{sources_of(rule), rule.min_replicas == 0};
  Known& service = services_[key];
  if (service.metrics != question.metrics) service = {.metrics = question.metrics};
  const bool serves = !serving.empty();
  const auto read = reader_.look(key, std::move(question), reading_interval(rule), std::move(serving));
  if (read.round) service.keep(judge(rule, size, *read.round, service.history, now, activation), now);
  // A request that is held waits for nothing but a replica: no reading is waited for.
  if (!serves && rule.min_replicas == 0) {
    if (auto more =
            size_for_held(rule, std::max(size, service.verdict ? service.verdict->size : 0), activation.held))
      service.keep(std::move(*more), now);
  }
  return {service.verdict, read.again};
}

void Autoscaler::forget(const client::Key& key) {
  services_.erase(key);
  reader_.forget(key);
}

}  // namespace muster::reconcilers
