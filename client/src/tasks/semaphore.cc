#include "muster/client/semaphore.h"

#include <algorithm>

namespace muster::client {

// One coroutine that waits in acquire(). It leaves the queue together with its frame.
struct Semaphore::Waiting {
  Waiting(State& s, std::size_t u) : state(s), units(u), waiter(s.executor) { state.queue.push_back(this); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting() {
    if (phase == Phase::kQueued) {
      state.queue.remove(this);
      state.grant();  // those behind it may ask for less
    }
    if (phase == Phase::kGranted) state.give_back(units);  // the coroutine ended before it took them
  }

  enum class Phase : std::uint8_t { kQueued, kGranted, kTaken };
  State& state;
  std::size_t units;
  Waiter waiter;
  Phase phase = Phase::kQueued;
};

bool Semaphore::State::fits(std::size_t units) const {
  return used + std::min(units, capacity) <= capacity;
}

void Semaphore::State::give_back(std::size_t units) {
  used -= units;
  grant();
}

void Semaphore::State::grant() {
  while (!queue.empty() && fits(queue.front()->units)) {
    Waiting* first = queue.front();
    queue.pop_front();
    first->units = std::min(first->units, capacity);
    used += first->units;
    first->phase = Waiting::Phase::kGranted;
    first->waiter.notify();
  }
}

Semaphore::Semaphore(Executor executor, std::size_t capacity)
    : state_(std::make_shared<State>(std::move(executor), std::max<std::size_t>(1, capacity))) {}

Task<Semaphore::Permit> Semaphore::acquire(std::size_t units) {
  return acquire_from(state_, units);
}

Task<Semaphore::Permit> Semaphore::acquire_from(std::shared_ptr<State> state, std::size_t units) {
  if (state->queue.empty() && state->fits(units)) {
    const std::size_t taken = std::min(units, state->capacity);
    state->used += taken;
    co_return Permit(state, taken);
  }
  Waiting waiting(*state, units);
  co_await waiting.waiter.wait();
  if (waiting.phase != Waiting::Phase::kGranted) co_return Permit();
  waiting.phase = Waiting::Phase::kTaken;
  co_return Permit(state, waiting.units);
}

std::size_t Semaphore::capacity() const {
  return state_->capacity;
}

void Semaphore::set_capacity(std::size_t capacity) {
  state_->capacity = std::max<std::size_t>(1, capacity);
  state_->grant();
}

void Semaphore::Permit::release() {
  const auto state = std::exchange(state_, nullptr);
  if (state) state->give_back(std::exchange(units_, 0));
}

}  // namespace muster::client
