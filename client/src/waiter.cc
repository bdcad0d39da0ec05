#include "muster/client/waiter.h"

#include <boost/asio/as_tuple.hpp>
#include <boost/asio/use_awaitable.hpp>

namespace muster::client {

Task<bool> Waiter::wait() {
  if (co_await is_cancelled()) co_return false;
  if (!notified_) co_await timer_.async_wait(boost::asio::as_tuple(boost::asio::use_awaitable));
  co_return std::exchange(notified_, false);
}

void Waiter::notify() {
  notified_ = true;
  timer_.cancel();
}

}  // namespace muster::client
