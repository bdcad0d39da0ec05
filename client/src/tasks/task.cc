#include "muster/client/task.h"

#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/this_coro.hpp>
#include <exception>
#include <utility>

namespace muster::client {

Task<bool> is_cancelled() {
  co_await boost::asio::this_coro::throw_if_cancelled(false);
  auto state = co_await boost::asio::this_coro::cancellation_state;
  co_return state.cancelled() != boost::asio::cancellation_type::none;
}

namespace detail {
Task<void> run_without_throw(Task<void> task) {
  co_await boost::asio::this_coro::throw_if_cancelled(false);
  co_await std::move(task);
}
}  // namespace detail

void spawn(const Executor& executor, Task<void> task, boost::asio::cancellation_signal* signal) {
  auto done = [](std::exception_ptr error) {
    if (error) std::rethrow_exception(error);
  };
  if (signal != nullptr) {
    boost::asio::co_spawn(executor, detail::run_without_throw(std::move(task)),
                          boost::asio::bind_cancellation_slot(signal->slot(), done));
  } else {
    boost::asio::co_spawn(executor, detail::run_without_throw(std::move(task)), done);
  }
}

}  // namespace muster::client
