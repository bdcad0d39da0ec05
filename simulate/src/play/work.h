// How far a gang has come with its work, and what it would lose.
#pragma once

#include <cstdint>
#include <optional>

#include "muster/placement/amounts.h"

namespace muster::simulate {

// Amounts that grow while pods run.
struct Done {
  std::int64_t pod_ms = 0;        // work
  std::int64_t milli_gpu_ms = 0;  // what it held for that

  friend Done operator-(Done a, Done b) { return {a.pod_ms - b.pod_ms, a.milli_gpu_ms - b.milli_gpu_ms}; }
};

// Work is counted in pods x time; what one checkpoint has saved is never lost again. Instants never go back.
class Work {
 public:
  // `total`: the work it has to do, in time with `most` pods; absent: without an end. `interval`: how often
  // it saves by itself, counted from the start of an attempt.
  void set(std::optional<placement::Duration> total, std::int32_t most,
           std::optional<placement::Duration> interval) {
    total_ = total, most_ = most > 0 ? most : 1, interval_ = interval;
  }

  // Between start() and stop(), also while it does not get on.
  bool runs() const { return runs_; }
  // Pods that it gets on with, and what they hold.
  std::int32_t pods() const { return pods_; }
  std::int64_t milli_gpu() const { return milli_gpu_; }
  // An attempt begins, from the last checkpoint.
  void start(placement::Time now, std::int32_t pods, std::int64_t milli_gpu) {
    began_ = at_ = now;
    runs_ = true;
    pods_ = pods, milli_gpu_ = milli_gpu;
  }
  // 0 pods: it does not get on for now.
  void resize(placement::Time now, std::int32_t pods, std::int64_t milli_gpu) {
    advance(now);
    pods_ = pods, milli_gpu_ = milli_gpu;
  }
  // Everything up to `now` is safe.
  void save(placement::Time now) {
    advance(now);
    saved_ = done_;
  }
  // The pods are gone; back to the last checkpoint. Returns what is lost.
  Done stop(placement::Time now) {
    advance(now);
    runs_ = false;
    pods_ = 0, milli_gpu_ = 0;
    const Done lost = done_ - saved_;
    done_ = saved_;
    return lost;
  }
  void advance(placement::Time now);

  const Done& done() const { return done_; }
  // The same, as time with all pods.
  std::int64_t ms_at_full_size(std::int64_t pod_ms) const { return pod_ms / most_; }
  // In whole seconds, rounded up; absent: never, as it is now.
  std::optional<placement::Time> ends() const;

 private:
  std::optional<placement::Duration> total_, interval_;
  std::int32_t most_ = 1;
  bool runs_ = false;
  std::int32_t pods_ = 0;
  std::int64_t milli_gpu_ = 0;
  placement::Time began_, at_;  // done_ is as of at_
  Done done_, saved_;
};

}  // namespace muster::simulate
