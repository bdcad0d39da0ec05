// Who may make pods now: gangs one after the other, in the order in which they came, as many at once as
// fill the requests in flight. A gang whose pods come together starts sooner than one of a hundred that
// take turns, and everything that follows pods (endpoints, status counters) is written once instead of
// at every turn.
#pragma once

#include <algorithm>
#include <deque>
#include <utility>

#include "muster/client/environment.h"
#include "muster/client/waiter.h"

namespace muster::reconcilers {

class Gate {
 public:
  Gate(client::Executor executor, std::size_t room)
      : executor_(std::move(executor)), room_(room), free_(room) {}

  // Waits until `n` (at most all of the room) is free and nobody who came earlier still waits. True: go, and
  // leave(n) afterwards. False: the coroutine was cancelled.
  client::Task<bool> enter(std::size_t n) {
    n = std::min(n, room_);
    if (waiting_.empty() && free_ >= n) {
      free_ -= n;
      co_return true;
    }
    client::Waiter waiter(executor_);
    waiting_.emplace_back(&waiter, n);
    const bool mine = co_await waiter.wait();
    if (mine) co_return true;  // leave() took the room for us
    std::erase_if(waiting_, [&](const auto& w) { return w.first == &waiter; });
    leave(waiter.notified() ? n : 0);  // those behind may fit where this one did not
    co_return false;
  }

  void leave(std::size_t n) {
    free_ += std::min(n, room_);
    while (!waiting_.empty() && free_ >= waiting_.front().second) {
      free_ -= waiting_.front().second;
      waiting_.front().first->notify();
      waiting_.pop_front();
    }
  }

 private:
  client::Executor executor_;
  std::size_t room_, free_;
  std::deque<std::pair<client::Waiter*, std::size_t>> waiting_;
};

}  // namespace muster::reconcilers
