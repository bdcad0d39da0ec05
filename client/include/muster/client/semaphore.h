// A bound on how many may do something at once. Whoever may do it holds a permit, and gives it back by
// destroying it.
#pragma once

#include <cstddef>
#include <list>
#include <memory>
#include <utility>

#include "muster/client/task.h"
#include "muster/client/waiter.h"

namespace muster::client {

// First come, first served: somebody who asks for little does not overtake somebody who asked earlier for
// more than is free now. Thread: the executor's only.
class Semaphore {
  struct State;

 public:
  // `capacity`: units that can be held at once.
  Semaphore(Executor executor, std::size_t capacity);

  // Some of the units. An empty one holds none.
  class Permit {
   public:
    Permit() = default;
    Permit(Permit&& other) noexcept
        : state_(std::move(other.state_)), units_(std::exchange(other.units_, 0)) {}
    Permit& operator=(Permit&& other) noexcept {
      std::swap(state_, other.state_);
      std::swap(units_, other.units_);
      return *this;
    }
    ~Permit() { release(); }

    explicit operator bool() const { return state_ != nullptr; }
    // Gives the units back now; the permit is empty afterwards.
    void release();

   private:
    friend class Semaphore;
    Permit(std::shared_ptr<State> state, std::size_t units) : state_(std::move(state)), units_(units) {}

    std::shared_ptr<State> state_;
    std::size_t units_ = 0;
  };

  // Waits until `units` are free and everybody who came earlier has theirs. More than the whole capacity
  // means all of it. Empty: the coroutine was cancelled while it waited. A permit may outlive the semaphore.
  Task<Permit> acquire(std::size_t units = 1);

  std::size_t capacity() const;
  // Fewer: permits that are out stay good, and nobody new comes in until enough of them are back.
  void set_capacity(std::size_t capacity);

 private:
  struct Waiting;
  struct State {
    State(Executor e, std::size_t c) : executor(std::move(e)), capacity(c) {}
    bool fits(std::size_t units) const;
    void give_back(std::size_t units);
    void grant();

    Executor executor;
    std::size_t capacity;
    std::size_t used = 0;
    std::list<Waiting*> queue;  // each lives in the frame of its acquire()
  };
  static Task<Permit> acquire_from(std::shared_ptr<State> state, std::size_t units);

  std::shared_ptr<State> state_;  // also held by permits and by those who wait
};

}  // namespace muster::client
