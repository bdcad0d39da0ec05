// The watcher is an explicit state machine that follows one collection of objects for ever: one enum of
// states, and one function that steps it. It hands everything that it learns to a sink as a WatchEvent.
// Errors are in a row until none has come for backoff_reset. Of a row, the 1st, 2nd, 4th, 8th… is logged as a
// warning.
//
// It guarantees: InitDone announces a complete view only after every object of one resourceVersion was handed
// over between InitBegin and InitDone. Pages of two resourceVersions are never mixed. Between two InitDone,
// events of one object come in the server's order.
//
// Do NOT rely on it to see every version: a re-list skips versions. Do NOT rely on it to see every delete as
// a Delete event: after a re-list a missing object is simply not in the new view, and the Store turns that
// into Deleted. A view that failed half-way is followed by another InitBegin.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <variant>

#include "muster/client/api.h"

namespace muster::client {

// `json` is one object's text, valid during the call only.
struct InitBegin {};  // a new complete view begins; forget half of an earlier one
struct InitApply {
  std::string_view json;
};  // one object of the view
struct InitDone {
  std::string_view resource_version;
};  // the view is complete as of that version
struct Applied {
  std::string_view json;
};  // added or changed
struct Removed {
  std::string_view json;
};  // its last state; before InitDone: not in the view after all
struct Bookmark {
  std::string_view resource_version;
};
using WatchEvent = std::variant<InitBegin, InitApply, InitDone, Applied, Removed, Bookmark>;

enum class WatchState : std::uint8_t {
  kEmpty,         // nothing known: choose streaming list, or paged list where the server refused that
  kInitialWatch,  // streaming list: initial events until the bookmark that ends them
  kListing,       // paged list
  kListed,        // a view with a version, no open watch
  kWatching,      // events are coming
};
std::string_view to_string(WatchState state);

struct WatcherOptions {
  std::string ns;  // empty: all
  std::string label_selector;
  std::string field_selector;
  int page_size = 500;
  bool streaming_list = true;
  Duration server_timeout_min = std::chrono::minutes{5};
  Duration server_timeout_max = std::chrono::minutes{10};
  // A connection on which no byte has come for so long is dead: a healthy server sends bookmarks about once a
  // minute.
  Duration idle_deadline = std::chrono::seconds{100};
  Duration backoff_min{800};
  Duration backoff_max = std::chrono::seconds{30};
  Duration backoff_reset = std::chrono::minutes{2};
};

// For metrics and tests.
struct WatcherStats {
  std::uint64_t streaming_lists = 0, paged_lists = 0, watches = 0, gone = 0, events = 0;
  std::uint64_t errors = 0;  // a pause followed each. A watch that the server ends on time is no error
};

class Watcher {
 public:
  using Sink = std::function<void(const WatchEvent&)>;

  Watcher(ApiClient& api, Resource resource, WatcherOptions options, Sink sink);
  ~Watcher();

  // Runs until it is cancelled. It never returns an error: after every fault it backs off and tries again.
  // The Watcher outlives it.
  Task<void> run();
  // One transition; run() is a loop around it. Returns how long to wait before the next.
  Task<Duration> step();

  const Resource& resource() const;
  WatchState state() const;
  const std::string& resource_version() const;
  const WatcherStats& stats() const;
  const std::optional<Error>& last_error() const;  // cleared by the next success

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace muster::client
