// What the client takes from the world as parameters: executor, clock and randomness. With RealClock and a
// seeded RandomSource it runs for real. With VirtualClock it runs single-threaded in virtual time, and
// repeats exactly.
#pragma once

#include <chrono>
#include <cstdint>
#include <memory>
#include <random>
#include <utility>

#include "muster/client/task.h"
#include "muster/common/time.h"

namespace muster::client {

using Duration = std::chrono::milliseconds;
// Monotonic. Its epoch has no meaning, and it is never compared across processes.
struct MonotonicEpoch {
  using duration = Duration;
  using rep = duration::rep;
  using period = duration::period;
  using time_point = std::chrono::time_point<MonotonicEpoch, duration>;
  static constexpr bool is_steady = true;
};
using TimePoint = MonotonicEpoch::time_point;
// Wall clock, for what is written into objects.
using common::WallTime;

class Clock {
 public:
  virtual ~Clock() = default;
  virtual TimePoint now() const = 0;
  virtual WallTime wall() const = 0;
  // Returns true at or after `when`. Returns false at once if the coroutine was cancelled; it does not throw.
  virtual Task<bool> sleep_until(TimePoint when) = 0;
  Task<bool> sleep_for(Duration d) { return sleep_until(now() + d); }
};

class RealClock final : public Clock {
 public:
  TimePoint now() const override;
  WallTime wall() const override;
  Task<bool> sleep_until(TimePoint when) override;
};

// Time that moves only when it is told to. To drive it, run ready handlers until none is left, then call
// advance_to_next(), again and again. Sleepers of one instant wake in the order in which they went to sleep.
class VirtualClock final : public Clock {
 public:
  explicit VirtualClock(WallTime start = WallTime{std::chrono::seconds{1'700'000'000}});
  ~VirtualClock() override;
  TimePoint now() const override;
  WallTime wall() const override;
  Task<bool> sleep_until(TimePoint when) override;

  // Moves to the earliest sleeper's time and wakes it. False: nobody sleeps.
  bool advance_to_next();
  // The same, but never beyond `limit`. If nobody wakes until then, it moves there and returns false.
  bool advance_to_next(TimePoint limit);
  // Moves to `when`, waking on the way whoever is due, in order.
  void advance_to(TimePoint when);

 private:
  struct State;
  std::shared_ptr<State> state_;
};

// Uniform randomness from a seed. Client and controller have no other source of randomness.
class RandomSource {
 public:
  explicit RandomSource(std::uint64_t seed) : engine_(seed) {}
  static std::uint64_t seed_from_system();
  // Uniform in [0, bound), bound > 0.
  std::uint64_t below(std::uint64_t bound);
  Duration between(Duration low, Duration high);  // both ends included
  // d scaled by a factor uniform in [1, 1 + percent/100].
  Duration jittered(Duration d, int percent);

 private:
  std::mt19937_64 engine_;
};

// Everything that waits or draws lots gets it by reference. It outlives all of them.
struct Environment {
  Executor executor;
  Clock& clock;
  RandomSource& random;
};

}  // namespace muster::client
