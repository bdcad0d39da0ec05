// A world for tests: one event loop in virtual time, which repeats exactly for one seed.
#pragma once

#include <boost/asio/io_context.hpp>
#include <memory>
#include <optional>
#include <stdexcept>
#include <utility>

#include "muster/client/environment.h"

namespace muster::client::testing {

class VirtualWorld {
 public:
  explicit VirtualWorld(std::uint64_t seed = 1) : random_(seed), env_{io_.get_executor(), clock_, random_} {}

  Environment env() const { return env_; }
  boost::asio::io_context& io() { return io_; }
  VirtualClock& clock() { return clock_; }
  RandomSource& random() { return random_; }

  // Runs what is ready, without moving time.
  void settle() {
    io_.restart();
    while (io_.poll() > 0) {
    }
  }
  // Runs everything that happens within `d`.
  void run_for(Duration d) {
    const TimePoint end = clock_.now() + d;
    settle();
    while (clock_.advance_to_next(end)) settle();
  }
  // Runs until `done` returns true. Returns false if nobody sleeps any more, or `limit` of virtual time has
  // passed, before that.
  template <class Predicate>
  bool run_until(Predicate done, Duration limit = std::chrono::hours{1}) {
    const TimePoint end = clock_.now() + limit;
    settle();
    while (!done()) {
      if (clock_.now() >= end || !clock_.advance_to_next()) return done();
      settle();
    }
    return true;
  }
  // Runs a coroutine to its end and returns its result. Throws if it never ends.
  template <class T>
  T run(Task<T> task, Duration limit = std::chrono::hours{1}) {
    auto result = std::make_shared<std::optional<T>>();
    spawn(env_.executor, keep(std::move(task), result));
    if (!run_until([&] { return result->has_value(); }, limit))
      throw std::runtime_error("the coroutine never ended");
    return std::move(**result);
  }
  void run(Task<void> task, Duration limit = std::chrono::hours{1}) { run(as_bool(std::move(task)), limit); }

  // Starts a coroutine; the handle cancels it.
  std::shared_ptr<boost::asio::cancellation_signal> start(Task<void> task) {
    auto signal = std::make_shared<boost::asio::cancellation_signal>();
    spawn(env_.executor, hold(std::move(task), signal), signal.get());
    return signal;
  }

 private:
  template <class T>
  static Task<void> keep(Task<T> task, std::shared_ptr<std::optional<T>> result) {
    result->emplace(co_await std::move(task));
  }
  static Task<bool> as_bool(Task<void> task) {
    co_await std::move(task);
    co_return true;
  }
  static Task<void> hold(Task<void> task, std::shared_ptr<boost::asio::cancellation_signal>) {
    co_await std::move(task);
  }

  VirtualClock clock_;
  RandomSource random_;
  boost::asio::io_context io_;
  Environment env_;
};

}  // namespace muster::client::testing
