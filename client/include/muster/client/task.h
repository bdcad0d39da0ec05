// Coroutines of the client: one alias and one way to start them.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>
#include <boost/asio/cancellation_signal.hpp>

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
Task<bool> is_cancelled();

namespace detail {
Task<void> run_without_throw(Task<void> task);
}  // namespace detail

// Starts `task`; nothing waits for it. An exception that leaves it is a bug and ends the event loop's run().
// `signal`, where given, must outlive the task: signal->emit(cancellation_type::terminal) cancels it.
void spawn(const Executor& executor, Task<void> task, boost::asio::cancellation_signal* signal = nullptr);

}  // namespace muster::client
