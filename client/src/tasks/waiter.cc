#include "muster/client/waiter.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/experimental/awaitable_operators.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace muster::client {

Task<bool> Waiter::sleep() {
#ifndef __clang_analyzer__  // it loses the coroutine's frame inside awaitable.hpp, and blames that
  if (!notified_) co_await timer_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
#endif
  co_return notified_;
}

Task<bool> Waiter::wait() {
  if (co_await is_cancelled()) co_return false;
  co_await sleep();
  co_return std::exchange(notified_, false);
}

Task<Wake> Waiter::wait_until(Clock& clock, TimePoint when) {
  using boost::asio::experimental::awaitable_operators::operator||;
  if (co_await is_cancelled()) co_return Wake::kCancelled;
  if (!notified_) co_await (sleep() || clock.sleep_until(when));
  if (std::exchange(notified_, false)) co_return Wake::kNotified;
  const bool cancelled_since = co_await is_cancelled();
  co_return cancelled_since ? Wake::kCancelled : Wake::kTimeout;
}

void Waiter::notify() {
  notified_ = true;
  timer_.cancel();
}

}  // namespace muster::client
