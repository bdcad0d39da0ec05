#include "runner.h"

namespace muster::controller {

void Runner::start(int workers) {
  for (int i = 0; i < workers; ++i) {
    ++working_;
    client::spawn(env_.executor, work());
  }
}

client::Task<void> Runner::work() {
  while (true) {
    const std::optional<client::Key> key = co_await queue_.take();
    if (!key) break;
    const auto began = env_.clock.now();
    const reconcilers::Outcome outcome = co_await reconcile_(*key);
    const auto took = std::chrono::duration_cast<std::chrono::microseconds>(env_.clock.now() - began);
    metrics_.reconciled(name_, outcome.failed ? "error" : outcome.after ? "requeue_after" : "success", took);
    if (outcome.failed) {
      metrics_.queue_retried(name_);
      queue_.add_rate_limited(*key);
    } else {
      queue_.forget(*key);
      if (!exists_(*key)) queue_.drop_delayed(*key);
      if (outcome.after) queue_.add_after(*key, *outcome.after);
    }
    queue_.done(*key);
  }
  --working_;
}

}  // namespace muster::controller
