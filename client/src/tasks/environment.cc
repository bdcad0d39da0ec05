#include "muster/client/environment.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/steady_timer.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <map>

#include "muster/client/waiter.h"

namespace muster::client {

namespace asio = boost::asio;
using std::chrono::duration_cast;

TimePoint RealClock::now() const {
  return TimePoint{std::chrono::floor<Duration>(std::chrono::steady_clock::now().time_since_epoch())};
}

WallTime RealClock::wall() const {
  return std::chrono::floor<std::chrono::microseconds>(std::chrono::system_clock::now());
}

Task<bool> RealClock::sleep_until(TimePoint when) {
  if (co_await is_cancelled()) co_return false;
  const auto executor = co_await asio::this_coro::executor;
  // Timer of the steady clock: its epoch is ours, and time_point::max() must not overflow nanoseconds.
  constexpr auto kFarthest = duration_cast<Duration>(std::chrono::steady_clock::duration::max());
  const auto at = std::min(when.time_since_epoch(), kFarthest);
  asio::steady_timer timer(executor, std::chrono::steady_clock::time_point{at});
  auto [error] = co_await timer.async_wait(asio::as_tuple(asio::use_awaitable));
  co_return !error;
}

// Sleepers live in the frames of their coroutines and leave the map with them.
struct VirtualClock::State {
  using Sleepers = std::map<std::pair<TimePoint, std::uint64_t>, Waiter*>;

  TimePoint now{};
  WallTime start;
  std::uint64_t next_number = 0;
  Sleepers sleepers;

  void wake_first() {
    auto first = sleepers.begin();
    now = std::max(now, first->first.first);
    Waiter* waiter = first->second;
    sleepers.erase(first);
    waiter->notify();
  }
};

VirtualClock::VirtualClock(WallTime start) : state_(std::make_shared<State>()) {
  state_->start = start;
}
VirtualClock::~VirtualClock() = default;

TimePoint VirtualClock::now() const {
  return state_->now;
}
WallTime VirtualClock::wall() const {
  return state_->start + state_->now.time_since_epoch();
}

Task<bool> VirtualClock::sleep_until(TimePoint when) {
  struct Sleeper {
    std::shared_ptr<State> state;
    std::pair<TimePoint, std::uint64_t> key;
    Waiter waiter;
    Sleeper(std::shared_ptr<State> s, TimePoint at, const Executor& executor)
        : state(std::move(s)), key(at, state->next_number++), waiter(executor) {
      state->sleepers.emplace(key, &waiter);
    }
    Sleeper(const Sleeper&) = delete;
    Sleeper& operator=(const Sleeper&) = delete;
    ~Sleeper() { state->sleepers.erase(key); }
  };
  auto state = state_;  // the clock may be gone when this frame ends
  if (co_await is_cancelled()) co_return false;
  if (when <= state->now) co_return true;
  const Executor executor = co_await asio::this_coro::executor;
  Sleeper sleeper(state, when, executor);
  co_return co_await sleeper.waiter.wait();
}

bool VirtualClock::advance_to_next() {
  if (state_->sleepers.empty()) return false;
  state_->wake_first();
  return true;
}

bool VirtualClock::advance_to_next(TimePoint limit) {
  if (!state_->sleepers.empty() && state_->sleepers.begin()->first.first <= limit) return advance_to_next();
  state_->now = std::max(state_->now, limit);
  return false;
}

void VirtualClock::advance_to(TimePoint when) {
  while (advance_to_next(when)) {
  }
}

std::uint64_t RandomSource::seed_from_system() {
  std::random_device device;
  return (std::uint64_t{device()} << 32) | device();
}

std::uint64_t RandomSource::below(std::uint64_t bound) {
  // Not std::uniform_int_distribution: its results differ between standard libraries, and seeds are to
  // repeat.
  const std::uint64_t unbiased_from = (0 - bound) % bound;
  while (true) {
    const std::uint64_t draw = engine_();
    if (draw >= unbiased_from) return draw % bound;
  }
}

Duration RandomSource::between(Duration low, Duration high) {
  if (high <= low) return low;
  return low + Duration{below(static_cast<std::uint64_t>((high - low).count()) + 1)};
}

Duration RandomSource::jittered(Duration d, int percent) {
  return between(d, d + d * percent / 100);
}

}  // namespace muster::client
