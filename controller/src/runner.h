// The frame around a reconcile function: queue, workers, retries, metrics. Whoever writes a kind's reconciler
// knows none of it.
#pragma once

#include <functional>
#include <string>

#include "metrics.h"
#include "muster/client/work_queue.h"
#include "muster/reconcilers/caches/world.h"

namespace muster::controller {

class Runner {
 public:
  using Reconcile = std::function<client::Task<reconcilers::Outcome>(client::Key)>;
  using Exists = std::function<bool(const client::Key&)>;

  // `exists`: whether there is an object of this key. What earlier reconciles of one that is gone asked for
  // is not waited for: a deadline may be weeks away.
  Runner(client::Environment env, Metrics& metrics, std::string name, Reconcile reconcile, Exists exists)
      : env_(env),
        metrics_(metrics),
        name_(std::move(name)),
        reconcile_(std::move(reconcile)),
        exists_(std::move(exists)),
        queue_(env) {}

  void add(const client::Key& key) {
    metrics_.queue_added(name_);
    queue_.add(key);
  }
  // Starts `workers` coroutines that live until stop().
  void start(int workers);
  void stop() { queue_.shut_down(); }
  bool idle() const { return working_ == 0; }
  void sample() {
    metrics_.queue_depth(name_, queue_.depth());
    metrics_.active_workers(name_, static_cast<int>(queue_.in_work()));
  }

 private:
  client::Task<void> work();

  client::Environment env_;
  Metrics& metrics_;
  std::string name_;
  Reconcile reconcile_;
  Exists exists_;
  client::WorkQueue queue_;
  int working_ = 0;  // workers that have not ended
};

}  // namespace muster::controller
