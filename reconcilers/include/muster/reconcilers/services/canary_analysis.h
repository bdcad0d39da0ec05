// Whether a canary does well, by what its pods say of themselves: spec.rollout.canary.analysis.
#pragma once

#include <deque>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "muster/reconcilers/services/replica_reader.h"
#include "muster/reconcilers/services/rollout_rule.h"

namespace muster::reconcilers {

// How often a canary is read: a tenth of the window, between 1 and 5 s.
client::Duration reading_interval(const crds::CanaryAnalysis& analysis);

// The readings of one canary; `begin`: of the first.
struct CanaryHistory {
  std::optional<client::TimePoint> begin{};
  std::deque<LoadRound> rounds{};  // of the last window, that were read whole
};

// To be called once for each round, in their order. A share of requests is that of the requests of the
// window; any other amount is the mean of the pods and of the readings. Pure.
CanaryVerdict judge_canary(const crds::CanaryAnalysis& analysis, LoadRound round, CanaryHistory& history);

// Reads canaries in the background. What it knows is gone with the process: the next one begins its window
// anew, and nothing goes on or fails meanwhile.
class CanaryWatch {
 public:
  // As ReplicaReader's.
  CanaryWatch(client::Environment env, client::Transport& pods,
              std::function<void(const client::Key&)> changed, ReaderOptions options = {})
      : reader_(std::move(env), pods, std::move(changed), options) {}

  struct Look {
    CanaryVerdict verdict;
    client::Duration again{};
  };
  // `serving`: the pods of this revision that are ready. Another revision begins without a past.
  Look look(const client::Key& key, const crds::CanaryAnalysis& analysis, const std::string& revision,
            std::vector<MetricsEndpoint> serving);
  void forget(const client::Key& key);

  void stop() { reader_.stop(); }
  client::TaskGroup& readings() { return reader_.readings(); }

 private:
  struct Known {
    std::string revision;
    crds::CanaryAnalysis analysis;
    CanaryHistory history{};
    CanaryVerdict verdict{};
  };
  std::map<client::Key, Known> canaries_;
  ReplicaReader reader_;
};

}  // namespace muster::reconcilers
