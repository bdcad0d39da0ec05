// Coroutines with an owner. What is started in a group can be cancelled together, and the owner can wait
// until the last of them has ended, so that nothing which they use is destroyed before.
#pragma once

#include <boost/asio/cancellation_signal.hpp>
#include <cstddef>
#include <list>
#include <memory>

#include "muster/client/environment.h"
#include "muster/client/waiter.h"

namespace muster::client {

// Thread: the executor's only. A group that is destroyed while tasks still run does not stop them: join it
// first, or let the event loop end, which destroys what still waits without running it again.
class TaskGroup {
 public:
  explicit TaskGroup(Executor executor);
  ~TaskGroup();
  TaskGroup(const TaskGroup&) = delete;
  TaskGroup& operator=(const TaskGroup&) = delete;

  // Starts `task` as one of the group. An exception that leaves it is a bug and ends the event loop's run().
  void spawn(Task<void> task);
  // Cancels every task that runs now: all its waits end at once (see task.h). Tasks that are started later
  // are not cancelled.
  void cancel();
  // Waits until no task runs, those counted that are started meanwhile. False: the waiting coroutine was
  // cancelled first. Only one coroutine may wait at a time.
  Task<bool> join();
  // The same until `when` at the latest. False: tasks still run.
  Task<bool> join_until(Clock& clock, TimePoint when);

  // How many tasks have not ended.
  std::size_t size() const;
  bool empty() const { return size() == 0; }

 private:
  struct State {
    explicit State(const Executor& executor) : all_ended(executor) {}
    std::list<std::shared_ptr<boost::asio::cancellation_signal>> running;
    Waiter all_ended;
  };

  Executor executor_;
  std::shared_ptr<State> state_;  // also held by the tasks, which may outlive the group
};

}  // namespace muster::client
