#include "in_flight_limit.h"

namespace muster::client {

// One request that waits for its place; lives in the frame of take(). Leaves the queue with it.
struct InFlightLimit::Waiting {
  explicit Waiting(InFlightLimit& l) : limit(l), waiter(l.executor_) { limit.queue_.push_back(this); }
  Waiting(const Waiting&) = delete;
  Waiting& operator=(const Waiting&) = delete;
  ~Waiting() {
    if (state == kQueued) limit.queue_.remove(this);
    if (state == kGranted) limit.give_back();  // granted, but nobody came for it
  }
  InFlightLimit& limit;
  Waiter waiter;
  enum { kQueued, kGranted, kTaken } state = kQueued;
};

Task<InFlightLimit::Place> InFlightLimit::take(std::shared_ptr<InFlightLimit> self) {
  if (self->queue_.empty() && self->used_ < self->limit_) {
    ++self->used_;
    co_return Place(self, self->epoch_);
  }
  Waiting waiting(*self);
  co_await waiting.waiter.wait();
  if (waiting.state != Waiting::kGranted) co_return Place();
  waiting.state = Waiting::kTaken;
  co_return Place(self, self->epoch_);
}

void InFlightLimit::give_back() {
  --used_;
  grant();
}

void InFlightLimit::grant() {
  while (!queue_.empty() && used_ < limit_) {
    Waiting* first = queue_.front();
    queue_.pop_front();
    ++used_;
    first->state = Waiting::kGranted;
    first->waiter.notify();
  }
}

void InFlightLimit::halve(std::uint64_t epoch) {
  if (epoch != epoch_) return;
  ++epoch_;
  successes_ = 0;
  limit_ = std::max(1, limit_ / 2);
}

void InFlightLimit::Place::succeeded() {
  InFlightLimit& limit = *limit_;
  if (limit.limit_ >= limit.ceiling_ || ++limit.successes_ < kSuccessesPerStep) return;
  limit.successes_ = 0;
  ++limit.limit_;
  limit.grant();
}

void InFlightLimit::Place::overloaded() {
  limit_->halve(epoch_);
}

}  // namespace muster::client
