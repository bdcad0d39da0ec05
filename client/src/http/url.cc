#include "http/url.h"

#include <boost/asio/ip/address.hpp>
#include <new>

namespace muster::client {

std::optional<Url> Url::parse(const std::string& text) {
  Url url(curl_url());
  if (!url.handle_) throw std::bad_alloc();
  if (curl_url_set(url.handle_.get(), CURLUPART_URL, text.c_str(), 0) != CURLUE_OK) return std::nullopt;
  const std::string scheme = url.part(CURLUPART_SCHEME);
  if (scheme != "https" && scheme != "http") return std::nullopt;
  return url;
}

// "": the URL has no such part.
std::string Url::part(CURLUPart what, unsigned flags) const {
  char* text = nullptr;
  if (curl_url_get(handle_.get(), what, &text, flags) != CURLUE_OK) return {};
  const std::unique_ptr<char, decltype(&curl_free)> owner(text, curl_free);
  return text;
}

std::string Url::host() const {
  return part(CURLUPART_HOST);
}
std::string Url::port() const {
  return part(CURLUPART_PORT, CURLU_DEFAULT_PORT);
}
std::string Url::authority() const {
  const std::string stated = part(CURLUPART_PORT);
  return stated.empty() ? host() : host() + ":" + stated;
}

std::string Url::with_host(const std::string& host) const {
  Url other(curl_url_dup(handle_.get()));
  if (!other.handle_) throw std::bad_alloc();
  curl_url_set(other.handle_.get(), CURLUPART_HOST, host.c_str(), 0);
  curl_url_set(other.handle_.get(), CURLUPART_PORT, nullptr, 0);
  std::string text = other.part(CURLUPART_URL);
  while (text.ends_with('/')) text.pop_back();
  return text;
}

bool is_loopback(std::string_view host) {
  if (host == "localhost") return true;
  if (host.starts_with('[') && host.ends_with(']')) host = host.substr(1, host.size() - 2);
  boost::system::error_code not_an_address;
  const auto address = boost::asio::ip::make_address(host, not_an_address);
  return !not_an_address && address.is_loopback();
}

}  // namespace muster::client
