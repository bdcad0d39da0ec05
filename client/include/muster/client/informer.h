// Store and Informer: the cached view of one collection, kept by a Watcher, read without I/O.
#pragma once

#include <concepts>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>
#include <variant>
#include <vector>

#include "muster/client/object.h"
#include "muster/client/watch.h"

namespace muster::client {

// What a cached type is: it carries its Meta.
template <class T>
concept Cached = requires(const T& t) {
  { t.meta } -> std::convertible_to<const Meta&>;
};

// Turns the text of one object into a T. Errors are counted and logged. An object with an error is treated as
// absent, never as unchanged.
template <class T>
using Decoder = std::function<Result<T>(std::string_view json)>;

template <class T>
using Ptr = std::shared_ptr<const T>;

// What handlers hear. Old and new are immutable snapshots that may be kept.
template <class T>
struct Added {
  Ptr<T> now;
};
template <class T>
struct Updated {
  Ptr<T> before;
  Ptr<T> now;
};
template <class T>
struct Deleted {
  Ptr<T> last;  // possibly not the very last state, where the delete was inferred from a re-list
};
struct Synced {};  // the first complete view has been handed over
template <class T>
using StoreEvent = std::variant<Added<T>, Updated<T>, Deleted<T>, Synced>;

// Objects by key, with indexes. A new view replaces the old one in one step, so no reader sees half a list;
// then handlers hear the differences. Own writes may be put in at once ("assumed"). An older version from the
// watch never overwrites a newer one. A late answer to a write never brings back an object that the watch has
// seen go since.
//
// For each key handlers hear Added, Updated…, Deleted, in this order. Between Added and Deleted all are of
// one uid: if an object was deleted and made anew unseen, Deleted and Added follow each other. A handler may
// change the store (assume) or read it; it then sees what is newest. What its change causes is told after the
// handler has returned, never inside.
template <Cached T>
class Store {
 public:
  using Handler = std::function<void(const StoreEvent<T>&)>;
  // Values under which an object is found; e.g. {pod.node_name}.
  using IndexFn = std::function<std::vector<std::string>(const T&)>;

  void add_handler(Handler handler);
  // Before the first object. `name` is what by_index asks for.
  void add_index(std::string name, IndexFn fn);

  Ptr<T> find(const Key& key) const;                                                     // nullptr: not there
  const std::map<Key, Ptr<T>>& all() const;                                              // ordered by key
  std::vector<Ptr<T>> by_index(std::string_view index, const std::string& value) const;  // ordered by key
  std::size_t size() const;
  bool synced() const;

  // Takes the answer to our own write, unless the store already holds that version or a newer one, or the
  // watch is past that version. Only for objects that belong to the collection that is watched (namespace,
  // selectors).
  void assume(T object);
  // Takes our own confirmed delete of exactly this uid. The object counts as gone until the watch shows
  // another uid.
  void assume_deleted(const Key& key, const std::string& uid);

  // For the Informer: one event of the watch. Between begin_view and end_view objects go to the coming view.
  void begin_view();
  void view_object(T object);
  void end_view(std::string_view resource_version);
  void apply(T object);
  void erase(T last);
  // The object exists, but cannot be read or is not wanted. It counts as deleted, with what was known of it.
  void drop(const Meta& meta);
  // The watch is at this version.
  void advance(std::string_view resource_version);

 private:
  using Objects = std::map<Key, Ptr<T>>;
  struct Index {
    IndexFn fn;
    std::unordered_map<std::string, Objects> by_value;
  };

  bool is_assumed_deleted(const Key& key, const T& object) const;
  void put(const Key& key, Ptr<T> now);
  void remove(const Key& key, Ptr<T> last);
  void merge_assumed(std::string_view view_version);
  void replace(const Key& key, const Ptr<T>& before, const Ptr<T>& now);
  void index(const Key& key, const Ptr<T>& object, bool add);
  void tell(StoreEvent<T> event);
  void deliver();

  Objects objects_;
  Objects next_view_;
  bool in_view_ = false;
  bool synced_ = false;
  std::string version_;  // the watch is at least here
  std::map<std::string, Index, std::less<>> indexes_;
  std::vector<Handler> handlers_;
  std::deque<StoreEvent<T>> untold_;
  bool telling_ = false;
  std::set<Key> assumed_;                       // own writes that the watch has not confirmed
  std::map<Key, std::string> assumed_deleted_;  // key -> uid
};

// A Watcher feeding a Store through a Decoder.
template <Cached T>
class Informer {
 public:
  Informer(ApiClient& api, Resource resource, Decoder<T> decode, WatcherOptions options = {});

  Store<T>& store() { return store_; }
  const Store<T>& store() const { return store_; }
  const Watcher& watcher() const { return watcher_; }
  Task<void> run() { return watcher_.run(); }
  std::uint64_t decode_errors() const { return decode_errors_; }

 private:
  void on_event(const WatchEvent& event);
  std::optional<T> decoded(std::string_view json);

  Store<T> store_;
  std::string plural_;
  Decoder<T> decode_;
  std::uint64_t decode_errors_ = 0;
  Watcher watcher_;
};

}  // namespace muster::client

#include "muster/client/informer_impl.h"
