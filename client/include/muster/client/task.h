// Coroutines of the client: one alias and one way to start them.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/bind_cancellation_slot.hpp>
#include <boost/asio/cancellation_signal.hpp>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/this_coro.hpp>
#include <exception>
#include <memory>
#include <utility>

namespace muster::client {

// A lazily started coroutine on the event loop. Everything in this library runs on one thread;
// cancellation arrives through Asio's cancellation slots and shows as ErrorCode::kCancelled.
//
// A coroutine lambda captures nothing: the lambda is destroyed before its coroutine ends.
template <class T>
using Task = boost::asio::awaitable<T>;

using Executor = boost::asio::any_io_executor;

// Asio, left alone, throws from the next co_await once a coroutine is cancelled. This library reports
// cancellation as a value instead, so its waits switch that off for the whole chain of coroutines they run
// in, and spawn() does it from the start. Cancellation stays in force for all later waits;
// boost::asio::this_coro::reset_cancellation_state() lifts it, for what must still be done on the way out.

// True if the running coroutine was cancelled.
inline Task<bool> is_cancelled() {
  co_await boost::asio::this_coro::throw_if_cancelled(false);
  auto state = co_await boost::asio::this_coro::cancellation_state;
  co_return state.cancelled() != boost::asio::cancellation_type::none;
}

namespace detail {
inline Task<void> run_without_throw(Task<void> task) {
  co_await boost::asio::this_coro::throw_if_cancelled(false);
  co_await std::move(task);
}
}  // namespace detail

// Starts `task`; nothing waits for it. An exception that leaves it is a bug and ends the event loop's run().
// `signal`, where given, must outlive the task: signal->emit(cancellation_type::terminal) cancels it.
inline void spawn(const Executor& executor, Task<void> task,
                  boost::asio::cancellation_signal* signal = nullptr) {
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
