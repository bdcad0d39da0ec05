// Building request targets.
#pragma once

#include <string>
#include <string_view>

namespace muster::client {

// RFC 3986: everything but unreserved characters as %XX.
std::string percent_encode(std::string_view text);

// Of "scheme://host:port/path": the host with its port, as a part of `url`.
std::string_view host_of(std::string_view url);
// The same URL with `host` where its host and port stand.
std::string with_host(std::string_view url, std::string_view host);

// Whether "host" or "host:port" is this machine: localhost, an IPv4 address in 127.0.0.0/8 or [::1].
// A name that only begins like one of these is not.
bool is_loopback(std::string_view host_and_port);

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
