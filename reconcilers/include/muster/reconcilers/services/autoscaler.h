// What the replicas of InferenceServices say of themselves, read over HTTP in the background: no reconcile
// waits for a pod. What is decided with it is autoscale_rule.h's.
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
#include "muster/reconcilers/services/autoscale_rule.h"

namespace muster::reconcilers {

struct AutoscalerOptions {
  client::Duration timeout = std::chrono::seconds{3};  // of one endpoint
  std::size_t of_one_service = 16;                     // endpoints read at once
  std::size_t in_all = 64;
};

// Where a replica that serves answers. Those of one replica stand together.
struct MetricsEndpoint {
  std::string replica;  // its name
  std::string url;      // "": none, it cannot be read
};

// How often a service is read: half its panicWindow, between 1 and 15 s.
client::Duration reading_interval(const crds::Autoscaling& rule);

class Autoscaler {
 public:
  // `pods` takes whole URLs, and outlives all readings: see readings(). `changed` is called, from the event
  // loop, when a service's replicas were read; never after stop().
  Autoscaler(client::Environment env, client::Transport& pods,
             std::function<void(const client::Key&)> changed, AutoscalerOptions options = {});
  ~Autoscaler();
  Autoscaler(const Autoscaler&) = delete;
  Autoscaler& operator=(const Autoscaler&) = delete;

  struct Look {
    std::optional<ScalingVerdict> verdict;  // nothing: nothing was read yet
    client::Duration again{};               // look again then, or when `changed` says so
  };
  // What is to be done with a service now; begins to read it where it is time to. `size` and `serving` as
  // they are now: a reading is judged by the first look after it. Another metric begins without a past.
  Look look(const client::Key& key, const crds::Autoscaling& rule, std::int32_t size,
            std::vector<MetricsEndpoint> serving, const Activation& activation = {});
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
