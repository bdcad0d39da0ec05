#include "process/runner.h"

#include "muster/reconcilers/common/log.h"

namespace muster::controller {

void Runner::heard(const client::Key& key, std::string thrown) {
  if (thrown.empty()) {
    thrown_by_handlers_.erase(key);
  } else {
    thrown_by_handlers_[key] = std::move(thrown);
  }
}

void Runner::start(client::TaskGroup& group, int workers) {
  for (int i = 0; i < workers; ++i) group.spawn(work());
}

client::Task<void> Runner::work() {
  while (true) {
    const std::optional<client::Key> key = co_await queue_.take();
    if (!key) break;
    const auto began = env_.clock.now();
    const reconcilers::Outcome outcome = co_await reconcile(*key);
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
}

client::Task<reconcilers::Outcome> Runner::reconcile(const client::Key& key) {
  reconcilers::Outcome outcome;
  std::string thrown;
  if (const auto found = thrown_by_handlers_.find(key); found != thrown_by_handlers_.end()) {
    if (exists_(key)) thrown = found->second;
    if (thrown.empty()) thrown_by_handlers_.erase(found);
  }
  if (thrown.empty()) {
    try {
      outcome = co_await reconcile_(key);
    } catch (const std::exception& e) {
      thrown = e.what();
      if (thrown.empty()) thrown = "an exception without words";
    } catch (...) {
      thrown = "something that is no std::exception";
    }
  }
  if (!thrown.empty()) {
    metrics_.panicked(name_);
    reconcilers::log_error("a reconcile threw; the object is left as it is",
                           {{"controller", name_}, {"object", key}, {"error", thrown}});
    outcome = reconcilers::Outcome::retry();
  }
  co_await say(key, thrown);
  co_return outcome;
}

client::Task<void> Runner::say(const client::Key& key, const std::string& thrown) {
  if (!say_thrown_) co_return;
  try {
    co_await say_thrown_(key, thrown);
  } catch (const std::exception& e) {
    reconcilers::log_error("nor can the object say so",
                           {{"controller", name_}, {"object", key}, {"error", e.what()}});
  }
}

}  // namespace muster::controller
