#include "process/runner.h"

#include <algorithm>

#include "muster/reconcilers/common/log.h"

namespace muster::controller {
namespace {

// How long an object is left alone that made a plan throw: doubled each time.
constexpr client::Duration kFirstPause = std::chrono::seconds{5};
constexpr int kMaxDoubled = 6;  // 320 s
// When so long nothing was thrown, the next pause is the first again.
constexpr client::Duration kForgottenAfter = std::chrono::minutes{10};

std::string in_words(const std::string& what) {
  return what.empty() ? "an exception without words" : what;
}

}  // namespace

void Runner::take_in_again(const client::Key& key, std::function<void()> take_in) {
  to_take_in_[key] = std::move(take_in);
  add(key);
}

void Runner::take_in(const client::Key& key) {
  const auto found = to_take_in_.find(key);
  if (found == to_take_in_.end()) return;
  if (exists_(key)) {
    const auto again = found->second;  // it may throw, and then stays
    again();
  }
  to_take_in_.erase(key);
}

void Runner::threw(const client::Key& key, const std::string& what) {
  metrics_.panicked(name_);
  reconcilers::log_error("a plan threw; the object is left as it is",
                         {{"controller", name_}, {"object", key}, {"error", what}});
  ThrownByPlan& thrown = thrown_by_plans_[key];
  if (env_.clock.now() > thrown.until + kForgottenAfter) thrown.times = 0;
  thrown.what = in_words(what);
  thrown.until = env_.clock.now() + kFirstPause * (1 << thrown.times);
  thrown.times = std::min(thrown.times + 1, kMaxDoubled);
  add(key);
}

const Runner::ThrownByPlan* Runner::left_alone(const client::Key& key) {
  const auto found = thrown_by_plans_.find(key);
  if (found == thrown_by_plans_.end()) return nullptr;
  if (!exists_(key)) {
    thrown_by_plans_.erase(found);
    return nullptr;
  }
  return env_.clock.now() < found->second.until ? &found->second : nullptr;
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
  if (const ThrownByPlan* by_plan = left_alone(key)) {  // it was counted when it was thrown
    outcome.after = by_plan->until - env_.clock.now();
    const std::string what = by_plan->what;
    co_await say(key, what);
    co_return outcome;
  }
  std::string thrown;
  try {
    take_in(key);
    outcome = co_await reconcile_(key);
  } catch (const std::exception& e) {
    thrown = in_words(e.what());
  } catch (...) {
    thrown = "something that is no std::exception";
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
