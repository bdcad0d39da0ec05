// How many requests may be on their way to a server at once: as many as it takes without complaint. The bound
// halves when the server says that it has too much to do (429) and grows by one after some answers, as TCP's
// window does (additive increase, multiplicative decrease).
#pragma once

#include <algorithm>
#include <cstdint>

#include "muster/client/semaphore.h"

namespace muster::client {

class AdaptiveLimit {
 public:
  AdaptiveLimit(Executor executor, int ceiling)
      : ceiling_(static_cast<std::size_t>(std::max(1, ceiling))), permits_(std::move(executor), ceiling_) {}

  // Each request holds one permit from before it is sent until its answer has come.
  Semaphore& permits() { return permits_; }
  int limit() const { return static_cast<int>(permits_.capacity()); }
  // The number of times that the limit was halved; to be noted when a request is sent.
  std::uint64_t halvings() const { return halvings_; }

  // The server took a request.
  void succeeded() {
    if (permits_.capacity() >= ceiling_ || ++successes_ < kSuccessesPerStep) return;
    successes_ = 0;
    permits_.set_capacity(permits_.capacity() + 1);
  }
  // The server refused a request (429) that was sent when halvings() was `halvings_when_sent`. Requests that
  // were sent under one limit are often refused together: they halve it once.
  void overloaded(std::uint64_t halvings_when_sent) {
    if (halvings_when_sent != halvings_) return;
    ++halvings_;
    successes_ = 0;
    permits_.set_capacity(permits_.capacity() / 2);
  }

 private:
  static constexpr int kSuccessesPerStep = 8;

  std::size_t ceiling_;
  Semaphore permits_;
  int successes_ = 0;
  std::uint64_t halvings_ = 0;
};

}  // namespace muster::client
