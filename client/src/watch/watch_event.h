// The text of a watch: lines out of pieces, and what a line says, without decoding its object.
#pragma once

#include <memory>
#include <optional>
#include <string_view>

#include "muster/client/error.h"

namespace muster::client {

// Lines out of a stream that arrives in pieces of any size. Each byte is copied once, and searched once,
// however many pieces a line comes in.
class LineSplitter {
 public:
  void feed(std::string_view piece);
  // The next complete line without its newline; nullopt: none yet. Valid until the next feed() or clear().
  // simdjson's padding follows it in readable memory.
  std::optional<std::string_view> next();
  std::size_t unfinished() const { return end_ - begin_; }  // bytes after the lines handed out
  void clear();

 private:
  void make_room(std::size_t bytes);

  std::unique_ptr<char[]> buffer_;
  std::size_t capacity_ = 0;
  std::size_t begin_ = 0;    // of the first line not handed out
  std::size_t scanned_ = 0;  // no newline in [begin_, scanned_)
  std::size_t end_ = 0;
};

enum class WatchEventType : std::uint8_t { kAdded, kModified, kDeleted, kBookmark, kError, kOther };

struct RawWatchEvent {
  WatchEventType type = WatchEventType::kOther;
  std::string_view object;     // its text
  std::string_view version;    // metadata.resourceVersion
  bool ends_initial = false;   // the bookmark after the last initial event
  std::optional<Error> error;  // kError
};

// One line of a watch, from a LineSplitter; the views are valid until the thread's next call. kDecode: not an
// event.
Result<RawWatchEvent> parse_watch_event(std::string_view padded_line);

}  // namespace muster::client
