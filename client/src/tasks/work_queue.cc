#include "muster/client/work_queue.h"

#include <deque>
#include <list>
#include <map>
#include <unordered_map>
#include <unordered_set>

#include "muster/client/waiter.h"

namespace muster::client {

namespace {
constexpr Duration kBackoffMin{5};
constexpr Duration kBackoffMax = std::chrono::seconds{1000};
constexpr int kMaxDoublings = 18;  // 5 ms << 18 is beyond 1000 s
}  // namespace

// Of the coroutines that wait in take(), the one in front keeps the time for delayed keys; whoever leaves the
// front wakes the next one to take over.
struct WorkQueue::Impl {
  explicit Impl(Environment e) : env(e) {}

  struct Taker;
  using Moment = std::pair<TimePoint, std::uint64_t>;  // with a running number: first added, first out

  Environment env;
  std::deque<Key> ready;
  std::unordered_set<Key> dirty;    // in `ready`, or to be queued again when done
  std::unordered_set<Key> working;  // taken, not yet done
  std::map<Moment, Key> delayed;
  std::unordered_map<Key, Moment> delayed_at;
  std::unordered_map<Key, int> failures;
  std::list<Taker*> takers;
  std::uint64_t next_number = 0;
  bool shut = false;

  void add(Key key);
  void add_at(Key key, TimePoint when);
  void promote();  // what is due becomes ready
  void wake_one();
};

struct WorkQueue::Impl::Taker {
  explicit Taker(Impl& q) : queue(q), waiter(q.env.executor), place(q.takers.insert(q.takers.end(), this)) {}
  Taker(const Taker&) = delete;
  Taker& operator=(const Taker&) = delete;
  ~Taker() {
    queue.takers.erase(place);
    queue.wake_one();  // to keep the time, or to take what this one was woken for
  }
  Impl& queue;
  Waiter waiter;
  std::list<Taker*>::iterator place;
};

void WorkQueue::Impl::wake_one() {
  if (takers.empty() || (ready.empty() && delayed.empty() && !shut)) return;
  for (Taker* taker : takers) {
    if (taker->waiter.notified()) continue;
    taker->waiter.notify();
    return;
  }
}

void WorkQueue::Impl::add(Key key) {
  if (shut || !dirty.insert(key).second) return;
  if (working.contains(key)) return;
  ready.push_back(std::move(key));
  wake_one();
}

void WorkQueue::Impl::add_at(Key key, TimePoint when) {
  if (shut) return;
  const Moment moment{when, next_number++};
  auto [known, is_new] = delayed_at.try_emplace(key, moment);
  if (!is_new) {
    if (known->second.first <= when) return;
    delayed.erase(known->second);
    known->second = moment;
  }
  auto it = delayed.emplace(moment, std::move(key)).first;
  if (it == delayed.begin() && !takers.empty()) takers.front()->waiter.notify();
}

void WorkQueue::Impl::promote() {
  const TimePoint now = env.clock.now();
  while (!delayed.empty() && delayed.begin()->first.first <= now) {
    Key key = std::move(delayed.extract(delayed.begin()).mapped());
    delayed_at.erase(key);
    add(std::move(key));
  }
}

WorkQueue::WorkQueue(Environment env) : impl_(std::make_shared<Impl>(env)) {}
WorkQueue::~WorkQueue() = default;

void WorkQueue::add(Key key) {
  impl_->add(std::move(key));
}

void WorkQueue::add_after(Key key, Duration delay) {
  if (delay <= Duration{0}) return impl_->add(std::move(key));
  impl_->add_at(std::move(key), impl_->env.clock.now() + delay);
}

void WorkQueue::add_rate_limited(const Key& key) {
  int& failures = impl_->failures[key];
  const Duration delay = std::min(kBackoffMax, kBackoffMin * (std::int64_t{1} << failures));
  failures = std::min(failures + 1, kMaxDoublings);
  add_after(key, delay);
}

void WorkQueue::forget(const Key& key) {
  impl_->failures.erase(key);
}

void WorkQueue::drop_delayed(const Key& key) {
  const auto known = impl_->delayed_at.find(key);
  if (known == impl_->delayed_at.end()) return;
  impl_->delayed.erase(known->second);
  impl_->delayed_at.erase(known);
}

Task<std::optional<Key>> WorkQueue::take() {
  return take_from(impl_);
}

Task<std::optional<Key>> WorkQueue::take_from(std::shared_ptr<Impl> queue) {
  bool cancelled = co_await is_cancelled();
  std::optional<Impl::Taker> taker;
  while (!cancelled && !queue->shut) {
    queue->promote();
    if (!queue->ready.empty()) {
      Key key = std::move(queue->ready.front());
      queue->ready.pop_front();
      queue->dirty.erase(key);
      queue->working.insert(key);
      co_return key;
    }
    if (!taker) taker.emplace(*queue);
    const bool keeps_time = queue->takers.front() == &*taker && !queue->delayed.empty();
    if (keeps_time) {
      const TimePoint due = queue->delayed.begin()->first.first;
      const Wake wake = co_await taker->waiter.wait_until(queue->env.clock, due);
      cancelled = wake == Wake::kCancelled;
    } else {
      const bool woken = co_await taker->waiter.wait();
      cancelled = !woken;
    }
  }
  co_return std::nullopt;
}

void WorkQueue::done(const Key& key) {
  if (impl_->working.erase(key) == 0 || !impl_->dirty.contains(key)) return;
  impl_->ready.push_back(key);
  impl_->wake_one();
}

void WorkQueue::shut_down() {
  impl_->shut = true;
  impl_->ready.clear();
  impl_->dirty.clear();
  impl_->delayed.clear();
  impl_->delayed_at.clear();
  for (Impl::Taker* taker : impl_->takers) taker->waiter.notify();
}

std::size_t WorkQueue::depth() const {
  impl_->promote();
  return impl_->ready.size();
}

std::size_t WorkQueue::in_work() const {
  return impl_->working.size();
}

}  // namespace muster::client
