#include "watch/watch_event.h"

#include <simdjson.h>

#include <cstring>
#include <string>

namespace muster::client {

namespace {
constexpr std::size_t kPadding = simdjson::SIMDJSON_PADDING;
constexpr std::size_t kKeep = 1 << 20;  // of the buffer, when an object bigger than this has passed

namespace od = simdjson::ondemand;

WatchEventType type_of(std::string_view text) {
  if (text == "ADDED") return WatchEventType::kAdded;
  if (text == "MODIFIED") return WatchEventType::kModified;
  if (text == "DELETED") return WatchEventType::kDeleted;
  if (text == "BOOKMARK") return WatchEventType::kBookmark;
  if (text == "ERROR") return WatchEventType::kError;
  return WatchEventType::kOther;
}

simdjson::error_code read_metadata(od::object object, RawWatchEvent& event) {
  od::object metadata;
  if (auto error = object["metadata"].get_object().get(metadata)) return error;
  // Nothing but a bookmark can end the initial events; the annotations of all others need not be read.
  const bool bookmark = event.type == WatchEventType::kBookmark;
  for (auto field : metadata) {
    std::string_view key;
    if (auto error = field.unescaped_key().get(key)) return error;
    if (key == "resourceVersion") {
      if (auto error = field.value().get_string().get(event.version)) return error;
      if (!bookmark) break;
    } else if (bookmark && key == "annotations") {
      std::string_view value;
      event.ends_initial =
          !field.value()["k8s.io/initial-events-end"].get_string().get(value) && value == "true";
    }
  }
  return event.version.empty() ? simdjson::NO_SUCH_FIELD : simdjson::SUCCESS;
}

simdjson::error_code read_event(std::string_view line, RawWatchEvent& event) {
  thread_local od::parser parser;
  od::document document;
  od::object root, object;
  const simdjson::padded_string_view padded(line.data(), line.size(), line.size() + kPadding);
  if (auto error = parser.iterate(padded).get(document)) return error;
  if (auto error = document.get_object().get(root)) return error;
  std::string_view type;
  if (auto error = root["type"].get_string().get(type)) return error;
  event.type = type_of(type);
  if (event.type == WatchEventType::kOther) return simdjson::SUCCESS;
  if (auto error = root["object"].get_object().get(object)) return error;
  if (auto error = object.raw_json().get(event.object)) return error;
  if (auto error = object.reset().error()) return error;
  if (event.type != WatchEventType::kError) return read_metadata(object, event);
  std::int64_t code = 0;
  if (object["code"].get_int64().get(code)) code = 500;
  std::string_view kind;
  const bool is_status = !object["kind"].get_string().get(kind) && kind == "Status";
  // Anything else may be an object with secrets in it, and errors are logged.
  event.error =
      error_from_response(static_cast<int>(code), is_status ? event.object : std::string_view{}, {});
  if (!is_status) event.error->message = "an event of type ERROR without a Status";
  return simdjson::SUCCESS;
}

}  // namespace

void LineSplitter::make_room(std::size_t bytes) {
  const std::size_t held = end_ - begin_;
  const std::size_t needed = held + bytes + kPadding;
  const bool shrink = capacity_ > kKeep && needed <= kKeep / 4;
  if (needed > capacity_ || shrink) {
    capacity_ = shrink ? kKeep : std::max(needed, 2 * capacity_);
    auto bigger = std::make_unique_for_overwrite<char[]>(capacity_);
    if (held > 0) std::memcpy(bigger.get(), buffer_.get() + begin_, held);
    buffer_ = std::move(bigger);
  } else if (begin_ > 0) {
    std::memmove(buffer_.get(), buffer_.get() + begin_, held);
  } else {
    return;
  }
  scanned_ -= begin_;
  begin_ = 0;
  end_ = held;
}

void LineSplitter::feed(std::string_view piece) {
  if (piece.empty()) return;
  make_room(piece.size());
  std::memcpy(buffer_.get() + end_, piece.data(), piece.size());
  end_ += piece.size();
  std::memset(buffer_.get() + end_, 0, kPadding);
}

std::optional<std::string_view> LineSplitter::next() {
  if (scanned_ == end_) return std::nullopt;
  const void* found = std::memchr(buffer_.get() + scanned_, '\n', end_ - scanned_);
  if (found == nullptr) {
    scanned_ = end_;
    return std::nullopt;
  }
  const std::size_t newline = static_cast<std::size_t>(static_cast<const char*>(found) - buffer_.get());
  const std::string_view line(buffer_.get() + begin_, newline - begin_);
  begin_ = scanned_ = newline + 1;
  return line;
}

void LineSplitter::clear() {
  begin_ = scanned_ = end_ = 0;
}

Result<RawWatchEvent> parse_watch_event(std::string_view padded_line) {
  RawWatchEvent event;
  const auto error = read_event(padded_line, event);
  if (!error) return event;
  // Nothing of the line itself: it may hold secrets, and errors are logged.
  Error bad;
  bad.code = ErrorCode::kDecode;
  bad.message = "watch: a line of " + std::to_string(padded_line.size()) +
                " bytes is not an event: " + simdjson::error_message(error);
  return std::unexpected(std::move(bad));
}

}  // namespace muster::client
