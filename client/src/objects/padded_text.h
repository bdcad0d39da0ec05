// simdjson reads a few bytes beyond the text it parses; this holds a copy that has them. One memcpy into
// memory that is used again.
#pragma once

#include <simdjson.h>

#include <cstring>
#include <memory>
#include <string_view>

namespace muster::client {

class PaddedText {
 public:
  // Valid until the next call.
  simdjson::padded_string_view hold(std::string_view text) {
    const std::size_t needed = text.size() + simdjson::SIMDJSON_PADDING;
    // One big object must not cost its size for ever.
    if (capacity_ < needed || (capacity_ > kKeep && needed <= kKeep)) {
      capacity_ = needed + needed / 2;
      bytes_ = std::make_unique_for_overwrite<char[]>(capacity_);
    }
    std::memcpy(bytes_.get(), text.data(), text.size());
    std::memset(bytes_.get() + text.size(), 0, simdjson::SIMDJSON_PADDING);
    return simdjson::padded_string_view(bytes_.get(), text.size(), capacity_);
  }

 private:
  static constexpr std::size_t kKeep = 256 << 10;
  std::unique_ptr<char[]> bytes_;
  std::size_t capacity_ = 0;
};

}  // namespace muster::client
