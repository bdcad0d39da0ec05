// Coroutines of the client: one alias and one way to start them.
#pragma once

#include <boost/asio/any_io_executor.hpp>
#include <boost/asio/awaitable.hpp>

namespace muster::client {

// A lazily started coroutine on the event loop. Everything in this library runs on one thread;
// cancellation arrives through Asio's cancellation slots and shows as ErrorCode::kCancelled.
//
// g++ 12: pass named variables, not braced temporaries, to a coroutine inside a co_await expression,
// and never let a coroutine lambda capture anything (its closure dies before it does).
template <class T>
using Task = boost::asio::awaitable<T>;

using Executor = boost::asio::any_io_executor;

}  // namespace muster::client
