// How many replicas autoscaled InferenceServices are to have: what ReplicaReader reads is judged by
// autoscale_rule.h.
#pragma once

#include <functional>
#include <map>
#include <optional>
#include <vector>

#include "muster/reconcilers/services/autoscale_rule.h"
#include "muster/reconcilers/services/replica_reader.h"

namespace muster::reconcilers {

// How often a service is read: half its panicWindow, between 1 and 15 s.
client::Duration reading_interval(const crds::Autoscaling& rule);

class Autoscaler {
 public:
  // As ReplicaReader's.
  Autoscaler(client::Environment env, client::Transport& pods,
             std::function<void(const client::Key&)> changed, ReaderOptions options = {});

  struct Look {
    std::optional<ScalingVerdict> verdict;  // nothing: nothing was read yet
    client::Duration again{};               // look again then, or when `changed` says so
  };
  // What is to be done with a service now; begins to read it where it is time to. `size` and `serving` as
  // they are now: a reading is judged by the first look after it. Other metrics begin without a past.
  Look look(const client::Key& key, const crds::Autoscaling& rule, std::int32_t size,
            std::vector<MetricsEndpoint> serving, const Activation& activation = {});
  void forget(const client::Key& key);

  void stop() { reader_.stop(); }
  client::TaskGroup& readings() { return reader_.readings(); }
  const EndpointCounts& counts() const { return reader_.counts(); }

 private:
  struct Known {
    std::vector<MetricSource> metrics{};
    ScalingHistory history{};
    std::optional<ScalingVerdict> verdict{};
    client::TimePoint said{};

    void keep(ScalingVerdict now_said, client::TimePoint now);
  };

  client::Clock& clock_;
  std::map<client::Key, Known> services_;
  ReplicaReader reader_;
};

}  // namespace muster::reconcilers
