// The frame around a reconcile function: queue, workers, retries, metrics. Whoever writes a kind's reconciler
// knows none of it.
#pragma once

#include <functional>
#include <map>
#include <string>

#include "muster/client/task_group.h"
#include "muster/client/work_queue.h"
#include "muster/reconcilers/caches/reconciler_context.h"
#include "process/metrics.h"

namespace muster::controller {

class Runner {
 public:
  using Reconcile = std::function<client::Task<reconcilers::Outcome>(client::Key)>;
  using Exists = std::function<bool(const client::Key&)>;
  // Hears after each reconcile what it threw; "": nothing.
  using SayThrown = std::function<client::Task<void>(client::Key, std::string thrown)>;

  // `exists`: whether there is an object of this key. What earlier reconciles of one that is gone asked for
  // is not waited for: a deadline may be weeks away. `say_thrown` may be empty.
  Runner(client::Environment env, Metrics& metrics, std::string name, Reconcile reconcile, Exists exists,
         SayThrown say_thrown = {})
      : env_(env),
        metrics_(metrics),
        name_(std::move(name)),
        reconcile_(std::move(reconcile)),
        exists_(std::move(exists)),
        say_thrown_(std::move(say_thrown)),
        queue_(env) {}

  void add(const client::Key& key) {
    metrics_.queue_added(name_);
    queue_.add(key);
  }
  // A plan threw while it looked at this object, which counts as if its reconcile had thrown. After a while,
  // which is longer each time, it is reconciled as others are, and so comes into a plan again.
  void threw(const client::Key& key, const std::string& what);
  // A handler of the object's changes threw, so what others know of the object is not what it is. Before the
  // next reconcile `take_in` is called, which tells them of the object as if it were new; while it throws,
  // the object is treated as one whose reconcile threw.
  void take_in_again(const client::Key& key, std::function<void()> take_in);
  // Whether that is still to be done.
  bool is_taken_in(const client::Key& key) const { return !to_take_in_.contains(key); }
  // A handler has taken in all of the object meanwhile.
  void taken_in(const client::Key& key) { to_take_in_.erase(key); }
  const std::string& name() const { return name_; }
  // Starts `workers` coroutines in `group`. They end after stop().
  void start(client::TaskGroup& group, int workers);
  void stop() { queue_.shut_down(); }
  void sample() {
    metrics_.queue_depth(name_, queue_.depth());
    metrics_.active_workers(name_, static_cast<int>(queue_.in_work()));
  }

 private:
  struct ThrownByPlan {
    std::string what;
    client::TimePoint until;  // it is left as it is
    int times = 0;
  };
  client::Task<void> work();
  // One reconcile. An exception costs this object an error and the process nothing.
  client::Task<reconcilers::Outcome> reconcile(const client::Key& key);
  // What a plan threw, while the object is left alone because of it; nullptr: nothing.
  const ThrownByPlan* left_alone(const client::Key& key);
  void take_in(const client::Key& key);
  client::Task<void> say(const client::Key& key, const std::string& thrown);

  client::Environment env_;
  Metrics& metrics_;
  std::string name_;
  Reconcile reconcile_;
  Exists exists_;
  SayThrown say_thrown_;
  client::WorkQueue queue_;
  std::map<client::Key, std::function<void()>> to_take_in_;
  std::map<client::Key, ThrownByPlan> thrown_by_plans_;
};

}  // namespace muster::controller
