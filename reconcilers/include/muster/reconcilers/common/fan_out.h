// Many small requests at once: runs fn(0) … fn(n-1), at most `width` at a time, and returns when
// all have ended.
#pragma once

#include <algorithm>
#include <boost/asio/co_spawn.hpp>
#include <boost/asio/deferred.hpp>
#include <boost/asio/experimental/parallel_group.hpp>
#include <boost/asio/use_awaitable.hpp>
#include <cstddef>
#include <functional>
#include <vector>

#include "muster/client/environment.h"

namespace muster::reconcilers {

// `fn` decides by its return value whether to go on: after the first false no further index is started (those
// under way end first). Indexes start in order. fn outlives the call. Cancellation reaches every branch.
inline client::Task<void> fan_out(client::Executor executor, std::size_t n, std::size_t width,
                                  const std::function<client::Task<bool>(std::size_t)>& fn) {
  struct Shared {
    std::size_t next = 0;
    std::size_t n;
    bool stop = false;
    const std::function<client::Task<bool>(std::size_t)>* fn;
  };
  if (n == 0) co_return;
  Shared shared{0, n, false, &fn};
  struct Lane {
    static client::Task<void> run(Shared* s) {
      while (!s->stop && s->next < s->n) {
        const std::size_t i = s->next++;
        const bool go_on = co_await (*s->fn)(i);
        if (!go_on) s->stop = true;
      }
    }
  };
  using Branch = decltype(boost::asio::co_spawn(executor, Lane::run(&shared), boost::asio::deferred));
  std::vector<Branch> branches;
  const std::size_t lanes = std::min(n, std::max<std::size_t>(1, width));
  branches.reserve(lanes);
  for (std::size_t i = 0; i < lanes; ++i) {
    branches.push_back(boost::asio::co_spawn(executor, Lane::run(&shared), boost::asio::deferred));
  }
  auto group = boost::asio::experimental::make_parallel_group(std::move(branches));
  auto wait_for_all = boost::asio::experimental::wait_for_all();
  const auto [order, errors] = co_await group.async_wait(wait_for_all, boost::asio::use_awaitable);
  for (const std::exception_ptr& error : errors) {
    if (error) std::rethrow_exception(error);
  }
}

}  // namespace muster::reconcilers
