#include "muster/reconcilers/services/canary_analysis.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

namespace muster::reconcilers {
namespace {

using client::Duration;
using crds::MilliLoad;

// One check over the window. Nothing: there was no request.
std::optional<MilliLoad> value_of(std::size_t check, bool is_share, const std::deque<LoadRound>& rounds) {
  __int128 sum = 0;
  std::int64_t requests = 0;
  for (const LoadRound& round : rounds) {
    const MetricLoad& load = round.loads[check];
    sum += is_share ? load.load.value : load.load.value / std::max(1, round.serving);
    requests += load.requests.value;
  }
  if (!is_share) return MilliLoad{static_cast<std::int64_t>(sum / static_cast<std::int64_t>(rounds.size()))};
  if (requests == 0) return std::nullopt;
  return MilliLoad{static_cast<std::int64_t>(sum * 1000 / requests)};
}

CanaryVerdict waits(std::string why) {
  return {false, false, std::move(why)};
}

}  // namespace

Duration reading_interval(const crds::CanaryAnalysis& analysis) {
  return std::clamp<Duration>(Duration(analysis.window) / 10, std::chrono::seconds{1},
                              std::chrono::seconds{5});
}

CanaryVerdict judge_canary(const crds::CanaryAnalysis& analysis, LoadRound round, CanaryHistory& history) {
  const Duration window = analysis.window;
  if (round.serving == 0) return waits("no replica of it is ready, so there is nothing to read");
  if (round.read < round.serving)
    return waits(fmt::format("{} of {} of its replicas were not read ({})", round.serving - round.read,
                             round.serving, round.problem));
  const auto at = round.at;
  if (!history.begin) history.begin = at;
  history.rounds.push_back(std::move(round));
  // A share is of what has come since the round before: the first one knows of nothing.
  while (history.rounds.front().at <= at - window && history.rounds.size() > 1) history.rounds.pop_front();
  // After a time without readings there is more to be read first.
  const bool is_whole = at - *history.begin >= window &&
                        at - history.rounds.front().at + reading_interval(analysis) >= window / 2;
  std::string unknown;
  for (std::size_t i = 0; i < analysis.checks.size(); ++i) {
    const crds::CanaryCheck& check = analysis.checks[i];
    const MetricSource source = source_of(check);
    const auto value = value_of(i, source.is_share_of_requests(), history.rounds);
    if (!value) {
      if (unknown.empty())
        unknown = fmt::format("{} is not known: its pods have counted no request over {}", source.name,
                              crds::to_string(analysis.window));
    } else if (*value > check.max) {
      return {false, is_whole,
              fmt::format("{} is {} over {}, max {}", source.name, decimal(*value),
                          crds::to_string(analysis.window), decimal(check.max))};
    }
  }
  if (!is_whole)
    return waits(fmt::format("it has not been read for {} yet", crds::to_string(analysis.window)));
  if (!unknown.empty()) return waits(std::move(unknown));
  return {true, false, ""};
}

CanaryWatch::Look CanaryWatch::look(const client::Key& key, const crds::CanaryAnalysis& analysis,
                                    const std::string& revision, std::vector<MetricsEndpoint> serving) {
  Question question;
  for (const auto& check : analysis.checks) question.metrics.push_back(source_of(check));
  Known& canary = canaries_[key];
  if (canary.revision != revision || canary.analysis != analysis) {
    canary = {.revision = revision, .analysis = analysis};
    canary.verdict = waits("it has not been read yet");
    reader_.forget(key);
  }
  auto read = reader_.look(key, std::move(question), reading_interval(analysis), std::move(serving));
  if (read.round) canary.verdict = judge_canary(analysis, std::move(*read.round), canary.history);
  return {canary.verdict, read.again};
}

void CanaryWatch::forget(const client::Key& key) {
  if (canaries_.erase(key) > 0) reader_.forget(key);
}

}  // namespace muster::reconcilers
