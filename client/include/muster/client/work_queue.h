// A queue of keys to reconcile. A key is queued once however often it is added, is never handed out again
// while it is being worked on (it is queued again afterwards), and backs off by itself from 5 ms, doubling,
// to 1000 s.
#pragma once

#include <memory>
#include <optional>

#include "muster/client/environment.h"
#include "muster/client/object.h"

namespace muster::client {

class WorkQueue {
 public:
  explicit WorkQueue(Environment env);
  ~WorkQueue();

  void add(Key key);
  // The earliest of several wins; add() meanwhile does not take it back, drop_delayed() does.
  void add_after(Key key, Duration delay);
  void add_rate_limited(const Key& key);  // after this key's back-off
  void forget(const Key& key);            // success: its back-off starts anew
  void drop_delayed(const Key& key);      // what waits for its time does so no more; what is ready stays

  // Waits for a key; nullopt after shut_down (what is still queued is dropped) or when cancelled. Every key
  // taken must be given back by done(). Any number of coroutines may wait.
  Task<std::optional<Key>> take();
  void done(const Key& key);
  void shut_down();

  std::size_t depth() const;  // ready, not being worked on
  std::size_t in_work() const;

 private:
  struct Impl;
  static Task<std::optional<Key>> take_from(std::shared_ptr<Impl> queue);

  std::shared_ptr<Impl> impl_;  // also held by coroutines that wait in take()
};

}  // namespace muster::client
