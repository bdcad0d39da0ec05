// Parts of URLs, by libcurl's own parser: it reads the same URL when it sends.
#pragma once

#include <curl/curl.h>

#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace muster::client {

// An absolute http or https URL.
class Url {
 public:
  // nullopt: it is none, such as a text without a host or with a space in it.
  static std::optional<Url> parse(const std::string& text);

  std::string host() const;  // "api.test", "10.0.0.1", "[::1]"
  std::string port() const;  // as it is stated, or the scheme's
  // The host with the port that is stated, as in the header Host: "api.test:6443", "api.test".
  std::string authority() const;
  // The same URL with another host, without a port and without a slash at its end.
  std::string with_host(const std::string& host) const;

 private:
  explicit Url(CURLU* handle) : handle_(handle, curl_url_cleanup) {}
  std::string part(CURLUPart what, unsigned flags = 0) const;

  std::unique_ptr<CURLU, decltype(&curl_url_cleanup)> handle_;
};

// Whether a host is this machine: localhost, an IPv4 address in 127.0.0.0/8 or [::1]. A name that only begins
// like one of these is not.
bool is_loopback(std::string_view host);

}  // namespace muster::client
