// A queue of keys to reconcile. A key is queued once, however often it is added. It is never handed out while
// it is being worked on; if it was added meanwhile, it is queued again afterwards. Each key backs off by
// itself, from 5 ms, doubling, to 1000 s.
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
  // Of several the earliest wins. An add() meanwhile does not take it back; drop_delayed() does.
  void add_after(Key key, Duration delay);
  void add_rate_limited(const Key& key);  // after this key's back-off
  void forget(const Key& key);            // success: its back-off starts anew
  void drop_delayed(const Key& key);      // it waits for its time no more; if it is ready, it stays

  // Waits for a key. Returns nullopt when it is cancelled, and after shut_down, which drops what is still
  // queued. Give every key back by done(). Any number of coroutines may wait.
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
