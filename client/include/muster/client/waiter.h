// One coroutine waits here until someone on the same thread wakes it: the building block of every queue,
// stream and limit in this library.
#pragma once

#include <boost/asio/steady_timer.hpp>

#include "muster/client/environment.h"
#include "muster/client/task.h"

namespace muster::client {

enum class Wake : std::uint8_t { kNotified, kTimeout, kCancelled };

class Waiter {
 public:
  explicit Waiter(const Executor& executor)
      : timer_(executor, boost::asio::steady_timer::time_point::max()) {}

  // True: it was notified, now or before the call; one call uses up one notification. False: the coroutine is
  // cancelled. Only one coroutine may wait at a time.
  Task<bool> wait();
  // The same, until `when` at the latest. A notification wins if it comes together with the deadline.
  Task<Wake> wait_until(Clock& clock, TimePoint when);
  // Never resumes the waiter inside this call, but always through its executor. Several calls before a wait()
  // count once.
  void notify();
  bool notified() const { return notified_; }

 private:
  Task<bool> sleep();

  // A timer that never fires. Unlike a handler that is kept by hand it is freed with the io_context, whatever
  // is still waiting then.
  boost::asio::steady_timer timer_;
  bool notified_ = false;
};

}  // namespace muster::client
