// What the replicas of services say of themselves, read over HTTP in the background: no reconcile waits for a
// pod.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "muster/client/object.h"
#include "muster/client/task_group.h"
#include "muster/client/transport.h"
#include "muster/reconcilers/common/endpoint_reader.h"
#include "muster/reconcilers/services/serving_metrics.h"

namespace muster::reconcilers {

struct ReaderOptions {
  client::Duration timeout = std::chrono::seconds{3};  // of one endpoint
  std::size_t of_one_service = 16;                     // endpoints read at once
  std::size_t in_all = 64;
};

// Where a replica that serves answers. Those of one replica stand together.
struct MetricsEndpoint {
  std::string replica;  // its name
  std::string url;      // "": none, it cannot be read
};

// One reading of all replicas that serve.
struct LoadRound {
  client::TimePoint at{};    // when it was complete
  std::int32_t serving = 0;  // replicas that were asked
  std::int32_t read = 0;     // those of them that answered
  // Of these together, each of the metrics: of a share of requests what has come since the round before.
  std::vector<MetricLoad> loads{};
  std::string problem{};  // of one that did not
  // Where it was asked for, of these together: see Activity.
  bool is_idle = false;
  std::int64_t answered = 0;
  std::string idle_problem{};  // of one that did not say whether it is idle
};

// What is asked of each replica.
struct Question {
  std::vector<MetricSource> metrics;
  bool with_activity = false;
};

class ReplicaReader {
 public:
  // `pods` takes whole URLs, and outlives all readings: see readings(). `changed` is called, from the event
  // loop, when a service's replicas were read; never after stop().
  ReplicaReader(client::Environment env, client::Transport& pods,
                std::function<void(const client::Key&)> changed, ReaderOptions options = {});
  ~ReplicaReader();
  ReplicaReader(const ReplicaReader&) = delete;
  ReplicaReader& operator=(const ReplicaReader&) = delete;

  struct Look {
    std::optional<LoadRound> round;  // that nobody was given yet
    client::Duration again{};        // look again then, or when `changed` says so
  };
  // Begins to read a service where `interval` is over. Other metrics begin without a past.
  Look look(const client::Key& key, Question question, client::Duration interval,
            std::vector<MetricsEndpoint> serving);
  void forget(const client::Key& key);

  // Begins no reading any more. Those under way end by their timeout, or when readings() are cancelled; join
  // them before what they use is destroyed.
  void stop();
  client::TaskGroup& readings();
  const EndpointCounts& counts() const;

 private:
  struct State;
  std::shared_ptr<State> state_;  // also held by readings under way
};

}  // namespace muster::reconcilers
