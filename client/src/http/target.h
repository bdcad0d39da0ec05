// Building request targets.
#pragma once

#include <string>
#include <string_view>
#include <utility>

namespace muster::client {

// RFC 3986: everything but unreserved characters as %XX.
std::string percent_encode(std::string_view text);

// A target that grows by query parameters; empty values are left out.
class Target {
 public:
  explicit Target(std::string path) : text_(std::move(path)) {}
  Target& with(std::string_view key, std::string_view value);
  std::string take() { return std::move(text_); }

 private:
  std::string text_;
  bool has_query_ = false;
};

}  // namespace muster::client
