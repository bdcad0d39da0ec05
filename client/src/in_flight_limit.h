// How many requests may be on their way at once: additive increase, multiplicative decrease, as TCP has it.
#pragma once

#include <cstdint>
#include <list>
#include <memory>

#include "muster/client/waiter.h"

namespace muster::client {

// First come, first served.
class InFlightLimit : public std::enable_shared_from_this<InFlightLimit> {
 public:
  // A place among the requests in flight; gives it back when destroyed.
  class Place {
   public:
    Place() = default;
    Place(std::shared_ptr<InFlightLimit> limit, std::uint64_t epoch)
        : limit_(std::move(limit)), epoch_(epoch) {}
    Place(Place&& other) noexcept = default;
    Place& operator=(Place&& other) noexcept {
      std::swap(limit_, other.limit_);
      std::swap(epoch_, other.epoch_);
      return *this;
    }
    ~Place() {
      if (limit_) limit_->give_back();
    }
    explicit operator bool() const { return limit_ != nullptr; }
    // The server took the request.
    void succeeded();
    // The server had too much to do (429). Halves the limit, once for all requests that were sent under one
    // limit.
    void overloaded();

   private:
    std::shared_ptr<InFlightLimit> limit_;
    std::uint64_t epoch_ = 0;
  };

  InFlightLimit(Executor executor, int ceiling)
      : executor_(std::move(executor)), ceiling_(ceiling), limit_(ceiling) {}

  // Waits for a place; an empty one if cancelled.
  static Task<Place> take(std::shared_ptr<InFlightLimit> self);
  // A 429 for a request that holds no place.
  void overloaded() { halve(epoch_); }
  int limit() const { return limit_; }

 private:
  struct Waiting;
  void give_back();
  void grant();
  void halve(std::uint64_t epoch);

  static constexpr int kSuccessesPerStep = 8;  // so many answers raise the limit by one

  Executor executor_;
  int ceiling_;
  int limit_;
  int used_ = 0;
  int successes_ = 0;
  std::uint64_t epoch_ = 0;  // counts the halvings
  std::list<Waiting*> queue_;
};

}  // namespace muster::client
